"""Nearest nodes by PageRank have the values of personalised PageRank, also where walks end in some nodes."""

import numpy as np
import pytest

import walkernel as wk


def dangling(seed, *, labelled=False):
    """A directed graph of 60 nodes with weights, of which a quarter cannot be left."""
    rng = np.random.default_rng(seed)
    A = (rng.random((60, 60)) < 0.06) * rng.lognormal(0, 1, (60, 60))
    A[rng.random(60) < 0.25] = 0
    graph = wk.Graph.from_scipy(A, directed=True)
    assert graph.out_degrees().min() == 0
    return graph if not labelled else wk.Graph.from_networkx(_renamed(graph))


def _renamed(graph):
    import networkx as nx

    return nx.relabel_nodes(graph.to_networkx(), lambda i: f"n{i}")


@pytest.mark.parametrize("method", ["auto", "push", "polynomial"])
@pytest.mark.parametrize("tolerance", [0.1, 1e-3])
def test_values_are_those_of_personalized_pagerank(method, tolerance):
    graph, k = dangling(0), 5
    nodes = np.arange(60)
    exact = wk.personalized_pagerank(graph, np.eye(60), damping=0.8)
    assert np.abs(exact - wk.exact_kernel(graph, wk.PageRank(0.8))).max() > 0.1  # divided by sums of rows
    found = wk.nearest(graph, wk.PageRank(0.8), nodes, k, tolerance=tolerance, method=method)
    np.fill_diagonal(exact, 0.0)
    ranked = -np.sort(-exact, axis=1)[:, :k]
    for i in nodes:
        count = np.count_nonzero(ranked[i])
        assert np.isnan(found.values[i, count:]).all()
        allowed = tolerance * (ranked[i, k - 1] if count == k else ranked[i, max(count - 1, 0)]) + 1e-9
        true = exact[i, found.nodes[i, :count]]
        assert np.all(np.abs(found.values[i, :count] - true) <= allowed)
        assert np.all(np.abs(found.values[i, :count] - true) <= 2 * found.stderr[i, :count] + 1e-9)
        assert np.all(ranked[i, :count] - true <= 2 * allowed)
        certified = found.nodes[i, :count][found.certified[i, :count]]
        assert np.all(exact[i, certified] >= ranked[i, k - 1] - 1e-12)
    assert found.certified.any()


def test_labels_and_nodes_that_cannot_be_left():
    graph = dangling(1, labelled=True)
    node = graph.labels[int(np.argmin(graph.out_degrees()))]
    found = wk.nearest(graph, wk.PageRank(), [node], 3)
    assert found.nodes.tolist() == [[None] * 3]
    assert wk.personalized_pagerank(graph, node).max() == 1.0


def test_undirected_rows_need_no_division():
    graph = wk.load_dataset("karate").graph
    found = wk.nearest(graph, wk.PageRank(0.5), [0, 33], 4, tolerance=1e-6)
    exact = wk.personalized_pagerank(graph, np.eye(34)[[0, 33]], damping=0.5)
    assert np.allclose(found.values, np.take_along_axis(exact, found.nodes, axis=1), rtol=1e-5)
