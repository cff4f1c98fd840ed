"""Chebyshev polynomials of a symmetric matrix: one recurrence serves every kernel.

With x = M / unit, whose eigenvalues lie in [−1, 1], T₀ = I, T₁ = x and T_{k+1} = 2x T_k − T_{k−1}. A kernel
is K = Σ_k c_k T_k, and only the numbers c_k depend on it. So the moments T_k[S, S] of some nodes S,
computed once, give the covariance of S under every kernel and every lengthscale as a linear combination.
The recurrence is stable: rounding changes an entry of T_k by about √k units of rounding of the largest
entries in its column.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._threads import thread_count, threads_for
from walkernel.features import spectral_radius
from walkernel.graph import Graph
from walkernel.walks.compiling import compiled

BLOCK = 32
"""Columns that a thread carries through the recurrence together."""
MAX_DOUBLE_WORK = 2**34
"""Multiplications up to which the recurrence runs in double precision; single precision is twice as fast."""
MIN_SINGLE_SHARE = 1e-6
"""Least variance at a node, relative to the largest eigenvalue of K, that single precision resolves."""

Visit = Callable[[int, slice, NDArray[Any]], None]
"""Takes k, a range of columns, and T_k V of these columns, which the next step overwrites."""


class ChebyshevBasis:
    """The Chebyshev polynomials of M = ``graph.to_scipy(matrix)``, symmetric.

    Attributes
    ----------
    graph : Graph
    matrix : str
        Name of M.
    unit : float
        A bound of the absolute eigenvalues of M.
    isolated : ndarray of bool, (n_nodes,)
        Nodes without neighbours: their rows of M are zero.
    least_share : float
        K_ii is at least this share of K's value at the eigenvalue 1, for all i that are not isolated: the
        square of the eigenvector to this eigenvalue. No share is known of the adjacency matrix.
    """

    def __init__(self, graph: Graph, matrix: str, n_threads: int | None = None) -> None:
        self.graph, self.matrix, self._n_threads = graph, matrix, n_threads
        self.unit = spectral_radius(graph, matrix) or 1.0
        degrees = np.asarray(abs(graph.to_scipy("adjacency")).sum(axis=1)).ravel()
        self.isolated = degrees == 0
        shares = {
            "normalized": degrees[~self.isolated].min(initial=np.inf) / max(degrees.sum(), 1.0),
            "combinatorial": 1 / graph.n_nodes,
        }
        self.least_share = float(min(1.0, max(shares.get(matrix, 0.0), 1e-10)))
        self._twice = scipy.sparse.csr_array(2.0 * graph.to_scipy(matrix) / self.unit)

    @property
    def cost(self) -> int:
        """Multiplications that one step takes for one column."""
        return int(self._twice.nnz + self.graph.n_nodes)

    def moments(self, ids: NDArray[np.int64], n_terms: int) -> NDArray[np.float32]:
        """Return T_k[S, S] of some nodes for all k < n_terms, (n_terms, n, n)."""
        result = np.empty((n_terms, ids.size, ids.size), dtype=np.float32)

        def visit(k: int, part: slice, current: NDArray[Any]) -> None:
            result[k, :, part] = current[ids]

        self._recur(ids.size, n_terms, visit, self._unit_vectors(ids))
        return result

    def block(
        self, terms: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return K[rows, columns] for K = Σ_k terms_k T_k; the shorter side goes through the recurrence."""
        if rows.size < columns.size:
            return self.block(terms, columns, rows).T
        result = np.zeros((rows.size, columns.size))

        def visit(k: int, part: slice, current: NDArray[Any]) -> None:
            if terms[k]:
                result[:, part] += terms[k] * current[rows]

        self._recur(columns.size, terms.size, visit, self._unit_vectors(columns))
        return result

    def product(self, terms: NDArray[np.float64], V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Σ_k terms_k T_k V, (n_nodes, c)."""
        result = np.zeros(V.shape)

        def visit(k: int, part: slice, current: NDArray[Any]) -> None:
            if terms[k]:
                result[:, part] += terms[k] * current

        self._recur(V.shape[1], terms.size, visit, lambda part: V[:, part])
        return result

    def _unit_vectors(self, ids: NDArray[np.int64]) -> Callable[[slice], NDArray[np.float64]]:
        def columns(part: slice) -> NDArray[np.float64]:
            units = np.zeros((self.graph.n_nodes, part.stop - part.start))
            units[ids[part], np.arange(units.shape[1])] = 1.0
            return units

        return columns

    def _recur(
        self, n_columns: int, n_terms: int, visit: Visit, start: Callable[[slice], NDArray[Any]]
    ) -> None:
        """Visit T_k V for k < n_terms, threads over blocks of columns."""
        work_in_all = n_columns * n_terms * self.cost
        exact = work_in_all <= MAX_DOUBLE_WORK or self.least_share < MIN_SINGLE_SHARE
        dtype = np.float64 if exact else np.float32
        twice = self._twice.astype(dtype)

        def work(first: int) -> None:
            part = slice(first, min(first + BLOCK, n_columns))
            before = np.array(start(part), dtype=dtype, order="C")
            visit(0, part, before)
            if n_terms == 1:
                return
            current = np.asarray(twice @ before) / 2
            visit(1, part, current)
            step = advance.for_work((n_terms - 2) * twice.nnz * current.shape[1])
            for k in range(2, n_terms):
                step(twice.indptr, twice.indices, twice.data, current, before)
                before, current = current, before
                visit(k, part, current)

        starts = range(0, n_columns, BLOCK)
        threads = threads_for(work_in_all, thread_count(self._n_threads))
        with ThreadPoolExecutor(min(threads, max(1, len(starts)))) as pool:
            list(pool.map(work, starts))


@compiled
def advance(indptr, indices, data, current, before):  # type: ignore[no-untyped-def]
    """Replace T_{k−1} V by T_{k+1} V = 2x T_k V − T_{k−1} V, row by row; ``data`` holds 2x."""
    for i in range(indptr.size - 1):
        row = before[i]
        for c in range(row.size):
            row[c] = -row[c]
        for e in range(indptr[i], indptr[i + 1]):
            weight, other = data[e], current[indices[e]]
            for c in range(row.size):
                row[c] += weight * other[c]
