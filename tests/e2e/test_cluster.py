"""Kernels on a real cluster, whose processes are started as users start them: the same to the last bit."""

import pickle
import threading

import numpy as np
import pytest
import walkernel.distributed as there
from distributed import Client

import walkernel as wk
from clusters import cluster, wait_until
from depth import mostly_deep
from graphs import isolated

N_NODES, N_WALKS = 700, 24

pytestmark = pytest.mark.filterwarnings("ignore:topk")  # of walks that are few


def random_graph(n=N_NODES, *, directed=False, weighted=True, labelled=False, seed=0):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, (3 * n, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    if directed:
        ends = np.where(rng.random((len(ends), 1)) < 0.5, ends, ends[:, ::-1])
    weights = rng.lognormal(0, 0.5, len(ends)) if weighted else None
    if not labelled:
        return wk.Graph.from_edges(ends, n_nodes=n, weights=weights, directed=directed)
    names = [(f"n{i}", f"n{j}") for i, j in ends.tolist()]
    return wk.Graph.from_edges(names, weights=weights, directed=directed)


def stored(folder):
    random_graph().save(folder / "graph")
    return wk.load_graph(folder / "graph")


CASES = {
    "undirected": (random_graph, {}),
    "unweighted": (lambda: random_graph(weighted=False), {"ensembles": "shared"}),
    "directed": (lambda: random_graph(directed=True), {}),
    "lazy": (random_graph, {"pair": "lazy"}),
    "independent": (random_graph, {"ensembles": "independent"}),
    "labelled": (lambda: random_graph(labelled=True), {}),
    "some nodes": (random_graph, {"nodes": [*range(600, 100, -3), 5, 3]}),
    "lazy, some nodes": (random_graph, {"nodes": [*range(600, 100, -3), 5, 3], "pair": "lazy"}),
    "isolated": (isolated, {}),
    "another sampler": (random_graph, {"sampler": wk.IndependentWalks(p_halt=0.2), "seed": 7}),
}


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster")) as own:
        own.start_workers(1, nanny=True)
        own.start_workers(1, n_threads=2)
        yield own


@pytest.fixture(autouse=True)
def _nothing_is_left_behind(dask):
    yield
    dask.settles()


def assert_same(K, expected, columns=(1, 5)):
    """Everything that an operator says is the same, to the last bit."""
    rng = np.random.default_rng(0)
    n = K.shape[0]
    for count in columns:
        V = rng.normal(size=(n, count))
        assert np.array_equal(K @ V, expected @ V)
        assert np.array_equal(K.T @ V, expected.T @ V)
    assert np.array_equal(K.diagonal(), expected.diagonal())
    left, right = K.nodes[rng.integers(0, n, 200)], K.nodes[rng.integers(0, n, 200)]
    assert np.array_equal(K.entries(left, right), expected.entries(left, right))
    assert np.array_equal(K.rows(left[:3]), expected.rows(left[:3]))
    best, best_expected = K.topk(left[:4], 5), expected.topk(left[:4], 5)
    assert np.array_equal(best.nodes, best_expected.nodes)
    assert np.array_equal(best.values, best_expected.values, equal_nan=True)
    assert K.n_steps == expected.n_steps


@pytest.mark.parametrize("case", mostly_deep(CASES, ["undirected", "directed", "lazy, some nodes"]))
def test_kernels_are_the_same(case, dask):
    make, options = CASES[case]
    graph = make()
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, **options)
    for block_size in (None, 97) if case == "undirected" else (150,):
        K = there.estimate_kernel(
            graph, wk.Diffusion(), N_WALKS, client=dask.client, block_size=block_size, **options
        )
        assert_same(K, expected)


@pytest.mark.deep
@pytest.mark.parametrize("block_size", [1, 40, 256, 10**6])
def test_any_size_of_blocks(block_size, dask):
    graph = random_graph(500 if block_size > 1 else 40)
    expected = wk.estimate_kernel(graph, wk.Matern(), N_WALKS)
    K = there.estimate_kernel(graph, wk.Matern(), N_WALKS, client=dask.client, block_size=block_size)
    assert K.left.n_blocks == -(-graph.n_nodes // min(block_size, graph.n_nodes))
    assert_same(K, expected, columns=(3,))


@pytest.mark.deep
def test_large_arguments_travel_on_their_own(dask):
    graph = random_graph(2000)
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS)
    K = there.estimate_kernel(graph, wk.Diffusion(), N_WALKS, client=dask.client)
    assert_same(K, expected, columns=(100,))


