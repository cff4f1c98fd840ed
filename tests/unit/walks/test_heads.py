"""Records and features of walks with an exact head: groups, parts, files, rows, streams."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from oracles import exact_levels
from walkernel.engines import CPU, FeatureJob
from walkernel.walks import WalkSpec

KERNEL = wk.Diffusion(1.5)
SAMPLER = wk.CoupledWalks((1.0, 0.6, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005), head=2, group=4)
KINDS = [*graphs.KINDS]
MATRICES = ("normalized", "adjacency", "combinatorial", "random-walk")


def record(kind, matrix="normalized", **options):
    graph = graphs.KINDS[kind]()
    return wk.sample_walks(graph, 16, sampler=SAMPLER, seed=7, matrix=matrix, **options)


@pytest.mark.parametrize(
    ("kind", "matrix"),
    [(kind, matrix) for kind in KINDS for matrix in MATRICES if (kind, matrix) != ("signed", "random-walk")],
)
def test_heads_hold_powers_of_the_matrix(kind, matrix):
    walks = record(kind, matrix)
    head, graph = walks.deposits.head, walks.graph
    M = graph.to_scipy(matrix).toarray() / walks.scale
    assert (walks.scale != 1) == (matrix == "adjacency")
    dense = np.zeros((3, graph.n_nodes, graph.n_nodes))
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(head.indptr))
    np.add.at(dense, (head.lengths, rows, head.nodes), head.loads)
    assert np.allclose(dense[1], M, rtol=1e-12, atol=1e-15)
    assert np.allclose(dense[2], M @ M, rtol=1e-12, atol=1e-14)


def test_steps_are_walks_and_edges():
    walks = record("directed")
    A = walks.graph.to_scipy().toarray()
    degrees = (A != 0).sum(axis=1)
    edges = sum(degrees[i] + sum(degrees[x] for x in exact_levels(A, A, i, 1)[0]) for i in range(30))
    assert walks.deposits.head.edges.sum() == edges
    assert walks.n_steps == edges + np.count_nonzero(walks.deposits.lengths)
    assert f"{walks.n_steps} steps" in repr(walks)


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_of_groups_is_the_whole(kind):
    walks = record(kind)
    n = walks.ids.size
    whole = walks.features(KERNEL).toarray()
    groups = walks.in_groups(4)
    each = groups.features(KERNEL).toarray().reshape(n, 4, -1)
    assert np.allclose(each.mean(axis=1), whole, rtol=1e-12, atol=1e-15)
    assert groups.deposits.head.edges.sum() == 4 * walks.deposits.head.edges.sum()
    f = np.zeros(3)
    f[1:] = 1.0, 0.5
    M = walks.graph.to_scipy("normalized").toarray()
    exact = (M + 0.5 * M @ M).repeat(4, axis=0)
    assert np.allclose(groups.features(f).toarray(), exact, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_files_and_rows(kind, tmp_path):
    walks = record(kind)
    nodes = walks.nodes
    whole = walks.features(KERNEL)
    parts = [record(kind, nodes=nodes[:11]), record(kind, nodes=nodes[11:12]), record(kind, nodes=nodes[12:])]
    joined = wk.Walks.concatenate(parts)
    walks.save(tmp_path / "walks.npz")
    loaded = wk.Walks.load(tmp_path / "walks.npz", walks.graph)
    for other in (joined, loaded):
        assert other.n_steps == walks.n_steps
        assert np.array_equal(other.features(KERNEL).toarray(), whole.toarray())
    rows = [5, 0, 5, 28]
    assert np.array_equal(walks.features(KERNEL, rows=rows).toarray(), whole.toarray()[rows])
    in_groups = walks.in_groups(4).features(KERNEL)
    assert np.array_equal(walks.in_groups(4).features(KERNEL, rows=rows).toarray(), in_groups.toarray()[rows])
    single = walks.features(KERNEL, dtype=np.float32)
    assert single.dtype == np.float32
    assert np.allclose(single.toarray(), whole.toarray(), rtol=1e-6, atol=1e-7)
    at_once = wk.sample_features(walks.graph, KERNEL, 16, sampler=SAMPLER, seed=7).toarray()
    assert np.allclose(at_once, whole.toarray(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("threads", "n_walks"), [(1, 256), (2, 600)])
def test_streams_that_share_a_head_are_those_that_have_their_own(threads, n_walks):
    """So many walks are several tasks of several nodes."""
    graph, f = graphs.weighted(), KERNEL.modulation(50)
    spec = WalkSpec(graph, np.arange(30), n_walks, SAMPLER, seed=7)
    together = CPU(threads).features(FeatureJob(spec, f, (0, 3, 4), with_norms=True))
    apart = [CPU(threads).features(FeatureJob(spec, f, (k,), with_norms=True))[0] for k in (0, 3, 4)]
    for stream, rows in enumerate(together):
        assert (rows.matrix != apart[stream].matrix).nnz == 0
        assert np.array_equal(rows.norms, apart[stream].norms)
    edges = int(record("weighted").deposits.head.edges.sum())
    assert sum(rows.n_steps for rows in together) == sum(rows.n_steps for rows in apart) - 2 * edges
    assert not np.array_equal(together[0].matrix.toarray(), together[1].matrix.toarray())


def test_nearest_nodes_have_the_errors_of_their_entries():
    graph = graphs.directed()
    K = wk.estimate_kernel(graph, KERNEL, 64, sampler=SAMPLER, nodes=[4, 9, 2, 20])
    best = K.estimate_topk([9, 20], 2)
    for node, others, errors in zip([9, 20], best.nodes, best.stderr, strict=True):
        there = others < graph.n_nodes
        assert np.allclose(K.estimate(node, others[there]).stderr, errors[there], rtol=1e-12)
