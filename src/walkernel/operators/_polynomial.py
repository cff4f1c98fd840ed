"""Polynomials of the matrix: K v by sparse products, deterministic, in O(edges) memory.

They are Chebyshev series for symmetric M and Taylor series for directed M (``planning``), and certified:
‖K v − K̂ v‖ ≤ tol · κ · ‖v‖. For symmetric M, κ is the maximum of |K| on the interval, whose ends are ±1, or
±ρ(|A|) for the adjacency matrix, and the norm is the Euclidean one. For directed M, κ = Σ |αₖ| ρᵏ, and the
norm is the Euclidean one for the normalized matrix and a weighted maximum norm for the others.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import Described, check_instance, real_number, refuse
from walkernel._door import door
from walkernel._threads import thread_count
from walkernel.engines import CPU, Engine, resolve
from walkernel.features import check_convergence, multiply
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators._base import KernelOperator
from walkernel.operators._explanation import Explanation, megabytes
from walkernel.planning import Polynomial, suited_polynomial

MAX_DIAGONAL = 2**34
"""Multiplications that a diagonal, one unit vector for each node, may cost."""


class PolynomialOperator(KernelOperator):
    """K̂ = Σₖ cₖ pₖ(M): p₀ = 1, p₁ = x = M / unit, and for directed graphs p_{k+1} = x·pₖ, the powers.

    For undirected ones p_{k+1} = 2x·pₖ − p_{k−1}, the Chebyshev polynomials. ``matrix`` is M / unit.
    """

    def __init__(
        self, graph: Graph, matrix: scipy.sparse.sparray, polynomial: Polynomial, n_threads: int | None = None
    ) -> None:
        super().__init__(graph, np.arange(graph.n_nodes))
        self.matrix, self.polynomial, self.n_threads = matrix, polynomial, n_threads

    def __repr__(self) -> str:
        n = self.shape[0]
        return f"KernelOperator({n}x{n}, {self._kind})"

    @property
    def _kind(self) -> str:
        name = "Taylor" if self.graph.directed else "Chebyshev"
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
        c = self.polynomial.coefficients
        result = c[0] * V
        before, current = V, V
        for k in range(1, c.size):
            product = self._multiply(current)
            if k > 1 and not self.graph.directed:
                product = 2.0 * product - before
            before, current = current, product
            result += c[k] * current
        return result

    def _multiply(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return M X, threads over rows; Mᵀ is kept by columns, whose sums are made in turn."""
        if self.matrix.format != "csr":
            return np.asarray(self.matrix @ X)
        return multiply(self.matrix, X, thread_count(self.n_threads))

    def _transpose(self) -> PolynomialOperator:
        if not self.graph.directed:
            return self
        return PolynomialOperator(self.graph, self.matrix.T, self.polynomial, self.n_threads)

    def _row_block(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        units = np.zeros((self.shape[0], positions.size))
        units[positions, np.arange(positions.size)] = 1.0
        return self._transpose()._matmat(units).T

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
    """Return K as a deterministic operator: each product costs some tens of products with M.

    For K @ v over a whole graph it beats walks by far; walks serve explicit features, a few nodes of a
    huge graph, many kernels at once.

    Parameters
    ----------
    graph : Graph
        The graph.
    kernel : Kernel
        The kernel; its series must converge on the graph.
    tol : float
        Certified error of K @ v relative to κ ‖v‖ with κ = max|K| on the interval of eigenvalues, or
        Σ |αₖ| ρᵏ for a directed graph. For very wide kernels the rounding of M to 16 digits costs more than
        that: ``K.explain().error`` is the error there is, and a warning says where it is above 1e-8.
    engine : {None, "cpu"} or CPU
        Where products are computed: on the CPU only, as yet.

    Examples
    --------
    >>> import numpy as np, walkernel as wk
    >>> graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])
    >>> K = wk.polynomial_operator(graph, wk.Diffusion(sigma=2.0))
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
    return PolynomialOperator(graph, scaled, polynomial, where.n_threads)


def polynomial_engine(engine: str | Engine | None) -> CPU:
    """Return where polynomials are computed: on the CPU, also where WALKERNEL_ENGINE names another one."""
    found = CPU() if engine is None else resolve(engine)
    if not isinstance(found, CPU):
        refuse("engine", "None or walkernel.engines.CPU(), where polynomials are computed", engine)
    return found
