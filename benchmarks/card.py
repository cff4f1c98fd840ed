"""What the scripts that measure a CUDA device share: the device, clocks, sizes, graphs, and files of tables.

Without a device all tables can be rehearsed: with TRITON_INTERPRET=1 they are made on the CPU, where Triton
interprets its kernels, at tiny sizes. Times then mean nothing, but what can be checked is.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import triton
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

import walkernel as wk
from walkernel.engines import _device_heads, _device_walks
from walkernel.planning import Plan, Request, make_plan
from walkernel.torch import _attention, _sparse, _walk_tensors

T = TypeVar("T")
REHEARSES = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if REHEARSES else "cuda"
BUCKETS = 16
"""Ranges of rows whose entries are sorted together: PyTorch sorts fewer than 2³¹ numbers."""
HEADING = re.compile(r"^# (\w+): ", re.MULTILINE)

if REHEARSES:  # what the interpreter needs grows with the number of programs, and hardly with their size
    _device_walks.BLOCK, _device_heads.BLOCK, _device_heads.ROWS, _device_heads.STARTS = 2048, 4096, 256, 64
    for module in (_attention, _sparse, _walk_tensors):
        module.LOOP_DEVICE = "none"  # the CPU stands for the device


class Size(IntEnum):
    """How large the graphs are."""

    FULL, QUICK, TINY = range(3)

    def of(self, full: T, quick: T, tiny: T) -> T:
        """Return what belongs to this size."""
        return (full, quick, tiny)[self]


def synchronize() -> None:
    """Wait for the device."""
    if not REHEARSES:
        torch.cuda.synchronize()


def seconds(run: Callable[[], object]) -> float:
    """Return the time of a call, until the device has done its work."""
    synchronize()
    begin = time.perf_counter()
    run()
    synchronize()
    return time.perf_counter() - begin


def milliseconds(run: Callable[[], object], repeats: int = 7) -> float:
    """Return the median time of CUDA events around a call, after a warm-up."""
    if REHEARSES:
        return 1e3 * seconds(run)
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


def allocated() -> float:
    """Return the GiB of the device that are in use, above which ``peak`` may rise from now on."""
    if REHEARSES:
        return 0.0
    torch.cuda.reset_peak_memory_stats()
    return torch.cuda.memory_allocated() / 2**30


def peak() -> float:
    """Return the most GiB of the device that were in use."""
    return 0.0 if REHEARSES else torch.cuda.max_memory_allocated() / 2**30


def kernel_times(run: Callable[[], object]) -> list[tuple[float, int, str]]:
    """Return the milliseconds, the number of calls and the name of each kernel of a call."""
    kind = ProfilerActivity.CPU if REHEARSES else ProfilerActivity.CUDA
    with profile(activities=[kind]) as found:
        run()
        synchronize()
    one = "self_cpu_time_total" if REHEARSES else "self_device_time_total"
    return [(getattr(each, one) / 1e3, each.count, each.key) for each in found.key_averages()]


def random_csr(n: int, degree: int) -> tuple[Tensor, Tensor]:
    """Return row pointers and columns of a random graph of n · degree edges or less, none twice, no loops."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    ends = [
        torch.randint(0, n, (degree * n,), dtype=torch.int32, device=DEVICE, generator=generator)
        for _ in range(2)
    ]
    counts = torch.zeros(n, dtype=torch.int64, device=DEVICE)
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
    indptr = torch.zeros(n + 1, dtype=torch.int64, device=DEVICE)
    torch.cumsum(counts, 0, out=indptr[1:])
    return indptr, torch.cat(parts)


@functools.cache
def random_graph(n: int, degree: int = 10) -> wk.Graph:
    """Return such a graph, made once in a process."""
    return wk.Graph.from_csr(*random_csr(n, degree))


def default_plan(graph: wk.Graph, t: float, steps: int) -> tuple[wk.Kernel, Plan]:
    """Return the diffusion kernel of a time, and the walks that are the default for so many steps a node."""
    kernel, n = wk.Diffusion(float(np.sqrt(2 * t))), graph.n_nodes
    ids, budget = np.arange(n), float(steps * n)
    return kernel, make_plan(Request(graph, kernel, ids, "symmetric", "shared", None, budget, None, 1, False))


def agreement(pairs: Iterable[tuple[Any, Any]], other: str = "the CPU") -> str:
    """Return a line with the largest difference of pairs of arrays, relative to their largest numbers."""
    largest = max(float(abs(ours - theirs).max() / abs(theirs).max()) for ours, theirs in pairs)
    return f"\nlargest difference to {other}: {largest:.0e}\n"


def tell(cells: list[str]) -> list[str]:
    """Return a row of a table, which is printed at once for runs that are cut off."""
    print(*cells, sep="  ", file=sys.stderr, flush=True)
    return cells


def machine(size: Size) -> str:
    """Return where tables were made, and when."""
    name = "interpreted: times mean nothing" if REHEARSES else torch.cuda.get_device_name()
    sizes = "" if size is Size.FULL else f", {size.name.lower()} sizes"
    return (
        f"{name}{sizes}, {os.cpu_count()} cores, torch {torch.__version__}, triton {triton.__version__}, "
        f"walkernel {wk.__version__}, {time.strftime('%Y-%m-%d')}"
    )


def write(path: Path, name: str, text: str) -> None:
    """Write a table to a file, in place of an earlier one of the same name; the others stay."""
    _, *found = HEADING.split(path.read_text() if path.exists() else "")
    tables = dict(zip(found[::2], found[1::2], strict=True)) | {name: text}
    new = path.with_name(path.name + ".new")
    new.write_text("\n\n".join(f"# {key}: {each.rstrip()}" for key, each in tables.items()) + "\n")
    new.replace(path)


def run(tables: Mapping[str, Callable[[Size], str]]) -> None:
    """Print the tables that the command line names, each as soon as it is there."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tables", nargs="*", help=f"some of {', '.join(tables)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="smaller graphs")
    parser.add_argument("--tiny", action="store_true", help="the graphs of a rehearsal")
    parser.add_argument("--out", type=Path, help="file in which tables take the place of earlier ones")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(tables):
        parser.error(f"tables must be among {', '.join(tables)}, got {', '.join(sorted(unknown))}")
    if not (REHEARSES or torch.cuda.is_available()):
        needs = "needs a CUDA device, or TRITON_INTERPRET=1 to rehearse its tables on the CPU at tiny sizes."
        parser.exit(1, f"{parser.prog} {needs}\n")
    size = Size.TINY if REHEARSES or options.tiny else Size.QUICK if options.quick else Size.FULL
    for name in options.tables or tables:
        text = f"{machine(size)}\n\n{tables[name](size)}"
        print(f"# {name}: {text}", flush=True)
        if options.out is not None:
            write(options.out, name, text)
