"""The nearest nodes of a few nodes: every way, on every kind of graph, against the exact kernel."""

import networkx as nx
import numpy as np
import pytest

import graphs
import walkernel as wk
from depth import crossed
from walkernel.operators import _nearest
from walkernel.operators._push_setup import Rooms, series_of, steps_of, walking_of

KERNELS = {
    "pagerank": wk.PageRank(0.85),
    "heat": wk.Diffusion(2.0),
    "narrow heat": wk.Diffusion(0.7),
    "geometric": wk.RegularizedLaplacian(1, 1.5, matrix="combinatorial"),
    "adjacency": wk.Diffusion(0.4, matrix="adjacency"),
    "both signs": wk.InverseCosine(0.5),
    "polynomial": wk.PStepRandomWalk(3, 2.0),
}
METHODS = ("auto", "push", "walks", "polynomial")
TOLERANCE = 0.05


def exact_rows(graph, kernel, nodes):
    """Rows of the kernel that nodes are chosen by: those of PageRank sum to one."""
    exact = wk.exact_kernel(graph, kernel)
    if isinstance(kernel, wk.PageRank):
        exact = exact / exact.sum(axis=1, keepdims=True)
    exact[np.arange(graph.n_nodes), np.arange(graph.n_nodes)] = -np.inf
    return exact[nodes]


def check(best, exact, tolerance):
    """Values are right within the tolerance, no better node is left out, certified nodes are neighbours."""
    k, n = best.nodes.shape[1], exact.shape[1]
    ordered = -np.sort(-exact, axis=1)
    for row, found, values, stderr, certified, sizes in zip(exact, *best, ordered, strict=True):
        there = found < n
        assert there.sum() == min(k, np.count_nonzero(sizes > 1e-14))
        assert np.array_equal(there, np.isfinite(values))
        assert np.array_equal(there, np.isfinite(stderr))
        assert not certified[~there].any()
        assert (np.diff(values[there]) <= 0).all()
        if not there.any():
            continue
        last = sizes[there.sum() - 1]
        true = row[found[there]]
        assert len(set(found[there].tolist())) == there.sum()
        assert (np.abs(values[there] - true) <= tolerance * last + 1e-12).all()
        assert (true >= (1 - tolerance) * last - 1e-12).all()
        assert (true[certified[there]] >= last * (1 - 1e-9)).all()


@pytest.mark.parametrize(("kind", "name", "method"), crossed(graphs.KINDS, KERNELS, METHODS))
def test_every_way_on_every_kind_of_graph(kind, name, method):
    graph, kernel = graphs.KINDS[kind](), KERNELS[name]
    if kind == "signed" and kernel.matrix == "random-walk":
        with pytest.raises(ValueError, match="nearest: graph must be without negative weights"):
            wk.nearest(graph, kernel, [0], 3, method=method)
        return
    nodes = np.array([0, 7, graph.n_nodes - 1])
    if graph.directed and kernel.matrix == "adjacency" and method in ("push", "walks"):
        with pytest.raises(ValueError, match="kernel must be one that can be pushed"):
            wk.nearest(graph, kernel, nodes, 5, method=method)
        return
    best = wk.nearest(graph, kernel, nodes, 5, tolerance=TOLERANCE, method=method)
    check(best, exact_rows(graph, kernel, nodes), TOLERANCE)


def hubs():
    """A graph of 3000 nodes, two of which have edges to half of the others."""
    graph = nx.barabasi_albert_graph(3000, 2, seed=3)
    rng = np.random.default_rng(0)
    for hub in (0, 1):
        graph.add_edges_from((hub, int(j)) for j in rng.permutation(3000)[:1500] if j > 1)
    return wk.Graph.from_edges(np.array(graph.edges()))


