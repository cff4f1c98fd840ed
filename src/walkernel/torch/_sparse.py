"""Sparse products that can be differentiated with respect to the entries of the matrix.

PyTorch multiplies CSR matrices fast, but differentiates such products on some platforms only. Here the
sparsity structure is fixed, its transpose is made once, and each derivative is explicit:

    y = A x        ∂/∂x = Aᵀ g        ∂/∂A_ij = g_i · x_j
    K = A Bᵀ       ∂/∂A = G B         ∂/∂B = Gᵀ A        at the entries of A and of B
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, wraps
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel.engines import csr_tensor, offsets, rows_of
from walkernel.features import add_products
from walkernel.torch._sparse_loops import sum_products

MAX_GATHERED_NUMBERS, HOST_GATHERED_NUMBERS = 2**25, 2**19
"""Numbers that the derivative with respect to the entries gathers at once: on a CPU, what its cache holds."""
LOOP_DEVICE = "cpu"
"""The device on which compiled loops are faster than products and sorts of PyTorch."""
PART_SIZE = 256
"""Entries of a long row that one part of it has at most."""


class FixedMatrix:
    """A sparse matrix B whose entries never change.

    Parameters
    ----------
    structure : Structure
        Where its entries are.
    values : Tensor, (nnz,)
        The entries.
    """

    def __init__(self, structure: Structure, values: Tensor) -> None:
        self.structure, self.values = structure, values

    def to(self, device: torch.device, dtype: torch.dtype) -> FixedMatrix:
        """Return the matrix on another device and with another dtype."""
        return FixedMatrix(self.structure.to(device), self.values.to(device, dtype))

    def select(self, rows: Tensor) -> FixedMatrix:
        """Return some rows."""
        structure, entries = self.structure.select(rows)
        return FixedMatrix(structure, self.values[entries])

    def product(self, x: Tensor) -> Tensor:
        """Return B x for x (columns, c)."""
        return self.structure.product(self.values, x)

    def transposed_product(self, y: Tensor) -> Tensor:
        """Return Bᵀ y for y (rows, c)."""
        transposed, sums, values = self._transpose
        product = transposed.product(values, y)
        return product if sums is None else sums @ product

    @cached_property
    def _transpose(self) -> tuple[Structure, Tensor | None, Tensor]:
        """Bᵀ, in parts of rows on a device, where few long rows would keep few of its threads busy."""
        transposed, order = self.structure.transposed
        if self.values.device.type == LOOP_DEVICE:
            return transposed, None, self.values[order]
        return *transposed.in_parts(self.values), self.values[order]

    def __matmul__(self, x: Tensor) -> Tensor:
        """Return B x, differentiable by x."""
        return _FixedProduct.apply(x, self)  # type: ignore[no-untyped-call]


class Structure:
    """The sparsity structure of a matrix in CSR format, and that of its transpose once it is needed.

    Parameters
    ----------
    indptr : Tensor of int32 or int64, (rows + 1,)
    columns : Tensor of int32 or int64, (nnz,)
    shape : tuple
        (rows, columns).
    """

    def __init__(self, indptr: Tensor, columns: Tensor, shape: tuple[int, int]) -> None:
        self.shape = shape
        kind = torch.int32 if max(columns.numel(), *shape) < 2**31 else torch.int64
        self.indptr, self.columns = indptr.to(kind), columns.to(kind)

    @cached_property
    def rows(self) -> Tensor:
        """The row of each entry, (nnz,)."""
        return rows_of(self.indptr).to(self.columns.dtype)

    @cached_property
    def transposed(self) -> tuple[Structure, Tensor]:
        """The structure of the transpose, and which entry each of its entries is, (nnz,)."""
        shape = self.shape[1], self.shape[0]
        if self.columns.device.type == LOOP_DEVICE:
            numbers = np.arange(self.columns.numel())
            arrays = (numbers, self.columns.numpy(), self.indptr.numpy())
            turned = scipy.sparse.csr_array(arrays, shape=self.shape).tocsc()
            indptr, rows, order = map(torch.from_numpy, (turned.indptr, turned.indices, turned.data))
            return Structure(indptr, rows, shape), order
        order = torch.argsort(self.columns, stable=True)
        indptr = offsets(torch.bincount(self.columns, minlength=self.shape[1]))
        return Structure(indptr, self.rows[order], shape), order

    def to(self, device: torch.device) -> Structure:
        """Return the structure on another device."""
        if device == self.columns.device:
            return self
        return Structure(self.indptr.to(device), self.columns.to(device), self.shape)

    def select(self, rows: Tensor) -> tuple[Structure, Tensor]:
        """Return the structure of some rows, and which entries are theirs."""
        counts = self.indptr.diff()[rows]
        indptr = offsets(counts)
        entries = torch.arange(int(indptr[-1]), device=rows.device)
        entries += torch.repeat_interleave(self.indptr[rows] - indptr[:-1], counts)
        return Structure(indptr, self.columns[entries], (rows.numel(), self.shape[1])), entries

    def in_parts(self, like: Tensor) -> tuple[Structure, Tensor]:
        """Return the structure with rows cut into short ones, and the matrix that adds up their products."""
        counts = (self.indptr.diff() + PART_SIZE - 1) // PART_SIZE
        firsts, rows = offsets(counts), rows_of(offsets(counts))
        parts = torch.arange(rows.numel(), device=rows.device)
        begins = self.indptr[rows] + PART_SIZE * (parts - firsts[rows])
        sums = like.new_zeros(self.shape[0], rows.numel())
        sums[rows, parts] = 1
        indptr = torch.cat([begins, self.indptr[-1:]])
        return Structure(indptr, self.columns, (rows.numel(), self.shape[1])), sums

    def product(self, values: Tensor, x: Tensor) -> Tensor:
        """Return A x for the entries ``values`` (nnz,) and x (columns, c)."""
        return csr_tensor(self.indptr, self.columns, values, self.shape) @ x

    def transposed_product(self, values: Tensor, y: Tensor) -> Tensor:
        """Return Aᵀ y for y (rows, c)."""
        structure, order = self.transposed
        return structure.product(values[order], y)

    def by_columns(self, values: Tensor) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return A in CSC format as arrays: column pointers, rows and entries."""
        structure, order = self.transposed
        found = (structure.indptr, structure.columns, values.detach()[order])
        return tuple(tensor.numpy() for tensor in found)  # type: ignore[return-value]

    def row_blocks(self) -> Iterator[tuple[slice, slice]]:
        """Yield blocks of rows, with their entries, that are small enough to be stored densely."""
        step = max(1, MAX_GATHERED_NUMBERS // max(1, self.shape[1]))
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
        """Return y_i · x_j at each entry (i, j), (nnz,), computed for some entries at a time."""
        at_once = HOST_GATHERED_NUMBERS if y.device.type == LOOP_DEVICE else MAX_GATHERED_NUMBERS
        step = max(1, at_once // max(1, y.shape[1]))
        pairs = zip(self.rows.split(step), self.columns.split(step), strict=True)
        products = [(y.index_select(0, rows) * x.index_select(0, columns)).sum(1) for rows, columns in pairs]
        return products[0] if len(products) == 1 else torch.cat(products)


def first_derivative(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Refuse derivatives of a backward pass; PyTorch's ``once_differentiable`` may return a part of them."""

    @wraps(backward)
    def refusing(ctx: Any, *gradients: Tensor) -> Any:
        if torch.is_grad_enabled():
            raise RuntimeError(
                "Features and modulations have first derivatives only, but the backward pass was to be "
                "differentiated too (create_graph=True). Compute second derivatives by finite differences."
            )
        return backward(ctx, *gradients)

    return refusing


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, structure: Structure, transposed: bool) -> Tensor:
        ctx.save_for_backward(values, x)
        ctx.structure, ctx.transposed = structure, transposed
        return (structure.transposed_product if transposed else structure.product)(values, x)

    @staticmethod
    @first_derivative
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
    @first_derivative
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
    @first_derivative
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
        result[structure.transposed[1]] = torch.from_numpy(transposed)
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
