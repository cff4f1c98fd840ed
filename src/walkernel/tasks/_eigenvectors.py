"""Leading eigenvectors of W̃, the normalized matrix: features of wide kernels, and the number of clusters.

K = Σ K(λ) v vᵀ over the eigenvectors of W̃, so that the rows of V √K(λ) are features of K. A kernel that is
wide enough to tell clusters apart has nearly all its weight on the eigenvalues next to 1.

Every connected component has an eigenvalue of exactly 1, whose eigenvector √d is known. In a graph with many
components, these would be all the leading eigenvectors. So they are kept apart, as one sparse column each,
and have the eigenvalue −2 in the matrix whose leading eigenvectors are computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import LinearOperator, eigsh

from walkernel._checks import fits_in_memory
from walkernel.graph import Graph
from walkernel.kernels import Kernel

EXTRA_VECTORS = 20
"""Eigenvectors beyond the number of clusters: fewer miss clusters that hang together by few edges."""
MOST_CLUSTERS = 30
"""Largest number of clusters that is considered where none is given."""
TOLERANCE = 1e-3
"""Accuracy of eigenvalues, for which single precision does: more digits made no better clusters."""
TINY = np.finfo(np.float64).tiny


class Eigenvectors(NamedTuple):
    """Eigenvectors of W̃: those of components, sparse, and the leading others with their eigenvalues."""

    components: scipy.sparse.csr_array  # (n_nodes, n_components), one entry in each row
    values: NDArray[np.float64]  # (count,), falling
    vectors: NDArray[np.float64]  # (n_nodes, count)


def leading_eigenvectors(graph: Graph, count: int) -> Eigenvectors:
    """Return the leading eigenvectors of an undirected graph without negative weights."""
    n = graph.n_nodes
    M = graph.to_scipy("normalized")
    n_components, component = connected_components(M, directed=False)
    degrees = graph.out_degrees()
    roots = np.sqrt(np.where(degrees > 0, degrees, 1.0))  # a node without edges is a component of its own
    roots /= np.sqrt(np.bincount(component, roots**2))[component]
    entries = (roots, (np.arange(n), component))
    components = scipy.sparse.csr_array(entries, shape=(n, n_components))

    count = min(count, n - n_components)
    if n <= 4 * count or count == 0:
        values, vectors = np.linalg.eigh(M.toarray() - 3 * (components @ components.T).toarray())
    else:
        fits_in_memory((n, 2 * count + 1), "Use fewer clusters, or method='walks'.")
        single, known = M.astype(np.float32), components.astype(np.float32)
        known_rows = np.float32(3) * known.T

        def multiply(x: NDArray[np.float32]) -> NDArray[np.float32]:
            return single @ x - known @ (known_rows @ x)

        operator = LinearOperator((n, n), matvec=multiply, dtype=np.float32)
        start = np.random.default_rng(0).normal(size=n).astype(np.float32)
        values, vectors = eigsh(operator, count, which="LA", v0=start, tol=TOLERANCE)
    order = np.argsort(-values, kind="stable")[:count]
    values = np.clip(values[order].astype(np.float64), -1.0, 1.0)
    return Eigenvectors(components, values, vectors[:, order].astype(np.float64))


def normalized_kernel(
    found: Eigenvectors, kernel: Kernel, count: int
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return products with K_ij / √(K_ii K_jj), of the eigenvectors of components and some leading others."""
    weights = np.sqrt(np.maximum(np.real(kernel.spectrum(np.append(found.values[:count], 1.0))), 0.0))
    features = found.vectors[:, :count] * (weights[:-1] / weights[-1])
    norms = np.sqrt(np.einsum("ij,ij->i", features, features) + found.components.data**2)
    features /= norms[:, None]
    components = found.components.copy()
    components.data /= norms
    if components.shape[1] == 1:
        features = np.hstack([features, components.toarray()])
        return lambda Z: features @ (features.T @ Z)
    return lambda Z: features @ (features.T @ Z) + components @ (components.T @ Z)


def count_clusters(found: Eigenvectors) -> tuple[int, str]:
    """Return how many eigenvalues there are before the widest gap, and a sentence that says so.

    Of the components, those count that have at least one in 30 of the nodes.
    """
    sizes = np.bincount(found.components.indices)
    large = max(1, int(np.sum(sizes * MOST_CLUSTERS >= sizes.sum())))
    values = np.append(np.ones(large), found.values)[: max(large, MOST_CLUSTERS) + 1]
    if values.size < 3:
        return 1, "There is one cluster: the graph is too small for several."
    count = 2 + int(np.argmax(values[1:-1] - values[2:]))
    before, after = values[count - 1], values[count]
    return count, (
        f"The number of clusters is chosen: the widest gap between eigenvalues of the normalized matrix is "
        f"that from {before:.3f} to {after:.3f}, after {count} of them."
    )