@pytest.mark.deep
def test_stitched_products(dask):
    graph = random_graph(600)
    expected = wk.estimate_kernel(graph, wk.Diffusion(3.0), 16, stitches=2)
    K = there.estimate_kernel(graph, wk.Diffusion(3.0), 16, stitches=2, client=dask.client, block_size=200)
    V = np.random.default_rng(0).normal(size=(600, 3))
    assert np.array_equal(K @ V, expected @ V)
    assert K.n_steps == expected.n_steps


@pytest.mark.deep
def test_standard_errors_are_the_same(dask):
    graph = random_graph(300)
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS).estimate([0, 1], [1, 7])
    K = there.estimate_kernel(graph, wk.Diffusion(), N_WALKS, client=dask.client)
    found = K.estimate([0, 1], [1, 7])
    assert np.array_equal(found.value, expected.value)
    assert np.array_equal(found.stderr, expected.stderr)


@pytest.mark.deep
def test_graphs_in_folders_go_by_their_path(dask, tmp_path):
    graph = stored(tmp_path)
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS)
    K = there.estimate_kernel(graph, wk.Diffusion(), N_WALKS, client=dask.client)
    assert_same(K, expected)
    sent = K.left._blocks.cluster.remote_graph
    assert sizes(dask)[sent.key] < 1000
    assert len(pickle.dumps(sent.result())) < 1000


@pytest.mark.deep
def test_graphs_in_memory_are_sent_once(dask, monkeypatch):
    graph, sent = random_graph(3000), []
    scatter = Client.scatter

    def watched(client, value, **options):
        sent.append((type(value).__name__, options["broadcast"]))
        return scatter(client, value, **options)

    monkeypatch.setattr(Client, "scatter", watched)
    K = there.estimate_kernel(graph, wk.Diffusion(), N_WALKS, client=dask.client, block_size=100)
    _ = K @ np.ones((3000, 1)), K.topk([0], 3), K.diagonal()
    assert sent == [("RemoteGraph", True)]
    (size,) = (size for key, size in sizes(dask).items() if key.startswith("RemoteGraph"))
    assert size >= graph.indices.nbytes


@pytest.mark.deep
def test_records_of_walks_do_not_take_the_graph_along(dask):
    graph = random_graph(3000)
    walks = there.sample_walks(graph, 2, client=dask.client, block_size=500)
    record = walks._tasks.future(0)
    size = len(dask.client.submit(pickle.dumps, record).result())
    assert size < 1.2 * sizes(dask)[record.key] < len(pickle.dumps(graph))


@pytest.mark.deep
def test_features_stay_on_the_workers(dask, monkeypatch):
    graph = random_graph(2000)
    gathered = []
    gather = Client.gather

    def watched(client, futures, **options):
        results = gather(client, futures, **options)
        gathered.append(sum(len(pickle.dumps(result)) for result in results))
        return results

    monkeypatch.setattr(Client, "gather", watched)
    K = there.estimate_kernel(graph, wk.Diffusion(), 64, client=dask.client, ensembles="independent")
    size = K.left.nbytes
    assert sum(sizes(dask).values()) > 2 * size  # Dask knows what the blocks take
    rng = np.random.default_rng(0)
    _ = K @ rng.normal(size=(2000, 2)), K.diagonal(), K.entries(*rng.integers(0, 2000, (2, 4000)))
    assert gathered
    assert sum(gathered) < size / 5
    twin = K.left.rows(np.arange(2000))
    assert sum(gathered) > size  # so that a gathered Φ is seen
    assert twin.nnz == K.left.nnz


def sizes(dask):
    return dask.client.run_on_scheduler(
        lambda dask_scheduler: {key: task.nbytes for key, task in dask_scheduler.tasks.items()}
    )


