"""Transforms beside those of PyTorch Geometric: the same edges and encodings, and what is refused."""

import copy
import math
import pickle
import re
import sys

import networkx
import numpy as np
import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader
from torch_geometric.transforms import GDC, AddLaplacianEigenvectorPE, AddRandomWalkPE, Compose

import graphs
import walkernel as wk
from walkernel.operators import _returns
from walkernel.torch import KernelDiffusion, LaplacianEncoding, RandomWalkEncoding

PAGERANK = wk.PageRank(0.85, matrix="normalized")
PATH = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
TRANSFORMS = [KernelDiffusion(PAGERANK, k=3), RandomWalkEncoding(6), LaplacianEncoding(2)]


def data_of(graph, *, weights=None, **more):
    """Return a graph as PyTorch Geometric has it, its weights under a name."""
    index = np.stack([graph.row_indices(), graph.indices.astype(np.int64)])
    data = Data(edge_index=torch.as_tensor(index), num_nodes=graph.n_nodes, **more)
    if weights is not None:
        data[weights] = torch.as_tensor(graph.to_scipy().data)
    return data


def club():
    return data_of(graphs.karate(), x=torch.arange(68.0).reshape(34, 2), y=torch.arange(34))


def dense(data):
    K = torch.zeros(data.num_nodes, data.num_nodes, dtype=torch.float64)
    K[tuple(data.edge_index)] = data.edge_attr.double()
    return K.numpy()


def gdc(data, kernel, selection, **options):
    """Return what the dense transform makes of the same."""
    if isinstance(kernel, wk.PageRank):
        diffusion = {"method": "ppr", "alpha": 1 - kernel.damping}
    else:
        diffusion = {"method": "heat", "t": kernel.sigma**2 / 2}
    if "k" in selection:
        kept = {"method": "topk", "k": selection["k"], "dim": 0}
    else:
        kept = {"method": "threshold", "eps": selection["threshold"]}
    return GDC(diffusion_kwargs=diffusion, sparsification_kwargs=kept, exact=True, **options)(data)


# KernelDiffusion --------------------------------------------------------------------------------------


@pytest.mark.parametrize("normalization", ["col", "row", "sym", None])
@pytest.mark.parametrize("selection", [{"k": 5}, {"threshold": 0.02}], ids=str)
@pytest.mark.parametrize(
    ("kind", "matrix"), [("weighted", "normalized"), ("weighted", "random-walk"), ("directed", "random-walk")]
)
def test_edges_are_those_of_gdc(kind, matrix, selection, normalization):
    data = data_of(graphs.KINDS[kind](), weights="edge_attr")
    normalization_in = {"normalized": "sym", "random-walk": "col"}[matrix]
    for kernel in (wk.PageRank(0.85, matrix=matrix), wk.Diffusion(math.sqrt(6), matrix=matrix)):
        for loops in (1.0, 0.3, None):
            options = {"self_loop_weight": loops}
            theirs = gdc(
                data, kernel, selection, normalization_in=normalization_in, normalization_out=normalization,
                **options,
            )  # fmt: skip
            ours = KernelDiffusion(kernel, **selection, normalization=normalization, **options)(data)
            assert torch.equal(ours.edge_index, theirs.edge_index)
            torch.testing.assert_close(ours.edge_attr, theirs.edge_attr, atol=1e-8, rtol=0)
            assert ours.edge_attr.dtype == torch.float64


def test_other_rules_have_other_edges():
    """What the comparison is to notice: rows for columns, the other matrix, no loops, another width."""
    data = data_of(graphs.directed(), weights="edge_attr")
    kernel, kept = wk.PageRank(0.85), {"k": 5}
    theirs = dense(gdc(data, kernel, kept, normalization_in="col"))
    assert np.abs(dense(KernelDiffusion(kernel, **kept)(data)) - theirs).max() < 1e-8
    turned = Data(edge_index=data.edge_index.flip(0), edge_attr=data.edge_attr, num_nodes=data.num_nodes)
    for other in (
        KernelDiffusion(kernel, **kept)(turned),
        KernelDiffusion(PAGERANK, **kept)(data),
        KernelDiffusion(kernel, **kept, self_loop_weight=None)(data),
        KernelDiffusion(wk.PageRank(0.8), **kept)(data),
    ):
        assert np.abs(dense(other) - theirs).max() > 1e-3


