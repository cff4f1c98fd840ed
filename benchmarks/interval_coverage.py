"""How often intervals of single entries cover: graphs of uneven weights x kernels x kinds of walks.

    python benchmarks/interval_coverage.py [--seeds N] [--jobs N] [--out FILE]

Of 50 entries of each of 100 samples, for each cell:

* coverage: share of the entries not marked as rare whose 95 % interval has the exact value, and its 99.9 %
  upper bound; entries of a sample are dependent, so that samples are the units. Goal: a bound of .90 or more.
* upper: share of the marked entries that are below ``upper``. Goal: .97.
* needless: share that is marked of the entries whose error, over all samples, is below 5 %. Goal: at most
  .10.

About half an hour on one core. Goals that are not met are marked with an asterisk.
"""

from __future__ import annotations

import argparse
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import networkx as nx
import numpy as np
from core import machine, table
from scipy.stats import norm

import walkernel as wk

N_ENTRIES = 50
KERNELS = {
    "diffusion t=0.5": wk.Diffusion(0.5**0.5),
    "diffusion t=2": wk.Diffusion(2**0.5),
    "diffusion t=10": wk.Diffusion(10**0.5),
    "reg. Laplacian 2, 1": wk.RegularizedLaplacian(2, 1.0),
    "Matern 1.5, 2": wk.Matern(1.5, 2.0),
    "p-step 5, 2": wk.PStepRandomWalk(5, 2.0),
}
MODES = ("default", "256 walks", "budget")


def weighted(graph: nx.Graph, sd: float, seed: int, *, signed: bool = False) -> wk.Graph:
    """Return a graph with lognormal weights."""
    rng = np.random.default_rng(seed)
    edges = np.array(nx.convert_node_labels_to_integers(graph).edges())
    weights = rng.lognormal(0.0, sd, len(edges)) * (rng.choice([-1.0, 1.0], len(edges)) if signed else 1.0)
    return wk.Graph.from_edges(edges, weights=weights)


def connected(n: int, p: float, seed: int) -> nx.Graph:
    """Return a random graph with a ring."""
    graph = nx.gnp_random_graph(n, p, seed=seed)
    graph.add_edges_from((i, (i + 1) % n) for i in range(n))
    return graph


def weak_tree() -> wk.Graph:
    """Return a tree in which every fifth edge is weak."""
    edges = np.array(nx.random_labeled_tree(40, seed=71).edges())
    return wk.Graph.from_edges(edges, weights=np.where(np.arange(len(edges)) % 5 == 0, 1e-3, 1.0))


def cliques() -> wk.Graph:
    """Return three cliques with bridges of weights 1e-5 and 1e-9."""
    edges = [(8 * c + i, 8 * c + j) for c in range(3) for i in range(8) for j in range(i)]
    return wk.Graph.from_edges([*edges, (7, 8), (15, 16)], weights=[1.0] * len(edges) + [1e-5, 1e-9])


def hubs() -> wk.Graph:
    """Return three hubs in a triangle, with a dozen leaves each."""
    edges = [(0, 1), (1, 2), (2, 0)] + [(h, 3 + 12 * h + leaf) for h in range(3) for leaf in range(12)]
    return wk.Graph.from_edges(edges, weights=np.random.default_rng(72).lognormal(0.0, 1.0, len(edges)))


def one_way() -> wk.Graph:
    """Return a directed random graph with lognormal weights."""
    edges = np.array(nx.gnp_random_graph(40, 0.12, seed=73, directed=True).edges())
    ring = np.stack([np.arange(40), (np.arange(40) + 1) % 40], axis=1)
    edges = np.unique(np.concatenate([edges, ring]), axis=0)
    weights = np.random.default_rng(74).lognormal(0.0, 2.0, len(edges))
    return wk.Graph.from_edges(edges, weights=weights, directed=True)


def unit_norm(graph: wk.Graph) -> wk.Graph:
    """Return a graph with weights such that the norm of its adjacency matrix is 1."""
    A = graph.to_scipy()
    return wk.Graph.from_scipy(A / np.linalg.norm(A.toarray(), 2))


