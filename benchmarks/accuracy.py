"""Error of kernel estimates at an equal number of steps: the paper's walks, each piece alone, the defaults.

    python benchmarks/accuracy.py [--quick] [--out FOLDER] [--workers N]

Errors are ‖K̂ − K‖ / ‖K‖ in the Frobenius norm over the whole matrix, against the exact kernel, as means over
seeds. Steps are those of all streams, groups and factors, and the edges that an exact head touches; they are
read off the operators, which count what they walked. FOLDER gets accuracy.csv, accuracy.txt and accuracy.png.
Graphs from files are skipped where they are not found (WALKERNEL_DATA).
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.linalg
from acceptance import Cell, acceptance, seconds_per_step
from accuracy_figure import save_accuracy_figure
from core import machine, table
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import walkernel as wk

STEPS = (100, 200, 400, 800)
N_NODES = 1000
LARGE = 2000
"""Graphs of more nodes get fewer seeds."""

KERNELS = {
    "diffusion t=1": wk.Diffusion(np.sqrt(2.0)),  # exp(−σ²L/2) is exp(−tL) for σ = √(2t)
    "diffusion t=5": wk.Diffusion(np.sqrt(10.0)),
    "diffusion t=20": wk.Diffusion(np.sqrt(40.0)),
    "reg. Laplacian 1, 1": wk.RegularizedLaplacian(1, 1.0),
    "reg. Laplacian 2, √5": wk.RegularizedLaplacian(2, np.sqrt(5.0)),
}
FILES = ("cora", "minnesota")


class Method(NamedTuple):
    """A way to estimate a kernel with about ``steps`` steps for each node."""

    name: str
    estimate: Callable[[wk.Graph, wk.Kernel, int, int], wk.KernelOperator]
    """(graph, kernel, steps, seed) to an operator."""

    only_weighted: bool = False


def walk(
    graph: wk.Graph, kernel: wk.Kernel, steps: int, seed: int, *, sampler: object, streams: int
) -> wk.KernelOperator:
    """Estimate from independent walks of one stream, debiased, or of two, their number rounded."""
    ensembles = {1: "debiased", 2: "independent"}[streams]
    n_walks = max(2, round(steps / (streams * sampler.mean_steps)))  # type: ignore[attr-defined]
    return wk.estimate_kernel(graph, kernel, n_walks, sampler=sampler, ensembles=ensembles, seed=seed)


def matched(graph: wk.Graph, kernel: wk.Kernel) -> wk.CoupledWalks:
    """Return independent walks of the length law that suits the kernel."""
    law = wk.matched_law(graph, kernel)
    alone = "independent"
    return wk.CoupledWalks(law, lengths=alone, first_step=alone, later_steps=alone)


def factor(kernel: wk.Kernel, stitches: int) -> wk.Kernel:
    """Return K^(1/stitches), the kernel that one of several factors estimates."""
    if isinstance(kernel, wk.Diffusion):
        return wk.Diffusion(kernel.sigma / np.sqrt(stitches))
    assert isinstance(kernel, wk.RegularizedLaplacian)
    return wk.RegularizedLaplacian(kernel.d / stitches, kernel.sigma)


def coupled(graph: wk.Graph, kernel: wk.Kernel, steps: int, seed: int, stitches: int) -> wk.KernelOperator:
    """Estimate from coupled walks without a head, in one factor or several."""
    sampler = wk.CoupledWalks(wk.matched_law(graph, factor(kernel, stitches)), group=4)
    budget = steps * graph.n_nodes
    return wk.estimate_kernel(graph, kernel, sampler=sampler, budget=budget, stitches=stitches, seed=seed)


def default(graph: wk.Graph, kernel: wk.Kernel, steps: int, seed: int, **options: int) -> wk.KernelOperator:
    """Estimate as the library chooses."""
    return wk.estimate_kernel(graph, kernel, budget=steps * graph.n_nodes, seed=seed, **options)


PAPER, UNIFORM = wk.IndependentWalks(0.1), wk.IndependentWalks(0.1, transition="uniform")
METHODS = (
    Method("paper", lambda *q: walk(*q, sampler=PAPER, streams=2)),
    Method("paper, uniform", lambda *q: walk(*q, sampler=UNIFORM, streams=2), only_weighted=True),
    Method("debiased", lambda *q: walk(*q, sampler=PAPER, streams=1)),
    Method("+ matched law", lambda *q: walk(*q, sampler=matched(*q[:2]), streams=1)),
    Method("+ coupled", lambda *q: coupled(*q, stitches=1)),
    Method("stitched 2", lambda *q: coupled(*q, stitches=2)),
    Method("stitched 3", lambda *q: coupled(*q, stitches=3)),
    Method("default features", lambda *q: default(*q, stitches=1)),  # coupled, with a head
    Method("default operator", default),
)


def lognormal(graph: wk.Graph) -> wk.Graph:
    """Return the graph with weights exp(1.5 z), z standard normal."""
    edges = np.argwhere(np.triu(graph.to_scipy().toarray()))
    weights = np.exp(1.5 * np.random.default_rng(0).standard_normal(len(edges)))
    return wk.Graph.from_edges(edges, n_nodes=graph.n_nodes, weights=weights)


def graphs() -> dict[str, wk.Graph]:
    """Return the graphs, those from files only where they are found."""
    random = wk.datasets.erdos_renyi(N_NODES, 10 / (N_NODES - 1)).graph
    found = {
        "Erdős–Rényi": random,
        "grid": wk.datasets.grid(32, 32).graph,
        "Barabási–Albert": wk.datasets.barabasi_albert(N_NODES, 5).graph,
        "lognormal weights": lognormal(random),
    }
    for name in FILES:
        try:
            found[name] = wk.load_dataset(name).graph
        except (OSError, ImportError) as reason:
            print(f"{name} is skipped: {str(reason).partition(':')[0]}.", file=sys.stderr)
    return found


def keep_spectrum(task: tuple[Path, wk.Graph]) -> None:
    """Write the eigenvalues and vectors of the normalised matrix, which all kernels share."""
    path, graph = task
    values, vectors = scipy.linalg.eigh(graph.to_scipy("normalized").toarray())
    np.savez(path, values=values, vectors=vectors)


def exact_from(path: Path, kernel: wk.Kernel) -> NDArray[np.float64]:
    """Return the exact kernel, (n, n), from kept eigenvalues and vectors."""
    with np.load(path) as kept:
        vectors = kept["vectors"]
        return np.asarray((vectors * np.real(kernel.spectrum(kept["values"]))) @ vectors.T)


class Task(NamedTuple):
    """All cells of a graph and a kernel."""

    name: str
    graph: wk.Graph
    kernel: str
    spectrum: Path
    n_seeds: int


def measure(task: Task) -> list[Cell]:
    """Return the cells of a graph and a kernel, for all methods and numbers of steps."""
    exact = exact_from(task.spectrum, KERNELS[task.kernel])
    norm = np.linalg.norm(exact)
    cells = []
    for method in METHODS:
        if method.only_weighted and task.graph.weights is None:
            continue
        for steps in STEPS:
            errors, walked = np.empty(task.n_seeds), np.empty(task.n_seeds)
            for seed in range(task.n_seeds):
                K = method.estimate(task.graph, KERNELS[task.kernel], steps, seed)
                walked[seed] = K.n_steps / task.graph.n_nodes
                errors[seed] = np.linalg.norm(K.to_dense() - exact) / norm
            spread = errors.std(ddof=1) / np.sqrt(task.n_seeds) if task.n_seeds > 1 else np.nan
            about = (task.name, task.kernel, method.name, steps)
            cells.append(Cell(*about, walked.mean(), errors.mean(), spread, task.n_seeds))
    return cells


def alone() -> None:
    """Keep a worker to one thread; samplers without finite variance are what is measured."""
    os.environ["WALKERNEL_NUM_THREADS"] = "1"
    threadpool_limits(1)
    warnings.simplefilter("ignore", wk.InfiniteVarianceWarning)


def all_cells(n_workers: int, n_seeds: tuple[int, int]) -> list[Cell]:
    """Measure everything; large graphs first, with the second number of seeds."""
    found = graphs()
    large = [name for name, graph in found.items() if graph.n_nodes > LARGE]
    order = [*large, *(name for name in found if name not in large)]
    cells: dict[str, list[Cell]] = {name: [] for name in found}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(n_workers, initializer=alone) as pool:
        paths = {name: Path(folder, f"{i}.npz") for i, name in enumerate(found)}
        list(pool.map(keep_spectrum, [(paths[name], found[name]) for name in order]))
        tasks = [
            Task(name, found[name], kernel, paths[name], n_seeds[name in large])
            for name in order
            for kernel in KERNELS
        ]
        begin = time.perf_counter()
        for i, (task, done) in enumerate(zip(tasks, pool.map(measure, tasks), strict=True), 1):
            cells[task.name] += done
            passed = time.perf_counter() - begin
            print(f"{i}/{len(tasks)} {task.name}, {task.kernel} ({passed:.0f} s)", file=sys.stderr)
    return [cell for part in cells.values() for cell in part]


def shown(cell: Cell | None) -> str:
    """Return an error in three digits with its standard error in units of the last one."""
    if cell is None:
        return ""
    if cell.error < 1e-4:
        return f"{cell.error:.1e}"
    digits = max(0, 2 - int(np.floor(np.log10(cell.error))))
    spread = "" if np.isnan(cell.stderr) else f"({cell.stderr * 10**digits:.0f})"
    return f"{cell.error:.{digits}f}{spread}".lstrip("0")


def error_table(cells: Sequence[Cell]) -> str:
    """Return the table of errors: a row for each graph, kernel and number of steps."""
    by_place: dict[tuple[str, str, int], dict[str, Cell]] = {}
    for cell in cells:
        by_place.setdefault((cell.graph, cell.kernel, cell.steps), {})[cell.method] = cell
    names = [method.name for method in METHODS]
    rows = [
        [graph, kernel, str(steps), *(shown(found.get(name)) for name in names)]
        for (graph, kernel, steps), found in sorted(by_place.items(), key=lambda item: _rank(*item[0]))
    ]
    title = "Relative Frobenius error; in brackets its standard error in units of the last digit"
    return table(title, ["graph", "kernel", "steps", *names], rows)


def _rank(graph: str, kernel: str, steps: int) -> tuple[int, int, int]:
    order = ["Erdős–Rényi", "grid", "Barabási–Albert", "lognormal weights", *FILES]
    return order.index(graph), list(KERNELS).index(kernel), steps


def walked_table(cells: Sequence[Cell]) -> str:
    """Return the least and the most steps really walked, relative to those asked for."""
    rows = []
    for method in METHODS:
        row = [method.name]
        for steps in STEPS:
            ratios = [c.walked / steps for c in cells if c.method == method.name and c.steps == steps]
            row.append(f"{min(ratios):.2f}–{max(ratios):.2f}" if ratios else "")
        rows.append(row)
    return table("Steps walked / steps asked for", ["", *map(str, STEPS)], rows)


def write_csv(cells: Sequence[Cell], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(Cell._fields)
        for cell in cells:
            writer.writerow([f"{x:.6g}" if isinstance(x, float) else x for x in cell])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="few seeds")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder to fill")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    cells = all_cells(options.workers, (2, 1) if options.quick else (10, 4))
    write_csv(cells, options.out / "accuracy.csv")
    save_accuracy_figure(cells, options.out / "accuracy.png")
    timed = {name: KERNELS[name] for name in ("diffusion t=1", "diffusion t=5", "diffusion t=20")}
    times = seconds_per_step(timed, 3 if options.quick else 7)
    text = "\n".join([machine(), error_table(cells), walked_table(cells), *acceptance(cells, times)])
    print(text)
    (options.out / "accuracy.txt").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
