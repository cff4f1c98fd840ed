"""Read an edge list of 10⁷ edges: seconds and peak memory of a fresh process (goals: 20 s, 3 GiB)."""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

BLOCK = 10**6


def write(path, n_edges, n_nodes):
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        file.write(b"source,target\n")
        for first in range(0, n_edges, BLOCK):
            ends = rng.integers(0, n_nodes, (min(BLOCK, n_edges - first), 2)).astype("S10")
            lines = np.char.add(np.char.add(ends[:, 0], b","), np.char.add(ends[:, 1], b"\n"))
            file.write(b"".join(lines.tolist()))


def read(path):
    from walkernel import load_graph

    before = time.perf_counter()
    graph = load_graph(path)
    seconds = time.perf_counter() - before
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{'edges':>12} {'nodes':>12} {'seconds':>8} {'peak GiB':>9}")
    print(f"{graph.n_edges:>12,} {graph.n_nodes:>12,} {seconds:>8.2f} {peak:>9.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=int, default=10**7)
    parser.add_argument("--nodes", type=int, default=10**6)
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read(options.read)
    else:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "edges.csv")
            write(target, options.edges, options.nodes)
            subprocess.run([sys.executable, __file__, "--read", str(target)], check=True)