@pytest.mark.parametrize("kernel", [wk.PageRank(0.85), wk.Diffusion(np.sqrt(10))], ids=str)
@pytest.mark.parametrize("method", ["push", "walks", "auto"])
def test_hubs_and_their_neighbours(kernel, method):
    graph, nodes = hubs(), np.array([0, 1, 2, 500, 2999])
    rows = wk.polynomial_operator(graph, kernel, tol=1e-12).rows(nodes)
    rows[np.arange(5), nodes] = -np.inf
    check(wk.nearest(graph, kernel, nodes, 10, tolerance=TOLERANCE, method=method), rows, TOLERANCE)


@pytest.mark.parametrize("kernel", [wk.PageRank(0.85), wk.PageRank(0.5), wk.Diffusion(np.sqrt(10))], ids=str)
def test_hubs_of_ten_thousand_edges(kernel):
    """Two hubs with edges to ten thousand nodes each, a neighbour of both, and nodes elsewhere."""
    rng = np.random.default_rng(5)
    spokes = [np.column_stack([np.full(10_000, hub), rng.permutation(49_998)[:10_000] + 2]) for hub in (0, 1)]
    edges = np.concatenate([*spokes, rng.integers(2, 50_000, (100_000, 2)), [[0, 1]]])
    graph = wk.Graph.from_edges(np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0))
    both = np.intersect1d(spokes[0][:, 1], spokes[1][:, 1])[0]
    nodes = np.array([0, 1, both, 777, 49_999])
    rows = wk.polynomial_operator(graph, kernel, tol=1e-12).rows(nodes)
    rows[np.arange(nodes.size), nodes] = -np.inf
    for tolerance in (0.1, 0.01):
        best = wk.nearest(graph, kernel, nodes, 20, tolerance=tolerance)
        check(best, rows, tolerance)
        assert best.certified[2:, 0].all(), "hubs are nearest, and by far"


def test_walks_take_over_from_a_push():
    """With walks a push may stop where it knows less; the answer is the same within the tolerance."""
    graph, kernel = hubs(), wk.PageRank(0.85)
    found = [wk.nearest(graph, kernel, [5], 10, method=method, seed=1) for method in ("push", "walks")]
    others = [wk.nearest(graph, kernel, [5], 10, method=method, seed=2) for method in ("push", "walks")]
    assert np.array_equal(found[0].values, others[0].values)
    assert not np.array_equal(found[1].values, others[1].values)
    assert (found[1].stderr < 0.01 * found[1].values[0, -1]).all()


@pytest.mark.parametrize("method", METHODS)
def test_answers_depend_on_neither_threads_nor_company(method):
    graph, kernel, nodes = hubs(), wk.Diffusion(2.0), [7, 0, 2500, 7]
    options = {"tolerance": 0.1, "method": method, "seed": 3}
    one = wk.nearest(graph, kernel, nodes, 6, engine=wk.engines.CPU(1), **options)
    two = wk.nearest(graph, kernel, nodes, 6, engine=wk.engines.CPU(2), **options)
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a[0], a[3])
    if method != "polynomial":  # whose rows go on together until all are good enough
        alone = wk.nearest(graph, kernel, [2500], 6, **options)
        assert np.array_equal(alone.values[0], one.values[2])


def test_labels():
    graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("x", "y")])
    best = wk.nearest(graph, wk.Diffusion(1.0), ["d", "x"], 4)
    assert best.nodes[0].tolist() == ["c", "a", "b", None]
    assert best.nodes[1].tolist() == ["y", None, None, None]
    assert best.certified.tolist() == [[True, True, True, False], [True, False, False, False]]
    assert wk.nearest(graph, wk.Diffusion(1.0), "d", 1).nodes.tolist() == [["c"]]


@pytest.mark.parametrize("method", METHODS)
def test_nodes_without_neighbours(method):
    alone = wk.Graph.from_edges(np.empty((0, 2), dtype=int), n_nodes=1)
    best = wk.nearest(alone, wk.PageRank(), [0], 2, method=method)
    assert best.nodes.tolist() == [[1, 1]]
    assert np.isnan(best.values).all()
    loop = wk.Graph.from_edges([(0, 0), (1, 2)])
    best = wk.nearest(loop, wk.PageRank(), [0, 1], 2, method=method)
    assert best.nodes.tolist() == [[3, 3], [2, 3]]