def test_unweighted_edges_and_isolated_nodes():
    """Weights are of the default dtype; entries of zero, which GDC keeps, are left out."""
    data = data_of(graphs.isolated())
    theirs, ours = gdc(data, PAGERANK, {"k": 6}), KernelDiffusion(PAGERANK, k=6)(data)
    assert ours.edge_attr.dtype == torch.float32
    np.testing.assert_allclose(dense(ours), dense(theirs), atol=1e-6)
    assert (ours.edge_attr > 0).all()
    lonely = KernelDiffusion(PAGERANK, k=6, self_loop_weight=None)(data)
    assert (dense(lonely)[-1] == np.eye(33)[-1]).all()


def test_any_kernel_serves():
    data = data_of(graphs.weighted(), weights="edge_weight")
    kernel = wk.Matern(1.5, 3.0, matrix="combinatorial") + 0.1 * wk.Diffusion(1.0, matrix="combinatorial")
    ours = KernelDiffusion(kernel, k=30, self_loop_weight=None, normalization=None)(data)
    K = wk.exact_kernel(graphs.weighted(), kernel)
    np.testing.assert_allclose(dense(ours), K, atol=1e-8 * K.max())


def test_weights_are_read_and_written_where_they_are():
    graph = graphs.weighted()
    transform = KernelDiffusion(PAGERANK, k=4)
    expected = transform(data_of(graph, weights="edge_attr"))
    named = transform(data_of(graph, weights="edge_weight", edge_attr=torch.ones(graph.indices.size, 3)))
    assert torch.equal(named.edge_attr, expected.edge_attr)
    assert torch.equal(named.edge_weight, expected.edge_attr)
    assert "edge_weight" not in expected
    whole = data_of(graphs.karate(), edge_weight=torch.full((156,), 2))
    assert KernelDiffusion(PAGERANK, k=4, self_loop_weight=2.0)(whole).edge_attr.dtype == torch.float32
    tracked = data_of(graph)
    tracked.edge_weight = torch.as_tensor(graph.to_scipy().data).requires_grad_()
    assert not transform(tracked).edge_attr.requires_grad


def test_repeated_edges_are_summed():
    index = torch.tensor([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]])
    once = edges(PATH.edge_index.tolist(), edge_weight=torch.tensor([2.0, 2.0, 1.0, 1.0]))
    names = ("edge_attr", "random_walk_pe", "laplacian_eigenvector_pe")
    for transform, name in zip(TRANSFORMS, names, strict=True):
        torch.testing.assert_close(transform(edges(index.tolist()))[name], transform(once)[name])
        assert (transform(PATH)[name] - transform(once)[name]).abs().max() > 0.01


def test_walks_come_near():
    data = data_of(wk.Graph.from_networkx(networkx.barabasi_albert_graph(150, 3, seed=1)))
    exact = dense(KernelDiffusion(PAGERANK, k=8)(data))
    walked = KernelDiffusion(PAGERANK, k=8, method="walks", n_walks=1024, seed=5)(data)
    assert walked.edge_index.shape == (2, 1200)
    assert np.abs(dense(walked) - exact).sum() < 0.1 * exact.sum()
    others = KernelDiffusion(PAGERANK, k=8, method="walks", n_walks=1024, seed=6)(data)
    assert np.abs(dense(walked) - dense(others)).max() > 0


