"""Products of features that are the same to the last bit, wherever their rows are kept.

Φ X is made row by row. Φᵀ V is a sum over the rows of Φ, and rounding depends on the order of a sum: so the
rows are cut into a few leaves, by their number alone, each leaf adds up its rows in order, and the
sums of the leaves are added along a fixed binary tree,

    total(i … k) = total(i … j) + total(j … k),  j = ⌊(i + k) / 2⌋.

Threads, files and machines each take some rows, leaves or branches, and all of them get the same bits. Φ X
and R Φᵀ are SciPy's products, which release the GIL.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._threads import split_rows, threads_for

LEAF_ROWS, FEW_LEAVES, MANY_LEAVES = 2**8, 16, 64
"""Least number of rows of a leaf, and most leaves: as many as 16 cost little, and a cluster wants more."""
MANY_ROWS = 2**20
"""Rows of each leaf where there are more than few of them."""
SUMS_AT_ONCE = 2**23
"""Numbers of a sum; more columns are added up in turn, since a sum has one for each level of the tree."""

Dense: TypeAlias = NDArray[np.float64]


def leaves(n_rows: int) -> NDArray[np.int64]:
    """Return the rows where the leaves of a sum over rows begin, and where the last one ends."""
    many = max(FEW_LEAVES, min(MANY_LEAVES, n_rows // MANY_ROWS))
    count = max(1, min(many, n_rows // LEAF_ROWS))
    return n_rows * np.arange(count + 1, dtype=np.int64) // count


def block_edges(n_rows: int, block_size: int) -> NDArray[np.int64]:
    """Return the rows where blocks of a size begin, and where the last one, which may have fewer, ends."""
    return np.append(np.arange(0, n_rows, block_size, dtype=np.int64), n_rows)


def by_block(
    edges: NDArray[np.int64], positions: NDArray[np.int64]
) -> list[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
    """Return the blocks that have some of the rows: (number, places in ``positions``, rows of the block)."""
    owners = np.searchsorted(edges, positions, side="right") - 1
    order = np.argsort(owners, kind="stable")
    numbers, begins = np.unique(owners[order], return_index=True)
    places = np.split(order, begins[1:])
    return [(b, at, positions[at] - edges[b]) for b, at in zip(numbers.tolist(), places, strict=False)]


def bytes_of(matrix: scipy.sparse.csr_array) -> int:
    """Return the memory that a matrix takes."""
    return int(matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes)


def multiply(matrix: scipy.sparse.csr_array, X: Dense, n_threads: int) -> Dense:
    """Return Φ X, threads over rows."""
    out = np.empty((matrix.shape[0], X.shape[1]))

    def work(first: int, last: int) -> None:
        out[first:last] = _row_range(matrix, first, last) @ X

    split_rows(work, matrix.shape[0], n_threads, matrix.nnz * X.shape[1])
    return out


def multiply_transposed(matrix: scipy.sparse.csr_array, V: Dense, n_threads: int) -> Dense:
    """Return Φᵀ V, threads over the branches of the sum."""
    starts = leaves(matrix.shape[0])

    def product(part: Dense) -> Dense:
        return sum_of_leaves(matrix, part, starts, threads_for(matrix.nnz * part.shape[1], n_threads))

    return some_columns_at_a_time(product, V, matrix.shape[1])


def some_columns_at_a_time(product: Callable[[Dense], Dense], V: Dense, n_columns: int) -> Dense:
    """Return a product with V, whose sums over ``n_columns`` are made for some columns of V at a time."""
    count, size = V.shape[1], max(1, SUMS_AT_ONCE // max(1, n_columns))
    if count <= size:
        return product(V)
    out = np.empty((n_columns, count))
    for first in range(0, count, size):
        part = slice(first, first + size)
        out[:, part] = product(np.ascontiguousarray(V[:, part]))
    return out


def keep_reached(*sides: scipy.sparse.csr_array) -> tuple[NDArray[np.int64], list[scipy.sparse.csr_array]]:
    """Drop the columns that no side reaches: (nodes kept, in order, sides); no cost in their number."""
    from walkernel.walks._coalesce import number_nodes, slots_for

    reached = np.empty(sum(side.nnz for side in sides), dtype=np.int64)
    columns, count = [], 0
    for side in sides:
        columns.append(np.empty_like(side.indices))
        slots = np.full(slots_for(reached.size), -1)
        count = number_nodes.for_work(side.nnz)(side.indices, columns[-1], reached, count, slots)
    order = np.argsort(reached[:count])
    rank = np.empty_like(order)
    rank[order] = np.arange(count)
    kept = [
        scipy.sparse.csr_array(
            (side.data, rank[own].astype(own.dtype), side.indptr), shape=(side.shape[0], max(1, count))
        )
        for side, own in zip(sides, columns, strict=True)
    ]
    return reached[:count][order], kept


def sum_of_leaves(
    features: scipy.sparse.csr_array, V: Dense, starts: NDArray[np.int64], n_threads: int = 1
) -> Dense:
    """Return Φᵀ V of the rows starts[0] … starts[-1], a branch of the tree, on some threads."""
    count = starts.size - 1
    if count == 1:
        return add_rows(None, features, V, int(starts[0]), int(starts[1]))
    middle = count // 2
    below = (features, V, starts[middle:], n_threads // 2)
    if n_threads < 2:
        total = sum_of_leaves(features, V, starts[: middle + 1], n_threads)
        total += sum_of_leaves(*below)
        return total
    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(sum_of_leaves, *below)
        total = sum_of_leaves(features, V, starts[: middle + 1], n_threads - n_threads // 2)
        total += other.result()
    return total


def _row_range(features: scipy.sparse.csr_array, first: int, last: int) -> scipy.sparse.csr_array:
    """Return consecutive rows; SciPy's constructor would copy their entries."""
    result = scipy.sparse.csr_array((last - first, features.shape[1]))
    entries = slice(features.indptr[first], features.indptr[last])
    result.data, result.indices = features.data[entries], features.indices[entries]
    result.indptr = features.indptr[first : last + 1] - features.indptr[first]
    return result


