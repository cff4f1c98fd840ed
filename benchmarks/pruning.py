"""Error of default features beside that of whole heads, at equal steps: of kernels, and of single rows.

    WALKERNEL_DATA=FOLDER python benchmarks/pruning.py [--quick] [--out FOLDER]

Both estimate the same kernel with one factor. "Whole" is what the defaults were before heads were pruned:
every node has the same number of walks, and an exact head of r hops that takes at most half of the steps.
Errors are ‖K̂ − K‖ / ‖K‖ in the Frobenius norm, by products with 64 columns of normal numbers (the same for
both), as root mean squares over seeds; the truth is a polynomial to ten digits. Gains are quotients of errors
times the root of the quotient of steps. Rows are sorted by degree and cut into tenths: the gain of the tenth
that gains least says what equal accuracy of all rows has paid.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from accuracy import graphs as small_graphs
from core import machine, table
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import walkernel as wk

STEPS = (100, 200, 400, 800)
TIMES = (1, 5, 20)
SOCIAL = ("lastfm_asia", "facebook_pages", "soc_epinions")
COLUMNS, TENTHS = 64, 10
FLOOR = 1e-9
"""Smaller errors count as this."""
UNEVEN = ("Barabási–Albert", "lognormal weights", "power law", "cora", *SOCIAL)


class Cell(NamedTuple):
    """What came out for one graph, time and number of steps."""

    graph: str
    time: int
    steps: int
    whole: float
    default: float
    whole_steps: float
    default_steps: float
    gain: float
    least_row_gain: float
    low_degree_gain: float
    """Of the tenth of the rows with the least degrees."""
    sampler: str


def power_law(n_nodes: int = 2000, exponent: float = 2.2) -> wk.Graph:
    """Return a graph of power-law degrees from 2 to 300, wired at random."""
    rng = np.random.default_rng(1)
    degrees = np.minimum(2 * (1 - rng.random(n_nodes)) ** (-1 / (exponent - 1)), 300).astype(int)
    ends = rng.permutation(np.repeat(np.arange(n_nodes), degrees))
    pairs = np.sort(ends[: ends.size // 2 * 2].reshape(-1, 2), axis=1)
    return wk.Graph.from_edges(np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0), n_nodes=n_nodes)


def graphs(quick: bool) -> dict[str, wk.Graph]:
    """Return the graphs, those from files only where they are found."""
    found = {**small_graphs(), "power law": power_law()}
    for name in () if quick else SOCIAL:
        try:
            found[name] = wk.load_dataset(name).graph
        except (OSError, ImportError) as reason:
            print(f"{name} is skipped: {str(reason).partition(':')[0]}.", file=sys.stderr)
    return found


def squares(
    graph: wk.Graph,
    kernel: wk.Kernel,
    steps: int,
    seeds: range,
    probes: NDArray[np.float64],
    truth: NDArray[np.float64],
) -> tuple[NDArray[np.float64], float, str]:
    """Return the mean squared error of each row, the steps of a node, and the sampler."""
    total, walked, name = np.zeros(graph.n_nodes), 0.0, ""
    for seed in seeds:
        K = wk.estimate_kernel(graph, kernel, budget=steps * graph.n_nodes, stitches=1, seed=seed)
        total += np.square(K @ probes - truth).mean(axis=1) / len(seeds)
        walked += K.n_steps / graph.n_nodes / len(seeds)
        name = str(K.groups.left.sampler) if hasattr(K, "groups") else "exact"
    return total, walked, name


def whole_heads() -> Callable[[], None]:
    """Make heads whole, of at most half of the steps, until what is returned is called."""
    patches = [patch(f"walkernel.planning.{module}.HEAD_SHARE", 0.5) for module in ("_allocation", "_plan")]
    patches.append(patch("walkernel.planning._plan.prune", lambda *arguments: arguments[6]))
    for each in patches:
        each.start()
    return lambda: [each.stop() for each in patches] and None


def measure(task: tuple[str, wk.Graph, int]) -> list[Cell]:
    """Measure all numbers of steps on one graph for one time."""
    name, graph, time = task
    kernel = wk.Diffusion(np.sqrt(2.0 * time))
    probes = np.random.default_rng(7).standard_normal((graph.n_nodes, COLUMNS))
    with threadpool_limits(1):
        truth = wk.polynomial_operator(graph, kernel) @ probes
        size = np.sqrt(np.square(truth).mean(axis=1).sum())
        by_degree = np.array_split(np.argsort(graph.out_degrees(), kind="stable"), TENTHS)
        seeds, cells = range(4 if graph.n_nodes < 5000 else 1), []
        for steps in STEPS:
            default, walked, sampler = squares(graph, kernel, steps, seeds, probes, truth)
            end = whole_heads()
            whole, steps_of_whole, _ = squares(graph, kernel, steps, seeds, probes, truth)
            end()
            ratio = np.sqrt(steps_of_whole / walked)
            whole, default = (
                np.maximum(own, (FLOOR * size) ** 2 / graph.n_nodes) for own in (whole, default)
            )
            rows = [ratio * np.sqrt(whole[part].sum() / default[part].sum()) for part in by_degree]
            errors = [float(np.sqrt(own.sum()) / size) for own in (whole, default)]
            gain = float(ratio * errors[0] / errors[1])
            cells.append(
                Cell(name, time, steps, *errors, steps_of_whole, walked, gain, min(rows), rows[0], sampler)
            )
    return cells


def main() -> None:
    """Measure, print, and write tables if there is a folder for them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="leave the social graphs out")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    tasks = [(name, graph, time) for name, graph in graphs(options.quick).items() for time in TIMES]
    cells: list[Cell] = []
    with ProcessPoolExecutor(options.workers) as pool:
        for found in pool.map(measure, tasks):
            cells += found
            print(*(f"{c.graph} t={c.time} {c.steps}: {c.gain:.2f}" for c in found), sep="; ", flush=True)
    rows = [
        [c.graph, str(c.time), str(c.steps), f"{c.whole:.2e}", f"{c.default:.2e}", f"{c.gain:.2f}",
         f"{c.least_row_gain:.2f}", f"{c.low_degree_gain:.2f}",
         f"{c.whole_steps:.0f}", f"{c.default_steps:.0f}"]
        for c in cells
    ]  # fmt: skip
    header = [
        "graph",
        "t",
        "steps",
        "whole",
        "default",
        "gain",
        "least of rows",
        "low degrees",
        "steps",
        "steps",
    ]
    means = []
    for name in dict.fromkeys(c.graph for c in cells):
        own = [[c.gain for c in cells if (c.graph, c.time) == (name, time)] for time in TIMES]
        means.append(
            [name, *(f"{np.exp(np.log(gains).mean()):.2f}" for gains in own), f"{min(map(min, own)):.2f}"]
        )
    uneven = [np.log(c.gain) for c in cells if c.graph in UNEVEN and c.time in (1, 5)]
    text = machine() + "\n" + table("Error of default features and of whole heads", header, rows)
    title = "Gain, geometric mean over steps, for t = 1, 5, 20; and the least of all"
    text += "\n" + table(title, ["graph", "t=1", "t=5", "t=20", "least"], means)
    text += f"\nOn graphs of uneven degrees or weights, t = 1 and 5: {np.exp(np.mean(uneven)):.2f}\n"
    print(text)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "pruning.txt").write_text(text)
        with open(options.out / "pruning.csv", "w", newline="") as file:
            csv.writer(file).writerows([Cell._fields, *cells])


if __name__ == "__main__":
    main()
