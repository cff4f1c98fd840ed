"""Exact heads and the fronts behind them, followed on a device: those of the CPU, bit by bit.

``walkernel.walks._follow`` has the mathematics. All start nodes make a hop together: the edges of their
frontiers are laid side by side by prefix sums, sorted by start node and neighbour, and entries of the same
neighbour are added up in the order in which the CPU meets them, in double precision. The cuts of a front,
which decide where walks begin, are therefore the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from walkernel.engines._tensors import launching_on, memory_of, offsets, to_device
from walkernel.walks import Head

if TYPE_CHECKING:
    from walkernel.walks import WalkSpec

BLOCK = 128
"""Rows or runs that one Triton program adds up together."""
BYTES_PER_EDGE = 512
"""Memory of the device for each edge that is followed together; of more edges start nodes are divided."""
FEWEST_EDGES = 2**26
ROOMS = (32, 128, 512)
"""Edges up to which those of a start node are merged by one program, which compares all pairs of them."""
STARTS = 1
"""Start nodes whose edges are followed and merged by one program."""
LANES, SHARE, PROGRAMS = 64, 4096, 16
"""Edges that a program follows together, those for which a start node gets one more, and how many it gets."""
ROWS, WIDTH = 16, 32
"""Runs whose values one program adds up, and values of each at a time."""


class DeviceHead(NamedTuple):
    """The heads of some start nodes as tensors: the fields of ``Head``."""

    indptr: Tensor
    nodes: Tensor
    lengths: Tensor
    loads: Tensor
    edges: Tensor
    shifts: Tensor

    def to_host(self) -> Head:
        """Return the heads in the memory of this process."""
        return Head._make([tensor.cpu().numpy() for tensor in self])

    def repeated(self, times: int) -> DeviceHead:
        """Return the heads with each start node's as often, one after the other."""
        starts = torch.repeat_interleave(self.indptr[:-1], times)
        indptr = offsets(torch.repeat_interleave(self.indptr.diff(), times))
        where = torch.arange(int(indptr[-1]), device=indptr.device)
        where += torch.repeat_interleave(starts - indptr[:-1], indptr.diff())
        entries = [tensor[where] for tensor in (self.nodes, self.lengths, self.loads)]
        of_starts = [torch.repeat_interleave(tensor, times) for tensor in (self.edges, self.shifts)]
        return DeviceHead._make([indptr, *entries, *of_starts])

    def without_entries(self) -> DeviceHead:
        """Return heads that tell the numbers of walks alone."""
        none = self.nodes[:0], self.lengths[:0], self.loads[:0]
        return DeviceHead(torch.zeros_like(self.indptr), *none, torch.zeros_like(self.edges), self.shifts)

    def walks(self, n_walks: int) -> Tensor:
        """Return the number of walks from each start node if ``n_walks`` were asked for."""
        if not self.shifts.numel():
            return torch.full_like(self.edges, n_walks)
        shifts = self.shifts.long()
        return torch.where(shifts < 0, n_walks >> (-shifts).clamp(min=0), n_walks << shifts.clamp(min=0))


class DeviceFront(NamedTuple):
    """Where heads end and walks begin, as tensors: fields of ``Front``, cuts as signed words."""

    ends: Tensor
    nodes: Tensor
    cuts: Tensor
    loads: Tensor
    laws: Tensor
    guide: Tensor


Part = TypeVar("Part", DeviceHead, DeviceFront)


class _Hop(NamedTuple):
    """Entries of one length. A start node has as many places as edges led there, and the first are taken."""

    rows: Tensor  # (places,) int32: the number of the start node
    begins: Tensor  # (starts + 1,): where the places of each start node begin
    counts: Tensor  # (starts,) int32: its entries
    nodes: Tensor
    loads: Tensor
    chances: Tensor