def test_ties_are_not_certified():
    ring = wk.Graph.from_edges([(i, (i + 1) % 12) for i in range(12)])
    best = wk.nearest(ring, wk.Diffusion(1.0), [4], 3)
    assert best.nodes.tolist() == [[3, 5, 2]]
    assert best.certified.tolist() == [[True, True, False]]


@pytest.mark.parametrize("method", ["push", "polynomial", "auto"])
def test_rows_of_page_rank_sum_to_one_where_walks_get_lost(method):
    """Node 3 has no out-edges: from there a walk returns to where it began."""
    edges = [(0, 1), (1, 2), (2, 0), (2, 3), (1, 3), (4, 0)]
    graph = wk.Graph.from_edges(edges, directed=True)
    for node in (0, 1, 4):
        ranks = nx.pagerank(nx.DiGraph(edges), alpha=0.85, personalization={node: 1}, tol=1e-13, max_iter=999)
        del ranks[node]
        order = sorted(ranks, key=lambda v: (-ranks[v], v))[:3]
        best = wk.nearest(graph, wk.PageRank(0.85), [node], 3, tolerance=1e-6, method=method)
        assert best.nodes[0].tolist() == order
        assert np.allclose(best.values[0], [ranks[v] for v in order], rtol=2e-6)


def test_smaller_tolerances_certify_more():
    graph, nodes = hubs(), np.arange(50, 60)
    found = [wk.nearest(graph, wk.PageRank(0.5), nodes, 10, tolerance=t) for t in (0.3, 0.001)]
    assert found[0].certified.sum() < found[1].certified.sum()
    assert found[0].stderr.max() > found[1].stderr.max()


def test_what_is_far_is_known_as_well():
    """On a path values fall by orders of magnitude, and each is known relative to itself."""
    n = 60
    path = wk.Graph.from_edges([(i, i + 1) for i in range(n - 1)])
    P, power, exact = path.to_scipy("random-walk"), np.eye(n)[0], np.zeros(n)
    for k in range(400):
        exact, power = exact + 0.7 * 0.3**k * power, power @ P
    exact = exact[1:]
    best = wk.nearest(path, wk.PageRank(0.3), [0], n - 1, tolerance=0.01)
    assert best.nodes[0].tolist() == list(range(1, n))
    assert exact[-1] < 1e-30
    assert np.allclose(best.values[0], exact, rtol=0.01, atol=0)
    assert best.certified.all()


def test_progress_counts_nodes():
    seen = []
    wk.nearest(hubs(), wk.PageRank(0.5), np.arange(150), 3, progress=lambda *at: seen.append(at))
    assert seen[-1] == (150, 150)
    assert len(seen) >= 2
    assert sorted(seen) == seen


def test_a_wide_kernel_takes_the_polynomial(monkeypatch):
    """On a complete graph all nodes are alike, and a push would have to follow all edges many times."""
    graph = wk.Graph.from_edges(np.array(nx.gnp_random_graph(1000, 0.5, seed=1).edges()))
    taken = []
    multiply = _nearest._multiply
    monkeypatch.setattr(
        _nearest, "_multiply", lambda graph, kernel, rows, *rest: taken.append(rows.is_open.sum())
        or multiply(graph, kernel, rows, *rest),
    )  # fmt: skip
    nodes = np.arange(5)
    best = wk.nearest(graph, wk.Diffusion(3.0), nodes, 3)
    assert taken == [5]
    check(best, exact_rows(graph, wk.Diffusion(3.0), nodes), 0.01)


