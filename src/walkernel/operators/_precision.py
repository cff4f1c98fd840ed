"""Kernels with a sparse inverse: one sparse factorisation serves any width.

K = c (sI + L)^-p with a whole number p, such as a Matérn kernel with ν = p, is the covariance of a Gaussian
Markov random field: K⁻¹ has entries between nodes within p hops only. With A = sI + L = (1 + s)I − M,
products with K are p solutions with A. On roads, grids and meshes the factor of A has few entries, however
wide K is, where the degree of a polynomial grows with the width.

SuperLU finds the order of elimination and the factor, A = PᵀRDRᵀP with R unit lower triangular. Its own
solution reads the factor once for each right-hand side; the loops below read it once for 32 of them, which
takes a sixth of the time on a grid of 90,000 nodes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from walkernel._threads import thread_count, threads_for
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators._chebyshev import Function, isolated_nodes
from walkernel.walks.compiling import compiled

BLOCK = 32
"""Columns that a thread solves for together."""
MAX_FRONT, MAX_FRONT_SHARE = 1000.0, 4.0
"""A factor counts as sparse if the front of an elimination is at most 1000 nodes, or 4√n_nodes."""
MAX_HELD = 2**25
"""Numbers in the columns of K^½ up to which a block of K is their product."""
MAX_DIAGONAL_WORK = 2**31
"""Multiplications that the exact diagonal may take."""


class SparsePrecision:
    """A kernel with a sparse inverse, with the methods of ``ChebyshevBasis``.

    Attributes
    ----------
    graph, matrix, isolated
        As those of ``ChebyshevBasis``.
    kernel : Kernel
        The kernel; ``resolvent_power`` is not None.
    """

    least_share = 1.0

    def __init__(self, graph: Graph, kernel: Kernel, n_threads: int | None = None) -> None:
        self.graph, self.kernel, self.matrix, self._n_threads = graph, kernel, kernel.matrix, n_threads
        shift, self._power = kernel.resolvent_power()  # type: ignore[misc]
        self._factor = float(np.real(kernel.spectrum(np.ones(1))[0])) * shift**self._power
        self.isolated = isolated_nodes(graph)
        identity = scipy.sparse.eye_array(graph.n_nodes)
        A = scipy.sparse.csc_array((1 + shift) * identity - graph.to_scipy(kernel.matrix))
        symmetric = {"SymmetricMode": True}
        found = splu(A, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)
        self._order = np.argsort(found.perm_c)
        self._pivots = found.U.diagonal()
        lower = scipy.sparse.csc_array(found.L)
        lower.sort_indices()
        self._lower = (lower.indptr, lower.indices, lower.data)

    @property
    def cost(self) -> int:
        """Multiplications of one solution for one column."""
        return 2 * int(self._lower[0][-1])

    def terms(self, function: Function, tol: float, max_terms: int) -> NDArray[np.float64]:
        """Return no coefficients: the kernel is fixed."""
        return np.empty(0)

    def block(
        self, terms: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return K[rows, columns]."""
        if rows.size < columns.size:
            return self.block(terms, columns, rows).T
        n = self.graph.n_nodes
        held = n * columns.size <= MAX_HELD and self._power <= 3
        if held and np.array_equal(rows, columns):
            return self._factor * self.covariances(columns, self._power)[-1]
        result = np.empty((rows.size, columns.size))
        for first in range(0, columns.size, 8 * BLOCK):
            part = slice(first, min(first + 8 * BLOCK, columns.size))
            result[:, part] = self._solved(self._units(columns[part]), self._power)[rows]
        return self._factor * result

    def covariances(self, ids: NDArray[np.int64], n_powers: int) -> list[NDArray[np.float64]]:
        """Return (sI + L)^-p between some nodes for p = 1 … n_powers, at most 3, (n, n) each."""
        once = self._solved(self._units(ids), 1)
        found = [once[ids]]
        if n_powers > 1:
            found.append(once.T @ once)
        if n_powers > 2:
            found.append(once.T @ self._solved(once.copy(), 1))
        return found

    def product(self, terms: NDArray[np.float64], V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return K V, (n_nodes, c)."""
        return self._factor * self._solved(np.array(V, order="C"), self._power)

    def diagonal(self, terms: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the diagonal of K, (n_nodes,), or None where it takes too long."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> NDArray[np.float64] | None:
        n = self.graph.n_nodes
        if n * self._power * self.cost > MAX_DIAGONAL_WORK:
            return None
        result = np.empty(n)
        for first in range(0, n, 8 * BLOCK):
            ids = np.arange(first, min(first + 8 * BLOCK, n))
            result[ids] = self._solved(self._units(ids), self._power)[ids, ids - first]
        return self._factor * result

    def draw(self, terms: NDArray[np.float64], n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return draws of N(0, K), (n_nodes, n_draws).

        For even p they are A^(−p/2) z with standard normal z. For odd p, z is replaced by PᵀR⁻ᵀD^-½ z, whose
        covariance is A⁻¹.
        """
        drawn = np.ascontiguousarray(rng.standard_normal((n_draws, self.graph.n_nodes)).T)
        if self._power % 2:
            drawn /= np.sqrt(self._pivots)[:, None]
            back = backward.for_work(drawn.shape[1] * self._lower[0][-1])
            back(*self._lower, drawn)
            drawn = self._unordered(drawn)
        return np.sqrt(self._factor) * self._solved(drawn, self._power // 2)

    def _units(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        units = np.zeros((self.graph.n_nodes, ids.size))
        units[ids, np.arange(ids.size)] = 1.0
        return units

    def _unordered(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        result = np.empty_like(X)
        result[self._order] = X
        return result

    def _solved(self, V: NDArray[np.float64], times: int) -> NDArray[np.float64]:
        """Replace V, (n_nodes, c), by A^-times V; threads over columns."""
        if times == 0:
            return V
        n_columns = V.shape[1]
        work = n_columns * times * self.cost
        forth, back = (loop.for_work(work // 2) for loop in (forward, backward))

        def solve(first: int) -> None:
            part = slice(first, min(first + BLOCK, n_columns))
            X = np.ascontiguousarray(V[self._order, part])
            for _ in range(times):
                forth(*self._lower, X)
                X /= self._pivots[:, None]
                back(*self._lower, X)
            V[self._order, part] = X

        starts = range(0, n_columns, BLOCK)
        with ThreadPoolExecutor(min(threads_for(work, thread_count(self._n_threads)), len(starts))) as pool:
            list(pool.map(solve, starts))
        return V


def has_sparse_factor(graph: Graph) -> bool:
    """Return whether few nodes separate the parts of an undirected graph, as those of roads and grids.

    The nodes are put in the order of Cuthill and McKee, which visits them from one end of the graph to the
    other; the front is the root mean square of how far back the neighbours of a node lie.
    """
    return graph.derived("has sparse factor", lambda: _has_sparse_factor(graph))


def _has_sparse_factor(graph: Graph) -> bool:
    if graph.directed:
        return False
    A = scipy.sparse.csr_matrix(graph.to_scipy("adjacency"))
    order = reverse_cuthill_mckee(A, symmetric_mode=True)
    place = np.empty(graph.n_nodes, dtype=np.int64)
    place[order] = np.arange(graph.n_nodes)
    front = np.zeros(graph.n_nodes)
    rows = graph.row_indices()
    np.maximum.at(front, place[rows], place[rows] - place[graph.indices])
    size = float(np.sqrt(np.mean(front**2)))
    return size <= max(MAX_FRONT, MAX_FRONT_SHARE * np.sqrt(graph.n_nodes))


@compiled
def forward(starts, rows, values, X):  # type: ignore[no-untyped-def]
    """Replace X by R⁻¹X; the diagonal of R comes first in each column."""
    for j in range(starts.size - 1):
        own = X[j]
        for e in range(starts[j] + 1, starts[j + 1]):
            weight, other = values[e], X[rows[e]]
            for c in range(own.size):
                other[c] -= weight * own[c]


@compiled
def backward(starts, rows, values, X):  # type: ignore[no-untyped-def]
    """Replace X by R⁻ᵀX."""
    for j in range(starts.size - 2, -1, -1):
        own = X[j]
        for e in range(starts[j] + 1, starts[j + 1]):
            weight, other = values[e], X[rows[e]]
            for c in range(own.size):
                own[c] -= weight * other[c]
