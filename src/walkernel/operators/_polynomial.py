"""Polynomials of the matrix: K v by sparse products, deterministic, in O(edges) memory.

They are Chebyshev series for undirected graphs and Taylor series for directed ones (``planning``), and
certified: ‖K v − K̂ v‖ ≤ tol · κ · ‖v‖. For symmetric M, κ is the maximum of |K| on the interval, whose ends
are ±1, or ±ρ(|A|) for the adjacency matrix, and the norm is the Euclidean one. For directed graphs,
κ = Σ |αₖ| ρᵏ, and the norm is the Euclidean one for the normalized matrix and a weighted maximum norm for the
others. For the random-walk matrix of any graph κ = Σ |αₖ|, and the norm is max |v_i|, or Σ |v_i| for Kᵀ.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import Described, check_instance, real_number, refuse
from walkernel._door import door
from walkernel._threads import thread_count
from walkernel.engines import CPU, Engine, resolve
from walkernel.features import FeatureMatrix, adjacency_bound, check_convergence
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators._base import KernelOperator
from walkernel.operators._chebyshev import as_array
from walkernel.operators._explanation import Explanation, megabytes
from walkernel.planning import Polynomial, suited_polynomial

MAX_COLUMNS, CACHED_ENTRIES = 32, 3 * 2**19
"""Columns of a product that are made together, and their entries for each thread: more than caches hold take
longer."""
MAX_DIAGONAL = 2**34
"""Multiplications that a diagonal, one unit vector for each node, may cost."""


class PolynomialOperator(KernelOperator):
    """K̂ = Σₖ cₖ pₖ(M): p₀ = 1, p₁ = x = M / unit, and p_{k+1} = 2x·pₖ − p_{k−1} or, for powers, x·pₖ.

    ``matrix`` is x, and ``held`` is x where the engine makes products; of a transpose, xᵀ takes its place.
    """

    def __init__(
        self,
        graph: Graph,
        kernel: Kernel,
        matrix: scipy.sparse.csr_array,
        polynomial: Polynomial,
        engine: Engine,
        held: FeatureMatrix,
        is_transposed: bool = False,
    ) -> None:
        super().__init__(graph, np.arange(graph.n_nodes))
        self._kernel, self.matrix, self.polynomial, self.engine = kernel, matrix, polynomial, engine
        self.held, self.is_transposed = held, is_transposed

    def __repr__(self) -> str:
        n = self.shape[0]
        return f"KernelOperator({n}x{n}, {self._kind})"

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self._kernel

    @property
    def _kind(self) -> str:
        name = "Chebyshev" if self.polynomial.is_chebyshev else "Taylor"
        return f"{name} polynomial of degree {self.polynomial.n_products}"

    def explain(self) -> Explanation:
        """Say in words and numbers what it is made of."""
        products, tol = self.polynomial.n_products, self.polynomial.tol
        n_bytes = self.matrix.data.nbytes + self.matrix.indices.nbytes + self.matrix.indptr.nbytes
        text = (
            f"A {self._kind} on {self.shape[0]} nodes, deterministic: K @ v takes "
            f"{products} sparse products, and its error is certified to be below {tol:.1g} times κ‖v‖.\n"
            f"{megabytes(n_bytes)}. It has no features, and rows and entries cost as much as products with "
            "the whole graph: for those, and for a few nodes, use estimate_kernel."
        )
        return Explanation(text, 0, n_bytes, tol, products)

    def _matmat(self, V: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.held.takes_tensors:
            with self.engine.in_use():
                return as_array(self._whole_sum(self._native(V)))
        size = columns_at_once(self.graph.n_nodes, self.engine.n_threads)
        if V.shape[1] <= size:
            return self._whole_sum(V)
        parts = [np.ascontiguousarray(V[:, i : i + size]) for i in range(0, V.shape[1], size)]
        return np.hstack([self._whole_sum(part) for part in parts])

    def _tensor_matmat(self, V: Any) -> Any:
        if not self.held.takes_tensors:
            return super()._tensor_matmat(V)
        with self.engine.in_use():
            return self._whole_sum(V.to(self.held.native.values()))

    def _native(self, V: NDArray[np.float64]) -> Any:
        """Return an array where products are made."""
        if not self.held.takes_tensors:
            return V
        return self.held.native.values().new_tensor(np.ascontiguousarray(V))

    def _whole_sum(self, V: Any) -> Any:
        *_, result = self._partial_sums(V)
        return result

    def _partial_sums(self, V: Any) -> Iterator[Any]:
        """Yield the sums of the first 1, 2, … terms of K V, always in the same array or tensor."""
        first, *others = self.polynomial.coefficients.tolist()
        result = first * V
        yield result
        before, current = V, V
        for k, c in enumerate(others, 1):
            product = self._multiply(current)
            if k > 1 and self.polynomial.is_chebyshev:
                product *= 2.0
                product -= before
            before, current = current, product
            result += c * current
            yield result

    def converging_rows(
        self, ids: NDArray[np.int64], first_error: float
    ) -> Generator[tuple[NDArray[np.float64], float], float, None]:
        """Yield rows, (len(ids), n), as soon as what they lack is down to an error, which may be sent anew.

        With them comes ε: the entry at (i, j) lacks at most ε · w_j / w_i, w being ``growth_of_entries``.
        """
        sizes = np.abs(self.polynomial.coefficients)
        rest = np.append(np.cumsum(sizes[::-1])[::-1][1:], 0.0) + self.polynomial.tol * sizes.sum()
        wanted = first_error * sizes.sum()
        transposed = self._transpose()
        with self.engine.in_use():
            for k, sums in enumerate(transposed._partial_sums(transposed._native(transposed._units(ids)))):
                if rest[k] <= wanted or k == rest.size - 1:
                    wanted = yield as_array(sums).T, float(rest[k])

    def growth_of_entries(self) -> NDArray[np.float64]:
        """Return w > 0, (n,), such that no entry of any term pₖ(x) at (i, j) is above w_j / w_i."""
        if self.kernel.matrix == "random-walk" and not self.graph.directed:
            degrees = self.graph.out_degrees()
            return np.sqrt(np.where(degrees > 0, degrees, 1.0))
        if self.kernel.matrix == "adjacency" and self.graph.directed:
            return np.asarray(1.0 / adjacency_bound(self.graph).vector)
        return np.ones(self.graph.n_nodes)

    def _multiply(self, X: Any) -> Any:
        """Return x X, or xᵀ X."""
        if not self.is_transposed:
            return self.held.multiply(X)
        return self.held.multiply_transposed(X) if self.held.takes_tensors else self.matrix.T @ X

    def _transpose(self) -> PolynomialOperator:
        if self.graph.is_symmetric(self.kernel.matrix):
            return self
        about = (self.graph, self.kernel, self.matrix, self.polynomial, self.engine, self.held)
        return PolynomialOperator(*about, not self.is_transposed)

    def _row_block(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._transpose()._matmat(self._units(positions)).T

    def _units(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return unit vectors, (n, len(positions))."""
        units = np.zeros((self.shape[0], positions.size))
        units[positions, np.arange(positions.size)] = 1.0
        return units

    def _entries(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        needed = np.unique(rows)
        cost = needed.size * self.polynomial.coefficients.size * (self.matrix.nnz + self.shape[0])
        if cost > MAX_DIAGONAL:
            refuse(
                "the entries asked for",
                "in few enough rows for a deterministic product",
                Described(f"{needed.size} rows of a graph of {self.shape[0]} nodes"),
                "Use estimate_kernel, whose entries and diagonal cost only their own walks.",
            )
        return super()._entries(rows, columns)


@door
def polynomial_operator(
    graph: Graph, kernel: Kernel, *, tol: float = 1e-10, engine: str | Engine | None = None
) -> KernelOperator:
    r"""Return a kernel as a deterministic operator: a polynomial of the matrix, certified to a tolerance.

    .. math:: \widehat{K} v = \sum_{k=0}^{n} c_k \, T_k(M / \rho) \, v, \qquad
        \| K v - \widehat{K} v \| \le \text{tol} \cdot \kappa \, \| v \|

    T_k are Chebyshev polynomials on an interval [−ρ, ρ] that contains the eigenvalues of M; directed graphs
    have the Taylor series instead. A product takes some tens of sparse products with M, and memory for M and
    some vectors. It beats walks by far for K @ v over a whole graph; single entries and rows cost as much as
    products.

    Parameters
    ----------
    graph : Graph
        The graph.
    kernel : Kernel
        The kernel; its series must converge on the graph.
    tol : float
        Certified error of K @ v relative to κ ‖v‖ with ``κ = max |K|`` on the interval of eigenvalues, or ``Σ
        |αₖ| ρᵏ`` for a directed graph and the random-walk matrix, whose norm is ``max |v_i|``, and ``Σ
        |v_i|`` for K.T @ v. Products take less time with a larger one. For very wide kernels the rounding of
        M to 16 digits costs more than that: ``K.explain().error`` is the error there is, and a warning tells
        where it is above 1e-8.
    engine : {None, "cpu", "cuda"}, CPU or CUDA
        Where products are computed, in double precision. None is the CPU.

    Returns
    -------
    KernelOperator
        Of shape (n_nodes, n_nodes).

    Raises
    ------
    DivergentKernelError
        If the series of the kernel diverges on the graph.

    See Also
    --------
    exact_kernel : The dense matrix, for graphs of some thousand nodes.
    estimate_kernel : The operator by walks.

    Examples
    --------
    >>> import numpy as np, walkernel as wk
    >>> graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])
    >>> K = wk.polynomial_operator(graph, wk.Diffusion(sigma=2.0))
    >>> (K @ np.ones(4)).round(4)
    array([0.9716, 0.9716, 1.2053, 0.7246])
    >>> bool(abs(K.to_dense() - wk.exact_kernel(graph, wk.Diffusion(sigma=2.0))).max() < 1e-9)
    True
    """
    check_instance("graph", graph, Graph)
    check_instance("kernel", kernel, Kernel)
    tol = real_number("tol", tol, above=0, below=1)
    where = polynomial_engine(engine)
    check_convergence(graph, kernel)
    M = graph.to_scipy(kernel.matrix)
    polynomial = suited_polynomial(graph, kernel, tol)
    scaled = M if polynomial.unit == 1.0 else M / polynomial.unit
    return PolynomialOperator(graph, kernel, scaled, polynomial, where, where.hold(scaled))


def columns_at_once(n_nodes: int, n_threads: int | None) -> int:
    """Return how many columns go through the recurrence together; results do not depend on it."""
    return min(MAX_COLUMNS, max(1, CACHED_ENTRIES * thread_count(n_threads) // max(1, n_nodes)))


def polynomial_engine(engine: str | Engine | None) -> Engine:
    """Return where products with a matrix are made: on the CPU, also where WALKERNEL_ENGINE names another."""
    found = CPU() if engine is None else resolve(engine)
    if not found.multiplies_matrices:
        refuse("engine", "None, a CPU or a CUDA device, where polynomials are computed", engine)
    with found.in_use():  # which refuses a device that is not there
        return found
