"""Exact heads: the first hops from a start node, followed along every edge.

With M the matrix and P the law of steps, the head of r hops from node i holds the entries of (Mˡ)_i for
l = 1 … r, each with its length l. The walks that go on from it begin at a node x with probability
(Pʳ)_ix / T, T = Σ_x (Pʳ)_ix, and carry the load T (Mʳ)_ix / (Pʳ)_ix, so that deposits at lengths beyond r are
unbiased. T is 1 but where paths end in nodes that no edge leaves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.walks._tables import StepLaw
from walkernel.walks.compiling import compiled, spliced, subroutine

ONE = np.uint64(1)
TAG_BITS, WORD = np.uint64(32), np.uint64(64)
HASH_MULTIPLIER = np.uint64(0x9E3779B1)
HASH_SHIFT = np.uint64(15)
ALWAYS = np.uint64(0xFFFFFFFFFFFFFFFF)
NO_ROOM, CROWDED = -1, -2


class Room(NamedTuple):
    """Entries of heads, (room,) each."""

    nodes: Any
    lengths: NDArray[np.int32]
    loads: NDArray[np.float64]
    chances: NDArray[np.float64]


@subroutine
def follow(node: int, load: float, chance: float, hops: StepLaw, length: int, tag: Any, slots: Any,
           begin: int, n: int, room: Room) -> Any:  # fmt: skip
    """Hop along every edge of a node, to entries from ``begin`` on; return where they end.

    Without room for them return NO_ROOM, and CROWDED where the hash table is too small.
    """
    if hops.indptr[node] == hops.indptr[node + 1]:
        return n
    last_slot = np.uint64(slots.size - 1)
    load, chance = load * hops.leave[node], chance / hops.totals[node]
    for e in range(hops.indptr[node], hops.indptr[node + 1]):
        other = np.int64(hops.indices[e])
        slot = ((np.uint64(other) * HASH_MULTIPLIER) >> HASH_SHIFT) & last_slot
        while slots[slot] >= tag and room.nodes[begin + np.int64(slots[slot] - tag)] != other:
            slot = (slot + ONE) & last_slot
        if slots[slot] < tag:
            if n == room.nodes.size:
                return NO_ROOM
            if 4 * (n + 1 - begin) > slots.size:
                return CROWDED
            slots[slot] = tag + np.uint64(n - begin)
            room.nodes[n], room.lengths[n], room.loads[n], room.chances[n] = other, length, 0.0, 0.0
            n += 1
        place = begin + np.int64(slots[slot] - tag)
        value = hops.values[e] if hops.values.size else 1.0
        weight = abs(hops.weights[e]) if hops.weights.size else 1.0
        room.loads[place] += load * value
        room.chances[place] += chance * weight
    return n


@spliced
def expand_one(start: int, number: int, hops: StepLaw, slots: Any, n: int, counts: Any, room: Room) -> Any:
    """Fill the head of one start node from entry n on: (edges followed, where it ends, or why it failed)."""
    source, edges = n, hops.indptr[start + 1] - hops.indptr[start]
    for hop in range(counts.size):
        begin = n
        tag = np.uint64(number * counts.size + hop + 1) << TAG_BITS
        for q in range(source, begin + (hop == 0)):
            node, load, chance = np.int64(start), 1.0, 1.0
            if hop > 0:
                node, load, chance = np.int64(room.nodes[q]), room.loads[q], room.chances[q]
                edges += hops.indptr[node + 1] - hops.indptr[node]
            n = follow(node, load, chance, hops, hop + 1, tag, slots, begin, n, room)
            if n < 0:
                break
        if n < 0:
            break
        for q in range(begin, n):
            room.loads[q] *= hops.enter[np.int64(room.nodes[q])]
        counts[hop] = n - begin
        source = begin
    return edges, n


@compiled
def expand(
    starts: NDArray[Any],
    hops: StepLaw,
    counts: NDArray[np.int64],  # (starts, depth), filled: entries of each length
    edges: NDArray[np.int64],  # (starts,), filled: edges followed
    slots: NDArray[np.uint64],  # a power of two of zeros: the hash table, overwritten
    room: Room,  # filled, start node by start node and length by length
    done: int,
    n: int,
) -> Any:
    """Fill the heads of start nodes after the first ``done`` ones, which have n entries.

    Return how many are done then, their number of entries, and why there are no more: NO_ROOM or CROWDED.
    """
    for i in range(done, starts.size):
        edges[i], end = expand_one(starts[i], i, hops, slots, n, counts[i], room)
        if end < 0:
            return i, n, end
        n = end
    return starts.size, n, np.int64(0)


@compiled
def cut_fronts(
    counts: NDArray[np.int64],  # (starts, depth)
    enter: NDArray[np.float64],
    room: Room,
    ends: NDArray[np.int64],  # (starts + 1,), filled
    nodes: Any,  # (places,), filled
    cuts: NDArray[np.uint64],  # (places,), filled
    loads: NDArray[np.float64],  # (places,), filled
    guide: NDArray[np.int32],  # (2 · places,), filled
) -> None:
    """Make the fronts that walks begin on of the last level of each head."""
    place = n = np.int64(0)
    ends[0] = 0
    for i in range(counts.shape[0]):
        width = counts[i, -1]
        for hop in range(counts.shape[1]):
            n += counts[i, hop]
        total = 0.0
        for q in range(n - width, n):
            total += room.chances[q]
        sum_so_far = 0.0
        for q in range(n - width, n):
            sum_so_far += room.chances[q]
            share = sum_so_far / total * 18446744073709551616.0
            cuts[place] = ALWAYS if share >= 18446744073709549568.0 else np.uint64(share)
            nodes[place] = room.nodes[q]
            loads[place] = total * room.loads[q] / (room.chances[q] * enter[np.int64(room.nodes[q])])
            place += 1
        ends[i + 1] = place
        bits = np.uint64(0)
        while (np.int64(1) << np.int64(bits)) < width:
            bits += ONE
        found = ends[i]
        for k in range(np.int64(1) << np.int64(bits)):
            least = np.uint64(k) << (WORD - bits) if bits > 0 else np.uint64(0)
            while found < place - 1 and cuts[found] <= least:
                found += 1
            if width > 0:
                guide[2 * ends[i] + k] = found - ends[i]
