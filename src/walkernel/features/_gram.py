"""ΦΨᵀ as a dense matrix, of features in memory.

Rows of Φ and Ψ meet in a column where both have an entry, and each meeting is a multiplication. Some rows of
Φ are taken at a time, as many as have sums that stay in the processor's cache, and the columns are visited
one after the other, so that entries are read in order: SciPy's sparse product takes several times as long.
Each sum is in the order of the columns, whatever the number of rows and threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse

from walkernel.features._products import Dense
from walkernel.walks.compiling import compiled

MAX_DENSE_ENTRIES = 2**26
"""Entries up to which features may be stored as dense arrays."""
DENSE_SPEED, SPARSE_SPEED = 2e10, 5e8
"""Multiplications per second of dense and of sparse products, to choose between them."""
SUMS_AT_ONCE = 2**17
"""Sums that stay in the cache of a processor."""
LITTLE_WORK = 2**18
"""Entries and meetings, beyond one a column, up to which SciPy's product is fast enough."""


def gram(left: scipy.sparse.csr_array, right: scipy.sparse.csr_array, n_threads: int = 1) -> Dense:
    """Return Φ₁Φ₂ᵀ as an array, by a sparse or a dense product, whichever costs less."""
    if is_dense_cheaper(left, right, 1):
        return np.asarray(left.toarray() @ right.toarray().T)
    if left.nnz + right.nnz + _meetings(left, right) <= LITTLE_WORK + left.shape[1]:
        return np.asarray((left @ right.T).toarray())
    other, result = right.tocsc(), np.zeros((left.shape[0], right.shape[0]))
    step = max(1, SUMS_AT_ONCE // right.shape[0])

    def add(first: int) -> None:
        rows = slice(first, first + step)
        own = left[rows].tocsc()
        arrays = own.indptr, own.indices, own.data, other.indptr, other.indices, other.data
        add_products(*arrays, result[rows])

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(add, range(0, left.shape[0], step)))
    return result


def is_dense_cheaper(left: scipy.sparse.csr_array, right: scipy.sparse.csr_array, n_products: int) -> bool:
    """Return whether one dense product costs less than ``n_products`` sparse products Φ₁Φ₂ᵀ."""
    (n, n_columns), m = left.shape, right.shape[0]
    if (n + m) * n_columns > MAX_DENSE_ENTRIES:
        return False
    return n * m * n_columns / DENSE_SPEED < n_products * _meetings(left, right) / SPARSE_SPEED


def _meetings(left: scipy.sparse.csr_array, right: scipy.sparse.csr_array) -> int:
    """Return in how many columns rows of one matrix meet rows of the other, added up over all pairs."""
    visits = np.bincount(left.indices, minlength=left.shape[1])
    others = visits if left is right else np.bincount(right.indices, minlength=left.shape[1])
    return int(visits @ others)


@compiled
def add_products(
    indptr: Any,  # (columns + 1,)
    rows: Any,  # (nnz of A,)
    values: Any,  # (nnz of A,)
    other_indptr: Any,
    other_rows: Any,
    other_values: Any,
    out: Any,  # (rows of A, rows of B)
) -> None:
    """Add A Bᵀ to ``out``, for matrices in CSC format: pairs without a common column cost nothing."""
    for column in range(indptr.size - 1):
        first, last = other_indptr[column], other_indptr[column + 1]
        for place in range(indptr[column], indptr[column + 1]):
            row, value = rows[place], values[place]
            for other in range(first, last):
                out[row, other_rows[other]] += value * other_values[other]
