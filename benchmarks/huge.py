"""A random graph of 10⁸ nodes and 1.1·10⁹ edges on one CUDA device: walks, products, and a Gaussian process.

    python benchmarks/huge.py [TABLE ...] [--quick | --tiny] [--out FILE]

Edges are drawn on the card and sorted there, some rows at a time; ``Graph.from_csr`` checks them there too
and copies them to the memory of the process, where tables of the nodes are made. Walks read the arrays that
are on the card already. ``card.py`` says how to rehearse the tables without a card.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

import numpy as np
import torch
from card import DEVICE, Size, allocated, milliseconds, peak, random_csr, run, seconds, tell
from core import table

import walkernel as wk
from walkernel.engines import CUDA, checked_spec
from walkernel.engines import _triton_walks as kernels
from walkernel.engines._device_walks import Walker

T = TypeVar("T")
PAPER = wk.IndependentWalks(0.1)
KERNEL = wk.Diffusion(1.0)
EDGES_A_NODE = 11
HEADER = ["what", "seconds", "GiB of the card"]


def timed(rows: list[list[str]], what: str, work: Callable[[], T]) -> T:
    """Return what a call returns, and add a row with its seconds and the most memory so far."""
    found: list[T] = []
    time = seconds(lambda: found.append(work()))
    rows.append(tell([what, f"{time:.2f}", f"{peak():.0f}"]))
    return found[0]


def steps_rate(walker: Walker) -> float:
    """Return billions of steps a second."""
    drawn, factors = walker.draw(), walker.factors()
    last = torch.empty(walker.n_walkers, dtype=torch.int32, device=DEVICE)
    ms = milliseconds(lambda: walker.walk(kernels.STEPS.value, drawn, factors, nodes=last))
    return int(drawn.lengths.sum()) / ms / 1e6


@cache
def smoothed(size: Size) -> tuple[wk.Graph, np.ndarray, str]:
    """Return the graph, random values that a kernel has smoothed, and the table of how they were made."""
    n, n_starts = size.of((10**8, 2**22), (10**6, 2**20), (300, 100))
    rows: list[list[str]] = []
    indptr, indices = timed(rows, "entries drawn and sorted on the card", lambda: random_csr(n, EDGES_A_NODE))
    graph = timed(
        rows, "Graph.from_csr: checked there, copied here", lambda: wk.Graph.from_csr(indptr, indices)
    )
    engine = CUDA(DEVICE, keep_features=False)
    spec = checked_spec(graph, 16, PAPER, 0, 0, np.arange(0, n, max(1, n // n_starts)), "normalized", False)
    walker = timed(rows, "tables of the nodes", lambda: Walker(engine, spec).at(spec.ids))
    what = f"walks from {spec.ids.size} nodes, G steps/s (goal 15)"
    rows.append(tell([what, f"{steps_rate(walker):.1f}", ""]))
    V = torch.randn(n, 16, device=DEVICE)
    options = {"sampler": PAPER, "ensembles": "independent", "engine": engine}
    K = timed(rows, "estimate_kernel, 4 walks", lambda: wk.estimate_kernel(graph, KERNEL, 4, **options))
    timed(rows, "K @ V, 16 columns, the first time", lambda: K @ V)
    smooth = timed(rows, "K @ V, 16 columns (goal 2 s)", lambda: K @ V)[:, 0].cpu().numpy()
    return graph, smooth, table(f"{n:.0e} nodes, {graph.indices.size / 2:.3g} edges", HEADER, rows)


def products_table(size: Size) -> str:
    """Return times of walks and products, and of what comes before."""
    return smoothed(size)[2]


def process_table(size: Size) -> str:
    """Return times of a Gaussian process for the smoothed values."""
    graph, smooth, _ = smoothed(size)
    torch.cuda.empty_cache()
    allocated()  # the most memory counts from here
    rng, n, rows = np.random.default_rng(0), size.of(10**5, 10**4, 30), []
    known, asked = np.split(rng.choice(graph.n_nodes, 2 * n, replace=False), 2)
    y = smooth[known] / smooth.std() + 0.1 * rng.standard_normal(n)
    model = wk.NodeGPRegressor(
        graph, wk.Diffusion(2.0), method="walks", engine=CUDA(DEVICE), learn=("amplitude",), noise=0.1,
        n_walks=size.of(256, 256, 16),
    )  # fmt: skip
    timed(rows, f"Gaussian process, {n} observations: fit", lambda: model.fit(known, y))
    mean, std = timed(
        rows,
        f"standard deviations at {n} nodes (goal 60 s with the fit)",
        lambda: model.predict(asked, return_std=True),
    )
    errors = np.abs(mean - smooth[asked] / smooth.std()) / std
    rows.append(["true values within two standard deviations", f"{np.mean(errors < 2):.3f}", ""])
    return table(f"{graph.n_nodes:.0e} nodes, {graph.indices.size / 2:.3g} edges", HEADER, rows)


if __name__ == "__main__":
    run({"products": products_table, "process": process_table})
