"""What ``estimate_kernel(tolerance=)`` achieves: the true error as a ratio to the tolerance.

    python benchmarks/tolerance.py [--quick] [--out FILE]

The true error is ‖K̂ − K‖ / ‖K‖ in the Frobenius norm against ``exact_kernel``. The goals are a mean ratio
between 0.5 and 1.2 in every case and no single run above 1.5. Where the first batch of walks is enough
already, which a row tells by one batch in the mean, less than 0.5 is no fault. ``once`` is the time of
``estimate_kernel`` with the sampler and the number of walks that the tolerance led to: the rest is the search
for them and the estimate of the error.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from core import machine, table

import walkernel as wk
from walkernel import datasets

GRAPHS: dict[str, Callable[[], datasets.Dataset]] = {
    "random, 1000": lambda: datasets.erdos_renyi(1000, 0.01, seed=1),
    "grid, 30 x 30": lambda: datasets.grid(30, 30),
    "power law, 1000": lambda: datasets.barabasi_albert(1000, 4, seed=1),
    "karate": datasets.karate,
}
KERNELS = {
    "diffusion t=1": (wk.Diffusion(np.sqrt(2.0)), (0.003,)),
    "diffusion t=5": (wk.Diffusion(np.sqrt(10.0)), (0.03,)),
    "reg. Laplacian 1, 1": (wk.RegularizedLaplacian(1, 1.0), (0.003,)),
    "inverse cosine (lazy)": (wk.InverseCosine(), (0.003,)),
    "diffusion t=20": (wk.Diffusion(np.sqrt(40.0)), (0.04,)),
}
MEANS, LARGEST = (0.5, 1.2), 1.5


def measure(
    graph: wk.Graph, kernel: wk.Kernel, tolerance: float, n_seeds: int
) -> tuple[list[float], list[float]]:
    """Return achieved/requested of each seed, and means of steps, batches, seconds and seconds at once."""
    exact = wk.exact_kernel(graph, kernel)
    ratios, rest = [], []
    for seed in range(n_seeds):
        done: list[int] = []

        def count(nodes: int, total: int, done: list[int] = done) -> None:
            done.extend([1] if nodes == total else [])

        begin = time.perf_counter()
        K = wk.estimate_kernel(graph, kernel, tolerance=tolerance, seed=seed, progress=count)
        seconds = time.perf_counter() - begin
        begin = time.perf_counter()
        wk.estimate_kernel(
            graph, kernel, K.groups.left.n_walks, sampler=K.groups.left.sampler, pair=K.pair, seed=seed
        )
        once = time.perf_counter() - begin
        ratios.append(float(np.linalg.norm(K.to_dense() - exact) / np.linalg.norm(exact)) / tolerance)
        rest.append([K.n_steps / graph.n_nodes, len(done), seconds, once])
    return ratios, np.mean(rest, axis=0).tolist()


def row(name: str, case: str, tolerance: float, measured: tuple[list[float], list[float]]) -> list[str]:
    ratios, (steps, batches, seconds, once) = measured
    mean, largest = float(np.mean(ratios)), max(ratios)
    met = MEANS[0] <= mean <= MEANS[1] and largest <= LARGEST
    others = "first batch" if batches == 1 and largest <= LARGEST else "MISSED"
    verdict = "met" if met else others
    numbers = [f"{x:.2f}" for x in (mean, min(ratios), largest)]
    times = [f"{steps:.0f}", f"{batches:.1f}", f"{seconds:.2f}", f"{once:.2f}"]
    return [name, case, f"{tolerance:g}", *numbers, verdict, *times]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="three seeds")
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    os.environ["WALKERNEL_NUM_THREADS"] = "1"
    n_seeds, rows = 3 if options.quick else 10, []
    for name, make in GRAPHS.items():
        graph = make().graph
        for case, (kernel, tolerances) in KERNELS.items():
            for tolerance in tolerances:
                rows.append(row(name, case, tolerance, measure(graph, kernel, tolerance, n_seeds)))
                print("  ".join(rows[-1]), flush=True)
    header = ["graph", "kernel", "tolerance", "mean", "min", "max", f"goal {MEANS[0]}-{MEANS[1]}"]
    header += ["steps a node", "batches", "seconds", "once"]
    title = f"Achieved error / tolerance over {n_seeds} seeds; one thread"
    text = "\n".join([machine(), table(title, header, rows)])
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
