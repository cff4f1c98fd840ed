"""Sums over the walks of each group, without features: what error bars of products are made of.

For walks in G groups, with φ_ig the feature of group g of start node i,

    gathered[i, g] = φ_ig · u        scattered[g] = Σ_i v_i φ_ig

are sums over deposits. The nodes are walked from again and every deposit is added where it belongs. The order
of all sums is fixed: start nodes are cut into chunks, whose number does not depend on that of the threads,
and the sums of the chunks are added in turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.walks._sampling import TASK_WALKS, Pool, Request, _walk
from walkernel.walks.compiling import compiled

CHUNKS = 16
"""Chunks of start nodes at most, each with sums of its own while it is walked."""


class Sums(NamedTuple):
    """What deposits are multiplied by, and where they are added; arrays without entries are left out."""

    u: NDArray[np.float64]  # (c, columns)
    v: NDArray[np.float64]  # (rows, c)
    gathered: NDArray[np.float64]  # (rows, c, groups), filled
    scattered: NDArray[np.float64]  # (c, groups, columns), added to


@compiled
def number_columns(n: int, nodes: Any, values: NDArray[np.float64], columns: NDArray[np.int32]) -> None:
    """Turn nodes into columns, in place; deposits on nodes without one (-1) become zero."""
    for q in range(n):
        column = columns[nodes[q]]
        nodes[q] = max(column, 0)
        if column < 0:
            values[q] = 0.0


@compiled
def find_groups(size: int, lengths: NDArray[np.int32], starts: NDArray[np.int64]) -> None:
    """Fill where the deposits of each group of walks, ``size`` of them, begin and the last ones end."""
    begin = np.int64(0)
    for group in range(starts.size - 1):
        starts[group] = begin
        for length in lengths[group * size : (group + 1) * size]:
            begin += length + 1
    starts[-1] = begin


@compiled
def add_deposits(
    n_groups: int, starts: NDArray[np.int64], nodes: Any, values: NDArray[np.float64], sums: Sums
) -> None:
    """Add the deposits of some rows; group by group, so that what is added to stays in the cache."""
    rows = (starts.size - 1) // n_groups
    for c in range(max(sums.u.shape[0], sums.v.shape[1])):
        for g in range(n_groups):
            for row in range(rows):
                first, last = starts[row * n_groups + g], starts[row * n_groups + g + 1]
                if sums.u.size:
                    u, total = sums.u[c], 0.0
                    for q in range(first, last):
                        total += values[q] * u[nodes[q]]
                    sums.gathered[row, c, g] = total
                if sums.v.size:
                    target, weight = sums.scattered[c, g], sums.v[row, c]
                    for q in range(first, last):
                        target[nodes[q]] += weight * values[q]


@compiled
def multiply_groups(
    first: int,
    last: int,
    indptr: Any,
    indices: Any,
    data: NDArray[np.float64],
    groups: NDArray[np.float32],  # (columns, groups)
    out: NDArray[np.float64],  # (rows, groups), added to
) -> None:
    """Add the product of some rows of a CSR matrix with a dense one of few columns."""
    total = np.empty(groups.shape[1], dtype=np.float32)
    for row in range(first, last):
        total[:] = 0.0
        for q in range(indptr[row], indptr[row + 1]):
            value, own = np.float32(data[q]), groups[indices[q]]
            for g in range(total.size):
                total[g] += value * own[g]
        out[row] += total


def project(
    request: Request,
    factors: NDArray[np.float64],  # (lengths,): what the load of a deposit is multiplied by
    starts: NDArray[np.int64],
    n_groups: int,
    u: NDArray[np.float64],  # (c, columns), or empty
    v: NDArray[np.float64],  # (starts, c), or empty
    columns: NDArray[np.int32] | None,  # (n_nodes,): the column of each node, -1 for none; None: itself
    n_columns: int,
    n_threads: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Walk from all start nodes: (gathered, scattered), empty where there is no u or no v."""
    gathered = np.empty((starts.size, u.shape[0], n_groups) if u.size else (0, 0, 0))
    scattered = np.zeros((v.shape[1], n_groups, n_columns) if v.size else (0, 0, 0))
    pool = Pool([request.table.indices.dtype, np.float64])
    step = max(1, TASK_WALKS // request.n_walks)
    edges = np.linspace(0, starts.size, 1 + min(CHUNKS, -(-starts.size // step))).astype(int)

    def work(chunk: int) -> NDArray[np.float64]:
        own = np.zeros_like(scattered)
        for first in range(edges[chunk], edges[chunk + 1], step):
            part = slice(first, min(first + step, edges[chunk + 1]))
            lengths, n, (nodes, values) = _walk(request, factors, starts[part], pool)
            if columns is not None:
                number_columns(n, nodes, values, columns)
            where = np.empty((part.stop - first) * n_groups + 1, dtype=np.int64)
            find_groups(request.n_walks // n_groups, lengths, where)
            sums = Sums(u, v[part], gathered[part], own)
            add_deposits(n_groups, where, nodes, values, sums)
            pool.give_back([nodes, values])
        return own

    for own in _in_turn(work, edges.size - 1, n_threads):
        scattered += own
    return gathered, scattered


def _in_turn(
    work: Callable[[int], NDArray[np.float64]], count: int, n_threads: int
) -> Iterator[NDArray[np.float64]]:
    """Yield the results of work(0), work(1), …; no more of them are held than twice the threads."""
    if n_threads == 1:
        yield from map(work, range(count))
        return
    with ThreadPoolExecutor(min(n_threads, count)) as threads:
        pending: deque[Future[NDArray[np.float64]]] = deque()
        for chunk in range(count):
            pending.append(threads.submit(work, chunk))
            while len(pending) == 2 * n_threads or (chunk == count - 1 and pending):
                yield pending.popleft().result()
