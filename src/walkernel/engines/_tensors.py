"""Sparse matrices as CSR tensors: their rows, their transposes, and their ways to SciPy and back."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

PAIRS_AT_ONCE = 2**25
"""Pairs of entries whose products are in memory together, 40 bytes each."""
DENSE_ENTRIES = 2**28
"""Entries of sparse matrices that are stored as dense ones together."""
DENSE_SPEED, SPARSE_SPEED = 2e13, 5e9
"""Multiplications per second of dense products and of pairs of entries, to choose between them."""


def csr_tensor(indptr: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return a CSR tensor, without checks."""
    return torch.sparse_csr_tensor(indptr, columns, values, size, check_invariants=False)


def to_device(array: NDArray[Any], device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return an array as a tensor; words of 64 bits become signed integers."""
    array = np.ascontiguousarray(array)
    signed = array.view(np.int64) if array.dtype == np.uint64 else array
    return torch.tensor(signed, dtype=dtype, device=device)


def _silence_csr_warnings() -> None:
    """Trigger the warnings that PyTorch gives once per process about CSR tensors, and suppress them.

    Changing the filters around each product instead would make other warnings appear repeatedly.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support", category=UserWarning)
        warnings.filterwarnings("ignore", message="Sparse invariant checks", category=UserWarning)
        none = torch.zeros(0, dtype=torch.int64, device="cpu")
        csr_tensor(torch.zeros(2, dtype=torch.int64, device="cpu"), none, none.double(), (1, 1))


_silence_csr_warnings()


def csr_of_counts(counts: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return the CSR tensor of rows with so many entries each; indices are 32 bits wide where they fit."""
    small = max(values.numel(), *size) < 2**31
    indptr = offsets(counts)
    kind = torch.int32 if small else torch.int64
    return csr_tensor(indptr.to(kind), columns.to(kind), values, size)


def offsets(counts: Tensor) -> Tensor:
    """Return where parts of these sizes begin, and where the last one ends."""
    return torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))


def launching_on(device: torch.device) -> AbstractContextManager[Any]:
    """Make a device the one that Triton launches kernels on."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def memory_of(device: torch.device) -> int:
    """Return the bytes that a device has; for a CPU, on which kernels are interpreted, some that suit it."""
    if device.type != "cuda":
        return 2**35
    return int(torch.cuda.get_device_properties(device).total_memory)


def rows_of(indptr: Tensor) -> Tensor:
    """Return the row of each entry."""
    counts = indptr.diff()
    return torch.repeat_interleave(torch.arange(counts.numel(), device=indptr.device), counts)


def stack(parts: list[Tensor]) -> Tensor:
    """Return CSR tensors one below the other."""
    if len(parts) == 1:
        return parts[0]
    counts = torch.cat([part.crow_indices().diff() for part in parts]).long()
    columns, values = (torch.cat([*each]) for each in zip(*map(_entries, parts), strict=True))
    return csr_of_counts(counts, columns, values, (counts.numel(), parts[0].shape[1]))


def _entries(matrix: Tensor) -> tuple[Tensor, Tensor]:
    return matrix.col_indices(), matrix.values()


def take(matrix: Tensor, positions: NDArray[np.int64]) -> Tensor:
    """Return some rows of a CSR tensor, in order."""
    indptr = matrix.crow_indices().long()
    rows = torch.tensor(np.ascontiguousarray(positions), device=indptr.device)
    counts = indptr.diff()[rows]
    before = torch.cumsum(counts, 0) - counts
    places = torch.arange(int(counts.sum()), device=indptr.device)
    places += torch.repeat_interleave(indptr[rows] - before, counts)
    columns, values = _entries(matrix)
    return csr_of_counts(counts, columns[places], values[places], (rows.numel(), matrix.shape[1]))


def transpose(matrix: Tensor) -> Tensor:
    """Return the transpose of a CSR tensor as another one."""
    columns, values = _entries(matrix)
    order = torch.argsort(columns, stable=True)
    counts = torch.bincount(columns, minlength=matrix.shape[1])
    rows = rows_of(matrix.crow_indices())[order]
    return csr_of_counts(counts, rows, values[order], (matrix.shape[1], matrix.shape[0]))


def without_zeros(matrix: Tensor) -> Tensor:
    """Return a CSR tensor without the entries that are zero."""
    columns, values = _entries(matrix)
    kept = values != 0
    if bool(kept.all()):
        return matrix
    counts = torch.bincount(rows_of(matrix.crow_indices())[kept], minlength=matrix.shape[0])
    return csr_of_counts(counts, columns[kept], values[kept], (matrix.shape[0], matrix.shape[1]))


def scale_rows(matrix: Tensor, factors: Tensor) -> Tensor:
    """Return a CSR tensor with its rows multiplied by factors."""
    values = matrix.values() * factors[rows_of(matrix.crow_indices())]
    return csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, tuple(matrix.shape))


def gram(left: Tensor, right: Tensor, right_transposed: Tensor) -> Tensor:
    """Return A Bᵀ of CSR tensors in double precision as a dense one, given B and Bᵀ.

    Either all pairs of entries that meet in a column are added up, or the columns that both reach are
    multiplied as dense blocks, whichever costs less.
    """
    result = torch.zeros(left.shape[0], right.shape[0], dtype=torch.float64, device=left.device)
    visits = right_transposed.crow_indices().diff().long()
    meetings = visits[left.col_indices().long()]
    met = (visits > 0) & (torch.bincount(left.col_indices(), minlength=left.shape[1]) > 0)
    n_meetings, n_met = int(meetings.sum()), int(met.sum())
    if result.numel() * n_met / DENSE_SPEED < n_meetings / SPARSE_SPEED:
        _add_dense_blocks(result, left, right, met)
    elif n_meetings:
        for rows, others, products in _meeting_entries(left, right_transposed, meetings):
            result.view(-1).index_add_(0, rows * result.shape[1] + others, products)
    return result


def sparse_gram(matrix: Tensor, transposed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values that add up to A Aᵀ, one for each pair of entries in a column."""
    meetings = transposed.crow_indices().diff().long()[matrix.col_indices().long()]
    rows, columns, values = zip(*_meeting_entries(matrix, transposed, meetings), strict=True)
    return torch.cat(rows), torch.cat(columns), torch.cat(values)


def _meeting_entries(
    left: Tensor, right_transposed: Tensor, meetings: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield row of A, row of B, and product of all pairs of entries in the same column, some at a time."""
    rows, (columns, values) = rows_of(left.crow_indices()), _entries(left)
    begins, (others, factors) = right_transposed.crow_indices().long(), _entries(right_transposed)
    ends = torch.cumsum(meetings, 0)
    starts = ends - meetings
    n_blocks = -(-int(ends[-1]) // PAIRS_AT_ONCE)
    edges = torch.searchsorted(ends, ends[-1] * torch.arange(n_blocks + 1, device=ends.device) // n_blocks)
    edges[-1] = ends.numel()
    for first, last in pairwise(edges.tolist()):
        counts = meetings[first:last]
        size = int(counts.sum())
        entry = first + torch.repeat_interleave(counts, output_size=size)
        place = torch.arange(size, device=ends.device) - starts[entry] + starts[first]
        place += begins[columns[entry].long()]
        yield rows[entry], others[place].long(), values[entry] * factors[place]


def _add_dense_blocks(result: Tensor, left: Tensor, right: Tensor, met: Tensor) -> None:
    """Add the product of the columns that both reach, some of them at a time."""
    rank = torch.where(met, torch.cumsum(met, 0) - 1, -1)
    size, n_met = max(1, DENSE_ENTRIES // sum(result.shape)), int(met.sum())
    sides = [(side, rows_of(side.crow_indices()), rank[side.col_indices().long()]) for side in (left, right)]
    for first in range(0, n_met, size):
        width, blocks = min(size, n_met - first), []
        for side, rows, columns in sides:
            kept = (columns >= first) & (columns < first + width)
            block = result.new_zeros(side.shape[0], width)
            block[rows[kept], columns[kept] - first] = side.values()[kept]
            blocks.append(block)
        result += blocks[0] @ blocks[1].T


def bytes_of(matrix: Tensor) -> int:
    """Return the memory that a CSR tensor takes."""
    return sum(t.numel() * t.element_size() for t in (matrix.crow_indices(), *_entries(matrix)))


def to_scipy(matrix: Tensor) -> scipy.sparse.csr_array:
    """Return a CSR tensor as a SciPy array of float64."""
    columns, values = _entries(matrix)
    arrays = [tensor.cpu().numpy() for tensor in (values.cpu().double(), columns, matrix.crow_indices())]
    return scipy.sparse.csr_array((arrays[0], *arrays[1:]), shape=tuple(matrix.shape))


def from_scipy(matrix: scipy.sparse.csr_array, device: Any, dtype: torch.dtype) -> Tensor:
    """Return a SciPy array as a CSR tensor."""
    counts, columns = (torch.tensor(a, device=device) for a in (np.diff(matrix.indptr), matrix.indices))
    return csr_of_counts(counts, columns, torch.tensor(matrix.data, dtype=dtype, device=device), matrix.shape)
