"""Products of a CSR matrix with dense columns as Triton kernels, of which each program makes a few rows.

What a product of many columns moves is mostly the rows of the dense factor, one for each entry: neighbouring
lanes read them whole, which is two to three times as fast as cuSPARSE for sixteen columns. Of few columns,
neighbouring lanes read the entries of a row. Both add up in a fixed order, so that two runs give the same
bits. A row of very many entries would keep its program busy alone: ``_device_products`` cuts it into pieces.
"""

# mypy: ignore-errors
# Triton compiles this function, and knows no annotations but its own.

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def multiply_rows(
    indptr,  # (n + 1,)
    indices,  # (entries,)
    values,  # (entries,)
    factor,  # (columns of the matrix, n_columns)
    result,  # (n, n_columns), filled
    n,
    n_columns,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Multiply some rows of a matrix with some columns of a factor."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    begin = tl.load(indptr + row, mask=row < n, other=0).to(tl.int64)
    end = tl.load(indptr + row + 1, mask=row < n, other=0).to(tl.int64)
    total = tl.zeros([ROWS, COLUMNS], dtype=result.dtype.element_ty)
    for k in range(tl.max(end - begin, axis=0)):
        entry = begin + k
        node = tl.load(indices + entry, mask=entry < end, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=entry < end, other=0.0)
        inside = (entry < end)[:, None] & (column < n_columns)[None, :]
        at = node[:, None] * n_columns + column[None, :]
        total += value[:, None] * tl.load(factor + at, mask=inside, other=0.0)
    inside = (row < n)[:, None] & (column < n_columns)[None, :]
    tl.store(result + row[:, None] * n_columns + column[None, :], total, mask=inside)


@triton.jit
def multiply_single_columns(
    indptr,  # (n + 1,)
    indices,  # (entries,)
    values,  # (entries,)
    factor,  # (columns of the matrix, n_columns)
    result,  # (n, n_columns), filled
    n,
    n_columns,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Multiply some rows of a matrix with one column of a factor, some entries of each row at a time."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(1)
    begin = tl.load(indptr + row, mask=row < n, other=0).to(tl.int64)
    end = tl.load(indptr + row + 1, mask=row < n, other=0).to(tl.int64)
    total = tl.zeros([ROWS, LANES], dtype=result.dtype.element_ty)
    for k in range((tl.max(end - begin, axis=0) + LANES - 1) // LANES):
        entry = begin[:, None] + (k * LANES + tl.arange(0, LANES))[None, :]
        inside = entry < end[:, None]
        node = tl.load(indices + entry, mask=inside, other=0).to(tl.int64)
        value = tl.load(values + entry, mask=inside, other=0.0)
        total += value * tl.load(factor + node * n_columns + column, mask=inside, other=0.0)
    tl.store(result + row * n_columns + column, tl.sum(total, axis=1), mask=row < n)
