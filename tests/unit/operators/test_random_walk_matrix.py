"""Functions of P = D⁻¹A: exact, by a polynomial and from walks, on graphs that are directed and not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
import walkernel as wk
from walkernel.features import second_moment_radius
from walkernel.operators._entry_errors import largest_rest
from walkernel.planning._allocation import head_costs


def resolvent(graph, damping):
    """(1 − c)(I − cP)⁻¹ by a dense solve."""
    A = graph.to_scipy().toarray()
    degrees = A.sum(axis=1, keepdims=True)
    P = np.divide(A, degrees, out=np.zeros_like(A), where=degrees > 0)
    return (1 - damping) * np.linalg.inv(np.eye(len(A)) - damping * P)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(2, 25), st.booleans(), st.booleans(), st.floats(0.05, 0.97),
)  # fmt: skip
def test_pagerank_is_the_resolvent(seed, n_nodes, directed, weighted, damping):
    rng = np.random.default_rng(seed)
    A = rng.random((n_nodes, n_nodes)) < 2 / n_nodes
    A = A * rng.lognormal(0, 1, A.shape) if weighted else A.astype(float)
    A[rng.random(n_nodes) < 0.2] = 0
    graph = wk.Graph.from_scipy(A if directed else A + A.T, directed=directed)
    expected = resolvent(graph, damping)
    assert np.abs(wk.exact_kernel(graph, wk.PageRank(damping)) - expected).max() <= 1e-12
    K = wk.polynomial_operator(graph, wk.PageRank(damping), tol=1e-10)
    assert np.abs(K.to_dense() - expected).sum(axis=1).max() <= 1.001e-10
    assert np.abs(K.T @ np.eye(n_nodes) - expected.T).sum(axis=0).max() <= 1.001e-10


def ladder(n_nodes, factor):
    """A path on which each edge has so many times the weight of the one before."""
    edges = [(i, i + 1) for i in range(n_nodes - 1)]
    return wk.Graph.from_edges(edges, weights=factor ** np.arange(n_nodes - 1.0))


@pytest.mark.parametrize(
    ("graph", "name"),
    [(ladder(20, 2.0), "Chebyshev"), (ladder(60, 4.0), "Taylor"), (ladder(30, 1e9), "Taylor")],
    ids=["1e3", "1e18", "1e252"],
)
def test_uneven_degrees_cost_no_digits(graph, name):
    """The similar symmetric matrix has entries that are smaller by the root of the ratio of degrees."""
    for kernel in (
        wk.PageRank(0.85),
        wk.Diffusion(2.0, matrix="random-walk"),
        wk.PStepRandomWalk(3).set_params(matrix="random-walk"),
    ):
        A = graph.to_scipy().toarray()
        P, K, power = A / A.sum(axis=1, keepdims=True), 0.0, np.eye(len(A))
        for term in kernel.coefficients(300):
            K, power = K + term * power, power @ P
        size = K.sum(axis=1).max()
        assert np.abs(wk.exact_kernel(graph, kernel) - K).max() <= 1e-13 * size
        polynomial = wk.polynomial_operator(graph, kernel)
        assert np.abs(polynomial.to_dense() - K).sum(axis=1).max() <= 1.001e-10 * size
        assert np.abs((polynomial.T @ np.eye(len(K))).T - K).sum(axis=1).max() <= 1.001e-10 * size
    assert name in repr(polynomial)


def test_wide_kernels_on_uneven_degrees_are_summed_or_refused():
    graph = ladder(60, 4.0)
    kernel = wk.RegularizedLaplacian(1, 3e3, matrix="random-walk")
    with pytest.raises(ValueError, match="is summed on this graph, is longer than"):
        wk.exact_kernel(graph, kernel)
    with pytest.raises(ValueError, match="polynomial_operator: tol must be within reach of a polynomial"):
        wk.polynomial_operator(graph, kernel)


def test_an_undirected_kernel_is_that_of_the_normalized_matrix_scaled():
    graph, kernel = graphs.weighted(), wk.Matern(1.5, 2.0)
    roots = np.sqrt(graph.out_degrees())
    expected = wk.exact_kernel(graph, kernel) * roots / roots[:, None]
    found = wk.exact_kernel(graph, kernel.set_params(matrix="random-walk"))
    assert np.allclose(found, expected, rtol=1e-13, atol=0)
    assert not np.allclose(found, found.T)


def test_polynomials_of_undirected_graphs_are_short():
    K = wk.polynomial_operator(graphs.karate(), wk.PageRank(0.85))
    assert "Chebyshev polynomial of degree 44" in repr(K)
    assert "Taylor polynomial of degree 141" in repr(
        wk.polynomial_operator(graphs.directed(), wk.PageRank(0.85))
    )


def test_nodes_without_edges_keep_the_first_coefficient():
    graph, kernel = graphs.isolated(), wk.PageRank(0.7)
    for K in (wk.polynomial_operator(graph, kernel), wk.estimate_kernel(graph, kernel, 16)):
        assert np.allclose(K.to_dense()[30:, 30:], 0.3 * np.eye(3), atol=1e-9)
        assert np.allclose(K.to_dense()[30:, :30], 0, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"pair": "lazy"}, {"stitches": 3}, {"tolerance": 0.02}], ids=str)
def test_estimates_transpose_and_tell_their_errors(options):
    graph, kernel = graphs.weighted(), wk.PageRank(0.8)
    exact = wk.exact_kernel(graph, kernel)
    K = wk.estimate_kernel(graph, kernel, None if "tolerance" in options else 512, **options)
    assert K.ensembles == "independent"
    assert np.allclose(K.T.to_dense(), K.to_dense().T, rtol=1e-12, atol=1e-15)
    assert np.linalg.norm(K.to_dense() - exact) < 0.02 * np.linalg.norm(exact)
    rows, columns = np.divmod(np.arange(900), 30)
    value, stderr = K.estimate(rows, columns)
    assert np.mean(np.abs(value - exact.ravel()) <= 2.2 * stderr) > 0.9
    turned = K.T.estimate(columns, rows)
    assert np.allclose(turned.stderr, stderr, rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [{}, {"pair": "lazy"}, {"stitches": 2}, {"nodes": range(0, 30, 3), "sampler": wk.IndependentWalks(0.2)}],
    ids=str,
)
def test_an_undirected_graph_is_as_a_directed_one_with_the_same_matrix(options):
    """Nothing may be symmetric because the graph is; the law of walks tells of more than few of them see."""
    graph = ladder(30, 1.5)
    twin = wk.Graph.from_scipy(graph.to_scipy(), directed=True)
    options = {"n_walks": 32, "sampler": wk.CoupledWalks(tuple(0.8 ** np.arange(40)), head=1), **options}
    kernel = wk.Diffusion(1.5, matrix="random-walk")
    K, L = (wk.estimate_kernel(each, kernel, **options) for each in (graph, twin))
    nodes = K.nodes
    for ours, theirs in ((K, L), (K.T, L.T)):
        assert np.array_equal(ours.to_dense(), theirs.to_dense())
        found, expected = (each.estimate(nodes[:, None], nodes) for each in (ours, theirs))
        assert np.allclose(found.stderr, expected.stderr, rtol=1e-9)
        assert np.array_equal(found.rare, expected.rare)
        assert np.allclose(found.upper, expected.upper, rtol=1e-9)
        assert found.rare.any() or "stitches" in options
        v = np.cos(np.arange(nodes.size))
        assert np.allclose(ours.estimate_product(v).stderr, theirs.estimate_product(v).stderr, rtol=1e-9)
    ids, directions = np.arange(30), (False, True)
    assert head_costs(graph, ids, "random-walk", directions, 1e3) == head_costs(
        twin, ids, "random-walk", directions, 1e3
    )


def test_error_bars_on_graphs_that_walks_leave_do_not_warn():
    """Walks end after a step along the edges, and against them."""
    graph = wk.Graph.from_edges([(0, 1), (0, 2)], weights=[1.1, 0.0015], directed=True)
    for kernel in (
        wk.RegularizedLaplacian(2, 10.0, matrix="random-walk"),
        wk.Diffusion(10.0, matrix="random-walk"),
    ):
        K, exact = wk.estimate_kernel(graph, kernel), wk.exact_kernel(graph, kernel)
        assert K.explain().error < 0.05
        value, stderr = K.estimate([0, 1], [1, 1])
        assert np.all(np.abs(value - exact[[0, 1], [1, 1]]) <= 4 * stderr + 1e-15)


@pytest.mark.parametrize(("pair", "bound"), [("symmetric", 0.0970), ("lazy", 0.6**4)])
def test_what_walks_add_to_exact_heads_is_bounded(pair, bound):
    """Rows of |P|ᵏ sum to at most one in any graph, those of the directed combinatorial matrix to more."""
    options = {"pair": pair, "sampler": wk.CoupledWalks(tuple(0.8 ** np.arange(1, 60)), head=3)}
    for graph in (graphs.weighted(), graphs.directed()):
        K = wk.estimate_kernel(graph, wk.PageRank(0.6), 32, **options)
        assert largest_rest(K.groups) == pytest.approx(bound, rel=1e-4)
    other = wk.Diffusion(1.0, matrix="combinatorial")
    assert largest_rest(wk.estimate_kernel(graph, other, 32, **options).groups) == np.inf


@pytest.mark.parametrize(("damping", "pair"), [(0.6, "symmetric"), (0.7, "symmetric"), (0.85, "lazy")])
def test_walks_against_edges_whose_second_moments_grow(damping, pair):
    """By 1.89 a step: the variance is finite if c² times that is below one; else the lazy pair serves."""
    rng = np.random.default_rng(11)
    A = (rng.random((80, 80)) < 0.06) * np.exp(rng.normal(0, 1.5, (80, 80)))
    A[rng.random(80) < 0.2] = 0
    graph, kernel = wk.Graph.from_scipy(A, directed=True), wk.PageRank(damping)
    assert second_moment_radius(graph, "weights", "random-walk", (True,)) == pytest.approx(1.89, abs=0.01)
    K = wk.estimate_kernel(graph, kernel, 512)
    assert K.pair == pair
    value, stderr = K.estimate_product(np.sin(np.arange(80.0)))
    error = value - wk.exact_kernel(graph, kernel) @ np.sin(np.arange(80.0))
    assert np.all(np.abs(error) <= 6 * stderr + 1e-12)
    assert np.linalg.norm(error) > 0.5 * np.linalg.norm(stderr)


@pytest.mark.parametrize("ensembles", ["shared", "debiased"])
def test_walks_cannot_serve_both_sides(ensembles):
    with pytest.raises(ValueError, match=r"'independent' for matrix='random-walk'.*symmetric M only"):
        wk.estimate_kernel(graphs.karate(), wk.PageRank(), 16, ensembles=ensembles)


@pytest.mark.parametrize("function", [wk.exact_kernel, wk.polynomial_operator, wk.estimate_kernel])
def test_negative_weights_are_refused(function):
    with pytest.raises(
        ValueError, match=f"{function.__name__}: graph must be without negative weights.*normalized"
    ):
        function(graphs.signed(), wk.PageRank())
    with pytest.raises(ValueError, match="sample_walks: graph must be without negative weights"):
        wk.sample_walks(graphs.signed(), 4, matrix="random-walk")


def test_few_nodes_of_a_graph():
    graph, kernel, nodes = graphs.karate(), wk.PageRank(0.5), [3, 0, 33]
    K = wk.estimate_kernel(graph, kernel, 4096, nodes=nodes)
    assert np.allclose(K.to_dense(), wk.exact_kernel(graph, kernel)[np.ix_(nodes, nodes)], atol=2e-3)
    rows = wk.estimate_kernel(graph, kernel, 4096, nodes=nodes, pair="lazy").rows([0])
    assert np.allclose(rows, wk.exact_kernel(graph, kernel)[[0]], atol=5e-3)


def test_walks_are_brought_to_a_changed_graph():
    ring = [(i, (i + 1) % 60) for i in range(60)]
    changed = wk.Graph.from_edges([*ring, (0, 7)])
    options = {"matrix": "random-walk", "transpose": True, "sampler": wk.IndependentWalks(0.3)}
    walks = wk.sample_walks(wk.Graph.from_edges(ring), 8, **options).update(changed)
    fresh = wk.sample_walks(changed, 8, **options)
    assert 0 < walks.n_rewalked < 240
    for name in ("indptr", "nodes", "lengths", "loads"):
        assert np.array_equal(getattr(walks.deposits, name), getattr(fresh.deposits, name))


class TestPageRank:
    @pytest.mark.parametrize("damping", [0.0, 1.0, -0.1, 1.5, np.nan, "0.85", True])
    def test_damping_is_checked(self, damping):
        with pytest.raises((ValueError, TypeError), match="PageRank: damping must be"):
            wk.PageRank(damping)

    def test_the_matrix_is_shown_where_it_is_not_the_default(self):
        assert repr(wk.PageRank(0.5)) == "PageRank(damping=0.5)"
        assert repr(wk.PageRank(0.5, matrix="normalized")) == "PageRank(damping=0.5, matrix='normalized')"
        assert repr(wk.Diffusion(matrix="random-walk")) == "Diffusion(sigma=1.0, matrix='random-walk')"

    def test_parameters(self):
        assert wk.PageRank().get_params() == {"matrix": "random-walk", "damping": 0.85}
        assert wk.PageRank().set_params(damping=0.4) == wk.PageRank(0.4)
        assert (2 * wk.PageRank()).matrix == "random-walk"
        assert wk.PageRank().radius == pytest.approx(1 / 0.85)
        assert wk.PageRank().lengthscale is None

    def test_powers(self):
        kernel = wk.PageRank(0.6)
        z = np.linspace(-1, 1, 7)
        for exponent in (0.5, 0.25, 1.0):
            series = np.polynomial.polynomial.polyval(z, kernel.power(exponent, 200))
            assert np.allclose(series, kernel.spectrum(z) ** exponent, rtol=1e-13)
