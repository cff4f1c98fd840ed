"""The nearest nodes of a node, and how sure that is of nodes that were found by walks.

K̂ᵢⱼ is a mean of contributions of walks, few of which are far from 0 where it is uncertain: its variance is
about r·Kᵢⱼ, with r the size of a contribution over the number of walks. The largest r = stderr²/K̂ of a row is
used for all its entries, so that none is taken to be more certain than others because no walk happened to go
there; as the largest of many it is more than most, and needs no Student's t. Two values differ if their
difference is beyond both widths, √(wᵢ² + wⱼ²). A mean of non-negative contributions that is x has, at a level
of ε, an expectation μ with (μ − x)² ≤ 2 r μ log(1/ε), also for x = 0, which bounds what no walk reached.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from walkernel.operators._entry_errors import Estimate

CERTIFIED_LEVEL = 0.05
"""Probability, about, that a row has a certified neighbour that is wrong."""
TIE = 1e-12
"""Relative difference of two values below which it is rounding."""


class Neighbors(NamedTuple):
    """The most similar nodes of each node, best first, and their kernel values.

    Where fewer than k nodes of positive value were found, the remaining values are NaN and the remaining
    nodes are ``graph.n_nodes``, which is no node and raises IndexError as an index, as in
    ``scipy.spatial.KDTree.query``; in a graph with labels they are None.

    Attributes
    ----------
    nodes : ndarray, (n, k)
        The neighbours of each of n nodes: labels if the graph has them, else ids.
    values : ndarray of float64, (n, k)
        Their kernel values.

    Examples
    --------
    >>> import walkernel as wk
    >>> path = wk.Graph.from_edges([(0, 1), (1, 2)])
    >>> wk.polynomial_operator(path, wk.PStepRandomWalk(p=2, alpha=3.0)).topk([0], 2)
    Neighbors(nodes=array([[1, 2]]), values=array([[2.82842712, 0.5       ]]))
    """

    nodes: NDArray[Any]
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EstimatedNeighbors:
    """The most similar nodes and how sure they are; unpacks as ``nodes, values, stderr, certified``.

    Attributes
    ----------
    nodes : ndarray, (n, k)
        The neighbours of each of n nodes, best first, as in ``Neighbors``.
    values : ndarray of float64, (n, k)
        Their kernel values.
    stderr : ndarray of float64, (n, k)
        Standard errors of the values; NaN where there is no neighbour.
    certified : ndarray of bool, (n, k)
        Whether each neighbour is one of the k most similar nodes: its value is above all that any node
        outside the row can have. That holds at a level of 95 % for all of a row together, and is certain
        where no walks are used. ``certified.all(axis=1)`` tells the rows of which all k are certified.

    Examples
    --------
    >>> import walkernel as wk
    >>> club = wk.load_dataset("karate").graph
    >>> nodes, values, stderr, certified = wk.nearest(club, wk.Diffusion(1.0), [0], 2)
    >>> nodes, certified
    (array([[11, 12]]), array([[ True, False]]))
    """

    nodes: NDArray[Any]
    values: NDArray[np.float64]
    stderr: NDArray[np.float64]
    certified: NDArray[np.bool_]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return iter((self.nodes, self.values, self.stderr, self.certified))


def belonging(
    estimate: Estimate,  # of the nodes that are examined
    there: NDArray[np.bool_],  # (n, examined + 1): which those are
    values: NDArray[np.float64],  # (n, examined + 1): best first, NaN where there is none
    k: int,
    n_others: int,
    beyond: float,
) -> NDArray[np.bool_]:
    """Tell of the first k nodes of each row whether they are larger than all of n_others, (n, k).

    ``beyond`` bounds what walks can add to an entry beyond exact heads.
    """
    n_examined = there.shape[1] - 1
    width, ceiling = np.zeros(values.shape), np.full(values.shape, -np.inf)
    rest = np.nan_to_num(values[:, -1])  # the largest value that is not examined
    if estimate.n_groups > 0:
        level = CERTIFIED_LEVEL / n_others
        size, ratios = np.abs(estimate.value), np.zeros(values.shape)
        ratios[there] = estimate.stderr * (estimate.stderr / np.maximum(size, np.finfo(float).tiny))
        ratio = ratios.max(axis=1)
        spread = -ndtri(level / 2) * np.sqrt(ratio[np.nonzero(there)[0]]) * np.sqrt(size)
        width[there] = np.where(spread > 0, np.minimum(spread, beyond), beyond)
        width[there] = np.where(estimate.rare, np.inf, width[there])
        ceiling[there] = np.where(estimate.rare, estimate.upper, -np.inf)
        missed = ratio * math.log(1 / level)
        missed = missed + np.sqrt(missed) * np.sqrt(missed + 2 * rest)
        rest = rest + np.where(ratio > 0, np.minimum(missed, beyond), beyond)
    bound = ceiling[:, k:].max(axis=1)
    if n_examined < n_others:
        bound = np.maximum(bound, rest)
    width += TIE * np.nan_to_num(np.abs(values))
    others = slice(k, n_examined)
    trusted = np.where(np.isfinite(width[:, others]), width[:, others], 0.0)
    gaps = values[:, :k, None] - values[:, None, others]
    is_close = gaps <= np.hypot(width[:, :k, None], trusted[:, None])
    return np.asarray(~is_close.any(axis=2) & (values[:, :k] - width[:, :k] > bound[:, None]))


def keep_best(
    candidates: NDArray[np.int64],
    scores: NDArray[np.float64],
    found: NDArray[np.int64],  # (k,), filled
    values: NDArray[np.float64],  # (k,), filled
) -> None:
    """Write the best candidates, best first, ties by position."""
    best = np.lexsort((candidates, -scores))[: found.size]
    found[: best.size] = candidates[best]
    values[: best.size] = scores[best]
