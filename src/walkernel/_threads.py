"""How many threads there are, and how rows are divided among them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import refuse, whole_number

FEW_DEPOSITS = 2**15
"""Deposits below which one thread is faster."""
SMALL = 2**20
"""Multiplications below which one thread is faster."""


def thread_count(n_threads: object) -> int:
    """Return the number of threads to use: the argument, the environment, or the process's CPUs."""
    if n_threads is not None:
        return whole_number("n_threads", n_threads, minimum=1)
    variable = os.environ.get("WALKERNEL_NUM_THREADS", "").strip()
    if variable:
        if not variable.isdecimal() or int(variable) < 1:
            refuse("WALKERNEL_NUM_THREADS", "a whole number of at least 1", variable)
        return int(variable)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def over_threads(work: Callable[[int, int], None], starts: NDArray[np.int64], n_threads: int) -> None:
    """Call ``work`` with ranges of rows that have about the same number of deposits, one for each thread."""
    parts = 1 if starts[-1] < FEW_DEPOSITS else n_threads
    edges = np.searchsorted(starts, starts[-1] * np.arange(parts + 1) / parts)
    edges[-1] = starts.size - 1
    if parts == 1:
        work(0, starts.size - 1)
        return
    with ThreadPoolExecutor(parts) as threads:
        list(threads.map(work, edges[:-1], edges[1:]))


def threads_for(cost: int, n_threads: int) -> int:
    """Return how many threads serve a number of multiplications best."""
    return 1 if cost < SMALL else n_threads


def split_rows(work: Callable[[int, int], None], count: int, n_threads: int, cost: int) -> None:
    """Call ``work`` with consecutive ranges of 0 … count, one for each thread."""
    parts = max(1, min(threads_for(cost, n_threads), count))
    edges = [count * i // parts for i in range(parts + 1)]
    if parts == 1:
        work(0, count)
        return
    with ThreadPoolExecutor(parts) as threads:
        list(threads.map(work, edges[:-1], edges[1:]))
