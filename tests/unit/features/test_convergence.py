"""Spectral bounds hold and are tight; the doors open and close where they should."""

import math

import numpy as np
import pytest

import graphs
import walkernel as wk
from walkernel.features import (
    Lazy,
    Modulated,
    Symmetric,
    adjacency_bound,
    lack_of_variance,
    largest_norm,
    second_moment_radius,
    spectral_radius,
)


@pytest.mark.parametrize("kind", graphs.KINDS)
def test_bounds_enclose_the_spectral_radius(kind):
    graph = graphs.KINDS[kind]()
    true = max(abs(np.linalg.eigvals(abs(graph.to_scipy().toarray()))))
    bound = adjacency_bound(graph)
    assert bound.upper >= true * (1 - 1e-12)
    assert bound.upper == pytest.approx(true, rel=0.01)
    x = bound.vector
    assert (abs(graph.to_scipy()) @ x <= bound.upper * x * (1 + 1e-12)).all()


def test_bipartite_and_nilpotent_matrices():
    path = wk.Graph.from_edges([(i, i + 1) for i in range(9)])
    assert adjacency_bound(path).upper == pytest.approx(2 * math.cos(math.pi / 11), rel=1e-3)
    chain = wk.Graph.from_scipy(np.diag(np.ones(4), 1))
    assert adjacency_bound(chain).upper < 0.2
    assert adjacency_bound(wk.Graph.from_edges([], n_nodes=3)).upper == 0


def test_norms_are_enough_where_they_are_small():
    graph = graphs.karate()
    assert spectral_radius(graph, "adjacency", below=100.0) == 17
    assert "adjacency_bound" not in graph._derived
    assert spectral_radius(graph, "adjacency") == pytest.approx(6.7257, rel=1e-3)


@pytest.mark.parametrize("transition", ["weights", "uniform"])
@pytest.mark.parametrize(
    ("kind", "matrix", "turned"),
    [("weighted", matrix, False) for matrix in ("normalized", "adjacency", "combinatorial", "random-walk")]
    + [
        ("weighted", "random-walk", True),
        ("directed", "random-walk", False),
        ("directed", "random-walk", True),
    ],
)
def test_second_moments_by_hand(kind, matrix, turned, transition):
    graph = graphs.KINDS[kind]()
    A, M = graph.to_scipy().toarray(), graph.to_scipy(matrix).toarray()
    A, M = (A.T, M.T) if turned else (A, M)
    law = M if matrix == "combinatorial" else A
    weights = (law != 0) if transition == "uniform" else abs(law)
    P = weights / weights.sum(axis=1, keepdims=True)
    Q = np.divide(M**2, P, out=np.zeros_like(M), where=P > 0)
    true = max(abs(np.linalg.eigvals(Q)))
    found = second_moment_radius(graph, transition, matrix, (turned,))
    assert true * (1 - 1e-9) <= found <= true * 1.01


def modulated(kernel, pair="symmetric", graph=None):
    weights = Symmetric(kernel) if pair == "symmetric" else Lazy(kernel)
    return Modulated(graph or graphs.karate(), weights, (False,))


def test_variance_limits_of_the_paper():
    """c²/(1−p) at p = .5, c = .8 is 1.28: no finite variance; at p = .3 it is .91."""
    assert modulated(wk.RegularizedLaplacian(2, 2.0)).largest_p_halt() == pytest.approx(1 - 0.8**2)
    assert modulated(wk.InverseCosine()).largest_p_halt() == pytest.approx(0.0)
    assert modulated(wk.InverseCosine(), "lazy").largest_p_halt() == 1.0


@pytest.mark.parametrize("kernel", [wk.Diffusion(20.0), wk.Diffusion(60.0)])
def test_wide_kernels_are_estimated_and_short_walks_are_said(kernel):
    """Where hardly a walk is as long as f is wide, K̂ is 0 in almost every sample: that must not be silent."""
    graph = graphs.karate()
    if kernel.sigma < 50:
        K, exact = wk.estimate_kernel(graph, kernel, 512), wk.exact_kernel(graph, kernel)
        assert np.linalg.norm(K.to_dense() - exact) < 0.3 * np.linalg.norm(exact)
    with pytest.warns(wk.InfiniteVarianceWarning, match="infinite in practice"):
        wk.sample_walks(graph, 4).features(kernel)
    with pytest.warns(wk.InfiniteVarianceWarning, match="infinite in practice"):
        wk.estimate_kernel(graph, kernel, 4, sampler=wk.IndependentWalks(0.2))


