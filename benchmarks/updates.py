"""Walks on a graph that changes: the share of walks that an update walks again, and its time.

    python benchmarks/updates.py [--out FILE]

The baseline is ``sample_walks`` on the new graph, in the same run. Both get a graph object of their own each
time, so both make the walk table of the new graph, whose time is listed too. Half of the changed edges are
new and half are gone. Times are the least of several runs in turn; the load of the machine while they were
taken is printed, for a busy one inflates them.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from core import machine, random_graph, table

import walkernel as wk
from walkernel.graph._assembly import Arrays
from walkernel.walks import walk_table

N_NODES, N_WALKS = 10**5, 16
KINDS = ("unweighted", "weighted")


def another(graph: wk.Graph) -> wk.Graph:
    """Return the same graph with nothing derived from it yet."""
    return wk.Graph(Arrays(graph.indptr, graph.indices, graph.weights), graph.directed)


def changed(graph: wk.Graph, n_edges: int) -> wk.Graph:
    """Return the graph with so many edges changed: half are cut, the others inserted."""
    rng = np.random.default_rng(n_edges)
    rows = graph.row_indices()
    upper = np.flatnonzero(rows <= graph.indices)
    cut = rng.choice(upper, n_edges // 2, replace=False)
    kept = np.setdiff1d(upper, cut)
    new = rng.integers(0, graph.n_nodes, (n_edges - cut.size, 2))
    edges = np.concatenate([np.stack([rows[kept], graph.indices[kept]], axis=1), new])
    weights = None if graph.weights is None else np.append(graph.weights[kept], rng.random(len(new)) + 0.1)
    return wk.Graph.from_edges(edges, n_nodes=graph.n_nodes, weights=weights)


def milliseconds(run: Callable[[wk.Graph], object], graph: wk.Graph) -> float:
    """Return the time of a run on a graph of its own."""
    own = another(graph)
    begin = time.perf_counter()
    run(own)
    return 1e3 * (time.perf_counter() - begin)


def update_row(graph: wk.Graph, n_edges: int, n_threads: int, repeats: int) -> list[str]:
    """Update walks from the graph to the changed one and back; the way there is counted and timed."""
    new = changed(graph, n_edges)
    walks = wk.sample_walks(graph, N_WALKS, engine=wk.engines.CPU(n_threads))
    runs: dict[str, Callable[[wk.Graph], object]] = {
        "full": lambda g: wk.sample_walks(g, N_WALKS, engine=wk.engines.CPU(n_threads)),
        "update": walks.update,
        "table": lambda g: walk_table(g, "normalized", "weights", False),
    }
    best = dict.fromkeys(runs, np.inf)
    for _ in range(repeats):
        for name, run in runs.items():
            best[name] = min(best[name], milliseconds(run, new))
        share = walks.n_rewalked / (N_NODES * N_WALKS)
        walks.update(graph)
    kind = "unweighted" if graph.weights is None else "weighted"
    full, update, made = best.values()
    times = f"{full:.0f} ms", f"{update:.1f} ms", f"{made:.1f} ms", f"{update / full:.3f}"
    return [kind, str(n_edges), str(n_threads), f"{100 * share:.2f} %", *times]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    rows = []
    for kind in KINDS:
        graph = random_graph(N_NODES, weighted=kind == "weighted")
        for n_edges in (1, 10, 100, 1000):
            rows += [update_row(graph, n_edges, n_threads, options.repeats) for n_threads in (1, 2)]
    title = (
        f"Walks.update against sample_walks: {N_NODES} nodes, 10 edges a node, {N_WALKS} walks, p_halt 0.1"
    )
    header = ["graph", "changed edges", "threads", "walked again", "sample_walks", "update", "table", "ratio"]
    load = f"load average of the last 5 minutes: {os.getloadavg()[1]:.1f}\n"
    text = f"{machine()}{load}\n{table(title, header, rows)}"
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
