"""The loops behind return probabilities: all paths around a node, and where walks from it meet them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.walks import StepLaw
from walkernel.walks.compiling import compiled, subroutine


class Front(NamedTuple):
    """A sparse vector in the first entries of two arrays over the nodes."""

    nodes: NDArray[np.int64]
    loads: NDArray[np.float64]


class Room(NamedTuple):
    """Arrays over the nodes; the last two are zero before and after each node."""

    row: Front
    column: Front
    reached: NDArray[np.int64]
    sums: NDArray[np.float64]
    marks: NDArray[np.uint8]


def make_room(n_nodes: int) -> Room:
    """Return arrays for a graph of so many nodes."""
    row, column = (Front(np.empty(n_nodes, dtype=np.int64), np.empty(n_nodes)) for _ in range(2))
    reached = np.empty(n_nodes, dtype=np.int64)
    return Room(row, column, reached, np.zeros(n_nodes), np.zeros(n_nodes, dtype=np.uint8))


@subroutine
def count_edges(n: int, front: Front, hops: StepLaw) -> Any:
    """Return how many edges leave the n nodes of a front."""
    edges = np.int64(0)
    for q in range(n):
        edges += hops.indptr[front.nodes[q] + 1] - hops.indptr[front.nodes[q]]
    return edges


@subroutine
def step_along(n: int, front: Front, hops: StepLaw, room: Room) -> int:
    """Follow every edge that leaves the n nodes of a front; return how many nodes it has then."""
    reached, sums, marks, m = room.reached, room.sums, room.marks, 0
    for q in range(n):
        node = front.nodes[q]
        load = front.loads[q] * hops.leave[node]
        for e in range(hops.indptr[node], hops.indptr[node + 1]):
            other = np.int64(hops.indices[e])
            if marks[other] == 0:
                marks[other] = 1
                reached[m] = other
                m += 1
            sums[other] += load * hops.values[e] if hops.values.size else load
    for q in range(m):
        node = reached[q]
        front.nodes[q], front.loads[q] = node, sums[node] * hops.enter[node]
        sums[node], marks[node] = 0.0, 0
    return m


@subroutine
def multiply_fronts(n: int, m: int, room: Room) -> float:
    """Return the product of a row of n and a column of m entries."""
    row, column, sums, total = room.row, room.column, room.sums, 0.0
    for q in range(m):
        sums[column.nodes[q]] = column.loads[q]
    for q in range(n):
        total += row.loads[q] * sums[row.nodes[q]]
    for q in range(m):
        sums[column.nodes[q]] = 0.0
    return total


@compiled
def follow_paths(
    starts: NDArray[np.int64],
    length: int,
    limit: float,  # edges to follow from a node
    along: StepLaw,
    against: StepLaw,
    is_symmetric: bool,
    room: Room,
    out: NDArray[np.float64],  # (starts, length), filled as far as known
    known: NDArray[np.int64],  # (starts,), filled: how many lengths are known
) -> None:
    """Fill in the diagonals of M, M², … at some nodes, as far as so many edges reach."""
    row, column = room.row, room.column
    for i in range(starts.size):
        row.nodes[0] = column.nodes[0] = starts[i]
        row.loads[0] = column.loads[0] = 1.0
        n, m, edges, k = 1, 1, np.int64(0), 0
        while k < length:
            if k % 2 == 0:
                edges += count_edges(n, row, along)
                if edges > limit:
                    break
                n = step_along(n, row, along, room)
            elif is_symmetric:
                m = n
                for q in range(n):
                    column.nodes[q], column.loads[q] = row.nodes[q], row.loads[q]
            else:
                edges += count_edges(m, column, against)
                if edges > limit:
                    break
                m = step_along(m, column, against, room)
            out[i, k] = multiply_fronts(n, m, room)
            k += 1
        known[i] = k


@compiled
def meet_column(
    starts: NDArray[np.int64],
    n_walks: int,  # of each group
    deposits: Any,  # (indptr, nodes, lengths, loads) of walks in groups
    head: Any,  # the same of exact heads against them
    depth: int,
    sums: NDArray[np.float64],  # (n_nodes,), zeros before and after
    out: NDArray[np.float64],  # (starts, length, groups), added to
) -> None:
    """Add up the entries of the depth-th column where walks are after a steps, for each length a + depth."""
    indptr, nodes, lengths, loads = deposits
    first, others, depths, values = head
    for i in range(starts.size):
        if depth == 0:
            sums[starts[i]] = 1.0
        for q in range(first[i], first[i + 1]):
            if depths[q] == depth:
                sums[others[q]] = values[q]
        walk = -1
        for q in range(indptr[i], indptr[i + 1]):
            if lengths[q] == 0:
                walk += 1
            elif lengths[q] > depth:
                out[i, lengths[q] + depth - 1, walk // n_walks] += loads[q] * sums[nodes[q]] / n_walks
        sums[starts[i]] = 0.0
        for q in range(first[i], first[i + 1]):
            sums[others[q]] = 0.0