# RandomWalkEncoding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unweighted", "isolated", "self-loops"])
def test_encodings_are_those_of_dense_powers(kind):
    data = data_of(graphs.KINDS[kind]())
    ours, theirs = RandomWalkEncoding(12)(data), AddRandomWalkPE(12)(data)
    torch.testing.assert_close(ours.random_walk_pe, theirs.random_walk_pe, atol=1e-6, rtol=0)
    assert not ours.random_walk_pe_stderr.any()
    directed = Data(edge_index=data.edge_index[:, ::3], num_nodes=data.num_nodes)
    ours, theirs = RandomWalkEncoding(12)(directed), AddRandomWalkPE(12)(directed)
    torch.testing.assert_close(ours.random_walk_pe, theirs.random_walk_pe, atol=1e-6, rtol=0)


def test_weights_count_as_they_should():
    """Steps in proportion to the weights, and rows that sum to one also where weights sum to less."""
    graph = graphs.weighted()
    data = data_of(graph, weights="edge_weight")
    data.edge_weight /= 100
    P = graph.to_scipy("random-walk").toarray()
    ours = RandomWalkEncoding(3)(data).random_walk_pe.numpy()
    np.testing.assert_allclose(ours[:, 1], (P @ P).diagonal(), atol=1e-6)
    np.testing.assert_allclose(ours[:, 2], (P @ P @ P).diagonal(), atol=1e-6)


@pytest.mark.parametrize("method", ["polynomial", "walks"])
def test_estimates_are_those_of_dense_powers_within_their_errors(method, monkeypatch):
    """At least 90 % of all that are not exact, by Student's t at 95 %, and 99.9 % of six standard errors."""
    monkeypatch.setattr(_returns, "PER_EDGE", 1e3)
    data = data_of(wk.Graph.from_networkx(networkx.barabasi_albert_graph(700, 4, seed=2)))
    ours = RandomWalkEncoding(10, method=method, n_samples=256)(data)
    theirs = AddRandomWalkPE(10)(data).random_walk_pe.double()
    value, stderr = ours.random_walk_pe.double(), ours.random_walk_pe_stderr.double()
    estimated = (stderr > 0) & (stderr < value / 3)
    assert estimated.sum() > 1000
    assert (value - theirs)[stderr == 0].abs().max() < 1e-6
    z = ((value - theirs) / stderr)[estimated].abs()
    assert (z < 2.131).double().mean() > 0.9
    assert (z < 6).double().mean() > 0.999
    shifted = ((value[:, :-2] - theirs[:, 2:]) / stderr[:, :-2])[estimated[:, :-2]].abs()
    assert (shifted < 2.131).double().mean() < 0.5


