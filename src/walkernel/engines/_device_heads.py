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
from numpy.typing import NDArray
from torch import Tensor

from walkernel.engines._tensors import launching_on, offsets
from walkernel.walks import Head

if TYPE_CHECKING:
    from walkernel.walks import WalkSpec

BLOCK = 128
"""Rows or runs that one Triton program adds up together."""
BYTES_PER_EDGE = 512
"""Memory of the device for each edge that is followed together; of more edges start nodes are divided."""
FEWEST_EDGES = 2**26
DEGREE_BITS = 28
DEGREE = 2**DEGREE_BITS - 1
HALF = 2.0**63


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
    """Entries of one length, sorted by start node, (entries,) each."""

    rows: Tensor
    nodes: Tensor
    loads: Tensor
    chances: Tensor
    is_left: Tensor
    """Whether walks may begin there, as edges are not followed any further."""


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
        law, rule = spec.hops, spec.rule
        assert law is not None
        assert rule is not None
        self.n_nodes, self.rule, self.depth = spec.graph.n_nodes, rule, rule.gains.size
        self._values, self._leave, self._enter, self._totals = (
            self._tensor(array) for array in (law.values, law.leave, law.enter, law.totals)
        )
        self._weights = self._values.abs() if law.weights.size else self._values[:0]
        self._first, self._worths, self._laws = (
            self._tensor(array) for array in (rule.first, rule.weights, rule.laws)
        )

    @property
    def most_edges(self) -> int:
        """How many edges are followed together at most."""
        if self.device.type != "cuda":
            return FEWEST_EDGES
        return max(FEWEST_EDGES, torch.cuda.get_device_properties(self.device).total_memory // BYTES_PER_EDGE)

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.tensor(np.ascontiguousarray(array), device=self.device)

    def follow(self, starts: Tensor) -> tuple[DeviceHead, DeviceFront]:
        """Return the heads of some start nodes, and where walks leave them."""
        n = starts.numel()
        hops, edges = self._follow_hops(starts)
        if hops is None:
            heads, fronts = zip(*map(self.follow, (starts[: n // 2], starts[n // 2 :])), strict=True)
            return _joined(heads), _joined(fronts)
        lengths, entries = self._by_start(hops, n)
        front, shifts = self._front(starts, lengths, entries)
        if hops[0].rows.numel():
            is_hop = lengths > 0
            lengths, entries = lengths[is_hop], _Hop._make([tensor[is_hop] for tensor in entries])
        indptr = ends_of_rows(entries.rows, n)
        return DeviceHead(indptr, entries.nodes, lengths, entries.loads, edges, shifts), front

    def _follow_hops(self, starts: Tensor) -> tuple[list[_Hop] | None, Tensor]:
        """Return entries hop by hop, and the edges followed; no entries if there are too many edges.

        Those of hop 0 are the start nodes that have edges, but none that are followed.
        """
        n, hops = starts.numel(), []
        edges = torch.zeros(n, dtype=torch.int64, device=self.device)
        ones = self._enter.new_ones(n)
        source = _Hop(torch.arange(n, device=self.device), starts, ones, ones, ones > 0)
        for number in range(self.depth):
            words = self._packed[source.nodes.long()]
            degrees = words & DEGREE
            saved = self._first[starts][source.rows] * source.chances * float(self.rule.gains[number])
            is_followed = saved >= self.rule.threshold * degrees.double()
            if number == 0:
                is_followed |= self._enter[starts] == 0
                stays = torch.nonzero(~is_followed & (degrees > 0))[:, 0]
                hops.append(_Hop._make([tensor[stays] for tensor in source]))
            else:
                hops.append(source._replace(is_left=~is_followed))
            kept = torch.nonzero(is_followed)[:, 0]
            degrees = degrees[kept]
            if n > 1 and int(degrees.sum()) > self.most_edges:
                return None, edges
            source = _Hop._make([tensor[kept] for tensor in source])
            edges.index_add_(0, source.rows, degrees)
            source = self._hop(source, words[kept] >> DEGREE_BITS, degrees)
        return [*hops, source], edges

    def _hop(self, source: _Hop, begins: Tensor, degrees: Tensor) -> _Hop:
        """Hop along every edge of some nodes, to entries in the order in which they are met first."""
        nodes = source.nodes.long()
        loads, chances = source.loads * self._leave[nodes], source.chances / self._totals[nodes]
        ends = offsets(degrees)
        owners = torch.arange(degrees.numel(), dtype=torch.int32, device=self.device)
        owners = torch.repeat_interleave(owners, degrees, output_size=int(ends[-1]))
        loads, chances, keys = self._edges(owners, begins - ends[:-1], source.rows, loads, chances)
        keys, order = torch.sort(keys, stable=True)
        runs = torch.nonzero(begins_of_runs(keys))[:, 0]
        by_first = ascending(order[runs], keys.numel())
        loads, chances = sums_of_runs(loads, chances, order, runs)
        keys = keys[runs[by_first]]
        nodes = keys % self.n_nodes
        loads = loads[by_first] * self._enter[nodes]
        every = torch.ones_like(keys, dtype=torch.bool)
        nodes = nodes.to(self._indices.dtype)
        return _Hop(keys.div_(self.n_nodes, rounding_mode="floor"), nodes, loads, chances[by_first], every)

    def _edges(
        self, owners: Tensor, shifts: Tensor, rows: Tensor, loads: Tensor, chances: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return what comes along each edge, load and chance, and where to, as row · n_nodes + node."""
        from walkernel.engines._triton_walks import hop_along_edges

        n = owners.numel()
        result = loads.new_empty(n), loads.new_empty(n), rows.new_empty(n)
        launch(
            hop_along_edges, n, owners, shifts, rows, loads, chances, self._indices, self._values,
            self._weights, *result, self.n_nodes, VALUES=self._values.numel() > 0,
            WEIGHTS=self._weights.numel() > 0,
        )  # fmt: skip
        return result

    def _by_start(self, hops: list[_Hop], n: int) -> tuple[Tensor, _Hop]:
        """Return the lengths of all entries, and these, by start node and then by length."""
        ends = [ends_of_rows(hop.rows, n) for hop in hops]
        begins = torch.stack(ends).sum(0)[:-1]
        lengths = self._laws.new_empty(sum(hop.rows.numel() for hop in hops))
        merged = _Hop._make([tensor.new_empty(lengths.numel()) for tensor in hops[-1]])
        for length, (hop, end) in enumerate(zip(hops, ends, strict=True)):
            place = torch.arange(hop.rows.numel(), device=self.device) + (begins - end[:-1])[hop.rows]
            lengths[place] = length
            for whole, part in zip(merged, hop, strict=True):
                whole[place] = part.to(whole.dtype)
            begins = begins + end.diff()
        return lengths, merged

    def _front(self, starts: Tensor, lengths: Tensor, entries: _Hop) -> tuple[DeviceFront, Tensor]:
        """Return where walks leave heads, and the binary logarithms of their numbers."""
        worths = self._worths[lengths.long()]
        kept = torch.nonzero(entries.is_left & (worths > 0))[:, 0]
        rows, nodes, loads, chances, _ = (tensor[kept] for tensor in entries)
        chances *= worths[kept]
        ends = ends_of_rows(rows, starts.numel())
        sums = running_sums(chances, ends)
        totals = sums.new_zeros(starts.numel())
        totals[rows] = sums[(ends[1:] - 1)[rows]]
        cuts = _words(sums / totals[rows] * 2.0**64)
        loads = totals[rows] * loads / (chances * self._enter[nodes.long()])
        laws = self._laws[lengths[kept].long()]
        return DeviceFront(ends, nodes, cuts, loads, laws, guides(cuts, ends)), self._shifts(starts, totals)

    def _shifts(self, starts: Tensor, totals: Tensor) -> Tensor:
        """Return binary logarithms of numbers of walks, relative to the number asked for, if unequal."""
        if not self.rule.unevenness:
            return self._laws[:0]
        value, (least, most) = self.rule.unevenness * self._first[starts] * totals, self.rule.shifts
        mantissa, exponent = torch.frexp(value)
        nearest = torch.where(mantissa < math.sqrt(0.5), exponent - 1, exponent)
        return torch.where(value > 0, nearest.clamp(least, most), least).int()


def ends_of_rows(rows: Tensor, n: int) -> Tensor:
    """Return where each of n rows begins among sorted ones, and where the last one ends."""
    return torch.searchsorted(rows, torch.arange(n + 1, device=rows.device))


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


def _words(shares: Tensor) -> Tensor:
    """Return numbers from 0 to 2⁶⁴ as unsigned words, held in signed ones; all bits are set at the end."""
    high = torch.where(shares >= HALF, HALF, 0.0)
    words = (shares - high).clamp(max=HALF - 1024.0).long() ^ torch.where(high > 0, -(2**63), 0)
    return torch.where(shares >= 18446744073709549568.0, -1, words)


def running_sums(values: Tensor, ends: Tensor) -> Tensor:
    """Return running sums of the values of each run, added one by one in their order."""
    from walkernel.engines._triton_walks import add_along_runs

    sums = torch.empty_like(values)
    launch(add_along_runs, ends.numel() - 1, values, ends, sums)
    return sums


def sums_of_runs(loads: Tensor, chances: Tensor, order: Tensor, runs: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sums of loads and of chances, each in an order, over runs that begin at given places."""
    from walkernel.engines._triton_walks import add_runs

    sums = loads.new_empty(runs.numel()), chances.new_empty(runs.numel())
    launch(add_runs, runs.numel(), loads, chances, order, runs, *sums, order.numel())
    return sums


def guides(cuts: Tensor, ends: Tensor) -> Tensor:
    """Return by the first bits of a draw how far from the begin of a front to look for its place."""
    from walkernel.engines._triton_walks import fill_guides

    guide = torch.zeros(2 * cuts.numel(), dtype=torch.int32, device=cuts.device)
    launch(fill_guides, ends.numel() - 1, cuts, ends, guide)
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
