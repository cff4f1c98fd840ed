"""What the time of default features and of a Gaussian process on a CUDA device goes into, kernel by kernel.

    python benchmarks/gpu_profile.py [TABLE ...] [--quick | --tiny] [--out FILE]

Times are sums over the kernels of one call, by PyTorch's profiler, after a call that compiles them; Python's
profiler tells where the process waits. ``card.py`` says how to rehearse the tables without a card.
"""

from __future__ import annotations

import cProfile
import io
import os
import pstats
from collections.abc import Callable
from functools import partial

import numpy as np
from card import DEVICE, REHEARSES, Size, default_plan, kernel_times, random_graph, run, seconds, tell
from core import table

import walkernel as wk
from walkernel.datasets import grid
from walkernel.engines import CUDA, checked_spec, features_job
from walkernel.engines._device_walks import Walker

KERNELS = 16
"""Kernels of each call that are listed; the rest is one row."""


def profiled(title: str, call: Callable[[], object]) -> str:
    """Return a table of the kernels of a call, the longest first."""
    if not REHEARSES:
        call()
    wall = 1e3 * seconds(call)
    kernels = sorted(kernel_times(call), reverse=True)
    whole = sum(ms for ms, _, _ in kernels)
    kernels = [one for one in kernels if one[0] > 0]
    rest = kernels[KERNELS:]
    rows = [[name[:100], str(count), f"{ms:.2f}"] for ms, count, name in kernels[:KERNELS]]
    rows.append(
        [f"{len(rest)} others", str(sum(one[1] for one in rest)), f"{sum(one[0] for one in rest):.2f}"]
    )
    text = table(f"{title}: {wall:.1f} ms, kernels {whole:.1f} ms", ["kernel", "calls", "ms"], rows)
    return tell([text])[0]


def functions(title: str, call: Callable[[], object]) -> str:
    """Return the functions in which a call spends most of its time in this process, callees included."""
    found = cProfile.Profile()
    found.runcall(call)
    lines = io.StringIO()
    pstats.Stats(found, stream=lines).strip_dirs().sort_stats("cumulative").print_stats(2 * KERNELS)
    return f"{title}\n" + "\n".join(line for line in lines.getvalue().splitlines()[4:] if line)


def process(size: Size) -> str:
    """Return what a Gaussian process by walks does: on a grid, observed at random nodes."""
    side, n_observed, n_walks = size.of((1000, 10_000, 256), (300, 1000, 256), (6, 12, 4))
    graph, rng = grid(side, side).graph, np.random.default_rng(0)
    known, asked = (rng.choice(graph.n_nodes, n_observed, replace=False) for _ in range(2))
    y = np.sin(known // side / 4) + 0.1 * rng.standard_normal(known.size)
    model = wk.NodeGPRegressor(
        graph, wk.Diffusion(2.0), method="walks", engine=CUDA(DEVICE), n_walks=n_walks,
        learn=size.of(None, None, ("noise",)),
    )  # fmt: skip
    calls: dict[str, Callable[[], object]] = {
        "fit": lambda: model.fit(known, y),
        "standard deviations": lambda: model.predict(asked, return_std=True),
        "draw": model.sample_y,
    }
    parts = []
    for name, call in calls.items():
        parts.append(profiled(f"Gaussian process: {name}", call))
        parts.append(functions(f"Gaussian process: {name}, by function", call))
    return "\n".join(parts)


def features(size: Size) -> str:
    """Return what makes default features at 400 steps from each node."""
    graphs = {"random": random_graph(*size.of((10**6, 10), (10**5, 10), (30, 3)))}
    if os.environ.get("WALKERNEL_DATA") and size is Size.FULL:
        graphs["road_fla"] = wk.load_dataset("road_fla").graph
        graphs["soc_epinions"] = wk.load_dataset("soc_epinions").graph
    engine, parts = CUDA(DEVICE), []
    for name, graph in graphs.items():
        for t in size.of((1, 5), (1, 5), (1,)):
            kernel, plan = default_plan(graph, t, size.of(400, 400, 100))
            spec = checked_spec(graph, plan.n_walks, plan.sampler, 0, 0, None, "normalized", False)
            job, walker = features_job(spec, kernel), Walker(engine, spec)
            parts.append(profiled(f"{name}, t = {t}: heads", partial(walker.at, spec.ids)))
            parts.append(profiled(f"{name}, t = {t}: features", partial(engine.features, job)))
    return "\n".join(parts)


if __name__ == "__main__":
    run({"process": process, "features": features})
