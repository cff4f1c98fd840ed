"""Leading eigenvectors of W̃, the normalized matrix: those of the smallest eigenvalues of L = I − W̃.

Every connected component has an eigenvalue of exactly 1, whose eigenvector √d is known. In a graph with many
components, these would be all the leading eigenvectors. So they are kept apart, as one sparse column each,
and have the eigenvalue −2 in the matrix whose leading eigenvectors are computed.

On roads, grids and meshes the eigenvalues lie so close to 1 that Lanczos iterations with W̃ would take
thousands of products. There few nodes separate the graph, and iterations with (sI + L)⁻¹ take some tens of
solutions with a sparse factor (``_precision``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

from walkernel._checks import fits_in_memory
from walkernel.graph import Graph
from walkernel.operators._precision import SparseFactor, has_sparse_factor

ROUGH = 1e-3
"""Accuracy of eigenvectors for which products in single precision do."""
FEW_NODES = 128
"""Nodes up to which all eigenvectors are computed, from a dense matrix."""
SHIFT = 1e-10
"""s: small beside the eigenvalues of L, which are 1e-7 on a million junctions, and large beside rounding."""


class Eigenvectors(NamedTuple):
    """Eigenvectors of W̃: those of components, sparse, and the leading others with their eigenvalues."""

    components: scipy.sparse.csr_array  # (n_nodes, n_components), one entry in each row
    values: NDArray[np.float64]  # (count,), falling
    vectors: NDArray[np.float64]  # (n_nodes, count)


def leading_eigenvectors(graph: Graph, count: int, tolerance: float = ROUGH) -> Eigenvectors:
    """Return the leading eigenvectors of an undirected graph without negative weights.

    Parameters
    ----------
    count : int
        How many; fewer if there are no more.
    tolerance : float
        Largest norm of W̃v − λv, about. Down to 1e-3, products are made in single precision.
    """
    n = graph.n_nodes
    M = graph.to_scipy("normalized")
    components = component_vectors(graph, M)
    count = min(count, n - components.shape[1])
    if count == 0:
        return Eigenvectors(components, np.empty(0), np.empty((n, 0)))
    if n <= max(4 * count, FEW_NODES if tolerance < ROUGH else 0):
        values, vectors = np.linalg.eigh(M.toarray() - 3 * (components @ components.T).toarray())
    else:
        fits_in_memory((n, 2 * count + 1), "Use fewer of them, or method='walks' for clusters.")
        if tolerance < ROUGH and has_sparse_factor(graph):
            values, vectors = _by_solutions(M, components, count, tolerance)
        else:
            values, vectors = _by_products(M, components, count, tolerance)
    order = np.argsort(-values, kind="stable")[:count]
    values = np.clip(values[order].astype(np.float64), -1.0, 1.0)
    return Eigenvectors(components, values, vectors[:, order].astype(np.float64))


def component_vectors(graph: Graph, M: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return the eigenvectors of W̃ to the eigenvalue 1, one column for each connected component."""
    n_components, component = connected_components(M, directed=False)
    degrees = graph.out_degrees()
    roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))  # a node without edges is a component of its own
    roots /= np.sqrt(np.bincount(component, roots**2))[component]
    entries = (roots, (np.arange(graph.n_nodes), component))
    return scipy.sparse.csr_array(entries, shape=(graph.n_nodes, n_components))


def _by_products(
    M: scipy.sparse.csr_array, components: scipy.sparse.csr_array, count: int, tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues and eigenvectors from Lanczos iterations with the matrix."""
    n, precision = M.shape[0], np.float32 if tolerance >= ROUGH else np.float64
    matrix, known = M.astype(precision), components.astype(precision)
    known_rows = precision(3) * known.T

    def multiply(x: NDArray[np.floating]) -> NDArray[np.floating]:
        return matrix @ x - known @ (known_rows @ x)

    operator = LinearOperator((n, n), matvec=multiply, dtype=precision)
    start = np.random.default_rng(0).normal(size=n).astype(precision)
    values, vectors = eigsh(operator, count, which="LA", v0=start, tol=tolerance)
    return values, vectors


def _by_solutions(
    M: scipy.sparse.csr_array, components: scipy.sparse.csr_array, count: int, tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues and eigenvectors from Lanczos iterations with (sI + L)⁻¹ beside the components."""
    n = M.shape[0]
    factor = SparseFactor((1.0 + SHIFT) * scipy.sparse.eye_array(n) - M)

    def solve(x: NDArray[np.float64]) -> NDArray[np.float64]:
        solution = factor.solve((x - components @ (components.T @ x))[:, None]).ravel()
        return np.asarray(solution - components @ (components.T @ solution))

    operator = LinearOperator((n, n), matvec=solve, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=n)
    inverses, vectors = eigsh(operator, count, which="LA", v0=start, tol=tolerance)
    return 1.0 + SHIFT - 1.0 / inverses, vectors