# LaplacianEncoding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_nodes", [60, 400])
def test_eigenvectors_span_what_theirs_span(n_nodes):
    """Dense and by Lanczos; the four blocks leave a gap after the third eigenvector."""
    sizes = [n_nodes // 4] * 4
    graph = wk.datasets.stochastic_block_model(sizes, 40 / n_nodes, 1 / n_nodes, seed=1).graph
    data = data_of(graph.largest_component())
    ours = LaplacianEncoding(3)(data).laplacian_eigenvector_pe.double()
    theirs = AddLaplacianEigenvectorPE(3, is_undirected=True)(data).laplacian_eigenvector_pe.double()
    torch.testing.assert_close(ours.T @ ours, torch.eye(3, dtype=torch.float64), atol=1e-5, rtol=0)
    assert torch.linalg.svdvals(ours.T @ theirs).min() > 1 - 1e-5
    four = AddLaplacianEigenvectorPE(4, is_undirected=True)(data).laplacian_eigenvector_pe.double()
    assert torch.linalg.svdvals(ours.T @ four[:, 1:]).min() < 0.5  # others span something else


def test_signs_are_fixed():
    for graph in (graphs.karate(), wk.datasets.grid(20, 9).graph):
        columns = LaplacianEncoding(5)(data_of(graph)).laplacian_eigenvector_pe
        again = LaplacianEncoding(5)(data_of(graph)).laplacian_eigenvector_pe
        assert torch.equal(columns, again)
        first = (columns.abs() >= (1 - 1e-5) * columns.abs().max(dim=0).values).int().argmax(dim=0)
        assert (columns[first, torch.arange(5)] > 0).all()


def test_components_have_encodings_of_their_own():
    """The eigenvalues of zero, one for each component, are left out; columns beyond the last are zero."""
    data = data_of(graphs.isolated())
    columns = LaplacianEncoding(40)(data).laplacian_eigenvector_pe.double()
    assert columns.shape == (33, 40)
    assert not columns[:, 28:].any()
    assert not columns[30:].any()
    M = graphs.isolated().to_scipy("normalized").toarray()
    found = columns[:, :28].numpy()
    values = np.einsum("ij,ij->j", found, M @ found)
    np.testing.assert_allclose(M @ found, found * values, atol=1e-6)
    assert values.max() < 1 - 1e-3
    assert (np.diff(values) < 1e-6).all()


def test_a_kernel_weights_the_columns():
    graph, kernel = graphs.karate(), wk.Diffusion(3.0)
    columns = LaplacianEncoding(33, kernel=kernel)(data_of(graph)).laplacian_eigenvector_pe.double().numpy()
    degrees = graph.out_degrees()
    trivial = np.outer(np.sqrt(degrees), np.sqrt(degrees)) / degrees.sum()
    np.testing.assert_allclose(columns @ columns.T + trivial, wk.exact_kernel(graph, kernel), atol=1e-6)


# all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_data_stay_as_they_are(transform):
    data = club()
    before = data.to_dict()
    index, x = data.edge_index.clone(), data.x.clone()
    result = transform(data)
    assert data.to_dict().keys() == before.keys()
    assert torch.equal(data.edge_index, index)
    assert torch.equal(result.x, x)
    assert torch.equal(result.y, data.y)
    assert result.validate()
    assert (result.edge_index is data.edge_index) == (not isinstance(transform, KernelDiffusion))


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
def test_copies_do_the_same(transform):
    expected = transform(club())
    for other in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform))):
        found = other(club())
        assert set(found.keys()) == set(expected.keys())  # a list of a set: in any order
        del found.num_nodes, expected.num_nodes
        assert all(torch.equal(value, expected[name]) for name, value in found)
        expected.num_nodes = 34


def test_they_say_what_they_are():
    assert [repr(transform) for transform in TRANSFORMS] == [
        "KernelDiffusion(PageRank(damping=0.85, matrix='normalized'), k=3)",
        "RandomWalkEncoding(walk_length=6)",
        "LaplacianEncoding(k=2)",
    ]
    assert repr(KernelDiffusion(wk.Diffusion(), threshold=0.1)).endswith("threshold=0.1)")
    assert repr(LaplacianEncoding(2, kernel=wk.Diffusion())).endswith("kernel=Diffusion(sigma=1.0))")


def test_in_sequences_data_sets_and_batches(tmp_path):
    class Pair(InMemoryDataset):
        def __init__(self, root, **options):
            super().__init__(root, **options)
            self.load(self.processed_paths[0])

        @property
        def processed_file_names(self):
            return "pair.pt"

        def process(self):
            self.save([self.pre_transform(one) for one in (club(), club())], self.processed_paths[0])

    both = Compose([RandomWalkEncoding(4), LaplacianEncoding(2)])
    dataset = Pair(str(tmp_path), pre_transform=both)
    assert len(dataset) == 2
    assert torch.equal(dataset[0].random_walk_pe, RandomWalkEncoding(4)(club()).random_walk_pe)
    (batch,) = DataLoader(dataset, batch_size=2)
    assert batch.random_walk_pe.shape == (68, 4)
    together = RandomWalkEncoding(4)(Batch.from_data_list([club(), club()]))
    torch.testing.assert_close(together.random_walk_pe, torch.cat(2 * [dataset[0].random_walk_pe]))


