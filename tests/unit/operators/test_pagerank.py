"""Personalised PageRank: what NetworkX returns, for seeds in any form."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import graphs
import walkernel as wk
from walkernel.operators import _pagerank


def draw_graph(rng, *, directed):
    """Draw weights or none, loops, parts that are not connected, nodes without edges or without out-edges."""
    n = int(rng.integers(2, 26))
    A = (rng.random((n, n)) < rng.uniform(0.5, 3) / n) * 1.0
    A = A * rng.lognormal(0, 2, A.shape) if rng.random() < 0.5 else A
    A[rng.random(n) < 0.3] = 0
    return wk.Graph.from_scipy(A if directed else A + A.T, directed=directed)


def draw_seeds(rng, n):
    weights = rng.lognormal(0, 2, n) * (rng.random(n) < 0.3)
    weights[rng.integers(n)] = 1.0
    return weights


def by_networkx(graph, weights, damping):
    personalization = dict(enumerate(weights))
    found = nx.pagerank(
        graph.to_networkx(), damping, personalization=personalization, tol=1e-13, max_iter=10_000
    )
    return np.array([found[i] for i in range(graph.n_nodes)])


seeds = st.integers(0, 2**32)


@settings(max_examples=60)
@given(seeds, st.booleans(), st.floats(0.05, 0.97))
def test_networkx_returns_the_same(seed, directed, damping):
    rng = np.random.default_rng(seed)
    graph = draw_graph(rng, directed=directed)
    weights = draw_seeds(rng, graph.n_nodes)
    found = wk.personalized_pagerank(graph, dict(enumerate(weights)), damping=damping)
    assert np.abs(found - by_networkx(graph, weights, damping)).sum() <= 1e-10 + 1e-12 * graph.n_nodes
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1, abs=1e-14)


@settings(max_examples=30)
@given(seeds, st.booleans(), st.sampled_from((1e-2, 1e-6, 1e-12)))
def test_rows_of_the_kernel_are_its_parts(seed, directed, tol):
    """Before the division by the sum it is linear in the seeds, and the error is within the tolerance."""
    rng = np.random.default_rng(seed)
    graph = draw_graph(rng, directed=directed)
    n, damping = graph.n_nodes, rng.uniform(0.1, 0.95)
    K = wk.exact_kernel(graph, wk.PageRank(damping))
    weights = np.array([draw_seeds(rng, n) for _ in range(3)])
    expected = weights @ K / (weights @ K).sum(axis=1, keepdims=True)
    found = wk.personalized_pagerank(graph, weights, damping=damping, tol=tol)
    assert np.abs(found - expected).sum(axis=1).max() <= tol + 1e-12
    rows = wk.personalized_pagerank(graph, np.eye(n), damping=damping, tol=tol)
    assert np.abs(rows - K / K.sum(axis=1, keepdims=True)).sum(axis=1).max() <= tol + 1e-12


def test_scikit_network_returns_the_same():
    ranking = pytest.importorskip("sknetwork.ranking")
    A = graphs.directed().to_scipy().toarray()
    for dangling, solver in (([], "piteration"), ([], "RH"), ([3, 11, 20], "RH")):
        A[dangling] = 0
        model = ranking.PageRank(0.8, solver=solver, n_iter=500, tol=1e-13)
        theirs = model.fit_predict(scipy.sparse.csr_matrix(A), weights={0: 1.0, 7: 2.0})
        ours = wk.personalized_pagerank(wk.Graph.from_scipy(A, directed=True), {0: 1, 7: 2}, damping=0.8)
        assert np.abs(theirs - ours).sum() < 1e-9


@pytest.mark.parametrize("damping", [0.999, 1 - 1e-6])
def test_a_damping_factor_near_one(damping):
    """Of a single edge in closed form: rounding is enlarged by 1 / (1 − c) at most."""
    found = wk.personalized_pagerank(wk.Graph.from_edges([(0, 1)]), 0, damping=damping)
    expected = np.array([1, damping]) / (1 + damping)
    assert np.abs(found - expected).sum() <= 1e-10 + 1e-15 / (1 - damping)


def test_degrees_of_all_sizes():
    """Each edge has 10⁹ times the weight of the one before, so that walks from node 0 go on and on."""
    graph = wk.Graph.from_edges([(i, i + 1) for i in range(29)], weights=1e9 ** np.arange(29.0))
    found = wk.personalized_pagerank(graph, 0, damping=0.5, tol=1e-14)
    assert np.allclose(found[:20], 0.5 ** np.arange(1, 21), rtol=1e-7)


def test_values_are_never_negative():
    """Though a Chebyshev polynomial of the matrix has some that are."""
    graph = wk.Graph.from_networkx(nx.barbell_graph(10, 30))
    assert wk.polynomial_operator(graph, wk.PageRank(0.97), tol=1e-3).to_dense().min() < -1e-6
    found = wk.personalized_pagerank(graph, np.eye(50), damping=0.97, tol=2e-3)
    assert found.min() >= 0
    assert np.allclose(found.sum(axis=1), 1, rtol=1e-14)


class TestSeeds:
    GRAPH = wk.Graph.from_edges(
        [("a", "b"), ("b", "c"), ("c", "a"), ("c", ("d", 1)), ("e", "a")], directed=True
    )

    def rank(self, seeds, **options):
        return wk.personalized_pagerank(self.GRAPH, seeds, **options)

    @pytest.mark.parametrize(
        ("seeds", "weights"),
        [
            ("b", [0, 1, 0, 0, 0]),
            (("d", 1), [0, 0, 0, 1, 0]),
            (["b"], [0, 1, 0, 0, 0]),
            (["b", ("d", 1)], [0, 1, 0, 1, 0]),
            (["b", "a", "b"], [1, 2, 0, 0, 0]),
            (np.array(["b", "c"]), [0, 1, 1, 0, 0]),
            ({"b": 2, ("d", 1): 0.5, "c": 0}, [0, 4, 0, 1, 0]),
            ({"b": 1e-320, "a": 2e-320}, [2, 1, 0, 0, 0]),
            ({"b": 1e308, "a": 1.7e308}, [1.7, 1, 0, 0, 0]),
        ],
        ids=str,
    )
    def test_one_distribution(self, seeds, weights):
        found = self.rank(seeds)
        K = wk.exact_kernel(self.GRAPH, wk.PageRank())
        expected = np.array(weights) @ K
        assert found.shape == (5,)
        assert np.allclose(found, expected / expected.sum(), rtol=1e-9, atol=1e-10)

    def test_several_distributions(self):
        weights = np.array([[0, 1, 0, 0, 2], [1, 1, 1, 1, 1], [0, 0, 0, 3, 0]])
        expected = np.array(
            [self.rank({"b": 1, "e": 2}), self.rank(["a", "b", "c", ("d", 1), "e"]), self.rank([("d", 1)])]
        )
        mappings = [{"b": 0.5, "e": 1.0}, dict.fromkeys(["a", "b", "c", ("d", 1), "e"], 7), {("d", 1): 1}]
        repeated = scipy.sparse.coo_array(([1, 1, 1], ([0, 0, 0], [1, 4, 4])), shape=(1, 5))
        for seeds in (
            weights,
            weights.tolist(),
            scipy.sparse.csr_array(weights),
            scipy.sparse.lil_array(weights),
            mappings,
        ):
            assert np.allclose(self.rank(seeds), expected, rtol=1e-14, atol=0)
        assert np.allclose(self.rank(repeated), expected[:1], rtol=1e-14)
        assert self.rank(mappings[:1]).shape == (1, 5)
        assert repeated.nnz == 3

    def test_entries_that_occur_twice_are_added_and_stay_as_they_are(self):
        parts = np.array([2.0, 3.0, -1.0]), np.array([4, 1, 4]), np.array([0, 3])
        seeds = scipy.sparse.csr_array(tuple(part.copy() for part in parts), shape=(1, 5))
        assert np.allclose(self.rank(seeds)[0], self.rank({"b": 3, "e": 1}), rtol=1e-14)
        for kept, before in zip((seeds.data, seeds.indices, seeds.indptr), parts, strict=True):
            assert np.array_equal(kept, before)

    def test_ids(self):
        graph = graphs.karate()
        assert np.array_equal(wk.personalized_pagerank(graph, 5), wk.personalized_pagerank(graph, {5: 0.1}))
        assert np.array_equal(
            wk.personalized_pagerank(graph, range(34)), wk.personalized_pagerank(graph, np.ones((1, 34)))[0]
        )

    def test_many_distributions_are_multiplied_in_parts(self, monkeypatch):
        graph = graphs.directed()
        whole = wk.personalized_pagerank(graph, np.eye(30))
        monkeypatch.setattr(_pagerank, "BLOCK_ENTRIES", 7 * 30)
        assert np.array_equal(wk.personalized_pagerank(graph, np.eye(30)), whole)
