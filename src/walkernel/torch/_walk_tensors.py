"""Walks as tensors: features Φ_f = Σ_l f(l) P_l, differentiable with respect to f.

The entries of Φ are B f, with B the loads of the deposits, one row for each entry and one column for each
length. B is fixed: nothing is sampled here, and the derivative by f is Bᵀ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from walkernel._checks import Described, check_instance, refuse
from walkernel.features import Walks
from walkernel.torch._modulation import check_dtype
from walkernel.torch._sparse import FixedMatrix, Structure, gram, multiply, number_entries


class WalkTensors:
    """The deposits of walks as tensors, from which the features of any f are computed.

    An immutable holder without parameters; modules and operators that use the same walks share it.

    Parameters
    ----------
    walks : Walks
        The walks.
    device : device or str, optional
        The device on which products are computed; "cpu" if not given.
    dtype : dtype
        float64 or float32.

    Attributes
    ----------
    shape : tuple
        (start nodes, nodes of the graph): the shape of Φ.
    n_lengths : int
        Length of the longest walk plus one: later terms of f are not used.
    n_entries : int
        Entries of Φ that are not zero for every f.

    Examples
    --------
    >>> import torch, walkernel as wk
    >>> from walkernel.torch import WalkTensors
    >>> ring = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0)])
    >>> walks = WalkTensors(wk.sample_walks(ring, 8))
    >>> f = torch.tensor([1.0, 0.5], dtype=torch.float64, requires_grad=True)
    >>> walks.matmul(f, torch.ones(3, 1, dtype=torch.float64)).sum().backward()
    >>> f.grad.shape
    torch.Size([2])
    """

    def __init__(
        self, walks: Walks, *, device: torch.device | str | None = None, dtype: torch.dtype = torch.float64
    ) -> None:
        check_instance("walks", walks, Walks, "Sample them with sample_walks.")
        self._initialize(*_entries_by_length(walks), _resolve_device(device or "cpu"), dtype)

    def _initialize(
        self,
        loads: scipy.sparse.csr_array,  # (entries, lengths)
        places: scipy.sparse.csr_array,  # (start nodes, nodes), whose data are not used
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        check_dtype(dtype)
        if loads.nnz and not np.abs(loads.data).max() <= torch.finfo(dtype).max:
            refuse(
                "walks", f"with loads in the range of {dtype}",
                Described("larger loads"),
                "Walk on matrix='normalized', with a larger p_halt, or use torch.float64.",
            )  # fmt: skip
        self._loads, self._places = loads, places
        self.device, self.dtype = device, dtype
        self.shape: tuple[int, int] = places.shape
        self.n_entries, self.n_lengths = loads.shape
        self._load_matrix, self._structure = FixedMatrix(loads, device, dtype), Structure(places, device)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> WalkTensors:
        """Return the walks on another device or with another dtype; itself if nothing changes."""
        device, dtype = _resolve_device(device or self.device), dtype or self.dtype
        if device == self.device and dtype == self.dtype:
            return self
        return self._like(self._loads, self._places, device, dtype)

    def select(self, rows: ArrayLike) -> WalkTensors:
        """Return the walks from some start nodes, given by position; itself for all of them in order.

        Positions may repeat.
        """
        positions = np.asarray(rows)
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            refuse("rows", "a flat list of whole numbers", rows, error=TypeError)
        if positions.size == 0 or positions.min() < 0 or positions.max() >= self.shape[0]:
            refuse("rows", f"at least one position from 0 to {self.shape[0] - 1}", positions)
        if np.array_equal(positions, np.arange(self.shape[0])):
            return self
        numbered = number_entries(self._places)[positions]
        return self._like(self._loads[numbered.data], numbered, self.device, self.dtype)

    @staticmethod
    def _like(
        loads: scipy.sparse.csr_array, places: scipy.sparse.csr_array, device: Any, dtype: Any
    ) -> WalkTensors:
        result = object.__new__(WalkTensors)
        result._initialize(loads, places, device, dtype)
        return result

    def __repr__(self) -> str:
        return (
            f"WalkTensors({self.shape[0]} of {self.shape[1]} nodes, {self._loads.nnz} deposits, "
            f"lengths below {self.n_lengths}, {self.dtype}, {self.device})"
        )

    def entries(
        self,
        f: Tensor,  # (k,): zero beyond its end
    ) -> Tensor:  # (entries of Φ,)
        """Return the entries of Φ_f in the order of their rows."""
        if not isinstance(f, Tensor) or f.ndim != 1 or f.shape[0] == 0:
            refuse("f", "a tensor of one dimension, not empty", f, error=TypeError)
        self.check_dtype_and_device("f", f)
        n = self.n_lengths
        f = f[:n] if f.shape[0] >= n else torch.nn.functional.pad(f, (0, n - f.shape[0]))
        return (self._load_matrix @ f[:, None])[:, 0]

    def matmul(
        self,
        f: Tensor,  # (k,)
        x: Tensor,  # (nodes, c)
    ) -> Tensor:  # (start nodes, c)
        """Return Φ_f x."""
        return multiply(self._structure, self.entries(f), self._columns(x, 1))

    def t_matmul(
        self,
        f: Tensor,  # (k,)
        y: Tensor,  # (start nodes, c)
    ) -> Tensor:  # (nodes, c)
        """Return Φ_fᵀ y."""
        return multiply(self._structure, self.entries(f), self._columns(y, 0), transposed=True)

    def dense(
        self,
        f: Tensor,  # (k,)
    ) -> Tensor:  # (start nodes, nodes)
        """Return Φ_f as a dense matrix."""
        flat = self._structure.rows.long() * self.shape[1] + self._structure.columns
        zeros = torch.zeros(self.shape[0] * self.shape[1], dtype=self.dtype, device=self.device)
        return zeros.index_add(0, flat, self.entries(f)).reshape(self.shape)

    def square_norms(
        self,
        f: Tensor,  # (k,)
    ) -> Tensor:  # (start nodes,)
        """Return |Φ_i|², the diagonal of Φ Φᵀ."""
        zeros = torch.zeros(self.shape[0], dtype=self.dtype, device=self.device)
        return zeros.index_add(0, self._structure.rows, self.entries(f).square())

    def gram(
        self,
        f: Tensor,  # (k,)
        other: WalkTensors,
    ) -> Tensor:  # (start nodes, start nodes of the other)
        """Return Φ_f Ψ_fᵀ as a dense matrix, with Ψ the features of other walks on the same nodes."""
        a = self.entries(f)
        return gram(self._structure, a, other._structure, a if other is self else other.entries(f))

    def shared_entries(
        self,
        rows: NDArray[np.int64],  # (p,)
        other: WalkTensors,
        columns: NDArray[np.int64],  # (p,)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (q,) each
        """Return where rows of Φ and of Ψ have entries at the same nodes: pair, entry of Φ, entry of Ψ."""
        first, second = number_entries(self._places)[rows], number_entries(other._places)[columns]
        keys, at, there = np.intersect1d(_keys(first), _keys(second), assume_unique=True, return_indices=True)
        found = (keys // self.shape[1], first.data[at], second.data[there])
        return tuple(torch.as_tensor(array, device=self.device) for array in found)  # type: ignore[return-value]

    def __deepcopy__(self, memo: Any) -> WalkTensors:
        return self

    def _columns(self, x: Tensor, axis: int) -> Tensor:
        if not isinstance(x, Tensor) or x.ndim != 2 or x.shape[0] != self.shape[axis]:
            got = Described(f"shape {tuple(x.shape)}") if isinstance(x, Tensor) else x
            refuse("x", f"a tensor of shape ({self.shape[axis]}, columns)", got)
        return self.check_dtype_and_device("x", x)

    def check_dtype_and_device(self, name: str, tensor: Tensor) -> Tensor:
        """Return a tensor if it has the dtype and the device of the walks, or refuse it."""
        if tensor.dtype != self.dtype or tensor.device != self.device:
            refuse(
                name, f"of {self.dtype} on {self.device}, like the walks",
                Described(f"{tensor.dtype} on {tensor.device}"),
                "Use walks.to(device, dtype) or tensor.to(device, dtype).", TypeError,
            )  # fmt: skip
        return tensor


def _resolve_device(device: torch.device | str) -> torch.device:
    """Return a device with its index: "cuda" becomes "cuda:0"."""
    return torch.empty(0, device=device).device


def _entries_by_length(walks: Walks) -> tuple[scipy.sparse.csr_array, scipy.sparse.csr_array]:
    """Return B, (entries of Φ, lengths), and where the entries are, (start nodes, nodes)."""
    terms = walks.terms
    entry = np.repeat(terms.indptr[:-1], np.diff(terms.starts)) + terms.places
    lengths = terms.lengths.astype(np.int64)
    with np.errstate(over="ignore"):
        own = terms.loads if walks.scale == 1.0 else terms.loads * walks.scale**lengths
    loads = own / walks.n_walks
    shape = (terms.indices.size, int(lengths.max(initial=0)) + 1)
    by_length = scipy.sparse.coo_array((loads, (entry, lengths)), shape=shape).tocsr()
    places = scipy.sparse.csr_array(
        (np.ones(terms.indices.size, dtype=np.int8), terms.indices, terms.indptr),
        shape=(walks.ids.size, walks.graph.n_nodes),
    )
    return by_length, places


def _keys(matrix: scipy.sparse.csr_array) -> NDArray[np.int64]:
    """Return a unique number for the position of each entry."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows * matrix.shape[1] + matrix.indices
