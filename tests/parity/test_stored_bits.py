"""Features in files, in blocks of any size, give the numbers of those in memory to the last bit."""

import numpy as np
import pytest

import graphs
import walkernel as wk
from depth import mostly_deep
from walkernel.engines import _stored_features as storing
from walkernel.features import _matrix
from walkernel.features import _products as products
from walkernel.operators import _groups, _stitched

KARATE, NAMED = graphs.karate(), [("node", i) for i in range(30)]


def labelled():
    entries = graphs.weighted().to_scipy("adjacency").tocoo()
    edges = [(NAMED[i], NAMED[j]) for i, j in zip(*entries.coords, strict=True) if i <= j]
    weights = [w for i, j, w in zip(*entries.coords, entries.data, strict=True) if i <= j]
    return wk.Graph.from_edges(edges, weights=weights)


def ring(n=600):
    """A graph of several leaves of the tree, even as they are by default."""
    nodes = np.arange(n)
    rng = np.random.default_rng(0)
    chords = np.column_stack([nodes, rng.permutation(n)])
    edges = np.concatenate([np.column_stack([nodes, (nodes + 1) % n]), chords[chords[:, 0] < chords[:, 1]]])
    return wk.Graph.from_edges(np.unique(np.sort(edges, axis=1), axis=0))


ADJACENCY = wk.Diffusion(0.5, matrix="adjacency")
LAW = 0.8 ** np.arange(1, 60)
SHORT = {"n_walks": 32}
CASES = {
    "debiased": (graphs.unweighted, wk.Diffusion(), SHORT),
    "shared": (graphs.unweighted, wk.Diffusion(), SHORT | {"ensembles": "shared"}),
    "independent": (graphs.weighted, wk.Matern(), SHORT | {"ensembles": "independent"}),
    "lazy": (graphs.weighted, wk.Diffusion(), SHORT | {"pair": "lazy"}),
    "without head": (
        graphs.weighted, wk.Diffusion(), SHORT | {"sampler": wk.IndependentWalks(0.2), "seed": 2**64 - 1}),
    "coupled": (graphs.weighted, wk.Diffusion(3.0), SHORT | {"sampler": wk.CoupledWalks(LAW)}),
    "unequal": (
        graphs.weighted, wk.Diffusion(), SHORT | {"sampler": wk.PrunedWalks(LAW, 0.05, unevenness=1.0)}),
    "directed": (graphs.directed, wk.Diffusion(), SHORT),
    "directed, lazy": (graphs.directed, wk.Diffusion(), SHORT | {"pair": "lazy"}),
    "signed": (graphs.signed, wk.RegularizedLaplacian(), SHORT),
    "isolated": (graphs.isolated, wk.Diffusion(), SHORT),
    "labelled": (labelled, wk.Diffusion(), SHORT),
    "adjacency": (graphs.unweighted, ADJACENCY, SHORT),
    "adjacency, directed": (graphs.directed, ADJACENCY, SHORT),
    "combinatorial": (graphs.weighted, wk.Diffusion(matrix="combinatorial"), SHORT),
    "random walk": (graphs.weighted, wk.PageRank(0.6), SHORT),
    "random walk, nodes": (graphs.directed, wk.PageRank(0.6), SHORT | {"nodes": [29, 3, 17, 5, 4]}),
    "nodes": (graphs.weighted, wk.Diffusion(), SHORT | {"nodes": [29, 3, 17, 5, 4, 20, 0]}),
    "nodes, lazy": (graphs.weighted, wk.Diffusion(), SHORT | {"nodes": [29, 3, 17, 5], "pair": "lazy"}),
    "nodes, directed": (graphs.directed, wk.Diffusion(), SHORT | {"nodes": [29, 3, 17, 5, 4]}),
    "nodes, labelled": (labelled, wk.Diffusion(), SHORT | {"nodes": [NAMED[9], NAMED[2], NAMED[3]]}),
    "stitched": (graphs.weighted, wk.Diffusion(4.0), SHORT | {"stitches": 3}),
    "stitched, without head": (
        graphs.weighted, wk.Diffusion(4.0), SHORT | {"stitches": 2, "sampler": wk.IndependentWalks(0.3)}),
    "stitched, independent": (
        graphs.weighted, wk.Diffusion(4.0), SHORT | {"stitches": 2, "ensembles": "independent"}),
    "stitched, shared": (graphs.weighted, wk.Diffusion(4.0), SHORT | {"stitches": 2, "ensembles": "shared"}),
    "stitched, directed": (graphs.directed, wk.Diffusion(3.0), SHORT | {"stitches": 2}),
    "leaves": (ring, wk.Diffusion(3.0), SHORT),
    "leaves, stitched": (ring, wk.Diffusion(3.0), SHORT | {"stitches": 2}),
}  # fmt: skip


