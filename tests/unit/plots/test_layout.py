"""Layouts keep neighbours near and components apart, and are the same again; given positions are kept."""

import sys
import time

import numpy as np
import pytest
import scipy.sparse

import graphs
import walkernel as wk
from walkernel import plots
from walkernel.datasets import erdos_renyi, grid

ROWS = [(0.0, 0.0), (1.0, 0.0), (0.0, 2.0), (3.0, 0.5), (1.0, 1.0)]


def labelled():
    return wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e")])


def edges(m, n):
    return wk.Graph.from_edges(np.reshape(m, (-1, 2)).astype(int), n_nodes=n)


def again(graph):
    return wk.Graph.from_scipy(graph.to_scipy(), directed=graph.directed)


def edge_lengths(graph, places):
    A = graph.to_scipy().tocoo()
    return np.linalg.norm(places[A.row] - places[A.col], axis=1)


def distances(places):
    return np.linalg.norm(places[:, None] - places, axis=2)


@pytest.fixture(params=[True, False], ids=["springs", "no springs"])
def springs(request, monkeypatch):
    if not request.param:
        monkeypatch.setattr("walkernel.plots._layout.SPRING_NODES", 0)
    return request.param


def test_neighbours_are_near_and_layouts_are_kept(springs):
    graph = grid(18, 12).graph
    places = plots.node_positions(graph)
    assert places is plots.node_positions(graph)
    assert not places.flags.writeable
    assert np.array_equal(places, plots.node_positions(again(graph)))
    lengths = edge_lengths(graph, places)
    assert lengths.max() < 2.5 * lengths.mean() < 0.6 * distances(places).mean()


@pytest.mark.parametrize("n_rows", [50, 100])
def test_distances_are_those_in_steps(n_rows):
    city = grid(100, n_rows)
    places = plots.node_positions(city.graph)
    width, height = np.ptp(places, axis=0)
    assert 0.8 < width / height * n_rows / 100 < 1.25
    some = np.random.default_rng(0).choice(100 * n_rows, 300, replace=False)
    steps = np.abs(city.coordinates[some][:, None] - city.coordinates[some]).sum(axis=2)
    assert np.corrcoef(steps.ravel(), distances(places[some]).ravel())[0, 1] > 0.95


@pytest.mark.parametrize(
    "make", [graphs.directed, graphs.signed, graphs.isolated, graphs.self_loops, labelled]
)
def test_every_graph_has_a_layout(make, springs):
    graph = make()
    places = plots.node_positions(graph)
    assert places.shape == (graph.n_nodes, 2)
    assert np.isfinite(places).all()
    apart = distances(places)[np.triu_indices(graph.n_nodes, 1)]
    assert apart.min() > 1e-4 * apart.max()


@pytest.mark.parametrize(
    "graph",
    [edges([], 1), edges([], 30), edges([0, 0], 1), edges([0, 1], 2), edges([0, 1, 2, 3], 9),
     edges([(i, i + 1) for i in range(2999)], 3000), edges([(0, i) for i in range(1, 3000)], 3000)],
    ids=["one", "isolated", "loop", "edge", "edges", "path", "star"],
)  # fmt: skip
def test_nodes_do_not_cover_each_other(graph, springs):
    places = plots.node_positions(graph)
    assert np.isfinite(places).all()
    cells = np.unique(np.round(places / max(np.ptp(places, axis=0).max(), 1e-9), 6), axis=0)
    assert len(cells) == graph.n_nodes


def test_a_path_is_straight():
    """Distances in steps are those of places, but for rounding of centred squares."""
    places = plots.node_positions(edges([(i, i + 1) for i in range(899)], 900))
    steps = np.abs(np.subtract.outer(np.arange(900), np.arange(900)))
    found = distances(places)
    assert np.allclose(found / found.max(), steps / 899, atol=0.01)


def test_components_lie_apart(springs):
    graph = erdos_renyi(400, 1.3 / 400, seed=1).graph
    places = plots.node_positions(graph)
    count, component = scipy.sparse.csgraph.connected_components(graph.to_scipy())
    assert count > 30
    low = np.array([places[component == k].min(axis=0) for k in range(count)])
    high = np.array([places[component == k].max(axis=0) for k in range(count)])
    overlap = (low[:, None] < high + 0.5).all(axis=2) & (low < high[:, None] + 0.5).all(axis=2)
    assert overlap.sum() == count  # each with itself only


def test_without_networkx(monkeypatch):
    monkeypatch.setattr("walkernel.plots._layout.find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "networkx", None)
    graph = again(wk.load_dataset("karate").graph)
    assert len(np.unique(plots.node_positions(graph), axis=0)) == 34


def test_a_large_graph_takes_a_second_or_two():
    graph = grid(400, 250).graph
    start = time.process_time()
    plots.node_positions(graph)
    assert time.process_time() - start < 5


def test_positions_of_a_data_set_and_given_ones():
    city = grid(5, 1)
    assert np.array_equal(plots.node_positions(city), city.coordinates)
    assert np.array_equal(plots.node_positions(city, ROWS), ROWS)


def test_positions_by_node():
    graph = labelled()
    places = dict(zip("edcba", ROWS, strict=True))
    assert np.array_equal(plots.node_positions(graph, places), ROWS[::-1])
    ids = dict(zip([3, 0, 1, 2, 4], ROWS, strict=True))
    assert np.array_equal(plots.node_positions(grid(5, 1).graph, ids), [ids[i] for i in range(5)])


def test_bodies_are_seen_from_where_they_are_widest():
    flat = np.column_stack([np.arange(5.0), np.zeros(5), np.array([0, 3, 0, 3, 0.0])])
    seen = plots.node_positions(grid(5, 1).graph, flat)
    assert np.allclose(distances(seen), distances(flat))
    assert plots.node_positions(edges([], 1), [[1.0, 2.0, 3.0]]).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("positions", "error", "words"),
    [
        (
            ROWS[:4],
            ValueError,
            r"positions must be numbers of shape \(5, 2\) or \(5, 3\), got shape \(4, 2\)",
        ),
        (np.zeros((5, 4)), ValueError, r"got shape \(5, 4\)"),
        ([*ROWS[:4], (np.nan, 1.0)], ValueError, r"must be finite, got \[nan, 1.0\] for node 'e'"),
        ("here", TypeError, "positions must be numbers of shape"),
        (
            dict(zip("abcd", ROWS, strict=False)),
            ValueError,
            "a mapping with all nodes, got none for node 'e'",
        ),
        (dict(zip("abcdf", ROWS, strict=True)), ValueError, "'f'"),
        ({}, ValueError, "none for node 'a'"),
        ({"a": 1, "b": 2, "c": 3, "d": 4, "e": (5, 6)}, TypeError, "positions must be numbers of shape"),
    ],
)
def test_positions_that_are_none(positions, error, words):
    with pytest.raises(error, match="node_positions: .*" + words):
        plots.node_positions(labelled(), positions)
