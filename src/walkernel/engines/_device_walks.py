"""Walks on a device: the tables that its kernels read, and the features computed from the walks.

The walks are those of ``walkernel.sample_walks`` with the same arguments: the same nodes in the same order,
and loads that differ by rounding. Exact heads are followed on the device too (``_device_heads``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from walkernel._checks import Described, refuse
from walkernel.engines._device_heads import (
    DeviceFront,
    DeviceHead,
    HeadFollower,
    begins_of_runs,
    sums_of_runs,
)
from walkernel.engines._tensors import (
    csr_of_counts,
    launching_on,
    memory_of,
    offsets,
    rows_of,
    take,
    to_device,
    without_zeros,
)
from walkernel.features import FeatureMatrix, Record
from walkernel.walks import Deposits, WalkSpec

if TYPE_CHECKING:
    from walkernel.engines._cuda import CUDA

BLOCK = 128
"""Number of walks that one Triton program advances together."""
SORT_SIZES = (64, 128, 256, 512, 1024, 2048)
"""Numbers of deposits of a row that one program can sort; longer rows are sorted by PyTorch."""
BYTES_PER_DEPOSIT = 256
"""Memory of the device for each deposit of the walks whose features are made together."""
LEAST_SINGLE, MOST_SINGLE = 2.0**-100, 2.0**127
"""Sizes of f in single precision: values of 10⁻⁷ of the least are normal numbers still."""
MAX_SHARED = 4
"""Binary logarithm of the largest number of walks that share a draw."""


class DeviceTable(NamedTuple):
    """The walk table of a graph as tensors, words of 64 bits as signed integers.

    The first factors of loads are divided by ``unit``, a power of two, and the last ones multiplied by it;
    those of edges, where they have any, are multiplied by another one, and those of the nodes they leave
    divided by it. Where all weights are of one size, however far from 1, no factor is then beyond the numbers
    of single precision.
    """

    packed: Tensor
    indices: Tensor
    alias: Tensor
    edge: Tensor
    first: Tensor
    inner: Tensor
    last: Tensor
    unit: float

    @staticmethod
    def of(spec: WalkSpec, device: torch.device, dtype: torch.dtype) -> DeviceTable:
        """Return the table of a specification; it stays on the device as long as the graph is there."""
        graph, name = spec.graph, str(torch.empty(0, device=device).device)

        def build() -> DeviceTable:
            table = spec.table
            own = graph.indices if np.may_share_memory(table.indices, graph.indices) else None
            indices = (
                to_device(table.indices, device)
                if own is None
                else graph.derived(("indices", name), lambda: to_device(own, device))
            )
            unit = typical_unit(table.last)
            of_edge = typical_unit(table.edge) if table.inner.size else 1.0
            edge, first, inner, last = (
                to_device(array, device, dtype)
                for array in (
                    table.edge * of_edge,
                    table.first / unit / of_edge,
                    table.inner / of_edge,
                    table.last * unit,
                )
            )
            packed, alias = to_device(table.packed, device), to_device(table.alias, device)
            return DeviceTable(packed, indices, alias, edge, first, inner, last, unit)

        key = "device table", name, dtype, spec.matrix, spec.sampler.transition, spec.transpose
        return graph.derived(key, build)


def typical_unit(factors: NDArray[np.float64]) -> float:
    """Return the power of two next to one over the middle of the range of factors that are not zero."""
    sizes = np.abs(factors[factors != 0])
    if not sizes.size:
        return 1.0
    return float(2.0 ** -np.round((np.log2(sizes.min()) + np.log2(sizes.max())) / 2))


class Drawn(NamedTuple):
    """What is drawn of every walk before any makes a step."""

    lengths: Tensor
    """Number of steps, (walkers,)."""
    spots: Tensor
    """Place where it leaves its head, (walkers,), or nothing if all walks have one law."""


class Walker:
    """Walks on a device: tables and the length laws, ready for the kernels once it has start nodes.

    Parameters
    ----------
    engine : CUDA
        The device that walks are sampled on, and the dtype of loads.
    spec : WalkSpec
        What defines the walks.
    """

    keeps_heads = True
    n_walkers: int
    head: DeviceHead
    _starts: Tensor
    _firsts: Tensor
    _numbers: list[Tensor]
    _ends: Tensor
    _front: list[Tensor]

    def __init__(self, engine: CUDA, spec: WalkSpec) -> None:
        self.device, self.dtype = torch.device(str(engine.device)), getattr(torch, engine.dtype)
        self.spec, law = spec, spec.law
        self._key = self._tensor(np.array([spec.seed], dtype=np.uint64))
        self._law = [self._tensor(law.thresholds), self._tensor(law.guide)]
        self._law_hops = self._tensor(law.hops.astype(np.int32))
        table = DeviceTable.of(spec, self.device, self.dtype)
        self._packed, self._indices, self._alias, *self._floats = table[:-1]
        self._unit = table.unit
        has_head = spec.sampler.head > 0
        self._follower = HeadFollower(spec, self._packed, self._indices) if has_head else None

    def at(self, ids: NDArray[np.int64]) -> Walker:
        """Return a walker with start nodes, whose heads are followed, that shares the tables."""
        own = copy(self)
        own.spec = self.spec.at(ids)
        own._starts = own._tensor(ids)
        own.head, front = own._heads()
        if not self.keeps_heads:
            own.head = own.head.without_entries()
        walks, shifts = own.head.walks(own.spec.n_walks), own.head.shifts
        own._firsts, own._ends = offsets(walks), front.ends
        own.n_walkers = int(own._firsts[-1])
        own._numbers = [
            *(rows_of(own._firsts[: shifts.numel() + 1]).int(), own._firsts),
            (own.spec.sampler.coupling.length + shifts).clamp(0, MAX_SHARED).int(),
            torch.exp2(-shifts.double()).to(own.dtype),
        ]
        laws = torch.nn.functional.pad(front.laws, (0, 1)) if self._has_several_laws else front.laws[:0]
        loads = (front.loads / own._unit).to(own.dtype)
        own._front = [front.cuts, laws, front.guide, front.nodes, loads]
        return own

    def _heads(self) -> tuple[DeviceHead, DeviceFront]:
        """Return the heads of the start nodes, and where walks leave them."""
        if self._follower is not None:
            return self._follower.follow(self._starts)
        zeros, none = self._starts.new_zeros(self._starts.numel() + 1), self._starts.new_empty(0)
        loads, small, nodes = none.double(), none.int(), self._indices[:0]
        front = DeviceFront(zeros, nodes, none, loads, small, small)
        return DeviceHead(zeros, nodes, small, loads, zeros[1:], small), front

    @property
    def _has_several_laws(self) -> bool:
        return self.spec.law.hops.size > 1

    @property
    def _switches(self) -> dict[str, bool]:
        """What kernels are compiled for."""
        return {
            "FRONT": self.spec.sampler.head > 0,
            "SEVERAL": self._has_several_laws,
            "UNEVEN": self.head.shifts.numel() > 0,
        }

    def on_stream(self, stream: int) -> Walker:
        """Return a walker with the same start nodes and independent draws."""
        own = copy(self)
        own.spec = self.spec.on_stream(stream)
        return own

    def without_heads(self) -> Walker:
        """Return a walker, without start nodes as yet, whose walks leave heads that are kept elsewhere."""
        own = copy(self)
        own.keeps_heads = False
        return own

    @property
    def most_starts(self) -> int:
        """How many start nodes have their features made together at most, which depends on their walks."""
        per_start = BYTES_PER_DEPOSIT * self.spec.n_walks * (1 + self.spec.sampler.mean_steps)
        return max(1, int(memory_of(self.device) / per_start))

    def blocks(self, size: int) -> Iterator[tuple[slice, Walker]]:
        """Yield walkers for at most ``size`` start nodes at a time; one without any if there are none."""
        ids = self.spec.ids
        for begin in range(0, max(1, ids.size), size):
            part = slice(begin, min(begin + size, ids.size))
            yield part, self.at(ids[part])

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return to_device(array, self.device)

    def draw(self) -> Drawn:
        """Return the number of steps of every walk, and where it leaves its head."""
        from walkernel.engines._triton_walks import draw_lengths

        spec = self.spec
        lengths = torch.empty(self.n_walkers, dtype=torch.int32, device=self.device)
        spots = self._ends.new_empty(self.n_walkers if self._has_several_laws else 0)
        if self.n_walkers:
            with launching_on(self.device):
                draw_lengths[self._grid](
                    self._starts, lengths, spots, self._key, *self._law, self._packed, *self._numbers[:3],
                    self._ends, *self._front[:3], self.n_walkers, spec.n_walks, spec.law.thresholds.shape[1],
                    spec.stream, LENGTH=spec.sampler.coupling.length, FIRST=spec.sampler.coupling.first,
                    **self._switches, BLOCK=BLOCK,
                )  # fmt: skip
        return Drawn(lengths, spots)

    def walk(
        self,
        mode: int,
        drawn: Drawn,
        factors: Tensor,
        *,
        places: Tensor | None = None,
        nodes: Tensor | None = None,
        loads: Tensor | None = None,
        hops: Tensor | None = None,
        matrix: Tensor | None = None,
        own: Tensor | None = None,
    ) -> None:
        """Walk in one of the modes of the kernel."""
        from walkernel.engines._triton_walks import walk

        spec, table, nothing = self.spec, self.spec.table, factors
        n_columns = 1 if matrix is None else matrix.shape[1]
        outputs = [nothing if tensor is None else tensor for tensor in (nodes, loads, hops, matrix, own)]
        if not self.n_walkers:
            return
        with launching_on(self.device):
            walk[self._grid](
                self._starts, *drawn, nothing if places is None else places, self._key, self._packed,
                self._indices, self._alias, *self._floats, factors, *self._numbers, self._ends, *self._front,
                self._law_hops, *outputs, self.n_walkers, spec.n_walks, factors.shape[1], spec.stream,
                n_columns, MODE=mode, FIRST=spec.sampler.coupling.first, LATER=spec.sampler.coupling.later,
                ALIAS=table.alias.size > 0, EDGE=table.edge.size > 0, INNER=table.inner.size > 0,
                PLAIN=table.is_plain, LAST_BY_DEGREE=table.last_by_degree, **self._switches,
                COLUMNS=1 << (n_columns - 1).bit_length(), BLOCK=BLOCK,
            )  # fmt: skip

    @property
    def _grid(self) -> tuple[int]:
        return (-(-self.n_walkers // BLOCK),)

    def factors(self, f: NDArray[np.float64] | None = None) -> Tensor:
        """Return 1 / S, multiplied by f at the length of a deposit if there is one, (laws, steps + 1)."""
        return to_device(self.spec.law.factors(f), self.device, self.dtype)

    def count_steps(self) -> int:
        """Return the number of steps of all walks."""
        from walkernel.engines._triton_walks import STEPS

        drawn = self.draw()
        if not self.spec.table.is_plain:
            ends = torch.empty(self.n_walkers, dtype=torch.int64, device=self.device)
            self.walk(STEPS.value, drawn, self.factors(), nodes=ends)
        return int(drawn.lengths.sum())

    def gather(self, f: NDArray[np.float64], matrix: Tensor, own: Tensor) -> None:
        """Add Φ_f U to a matrix with a row for each start node, without forming Φ."""
        from walkernel.engines._triton_walks import GATHER

        weights = self.factors(f / self.spec.n_walks)
        self.walk(GATHER.value, self.draw(), weights, matrix=matrix, own=own)
        if self.head.nodes.numel():
            rows, columns, values = self.head_entries(f)
            own.index_add_(0, rows, values[:, None] * matrix[columns])

    def scatter(self, f: NDArray[np.float64], own: Tensor, matrix: Tensor) -> None:
        """Add Φ_fᵀ V to a matrix with a row for each node, without forming Φ."""
        from walkernel.engines._triton_walks import SCATTER

        weights = self.factors(f / self.spec.n_walks)
        self.walk(SCATTER.value, self.draw(), weights, matrix=matrix, own=own)
        if self.head.nodes.numel():
            rows, columns, values = self.head_entries(f)
            matrix.index_add_(0, columns, values[:, None] * own[rows])

    def head_entries(self, f: NDArray[np.float64]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the deposits of exact heads, weighted by f: rows, columns and values."""
        values = self.head.loads * self._tensor(f)[self.head.lengths.long()]
        return rows_of(self.head.indptr), self.head.nodes.long(), values.to(self.dtype)

    def head_features(self, f: NDArray[np.float64]) -> Tensor:
        """Return the features of exact heads alone, as a CSR tensor."""
        rows, columns, values = self.head_entries(f)
        return coalesce(rows, columns, values, (self.spec.ids.size, self.spec.graph.n_nodes))

    def deposits(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Sample the walks and return all deposits: indptr, nodes, lengths and loads."""
        from walkernel.engines._triton_walks import RECORD

        drawn = self.draw()
        lengths, reserved = drawn.lengths, drawn.lengths.long() + 1
        places = torch.cumsum(reserved, 0) - reserved
        total = int(reserved.sum())
        nodes = torch.empty(total, dtype=self._indices.dtype, device=self.device)
        loads = torch.empty(total, dtype=self.dtype, device=self.device)
        hops = torch.full((total,), -1, dtype=torch.int32, device=self.device)
        outputs = {"nodes": nodes, "loads": loads, "hops": hops}
        self.walk(RECORD.value, drawn, self.factors(), places=places, **outputs)
        if not self.spec.table.is_plain:
            made = hops >= 0
            nodes, loads, hops = nodes[made], loads[made], hops[made]
        return offsets(lengths.long() + 1)[self._firsts], nodes, hops, loads


class DeviceRecord(Record):
    """Deposits on a device.

    Attributes
    ----------
    indptr : Tensor of int64, (n + 1,)
        The deposits of start node i are at indptr[i] : indptr[i + 1], walk by walk.
    nodes, lengths, loads : Tensor, (deposits,)
        Node, length and load of each deposit; length 0 begins a walk.
    head : DeviceHead
        The deposits of exact heads.
    """

    def __init__(self, engine: CUDA, walker: Walker) -> None:
        self.engine, self.n_walks, self.n_nodes = engine, walker.spec.n_walks, walker.spec.graph.n_nodes
        self.indptr, self.nodes, self.lengths, self.loads = walker.deposits()
        self.head = walker.head

    @property
    def n_steps(self) -> int:
        """Number of steps walked, and of edges that exact heads followed."""
        return self.n_walked + int(self.head.edges.sum())

    @property
    def n_walked(self) -> int:
        """Number of steps walked."""
        return int(self.nodes.numel()) - int(self.head.walks(self.n_walks).sum())

    @cached_property
    def longest(self) -> int:
        """Length of the longest walk, a head included."""
        return int(self.lengths.max()) if self.lengths.numel() else 0

    @property
    def deposits(self) -> Deposits:
        """The deposits in the memory of this process, loads in double precision."""
        tensors = (self.indptr, self.nodes, self.lengths, self.loads.cpu().double())
        return Deposits._make([*(tensor.cpu().numpy() for tensor in tensors), self.head.to_host()])

    def weigh(self, f: NDArray[np.float64], rows: NDArray[np.int64] | None = None) -> FeatureMatrix:
        """Return the features of all start nodes, or of some, for f / n_walks."""
        from walkernel.engines._device_features import DeviceFeatures

        check_size(f, self.engine.dtype)
        with self.engine.walking():
            found = self.features(f)
            return DeviceFeatures(found if rows is None else take(found, rows), self.engine)

    def sample_again(self, spec: WalkSpec, progress: Callable[[int, int], object] | None) -> DeviceRecord:
        """Sample other walks on this device."""
        return self.engine.record(spec, progress)

    def without_heads(self) -> DeviceRecord:
        """Return the deposits of the walks alone."""
        own = copy(self)
        own.head = self.head.without_entries()
        return own

    def in_groups(self, size: int) -> DeviceRecord:
        """Return rows for groups of so many walks; the last one of a start node may have fewer.

        Of unequal numbers of walks, groups of more walks are larger, and all start nodes have as many.
        """
        own, n_groups = copy(self), -(-self.n_walks // size)
        walks, each = self.head.walks(self.n_walks), self.head.walks(size)
        groups = torch.arange(n_groups, device=walks.device)
        firsts = (torch.cumsum(walks, 0) - walks)[:, None] + each[:, None] * groups
        opens = torch.nonzero(self.lengths == 0)[:, 0]
        own.indptr = torch.cat([opens[firsts.ravel()], self.indptr[-1:]])
        own.head, own.n_walks = self.head.repeated(n_groups), size
        return own

    def features(self, f: NDArray[np.float64]) -> Tensor:
        """Return the features for f / n_walks as a CSR tensor, nodes in ascending order and no zeros."""
        weights = torch.tensor(f, dtype=self.loads.dtype, device=self.loads.device)
        indptr, nodes, values = self.indptr, self.nodes, self.loads * weights[self.lengths.long()]
        shape = (indptr.numel() - 1, self.n_nodes)
        if self.head.nodes.numel():
            indptr, nodes, values = self._with_heads(nodes, values, f)
        if not bool(torch.isfinite(values).all()):
            refuse_overflow(self.engine.dtype)
        if values.dtype == torch.float32 and nodes.dtype == torch.int32 and values.is_cuda:
            return without_zeros(coalesce_by_row(indptr, nodes, values, shape))
        return without_zeros(coalesce(rows_of(indptr), nodes, values, shape))

    def _with_heads(
        self, nodes: Tensor, values: Tensor, f: NDArray[np.float64]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the deposits of walks followed by those of the heads, row by row."""
        head = self.head
        loads = head.loads * torch.tensor(f, device=values.device)[head.lengths.long()] * self.n_walks
        indptr = self.indptr + head.indptr
        of_walks = torch.arange(nodes.numel(), device=nodes.device)
        of_walks += torch.repeat_interleave(head.indptr[:-1], self.indptr.diff())
        of_heads = torch.arange(head.nodes.numel(), device=nodes.device)
        of_heads += torch.repeat_interleave(self.indptr[1:], head.indptr.diff())
        both, sums = nodes.new_empty(int(indptr[-1])), values.new_empty(int(indptr[-1]))
        both[of_walks], both[of_heads] = nodes, head.nodes.to(nodes.dtype)
        sums[of_walks], sums[of_heads] = values, loads.to(values.dtype)
        return indptr, both, sums


def check_size(f: NDArray[np.float64], dtype: str) -> None:
    """Refuse an f that is beyond single precision, or whose products with loads would vanish there."""
    largest = float(np.abs(f).max(initial=0.0))
    if dtype == "float32" and largest > MOST_SINGLE:
        refuse_overflow(dtype)
    if dtype == "float32" and 0 < largest < LEAST_SINGLE:
        rule = f"large enough for loads times f to be numbers of {dtype}"
        refuse("f", rule, Described(f"values up to {largest:.2g}"), "Scale the kernel, or use float64.")


def refuse_overflow(dtype: str) -> NoReturn:
    """Refuse an f whose products with loads are beyond the numbers of a dtype."""
    remedy = "Scale the kernel or the weights of the graph, or use matrix='normalized' or float64."
    refuse("f", f"small enough for loads times f to be numbers of {dtype}", Described("overflow"), remedy)


def coalesce(rows: Tensor, nodes: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Sum the deposits of a row at the same node, by sorting all deposits; sums have a fixed order."""
    keys, order = torch.sort(rows * shape[1] + nodes, stable=True)
    runs = torch.nonzero(begins_of_runs(keys))[:, 0]
    distinct, data = keys[runs], sums_of_runs(values, order, runs)
    rows = distinct.div(shape[1], rounding_mode="floor")
    return csr_of_counts(torch.bincount(rows, minlength=shape[0]), distinct - rows * shape[1], data, shape)


def coalesce_by_row(indptr: Tensor, nodes: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Sum the deposits of a row at the same node: one Triton program sorts each row but the longest ones."""
    from walkernel.engines._triton_walks import sort_rows

    counts, least = indptr.diff(), 0
    by_node, totals = torch.empty_like(nodes), torch.empty_like(values)
    longest = int(counts.max()) if nodes.numel() else 0
    for room in SORT_SIZES:
        rows = torch.nonzero((counts > least) & (counts <= room))[:, 0] if longest > least else counts[:0]
        if rows.numel():
            with launching_on(nodes.device):
                sort_rows[(rows.numel(),)](rows, indptr, nodes, values, by_node, totals, ROOM=room)
        least = room
    if longest > least:
        _sort_long_rows(torch.nonzero(counts > least)[:, 0], indptr, nodes, values, by_node, totals)
    is_last = torch.ones(nodes.numel(), dtype=torch.bool, device=nodes.device)
    torch.ne(by_node[1:], by_node[:-1], out=is_last[:-1])
    is_last[indptr[1:][counts > 0] - 1] = True
    ends = offsets(is_last)[indptr]
    return csr_of_counts(ends.diff(), by_node[is_last], totals[is_last], shape)


def _sort_long_rows(
    rows: Tensor, indptr: Tensor, nodes: Tensor, values: Tensor, by_node: Tensor, totals: Tensor
) -> None:
    """Sort the deposits of some rows by node; the last of a node gets the sum of all of its values."""
    counts = indptr.diff()[rows]
    ends = offsets(counts)
    places = torch.arange(int(ends[-1]), device=nodes.device)
    places += torch.repeat_interleave(indptr[rows] - ends[:-1], counts)
    numbers = torch.repeat_interleave(torch.arange(rows.numel(), device=nodes.device), counts)
    order = torch.argsort(numbers * (int(nodes.max()) + 1) + nodes[places], stable=True)
    own, numbers = nodes[places][order], numbers[order]
    by_node[places] = own
    begins = begins_of_runs(own) | begins_of_runs(numbers)
    runs = torch.nonzero(begins)[:, 0]
    last = torch.cat([runs[1:], runs.new_full((1,), own.numel())]) - 1
    totals[places[last]] = sums_of_runs(values[places], order, runs)
