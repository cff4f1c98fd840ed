"""Exact heads: the first hops from a start node, followed along every edge, or along those that are worth it.

With M the matrix and P the law of steps, the head of r hops from node i holds the entries of (Mˡ)_i for
l = 1 … r, each with its length l. The walks that go on from it begin at a node x with probability
(Pʳ)_ix / T, T = Σ_x (Pʳ)_ix, and carry the load T (Mʳ)_ix / (Pʳ)_ix, so that deposits at lengths beyond r are
unbiased. T is 1 but where paths end in nodes that no edge leaves.

A *pruned* head follows the edges of a node only where that is worth it. Let q_h(v) be the chance to be at v
after h hops and m_h(v) the load there, both along followed edges, and s_h what a residue of chance one at hop
h costs, the root of variance times steps of the walks from it (``_laws``). Following the d edges of v saves
a q_h(v) (s_h − s_{h+1}), a being what the loads of walks from i begin with; it is done if that is at least
τ d, and else (v, h) is a *residue*. Both leave an entry of the head at (v, h). Walks begin at a residue with
probability q w_h / T, T = Σ q w_h, carry T m / (q w_h), and go by the law of hop h. A whole head is that of
τ = 0 whose residues are all at hop r, with w_r = 1.

The variance of a walk from i goes with a² T Z, Z = Σ q s_h, and its steps are Z / T on average. So the
numbers of walks that are best for all start nodes together are in proportion to a T, and variance times steps
goes with the square of the mean of a Z.
"""

from __future__ import annotations

import math
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
ROOT_OF_HALF = 0.7071067811865476


class Room(NamedTuple):
    """Entries of heads, (room,) each; chances of those whose edges were followed are negative."""

    nodes: Any
    lengths: NDArray[np.int32]
    loads: NDArray[np.float64]
    chances: NDArray[np.float64]


class Rule(NamedTuple):
    """Which edges heads follow, and where walks begin."""

    threshold: float
    """τ."""
    gains: NDArray[np.float64]  # (depth,): s_h − s_{h+1}, or 0
    worths: NDArray[np.float64]  # (depth + 1,): s_h
    weights: NDArray[np.float64]  # (depth + 1,): w_h
    laws: NDArray[np.int32]  # (depth + 1,): the law of the walks from each hop
    first: NDArray[np.float64]  # (n_nodes,): a
    unevenness: float
    """Number of walks from a start node, relative to a Σ q w_h over its residues; 0: all are equal."""
    shifts: tuple[int, int]
    """Binary logarithms of the least and the largest number of walks, relative to the number asked for."""


@spliced
def expand_one(
    start: int, number: int, hops: StepLaw, slots: Any, n: int, counts: Any, rule: Rule, room: Room
) -> Any:
    """Fill the head of one start node from entry n on: (edges followed, where it ends, or why it failed).

    The start node itself is no entry: if its edges are not followed, the head is empty. Nothing is called
    here, because a call would count the references to all arrays that it hands over.
    """
    source, edges, indptr, indices = n, np.int64(0), hops.indptr, hops.indices
    nodes, lengths, loads, chances = room.nodes, room.lengths, room.loads, room.chances
    first, last_slot = rule.first[start], np.uint64(slots.size - 1)
    for hop in range(counts.size):
        begin = n
        tag = np.uint64(number * counts.size + hop + 1) << TAG_BITS
        for q in range(source, begin + (hop == 0)):
            node, load, chance = np.int64(start), 1.0, 1.0
            if hop > 0:
                node, load, chance = np.int64(nodes[q]), loads[q], chances[q]
            degree = indptr[node + 1] - indptr[node]
            must = hop == 0 and hops.enter[node] == 0  # no walk has a load to begin with there
            if not must and first * chance * rule.gains[hop] < rule.threshold * degree:
                continue
            edges += degree
            if degree > 0:
                load, chance = load * hops.leave[node], chance / hops.totals[node]
            for e in range(indptr[node], indptr[node + 1]):
                other = np.int64(indices[e])
                slot = ((np.uint64(other) * HASH_MULTIPLIER) >> HASH_SHIFT) & last_slot
                while slots[slot] >= tag and nodes[begin + np.int64(slots[slot] - tag)] != other:
                    slot = (slot + ONE) & last_slot
                if slots[slot] < tag:
                    if n == nodes.size or 4 * (n + 1 - begin) > slots.size:
                        n = NO_ROOM if n == nodes.size else CROWDED
                        break
                    slots[slot] = tag + np.uint64(n - begin)
                    nodes[n], lengths[n], loads[n], chances[n] = other, hop + 1, 0.0, 0.0
                    n += 1
                place = begin + np.int64(slots[slot] - tag)
                loads[place] += load * hops.values[e] if hops.values.size else load
                chances[place] += chance * abs(hops.weights[e]) if hops.weights.size else chance
            if n < 0:
                break
            if hop > 0:
                chances[q] = -chances[q]
        if n < 0:
            break
        for q in range(begin, n):
            loads[q] *= hops.enter[np.int64(nodes[q])]
        counts[hop] = n - begin
        source = begin
    return edges, n


