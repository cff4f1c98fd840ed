"""From a graph and a kernel to an unbiased operator: pairs, ensembles, directions.

* Pair: f₁ * f₂ = α. "symmetric" has f₁ = f₂; "lazy" has f₁ = α, f₂ = δ₀.
* Ensembles (of a symmetric pair): "independent" walks for the two sides; "shared" ones, positive
  semidefinite with a diagonal biased upward; "debiased", shared with the bias subtracted.
* Stitches: K̂ is a product of l estimates of K^(1/l), each from walks of its own (``_stitched``).
* Directions: E[Φ₁Φ₂ᵀ] = Ψ(M)Ψ(M)ᵀ, which is K for symmetric M only. On the matrix of a directed graph,
  and on the random-walk matrix of any, the right-hand side walks Mᵀ, so that it takes walks of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from walkernel._checks import check_instance, one_of, progress_callback, refuse
from walkernel._door import door
from walkernel._files import file_path
from walkernel._philox import check_seed
from walkernel.engines import Engine, FeatureJob, resolve, store
from walkernel.features import FeatureMatrix, SumFeatures, check_convergence, identity_features
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators._base import KernelOperator, check_nodes
from walkernel.operators._explanation import feature_bytes
from walkernel.operators._groups import Groups
from walkernel.operators._rows import RowsOperator
from walkernel.operators._stitched import StitchedOperator
from walkernel.operators._walk import FeatureOperator, LazyOperator, WalkOperator, debiasing
from walkernel.planning import Plan, Request, first_plan, make_plan, refine
from walkernel.walks import SAMPLERS, Sampler, WalkSpec

Sample = Callable[[FeatureJob], Sequence[FeatureMatrix]]
"""What makes features: an engine, in memory or in files."""


@door
def estimate_kernel(
    graph: Graph,
    kernel: Kernel,
    n_walks: int | None = None,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    nodes: Any = None,
    rows: Any = None,
    pair: str = "auto",
    ensembles: str | None = None,
    stitches: int | None = None,
    budget: float | None = None,
    tolerance: float | None = None,
    directory: str | os.PathLike[str] | None = None,
    engine: str | Engine | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> KernelOperator:
    r"""Estimate a kernel from random walks: an unbiased operator, never an N×N matrix.

    .. math::

        \widehat{K} &= \Phi_1 \Phi_2^\top, \qquad f * f = \alpha, \\
        \Phi[i, v] &= \frac{1}{m} \sum_{\text{walks from } i} \; \sum_{\text{deposits at } v}
        \text{load} \cdot f(\text{length})

    Here m is ``n_walks``. For products with vectors over a whole graph that fits into memory,
    ``polynomial_operator`` is more accurate and faster. Take walks for sparse features, for a few nodes of a
    large graph, for many kernels on one sample, and for unbiased entries with error bars.

    Parameters
    ----------
    graph : Graph
        The graph.
    kernel : Kernel
        The kernel; its series must converge on the graph.
    n_walks : int, optional
        Walks from each node, for each side and factor that walks. The standard error falls as one over the
        square root of it.
    sampler : Sampler, optional
        How walks are drawn: :class:`~walkernel.IndependentWalks`, :class:`~walkernel.CoupledWalks` or
        :class:`~walkernel.PrunedWalks`. If not given, walks are matched to the kernel, with an exact head
        whose length the graph and the number of steps decide; ``K.explain()`` tells.
    seed : int
        Key of the randomness, 64 bits. The same seed gives the same walks, for any number of threads and on
        any machine; values computed from them agree to rounding, and on one machine to the last bit. Change
        it for an independent estimate.
    nodes : list of nodes, optional
        Restrict rows and columns to these nodes, in this order; only they are walked from.
    rows : list of nodes, optional
        Restrict rows alone to these nodes: the result has shape (len(rows), n_nodes), and neither its cost
        nor its memory grows with the graph. It is of the lazy pair, whose walks are the rows themselves, and
        excludes ``nodes``, the symmetric pair, ensembles and stitches.
    pair : {"auto", "symmetric", "lazy"}
        What the two sides are weighted by: f on both ("symmetric"), or α on the left and nothing on the
        right, so that only the rows walk ("lazy"). "auto" takes the symmetric pair unless it has no finite
        variance; ``K.pair`` and ``repr`` tell.
    ensembles : {None, "independent", "shared", "debiased"}
        Which walks the sides have. "independent": two samples, unbiased, not symmetric. "shared": one,
        positive semidefinite, with a diagonal that is biased upward, as Gaussian processes take it.
        "debiased": one, with the bias subtracted from the diagonal: symmetric and unbiased. None: debiased if
        the matrix is symmetric and n_walks ≥ 2, else independent.
    stitches : int, optional
        Number of factors that K̂ is the product of, each an estimate of a root of K from short walks of its
        own: less error for the same steps, in a product over the whole graph. If not given, a ``budget`` is
        split between as many as have the least error, and it is 1 otherwise, and for ``nodes``: features
        and queries of a few nodes are those of one factor.
    budget : float, optional
        Total number of steps to walk, by all sides and factors and along all edges of heads, instead of
        ``n_walks``. If neither is given, 400 from each node, or three walks where these are longer.
    tolerance : float in (0, 1), optional
        Relative error ‖K̂ − K‖/‖K‖ in the Frobenius norm that is to be met, instead of either: of all entries
        of K, or of those between ``nodes``. The number of walks, at least 16, is increased until their own
        spread tells that the error is no larger, with a confidence of 95 %. What would take more than 1e10
        steps is refused.
    directory : path, optional
        Keep the features there, block by block, instead of in memory. A call that was stopped resumes when it
        is repeated with the same arguments, and one that was finished opens what is there. One process
        writes at a time.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled and features are kept: see :mod:`walkernel.engines`. None is the environment
        variable ``WALKERNEL_ENGINE``, or else the CPU.
    progress : callable, optional
        Called with (nodes done, nodes in all) after each block of nodes, for each side and factor.

    Returns
    -------
    KernelOperator
        Of shape (n, n) for n nodes, or (len(rows), n_nodes).

    Raises
    ------
    DivergentKernelError
        If the series of the kernel diverges on the graph.
    ValueError
        If arguments exclude each other, or the kernel is too wide for walks.

    Warns
    -----
    InfiniteVarianceWarning
        If a pair or a sampler was asked for that has no finite variance.

    See Also
    --------
    polynomial_operator : The deterministic operator, for whole graphs.
    sample_features : The features alone.
    nearest : The largest entries of some rows.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    >>> K = wk.estimate_kernel(graph, wk.Diffusion(sigma=1.0), n_walks=4096, seed=0)
    >>> error = K.to_dense() - wk.exact_kernel(graph, wk.Diffusion(sigma=1.0))
    >>> bool(abs(error).max() < 0.05)
    True
    >>> wk.estimate_kernel(graph, wk.Diffusion(sigma=1.0), tolerance=1e-3).explain().error <= 1e-3
    True
    """
    check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    check_instance("kernel", kernel, Kernel, "For a function of the matrix use PowerSeries.from_function.")
    one_of("pair", pair, ("auto", "symmetric", "lazy"))
    one_of("ensembles", ensembles, (None, "independent", "shared", "debiased"))
    if sampler is not None:
        check_instance("sampler", sampler, Sampler, SAMPLERS)
    check_convergence(graph, kernel)
    starts = nodes
    if rows is not None:
        _check_rows(nodes, pair, ensembles, stitches)
        starts, pair = rows, "lazy"
    request = Request(
        graph, kernel, check_nodes(graph, starts, "nodes" if rows is None else "rows"), pair, ensembles,
        n_walks, budget, sampler, stitches, local=starts is not None, tolerance=tolerance,
    )  # fmt: skip
    where, report = resolve(engine), progress_callback(progress)
    if directory is not None and tolerance is not None:  # walks are thrown away when more are needed
        remedy = "Estimate without a directory first, and take n_walks and sampler of K.groups.left."
        refuse("tolerance", "None with a directory", tolerance, remedy)
    seed = check_seed(seed)

    def sample(job: FeatureJob) -> Sequence[FeatureMatrix]:
        """Return the features of a job; in a directory, one folder has those of each direction of walks."""
        if directory is None:
            return where.features(job, report)
        folder = "against-edges" if job.spec.transpose else "along-edges"
        return store(file_path(directory, parameter="directory") / folder, job, None, where, report)

    def walk(plan: Plan) -> WalkOperator:
        factors = _factors(request, plan, seed, where.local, sample, has_all_columns=rows is not None)
        return factors[0] if plan.weights.stitches == 1 else StitchedOperator(graph, factors)

    if tolerance is None:
        return walk(make_plan(request))
    plan: Plan | None = first_plan(request)
    while plan is not None:
        K = walk(plan)
        plan = refine(request, plan, K.accuracy(), K.n_steps, feature_bytes(K.factors))
    return K


def _check_rows(nodes: Any, pair: str, ensembles: str | None, stitches: int | None) -> None:
    """Refuse what makes no sense for rows against all nodes."""
    reason = "Rows against all nodes are those of the lazy pair, whose one walk set is the rows themselves."
    if nodes is not None:
        refuse("nodes", "None with rows", nodes, "nodes= gives K among some nodes, rows= some rows of it.")
    if pair == "symmetric":
        refuse("pair", "'auto' or 'lazy' with rows", pair, reason)
    if ensembles not in (None, "independent"):
        refuse("ensembles", "None or 'independent' with rows", ensembles, reason)
    if stitches not in (None, 1):
        refuse("stitches", "None or 1 with rows", stitches, reason)


def _factors(
    request: Request, plan: Plan, seed: int, engine: Engine, sample: Sample, *, has_all_columns: bool
) -> list[FeatureOperator]:
    """Sample all sets of walks, and join those of each factor; odd streams walk Mᵀ."""
    graph, weights = request.graph, plan.weights
    spec = WalkSpec(graph, request.ids, plan.n_walks, plan.sampler, seed, matrix=request.kernel.matrix)
    independent = plan.sides == 2
    evens, odds = list(range(0, 2 * weights.stitches, 2)), list(range(1, 2 * weights.stitches, 2))
    together = [[*evens, *odds]] if independent and spec.is_symmetric else [evens]
    together += [odds] if independent and not spec.is_symmetric else []
    found: dict[int, FeatureMatrix] = {}
    for streams in together:
        found |= zip(streams, _sample_together(spec, plan, sample, streams), strict=True)
    n_steps = sum(rows.n_steps for rows in found.values())
    factors = []
    for stream in evens:
        left = spec.on_stream(stream)
        right = None if weights.other is None else left.opposite() if independent else left
        groups = Groups(left, right, weights, plan.ensembles, engine, n_steps)
        if has_all_columns:
            factors.append(RowsOperator(graph, request.ids, found[stream], groups, plan.note))
        else:
            factors.append(_join(plan, found, groups))
    return factors


def _sample_together(spec: WalkSpec, plan: Plan, sample: Sample, streams: list[int]) -> list[FeatureMatrix]:
    """Sample sets of walks that go in the same direction; several factors keep their exact heads once."""
    spec = (spec.opposite() if streams[0] % 2 else spec).on_stream(streams[0])
    f = plan.weights.values(spec.longest + 1, spec.scale)
    separate = plan.weights.stitches > 1 and plan.sampler.head > 0
    found = sample(FeatureJob(spec, f, tuple(streams), plan.ensembles == "debiased", separate))
    if not separate:
        return list(found)
    *walked, head = found
    return [SumFeatures(head, rows) for rows in walked]


def _join(plan: Plan, found: dict[int, FeatureMatrix], groups: Groups) -> FeatureOperator:
    """Return the factor of some walks."""
    graph, ids, left = groups.left.graph, groups.left.ids, found[groups.left.stream]
    sides: list[FeatureMatrix] = [left]
    if groups.right is None:
        sides.append(identity_features(ids, graph.n_nodes))
    elif groups.right is not groups.left:
        sides.append(found[groups.right.stream])
    reached = None
    if ids.size < graph.n_nodes:
        reached, sides = left.compact(*sides[1:])
    about: dict[str, Any] = {"groups": groups, "note": plan.note, "reached": reached}
    if groups.right is None:
        return LazyOperator(graph, ids, *sides, **about)
    if plan.ensembles == "debiased":
        about["correction"] = debiasing(plan.n_walks, plan.sampler.coupling.group, left.norms)
    return FeatureOperator(graph, ids, sides[0], sides[-1], **about)
