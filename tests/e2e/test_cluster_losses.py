"""Workers that die, runs that are stopped and calls that cannot work, on a real cluster."""

import asyncio
import gc
import os
import signal
import threading

import numpy as np
import pytest
from distributed import Client, KilledWorker

import walkernel as wk
from clusters import PLENTY, cluster, end, wait_until
from walkernel.engines import Dask

pytestmark = pytest.mark.deep

N_NODES, N_WALKS, BLOCK = 2000, 200, 100


@pytest.fixture(scope="module")
def graph():
    ends = np.random.default_rng(0).integers(0, N_NODES, (3 * N_NODES, 2))
    return wk.Graph.from_edges(np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0), n_nodes=N_NODES)


@pytest.fixture(scope="module")
def vectors():
    return np.random.default_rng(1).normal(size=(N_NODES, 150))


@pytest.fixture(scope="module")
def product(graph, vectors):
    return wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS) @ vectors


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster")) as own:
        yield own


@pytest.fixture
def dask(_cluster):
    """Two workers, and nothing left behind at the end."""
    _cluster.keep_workers(2)
    yield _cluster
    _cluster.settles()


def estimate(graph, dask, block_size=BLOCK, **options):
    return wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, engine=Dask(dask.client, block_size), **options)


def after(count, action):
    """A progress callback that does something after some blocks, and the numbers it was called with."""
    reports = []

    def progress(done, total):
        reports.append(done)
        if len(reports) == count:
            action()

    return progress, reports


def test_a_worker_dies_while_blocks_are_made(dask, graph, vectors, product):
    progress, reports = after(2, lambda: end(dask.workers[0]))
    K = estimate(graph, dask, progress=progress)
    assert reports == list(range(BLOCK, N_NODES + 1, BLOCK))
    assert np.array_equal(K @ vectors, product)
    assert dask.n_workers() == 1


def test_all_workers_die_while_blocks_are_made_and_another_joins(dask, graph, vectors, product):
    def replace():
        for worker in dask.workers:
            end(worker)
        dask.start_workers(1)

    progress, reports = after(2, replace)
    K = estimate(graph, dask, progress=progress)
    assert reports == list(range(BLOCK, N_NODES + 1, BLOCK))
    assert np.array_equal(K @ vectors, product)


def test_workers_die_during_products(dask, graph, vectors, product):
    """One dies, then the other, after a third has joined: those that are killed have blocks, and are busy."""
    K = estimate(graph, dask)
    for _ in range(2):
        victim = dask.workers[0]
        killer = threading.Thread(target=kill_when_busy, args=(dask, victim))
        killer.start()
        products = [K @ vectors]
        while killer.is_alive():
            products.append(K @ vectors)
        killer.join()
        assert victim.poll() == -signal.SIGKILL
        assert all(np.array_equal(found, product) for found in products)
        dask.start_workers(1)


def kill_when_busy(dask, worker):
    """Kill a worker while products are computed."""
    with Client(dask.address, set_as_default=False) as other:
        wait_until(lambda: other.run_on_scheduler(counts_of_products))
    end(worker)


def counts_of_products(dask_scheduler):
    return sum(key.startswith(("times", "sum_of_leaves", "add")) for key in dask_scheduler.tasks)


counts_of_products.__module__ = "__main__"  # so that it is sent by value


def test_all_workers_die_between_calls(dask, graph, vectors, product):
    K = estimate(graph, dask)
    walks = wk.sample_walks(graph, 4, engine=Dask(dask.client, 500))
    features = walks.features(wk.Diffusion())
    expected = wk.sample_walks(graph, 4)
    for worker in dask.workers:
        end(worker)
    dask.start_workers(1)
    assert np.array_equal(K @ vectors, product)
    wanted = expected.features(wk.Diffusion())
    assert (features.to_scipy() != wanted).nnz == 0
    assert (walks.features(wk.Diffusion()).to_scipy() != wanted).nnz == 0
    assert np.array_equal(walks.deposits.loads, expected.deposits.loads)


def test_a_worker_dies_while_features_are_stored(dask, graph, tmp_path):
    progress, _ = after(2, lambda: end(dask.workers[0]))
    stored = wk.sample_features(
        graph, wk.Diffusion(), N_WALKS, engine=Dask(dask.client), directory=tmp_path / "phi",
        block_size=BLOCK, progress=progress,
    )  # fmt: skip
    assert (stored.to_scipy() != wk.sample_features(graph, wk.Diffusion(), N_WALKS)).nnz == 0


