"""Heads of tasks and of records as plain arrays; ``_follow`` has the loops and the mathematics."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.walks._laws import ResidueWorth
from walkernel.walks._samplers import CoupledWalks, PrunedWalks, Sampler
from walkernel.walks._state import Front, read_only
from walkernel.walks._tables import StepLaw

if TYPE_CHECKING:
    from walkernel.walks._follow import Room, Rule

FIRST_ROOM = 64.0
"""Entries of a head that are reserved at first."""
MAX_SHIFT = 4
"""Binary logarithm of the largest number of walks from a start node, relative to the number asked for."""
FIRST_SLOTS = 1024
"""Slots of the hash table for the nodes of a hop at first; this many stay in the first cache level."""


class HeadRoom(threading.local):
    """Arrays for heads and fronts, one set for each thread, used again so that fresh memory is paid for once.

    What is in them lasts until the thread follows other heads.
    """

    def __init__(self) -> None:
        self.entries = FIRST_ROOM  # of a head, on average so far
        self._arrays: dict[str, NDArray[Any]] = {}

    def take(self, name: str, size: int, dtype: Any) -> NDArray[Any]:
        """Return an array for a purpose, with whatever is in it."""
        array = self._arrays.get(name)
        if array is None or array.size < size:
            array = self._arrays[name] = np.empty(size, dtype=dtype)
        return array[:size]


class Head(NamedTuple):
    """The heads of some start nodes: that of the i-th one is at ``indptr[i]:indptr[i + 1]``.

    ``loads`` are entries of Mˡ with their length l ≥ 1, as far as followed edges lead; ``edges`` counts those
    followed from each start node, and ``shifts`` has the binary logarithms of how many times as many walks
    there are from it as were asked for, or nothing if all numbers are equal.
    """

    indptr: NDArray[np.int64]
    nodes: NDArray[np.signedinteger[Any]]
    lengths: NDArray[np.int32]
    loads: NDArray[np.float64]
    edges: NDArray[np.int64]
    shifts: NDArray[np.int32]

    def copy(self) -> Head:
        """Return the heads in memory of their own."""
        return Head._make([array.copy() for array in self])

    def repeated(self, times: int) -> Head:
        """Return the heads with each start node's as often, one after the other."""
        counts = np.diff(self.indptr)
        starts = np.repeat(self.indptr[:-1], times)
        indptr = offsets(np.repeat(counts, times))
        where = np.repeat(starts - indptr[:-1], np.repeat(counts, times)) + np.arange(indptr[-1])
        parts = (self.nodes[where], self.lengths[where], self.loads[where])
        return Head(indptr, *parts, np.repeat(self.edges, times), np.repeat(self.shifts, times))


def join_heads(parts: list[Head]) -> Head:
    """Join the heads of consecutive blocks of start nodes."""
    of_starts = [np.concatenate([part[k] for part in parts]) for k in (4, 5)]
    return Head(*join_entries(parts), *of_starts)


