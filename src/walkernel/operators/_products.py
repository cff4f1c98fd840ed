"""Error bars of products L̄ R̄ᵀ v: the jackknife over groups of walks, from sums over their deposits.

With features L_g and R_g of the G groups of walks, deviations dL_g = L_g − L̄ and dR_g = R_g − R̄, u = R̄ᵀv and
du_g = dR_gᵀv, leaving out group g on both sides changes the product by

    −(dL_g u + L̄ du_g) / (G − 1) + dL_g du_g / (G − 1)².

The last term is left out. The part of the variance that is of second order, that of dL du, is in the first
two already, because u and L̄ carry their own errors; the term left out would add 1/G of it. To that order the
diagonal of debiased walks changes like that of shared ones, −2 φ_i·dφ_ig v_i / (G − 1), so that it needs no
term of its own. What features have in common in all groups has no deviation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import thread_count
from walkernel.features import Coefficients, Sampling, over_threads, scaled_sequence
from walkernel.kernels import Kernel
from walkernel.products import multiply_transposed

SUMS_AT_ONCE = 2**24
"""Sums, one for each column and group, that are made for some columns of v at a time."""
NOTHING = np.empty((0, 0))


class Walked(NamedTuple):
    """Walks that are walked again, in groups, for one sequence f."""

    sampling: Sampling
    sequence: Kernel | Coefficients
    n_groups: int

    def sums(
        self,
        u: NDArray[np.float64],  # (columns, c), or empty
        v: NDArray[np.float64],  # (n, c), or empty
        reached: NDArray[np.int64] | None,
        n_columns: int,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the deviations of φ_ig·u, (n, c, groups), and of Σ_i v_i φ_ig, (c, groups, columns)."""
        from walkernel.walks._projections import project

        request, columns = self.sampling.request(), None
        if reached is not None:
            columns = np.full(self.sampling.graph.n_nodes, -1, dtype=np.int32)
            columns[reached] = np.arange(reached.size)
        gathered, scattered = project(
            request, self._factors(), self.sampling.ids, self.n_groups, np.ascontiguousarray(u.T),
            np.ascontiguousarray(v), columns, n_columns, thread_count("estimate_product", None),
        )  # fmt: skip
        if gathered.size:
            gathered -= gathered.mean(axis=2, keepdims=True)
        if scattered.size:
            scattered -= scattered.mean(axis=1, keepdims=True)
        return gathered, scattered

    def _factors(self) -> NDArray[np.float64]:
        """Return what the load of a deposit is multiplied by: f / S over the walks of a group."""
        survival, scale = self.sampling.request().survival, self.sampling.table().scale
        if isinstance(self.sequence, Coefficients):
            f = scaled_sequence(self.sequence.kernel, scale).coefficients(survival.size)
        else:
            f = scaled_sequence(self.sequence, scale).modulation(survival.size)
        return f / survival * (self.n_groups / self.sampling.n_walks)


class Side(NamedTuple):
    """One side of a product: its features, and the walks they come from; None if they are not random."""

    features: scipy.sparse.csr_array  # (n, columns)
    walked: Walked | None


def product_deviations(
    left: Side,
    right: Side,
    V: NDArray[np.float64],  # (n, c)
    n_groups: int,
    reached: NDArray[np.int64] | None = None,  # the nodes that the columns stand for; None: all
) -> NDArray[np.float64]:
    """Return the deviations dL_g u + L̄ du_g of each group, (n, c, n_groups)."""
    n_columns = right.features.shape[1]
    size = max(1, SUMS_AT_ONCE // (n_groups * n_columns))
    result = np.empty((left.features.shape[0], V.shape[1], n_groups))
    for first in range(0, V.shape[1], size):
        part = slice(first, first + size)
        result[:, part] = _deviations(left, right, np.ascontiguousarray(V[:, part]), n_groups, reached)
    return result


def _deviations(
    left: Side, right: Side, V: NDArray[np.float64], n_groups: int, reached: NDArray[np.int64] | None
) -> NDArray[np.float64]:
    n_columns = right.features.shape[1]
    u = multiply_transposed(right.features, V, thread_count("estimate_product", None))
    result = np.zeros((left.features.shape[0], V.shape[1], n_groups))
    shared = left.walked is not None and left.walked is right.walked
    moved = NOTHING
    if left.walked is not None:
        result, moved = left.walked.sums(u, V if shared else NOTHING, reached, n_columns)
    if right.walked is not None and not shared:
        _, moved = right.walked.sums(NOTHING, V, reached, n_columns)
    for c in range(len(moved)):
        carry(left.features, moved[c], result[:, c])
    return result


def carry(
    features: scipy.sparse.csr_array, moved: NDArray[np.float64], result: NDArray[np.float64]
) -> None:
    """Add L̄ du_g to the deviations: moved (n_groups, columns), result (n, n_groups)."""
    from walkernel.walks._projections import multiply_groups

    groups = np.ascontiguousarray(moved.T, dtype=np.float32)
    product = np.zeros(result.shape)

    def work(first: int, last: int) -> None:
        multiply_groups(first, last, features.indptr, features.indices, features.data, groups, product)

    over_threads(work, features.indptr, thread_count("estimate_product", None))
    result += product


def standard_errors(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the jackknife's standard errors from deviations of the groups, along the last axis."""
    G = deviations.shape[-1]
    return np.sqrt(np.square(deviations).sum(axis=-1) / (G * (G - 1)))
