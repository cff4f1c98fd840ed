"""Features Φ as matrices: in memory, in files or on other machines."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._threads import thread_count
from walkernel.features._gram import gram
from walkernel.features._products import (
    Dense,
    add_rows,
    block_row_products,
    by_block,
    bytes_of,
    dots_in_block,
    dots_of_rows,
    keep_reached,
    leaves,
    multiply,
    multiply_transposed,
    scale_rows,
    some_columns_at_a_time,
    sorted_rows,
    squared_norms,
    stack,
    sum_of_leaves,
)

ENTRIES_AT_ONCE = 2**16
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
    n_threads: int | None = None
    """Threads of products; None: WALKERNEL_NUM_THREADS or the CPUs of this process."""
    takes_tensors = False
    """Whether products with tensors are made where the features are."""

    @abstractmethod
    def multiply(self, X: Dense) -> Dense:
        """Return Φ X."""

    @abstractmethod
    def multiply_transposed(self, V: Dense) -> Dense:
        """Return Φᵀ V."""

    @abstractmethod
    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order."""

    @abstractmethod
    def row_products(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return R Φᵀ for some rows R, (k, n)."""

    @abstractmethod
    def map_rows(self, function: Callable[..., Dense], *arrays: NDArray[Any]) -> Dense:
        """Return what a function makes of the rows and of some arrays, one below the other."""

    def squared_norms(self) -> Dense:
        """Return the squared norm ‖φ_i‖² of each row: the diagonal of ΦΦᵀ.

        Returns
        -------
        array or tensor of float64, (n,)
            The squared norms.
        """
        return self.map_rows(squared_norms)

    def held(self) -> FeatureMatrix:
        """Return the features in double precision, in the memory of this process or of the device."""
        return HostFeatures(self.to_scipy().astype(np.float64, copy=False), n_threads=None)

    def gram(self, other: FeatureMatrix) -> Any:
        """Return ΦΨᵀ as a dense matrix in double precision: an array, or a tensor where both are tensors."""
        return gram(self.to_scipy(), other.to_scipy(), thread_count(self.n_threads))

    def scale_rows(self, factors: Dense) -> FeatureMatrix:
        """Return diag(factors) Φ."""
        return HostFeatures(scale_rows(self.to_scipy(), factors), n_threads=None)

    def joined(self, others: Sequence[FeatureMatrix], order: NDArray[np.int64]) -> FeatureMatrix:
        """Return the rows of these and of other features of the same kind, in some order."""
        return HostFeatures(stack(order, *(one.to_scipy() for one in (self, *others))), n_threads=None)

    def dots(self, other: FeatureMatrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Dense:
        """Return Φ[rows[k]] · Ψ[columns[k]] at flat arrays of positions."""
        result = np.empty(rows.size)
        for first in range(0, rows.size, ENTRIES_AT_ONCE):
            part = slice(first, first + ENTRIES_AT_ONCE)
            result[part] = self._dots(other, rows[part], columns[part])
        return result

    def _dots(self, other: FeatureMatrix, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Dense:
        return dots_of_rows(self.rows(rows), other.rows(columns))

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
    n_threads : int or None
        Threads of products; None: WALKERNEL_NUM_THREADS or the CPUs of this process.
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

    def multiply_transposed(self, V: Dense) -> Dense:
        """Return Φᵀ V."""
        return multiply_transposed(self.matrix, V, thread_count(self.n_threads))

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

    def held(self) -> FeatureMatrix:
        """Return the features themselves if they are in double precision."""
        return self if self.matrix.dtype == np.float64 else super().held()

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
        self.takes_tensors = head.takes_tensors and walks.takes_tensors

    def parts(self) -> tuple[FeatureMatrix, ...]:
        """Return heads and walks."""
        return self.head, self.walks

    def multiply(self, X: Dense) -> Dense:
        """Return Φ X."""
        return self.head.multiply(X) + self.walks.multiply(X)

    def multiply_transposed(self, V: Dense) -> Dense:
        """Return Φᵀ V."""
        return self.head.multiply_transposed(V) + self.walks.multiply_transposed(V)

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

    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return some rows, in order."""

        def work() -> scipy.sparse.csr_array:
            order, parts = self._parts(positions)
            return stack(order, *self._gather(parts))

        return self._complete(work) if positions.size else scipy.sparse.csr_array((0, self.shape[1]))

    def _parts(self, positions: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Any]]:
        """Return some rows by blocks, and the order that they are wanted in."""
        found = by_block(self.edges, positions)
        parts = [self._submit(operator.getitem, self._block(b), inside) for b, _, inside in found]
        return np.argsort(np.concatenate([at for _, at, _ in found])), parts

    def multiply(self, X: Dense) -> Dense:
        """Return the product Φ X, block by block.

        Parameters
        ----------
        X : array or tensor of float, (n_nodes, c)
            Columns to multiply with.

        Returns
        -------
        array or tensor of float64, (n, c)
            The product, of the kind of ``X``.
        """
        return self.map_rows(operator.matmul, X)

    def multiply_transposed(self, V: Dense) -> Dense:
        """Return the product Φᵀ V, the sums over blocks along a fixed tree.

        Parameters
        ----------
        V : array or tensor of float, (n, c)
            Columns to multiply with.

        Returns
        -------
        array or tensor of float64, (n_nodes, c)
            The product, of the kind of ``V``; the same bits for any number of blocks in work.
        """

        def product(part: Dense) -> Dense:
            return np.asarray(self._complete(lambda: self._sum_of_blocks(part)))

        return some_columns_at_a_time(product, V, self.shape[1])

    def _sum_of_blocks(self, V: Dense) -> Dense:
        starts = leaves(self.shape[0])
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
                inside = starts[i : k + 1] - self.edges[own]
                return self._submit(sum_of_leaves, self._block(own), parts[own], inside)
            if k == i + 1:
                return chain(int(starts[i]), int(starts[k]))
            middle = (i + k) // 2
            return self._submit(operator.add, branch(i, middle), branch(middle, k))

        return np.asarray(self._gather([branch(0, starts.size - 1)])[0])

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
            found, parts = by_block(self.edges, rows), []
            for b, at, mine in found:
                theirs = self._bring(other, b, columns[at])
                parts.append(self._submit(dots_in_block, self._block(b), mine, *theirs))
            result = np.empty(rows.size)
            for (_, at, _), values in zip(found, self._gather(parts), strict=True):
                result[at] = values
            return result

        return np.asarray(self._complete(work))

    def _bring(
        self, other: FeatureMatrix, number: int, positions: NDArray[np.int64]
    ) -> tuple[Any, NDArray[np.int64]]:
        """Return what stands for rows of other features, beside a block of these, and where they are in it.

        Rows that other blocks have in the same place, or that are kept in the same way, need not come here.
        """
        if isinstance(other, BlockedFeatures) and np.array_equal(other.edges, self.edges):
            first, last = self.edges[number : number + 2]
            if ((positions >= first) & (positions < last)).all():
                return other._block(number), positions - first
        if type(other) is not type(self):
            brought = self._share(other.rows(positions))
        else:
            order, parts = other._parts(positions)
            brought = self._submit(stack, order, *parts)
        return brought, np.arange(positions.size)

    def map_rows(self, function: Callable[..., Dense], *arrays: NDArray[Any]) -> Dense:
        """Return what a function makes of every block and of some arrays, one below the other."""

        def work() -> Dense:
            shared = [self._share(array) for array in arrays]
            parts = [self._submit(function, self._block(b), *shared) for b in range(self.n_blocks)]
            return np.concatenate(self._gather(parts))

        return np.asarray(self._complete(work))