def numbers(K):
    """Return all that an operator can be asked for."""
    n = K.shape[0]
    rng = np.random.default_rng(1)
    V, nodes = rng.normal(size=(n, 3)), K.nodes
    some = [nodes[k] for k in (n - 1, 0, n // 2)]
    rows, columns = [some[0], some[1], some[0]], [some[1], some[1], some[2]]
    estimate, product = K.estimate(rows, columns), K.estimate_product(V[:, :2])
    best, likely, about = K.topk(some, 4), K.estimate_topk(some[:2], 2), K.explain()
    return {
        "K @ v": K @ V[:, 0], "K @ V": K @ V, "nothing": K @ V[:, :0], "K.T @ V": K.T @ V, "V @ K": V.T @ K,
        "entries": K.entries(rows, columns), "diagonal": K.diagonal(), "rows": K.rows(some),
        "to_dense": K.to_dense(), "K.T": K.T.to_dense(),
        "estimate": [*estimate, estimate.upper], "estimate_product": [*product],
        "topk": [*best], "estimate_topk": [*likely], "steps": K.n_steps, "repr": repr(K),
        "explain": (about.text, about.n_bytes, about.error),
    }  # fmt: skip


def same(here, there):
    if isinstance(here, (list, tuple)):
        return len(here) == len(there) and all(map(same, here, there))
    numbers = isinstance(here, np.ndarray) and here.dtype.kind == "f"
    return np.array_equal(here, there, equal_nan=numbers)


@pytest.fixture
def small_leaves(monkeypatch):
    """Leaves of few rows, so that small graphs have several of them, and sums over some columns at a time."""
    monkeypatch.setattr(products, "LEAF_ROWS", 4)
    monkeypatch.setattr(products, "SUMS_AT_ONCE", 300)
    monkeypatch.setattr(_matrix, "ENTRIES_AT_ONCE", 2)


def with_blocks(monkeypatch, size):
    monkeypatch.setattr(storing, "default_block_size", lambda job: size)


SIZES = [(case, size) for case in CASES for size in (3, 7, 1000)]


@pytest.mark.filterwarnings("ignore:.*topk")  # of walks that are few
@pytest.mark.parametrize(("case", "size"), mostly_deep(SIZES, SIZES[1::9]))
def test_an_operator_on_files_is_the_one_in_memory(case, size, tmp_path, monkeypatch, small_leaves):
    make, kernel, options = CASES[case]
    if case.startswith("leaves"):
        monkeypatch.undo()
        size = {3: 100, 7: 256}.get(size, size)
    graph, seed = make(), options.get("seed", 3)
    memory = wk.estimate_kernel(graph, kernel, **options | {"seed": seed})
    with_blocks(monkeypatch, size)
    files = wk.estimate_kernel(graph, kernel, **options | {"seed": seed}, directory=tmp_path / "K")
    here, there = numbers(memory), numbers(files)
    assert [name for name in here if not same(here[name], there[name])] == []


@pytest.mark.parametrize("size", [1, 4, 9, 34, 50])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_stored_features_are_those_in_memory(size, n_threads, tmp_path):
    options = {"seed": 5, "stream": 3, "nodes": [33, 0, 7, 12, 2, 5, 31, 30, 8, 9]}
    memory = wk.sample_features(KARATE, wk.Diffusion(), 20, **options)
    stored = wk.sample_features(
        KARATE,
        wk.Diffusion(),
        20,
        directory=tmp_path,
        **options,
        block_size=size,
        engine=wk.engines.CPU(n_threads),
    )
    files = stored.to_scipy()
    for name in ("indptr", "indices", "data"):
        here, there = getattr(memory, name), getattr(files, name)
        assert here.dtype == there.dtype
        assert np.array_equal(here, there)


@pytest.mark.parametrize("f", [[1.0, 0.5, 0.25], lambda k: 0.5**k, wk.Diffusion(matrix="combinatorial")])
@pytest.mark.parametrize("transpose", [False, True])
def test_any_f_matrix_and_direction(f, transpose, tmp_path):
    graph, options = graphs.directed(), {"transpose": transpose, "sampler": wk.CoupledWalks(LAW)}
    memory = wk.sample_features(graph, f, 8, **options)
    stored = wk.sample_features(graph, f, 8, directory=tmp_path, **options, block_size=11)
    assert np.array_equal(stored.to_scipy().toarray(), memory.toarray())


def test_a_sum_by_blocks_is_seen(tmp_path, monkeypatch, small_leaves):
    """The twin: features that add up their blocks as they come give other numbers."""

    def by_blocks(self, V):
        parts = zip(self.blocks(), np.split(V, self.edges[1:-1]), strict=True)
        return sum(block.T @ part for block, part in parts)

    graph = graphs.weighted()
    memory = numbers(wk.estimate_kernel(graph, wk.Diffusion(), 32))
    with_blocks(monkeypatch, 7)
    files = wk.estimate_kernel(graph, wk.Diffusion(), 32, directory=tmp_path)
    monkeypatch.setattr(storing.StoredFeatures, "multiply_transposed", by_blocks)
    there = numbers(files)
    assert not same(memory["K @ V"], there["K @ V"])
    assert np.allclose(memory["K @ V"], there["K @ V"], rtol=1e-12, atol=1e-14)


def test_groups_of_a_stitched_operator_are_walked_again(tmp_path, monkeypatch):
    """Limits of memory and cost are counted alike, on files and in memory."""
    graph, options = graphs.weighted(), {"n_walks": 32, "stitches": 2}
    memory = wk.estimate_kernel(graph, wk.Diffusion(), **options)
    files = wk.estimate_kernel(graph, wk.Diffusion(), **options, directory=tmp_path)
    assert [factor.left.nnz for factor in files.factors] == [factor.left.nnz for factor in memory.factors]
    monkeypatch.setattr(_stitched, "MAX_PRODUCTS", 1)
    for K in (memory, files):
        with pytest.raises(ValueError, match="in few enough rows"):
            K.diagonal()


@pytest.mark.usefixtures("few_or_many_walks")
def test_error_bars_of_some_columns_at_a_time(tmp_path, monkeypatch):
    graph, V = graphs.weighted(), np.random.default_rng(0).normal(size=(30, 5))
    memory = wk.estimate_kernel(graph, wk.Diffusion(), 32).estimate_product(V)
    with_blocks(monkeypatch, 4)
    monkeypatch.setattr(_groups, "SUMS_AT_ONCE", 16 * 30 * 2)
    files = wk.estimate_kernel(graph, wk.Diffusion(), 32, directory=tmp_path).estimate_product(V)
    assert same([*memory], [*files])
