"""Return probabilities: exact by both routes, estimates where these are cheaper, and what is refused."""

import math

import networkx
import numpy as np
import pytest

import graphs
import walkernel as wk
from engines import Processes
from walkernel.engines import CPU
from walkernel.operators import _returns
from walkernel.operators._returns import Returns

KINDS = [kind for kind in graphs.KINDS if kind != "signed"]
ALL_PATHS = math.inf


def powers(graph, length=16):
    """The diagonals of P, P², …, from dense powers."""
    P = graph.to_scipy("random-walk").toarray()
    diagonals, power = [], np.eye(len(P))
    for _ in range(length):
        power = power @ P
        diagonals.append(power.diagonal())
    return np.transpose(diagonals)


def expander(n_nodes=1200, degree=6):
    return wk.Graph.from_networkx(networkx.random_regular_graph(degree, n_nodes, seed=0))


def estimate(graph, ids, name, *, limit=60, length=9, n_samples=32, seed=3, engine=None):
    """Estimate what a number of edges from each node does not tell exactly."""
    returns = Returns(graph, ids, length, n_samples, seed, engine or CPU())
    value, stderr = np.zeros((2, ids.size, length))
    return getattr(returns, name)(returns._follow(limit, value), value, stderr)


@pytest.fixture
def estimating(monkeypatch):
    """Take no exact answer that costs more than an estimate."""
    monkeypatch.setattr(_returns, "EXACT_WORK", 0)
    monkeypatch.setattr(_returns, "FEW_MULTIPLICATIONS", 0)


@pytest.mark.parametrize("length", [1, 2, 5, 16])
@pytest.mark.parametrize("kind", KINDS)
def test_both_exact_routes_are_the_dense_powers(kind, length):
    graph = graphs.KINDS[kind]()
    ids, truth = np.arange(graph.n_nodes), powers(graph, length)
    returns = Returns(graph, ids, length, 256, 0, CPU())
    value = np.zeros(truth.shape)
    assert (returns._follow(ALL_PATHS, value) == length).all()
    np.testing.assert_allclose(value, truth, atol=1e-14)
    np.testing.assert_allclose(returns._by_columns(ids), truth, atol=1e-14)


@pytest.mark.parametrize("kind", KINDS)
def test_few_edges_give_the_first_lengths(kind):
    """As many as the paths of a number of edges tell; none of 0 edges, but where no edge leaves."""
    graph = graphs.KINDS[kind]()
    truth, isolated = powers(graph), graph.out_degrees() == 0
    returns = Returns(graph, np.arange(graph.n_nodes), 16, 256, 0, CPU())
    last = np.where(isolated, 16, 0)
    for limit in (0, 10, 100, 1000):
        value = np.full(truth.shape, np.nan)
        known = returns._follow(limit, value)
        filled = ~np.isnan(value)
        assert (filled.sum(axis=1) == known).all()
        assert (known >= last).all()
        np.testing.assert_allclose(value[filled], truth[filled], atol=1e-14)
        last = known
        if limit == 0:
            assert (known == last).all()
    assert last.min() > 4


def test_small_graphs_have_exact_answers():
    graph = graphs.weighted()
    for method in ("auto", "exact"):
        found = wk.return_probabilities(graph, 7, method=method)
        np.testing.assert_allclose(found.value, powers(graph, 7), atol=1e-14)
        assert not found.stderr.any()
        assert found.n_groups == 0


def test_some_nodes_by_name():
    graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    found = wk.return_probabilities(graph, 4, nodes=["d", "b"]).value
    np.testing.assert_allclose(found, powers(graph, 4)[[3, 1]], atol=1e-14)


@pytest.mark.parametrize("graph", [expander(), wk.datasets.grid(40, 40).graph], ids=["expander", "grid"])
def test_local_graphs_are_exact_and_others_estimated(graph, estimating):
    """Paths of eight edges are few on a grid, and all nodes of an expander."""
    found = wk.return_probabilities(graph, 16, n_samples=64)
    ids = np.arange(0, graph.n_nodes, 50)
    truth = Returns(graph, ids, 16, 64, 0, CPU())._by_columns(ids)
    if graph.n_nodes == 1600:
        assert found.n_groups == 0
        np.testing.assert_allclose(found.value[ids], truth, atol=1e-14)
        return
    assert found.n_groups == 16
    is_exact = (found.stderr == 0).all(axis=0)
    assert 2 <= is_exact.sum() <= 8
    np.testing.assert_allclose(found.value[ids][:, is_exact], truth[:, is_exact], atol=1e-14)
    error = np.abs(found.value[ids] - truth)[:, ~is_exact]
    assert 0 < np.sqrt(np.mean((error / found.stderr[ids][:, ~is_exact]) ** 2)) < 2


def test_few_nodes_of_a_large_graph_are_walked_from(estimating, monkeypatch):
    """Products with signs cost as much for a few nodes as for all."""
    asked = []
    for name in ("_by_signs", "_by_walks"):
        method = getattr(Returns, name)
        monkeypatch.setattr(Returns, name, lambda *args, m=method, n=name: asked.append(n) or m(*args))
    graph = expander(2000)
    few = wk.return_probabilities(graph, 12, nodes=[5, 17], n_samples=64)
    assert asked == ["_by_walks"]
    wk.return_probabilities(graph, 12, n_samples=64)
    assert asked == ["_by_walks", "_by_signs"]
    truth = wk.return_probabilities(graph, 12, nodes=[5, 17], method="exact")
    assert truth.n_groups == 0
    assert (truth.value <= few.upper).mean() > 0.9  # bounds at a level of 95 %


