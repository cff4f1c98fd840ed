"""Error bars of estimated entries: the jackknife over independent groups of walks, and the law of the walks.

Walks are keyed, so that those of any node can be walked again and told apart by group. With features L_g
and R_g of the G groups, means L̄ and R̄, and θ = L̄·R̄, leaving out one group on both sides gives

    θ_(−g) = (G² θ − G L_g·R̄ − G L̄·R_g + L_g·R_g) / (G − 1)²,

and the variance is (G−1)/G Σ_g (θ_(−g) − mean)². Diagonal entries of debiased walks are means over pairs of
groups. Events that none of the walks took have no part in that; the law of the walks tells of them
(``_unseen``), and the larger error bar is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import stdtrit

from walkernel._checks import real_number, refuse
from walkernel.engines import CPU, Engine
from walkernel.features import Pair, find_series, identity_features, largest_norm
from walkernel.kernels import Kernel
from walkernel.operators._product_errors import Walked, jackknife_errors, standard_errors
from walkernel.operators._unseen import EntryFeatures, unseen_errors
from walkernel.walks import Sampler, WalkSpec

MIN_GROUPS = 16
PAIRS_AT_ONCE = 2**18
MAX_RELATIVE_ERROR = 1 / 3
"""Above it, an entry is marked as rare: its distribution is too skew for an interval about the estimate."""
ROUNDING, ROUNDING_OF_ENTRIES = 1e-12, 5e-15
"""Differences that are taken for rounding, relative to what differs, and to the norm of K: dense matrix
functions of float64 numbers differ by up to 1e-14 times that, depending on how they are computed."""
AGREEING = 1 / 3
"""Share of the groups of walks whose agreement tells that their walks do not contribute."""


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimates with their standard errors; unpacks as ``value, stderr``.

    Attributes
    ----------
    value, stderr : ndarray
        Of the same shape.
    n_groups : int
        Independent groups of walks behind the standard error; 0 if nothing is random.
    rare : ndarray of bool
        Entries that too few walks contribute to for an interval to say much: the standard error is more than
        a third of the value, or no walk of the lengths that matter leads from one node to the other although
        longer ones may. On graphs of more than 4096 nodes, of which only the part is looked at that the walks
        of both nodes reached, also those on which a third of the groups of walks agree exactly, although
        walks could add a third of the value. Never of products, to which walks from all nodes contribute.
    limit : ndarray
        What the kernel itself allows rare entries at most; 0 for others.

    Examples
    --------
    >>> import walkernel as wk
    >>> path = wk.Graph.from_edges([(i, i + 1) for i in range(40)])
    >>> K = wk.estimate_kernel(path, wk.Diffusion(1.0), n_walks=64)
    >>> far = K.estimate(0, [1, 30])  # no walk meets one from 30 steps away, nor could they add much
    >>> far.rare, bool(0 < far.upper[1] < 1e-9)
    (array([False,  True]), True)
    """

    value: NDArray[np.float64]
    stderr: NDArray[np.float64]
    n_groups: int
    rare: NDArray[np.bool_] = None  # type: ignore[assignment]  # none are, if not given
    limit: NDArray[np.float64] = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.rare is None:
            object.__setattr__(self, "rare", np.zeros(self.value.shape, dtype=bool))
        if self.limit is None:
            object.__setattr__(self, "limit", np.zeros(self.value.shape))

    def __iter__(self) -> Iterator[NDArray[np.float64]]:
        return iter((self.value, self.stderr))

    def interval(self, level: float = 0.95) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the ends of confidence intervals, by Student's t with n_groups − 1 degrees of freedom.

        Of entries that are not rare, 95 % intervals cover at least 90 % on all graphs, kernels and kinds of
        walks in ``benchmarks/interval_coverage.py``, and more than 95 % where edges of very different weights
        leave much to a few walks: error bars are then those of the worst case.
        """
        level = real_number("level", level, above=0, below=1)
        wide = 0.0 if self.n_groups == 0 else float(stdtrit(self.n_groups - 1, (1 + level) / 2))
        return self.value - wide * self.stderr, self.value + wide * self.stderr

    @property
    def upper(self) -> NDArray[np.float64]:
        """Upper bounds of the estimated values: the upper ends of 95 % intervals, and more for rare entries.

        Rare entries, of which an interval says little, get no less than what the kernel itself allows:
        √(K_ii K_jj) for a symmetric pair on an undirected graph, with 97.5 % upper bounds of both diagonal
        entries; otherwise, and for products of factors, ‖K‖₂, or infinity where no bound on it is known;
        or less, if walks can add but little beyond an exact head. That holds for every entry, whether or not
        walks went there, and is mostly far above it.
        """
        above = self.interval()[1]
        return np.asarray(np.where(self.rare, np.maximum(above, self.limit), above))


def count_groups(n_walks: int, sampler: Sampler) -> int:
    """Return the least number of equal groups of walks that is at least 16, or all where there are fewer."""
    group = sampler.coupling.group
    whole = n_walks // group if n_walks % group == 0 else 1
    divisors = [d for d in range(1, whole + 1) if whole % d == 0]
    return next((d for d in divisors if d >= MIN_GROUPS), divisors[-1])


def enough_groups(n_walks: int, sampler: Sampler) -> int:
    """Return the number of groups, and refuse one."""
    groups = count_groups(n_walks, sampler)
    if groups < 2:
        remedy = "Use more walks, or a multiple of the sampler's group."
        refuse("n_walks", "enough for two groups of walks", n_walks, remedy)
    return groups


class Origin(NamedTuple):
    """Which walks an operator is made of, and what they estimate, so that they can be drawn again."""

    spec: WalkSpec
    """The walks of the left-hand side."""
    weights: Pair
    ensembles: str
    n_steps: int = 0
    engine: Engine = CPU()
    """Where they are walked again."""

    @property
    def kernel(self) -> Kernel:
        """The kernel that is estimated."""
        return self.weights.kernel

    @property
    def n_groups(self) -> int:
        """The least number of equal groups that is at least 16, or all groups where there are fewer."""
        return count_groups(self.spec.n_walks, self.spec.sampler)

    def side(self, number: int) -> WalkSpec:
        """Return the walks of the left-hand (0) or right-hand (1) side."""
        return self.spec.opposite() if number else self.spec

    def walked(self, ids: NDArray[np.int64]) -> list[Walked | None]:
        """Return the walks of both sides: the same ones where they are shared."""

        def walks(number: int) -> Walked:
            return Walked(self.side(number).at(ids), self.weights, self.n_groups, self.engine)

        left = walks(0)
        if self.weights.other is None:
            return [left, None]
        return [left, walks(1) if self.ensembles == "independent" else left]

    def features(self, ids: NDArray[np.int64], side: int) -> scipy.sparse.csr_array:
        """Return the features of each group of walks of each node, (len(ids) · n_groups, n_nodes)."""
        walked = self.walked(ids)[side]
        assert walked is not None
        return walked.features()


def entry_errors(
    origin: Origin, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return standard errors of entries at flat arrays of ids, and where too few walks contribute to tell.

    They are the jackknife's, or those of the law of the walks where it tells of more.
    """
    left, right = _sides(origin, rows, columns)
    errors, agree = _jackknife(origin, left, right)
    unseen, known = unseen_errors(origin, left.features(), right.features())
    return np.maximum(errors, unseen), agree & ~known


