"""Features Φ as matrices in memory, in files or elsewhere, with products that are the same to the last bit.

Φ X is made row by row. Φᵀ V is a sum over the rows of Φ, and rounding depends on the order of a sum: so the
rows are cut into a few leaves, by their number alone, each leaf adds up its rows in order, and the
sums of the leaves are added along a fixed binary tree,

    total(i … k) = total(i … j) + total(j … k),  j = ⌊(i + k) / 2⌋.

Threads, files and machines each take some rows, leaves or branches, and all of them get the same bits. Φ X
and R Φᵀ are SciPy's products, which release the GIL.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._threads import split_rows, thread_count, threads_for

LEAF_ROWS, FEW_LEAVES, MANY_LEAVES = 2**8, 16, 64
"""Least number of rows of a leaf, and most leaves: as many as 16 cost little, and a cluster wants more."""
MANY_ROWS = 2**20
"""Rows of each leaf where there are more than few of them."""
SUMS_AT_ONCE = 2**23
"""Numbers of a sum; more columns are added up in turn, since a sum has one for each level of the tree."""
ENTRIES_AT_ONCE = 2**16

Dense: TypeAlias = NDArray[np.float64]
NO_NORMS = np.empty((0, 2))


class FeatureMatrix(ABC):
    """Features Φ, wherever they are: in memory, in files or on other machines.

    Attributes
    ----------
    shape : tuple of int
        Rows and columns.
    nnz, nbytes : int
        Number of stored entries, and their size.
    norms : ndarray, (n, 2), or empty
        For each row ‖·‖² of its groups of walks, added up, and of all its walks, if they were asked for.
    n_steps : int
        Steps of the walks behind the features, and edges that exact heads followed.
    """

    shape: tuple[int, int]
    nnz: int
    nbytes: int
    norms: Dense = NO_NORMS
    n_steps: int = 0
    takes_tensors = False
    """Whether products with tensors are made where the features are."""

    @abstractmethod
    def multiply(self, X: Dense) -> Dense:
        """Return Φ X."""

    @abstractmethod
    def _multiply_transposed(self, V: Dense) -> Dense:
        """Return Φᵀ V for a few columns."""

    @abstractmethod
    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order."""

    @abstractmethod
    def row_products(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return R Φᵀ for some rows R, (k, n)."""

    @abstractmethod
    def map_rows(self, function: Callable[..., Dense], *arrays: NDArray[Any]) -> Dense:
        """Return what a function makes of the rows and of some arrays, one below the other."""

    def multiply_transposed(self, V: Dense) -> Dense:
        """Return Φᵀ V along the tree, some columns at a time."""
        return _some_columns_at_a_time(self._multiply_transposed, V, self.shape[1])

    def dots(self, other: FeatureMatrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Dense:
        """Return Φ[rows[k]] · Ψ[columns[k]] at flat arrays of positions."""
        result = np.empty(rows.size)
        for first in range(0, rows.size, ENTRIES_AT_ONCE):
            part = slice(first, first + ENTRIES_AT_ONCE)
            result[part] = self._dots(other, rows[part], columns[part])
        return result

    def _dots(self, other: FeatureMatrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Dense:
        return dots_of_rows(self.rows(rows), other.rows(columns))

    def _rows_in_blocks(self, edges: NDArray[np.int64], number: int, positions: NDArray[np.int64]) -> Any:
        """Return what stands for a block, and positions in it, where blocks of these edges have the rows."""
        return None

    def parts(self) -> tuple[FeatureMatrix, ...]:
        """Return the matrices that this one is the sum of."""
        return (self,)

    def compact(self, *others: FeatureMatrix) -> tuple[NDArray[np.int64] | None, list[FeatureMatrix]]:
        """Return the nodes of the columns, None for all, and these features and others with such columns."""
        return None, [self, *others]

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return all rows in memory."""
        return self.rows(np.arange(self.shape[0]))

    @property
    def native(self) -> Any:
        """What users get: a SciPy array in memory, a tensor on a device, else the features themselves."""
        return self


class HostFeatures(FeatureMatrix):
    """Features in memory.

    Parameters
    ----------
    matrix : csr_array
        The features.
    norms, n_steps
        As in ``FeatureMatrix``.
    n_threads : int, optional
        Threads of products; WALKERNEL_NUM_THREADS or the CPUs of this process if not given.
    """

    def __init__(
        self,
        matrix: scipy.sparse.csr_array,
        norms: Dense = NO_NORMS,
        n_steps: int = 0,
        n_threads: int | None = 1,
    ) -> None:
        self.matrix, self.norms, self.n_steps, self.n_threads = matrix, norms, n_steps, n_threads
        self.shape, self.nnz, self.nbytes = matrix.shape, int(matrix.nnz), bytes_of(matrix)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes + self.norms.nbytes

    @cached_property
    def _transposed(self) -> scipy.sparse.csr_array:
        return self.matrix.T.tocsr()

    def multiply(self, X: Dense) -> Dense:
        """Return Φ X."""
        return multiply(self.matrix, X, thread_count(self.n_threads))

    def _multiply_transposed(self, V: Dense) -> Dense:
        return _multiply_transposed(self.matrix, V, thread_count(self.n_threads))

    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order."""
        return self.matrix[positions]

    def row_products(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return R Φᵀ for some rows R, (k, n); Φᵀ by rows is kept once it was needed."""
        return rows @ self._transposed

    def map_rows(self, function: Callable[..., Dense], *arrays: NDArray[Any]) -> Dense:
        """Return what a function makes of the rows and of some arrays."""
        return function(self.matrix, *arrays)

    def compact(self, *others: FeatureMatrix) -> tuple[NDArray[np.int64] | None, list[FeatureMatrix]]:
        """Return the nodes that some row reaches, and features with columns for these; no cost in N."""
        reached, kept = keep_reached(self.matrix, *(other.to_scipy() for other in others))
        found: list[FeatureMatrix] = []
        for own, matrix in zip((self, *others), kept, strict=True):
            found.append(HostFeatures(matrix, own.norms, own.n_steps, self.n_threads))
        return reached, found

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return the matrix itself."""
        return self.matrix

    native = property(to_scipy)


def identity_features(ids: NDArray[np.int64], n_nodes: int) -> HostFeatures:
    """Return the features of walks that make no step: f₂ = δ₀."""
    entries = (np.ones(ids.size), ids.copy(), np.arange(ids.size + 1))
    return HostFeatures(scipy.sparse.csr_array(entries, shape=(ids.size, n_nodes)))


class SumFeatures(FeatureMatrix):
    """Features Φ = H + R, the exact heads H being those of other factors as well: they are kept once."""

    def __init__(self, head: FeatureMatrix, walks: FeatureMatrix) -> None:
        self.head, self.walks = head, walks
        self.shape, self.nnz, self.nbytes = walks.shape, head.nnz + walks.nnz, head.nbytes + walks.nbytes
        self.norms, self.n_steps = walks.norms, walks.n_steps

    def parts(self) -> tuple[FeatureMatrix, ...]:
        """Return heads and walks."""
        return self.head, self.walks

    def multiply(self, X: Dense) -> Dense:
        """Return Φ X."""
        return self.head.multiply(X) + self.walks.multiply(X)

    def multiply_transposed(self, V: Dense) -> Dense:
        """Return Φᵀ V."""
        return self.head.multiply_transposed(V) + self.walks.multiply_transposed(V)

    _multiply_transposed = multiply_transposed

    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order."""
        return (sorted_rows(self.head.rows(positions)) + sorted_rows(self.walks.rows(positions))).tocsr()

    def row_products(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return R Φᵀ for some rows R, (k, n)."""
        return (self.head.row_products(rows) + self.walks.row_products(rows)).tocsr()

    def map_rows(self, function: Callable[..., Dense], *arrays: NDArray[Any]) -> Dense:
        """Return what a linear function makes of the rows and of some arrays."""
        return np.asarray(self.head.map_rows(function, *arrays) + self.walks.map_rows(function, *arrays))


class BlockedFeatures(FeatureMatrix):
    """Features in blocks of rows that are kept elsewhere: in files, or on other machines.

    What is done with a block is handed to ``_submit``, which may do it in another place and at a later time;
    its results may be arguments of further calls, and are made known by ``_gather``.

    Attributes
    ----------
    edges : ndarray of int64, (n_blocks + 1,)
        Rows where the blocks begin, and where the last one ends.
    """

    edges: NDArray[np.int64]

    @abstractmethod
    def _block(self, number: int) -> Any:
        """Return a block as a csr_array, or what stands for it."""

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    def _gather(self, results: list[Any]) -> list[Any]:
        return results

    def _share(self, array: Any) -> Any:
        """Return what stands for an array that several calls take."""
        return array

    def _complete(self, work: Callable[[], Any]) -> Any:
        """Do a work that is made of submitted calls."""
        return work()

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return self.edges.size - 1

    def _owners(self, positions: NDArray[np.int64]) -> list[tuple[int, NDArray[np.int64]]]:
        """Return the blocks that have some of the rows, each with the places of these in ``positions``."""
        owners = np.searchsorted(self.edges, positions, side="right") - 1
        order = np.argsort(owners, kind="stable")
        numbers, begins = np.unique(owners[order], return_index=True)
        return list(zip(numbers.tolist(), np.split(order, begins[1:]), strict=False))

    def local(self, number: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return positions as rows of a block."""
        return positions - self.edges[number]

    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order."""

        def work() -> scipy.sparse.csr_array:
            order, parts = self._parts(positions)
            return stack(order, *self._gather(parts))

        return self._complete(work) if positions.size else scipy.sparse.csr_array((0, self.shape[1]))

    def _parts(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Any]]:
        """Return some rows by blocks, and the order that they are wanted in."""
        found = self._owners(positions)
        parts = [self._submit(take, self._block(b), self.local(b, positions[at])) for b, at in found]
        return np.argsort(np.concatenate([at for _, at in found])), parts

    def multiply(self, X: Dense) -> Dense:
        """Return Φ X."""
        return self.map_rows(times, X)

    def _multiply_transposed(self, V: Dense) -> Dense:
        """Return Φᵀ V, the sums over blocks along the tree."""
        starts = leaves(self.shape[0])

        def work() -> Dense:
            parts = [self._share(V[i:k]) for i, k in pairwise(self.edges)]

            def chain(first: int, last: int) -> Any:
                total = None
                for b in range(*self._blocks_of(first, last)):
                    inside = np.clip([first, last], *self.edges[b : b + 2]) - self.edges[b]
                    total = self._submit(add_rows, total, self._block(b), parts[b], *map(int, inside))
                return total

            def branch(i: int, k: int) -> Any:
                own, end = self._blocks_of(starts[i], starts[k])
                if end == own + 1:
                    inside = self.local(own, starts[i : k + 1])
                    return self._submit(sum_of_leaves, self._block(own), parts[own], inside)
                if k == i + 1:
                    return chain(int(starts[i]), int(starts[k]))
                middle = (i + k) // 2
                return self._submit(add, branch(i, middle), branch(middle, k))

            return np.asarray(self._gather([branch(0, starts.size - 1)])[0])

        return np.asarray(self._complete(work))

    def _blocks_of(self, first: int, last: int) -> tuple[int, int]:
        """Return the first block of a range of rows, and the one after the last."""
        edges = self.edges
        return int(np.searchsorted(edges, first, side="right")) - 1, int(np.searchsorted(edges, last))

    def row_products(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return R Φᵀ for some rows R, (k, n)."""

        def work() -> scipy.sparse.csr_array:
            shared = self._share(rows)
            parts = [self._submit(block_row_products, self._block(b), shared) for b in range(self.n_blocks)]
            return scipy.sparse.hstack(self._gather(parts), format="csr")

        return self._complete(work)

    def _dots(self, other: FeatureMatrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Dense:
        """Return Φ[rows[k]] · Ψ[columns[k]], the rows of Ψ going where those of Φ are."""

        def work() -> Dense:
            found, parts = self._owners(rows), []
            for b, at in found:
                mine = self.local(b, rows[at])
                theirs = other._rows_in_blocks(self.edges, b, columns[at])
                if theirs is None:
                    theirs = (self._bring(other, columns[at]), np.arange(at.size))
                parts.append(self._submit(dots_in_block, self._block(b), mine, *theirs))
            result = np.empty(rows.size)
            for (_, at), values in zip(found, self._gather(parts), strict=True):
                result[at] = values
            return result

        return np.asarray(self._complete(work))

    def _bring(self, other: FeatureMatrix, positions: NDArray[np.int64]) -> Any:
        """Return what stands for some rows of features; those of blocks like these need not come here."""
        if type(other) is not type(self):
            return self._share(other.rows(positions))
        order, parts = other._parts(positions)
        return self._submit(stack, order, *parts)

    def _rows_in_blocks(self, edges: NDArray[np.int64], number: int, positions: NDArray[np.int64]) -> Any:
        inside = (positions >= edges[number]) & (positions < edges[number + 1])
        if not (np.array_equal(self.edges, edges) and inside.all()):
            return None
        return self._block(number), self.local(number, positions)

    def map_rows(self, function: Callable[..., Dense], *arrays: NDArray[Any]) -> Dense:
        """Return what a function makes of every block and of some arrays, one below the other."""

        def work() -> Dense:
            shared = [self._share(array) for array in arrays]
            parts = [self._submit(function, self._block(b), *shared) for b in range(self.n_blocks)]
            return np.vstack(self._gather(parts))

        return np.asarray(self._complete(work))


def leaves(n_rows: int) -> NDArray[np.int64]:
    """Return the rows where the leaves of a sum over rows begin, and where the last one ends."""
    many = max(FEW_LEAVES, min(MANY_LEAVES, n_rows // MANY_ROWS))
    count = max(1, min(many, n_rows // LEAF_ROWS))
    return n_rows * np.arange(count + 1, dtype=np.int64) // count


def block_edges(n_rows: int, block_size: int) -> NDArray[np.int64]:
    """Return the rows where blocks of a size begin, and where the last one, which may have fewer, ends."""
    return np.append(np.arange(0, n_rows, block_size, dtype=np.int64), n_rows)


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
    return _some_columns_at_a_time(
        lambda part: _multiply_transposed(matrix, part, n_threads), V, matrix.shape[1]
    )


def _multiply_transposed(matrix: scipy.sparse.csr_array, V: Dense, n_threads: int) -> Dense:
    threads = threads_for(matrix.nnz * V.shape[1], n_threads)
    return sum_of_leaves(matrix, V, leaves(matrix.shape[0]), threads)


def _some_columns_at_a_time(product: Callable[[Dense], Dense], V: Dense, n_columns: int) -> Dense:
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


def take(block: scipy.sparse.csr_array, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
    """Return some rows of a block."""
    return block[positions]


def stack(order: NDArray[np.int64], *parts: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return rows of several blocks in some order."""
    return scipy.sparse.vstack(parts, format="csr")[order]


def times(block: scipy.sparse.csr_array, X: Dense) -> Dense:
    """Return the rows of Φ X of a block."""
    return np.asarray(block @ X)


def add(left: Dense, right: Dense) -> Dense:
    """Return the sum of two branches."""
    return left + right


def block_row_products(block: scipy.sparse.csr_array, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return R Φᵀ for the rows of a block; sums are in the order of R's entries."""
    return (rows @ block.T.tocsr()).tocsr()


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
