"""The walk engine: K̂ = Φ₁Φ₂ᵀ + diag(correction) from sparse features, never multiplied out."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import stdtrit

from walkernel._checks import fits_in_memory, shown
from walkernel._door import door, warn
from walkernel.features import FeatureMatrix, largest_norm
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators._accuracy import accuracy
from walkernel.operators._base import SAME, Columns, KernelOperator
from walkernel.operators._entry_errors import MAX_RELATIVE_ERROR, Estimate, largest_rest, with_rounding
from walkernel.operators._explanation import Explanation, explain_walks
from walkernel.operators._groups import Groups, standard_errors
from walkernel.operators._neighbors import keep_best
from walkernel.operators._unseen import unseen_errors
from walkernel.planning import Accuracy

HUBS_CHECKED = 16
"""Nodes of most edges at which ``topk`` looks whether walks lead to their neighbours."""


class WalkOperator(KernelOperator):
    """K̂ from walks: one factor, or the product of several."""

    groups: Groups
    """The walks of the first factor in groups; those of the others are alike."""
    note: str
    """Why the pair is not the symmetric one, where that was not asked for."""

    @property
    @abstractmethod
    def factors(self) -> tuple[FeatureOperator, ...]:
        """Independent estimates of K^(1/l), alike but for their walks."""

    @abstractmethod
    def deviations(
        self, V: NDArray[np.float64], *, second_order: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return by how much groups of walks deviate in K V, (n, c, n_groups), and √T, what that has twice.

        The latter, if not asked for, is 0. Entries of V should be about one in size.
        """

    def __repr__(self) -> str:
        (n, m), stitches = self.shape, f"stitches={self.stitches}, " if self.stitches > 1 else ""
        about = f"{n}x{m}, {stitches}pair={self.pair!r}, ensembles={self.ensembles!r}"
        return f"KernelOperator({about}{'; ' + self.note if self.note else ''})"

    @property
    def stitches(self) -> int:
        """The number of factors."""
        return len(self.factors)

    @property
    def pair(self) -> str:
        """The pair of weights, "symmetric" or "lazy"."""
        return self.groups.weights.pair

    @property
    def ensembles(self) -> str:
        """Which walks the two sides have: "independent", "shared" or "debiased"."""
        return self.groups.ensembles

    @property
    def n_steps(self) -> int:
        """Steps walked for all factors, edges of exact heads included."""
        return self.groups.n_steps

    @property
    def kernel(self) -> Kernel:
        """The kernel that is estimated."""
        return self.groups.weights.kernel

    @door
    def explain(self) -> Explanation:
        """Say in words and numbers what was chosen and why, and what it is worth."""
        return explain_walks(self)

    def accuracy(self) -> Accuracy:
        """Return how far it is from the kernel; its walks are walked again."""
        return accuracy(self)

    def _warn_of_few_walks(
        self, positions: NDArray[np.int64], found: NDArray[np.int64], values: NDArray[np.float64]
    ) -> None:
        """Warn where walks found too few neighbours, or the last one by few walks, at nodes of most edges."""
        k, last = found.shape[1], found[:, -1]
        complete = np.flatnonzero(last >= 0)
        ids, indptr = self.ids[positions[complete]], self.graph.indptr
        edges = indptr[ids + 1] - indptr[ids]
        hubs = complete[np.argsort(-edges, kind="stable")[:HUBS_CHECKED]]
        few = hubs[self._are_rare(positions[hubs], last[hubs], values[hubs, -1])]
        missing = np.flatnonzero(last < 0)
        for rows, trouble in (
            (missing, f"the walks found fewer than {k} similar nodes, and the remaining values are NaN, for"),
            (few, f"hardly a walk leads to the last of the {k} nodes found, and others may be nearer, for"),
        ):
            if rows.size:
                node = shown(self.graph.names(self.ids[positions[rows[:1]]])[0])
                others = f" and {rows.size - 1} other nodes" if rows.size > 1 else ""
                remedy = "Use more walks, or estimate_topk, which tells which of them are certain."
                warn(f"{trouble} node {node}{others}. {remedy}")

    def _are_rare(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Tell of entries whether hardly a walk contributes to them, where that can be told."""
        return np.zeros(rows.size, dtype=bool)

    def _product_errors(self, V: NDArray[np.float64]) -> tuple[NDArray[np.float64], int]:
        deviations, doubled = self.deviations(V, second_order=True)
        return standard_errors(deviations, doubled), deviations.shape[-1]


class FeatureOperator(WalkOperator):
    """K̂ = Φ₁Φ₂ᵀ + diag(correction).

    Parameters
    ----------
    left, right : FeatureMatrix, (n, c)
        Features of the row and of the column nodes; the c columns are any nodes that both have in common.
    groups : Groups
        The walks in groups, for error bars.
    correction : ndarray, (n,), optional
        What is added on the diagonal: minus the bias of shared walks.
    note : str
        Why the pair is not the symmetric one, for ``repr``.
    reached : ndarray of int64, (c,), optional
        The nodes that the columns of the features stand for; all nodes of the graph if not given.
    columns : ndarray of int64, optional
        The nodes of the columns of K̂, None for all of them; those of the rows if not given.
    """

    def __init__(
        self,
        graph: Graph,
        ids: NDArray[np.int64],
        left: FeatureMatrix,
        right: FeatureMatrix,
        *,
        groups: Groups,
        correction: NDArray[np.float64] | None = None,
        note: str = "",
        reached: NDArray[np.int64] | None = None,
        columns: Columns = SAME,
    ) -> None:
        super().__init__(graph, ids, columns)
        self.left, self.right, self.correction = left, right, correction
        self.groups, self.note, self._reached = groups, note, reached
        self._transposed: FeatureOperator | None = None

    @property
    def factors(self) -> tuple[FeatureOperator, ...]:
        """The operator itself."""
        return (self,)

    def _matmat(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        product = self.left.multiply(self.right.multiply_transposed(V))
        return product if self.correction is None else product + self.correction[:, None] * V

    def _tensor_matmat(self, V: Any) -> Any:
        if not (self.left.takes_tensors and self.right.takes_tensors):
            return super()._tensor_matmat(V)
        product: Any = self.left.multiply(self.right.multiply_transposed(V))
        if self.correction is None:
            return product
        return product + product.new_tensor(self.correction)[:, None] * V.to(product.device, product.dtype)

    def _transpose(self) -> FeatureOperator:
        if self.left is self.right:
            return self
        if self._transposed is None:
            transposed = FeatureOperator(
                self.graph, self.ids, self.right, self.left, groups=self.groups.transposed(),
                correction=self.correction, note=self.note, reached=self._reached,
            )  # fmt: skip
            transposed._transposed, self._transposed = self, transposed
        return self._transposed

    def _sparse_rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return rows of Φ₁Φ₂ᵀ."""
        return self.right.row_products(self.left.rows(positions))

    def _row_block(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        block = self._sparse_rows(positions).toarray()
        if self.correction is not None:
            block[np.arange(positions.size), positions] += self.correction[positions]
        return block

    def _entries(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        result = self.left.dots(self.right, rows, columns)
        if self.correction is not None:
            same = rows == columns
            result[same] += self.correction[rows[same]]
        return result

    def _entry_errors(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Return standard errors of entries, and where too few walks contribute to tell.

        They are the jackknife's, or those of the law of the walks where it tells of more.
        """
        self.groups.check_number()
        sides = self.groups.of_entries(self.ids[rows], self._column_ids(columns))
        errors, agree = self.groups.entry_errors(*sides)
        unseen, known = unseen_errors(self.groups, *(side.means() for side in sides))
        return np.maximum(errors, unseen), agree & ~known

    def _entry_estimate(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]
    ) -> Estimate:
        errors, few = self._entry_errors(rows, columns)
        errors = with_rounding(errors, values.ravel(), self.groups)
        sizes, beyond = np.abs(values.ravel()), largest_rest(self.groups)
        rare = (few & (beyond > MAX_RELATIVE_ERROR * sizes)) | (errors > MAX_RELATIVE_ERROR * sizes)
        limits = np.zeros(rows.size)
        if rare.any():
            limits[rare] = np.minimum(self._limits(rows[rare], columns[rare]), sizes[rare] + beyond)
        shape, n_groups = values.shape, self.groups.n_groups
        return Estimate(values, errors.reshape(shape), n_groups, rare.reshape(shape), limits.reshape(shape))

    def _limits(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return bounds of entries from the kernel itself: √(K_ii K_jj) where it is positive semidefinite."""
        if self.groups.right is None or not self.groups.left.is_symmetric:
            return np.full(rows.size, largest_norm(self.graph, self.kernel))
        nodes, where = np.unique(np.concatenate([rows, columns]), return_inverse=True)
        quantile = stdtrit(self.groups.n_groups - 1, 0.975)
        diagonal = self._entries(nodes, nodes) + quantile * self._entry_errors(nodes, nodes)[0]
        left, right = np.sqrt(np.maximum(diagonal, 0.0))[where].reshape(2, -1)
        return np.asarray(left * right)

    def deviations(
        self, V: NDArray[np.float64], *, second_order: bool = False
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return by how much groups of walks deviate in K V, and √T; all walks are walked again for each."""
        self.groups.check_number()
        return self.groups.deviations(
            self.left, self.right, V, reached=self._reached, second_order=second_order
        )

    def _topk_block(
        self, positions: NDArray[np.int64], found: NDArray[np.int64], values: NDArray[np.float64]
    ) -> None:
        block = self._sparse_rows(positions)
        for i, position in enumerate(self._own_columns(positions)):
            row = slice(block.indptr[i], block.indptr[i + 1])
            columns, scores = block.indices[row].astype(np.int64), block.data[row]
            kept = (scores > 0) & (columns != position)
            keep_best(columns[kept], scores[kept], found[i], values[i])

    def _are_rare(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        if self.groups.n_groups < 2 or not rows.size:
            return np.zeros(rows.size, dtype=bool)
        return self._entry_estimate(rows, columns, values).rare

    def _beyond_heads(self) -> float:
        return largest_rest(self.groups)


class LazyOperator(FeatureOperator):
    """K̂ = Φ₁ with f₁ = α, f₂ = δ₀: one walk set, unbiased, not symmetric; its rows reach all N columns."""

    def rows(self, nodes: Any) -> NDArray[np.float64]:
        """Return rows of K̂ over *all* nodes of the graph, dense, (len(nodes), n_nodes)."""
        positions = self.positions("nodes", nodes)
        shape = (positions.size, self.graph.n_nodes)
        fits_in_memory(shape, "Ask for fewer rows at a time.")
        if self._reached is None:
            return np.asarray(self.left.rows(positions).toarray())
        result = np.zeros(shape)
        result[:, self._reached] = self.left.rows(positions).toarray()
        return result


def debiasing(n_walks: int, group: int, norms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what turns ‖φ_i‖² into the mean of φ_i^(k)·φ_i^(l) over walks k, l of different groups.

    With m walks in groups of n_g and a head H, φ_i = H + R, R = (1/m) Σ_g n_g R^(g). That mean, a
    U-statistic, is ‖H‖² + 2 H·R + (m²‖R‖² − Σ_g n_g²‖R^(g)‖²) / (m² − Σ_g n_g²), and differs from ‖φ_i‖² in
    the last term alone; the columns of ``norms`` are Σ_g n_g²‖R^(g)‖² / m² and ‖R‖².
    """
    groups, whole = norms.T
    sizes = np.diff(np.append(np.arange(0, n_walks, group), n_walks))  # the last group may have fewer
    share = np.sum((sizes / n_walks) ** 2)
    return np.asarray((share * whole - groups) / (1 - share))
