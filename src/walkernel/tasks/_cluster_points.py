"""The nodes of a graph as points of its normalized kernel, for ``KernelKMeans``, by one of three methods."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, check_instance, refuse
from walkernel.engines import Engine
from walkernel.features import check_convergence
from walkernel.graph import Graph
from walkernel.kernels import Diffusion, Kernel
from walkernel.operators import (
    Eigenvectors,
    Explanation,
    KernelOperator,
    estimate_kernel,
    leading_eigenvectors,
    polynomial_operator,
)
from walkernel.planning import check_symmetric
from walkernel.tasks._eigenvectors import EXTRA_VECTORS, MOST_CLUSTERS, count_clusters, normalized_kernel
from walkernel.tasks._lloyd import Points

DEFAULT_KERNEL = Diffusion(5.0)
METHODS = ("auto", "eigenvectors", "polynomial", "walks")
ROUNDING = 1e-12
GRID = np.linspace(-1.0, 1.0, 257)


class ClusterPoints(NamedTuple):
    """What is clustered, and how it came about; operators and features have no kernel and no method."""

    points: Points
    kernel: Kernel | None
    method: str | None
    explanation: Explanation


def graph_points(
    graph: Graph,
    n_clusters: int | None,
    kernel: Kernel | None,
    method: str,
    weights: NDArray[np.float64],
    seed: int,
    engine: str | Engine | None,
) -> ClusterPoints:
    """Return the nodes of a graph as points of the normalized kernel K_ij / √(K_ii K_jj)."""
    kernel = DEFAULT_KERNEL if kernel is None else kernel
    check_instance("kernel", kernel, Kernel, "For a function of the matrix use PowerSeries.from_function.")
    check_symmetric(kernel)
    notes = []
    if graph.directed:
        A = graph.to_scipy()
        graph = Graph.from_scipy(A + A.T, directed=False)
        notes.append("The graph is directed: it is treated as the undirected one with the matrix A + Aᵀ.")
    check_convergence(graph, kernel)
    signed = graph.weights is not None and bool((graph.weights < 0).any())
    obstacle = _obstacle(kernel, signed)
    if method == "auto":
        method = "polynomial" if obstacle else "eigenvectors"
        if obstacle:
            notes.append(f"Eigenvectors do not serve: {obstacle}.")
    elif method == "eigenvectors" and obstacle:
        rule = "'polynomial' or 'walks' for this graph and kernel"
        refuse("method", rule, method, f"Eigenvectors do not serve: {obstacle}.")
    found = None
    if n_clusters is None:
        if signed:
            refuse("n_clusters", "given for a graph with negative weights", None)
        found = leading_eigenvectors(graph, MOST_CLUSTERS + EXTRA_VECTORS)
        n_clusters, note = count_clusters(found)
        notes.append(note)
    check_count(n_clusters, weights)
    if method == "eigenvectors":
        count = n_clusters + EXTRA_VECTORS
        found = found or leading_eigenvectors(graph, count)
        points, how = _by_eigenvectors(found, kernel, count, n_clusters, weights)
    elif method == "polynomial":
        points, how = _by_polynomial(graph, kernel, n_clusters, weights, engine)
    else:
        points, how = _by_walks(graph, kernel, n_clusters, weights, seed, engine)
    head = (
        f"Kernel k-means of {graph.n_nodes} nodes into {n_clusters} clusters by {kernel}, scaled to K_ii = 1."
    )
    return ClusterPoints(points, kernel, method, replace(how, text="\n".join([head, *notes, how.text])))


def _by_polynomial(
    graph: Graph, kernel: Kernel, n_clusters: int, weights: NDArray[np.float64], engine: str | Engine | None
) -> tuple[Points, Explanation]:
    """Return points whose kernel is a polynomial of the matrix."""
    K = polynomial_operator(graph, kernel, engine=engine)
    try:
        diagonal = K.diagonal()
    except ValueError:
        got = Described(f"{graph.n_nodes} nodes")
        refuse("the graph", "small enough for all K_ii by a polynomial", got, "Use method='walks'.")
    return _normalized(K, diagonal, n_clusters, weights), K.explain()


def _by_walks(
    graph: Graph,
    kernel: Kernel,
    n_clusters: int,
    weights: NDArray[np.float64],
    seed: int,
    engine: str | Engine | None,
) -> tuple[Points, Explanation]:
    """Return points whose kernel is estimated from walks, positive semidefinite where that is possible."""
    ensembles = "shared" if kernel.has_root() else None
    K = estimate_kernel(graph, kernel, seed=seed, ensembles=ensembles, engine=engine)
    text = f"It is estimated from walks of {K.n_steps} steps; estimate_kernel(...).explain() tells how well."
    points = _normalized(K, K.diagonal(), n_clusters, weights)
    return points, Explanation(text, K.n_steps, 0, None, None)


def _obstacle(kernel: Kernel, signed: bool) -> str:
    """Return why leading eigenvectors of the normalized matrix do not represent a kernel, or nothing."""
    if signed:
        return "some weights are negative"
    if kernel.matrix != "normalized":
        return f"they are those of the normalized matrix, not of matrix={kernel.matrix!r}"
    values = np.real(kernel.spectrum(GRID))
    rounding = -ROUNDING * np.abs(values).max()
    if values[-1] > 0 and values.min() >= rounding and (np.diff(values) >= rounding).all():
        return ""
    return "the kernel does not increase with the eigenvalues"


def check_count(n_clusters: int, weights: NDArray[np.float64]) -> None:
    """Refuse more clusters than points."""
    most = int(np.sum(weights > 0))
    if n_clusters > most:
        refuse("n_clusters", f"at most n_samples={most}, the number of points with weight", n_clusters)


def _by_eigenvectors(
    found: Eigenvectors, kernel: Kernel, count: int, n_clusters: int, weights: NDArray[np.float64]
) -> tuple[Points, Explanation]:
    """Return points with the features of leading eigenvectors."""
    n = found.vectors.shape[0]
    used = min(count, found.values.size)
    text = (
        f"It is represented by {used} leading eigenvectors of the normalized matrix, and by those of its "
        f"connected components, {found.components.shape[1]} in number."
    )
    points = Points(normalized_kernel(found, kernel, count), np.ones(n), weights, n_clusters)
    return points, Explanation(text, 0, 8 * n * (used + 1), None, None)


def _normalized(
    K: KernelOperator, diagonal: NDArray[np.float64], n_clusters: int, weights: NDArray[np.float64]
) -> Points:
    """Return the points of K_ij / √(K_ii K_jj); at nodes without edges K_ii may vanish for a wide kernel."""
    row_sums = np.abs(K @ np.ones(diagonal.size))
    vanishes = diagonal <= ROUNDING * row_sums
    if (vanishes & (K.graph.out_degrees() > 0)).any():
        got = Described(f"K_ii = {diagonal.min():.3g}")
        refuse("kernel", "one with a positive diagonal", got, "Use one with α₀ > 0.")
    scale = 1 / np.sqrt(np.where(vanishes, 1.0, diagonal))[:, None]

    def multiply(Z: NDArray[np.float64]) -> NDArray[np.float64]:
        scaled = scale * Z
        return scale * (K @ scaled if K.T is K else (K @ scaled + K.T @ scaled) / 2)

    return Points(multiply, np.where(vanishes, diagonal, 1.0), weights, n_clusters)
