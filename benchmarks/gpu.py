"""Walks on a CUDA device: steps a second beside what the card can gather, features, and products without Φ.

    python benchmarks/gpu.py [TABLE ...] [--quick] [--out FILE]

The ceiling is a kernel that does nothing but read 8 bytes at random places of a table. Times are medians of
CUDA events after a warm-up. The graph of 5·10⁷ nodes is made on the card: every node has 20 entries, drawn at
random; its walks start from a block of nodes, as those of a stream over all of them do.
"""

from __future__ import annotations

import argparse
import copy
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import triton
import triton.language as tl
from core import random_graph, table

import walkernel as wk
from walkernel.datasets import grid, torus_mesh
from walkernel.engines import CPU, CUDA, checked_spec, features_job
from walkernel.engines import _triton_walks as kernels
from walkernel.engines._device_walks import DeviceRecord, Walker, coalesce
from walkernel.engines._tensors import rows_of, to_scipy
from walkernel.operators import ChebyshevBasis
from walkernel.planning import Request, make_plan
from walkernel.torch import NeuralModulation, Schedule, fit_to_task

PAPER = wk.IndependentWalks(0.1)
KERNEL = wk.Diffusion(1.0)


def milliseconds(run: Callable[[], object], repeats: int = 7) -> float:
    """Return the median time of CUDA events around a call."""
    run()
    times = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