@pytest.mark.parametrize("name", ["_by_signs", "_by_walks"])
def test_nodes_and_threads_and_engines_change_no_number(name):
    graph = expander()
    whole = estimate(graph, np.arange(graph.n_nodes), name, engine=CPU(1))
    few = np.array([700, 3, 21])
    part = estimate(graph, few, name, engine=CPU(3))
    np.testing.assert_allclose(part.value, whole.value[few], rtol=1e-12)
    other = estimate(graph, few, name, engine=Processes(2))
    np.testing.assert_allclose(other.value, part.value, rtol=1e-12)
    np.testing.assert_allclose(other.stderr, part.stderr, rtol=1e-9)
    again = estimate(graph, few, name, seed=4)
    assert (again.value[:, :4] == part.value[:, :4]).all()
    assert (again.value[:, 5:] != part.value[:, 5:]).any()


def test_what_cannot_happen_is_zero_by_walks():
    """No walk of an odd length returns on a bipartite graph."""
    graph = wk.Graph.from_networkx(networkx.bipartite.random_graph(60, 90, 0.2, seed=0))
    found = estimate(graph, np.arange(graph.n_nodes), "_by_walks", limit=20, length=11)
    assert not found.value[:, ::2].any()
    assert found.stderr[:, 9].any()


def test_what_few_walks_tell_is_marked_and_bounded():
    graph, ids = expander(), np.arange(100)
    found = estimate(graph, ids, "_by_walks", length=16)
    truth = Returns(graph, ids, 16, 32, 0, CPU())._by_columns(ids)
    assert not found.rare[:, :4].any()
    assert found.rare[:, 10:].mean() > 0.9
    assert (truth <= found.upper + 1e-12)[found.rare].all()
    four_steps = np.broadcast_to(truth[:, 3:4], truth.shape)
    np.testing.assert_allclose(found.limit, np.where(found.rare, four_steps, 0.0), atol=1e-14)


def test_errors_of_hubs_are_bounded(monkeypatch):
    """2000 nodes lead to one, which leads to all of them: a column of P has the norm √2000 / 2 unscaled."""
    edges = [(0, i) for i in range(1, 2001)] + [(i, 0) for i in range(1, 2001)]
    edges += [(i, i % 2000 + 1) for i in range(1, 2001)]
    graph = wk.Graph.from_edges(edges, directed=True)
    assert graph.directed
    hub = np.array([0])
    found = estimate(graph, hub, "_by_signs", limit=0, length=8, n_samples=256)
    truth = Returns(graph, hub, 8, 256, 0, CPU())._by_columns(hub)[0]
    assert truth[1] > 0.4
    assert (found.stderr < 2 * 1.8 / np.sqrt(256)).all()
    assert (np.abs(found.value[0] - truth) < 5 * 1.8 / np.sqrt(256)).all()
    monkeypatch.setattr(_returns, "JUMP", 1.0)
    assert estimate(graph, hub, "_by_signs", limit=0, length=8, n_samples=256).stderr.max() > 0.5


@pytest.mark.parametrize("method", ["exact", "polynomial", "walks"])
def test_progress_ends_with_all(method, estimating):
    calls = []
    graph = expander(150)
    wk.return_probabilities(graph, 12, method=method, n_samples=32, progress=lambda *own: calls.append(own))
    assert calls
    assert calls[-1][0] == calls[-1][1]
    assert all(0 < done <= total for done, total in calls)


SIGNED = graphs.signed()
KARATE = graphs.karate()


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("graph",), {}, TypeError, "graph must be a Graph"),
        ((SIGNED,), {}, ValueError, "graph must be without negative weights, got weights down to -1"),
        ((KARATE, 0), {}, ValueError, "walk_length must be a whole number from 1 to 1024, got 0"),
        ((KARATE, 2.0), {}, ValueError, "walk_length must be a whole number"),
        ((KARATE, "4"), {}, TypeError, "walk_length must be a whole number"),
        ((KARATE,), {"method": "dense"}, ValueError, "method must be one of 'auto', 'exact', 'polynomial'"),
        ((KARATE,), {"n_samples": 16}, ValueError, "n_samples must be a whole number from 32"),
        ((KARATE,), {"seed": -1}, ValueError, "seed must be a whole number"),
        ((KARATE,), {"nodes": [34]}, ValueError, "nodes must be"),
        ((KARATE,), {"nodes": []}, ValueError, "nodes must be a non-empty"),
        ((KARATE,), {"engine": "gpu"}, ValueError, "engine must be"),
        ((KARATE,), {"progress": 1}, TypeError, "progress must be None or a function"),
    ],
)
def test_bad_arguments(arguments, options, error, message):
    with pytest.raises(error, match=f"return_probabilities: {message}"):
        wk.return_probabilities(*arguments, **options)