def test_walks(dask):
    graph = random_graph()
    expected = wk.sample_walks(graph, 8, seed=3, nodes=range(50, 650))
    walks = there.sample_walks(graph, 8, seed=3, nodes=range(50, 650), client=dask.client, block_size=200)
    assert walks.n_steps == expected.n_steps
    assert repr(walks) == "Cluster" + repr(expected)
    f = np.array([1.0, 0.5, 0.25, 0.0, 0.125])
    for modulation in (wk.Diffusion(), f, lambda lengths: 0.5**lengths):
        found, wanted = walks.features(modulation), expected.features(modulation)
        assert found.shape == wanted.shape
        assert_same_rows(found.to_csr(), wanted)
    gathered = walks.gather()
    for name in ("indptr", "nodes", "lengths", "loads"):
        assert np.array_equal(getattr(gathered.deposits, name), getattr(expected.deposits, name))
    assert_same_rows(gathered.features(wk.Matern()), expected.features(wk.Matern()))


def assert_same_rows(found, expected):
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def test_features(dask, tmp_path):
    graph = random_graph(directed=True)
    options = {"seed": 5, "transpose": True, "nodes": range(100, 400)}
    expected = wk.sample_features(graph, wk.Diffusion(), 12, **options)
    found = there.sample_features(graph, wk.Diffusion(), 12, client=dask.client, block_size=70, **options)
    assert_same_rows(found.to_csr(), expected)
    assert (found.nnz, found.n_blocks) == (expected.nnz, 5)
    assert "300x700, 5 blocks on <Client" in repr(found)
    kept = there.store_features(
        tmp_path / "phi", graph, wk.Diffusion(), 12, client=dask.client, block_size=70, **options
    )
    assert_same_rows(kept.to_csr(), expected)
    again = wk.store_features(tmp_path / "phi", graph, wk.Diffusion(), 12, **options)
    assert_same_rows(again.to_csr(), expected)


@pytest.mark.deep
def test_few_blocks_wait_for_this_process(dask, tmp_path):
    """Workers do not run ahead of what is written: four blocks for each of them."""
    graph, waiting = random_graph(1000), []
    there.store_features(
        tmp_path / "phi", graph, wk.Diffusion(), 4, client=dask.client, block_size=20,
        progress=lambda *_: waiting.append(sum(name.startswith("walk_on_worker") for name in dask.tasks())),
    )  # fmt: skip
    assert len(waiting) == 50
    assert 2 <= max(waiting) <= 8


@pytest.mark.deep
def test_directories(dask, tmp_path):
    graph = random_graph()
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, ensembles="independent")
    K = there.estimate_kernel(
        graph, wk.Diffusion(), N_WALKS, ensembles="independent",
        client=dask.client, directory=tmp_path / "K", block_size=200,
    )  # fmt: skip
    dask.settles()  # the cluster keeps nothing of it
    assert_same(K, expected)


@pytest.mark.deep
def test_clustering(dask):
    graph = random_graph(weighted=False)
    local = wk.estimate_kernel(graph, wk.Diffusion(3.0), N_WALKS)
    K = there.estimate_kernel(graph, wk.Diffusion(3.0), N_WALKS, client=dask.client)
    labels = [wk.KernelKMeans(3, n_init=1, random_state=0).fit(k).labels_ for k in (local, K)]
    assert np.array_equal(*labels)


@pytest.mark.deep
def test_a_second_client_in_another_thread(dask):
    graph = random_graph(300)
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS) @ np.ones(300)
    with Client(dask.address, set_as_default=False) as client:
        found = []

        def work():
            K = there.estimate_kernel(graph, wk.Diffusion(), N_WALKS, client=client)
            found.append(K @ np.ones(300))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        wait_until(lambda: not client.futures)
    assert np.array_equal(found[0], expected)


def test_progress(dask):
    reports = []
    there.estimate_kernel(
        random_graph(500), wk.Diffusion(), N_WALKS, client=dask.client, block_size=100,
        progress=lambda done, total: reports.append((done, total)),
    )  # fmt: skip
    assert reports == [(done, 500) for done in range(100, 501, 100)]
