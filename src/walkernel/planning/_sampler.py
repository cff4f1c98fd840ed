"""How long the walks for some kernels should be.

That is a function of the graph and the kernels alone, so that the same question always gets the same walks.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import InfiniteVarianceWarning, check_instance, refuse, whole_number
from walkernel._door import door, warn
from walkernel.features import (
    UNSERVED,
    Lazy,
    Modulated,
    Pair,
    Symmetric,
    check_convergence,
    spectral_radius,
    warn_of_infinite_variance,
)
from walkernel.graph import Graph
from walkernel.kernels import Diffusion, Kernel
from walkernel.planning._allocation import allocate_walks, head_costs
from walkernel.planning._pair import check_served, divergence
from walkernel.walks import IndependentWalks, Sampler, matched_survival

WIDTHS = (0.0625, 0.25, 1.0, 4.0, 11.0, 22.0, 45.0, 90.0, 180.0, 360.0, 720.0)
"""Diffusion times t whose matched laws are on the ladder."""
P_HALTS = 0.6 * 2.0 ** -np.arange(10.0)
"""Geometric laws on the ladder, for kernels that decay no faster."""
LAST_RESORT = IndependentWalks(0.1 * 2.0**-6)
"""What walks a sequence that no law has a finite variance with."""


NARROWER, WIDER = 1 / 8, 1.5
"""Lengthscales around that of a start, as factors, which one walk sample serves where they are learned."""
CONVERGENCE = 1.05
"""How many times the spectral radius of an adjacency matrix, which is known by a bound, the radius of
convergence of a kernel that walks serve is at least."""
LARGEST_SUM = 1e70
"""Between this and its inverse, Σ|f| can be squared and scaled without overflow."""
LONGEST_LEARNED = 2**13
"""Lengths of the widest kernels among which a lengthscale is learned: longer walks cost too much to try."""

MAX_DOUBLINGS = 64
"""Doublings and halvings of a lengthscale by which the widest that walks serve is looked for."""

MAX_STITCHES = 16


@door
def choose_sampler(graph: Graph, *kernels: Kernel, n_walks: int = 64) -> Sampler:
    """Return a sampler whose walks serve all of some kernels: long enough for the widest.

    ``NodeFeatures`` and the other estimators choose for their one kernel if ``sampler`` is None, from a short
    ladder of length laws, so that kernels of about the same width share their walks. Give them this one to
    compare kernels of very different widths on the same walks.

    Parameters
    ----------
    graph : Graph
        The graph.
    *kernels : Kernel
        The kernels, all of the same matrix.
    n_walks : int
        Walks from each node that it is meant for: many can afford a longer exact head.

    Returns
    -------
    Sampler
        The sampler, for ``sampler=`` of any call.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.load_dataset("karate").graph
    >>> wk.choose_sampler(graph, wk.Diffusion(1.0), wk.Diffusion(10.0))
    CoupledWalks(28.9 steps on average, head=3, group=4)
    """
    n_walks = whole_number("n_walks", n_walks, 1)
    return suited_sampler(_sequences(graph, kernels), n_walks)


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

    Returns
    -------
    ndarray of float64, (longest,)
        Probabilities of at least 1, 2, … steps, decreasing, for ``CoupledWalks``.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.load_dataset("karate").graph
    >>> wk.matched_law(graph, wk.Diffusion(1.0))[:3].round(3)
    array([1.   , 0.163, 0.014])
    """
    stitches = whole_number("stitches", stitches, 1, MAX_STITCHES)
    sequences = _sequences(graph, kernels, stitches)
    return matched_survival(*(sequence.sizes("weights", rest=2.0**-64) for sequence in sequences))[1:]


def _sequences(graph: Graph, kernels: tuple[Kernel, ...], stitches: int = 1) -> list[Modulated]:
    """Check kernels that are to share their walks, and return their modulation functions."""
    check_instance("graph", graph, Graph)
    if not kernels:
        refuse("kernels", "at least one Kernel", list(kernels))
    for kernel in kernels:
        check_instance("kernels", kernel, Kernel)
        if kernel.matrix != kernels[0].matrix:
            refuse("kernel.matrix", f"the same for all kernels ({kernels[0].matrix!r})", kernel.matrix)
        check_convergence(graph, kernel)
    sequences = [_widest(graph, kernel, stitches) for kernel in kernels]
    for sequence in sequences:
        check_served(sequence)
    return sequences


def _widest(graph: Graph, kernel: Kernel, stitches: int) -> Modulated:
    """Return the sequence of the symmetric pair, the wider one, if there is one; else of the lazy pair.

    Only the symmetric pair can be stitched.
    """
    weights = Symmetric(kernel, stitches)
    symmetric = Modulated.of(graph, weights)
    if stitches > 1:
        weights.check()
        return symmetric
    if kernel.has_root() and symmetric.largest_p_halt() > 0:
        return symmetric
    return Modulated.of(graph, Lazy(kernel))


