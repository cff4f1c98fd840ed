"""Walks on a CUDA device: steps a second beside what the card can gather, features, and products without Φ.

    python benchmarks/gpu.py [TABLE ...] [--quick | --tiny] [--out FILE]

The ceiling is a kernel that does nothing but read 8 bytes at random places of a table. Times are medians of
CUDA events after a warm-up. The graph of 5·10⁷ nodes is made on the card: every node has 20 entries, drawn at
random; its walks start from a block of nodes, as those of a stream over all of them do. Where a CPU would
take long it does a stated part of the work. ``card.py`` says how to rehearse the tables without a card.
"""

from __future__ import annotations

import copy
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from card import (
    DEVICE,
    Size,
    agreement,
    default_plan,
    milliseconds,
    random_graph,
    run,
    seconds,
    synchronize,
    tell,
)
from core import table

import walkernel as wk
from walkernel.datasets import grid, torus_mesh
from walkernel.engines import CPU, CUDA, Engine, checked_spec, features_job
from walkernel.engines import _triton_walks as kernels
from walkernel.engines._device_walks import DeviceRecord, Walker, coalesce
from walkernel.engines._tensors import rows_of, to_scipy
from walkernel.operators import ChebyshevBasis
from walkernel.tasks import WALK_CACHE
from walkernel.torch import NeuralModulation, Schedule, fit_to_task

PAPER = wk.IndependentWalks(0.1)
KERNEL = wk.Diffusion(1.0)


@triton.jit
def gather(words, out, mask, seed, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    """Read 8 bytes at random places that depend on a counter, and keep their sum."""
    j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.int64)
    for t in range(ROUNDS):
        a, b, _, _ = tl.philox(seed, j, t, 0, 0)
        total += tl.load(words + (((a.to(tl.int64) << 32) | b.to(tl.int64)) & mask))
    tl.store(out + j, total)


