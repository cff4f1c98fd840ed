"""Heads of tasks and of records as plain arrays; ``_follow`` has the loops and the mathematics."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.walks._state import Front, read_only
from walkernel.walks._tables import StepLaw

if TYPE_CHECKING:
    from walkernel.walks._follow import Room

FIRST_ROOM = 64.0
"""Entries of a head that are reserved at first."""
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
    """The exact heads of some start nodes: that of the i-th one is at ``indptr[i]:indptr[i + 1]``.

    ``loads`` are entries of Mˡ with their length l ≥ 1; ``edges`` counts those followed from each start node.
    """

    indptr: NDArray[np.int64]
    nodes: NDArray[np.signedinteger[Any]]
    lengths: NDArray[np.int32]
    loads: NDArray[np.float64]
    edges: NDArray[np.int64]

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
        return Head(indptr, *parts, np.repeat(self.edges, times))


def join_heads(parts: list[Head]) -> Head:
    """Join the heads of consecutive blocks of start nodes."""
    return Head(*join_entries(parts), np.concatenate([part.edges for part in parts]))


def join_entries(parts: Sequence[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return indptr, nodes, lengths and loads of the heads or deposits of consecutive start nodes."""
    counts = np.concatenate([np.diff(part.indptr) for part in parts])
    nodes, lengths, loads = (np.concatenate([part[k] for part in parts]) for k in (1, 2, 3))
    return offsets(counts), nodes, lengths, loads


def no_heads(n: int, dtype: Any) -> Head:
    """Return the heads of n start nodes without any hop."""
    zeros = np.zeros(n + 1, dtype=np.int64)
    return Head(zeros, np.empty(0, dtype), np.empty(0, np.int32), np.empty(0), zeros[1:].copy())


def follow_heads(
    hops: StepLaw | None, depth: int, starts: NDArray[np.int64], dtype: Any, reserved: HeadRoom
) -> tuple[Head, Front]:
    """Return the heads of some start nodes and the fronts where their walks begin."""
    if hops is None:
        none = no_heads(starts.size, dtype)
        nowhere = np.empty(0, dtype=np.uint64), none.loads, none.lengths
        return none, Front(0, none.indptr, none.nodes, *nowhere)
    from walkernel.walks._follow import CROWDED, NO_ROOM, cut_fronts, expand

    counts = reserved.take("counts", starts.size * depth, np.int64).reshape(starts.size, depth)
    edges = reserved.take("edges", starts.size, np.int64)
    done, n, size = 0, 0, int(reserved.entries * starts.size)
    room, n_slots = _room(reserved, size, dtype), FIRST_SLOTS
    work = starts.size * depth * hops.indices.size
    while done < starts.size:
        slots = np.zeros(n_slots, dtype=np.uint64)
        done, n, reason = expand.for_work(work)(read_only(starts), hops, counts, edges, slots, room, done, n)
        if reason == CROWDED:
            n_slots *= 2
        elif reason == NO_ROOM:
            done, n, size = 0, 0, 2 * size
            room = _room(reserved, size, dtype)
    reserved.entries = max(reserved.entries, 1.5 * n / max(1, starts.size))
    places = int(counts[:, -1].sum())
    front = Front(
        depth, offsets(counts[:, -1]), reserved.take("front nodes", places, dtype),
        reserved.take("cuts", places, np.uint64), reserved.take("front loads", places, np.float64),
        reserved.take("guide", 2 * places, np.int32),
    )  # fmt: skip
    cut_fronts.for_work(places)(counts, hops.enter, room, *front[1:])
    indptr = offsets(counts.sum(axis=1))
    return Head(indptr, room.nodes[:n], room.lengths[:n], room.loads[:n], edges), front


def _room(reserved: HeadRoom, size: int, dtype: Any) -> Room:
    """Return room for so many entries of heads."""
    from walkernel.walks._follow import Room

    return Room(
        reserved.take("nodes", size, dtype), reserved.take("lengths", size, np.int32),
        reserved.take("loads", size, np.float64), reserved.take("chances", size, np.float64),
    )  # fmt: skip


def follow_front(hops: StepLaw, depth: int, starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the nodes where heads of some start nodes end, one after the other."""
    _, front = follow_heads(hops, depth, starts, hops.indices.dtype, HeadRoom())
    return front.nodes.astype(np.int64)


def offsets(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where parts of these sizes begin, and where the last one ends."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