@compiled
def expand(
    starts: NDArray[Any],
    hops: StepLaw,
    rule: Rule,
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
        edges[i], end = expand_one(starts[i], i, hops, slots, n, counts[i], rule, room)
        if end < 0:
            return i, n, end
        n = end
    return starts.size, n, np.int64(0)


@subroutine
def nearest_power(value: float) -> int:
    """Return the binary logarithm of a positive number, rounded to a whole one."""
    mantissa, exponent = math.frexp(value)
    return exponent - 1 if mantissa < ROOT_OF_HALF else exponent


@compiled
def measure_residues(
    starts: NDArray[Any],
    counts: NDArray[np.int64],  # (starts, depth)
    indptr: NDArray[np.int64],
    rule: Rule,
    room: Room,
    sizes: NDArray[np.int64],  # (starts,), filled: places where walks begin
    sums: NDArray[np.float64],  # (starts, 2), filled: Σ q w_h and Σ q s_h
    shifts: NDArray[np.int32],  # (starts,), filled, or empty
) -> None:
    """Count the residues of each start node, and say what they are worth."""
    n = np.int64(0)
    for i in range(starts.size):
        size, total, worth = np.int64(0), 0.0, 0.0
        if counts[i, 0] == 0 and indptr[starts[i]] < indptr[starts[i] + 1]:
            size, total, worth = np.int64(rule.weights[0] > 0), rule.weights[0], rule.worths[0]
        for hop in range(counts.shape[1]):
            weight = rule.weights[hop + 1]
            for q in range(n, n + counts[i, hop]):
                if room.chances[q] > 0 and weight > 0:
                    size += 1
                    total += weight * room.chances[q]
                    worth += rule.worths[hop + 1] * room.chances[q]
            n += counts[i, hop]
        sizes[i], sums[i, 0], sums[i, 1] = size, total, worth
        if shifts.size:
            value, least = rule.unevenness * rule.first[starts[i]] * total, rule.shifts[0]
            shifts[i] = min(max(nearest_power(value), least), rule.shifts[1]) if value > 0 else least


@compiled
def cut_fronts(
    starts: NDArray[Any],
    counts: NDArray[np.int64],  # (starts, depth)
    enter: NDArray[np.float64],
    rule: Rule,
    room: Room,
    sums: NDArray[np.float64],  # (starts, 2)
    ends: NDArray[np.int64],  # (starts + 1,)
    nodes: Any,  # (places,), filled
    cuts: NDArray[np.uint64],  # (places,), filled
    loads: NDArray[np.float64],  # (places,), filled
    laws: NDArray[np.int32],  # (places,), filled
    guide: NDArray[np.int32],  # (2 · places,), filled
) -> None:
    """Make the fronts that walks begin on of the residues of each head."""
    place = n = np.int64(0)
    for i in range(starts.size):
        width, total, sum_so_far = ends[i + 1] - ends[i], sums[i, 0], 0.0
        end = n
        for hop in range(counts.shape[1]):
            end += counts[i, hop]
        if place < ends[i + 1] and counts[i, 0] == 0:
            nodes[place], cuts[place], loads[place] = starts[i], ALWAYS, 1.0 / enter[starts[i]]
            laws[place] = rule.laws[0]
            place += 1
        for q in range(n, end):
            hop = room.lengths[q]
            weight = rule.weights[hop]
            if not (room.chances[q] > 0 and weight > 0):
                continue
            chance = weight * room.chances[q]
            sum_so_far += chance
            share = sum_so_far / total * 18446744073709551616.0
            cuts[place] = ALWAYS if share >= 18446744073709549568.0 else np.uint64(share)
            nodes[place], laws[place] = room.nodes[q], rule.laws[hop]
            loads[place] = total * room.loads[q] / (chance * enter[np.int64(room.nodes[q])])
            place += 1
        n = end
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
