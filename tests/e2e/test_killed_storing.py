"""Features in files, written by processes that are killed, stopped, or not alone."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import walkernel as wk
from walkernel.storage import Folder, Kind

pytestmark = pytest.mark.deep

SCRIPT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which what a shell runs in the background ignores
import numpy as np
import walkernel as wk
from walkernel.engines import _stored_features as storing

task, graph, directory = sys.argv[1], wk.load_graph(sys.argv[2]), sys.argv[3]
report = lambda done, total: print(done, total, flush=True)
if task == "stuck":  # in the middle of writing the fourth block
    import itertools, os, time
    calls, fsync, before = itertools.count(), os.fsync, 3 * 6 + (0 if os.path.exists(directory) else 1)
    os.fsync = lambda file: (
        next(calls) == before + 4 and (print("stuck", flush=True), time.sleep(60)), fsync(file)
    )
if task != "kernel":
    wk.sample_features(
        graph, wk.Diffusion(2.0), 200, directory=directory, seed=7, block_size=100, progress=report
    )
else:
    storing.BLOCK_BYTES = 2**17
    wk.estimate_kernel(graph, wk.Diffusion(2.0), 40, seed=7, directory=directory, progress=report)
"""
N_NODES, N_BLOCKS, N_KILLS = 5000, 50, 10
BLOCK = Kind("block", "walkernel block of features 1", "")


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    rng = np.random.default_rng(0)
    edges = np.unique(rng.integers(0, N_NODES, (3 * N_NODES, 2)), axis=0)
    path = tmp_path_factory.mktemp("graph") / "g.npz"
    wk.Graph.from_edges(edges, n_nodes=N_NODES, directed=True).save(path)
    return path


@pytest.fixture(scope="module")
def memory(graph):
    return wk.sample_features(wk.load_graph(graph), wk.Diffusion(2.0), 200, seed=7)


def start(task, graph, folder):
    environment = os.environ | {"WALKERNEL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, task, str(graph), str(folder)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def end(process, number, lines, delay=0.0):
    """Send a signal some time after a process has told of some blocks, and return its status and stderr."""
    for _ in range(lines):
        process.stdout.readline()
    time.sleep(delay)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def finish(task, graph, folder):
    """Run a process to its end, and return the numbers of nodes it tells to be done."""
    process = start(task, graph, folder)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    return [int(line.split()[0]) for line in output.splitlines()]


def whole_blocks(folder):
    """Return inode and time of each block, all of whose arrays must be whole."""
    found = {}
    for path in sorted(folder.rglob("block-*")):
        assert len(Folder(path, BLOCK).verify()) > 5
        found[path] = (path.stat().st_ino, path.stat().st_mtime_ns)
    return found


def unfinished(folder):
    """Return the unfinished files and folders, without what is in unfinished folders."""
    found = folder.rglob(".*.part")
    return [path.name for path in found if not any(one.suffix == ".part" for one in path.parents)]


def equal(found, wanted):
    return all(
        np.array_equal(getattr(found, name), getattr(wanted, name)) for name in ("indptr", "indices", "data")
    )


def test_killed_at_any_moment(graph, memory, tmp_path):
    folder, moments = tmp_path / "phi", random.Random(1)
    before = {}
    for attempt in range(N_KILLS):
        lines = moments.randrange(0, 6) if attempt else 0
        status, _ = end(start("features", graph, folder), signal.SIGKILL, lines, moments.uniform(0, 0.04))
        assert status == -signal.SIGKILL
        after = whole_blocks(folder)
        assert before.items() <= after.items()  # none lost, none made again
        assert len(after) - len(before) >= lines
        assert len(unfinished(folder)) <= 1  # those of earlier ends are gone
        before = after
    assert 0 < len(before) < N_BLOCKS
    with pytest.raises(FileNotFoundError, match=r"missing in .*phi, of 50 blocks"):
        wk.open_features(folder)
    done = finish("features", graph, folder)
    assert done == list(range(100 * (len(before) + 1), N_NODES + 1, 100))
    after = whole_blocks(folder)
    assert before.items() <= after.items()
    assert len(after) == N_BLOCKS
    assert unfinished(folder) == []
    assert equal(wk.open_features(folder).to_scipy(), memory)
    assert finish("features", graph, folder) == []  # only opened
    assert whole_blocks(folder) == after


def test_killed_in_the_middle_of_a_block(graph, memory, tmp_path):
    folder = tmp_path / "phi"
    for n_blocks in (3, 6):
        status, _ = end(start("stuck", graph, folder), signal.SIGKILL, 4)
        assert status == -signal.SIGKILL
        assert len(whole_blocks(folder)) == n_blocks
        (part,) = unfinished(folder)
        assert part.startswith(f".block-{n_blocks:06d}.")
    assert len(finish("features", graph, folder)) == N_BLOCKS - 6
    assert unfinished(folder) == []
    assert equal(wk.open_features(folder).to_scipy(), memory)


def test_a_kernel_of_two_directions(graph, tmp_path):
    folder, moments = tmp_path / "K", random.Random(2)
    before = {}
    for lines in (1, 4, 7):
        status, _ = end(start("kernel", graph, folder), signal.SIGKILL, lines, moments.uniform(0, 0.04))
        assert status == -signal.SIGKILL
        after = whole_blocks(folder)
        assert before.items() <= after.items()
        before = after
    finish("kernel", graph, folder)
    assert before.items() <= whole_blocks(folder).items()
    assert {path.parent.name for path in whole_blocks(folder)} == {"along-edges", "against-edges"}
    loaded, v = wk.load_graph(graph), np.random.default_rng(0).normal(size=(N_NODES, 2))
    files = wk.estimate_kernel(loaded, wk.Diffusion(2.0), 40, seed=7, directory=folder)
    assert np.array_equal(files @ v, wk.estimate_kernel(loaded, wk.Diffusion(2.0), 40, seed=7) @ v)


def test_a_second_process_is_refused(graph, memory, tmp_path):
    folder = tmp_path / "phi"
    first = start("features", graph, folder)
    first.stdout.readline()
    first.send_signal(signal.SIGSTOP)
    try:
        before = whole_blocks(folder)
        second = start("features", graph, folder)
        output, errors = second.communicate(timeout=60)
        with pytest.raises(FileNotFoundError, match="more are missing in"):
            wk.open_features(folder)
        assert whole_blocks(folder) == before
    finally:
        first.send_signal(signal.SIGCONT)
    first.communicate(timeout=60)
    assert first.returncode == 0
    assert second.returncode == 1
    assert output == ""
    message = rf"{re.escape(str(folder))} is being written by process {first.pid} on .*\. Wait until it ends"
    assert re.search(f"BlockingIOError: {message}", errors)
    assert equal(wk.open_features(folder).to_scipy(), memory)


def test_interrupted_from_the_keyboard(graph, memory, tmp_path):
    folder, moments, n_blocks = tmp_path / "phi", random.Random(3), 0
    for lines in (1, 3, 5):
        status, errors = end(start("features", graph, folder), signal.SIGINT, lines, moments.uniform(0, 0.03))
        assert status == -signal.SIGINT, errors
        assert "KeyboardInterrupt" in errors
        assert unfinished(folder) == []
        assert (folder / ".lock").read_text() == ""
        assert n_blocks + lines <= len(whole_blocks(folder)) < N_BLOCKS
        n_blocks = len(whole_blocks(folder))
    assert len(finish("features", graph, folder)) == N_BLOCKS - n_blocks
    assert equal(wk.open_features(folder).to_scipy(), memory)
