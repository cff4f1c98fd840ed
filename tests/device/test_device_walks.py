"""Walks on a device are those of the compiled loops, step by step."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
import torch

import graphs
import walkernel as wk
from walkernel.engines import CUDA, FeatureJob, checked_spec, features_job
from walkernel.engines._device_heads import HeadFollower
from walkernel.engines._device_walks import coalesce, coalesce_by_row
from walkernel.engines._tensors import rows_of, to_scipy
from walkernel.walks import matched_survival

LAW = (0.9, 0.7, 0.5, 0.4, 0.3, 0.2, 0.1)
SIZES = wk.Diffusion(1.0).modulation(16)
SAMPLERS = {
    "independent": wk.IndependentWalks(0.2),
    "uniform steps": wk.IndependentWalks(0.3, transition="uniform"),
    "coupled": wk.CoupledWalks(LAW),
    "small groups": wk.CoupledWalks(LAW, group=4),
    "head": wk.CoupledWalks(LAW, head=1),
    "long head": wk.CoupledWalks(LAW, head=3, group=2),
    "pruned": wk.PrunedWalks(SIZES, threshold=1e-3, head=3),
    "unequal": wk.PrunedWalks(SIZES, threshold=0.06, head=3, unevenness=3.0),
    "more walks": wk.PrunedWalks(SIZES, threshold=0.03, head=2, unevenness=20.0, group=4),
}
MATRICES = ("normalized", "adjacency", "combinatorial")


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())
@pytest.mark.parametrize("kind", graphs.KINDS)
def test_walks_are_the_same(kind, sampler, matrix, device):
    graph = graphs.KINDS[kind]()
    options = {"sampler": sampler, "seed": 2**63 + 5, "stream": 3, "matrix": matrix}
    here = wk.sample_walks(graph, 16, **options, engine=CUDA(device, "float64"))
    there = wk.sample_walks(graph, 16, **options)
    for one, other in zip(here.deposits[:3], there.deposits[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(here.deposits.loads, there.deposits.loads, rtol=1e-13)
    for one, other in zip(here.deposits.head, there.deposits.head, strict=True):
        np.testing.assert_array_equal(one, other)
    assert here.n_steps == there.n_steps
    assert here.record.longest == there.record.longest


def test_heads_that_follow_all_edges_are_whole(device):
    graph, options = graphs.weighted(), {"seed": 7, "engine": CUDA(device, "float64")}
    pruned = wk.PrunedWalks(SIZES, head=3)
    whole = wk.CoupledWalks(matched_survival(np.array(SIZES[3:]))[1:], head=3)
    here, there = (wk.sample_walks(graph, 16, sampler=one, **options) for one in (pruned, whole))
    for one, other in zip(here.deposits[:3], there.deposits[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(here.deposits.loads, there.deposits.loads, rtol=1e-13)


@pytest.mark.parametrize("sampler", ["long head", "unequal"])
@pytest.mark.parametrize("kind", ["weighted", "isolated"])
def test_start_nodes_are_divided_where_heads_follow_many_edges(kind, sampler, device, monkeypatch):
    monkeypatch.setattr(HeadFollower, "most_edges", 2500)
    graph = graphs.KINDS[kind]()
    here = wk.sample_walks(graph, 16, sampler=SAMPLERS[sampler], engine=CUDA(device, "float64")).deposits
    there = wk.sample_walks(graph, 16, sampler=SAMPLERS[sampler]).deposits
    for one, other in zip((*here.head, *here[:3]), (*there.head, *there[:3]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_heads_of_hubs_are_added_up_in_the_same_order(device):
    """Three hops on, thousands of edges meet at a node; another order of their sum has other bits."""
    rng = np.random.default_rng(0)
    edges = np.concatenate(
        [np.column_stack([np.full(300, hub), rng.permutation(400)[:300]]) for hub in (400, 401)]
    )
    graph = wk.Graph.from_edges(edges, weights=rng.lognormal(0, 2, len(edges)))
    options = {"sampler": wk.CoupledWalks(LAW, head=3), "nodes": [400, 0, 1, 2]}
    here = wk.sample_walks(graph, 16, **options, engine=CUDA(device, "float64")).deposits
    there = wk.sample_walks(graph, 16, **options).deposits
    assert np.bincount(there.head.lengths).tolist() == np.bincount(here.head.lengths).tolist()
    for one, other in zip(here.head, there.head, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(here.nodes, there.nodes)


def test_numbers_of_walks_are_unequal(device):
    """The twin of the tests above: some nodes have fewer walks, and walks begin after different hops."""
    walks = wk.sample_walks(graphs.karate(), 16, sampler=SAMPLERS["unequal"], engine=CUDA(device))
    walked = walks.deposits.lengths
    assert np.unique(walks.deposits.head.shifts).tolist() == [-4, -3, -2, 1]
    assert np.unique(walked[np.flatnonzero(walked == 0)[:-1] + 1]).tolist() == [1, 2]


@pytest.mark.parametrize("sampler", ["head", "unequal"])
@pytest.mark.parametrize("size", [64, 128])
def test_any_number_of_programs(size, sampler, device, monkeypatch):
    """The 480 walks, or others, make full programs and a last one with room to spare."""
    monkeypatch.setattr("walkernel.engines._device_walks.BLOCK", size)
    graph, kernel, options = graphs.weighted(), wk.Diffusion(1.0), {"sampler": SAMPLERS[sampler], "seed": 5}
    engine = CUDA(device, "float64", keep_features=False)
    here = wk.sample_walks(graph, 16, **options, engine=engine)
    there = wk.sample_walks(graph, 16, **options)
    np.testing.assert_array_equal(here.deposits.nodes, there.deposits.nodes)
    np.testing.assert_allclose(here.deposits.loads, there.deposits.loads, rtol=1e-13)
    products = [wk.estimate_kernel(graph, kernel, 16, **options, engine=each) for each in (engine, None)]
    np.testing.assert_allclose(products[0] @ np.ones(30), products[1] @ np.ones(30), rtol=0, atol=1e-10)


def test_another_key_gives_other_walks(device):
    """The twin that fails: nothing but the key decides."""
    graph, engine = graphs.unweighted(), CUDA(device)
    first = wk.sample_walks(graph, 16, seed=1, engine=engine).record
    for options in ({"seed": 2}, {"seed": 1, "stream": 1}, {"seed": 1 + 2**32}):
        other = wk.sample_walks(graph, 16, **options, engine=engine).record
        assert other.nodes.shape != first.nodes.shape or not torch.equal(other.nodes, first.nodes)


def test_all_64_bits_of_a_draw_choose_the_neighbour(device):
    """From a hub of four million neighbours 32 bits would lead elsewhere in one step out of two thousand."""
    n = 4 * 10**6 + 1
    star = wk.Graph.from_edges(np.column_stack([np.zeros(n, dtype=int), np.arange(1, n + 1)]))
    options = {"sampler": wk.IndependentWalks(0.01), "nodes": list(range(1, 25)), "seed": 3}
    here = wk.sample_walks(star, 16, **options, engine=CUDA(device))
    there = wk.sample_walks(star, 16, **options)
    np.testing.assert_array_equal(here.deposits.nodes, there.deposits.nodes)
    assert (there.deposits.nodes == 0).sum() > 15_000


def test_some_nodes_and_transposed_walks(device):
    graph = graphs.directed()
    options = {"nodes": [7, 2, 29], "transpose": True, "seed": 4}
    here = wk.sample_walks(graph, 8, **options, engine=CUDA(device))
    there = wk.sample_walks(graph, 8, **options)
    np.testing.assert_array_equal(here.deposits.nodes, there.deposits.nodes)
    np.testing.assert_allclose(here.deposits.loads, there.deposits.loads, rtol=1e-6)
    np.testing.assert_array_equal(here.ids, [7, 2, 29])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("sampler", ["independent", "coupled", "long head", "pruned", "unequal"])
@pytest.mark.parametrize("kind", ["weighted", "directed", "signed", "isolated"])
def test_features(kind, sampler, dtype, device):
    graph, kernel, seen = graphs.KINDS[kind](), wk.Diffusion(1.0), []
    options = {"sampler": SAMPLERS[sampler], "seed": 9}
    exact = wk.sample_features(graph, kernel, 16, **options).toarray()
    for block_size in (None, 7):
        engine = CUDA(device, dtype, block_size=block_size)
        found = wk.sample_features(
            graph, kernel, 16, **options, engine=engine, progress=lambda *done: seen.append(done)
        )
        assert found.dtype == getattr(torch, dtype)
        assert found.layout == torch.sparse_csr
        tolerance = 1e-13 if dtype == "float64" else 1e-6
        np.testing.assert_allclose(found.to_dense().cpu(), exact, rtol=0, atol=tolerance)
    assert seen == [(graph.n_nodes, graph.n_nodes)] + [
        (min(done, graph.n_nodes), graph.n_nodes) for done in range(7, graph.n_nodes + 7, 7)
    ]


@pytest.mark.parametrize("keep", [True, False])
def test_features_of_very_many_walks_are_made_from_few_nodes(keep, device, monkeypatch):
    """A sort of PyTorch takes fewer than 2³¹ deposits, and memory ends before."""
    graph, kernel, seen = graphs.weighted(), wk.Diffusion(1.0), []
    job = features_job(checked_spec(graph, 8, SAMPLERS["head"], 0, 0, None, "normalized", False), kernel)
    expected = CUDA(device).features(job)[0].to_scipy()
    monkeypatch.setattr("walkernel.engines._device_walks.memory_of", lambda _: 2**16)
    found = CUDA(device, keep_features=keep).features(job, lambda *done: seen.append(done))[0]
    assert len(seen) > 3
    for rows in (found.to_scipy(), found.rows(np.arange(30)), to_scipy(found.native)):
        assert (rows != expected).nnz == 0


@pytest.mark.parametrize("sampler", ["independent", "long head", "pruned", "more walks"])
def test_walks_weighed_later(sampler, device):
    graph, kernel = graphs.weighted(), wk.Diffusion(1.0)
    walks = wk.sample_walks(graph, 16, sampler=SAMPLERS[sampler], engine=CUDA(device, "float64"))
    expected = wk.sample_walks(graph, 16, sampler=SAMPLERS[sampler]).features(kernel).toarray()
    np.testing.assert_allclose(walks.features(kernel).to_dense().cpu(), expected, atol=1e-13)
    rows = walks.features(kernel, rows=[4, 4, 29, 0])
    np.testing.assert_allclose(rows.to_dense().cpu(), expected[[4, 4, 29, 0]], atol=1e-13)


def test_walks_on_a_changed_graph_are_sampled_there_again(device):
    ring = [(i, (i + 1) % 20) for i in range(20)]
    walks = wk.sample_walks(wk.Graph.from_edges(ring), 8, engine=CUDA(device))
    old = copy.deepcopy(walks)
    changed = wk.Graph.from_edges([*ring, (0, 2)])
    assert walks.update(changed) is walks
    np.testing.assert_array_equal(walks.deposits.nodes, wk.sample_walks(changed, 8).deposits.nodes)
    assert walks.n_rewalked == 160
    assert walks.record.loads.device.type == torch.device(device).type
    assert old.graph.n_edges == 20


def test_the_environment_names_an_engine_and_changes_no_type(device, monkeypatch):
    """Only the interpreter's device has another name, which the variable does not take."""
    graph, kernel = graphs.weighted(), wk.Diffusion(1.0)
    monkeypatch.setattr("walkernel.engines._cuda._device_name", lambda name: device)
    monkeypatch.setenv("WALKERNEL_ENGINE", "cuda")
    walks, expected = wk.sample_walks(graph, 8), wk.sample_features(graph, kernel, 8, engine="cpu")
    assert walks.record.loads.dtype == torch.float32
    for found in (walks.features(kernel), wk.sample_features(graph, kernel, 8)):
        assert isinstance(found, scipy.sparse.csr_array)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-6)
    assert isinstance(wk.sample_features(graph, kernel, 8, engine="cuda"), torch.Tensor)


