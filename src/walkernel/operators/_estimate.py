"""From a graph and a kernel to an unbiased operator: pairs, ensembles, directions.

* Pair: f₁ * f₂ = α. "symmetric" has f₁ = f₂; "lazy" has f₁ = α, f₂ = δ₀.
* Ensembles (of a symmetric pair): "independent" walks for the two sides; "shared" ones, positive
  semidefinite with a diagonal biased upward; "debiased", shared with the bias subtracted.
* Directions: E[Φ₁Φ₂ᵀ] = Ψ(M)Ψ(M)ᵀ, which is K for symmetric M only. In a directed graph the right-hand
  side walks Mᵀ, so that it takes walks of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import (
    instance,
    one_of,
    progress_callback,
    real_number,
    refuse,
    thread_count,
    whole_number,
)
from walkernel._random import check_seed
from walkernel.convergence import check_convergence
from walkernel.features import Sampling, scaled_sequence
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators._base import KernelOperator, check_nodes
from walkernel.operators._error_bars import Origin
from walkernel.operators._walk import FeatureOperator, LazyOperator, keep_reached
from walkernel.planning import checked_sampler, choose_pair
from walkernel.sampling import MOST_WALKS, feature_rows
from walkernel.walks import SAMPLERS, Sampler

DEFAULT_WALKS = 128


class _Plan(NamedTuple):
    pair: str
    ensembles: str
    n_walks: int
    sampler: Sampler
    seed: int
    note: str


def estimate_kernel(
    graph: Graph,
    kernel: Kernel,
    n_walks: int | None = None,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    nodes: Any = None,
    pair: str = "auto",
    ensembles: str | None = None,
    budget: float | None = None,
    n_threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> KernelOperator:
    """Estimate a kernel from random walks: an unbiased operator, never an N×N matrix.

    Parameters
    ----------
    graph : Graph
        The graph.
    kernel : Kernel
        The kernel; its series must converge on the graph.
    n_walks : int, optional
        Walks from each node, for each side that walks. 128 if neither it nor ``budget`` is given.
    sampler : Sampler, optional
        How walks are drawn; if not given, p_halt = 0.1, or less where the kernel needs longer walks
        for a finite variance.
    seed : int
        Key of the randomness.
    nodes : list of nodes, optional
        Restrict rows and columns to these nodes, in this order; only they are walked from.
    pair : {"auto", "symmetric", "lazy"}
        "auto" takes the symmetric pair unless it has no finite variance; ``K.pair`` and ``repr`` tell.
    ensembles : {None, "independent", "shared", "debiased"}
        None: debiased if the matrix is symmetric and n_walks ≥ 2, else independent.
    budget : float, optional
        Total number of steps to walk, instead of ``n_walks``.
    n_threads : int, optional
        WALKERNEL_NUM_THREADS or the CPUs of this process if not given.
    progress : callable, optional
        Called with (nodes done, nodes in all) after each block of nodes, for each side.

    Returns
    -------
    KernelOperator
        Of shape (n, n) for n nodes.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    >>> K = wk.estimate_kernel(graph, wk.Diffusion(sigma=1.0), n_walks=4096, seed=0)
    >>> error = K.to_dense() - wk.exact_kernel(graph, wk.Diffusion(sigma=1.0))
    >>> bool(abs(error).max() < 0.05)
    True
    """
    owner = "estimate_kernel"
    instance(owner, "graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    instance(owner, "kernel", kernel, Kernel, "For a function of the matrix use PowerSeries.from_function.")
    one_of(owner, "pair", pair, ("auto", "symmetric", "lazy"))
    one_of(owner, "ensembles", ensembles, (None, "independent", "shared", "debiased"))
    if sampler is not None:
        instance(owner, "sampler", sampler, Sampler, SAMPLERS)
    check_convergence(graph, kernel)
    ids = check_nodes(owner, graph, nodes)
    chosen, note = choose_pair(graph, kernel, pair, sampler)
    used = checked_sampler(graph, kernel, chosen, sampler)
    steps = ids.size * used.mean_steps
    two_sided = chosen == "symmetric" and (ensembles == "independent" or graph.directed)
    count = _count_walks(n_walks, budget, steps * (2 if two_sided else 1))
    combined = _choose_ensembles(graph, chosen, ensembles, count, used.coupling.group)
    if budget is not None and chosen == "symmetric" and combined == "independent" and not two_sided:
        count = _count_walks(n_walks, budget, 2 * steps)
    key = check_seed(owner, seed)
    plan = _Plan(chosen, combined, count, used, key, note)
    threads, report = thread_count(owner, n_threads), progress_callback(owner, progress)

    longest = used.thresholds().size + 1

    def sample(side: int, sequence: str, with_norms: bool) -> Any:
        sampling = Sampling(graph, ids, count, used, key, side, kernel.matrix, bool(side))
        scaled = scaled_sequence(kernel, sampling.table().scale)
        f = scaled.coefficients(longest) if sequence == "coefficients" else scaled.modulation(longest)
        return feature_rows(sampling, f, threads, report, with_norms=with_norms)

    return _build(graph, kernel, ids, plan, sample)


def _build(
    graph: Graph, kernel: Kernel, ids: NDArray[np.int64], plan: _Plan, sample: Callable[..., Any]
) -> KernelOperator:
    """Sample the sides that the plan needs and join them; side 1 walks against the edges."""
    origin = Origin(graph, kernel, plan.pair, plan.ensembles, plan.n_walks, plan.sampler, plan.seed)
    about: dict[str, Any] = {
        "pair": plan.pair, "ensembles": plan.ensembles, "note": plan.note, "origin": origin,
    }  # fmt: skip
    part = ids.size < graph.n_nodes
    if plan.pair == "lazy":
        sides = [sample(0, "coefficients", False)[0], stay_at_home(ids, graph.n_nodes)]
        reached, sides = keep_reached(*sides) if part else (None, sides)
        return LazyOperator(graph, ids, *sides, reached=reached, **about)
    left, norms = sample(0, "modulation", plan.ensembles == "debiased")
    if plan.ensembles == "independent":
        sides = [left, sample(1, "modulation", False)[0]]
        reached, sides = keep_reached(*sides) if part else (None, sides)
        return FeatureOperator(graph, ids, *sides, reached=reached, **about)
    if part:
        about["reached"], (left,) = keep_reached(left)
    if plan.ensembles == "debiased":
        about["correction"] = _diagonal_correction(plan, norms, left)
    return FeatureOperator(graph, ids, left, left, **about)


def _diagonal_correction(plan: _Plan, norms: NDArray[np.float64], features: Any) -> NDArray[np.float64]:
    """Return what turns ‖φ_i‖² into the mean of φ_i^(k)·φ_i^(l) over walks k, l of different groups.

    With m walks in groups of n_g and φ_i = (1/m) Σ_g n_g φ_i^(g) that mean, a U-statistic, is
    (m²‖φ_i‖² − Σ_g n_g²‖φ_i^(g)‖²) / (m² − Σ_g n_g²); ``norms`` are the sums of squares over m².
    """
    squares = np.asarray(features.power(2).sum(axis=1))
    sizes = group_sizes(plan.n_walks, plan.sampler.coupling.group)
    return np.asarray((squares - norms) / (1 - np.sum((sizes / plan.n_walks) ** 2)) - squares)


def group_sizes(n_walks: int, group: int) -> NDArray[np.int64]:
    """Return the number of walks in each group: the last may have fewer."""
    return np.diff(np.append(np.arange(0, n_walks, group), n_walks))


def stay_at_home(ids: NDArray[np.int64], n_nodes: int) -> scipy.sparse.csr_array:
    """Return the features of walks that make no step: f₂ = δ₀."""
    shape = (ids.size, n_nodes)
    return scipy.sparse.csr_array((np.ones(ids.size), ids.copy(), np.arange(ids.size + 1)), shape=shape)


def _choose_ensembles(graph: Graph, pair: str, ensembles: str | None, n_walks: int, group: int) -> str:
    if ensembles in ("shared", "debiased"):
        if pair == "lazy":
            refuse(
                "estimate_kernel",
                "ensembles",
                "None or 'independent' with the lazy pair",
                ensembles,
                "Its one walk set is unbiased already.",
            )
        if graph.directed:
            refuse(
                "estimate_kernel",
                "ensembles",
                "None or 'independent' for a directed graph",
                ensembles,
                "One walk set estimates Ψ(M)Ψ(M)ᵀ, which is K for symmetric M only.",
            )
        if ensembles == "debiased" and n_walks <= group:
            rule = f"at least {group + 1} for ensembles='debiased': two groups of walks"
            refuse("estimate_kernel", "n_walks", rule, n_walks)
        return ensembles
    symmetric = pair == "symmetric" and not graph.directed and n_walks > group
    return "debiased" if ensembles is None and symmetric else "independent"


def _count_walks(n_walks: int | None, budget: float | None, steps_per_walk: float) -> int:
    """Return the number of walks per node from n_walks or from a total number of steps."""
    owner = "estimate_kernel"
    if n_walks is not None:
        if budget is not None:
            refuse(owner, "budget", "None if n_walks is given", budget, "Give one of the two.")
        return whole_number(owner, "n_walks", n_walks, 1, MOST_WALKS)
    if budget is None:
        return DEFAULT_WALKS
    count = int(real_number(owner, "budget", budget, above=0) / steps_per_walk + 1e-9)
    if count < 1:
        refuse(
            owner,
            "budget",
            f"at least {steps_per_walk:.0f} steps, one walk from each node",
            budget,
            "Give more, or fewer nodes=.",
        )
    return min(count, MOST_WALKS)
