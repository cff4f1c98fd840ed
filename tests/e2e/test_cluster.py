"""Kernels on a real cluster, whose processes are started as users start them: the same to the last bit."""

import copy
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from distributed import Client
from sklearn.base import clone

import walkernel as wk
from clusters import PLENTY, cluster, wait_until
from depth import mostly_deep
from graphs import isolated
from walkernel.engines import Dask, checked_spec, features_job
from walkernel.testing import EngineSuite

N_NODES, N_WALKS = 700, 24

pytestmark = pytest.mark.filterwarnings("ignore:.*topk")  # of walks that are few


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
        engine = Dask(dask.client, block_size)
        K = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, engine=engine, **options)
        assert_same(K, expected)


@pytest.mark.deep
@pytest.mark.parametrize("block_size", [1, 40, 256, 10**6])
def test_any_size_of_blocks(block_size, dask):
    graph = random_graph(500 if block_size > 1 else 40)
    expected = wk.estimate_kernel(graph, wk.Matern(), N_WALKS)
    K = wk.estimate_kernel(graph, wk.Matern(), N_WALKS, engine=Dask(dask.client, block_size))
    assert K.left.n_blocks == -(-graph.n_nodes // min(block_size, graph.n_nodes))
    assert_same(K, expected, columns=(3,))


@pytest.mark.deep
def test_large_arguments_travel_on_their_own(dask):
    graph = random_graph(2000)
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS)
    K = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, engine=Dask(dask.client))
    assert_same(K, expected, columns=(100,))


@pytest.mark.deep
def test_stitched_products(dask):
    graph = random_graph(600)
    expected = wk.estimate_kernel(graph, wk.Diffusion(3.0), 16, stitches=2)
    K = wk.estimate_kernel(graph, wk.Diffusion(3.0), 16, stitches=2, engine=Dask(dask.client, 200))
    V = np.random.default_rng(0).normal(size=(600, 3))
    assert np.array_equal(K @ V, expected @ V)
    assert K.n_steps == expected.n_steps


@pytest.mark.deep
def test_standard_errors_are_the_same(dask):
    graph = random_graph(300)
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS).estimate([0, 1], [1, 7])
    K = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, engine=Dask(dask.client))
    found = K.estimate([0, 1], [1, 7])
    assert np.array_equal(found.value, expected.value)
    assert np.array_equal(found.stderr, expected.stderr)


@pytest.mark.deep
def test_graphs_in_folders_go_by_their_path(dask, tmp_path):
    graph = stored(tmp_path)
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS)
    K = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, engine=Dask(dask.client))
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
    K = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, engine=Dask(dask.client, 100))
    _ = K @ np.ones((3000, 1)), K.topk([0], 3), K.diagonal()
    assert sent == [("RemoteGraph", True)]
    (size,) = (size for key, size in sizes(dask).items() if key.startswith("RemoteGraph"))
    assert size >= graph.indices.nbytes


@pytest.mark.deep
def test_records_of_walks_do_not_take_the_graph_along(dask):
    graph = random_graph(3000)
    walks = wk.sample_walks(graph, 2, engine=Dask(dask.client, 500))
    record = walks.record._tasks.future(0)
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
    K = wk.estimate_kernel(graph, wk.Diffusion(), 64, engine=Dask(dask.client), ensembles="independent")
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
    graph, options = random_graph(), {"seed": 3, "nodes": range(50, 650)}
    expected = wk.sample_walks(graph, 8, **options)
    walks = wk.sample_walks(graph, 8, engine=Dask(dask.client, 200), **options)
    assert walks.n_steps == expected.n_steps
    assert repr(walks) == repr(expected)
    f = np.array([1.0, 0.5, 0.25, 0.0, 0.125])
    for modulation in (wk.Diffusion(), f, lambda lengths: 0.5**lengths):
        found, wanted = walks.features(modulation), expected.features(modulation)
        assert (found.shape, found.n_blocks) == (wanted.shape, 3)
        assert_same_rows(found.to_scipy(), wanted)
    for rows in ([599, 3, 3, 200, 199], []):  # these come here
        assert_same_rows(walks.features(f, rows=rows), expected.features(f, rows=rows))
    for name in ("indptr", "nodes", "lengths", "loads"):
        assert np.array_equal(getattr(walks.deposits, name), getattr(expected.deposits, name))
    gathered = pickle.loads(pickle.dumps(walks))
    assert_same_rows(gathered.features(wk.Matern()), expected.features(wk.Matern()))