@pytest.mark.parametrize(
    "kernel", [wk.Diffusion(20.0), wk.Matern(1.5, 8.0), wk.PageRank(0.95, matrix="normalized")]
)
def test_remedies_for_default_walks_help(kernel):
    graph = graphs.karate()
    with pytest.warns(
        wk.InfiniteVarianceWarning, match=r"Use .* or sampler=choose_sampler\(graph, kernel\)\."
    ):
        wk.sample_walks(graph, 16).features(kernel)
    wk.sample_walks(graph, 16, sampler=wk.choose_sampler(graph, kernel)).features(kernel)  # without a warning


def test_where_no_walks_help_the_lazy_pair_is_named():
    graph, kernel = graphs.karate(), wk.InverseCosine()
    for sampler in (None, wk.choose_sampler(graph, kernel)):
        with pytest.warns(
            wk.InfiniteVarianceWarning, match="Use estimate_kernel with pair='lazy', polynomial_"
        ):
            wk.sample_walks(graph, 16, sampler=sampler).features(kernel)


@pytest.mark.parametrize(("rarely", "said"), [(2e-6, True), (0.05, False)])
def test_laws_of_far_more_variance_than_need_be_are_said(rarely, said):
    """Three steps always and up to thirty hardly ever do for a kernel whose f is at four to ten steps."""
    sampler = wk.CoupledWalks((1.0,) * 3 + (rarely,) * 27)
    message = lack_of_variance(modulated(wk.Diffusion(5.0)), sampler)
    assert ("times the variance" in message) is said
    assert bool(message) is said


def test_each_direction_is_judged_by_its_own_walks():
    """Edges into one hub: with the edges the variance is tame, against them it is not."""
    n = 200
    edges = [(i, 0) for i in range(1, n)] + [(0, 1)] + [(i, i % (n - 1) + 1) for i in range(1, n)]
    graph = wk.Graph.from_edges(edges, directed=True)
    kernel = wk.RegularizedLaplacian(1, 1.0, matrix="combinatorial")
    assert second_moment_radius(graph, "weights", "combinatorial", (False,)) == pytest.approx(1.0, rel=0.01)
    assert second_moment_radius(graph, "weights", "combinatorial", (True,)) > 10
    assert wk.estimate_kernel(graph, kernel, 4).pair == "lazy"


@pytest.mark.parametrize("directions", [(False,), (True,)])
def test_both_sides_are_planned_for_the_second_moments_of_either(directions):
    """Also where all walks end, so that these vanish in the long run."""
    for matrix in ("normalized", "random-walk"):
        for graph in (graphs.directed(), wk.Graph.from_edges([(0, 1), (0, 2)], directed=True)):
            both = second_moment_radius(graph, "weights", matrix, (False, True))
            assert second_moment_radius(graph, "weights", matrix, directions) <= both


@pytest.mark.parametrize("kind", ["weighted", "directed", "isolated"])
@pytest.mark.parametrize("kernel", [wk.PageRank(0.85), wk.InverseCosine(matrix="random-walk")])
def test_rows_of_kernels_on_the_random_walk_matrix_are_bounded(kind, kernel):
    graph = graphs.KINDS[kind]()
    sizes = np.abs(wk.exact_kernel(graph, kernel)).sum(axis=1)
    bound = largest_norm(graph, kernel)
    assert sizes.max() * (1 - 1e-12) <= bound
    assert bound == pytest.approx(np.abs(kernel.coefficients(400)).sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "kernel"),
    [("weighted", wk.Diffusion(1.0, matrix="adjacency")), ("weighted", wk.Diffusion(2.0)),
     ("signed", wk.PStepRandomWalk(3, matrix="combinatorial")), ("directed", wk.Diffusion(2.0))],
)  # fmt: skip
def test_norms_of_kernels_are_bounded(kind, kernel):
    graph = graphs.KINDS[kind]()
    norm, bound = np.linalg.norm(wk.exact_kernel(graph, kernel), 2), largest_norm(graph, kernel)
    assert norm * (1 - 1e-12) <= bound
    assert bound <= (1.5 * norm if graph.directed or kind == "signed" else 1.02 * norm)


def test_norms_of_kernels_count_what_lies_beyond_the_longest_series():
    """Σ αₖ is one; a third of it lies beyond the terms that can be computed."""
    kernel = wk.RegularizedLaplacian(1, 1e3)
    assert largest_norm(graphs.directed(), kernel) == pytest.approx(1.0, rel=1e-6)


def test_divergence_on_normalized_matrices():
    geometric = wk.PowerSeries.from_function(lambda x: 1 / (1 - x / 0.9))
    with pytest.raises(wk.DivergentKernelError, match=r"normalized matrix is 1 and must be below 0\.(899|9)"):
        wk.estimate_kernel(graphs.karate(), geometric, 4)
