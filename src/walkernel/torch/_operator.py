"""Covariances of walk features as linear operators: K = Φ_f Φ_fᵀ, with f the only tensor.

The walks are passed beside f in a plain holder, so linear_operator differentiates with respect to f alone.
Products take time proportional to the number of deposits, and K is formed only for a dense factorization.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from linear_operator.operators import LinearOperator
from linear_operator.utils.memoize import cached
from numpy.typing import NDArray
from torch import Tensor

from walkernel._checks import Described, check_instance, refuse
from walkernel.torch._walk_tensors import WalkTensors

MAX_SHARED_ENTRIES = 2**24
"""Entries of features that are processed at once to compute single elements of K."""


class WalkCovariance(LinearOperator):
    r"""A covariance from walks, as an operator of linear_operator.

    .. math:: K = \Phi_f \Phi_f^\top, \quad \text{or } \Phi_f \Psi_f^\top \text{ between two sets of nodes}

    Parameters
    ----------
    f : Tensor, (k,) or (…, k)
        The modulation function, zero beyond its end; of the dtype and on the device of the walks.
    walks : WalkTensors
        Walks from the nodes of the rows, Φ.
    other : WalkTensors, optional
        Walks from the nodes of the columns, Ψ; those of the rows if not given.

    Examples
    --------
    >>> import torch, walkernel as wk
    >>> from walkernel.torch import WalkCovariance, WalkTensors
    >>> walks = WalkTensors(wk.sample_walks(wk.load_dataset("karate").graph, 8))
    >>> f = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)
    >>> K = WalkCovariance(f, walks)
    >>> K.add_jitter(0.1).logdet().backward()
    >>> K.shape, f.grad.shape
    (torch.Size([34, 34]), torch.Size([2]))
    """

    def __init__(self, f: Tensor, walks: WalkTensors, other: WalkTensors | None = None) -> None:
        check_instance("walks", walks, WalkTensors, "Make them with WalkTensors(sample_walks(…)).")
        other = None if other is walks else other
        if other is not None:
            check_instance("other", other, WalkTensors)
            _check_sides(walks, other)
        if not isinstance(f, Tensor) or f.ndim == 0 or f.shape[-1] == 0:
            refuse("f", "a tensor of shape (k,) or (…, k), not empty", f, error=TypeError)
        walks.check_dtype_and_device("f", f)
        super().__init__(f, walks=walks, other=other)
        self.f, self.walks, self.other = f, walks, other

    @property
    def _right(self) -> WalkTensors:
        return self.walks if self.other is None else self.other

    def _size(self) -> torch.Size:
        return torch.Size((*self.f.shape[:-1], self.walks.shape[0], self._right.shape[0]))

    def _transpose_nonbatch(self) -> WalkCovariance:
        return self if self.other is None else WalkCovariance(self.f, self.other, self.walks)

    def _expand_batch(self, batch_shape: torch.Size | list[int]) -> WalkCovariance:
        return WalkCovariance(self.f.expand(*batch_shape, self.f.shape[-1]), self.walks, self.other)

    def _each(self) -> Tensor:
        """Return f of all members of the batch, (members, k)."""
        return self.f.reshape(-1, self.f.shape[-1])

    def _matmul(
        self,
        rhs: Tensor,  # (*batch, columns of K, c) or (columns of K,)
    ) -> Tensor:  # (*batch, rows of K, c) or (rows of K,)
        if rhs.ndim == 1:
            return self._matmul(rhs[:, None])[..., 0]
        batch = torch.broadcast_shapes(self.batch_shape, rhs.shape[:-2])
        if self.f.ndim == 1:
            return _in_columns(lambda x: self._product(self.f, x), rhs)
        each = self.f.expand(*batch, -1).reshape(-1, self.f.shape[-1])
        rhs = rhs.expand(*batch, -1, -1).reshape(-1, *rhs.shape[-2:])
        products = [self._product(f, x) for f, x in zip(each, rhs, strict=True)]
        return torch.stack(products).reshape(*batch, self.walks.shape[0], rhs.shape[-1])

    def _product(self, f: Tensor, x: Tensor) -> Tensor:
        return self.walks.matmul(f, self._right.t_matmul(f, x))

    def _diagonal(self) -> Tensor:
        if self.other is not None:
            return super()._diagonal()
        norms = [self.walks.square_norms(f) for f in self._each()]
        return torch.stack(norms).reshape(self.shape[:-1])

    @cached
    def to_dense(self) -> Tensor:
        """Return the covariance as a tensor.

        Returns
        -------
        Tensor, (…, rows, columns)
            K.
        """
        grams = [self.walks.gram(f, self._right) for f in self._each()]
        return torch.stack(grams).reshape(self.shape)

    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> LinearOperator:
        rows, columns = (
            _positions(index, walks.shape[0])
            for index, walks in ((row_index, self.walks), (col_index, self._right))
        )
        if rows is None or columns is None:
            return super()._getitem(row_index, col_index, *batch_indices)
        left = self.walks.select(rows)
        same = self.other is None and np.array_equal(rows, columns)
        right = left if same else self._right.select(columns)
        if not batch_indices and left is self.walks and right is self._right:
            return self
        return WalkCovariance(self.f[batch_indices] if batch_indices else self.f, left, right)

    def _get_indices(self, row_index: Tensor, col_index: Tensor, *batch_indices: Tensor) -> Tensor:
        if 4 * row_index.numel() >= self.matrix_shape.numel():
            return self.to_dense()[(*batch_indices, row_index, col_index)]
        indices = torch.broadcast_tensors(row_index, col_index, *batch_indices)
        sizes = (*self.matrix_shape, *self.batch_shape)
        rows, columns, *members = (
            np.arange(size)[index.reshape(-1).cpu().numpy()]
            for size, index in zip(sizes, indices, strict=True)
        )
        member = np.ravel_multi_index(members, self.batch_shape) if members else np.zeros_like(rows)
        features = [torch.stack([walks.entries(f) for f in self._each()]) for walks in self._both()]
        per_row = max(1, *(walks.n_entries // walks.shape[0] for walks in self._both()))
        step = max(1, MAX_SHARED_ENTRIES // per_row)
        parts = [slice(first, first + step) for first in range(0, rows.size, step)]
        found = [self._elements(features, rows[part], columns[part], member[part]) for part in parts]
        return torch.cat(found).reshape(indices[0].shape)

    def _elements(
        self, features: list[Tensor], rows: NDArray[Any], columns: NDArray[Any], member: NDArray[Any]
    ) -> Tensor:
        """Return single elements of K from the entries of the features, (members of the batch, entries)."""
        pair, entry, other_entry = self.walks.shared_entries(rows, self._right, columns)
        of = torch.as_tensor(member, device=self.device)[pair]
        zeros = torch.zeros(rows.size, dtype=self.dtype, device=self.device)
        return zeros.index_add(0, pair, features[0][of, entry] * features[-1][of, other_entry])

    def _both(self) -> tuple[WalkTensors, ...]:
        return (self.walks,) if self.other is None else (self.walks, self.other)

    def type(self, dtype: torch.dtype) -> LinearOperator:
        """Return the operator of another dtype, f and walks."""
        return self.to(dtype=dtype)

    def cpu(self) -> LinearOperator:
        """Return the operator on the CPU, f and walks."""
        return self.to(device=torch.device("cpu"))

    def cuda(self, device_id: int | None = None) -> LinearOperator:
        """Return the operator on a GPU, f and walks."""
        return self.to(device=torch.device("cuda", device_id))


def _check_sides(walks: WalkTensors, other: WalkTensors) -> None:
    """Refuse walks that cannot form the two sides of one matrix."""
    if (walks.shape[1], walks.dtype, walks.device) != (other.shape[1], other.dtype, other.device):
        rule = f"walks on {walks.shape[1]} nodes of {walks.dtype} on {walks.device}, as those of the rows"
        refuse("other", rule, Described(repr(other)), "Use select or to of the same walks.", TypeError)


def _in_columns(product: Any, x: Tensor) -> Tensor:
    """Return the product with (…, n, c) by a single product with (n, all columns)."""
    if x.ndim == 2:
        return product(x)
    moved = x.movedim(-2, 0)  # (n, *batch, c)
    result = product(moved.reshape(x.shape[-2], -1))
    return result.reshape(-1, *moved.shape[1:]).movedim(0, -2)


def _positions(index: Any, n: int) -> NDArray[np.int64] | None:
    """Return the positions that a slice or a flat tensor selects; None for any other or empty index."""
    if isinstance(index, Tensor):
        index = index.cpu().numpy()
    positions = np.arange(n)[index]
    return positions if positions.ndim == 1 and positions.size else None
