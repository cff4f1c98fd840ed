"""Operators at the edges: large and small units, gaps, cancellation, budgets, queries of few nodes."""

import tracemalloc

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

import graphs
import walkernel as wk
from walkernel.features import multiply, multiply_transposed

KERNEL = wk.Diffusion(1.0)


def test_loads_do_not_overflow_on_heavy_adjacency_matrices():
    ring = [(i, (i + d) % 50) for i in range(50) for d in (1, 2, 3)]
    graph = wk.Graph.from_edges(ring, weights=np.full(150, 1e5))
    kernel = wk.PowerSeries.from_function(lambda x: np.exp(x / 6e5), matrix="adjacency")
    exact = wk.exact_kernel(graph, kernel)
    for K in (wk.estimate_kernel(graph, kernel, 512), wk.estimate_kernel(graph, kernel, 512, pair="lazy")):
        assert np.linalg.norm(K.to_dense() - exact) < 0.05 * np.linalg.norm(exact)
    record = wk.sample_walks(graph, 512, matrix="adjacency").features(kernel)
    assert np.linalg.norm((record @ record.T).toarray() - exact) < 0.1 * np.linalg.norm(exact)


def test_series_with_gaps_are_summed_to_their_end():
    graph = graphs.directed()
    kernel = wk.PowerSeries([1.0] + [0.0] * 130 + [5.0])
    M = graph.to_scipy("normalized").toarray()
    expected = np.eye(30) + 5 * np.linalg.matrix_power(M, 131)
    assert np.allclose(wk.exact_kernel(graph, kernel), expected)
    assert np.allclose(wk.polynomial_operator(graph, kernel).to_dense(), expected)


def test_cancelling_terms_are_refused_rather_than_summed():
    with pytest.raises(ValueError, match="cancel"):
        wk.exact_kernel(graphs.directed(), wk.InverseCosine(60.0))


def test_auto_does_not_take_a_symmetric_pair_that_diverges():
    kernel = wk.PowerSeries.from_function(lambda x: (0.5 + x) / (1.1 - x))
    with pytest.warns(wk.InfiniteVarianceWarning):
        K = wk.estimate_kernel(graphs.karate(), kernel, 8, sampler=wk.IndependentWalks(0.3))
    assert K.pair == "lazy"


def test_budget_for_one_walk_counts_both_sides():
    graph, sampler = graphs.karate(), wk.IndependentWalks()
    one_side = sampler.mean_steps * 34
    with pytest.raises(ValueError, match="budget"):
        wk.estimate_kernel(graph, KERNEL, budget=1.2 * one_side, sampler=sampler)
    K = wk.estimate_kernel(graph, KERNEL, budget=2.2 * one_side, sampler=sampler)
    assert K.ensembles == "debiased"


def test_shared_arrays_are_read_only():
    graph = graphs.karate()
    K = wk.estimate_kernel(graph, KERNEL, 8, nodes=[5, 3, 1])
    for array in (graph.out_degrees(), K.nodes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


def test_transposed_twice_is_the_operator_itself():
    K = wk.estimate_kernel(graphs.karate(), KERNEL, 8, pair="lazy", nodes=[1, 2])
    assert K.T.T is K
    assert K.T.T.rows([1]).shape == (1, 34)


@pytest.mark.filterwarnings("ignore:.*topk. the walks found fewer")
def test_queries_of_few_nodes_hold_no_array_of_the_graphs_size():
    n = 10**6
    graph = wk.Graph.from_edges(np.random.default_rng(0).integers(0, n, (2 * n, 2)), n_nodes=n)
    chosen = np.arange(0, n, n // 100)
    wk.estimate_kernel(graph, KERNEL, 16, nodes=chosen)

    def query():
        K = wk.estimate_kernel(graph, KERNEL, 16, nodes=chosen)
        K @ np.ones(chosen.size), K.to_dense(), K.diagonal(), K.topk(chosen[:5], 3)

    tracemalloc.start()
    query()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6, "an array of one double for each node would be 8 MB"


@pytest.mark.parametrize("columns", [1, 2, 16, 33])
def test_threaded_products_equal_scipys(columns):
    features = wk.sample_features(graphs.unweighted(), KERNEL, 64)
    V = np.random.default_rng(1).standard_normal((30, columns))
    big = scipy.sparse.vstack([features] * 200).tocsr()
    for threads in (1, 2, 3):
        assert np.allclose(multiply(big, V, threads), big @ V)
        W = np.tile(V, (200, 1))
        assert np.allclose(multiply_transposed(big, W, threads), big.T @ W)
    one, two = (multiply(big, V, t) for t in (1, 2))
    assert np.array_equal(one, two)


def heavy(weight, *, directed):
    """A graph of 20 nodes whose weights are about ``weight``, and the kernel exp(A · 5 / ρ)."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, 20, (60, 2))
    graph = wk.Graph.from_edges(
        edges, n_nodes=20, weights=weight * rng.uniform(0.5, 1.5, 60), directed=directed
    )
    rho = max(abs(np.linalg.eigvals(graph.to_scipy().toarray())))
    return graph, float(5 / rho)


@pytest.mark.parametrize("weight", [1e-2, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.filterwarnings("ignore::walkernel.InfiniteVarianceWarning")
def test_units_of_the_weights_do_not_matter(weight, directed):
    graph, s = heavy(weight, directed=directed)
    kernel = wk.PowerSeries.from_function(lambda x: np.exp(s * x), matrix="adjacency")
    truth = scipy.linalg.expm(s * graph.to_scipy().toarray())
    assert np.allclose(wk.exact_kernel(graph, kernel), truth, rtol=1e-9, atol=1e-9 * truth.max())
    polynomial = wk.polynomial_operator(graph, kernel).to_dense()
    assert np.allclose(polynomial, truth, rtol=0, atol=1e-8 * truth.max())
    estimate = wk.estimate_kernel(
        graph, kernel, 20000, pair="lazy", sampler=wk.IndependentWalks(0.1)
    ).to_dense()
    assert np.linalg.norm(estimate - truth) < 0.3 * np.linalg.norm(truth)


def test_named_kernels_on_dense_adjacency_matrices_stay_finite():
    graph = wk.Graph.from_scipy(np.ones((400, 400)) - np.eye(400))
    kernel = wk.Diffusion(0.6, matrix="adjacency")
    exact = wk.exact_kernel(graph, kernel)
    estimate = wk.estimate_kernel(graph, kernel, 64, nodes=[0, 1, 2]).to_dense()
    assert np.allclose(estimate, exact[:3, :3], rtol=0.5)


def test_products_of_negative_kernels_take_the_lazy_pair():
    kernel = (-1 * wk.Diffusion(1.0)) * (-1 * wk.Diffusion(2.0))
    assert wk.estimate_kernel(graphs.karate(), kernel, 8).pair == "lazy"
