"""Sparse products that can be differentiated with respect to the entries of the matrix.

PyTorch multiplies CSR matrices fast, but differentiates such products on some platforms only. Here the
sparsity structure is fixed and stored with its transpose, and each derivative is explicit:

    y = A x        ∂/∂x = Aᵀ g        ∂/∂A_ij = g_i · x_j
    K = A Bᵀ       ∂/∂A = G B         ∂/∂B = Gᵀ A        at the entries of A and of B
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel.engines import csr_tensor
from walkernel.torch._sparse_loops import add_products, sum_products

MAX_GATHERED_ENTRIES = 2**25
"""Floats that the derivative with respect to the entries gathers at once."""
LOOP_DEVICE = "cpu"
"""The device on which compiled loops are faster than products of PyTorch."""


class FixedMatrix:
    """A sparse matrix B whose entries never change, with its transpose.

    Parameters
    ----------
    matrix : csr_array, (rows, columns)
    device : device
    dtype : dtype
    """

    def __init__(self, matrix: scipy.sparse.csr_array, device: torch.device, dtype: torch.dtype) -> None:
        small = max(matrix.nnz, *matrix.shape) < 2**31
        self.shape: tuple[int, int] = matrix.shape
        self._own, self._transpose = (
            (
                _indices(side.indptr, small, device),
                _indices(side.indices, small, device),
                torch.as_tensor(side.data, dtype=dtype, device=device),
            )
            for side in (matrix, matrix.T.tocsr())
        )

    def product(self, x: Tensor) -> Tensor:
        """Return B x for x (columns, c)."""
        return csr_tensor(*self._own, self.shape) @ x

    def transposed_product(self, y: Tensor) -> Tensor:
        """Return Bᵀ y for y (rows, c)."""
        return csr_tensor(*self._transpose, (self.shape[1], self.shape[0])) @ y

    def __matmul__(self, x: Tensor) -> Tensor:
        """Return B x, differentiable by x."""
        return _FixedProduct.apply(x, self)  # type: ignore[no-untyped-call]


class Structure:
    """The sparsity structure of a matrix, by rows and by columns.

    Parameters
    ----------
    matrix : csr_array, (rows, columns)
        Its data are not used.
    device : device
        Where the indices are.
    """

    def __init__(self, matrix: scipy.sparse.csr_array, device: torch.device) -> None:
        transposed = number_entries(matrix).tocsc()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        self.shape = torch.Size(matrix.shape)
        small = max(matrix.nnz, *matrix.shape) < 2**31
        self.indptr, self.columns, self.rows, self.transposed_indptr, self.transposed_rows = (
            _indices(array, small, device)
            for array in (matrix.indptr, matrix.indices, rows, transposed.indptr, transposed.indices)
        )
        self.transpose_order = torch.as_tensor(transposed.data, dtype=torch.int64, device=device)

    def product(self, values: Tensor, x: Tensor) -> Tensor:
        """Return A x for the entries ``values`` (nnz,) and x (columns, c)."""
        return csr_tensor(self.indptr, self.columns, values, (self.shape[0], self.shape[1])) @ x

    def transposed_product(self, values: Tensor, y: Tensor) -> Tensor:
        """Return Aᵀ y for y (rows, c)."""
        size = (self.shape[1], self.shape[0])
        return (
            csr_tensor(self.transposed_indptr, self.transposed_rows, values[self.transpose_order], size) @ y
        )

    def by_columns(self, values: Tensor) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return A in CSC format as arrays: column pointers, rows and entries."""
        transposed = (self.transposed_indptr, self.transposed_rows, values.detach()[self.transpose_order])
        return tuple(tensor.numpy() for tensor in transposed)  # type: ignore[return-value]

    def row_blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield blocks of rows, with their entries, that are small enough to be stored densely."""
        step = max(1, MAX_GATHERED_ENTRIES // max(1, self.shape[1]))
        firsts = range(0, self.shape[0], step)
        ends = self.indptr[[*firsts, self.shape[0]]].tolist()
        for k, first in enumerate(firsts):
            yield slice(first, min(first + step, self.shape[0])), slice(ends[k], ends[k + 1])

    def dense_columns(self, values: Tensor, rows: slice, entries: slice) -> Tensor:
        """Return a block of rows of A as dense columns, (columns, rows of the block)."""
        result = values.new_zeros(self.shape[1], rows.stop - rows.start)
        result[self.columns[entries], self.rows[entries] - rows.start] = values[entries]
        return result

    def entry_products(self, y: Tensor, x: Tensor) -> Tensor:
        """Return y_i · x_j at each entry (i, j), (nnz,), computed a few columns at a time."""
        step = max(1, MAX_GATHERED_ENTRIES // max(1, self.rows.numel()))
        total = torch.zeros(self.rows.numel(), dtype=y.dtype, device=y.device)
        for first in range(0, y.shape[1], step):
            part = slice(first, first + step)
            total += (y[:, part][self.rows] * x[:, part][self.columns]).sum(dim=1)
        return total


def number_entries(matrix: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return a matrix of the same structure, with the numbers of its entries as data."""
    numbers = np.arange(matrix.nnz)
    return scipy.sparse.csr_array((numbers, matrix.indices, matrix.indptr), shape=matrix.shape)


