"""Learned modulation functions: better than unbiased from every seed, real data, and what a step costs.

    WALKERNEL_DATA=FOLDER python benchmarks/learning.py [better] [traffic] [cost] [--quick] [--out FILE]

better   f learned on a random graph of 20 nodes and used on others (Sec. 3.4, Table 2), from several seeds
traffic  traffic of pages: learned f against the best diffusion kernel of a grid, on the same walks
cost     milliseconds of an epoch and of a step, on one core

The sections of the paper themselves are ``walkernel reproduce learned-f meshes asymmetric``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from core import machine, table
from learning_traffic import present, traffic_rows

import walkernel as wk
from walkernel.datasets import binary_tree, erdos_renyi
from walkernel.torch import (
    HeldOutErrors,
    NeuralModulation,
    Schedule,
    fit_to_kernel,
    fit_to_task,
    held_out_errors,
)

TARGET = wk.RegularizedLaplacian(d=2, sigma=0.8)
DECAY = 0.64 / 1.64
"""c = σ²/(1 + σ²) of the target."""
AMPLITUDE = 1 / 1.64
WALKS = wk.IndependentWalks(0.5)
N_WALKS = 16
PAPER = {  # Table 2: unbiased and learned, squared errors of shared walks
    "ER 20": (0.0488, 0.0437), "ER 100": (0.0503, 0.0448), "tree": (0.0453, 0.0410),
    "karate": (0.0492, 0.0439), "dolphins": (0.0505, 0.0449), "football": (0.0520, 0.0459),
    "eurosis": (0.0551, 0.0484),
}  # fmt: skip


def small_graph() -> wk.Graph:
    """Return the graph that f is learned on."""
    return erdos_renyi(20, 0.2, seed=0).graph


def test_graphs() -> Iterator[tuple[str, wk.Graph]]:
    """Give the graphs that f is used on, those in files where they can be had."""
    yield "ER 20", small_graph()
    yield "ER 100", erdos_renyi(100, 0.04, seed=0).graph
    yield "tree", binary_tree(6).graph
    for name in ("karate", "dolphins", "football", "eurosis"):
        if (found := present(name)) is not None:
            yield name, found.graph


def better(n_seeds: int, n_samples: int) -> Iterator[str]:
    """Compare learned and unbiased f on all graphs, for two kinds of walks."""
    graphs = list(test_graphs())
    for ensembles in ("independent", "shared"):
        fits = [
            fit_to_kernel(small_graph(), TARGET, N_WALKS, ensembles=ensembles, seed=seed)
            for seed in range(n_seeds)
        ]
        rows = []
        for name, graph in graphs:
            n = n_samples if graph.n_nodes < 1000 else max(10, n_samples // 5)
            found = [
                held_out_errors(
                    graph, TARGET, fit.modulation, n_walks=N_WALKS, sampler=WALKS, n_samples=n, seed=seed,
                    ensembles=ensembles,
                )
                for seed, fit in enumerate(fits)
            ]  # fmt: skip
            rows.append(_better_row(name, graph, found, ensembles))
        columns = [
            "graph",
            "nodes",
            "unbiased",
            "learned",
            "ratio",
            "worst ratio",
            "least z",
            "paper's",
            "ratio",
        ]
        yield table(
            f"Squared error of K̂, {ensembles} walks, f from each of {n_seeds} seeds (goals: ≤ .87, z > 5)",
            columns, rows,
        )  # fmt: skip
        f = np.array([fit.modulation.modulation(6) / TARGET.modulation(6) for fit in fits])
        ends = f"{f[:, 2].min():.3f} and {f[:, 2].max():.3f}"
        yield f"f / unbiased f, mean over seeds: {_listed(f.mean(0))}; f(2) between {ends}"


def _better_row(name: str, graph: wk.Graph, found: list[HeldOutErrors], ensembles: str) -> list[str]:
    unbiased, learned = (np.array([getattr(one, k) for one in found]) for k in ("unbiased", "learned"))
    se = np.mean([one.ratio_stderr for one in found]) / np.sqrt(len(found))
    published = PAPER[name] if ensembles == "shared" else ("", "")
    return [
        name, str(graph.n_nodes), f"{unbiased.mean():.4f}", f"{learned.mean():.4f}",
        f"{np.mean([one.ratio for one in found]):.3f} ± {se:.3f}",
        f"{max(one.ratio for one in found):.3f}", f"{min(one.z for one in found):.1f}",
        f"{published[0]} {published[1]}".strip(),
        f"{published[1] / published[0]:.2f}" if ensembles == "shared" else "",
    ]  # fmt: skip


def _listed(values: np.ndarray) -> str:
    return " ".join(f"{value:.3f}" for value in values)


def cost() -> str:
    """Time an epoch of Sec. 3.4 with fresh walks, and a step of Sec. 3.5 on the largest mesh."""
    rows = []
    graph = small_graph()
    start = NeuralModulation(amplitude=AMPLITUDE, decay=DECAY)

    def epochs(n: int, walks: str) -> float:
        begin = time.perf_counter()
        fit_to_kernel(
            graph,
            TARGET,
            N_WALKS,
            modulation=start,
            walks=walks,
            schedule=Schedule(n_epochs=n),
            n_held_out=2,
            n_samples=2,
        )
        return time.perf_counter() - begin

    for walks in ("fresh", "bank", "expected"):
        epochs(10, walks)
        per_epoch = (epochs(400, walks) - epochs(10, walks)) / 390
        rows.append([f"epoch of Sec. 3.4, walks={walks!r}", f"{1e3 * per_epoch:.2f}", "5"])
    data = present("cycloidal")
    if data is not None:
        for walks in ("fresh", "bank"):

            def steps(n: int, walks: str = walks) -> float:
                begin = time.perf_counter()
                fit_to_task(
                    data.graph,
                    np.arange(data.graph.n_nodes),
                    data.normals,
                    walks=walks,
                    n_samples=1,
                    schedule=Schedule(n_epochs=n),
                    patience=10**6,
                    validation=0.01,
                )
                return time.perf_counter() - begin

            steps(1)
            rows.append(
                [
                    f"step of Sec. 3.5 on cycloidal, walks={walks!r}",
                    f"{1e3 * (steps(21) - steps(1)) / 20:.0f}",
                    "1000",
                ]
            )
    return table("Milliseconds on one core", ["what", "ms", "goal"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("parts", nargs="*", default=[])
    parser.add_argument("--quick", action="store_true", help="3 seeds, 20 samples, 3 splits")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    chosen = arguments.parts or ["better", "traffic", "cost"]
    torch.set_num_threads(1)
    lines = [machine() + f", torch {torch.__version__}"]
    parts = {
        "better": lambda: better(3 if arguments.quick else 10, 20 if arguments.quick else 100),
        "traffic": lambda: iter([traffic_rows(3 if arguments.quick else 10)]),
        "cost": lambda: iter([cost()]),
    }
    for name in chosen:
        for text in parts[name]():
            print(text, flush=True)
            lines.append(text)
    if arguments.out is not None:
        arguments.out.write_text("\n\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