def test_zeros_are_not_kept(device):
    graph, f = graphs.unweighted(), [0.0, 1.0]
    found = wk.sample_features(graph, f, 16, engine=CUDA(device, "float64"))
    expected = wk.sample_features(graph, f, 16)
    assert found.values().numel() == expected.nnz
    np.testing.assert_allclose(found.to_dense().cpu(), expected.toarray(), atol=1e-13)


def test_numbers_too_large_for_the_dtype(device):
    graph, f = graphs.weighted(), [1e300, 1e300]
    found = wk.sample_features(graph, f, 4, engine=CUDA(device, "float64"))
    assert bool(torch.isfinite(found.values()).all())
    with pytest.raises(ValueError, match=r"f must be small enough .* of float32, got overflow.*or float64"):
        wk.sample_features(graph, f, 4, engine=CUDA(device))


@pytest.mark.parametrize(
    ("scale", "kind", "sampler"),
    [
        (2.0**300, "weighted", "uniform steps"),
        (2.0**-300, "weighted", "uniform head"),
        (2.0**300, "directed", "long head"),
        (2.0**-300, "directed", "independent"),
    ],
)
def test_weights_of_any_size_in_single_precision(scale, kind, sampler, device):
    """The normalized matrix does not depend on their unit, and neither do the bits of features."""
    graph, engine = graphs.KINDS[kind](), CUDA(device)
    scaled = wk.Graph.from_scipy(scale * graph.to_scipy())
    uniform = replace(SAMPLERS["long head"], transition="uniform")
    options = {"sampler": {**SAMPLERS, "uniform head": uniform}[sampler], "engine": engine}
    found, expected = (wk.sample_features(one, wk.Diffusion(1.0), 16, **options) for one in (scaled, graph))
    assert torch.equal(found.to_dense(), expected.to_dense())


