"""A compiled loop for the derivative of A Bᵀ, for matrices in CSC format.

Column j of A has its rows in ``rows[indptr[j] : indptr[j + 1]]``, and its entries at the same positions of
``values``. Pairs of rows without a common column cost nothing.
"""

from __future__ import annotations

from typing import Any

from walkernel.walks.compiling import compiled


@compiled
def sum_products(
    indptr: Any,
    rows: Any,
    other_indptr: Any,
    other_rows: Any,
    other_values: Any,
    grad: Any,  # (rows of A, rows of B)
    out: Any,  # (nnz of A,)
) -> None:
    """Write G B at the entries of A to ``out``."""
    for column in range(indptr.size - 1):
        first, last = other_indptr[column], other_indptr[column + 1]
        for place in range(indptr[column], indptr[column + 1]):
            row, total = rows[place], 0.0
            for other in range(first, last):
                total += grad[row, other_rows[other]] * other_values[other]
            out[place] = total