def test_columns_join_the_features():
    joined = Compose([RandomWalkEncoding(3, attr_name=None), LaplacianEncoding(2, attr_name=None)])(club())
    assert joined.x.shape == (34, 7)
    assert torch.equal(joined.x[:, :2], club().x)
    assert torch.equal(joined.x[:, 2:5], RandomWalkEncoding(3)(club()).random_walk_pe)
    assert joined.random_walk_pe_stderr.shape == (34, 3)
    assert RandomWalkEncoding(3, attr_name="pe")(club()).pe_stderr.shape == (34, 3)
    bare = LaplacianEncoding(2, attr_name=None)(data_of(graphs.karate()))
    assert bare.x.shape == (34, 2)
    flat = data_of(graphs.karate(), x=torch.arange(34, dtype=torch.float64))
    assert RandomWalkEncoding(3, attr_name=None)(flat).x.shape == (34, 4)
    assert RandomWalkEncoding(3, attr_name=None)(flat).x.dtype == torch.float64
    flat.x = torch.ones(34, dtype=torch.int64)
    with pytest.raises(
        ValueError, match=r"data must be an object whose x is of floating point, got torch.int64"
    ):
        RandomWalkEncoding(3, attr_name=None)(flat)


@pytest.mark.parametrize("transform", TRANSFORMS, ids=str)
@pytest.mark.parametrize("n_nodes", [0, 1, 3])
def test_graphs_without_edges(transform, n_nodes):
    result = transform(Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=n_nodes))
    if isinstance(transform, KernelDiffusion):
        assert torch.equal(result.edge_index, torch.arange(n_nodes).repeat(2, 1))
        assert torch.equal(result.edge_attr, torch.ones(n_nodes))
    else:
        name = "random_walk_pe" if isinstance(transform, RandomWalkEncoding) else "laplacian_eigenvector_pe"
        assert result[name].shape[0] == n_nodes
        assert not result[name].any()


def edges(index=((0, 1), (1, 0)), **more):
    return Data(edge_index=torch.tensor(index), **{"num_nodes": 3, **more})