def test_rooms_grow(monkeypatch):
    monkeypatch.setattr("walkernel.operators._push_setup.FIRST_PLACES", 8)
    graph, kernel = hubs(), wk.PageRank(0.85)
    small = wk.nearest(graph, kernel, [3, 4], 5, tolerance=0.1)
    assert graph.derived("push_rooms", Rooms).places > 8
    monkeypatch.undo()
    for a, b in zip(small, wk.nearest(hubs(), kernel, [3, 4], 5, tolerance=0.1), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("kind", ["unweighted", "weighted", "directed", "self-loops", "isolated"])
@pytest.mark.parametrize("matrix", ["normalized", "random-walk", "combinatorial"])
def test_units_bound_what_loads_become(kind, matrix):
    """g|M| ≤ ρg, which all bounds rest on."""
    graph, kernel = graphs.KINDS[kind](), wk.Diffusion(1.0, matrix=matrix)
    steps, growth = steps_of(graph, kernel)
    g, M = steps.units[:, 1], np.abs(graph.to_scipy(matrix).toarray())
    assert (g > 0).all()
    assert (g @ M <= growth * g * (1 + 1e-12)).all()
    assert growth == 1 if not graph.directed else growth < 1.12
    assert steps.hubs.size == np.count_nonzero(M.sum(axis=0))
    assert steps.has_all


def test_walks_are_left_out_where_their_spread_has_no_bound():
    cases = [
        (graphs.directed(), wk.Diffusion(1.0)),
        (graphs.signed(), wk.Diffusion(1.0)),
        (graphs.weighted(), wk.Diffusion(0.4, matrix="adjacency")),
    ]
    for graph, kernel in cases:
        assert not walking_of(graph, kernel, series_of(graph, kernel), 0).packed.size
    graph, kernel = graphs.weighted(), wk.Diffusion(1.0)
    assert walking_of(graph, kernel, series_of(graph, kernel), 0).packed.size


@pytest.mark.parametrize("method", ["auto", "push", "walks", "polynomial"])
def test_graphs_without_edges_have_no_neighbours(method):
    empty = wk.Graph.from_edges(np.empty((0, 2), dtype=int), n_nodes=5)
    best = wk.nearest(empty, wk.Diffusion(matrix="adjacency"), [0, 4], 2, method=method)
    assert np.isnan(best.values).all()
    assert not best.certified.any()


def test_series_whose_terms_cancel_are_not_pushed():
    """The values are of the order of 1, and the terms of 1e24."""
    A = np.triu(np.random.default_rng(0).random((120, 120)) < 0.05, 1) * 10.0
    graph, kernel = wk.Graph.from_scipy(A + A.T), wk.InverseCosine(1.0, matrix="adjacency")
    exact = np.delete(wk.exact_kernel(graph, kernel)[5], 5)
    best = wk.nearest(graph, kernel, [5], 3, tolerance=0.001)
    np.testing.assert_allclose(best.values[0], np.sort(exact)[:-4:-1], rtol=0.001)
    with pytest.raises(ValueError, match=r"terms that do not cancel.*method='polynomial'"):
        wk.nearest(graph, kernel, [5], 3, method="push")


def test_values_below_ten_digits_are_warned_of():
    path = wk.Graph.from_edges([(i, i + 1) for i in range(200)])
    with pytest.warns(UserWarning, match=r"nearest: 1 of the nodes have neighbours whose values are off by"):
        wk.nearest(path, wk.Diffusion(0.3), [100], 8, tolerance=1e-4, method="polynomial")
    best = wk.nearest(path, wk.Diffusion(0.3), [100], 8, tolerance=1e-4)
    np.testing.assert_allclose(best.values[0], best.values[0, [1, 0, 3, 2, 5, 4, 7, 6]], rtol=1e-4)


def test_kernels_that_no_polynomial_resolves_are_refused():
    with pytest.raises(
        ValueError, match="nearest: kernel must be one that a polynomial of the matrix resolves"
    ):
        wk.nearest(graphs.karate(), 1e308 * wk.Diffusion(1.0), [0], 2, method="polynomial")
