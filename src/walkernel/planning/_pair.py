"""The pair f₁ * f₂ = α that a kernel gets, and kernels that walks do not serve."""

from __future__ import annotations

import math

import numpy as np

from walkernel._checks import Described, refuse
from walkernel.features import Lazy, Modulated, Pair, Symmetric, spectral_radius
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning._degree import find_polynomial
from walkernel.walks import Sampler

SMALLEST_USEFUL_P_HALT = 0.01
"""Below this, walks for a symmetric pair are so long that "auto" prefers the lazy pair."""
POLYNOMIAL_TOLERANCE = 1e-6
"""Error for which the products of a polynomial are counted, where it is named instead of walks."""
MAX_EXACT = 5000
"""Nodes of graphs that exact_kernel is named for."""


def choose_pair(
    graph: Graph, kernel: Kernel, pair: str, sampler: Sampler | None, stitches: int = 1
) -> tuple[Pair, str]:
    """Return the pair of a name and, where "auto" could not take the symmetric one, the reason."""
    both, one = Symmetric(kernel, stitches), Lazy(kernel)
    if pair == "lazy":
        return one, ""
    if pair == "symmetric":
        both.check()
        return both, ""
    if not kernel.has_root():
        return one, f"no symmetric pair: α₀ = {float(np.real(kernel.spectrum(0.0))):.3g} is not positive"
    needed = (
        SMALLEST_USEFUL_P_HALT if sampler is None else -np.inf if sampler.ratio == 0 else 1 - sampler.ratio
    )
    transition = "weights" if sampler is None else sampler.transition
    symmetric, lazy = Modulated.of(graph, both), Modulated.of(graph, one)
    if symmetric.largest_p_halt(transition) > needed and not divergence(symmetric):
        return both, ""
    radius = symmetric.radius
    converges = radius > spectral_radius(graph, kernel.matrix, below=radius)
    if converges and lazy.largest_p_halt(transition) <= needed:
        return both, ""
    where = f"{symmetric.root} is singular at distance {radius:.3g} from 0"
    return one, f"the symmetric pair has infinite variance: {where}"


def divergence(modulated: Modulated) -> str:
    """Say why the modulation function of a symmetric pair does not converge on a graph; "" if it does."""
    graph, kernel, radius = modulated.graph, modulated.kernel, modulated.radius
    if (
        modulated.weights.other is not None
        and kernel.has_root()
        and radius <= spectral_radius(graph, kernel.matrix, below=radius)
    ):
        return (
            f"{modulated.name} does not converge on this graph: {modulated.root} is singular at distance "
            f"{radius:.3g} from 0. Use the lazy pair, or another kernel."
        )
    return ""


def check_served(modulated: Modulated) -> None:
    """Refuse a sequence that is longer than any walk, and name what serves the kernel instead."""
    if modulated.is_served:
        return
    graph, kernel = modulated.graph, modulated.kernel
    remedy = "Use a narrower kernel"
    if (polynomial := find_polynomial(graph, kernel, POLYNOMIAL_TOLERANCE)) is not None:
        remedy += (
            f", or polynomial_operator, which takes {polynomial.n_products} sparse products for K @ v and "
            f"has an error of {polynomial.tol:.1g}"
        )
    elif graph.n_nodes <= MAX_EXACT:
        remedy += ", or exact_kernel"
    beyond = modulated.beyond()
    reason = f"{100 * beyond:.3g} % of its modulation function lies beyond the longest series"
    if math.isnan(beyond):
        reason = "terms of its modulation function are too large for floating-point numbers"
    raise ValueError(f"{modulated.name} is too wide for walks: {reason}. {remedy}.")


def check_symmetric(kernel: Kernel, parameter: str = "kernel") -> None:
    """Refuse a function of the random-walk matrix, which is not symmetric, where a kernel has to be."""
    if kernel.matrix == "random-walk":
        received = Described(f"{kernel}, a function of D⁻¹A")
        refuse(parameter, "symmetric", received, "Use matrix='normalized'.")


def check_covariance(graph: Graph, kernel: Kernel) -> None:
    """Refuse a kernel that is no covariance on the graph, with the reason."""
    check_symmetric(kernel)
    if graph.directed:
        refuse(
            "graph", "undirected: a covariance is symmetric, and K(M) of a directed graph is not",
            graph, "Use Graph.from_scipy(A + A.T).",
        )  # fmt: skip
    reach = 1.0 if kernel.matrix != "adjacency" else float(spectral_radius(graph, "adjacency"))
    points = reach * np.cos(np.linspace(0, np.pi, 2001))
    if not kernel.is_positive_semidefinite((-reach, reach)):
        values = np.real(kernel.spectrum(points))
        worst = int(values.argmin())
        refuse(
            "kernel", "positive semidefinite, as a covariance is",
            Described(f"{kernel}, whose eigenvalue at λ = {points[worst]:.3g} is {values[worst]:.3g}"),
            "Diffusion, RegularizedLaplacian and Matern always are.",
        )  # fmt: skip
    if not kernel.has_root():
        remedy = "NodeSmoother takes it, with the lazy pair."
        refuse("kernel", "one with a symmetric modulation function (α₀ > 0)", kernel, remedy)
