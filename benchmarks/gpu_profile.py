"""What the time of default features and of a Gaussian process on a CUDA device goes into, kernel by kernel.

    python benchmarks/gpu_profile.py [--out FILE]

Times are sums over the kernels of one call, by PyTorch's profiler, after a call that compiles them; Python's
profiler tells where the process waits. Each table is printed, and written, as soon as it is there.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import os
import pstats
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from core import random_graph, table
from torch.profiler import ProfilerActivity, profile

import walkernel as wk
from walkernel.datasets import grid
from walkernel.engines import CUDA, FeatureJob, checked_spec, features_job
from walkernel.engines._device_walks import Walker
from walkernel.planning import Request, make_plan
from walkernel.walks import WalkSpec

KERNELS = 16
"""Kernels of each call that are listed; the rest is one row."""


def profiled(title: str, run: Callable[[], object]) -> str:
    """Return a table of the kernels of a call, the longest first."""
    run()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    run()
    torch.cuda.synchronize()
    wall = 1e3 * (time.perf_counter() - begin)
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        run()
        torch.cuda.synchronize()
    kernels = sorted(
        ((one.self_device_time_total / 1e3, one.count, one.key) for one in found.key_averages()), reverse=True
    )
    whole = sum(ms for ms, _, _ in kernels)
    kernels = [one for one in kernels if one[0] > 0]
    rest = kernels[KERNELS:]
    rows = [[name[:100], str(count), f"{ms:.2f}"] for ms, count, name in kernels[:KERNELS]]
    rows.append(
        [f"{len(rest)} others", str(sum(one[1] for one in rest)), f"{sum(one[0] for one in rest):.2f}"]
    )
    return table(f"{title}: {wall:.1f} ms, kernels {whole:.1f} ms", ["kernel", "calls", "ms"], rows)


def default_job(graph: wk.Graph, t: float) -> tuple[WalkSpec, FeatureJob]:
    """Return the walks and features that are the default at 400 steps from each node."""
    kernel, n = wk.Diffusion(float(np.sqrt(2 * t))), graph.n_nodes
    request = Request(graph, kernel, np.arange(n), "symmetric", "shared", None, 400.0 * n, None, 1, False)
    plan = make_plan(request)
    spec = checked_spec(graph, plan.n_walks, plan.sampler, 0, 0, None, "normalized", False)
    return spec, features_job(spec, kernel)


def functions(title: str, run: Callable[[], object]) -> str:
    """Return the functions in which a call spends most of its time in this process, callees included."""
    found = cProfile.Profile()
    found.runcall(run)
    lines = io.StringIO()
    pstats.Stats(found, stream=lines).strip_dirs().sort_stats("cumulative").print_stats(2 * KERNELS)
    return f"{title}\n" + "\n".join(line for line in lines.getvalue().splitlines()[4:] if line)


def process() -> dict[str, Callable[[], object]]:
    """Return the calls of a Gaussian process by walks: 10⁴ observations on a grid of 10⁶ nodes."""
    graph, rng = grid(1000, 1000).graph, np.random.default_rng(0)
    known, asked = (rng.choice(graph.n_nodes, 10**4, replace=False) for _ in range(2))
    y = np.sin(known // 1000 / 4) + 0.1 * rng.standard_normal(known.size)
    model = wk.NodeGPRegressor(graph, wk.Diffusion(2.0), method="walks", engine="cuda")
    return {
        "fit": lambda: model.fit(known, y),
        "standard deviations": lambda: model.predict(asked, return_std=True),
        "draw": model.sample_y,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    graphs = {"random": random_graph(10**6)}
    if os.environ.get("WALKERNEL_DATA"):
        graphs["road_fla"] = wk.load_dataset("road_fla").graph
        graphs["soc_epinions"] = wk.load_dataset("soc_epinions").graph
    parts = [f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}\n"]

    def say(text: str) -> None:
        print(text, flush=True)
        parts.append(text)
        if options.out is not None:
            options.out.write_text("\n".join(parts))

    for name, call in process().items():
        say(profiled(f"Gaussian process: {name}", call))
        say(functions(f"Gaussian process: {name}, by function", call))
    engine = CUDA()
    for name, graph in graphs.items():
        for t in (1, 5):
            spec, job = default_job(graph, t)
            walker = Walker(engine, spec)
            say(profiled(f"{name}, t = {t}: heads", partial(walker.at, spec.ids)))
            say(profiled(f"{name}, t = {t}: features", partial(engine.features, job)))


if __name__ == "__main__":
    main()
