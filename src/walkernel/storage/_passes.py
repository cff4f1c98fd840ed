"""Passes over the entries of a CSR matrix, block by block: nothing of their size is put into memory.

Sums are those of whole arrays to the last bit: each row is added up by itself, in the same order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENTRIES_AT_ONCE = 2**20
COLUMN_ENTRIES_AT_ONCE = 2**22
"""Entries that are sorted by their columns together; each such block is a pass over the whole matrix."""


def row_blocks(indptr: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Yield the bounds of blocks of rows that have so many entries at most, or of one row that has more."""
    first, n_rows = 0, indptr.size - 1
    while first < n_rows:
        last = int(np.searchsorted(indptr, indptr[first] + ENTRIES_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), n_rows)
        yield first, last
        first = last


def row_sums(indptr: NDArray[np.int64], values: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the sum of the absolute values of each row; None stands for ones."""
    if values is None:
        return np.diff(indptr).astype(np.float64)
    sums = np.zeros(indptr.size - 1)
    for first, last in row_blocks(indptr):
        ends = indptr[first : last + 1]
        sums[first:last] = _segment_sums(ends - ends[0], np.abs(values[ends[0] : ends[-1]]))
    return sums


def column_sums(
    indices: NDArray[Any], values: NDArray[np.float64] | None, n_columns: int
) -> NDArray[np.float64]:
    """Return the sum of the absolute values of each column, as ``row_sums`` of the transpose does."""
    counts = np.zeros(n_columns, dtype=np.int64)
    for part in _parts(indices.size):
        counts += np.bincount(indices[part], minlength=n_columns)
    if values is None:
        return counts.astype(np.float64)
    ends = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    sums, first = np.zeros(n_columns), 0
    while first < n_columns:
        last = int(np.searchsorted(ends, ends[first] + COLUMN_ENTRIES_AT_ONCE, side="right")) - 1
        last = min(max(last, first + 1), n_columns)
        sums[first:last] = _sums_between(indices, values, first, ends[first : last + 1])
        first = last
    return sums


def _sums_between(
    indices: NDArray[Any], values: NDArray[np.float64], first: int, ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the sums of consecutive columns, whose entries end at these places of the transpose."""
    size, filled = int(ends[-1] - ends[0]), 0
    columns, found = np.empty(size, dtype=indices.dtype), np.empty(size)
    for part in _parts(indices.size):
        here = indices[part]
        inside = np.flatnonzero((here >= first) & (here < first + ends.size - 1))
        columns[filled : filled + inside.size] = here[inside]
        found[filled : filled + inside.size] = np.abs(values[part][inside])
        filled += inside.size
    return _segment_sums(ends - ends[0], found[np.argsort(columns, kind="stable")])


def _segment_sums(ends: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(ends.size - 1)
    filled = np.flatnonzero(np.diff(ends))
    if filled.size:
        sums[filled] = np.add.reduceat(values, ends[filled])
    return sums


def _parts(size: int) -> Iterator[slice]:
    return (slice(begin, begin + ENTRIES_AT_ONCE) for begin in range(0, size, ENTRIES_AT_ONCE))


def any_entry(array: NDArray[Any], test: Callable[[NDArray[Any]], NDArray[np.bool_]]) -> bool:
    """Tell whether a test holds for any entry."""
    return any(bool(test(array[part]).any()) for part in _parts(array.size))


def count_self_loops(indptr: NDArray[np.int64], indices: NDArray[Any]) -> int:
    """Return the number of entries on the diagonal."""
    total = 0
    for first, last in row_blocks(indptr):
        ends = indptr[first : last + 1]
        rows = np.repeat(np.arange(first, last), np.diff(ends))
        total += int(np.sum(indices[ends[0] : ends[-1]] == rows))
    return total


def digest_arrays(title: str, *arrays: NDArray[Any] | None) -> str:
    """Return a digest of a title and of the bytes of arrays."""
    digest = hashlib.blake2b(title.encode(), digest_size=16)
    for array in arrays:
        digest.update(b"" if array is None else np.ascontiguousarray(array).data)
    return digest.hexdigest()