@triton.jit
def gather(words, out, mask, seed, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Read 8 bytes at random places that depend on a counter, and keep their sum."""
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.int64)
    for t in range(ROUNDS):
        a, b, _, _ = tl.philox(seed, j, t, 0, 0)
        total += tl.load(words + (((a.to(tl.int64) << 32) | b.to(tl.int64)) & mask))
    tl.store(out + j, total)


def ceiling(n_words: int) -> float:
    """Return billions of random reads a second from a table of 2^k words of 8 bytes."""
    words = torch.zeros(n_words, dtype=torch.int64, device="cuda")
    n, rounds = 2**22, 32
    out = torch.empty(n, dtype=torch.int64, device="cuda")
    ms = milliseconds(lambda: gather[(n // 128,)](words, out, n_words - 1, 7, ROUNDS=rounds, BLOCK=128))
    return n * rounds / ms / 1e6


def walker_of(graph: wk.Graph, n_walks: int) -> Walker:
    spec = checked_spec(graph, n_walks, PAPER, 0, 0, None, "normalized", False)
    return Walker(CUDA(), spec).at(spec.ids)


def huge_walker(like: Walker, n_nodes: int, n_starts: int, degree: int = 20) -> Walker:
    """Return a walker on a random graph that is made on the card, with the law of another one."""
    huge = copy.copy(like)
    generator = torch.Generator("cuda").manual_seed(0)
    options = {"device": "cuda"}
    huge._indices = torch.randint(
        0, n_nodes, (n_nodes * degree,), dtype=torch.int32, generator=generator, **options
    )
    huge._packed = (torch.arange(n_nodes, **options) * degree << 28) | degree
    ones = torch.ones(n_nodes, **options)
    huge._floats = [ones[:1], ones, ones[:1], ones[: degree + 1]]
    huge._starts = torch.arange(n_starts, **options)
    huge.n_walkers = n_starts * like.spec.n_walks
    return huge


def steps_row(name: str, walker: Walker, reads: float) -> list[str]:
    drawn = walker.draw()
    n_steps = int(drawn.lengths.sum())
    ends = torch.empty(walker.n_walkers, dtype=torch.int32, device="cuda")
    factors = walker.factors()
    draw = milliseconds(walker.draw)
    walk = milliseconds(lambda: walker.walk(kernels.STEPS.value, drawn, factors, nodes=ends))
    rate = n_steps / walk / 1e6
    whole = n_steps / (walk + draw) / 1e6
    return [
        name,
        f"{n_steps:.3g}",
        f"{draw:.2f}",
        f"{walk:.2f}",
        f"{rate:.1f}",
        f"{whole:.1f}",
        f"{rate * 2 / reads:.2f}",
    ]


def plain_torch(walker: Walker) -> float:
    """Return billions of steps a second of walkers as tensors that advance one step with each call."""
    lengths = walker.draw().lengths.long()
    packed, indices = walker._packed, walker._indices
    starts = torch.repeat_interleave(walker._starts, walker.spec.n_walks)

    def run() -> None:
        here, left = starts, lengths
        while here.numel():
            going = left > 0
            here, left = here[going], left[going]
            row = packed[here]
            draw = (torch.rand(here.numel(), device="cuda") * (row & (2**28 - 1))).long()
            here, left = indices[(row >> 28) + draw].long(), left - 1

    return int(lengths.sum()) / milliseconds(run, 3) / 1e6


def huge_product(like: Walker, n_nodes: int, n_columns: int, block: int = 2**22) -> float:
    """Return the seconds of K @ V on a huge graph: walks for Φ₂ᵀ V, then walks for Φ₁ U, nothing stored."""
    huge = huge_walker(like, n_nodes, block)
    f = KERNEL.modulation(PAPER.longest + 1)
    V = torch.randn(n_nodes, n_columns, device="cuda")

    def run() -> None:
        middle, result = torch.zeros_like(V), torch.zeros_like(V)
        for add in (
            lambda w, part: w.scatter(f, V[part], middle),
            lambda w, part: w.gather(f, middle, result[part]),
        ):
            for begin in range(0, n_nodes, block):
                part = slice(begin, min(begin + block, n_nodes))
                walker = copy.copy(huge)
                walker._starts = torch.arange(part.start, part.stop, device="cuda")
                walker.n_walkers = walker._starts.numel() * like.spec.n_walks
                add(walker, part)

    return milliseconds(run, 3) / 1e3


def training_rate(graph: wk.Graph, values: np.ndarray, device: str, n_epochs: int) -> float:
    """Return steps a second of Sec. 3.5 from a bank of two samples, walks and all else on one device."""
    start = NeuralModulation(decay=0.6, device=device, dtype=torch.float32)

    def seconds(n: int) -> float:
        begin = time.perf_counter()
        fit_to_task(
            graph, np.arange(graph.n_nodes), values, modulation=start, n_samples=2, patience=10**6,
            schedule=Schedule(n_epochs=n), validation=0.01, engine=device,
        )  # fmt: skip
        return time.perf_counter() - begin

    before = 10  # in which each sample is recorded
    seconds(before)
    return n_epochs / (seconds(n_epochs + before) - seconds(before))


def smooth_values(graph: wk.Graph, n_columns: int = 3) -> np.ndarray:
    """Return noise that is averaged over neighbours a few times, (nodes, columns)."""
    values, M = np.random.default_rng(0).normal(size=(graph.n_nodes, n_columns)), graph.to_scipy("normalized")
    for _ in range(3):
        values = values + M @ values
    return values


def training_table(quick: bool) -> str:
    """Return the steps of learning a second on the card and on the CPU."""
    mesh, graph = torus_mesh(200, 150), random_graph(10**5 if quick else 10**6)
    jobs = {"mesh": (mesh.graph, mesh.normals, 400), "random": (graph, smooth_values(graph), 60)}
    rows = []
    for name, (one, values, n_epochs) in jobs.items():
        card, cpu = (training_rate(one, values, device, n_epochs) for device in ("cuda", "cpu"))
        rows.append([name, f"{one.n_nodes:.0e}", f"{card:.0f}", f"{cpu:.1f}", f"{card / cpu:.1f}"])
    title = "Training of Sec. 3.5, 16 walks, a bank of two samples: steps a second (goal 10 times)"
    return table(title, ["graph", "nodes", "card", "CPU", "ratio"], rows)


def default_features(name: str, graph: wk.Graph, t: float) -> list[list[str]]:
    """Return times of features at 400 steps from each node: of the default sampler, and of the paper's."""
    kernel, n = wk.Diffusion(float(np.sqrt(2 * t))), graph.n_nodes
    request = Request(graph, kernel, np.arange(n), "symmetric", "shared", None, 400.0 * n, None, 1, False)
    plan, rows = make_plan(request), []
    engine, before = CUDA(), 0.0
    for sampler, n_walks in ((PAPER, 44), (plan.sampler, plan.n_walks)):
        spec = checked_spec(graph, n_walks, sampler, 0, 0, None, "normalized", False)
        job, walker = features_job(spec, kernel), Walker(engine, spec)
        heads = milliseconds(lambda walker=walker, spec=spec: walker.at(spec.ids), 5)
        whole = milliseconds(lambda job=job: engine.features(job), 5)
        n_steps = engine.features(job)[0].n_steps
        CPU().features(job.part(0, 1000))
        begin = time.perf_counter()
        CPU().features(job)
        cpu = 1e3 * (time.perf_counter() - begin)
        each = 1e6 * whole / n_steps
        ratio = f"{each / before:.2f}" if before else ""
        before = before or each
        about = "paper's" if sampler is PAPER else repr(sampler).partition("(")[0]
        cells = [
            f"{n_steps / n:.0f}",
            f"{heads:.1f}",
            f"{whole:.1f}",
            f"{1e3 * each:.1f}",
            ratio,
            f"{cpu:.0f}",
        ]
        rows.append([name, f"{t:g}", about, *cells])
    return rows


def defaults_table(quick: bool) -> str:
    """Return the times of default features on random graphs and roads."""
    graphs = {"random": random_graph(10**5 if quick else 10**6)}
    if os.environ.get("WALKERNEL_DATA") and not quick:
        graphs["road_fla"] = wk.load_dataset("road_fla").graph
        graphs["soc_epinions"] = wk.load_dataset("soc_epinions").graph
    rows = [row for name, graph in graphs.items() for t in (1, 5) for row in default_features(name, graph, t)]
    header = ["graph", "t", "sampler", "steps", "heads ms", "features ms", "ps a step", "ratio", "CPU ms"]
    return table("Features at 400 steps from each node (goals 2 times, 150 ms)", header, rows)


def copy_bandwidth(n_bytes: int = 2**31) -> float:
    """Return the GB/s that a copy reads and writes."""
    source = torch.empty(n_bytes, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * n_bytes / milliseconds(lambda: target.copy_(source)) / 1e6


def polynomials_table(quick: bool) -> str:
    """Return the times of products with a polynomial of the matrix, beside what they move."""
    speed = copy_bandwidth()
    n, rows = 10**5 if quick else 10**6, []
    graph, kernel = random_graph(n), wk.Diffusion(float(np.sqrt(10)))
    here, there = (wk.polynomial_operator(graph, kernel, engine=each) for each in (CUDA(), CPU()))
    for n_columns in (1, 16):
        V = torch.randn(n, n_columns, device="cuda", dtype=torch.float64)
        ms, host = milliseconds(lambda V=V: here @ V, 5), V.cpu().numpy()
        begin = time.perf_counter()
        expected = there @ host
        cpu = 1e3 * (time.perf_counter() - begin)
        error = float(np.abs((here @ V).cpu().numpy() - expected).max() / np.abs(expected).max())
        entries, column = graph.to_scipy("normalized").nnz, 8 * n * n_columns
        products = here.polynomial.n_products
        least, gathered = (12 * entries + each + 8 * column for each in (0, 8 * entries * n_columns))
        moved = [f"{products * size / ms / 1e6 / speed:.0%}" for size in (least, gathered)]
        rows.append([str(n_columns), str(products), f"{ms:.2f}", *moved, f"{cpu:.0f}", f"{error:.0e}"])
    title = f"Polynomial of {n:.0e} nodes, in double precision, as shares of the {speed:.0f} GB/s of a copy"
    header = ["columns", "products", "ms", "each array once", "a read for each edge", "CPU ms", "difference"]
    return table(title, header, rows)


def rows_table(quick: bool) -> str:
    """Return the times of exact rows and moments at some nodes, per column: of fewer columns on the CPU."""
    side = 300 if quick else 1000
    graph, terms = grid(side, side).graph, np.exp(-np.arange(40) / 5)
    nodes = np.random.default_rng(0).choice(graph.n_nodes, 1024, replace=False)
    found = []
    for engine, count in ((CUDA(), 1024), (CPU(), 64)):
        basis = ChebyshevBasis(graph, "normalized", engine)
        for work in (lambda b=basis, k=count: b.block(terms, nodes[:k], nodes[:k]),
                     lambda b=basis, k=count: b.moments(nodes[: k // 4], terms.size)):  # fmt: skip
            work()
            begin = time.perf_counter()
            work()
            found.append(1e3 * (time.perf_counter() - begin) / count)
    rows = [["rows", f"{found[0]:.2f}", f"{found[2]:.1f}"],
            ["moments", f"{4 * found[1]:.2f}", f"{4 * found[3]:.1f}"]]  # fmt: skip
    title = (
        f"Exact rows of {terms.size} terms, {graph.n_nodes:.0e} nodes, ms for each of 1024 nodes (CPU: of 64)"
    )
    return table(title, ["what", "card", "CPU"], rows)


def process_table(quick: bool) -> str:
    """Return the times of a Gaussian process by walks, 10⁴ observations of a signal on a grid."""
    side, n_observed = (300, 1000) if quick else (1000, 10_000)
    graph, rng = grid(side, side).graph, np.random.default_rng(0)
    at = np.arange(graph.n_nodes)
    signal = np.sin(at // side / 4) + np.cos(at % side / 4)
    known, asked = (rng.choice(graph.n_nodes, n_observed, replace=False) for _ in range(2))
    y, rows = signal[known] + 0.1 * rng.standard_normal(n_observed), []
    for engine in ("cuda", None):
        model = wk.NodeGPRegressor(graph, wk.Diffusion(2.0), method="walks", engine=engine)
        calls = (
            lambda m=model: m.fit(known, y),
            lambda m=model: m.predict(asked, return_std=True),
            lambda m=model: m.sample_y(),
        )
        seconds = []
        for call in calls:
            begin = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - begin)
        rows.append([engine or "CPU", *(f"{s:.1f}" for s in seconds), f"{sum(seconds):.1f}"])
    title = (
        f"Gaussian process by walks, {graph.n_nodes:.0e} nodes, {n_observed} observations, seconds (goal 6)"
    )
    return table(title, ["engine", "fit", "std at as many nodes", "draw at all nodes", "sum"], rows)


def walks_tables(quick: bool) -> str:
    """Return random reads and steps a second."""
    reads = {size: ceiling(2**size) for size in (20, 23, 26, 29)}
    rows = [[f"{2**size * 8 / 2**20:.0f} MiB", f"{rate:.1f}"] for size, rate in reads.items()]
    first = table("Random reads of 8 bytes, billions a second", ["table", "G/s"], rows)
    n = 10**5 if quick else 10**6
    graph = random_graph(n)
    walker = walker_of(graph, 16)
    rows = [steps_row(f"{n:.0e} nodes", walker, reads[23])]
    if not quick:
        rows.append(steps_row("5e+07 nodes", huge_walker(walker, 5 * 10**7, 2 * 10**6), reads[29]))
    header = ["graph", "steps", "lengths ms", "walks ms", "G steps/s", "with lengths", "reads / ceiling"]
    title = "Walks, 16 from each node, p_halt .1 (goals 20 and 10; a step is two reads)"
    return "\n".join([first, table(title, header, rows), baselines(graph, walker)])


def products_lines(quick: bool) -> str:
    """Return the times of products by walks that are not kept."""
    n = 10**5 if quick else 10**6
    V = torch.randn(n, 16, device="cuda")
    K = wk.estimate_kernel(
        random_graph(n), KERNEL, 4, sampler=PAPER, ensembles="independent", engine=CUDA(keep_features=False)
    )
    seconds = {n: milliseconds(lambda: K @ V, 3) / 1e3}
    if not quick:
        seconds[5 * 10**7] = huge_product(walker_of(random_graph(10**4), 4), 5 * 10**7, 16)
    rows = [[f"{size:.0e}", f"{s:.3f}"] for size, s in seconds.items()]
    title = "K @ V without features, 4 walks, 16 columns (goal 2 s for 5e+07 nodes)"
    return table(title, ["nodes", "seconds"], rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", help="which of the tables; all of them if none is named")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tables = {
        "features": defaults_table,
        "polynomials": polynomials_table,
        "rows": rows_table,
        "process": process_table,
        "walks": walks_tables,
        "records": features_table,
        "products": products_lines,
        "training": training_table,
    }
    if unknown := set(options.tables) - set(tables):
        parser.error(f"tables must be among {', '.join(tables)}, got {', '.join(sorted(unknown))}")
    parts = [
        f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores, torch {torch.__version__}, triton "
        f"{triton.__version__}, walkernel {wk.__version__}, {time.strftime('%Y-%m-%d')}\n"
    ]
    print(parts[0])
    for name in options.tables or tables:
        parts.append(tables[name](options.quick))
        print(parts[-1], flush=True)
        if options.out is not None:
            options.out.write_text("\n".join(parts) + "\n")


def baselines(graph: wk.Graph, walker: Walker) -> str:
    """Return a line about the same walks by other means."""
    wk.sample_walks(graph, 2, sampler=PAPER)
    begin = time.perf_counter()
    record = wk.sample_walks(graph, 16, sampler=PAPER)
    rate = record.n_steps / (time.perf_counter() - begin) / 1e9
    return (
        f"plain PyTorch walker on the card: {plain_torch(walker):.2f} G steps/s; numba, all cores, with the "
        f"record of deposits: {rate:.3f} G steps/s\n"
    )


def weights(walker: Walker) -> np.ndarray:
    return KERNEL.modulation(PAPER.longest + 1) / walker.spec.n_walks


def record_features(walker: Walker) -> torch.Tensor:
    """Return features of the walks from all nodes together."""
    return DeviceRecord(CUDA(), walker).features(weights(walker))


def sorted_together(walker: Walker) -> torch.Tensor:
    """Return features by one sort of the deposits of all rows."""
    indptr, nodes, lengths, loads = walker.deposits()
    values = loads * torch.tensor(weights(walker), dtype=loads.dtype, device="cuda")[lengths.long()]
    return coalesce(rows_of(indptr), nodes, values, (walker.spec.ids.size, walker.spec.graph.n_nodes))


def features_table(quick: bool) -> str:
    """Return the times of records and features, here and on the CPU."""
    graph = random_graph(10**5 if quick else 10**6)
    walker = walker_of(graph, 16)
    wk.sample_features(graph, KERNEL, 2, sampler=PAPER)
    begin = time.perf_counter()
    exact = wk.sample_features(graph, KERNEL, 16, sampler=PAPER)
    cpu = 1e3 * (time.perf_counter() - begin)
    difference = abs(to_scipy(record_features(walker)) - exact).max() / abs(exact).max()
    whole = CUDA()
    door = milliseconds(lambda: wk.sample_features(graph, KERNEL, 16, sampler=PAPER, engine=whole), 5)
    rows = [
        ["record of all deposits", f"{milliseconds(walker.deposits, 5):.1f}"],
        ["record and features (goal 60)", f"{milliseconds(lambda: record_features(walker), 5):.1f}"],
        ["  the same by sample_features, tables included", f"{door:.1f}"],
        [
            "  the same, all deposits sorted together",
            f"{milliseconds(lambda: sorted_together(walker), 5):.1f}",
        ],
        ["features by numba, all cores", f"{cpu:.0f}"],
    ]
    title = (
        f"Features of {graph.n_nodes:.0e} nodes, 16 walks (largest difference to the CPU's: {difference:.1e})"
    )
    return table(title, ["what", "ms"], rows)


if __name__ == "__main__":
    main()
