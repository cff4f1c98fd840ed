"""Error bars: the jackknife over independent groups of walks.

Walks are keyed, so that those of any node can be walked again and told apart by group. The features of a
factor K̂ = L̄ R̄ᵀ are means of L_g and R_g over G groups, and error bars tell what leaving out a group changes.

*Entries.* With θ = L̄_i·R̄_j, leaving out one group on both sides gives

    θ_(−g) = (G² θ − G L_g·R̄ − G L̄·R_g + L_g·R_g) / (G − 1)²,

and the variance is (G−1)/G Σ_g (θ_(−g) − mean)². Diagonal entries of debiased walks are means over pairs of
groups.

*Products.* With deviations dL_g = L_g − L̄ and dR_g = R_g − R̄, u = R̄ᵀv and du_g = dR_gᵀv, leaving out group g
changes L̄ R̄ᵀ v by

    −(dL_g u + L̄ du_g) / (G − 1) + dL_g du_g / (G − 1)²,

and the diagonal of debiased walks by the same up to a term like the last. Two things about the last term:

* It is left out: it adds to the variance 1/G of T = tr(cov L̄ cov u), the variance of the product of both
  errors, and T is in the first two terms already, because u and L̄ have errors of their own.
* T is there twice, once in each. Where it counts (wide kernels and v without a direction, so that K v is
  small), error bars would be up to √2 too wide, so that T is taken off once. It is estimated from the
  products of dL_g, for the first few groups, with du_h of all others.

What features have in common in all groups has no deviation and plays no part. Products with du_g are summed
in single precision, which is enough for error bars and takes half the time. So that neither the unit of v nor
that of the kernel matters, every du_g is stored as its largest value at each node, in double precision, and
numbers within [−1, 1]; squares are taken of numbers of size one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import refuse
from walkernel._threads import over_threads, thread_count
from walkernel.engines import Engine, FeatureJob
from walkernel.features import FeatureMatrix, HostFeatures, Pair, identity_features, modulation_values
from walkernel.walks import Sampler, WalkSpec

MIN_GROUPS = 16
PAIRS_AT_ONCE = 2**18
"""Entries times groups that are looked at together."""
SUMS_AT_ONCE = 2**24
"""Sums, one for each column and group, that are made for some columns of v at a time."""
FEW_TERMS = 2**18
"""Multiplications that SciPy makes in double precision; more are compiled and in single precision."""
FEW_GROUPS = 4
"""Groups g whose walks are walked once more for T."""
ROUNDING, ROUNDING_OF_SUMS = 1e-12, 2.0**-48
"""Differences of groups that are taken for rounding, relative to what differs: of entries, and of sums."""
AGREEING = 1 / 3
"""Share of the groups of walks whose agreement tells that their walks do not contribute."""
NOTHING = np.empty((0, 0))


def count_groups(n_walks: int, sampler: Sampler) -> int:
    """Return the least number of equal groups of walks that is at least 16, or all where there are fewer."""
    group = sampler.coupling.group
    whole = n_walks // group if n_walks % group == 0 else 1
    divisors = [d for d in range(1, whole + 1) if whole % d == 0]
    return next((d for d in divisors if d >= MIN_GROUPS), divisors[-1])


class EntryFeatures(NamedTuple):
    """Features of one side of entries: those of distinct nodes, and which of these each entry has."""

    ids: NDArray[np.int64]
    where: NDArray[np.int64]  # (entries,)
    features: scipy.sparse.csr_array  # (len(ids) · n_groups, n_nodes)

    def means(self) -> EntryFeatures:
        """Return the means over groups."""
        every = np.arange(self.features.shape[0]).reshape(self.ids.size, -1)
        return self._replace(features=_mean_rows(self.features, every))

    def rows(self, entries: slice) -> scipy.sparse.csr_array:
        """Return the features of some entries, (entries · n_groups, n_nodes)."""
        every = np.arange(self.features.shape[0]).reshape(self.ids.size, -1)
        return self.features[every[self.where[entries]].ravel()]


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of walks of one factor K̂ = L̄ R̄ᵀ: what all of its error bars are made of.

    Attributes
    ----------
    left, right : WalkSpec
        The walks of the two sides; the same object if one set of walks serves both, None for a right-hand
        side that makes no step.
    weights : Pair
        What they are weighted with.
    ensembles : str
        "independent", "shared" or "debiased".
    engine : Engine
        Where they are walked again.
    n_steps : int
        Steps walked for the factor and for the others of its product, edges of exact heads included.
    is_transposed : bool
        Whether rows belong to the right-hand side, and columns to the left.
    """

    left: WalkSpec
    right: WalkSpec | None
    weights: Pair
    ensembles: str
    engine: Engine
    n_steps: int = 0
    is_transposed: bool = False

    @property
    def n_groups(self) -> int:
        """The number of groups."""
        return count_groups(self.left.n_walks, self.left.sampler)

    def check_number(self) -> None:
        """Refuse walks that are a single group."""
        if self.n_groups < 2:
            remedy = "Use more walks, or a multiple of the sampler's group."
            refuse("n_walks", "enough for two groups of walks", self.left.n_walks, remedy)

    def transposed(self) -> Groups:
        """Return the groups of the transpose."""
        return replace(self, is_transposed=not self.is_transposed)

    def features(self, spec: WalkSpec) -> scipy.sparse.csr_array:
        """Return the features of each group of walks of each start node, (starts · n_groups, n_nodes)."""
        return self.engine.features(self._job(spec))[0].to_scipy()

    def _job(self, spec: WalkSpec) -> FeatureJob:
        f = modulation_values(spec, self.weights, spec.longest + 1)
        return FeatureJob(spec, f, (spec.stream,), n_groups=self.n_groups)

    def of_entries(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> tuple[EntryFeatures, EntryFeatures]:
        """Return the features of all groups at both sides of entries, the left-hand side first."""
        (i, of_row), (j, of_column) = (
            np.unique(nodes, return_inverse=True)
            for nodes in ((columns, rows) if self.is_transposed else (rows, columns))
        )
        left = EntryFeatures(i, of_row, self.features(self.left.at(i)))
        if self.right is None:
            return left, EntryFeatures(j, of_column, identity_features(j, self.left.graph.n_nodes).matrix)
        if self.right is self.left and np.isin(j, i).all():
            return left, left._replace(where=np.searchsorted(i, j)[of_column])
        return left, EntryFeatures(j, of_column, self.features(self.right.at(j)))

    def entry_errors(
        self, left: EntryFeatures, right: EntryFeatures
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return standard errors of entries, and where a share of the groups agrees to rounding."""
        n, G = left.where.size, self.n_groups
        errors, agree = np.empty(n), np.empty(n, dtype=bool)
        sides, size = (left, right, left.means(), right.means()), max(1, PAIRS_AT_ONCE // G)
        for first in range(0, n, size):
            part = slice(first, first + size)
            L, R, L_mean, R_mean = (side.rows(part) for side in sides)
            every = np.repeat(np.arange(L_mean.shape[0]), G)
            ones = _dots(L, R_mean[every], G)
            if self.right is None:
                errors[part] = standard_errors(ones - ones.mean(axis=1, keepdims=True))
                agree[part] = _agree(ones)
                continue
            whole, others, both = _dots(L_mean, R_mean, 1), _dots(L_mean[every], R, G), _dots(L, R, G)
            without = (G**2 * whole - G * (ones + others) + both) / (G - 1) ** 2
            if self.ensembles == "debiased" and G > 2:
                rest = both.sum(axis=1, keepdims=True) - both
                pairs = (G**2 * whole - 2 * G * ones + both - rest) / ((G - 1) * (G - 2))
                diagonal = left.ids[left.where[part]] == right.ids[right.where[part]]
                without = np.where(diagonal[:, None], pairs, without)
            errors[part], agree[part] = jackknife_errors(without), _agree(without)
        return errors, agree

    def leave_one_out(self) -> Iterator[tuple[list[FeatureMatrix], NDArray[np.float64] | None]]:
        """Yield, for each group, both sides and the correction of the diagonal from all other groups."""
        G, rest = self.n_groups, self.n_groups - 1
        sides = [self.features(self.left)]
        if self.right is not None and self.right is not self.left:
            sides.append(self.features(self.right))
        every = np.arange(sides[0].shape[0]).reshape(-1, G)
        norms = sides[0].power(2).sum(axis=1).reshape(-1, G)
        for g in range(G):
            means = [_mean_rows(side, np.delete(every, g, axis=1)) for side in sides]
            correction = None
            if self.ensembles == "debiased" and rest > 1:
                of_groups = norms.sum(axis=1) - norms[:, g]
                correction = (means[0].power(2).sum(axis=1) - of_groups / rest) / (rest - 1)
            kept: list[FeatureMatrix] = [HostFeatures(side) for side in means]
            yield [kept[0], kept[-1]], correction

    def deviations(
        self,
        left: FeatureMatrix,
        right: FeatureMatrix,
        V: NDArray[np.float64],
        *,
        reached: NDArray[np.int64] | None = None,
        second_order: bool = False,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return by how much groups deviate in left @ right.T @ V, (rows, c, n_groups), and √T, (rows, c).

        ``left`` has the features of the rows and ``right`` those of the columns, also of a transpose;
        ``reached`` are the nodes that their columns stand for, if not all. Entries of V should be about one
        in size. √T is 0 unless the second order is asked for: the walks are walked once more for it.
        """
        G, (rows, n_columns) = self.n_groups, left.shape
        result, doubled = np.empty((rows, V.shape[1], G)), np.zeros((rows, V.shape[1]))
        walks, others = (self.right, self.left) if self.is_transposed else (self.left, self.right)
        few = min(FEW_GROUPS, G // 2) if second_order and walks is not None and others is not None else 0
        size = max(1, SUMS_AT_ONCE // (G * n_columns))
        for first in range(0, V.shape[1], size):
            part = slice(first, first + size)
            block, gathered, moved = np.ascontiguousarray(V[:, part]), np.zeros((1, 1, 1)), NOTHING
            if walks is not None:
                u = np.ascontiguousarray(right.multiply_transposed(block).T)
                job, v = self._job(walks), block if walks is others else NOTHING
                gathered, moved = self.engine.project(job, u, v, reached)
            if others is not None and others is not walks:
                _, moved = self.engine.project(self._job(others), NOTHING, block, reached)
            result[:, part] = _from_mean(gathered, axis=2)
            if not moved.size:
                continue
            sizes, values = _in_units(_from_mean(moved, axis=1))
            for c, own in enumerate(zip(sizes, values, strict=True), start=first):
                result[:, c] += _product_with_groups(left, *own, n_threads=self.engine.n_threads)
            if few > 1 and walks is not None:
                spread = self.engine.group_spread(self._job(walks), sizes, values[:, :, few:], reached)
                doubled[:, part] = spread / np.sqrt((few - 1) * (G - few) * G * (G - 1))
        return result, doubled


def _dots(a: Any, b: Any, n_groups: int) -> NDArray[np.float64]:
    """Return products of rows, (rows / n_groups, n_groups)."""
    return np.asarray(a.multiply(b).sum(axis=1)).reshape(-1, n_groups)


def _agree(groups: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell where a share of the groups agrees to rounding, (entries, n_groups) -> (entries,)."""
    ordered, others = np.sort(groups, axis=1), max(1, int(AGREEING * groups.shape[1]) - 1)
    gaps = ordered[:, others:] - ordered[:, :-others]
    return np.asarray(gaps.min(axis=1) <= ROUNDING * np.abs(groups).max(axis=1))


def _mean_rows(features: scipy.sparse.csr_array, kept: NDArray[np.int64]) -> scipy.sparse.csr_array:
    """Return the means of the rows at each row of positions, (n, k) -> (n, n_nodes)."""
    n, k = kept.shape
    gather = (np.full(n * k, 1 / k), kept.ravel(), np.arange(0, n * k + 1, k))
    return (scipy.sparse.csr_array(gather, shape=(n, features.shape[0])) @ features).tocsr()


def _from_mean(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return deviations from the mean over groups, in place; those that are mere rounding are zero."""
    least = ROUNDING_OF_SUMS * np.abs(values).max(axis=axis, keepdims=True)
    values -= values.mean(axis=axis, keepdims=True)
    values *= np.abs(values).max(axis=axis, keepdims=True) > least
    return values


def _in_units(moved: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return the largest of all groups at each node, (c, columns), and groups in this unit, last axis."""
    sizes = np.abs(moved).max(axis=1)
    values = moved / np.where(sizes > 0, sizes, 1.0)[:, None]
    return sizes, np.ascontiguousarray(values.swapaxes(1, 2), dtype=np.float32)


def _product_with_groups(
    left: FeatureMatrix, sizes: NDArray[np.float64], values: NDArray[np.float32], *, n_threads: int | None
) -> NDArray[np.float64]:
    """Return left @ diag(sizes) @ values, (n, n_groups), made where the features are."""
    if left.takes_tensors:
        return np.asarray(left.multiply(sizes[:, None] * values))
    in_double = left.nnz * values.shape[1] <= FEW_TERMS
    return left.map_rows(partial(_multiply_groups, in_double=in_double, n_threads=n_threads), sizes, values)


def _multiply_groups(
    features: scipy.sparse.csr_array,
    sizes: NDArray[np.float64],
    values: NDArray[np.float32],
    *,
    in_double: bool,
    n_threads: int | None,
) -> NDArray[np.float64]:
    """Return features @ diag(sizes) @ values, (n, n_groups)."""
    from walkernel.walks._projections import multiply_groups

    if in_double:
        return np.asarray(features @ (sizes[:, None] * values))
    product = np.empty((features.shape[0], values.shape[1]))
    matrix = (features.indptr, features.indices, features.data)

    def work(first: int, last: int) -> None:
        total = np.empty(values.shape[1], dtype=values.dtype)
        multiply_groups(first, last, *matrix, sizes, values, total, product)

    over_threads(work, features.indptr, thread_count(n_threads))
    return product


def standard_errors(
    deviations: NDArray[np.float64], doubled: NDArray[np.float64] | None = None, axis: int | None = -1
) -> NDArray[np.float64]:
    """Return the jackknife's standard errors from deviations of the groups, which are along the last axis.

    ``doubled`` is √T, T being the part of the variance that the deviations have twice. Where it is more than
    half of what they have, the two are estimates of the same, and their mean is taken. With ``axis=None`` the
    result is the root of the sum of all squared standard errors.
    """
    G = deviations.shape[-1]
    spread = root_sum_of_squares(deviations, axis) / np.sqrt(G * (G - 1))
    if doubled is None:
        return np.asarray(spread)
    unit = np.maximum(spread, doubled)
    unit = np.where(unit > 0, unit, 1.0)
    variance, excess = (spread / unit) ** 2, (doubled / unit) ** 2
    once = np.where(excess <= variance / 2, variance - excess, (variance / 2 + excess) / 2)
    return np.asarray(unit * np.sqrt(once))


def jackknife_errors(without: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    """Return the jackknife's standard errors from estimates without each of the groups, along an axis."""
    n_groups = without.shape[axis]
    deviations = without - without.mean(axis=axis, keepdims=True)
    return np.sqrt((n_groups - 1) / n_groups) * root_sum_of_squares(deviations, axis)


def left_out_deviations(without: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return deviations of groups, (…, n_groups), from estimates without each of them, (n_groups, …)."""
    return np.moveaxis((len(without) - 1) * (without - without.mean(axis=0)), 0, -1)


def root_sum_of_squares(values: NDArray[np.float64], axis: int | None = -1) -> NDArray[np.float64]:
    """Return the Euclidean norm along an axis, or of all values; squares neither overflow nor vanish."""
    sizes = np.abs(values).max(axis=axis, keepdims=True)
    unit = np.where(sizes > 0, sizes, 1.0)
    return np.asarray(np.squeeze(unit, axis) * np.sqrt(np.square(values / unit).sum(axis=axis)))


def normalize_columns(V: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return V with columns whose largest entry is in [1, 2), and the powers of two, (c,), that undo it.

    Columns of zeros stay as they are; those with entries that are not finite become zero, their unit NaN.
    """
    sizes = np.abs(V).max(axis=0)
    finite = np.isfinite(sizes)
    exponents = np.frexp(np.where(finite, sizes, 0.0))[1] - 1
    scaled = np.ldexp(np.where(finite, V, 0.0), -exponents)
    return scaled, np.where(finite, np.ldexp(1.0, exponents), np.nan)