def test_walks_with_exact_heads(dask):
    graph, options = random_graph(), {"sampler": wk.CoupledWalks([1.0, 0.5, 0.25], head=2, group=2)}
    expected = wk.sample_walks(graph, 8, **options)
    walks = wk.sample_walks(graph, 8, engine=Dask(dask.client, 200), **options)
    assert walks.n_steps == expected.n_steps
    assert_same_rows(walks.features(wk.Diffusion()).to_scipy(), expected.features(wk.Diffusion()))


def test_an_update_walks_again_on_the_cluster(dask):
    graph, other = random_graph(), random_graph(seed=1)
    walks = wk.sample_walks(graph, 8, engine=Dask(dask.client, 200))
    changed = copy.deepcopy(walks).update(other)
    assert changed.n_rewalked == 8 * N_NODES
    assert changed.features(wk.Diffusion()).n_blocks == 4
    for own, on in ((walks, graph), (changed, other)):
        expected = wk.sample_walks(on, 8)
        assert_same_rows(own.features(wk.Diffusion()).to_scipy(), expected.features(wk.Diffusion()))


def assert_same_rows(found, expected):
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def test_features(dask, tmp_path):
    graph = random_graph(directed=True)
    options = {"seed": 5, "transpose": True, "nodes": range(100, 400)}
    expected = wk.sample_features(graph, wk.Diffusion(), 12, **options)
    found = wk.sample_features(graph, wk.Diffusion(), 12, engine=Dask(dask.client, 70), **options)
    assert_same_rows(found.to_scipy(), expected)
    assert (found.nnz, found.n_blocks) == (expected.nnz, 5)
    assert "300x700, 5 blocks on <Client" in repr(found)
    options |= {"directory": tmp_path / "phi"}
    kept = wk.sample_features(graph, wk.Diffusion(), 12, block_size=70, engine=Dask(dask.client), **options)
    assert (type(kept), kept.n_blocks) == (wk.engines.StoredFeatures, 5)
    assert_same_rows(kept.to_scipy(), expected)
    again = wk.sample_features(graph, wk.Diffusion(), 12, **options)
    assert_same_rows(again.to_scipy(), expected)


def test_features_of_a_job(dask):
    """Norms, heads on their own and groups of walks are those of one process as well."""
    spec = checked_spec(
        random_graph(), 8, wk.CoupledWalks([1.0, 0.5, 0.25], head=1, group=2), 0, 0, None, "normalized", False
    )
    plain = features_job(spec, wk.Diffusion())
    for job in (
        replace(plain, streams=(0, 2), with_norms=True, separate_heads=True),
        replace(plain, n_groups=4),
    ):
        pairs = zip(Dask(dask.client, 150).features(job), wk.engines.CPU().features(job), strict=True)
        for found, expected in pairs:
            assert_same_rows(found.to_scipy(), expected.to_scipy())
            assert np.array_equal(found.norms, expected.norms)
            assert found.n_steps == expected.n_steps


@pytest.mark.parametrize("first", ["here", "there"])
def test_either_resumes_what_the_other_began(first, dask, tmp_path):
    graph, engines = random_graph(), {"here": wk.engines.CPU(), "there": Dask(dask.client)}
    (second,) = engines.keys() - {first}
    options = {"directory": tmp_path / "phi", "block_size": 100}

    def stop(done, total):
        if done >= 300:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wk.sample_features(graph, wk.Diffusion(), 12, engine=engines[first], progress=stop, **options)
    begun = {path: path.stat().st_mtime_ns for path in tmp_path.glob("phi/block-*")}
    assert len(begun) == 3
    stored = wk.sample_features(graph, wk.Diffusion(), 12, engine=engines[second], **options)
    assert begun.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.glob("phi/block-*")}.items()
    assert_same_rows(stored.to_scipy(), wk.sample_features(graph, wk.Diffusion(), 12))


@pytest.mark.deep
def test_few_blocks_wait_for_this_process(dask, tmp_path):
    """Workers do not run ahead of what is written: four blocks for each of them."""
    graph, waiting = random_graph(1000), []
    wk.sample_features(
        graph, wk.Diffusion(), 4, directory=tmp_path / "phi", block_size=20, engine=Dask(dask.client),
        progress=lambda *_: waiting.append(sum(name.startswith("walk_on_worker") for name in dask.tasks())),
    )  # fmt: skip
    assert len(waiting) == 50
    assert 2 <= max(waiting) <= 8


@pytest.mark.deep
def test_directories(dask, tmp_path):
    graph = random_graph()
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, ensembles="independent")
    K = wk.estimate_kernel(
        graph, wk.Diffusion(), N_WALKS, ensembles="independent",
        engine=Dask(dask.client), directory=tmp_path / "K",
    )  # fmt: skip
    dask.settles()  # the cluster keeps nothing of it
    assert_same(K, expected)


