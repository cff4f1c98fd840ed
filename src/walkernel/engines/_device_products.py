"""Products of CSR tensors with dense matrices, added up in a fixed order: two runs give the same bits.

PyTorch leaves such products to algorithms of cuSPARSE that do not promise that, and ``index_add_`` adds in
any order. Here every row is added up by one program. Long rows would keep their programs busy alone: they are
cut into pieces, which are rows of a first factor, and the pieces of a row are added up by a second one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from walkernel.engines._tensors import csr_of_counts, csr_tensor, launching_on, offsets

LONGEST_ROW = 2**10
"""Entries of a row up to which one program adds it up."""
ROWS, COLUMNS = 8, 16
"""Rows and columns of a product of many columns that one program makes."""
FEWEST_COLUMNS = 4
"""Columns from which on these programs are faster than those of single columns."""
ENTRIES, MAX_LANES = 128, 32
"""Entries that a program of a single column reads at a time, and those of one row, at most."""


def with_short_rows(matrix: Tensor) -> list[Tensor]:
    """Return CSR tensors of short rows whose product is a matrix, the last factor first."""
    factors = [matrix]
    while _longest_row(factors[-1]) > LONGEST_ROW:
        factors[-1:] = _cut_rows(factors[-1])
    return factors


def _longest_row(matrix: Tensor) -> int:
    counts = matrix.crow_indices().diff()
    return int(counts.max()) if counts.numel() else 0


def _cut_rows(matrix: Tensor) -> list[Tensor]:
    """Return the pieces of rows as a matrix, and another one that adds up the pieces of each row."""
    indptr, values = matrix.crow_indices(), matrix.values()
    counts = (indptr.diff() + LONGEST_ROW - 1) // LONGEST_ROW
    total = int(counts.sum())
    numbers = torch.arange(total, device=indptr.device)
    begins = numbers * LONGEST_ROW
    begins += torch.repeat_interleave(indptr[:-1] - offsets(counts)[:-1] * LONGEST_ROW, counts)
    ends = torch.cat([begins.to(indptr.dtype), indptr[-1:]])
    pieces = csr_tensor(ends, matrix.col_indices(), values, (total, matrix.shape[1]))
    return [pieces, csr_of_counts(counts, numbers, values.new_ones(total), (matrix.shape[0], total))]


def multiply(factors: list[Tensor], X: Tensor) -> Tensor:
    """Return a product of CSR tensors, the last factor first, times a matrix, also of no columns."""
    for matrix in factors:
        X = _product(matrix, X)
    return X


def _product(matrix: Tensor, X: Tensor) -> Tensor:
    if not X.numel() or not matrix.shape[0]:
        return X.new_zeros(matrix.shape[0], X.shape[1])
    if not X.is_cuda:
        return matrix.to(X.dtype) @ X
    return multiply_by_rows(matrix, X)


def multiply_by_rows(matrix: Tensor, X: Tensor) -> Tensor:
    """Return a CSR tensor times a matrix with at least one entry, by the kernel that suits its columns."""
    from walkernel.engines._triton_products import multiply_rows, multiply_single_columns

    n, n_columns = matrix.shape[0], X.shape[1]
    result = X.new_empty(n, n_columns)
    arrays = matrix.crow_indices(), matrix.col_indices(), matrix.values(), X, result
    with launching_on(X.device):
        if n_columns >= FEWEST_COLUMNS:
            multiply_rows[-(-n // ROWS), -(-n_columns // COLUMNS)](
                *arrays, n, n_columns, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=1
            )
        else:
            lanes = min(MAX_LANES, 1 << max(1, (matrix.values().numel() // n).bit_length()))
            rows = ENTRIES // lanes
            multiply_single_columns[-(-n // rows), n_columns](
                *arrays, n, n_columns, ROWS=rows, LANES=lanes, num_warps=1
            )
    return result


def squared_norms(matrix: Tensor) -> Tensor:
    """Return ‖·‖² of each row of a CSR tensor in double precision, (rows,)."""
    counts, squares = matrix.crow_indices().diff(), matrix.values().double().square()
    return sum_runs(squares, counts)


def sum_runs(values: Tensor, counts: Tensor) -> Tensor:
    """Return the sums of runs of so many values each, in their precision, (runs,)."""
    columns = torch.zeros(values.numel(), dtype=torch.int32, device=values.device)
    runs = csr_of_counts(counts, columns, values, (counts.numel(), 1))
    return multiply(with_short_rows(runs), values.new_ones(1, 1))[:, 0]
