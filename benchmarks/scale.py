"""Past one machine's memory: a cluster against one thread, files against memory, and a model of the costs.

    python benchmarks/scale.py [cluster] [disk] [model] [--quick] [--out FILE]

cluster   the same kernel from one thread of one process and from two Dask workers of one thread each, real
          processes over TCP; bits compared.
disk      a graph of 10⁸ edges: time to open its store, and to answer a query of 100 nodes; features in files.
model     what steps, bytes and products cost at three sizes; constants fitted to them; the prediction for a
          fourth size, which the fit has not seen, against its measurement; and what that means for 10⁹ nodes.
          All sizes are beyond the caches, where costs grow slowly.

Times are the least of several runs. Random graphs have 10 edges a node.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from core import machine, random_graph, table

import walkernel as wk
from walkernel.features._products import leaves
from walkernel.graph._assembly import Arrays
from walkernel.walks._sums import add_transposed

N_WALKS, SAMPLER, KERNEL = 16, wk.IndependentWalks(0.1), wk.Diffusion(1.0)
MOST_OFF = 0.2


def seconds(run: Callable[[], Any], repeats: int = 1) -> tuple[float, Any]:
    """Return the least time of a run, and its result; that of the run before is freed, elsewhere too."""
    best, result = np.inf, None
    for number in range(repeats):
        result = None
        time.sleep(0.5 * (number > 0))
        begin = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - begin)
    return best, result


# cluster ------------------------------------------------------------------------------------------


@contextmanager
def dask_workers(count: int, folder: Path) -> Iterator[Any]:
    """Start a scheduler and workers of one thread each by their command line, and connect."""
    from distributed import Client

    file = folder / "scheduler.json"
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    module = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
    processes = [
        subprocess.Popen([*module, *common, "--host", "tcp://127.0.0.1:0"], stderr=subprocess.DEVNULL)
    ]
    module = [sys.executable, "-m", "distributed.cli.dask_worker"]
    options = ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder), "--memory-limit", "0"]
    processes += [
        subprocess.Popen([*module, *common, *options], stderr=subprocess.DEVNULL) for _ in range(count)
    ]
    try:
        while not file.exists():
            time.sleep(0.1)
        with Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(count)
            yield client
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def cluster(quick: bool) -> str:
    n = 100_000 if quick else 1_000_000
    graph = random_graph(n)
    v = np.random.default_rng(0).standard_normal(n)
    walked = {"sampler": SAMPLER, "ensembles": "shared"}
    wk.sample_features(graph, KERNEL, N_WALKS, nodes=range(100), sampler=SAMPLER)
    alone, K = seconds(
        lambda: wk.estimate_kernel(graph, KERNEL, N_WALKS, engine=wk.engines.CPU(1), **walked), 5
    )
    product = K @ v
    rows = [["one thread", f"{alone:.2f}", "", "1.00", f"{seconds(lambda: K @ v, 3)[0]:.2f}", ""]]
    for count in (1, 2):
        with tempfile.TemporaryDirectory() as name, dask_workers(count, Path(name)) as client:

            def estimate(client: Any = client) -> Any:
                return wk.estimate_kernel(graph, KERNEL, N_WALKS, engine=wk.engines.Dask(client), **walked)

            first, kept = seconds(
                partial(wk.estimate_kernel, graph, KERNEL, 1, engine=wk.engines.Dask(client))
            )
            taken, on_workers = seconds(estimate, 5)
            multiplied, other = seconds(partial(on_workers.__matmul__, v), 3)
            same = "same bits" if np.array_equal(other, product) else "OTHER BITS"
            speed = f"{alone / taken:.2f}"
            label = f"{count} worker{'s' * (count > 1)}"
            rows.append([label, f"{taken:.2f}", f"{first:.2f}", speed, f"{multiplied:.2f}", same])
            del kept, on_workers
    title = f"Dask: {n} nodes, {N_WALKS} walks, p_halt 0.1; features stay on the workers"
    header = ["", "walks, s", "graph sent, one walk, s", "speed-up", "K @ v, s", ""]
    return table(title, header, rows)


# disk ---------------------------------------------------------------------------------------------


def disk(quick: bool) -> str:
    n = 100_000 if quick else 1_000_000
    degree = 20 if quick else 100
    folder = Path(tempfile.mkdtemp(prefix="walkernel-scale-"))
    try:
        graph = random_graph(n, degree=degree)
        rows = [["edges", f"{graph.n_edges:.3g}"]]
        written, _ = seconds(lambda: graph.save(folder / "graph"))
        size = sum(file.stat().st_size for file in (folder / "graph").iterdir())
        rows += [["graph written", f"{written:.1f} s, {size / 2**30:.2f} GiB"]]
        opened, stored = seconds(lambda: wk.load_graph(folder / "graph"), 5)
        rows += [["opened", f"{1e3 * opened:.2f} ms"]]
        some = np.arange(0, n, n // 100)
        query: Callable[[], Any] = lambda: wk.estimate_kernel(stored, KERNEL, 64, nodes=some)  # noqa: E731
        rows += [["first query of 100 nodes", f"{seconds(query)[0]:.2f} s"]]
        rows += [["the same again", f"{1e3 * seconds(query, 3)[0]:.1f} ms"]]
        nodes = range(n // 4)
        options = {"sampler": SAMPLER, "nodes": nodes}
        memory, phi = seconds(lambda: wk.sample_features(graph, KERNEL, N_WALKS, **options))
        kept, files = seconds(
            lambda: wk.sample_features(graph, KERNEL, N_WALKS, directory=folder / "phi", **options)
        )
        rows += [["features in memory", f"{memory:.2f} s, {12 * phi.nnz / 2**30:.2f} GiB"]]
        rows += [["features in files", f"{kept:.2f} s, {files.n_blocks} blocks"]]
        again, files = seconds(
            lambda: wk.sample_features(graph, KERNEL, N_WALKS, directory=folder / "phi", **options)
        )
        rows += [["the same call again", f"{again:.3f} s"]]
        X = np.ones((n, 1))
        rows += [["Φ x in memory", f"{seconds(lambda: phi @ X, 3)[0]:.3f} s"]]
        rows += [["Φ x in files, with checks", f"{seconds(lambda: files.multiply(X))[0]:.3f} s"]]
        rows += [["Φ x in files, again", f"{seconds(lambda: files.multiply(X), 3)[0]:.3f} s"]]
    finally:
        shutil.rmtree(folder)
    return table("Graphs and features in files", ["", ""], rows)


# model --------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """What one size took, on one thread."""

    n: int
    steps: int
    walk_seconds: float
    entries: int
    product_seconds: float
    """Φᵀ v, and Φ times that."""
    add_seconds: float
    """The sum of two vectors of N numbers."""
    store_seconds: float


def entries_at_random(n: int) -> wk.Graph:
    """Return 20 random entries for each node: what walks cost does not depend on their symmetry."""
    rng = np.random.default_rng(n)
    indices = rng.integers(0, n, 20 * n, dtype=np.int32)
    return wk.Graph(Arrays(20 * np.arange(n + 1, dtype=np.int64), indices, None), False)


def measure(n: int, n_starts: int, repeats: int) -> Run:
    """Sample features of some nodes, spread evenly, multiply with them, and write them to files."""
    graph = entries_at_random(n)
    options: dict[str, Any] = {"sampler": SAMPLER, "n_threads": 1}
    starts = np.arange(n_starts) * (n // n_starts)
    wk.sample_features(graph, KERNEL, N_WALKS, nodes=starts[:10], **options)
    taken, phi = seconds(lambda: wk.sample_features(graph, KERNEL, N_WALKS, nodes=starts, **options), repeats)
    steps = wk.sample_walks(graph, N_WALKS, nodes=starts, **options).n_steps
    v, total, other = np.ones((n_starts, 1)), np.zeros((n, 1)), np.ones((n, 1))
    gathered, _ = seconds(
        lambda: add_transposed(0, n_starts, phi.indptr, phi.indices, phi.data, 1, v.ravel(), total.ravel()),
        repeats + 1,
    )
    spread, _ = seconds(lambda: phi @ total, repeats)
    added, _ = seconds(lambda: np.add(total, other, out=total), repeats + 1)
    folder = Path(tempfile.mkdtemp(prefix="walkernel-scale-"))
    _ = graph.fingerprint  # a pass over the graph, which is made once
    try:
        both, _ = seconds(
            lambda: wk.sample_features(
                graph, KERNEL, N_WALKS, directory=folder / "phi", nodes=starts, **options
            )
        )
    finally:
        shutil.rmtree(folder)
    return Run(n, steps, taken, int(phi.nnz), gathered + spread, added, max(0.0, both - taken))


class Model(NamedTuple):
    """Beyond the caches a step takes the same at all sizes, an entry of a product a + b·log₂ N."""

    step: float
    product: tuple[float, float]
    added: float
    """Seconds to add a number of one vector to another."""
    entries: float
    """Entries of Φ for each step."""
    stored: float
    """Seconds to write an entry."""

    @classmethod
    def fitted(cls, runs: list[Run]) -> Model:
        """Fit the constants to measured runs."""
        logs = np.log2([run.n for run in runs])

        def line(values: list[float]) -> tuple[float, float]:
            slope, constant = np.polyfit(logs, values, 1)
            return float(constant), float(slope)

        return cls(
            float(np.mean([run.walk_seconds / run.steps for run in runs])),
            line([run.product_seconds / run.entries for run in runs]),
            float(np.mean([run.add_seconds / run.n for run in runs])),
            float(np.mean([run.entries / run.steps for run in runs])),
            float(np.mean([run.store_seconds / run.entries for run in runs])),
        )

    def costs(self, n: float, n_starts: float) -> dict[str, float]:
        """Return what features of some nodes, and products with them, take on one thread."""
        steps = n_starts * N_WALKS * SAMPLER.mean_steps
        entries = steps * self.entries
        product = self.product[0] + self.product[1] * np.log2(n)
        return {
            "steps": steps,
            "walks and features, s": steps * self.step,
            "features, GiB": 12 * entries / 2**30,
            "products, s": entries * product,
            "sum of two vectors, s": self.added * n,
        }


def model(quick: bool) -> str:
    sizes, unseen = ((1, 2, 4), 8) if quick else ((4, 8, 16), 48)
    n_starts = 50_000 if quick else 500_000
    runs = []
    for millions in (*sizes, unseen):
        runs.append(measure(millions * 10**6, n_starts, 3))
        print(f"  {runs[-1]}", file=sys.stderr)
    *known, last = runs
    fitted = Model.fitted(known)
    predicted = fitted.costs(last.n, n_starts)
    found = (last.steps, last.walk_seconds, 12 * last.entries / 2**30, last.product_seconds, last.add_seconds)
    rows, worst = [], 0.0
    for (name, here), there in zip(predicted.items(), found, strict=True):
        off = here / there - 1
        worst = max(worst, abs(off))
        rows.append([name, f"{here:.4g}", f"{there:.4g}", f"{100 * off:+.1f} %"])
    verdict = "within" if worst <= MOST_OFF else "NOT within"
    measured = [
        [f"{run.n / 1e6:.0f}e6", f"{1e9 * run.walk_seconds / run.steps:.1f}",
         f"{run.entries / run.steps:.3f}", f"{1e9 * run.product_seconds / run.entries:.2f}",
         f"{1e9 * run.add_seconds / run.n:.2f}", f"{1e9 * run.store_seconds / run.entries:.1f}"]
        for run in runs
    ]  # fmt: skip
    header = ["nodes", "ns a step", "entries a step", "ns an entry, products", "ns a number, sums",
              "ns an entry, to files"]  # fmt: skip
    seen = ", ".join(map(str, sizes))
    title = f"Prediction for {unseen} million nodes from {seen} million: {verdict} {100 * MOST_OFF:.0f} %"
    a, b = fitted.product
    constants = f"ns a step  {1e9 * fitted.step:.3g};   ns an entry  {1e9 * a:.3g} + {1e9 * b:.3g} log2 N\n"
    about = f"Costs on one thread: 20 random entries a node, {N_WALKS} walks from {n_starts} nodes"
    return (
        table(about, header, measured)
        + "\n" + constants + "\n"
        + table(title, ["", "predicted", "measured", "off"], rows)
        + "\n" + table(*far_away(fitted))
    )  # fmt: skip


def far_away(fitted: Model) -> tuple[str, list[str], list[list[str]]]:
    """Return what 10⁹ nodes and 10¹¹ edges take on machines of 32 cores and 25 Gbit/s."""
    n, edges, cores, network = 10**9, 1e11, 32, 25e9 / 8
    costs, n_leaves = fitted.costs(n, n), leaves(n).size - 1
    entries = costs["steps"] * fitted.entries
    graph_bytes = 4 * 2 * edges + 8 * n
    rows = []
    for machines in (1, 10, 100):
        busy = machines * cores
        summed = costs["products, s"] / busy + n_leaves * costs["sum of two vectors, s"] / machines
        moved = 0 if machines == 1 else 8 * n * (min(n_leaves, machines) + machines) / machines
        rows.append(
            [
                str(machines),
                f"{costs['steps']:.2g}",
                f"{costs['walks and features, s'] / busy:.3g}",
                f"{graph_bytes / 2**40:.2g}",
                f"{12 * entries / machines / 2**40:.2g}",
                f"{graph_bytes / network / 60:.2g}",
                f"{summed:.3g} + {moved / network:.3g}",
                f"{entries * fitted.stored / machines / 60:.2g}",
            ]
        )
    header = ["machines", "steps", "walks, s", "graph, TiB each", "features, TiB each", "graph sent, min",
              "K @ v, s: sums + network", "to files, min"]  # fmt: skip
    return f"10⁹ nodes, 10¹¹ edges, {N_WALKS} walks: machines of {cores} cores, 25 Gbit/s", header, rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parts = {"cluster": cluster, "disk": disk, "model": model}
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(parts))
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--out", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(parts):
        parser.error(f"unknown part {unknown.pop()!r}; there are {', '.join(parts)}")
    text = machine()
    for name, part in parts.items():
        if not options.parts or name in options.parts:
            text += "\n" + part(options.quick)
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
