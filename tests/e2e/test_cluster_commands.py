"""Features by the command line: in files, in folders that are gone on with, and from a cluster."""

import signal
import subprocess
import time

import numpy as np
import pytest
import scipy.sparse

import walkernel as wk
from clusters import PLENTY, cluster, wait_until
from commands import WALKERNEL, call, environment, run

N_NODES, BLOCK = 1500, 100


@pytest.fixture(scope="module")
def dask(tmp_path_factory):
    with cluster(tmp_path_factory.mktemp("cluster"), 1) as own:
        yield own


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ends = np.random.default_rng(0).integers(0, N_NODES, (3 * N_NODES, 2))
    graph = wk.Graph.from_edges(np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0), n_nodes=N_NODES)
    graph.save(tmp_path / "graph.npz")
    return tmp_path


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """What the command wrote before there were clusters and folders."""
    path = tmp_path_factory.mktemp("karate") / "phi.npz"
    assert call("features", "karate", "--out", path, "--walks", 32, "--seed", 5).exit_code == 0
    return scipy.sparse.load_npz(path)


def assert_same_rows(found, expected):
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.deep
def test_files_and_folders_from_a_cluster(dask, folder, expected):
    command = ("features", "karate", "--walks", 32, "--seed", 5, "--scheduler", dask.address)
    result = call(*command, "--out", "phi.npz")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("phi.npz: 34 nodes")
    assert result.stderr.count("\n") == 1
    assert_same_rows(scipy.sparse.load_npz("phi.npz"), expected)
    result = call(*command, "--out", "phi", "--block-size", 10)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith("phi: 34 nodes")
    stored = wk.open_features("phi")
    assert stored.n_blocks == 4
    assert_same_rows(stored.to_scipy(), expected)
    dask.settles()


def test_folders_without_a_cluster(folder, expected):
    for _ in range(2):  # what is there is opened
        result = call("features", "karate", "--walks", 32, "--seed", 5, "--out", "phi", "--block-size", 10)
        assert (result.exit_code, result.stdout) == (0, "")
        assert_same_rows(wk.open_features("phi").to_scipy(), expected)
    other = call("features", "karate", "--walks", 32, "--seed", 6, "--out", "phi")
    assert other.exit_code == 1
    assert "seed = 6" in other.stderr


@pytest.mark.deep
def test_some_nodes_from_a_cluster(dask, folder):
    (folder / "friends.csv").write_text("Ada,Ben\nBen,Cem\nCem,Ada\n")
    command = ("features", "friends.csv", "--node", "Cem", "Ada")
    assert call(*command, "--out", "there.npz", "--scheduler", dask.address).exit_code == 0
    assert call(*command, "--out", "here.npz").exit_code == 0
    assert_same_rows(scipy.sparse.load_npz("there.npz"), scipy.sparse.load_npz("here.npz"))


def heed_interrupts():
    """Begin as in a terminal, also where these tests run in the background."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.deep
@pytest.mark.parametrize("on_a_cluster", [False, True])
def test_an_interrupt_says_how_to_go_on(on_a_cluster, dask, folder):
    options = ["--walks", "3000", "--out", "phi", "--block-size", str(BLOCK)]
    options += ["--scheduler", dask.address] if on_a_cluster else []
    command = [WALKERNEL, "features", "graph.npz", *options]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "preexec_fn": heed_interrupts}
    with subprocess.Popen(
        command, cwd=folder, env=environment(WALKERNEL_NUM_THREADS="1"), **streams
    ) as process:
        wait_until(lambda: len(list(folder.glob("phi/block-*"))) >= 2)
        process.send_signal(signal.SIGINT)
        assert process.wait(PLENTY) == 130
        said = process.stderr.read().decode()
    assert (
        said == "The finished blocks are kept in phi. Run the same command again to resume.\nInterrupted.\n"
    )
    done = {path: path.stat().st_mtime_ns for path in folder.glob("phi/block-*")}
    assert 2 <= len(done) < N_NODES // BLOCK
    dask.settles()  # a client that is gone leaves nothing behind
    again = run("features", "graph.npz", *options, cwd=folder)
    assert (again.returncode, again.stdout) == (0, ""), again.stderr
    assert done.items() <= {path: path.stat().st_mtime_ns for path in folder.glob("phi/block-*")}.items()
    assert wk.open_features(folder / "phi").shape == (N_NODES, N_NODES)


@pytest.mark.deep
def test_a_scheduler_that_does_not_answer(folder):
    began = time.monotonic()
    result = call("features", "karate", "--out", "phi", "--scheduler", "tcp://127.0.0.1:1")
    assert time.monotonic() - began < 30  # ten where nothing else runs
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: No Dask scheduler was reached at tcp://127.0.0.1:1 (")
    assert result.stderr.count("\n") == 1
    assert not (folder / "phi").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        "--out phi.npz --scheduler nonsense",
        "--out phi.npz --scheduler tcp://127.0.0.1",
        "--out phi.npz --block-size 10",
        "--out phi --block-size 0",
        "--out graph.npz/phi",
        "--out taken",
        "--out .",
        "--out folder.npz",
    ],
)
def test_bad_use(arguments, folder):
    (folder / "taken").write_text("a file")
    (folder / "folder.npz").mkdir()
    before = sorted(folder.rglob("*"))
    result = call("features", "karate", *arguments.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Error" in result.stderr
    assert sorted(folder.rglob("*")) == before