def _indices(array: NDArray[Any], small: bool, device: torch.device) -> Tensor:
    return torch.as_tensor(array, dtype=torch.int32 if small else torch.int64, device=device)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, structure: Structure, transposed: bool) -> Tensor:
        ctx.save_for_backward(values, x)
        ctx.structure, ctx.transposed = structure, transposed
        return (structure.transposed_product if transposed else structure.product)(values, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        values, x = ctx.saved_tensors
        structure, transposed = ctx.structure, ctx.transposed
        of_values = of_x = None
        if ctx.needs_input_grad[0]:
            of_values = structure.entry_products(*((x, grad) if transposed else (grad, x)))
        if ctx.needs_input_grad[1]:
            of_x = (structure.product if transposed else structure.transposed_product)(values, grad)
        return of_values, of_x, None, None


class _FixedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: FixedMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix.product(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.transposed_product(grad), None


def multiply(structure: Structure, values: Tensor, x: Tensor, *, transposed: bool = False) -> Tensor:
    """Return A x, or Aᵀ x, differentiable by the entries of A and by x (columns, c)."""
    return _Product.apply(values, x, structure, transposed)  # type: ignore[no-untyped-call]


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, left: Structure, right: Structure) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.structures = left, right
        result = a.new_zeros(left.shape[0], right.shape[0])
        if a.device.type == LOOP_DEVICE:
            add_products(*left.by_columns(a), *right.by_columns(b), result.numpy())
            return result
        for rows, entries in left.row_blocks():
            result[rows] = right.product(b, left.dense_columns(a, rows, entries)).mT
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        a, b = ctx.saved_tensors
        left, right = ctx.structures
        of_a = _at_entries(left, right, b, grad) if ctx.needs_input_grad[0] else None
        of_b = _at_entries(right, left, a, grad.mT) if ctx.needs_input_grad[1] else None
        return of_a, of_b, None, None


def _at_entries(structure: Structure, other: Structure, values: Tensor, grad: Tensor) -> Tensor:
    """Return G B at the entries of A, (nnz of A,)."""
    result = values.new_empty(structure.rows.numel())
    if values.device.type == LOOP_DEVICE:
        indptr, own_rows, transposed = structure.by_columns(result)
        sum_products(indptr, own_rows, *other.by_columns(values), grad.contiguous().numpy(), transposed)
        result[structure.transpose_order] = torch.from_numpy(transposed)
        return result
    for rows, entries in structure.row_blocks():
        product = other.transposed_product(values, grad[rows].mT.contiguous())
        result[entries] = product[structure.columns[entries], structure.rows[entries] - rows.start]
    return result


def gram(left: Structure, a: Tensor, right: Structure, b: Tensor) -> Tensor:
    """Return A Bᵀ, dense, for the entries a of A and b of B, differentiable by both.

    On a CPU the cost is that of pairs of entries in the same column; on other devices it is that of all
    pairs.
    """
    return _Gram.apply(a, b, left, right)  # type: ignore[no-untyped-call]
