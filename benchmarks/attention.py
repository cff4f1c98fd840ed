"""Time and memory of masked linear attention, beside dense masking and linear attention without a mask.

    python benchmarks/attention.py [--quick] [--out FILE]

A pass is the output, a loss, and all gradients: of queries, keys, values and one modulation function a head.
The graph has five edges a node at random; walks are those of a kernel that gives about 32 entries a row. All
three have the same inputs, in single precision, on the CUDA device if there is one. Memory is the most that a
pass allocates there beyond its inputs and walks. Exponents are slopes between sizes, in logarithms.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from core import random_graph, table
from torch import Tensor

import walkernel as wk
from walkernel.torch import WalkTensors, masked_attention

HEADS, COLUMNS = 8, 16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SAMPLER = wk.IndependentWalks(0.25)
N_WALKS = 12


def walks_on(n_nodes: int) -> WalkTensors:
    """Return walks with about 32 entries a row."""
    graph = random_graph(n_nodes, degree=5)
    walks = wk.sample_walks(graph, N_WALKS, sampler=SAMPLER, engine=DEVICE if DEVICE == "cuda" else None)
    return WalkTensors(walks, device=DEVICE, dtype=torch.float32)


def positive(x: Tensor) -> Tensor:
    return torch.nn.functional.elu(x) + 1


def masked(walks: WalkTensors, q: Tensor, k: Tensor, v: Tensor, f: Tensor) -> Tensor:
    return masked_attention(q, k, v, walks, f=f)


def dense(walks: WalkTensors, q: Tensor, k: Tensor, v: Tensor, f: Tensor) -> Tensor:
    features = torch.stack([walks.dense(one) for one in f])
    weights = (features @ features.mT) * (positive(q) @ positive(k).mT)
    return (weights / weights.sum(-1, keepdim=True)) @ v


def unmasked(walks: WalkTensors, q: Tensor, k: Tensor, v: Tensor, f: Tensor) -> Tensor:
    q, k = positive(q), positive(k)
    return (q @ (k.mT @ v)) / (q @ k.sum(-2, keepdim=True).mT)


def measure(attend: Callable[..., Tensor], walks: WalkTensors, repeats: int) -> tuple[float, float]:
    """Return seconds and GiB of a pass."""
    n = walks.shape[0]
    generator = torch.Generator().manual_seed(0)
    inputs = [
        torch.randn(HEADS, n, COLUMNS, generator=generator).to(DEVICE).requires_grad_() for _ in range(3)
    ]
    lengths = torch.arange(walks.n_lengths, device=DEVICE, dtype=torch.float32)
    f = (0.5**lengths).expand(HEADS, -1).clone().requires_grad_()
    times, most = [], 0
    for _ in range(repeats + 1):
        for x in (*inputs, f):
            x.grad = None
        if DEVICE == "cuda":
            torch.cuda.synchronize()
            before = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
        begin = time.perf_counter()
        attend(walks, *inputs, f).square().mean().backward()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
            most = torch.cuda.max_memory_allocated() - before
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:]), most / 2**30


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sizes = [1000, 2000, 4000] if options.quick else [1000, 2000, 4000, 8000, 16000, 10**5, 10**6]
    largest = {masked: math.inf, unmasked: math.inf, dense: 2000 if options.quick else 16000}
    rows, first = [], {}
    for n in sizes:
        walks = walks_on(n)
        row = [str(n), f"{walks.n_entries / n:.1f}"]
        for attend, limit in largest.items():
            if n > limit:
                row += ["", ""]
                continue
            seconds, memory = measure(attend, walks, 3 if n > 10**5 else 7)
            first[attend, n] = seconds, memory
            row += [f"{1e3 * seconds:.2f}", f"{memory:.3f}" if memory else ""]
        rows.append(row)
    columns = [f"{attend.__name__} {unit}" for attend in largest for unit in ("ms", "GiB")]
    where = torch.cuda.get_device_name() if DEVICE == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    text = f"{where}, {os.cpu_count()} cores, torch {torch.__version__}, walkernel {wk.__version__}, "
    text += f"{time.strftime('%Y-%m-%d')}\n\n"
    text += table(
        f"A pass of {HEADS} heads of {COLUMNS} (goal: 1 s for 10⁶ tokens)",
        ["tokens", "entries a row", *columns],
        rows,
    )
    small, large = sizes[-3 if options.quick else -2], sizes[-1]
    for attend in (masked, unmasked):
        for name, a, b in zip(("time", "memory"), first[attend, small], first[attend, large], strict=True):
            if a:
                exponent = math.log(b / a) / math.log(large / small)
                text += f"\nexponent of {name}, {attend.__name__}, {small} to {large} tokens: {exponent:.2f}"
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
