"""Observations at nodes: y = g(node) + h·β + noise, where nodes may repeat.

The least-squares fit of y on the columns h is subtracted beforehand, so that a large offset costs no digits
beyond those that y has lost already; with a flat prior on β this changes only β. Observations of one node are
merged without loss: with D the variances of the noise and P = Σ 1/D, the prior sees one observation P⁻¹Σ y/D
of variance 1/P at each node, and two constants hold what the other observations tell about noise and β. The
system is therefore never larger than the number of distinct nodes, which is at most the number of features.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import Described, one_of, real_array, refuse
from walkernel.graph import Graph
from walkernel.operators import normalize_columns
from walkernel.tasks._nodes import check_same_length, given_targets, node_ids

Array = NDArray[np.float64]

MEANS = ("constant", "zero")
EPSILON = float(np.finfo(np.float64).eps)
MAX_ROUNDING_UNITS = 4.0
"""Units of rounding up to which the residual of y on the columns counts as zero."""


class Merged(NamedTuple):
    """One observation for each node, for one level of the noise."""

    precisions: Array  # (m,): 1/D of each observation
    sides: Array  # (n, 1 + q): means of y and of the columns h
    variances: Array  # (n,): 1/P
    scatter: Array  # (1 + q, 1 + q): sums of products about the means, over D
    log_volume: float  # Σ log D + Σ log P


class Observations(NamedTuple):
    """Targets at nodes, columns of the mean function, known variances."""

    ids: NDArray[np.int64]  # (n,): the distinct nodes
    place: NDArray[np.int64]  # (m,): which of them was observed
    sides: Array  # (m, 1 + q): y − h·offset, then the columns h of the mean function
    variances: Array  # (m,): known variances, to which that of the noise is added
    offset: Array  # (q,): the least-squares fit that was subtracted, to be added to β

    @classmethod
    def at(cls, ids: NDArray[np.int64], y: Array, columns: Array, variances: Array) -> Observations:
        """Return observations y of nodes that may repeat, minus their least-squares fit on the columns.

        They are sorted by node, so that their order makes no difference, not even in rounding.
        """
        order = np.argsort(ids, kind="stable")
        ids, y, columns, variances = ids[order], y[order], columns[order], variances[order]
        distinct, place = np.unique(ids, return_inverse=True)
        offset, rest = np.zeros(columns.shape[1]), y
        for _ in range(2):  # the second pass removes rounding errors of the first
            fitted = np.asarray(np.linalg.lstsq(columns, rest)[0], dtype=np.float64)
            offset, rest = offset + fitted, rest - columns @ fitted
        return cls(distinct, place, np.column_stack([rest, columns]), variances, offset)

    @property
    def rounding(self) -> float:
        """Unit of rounding of the least-squares fit."""
        return EPSILON * float(np.abs(self.sides[:, 1:] @ self.offset).max(initial=0.0))

    @property
    def deviation(self) -> float:
        """Standard deviation of the residual of y on the columns."""
        rest = self.sides[:, :1]
        scaled, unit = normalize_columns(rest)
        return float(unit[0] * np.sqrt(np.mean(scaled**2)))

    @property
    def spread(self) -> float:
        """The deviation, or the size of y where the residual is only rounding."""
        deviation, rounding = self.deviation, self.rounding
        return deviation if deviation > MAX_ROUNDING_UNITS * rounding else rounding / EPSILON or 1.0

    def scaled(self, unit: float) -> Observations:
        """Return the observations with y divided by ``unit``."""
        sides = self.sides.copy()
        sides[:, 0] /= unit
        return self._replace(sides=sides, variances=self.variances / unit**2, offset=self.offset / unit)

    def merged(self, noise: float) -> Merged:
        """Return one observation for each node."""
        precisions = 1 / (self.variances + noise**2)
        totals = self._summed(precisions)
        sides = self._summed(precisions[:, None] * self.sides) / totals[:, None]
        rest = self.sides - sides[self.place]
        scatter = rest.T @ (precisions[:, None] * rest)
        log_volume = float(np.log(totals).sum() - np.log(precisions).sum())
        return Merged(precisions, sides, 1 / totals, scatter, log_volume)

    def noise_slope(self, merged: Merged, solved: Array, inverse_diagonal: Array) -> tuple[Array, float]:
        """Return Σ⁻¹[y h] of all observations, (m, 1 + q), and tr Σ⁻¹, from those of the merged ones.

        They are given by S⁻¹ of the merged sides, (n, 1 + q), and the diagonal of S⁻¹, (n,).
        """
        precisions = merged.precisions
        prior = merged.sides - solved * merged.variances[:, None]
        full = precisions[:, None] * (self.sides - prior[self.place])
        explained = merged.variances - inverse_diagonal * merged.variances**2
        return full, float(precisions.sum() - self._summed(precisions**2) @ explained)

    def select_nodes(self, chosen: NDArray[np.int64]) -> Observations:
        """Return the observations of some nodes, given by ascending positions."""
        kept = np.isin(self.place, chosen)
        place = np.searchsorted(chosen, self.place[kept])
        return Observations(self.ids[chosen], place, self.sides[kept], self.variances[kept], self.offset)

    def _summed(self, values: Array) -> Array:
        """Return sums over the observations of each node, (n,) or (n, columns)."""
        result = np.zeros((self.ids.size, *values.shape[1:]))
        np.add.at(result, self.place, values)
        return result


class KnownNodes(NamedTuple):
    """The nodes of a graph with the columns of their mean function."""

    graph: Graph
    columns: Array  # (n_nodes, q): columns h of the mean function
    representative: NDArray[np.int64]  # (n_nodes,): the node whose walks and value each node shares

    def observations(self, X: Any, y: ArrayLike, noise_std: ArrayLike | None) -> list[Observations]:
        """Check observations and return those of each output: each column of y, or y itself."""
        ids = node_ids(self.graph, X)
        targets = real_array("y", given_targets(y))
        if targets.ndim:
            check_same_length(targets, ids.size)
        if targets.ndim not in (1, 2) or targets.size == 0:
            refuse("y", "of shape (n,) or (n, n_outputs)", Described(f"shape {targets.shape}"))
        known = np.zeros(targets.shape)
        if noise_std is not None:
            known = real_array("noise_std", noise_std)
            if known.shape not in ((ids.size,), targets.shape) or (known < 0).any():
                refuse("noise_std", f"{ids.size} non-negative numbers, one for each y", noise_std)
        check_rank(self.columns[ids])
        outputs = targets.reshape(ids.size, -1)
        variances = np.broadcast_to(known.reshape(ids.size, -1) ** 2, outputs.shape)
        return [
            Observations.at(self.representative[ids], output, self.columns[ids], variance)
            for output, variance in zip(outputs.T, variances.T, strict=True)
        ]


def first_twins(graph: Graph) -> NDArray[np.int64]:
    """Return for each node the first one with the same neighbours and weights, (n_nodes,).

    A node without neighbours has no twin.
    """
    A = scipy.sparse.csr_array(graph.to_scipy("adjacency"))
    A.sort_indices()
    first: dict[tuple[bytes, bytes], int] = {}
    result = np.arange(graph.n_nodes)
    for node in np.flatnonzero(np.diff(A.indptr)):
        own = slice(A.indptr[node], A.indptr[node + 1])
        result[node] = first.setdefault((A.indices[own].tobytes(), A.data[own].tobytes()), int(node))
    return result


def mean_columns(graph: Graph, mean: str, covariates: ArrayLike | None) -> Array:
    """Return the columns of the mean function at all nodes, (n_nodes, q)."""
    one_of("mean", mean, MEANS)
    constant = np.ones((graph.n_nodes, 1 if mean == "constant" else 0))
    if covariates is None:
        return constant
    array = real_array("covariates", getattr(covariates, "to_numpy", lambda: covariates)())
    if array.ndim not in (1, 2) or len(array) != graph.n_nodes:
        rule = f"of shape ({graph.n_nodes},) or ({graph.n_nodes}, q), a row for each node of the graph"
        refuse("covariates", rule, Described(f"shape {array.shape}"))
    return np.column_stack([constant, array])


def check_rank(columns: Array) -> None:
    """Refuse columns of the mean function that are linearly dependent at the observed nodes."""
    q, rank = columns.shape[1], column_rank(columns)
    if rank < q:
        refuse(
            "covariates", f"{q} columns, the constant included, independent at the observed nodes",
            Described(f"{len(columns)} observations of rank {rank}"), "Leave some out, or use mean='zero'.",
        )  # fmt: skip


def column_rank(columns: Array) -> int:
    """Return the rank of columns, each relative to its largest entry."""
    if not columns.shape[1]:
        return 0  # NumPy 2.0 refuses to say so
    scaled = columns / np.maximum(np.abs(columns).max(axis=0), np.finfo(float).tiny)
    return int(np.linalg.matrix_rank(scaled))
