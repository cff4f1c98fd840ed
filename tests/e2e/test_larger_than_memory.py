"""Graphs that are larger than the memory a process may have: walked on where they are mapped, not loaded."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import walkernel as wk
from walkernel.graph import Arrays

pytestmark = [
    pytest.mark.deep,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's RLIMIT_DATA"),
]

ROWS_AT_ONCE = 2**13
SCRIPT = """
import resource, sys
from pathlib import Path

import numpy as np
import walkernel as wk
from walkernel.graph import Arrays

task, small, large, allowed = *sys.argv[1:4], int(sys.argv[4])


def results(graph):
    nodes = np.arange(0, graph.n_nodes, max(1, graph.n_nodes // 3000))[:3000]
    walks = wk.sample_walks(graph, 8, nodes=nodes, seed=1)
    features = wk.sample_features(graph, wk.Diffusion(1.0), 8, nodes=nodes, seed=1)
    pair = "lazy" if graph.directed else "auto"
    K = wk.estimate_kernel(graph, wk.Diffusion(1.0), nodes=nodes[:500], pair=pair, seed=1)
    return float(walks.deposits.loads.sum()), float(features.sum()), float(K.diagonal().sum())


results(wk.load_graph(small))  # what is compiled and imported is not what is measured
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
limit = int(status["VmData"].split()[0]) * 1024 + allowed
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
graph = wk.load_graph(large)
if task == "load":
    parts = (graph.indptr, graph.indices, graph.weights)
    graph = wk.Graph(Arrays(*(None if part is None else np.array(part) for part in parts)), graph.directed)
print(*map(float.hex, results(graph)))
"""


def circulant(folder, n_nodes, reach, *, weighted=False, directed=False):
    """Return a graph whose nodes are joined to all within a distance on a ring, in files, made in chunks."""
    n_before = 0 if directed else reach
    offsets = np.concatenate([np.arange(-n_before, 0), np.arange(1, reach + 1)]).astype(np.int32)
    size = n_nodes * offsets.size
    indices = np.lib.format.open_memmap(folder / "i.npy", mode="w+", dtype=np.int32, shape=(size,))
    weights = None
    if weighted:
        weights = np.lib.format.open_memmap(folder / "w.npy", mode="w+", dtype=np.float64, shape=(size,))
    for first in range(0, n_nodes, ROWS_AT_ONCE):
        rows = np.arange(first, min(first + ROWS_AT_ONCE, n_nodes), dtype=np.int32)[:, None]
        columns = rows + offsets
        if first < reach or rows[-1, 0] >= n_nodes - reach:
            columns = np.sort(columns % n_nodes, axis=1)
        part = slice(first * offsets.size, first * offsets.size + columns.size)
        indices[part] = columns.ravel()
        if weights is not None:
            weights[part] = 1.0 + ((rows + columns) % 4).ravel()
    indptr = np.arange(0, size + 1, offsets.size, dtype=np.int64)
    values = None if weights is None else np.asarray(weights)
    return wk.Graph(Arrays(indptr, np.asarray(indices), values), directed)


def run(task, small, large, allowed):
    environment = os.environ | {"WALKERNEL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", SCRIPT, task, str(small), str(large), str(allowed)]
    return subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def room(tmp_path):
    """A folder for up to 3 GiB that are not kept when the test is over."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize(
    ("kind", "n_nodes", "reach", "allowed"),
    [({}, 400_000, 360, 2**28), ({"weighted": True}, 200_000, 80, 2**27),
     ({"weighted": True, "directed": True}, 200_000, 160, 3 * 2**26)],
    ids=["unweighted", "weighted", "directed"],
)  # fmt: skip
def test_walks_and_queries_in_little_memory(room, kind, n_nodes, reach, allowed):
    (room / "drafts").mkdir()
    circulant(room / "drafts", 1000, 5, **kind).save(room / "small")
    graph = circulant(room / "drafts", n_nodes, reach, **kind)
    graph.save(room / "large")
    for draft in (room / "drafts").iterdir():
        draft.unlink()
    assert sum(file.stat().st_size for file in (room / "large").iterdir()) > 1.5 * allowed
    mapped = run("map", room / "small", room / "large", allowed)
    assert mapped.returncode == 0, mapped.stderr
    loads, features, diagonal = map(float.fromhex, mapped.stdout.split())
    assert loads > 3000 * 8
    assert abs(features / 3000 - 1) < 1e-3  # (nearly) regular: Φ's rows sum to Σ f = 1
    assert abs(diagonal / 500 - np.exp(-0.5)) < 1e-3  # hardly a walk comes back: K_ii = α₀ + O(1 / degree)
    loaded = run("load", room / "small", room / "large", allowed)
    assert loaded.returncode == 1
    assert "MemoryError" in loaded.stderr
