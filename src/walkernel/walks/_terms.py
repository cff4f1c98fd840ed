"""Deposits with the place of the feature they go to: features for any f are then one pass of additions.

A row's deposits at home, one from each walk, are one term with their number for a load. Terms stand in the
order of the deposits, and adding them up rounds as ``coalesce`` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel.walks.compiling import compiled

ONE = np.uint64(1)
TAG_BITS = np.uint64(32)
HASH_MULTIPLIER = np.uint64(0x9E3779B1)
HASH_SHIFT = np.uint64(15)
SMALLEST_TABLE = 2048


@compiled
def locate(
    first: int,
    last: int,
    n_walks: int,
    walks: NDArray[np.int64],  # (rows,): walks of each row
    begins: NDArray[np.int64],  # (rows + 1,): where its terms begin
    starts: NDArray[np.int64],  # (rows + 1,): deposits of row i are at starts[i] : starts[i + 1]
    nodes: Any,  # (deposits,)
    lengths: NDArray[np.int32],  # (deposits,)
    loads: NDArray[np.float64],  # (deposits,)
    heads: NDArray[np.int64],  # (rows + 1,): the head of row i is at heads[i] : heads[i + 1]
    head_nodes: Any,
    head_lengths: NDArray[np.int32],
    head_loads: NDArray[np.float64],
    counts: NDArray[np.int64],  # (rows,), filled: features of each row
    indices: Any,  # filled: the distinct nodes of row i from starts[i] + heads[i] on, by first visit
    places: Any,  # (terms,), filled: which of them a term goes to
    term_lengths: Any,  # (terms,), filled
    term_loads: NDArray[np.float64],  # (terms,), filled
) -> None:
    """Make the terms of the rows first … last − 1: one for all deposits at home, one for each other.

    Nodes are looked up in a hash table that is never emptied: a slot holds the row it was last used in and
    its place in that row.
    """
    slots = np.zeros(SMALLEST_TABLE, dtype=np.uint64)
    for row in range(first, last):
        begin, loose = starts[row], starts[row] + heads[row]
        if 4 * (starts[row + 1] + heads[row + 1] - loose) > slots.size:
            room = slots.size
            while room < 4 * (starts[row + 1] + heads[row + 1] - loose):
                room *= 2
            slots = np.zeros(room, dtype=np.uint64)
        mine = np.uint64(row + 1) << TAG_BITS
        last_slot = np.uint64(slots.size - 1)
        term, n = begins[row], 0
        for q in range(begin, starts[row + 1] + heads[row + 1] - heads[row]):
            in_head = q >= starts[row + 1]
            if in_head:
                h = heads[row] + q - starts[row + 1]
                node, length, load = np.int64(head_nodes[h]), head_lengths[h], head_loads[h] * n_walks
            else:
                node, length, load = np.int64(nodes[q]), lengths[q], loads[q]
                if length == 0:
                    if q > begin:
                        continue
                    load *= walks[row]
            slot = ((np.uint64(node) * HASH_MULTIPLIER) >> HASH_SHIFT) & last_slot
            while slots[slot] >= mine and indices[loose + np.int64(slots[slot] - mine)] != node:
                slot = (slot + ONE) & last_slot
            if slots[slot] < mine:
                slots[slot] = mine + np.uint64(n)
                indices[loose + n] = node
                n += 1
            places[term] = np.int64(slots[slot] - mine)
            term_lengths[term], term_loads[term] = length, load
            term += 1
        counts[row] = n


@compiled
def move_together(
    first: int,
    last: int,
    starts: NDArray[np.int64],  # (rows + 1,): where rows begin in ``loose``
    indptr: NDArray[np.int64],  # (rows + 1,): where they begin in ``tight``
    loose: Any,
    tight: Any,  # filled for the rows first … last − 1
) -> None:
    """Copy the beginning of every row to where it belongs in an array without gaps."""
    for row in range(first, last):
        shift = starts[row] - indptr[row]
        for place in range(indptr[row], indptr[row + 1]):
            tight[place] = loose[place + shift]


@compiled
def weigh(
    first: int,
    last: int,
    rows: NDArray[np.int64],  # (n,)
    indptr: NDArray[np.int64],  # (all rows + 1,), of the features
    indices: Any,  # (features,)
    starts: NDArray[np.int64],  # (all rows + 1,), of the terms
    places: Any,  # (terms,)
    lengths: Any,  # (terms,)
    loads: NDArray[np.float64],  # (terms,)
    f: NDArray[np.float64],
    out_indptr: NDArray[np.int64],  # (n + 1,)
    out_indices: Any,  # filled
    out_data: NDArray[np.float64],  # filled
) -> None:
    """Fill the features of rows[first] … rows[last − 1]: Σ load · f(length)."""
    for position in range(first, last):
        row = rows[position]
        begin = out_indptr[position]
        for feature in range(indptr[row + 1] - indptr[row]):
            out_indices[begin + feature] = indices[indptr[row] + feature]
            out_data[begin + feature] = 0.0
        for term in range(starts[row], starts[row + 1]):
            out_data[begin + np.int64(places[term])] += loads[term] * f[lengths[term]]
