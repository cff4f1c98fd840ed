"""Error bars of products L̄ R̄ᵀ v: the jackknife over groups of walks, from sums over their deposits.

With features L_g and R_g of the G groups of walks, deviations dL_g = L_g − L̄ and dR_g = R_g − R̄, u = R̄ᵀv and
du_g = dR_gᵀv, leaving out group g on both sides changes the product by

    −(dL_g u + L̄ du_g) / (G − 1) + dL_g du_g / (G − 1)²,

and the diagonal of debiased walks by the same up to a term like the last. Two things about the last term:

* It is left out: it adds to the variance 1/G of T = tr(cov L̄ cov u), the variance of the product of both
  errors, and T is in the first two terms already, because u and L̄ have errors of their own.
* T is there twice, once in each. Where it counts (wide kernels and v without a direction, so that K v is
  small), error bars would be up to √2 too wide, so that T is taken off once. It is estimated from the
  products of dL_g, for the first few groups, with du_h of all others.

What features have in common in all groups has no deviation and plays no part.

Products with du_g are summed in single precision, which is enough for error bars and takes half the time. So
that neither the unit of v nor that of the kernel matters, every du_g is stored as its largest value at each
node, in double precision, and numbers within [−1, 1]; squares are taken of numbers of size one.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._threads import over_threads, thread_count
from walkernel.engines import Engine, GroupSums
from walkernel.features import FeatureMatrix, Pair, modulation_values
from walkernel.walks import WalkSpec

SUMS_AT_ONCE = 2**24
"""Sums, one for each column and group, that are made for some columns of v at a time."""
FEW_TERMS = 2**18
"""Multiplications that SciPy makes in double precision; more are compiled and in single precision."""
FEW_GROUPS = 4
"""Groups g whose walks are walked once more for T."""
ROUNDING = 2.0**-48
"""Deviations of all groups that are taken for rounding, relative to what they deviate from."""
NOTHING = np.empty((0, 0))


class Groups(NamedTuple):
    """Numbers of all groups at each node, diag(sizes) · values."""

    sizes: NDArray[np.float64]  # (columns,)
    values: NDArray[np.float32]  # (columns, n_groups), within [-1, 1]

    @classmethod
    def of(cls, moved: NDArray[np.float64]) -> Groups:
        """Round an array of shape (n_groups, columns)."""
        sizes = np.abs(moved).max(axis=0)
        return cls(sizes, np.ascontiguousarray((moved / np.where(sizes > 0, sizes, 1.0)).T, dtype=np.float32))


class Walked(NamedTuple):
    """Walks that are walked again, in groups, for one f."""

    spec: WalkSpec
    weights: Pair
    n_groups: int
    engine: Engine

    def again(self, reached: NDArray[np.int64] | None, few: int) -> GroupSums:
        """Return sums over the first few groups of the walks."""
        return self.engine.group_sums(self.spec, self._f(), self.n_groups, few, reached)

    def features(self) -> scipy.sparse.csr_array:
        """Return the features of each group of walks of each start node, (starts · n_groups, n_nodes)."""
        return self.engine.group_features(self.spec, self._f(), self.n_groups)

    def _f(self) -> NDArray[np.float64]:
        return modulation_values(self.spec, self.weights, self.spec.longest + 1)


class Side(NamedTuple):
    """One side of a product: its features, and the walks they come from; None if they are not random."""

    features: FeatureMatrix  # (n, columns)
    walked: Walked | None


class Product(NamedTuple):
    """L̄ R̄ᵀ v, with all that its error bars need.

    ``reached`` are the nodes that the columns of the features stand for; None: all nodes.
    """

    left: Side
    right: Side
    n_groups: int
    reached: NDArray[np.int64] | None = None

    def deviations(
        self, V: NDArray[np.float64], *, second_order: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return dL_g u + L̄ du_g for V of shape (n, c), (rows, c, n_groups), and √T, (rows, c), if wanted."""
        rows, n_columns = self.left.features.shape
        result = np.empty((rows, V.shape[1], self.n_groups))
        excess = np.zeros((rows, V.shape[1]))
        few = self._few_groups() if second_order else None
        size = max(1, SUMS_AT_ONCE // (self.n_groups * n_columns))
        are_few = self.left.features.nnz * self.n_groups <= FEW_TERMS
        walked = self.left.walked or self.right.walked
        n_threads = None if walked is None else walked.engine.n_threads
        multiply = _multiply_few if are_few else partial(_multiply_groups, n_threads=n_threads)
        for first in range(0, V.shape[1], size):
            part = slice(first, first + size)
            result[:, part], moved = self._first_order(np.ascontiguousarray(V[:, part]))
            for c in range(len(moved)):
                groups = Groups.of(moved[c])
                result[:, first + c] += self.left.features.map_rows(multiply, *groups)
                if few is not None:
                    excess[:, first + c] = self._second_order(few, groups)
        return result, excess

    def _first_order(self, V: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return dL_g u, (rows, c, n_groups), and du_g, (c, n_groups, columns), empty if there are none."""
        rows = self.left.features.shape[0]
        left, right = self.left.walked, self.right.walked
        shared = left is not None and left is right
        gathered, moved = np.zeros((rows, V.shape[1], self.n_groups)), NOTHING
        if left is not None:
            u = self.right.features.multiply_transposed(V)
            walks = left.again(self.reached, self.n_groups)
            gathered, moved = walks.project(np.ascontiguousarray(u.T), V if shared else NOTHING)
            gathered = _from_mean(gathered, axis=2)
        if right is not None and not shared:
            _, moved = right.again(self.reached, self.n_groups).project(NOTHING, V)
        if moved.size:
            moved = _from_mean(moved, axis=1)
        return gathered, moved

    def _few_groups(self) -> GroupSums | None:
        """Return the first groups of the left-hand side, if both sides are random and have enough of them."""
        few = min(FEW_GROUPS, self.n_groups // 2)
        if self.left.walked is None or self.right.walked is None or few < 2:
            return None
        return self.left.walked.again(self.reached, few)

    def _second_order(self, walks: GroupSums, groups: Groups) -> NDArray[np.float64]:
        """Return √T from the products of dL_g and du_h, h in none of the groups g."""
        G, few = self.n_groups, walks.n_groups
        norms = walks.product_norms(groups.sizes, np.ascontiguousarray(groups.values[:, few:]))
        return np.asarray(norms / np.sqrt((few - 1) * (G - few) * G * (G - 1)))


def _from_mean(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Return deviations from the mean over groups, in place; those that are mere rounding are zero."""
    least = ROUNDING * np.abs(values).max(axis=axis, keepdims=True)
    values -= values.mean(axis=axis, keepdims=True)
    values *= np.abs(values).max(axis=axis, keepdims=True) > least
    return values


def _multiply_few(
    features: scipy.sparse.csr_array, sizes: NDArray[np.float64], values: NDArray[np.float32]
) -> NDArray[np.float64]:
    """Return L̄ du_g, (n, n_groups), in double precision."""
    return np.asarray(features @ (sizes[:, None] * values))


def _multiply_groups(
    features: scipy.sparse.csr_array,
    sizes: NDArray[np.float64],
    values: NDArray[np.float32],
    n_threads: int | None,
) -> NDArray[np.float64]:
    """Return L̄ du_g, (n, n_groups)."""
    from walkernel.walks._projections import multiply_groups

    product = np.empty((features.shape[0], values.shape[1]))
    matrix = (features.indptr, features.indices, features.data)

    def work(first: int, last: int) -> None:
        total = np.empty(values.shape[1], dtype=values.dtype)
        multiply_groups(first, last, *matrix, sizes, values, total, product)

    over_threads(work, features.indptr, thread_count(n_threads))
    return product


def standard_errors(
    deviations: NDArray[np.float64], doubled: NDArray[np.float64] | float = 0.0
) -> NDArray[np.float64]:
    """Return the jackknife's standard errors from deviations of the groups, along the last axis.

    ``doubled`` is √T, T being the part of the variance that the deviations have twice. Where it is more than
    half of what they have, the two are estimates of the same, and their mean is taken.
    """
    G = deviations.shape[-1]
    spread = root_sum_of_squares(deviations) / np.sqrt(G * (G - 1))
    unit = np.maximum(spread, doubled)
    unit = np.where(unit > 0, unit, 1.0)
    variance, excess = (spread / unit) ** 2, (doubled / unit) ** 2
    once = np.where(excess <= variance / 2, variance - excess, (variance / 2 + excess) / 2)
    return np.asarray(unit * np.sqrt(once))


def root_sum_of_squares(values: NDArray[np.float64], axis: int | None = -1) -> NDArray[np.float64]:
    """Return the Euclidean norm along an axis, or of all values; squares neither overflow nor vanish."""
    sizes = np.abs(values).max(axis=axis, keepdims=True)
    unit = np.where(sizes > 0, sizes, 1.0)
    return np.asarray(np.squeeze(unit, axis) * np.sqrt(np.square(values / unit).sum(axis=axis)))


def jackknife_errors(without: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    """Return standard errors from estimates without each of the groups, which are along an axis."""
    n_groups = without.shape[axis]
    deviations = without - without.mean(axis=axis, keepdims=True)
    return np.sqrt((n_groups - 1) / n_groups) * root_sum_of_squares(deviations, axis)


def normalize_columns(V: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return V with columns whose largest entry is in [1, 2), and the powers of two, (c,), that undo it.

    Columns of zeros stay as they are; those with entries that are not finite become zero, their unit NaN.
    """
    sizes = np.abs(V).max(axis=0)
    finite = np.isfinite(sizes)
    exponents = np.frexp(np.where(finite, sizes, 0.0))[1] - 1
    scaled = np.ldexp(np.where(finite, V, 0.0), -exponents)
    return scaled, np.where(finite, np.ldexp(1.0, exponents), np.nan)
