"""Weights near the ends of float64: results as with other weights, or a refusal, never NaN."""

import numpy as np
import pytest
import scipy.sparse

import walkernel as wk

EDGES = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4)]
WEIGHTS = np.array([1.0, 2.0, 3.0, 0.5, 1.0, 2.0])
SIGNS = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])


def graph_of(weights, directed=False):
    return wk.Graph.from_edges(EDGES, weights=weights, directed=directed)


@pytest.mark.parametrize("unit", [2.0**-1020, 2.0**-600, 2.0**600, 2.0**950])
@pytest.mark.parametrize("matrix", ["normalized", "combinatorial", "random-walk"])
@pytest.mark.parametrize(("signs", "directed"), [(1.0, False), (SIGNS, False), (1.0, True)])
def test_the_unit_of_weights_does_not_matter(unit, matrix, signs, directed):
    if matrix == "random-walk":
        signs = 1.0
    plain, scaled = (graph_of(c * signs * WEIGHTS, directed) for c in (1.0, unit))
    assert np.array_equal(scaled.out_degrees() / unit, plain.out_degrees())
    kernel = wk.Diffusion(1.0, matrix=matrix)

    def results(graph):
        M = graph.to_scipy(matrix)
        yield M.toarray()
        yield wk.exact_kernel(graph, kernel)
        yield wk.polynomial_operator(graph, kernel) @ np.eye(5)
        yield wk.estimate_kernel(graph, kernel, n_walks=32).to_dense()
        for transition in ("weights", "uniform"):
            sampler = wk.IndependentWalks(0.3, transition=transition)
            yield wk.sample_walks(graph, 32, sampler=sampler, matrix=matrix).features(kernel).toarray()

    for found, expected in zip(results(scaled), results(plain), strict=True):
        assert np.allclose(found, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("exponent", [-960, -400, 200])
def test_adjacency_walks_follow_the_unit_of_weights(exponent):
    unit = 2.0**exponent
    plain, scaled = (
        wk.estimate_kernel(
            graph_of(c * WEIGHTS), wk.PowerSeries([1.0, 0.1 / c], matrix="adjacency"), n_walks=32, pair="lazy"
        ).to_dense()
        for c in (1.0, unit)
    )
    assert np.allclose(scaled, plain, rtol=1e-12, atol=0)


@pytest.mark.parametrize("weights", [1e-310 * WEIGHTS, np.append(WEIGHTS[:-1], 1e-310), -1e-322 * WEIGHTS])
def test_subnormal_weights_are_refused(weights):
    with pytest.raises(
        ValueError, match=r"Graph.from_edges: weights must be zero, or of size 2.2e-308 or more"
    ):
        graph_of(weights)
    matrix = scipy.sparse.coo_array((weights, np.transpose(EDGES)), shape=(5, 5))
    with pytest.raises(
        ValueError, match=r"Graph.from_scipy: A must be zero, or of size .*Multiply all of them"
    ):
        wk.Graph.from_scipy(matrix)


def test_weights_that_add_up_to_a_subnormal_one_are_refused():
    with pytest.raises(ValueError, match="must be zero, or of size"):
        wk.Graph.from_edges([(0, 1), (0, 1)], weights=[3e-308, -2.5e-308])


@pytest.mark.parametrize("size", [1e308, 1e300])
def test_weights_of_too_large_a_sum_are_refused(size):
    with pytest.raises(ValueError, match=r"weights must be of finite sum, below 9.7e\+288"):
        graph_of(np.full(6, size))
    with pytest.raises(ValueError, match="A must be of finite sum"):
        wk.Graph.from_scipy(np.full((3, 3), size))


def test_tiny_edges_beside_others_do_no_harm():
    """M of the edge is about 1e-150, and K without it the same."""
    kernel = wk.Diffusion(1.0)
    weights = np.append(WEIGHTS[:-1], 1e-300)
    exact = wk.exact_kernel(graph_of(weights), kernel)
    without = wk.exact_kernel(wk.Graph.from_edges(EDGES[:-1], weights=WEIGHTS[:-1]), kernel)
    assert np.allclose(exact[:4, :4], without, rtol=1e-12)
    for sampler in (wk.IndependentWalks(0.1), wk.IndependentWalks(0.1, transition="uniform"), None):
        K = wk.estimate_kernel(graph_of(weights), kernel, n_walks=256, sampler=sampler)
        estimate = K.estimate(range(4), range(4))
        assert np.isfinite(K.to_dense()).all()
        assert np.all(np.abs(estimate.value - exact.diagonal()[:4]) < 6 * estimate.stderr + 1e-9)


def test_a_kernel_beyond_all_numbers_is_refused():
    kernel = wk.PowerSeries([1.0, 1.0, 0.5], matrix="adjacency")
    with pytest.raises(ValueError, match=": the matrix must be of entries below about 1e75"):
        wk.estimate_kernel(graph_of(1e200 * WEIGHTS), kernel)
    with pytest.raises(ValueError, match="exact_kernel: kernel must be of finite values"):
        wk.exact_kernel(graph_of(1e200 * WEIGHTS), kernel)


@pytest.mark.parametrize("matrix", ["normalized", "random-walk"])
def test_paths_whose_chances_underflow_are_passed_over(matrix):
    """The chance of two steps from node 0 to node 4 is 1e-472, which is nothing."""
    weights = [1.0, 1e-299, 1e173, 1.0, 1e-299, 1e-299]
    graph = wk.Graph.from_edges([(0, 1), (1, 2), (1, 3), (0, 3), (2, 4), (4, 5)], weights=weights)
    kernel = wk.Diffusion(1.0, matrix=matrix)
    exact = wk.exact_kernel(graph, kernel)
    K = wk.estimate_kernel(graph, kernel, n_walks=256, pair="lazy")
    estimate = K.estimate(np.arange(6)[:, None], np.arange(6))
    assert np.isfinite(estimate.stderr).all()
    assert np.all(np.abs(estimate.value - exact) < 6 * estimate.stderr + 1e-9)


def test_walks_against_ratios_of_degrees_beyond_all_numbers_are_refused():
    kernel, refusal = wk.PageRank(0.5), "degrees must be within a factor of 1e75 .* got a factor of 1e10[01]"
    for directed, edge in ((False, (3, 4)), (True, (2, 3))):
        graph = graph_of(np.where([pair == edge for pair in EDGES], 1e-100, WEIGHTS), directed)
        with pytest.raises(ValueError, match=f"estimate_kernel: {refusal}.*pair='lazy'"):
            wk.estimate_kernel(graph, kernel, n_walks=64)
        with pytest.raises(ValueError, match=f"sample_walks: {refusal}"):
            wk.sample_walks(graph, 4, matrix="random-walk", transpose=True)
        exact = wk.exact_kernel(graph, kernel)
        assert np.allclose(
            wk.estimate_kernel(graph, kernel, n_walks=4096, pair="lazy").to_dense(), exact, atol=0.01
        )
        uniform = wk.IndependentWalks(0.2, transition="uniform")
        assert np.allclose(
            wk.estimate_kernel(graph, kernel, 2**14, sampler=uniform).to_dense(), exact, atol=0.05
        )