def test_tasks_that_kill_their_workers_are_given_up(dask, graph):
    """Dask blames a task after some deaths, here the first, and says so."""
    tolerate(dask, 0)
    try:
        progress, _ = after(2, lambda: end(dask.workers[0]))
        with pytest.raises(KilledWorker, match="all those workers died"):
            estimate(graph, dask, progress=progress, block_size=50)
    finally:
        tolerate(dask, 3)


def tolerate(dask, failures):
    dask.client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", failures))


def test_a_nanny_restarts_its_worker(dask, graph, vectors, product):
    for worker in dask.workers:
        end(worker)
    dask.start_workers(1, nanny=True)
    K = estimate(graph, dask)
    (pid,) = dask.client.run(os.getpid).values()
    os.kill(pid, signal.SIGKILL)
    assert np.array_equal(K @ vectors, product)
    (other,) = dask.client.run(os.getpid).values()
    assert other != pid
    for worker in dask.workers:
        end(worker)


RUNS = {
    "kernel": lambda graph, _, options: wk.estimate_kernel(graph, wk.Diffusion(), N_WALKS, **options),
    "walks": lambda graph, _, options: wk.sample_walks(graph, N_WALKS, **options),
    "directory": lambda graph, folder, options: wk.sample_features(
        graph, wk.Diffusion(), N_WALKS, directory=folder, block_size=BLOCK, **options
    ),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
@pytest.mark.parametrize("where", RUNS)
def test_a_run_that_is_stopped_leaves_nothing_behind(error, where, dask, graph, tmp_path):
    def stop():
        raise error

    progress, reports = after(2, stop)
    options = {"engine": Dask(dask.client, BLOCK), "progress": progress}
    with pytest.raises(error) as caught:
        RUNS[where](graph, tmp_path / "phi", options)
    assert len(reports) == 2
    wait_until(lambda: all(name.startswith("RemoteGraph") for name in dask.tasks()))  # as in a notebook
    del caught
    dask.settles()
    if where == "directory":
        assert len(list(tmp_path.glob("phi/block-*"))) == 2
        RUNS[where](graph, tmp_path / "phi", options)
        assert reports[2] == 3 * BLOCK


def test_what_is_queued_is_not_done_after_a_stop(dask, graph):
    def stop():
        raise ZeroDivisionError

    progress, _ = after(1, stop)
    with pytest.raises(ZeroDivisionError):
        estimate(graph, dask, progress=progress, block_size=10)
    dask.settles()
    wait_until(lambda: not any(dask.client.processing().values()))


def test_errors_of_workers_are_passed_on(dask, graph, tmp_path):
    graph.save(tmp_path / "graph")
    mapped = wk.load_graph(tmp_path / "graph")
    (tmp_path / "graph").rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError, match="no graph store"):
        estimate(mapped, dask)
    with pytest.raises(FileNotFoundError, match="no graph store"):
        wk.sample_walks(mapped, 4, engine=Dask(dask.client))
    dask.settles()
    wk.Graph.from_edges([(0, 1)]).save(tmp_path / "graph")
    with pytest.raises(ValueError, match="is not the one that was sent"):
        estimate(mapped, dask)
    assert dask.n_workers() == 2


def test_asynchronous_clients_are_refused(dask):
    async def work():
        async with Client(dask.address, asynchronous=True, set_as_default=False) as client:
            Dask(client)

    with pytest.raises(ValueError, match="client must be one that is not asynchronous"):
        asyncio.run(work())


def test_a_cluster_without_workers(dask, graph, monkeypatch):
    """It is waited for one, and not for ever."""
    for worker in dask.workers:
        end(worker)
    wait_until(lambda: dask.n_workers() == 0)
    monkeypatch.setattr("walkernel.engines._cluster.WORKER_TIMEOUT", 0.5)
    for block_size in (None, 100):
        with pytest.raises(TimeoutError, match=r"has had no worker for 0.5 seconds.*`dask worker tcp://"):
            estimate(graph, dask, block_size=block_size)
    monkeypatch.setattr("walkernel.engines._cluster.WORKER_TIMEOUT", PLENTY)
    starter = threading.Timer(0.5, dask.start_workers)
    starter.start()
    assert estimate(graph, dask, block_size=None).left.n_blocks == 4
    starter.join()
    gc.collect()