def suited_sampler(sequences: list[Modulated], n_walks: int) -> Sampler:
    """Return walks that suit all of some sequences on a graph.

    Those of one have the law on a ladder that has the least variance times steps, so that others of about its
    width get the same; those of several have one that is matched to the widest. The head depends on the law
    and not on the sequences.
    """
    if any(sequence.largest_p_halt() <= 0 for sequence in sequences):
        return LAST_RESORT
    sizes = [sequence.sizes("weights") for sequence in sequences]
    law = matched_survival(*sizes)
    if len(sizes) == 1:
        costs = [_cost(sizes[0], rung) for rung in _ladder()]
        law = _ladder()[int(np.argmin(costs))] if np.isfinite(min(costs)) else law
    first = sequences[0]
    ids = np.arange(first.graph.n_nodes)
    edges = head_costs(first.graph, ids, first.kernel.matrix, (False,), n_walks * float(law[1:].sum()))
    return allocate_walks(law, edges, n_walks, lambda head: law[head + 1 :] / law[head + 1]).sampler


@cache
def _ladder() -> list[NDArray[np.float64]]:
    """Return the length laws S(0) = 1, S(1), … to choose from, few so that walks are shared."""
    diffusions = [
        matched_survival(Diffusion(math.sqrt(2 * t)).modulation(int(64 + 4 * t + 32 * math.sqrt(t))))
        for t in WIDTHS
    ]
    geometric = [np.append(1.0, IndependentWalks(p).survival()[1:]) for p in P_HALTS]
    return diffusions + geometric


def _cost(sizes: NDArray[np.float64], law: NDArray[np.float64]) -> float:
    """Return variance times steps, Σ f_k²/S(k) · Σ S(k); infinite where the law ends before the sequence."""
    if sizes[law.size :].sum() > 1e-9 * sizes.sum():
        return math.inf
    n = min(sizes.size, law.size)
    relative = sizes[1:n] / (sizes.max() or 1.0)
    return float((relative**2 / law[1:n]).sum() * law[1:].sum())


def served_kernels(graph: Graph, kernel: Kernel, learn: tuple[str, ...]) -> tuple[Kernel, ...]:
    """Return the kernels that one walk sample must suit: a range of them if the lengthscale varies."""
    if kernel.lengthscale is None or not {"lengthscale", "modulation"} & set(learn):
        return (kernel,)
    wider = max(1.0, min(WIDER, widest_served(graph, kernel) / kernel.lengthscale))
    return tuple(kernel.with_lengthscale(kernel.lengthscale * factor) for factor in (NARROWER, 1.0, wider))


def widest_served(graph: Graph, kernel: Kernel) -> float:
    """Return the largest lengthscale of a kernel's family that walks serve where it is learned, to 1 %.

    The kernel's own lengthscale does not matter. The result is kept with the graph.
    """
    family = kernel.with_lengthscale(1.0)
    return graph.derived(("widest_served", family), lambda: _widest_served(graph, family))


def _widest_served(graph: Graph, family: Kernel) -> float:
    """Return the largest lengthscale of ``widest_served`` by doubling and bisection."""
    low, high = 0, 0
    while _is_served(graph, family.with_lengthscale(2.0**high)) and high < MAX_DOUBLINGS:
        low, high = high, high + 1
    while not _is_served(graph, family.with_lengthscale(2.0**low)) and low > -MAX_DOUBLINGS:
        low, high = low - 1, low
    served, too_wide = 2.0**low, 2.0**high
    while too_wide > 1.01 * served:
        middle = math.sqrt(served * too_wide)
        is_served = _is_served(graph, family.with_lengthscale(middle))
        served, too_wide = (middle, too_wide) if is_served else (served, middle)
    return served


def _is_served(graph: Graph, kernel: Kernel) -> bool:
    """Tell whether the series converges on the graph, and f ends within walks that a search can afford."""
    margin = CONVERGENCE if kernel.matrix == "adjacency" else 1.0
    modulated = Modulated.of(graph, Symmetric(kernel))
    if modulated.radius <= margin * spectral_radius(graph, kernel.matrix):
        return False
    if not modulated.is_served:
        return False
    sizes = modulated.sizes("weights")
    total = sizes.sum()
    return bool(1 / LARGEST_SUM < total < LARGEST_SUM and sizes[LONGEST_LEARNED:].sum() <= UNSERVED * total)


def checked_sampler(
    graph: Graph, weights: Pair, sampler: Sampler | None, n_walks: int | None = None, n_sets: int = 1
) -> Sampler:
    """Return the sampler to use, and warn if it has no finite variance with the pair, or none to be seen.

    Walks that are drawn in several sets follow the head of a node once for each.
    """
    modulated = Modulated.of(graph, weights)
    if message := divergence(modulated):
        warn(message, InfiniteVarianceWarning)
        return sampler or LAST_RESORT
    weights.check()
    if sampler is None:
        check_served(modulated)
        sampler = suited_sampler([modulated], -(-(n_walks or 1) // n_sets))
    warn_of_infinite_variance(modulated, sampler)
    if n_walks is not None:
        warn_of_unreached(modulated, sampler, n_walks)
    return sampler


def warn_of_unreached(modulated: Modulated, sampler: Sampler, n_walks: int) -> None:
    """Warn if so few walks are as long as the kernel is wide that most samples miss it altogether."""
    sizes = modulated.sizes(sampler.transition)
    if sizes[sampler.reach(1 / n_walks) :].sum() > 0.5 * sizes.sum():
        warn(
            f"{modulated.name} is wider than the walks of {sampler}: of {n_walks} walks less than one "
            "reaches the lengths that matter, and in most samples estimates and error bars are too small. "
            "Use a narrower kernel, a smaller p_halt, or polynomial_operator.",
            InfiniteVarianceWarning,
        )