def test_files_of_another_precision_are_not_the_same(device, tmp_path):
    graph, kernel = graphs.weighted(), wk.Diffusion(1.0)
    stored = wk.sample_features(graph, kernel, 8, directory=tmp_path, engine=CUDA(device), block_size=7)
    expected = wk.sample_features(graph, kernel, 8).toarray()
    np.testing.assert_allclose(stored.to_scipy().toarray(), expected, atol=1e-6)
    with pytest.raises(ValueError, match="precision"):
        wk.sample_features(graph, kernel, 8, directory=tmp_path, block_size=7)


@pytest.mark.parametrize("sampler", ["coupled", "small groups", "long head", "pruned", "unequal"])
def test_groups_of_walks(sampler, device):
    graph, f = graphs.weighted(), wk.Diffusion(1.0).modulation(12)
    spec = wk.sample_walks(graph, 32, sampler=SAMPLERS[sampler])
    job = FeatureJob(spec, f, (0,), n_groups=2)
    found, expected = (
        each.features(job)[0].to_scipy() for each in (CUDA(device, "float64"), wk.engines.CPU())
    )
    np.testing.assert_allclose(found.toarray(), expected.toarray(), atol=1e-13)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("sampler", ["coupled", "long head", "pruned", "unequal", "more walks"])
