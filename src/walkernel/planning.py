"""What is chosen for the user: the pair f₁ * f₂ = α of a kernel, and how long the walks should be.

Both are functions of the graph and the kernels alone, so that the same question always gets the same walks.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import InfiniteVarianceWarning, instance, refuse, whole_number
from walkernel.convergence import (
    Modulated,
    check_convergence,
    matched_survival,
    spectral_radius,
    warn_of_infinite_variance,
)
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.walks import IndependentWalks, Sampler

LADDER = 0.1 * 0.5 ** np.arange(7)
"""The values of p_halt to choose from: few, so that kernels of about the same width share their walks."""

SMALLEST_USEFUL_P_HALT = 0.01
"""Below this, walks for a symmetric pair are so long that "auto" prefers the lazy pair."""

MOST_STITCHES = 16

DIRECTIONS = {"symmetric": (False, True), "lazy": (False,)}
"""Whether the sides of a pair walk with the edges or, in a directed graph, against them."""


def choose_sampler(graph: Graph, *kernels: Kernel) -> Sampler:
    """Return the sampler whose walks serve all of some kernels: one that is long enough for the widest.

    ``NodeFeatures`` and the other estimators choose for their one kernel if ``sampler`` is None. Give them
    this one to compare kernels of very different widths on the same walks.

    Parameters
    ----------
    graph : Graph
        The graph.
    *kernels : Kernel
        The kernels, all of the same matrix.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.load_dataset("karate").graph
    >>> wk.choose_sampler(graph, wk.Diffusion(1.0), wk.Diffusion(10.0))
    IndependentWalks(p_halt=0.05, transition='weights')
    """
    return suited_sampler(_sequences("choose_sampler", graph, kernels))


def matched_law(graph: Graph, *kernels: Kernel, stitches: int = 1) -> NDArray[np.float64]:
    """Return the length law S(1), S(2), … that suits the widest of some kernels on a graph.

    Walks are as long as the kernels' modulation functions say, so that hardly a step is wasted.

    Parameters
    ----------
    graph : Graph
        The graph.
    *kernels : Kernel
        The kernels, all of the same matrix.
    stitches : int
        The number of factors that ``estimate_kernel`` is to stitch: walks for a root of the kernels.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.load_dataset("karate").graph
    >>> wk.matched_law(graph, wk.Diffusion(1.0))[:3].round(3)
    array([1.   , 0.163, 0.014])
    """
    stitches = whole_number("matched_law", "stitches", stitches, 1, MOST_STITCHES)
    sequences = _sequences("matched_law", graph, kernels, stitches)
    return matched_survival(*(sequence.sizes("weights", rest=2.0**-64) for sequence in sequences))[1:]


def _sequences(owner: str, graph: Graph, kernels: tuple[Kernel, ...], stitches: int = 1) -> list[Modulated]:
    """Check kernels that are to share their walks, and return their modulation functions."""
    instance(owner, "graph", graph, Graph)
    if not kernels:
        refuse(owner, "kernels", "at least one Kernel", list(kernels))
    for kernel in kernels:
        instance(owner, "kernels", kernel, Kernel)
        if kernel.matrix != kernels[0].matrix:
            refuse(owner, "kernel.matrix", f"the same for all kernels ({kernels[0].matrix!r})", kernel.matrix)
        check_convergence(graph, kernel)
    return [_widest(graph, kernel, stitches) for kernel in kernels]


def _widest(graph: Graph, kernel: Kernel, stitches: int) -> Modulated:
    """Return the sequence of the symmetric pair, the wider one, if there is one; else of the lazy pair.

    Only the symmetric pair can be stitched.
    """
    symmetric = Modulated(graph, kernel, "symmetric", DIRECTIONS["symmetric"], stitches)
    if stitches > 1:
        kernel.modulation(1)
        return symmetric
    if kernel.has_root() and symmetric.largest_p_halt() > 0:
        return symmetric
    return Modulated(graph, kernel, "lazy", DIRECTIONS["lazy"])


def suited_sampler(sequences: list[Modulated]) -> Sampler:
    """Return the sampler on the ladder that suits the sequence with the longest walks."""
    return IndependentWalks(min(float(LADDER[np.argmin(_costs(sequence))]) for sequence in sequences))


def _costs(modulated: Modulated) -> NDArray[np.float64]:
    """Return variance times steps for each p on the ladder; infinite where the variance is, or nearly so.

    The variance goes with Σ |f_l| (Σ_{k≥l} |f_k|) ρ(Q₀)^l (1−p)^-l and the steps with 1/p. Of all p that
    are too close to the limit of finite variance the last is the least bad; where no p is below it, the
    first.
    """
    limit = modulated.largest_p_halt()
    if limit <= 0:
        return np.arange(LADDER.size, dtype=np.float64)
    sizes = modulated.sizes("weights")
    weights = sizes * np.cumsum(sizes[::-1])[::-1]
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        logs = np.log(weights) - np.arange(sizes.size) * np.log1p(-LADDER)[:, None]
        cost = np.exp(logs).sum(axis=1) / LADDER
    safe = max(0.7 * limit, 1.01 * LADDER[-1]) > LADDER
    return np.where(safe, cost, np.inf)


def choose_pair(
    graph: Graph, kernel: Kernel, pair: str, sampler: Sampler | None, stitches: int = 1
) -> tuple[str, str]:
    """Return the pair and, where "auto" could not take the symmetric one, the reason."""
    if pair == "symmetric":
        kernel.modulation(1)
    if pair != "auto":
        return pair, ""
    if not kernel.has_root():
        return "lazy", f"no symmetric pair: α₀ = {float(np.real(kernel.spectrum(0.0))):.3g} is not positive"
    needed = (
        SMALLEST_USEFUL_P_HALT if sampler is None else -np.inf if sampler.ratio == 0 else 1 - sampler.ratio
    )
    transition = "weights" if sampler is None else sampler.transition
    symmetric, lazy = (Modulated(graph, kernel, p, DIRECTIONS[p], stitches) for p in ("symmetric", "lazy"))
    if symmetric.largest_p_halt(transition) > needed:
        return "symmetric", ""
    radius = symmetric.radius
    converges = radius > spectral_radius(graph, kernel.matrix, below=radius)
    if converges and lazy.largest_p_halt(transition) <= needed:
        return "symmetric", ""
    where = f"{symmetric.root} is singular at distance {radius:.3g} from 0"
    return "lazy", f"the symmetric pair has infinite variance: {where}"


def checked_sampler(
    graph: Graph,
    kernel: Kernel,
    pair: str,
    sampler: Sampler | None,
    n_walks: int | None = None,
    stitches: int = 1,
) -> Sampler:
    """Return the sampler to use, and warn if it has no finite variance with the pair, or none to be seen."""
    modulated = Modulated(graph, kernel, pair, DIRECTIONS[pair], stitches)
    radius = modulated.radius
    if (
        pair == "symmetric"
        and kernel.has_root()
        and radius <= spectral_radius(graph, kernel.matrix, below=radius)
    ):
        warnings.warn(
            f"{modulated.name} does not converge on this graph: {modulated.root} is singular at distance "
            f"{radius:.3g} from 0. Use the lazy pair, or another kernel.",
            InfiniteVarianceWarning,
            stacklevel=4,
        )
        return sampler or IndependentWalks()
    if pair == "symmetric":
        kernel.modulation(1)
    if sampler is None:
        sampler = suited_sampler([modulated])
    warn_of_infinite_variance(modulated, sampler)
    if n_walks is not None:
        _warn_of_unreached(modulated, sampler, n_walks)
    return sampler


def _warn_of_unreached(modulated: Modulated, sampler: Sampler, n_walks: int) -> None:
    """Warn if so few walks are as long as the kernel is wide that most samples miss it altogether."""
    sizes = modulated.sizes(sampler.transition)
    if sizes[sampler.reach(1 / n_walks) :].sum() > 0.5 * sizes.sum():
        warnings.warn(
            f"{modulated.name} is wider than the walks of {sampler}: of {n_walks} walks less than one "
            "reaches the lengths that matter, and in most samples estimates and error bars are too small. "
            "Use a narrower kernel, a smaller p_halt, or polynomial_operator.",
            InfiniteVarianceWarning,
            stacklevel=5,
        )
