"""From deposits to rows of features: the values on each node that a row's walks reached are added up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel.walks.compiling import compiled

ONE = np.uint64(1)
TAG_BITS = np.uint64(40)
HASH_MULTIPLIER = np.uint64(0x9E3779B1)
HASH_SHIFT = np.uint64(15)
SMALLEST_TABLE = 2048
SHORT = 24
"""Walks up to this length are searched for repeated nodes pair by pair."""


@compiled
def room_for(size: int) -> int:
    """Return a power of two of at least four times the size."""
    room = SMALLEST_TABLE
    while room < 4 * size:
        room *= 2
    return room


@compiled
def coalesce_row(
    lengths: NDArray[np.int32],  # (walks,)
    nodes: Any,
    values: NDArray[np.float64],
    row: int,
    slots: NDArray[np.uint64],  # a power of two of them; left by earlier rows, of smaller number
    indices: Any,  # filled
    data: NDArray[np.float64],  # filled
) -> int:
    """Add up the values on each node, nodes in the order of their first visit; return the number of nodes.

    A hash table that is never emptied: a slot holds the row it was last used in and its place in that row. It
    stays in the first cache level whatever the size of the graph, and needs no term in it. All walks begin at
    home with the same deposit.
    """
    mine = np.uint64(row + 1) << TAG_BITS
    last_slot = np.uint64(slots.size - 1)
    slots[((np.uint64(nodes[0]) * HASH_MULTIPLIER) >> HASH_SHIFT) & last_slot] = mine
    indices[0], data[0] = nodes[0], values[0] * lengths.size
    n = 1
    begin = np.int64(0)
    for length in lengths:
        for q in range(begin + 1, begin + length + 1):
            node = nodes[q]
            slot = ((np.uint64(node) * HASH_MULTIPLIER) >> HASH_SHIFT) & last_slot
            while slots[slot] >= mine and indices[np.int64(slots[slot] - mine)] != node:
                slot = (slot + ONE) & last_slot
            if slots[slot] >= mine:
                data[np.int64(slots[slot] - mine)] += values[q]
            else:
                slots[slot] = mine + np.uint64(n)
                indices[n], data[n] = node, values[q]
                n += 1
        begin += length + 1
    return n


@compiled
def squared_norm(nodes: Any, values: NDArray[np.float64]) -> float:
    """Return ‖φ‖² of the coalesced deposits of a single walk."""
    total = 0.0
    if nodes.size <= SHORT:
        for a in range(nodes.size):
            total += values[a] * values[a]
            for b in range(a):
                if nodes[a] == nodes[b]:
                    total += 2.0 * values[a] * values[b]
        return total
    distinct, data = np.empty_like(nodes), np.empty_like(values)
    slots = np.zeros(room_for(nodes.size), dtype=np.uint64)
    lengths = np.full(1, nodes.size - 1, dtype=np.int32)
    for q in range(coalesce_row(lengths, nodes, values, 0, slots, distinct, data)):
        total += data[q] * data[q]
    return total


@compiled
def coalesce(
    n_walks: int,
    lengths: NDArray[np.int32],  # (rows · walks,)
    nodes: Any,  # (deposits,)
    values: NDArray[np.float64],  # (deposits,)
    group: int,
    counts: NDArray[np.int64],  # (rows,), filled: entries of each row
    norms: NDArray[np.float64],  # (rows,), filled if group > 0: Σ ‖φ‖² over a row's groups of walks
    indices: Any,  # (deposits,), filled
    data: NDArray[np.float64],  # (deposits,), filled
) -> Any:
    """Turn deposits, row by row and walk by walk, into CSR rows; return the number of entries."""
    slots = np.zeros(SMALLEST_TABLE, dtype=np.uint64)
    n = begin = np.int64(0)
    for row in range(counts.size):
        own = lengths[row * n_walks : (row + 1) * n_walks]
        size = np.int64(own.sum()) + n_walks
        if 4 * size > slots.size:
            slots = np.zeros(room_for(size), dtype=np.uint64)
        part = slice(begin, begin + size)
        counts[row] = coalesce_row(own, nodes[part], values[part], row, slots, indices[n:], data[n:])
        n += counts[row]
        if group > 0:
            norms[row] = 0.0
            for first in range(0, n_walks, group):
                end = begin + np.int64(own[first : first + group].sum()) + min(group, n_walks - first)
                norms[row] += squared_norm(nodes[begin:end], values[begin:end])
                begin = end
        else:
            begin += size
    return n


@compiled
def squared_group_norms(
    group: int,
    starts: NDArray[np.int64],  # (rows + 1,)
    nodes: Any,  # (deposits,)
    lengths: NDArray[np.int32],  # (deposits,): 0 opens a walk
    values: NDArray[np.float64],  # (deposits,)
    norms: NDArray[np.float64],  # (rows,), filled
) -> None:
    """Return Σ ‖φ‖² over the groups of walks of each row."""
    for row in range(norms.size):
        norms[row] = 0.0
        begin, walks = starts[row], 1
        for q in range(begin + 1, starts[row + 1] + 1):
            if q < starts[row + 1] and lengths[q] > 0:
                continue
            if walks == group or q == starts[row + 1]:
                norms[row] += squared_norm(nodes[begin:q], values[begin:q])
                begin, walks = q, 0
            walks += 1


@compiled
def count_hops(lengths: NDArray[np.int32], hops: NDArray[np.int32]) -> None:
    """Fill the length at each deposit: 0, 1, …, L for every walk of L steps."""
    n = 0
    for length in lengths:
        for t in range(length + 1):
            hops[n + t] = t
        n += length + 1


@compiled
def number_nodes(nodes: Any, columns: Any, reached: NDArray[np.int64], first: int) -> Any:
    """Give nodes numbers by first appearance, after those in reached[:first]; return how many there are.

    ``columns`` is filled with the number of each node and ``reached`` with the nodes in that order.
    """
    room = room_for(reached.size)
    last_slot = np.uint64(room - 1)
    slots = np.full(room, -1, dtype=np.int64)
    n = np.int64(0)
    for q in range(first + nodes.size):
        node = reached[q] if q < first else np.int64(nodes[q - first])
        slot = ((np.uint64(node) * HASH_MULTIPLIER) >> HASH_SHIFT) & last_slot
        while slots[slot] >= 0 and reached[slots[slot]] != node:
            slot = (slot + ONE) & last_slot
        if slots[slot] < 0:
            slots[slot] = n
            reached[n] = node
            n += 1
        if q >= first:
            columns[q - first] = slots[slot]
    return n
