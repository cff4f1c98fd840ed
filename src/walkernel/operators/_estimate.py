"""From a graph and a kernel to an unbiased operator: pairs, ensembles, directions.

* Pair: f₁ * f₂ = α. "symmetric" has f₁ = f₂; "lazy" has f₁ = α, f₂ = δ₀.
* Ensembles (of a symmetric pair): "independent" walks for the two sides; "shared" ones, positive
  semidefinite with a diagonal biased upward; "debiased", shared with the bias subtracted.
* Stitches: K̂ is a product of l estimates of K^(1/l), each from walks of its own (``_stitched``).
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
    Described,
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
from walkernel.operators._stitched import StitchedOperator
from walkernel.operators._walk import FeatureOperator, LazyOperator, debiasing, keep_reached
from walkernel.planning import MOST_STITCHES, checked_sampler, choose_pair
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
    stitches: int


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
    stitches: int | None = None,
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
        Walks from each node, for each side and factor that walks. 128 if neither it nor ``budget`` is given.
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
    stitches : int, optional
        Number of factors that K̂ is the product of, each an estimate of a root of K from short walks of its
        own: less error for the same steps if K is wide, in a product over the whole graph. 1 if not given.
    budget : float, optional
        Total number of steps to walk, by all sides and factors, instead of ``n_walks``.
    n_threads : int, optional
        WALKERNEL_NUM_THREADS or the CPUs of this process if not given.
    progress : callable, optional
        Called with (nodes done, nodes in all) after each block of nodes, for each side and factor.

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
    factors = 1 if stitches is None else whole_number(owner, "stitches", stitches, 1, MOST_STITCHES)
    chosen, note = choose_pair(graph, kernel, pair, sampler, factors)
    _check_stitches(factors, nodes, chosen, note)
    used = checked_sampler(graph, kernel, chosen, sampler, stitches=factors)
    steps = factors * ids.size * used.mean_steps
    two_sided = chosen == "symmetric" and (ensembles == "independent" or graph.directed)
    count = _count_walks(n_walks, budget, steps * (2 if two_sided else 1))
    combined = _choose_ensembles(graph, chosen, ensembles, count, used.coupling.group)
    if budget is not None and chosen == "symmetric" and combined == "independent" and not two_sided:
        count = _count_walks(n_walks, budget, 2 * steps)
    key = check_seed(owner, seed)
    plan = _Plan(chosen, combined, count, used, key, note, factors)
    threads, report = thread_count(owner, n_threads), progress_callback(owner, progress)

    longest = used.longest + 1

    def sample(stream: int, sequence: str, with_norms: bool) -> Any:
        sampling = Sampling(graph, ids, count, used, key, stream, kernel.matrix, bool(stream % 2))
        scaled = scaled_sequence(kernel, sampling.table().scale)
        lazy = sequence == "coefficients"
        f = scaled.coefficients(longest) if lazy else scaled.modulation(longest, stitches=factors)
        return feature_rows(sampling, f, threads, report, with_norms=with_norms)

    built = [_build(graph, kernel, ids, plan, sample, 2 * i) for i in range(factors)]
    return built[0] if factors == 1 else StitchedOperator(graph, built)


def _check_stitches(stitches: int, nodes: Any, pair: str, note: str) -> None:
    """Refuse to stitch what has no symmetric pair, and a part of the graph."""
    owner, received = "estimate_kernel", Described(f"stitches={stitches}")
    if stitches > 1 and pair == "lazy":
        reason = f" ({note})" if note else ""
        refuse(owner, "stitches", f"1 with the lazy pair{reason}", stitches,
               "Only the symmetric pair can be stitched.")  # fmt: skip
    if stitches > 1 and nodes is not None:
        remedy = "A stitched kernel is a product over the whole graph. Use stitches=1 for a few nodes."
        refuse(owner, "nodes", "None with more than one stitch", received, remedy)


def _build(
    graph: Graph, kernel: Kernel, ids: NDArray[np.int64], plan: _Plan, sample: Callable[..., Any], stream: int
) -> FeatureOperator:
    """Sample the sides that a factor needs and join them; odd streams walk against the edges."""
    walked = (plan.n_walks, plan.sampler, plan.seed, plan.stitches, stream)
    origin = Origin(graph, kernel, plan.pair, plan.ensembles, *walked)
    about: dict[str, Any] = {
        "pair": plan.pair, "ensembles": plan.ensembles, "note": plan.note, "origin": origin,
    }  # fmt: skip
    part = ids.size < graph.n_nodes
    if plan.pair == "lazy":
        sides = [sample(stream, "coefficients", False).matrix, stay_at_home(ids, graph.n_nodes)]
        reached, sides = keep_reached(*sides) if part else (None, sides)
        return LazyOperator(graph, ids, *sides, reached=reached, **about)
    left, norms, _ = sample(stream, "modulation", plan.ensembles == "debiased")
    if plan.ensembles == "independent":
        sides = [left, sample(stream + 1, "modulation", False).matrix]
        return FeatureOperator(graph, ids, *(keep_reached(*sides)[1] if part else sides), **about)
    left = keep_reached(left)[1][0] if part else left
    if plan.ensembles == "debiased":
        about["correction"] = debiasing(plan.n_walks, plan.sampler.coupling.group, norms)
    return FeatureOperator(graph, ids, left, left, **about)


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