def add_rows(total: Dense | None, features: scipy.sparse.csr_array, V: Dense, first: int, last: int) -> Dense:
    """Return a sum over rows, continued by some of a block."""
    from walkernel.walks._sums import add_transposed

    result = np.zeros((features.shape[1], V.shape[1])) if total is None else total.copy()
    matrix = (features.indptr, features.indices, features.data)
    work = V.shape[1] * int(features.indptr[last] - features.indptr[first])
    add_transposed.for_work(work)(first, last, *matrix, V.shape[1], V.reshape(-1), result.reshape(-1))
    return result


def stack(order: NDArray[np.int64], *parts: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return rows of several blocks in some order."""
    return scipy.sparse.vstack(parts, format="csr")[order]


def block_row_products(block: scipy.sparse.csr_array, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return R Φᵀ for the rows of a block; sums are in the order of R's entries."""
    return (rows @ block.T.tocsr()).tocsr()


def row_of_entries(features: scipy.sparse.csr_array) -> NDArray[np.int64]:
    """Return the row of each stored entry."""
    return np.repeat(np.arange(features.shape[0]), np.diff(features.indptr))


def scale_rows(features: scipy.sparse.csr_array, factors: Dense) -> scipy.sparse.csr_array:
    """Return diag(factors) Φ."""
    data = features.data * factors[row_of_entries(features)]
    return scipy.sparse.csr_array((data, features.indices, features.indptr), features.shape)


def squared_norms(features: scipy.sparse.csr_array) -> Dense:
    """Return ‖φ_i‖² of each row of distinct columns; powers of a sparse array would sort them first."""
    squares = features.data**2
    return np.asarray(
        scipy.sparse.csr_array((squares, features.indices, features.indptr), features.shape).sum(axis=1)
    )


def dots_in_block(
    block: scipy.sparse.csr_array,
    positions: NDArray[np.int64],
    others: scipy.sparse.csr_array,
    places: NDArray[np.int64],
) -> Dense:
    """Return the products of rows of a block with other rows."""
    return dots_of_rows(block[positions], others[places])


def dots_of_rows(left: scipy.sparse.csr_array, right: scipy.sparse.csr_array) -> Dense:
    """Return the product of each row with its partner."""
    return np.asarray(sorted_rows(left).multiply(sorted_rows(right)).sum(axis=1))


def sorted_rows(rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Sort the entries of rows by their columns, in place.

    SciPy goes through unsorted rows in an order that depends on whether other rows are sorted.
    """
    rows.sort_indices()
    return rows
