"""A random graph of 10⁸ nodes and 1.1·10⁹ edges on one CUDA device: walks, products, and a Gaussian process.

    python benchmarks/huge.py [--nodes N] [--out FILE]

Edges are drawn on the card and sorted there, some rows at a time; ``Graph.from_csr`` checks them there too
and copies them to the memory of the process, where tables of the nodes are made. Walks read the arrays that
are on the card already.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
import triton
from core import table
from gpu import milliseconds

import walkernel as wk
from walkernel.engines import CUDA, checked_spec
from walkernel.engines import _triton_walks as kernels
from walkernel.engines._device_walks import Walker

PAPER = wk.IndependentWalks(0.1)
KERNEL = wk.Diffusion(1.0)
EDGES_A_NODE = 11
BUCKETS = 16
"""Ranges of rows whose entries are sorted together: PyTorch sorts fewer than 2³¹ numbers."""
STARTS = 2**22
"""Start nodes whose walks are timed together."""


def random_csr(n: int, device: str = "cuda") -> tuple[torch.Tensor, torch.Tensor]:
    """Return row pointers and columns of a random graph without repeated edges or self-loops."""
    generator = torch.Generator(device).manual_seed(0)
    ends = [
        torch.randint(0, n, (EDGES_A_NODE * n,), dtype=torch.int32, device=device, generator=generator)
        for _ in range(2)
    ]
    counts = torch.zeros(n, dtype=torch.int64, device=device)
    parts, edges = [], np.linspace(0, n, BUCKETS + 1).astype(np.int64)
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        keys = []
        for rows, columns in (ends, ends[::-1]):
            inside = torch.nonzero((rows >= low) & (rows < high) & (rows != columns))[:, 0]
            keys.append(rows[inside].long() * n + columns[inside])
        found = torch.unique_consecutive(torch.sort(torch.cat(keys))[0])
        rows = found // n
        counts[low:high] = torch.bincount(rows - low, minlength=high - low)
        parts.append((found - rows * n).int())
    indptr = torch.zeros(n + 1, dtype=torch.int64, device=device)
    torch.cumsum(counts, 0, out=indptr[1:])
    return indptr, torch.cat(parts)


@contextmanager
def timed(rows: list[list[str]], what: str, synchronize: Callable[[], None]) -> Iterator[None]:
    """Add a row with the seconds that something takes."""
    synchronize()
    begin = time.perf_counter()
    yield
    synchronize()
    rows.append([what, f"{time.perf_counter() - begin:.2f}"])
    print(*rows[-1], f"{torch.cuda.max_memory_allocated() / 2**30:.0f} GiB", flush=True)


def steps_rate(walker: Walker) -> float:
    """Return billions of steps a second."""
    drawn, factors = walker.draw(), walker.factors()
    last = torch.empty(walker.n_walkers, dtype=torch.int32, device="cuda")
    ms = milliseconds(lambda: walker.walk(kernels.STEPS.value, drawn, factors, nodes=last))
    return int(drawn.lengths.sum()) / ms / 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=float, default=1e8)
    parser.add_argument("--observed", type=float, default=1e5)
    parser.add_argument("--process", action="store_true", help="also fit a Gaussian process")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    n, rows = int(options.nodes), []
    wait = torch.cuda.synchronize
    with timed(rows, "entries drawn and sorted on the card", wait):
        indptr, indices = random_csr(n)
    with timed(rows, "Graph.from_csr: checked there, copied here", wait):
        graph = wk.Graph.from_csr(indptr, indices)
    engine = CUDA(keep_features=False)
    with timed(rows, "tables of the nodes", wait):
        spec = checked_spec(graph, 16, PAPER, 0, 0, range(0, n, max(1, n // STARTS)), "normalized", False)
        walker = Walker(engine, spec).at(spec.ids)
    rows.append([f"walks from {spec.ids.size} nodes, G steps/s (goal 15)", f"{steps_rate(walker):.1f}"])
    print(*rows[-1], flush=True)
    V = torch.randn(n, 16, device="cuda")
    with timed(rows, "estimate_kernel, 4 walks", wait):
        K = wk.estimate_kernel(graph, KERNEL, 4, sampler=PAPER, ensembles="independent", engine=engine)
    with timed(rows, "K @ V, 16 columns, the first time", wait):
        K @ V
    with timed(rows, "K @ V, 16 columns (goal 2 s)", wait):
        smooth = (K @ V)[:, 0].cpu().numpy()
    del V, K
    torch.cuda.empty_cache()
    if options.process:
        rng, size = np.random.default_rng(0), int(options.observed)
        known, asked = np.split(rng.choice(n, 2 * size, replace=False), 2)
        y = smooth[known] / smooth.std() + 0.1 * rng.standard_normal(size)
        model = wk.NodeGPRegressor(
            graph, wk.Diffusion(2.0), method="walks", engine="cuda", learn=("amplitude",), noise=0.01
        )
        with timed(rows, f"Gaussian process, {size} observations: fit", wait):
            model.fit(known, y)
        with timed(rows, f"standard deviations at {size} nodes (goal 60 s with the fit)", wait):
            mean, std = model.predict(asked, return_std=True)
        errors = np.abs(mean - smooth[asked] / smooth.std()) / std
        rows.append(["true values within two standard deviations", f"{np.mean(errors < 2):.3f}"])
    title = (
        f"{torch.cuda.get_device_name()}, {os.cpu_count()} cores, torch {torch.__version__}, triton "
        f"{triton.__version__}, {time.strftime('%Y-%m-%d')}\n{n:.0e} nodes, {graph.n_edges:.3g} edges, "
        f"{torch.cuda.max_memory_allocated() / 2**30:.0f} GiB of the card"
    )
    text = table(title, ["what", "seconds"], rows)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