class HeadFollower:
    """The law of hops on a device, and the rule of which edges heads follow.

    Parameters
    ----------
    spec : WalkSpec
        Walks whose sampler has a head.
    packed, indices : Tensor
        Rows of the walk table, which are those of the law of hops.
    """

    def __init__(self, spec: WalkSpec, packed: Tensor, indices: Tensor) -> None:
        self._packed, self._indices, self.device = packed, indices, packed.device
        rule = spec.rule
        assert rule is not None
        self.n_nodes, self.rule, self.depth = spec.graph.n_nodes, rule, rule.gains.size
        key = "device law", str(self.device), spec.matrix, spec.sampler.transition, spec.transpose
        law = spec.graph.derived(key, lambda: self._law(spec))
        self._values, self._weights, self._leave, self._enter, self._totals, self._first = law
        self._worths = to_device(rule.weights, self.device)
        thresholds = np.full(self.depth, rule.threshold)
        self._rules = to_device(np.stack([rule.gains, thresholds], axis=1), self.device)

    def _law(self, spec: WalkSpec) -> list[Tensor]:
        """Return the law of hops; the law of steps has the same values and weights, or no weights."""
        law = spec.hops
        assert law is not None
        arrays = law.values, law.leave, law.enter, law.totals, spec.table.first
        values, *of_nodes = (to_device(array, self.device) for array in arrays)
        return [values, values.abs() if law.weights.size else values[:0], *of_nodes]

    @property
    def most_edges(self) -> int:
        """How many edges are followed together at most."""
        return max(FEWEST_EDGES, memory_of(self.device) // BYTES_PER_EDGE)

    def follow(self, starts: Tensor) -> tuple[DeviceHead, DeviceFront]:
        """Return the heads of some start nodes, and where walks leave them."""
        n = starts.numel()
        edges = torch.zeros(n, dtype=torch.int64, device=self.device)
        ones, places = self._enter.new_ones(n), torch.arange(n + 1, device=self.device)
        nodes, rows = starts.to(self._indices.dtype), places[:n].int()
        hops, left = [_Hop(rows, places, torch.ones_like(rows), nodes, ones, ones)], []
        for number in range(self.depth + 1):
            source = hops[-1]
            ends, leaves = self._choose(starts, source, number)
            left.append(leaves)
            if number < self.depth:
                begins = ends[source.begins]
                widths = begins.diff()
                total, longest = torch.stack([begins[-1], widths.amax() if n else begins[-1]]).tolist()
                if n > 1 and total > self.most_edges:
                    parts = zip(*map(self.follow, (starts[: n // 2], starts[n // 2 :])), strict=True)
                    heads, fronts = parts
                    return _joined(heads), _joined(fronts)
                if not total:
                    break
                edges += widths
                hops.append(self._hop(source, ends, begins, total, longest))
        return self._collect(starts, hops, left, edges)

    def _choose(self, starts: Tensor, source: _Hop, number: int) -> tuple[Tensor, Tensor]:
        """Return where the edges of each place begin that are followed, and how many leaves are before it."""
        from walkernel.engines._triton_heads import choose_edges

        n, is_last = source.rows.numel(), number == self.depth
        degrees, leaves = source.rows.new_empty(n), source.rows.new_empty(n)
        arrays = source.rows, source.begins, source.counts, source.nodes, source.chances
        launch(
            choose_edges, n, starts, *arrays, self._packed, self._first, self._enter,
            self._rules[min(number, self.depth - 1)], degrees, leaves, SOURCE=number == 0, LAST=is_last,
        )  # fmt: skip
        if self.rule.weights[number] <= 0:
            leaves.zero_()
        return offsets(degrees), offsets(leaves)

    def _hop(self, source: _Hop, ends: Tensor, begins: Tensor, n_edges: int, longest: int) -> _Hop:
        """Hop along the edges that are followed, to entries in the order in which they are met first."""
        from walkernel.engines._triton_heads import hop_along_edges

        rows = source.rows.new_empty(n_edges)
        nodes, loads, chances = (
            each.new_empty(n_edges) for each in (self._indices, source.loads, source.chances)
        )
        tables = self._packed, self._indices, self._leave, self._totals, self._values, self._weights
        if n_edges:
            n = source.counts.numel()
            grid = -(-n // STARTS), max(1, min(PROGRAMS, longest // SHARE))
            with launching_on(self.device):
                hop_along_edges[grid](
                    source.begins, source.counts, ends, source.nodes, source.loads, source.chances, *tables,
                    rows, nodes, loads, chances, n, VALUES=self._values.numel() > 0,
                    WEIGHTS=self._weights.numel() > 0, ROWS=STARTS, LANES=LANES, num_warps=1,
                )  # fmt: skip
        met = _Hop(rows, begins, torch.zeros_like(source.counts), nodes, loads, chances)
        return self._merge(met, longest)

    def _merge(self, met: _Hop, longest: int) -> _Hop:
        """Add up what edges of a start node bring to the same node."""
        from walkernel.engines._triton_heads import merge_edges

        result = met._replace(
            nodes=torch.empty_like(met.nodes),
            loads=torch.empty_like(met.loads),
            chances=torch.empty_like(met.chances),
        )
        arrays = met.begins, met.nodes, met.loads, met.chances, self._enter
        outputs, least = (result.nodes, result.loads, result.chances, result.counts), 0
        n = met.counts.numel()
        with launching_on(self.device):
            for room in ROOMS:
                if longest > least:
                    merge_edges[(-(-n // STARTS),)](
                        *arrays, *outputs, least, n, ROWS=STARTS, ROOM=room, num_warps=1
                    )
                least = room
        if longest > least:
            self._merge_long_rows(met, result, least)
        return result

    def _merge_long_rows(self, met: _Hop, result: _Hop, least: int) -> None:
        """Add up what edges bring to the same node, of start nodes with more edges than that, by sorting."""
        is_long = met.begins.diff() > least
        edges = torch.nonzero(is_long[met.rows.long()])[:, 0]
        keys, order = torch.sort(met.rows[edges].long() * self.n_nodes + met.nodes[edges], stable=True)
        runs = torch.nonzero(begins_of_runs(keys))[:, 0]
        by_first = ascending(order[runs], keys.numel())
        loads, chances = (sums_of_runs(each[edges], order, runs) for each in (met.loads, met.chances))
        keys = keys[runs[by_first]]
        rows = keys.div(self.n_nodes, rounding_mode="floor")
        nodes = keys - rows * self.n_nodes
        counts = torch.bincount(rows, minlength=is_long.numel())
        places = torch.arange(keys.numel(), device=self.device) + (met.begins - offsets(counts))[rows]
        result.nodes[places] = nodes.to(result.nodes.dtype)
        result.loads[places], result.chances[places] = loads[by_first] * self._enter[nodes], chances[by_first]
        result.counts[is_long] = counts[is_long].int()

    def _collect(
        self, starts: Tensor, hops: list[_Hop], left: list[Tensor], edges: Tensor
    ) -> tuple[DeviceHead, DeviceFront]:
        """Return heads and fronts of the entries of all hops; those of hop 0 are in no head."""
        from walkernel.engines._triton_heads import collect_entries

        n_left = [leaves[hop.begins].diff() for leaves, hop in zip(left, hops, strict=True)]
        n_found = sum((hop.counts for hop in hops[1:]), torch.zeros_like(edges))
        indptr, ends = offsets(n_found), offsets(sum(n_left))
        n_entries, n_places = torch.stack([indptr[-1], ends[-1]]).tolist()
        head = [
            self._indices.new_empty(n_entries),
            hops[0].rows.new_empty(n_entries),
            self._enter.new_empty(n_entries),
        ]
        rows, laws = (hops[0].rows.new_empty(n_places) for _ in range(2))
        nodes = self._indices.new_empty(n_places)
        loads, chances = (self._enter.new_empty(n_places) for _ in range(2))
        to_head, to_front = indptr[:-1].clone(), ends[:-1].clone()
        for length, (hop, leaves, own) in enumerate(zip(hops, left, n_left, strict=True)):
            launch(
                collect_entries, hop.rows.numel(), hop.rows, hop.begins, hop.counts, hop.nodes, hop.loads,
                hop.chances, leaves, to_head, to_front, self._worths[length:], int(self.rule.laws[length]),
                length, *head, rows, nodes, laws, loads, chances, HEAD=length > 0,
            )  # fmt: skip
            to_head += hop.counts if length else 0
            to_front += own
        cuts, totals = self._cut(ends, rows, nodes, loads, chances)
        front = DeviceFront(ends, nodes, cuts, loads, laws, guides(rows, ends, cuts))
        return DeviceHead._make([indptr, *head, edges, self._shifts(starts, totals)]), front

    def _cut(
        self, ends: Tensor, rows: Tensor, nodes: Tensor, loads: Tensor, chances: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the cuts of fronts, and Σ q w of each; loads become those that walks begin with."""
        from walkernel.engines._triton_heads import cut_fronts

        sums, totals = running_sums(chances, ends)
        cuts = torch.empty_like(sums, dtype=torch.int64)
        arrays = self._enter, totals, sums, chances, loads, cuts
        launch(cut_fronts, cuts.numel(), rows, nodes, *arrays)
        return cuts, totals

    def _shifts(self, starts: Tensor, totals: Tensor) -> Tensor:
        """Return binary logarithms of numbers of walks, relative to the number asked for, if unequal."""
        if not self.rule.unevenness:
            return starts[:0].int()
        value, (least, most) = self.rule.unevenness * self._first[starts] * totals, self.rule.shifts
        mantissa, exponent = torch.frexp(value)
        nearest = torch.where(mantissa < math.sqrt(0.5), exponent - 1, exponent)
        return torch.where(value > 0, nearest.clamp(least, most), least).int()


def begins_of_runs(keys: Tensor) -> Tensor:
    """Return which of sorted keys differ from those before them."""
    begins = torch.ones_like(keys, dtype=torch.bool)
    torch.ne(keys[1:], keys[:-1], out=begins[1:])
    return begins


def ascending(places: Tensor, n: int) -> Tensor:
    """Return the order that sorts distinct places below n."""
    is_there = torch.zeros(n, dtype=torch.bool, device=places.device)
    is_there[places] = True
    rank = torch.cumsum(is_there, 0, dtype=torch.int32)[places] - 1
    order = torch.empty_like(places)
    order[rank.long()] = torch.arange(places.numel(), device=places.device)
    return order


def running_sums(values: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Return running sums of the values of each run, added one by one in their order, and whole sums."""
    from walkernel.engines._triton_heads import add_along_runs

    n = ends.numel() - 1
    sums, totals = torch.empty_like(values), values.new_empty(n)
    if n:
        with launching_on(values.device):
            grid = (-(-n // ROWS),)
            add_along_runs[grid](values, ends, sums, totals, n, ROWS=ROWS, WIDTH=WIDTH)
    return sums, totals


def sums_of_runs(values: Tensor, order: Tensor, runs: Tensor) -> Tensor:
    """Return the sums of values in an order, over runs that begin at given places, added one by one."""
    from walkernel.engines._triton_walks import add_runs

    sums = values.new_empty(runs.numel())
    launch(add_runs, runs.numel(), values, order, runs, sums, order.numel())
    return sums


def guides(rows: Tensor, ends: Tensor, cuts: Tensor) -> Tensor:
    """Return by the first bits of a draw how far from the begin of a front to look for its place."""
    from walkernel.engines._triton_heads import fill_guides

    guide = torch.zeros(2 * cuts.numel(), dtype=torch.int32, device=cuts.device)
    launch(fill_guides, guide.numel(), rows, ends, cuts, guide)
    return guide


def launch(kernel: Any, n: int, *arguments: Any, **options: Any) -> None:
    """Launch a kernel with a lane for each of n things, whose number is its argument after all others."""
    if n:
        with launching_on(arguments[0].device):
            kernel[(-(-n // BLOCK),)](*arguments, n, **options, BLOCK=BLOCK)


def _joined(parts: Sequence[Part]) -> Part:
    """Return the heads or fronts of consecutive start nodes as one."""
    ends, *rest = zip(*parts, strict=True)
    indptr = offsets(torch.cat([part.diff() for part in ends]))
    return type(parts[0])(indptr, *map(torch.cat, rest))
