"""Checks at the door that need a graph and a kernel: convergence of the series, finite variance.

* Σ |αₖ| ρᵏ < ∞ with ρ the spectral radius of |M|: at most one for the normalized and the combinatorial
  matrix; for the adjacency matrix bounded by its norms and, where these are too coarse, by power iteration.
* Walks whose length law decays like (1−p)ᵏ have finite variance if R_f² > ρ(Q₀) / (1−p), where R_f is the
  radius of convergence of Σ f_l zˡ and Q₀ has entries M²/P.
"""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import DivergentKernelError, InfiniteVarianceWarning, refuse
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.walks import IndependentWalks, walk_table

DEFAULT_P_HALT = 0.1
MOST_ITERATIONS = 500


class SpectralBound(NamedTuple):
    """Bounds on ρ of a non-negative matrix B: estimate ≤ ρ ≤ upper and B·vector ≤ upper·vector."""

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
    for _ in range(MOST_ITERATIONS):
        image = matrix @ x
        upper = float((image / x).max())
        estimate = float(np.linalg.norm(image) / np.linalg.norm(x))
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
    norm = float(min(graph.out_degrees().max(), graph.in_degrees().max()))
    return norm if norm < below else adjacency_bound(graph).upper


def adjacency_bound(graph: Graph) -> SpectralBound:
    """Return bounds on ρ(|A|), kept with the graph."""
    return graph.derived("adjacency_bound", lambda: spectral_bound(abs(graph.to_scipy())))


def second_moment_radius(graph: Graph, sampler: IndependentWalks, matrix: str) -> float:
    """Return an upper bound on ρ(Q₀), the larger one of both directions."""
    if matrix == "normalized" and (sampler.transition == "weights" or graph.weights is None):
        return 1.0
    return max(_second_moment_radius(graph, sampler, matrix, turned) for turned in {False, graph.directed})


def _second_moment_radius(graph: Graph, sampler: IndependentWalks, matrix: str, transpose: bool) -> float:
    def bound() -> float:
        return spectral_bound(walk_table(graph, matrix, sampler.transition, transpose).second_moments()).upper

    return graph.derived(("second_moment_radius", matrix, sampler.transition, transpose), bound)


def check_matrix(owner: str, kernel: Kernel, matrix: str) -> None:
    """Refuse a kernel that is a function of another matrix than the walks'."""
    if kernel.matrix != matrix:
        refuse(
            owner,
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


def largest_p_halt(graph: Graph, sampler: IndependentWalks, matrix: str, modulation_radius: float) -> float:
    """Return the p_halt below which the variance is finite; not positive if there is none."""
    if math.isinf(modulation_radius):
        return 1.0
    rho = second_moment_radius(graph, sampler, matrix)
    return 1.0 - rho / modulation_radius**2 if modulation_radius > 0 else -math.inf


def default_sampler(graph: Graph, matrix: str, modulation_radius: float) -> IndependentWalks:
    """Return walks as long as the modulation needs for a finite variance, and of mean length 9 otherwise."""
    limit = largest_p_halt(graph, IndependentWalks(), matrix, modulation_radius)
    return IndependentWalks(min(DEFAULT_P_HALT, limit / 2) if limit > 2e-3 else DEFAULT_P_HALT)


def warn_of_infinite_variance(
    graph: Graph, sampler: IndependentWalks, matrix: str, modulation_radius: float, what: str
) -> None:
    """Warn if the walks are too short for the modulation."""
    limit = largest_p_halt(graph, sampler, matrix, modulation_radius)
    if sampler.p_halt < limit:
        return
    remedy = f"p_halt below {limit:.3g}" if limit > 0 else "pair='lazy' or another kernel"
    warnings.warn(
        f"{what} has infinite variance with {sampler}: its modulation decays too slowly for walks that "
        f"short. Use {remedy}.",
        InfiniteVarianceWarning,
        stacklevel=3,
    )