def join_entries(parts: Sequence[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return indptr, nodes, lengths and loads of the heads or deposits of consecutive start nodes."""
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    nodes, lengths, loads = (np.concatenate([part[k] for part in parts]) for k in (1, 2, 3))
    return offsets(counts), nodes, lengths, loads


def count_walks(n_walks: int, shifts: NDArray[np.int32], n: int) -> NDArray[np.int64]:
    """Return the number of walks from each of n start nodes."""
    if not shifts.size:
        return np.full(n, n_walks)
    return np.where(shifts < 0, n_walks >> np.maximum(-shifts, 0), n_walks << np.maximum(shifts, 0))


def no_heads(n: int, dtype: Any) -> Head:
    """Return the heads of n start nodes without any hop."""
    zeros, none = np.zeros(n + 1, dtype=np.int64), np.empty(0, np.int32)
    return Head(zeros, np.empty(0, dtype), none, np.empty(0), zeros[1:].copy(), none)


def head_rule(sampler: Sampler, first: NDArray[np.float64]) -> Rule:
    """Return which edges the heads of a sampler follow, and where walks leave them."""
    from walkernel.walks._follow import Rule

    depth = sampler.head
    if not isinstance(sampler, PrunedWalks):
        ones, one_law = np.ones(depth + 1), np.zeros(depth + 1, dtype=np.int32)
        arrays = [read_only(array) for array in (np.zeros(depth), ones, ones, one_law, first)]
        return Rule._make([0.0, *arrays, 0.0, (0, 0)])
    own, laws = ResidueWorth(np.array(sampler.sizes), depth), np.arange(depth + 1, dtype=np.int32)
    arrays = [read_only(array) for array in (own.gains, own.worths, own.weights, laws, first)]
    shifts = 1 - sampler.group.bit_length(), MAX_SHIFT
    return Rule._make([sampler.threshold, *arrays, sampler.unevenness, shifts])


def follow_heads(
    hops: StepLaw | None, rule: Rule | None, starts: NDArray[np.int64], dtype: Any, reserved: HeadRoom
) -> tuple[Head, Front]:
    """Return the heads of some start nodes and the fronts where their walks begin."""
    if hops is None or rule is None:
        none = no_heads(starts.size, dtype)
        nowhere = np.empty(0, dtype=np.uint64), none.loads, none.lengths, none.shifts, none.lengths
        return none, Front(0, none.indptr, none.nodes, *nowhere)
    from walkernel.walks._follow import cut_fronts

    starts = read_only(starts)
    counts, edges, room, n = _expand(hops, rule, starts, dtype, reserved)
    sizes, sums, shifts = _measure(hops, rule, starts, counts, room, n)
    places = int(sizes.sum())
    front = Front(
        rule.gains.size, offsets(sizes), reserved.take("front nodes", places, dtype),
        reserved.take("cuts", places, np.uint64), reserved.take("front loads", places, np.float64),
        reserved.take("front laws", places, np.int32), shifts,
        reserved.take("guide", 2 * places, np.int32),
    )  # fmt: skip
    places_of = (front.ends, front.nodes, front.cuts, front.loads, front.laws, front.guide)
    cut_fronts.for_work(n)(starts, counts, hops.enter, rule, room, sums, *places_of)
    indptr = offsets(counts.sum(axis=1))
    return Head(indptr, room.nodes[:n], room.lengths[:n], room.loads[:n], edges, shifts), front


def _expand(
    hops: StepLaw, rule: Rule, starts: NDArray[np.int64], dtype: Any, reserved: HeadRoom
) -> tuple[NDArray[np.int64], NDArray[np.int64], Room, int]:
    """Follow the heads of some start nodes; return entries of each length, edges, and all entries."""
    from walkernel.walks._follow import CROWDED, NO_ROOM, expand

    depth = rule.gains.size
    counts = reserved.take("counts", starts.size * depth, np.int64).reshape(starts.size, depth)
    edges = reserved.take("edges", starts.size, np.int64)
    done, n, size = 0, 0, int(reserved.entries * starts.size)
    room, n_slots = _room(reserved, size, dtype), FIRST_SLOTS
    work = starts.size * depth * hops.indices.size
    while done < starts.size:
        slots = np.zeros(n_slots, dtype=np.uint64)
        done, n, reason = expand.for_work(work)(starts, hops, rule, counts, edges, slots, room, done, n)
        if reason == CROWDED:
            n_slots *= 2
        elif reason == NO_ROOM:
            done, n, size = 0, 0, 2 * size
            room = _room(reserved, size, dtype)
    reserved.entries = max(reserved.entries, 1.5 * n / max(1, starts.size))
    return counts, edges, room, n


def _measure(
    hops: StepLaw, rule: Rule, starts: NDArray[np.int64], counts: NDArray[np.int64], room: Room, n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int32]]:
    """Return how many residues heads have, Σ q w_h and Σ q s_h over them, and shifts of numbers of walks."""
    from walkernel.walks._follow import measure_residues

    sizes, sums = np.empty(starts.size, dtype=np.int64), np.empty((starts.size, 2))
    shifts = np.empty(starts.size if rule.unevenness > 0 else 0, dtype=np.int32)
    measure_residues.for_work(n)(starts, counts, hops.indptr, rule, room, sizes, sums, shifts)
    return sizes, sums, shifts


def measure_heads(
    hops: StepLaw, rule: Rule, starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the edges that heads follow, and T = Σ q w_h and Z = Σ q s_h of their residues, (starts, 2)."""
    starts, reserved = read_only(starts), HeadRoom()
    counts, edges, room, n = _expand(hops, rule, starts, hops.indices.dtype, reserved)
    return edges, _measure(hops, rule, starts, counts, room, n)[1]


def _room(reserved: HeadRoom, size: int, dtype: Any) -> Room:
    """Return room for so many entries of heads."""
    from walkernel.walks._follow import Room

    return Room(
        reserved.take("nodes", size, dtype), reserved.take("lengths", size, np.int32),
        reserved.take("loads", size, np.float64), reserved.take("chances", size, np.float64),
    )  # fmt: skip


def follow_front(hops: StepLaw, depth: int, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes where whole heads of some start nodes end, one after the other."""
    rule = head_rule(CoupledWalks((1.0,), head=depth), hops.enter)
    _, front = follow_heads(hops, rule if depth else None, starts, hops.indices.dtype, HeadRoom())
    return front.nodes.astype(np.int64)


def offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