GRAPHS = {
    **{f"random, sd {sd}": weighted(connected(40, 0.08, 61), sd, 62 + sd) for sd in range(4)},
    "preferential, sd 2": weighted(nx.barabasi_albert_graph(50, 2, seed=66), 2, 67),
    "hubs, sd 1": hubs(),
    "grid, sd 3": weighted(nx.grid_2d_graph(6, 7), 3, 68),
    "small world, sd 2": weighted(nx.connected_watts_strogatz_graph(40, 4, 0.2, seed=69), 2, 70),
    "tree, weak 1e-3": weak_tree(),
    "cliques, 1e-5 1e-9": cliques(),
    "signed, sd 2": weighted(connected(40, 0.08, 75), 2, 76, signed=True),
    "directed, sd 2": one_way(),
    "adjacency, sd 2": unit_norm(weighted(connected(40, 0.08, 77), 2, 78)),
    "combinatorial, sd 2": weighted(connected(40, 0.08, 79), 2, 80),
}
MATRICES = {
    "adjacency": [wk.Diffusion(2**0.5, matrix="adjacency"), wk.Matern(1.5, 2.0, matrix="adjacency")],
    "combinatorial": [
        wk.Diffusion(10**0.5, matrix="combinatorial"), wk.Matern(1.5, 1.0, matrix="combinatorial"),
    ],
}  # fmt: skip


def kernels_for(name: str) -> dict[str, wk.Kernel]:
    """Return the kernels of a graph's cells."""
    for matrix, kernels in MATRICES.items():
        if name.startswith(matrix):
            return {f"{type(kernel).__name__.lower()}, {matrix}": kernel for kernel in kernels}
    return KERNELS


def judge(graph: wk.Graph, kernel: wk.Kernel, mode: str, seeds: int) -> list[str]:
    """Return the numbers of one cell."""
    options = {"default": {}, "256 walks": {"n_walks": 256}, "budget": {"budget": 400 * graph.n_nodes}}[mode]
    rows, columns = np.random.default_rng(81).integers(0, graph.n_nodes, (2, N_ENTRIES))
    exact = wk.exact_kernel(graph, kernel)[rows, columns]
    rounding = 1e-11 * np.abs(exact).max()
    samples = []
    for seed in range(82_000, 82_000 + seeds):
        estimate = wk.estimate_kernel(graph, kernel, seed=seed, **options).estimate(rows, columns)
        low, high = estimate.interval()
        covered = (low - rounding <= exact) & (exact <= high + rounding)
        below = exact <= estimate.upper + rounding
        samples.append([covered, estimate.rare, below, np.square(estimate.value - exact)])
    covered, rare, below, squares = np.array(samples).swapaxes(0, 1)
    told = 1 - rare
    coverage = (covered * told).sum() / max(1, told.sum())
    deviations = ((covered - coverage) * told).sum(axis=1)
    bound = coverage + norm.isf(1e-3) * np.sqrt(np.square(deviations).sum()) / max(1, told.sum())
    upper = below[rare == 1].mean() if rare.any() else 1.0
    sure = np.sqrt(squares.mean(axis=0)) < 0.05 * np.abs(exact)
    needless = rare[:, sure].mean() if sure.any() else 0.0
    return [
        f"{coverage:.3f}", f"{min(bound, 1):.3f}{' ' if bound >= 0.9 or not told.any() else '*'}",
        f"{rare.mean():.2f}", f"{upper:.3f}{' ' if upper >= 0.97 else '*'}",
        f"{sure.mean():.2f}", f"{needless:.2f}{' ' if needless <= 0.1 else '*'}",
    ]  # fmt: skip


def cells_of(name: str, seeds: int) -> list[list[str]]:
    """Return the rows of one graph."""
    os.environ["WALKERNEL_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    rows = []
    for label, kernel in kernels_for(name).items():
        for mode in MODES[: 1 if label.startswith("p-step") else 3]:
            rows.append([name, label, mode, *judge(GRAPHS[name], kernel, mode, seeds)])
            print(*rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=100, help="samples of each cell")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = [row for part in pool.map(cells_of, GRAPHS, repeat(options.seeds)) for row in part]
    header = ["graph", "kernel", "walks", "coverage", "bound", "marked", "upper", "error < 5 %", "needless"]
    goals = "goals: bound at least .90, upper .97, needless at most .10"
    title = f"95 % intervals of {N_ENTRIES} entries of {options.seeds} samples ({goals})"
    missed = sum("*" in "".join(row) for row in rows)
    text = "\n".join(
        [machine(), table(title, header, rows), f"{len(rows)} cells; goals missed in {missed}\n"]
    )
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
