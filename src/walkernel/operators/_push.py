"""Rows of a kernel by push, and what a push leaves by walks from the other end.

Row s of K = Σₖ αₖ Mᵏ is Σₖ αₖ xₖ with x₀ = e_s and xₖ₊₁ = xₖM. A push follows the edges of a node where xₖ is
heavy; elsewhere its load stays as a *residue*, whose way on is not followed. What residues r_h(v) at hops h
would still add at a node u is

    missing(u) = Σ_{h,v} r_h(v) Σ_{j≥1} α_{h+j} (Mʲ)_vu.

**A bound.** All loads are measured in units of a positive vector g with g|M| ≤ ρg: √d for the normalized
matrix of an undirected graph, d for its random walk, 1 for the combinatorial matrix, all with ρ = 1. With
z = r/g and tail_h = Σ_{j≥1} |α_{h+j}| ρʲ, the *share* of a node is s(v) = Σ_h tail_h |z_h(v)|, and

    missing(u) ≤ g(u) · min(β max_v s(v), Σ_h tail_h max_v |z_h(v)|),     β = Σ_j max_h |α_{h+j}| ρʲ / tail_h.

It is at most Σ_{h,v} tail_h |r_h(v)| too, because no entry of Mʲ exceeds ρʲ. Nodes are pushed until no share
is above a threshold. Where αₖ = α₀cᵏ, as for PageRank, residues of all hops are one, and a smaller threshold
continues where a larger one stopped; for other series it begins anew.

**An estimate.** On an undirected graph r_h(v) (Mʲ)_vu = g(u) z_h(v) (Pʲ)_uv with P the law of random walks,
so that missing(u) is g(u) times the mean of Σ_j Σ_h α_{h+j} z_h(v_j) over walks u, v₁, v₂, … from u. They end
by chance: a walk makes at least j steps with probability S(j), in proportion to what residues can still add
after j steps, and what it finds at step j is divided by S(j). Few nodes need walks: those that may be among
the k nearest ones and are not known well enough. These *candidates* race: each of them gets 16 walks, and as
many again as it has had as long as it matters.

**When it is done.** With y_k the k-th largest lower bound, every node whose upper bound is above y_k is known
to within ε·y_k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._philox import philox
from walkernel.walks.compiling import compiled, spliced, subroutine

_philox = spliced(philox)

PLACE = np.dtype(
    [
        ("node", np.int64),
        ("load", np.float64),  # what arrives, before it is multiplied by ``enter``
        ("enter", np.float64),
        ("unit", np.float64),  # g
        ("value", np.float64),  # in units of g
        ("share", np.float64),  # of hops; after a push, what the value lacks at most
        ("residue", np.int64),  # the first one of the node, -1 for none
        ("mark", np.int64),
    ],
    align=True,
)
"""A node that was reached: what is needed together is in one line of the cache."""
RESIDUE = np.dtype([("hop", np.int64), ("height", np.float64), ("next", np.int64)], align=True)
"""z at a hop, and the next residue of the same node, -1 for none."""
CANDIDATE = np.dtype(
    [
        ("node", np.int64),
        ("place", np.int64),  # -1 for a node that was not reached
        ("unit", np.float64),  # g
        ("walks", np.int64),  # how many it has had
        ("more", np.int64),  # how many it gets next
        ("sum", np.float64),  # of what they found, in units of g
        ("square", np.float64),
        ("low", np.float64),
        ("high", np.float64),
        ("value", np.float64),
        ("error", np.float64),
    ],
    align=True,
)
"""A node that walks start from, what they found, bounds and an estimate of its value, its standard error."""

MASK, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
STREAM_BITS, HIGH_BITS = np.uint64(16), np.uint64(0xFFFF)
DEGREE_BITS, DEGREE = np.uint64(28), np.uint64(2**28 - 1)
ONE = np.uint64(1)
HASH_MULTIPLIER, HASH_SHIFT = np.uint64(0x9E3779B1), np.uint64(15)
PUSHED, WAITING = 1, 2
SMALLEST_TABLE = 2**10

FIRST_SHARE = 1 / 16
"""The first threshold, relative to the share of the start node."""
EARLY_FALL, FALL = 4.0, 2.83
"""By how much the threshold falls from one attempt to the next while few edges are followed, and later."""
FEW_EARLY = 2**12
"""Edges up to which the attempts themselves take longer than edges that are followed in vain."""
VERY_WELL = 0.2
"""Width of a value relative to the tolerance below which it is not worth walks."""
FIRST_WALKS = 16
WALK_MARGIN = 1.3
"""How much more probable than in proportion it is that a walk goes on."""
TYPICAL_FIND, TYPICAL_MEAN = 0.2, 0.3
"""What a walk finds if it finds anything, and on average, relative to the largest share: for predictions."""
STEP_COST = 1.0
"""Edges that take as long as a step of a walk."""
AHEAD = 2.0
"""Edges that a smaller threshold makes follow, relative to those that lead on from residues above it."""
FEW_EVERYWHERE = 0.25
"""The mean share relative to a threshold from which on loads come from everywhere."""
FEW_EDGES = 2.0**15
"""Edges that may be followed on any graph: half a millisecond."""
HOPE = 0.2
"""Share of the limit that is spent on the chance that a push and walks end within it."""
PATIENCE = 4.0
"""Times the steps foreseen after which a race is given up."""
LEVEL = 0.05
"""Probability that any of the intervals of a row is wrong."""
TIE = 1e-12
"""Relative difference of two values below which it is rounding."""
DONE, NO_ROOM, TOO_FAR = 0, 1, 2


class Room(NamedTuple):
    """Arrays of one thread."""

    slots: NDArray[np.uint64]
    """Hash table of the nodes reached: the number of the attempt, shifted, plus a place."""
    state: NDArray[np.uint64]
    """Number of attempts, and the part of the table that is in use, minus one."""
    places: NDArray[Any]  # (places,) of PLACE
    residues: NDArray[Any]  # (residues,) of RESIDUE
    queue: NDArray[np.int64]  # (2, places): the front, and where its loads arrive
    sizes: NDArray[np.float64]  # (places,): z of the front; after a push, values
    candidates: NDArray[Any]  # (candidates,) of CANDIDATE
    law: NDArray[np.float64]  # (2, lengths): S, and residues of each hop
    walkers: NDArray[np.int64]  # (3, walkers): where they are, their candidate, their length
    words: NDArray[np.uint64]  # (3, walkers): numbers of walks, random words of even and odd slots
    found: NDArray[np.float64]  # (walkers,)
    kept: NDArray[np.float64]  # (2, k): the k largest values, and those of them that need no walks


class Steps(NamedTuple):
    """M on its pattern in units of g: a load z at u adds z · leave[u] · values[e] · enter[v] at v."""

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[np.float64]  # empty for ones
    leave: NDArray[np.float64]  # empty for ones
    units: NDArray[np.float64]  # (n_nodes, 2): enter and g
    hubs: NDArray[np.int64]
    """The nodes of the largest g that an edge leads to, largest first."""
    hub_units: NDArray[np.float64]
    """Their g."""
    has_all: bool
    """Whether all nodes that an edge leads to are hubs."""
    largest: float
    """The largest g."""
    volume: float
    """Σ 1 / enter over the nodes."""


class Series(NamedTuple):
    """A series Σₖ αₖ xᵏ and what bounds its residues."""

    terms: NDArray[np.float64]
    tails: NDArray[np.float64]
    spread: float
    """β."""
    ratio: float
    """c where αₖ = α₀cᵏ for all k, else 0."""
    beyond: float
    """What lies beyond the end of the series, or is rounding, at most."""
    is_signed: bool
    """Whether values can fall as residues are pushed: terms or entries of M have both signs."""


class Walking(NamedTuple):
    """How walks go on, and their key; without rows there are none."""

    packed: NDArray[np.uint64]
    indices: NDArray[Any]
    alias: NDArray[np.uint64]
    k0: np.uint64
    k1: np.uint64


class Pushed(NamedTuple):
    """What a push leaves."""

    tag: Any
    """What marks the slots of the nodes reached."""
    n: int
    """Nodes reached."""
    edges: int
    rest: float
    """What is missing at a node at most, in units of g."""
    cap: float
    """What is missing at a node at most, whatever its g."""
    beyond: float
    """What lies beyond the end of the series at most, in addition to both."""
    is_whole: bool
    """Whether the limit of edges, and the room, were enough."""


class Answer(NamedTuple):
    """The nearest nodes of each start node, filled."""

    nodes: NDArray[np.int64]  # (starts, k): -1 where there is none
    values: NDArray[np.float64]  # (3, starts, k): values, standard errors or half of the width, lower bounds
    others: NDArray[np.float64]  # (starts,): what any other node has at most
    costs: NDArray[np.int64]  # (starts, 2): edges followed, and steps walked
    status: NDArray[np.uint8]  # (starts,): DONE, NO_ROOM or TOO_FAR


# pushing


@subroutine
def find(node: int, tag: Any, last: Any, slots: NDArray[np.uint64], nodes: Any) -> Any:
    """Return the slot of a node, or the free one where it belongs."""
    slot = ((np.uint64(node) * HASH_MULTIPLIER) >> HASH_SHIFT) & last
    while slots[slot] >= tag and nodes[np.int64(slots[slot] - tag)] != node:
        slot = (slot + ONE) & last
    return slot


@subroutine
def make_slots(n: int, total: int, tag: Any, room: Room) -> Any:
    """Make the table large enough for a total number of nodes; return the tag of slots, 0 for no room."""
    slots, state, nodes = room.slots, room.state, room.places["node"]
    if total > nodes.size:
        return np.uint64(0)
    if n > 0 and np.uint64(2 * total) <= state[1]:
        return tag
    state[1] = np.uint64(SMALLEST_TABLE - 1) if n == 0 else state[1]
    while state[1] < np.uint64(2 * total):
        state[1] = (state[1] << ONE) | ONE
    state[0] += ONE
    tag, last = state[0] << HALF, state[1]
    for q in range(n):
        slot = ((np.uint64(nodes[q]) * HASH_MULTIPLIER) >> HASH_SHIFT) & last
        while slots[slot] >= tag:
            slot = (slot + ONE) & last
        slots[slot] = tag + np.uint64(q)
    return tag


@subroutine
def begin(start: int, steps: Steps, room: Room) -> Any:
    """Make the start node the only one that was reached, and the front; return the tag of its attempt."""
    tag = make_slots(0, 1, np.uint64(0), room)
    places, nodes = room.places, room.places["node"]
    places["load"][0] = places["value"][0] = places["share"][0] = 0.0
    places["mark"][0], places["residue"][0], nodes[0] = 0, -1, start
    places["enter"][0], places["unit"][0] = steps.units[start, 0], steps.units[start, 1]
    room.slots[find(start, tag, room.state[1], room.slots, nodes)] = tag
    room.queue[0, 0], room.sizes[0] = 0, 1.0 / steps.units[start, 1]
    return tag


@subroutine
def count_edges(n: int, indptr: NDArray[np.int64], front: NDArray[np.int64], nodes: Any) -> int:
    """Return how many edges lead on from the front."""
    total = 0
    for q in range(n):
        node = nodes[front[q]]
        total += indptr[node + 1] - indptr[node]
    return total


@subroutine
def follow_edges(n_front: int, factor: float, tag: Any, n: int, steps: Steps, room: Room) -> Any:
    """Send the loads of the front along its edges; return how many nodes they reach, and all ever did."""
    slots, places, last, front, arrived = room.slots, room.places, room.state[1], room.queue[0], room.queue[1]
    nodes, loads, marks = places["node"], places["load"], places["mark"]
    enters, units, residues = places["enter"], places["unit"], places["residue"]
    values, shares = places["value"], places["share"]
    n_arrived, known = 0, n
    for q in range(n_front):
        node = nodes[front[q]]
        marks[front[q]] |= PUSHED
        load = factor * room.sizes[q]
        if steps.leave.size:
            load *= steps.leave[node]
        for e in range(steps.indptr[node], steps.indptr[node + 1]):
            other = np.int64(steps.indices[e])
            slot = ((np.uint64(other) * HASH_MULTIPLIER) >> HASH_SHIFT) & last
            while slots[slot] >= tag and nodes[np.int64(slots[slot] - tag)] != other:
                slot = (slot + ONE) & last
            if slots[slot] < tag:
                slots[slot] = tag + np.uint64(n)
                nodes[n], loads[n], marks[n] = other, 0.0, 0
                n += 1
            there = np.int64(slots[slot] - tag)
            loads[there] += load * steps.values[e] if steps.values.size else load
            if marks[there] < WAITING:
                marks[there] |= WAITING
                arrived[n_arrived] = there
                n_arrived += 1
    for q in range(known, n):
        enters[q], units[q] = steps.units[nodes[q], 0], steps.units[nodes[q], 1]
        values[q], shares[q], residues[q] = 0.0, 0.0, -1
    return n_arrived, n


@subroutine
def push_hops(start: int, threshold: float, limit: float, steps: Steps, series: Series, room: Room) -> Any:
    """Push hop by hop, from the start on."""
    places, residues, sizes, front, arrived = (
        room.places, room.residues, room.sizes, room.queue[0], room.queue[1]
    )  # fmt: skip
    tag, n_front, n, edges, n_residues = begin(start, steps, room), 1, 1, 0, 0
    largest, sum_of_largest, mass, is_whole = 0.0, 0.0, 0.0, True
    for hop in range(series.terms.size):
        n_pushed, heaviest = 0, 0.0
        for q in range(n_front):
            place, size = front[q], sizes[q]
            places["value"][place] += series.terms[hop] * size
            missing = abs(size) * series.tails[hop]
            share = places["share"][place] + missing
            if share > threshold:
                front[n_pushed], sizes[n_pushed] = place, size
                n_pushed += 1
            elif missing > 0 and n_residues < residues.size:
                residues["hop"][n_residues], residues["height"][n_residues] = hop, size
                residues["next"][n_residues], places["residue"][place] = places["residue"][place], n_residues
                n_residues += 1
                places["share"][place] = share
                largest, heaviest = max(largest, share), max(heaviest, missing)
                mass += missing * places["unit"][place]
        sum_of_largest += heaviest
        more = count_edges(n_pushed, steps.indptr, front, places["node"])
        edges += more
        tag = make_slots(n, min(n + more, steps.units.shape[0]), tag, room)
        is_whole = edges <= limit and tag > 0 and n_residues < residues.size
        if not is_whole or n_pushed == 0:
            break
        n_front, n = follow_edges(n_pushed, 1.0, tag, n, steps, room)
        for q in range(n_front):
            place = arrived[q]
            places["mark"][place] ^= WAITING
            front[q], sizes[q] = place, places["load"][place] * places["enter"][place]
            places["load"][place] = 0.0
    rest = min(largest * series.spread, sum_of_largest)
    return Pushed(tag, n, edges, rest, mass, series.beyond, is_whole)


@subroutine
def push_sums(start: int, threshold: float, limit: float, steps: Steps, series: Series, room: Room,
              tag: Any, n: int, edges: int) -> Any:  # fmt: skip
    """Push what has come together at nodes, from where a larger threshold left it."""
    places, residues, sizes, front, arrived = (
        room.places, room.residues, room.sizes, room.queue[0], room.queue[1]
    )  # fmt: skip
    is_whole, tail, n_front, n_arrived = True, series.tails[0], 0, n
    if n == 0:
        tag, n, n_front = begin(start, steps, room), 1, 1
        places["value"][0] = sizes[0]
    for q in range(n_arrived):
        arrived[q] = q
        places["mark"][q] |= WAITING
    while True:
        for q in range(n_arrived):
            place = arrived[q]
            places["mark"][place] ^= WAITING
            size = places["load"][place] * places["enter"][place]
            if abs(size) * tail > threshold:
                front[n_front], sizes[n_front] = place, size
                places["load"][place] = 0.0
                places["value"][place] += size
                n_front += 1
        if n_front == 0:
            break
        more = count_edges(n_front, steps.indptr, front, places["node"])
        edges += more
        tag = make_slots(n, min(n + more, steps.units.shape[0]), tag, room)
        if edges > limit or tag == 0:
            is_whole = False
            break
        n_arrived, n = follow_edges(n_front, series.ratio, tag, n, steps, room)
        n_front = 0
    largest, mass = 0.0, 0.0
    for q in range(n):
        size = places["load"][q] * places["enter"][q]
        residues["hop"][q], residues["height"][q], residues["next"][q] = 0, size, -1
        places["residue"][q] = q if size > 0 else -1
        largest, mass = max(largest, abs(size)), mass + abs(size) * places["unit"][q]
    return Pushed(tag, n, edges, largest * tail, mass * tail, series.beyond, is_whole)


@subroutine
def width_of(unit: float, left: Pushed) -> float:
    """Return what is missing at most at a node."""
    return min(left.rest * unit, left.cap) + left.beyond


@subroutine
def edges_ahead(threshold: float, n: int, series: Series, steps: Steps, places: Any) -> float:
    """Return how many edges a smaller threshold is likely to make follow.

    They are some times those that lead on from residues above it. Where it is not above the mean share, loads
    come from everywhere, and most edges are followed.
    """
    indptr, nodes, shares, enters, total, mean = (
        steps.indptr, places["node"], places["share"], places["enter"], 0, 0.0
    )  # fmt: skip
    if threshold <= 0:
        return 0.0
    for q in range(n):
        share = shares[q]
        if series.ratio > 0:
            share = abs(places["load"][q]) * enters[q] * series.tails[0]
        if share > 0:
            mean += share / (enters[q] * steps.volume)
        if share > threshold:
            total += indptr[nodes[q] + 1] - indptr[nodes[q]]
    everywhere = mean / threshold
    if everywhere < FEW_EVERYWHERE:
        return AHEAD * total
    return max(AHEAD * total, AHEAD * steps.indices.size * min(everywhere, 1.0))


@subroutine
def survey(left: Pushed, series: Series, places: NDArray[Any], sizes: NDArray[np.float64]) -> bool:
    """Set values and what they may lack; return whether every node that can be reached was."""
    values, shares, units, is_closed = places["value"], places["share"], places["unit"], True
    for q in range(left.n):
        value = values[q]
        if series.ratio > 0:
            value = series.terms[0] * (value + places["load"][q] * places["enter"][q])
        sizes[q] = value * units[q]
        shares[q] = width_of(units[q], left)
        is_closed = is_closed and places["mark"][q] & PUSHED > 0
    return is_closed


# the k nearest ones, and who may be among them


@subroutine
def sift(kept: NDArray[np.float64], n: int, value: float) -> int:
    """Put a value among the largest ones, a heap with the smallest on top; return their number."""
    if n < kept.size:
        place = n
        while place > 0 and kept[(place - 1) // 2] > value:
            kept[place] = kept[(place - 1) // 2]
            place = (place - 1) // 2
        kept[place] = value
        return n + 1
    if value > kept[0]:
        place, child = 0, 1
        while child < n:
            if child + 1 < n and kept[child + 1] < kept[child]:
                child += 1
            if kept[child] >= value:
                break
            kept[place] = kept[child]
            place, child = child, 2 * child + 1
        kept[place] = value
    return n


@subroutine
def kth_value(n: int, is_closed: bool, is_signed: bool, shares: Any, sizes: NDArray[np.float64],
              kept: NDArray[np.float64]) -> float:  # fmt: skip
    """Return the k-th largest lower bound, 0 if there may be more nodes than were found."""
    count = 0
    for q in range(1, n):
        value = sizes[q] - (shares[q] if is_signed else 0.0)
        if value > 0 and (count < kept.size or value > kept[0]):
            count = sift(kept, count, value)
    return kept[0] if count == kept.size or (is_closed and count > 0) else 0.0


@subroutine
def mean_unit(y: float, n: int, units: Any, sizes: NDArray[np.float64]) -> float:
    """Return the mean unit of the k nearest nodes."""
    total, count = 0.0, 0
    for q in range(1, n):
        if sizes[q] >= y:
            total, count = total + units[q], count + 1
    return total / max(count, 1)


@subroutine
def find_candidates(most: float, left: Pushed, y: float, tolerance: float, is_closed: bool, is_signed: bool,
                    steps: Steps, room: Room) -> int:  # fmt: skip
    """Collect the nodes that may be above y and are not known well; return their number, -1 for too many.

    If there are any, the others above y get walks too unless they are known very well.
    """
    places, candidates, sizes = room.places, room.candidates, room.sizes
    nodes, shares, units = places["node"], places["share"], places["unit"]
    n, n_hubs, most = 0, 0, min(most, candidates.size)
    while not is_closed and n_hubs < steps.hubs.size and width_of(steps.hub_units[n_hubs], left) > y:
        n_hubs += 1
    if n_hubs - left.n > most or (n_hubs == steps.hubs.size and not steps.has_all):
        return -1
    for q in range(1, left.n):
        width = shares[q] * (2.0 if is_signed else 1.0)
        if sizes[q] + shares[q] > y and width > tolerance * y:
            if n >= most:
                return -1
            candidates["node"][n], candidates["place"][n], candidates["unit"][n] = nodes[q], q, units[q]
            n += 1
    for q in range(n_hubs):
        node = steps.hubs[q]
        if room.slots[find(node, left.tag, room.state[1], room.slots, nodes)] < left.tag:
            if n >= most:
                return -1
            candidates["node"][n], candidates["place"][n] = node, -1
            candidates["unit"][n] = steps.hub_units[q]
            n += 1
    for q in range(1, left.n if n > 0 and not is_signed else 0):
        if sizes[q] >= y and VERY_WELL * tolerance * y < shares[q] <= tolerance * y and n < most:
            candidates["node"][n], candidates["place"][n], candidates["unit"][n] = nodes[q], q, units[q]
            n += 1
    return n


@subroutine
def foresee(
    n: int, left: Pushed, y: float, tolerance: float, mean: float, length: float, units: Any
) -> float:
    """Return the steps that walks from candidates are likely to take.

    ``mean`` is what is missing there on average, relative to its bound.
    """
    per_node = 2 * np.log(2 * n / LEVEL) * TYPICAL_FIND * mean
    total = 0.0
    for i in range(n):
        width = width_of(units[i], left) / (tolerance * y)
        total += FIRST_WALKS + per_node * width * min(width, 1 / tolerance)
    return total * length


@subroutine
def set_law(
    n: int, series: Series, places: NDArray[Any], residues: NDArray[Any], law: Any, by_hop: Any
) -> Any:
    """Set the law of lengths to what the residues can still add.

    Return the mean length of a walk, and the most that one step finds.
    """
    terms, heights, hops, following = series.terms, residues["height"], residues["hop"], residues["next"]
    for j in range(law.size):
        law[j] = by_hop[j] = 0.0
    for q in range(n):
        entry = places["residue"][q]
        while entry >= 0:
            by_hop[hops[entry]] += heights[entry] * places["unit"][q]
            entry = following[entry]
    for hop in range(terms.size):
        if by_hop[hop] > 0:
            for j in range(1, terms.size - hop):
                law[j] += by_hop[hop] * terms[hop + j]
    for j in range(terms.size - 2, 0, -1):
        law[j] = max(law[j], law[j + 1])
    most, total = law[1], 0.0
    for j in range(1, law.size):
        law[j] = min(1.0, WALK_MARGIN * law[j] / most) if most > 0 else 0.0
        total += law[j]
        by_hop[j] = 0.0
    by_hop[0] = 0.0
    for q in range(n):
        entry = places["residue"][q]
        while entry >= 0:
            by_hop[hops[entry]] = max(by_hop[hops[entry]], heights[entry])
            entry = following[entry]
    largest = 0.0
    for hop in range(terms.size):
        if by_hop[hop] > 0:
            for j in range(1, terms.size - hop):
                if law[j] > 0:
                    largest = max(largest, terms[hop + j] * by_hop[hop] / law[j])
    return total, largest


# walks from the candidates


@subroutine
def draw(count: int, pair: int, stream: int, walking: Walking, nodes: Any, owners: Any, words: Any) -> None:
    """Draw the 64 bits of slots 2·pair and 2·pair + 1 of walkers."""
    for j in range(count):
        node = np.uint64(nodes[owners[j]])
        high = (((node >> HALF) & HIGH_BITS) << STREAM_BITS) | np.uint64(stream)
        w0, w1, w2, w3 = _philox(np.uint64(pair), words[0, j], node & MASK, high, walking.k0, walking.k1)
        words[1, j] = (w0 << HALF) | w1
        words[2, j] = (w2 << HALF) | w3


@subroutine
def step(count: int, words: Any, walking: Walking, here: Any) -> None:
    """Move walkers along an edge, in proportion to the weights."""
    for j in range(count):
        row = walking.packed[here[j]]
        degree = row & DEGREE
        bottom = (words[j] & MASK) * degree
        top = (words[j] >> HALF) * degree + (bottom >> HALF)
        entry = np.int64((row >> DEGREE_BITS) + (top >> HALF))
        if walking.alias.size:
            rest = ((top & MASK) << HALF) | (bottom & MASK)
            both = walking.alias[2 * entry + 1]
            here[j] = np.int64(both & MASK if rest < walking.alias[2 * entry] else both >> HALF)
        else:
            here[j] = np.int64(walking.indices[entry])


@subroutine
def collect(count: int, taken: int, tag: Any, terms: Any, room: Room) -> None:
    """Add what walkers find where they are."""
    slots, last, nodes, of_node = room.slots, room.state[1], room.places["node"], room.places["residue"]
    heights, hops, following = room.residues["height"], room.residues["hop"], room.residues["next"]
    here, found, chance = room.walkers[0], room.found, room.law[0, taken]
    for j in range(count):
        slot = ((np.uint64(here[j]) * HASH_MULTIPLIER) >> HASH_SHIFT) & last
        while slots[slot] >= tag and nodes[np.int64(slots[slot] - tag)] != here[j]:
            slot = (slot + ONE) & last
        if slots[slot] >= tag:
            entry = of_node[np.int64(slots[slot] - tag)]
            while entry >= 0:
                if hops[entry] + taken < terms.size:
                    found[j] += terms[hops[entry] + taken] * heights[entry] / chance
                entry = following[entry]


@subroutine
def hand_over(count: int, taken: int, walkers: Any, words: Any, found: Any, candidates: NDArray[Any]) -> int:
    """Let walkers at their end hand over what they found; return how many go on."""
    going = 0
    for j in range(count):
        if walkers[2, j] == taken:
            candidates["sum"][walkers[1, j]] += found[j]
            candidates["square"][walkers[1, j]] += found[j] * found[j]
            continue
        for row in range(3):
            walkers[row, going], words[row, going] = walkers[row, j], words[row, j]
        found[going] = found[j]
        going += 1
    return going


@subroutine
def walk_block(count: int, stream: int, tag: Any, walking: Walking, terms: Any, room: Room) -> int:
    """Walk some walkers from where they stand to their ends; return their steps."""
    walkers, words, found, law, nodes = (
        room.walkers, room.words, room.found, room.law[0], room.candidates["node"]
    )  # fmt: skip
    draw(count, 0, stream, walking, nodes, walkers[1], words)
    for j in range(count):
        share, length = np.float64(words[1, j]) / 2.0**64, 1
        while length + 1 < law.size and share < law[length + 1]:
            length += 1
        walkers[2, j], found[j] = length, 0.0
    taken = total = 0
    while count > 0:
        taken += 1
        if taken > 1 and taken % 2 == 0:
            draw(count, taken // 2, stream, walking, nodes, walkers[1], words)
        step(count, words[1 + taken % 2], walking, walkers[0])
        total += count
        collect(count, taken, tag, terms, room)
        count = hand_over(count, taken, walkers, words, found, room.candidates)
    return total


@subroutine
def walk_more(n: int, stream: int, tag: Any, walking: Walking, terms: Any, room: Room) -> int:
    """Give candidates the walks that they are to get; return the steps of these."""
    candidates, walkers = room.candidates, room.walkers
    count = total = 0
    for i in range(n):
        for w in range(candidates["more"][i]):
            walkers[0, count], walkers[1, count] = candidates["node"][i], i
            room.words[0, count] = np.uint64(candidates["walks"][i] + w)
            count += 1
            if count == room.found.size:
                total += walk_block(count, stream, tag, walking, terms, room)
                count = 0
        candidates["walks"][i] += candidates["more"][i]
    return total + walk_block(count, stream, tag, walking, terms, room)


@subroutine
def judge(n: int, turn: int, most_found: float, left: Pushed, sizes: NDArray[np.float64],
          candidates: NDArray[Any]) -> None:  # fmt: skip
    """Set the bounds and values of candidates from what their walks found.

    The mean x of m values without sign, of expectation μ and of second moment b·μ, has (x − μ)² ≤ 2 b μ l / m
    but with probability exp(−l) on either side; b is the larger one of the candidate's and that of all. The
    standard error has besides the spread of the values one more find, of the most that a step finds: few
    walks often find nothing, or nothing of that size.
    """
    sums, squares, walks = candidates["sum"], candidates["square"], candidates["walks"]
    first = second = 0.0
    for i in range(n):
        first, second = first + sums[i], second + squares[i]
    common = second / first if first > 0 else left.rest
    level = np.log(2 * n * (turn + 1) * (turn + 2) / LEVEL)
    for i in range(n):
        unit, place = candidates["unit"][i], candidates["place"][i]
        value, width = sizes[place] if place >= 0 else 0.0, width_of(unit, left)
        mean = sums[i] / walks[i]
        half = (max(common, squares[i] / sums[i]) if sums[i] > 0 else common) * level / walks[i]
        spread = np.sqrt(half * half + 2 * mean * half)
        candidates["low"][i] = value + min(max(0.0, mean + half - spread) * unit, width)
        candidates["high"][i] = value + min((mean + half + spread) * unit, width)
        candidates["value"][i] = value + min(mean * unit, width)
        variance = max(0.0, squares[i] / walks[i] - mean * mean) / (walks[i] - 1)
        candidates["error"][i] = min(np.sqrt(variance + (most_found / walks[i]) ** 2) * unit, width / 2)


@subroutine
def set_more(n: int, y: float, tolerance: float, candidates: NDArray[Any]) -> Any:
    """Let candidates that matter double their walks; return by how many.

    Return also how many walks are likely to be needed until all are known, relative to those there were.
    """
    n_more, needed, walks = 0, 0.0, 0
    for i in range(n):
        low, high, value = candidates["low"][i], candidates["high"][i], candidates["value"][i]
        candidates["more"][i] = 0
        walks += candidates["walks"][i]
        if high > y and high - low > 2 * tolerance * y:
            candidates["more"][i] = candidates["walks"][i]
            factor = (high - low) / (2 * tolerance * y) if y > 0 else np.inf
            if value < y:
                factor = min(factor, (high - value) / (y - value))
            n_more += candidates["more"][i]
            needed += candidates["more"][i] * max(1.0, factor * factor - 1)
    return n_more, needed / walks


@subroutine
def mark_candidates(n: int, marks: Any, of_candidates: Any) -> None:
    """Mark the nodes that walks start from."""
    for i in range(n):
        if of_candidates[i] >= 0:
            marks[of_candidates[i]] |= WAITING


@subroutine
def run_race(n: int, limit: float, tolerance: float, stream: int, most_found: float, left: Pushed,
             walking: Walking, terms: Any, room: Room) -> Any:  # fmt: skip
    """Walk from candidates until all that matter are known, or would take more steps than the limit.

    Return the steps, and how many more are likely to be needed.
    """
    candidates, marks, kept, known = room.candidates, room.places["mark"], room.kept[0], room.kept[1]
    mark_candidates(n, marks, candidates["place"])
    for i in range(n):
        candidates["walks"][i], candidates["more"][i] = 0, FIRST_WALKS
        candidates["sum"][i] = candidates["square"][i] = 0.0
    n_known = 0
    for q in range(1, left.n):
        value = room.sizes[q]
        if marks[q] & WAITING == 0 and value > 0 and (n_known < known.size or value > known[0]):
            n_known = sift(known, n_known, value)
        marks[q] &= PUSHED
    total, turn, n_more = 0, 0, n
    while n_more > 0:
        total += walk_more(n, stream, left.tag, walking, terms, room)
        judge(n, turn, most_found, left, room.sizes, candidates)
        turn += 1
        count = n_known
        for i in range(n_known):
            kept[i] = known[i]
        for i in range(n):
            count = sift(kept, count, candidates["low"][i])
        y = kept[0] if count == kept.size else 0.0
        n_more, missing = set_more(n, y, tolerance, candidates)
        if total + total * missing > limit:
            return total, total * missing
    return total, 0.0


# answers


@subroutine
def is_before(value: float, node: int, other: float, other_node: int) -> bool:
    """Tell whether a node comes before another one."""
    return value > other or (value == other and node < other_node)


@subroutine
def insert(node: int, value: float, error: float, low: float, n: int, nodes: Any, values: Any) -> int:
    """Put a node among the nearest ones, best first, ties by node, if it is one; return their number."""
    k = nodes.size
    if n == k and not is_before(value, node, values[0, k - 1], nodes[k - 1]):
        return n
    place = min(n, k - 1)
    while place > 0 and is_before(value, node, values[0, place - 1], nodes[place - 1]):
        nodes[place] = nodes[place - 1]
        for row in range(3):
            values[row, place] = values[row, place - 1]
        place -= 1
    nodes[place], values[0, place], values[1, place], values[2, place] = node, value, error, low
    return min(n + 1, k)


@subroutine
def most_unreached(n: int, left: Pushed, steps: Steps, room: Room) -> float:
    """Return what a node that was not reached, and is none of n candidates, has at most.

    Candidates that were not reached are the first ones of all hubs that were not.
    """
    raced = 0
    for i in range(n):
        raced += room.candidates["place"][i] < 0
    for q in range(steps.hubs.size):
        slot = find(steps.hubs[q], left.tag, room.state[1], room.slots, room.places["node"])
        if room.slots[slot] < left.tag:
            raced -= 1
            if raced < 0:
                return width_of(steps.hub_units[q], left)
    return 0.0 if steps.has_all else width_of(steps.hub_units[-1], left)


@subroutine
def write(n_candidates: int, left: Pushed, is_closed: bool, is_signed: bool, steps: Steps, room: Room,
          found: Any, values: Any) -> float:  # fmt: skip
    """Write the nearest nodes of one start node; return what any other node has at most."""
    places, sizes, candidates = room.places, room.sizes, room.candidates
    nodes, shares, marks = places["node"], places["share"], places["mark"]
    mark_candidates(n_candidates, marks, candidates["place"])
    n, most = 0, 0.0
    for q in range(1, left.n):
        is_large = sizes[q] > 0 and (n < found.size or sizes[q] >= values[0, n - 1])
        if is_large and marks[q] & WAITING == 0:
            low = sizes[q] - shares[q] if is_signed else sizes[q]
            n = insert(nodes[q], sizes[q], shares[q] / 2, low, n, found, values)
    for c in range(n_candidates):
        if candidates["value"][c] > 0:
            n = insert(candidates["node"][c], candidates["value"][c], candidates["error"][c],
                       candidates["low"][c], n, found, values)  # fmt: skip
    last, last_node = values[0, n - 1] if n > 0 else np.inf, found[n - 1] if n > 0 else -1
    for q in range(1, left.n):
        if marks[q] & WAITING == 0 and is_before(last, last_node, sizes[q], nodes[q]):
            most = max(most, sizes[q] + shares[q])
        marks[q] &= PUSHED
    for c in range(n_candidates):
        if is_before(last, last_node, candidates["value"][c], candidates["node"][c]):
            most = max(most, candidates["high"][c])
    for j in range(n, found.size):
        found[j], values[0, j], values[1, j], values[2, j] = -1, np.nan, np.nan, 0.0
    return most if is_closed else max(most, most_unreached(n_candidates, left, steps, room))


@subroutine
def search_one(start: int, limit: float, tolerance: float, steps: Steps, series: Series, walking: Walking,
               room: Room, nodes: Any, values: Any, others: Any, costs: Any) -> Any:  # fmt: skip
    """Find the nearest nodes of one start node; return whether that was possible within the limit.

    A smaller threshold is tried only if what it costs, and walks after it, are likely to be within the limit.
    """
    places, sizes = room.places, room.sizes
    limit, threshold = max(limit, FEW_EDGES), FIRST_SHARE * series.tails[0] / steps.units[start, 1]
    tag, n, edges, before, attempt = np.uint64(0), 0, 0, 0, 0
    y_before, rest_before, unit = 0.0, 0.0, 0.0
    while True:
        if series.ratio > 0:
            left = push_sums(start, threshold, limit, steps, series, room, tag, n, edges)
            costs[0] = left.edges
        else:
            left = push_hops(start, threshold, limit, steps, series, room)
            costs[0] += left.edges
        tag, n, edges = left.tag, left.n, left.edges
        fall = EARLY_FALL if edges < FEW_EARLY else FALL
        if not left.is_whole:
            return TOO_FAR if edges > limit else NO_ROOM
        ahead = edges_ahead(threshold / fall, n, series, steps, places)
        is_closed = survey(left, series, places, sizes)
        y = kth_value(n, is_closed, series.is_signed, places["share"], sizes, room.kept[0])
        growth = min(max(edges / before, 2.0), 8.0) if before > 0 else fall
        more = max(edges * (growth - 1), ahead)
        next_edges = more if series.ratio > 0 else edges + more
        n_candidates, most, foreseen = -1, (edges + more) / STEP_COST, np.inf
        if y > 0:
            n_candidates = find_candidates(
                most / FIRST_WALKS, left, y, tolerance, is_closed, series.is_signed, steps, room
            )
        if n_candidates > 0 and walking.packed.size > 0:
            mean = TYPICAL_MEAN
            if y_before > 0:
                mean = min(max((y - y_before) / (rest_before * unit), 0.01), 1.0)
            length, most_found = set_law(n, series, places, room.residues, room.law[0], room.law[1])
            foreseen = foresee(n_candidates, left, y, tolerance, mean, length, room.candidates["unit"])
            if foreseen < most and costs[0] + STEP_COST * (costs[1] + foreseen) < limit:
                limit_of_race = min(PATIENCE * foreseen, (limit - costs[0]) / STEP_COST - costs[1])
                walked, foreseen = run_race(
                    n_candidates, limit_of_race, tolerance, attempt, most_found, left, walking, series.terms,
                    room
                )  # fmt: skip
                costs[1] += walked
                if foreseen == 0:
                    others[0] = write(
                        n_candidates, left, is_closed, series.is_signed, steps, room, nodes, values
                    )
                    return DONE
        if n_candidates == 0 or left.rest * steps.largest <= left.beyond:
            others[0] = write(0, left, is_closed, series.is_signed, steps, room, nodes, values)
            return DONE
        total = costs[0] + next_edges + STEP_COST * costs[1]
        if total > max(HOPE * limit, FEW_EDGES) and total + STEP_COST * foreseen / fall > limit:
            return TOO_FAR
        threshold, before, attempt = threshold / fall, edges, attempt + 1
        y_before, rest_before, unit = y, left.rest, mean_unit(y, n, places["unit"], sizes)


@compiled
def search(
    starts: NDArray[np.int64],
    limit: float,  # edges that may be followed for a node; a step of a walk counts as some
    tolerance: float,
    steps: Steps,
    series: Series,
    walking: Walking,
    room: Room,
    answer: Answer,  # filled
) -> None:
    """Find the nearest nodes of each start node, to the tolerance."""
    for i in range(starts.size):
        answer.status[i] = search_one(
            starts[i], limit, tolerance, steps, series, walking, room, answer.nodes[i],
            answer.values[:, i], answer.others[i:], answer.costs[i],
        )  # fmt: skip
