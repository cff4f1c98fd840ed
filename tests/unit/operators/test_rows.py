"""Rows of a kernel against all nodes, and what they cost."""

import time

import numpy as np
import pytest
import scipy.sparse

import graphs
import walkernel as wk

ROWS = [0, 29, 7]


@pytest.mark.parametrize("kind", ["unweighted", "weighted", "directed", "signed", "isolated"])
@pytest.mark.parametrize("matrix", ["normalized", "combinatorial", "adjacency"])
def test_rows_are_unbiased(kind, matrix):
    graph, kernel = graphs.KINDS[kind](), wk.Diffusion(0.4, matrix=matrix)
    exact = wk.exact_kernel(graph, kernel)[ROWS]
    operators = [
        wk.estimate_kernel(graph, kernel, 4, rows=ROWS, sampler=wk.IndependentWalks(0.3), seed=seed)
        for seed in range(60)
    ]
    errors = np.array([K.to_dense() for K in operators]) - exact
    spread = errors.std(axis=0, ddof=1)
    assert operators[0].shape == (3, graph.n_nodes)
    assert (errors.std(axis=0)[spread < 1e-13] < 1e-12).all()
    z = errors.mean(axis=0).sum() / np.sqrt((spread**2).sum() / 60)
    assert abs(z) < 4
    wrong = errors + exact - np.roll(exact, 1, axis=0)  # the rows of other nodes
    assert abs(wrong.mean(axis=0)).max() > 10 * spread.max() / np.sqrt(60)


def test_everything_of_an_operator():
    graph, kernel = graphs.weighted(), wk.PageRank(0.6)
    exact = wk.exact_kernel(graph, kernel)
    K = wk.estimate_kernel(graph, kernel, 4096, rows=ROWS)
    dense, v = K.to_dense(), np.linspace(-1, 2, 30)
    assert K.nodes.tolist() == ROWS
    assert K.columns.tolist() == list(range(30))
    assert np.allclose(dense, exact[ROWS], atol=2e-3)
    assert np.allclose(K @ v, dense @ v)
    assert np.allclose(K.T @ v[:3], dense.T @ v[:3])
    assert np.allclose(v[:3] @ K, v[:3] @ dense)
    assert np.allclose(K.rows([7, 0]), dense[[2, 0]])
    assert np.array_equal(K.entries([[7], [0]], [3, 29]), dense[[[2], [0]], [3, 29]])
    assert np.allclose(K.diagonal(), dense[range(3), ROWS])
    assert scipy.sparse.issparse(K.to_scipy())
    assert np.array_equal(K.to_scipy().toarray(), dense)
    others = dense.copy()
    others[range(3), ROWS] = 0
    assert np.array_equal(K.topk(ROWS, 4).nodes, np.argsort(-others, axis=1, kind="stable")[:, :4])
    assert "3 nodes against all 30" in K.explain().text
    assert 0.2 < K.explain().error / (np.linalg.norm(dense - exact[ROWS]) / np.linalg.norm(exact[ROWS])) < 5
    assert K.T.T is K
    assert K.T.nodes.tolist() == K.columns.tolist()
    assert np.array_equal(K.T.rows([4, 29]), dense[:, [4, 29]].T)
    assert K.T.topk([5], 2).nodes[0].tolist() == [ROWS[i] for i in np.argsort(-dense[:, 5])[:2]]
    assert K.T.n_steps == K.n_steps > 0


def test_error_bars_cover():
    graph, kernel = graphs.weighted(), wk.Diffusion(1.0)
    exact = wk.exact_kernel(graph, kernel)
    covered = []
    for seed in range(8):
        K = wk.estimate_kernel(graph, kernel, 64, rows=ROWS, sampler=wk.IndependentWalks(0.3), seed=seed)
        for estimate, true in (
            (K.estimate(np.array(ROWS)[:, None], np.arange(30)), exact[ROWS]),
            (K.estimate_row_sums(), exact[ROWS].sum(axis=1)),
            (K.T.estimate_product([1.0, -2.0, 0.5]), exact[ROWS].T @ [1.0, -2.0, 0.5]),
        ):
            low, high = estimate.interval()
            covered.append(((low <= true) & (true <= high))[~estimate.rare])
    assert np.concatenate(covered).mean() > 0.88


def test_a_tolerance_is_met():
    graph, kernel = graphs.karate(), wk.PageRank(0.85)
    exact = wk.exact_kernel(graph, kernel)[[0, 16]]
    K = wk.estimate_kernel(graph, kernel, rows=[0, 16], tolerance=0.02)
    assert np.linalg.norm(K.to_dense() - exact) < 0.02 * np.linalg.norm(exact)


def test_labels():
    graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    K = wk.estimate_kernel(graph, wk.Diffusion(1.0), 256, rows=["d"])
    assert K.topk(["d"], 1).nodes.tolist() == [["c"]]
    assert K.entries("d", "a") == K.rows(["d"])[0, 0]
    with pytest.raises(ValueError, match=r"entries: rows must be among the operator's own nodes \(K.nodes\)"):
        K.entries("a", "d")
    with pytest.raises(
        ValueError, match=r"entries: cols must be among the operator's own nodes \(K.columns\)"
    ):
        K.T.entries("a", "b")


def test_what_excludes_rows_is_refused():
    for options, message in (
        ({"nodes": [1]}, "nodes must be None with rows, got .1.. nodes= gives K among some nodes"),
        ({"pair": "symmetric"}, "pair must be 'auto' or 'lazy' with rows.*the lazy pair"),
        ({"ensembles": "shared"}, "ensembles must be None or 'independent' with rows"),
        ({"ensembles": "debiased"}, "ensembles must be None or 'independent' with rows"),
        ({"stitches": 2}, "stitches must be None or 1 with rows"),
        ({"rows": []}, "rows must be a non-empty, flat list of nodes"),
        ({"rows": [2, 2]}, "rows must be a list of distinct nodes, got 2 more than once"),
    ):
        with pytest.raises(ValueError, match=f"estimate_kernel: {message}"):
            wk.estimate_kernel(graphs.karate(), wk.Diffusion(), 8, **{"rows": [0], **options})
    K = wk.estimate_kernel(graphs.karate(), wk.Diffusion(), 8, rows=[0])
    for v in (np.ones(1), np.ones(33)):
        with pytest.raises(ValueError, match="of length 34, one value for each node"):
            K @ v
    with pytest.raises(ValueError, match="whose rows have columns of their own"):
        K.T.diagonal()


def test_the_cost_does_not_grow_with_the_graph():
    """Rings of 10⁴ and 10⁶ nodes: the same steps, the same bits, and not ten times the time."""
    found = []
    for n in (10**4, 10**6):
        ring = wk.Graph.from_edges(np.column_stack([np.arange(n), (np.arange(n) + 1) % n]))
        wk.estimate_kernel(ring, wk.PageRank(0.5), 64, rows=[1])
        begin = time.process_time()
        for _ in range(5):
            K = wk.estimate_kernel(ring, wk.PageRank(0.5), 64, rows=[5000, 5, 6])
        found.append((time.process_time() - begin, K.n_steps, K.to_scipy()[[0]].data))
    assert found[0][1] == found[1][1]
    assert np.array_equal(found[0][2], found[1][2])
    assert found[1][0] < 10 * found[0][0] + 0.05
