"""Walks on a device: the tables that its kernels read, and the features computed from the walks.

The walks are those of ``walkernel.sample_walks`` with the same arguments: the same nodes in the same order,
and loads that differ by rounding. Exact heads are followed on the CPU, and walks begin where they end.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel._checks import Described, refuse
from walkernel._door import door
from walkernel.features import KernelOrF, Walks, modulation_values
from walkernel.torch._sparse import csr_tensor
from walkernel.walks import Deposits, Head, WalkSpec

BLOCK = 128
"""Number of walks that one Triton program advances together."""
SORT_SIZES = (64, 128, 256, 512, 1024, 2048)
"""Numbers of deposits of a row that one program can sort; longer rows are sorted by PyTorch."""


class Walker:
    """Walks on a device: start nodes, tables and the length law, ready for the kernels.

    Parameters
    ----------
    spec : WalkSpec
        What defines the walks.
    device : device
        The device that walks are sampled on.
    dtype : dtype
        The dtype of loads.
    """

    def __init__(self, spec: WalkSpec, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        table, law = spec.table, spec.law
        self._key = self._words(np.array([spec.seed], dtype=np.uint64))
        self._law = [self._words(law.thresholds), self._tensor(law.guide)]
        self._packed, self._alias = self._words(table.packed), self._words(table.alias)
        self._indices = self._tensor(table.indices)
        self._floats = [self._reals(array) for array in (table.edge, table.first, table.inner, table.last)]
        self._start_from(spec)

    def _start_from(self, spec: WalkSpec) -> None:
        """Set the start nodes, and the ends of their heads."""
        self.spec, self.n_walkers = spec, spec.ids.size * spec.n_walks
        self._starts = self._tensor(spec.ids)
        self.head, front = spec.heads()
        self._ends = self._tensor(front.ends)
        self._front = [
            *(self._tensor(front.nodes), self._words(front.cuts)),
            *(self._reals(front.loads), self._tensor(front.guide)),
        ]

    def blocks(self, size: int) -> Iterator[tuple[slice, Walker]]:
        """Yield walkers for at most ``size`` start nodes at a time, which share the tables."""
        ids = self.spec.ids
        for begin in range(0, ids.size, size):
            part = slice(begin, min(begin + size, ids.size))
            block = copy(self)
            block._start_from(self.spec.at(ids[part]))
            yield part, block

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.tensor(np.ascontiguousarray(array), device=self.device)

    def _reals(self, array: NDArray[np.float64]) -> Tensor:
        return torch.tensor(np.ascontiguousarray(array), dtype=self.dtype, device=self.device)

    def _words(self, array: NDArray[np.uint64]) -> Tensor:
        """Return words of 64 bits as signed integers, which Triton and PyTorch support."""
        return self._tensor(np.ascontiguousarray(array).view(np.int64))

    def draw_lengths(self) -> Tensor:
        """Return the number of steps of every walk, (walkers,)."""
        from walkernel.torch._triton_walks import draw_lengths

        spec = self.spec
        lengths = torch.empty(self.n_walkers, dtype=torch.int32, device=self.device)
        draw_lengths[self._grid](
            self._starts, lengths, self._key, *self._law, self._packed, self._ends, self.n_walkers,
            spec.n_walks, spec.law.thresholds.size, spec.stream, SHARED=spec.sampler.coupling.length,
            FRONT=spec.sampler.head > 0, BLOCK=BLOCK,
        )  # fmt: skip
        return lengths

    def walk(
        self,
        mode: int,
        lengths: Tensor,
        factors: Tensor,
        *,
        places: Tensor | None = None,
        nodes: Tensor | None = None,
        loads: Tensor | None = None,
        matrix: Tensor | None = None,
        own: Tensor | None = None,
    ) -> None:
        """Walk in one of the modes of the kernel."""
        from walkernel.torch._triton_walks import walk

        spec, table, nothing = self.spec, self.spec.table, factors
        n_columns = 1 if matrix is None else matrix.shape[1]
        outputs = [nothing if tensor is None else tensor for tensor in (nodes, loads, matrix, own)]
        walk[self._grid](
            self._starts, lengths, nothing if places is None else places, self._key, self._packed,
            self._indices, self._alias, *self._floats, factors, self._ends, *self._front, *outputs,
            self.n_walkers, spec.n_walks, spec.stream, n_columns, MODE=mode,
            FIRST=spec.sampler.coupling.first, LATER=spec.sampler.coupling.later, HEAD=spec.sampler.head,
            ALIAS=table.alias.size > 0, EDGE=table.edge.size > 0, INNER=table.inner.size > 0,
            PLAIN=table.is_plain, LAST_BY_DEGREE=table.last_by_degree,
            COLUMNS=1 << (n_columns - 1).bit_length(), BLOCK=BLOCK,
        )  # fmt: skip

    @property
    def _grid(self) -> tuple[int]:
        return (-(-self.n_walkers // BLOCK),)

    def factors(self, f: NDArray[np.float64] | None = None) -> Tensor:
        """Return 1 / S(length), multiplied by f(length) if there is one."""
        factors = 1 / self.spec.law.survival
        if f is not None:
            used = min(f.size, factors.size)
            factors[:used] *= f[:used]
            factors[used:] = 0
        return self._reals(factors)

    def gather(self, f: NDArray[np.float64], matrix: Tensor, own: Tensor) -> None:
        """Add Φ_f U to a matrix with a row for each start node, without forming Φ."""
        from walkernel.torch._triton_walks import GATHER

        weights = self.factors(f / self.spec.n_walks)
        self.walk(GATHER.value, self.draw_lengths(), weights, matrix=matrix, own=own)
        if self.head.nodes.size:
            rows, columns, values = self.head_entries(f)
            own.index_add_(0, rows, values[:, None] * matrix[columns])

    def scatter(self, f: NDArray[np.float64], own: Tensor, matrix: Tensor) -> None:
        """Add Φ_fᵀ V to a matrix with a row for each node, without forming Φ."""
        from walkernel.torch._triton_walks import SCATTER

        weights = self.factors(f / self.spec.n_walks)
        self.walk(SCATTER.value, self.draw_lengths(), weights, matrix=matrix, own=own)
        if self.head.nodes.size:
            rows, columns, values = self.head_entries(f)
            matrix.index_add_(0, columns, values[:, None] * own[rows])

    def head_entries(self, f: NDArray[np.float64]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the deposits of exact heads, weighted by f: rows, columns and values."""
        head = self.head
        rows = np.repeat(np.arange(self.spec.ids.size), np.diff(head.indptr))
        values = head.loads * f[head.lengths]
        return self._tensor(rows), self._tensor(head.nodes.astype(np.int64)), self._reals(values)

    def record(self) -> DeviceWalks:
        """Sample the walks and record all deposits."""
        from walkernel.torch._triton_walks import RECORD

        lengths = self.draw_lengths()
        reserved = lengths.long() + 1
        places = torch.cumsum(reserved, 0) - reserved
        total = int(places[-1] + reserved[-1])
        nodes = torch.empty(total, dtype=self._indices.dtype, device=self.device)
        loads = torch.empty(total, dtype=self.dtype, device=self.device)
        self.walk(RECORD.value, lengths, self.factors(), places=places, nodes=nodes, loads=loads)
        hops = torch.arange(total, device=self.device) - torch.repeat_interleave(places, reserved)
        if not self.spec.table.is_plain:
            made = hops <= torch.repeat_interleave(lengths, reserved)
            nodes, loads, hops = nodes[made], loads[made], hops[made]
        hops = torch.where(hops > 0, hops + self.spec.sampler.head, 0).int()
        counts = (lengths.long() + 1).reshape(self.spec.ids.size, -1).sum(1)
        indptr = torch.nn.functional.pad(torch.cumsum(counts, 0), (1, 0))
        record = {"indptr": indptr, "nodes": nodes, "lengths": hops, "loads": loads}
        return DeviceWalks(**self.spec.arguments(), **record, head=self.head.copy())


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DeviceWalks(WalkSpec):
    """Sampled walks on a device: what ``walkernel.torch.sample_walks`` returns.

    Attributes
    ----------
    indptr : Tensor of int64, (n + 1,)
        The deposits of start node i are at indptr[i] : indptr[i + 1], walk by walk.
    nodes, lengths, loads : Tensor, (deposits,)
        Node, length and load of each deposit; length 0 begins a walk.
    head : Head
        The deposits of an exact head, in the memory of the CPU.
    """

    indptr: Tensor
    nodes: Tensor
    lengths: Tensor
    loads: Tensor
    head: Head

    def __repr__(self) -> str:
        return (
            f"DeviceWalks({self.ids.size} nodes x {self.n_walks} walks, {self.nodes.numel()} deposits, "
            f"{self.sampler}, seed={self.seed}, stream={self.stream}, {self.nodes.device})"
        )

    def to_walks(self) -> Walks:
        """Return them as walks of the core, in the memory of the CPU."""
        tensors = (self.indptr, self.nodes, self.lengths, self.loads.double())
        deposits = Deposits._make([*(tensor.cpu().numpy() for tensor in tensors), self.head])
        return Walks(**self.arguments(), deposits=deposits)

    @door
    def features(self, kernel_or_f: KernelOrF) -> Tensor:
        """Return the sparse features Φ_f as a CSR tensor, (start nodes, nodes), nodes in ascending order."""
        f = modulation_values(self, kernel_or_f, self.longest + 1)
        weights = torch.tensor(f / self.n_walks, dtype=self.loads.dtype, device=self.loads.device)
        indptr, nodes, values = self.indptr, self.nodes, self.loads * weights[self.lengths.long()]
        if self.head.nodes.size:
            indptr, nodes, values = self._with_heads(nodes, values, weights)
        shape = (self.ids.size, self.graph.n_nodes)
        if values.dtype == torch.float32 and nodes.dtype == torch.int32 and values.is_cuda:
            return _coalesce_by_row(indptr, nodes, values, shape)
        return _coalesce(indptr, nodes, values, shape)

    def _with_heads(self, nodes: Tensor, values: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the deposits of walks followed by those of the heads, row by row."""
        options = {"device": values.device}
        starts = torch.tensor(self.head.indptr, **options)
        lengths = torch.tensor(self.head.lengths, **options).long()
        loads = torch.tensor(self.head.loads, dtype=values.dtype, **options)
        head = loads * weights[lengths] * self.n_walks
        row = torch.cat([_rows(self.indptr), _rows(starts)])
        order = torch.argsort(row, stable=True)
        nodes = torch.cat([nodes, torch.tensor(self.head.nodes, **options).to(nodes.dtype)])[order]
        return self.indptr + starts, nodes, torch.cat([values, head])[order]


def _rows(indptr: Tensor) -> Tensor:
    """Return the row of each entry."""
    counts = indptr.diff()
    return torch.repeat_interleave(torch.arange(counts.numel(), device=indptr.device), counts)


def _coalesce(indptr: Tensor, nodes: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Sum the deposits of a row at the same node, by sorting all deposits."""
    key, order = torch.sort(_rows(indptr) * shape[1] + nodes)
    distinct, place = torch.unique_consecutive(key, return_inverse=True)
    data = torch.zeros(distinct.numel(), dtype=values.dtype, device=values.device)
    data.index_add_(0, place, values[order])
    counts = torch.bincount(distinct // shape[1], minlength=shape[0])
    return _csr(torch.cumsum(counts, 0), distinct % shape[1], data, shape)


def _coalesce_by_row(indptr: Tensor, nodes: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Sum the deposits of a row at the same node; one Triton program sorts each row."""
    from walkernel.torch._triton_walks import sort_rows

    counts = indptr.diff()
    if int(counts.max()) > SORT_SIZES[-1]:
        return _coalesce(indptr, nodes, values, shape)
    by_node, totals = torch.empty_like(nodes), torch.empty_like(values)
    least = 0
    for room in SORT_SIZES:
        rows = torch.nonzero((counts > least) & (counts <= room))[:, 0]
        if rows.numel():
            sort_rows[(rows.numel(),)](rows, indptr, nodes, values, by_node, totals, ROOM=room)
        least = room
    is_last = torch.ones(nodes.numel(), dtype=torch.bool, device=nodes.device)
    torch.ne(by_node[1:], by_node[:-1], out=is_last[:-1])
    is_last[indptr[1:] - 1] = True
    ends = torch.cumsum(is_last, 0)[indptr[1:] - 1]
    return _csr(ends, by_node[is_last], totals[is_last], shape)


def _csr(ends: Tensor, columns: Tensor, data: Tensor, shape: tuple[int, int]) -> Tensor:
    indptr = torch.nn.functional.pad(ends, (1, 0))
    return csr_tensor(indptr.to(columns.dtype), columns, data, shape)


def check_device(owner: str, device: torch.device | str) -> torch.device:
    """Return a device that the kernels run on."""
    found = torch.device(device)
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if found.type == "cuda" and not torch.cuda.is_available():
        refuse(owner, "device", "an available device", Described(f"{found}, but no CUDA device was found"))
    if found.type != "cuda" and not interpreted:
        remedy = "Use walkernel.sample_walks on the CPU."
        refuse(owner, "device", "a CUDA device", Described(str(found)), remedy)
    return found