PE, LAP = RandomWalkEncoding(2), LaplacianEncoding(1)
DIFFUSION, WALK = KernelDiffusion(PAGERANK, k=2), KernelDiffusion(wk.PageRank(), k=2)
VALUE, TYPE = ValueError, TypeError


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: KernelDiffusion("ppr", k=2), TYPE, "KernelDiffusion: kernel must be a Kernel, got 'ppr'"),
        (lambda: KernelDiffusion(PAGERANK), VALUE, "k must be given, or threshold instead.* got neither"),
        (lambda: KernelDiffusion(PAGERANK, k=1, threshold=1), VALUE, "got k=1 and threshold=1"),
        (lambda: KernelDiffusion(PAGERANK, k=0), VALUE, "k must be a whole number of at least 1"),
        (lambda: KernelDiffusion(PAGERANK, threshold=-1), VALUE, "threshold must be .* greater than 0"),
        (lambda: KernelDiffusion(PAGERANK, k=1, self_loop_weight=0), VALUE, "self_loop_weight must be"),
        (lambda: KernelDiffusion(PAGERANK, k=1, normalization="max"), VALUE, "normalization must be one of"),
        (lambda: KernelDiffusion(PAGERANK, k=1, method="push"), VALUE, "method must be one of"),
        (lambda: KernelDiffusion(PAGERANK, k=1, n_walks=0), VALUE, "n_walks must be a whole number"),
        (lambda: KernelDiffusion(PAGERANK, k=1, seed=-1), VALUE, "seed must be a whole number"),
        (lambda: KernelDiffusion(PAGERANK, k=1, engine="tpu"), VALUE, "engine must be"),
        (lambda: RandomWalkEncoding(0), VALUE, "RandomWalkEncoding: walk_length must be a whole number"),
        (lambda: RandomWalkEncoding(2.5), VALUE, "walk_length must be a whole number"),
        (
            lambda: RandomWalkEncoding(2, n_samples=20),
            VALUE,
            "n_samples must be a whole number of at least 32",
        ),
        (lambda: RandomWalkEncoding(2, method="dense"), VALUE, "method must be one of"),
        (lambda: RandomWalkEncoding(2, attr_name=""), TYPE, "attr_name must be a name or None, got ''"),
        (lambda: RandomWalkEncoding(2, engine="tpu"), VALUE, "engine must be"),
        (lambda: LaplacianEncoding(0), VALUE, "LaplacianEncoding: k must be a whole number"),
        (lambda: LaplacianEncoding(2, kernel="heat"), TYPE, "kernel must be a Kernel"),
        (
            lambda: LaplacianEncoding(2, kernel=wk.PageRank()),
            VALUE,
            "kernel must be one of matrix='normalized'",
        ),
        (
            lambda: LaplacianEncoding(2, kernel=wk.PowerSeries([1, -1])),
            VALUE,
            "kernel must be one that falls",
        ),
        (lambda: LaplacianEncoding(2, tolerance=0), VALUE, "tolerance must be"),
        (lambda: LaplacianEncoding(2, attr_name=3), TYPE, "attr_name must be a name or None"),
        *[
            (lambda t=transform: t(graphs.karate()), TYPE, "data must be a Data, got Graph")
            for transform in (DIFFUSION, PE, LAP)
        ],
        (lambda: PE(HeteroData()), TYPE, "data must be a Data, .* data.to_homogeneous"),
        (lambda: PE(Data(x=torch.ones(3, 1))), VALUE, "data must be an object with an edge_index"),
        (lambda: PE(edges([[0.5], [1.0]], num_nodes=2)), VALUE, "edge_index must be an integer array"),
        (lambda: PE(edges([[0, 5]] * 2, num_nodes=3)), VALUE, "edge_index must be .* the id 5"),
        (lambda: PE(edges(edge_weight=torch.ones(3))), VALUE, "edge_weight must be one per edge"),
        (lambda: PE(edges(edge_weight=torch.tensor([1.0, math.nan]))), VALUE, "edge_weight must be finite"),
        (lambda: PE(edges(edge_weight=-torch.ones(2))), VALUE, "graph must be without negative weights"),
        (lambda: WALK(edges(edge_weight=-torch.ones(2))), VALUE, "graph must be without negative weights"),
        (lambda: LAP(edges(edge_weight=-torch.ones(2))), VALUE, "edge_weight must be without negative"),
        (lambda: LAP(edges([[0, 1], [1, 2]])), VALUE, "edge_index must be symmetric, .*ToUndirected"),
        (
            lambda: DIFFUSION(edges(edge_attr=torch.ones(2, 3))),
            VALUE,
            r"edge_attr must be one real .* \(2, 3\)",
        ),
        (lambda: DIFFUSION(edges(edge_attr=torch.ones(2, dtype=torch.long))), VALUE, "and torch.int64"),
        (lambda: DIFFUSION(edges(edge_attr=torch.ones(1))), VALUE, r"edge_attr must be one real .* \(1,\)"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["KernelDiffusion", "LaplacianEncoding", "RandomWalkEncoding"])
def test_the_missing_package_is_named(name, monkeypatch):
    import walkernel.torch

    for module in ("torch_geometric", "torch_geometric.data"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, "walkernel.torch._graph_networks")
    monkeypatch.delitem(walkernel.torch.__dict__, name, raising=False)
    assert name in walkernel.torch.__all__
    assert name in dir(walkernel.torch)
    message = f"walkernel.torch.{name} needs PyTorch Geometric. Install it with `pip install walkernel[pyg]`."
    with pytest.raises(ImportError, match=re.escape(message)):
        getattr(walkernel.torch, name)
