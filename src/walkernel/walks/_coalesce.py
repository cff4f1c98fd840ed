"""From deposits to rows of features: the values on each node that a row's walks reached are added up."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.walks.compiling import compiled, subroutine

ONE = np.uint64(1)
TAG_BITS = np.uint64(40)
HASH_MULTIPLIER = np.uint64(0x9E3779B1)
HASH_SHIFT = np.uint64(15)
SMALLEST_TABLE = 2048


class Lookup(NamedTuple):
    """The hash table of a row's nodes, and room for sums over them; its slots are zero before each call."""

    slots: NDArray[np.uint64]  # a power of two, of at least four times the deposits of the largest row
    places: NDArray[np.int32]  # a quarter of that
    sums: NDArray[np.float64]


def make_lookup(size: int) -> Lookup:
    """Return a table for rows of at most ``size`` deposits; a small one stays in the first cache level."""
    room = slots_for(size)
    return Lookup(np.zeros(room, np.uint64), np.empty(room // 4, np.int32), np.zeros(room // 4))


def slots_for(size: int) -> int:
    """Return a power of two of at least four times the size."""
    return max(SMALLEST_TABLE, 1 << (4 * size - 1).bit_length())


@subroutine
def coalesce_row(
    lengths: NDArray[np.int32],  # (walks,)
    nodes: Any,
    values: NDArray[np.float64],
    row: int,
    slots: NDArray[np.uint64],  # a power of two of them; left by earlier rows, of smaller number
    places: NDArray[np.int32],  # (deposits,), filled: where each one was added
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
        places[begin] = 0
        for q in range(begin + 1, begin + length + 1):
            node = nodes[q]
            slot = ((np.uint64(node) * HASH_MULTIPLIER) >> HASH_SHIFT) & last_slot
            while slots[slot] >= mine and indices[np.int64(slots[slot] - mine)] != node:
                slot = (slot + ONE) & last_slot
            if slots[slot] >= mine:
                place = np.int64(slots[slot] - mine)
                data[place] += values[q]
                places[q] = place
            else:
                slots[slot] = mine + np.uint64(n)
                indices[n], data[n], places[q] = node, values[q], n
                n += 1
        begin += length + 1
    return n


@subroutine
def add_head(
    nodes: Any,
    values: NDArray[np.float64],
    row: int,
    slots: NDArray[np.uint64],
    n: int,
    indices: Any,
    data: Any,
) -> int:
    """Add a head to the n nodes of a coalesced row; return how many there are then."""
    mine = np.uint64(row + 1) << TAG_BITS
    last_slot = np.uint64(slots.size - 1)
    for q in range(nodes.size):
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
    return n


@compiled
def coalesce_heads(
    heads: NDArray[np.int64],  # (rows + 1,): the head of row i is at heads[i] : heads[i + 1]
    nodes: Any,
    values: NDArray[np.float64],
    counts: NDArray[np.int64],  # (rows,), filled
    indices: Any,  # (entries of heads,), filled
    data: NDArray[np.float64],  # (entries of heads,), filled
    lookup: Lookup,
) -> Any:
    """Turn heads into CSR rows; return the number of entries."""
    n = np.int64(0)
    for row in range(counts.size):
        own = slice(heads[row], heads[row + 1])
        counts[row] = add_head(nodes[own], values[own], row, lookup.slots, 0, indices[n:], data[n:])
        n += counts[row]
    return n


@subroutine
def squared_group_norms(
    lengths: NDArray[np.int32],  # (walks,)
    group: int,
    places: NDArray[np.int32],  # (deposits,)
    values: NDArray[np.float64],  # (deposits,)
    sums: NDArray[np.float64],  # (nodes of the row,), zeros before and after
) -> float:
    """Return Σ ‖φ‖² over the groups of walks of a row: a² + 2ab + b² as b is added to a."""
    total = 0.0
    begin = np.int64(0)
    for first in range(0, lengths.size, group):
        end = begin
        for length in lengths[first : first + group]:
            end += length + 1
        for q in range(begin, end):
            total += values[q] * (2.0 * sums[places[q]] + values[q])
            sums[places[q]] += values[q]
        for q in range(begin, end):
            sums[places[q]] = 0.0
        begin = end
    return total


@compiled
def coalesce(
    n_walks: int,
    walks: NDArray[np.int64],  # (rows + 1,): the walks of row i are walks[i] : walks[i + 1]
    lengths: NDArray[np.int32],  # (walks,)
    nodes: Any,  # (deposits,)
    values: NDArray[np.float64],  # (deposits,)
    heads: NDArray[np.int64],  # (rows + 1,): the head of row i is at heads[i] : heads[i + 1]
    head_nodes: Any,
    head_values: NDArray[np.float64],
    group: int,
    counts: NDArray[np.int64],  # (rows,), filled: entries of each row
    norms: NDArray[np.float64],  # (rows, 2), filled if group > 0: ‖·‖² of groups of walks, and of all walks
    indices: Any,  # (deposits and heads,), filled
    data: NDArray[np.float64],  # (deposits and heads,), filled
    lookup: Lookup,
) -> Any:
    """Turn deposits, row by row and walk by walk, and heads into CSR rows; return the number of entries.

    ``group`` is that of a row of ``n_walks``; groups of rows of more walks are larger.
    """
    slots, places, sums = lookup.slots, lookup.places, lookup.sums
    n = begin = np.int64(0)
    for row in range(counts.size):
        own = lengths[walks[row] : walks[row + 1]]
        size = np.int64(own.size)
        for length in own:
            size += length
        part = slice(begin, begin + size)
        count = coalesce_row(own, nodes[part], values[part], row, slots, places, indices[n:], data[n:])
        if group > 0:
            of_row = group * own.size // n_walks
            norms[row, 0] = squared_group_norms(own, of_row, places, values[part], sums)
            total = 0.0
            for q in range(n, n + count):
                total += data[q] * data[q]
            norms[row, 1] = total
        begin += size
        head = slice(heads[row], heads[row + 1])
        counts[row] = add_head(head_nodes[head], head_values[head], row, slots, count, indices[n:], data[n:])
        n += counts[row]
    return n


@compiled
def count_hops(
    begins: NDArray[np.int64],  # (laws,): the hop at which walks of each law begin
    lengths: NDArray[np.int32],  # (walks,)
    laws: NDArray[np.int32],  # (walks,), or nothing if there is one law
    hops: NDArray[np.int32],  # (deposits,), filled
) -> None:
    """Fill the length at each deposit: 0, h + 1, …, h + L for every walk of L steps that begins at hop h."""
    n, begin = 0, begins[0]
    for j in range(lengths.size):
        hops[n] = 0
        if laws.size:
            begin = begins[laws[j]]
        for t in range(1, lengths[j] + 1):
            hops[n + t] = begin + t
        n += lengths[j] + 1


@compiled
def number_nodes(
    nodes: Any, columns: Any, reached: NDArray[np.int64], first: int, slots: NDArray[np.int64]
) -> Any:
    """Give nodes numbers by first appearance, after those in reached[:first]; return how many there are.

    ``columns`` is filled with the number of each node and ``reached`` with the nodes in that order. ``slots``
    is a hash table, a power of two of -1, of at least four times the nodes.
    """
    last_slot = np.uint64(slots.size - 1)
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
