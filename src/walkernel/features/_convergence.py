"""Whether a kernel's series converges on a graph: Σ |αₖ| ρᵏ < ∞ with ρ the spectral radius of |M|.

It is at most one for all matrices but the adjacency matrix, for which it is bounded by its norms and, where
these are too coarse, by power iteration.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import DivergentKernelError, refuse
from walkernel.graph import Graph
from walkernel.kernels import Kernel

MAX_ITERATIONS = 300


class SpectralBound(NamedTuple):
    """Bounds on ρ of a non-negative B: ρ ≤ upper, B·vector ≤ upper·vector, ``estimate`` is near ρ."""

    estimate: float
    upper: float
    vector: NDArray[np.float64]


def spectral_bound(matrix: scipy.sparse.csr_array) -> SpectralBound:
    """Bound ρ of a matrix with non-negative entries by power iteration.

    For every positive x, ρ ≤ max_i (Bx)_i / x_i (Collatz and Wielandt), so the upper bound holds
    whether or not the iteration has converged. A shift keeps bipartite graphs from oscillating.
    """
    x = np.ones(matrix.shape[0])
    best = SpectralBound(0.0, math.inf, x)
    shift = None
    for _ in range(MAX_ITERATIONS):
        image = matrix @ x
        upper = float((image / x).max())
        estimate = upper * float(np.linalg.norm(image / (upper or 1.0)) / np.linalg.norm(x))
        if upper < best.upper:
            best = SpectralBound(min(estimate, upper), upper, x)
        if upper == 0.0 or upper - min(estimate, upper) <= 1e-4 * upper:
            break
        shift = upper / 2 if shift is None else shift
        x = image + shift * x
        x = np.maximum(x / x.max(), 1e-250)
    return best


def spectral_radius(graph: Graph, matrix: str, below: float = 0.0) -> float:
    """Return an upper bound on ρ(|M|); cheap norms are enough if they are less than ``below``."""
    if matrix != "adjacency":
        return 1.0
    norm = graph.derived(
        "adjacency_norm", lambda: float(min(graph.out_degrees().max(), graph.in_degrees().max()))
    )
    return norm if norm < below else adjacency_bound(graph).upper


def adjacency_bound(graph: Graph) -> SpectralBound:
    """Return bounds on ρ(|A|), kept with the graph."""
    return graph.derived("adjacency_bound", lambda: spectral_bound(abs(graph.to_scipy())))


def check_matrix(kernel: Kernel, matrix: str) -> None:
    """Refuse a kernel that is a function of another matrix than the walks'."""
    if kernel.matrix != matrix:
        refuse(
            "kernel.matrix",
            f"the matrix of the walks, {matrix!r}",
            kernel.matrix,
            f"Sample the walks with matrix={kernel.matrix!r}.",
        )


def check_convergence(graph: Graph, kernel: Kernel) -> None:
    """Raise DivergentKernelError unless Σ |αₖ| ρᵏ converges."""
    radius = kernel.radius
    rho = spectral_radius(graph, kernel.matrix, below=radius)
    if rho < radius:
        return
    remedy = "" if kernel.matrix != "adjacency" else " Use matrix='normalized' or scale the kernel."
    raise DivergentKernelError(
        f"{kernel} diverges on this graph: the spectral radius of its {kernel.matrix} matrix is "
        f"{rho:.4g} and must be below {radius:.4g}.{remedy}"
    )