def entry_jackknife(
    origin: Origin, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the standard errors of entries that follow from the groups of walks alone."""
    return _jackknife(origin, *_sides(origin, rows, columns))[0]


def _sides(origin: Origin, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> tuple[_Side, _Side]:
    left = _Side.walked(origin, rows, 0)
    if origin.weights.other is None:
        return left, _Side.standing(origin.spec.graph.n_nodes, columns)
    if origin.ensembles != "independent" and np.isin(columns, left.ids).all():
        return left, left.at(columns)
    return left, _Side.walked(origin, columns, 1)


def _jackknife(origin: Origin, left: _Side, right: _Side) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the jackknife's standard errors, and where groups of walks agree exactly."""
    if origin.weights.other is None:
        values = left.products(right.part(slice(None)), np.arange(right.where.size))
        return standard_errors(values - values.mean(axis=1, keepdims=True)), _groups_agree(values)
    n = left.where.size
    errors, agree = np.empty(n), np.empty(n, dtype=bool)
    size = max(1, PAIRS_AT_ONCE // origin.n_groups)
    for first in range(0, n, size):
        part = slice(first, first + size)
        diagonal = left.nodes(part) == right.nodes(part)
        without = _without(left.part(part), right.part(part), diagonal, origin.ensembles)
        errors[part] = jackknife_errors(without)
        agree[part] = _groups_agree(without)
    return errors, agree


def _groups_agree(groups: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell where a share of the groups agrees to rounding, (entries, n_groups) -> (entries,)."""
    ordered, others = np.sort(groups, axis=1), max(1, int(AGREEING * groups.shape[1]) - 1)
    gaps = ordered[:, others:] - ordered[:, :-others]
    return np.asarray(gaps.min(axis=1) <= ROUNDING * np.abs(groups).max(axis=1))


class _Side(NamedTuple):
    """The features of each group of walks of one node for each entry."""

    ids: NDArray[np.int64]
    where: NDArray[np.int64]
    groups: scipy.sparse.csr_array  # (len(ids) · n_groups, n_nodes)

    @classmethod
    def walked(cls, origin: Origin, nodes: NDArray[np.int64], side: int) -> _Side:
        """Walk from nodes again."""
        ids, where = np.unique(nodes, return_inverse=True)
        return cls(ids, where, origin.features(ids, side))

    @classmethod
    def standing(cls, n_nodes: int, nodes: NDArray[np.int64]) -> _Side:
        """Return the features f₂ = δ₀ of walks that make no step, in one group."""
        ids, where = np.unique(nodes, return_inverse=True)
        return cls(ids, where, identity_features(ids, n_nodes).matrix)

    @property
    def n_groups(self) -> int:
        """Groups of walks of a node."""
        return int(self.groups.shape[0] // max(1, self.ids.size))

    def at(self, nodes: NDArray[np.int64]) -> _Side:
        """Return the same features for other nodes, which must be among these."""
        return self._replace(where=np.searchsorted(self.ids, nodes))

    def nodes(self, entries: slice) -> NDArray[np.int64]:
        """Return the nodes of some entries."""
        return self.ids[self.where[entries]]

    def features(self) -> EntryFeatures:
        """Return the means over the groups."""
        return EntryFeatures(self.ids, _means(self.groups, self.ids.size), self.where)

    def part(self, entries: slice) -> scipy.sparse.csr_array:
        """Return the features of each group for some entries, (entries · n_groups, n_nodes)."""
        return self.groups[(self.where[entries, None] * self.n_groups + np.arange(self.n_groups)).ravel()]

    def products(self, others: scipy.sparse.csr_array, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the product of each entry's groups with a row of others, (entries, n_groups)."""
        repeated = others[np.repeat(positions, self.n_groups)]
        return np.asarray(self.part(slice(None)).multiply(repeated).sum(axis=1)).reshape(-1, self.n_groups)


def _without(
    left: scipy.sparse.csr_array,  # (entries · n_groups, n_nodes)
    right: scipy.sparse.csr_array,
    diagonal: NDArray[np.bool_],
    ensembles: str,
) -> NDArray[np.float64]:
    """Return estimates without each group, (entries, n_groups), from the features of groups."""
    n = diagonal.size
    G = left.shape[0] // n
    means = [_means(side, n) for side in (left, right)]
    every = np.repeat(np.arange(n), G)

    def dot(a: Any, b: Any) -> NDArray[np.float64]:
        return np.asarray(a.multiply(b).sum(axis=1)).reshape(n, -1)

    whole = dot(*means)
    ones, others, both = dot(left, means[1][every]), dot(means[0][every], right), dot(left, right)
    without = (G**2 * whole - G * (ones + others) + both) / (G - 1) ** 2
    if ensembles == "debiased" and G > 2:
        rest = both.sum(axis=1, keepdims=True) - both
        pairs = (G**2 * whole - 2 * G * ones + both - rest) / ((G - 1) * (G - 2))
        without = np.where(diagonal[:, None], pairs, without)
    return without


def _means(groups: scipy.sparse.csr_array, n: int) -> scipy.sparse.csr_array:
    """Return the mean over the groups of each entry, (n, n_nodes)."""
    G = groups.shape[0] // n
    gather = scipy.sparse.csr_array(
        (np.full(n * G, 1 / G), np.arange(n * G), np.arange(0, n * G + 1, G)), shape=(n, n * G)
    )
    return (gather @ groups).tocsr()


def largest_entry(origin: Origin) -> float:
    """Return a bound on all entries of K, its spectral norm; infinity where none is known."""
    return largest_norm(origin.spec.graph, origin.kernel)


def with_rounding(
    errors: NDArray[np.float64], values: NDArray[np.float64], origin: Origin
) -> NDArray[np.float64]:
    """Return error bars of entries that are at least those of rounding, but for entries that are zero."""
    largest = largest_entry(origin)
    rounding = ROUNDING_OF_ENTRIES * largest if np.isfinite(largest) else 0.0
    return np.where(values != 0, np.maximum(errors, rounding), errors)


def largest_rest(origin: Origin) -> float:
    """Return a bound on what walks can add to an entry beyond the exact heads; infinity if none is known.

    With H the head, T what is beyond it, η = Σ_{k≤r} |f_k| and τ = Σ_{k>r} |f_k| bound their norms, and
    K = (H + T)(H + T)ᵀ differs from HHᵀ by at most 2ητ + τ²; for the lazy pair K = H + T, by τ.
    """
    if origin.kernel.matrix == "adjacency" or (
        origin.spec.graph.directed and origin.kernel.matrix != "normalized"
    ):
        return np.inf
    series = find_series(origin.kernel, origin.weights.exponent, 1.0, ROUNDING)
    head, rest = np.split(series.sizes, [origin.spec.sampler.head + 1])
    tail = float(rest.sum()) + series.missing
    return tail if origin.weights.other is None else 2 * float(head.sum()) * tail + tail**2
