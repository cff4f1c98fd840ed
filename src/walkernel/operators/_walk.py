"""The walk engine: K̂ = Φ₁Φ₂ᵀ + diag(correction) from sparse features, never multiplied out."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import fits_in_memory
from walkernel.graph import Graph
from walkernel.operators._base import KernelOperator, keep_best

ENTRIES_AT_ONCE = 2**16


class FeatureOperator(KernelOperator):
    """K̂ = Φ₁Φ₂ᵀ + diag(correction).

    Parameters
    ----------
    left, right : csr_array, (n, N)
        Features of the row and of the column nodes.
    correction : ndarray, (n,), optional
        What is added on the diagonal: minus the bias of shared walks.
    pair, ensembles : str
        How the two sides came about, for ``repr``.
    """

    def __init__(
        self,
        graph: Graph,
        ids: NDArray[np.int64],
        left: scipy.sparse.csr_array,
        right: scipy.sparse.csr_array,
        *,
        correction: NDArray[np.float64] | None = None,
        pair: str = "symmetric",
        ensembles: str = "independent",
        note: str = "",
    ) -> None:
        super().__init__(graph, ids)
        self.left, self.right, self.correction = left, right, correction
        self.pair, self.ensembles, self.note = pair, ensembles, note

    def __repr__(self) -> str:
        n = self.shape[0]
        about = f"{n}x{n}, pair={self.pair!r}, ensembles={self.ensembles!r}"
        return f"KernelOperator({about}{'; ' + self.note if self.note else ''})"

    def _matmat(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        product = self.left @ (self.right.T @ V)
        return product if self.correction is None else product + self.correction[:, None] * V

    def _transpose(self) -> FeatureOperator:
        return FeatureOperator(
            self.graph, self.ids, self.right, self.left,
            correction=self.correction, pair=self.pair, ensembles=self.ensembles, note=self.note,
        )  # fmt: skip

    def _rows(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        block = (self.left[positions] @ self.right.T).toarray()
        if self.correction is not None:
            block[np.arange(positions.size), positions] += self.correction[positions]
        return np.asarray(block)

    def _entries(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        result = np.empty(rows.size)
        for first in range(0, rows.size, ENTRIES_AT_ONCE):
            part = slice(first, first + ENTRIES_AT_ONCE)
            result[part] = self.left[rows[part]].multiply(self.right[columns[part]]).sum(axis=1)
        if self.correction is not None:
            same = rows == columns
            result[same] += self.correction[rows[same]]
        return result

    def _topk_block(
        self, positions: NDArray[np.int64], found: NDArray[np.int64], values: NDArray[np.float64]
    ) -> None:
        block = self.left[positions] @ self.right.T
        for i, position in enumerate(positions):
            row = slice(block.indptr[i], block.indptr[i + 1])
            columns, scores = block.indices[row].astype(np.int64), block.data[row]
            kept = (scores > 0) & (columns != position)
            keep_best(columns[kept], scores[kept], found[i], values[i])


class LazyOperator(FeatureOperator):
    """K̂ = Φ₁ with f₁ = α, f₂ = δ₀: one walk set, unbiased, not symmetric; its rows reach all N columns."""

    def rows(self, nodes: Any) -> NDArray[np.float64]:
        """Return rows of K̂ over *all* nodes of the graph, dense, (len(nodes), n_nodes)."""
        positions = self._row_positions("rows", nodes)
        fits_in_memory("rows", (positions.size, self.left.shape[1]), "Ask for fewer rows at a time.")
        return np.asarray(self.left[positions].toarray())