@pytest.mark.deep
def test_clustering(dask):
    graph = random_graph(weighted=False)
    local = wk.estimate_kernel(graph, wk.Diffusion(3.0), N_WALKS)
    K = wk.estimate_kernel(graph, wk.Diffusion(3.0), N_WALKS, engine=Dask(dask.client))
    labels = [wk.KernelKMeans(3, n_init=1, random_state=0).fit(k).labels_ for k in (local, K)]
    assert np.array_equal(*labels)


@pytest.mark.deep
def test_a_second_client_in_another_thread(dask):
    graph = random_graph(300)
    expected = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS) @ np.ones(300)
    with Client(dask.address, set_as_default=False) as client:
        found = []

        def work():
            K = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, engine=Dask(client))
            found.append(K @ np.ones(300))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        wait_until(lambda: not client.futures)
    assert np.array_equal(found[0], expected)


def test_progress(dask):
    reports = []
    wk.estimate_kernel(
        random_graph(500), wk.Diffusion(), N_WALKS, engine=Dask(dask.client, 100),
        progress=lambda done, total: reports.append((done, total)),
    )  # fmt: skip
    assert reports == [(done, 500) for done in range(100, 501, 100)]


def test_equations(dask):
    graph, heat = random_graph(400), np.eye(400)[0]
    options = {"initial": heat, "n_walks": 32, "method": "walks"}
    expected = wk.solve_ode(graph, None, [0.5, 1.0], **options)
    found = wk.solve_ode(graph, None, [0.5, 1.0], engine=Dask(dask.client, 100), **options)
    assert np.array_equal(found.x, expected.x)
    assert np.array_equal(found.stderr, expected.stderr)


def test_gaussian_processes(dask):
    graph, seen = random_graph(300), np.arange(0, 300, 7)
    values = np.random.default_rng(0).normal(size=seen.size)
    kernels = [
        wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, ensembles="shared", engine=engine)
        for engine in (None, Dask(dask.client))
    ]
    expected, found = (wk.gp_posterior(K, seen, values, [0, 1, 2], noise=0.3) for K in kernels)
    assert np.array_equal(found.mean, expected.mean)
    assert np.array_equal(found.std, expected.std)


def test_engines_are_values(dask):
    engine = Dask(dask.client, 100)
    with Client(dask.address, set_as_default=False) as other:
        assert engine == Dask(other, 100)
        assert hash(engine) == hash(Dask(other, 100))
    assert engine == Dask(dask.address, 100) == Dask(dask.address.removeprefix("tcp://"), 100)
    assert engine != Dask(dask.client)
    assert engine != Dask("tcp://127.0.0.1:1", 100)
    assert clone(engine) is copy.deepcopy(engine) is engine


def test_pickled_engines_connect_when_they_are_used(dask):
    graph = random_graph(300)
    engine = Dask(dask.client, 100)
    data = pickle.dumps(engine)
    assert len(data) < 200
    n_clients = len(clients(dask))
    again = pickle.loads(data)
    assert (again, again.client) == (engine, dask.address)
    assert len(clients(dask)) == n_clients
    for _ in range(2):  # one connection
        K = wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, engine=again)
        assert_same(K, wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS), columns=(2,))
        assert len(clients(dask)) == n_clients + 1
    K.left._blocks.cluster.client.close()
    again.record(K.groups.left)  # opened again
    del K


def test_pickled_engines_in_another_process(dask, tmp_path):
    graph = random_graph(300)
    (tmp_path / "in.pickle").write_bytes(pickle.dumps((graph, Dask(dask.client, 100))))
    code = """
import pickle, sys
from pathlib import Path
import walkernel as wk
folder = Path(sys.argv[1])
graph, engine = pickle.loads((folder / "in.pickle").read_bytes())
rows = wk.sample_features(graph, wk.Diffusion(), 8, engine=engine).to_scipy()
(folder / "out.pickle").write_bytes(pickle.dumps(rows))
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, timeout=PLENTY)
    found = pickle.loads((tmp_path / "out.pickle").read_bytes())
    assert_same_rows(found, wk.sample_features(graph, wk.Diffusion(), 8))


def clients(dask):
    return dask.client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))


@pytest.mark.deep
class TestConformance(EngineSuite):
    @pytest.fixture(autouse=True)
    def _connect(self, dask):
        self.client = dask.client

    def make_engine(self):
        return Dask(self.client, block_size=5)
