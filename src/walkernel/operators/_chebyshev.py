"""Chebyshev polynomials of a symmetric matrix: one recurrence serves every kernel.

With x = M / unit, whose eigenvalues lie in [−1, 1], T₀ = I, T₁ = x and T_{k+1} = 2x T_k − T_{k−1}. A kernel
is K = Σ_k c_k T_k, and only the numbers c_k depend on it. So the moments T_k[S, S] of some nodes S,
computed once, give the covariance of S under every kernel and every lengthscale as a linear combination.
The recurrence is stable: rounding changes an entry of T_k by about √k units of rounding of the largest
entries in its column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._threads import thread_count, threads_for
from walkernel.engines import CPU, Engine
from walkernel.features import FeatureMatrix, spectral_radius
from walkernel.graph import Graph
from walkernel.planning import chebyshev_terms
from walkernel.walks.compiling import compiled

BLOCK = 32
"""Columns that a thread carries through the recurrence together."""
DEVICE_BLOCK, DEVICE_ENTRIES = 1024, 2**27
"""Columns that a device carries through it together at most, and their entries."""
MAX_DOUBLE_WORK = 2**34
"""Multiplications up to which the recurrence runs in double precision; single precision is twice as fast."""
MIN_SINGLE_SHARE = 1e-6
"""Least variance at a node, relative to the largest eigenvalue of K, that single precision resolves."""
Function = Callable[[NDArray[np.float64]], NDArray[np.float64]]
"""A function of eigenvalues."""
States = dict[int, tuple[int, Any, Any]]
"""For each block of columns, the number of terms that were visited, and the last two of them."""
MANY_TERMS = 512
"""Terms that a recurrence which may be continued is expected to have."""
Terms = Iterator[tuple[int, Any]]
"""Each k with T_k V of some columns, which the next step overwrites."""


class ChebyshevBasis:
    """The Chebyshev polynomials of M = ``graph.to_scipy(matrix)``, symmetric.

    Attributes
    ----------
    graph : Graph
    matrix : str
        Name of M.
    engine : Engine
        Where the recurrence is computed: by the threads of a CPU, or on a device in double precision.
    unit : float
        A bound of the absolute eigenvalues of M.
    isolated : ndarray of bool, (n_nodes,)
        Nodes without neighbours: their rows of M are zero.
    least_share : float
        K_ii is at least this share of K's value at the eigenvalue 1, for all i that are not isolated: the
        square of the eigenvector to this eigenvalue. No share is known of the adjacency matrix.
    """

    def __init__(self, graph: Graph, matrix: str, engine: Engine | None = None) -> None:
        self.graph, self.matrix, self.engine = graph, matrix, engine or CPU()
        self.unit = spectral_radius(graph, matrix) or 1.0
        self.isolated = isolated_nodes(graph)
        degrees = graph.out_degrees()
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

    def moments(
        self, ids: NDArray[np.int64], n_terms: int, states: States | None = None, first: int = 0
    ) -> NDArray[Any]:
        """Return T_k[S, S] of some nodes for first ≤ k < n_terms, for ``covariance``: a row for each k.

        A row has the columns of T_k[S, S] from the diagonal down, some columns at a time, in the precision of
        the recurrence. ``states``, a dictionary, keeps the state of the recurrence, to be continued from
        ``first`` later.
        """
        n, places = ids.size, self._places(ids.size)
        width = places[max(places)].stop
        result = np.empty((n_terms - first, width), dtype=self._precision(n, n_terms, states))

        def keep(part: slice, terms: Terms) -> None:
            for k, current in terms:
                if k >= first:
                    result[k - first, places[part.start]] = as_array(current[ids[part.start :]]).ravel()

        self._recur(n, n_terms, keep, self._unit_vectors(ids), states)
        return result

    def covariance(self, terms: NDArray[np.float64], moments: NDArray[Any], n: int) -> NDArray[np.float64]:
        """Return K[S, S] = Σ_k terms_k T_k[S, S] of n nodes, (n, n), from their moments."""
        sums = np.asarray(terms.astype(moments.dtype) @ moments[: terms.size], dtype=np.float64)
        result, places = np.empty((n, n)), self._places(n)
        for part in self._parts(n):
            result[part.start :, part] = sums[places[part.start]].reshape(n - part.start, -1)
            result[part, part.stop :] = result[part.stop :, part].T
        return (result + result.T) / 2

    def _places(self, n: int) -> dict[int, slice]:
        """Return where a row of moments has the columns that begin with each key, from the diagonal down."""
        places, end = {}, 0
        for part in self._parts(n):
            begin, end = end, end + (n - part.start) * (part.stop - part.start)
            places[part.start] = slice(begin, end)
        return places

    def block(
        self, terms: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return K[rows, columns] for K = Σ_k terms_k T_k; the shorter side goes through the recurrence."""
        if rows.size < columns.size:
            return self.block(terms, columns, rows).T
        return self._sum(terms, columns.size, self._unit_vectors(columns), rows)

    def product(self, terms: NDArray[np.float64], V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return Σ_k terms_k T_k V, (n_nodes, c)."""
        return self._sum(terms, V.shape[1], lambda part: self._native(V[:, part]))

    def terms(self, function: Function, tol: float, max_terms: int) -> NDArray[np.float64] | None:
        """Return coefficients of function(M), or None if more than ``max_terms`` would be needed."""
        return chebyshev_terms(function, self.unit, tol, max_terms)

    def diagonal(self, terms: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return None: the diagonal takes a column of the recurrence for each node."""
        return None

    def squared_norms(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the diagonal of Ψ² for Ψ = Σ_k terms_k T_k, (n_nodes,), from all its columns."""
        n = self.graph.n_nodes
        result = np.empty(n)
        for first in range(0, n, 8 * BLOCK):
            ids = np.arange(first, min(first + 8 * BLOCK, n))
            units = np.zeros((n, ids.size))
            units[ids, np.arange(ids.size)] = 1.0
            columns = self.product(terms, units)
            result[ids] = np.einsum("ij,ij->j", columns, columns)
        return result

    def draw(self, terms: NDArray[np.float64], n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return Ψz for Ψ = Σ_k terms_k T_k and standard normal z, (n_nodes, n_draws)."""
        return self.product(terms, rng.standard_normal((n_draws, self.graph.n_nodes)).T)

    @cached_property
    def _held(self) -> FeatureMatrix:
        """2x where the engine makes products."""
        return self.engine.hold(self._twice)

    def _native(self, X: NDArray[np.float64]) -> Any:
        """Return columns where the recurrence is computed."""
        if not self._held.takes_tensors:
            return X
        return self._held.native.values().new_tensor(np.ascontiguousarray(X))

    def _zeros(self, n_rows: int, n_columns: int) -> Any:
        """Return zeros where the recurrence is computed."""
        if self._held.takes_tensors:
            return self._held.native.values().new_zeros(n_rows, n_columns)
        return np.zeros((n_rows, n_columns))

    def _unit_vectors(self, ids: NDArray[np.int64]) -> Callable[[slice], Any]:
        def columns(part: slice) -> Any:
            units = self._zeros(self.graph.n_nodes, part.stop - part.start)
            units[ids[part], np.arange(part.stop - part.start)] = 1.0
            return units

        return columns

    def _sum(
        self,
        coefficients: NDArray[np.float64],
        n_columns: int,
        start: Callable[[slice], Any],
        rows: NDArray[np.int64] | None = None,
    ) -> NDArray[np.float64]:
        """Return Σ_k c_k T_k V at some rows, or at all."""
        result = np.empty((self.graph.n_nodes if rows is None else rows.size, n_columns))

        def add(part: slice, terms: Terms) -> None:
            total = self._zeros(len(result), part.stop - part.start)
            for k, current in terms:
                if coefficients[k]:
                    total += (current if rows is None else current[rows]) * coefficients[k]
            result[:, part] = as_array(total)

        self._recur(n_columns, coefficients.size, add, start)
        return result

    def _recur(
        self,
        n_columns: int,
        n_terms: int,
        use: Callable[[slice, Terms], None],
        start: Callable[[slice], Any],
        states: States | None = None,
    ) -> None:
        """Let T_k V be used for k < n_terms, or those that states have not seen, some columns at a time.

        A CPU has threads over columns, and single precision for much work.
        """
        parts = self._parts(n_columns)
        if self._held.takes_tensors:
            with self.engine.in_use():
                for part in parts:
                    use(part, _terms(part, n_terms, start, self._follow_on_device, states))
            return
        twice = self._twice.astype(self._precision(n_columns, n_terms, states))
        step = advance.for_work(n_terms * twice.nnz * n_columns)

        def begin(part: slice) -> NDArray[Any]:
            return np.array(start(part), dtype=twice.dtype, order="C")

        def follow(current: NDArray[Any], before: NDArray[Any]) -> NDArray[Any]:
            step(twice.indptr, twice.indices, twice.data, current, before)
            return before

        threads = threads_for(self._work(n_columns, n_terms, states), thread_count(self.engine.n_threads))
        with ThreadPoolExecutor(min(threads, max(1, len(parts)))) as pool:
            list(pool.map(lambda part: use(part, _terms(part, n_terms, begin, follow, states)), parts))

    def _parts(self, n_columns: int) -> list[slice]:
        """Return the ranges of columns that go through the recurrence together."""
        size = BLOCK
        if self._held.takes_tensors:
            size = max(BLOCK, min(DEVICE_BLOCK, DEVICE_ENTRIES // self.graph.n_nodes))
        return [slice(i, min(i + size, n_columns)) for i in range(0, n_columns, size)]

    def _work(self, n_columns: int, n_terms: int, states: States | None) -> int:
        """Return the multiplications of a recurrence, with those of its likely continuation."""
        return n_columns * (n_terms if states is None else max(n_terms, MANY_TERMS)) * self.cost

    def _precision(self, n_columns: int, n_terms: int, states: States | None) -> type[np.floating[Any]]:
        """Return the precision of a recurrence: single for much work, if that resolves all variances."""
        much = self._work(n_columns, n_terms, states) > MAX_DOUBLE_WORK
        single = much and self.least_share >= MIN_SINGLE_SHARE and not self._held.takes_tensors
        return np.float32 if single else np.float64

    def _follow_on_device(self, current: Any, before: Any) -> Any:
        following = self._held.multiply(current)
        following -= before
        return following


def _terms(
    part: slice,
    n_terms: int,
    start: Callable[[slice], Any],
    follow: Callable[[Any, Any], Any],
    states: States | None,
) -> Terms:
    """Yield k and T_k V of some columns; ``follow`` makes the next of the last two, and may overwrite one."""
    if states and part.start in states:
        done, before, current = states[part.start]
    else:
        before = start(part)
        yield 0, before
        if n_terms == 1:
            return
        done, current = 2, follow(before, 0 * before) / 2
        yield 1, current
    for k in range(done, n_terms):
        before, current = current, follow(current, before)
        yield k, current
    if states is not None:
        states[part.start] = (n_terms, before, current)


def as_array(X: Any) -> NDArray[Any]:
    """Return an array, or a tensor of any device, as an array."""
    return X if isinstance(X, np.ndarray) else np.asarray(X.cpu())


def isolated_nodes(graph: Graph) -> NDArray[np.bool_]:
    """Return which nodes have no neighbours and no loop, (n_nodes,)."""
    return np.asarray(graph.out_degrees() == 0)


class LeadingEigenvectors:
    """Functions of M in the span of its leading eigenvectors, with the methods of ``ChebyshevBasis``.

    A wide kernel K lives on few eigenvectors. They are found in the range of K(M) applied to as many random
    columns (Rayleigh and Ritz), and serve K and all kernels that are wider.

    Attributes
    ----------
    graph, matrix, engine, isolated, least_share
        As those of the basis that it is made of.
    values : ndarray, (r,)
        Eigenvalues.
    vectors : ndarray, (n_nodes, r)
        Eigenvectors.
    """

    def __init__(self, basis: ChebyshevBasis, terms: NDArray[np.float64], rank: int) -> None:
        self.graph, self.matrix, self.engine = basis.graph, basis.matrix, basis.engine
        self.isolated, self.least_share = basis.isolated, basis.least_share
        M = basis.graph.to_scipy(basis.matrix)
        span, _ = np.linalg.qr(basis.draw(terms, rank, np.random.default_rng(0)))
        projected = span.T @ (M @ span)
        self.values, rotation = np.linalg.eigh((projected + projected.T) / 2)
        self.vectors = span @ rotation

    def terms(self, function: Function, tol: float, max_terms: int) -> NDArray[np.float64]:
        """Return the function at the eigenvalues."""
        return function(self.values)

    def block(
        self, terms: NDArray[np.float64], rows: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return K[rows, columns] for K with eigenvalues ``terms``."""
        return np.asarray((self.vectors[rows] * terms) @ self.vectors[columns].T)

    def product(self, terms: NDArray[np.float64], V: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return K V, (n_nodes, c)."""
        return np.asarray(self.vectors @ (terms[:, None] * (self.vectors.T @ V)))

    def diagonal(self, terms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the diagonal of K, (n_nodes,)."""
        return np.asarray(self.vectors**2 @ terms)

    def draw(self, terms: NDArray[np.float64], n_draws: int, rng: np.random.Generator) -> NDArray[np.float64]:
        """Return a draw of N(0, Ψ²) for Ψ with eigenvalues ``terms``, (n_nodes, n_draws)."""
        return np.asarray((self.vectors * terms) @ rng.standard_normal((terms.size, n_draws)))


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
