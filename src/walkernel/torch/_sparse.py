"""Sparse matrices in products that are differentiated by their entries.

PyTorch multiplies CSR matrices fast but differentiates such products on some platforms only. Here the
structure is fixed and known with its transpose, and each derivative is written down:

    y = A x        ∂/∂x = Aᵀ g        ∂/∂A_ij = g_i · x_j
    K = A Bᵀ       ∂/∂A = G B         ∂/∂B = Gᵀ A        at the entries of A and of B
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel.torch._meetings import add_products, sum_products

MOST_ENTRIES = 2**25
"""Numbers that the derivative by the entries gathers at once."""
LOOPS_ON = "cpu"
"""Where compiled loops are faster than products of PyTorch."""


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
        self._own, self._transposed = (
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

    def turned_product(self, y: Tensor) -> Tensor:
        """Return Bᵀ y for y (rows, c)."""
        return csr_tensor(*self._transposed, (self.shape[1], self.shape[0])) @ y

    def __matmul__(self, x: Tensor) -> Tensor:
        """Return B x, differentiable by x."""
        return _FixedProduct.apply(x, self)  # type: ignore[no-untyped-call]


class Structure:
    """Where a sparse matrix has entries, by rows and by columns.

    Parameters
    ----------
    matrix : csr_array, (rows, columns)
        Its data are not used.
    device : device
        Where the indices are.
    """

    def __init__(self, matrix: scipy.sparse.csr_array, device: torch.device) -> None:
        numbered = scipy.sparse.csr_array(
            (np.arange(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape
        )
        turned = numbered.tocsc()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        self.shape = torch.Size(matrix.shape)
        small = max(matrix.nnz, *matrix.shape) < 2**31
        self.indptr, self.columns, self.rows, self.turned_indptr, self.turned_rows = (
            _indices(array, small, device)
            for array in (matrix.indptr, matrix.indices, rows, turned.indptr, turned.indices)
        )
        self.turning = torch.as_tensor(turned.data, dtype=torch.int64, device=device)

    def product(self, values: Tensor, x: Tensor) -> Tensor:
        """Return A x for the entries ``values`` (nnz,) and x (columns, c)."""
        return csr_tensor(self.indptr, self.columns, values, (self.shape[0], self.shape[1])) @ x

    def turned_product(self, values: Tensor, y: Tensor) -> Tensor:
        """Return Aᵀ y for y (rows, c)."""
        size = (self.shape[1], self.shape[0])
        return csr_tensor(self.turned_indptr, self.turned_rows, values[self.turning], size) @ y

    def by_columns(self, values: Tensor) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return A sparse by columns as arrays: where columns begin, rows and entries."""
        turned = (self.turned_indptr, self.turned_rows, values.detach()[self.turning])
        return tuple(tensor.numpy() for tensor in turned)  # type: ignore[return-value]

    def row_blocks(self) -> Iterator[tuple[slice, slice]]:
        """Give blocks of rows, with their entries, whose dense columns are not too many numbers at once."""
        step = max(1, MOST_ENTRIES // max(1, self.shape[1]))
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
        """Return y_i · x_j at each entry (i, j), (nnz,); a few columns at a time where there are many."""
        step = max(1, MOST_ENTRIES // max(1, self.rows.numel()))
        total = torch.zeros(self.rows.numel(), dtype=y.dtype, device=y.device)
        for first in range(0, y.shape[1], step):
            part = slice(first, first + step)
            total += (y[:, part][self.rows] * x[:, part][self.columns]).sum(dim=1)
        return total


def _indices(array: NDArray[Any], small: bool, device: torch.device) -> Tensor:
    return torch.as_tensor(array, dtype=torch.int32 if small else torch.int64, device=device)


def csr_tensor(indptr: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    """Return a sparse matrix by rows, unchecked."""
    return torch.sparse_csr_tensor(indptr, columns, values, size, check_invariants=False)


def _hear_of_csr_tensors() -> None:
    """Let PyTorch say, unheard, that CSR tensors may change and are not checked, as it does once a process.

    Filters that were changed around each product would make other warnings come again and again.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support", category=UserWarning)
        warnings.filterwarnings("ignore", message="Sparse invariant checks", category=UserWarning)
        none = torch.zeros(0, dtype=torch.int64, device="cpu")
        csr_tensor(torch.zeros(2, dtype=torch.int64, device="cpu"), none, none.double(), (1, 1))


_hear_of_csr_tensors()


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, structure: Structure, turned: bool) -> Tensor:
        ctx.save_for_backward(values, x)
        ctx.structure, ctx.turned = structure, turned
        return (structure.turned_product if turned else structure.product)(values, x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        values, x = ctx.saved_tensors
        structure, turned = ctx.structure, ctx.turned
        of_values = of_x = None
        if ctx.needs_input_grad[0]:
            of_values = structure.entry_products(*((x, grad) if turned else (grad, x)))
        if ctx.needs_input_grad[1]:
            of_x = (structure.product if turned else structure.turned_product)(values, grad)
        return of_values, of_x, None, None


class _FixedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: FixedMatrix) -> Tensor:
        ctx.matrix = matrix
        return matrix.product(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return ctx.matrix.turned_product(grad), None


def multiply(structure: Structure, values: Tensor, x: Tensor, *, turned: bool = False) -> Tensor:
    """Return A x, or Aᵀ x, differentiable by the entries of A and by x (columns, c)."""
    return _Product.apply(values, x, structure, turned)  # type: ignore[no-untyped-call]


class _Gram(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, left: Structure, right: Structure) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.structures = left, right
        result = a.new_zeros(left.shape[0], right.shape[0])
        if a.device.type == LOOPS_ON:
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
    if values.device.type == LOOPS_ON:
        indptr, own_rows, turned = structure.by_columns(result)
        sum_products(indptr, own_rows, *other.by_columns(values), grad.contiguous().numpy(), turned)
        result[structure.turning] = torch.from_numpy(turned)
        return result
    for rows, entries in structure.row_blocks():
        product = other.turned_product(values, grad[rows].mT.contiguous())
        result[entries] = product[structure.columns[entries], structure.rows[entries] - rows.start]
    return result


def gram(left: Structure, a: Tensor, right: Structure, b: Tensor) -> Tensor:
    """Return A Bᵀ, dense, for the entries a of A and b of B, differentiable by both.

    On a CPU it takes time for pairs of entries in the same column only, on other devices for all.
    """
    return _Gram.apply(a, b, left, right)  # type: ignore[no-untyped-call]
