"""Walks as tensors: features Φ_f = Σ_l f(l) P_l, differentiable with respect to f.

The entries of Φ are B f, with B the loads of the deposits, one row for each entry and one column for each
length. B is fixed: nothing is sampled here, and the derivative by f is Bᵀ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from walkernel._checks import Described, check_instance, refuse
from walkernel.engines import DeviceRecord, offsets, rows_of
from walkernel.features import Walks
from walkernel.torch._modulation import check_dtype
from walkernel.torch._sparse import LOOP_DEVICE, FixedMatrix, Structure, gram, multiply


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
        record = walks.record
        found = _entries_there(walks, record) if isinstance(record, DeviceRecord) else _entries_here(walks)
        self._hold(*found, _resolve_device(device or "cpu"), dtype)

    def _hold(
        self,
        structure: Structure,  # (start nodes, nodes)
        loads: FixedMatrix,  # (entries, lengths), in double precision
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        check_dtype(dtype)
        if loads.values.numel() and not float(loads.values.abs().max()) <= torch.finfo(dtype).max:
            refuse(
                "walks", f"with loads in the range of {dtype}",
                Described("larger loads"),
                "Walk on matrix='normalized', with a larger p_halt, or use torch.float64.",
            )  # fmt: skip
        self.device, self.dtype = device, dtype
        self._structure, self._loads = structure.to(device), loads.to(device, torch.float64)
        self._load_matrix = self._loads.to(device, dtype)

    @property
    def shape(self) -> tuple[int, int]:
        """(start nodes, nodes of the graph)."""
        return self._structure.shape

    @property
    def n_entries(self) -> int:
        """Entries of Φ that are not zero for every f."""
        return self._loads.structure.shape[0]

    @property
    def n_lengths(self) -> int:
        """Length of the longest walk plus one."""
        return self._loads.structure.shape[1]

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> WalkTensors:
        """Return the walks on another device or with another dtype; itself if nothing changes.

        Parameters
        ----------
        device : device or str, optional
            The device; the same if not given.
        dtype : dtype, optional
            float64 or float32; the same if not given.

        Returns
        -------
        WalkTensors
            The walks.
        """
        device, dtype = _resolve_device(device or self.device), dtype or self.dtype
        if device == self.device and dtype == self.dtype:
            return self
        result = object.__new__(WalkTensors)
        result._hold(self._structure, self._loads, device, dtype)
        return result

    def select(self, rows: ArrayLike | Tensor) -> WalkTensors:
        """Return the walks from some start nodes; itself for all of them in order.

        Parameters
        ----------
        rows : array or tensor of int
            Positions of start nodes, which may repeat.

        Returns
        -------
        WalkTensors
            Walks from these nodes.
        """
        positions = self._positions(rows)
        n = self.shape[0]
        if positions.numel() == n and torch.equal(positions, torch.arange(n, device=self.device)):
            return self
        result = object.__new__(WalkTensors)
        result.device, result.dtype = self.device, self.dtype
        result._structure, entries = self._structure.select(positions)
        result._loads = self._loads.select(entries)
        result._load_matrix = result._loads.to(self.device, self.dtype)
        return result

    def _positions(self, rows: ArrayLike | Tensor) -> Tensor:
        """Return positions of start nodes on the device, or refuse them."""
        given = rows if isinstance(rows, Tensor) else np.asarray(rows)
        if given.ndim != 1 or np.dtype(str(given.dtype).removeprefix("torch.")).kind not in "iu":
            refuse("rows", "a flat list of whole numbers", rows, error=TypeError)
        if isinstance(given, np.ndarray):
            given = torch.from_numpy(given.astype(np.int64))
        positions = given.to(self.device, torch.int64)
        if positions.numel() == 0 or int(positions.min()) < 0 or int(positions.max()) >= self.shape[0]:
            refuse("rows", f"at least one position from 0 to {self.shape[0] - 1}", positions.cpu().numpy())
        return positions

    def __repr__(self) -> str:
        return (
            f"WalkTensors({self.shape[0]} of {self.shape[1]} nodes, {self._loads.values.numel()} deposits, "
            f"lengths below {self.n_lengths}, {self.dtype}, {self.device})"
        )

    @property
    def structure(self) -> Structure:
        """Where the entries of Φ are."""
        return self._structure

    def entries(
        self,
        f: Tensor,  # (k,): zero beyond its end
    ) -> Tensor:  # (entries of Φ,)
        """Return the entries of Φ_f in the order of their rows.

        Parameters
        ----------
        f : Tensor, (k,)
            The modulation function, zero beyond its end.

        Returns
        -------
        Tensor, (n_entries,)
            The values of the sparse matrix.
        """
        if not isinstance(f, Tensor) or f.ndim != 1 or f.shape[0] == 0:
            refuse("f", "a tensor of one dimension, not empty", f, error=TypeError)
        return self.entries_of_each(f[None]).squeeze(0)

    def entries_of_each(
        self,
        functions: Tensor,  # (functions, k): zero beyond their end
    ) -> Tensor:  # (functions, entries of Φ)
        """Return the entries of Φ_f for several f at once.

        Parameters
        ----------
        functions : Tensor, (functions, k)
            Modulation functions, zero beyond their end.

        Returns
        -------
        Tensor, (functions, n_entries)
            The values of a sparse matrix in each row.
        """
        self.check_dtype_and_device("f", functions)
        n = self.n_lengths
        missing = max(0, n - functions.shape[1])
        return (self._load_matrix @ torch.nn.functional.pad(functions[:, :n], (0, missing)).mT).mT

    def matmul(
        self,
        f: Tensor,  # (k,)
        x: Tensor,  # (nodes, c)
    ) -> Tensor:  # (start nodes, c)
        """Return the product Φ_f x, differentiable in f and x.

        Parameters
        ----------
        f : Tensor, (k,)
            The modulation function, zero beyond its end.
        x : Tensor, (n_nodes, c)
            Columns to multiply with.

        Returns
        -------
        Tensor, (n, c)
            The product.
        """
        return multiply(self._structure, self.entries(f), self._columns(x, 1))

    def matmul_at(
        self,
        rows: Tensor,  # (b,)
        f: Tensor,  # (k,)
        x: Tensor,  # (nodes, c)
    ) -> Tensor:  # (b, c)
        """Return some rows of Φ_f x.

        On a CPU the others are not computed. On other devices all of them are: a product takes less time
        there than a selection, and always the same operations.
        """
        if self.device.type == LOOP_DEVICE:
            return self.select(rows).matmul(f, x)
        return self.matmul(f, x).index_select(0, rows)

    def t_matmul(
        self,
        f: Tensor,  # (k,)
        y: Tensor,  # (start nodes, c)
    ) -> Tensor:  # (nodes, c)
        """Return the product Φ_fᵀ y, differentiable in f and y.

        Parameters
        ----------
        f : Tensor, (k,)
            The modulation function, zero beyond its end.
        y : Tensor, (n, c)
            Columns to multiply with.

        Returns
        -------
        Tensor, (n_nodes, c)
            The product.
        """
        return multiply(self._structure, self.entries(f), self._columns(y, 0), transposed=True)

    def dense(
        self,
        f: Tensor,  # (k,)
    ) -> Tensor:  # (start nodes, nodes)
        """Return Φ_f as a dense matrix.

        Parameters
        ----------
        f : Tensor, (k,)
            The modulation function, zero beyond its end.

        Returns
        -------
        Tensor, (n, n_nodes)
            The features.
        """
        flat = self._structure.rows.long() * self.shape[1] + self._structure.columns
        zeros = torch.zeros(self.shape[0] * self.shape[1], dtype=self.dtype, device=self.device)
        return zeros.index_add(0, flat, self.entries(f)).reshape(self.shape)

    def square_norms(
        self,
        f: Tensor,  # (k,)
    ) -> Tensor:  # (start nodes,)
        """Return the squared norms ‖Φ_i‖² of rows, the diagonal of ΦΦᵀ.

        Parameters
        ----------
        f : Tensor, (k,)
            The modulation function, zero beyond its end.

        Returns
        -------
        Tensor, (n,)
            The squared norms.
        """
        zeros = torch.zeros(self.shape[0], dtype=self.dtype, device=self.device)
        return zeros.index_add(0, self._structure.rows, self.entries(f).square())

    def gram(
        self,
        f: Tensor,  # (k,)
        other: WalkTensors,
    ) -> Tensor:  # (start nodes, start nodes of the other)
        """Return Φ_f Ψ_fᵀ as a dense matrix, with Ψ the features of other walks on the same nodes.

        Parameters
        ----------
        f : Tensor, (k,)
            The modulation function of both, zero beyond its end.
        other : WalkTensors
            The other walks.

        Returns
        -------
        Tensor, (n, n of the other walks)
            Products of rows.
        """
        a = self.entries(f)
        return gram(self._structure, a, other._structure, a if other is self else other.entries(f))

    def shared_entries(
        self,
        rows: ArrayLike | Tensor,  # (p,)
        other: WalkTensors,
        columns: ArrayLike | Tensor,  # (p,)
    ) -> tuple[Tensor, Tensor, Tensor]:  # (q,) each
        """Return where rows of Φ and of Ψ have entries at the same nodes: pair, entry of Φ, entry of Ψ."""
        keys, entries = self._sorted_entries(rows)
        other_keys, other_entries = other._sorted_entries(columns)
        at = torch.searchsorted(other_keys, keys).clamp(max=other_keys.numel() - 1)
        found = other_keys[at] == keys
        return keys[found] // self.shape[1], entries[found], other_entries[at[found]]

    def _sorted_entries(self, rows: ArrayLike | Tensor) -> tuple[Tensor, Tensor]:
        """Return the places of the entries of some rows as ascending numbers, and which entries they are."""
        structure, entries = self._structure.select(self._positions(rows))
        keys, order = torch.sort(structure.rows.long() * self.shape[1] + structure.columns)
        return keys, entries[order]

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


def _entries_here(walks: Walks) -> tuple[Structure, FixedMatrix]:
    """Return where the entries of Φ are, (start nodes, nodes), and B, (entries, lengths), on the CPU."""
    terms = walks.terms
    entry = np.repeat(terms.indptr[:-1], np.diff(terms.starts)) + terms.places
    lengths = terms.lengths.astype(np.int64)
    with np.errstate(over="ignore"):
        own = terms.loads if walks.scale == 1.0 else terms.loads * walks.scale**lengths
    loads = own / walks.n_walks
    shape = (terms.indices.size, int(lengths.max(initial=0)) + 1)
    by_length = scipy.sparse.coo_array((loads, (entry, lengths)), shape=shape).tocsr()
    places, columns, data, indices, indptr = (
        torch.from_numpy(array)
        for array in (terms.indptr, terms.indices, by_length.data, by_length.indices, by_length.indptr)
    )
    structure = Structure(places, columns, (walks.ids.size, walks.graph.n_nodes))
    return structure, FixedMatrix(Structure(indptr, indices, shape), data)


def _entries_there(walks: Walks, record: DeviceRecord) -> tuple[Structure, FixedMatrix]:
    """Return the same on the device that has the record; entries of a row are in the order of nodes."""
    head, n_starts, n_nodes = record.head, walks.ids.size, walks.graph.n_nodes
    rows = torch.cat([rows_of(record.indptr), rows_of(head.indptr)])
    nodes = torch.cat([record.nodes.long(), head.nodes.long()])
    lengths = torch.cat([record.lengths.long(), head.lengths.long()])
    loads = torch.cat([record.loads.double() / walks.n_walks, head.loads])
    if walks.scale != 1.0:
        loads *= walks.scale ** lengths.double()
    n_lengths = int(lengths.max()) + 1 if lengths.numel() else 1
    keys, order = torch.sort((rows * n_nodes + nodes) * n_lengths + lengths)
    terms, places = torch.unique_consecutive(keys, return_inverse=True)
    sums = loads.new_zeros(terms.numel()).index_add_(0, places, loads[order])
    entries, counts = torch.unique_consecutive(terms // n_lengths, return_counts=True)
    by_length = Structure(offsets(counts), terms % n_lengths, (entries.numel(), n_lengths))
    per_row = torch.bincount(entries // n_nodes, minlength=n_starts)
    structure = Structure(offsets(per_row), entries % n_nodes, (n_starts, n_nodes))
    return structure, FixedMatrix(by_length, sums)