@pytest.mark.parametrize("kind", ["directed", "isolated"])
def test_all_that_features_tell(kind, sampler, apart, keep, device):
    graph, columns = (
        graphs.KINDS[kind](),
        np.random.default_rng(0).normal(size=(3, graphs.KINDS[kind]().n_nodes)),
    )
    spec = wk.sample_walks(graph, 32, sampler=SAMPLERS[sampler], seed=3)
    f = wk.Diffusion(1.0).modulation(spec.longest + 1)
    job = FeatureJob(spec, f, (0, 5), with_norms=True, separate_heads=apart)
    found = CUDA(device, "float64", keep_features=keep, block_size=20).features(job)
    for one, other in zip(found, wk.engines.CPU().features(job), strict=True):
        np.testing.assert_allclose(one.multiply(columns.T), other.multiply(columns.T), atol=1e-12)
        sums = one.multiply_transposed(columns.T), other.multiply_transposed(columns.T)
        np.testing.assert_allclose(*sums, atol=1e-12)
        np.testing.assert_allclose(one.to_scipy().toarray(), other.to_scipy().toarray(), atol=1e-12)
        np.testing.assert_allclose(one.norms, other.norms, rtol=1e-12)
        assert one.n_steps == other.n_steps
    if not keep:
        record = wk.sample_walks(graph, 32, sampler=SAMPLERS[sampler], seed=3).deposits
        assert found[0].nnz == record.nodes.size + (0 if apart else record.head.nodes.size)
        unread = CUDA(device, "float64", keep_features=False).features(replace(job, with_norms=False))
        assert [one.n_steps for one in unread] == [one.n_steps for one in found]


@pytest.mark.parametrize("sizes", [(64,), (2,), (4,)])
def test_rows_sorted_by_programs_of_their_own(sizes, device, monkeypatch):
    """Rows that end and begin with the same node stay apart, rows may be empty, and long ones are sorted."""
    monkeypatch.setattr("walkernel.engines._device_walks.SORT_SIZES", sizes)
    indptr = torch.tensor([0, 0, 3, 3, 8, 9], device=device)
    nodes = torch.tensor([4, 1, 4, 4, 0, 4, 2, 0, 4], dtype=torch.int32, device=device)
    values = torch.arange(1.0, 10.0, device=device)
    found = coalesce_by_row(indptr, nodes, values, (5, 5))
    expected = coalesce(rows_of(indptr), nodes, values, (5, 5))
    assert found.crow_indices().tolist() == [0, 0, 2, 2, 5, 6]
    assert torch.equal(found.to_dense(), expected.to_dense())
    assert found.to_dense()[1].tolist() == [0.0, 2.0, 0.0, 0.0, 4.0]
