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

import math
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from walkernel._threads import thread_count, threads_for
from walkernel.engines import CPU, Engine
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


class SparseFactor:
    """The factor of a sparse, symmetric and positive definite matrix A = PᵀRDRᵀP.

    Parameters
    ----------
    A : sparse array, (n, n)
    n_threads : int, optional
        Threads of a solution; None takes those of the process.

    Attributes
    ----------
    cost : int
        Multiplications of one solution for one column.
    log_determinant : float
        log det A.
    """

    def __init__(self, A: scipy.sparse.sparray, n_threads: int | None = None) -> None:
        symmetric = {"SymmetricMode": True}
        matrix = scipy.sparse.csc_array(A)
        found = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=symmetric)
        self._order, self._n_threads = np.argsort(found.perm_c), n_threads
        self._pivots = found.U.diagonal()
        lower = scipy.sparse.csc_array(found.L)
        lower.sort_indices()
        self._lower = (lower.indptr, lower.indices, lower.data)
        self.cost = 2 * int(lower.nnz)
        self.log_determinant = float(np.log(self._pivots).sum())

    def solve(self, V: NDArray[np.float64], times: int = 1) -> NDArray[np.float64]:
        """Return A^-times V, (n, c); threads over columns."""
        n_columns = V.shape[1]
        result = np.empty(V.shape)
        work = n_columns * times * self.cost
        forth, back = (loop.for_work(work // 2) for loop in (forward, backward))

        def solve(first: int) -> None:
            part = slice(first, min(first + BLOCK, n_columns))
            X = np.ascontiguousarray(V[self._order, part])
            for _ in range(times):
                forth(*self._lower, X)
                X /= self._pivots[:, None]
                back(*self._lower, X)
            result[self._order, part] = X

        starts = range(0, n_columns, BLOCK)
        threads = threads_for(work, thread_count(self._n_threads))
        with ThreadPoolExecutor(max(1, min(threads, len(starts)))) as pool:
            list(pool.map(solve, starts))
        return result

    def draw(self, white: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return PᵀR⁻ᵀD^-½ z for standard normal z, (n, c), whose covariance is A⁻¹."""
        X = np.ascontiguousarray(white / np.sqrt(self._pivots)[:, None])
        backward.for_work(X.size * self.cost // (2 * len(X)))(*self._lower, X)
        result = np.empty_like(X)
        result[self._order] = X
        return result


class SparsePrecision:
    """A kernel with a sparse inverse, with the methods of ``ChebyshevBasis``.

    Factors are made and used on the CPU, whatever the engine is.

    Attributes
    ----------
    graph, matrix, engine, isolated
        As those of ``ChebyshevBasis``.
    kernel : Kernel
        The kernel; ``resolvent_power`` is not None.
    """

    least_share = 1.0

    def __init__(self, graph: Graph, kernel: Kernel, engine: Engine | None = None) -> None:
        self.graph, self.kernel, self.matrix, self.engine = graph, kernel, kernel.matrix, engine or CPU()
        shift, self._power = kernel.resolvent_power()  # type: ignore[misc]
        self._scale = float(np.real(kernel.spectrum(np.ones(1))[0])) * shift**self._power
        self.isolated = isolated_nodes(graph)
        identity = scipy.sparse.eye_array(graph.n_nodes)
        self._A = scipy.sparse.csr_array((1 + shift) * identity - graph.to_scipy(kernel.matrix))
        self._factor = SparseFactor(self._A, self.engine.n_threads)

    @property
    def cost(self) -> int:
        """Multiplications of one product with one column."""
        return self._power * self._factor.cost

    @property
    def precision(self) -> scipy.sparse.csr_array:
        """K⁻¹, sparse."""
        result = self._A
        for _ in range(self._power - 1):
            result = result @ self._A
        return scipy.sparse.csr_array(result / self._scale)

    @property
    def log_determinant(self) -> float:
        """The logarithm of the determinant of K⁻¹."""
        return self._power * self._factor.log_determinant - self.graph.n_nodes * math.log(self._scale)

    def terms(self, function: Function, tol: float, max_terms: int) -> NDArray[np.float64]:
        """Return no coefficients: the kernel is fixed."""
        return np.empty(0)

    def block(
        self, terms: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return K[rows, columns]."""
        if rows.size < columns.size:
            return self.block(terms, columns, rows).T
        held = self.graph.n_nodes * columns.size <= MAX_HELD and self._power <= 3
        if held and np.array_equal(rows, columns):
            return self._scale * self.covariances(columns, self._power)[-1]
        result = np.empty((rows.size, columns.size))
        for first in range(0, columns.size, 8 * BLOCK):
            part = slice(first, min(first + 8 * BLOCK, columns.size))
            result[:, part] = self._factor.solve(self._units(columns[part]), self._power)[rows]
        return self._scale * result

    def covariances(self, ids: NDArray[np.int64], n_powers: int) -> list[NDArray[np.float64]]:
        """Return (sI + L)^-p between some nodes for p = 1 … n_powers, at most 3, (n, n) each."""
        once = self._factor.solve(self._units(ids))
        found = [once[ids]]
        if n_powers > 1:
            found.append(once.T @ once)
        if n_powers > 2:
            found.append(once.T @ self._factor.solve(once))
        return found

    def product(self, terms: NDArray[np.float64], V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return K V, (n_nodes, c)."""
        return self._scale * self._factor.solve(V, self._power)

    def diagonal(self, terms: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the diagonal of K, (n_nodes,), or None where it takes too long."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> NDArray[np.float64] | None:
        n = self.graph.n_nodes
        if n * self.cost > MAX_DIAGONAL_WORK:
            return None
        result = np.empty(n)
        for first in range(0, n, 8 * BLOCK):
            ids = np.arange(first, min(first + 8 * BLOCK, n))
            result[ids] = self._factor.solve(self._units(ids), self._power)[ids, ids - first]
        return self._scale * result

    def draw(self, terms: NDArray[np.float64], n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return draws of N(0, K), (n_nodes, n_draws): A^(−p/2) z, with a root of A⁻¹ for odd p."""
        white = rng.standard_normal((n_draws, self.graph.n_nodes)).T
        drawn = self._factor.draw(white) if self._power % 2 else white
        return math.sqrt(self._scale) * self._factor.solve(drawn, self._power // 2)

    def _units(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        units = np.zeros((self.graph.n_nodes, ids.size))
        units[ids, np.arange(ids.size)] = 1.0
        return units


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