def ceiling(n_words: int, n: int, rounds: int) -> float:
    """Return billions of random reads a second from a table of 2^k words of 8 bytes."""
    words = torch.zeros(n_words, dtype=torch.int64, device=DEVICE)
    out = torch.empty(n, dtype=torch.int64, device=DEVICE)
    ms = milliseconds(lambda: gather[(n // 128,)](words, out, n_words - 1, 7, ROUNDS=rounds, BLOCK=128))
    return n * rounds / ms / 1e6


def walker_of(graph: wk.Graph, n_walks: int) -> Walker:
    spec = checked_spec(graph, n_walks, PAPER, 0, 0, None, "normalized", False)
    return Walker(CUDA(DEVICE), spec).at(spec.ids)


def huge_walker(like: Walker, n_nodes: int, n_starts: int, degree: int = 20) -> Walker:
    """Return a walker on a random graph that is made on the card, with the law of another one."""
    huge = copy.copy(like)
    generator = torch.Generator(DEVICE).manual_seed(0)
    options = {"device": DEVICE}
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
    ends = torch.empty(walker.n_walkers, dtype=torch.int32, device=DEVICE)
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

    def advance() -> None:
        here, left = starts, lengths
        while here.numel():
            going = left > 0
            here, left = here[going], left[going]
            row = packed[here]
            draw = (torch.rand(here.numel(), device=DEVICE) * (row & (2**28 - 1))).long()
            here, left = indices[(row >> 28) + draw].long(), left - 1

    return int(lengths.sum()) / milliseconds(advance, 3) / 1e6


def walks_tables(size: Size) -> str:
    """Return random reads and steps a second."""
    shape = size.of((2**22, 32), (2**22, 32), (2**9, 2))
    reads = {k: ceiling(2**k, *shape) for k in size.of((20, 23, 26, 29), (20, 23, 26, 29), (8, 9, 10, 11))}
    rows = [[f"{2**k * 8 / 2**20:.0f} MiB", f"{rate:.1f}"] for k, rate in reads.items()]
    first = table("Random reads of 8 bytes, billions a second", ["table", "G/s"], rows)
    n, huge = size.of(10**6, 10**5, 200), size.of(5 * 10**7, 10**6, 400)
    graph = random_graph(n)
    walker = walker_of(graph, 16)
    _, cached, _, far = reads.values()
    rows = [
        steps_row(f"{n:.0e} nodes", walker, cached),
        steps_row(f"{huge:.0e} nodes", huge_walker(walker, huge, huge // 25), far),
    ]
    header = ["graph", "steps", "lengths ms", "walks ms", "G steps/s", "with lengths", "reads / ceiling"]
    title = "Walks, 16 from each node, p_halt .1 (goals 20 and 10; a step is two reads)"
    return "\n".join([first, table(title, header, rows), baselines(graph, walker)])


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


def default_features(
    name: str, graph: wk.Graph, t: float, steps: int, rows: list[list[str]], pairs: list[tuple[Any, Any]]
) -> None:
    """Add times of features at so many steps from each node, of the paper's and of the default sampler.

    Pairs are features of the first 1000 nodes, of the card and of the CPU.
    """
    (kernel, plan), engine, before = default_plan(graph, t, steps), CUDA(DEVICE), 0.0
    for sampler, n_walks in ((PAPER, steps // 9), (plan.sampler, plan.n_walks)):
        spec = checked_spec(graph, n_walks, sampler, 0, 0, None, "normalized", False)
        job, walker = features_job(spec, kernel), Walker(engine, spec)
        some = job.part(0, 1000)
        pairs.append(tuple(each.features(some)[0].to_scipy() for each in (engine, CPU())))
        n_steps = engine.features(job)[0].n_steps
        heads = milliseconds(lambda walker=walker, spec=spec: walker.at(spec.ids), 5)
        whole = milliseconds(lambda job=job: engine.features(job), 5)
        tenth = replace(job, spec=spec.at(spec.ids[::10]))
        cpu = 1e4 * seconds(lambda tenth=tenth: CPU().features(tenth))
        each = 1e6 * whole / n_steps
        ratio = f"{each / before:.2f}" if before else ""
        before = before or each
        about = "paper's" if sampler is PAPER else repr(sampler).partition("(")[0]
        cells = [
            f"{n_steps / graph.n_nodes:.0f}",
            f"{heads:.1f}",
            f"{whole:.1f}",
            f"{1e3 * each:.1f}",
            ratio,
            f"{cpu:.0f}",
        ]
        rows.append(tell([name, f"{t:g}", about, *cells]))


def features_table(size: Size) -> str:
    """Return the times of default features on random graphs and roads."""
    graphs = {"random": random_graph(*size.of((10**6, 10), (10**5, 10), (60, 3)))}
    if os.environ.get("WALKERNEL_DATA") and size is Size.FULL:
        graphs["road_fla"] = wk.load_dataset("road_fla").graph
        graphs["soc_epinions"] = wk.load_dataset("soc_epinions").graph
    steps, rows, pairs = size.of(400, 400, 100), [], []
    for name, graph in graphs.items():
        for t in (1, 5):
            default_features(name, graph, t, steps, rows, pairs)
    header = ["graph", "t", "sampler", "steps", "heads ms", "features ms", "ps a step", "ratio", "CPU ms"]
    title = f"Features at {steps} steps a node (goals 2 times, 150 ms; CPU: of every tenth node, times ten)"
    return table(title, header, rows) + agreement(pairs)


def weights(walker: Walker) -> np.ndarray:
    return KERNEL.modulation(PAPER.longest + 1) / walker.spec.n_walks


def record_features(walker: Walker) -> torch.Tensor:
    """Return features of the walks from all nodes together."""
    return DeviceRecord(CUDA(DEVICE), walker).features(weights(walker))


def sorted_together(walker: Walker) -> torch.Tensor:
    """Return features by one sort of the deposits of all rows."""
    indptr, nodes, lengths, loads = walker.deposits()
    values = loads * torch.tensor(weights(walker), dtype=loads.dtype, device=DEVICE)[lengths.long()]
    return coalesce(rows_of(indptr), nodes, values, (walker.spec.ids.size, walker.spec.graph.n_nodes))


def records_table(size: Size) -> str:
    """Return the times of records and features, here and on the CPU."""
    graph = random_graph(size.of(10**6, 10**5, 100))
    walker, some = walker_of(graph, 16), np.arange(0, graph.n_nodes, 10)
    expected = wk.sample_features(graph, KERNEL, 16, sampler=PAPER, nodes=some)
    cpu = 1e3 * seconds(lambda: wk.sample_features(graph, KERNEL, 16, sampler=PAPER))
    found = to_scipy(record_features(walker))[some]
    whole = CUDA(DEVICE)
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
    title = f"Features of {graph.n_nodes:.0e} nodes, 16 walks"
    return table(title, ["what", "ms"], rows) + agreement([(found, expected)])


def huge_product(like: Walker, n_nodes: int, n_columns: int, block: int) -> float:
    """Return the seconds of K @ V on a huge graph: walks for Φ₂ᵀ V, then walks for Φ₁ U, nothing stored."""
    huge = huge_walker(like, n_nodes, block)
    f = KERNEL.modulation(PAPER.longest + 1)
    V = torch.randn(n_nodes, n_columns, device=DEVICE)

    def multiply() -> None:
        middle, result = torch.zeros_like(V), torch.zeros_like(V)
        for add in (
            lambda w, part: w.scatter(f, V[part], middle),
            lambda w, part: w.gather(f, middle, result[part]),
        ):
            for begin in range(0, n_nodes, block):
                part = slice(begin, min(begin + block, n_nodes))
                walker = copy.copy(huge)
                walker._starts = torch.arange(part.start, part.stop, device=DEVICE)
                walker.n_walkers = walker._starts.numel() * like.spec.n_walks
                add(walker, part)

    return milliseconds(multiply, 3) / 1e3


def products_table(size: Size) -> str:
    """Return the times of products by walks that are not kept."""
    n, huge = size.of(10**6, 10**5, 60), size.of(5 * 10**7, 10**6, 100)
    V = torch.randn(n, 16, device=DEVICE)
    here, there = (
        wk.estimate_kernel(random_graph(n), KERNEL, 4, sampler=PAPER, ensembles="independent", engine=engine)
        for engine in (CUDA(DEVICE, keep_features=False), CPU())
    )
    pair = (here @ V[:, :1]).cpu().numpy(), there @ V[:, :1].cpu().numpy()
    like = walker_of(random_graph(size.of(10**4, 10**4, 30)), 4)
    found = {
        n: milliseconds(lambda: here @ V, 3) / 1e3,
        huge: huge_product(like, huge, 16, min(huge // 2, 2**22)),
    }
    rows = [[f"{nodes:.0e}", f"{s:.3f}"] for nodes, s in found.items()]
    title = "K @ V without features, 4 walks, 16 columns (goal 2 s for 5e+07 nodes)"
    return table(title, ["nodes", "seconds"], rows) + agreement([pair])


def copy_bandwidth(n_bytes: int) -> float:
    """Return the GB/s that a copy reads and writes."""
    source = torch.empty(n_bytes, dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    return 2 * n_bytes / milliseconds(lambda: target.copy_(source)) / 1e6


def polynomials_table(size: Size) -> str:
    """Return the times of products with a polynomial of the matrix, beside what they move."""
    speed = copy_bandwidth(size.of(2**31, 2**31, 2**16))
    n, rows, pairs = size.of(10**6, 10**5, 500), [], []
    graph, kernel = random_graph(n), wk.Diffusion(float(np.sqrt(10)))
    here, there = (wk.polynomial_operator(graph, kernel, engine=each) for each in (CUDA(DEVICE), CPU()))
    for n_columns in (1, 16):
        V = torch.randn(n, n_columns, device=DEVICE, dtype=torch.float64)
        ms, host = milliseconds(lambda V=V: here @ V, 5), V.cpu().numpy()
        begin = time.perf_counter()
        expected = there @ host
        cpu = 1e3 * (time.perf_counter() - begin)
        pairs.append(((here @ V).cpu().numpy(), expected))
        entries, column = graph.indices.size, 8 * n * n_columns
        products = here.polynomial.n_products
        least, gathered = (12 * entries + each + 8 * column for each in (0, 8 * entries * n_columns))
        moved = [f"{products * moved / ms / 1e6 / speed:.0%}" for moved in (least, gathered)]
        rows.append([str(n_columns), str(products), f"{ms:.2f}", *moved, f"{cpu:.0f}"])
    title = f"Polynomial of {n:.0e} nodes, in double precision, as shares of the {speed:.0f} GB/s of a copy"
    header = ["columns", "products", "ms", "each array once", "a read for each edge", "CPU ms"]
    return table(title, header, rows) + agreement(pairs)


def rows_table(size: Size) -> str:
    """Return the times of exact rows and moments at some nodes, per column: of fewer columns on the CPU."""
    side, n_card, n_cpu = size.of((1000, 1024, 64), (300, 1024, 64), (12, 32, 16))
    graph, terms = grid(side, side).graph, np.exp(-np.arange(40) / 5)
    nodes = np.random.default_rng(0).choice(graph.n_nodes, n_card, replace=False)
    found, blocks = [], []
    for engine, count in ((CUDA(DEVICE), n_card), (CPU(), n_cpu)):
        basis = ChebyshevBasis(graph, "normalized", engine)
        blocks.append(basis.block(terms, nodes[:n_cpu], nodes[:n_cpu]))
        for work in (lambda b=basis, k=count: b.block(terms, nodes[:k], nodes[:k]),
                     lambda b=basis, k=count: b.moments(nodes[: k // 4], terms.size)):  # fmt: skip
            found.append(1e3 * seconds(work) / count)
    rows = [["rows", f"{found[0]:.2f}", f"{found[2]:.1f}"],
            ["moments", f"{4 * found[1]:.2f}", f"{4 * found[3]:.1f}"]]  # fmt: skip
    title = (
        f"Exact rows of {terms.size} terms, {graph.n_nodes:.0e} nodes, ms for each of {n_card} nodes "
        f"(CPU: of {n_cpu})"
    )
    return table(title, ["what", "card", "CPU"], rows) + agreement([blocks])


def process_table(size: Size) -> str:
    """Return the times of a Gaussian process by walks, observed at random nodes of a signal on a grid."""
    side, n_observed, few, n_walks = size.of((1000, 10_000, 500, 256), (300, 1000, 100, 256), (8, 16, 2, 4))
    graph, rng = grid(side, side).graph, np.random.default_rng(0)
    at = np.arange(graph.n_nodes)
    signal = np.sin(at // side / 4) + np.cos(at % side / 4)
    known, asked = (rng.choice(graph.n_nodes, n_observed, replace=False) for _ in range(2))
    y = signal[known] + 0.1 * rng.standard_normal(n_observed)

    def fitted(engine: Engine, n: int, drawn: np.ndarray) -> tuple[list[float], list[np.ndarray]]:
        """Return the seconds of a fit, of standard deviations and of a draw, and what the last two return."""
        WALK_CACHE.clear()
        model = wk.NodeGPRegressor(graph, wk.Diffusion(2.0), method="walks", engine=engine, n_walks=n_walks)
        found = []
        calls = (
            lambda: found.append(model.fit(known[:n], y[:n])),
            lambda: found.extend(model.predict(asked[:n], return_std=True)),
            lambda: found.append(model.sample_y(drawn)),
        )
        return [seconds(call) for call in calls], found[1:]

    rows, results = [], {}
    for name, engine, drawn in (
        ("card, the first time", CUDA(DEVICE), at),
        ("card", CUDA(DEVICE), at),
        ("CPU", CPU(), at[::10]),
    ):
        if name == "CPU":  # which compiles its loops
            fitted(engine, few, drawn[:few])
        times, results[name] = fitted(engine, n_observed, drawn)
        times[-1] *= at.size / drawn.size
        rows.append(tell([name, *(f"{s:.1f}" for s in times), f"{sum(times):.1f}"]))
    title = (
        f"Gaussian process by walks, {graph.n_nodes:.0e} nodes, {n_observed} observations, seconds (goal 6; "
        f"CPU: draws at every\ntenth node, times ten)"
    )
    header = ["engine", "fit", "std at as many nodes", "draw at all nodes", "sum"]
    return table(title, header, rows) + agreement(zip(results["card"][:2], results["CPU"][:2], strict=True))


def training_rate(
    graph: wk.Graph, values: np.ndarray, device: str, engine: Engine, n_epochs: int, longest: int
) -> tuple[float, np.ndarray]:
    """Return steps a second of Sec. 3.5 from a bank of two samples, all on one device, and the losses.

    Of ``longest`` epochs, which decide how often losses are evaluated, the first ten, in which samples are
    recorded, do not count, and training ends after some more.
    """
    start, times = NeuralModulation(decay=0.6, device=device, dtype=torch.float32), []

    def watch(done: int, total: int) -> None:
        if done in (10, 10 + n_epochs):
            synchronize()
            times.append(time.perf_counter())
        if len(times) == 2:
            raise KeyboardInterrupt

    fit = fit_to_task(
        graph, np.arange(graph.n_nodes), values, modulation=start, n_samples=2, patience=10**6,
        schedule=Schedule(n_epochs=10 + longest), validation=0.01, engine=engine, progress=watch,
    )  # fmt: skip
    return n_epochs / (times[1] - times[0]), fit.history


def smooth_values(graph: wk.Graph, n_columns: int = 3) -> np.ndarray:
    """Return noise that is averaged over neighbours a few times, (nodes, columns)."""
    values, M = np.random.default_rng(0).normal(size=(graph.n_nodes, n_columns)), graph.to_scipy("normalized")
    for _ in range(3):
        values = values + M @ values
    return values


def training_table(size: Size) -> str:
    """Return the steps of learning a second on the card and on the CPU."""
    mesh, n = torus_mesh(*size.of((200, 150), (200, 150), (8, 6))), size.of(10**6, 10**5, 60)
    graph, tenth = random_graph(n), random_graph(n // 10)
    cases = (
        ("mesh", mesh.graph, mesh.normals, mesh.graph, mesh.normals, 1, size.of(400, 400, 6)),
        ("random", graph, smooth_values(graph), tenth, smooth_values(tenth), 10, size.of(60, 60, 6)),
    )
    rows, pairs = [], []
    for name, graph, values, other, other_values, times, n_epochs in cases:
        card, losses = training_rate(graph, values, DEVICE, CUDA(DEVICE), n_epochs, n_epochs)
        few = n_epochs // 3
        cpu, expected = training_rate(other, other_values, "cpu", CPU(), few, n_epochs)
        cpu /= times
        pairs += [(losses[: 10 + few], expected)] if other is graph else []
        rows.append(tell([name, f"{graph.n_nodes:.0e}", f"{card:.0f}", f"{cpu:.1f}", f"{card / cpu:.1f}"]))
    title = (
        "Training of Sec. 3.5, 16 walks, a bank of two samples: steps a second (goal 10 times; CPU: a\n"
        "random graph of a tenth of the nodes, whose steps count a tenth)"
    )
    return table(title, ["graph", "nodes", "card", "CPU", "ratio"], rows) + agreement(pairs)


if __name__ == "__main__":
    run(
        {
            "features": features_table,
            "process": process_table,
            "training": training_table,
            "rows": rows_table,
            "polynomials": polynomials_table,
            "walks": walks_tables,
            "records": records_table,
            "products": products_table,
        }
    )
