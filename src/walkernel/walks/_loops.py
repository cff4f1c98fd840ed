"""The compiled loops: flat arrays in, preallocated arrays out, the GIL released.

Importing this module imports numba; it is imported at the first walk. Functions that are inlined
into the loops live here, because numba's disk cache watches only the file a loop is written in
(``philox`` is the exception: it is a published constant and never changes).
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from walkernel._random import philox


def compiled(function: Any) -> Any:
    """Compile with a disk cache, or without one where no directory can be written."""
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:
        return numba.njit(nogil=True)(function)


_philox = compiled(philox)

MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
STREAM_BITS = np.uint64(16)
HIGH_BITS = np.uint64(0xFFFF)


@compiled
def draw(slot: int, walk: int, start: int, stream: np.uint64, k0: np.uint64, k1: np.uint64) -> Any:
    """Return the 64 bits of a slot as two 32-bit words, high word first: slot 0 is the length, t step t."""
    node = np.uint64(start)
    w0, w1, w2, w3 = _philox(
        np.uint64(slot >> 1),
        np.uint64(walk),
        node & MASK,
        (((node >> HALF) & HIGH_BITS) << STREAM_BITS) | stream,
        k0,
        k1,
    )
    if slot & 1:
        return w2, w3
    return w0, w1


@compiled
def draw_lengths(
    starts: NDArray[Any],
    n_walks: int,
    first_walk: int,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    thresholds: NDArray[np.uint64],
    lengths: NDArray[np.int32],  # (starts, walks), filled
) -> None:
    """Draw the number of steps of every walk: how many thresholds its 64-bit draw is below."""
    for i in range(starts.size):
        for k in range(n_walks):
            high, low = draw(0, first_walk + k, starts[i], stream, k0, k1)
            word = (high << HALF) | low
            length = 0
            while length < thresholds.size and word < thresholds[length]:
                length += 1
            lengths[i, k] = length


@compiled
def choose(high: np.uint64, low: np.uint64, begin: int, end: int, cdf: NDArray[np.uint64]) -> int:
    """Return the entry, in begin … end−1, that a 64-bit draw selects."""
    if cdf.size == 0:
        degree = np.uint64(end - begin)
        return begin + np.int64((high * degree + ((low * degree) >> HALF)) >> HALF)  # type: ignore[return-value]
    word = (high << HALF) | low
    first, last = begin, end - 1
    while first < last:
        middle = (first + last) >> 1
        if word < cdf[middle]:
            last = middle
        else:
            first = middle + 1
    return first


@compiled
def walk_block(
    starts: NDArray[Any],
    lengths: NDArray[np.int32],  # (starts, walks)
    first_walk: int,
    stream: np.uint64,
    k0: np.uint64,
    k1: np.uint64,
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    cdf: NDArray[np.uint64],
    leave: NDArray[np.float64],
    edge: NDArray[np.float64],
    enter: NDArray[np.float64],
    survival: NDArray[np.float64],
    counts: NDArray[np.int64],  # (starts,), filled: deposits of each start node
    nodes: NDArray[Any],  # (deposits,), filled
    hops: NDArray[np.int32],  # (deposits,), filled
    loads: NDArray[np.float64],  # (deposits,), filled
) -> int:
    """Walk all walks of a block of start nodes; return the number of deposits."""
    n = 0
    for i in range(starts.size):
        before = n
        for k in range(lengths.shape[1]):
            here = np.int64(starts[i])
            load = 1.0
            nodes[n], hops[n], loads[n] = here, 0, load
            n += 1
            for step in range(1, lengths[i, k] + 1):
                begin, end = indptr[here], indptr[here + 1]
                if begin == end:
                    break
                high, low = draw(step, first_walk + k, starts[i], stream, k0, k1)
                entry = choose(high, low, begin, end, cdf)
                if leave.size:
                    load *= leave[here]
                if edge.size:
                    load *= edge[entry]
                here = np.int64(indices[entry])
                if enter.size:
                    load *= enter[here]
                nodes[n], hops[n], loads[n] = here, step, load / survival[step]
                n += 1
        counts[i] = n - before
    return n


@compiled
def cumulate_rows(
    indptr: NDArray[np.int64],
    values: NDArray[np.float64],
    cumulative: NDArray[np.float64],
    totals: NDArray[np.float64],
) -> None:
    """Fill the cumulative sums of each row divided by the row's total, and the totals."""
    for row in range(indptr.size - 1):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += values[entry]
            cumulative[entry] = total
        for entry in range(indptr[row], indptr[row + 1]):
            cumulative[entry] /= total
        totals[row] = total
