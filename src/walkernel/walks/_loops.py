"""The loops of walks: flat arrays in, preallocated arrays out, the GIL released where they are compiled.

Functions that are inlined into the loops live here, because numba's disk cache watches only the file that a
loop is written in (``philox`` is the exception: it is a published constant and never changes).

A block of start nodes is walked like this. All its walkers are put into flat arrays, longest walk first, and
advance one step at a time: their reads from memory are independent and overlap. Random words are drawn for
all of them in a loop of its own, which the compiler turns into vector instructions. The deposits of a walk
have their places reserved beforehand, since its length is known, so that they end up node by node and walk by
walk.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._philox import philox
from walkernel.walks._samplers import Coupling
from walkernel.walks._state import Front, Key, Order, Walkers
from walkernel.walks.compiling import compiled, spliced, subroutine

_philox = spliced(philox)

MASK = np.uint64(0xFFFFFFFF)
HALF = np.uint64(32)
STREAM_BITS = np.uint64(16)
HIGH_BITS = np.uint64(0xFFFF)
GUIDE_SHIFT = np.uint64(56)
DEGREE_BITS = np.uint64(28)
DEGREE = np.uint64(2**28 - 1)
SIGN = np.uint64(31)
NODE = np.uint64(0x7FFFFFFF)
ONE, WORD = np.uint64(1), np.uint64(64)
LAST_OF_GROUP = np.uint64(15)
THREE, FOUR = np.uint64(3), np.uint64(4)
B0, B1, B2, B3 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(8)


@subroutine
def count_walks(i: int, n_walks: int, key: Key, front: Front) -> Any:
    """Return the number of walks from a start node of a task."""
    if front.shifts.size == 0 or key.is_single:
        return n_walks
    shift = np.int64(front.shifts[i])
    return n_walks << shift if shift >= 0 else n_walks >> -shift


@subroutine
def fill_words(pair: int, n: int, shared: int, walkers: Walkers, key: Key) -> None:
    """Draw the 64 bits of slots 2·pair and 2·pair + 1 for n walkers, 2^shared of which share them.

    Of unequal numbers of walks each walker tells how many share its draws; ``shared`` is negative then.
    """
    walk, low, high, even, odd = walkers.walk, walkers.low, walkers.high, walkers.even, walkers.odd
    counter, k0, k1, bits = np.uint64(pair), key.k0, key.k1, np.uint64(max(shared, 0))
    for j in range(n):
        if shared < 0:
            bits = walkers.bits[j]
        w0, w1, w2, w3 = _philox(counter, (walk[j] >> bits) << bits, low[j], high[j], k0, k1)
        even[j] = (w0 << HALF) | w1
        odd[j] = (w2 << HALF) | w3


@subroutine
def spread_lengths(n: int, shared: int, walkers: Walkers) -> None:
    """Move the draws of the walkers that share one to equal distances, modulo 2⁶⁴."""
    walk, even, bits = walkers.walk, walkers.even, np.uint64(max(shared, 0))
    for j in range(n):
        if shared < 0:
            bits = walkers.bits[j]
        if bits > 0:
            even[j] += (walk[j] & ((ONE << bits) - ONE)) << (WORD - bits)


@subroutine
def spread_first_steps(n: int, shared: int, walkers: Walkers) -> None:
    """Move the first draws of the walkers that share one, up to 16, to equal distances, modulo 2⁶⁴.

    They are in bit-reversed order, so that lengths and first steps together are a Hammersley set.
    """
    walk, odd, bits = walkers.walk, walkers.odd, np.uint64(max(shared, 0))
    for j in range(n):
        if shared < 0:
            bits = walkers.bits[j]
        if bits > 0:
            k = walk[j] & ((ONE << bits) - ONE)
            k = ((k & B0) << THREE) | ((k & B1) << ONE) | ((k & B2) >> ONE) | ((k & B3) >> THREE)
            odd[j] += (k >> (FOUR - bits)) << (WORD - bits)


@subroutine
def spread_later_steps(n: int, shared: int, walkers: Walkers) -> None:
    """Move two later draws of the walkers that share them to equal distances, modulo 2⁶⁴.

    The order is mixed by an odd factor from the last three bits of the draw itself.
    """
    walk, even, odd, bits = walkers.walk, walkers.even, walkers.odd, np.uint64(max(shared, 0))
    for j in range(n):
        if shared < 0:
            bits = walkers.bits[j]
        if bits > 0:
            k = walk[j] & ((ONE << bits) - ONE)
            even[j] += (k * (((even[j] << ONE) | ONE) & LAST_OF_GROUP)) << (WORD - bits)
            odd[j] += (k * (((odd[j] << ONE) | ONE) & LAST_OF_GROUP)) << (WORD - bits)


@subroutine
def set_counters(j: int, walk: int, start: int, i: int, coupling: Coupling, front: Front, walkers: Walkers,
                 key: Key) -> None:  # fmt: skip
    """Give a walker the words of its counter that do not change, and say how many walks share its draws."""
    node = np.uint64(start)
    walkers.walk[j] = np.uint64(walk)
    walkers.low[j] = node & MASK
    walkers.high[j] = (((node >> HALF) & HIGH_BITS) << STREAM_BITS) | key.stream
    if front.shifts.size:
        bits = coupling.length + np.int64(front.shifts[i])
        walkers.bits[j] = np.uint64(0 if bits < 0 else 4 if bits > 4 else bits)


@spliced
def draw_lengths(
    starts: NDArray[Any],
    n_walks: int,
    key: Key,
    coupling: Coupling,
    thresholds: NDArray[np.uint64],  # (laws, steps)
    guide: NDArray[np.int32],  # (laws, 256)
    packed: NDArray[np.uint64],
    front: Front,
    begin: int,
    walkers: Walkers,
) -> Any:
    """Draw the number of steps of every walk; return the numbers of walks and of deposits.

    A walk makes as many steps as there are thresholds above its draw; the guide says how many there are for
    sure, given the draw's first 8 bits. Walks from nodes without edges, or whose head ends nowhere, make
    none. Behind a head the law is that of the place where a walk leaves it; the number of the place takes
    that of the draw in ``even``.
    """
    count = 0
    for i in range(starts.size):
        for k in range(count_walks(begin + i, n_walks, key, front)):
            walk = key.first_walks[begin + i] + k
            set_counters(count, walk, starts[i], begin + i, coupling, front, walkers, key)
            count += 1
    uneven = front.shifts.size > 0
    differ = coupling.first != coupling.length
    for shared in range(1 + differ):
        fill_words(
            0, count, -1 if uneven else coupling.first if shared == 0 else coupling.length, walkers, key
        )
        for j in range(count if differ else 0):
            walkers.words[j], walkers.odd[j] = walkers.odd[j], walkers.words[j]
    if coupling.length > 0 or uneven:
        spread_lengths(count, -1 if uneven else coupling.length, walkers)
    if coupling.first > 0 or uneven:
        spread_first_steps(count, -1 if uneven else coupling.first, walkers)
    total, j, law = np.int64(0), 0, np.int64(0)
    for i in range(starts.size):
        first = last = np.int64(0)
        if front.depth > 0:
            first, last = front.ends[begin + i], front.ends[begin + i + 1]
            isolated = first == last
        else:
            isolated = (packed[starts[i]] & DEGREE) == 0
        for _ in range(count_walks(begin + i, n_walks, key, front)):
            word = walkers.even[j]
            if last > first:
                place = place_on_front(walkers.odd[j], first, last, front)
                law, walkers.even[j] = np.int64(front.laws[place]), np.uint64(place)
            length = guide[law, np.int64(word >> GUIDE_SHIFT)]
            while length < thresholds.shape[1] and word < thresholds[law, length]:
                length += 1
            walkers.lengths[j] = 0 if isolated else length
            total += walkers.lengths[j] + 1
            j += 1
    return count, total


@subroutine
def place_on_front(word: int, first: int, last: int, front: Front) -> Any:
    """Return the first place whose cut is above a draw; the guide says where to begin.

    It has as many entries as there are places, or up to twice as many: a power of two.
    """
    bits = np.uint64(0)
    while (np.int64(1) << np.int64(bits)) < last - first:
        bits += ONE
    place = first
    if bits > 0:
        place += front.guide[2 * first + np.int64(word >> (WORD - bits))]
    while place < last - 1 and word >= front.cuts[place]:
        place += 1
    return place


@spliced
def line_up(
    starts: NDArray[Any],
    n_walks: int,
    count: int,
    key: Key,
    coupling: Coupling,
    first: NDArray[np.float64],
    front: Front,
    begin: int,
    walkers: Walkers,
    order: Order,  # filled
    nodes: NDArray[Any],
    values: NDArray[np.float64],
    home: float,
) -> int:
    """Order the walkers by length, reserve their deposits, make those at home; return the longest length.

    Of unequal numbers of walks, each counts in inverse proportion to how many there are from its start node.
    """
    lengths, active, rank, longest = walkers.lengths, order.active, order.rank, 0
    for j in range(count):
        longest = max(longest, lengths[j])
    for t in range(longest + 2):
        active[t] = 0
    for j in range(count):
        active[lengths[j]] += 1
    for t in range(longest - 1, -1, -1):
        active[t] += active[t + 1]
    for t in range(longest + 1):
        rank[t] = active[t + 1]
    place = old = 0
    for i in range(starts.size):
        share = 1.0
        if front.shifts.size:
            share = 2.0 ** -np.float64(front.shifts[begin + i])
        scale = first[starts[i]] * share
        for k in range(count_walks(begin + i, n_walks, key, front)):
            j = rank[lengths[old]]
            rank[lengths[old]] += 1
            walk = key.first_walks[begin + i] + k
            set_counters(j, walk, starts[i], begin + i, coupling, front, walkers, key)
            walkers.words[j] = walkers.odd[old]
            walkers.here[j] = starts[i]
            walkers.load[j], walkers.law[j] = scale, 0
            if front.depth > 0 and lengths[old] > 0:
                p = np.int64(walkers.even[old])
                walkers.here[j], walkers.load[j] = front.nodes[p], front.loads[p] * share
                walkers.law[j] = front.laws[p]
            walkers.place[j] = place
            walkers.origin[j] = old
            nodes[place], values[place] = starts[i], home * share
            place += lengths[old] + 1
            old += 1
    return longest


@subroutine
def step_uniform(
    n: int, walkers: Walkers, words: NDArray[np.uint64], packed: NDArray[np.uint64], indices: Any
) -> None:
    """Move the first n walkers, all entries of a row being equally likely."""
    here = walkers.here
    for j in range(n):
        row = packed[here[j]]
        degree, word = row & DEGREE, words[j]
        entry = (row >> DEGREE_BITS) + (
            ((word >> HALF) * degree + (((word & MASK) * degree) >> HALF)) >> HALF
        )
        here[j] = indices[np.int64(entry)]


@subroutine
def step_alias(
    n: int, walkers: Walkers, words: NDArray[np.uint64], packed: NDArray[np.uint64], alias: Any
) -> None:
    """Move the first n walkers in proportion to the weights: word · degree = slot · 2⁶⁴ + rest."""
    here = walkers.here
    for j in range(n):
        row = packed[here[j]]
        degree, word = row & DEGREE, words[j]
        bottom = (word & MASK) * degree
        top = (word >> HALF) * degree + (bottom >> HALF)
        rest = ((top & MASK) << HALF) | (bottom & MASK)
        entry = np.int64((row >> DEGREE_BITS) + (top >> HALF)) << 1
        pair = alias[entry + 1]
        here[j] = np.int64(pair & MASK if rest < alias[entry] else pair >> HALF)


@subroutine
def deposit(
    n: int,
    step: int,
    factors: NDArray[np.float64],  # (laws, steps + 1)
    walkers: Walkers,
    table: Any,
    nodes: Any,
    values: NDArray[np.float64],
) -> None:
    """Write the deposits of the first n walkers after a step."""
    here, load, place, law = walkers.here, walkers.load, walkers.place, walkers.law
    packed, last, factor, several = table.packed, table.last, factors[0, step], factors.shape[0] > 1
    if table.last_by_degree:
        for j in range(n):
            node = here[j]
            if several:
                factor = factors[law[j], step]
            nodes[place[j] + step] = node
            values[place[j] + step] = factor * load[j] * last[np.int64(packed[node] & DEGREE)]
    else:
        for j in range(n):
            node = here[j]
            if several:
                factor = factors[law[j], step]
            nodes[place[j] + step] = node
            values[place[j] + step] = factor * load[j] * last[node]


@subroutine
def step_and_deposit(
    n: int,
    step: int,
    factors: NDArray[np.float64],
    at_home: bool,
    walkers: Walkers,
    words: NDArray[np.uint64],
    table: Any,
    nodes: Any,
    values: NDArray[np.float64],
) -> None:
    """Move and deposit in any graph: loads are running products, and a walk ends where no edge leaves."""
    here, load, place = walkers.here, walkers.load, walkers.place
    for j in range(n):
        node = here[j]
        if node < 0:
            continue
        row = table.packed[node]
        degree, word = row & DEGREE, words[j]
        if degree == 0:
            here[j] = -1
            walkers.lengths[walkers.origin[j]] = step - 1
            continue
        if table.inner.size and not at_home:
            load[j] *= table.inner[node]
        bottom = (word & MASK) * degree
        top = (word >> HALF) * degree + (bottom >> HALF)
        entry = np.int64((row >> DEGREE_BITS) + (top >> HALF))
        if table.alias.size:
            rest = ((top & MASK) << HALF) | (bottom & MASK)
            pair = table.alias[2 * entry + 1]
            mark = pair & MASK if rest < table.alias[2 * entry] else pair >> HALF
            if mark >> SIGN:
                load[j] = -load[j]
            node = np.int64(mark & NODE)
        else:
            if table.edge.size:
                load[j] *= table.edge[entry]
            node = np.int64(table.indices[entry])
        here[j] = node
        nodes[place[j] + step] = node
        values[place[j] + step] = factors[walkers.law[j], step] * load[j] * table.last[node]


@subroutine
def close_gaps(
    count: int, walkers: Walkers, reserved: NDArray[np.int32], nodes: Any, values: NDArray[np.float64]
) -> int:
    """Move deposits together where walks ended before their reserved length; return their number."""
    source = target = 0
    for j in range(count):
        length = walkers.lengths[j]
        for t in range(length + 1):
            nodes[target + t], values[target + t] = nodes[source + t], values[source + t]
        source += reserved[j] + 1
        target += length + 1
    return target


@spliced
def walk_block(
    starts: NDArray[Any],
    n_walks: int,
    count: int,
    key: Key,
    coupling: Coupling,
    table: Any,
    factors: NDArray[np.float64],
    front: Front,
    begin: int,
    walkers: Walkers,
    order: Order,  # overwritten
    reserved: NDArray[np.int32] | None,  # overwritten
    total: int,  # deposits if no walk gets stuck
    nodes: Any,
    values: NDArray[np.float64],
) -> int:
    """Walk a block whose lengths are drawn; deposit load · factors[law, step]; return the number of deposits.

    Slot 1 of the draws is that of the first step, or of the place on the front where there is one.
    """
    if reserved is not None:
        for j in range(count):
            reserved[j] = walkers.lengths[j]
    longest = line_up(
        starts, n_walks, count, key, coupling, table.first, front, begin, walkers, order, nodes, values,
        factors[0, 0],
    )  # fmt: skip
    later = -1 if front.shifts.size else coupling.later
    for step in range(1, longest + 1):
        n = order.active[step]
        slot = step + 1 if front.depth > 0 else step
        if slot % 2 == 0:
            fill_words(slot // 2, n, later, walkers, key)
            if later != 0:
                spread_later_steps(n, later, walkers)
        words = walkers.words if slot == 1 else walkers.odd if slot % 2 else walkers.even
        if reserved is not None:
            step_and_deposit(n, step, factors, slot == 1, walkers, words, table, nodes, values)
        else:
            if table.alias.size:
                step_alias(n, walkers, words, table.packed, table.alias)
            else:
                step_uniform(n, walkers, words, table.packed, table.indices)
            deposit(n, step, factors, walkers, table, nodes, values)
    if reserved is not None:
        total = close_gaps(count, walkers, reserved, nodes, values)
    return total


@compiled
def walk_task(
    starts: NDArray[Any],
    n_walks: int,
    key: Key,
    coupling: Coupling,
    table: Any,
    thresholds: NDArray[np.uint64],
    guide: NDArray[np.int32],
    factors: NDArray[np.float64],
    front: Front,
    walkers: Walkers,  # room for those of a block
    order: Order,
    reserved: NDArray[np.int32] | None,  # room for lengths of a block as drawn; None if the table is plain
    lengths: NDArray[np.int32],  # (walks,), filled
    laws: NDArray[np.int32],  # (walks,), filled, or empty
    nodes: Any,  # (room,), filled
    values: NDArray[np.float64],  # (room,), filled
) -> Any:
    """Walk from start nodes until they, or the room for deposits, are used up.

    Return the number of nodes done, that of deposits, and that of the node that has most of them.
    """
    begin, n, done, most = 0, 0, 0, np.int64(0)
    while begin < starts.size:
        end, count = begin, 0
        while end < starts.size:
            own = count_walks(end, n_walks, key, front)
            if end > begin and count + own > walkers.lengths.size:
                break
            count, end = count + own, end + 1
        block = starts[begin:end]
        count, more = draw_lengths(
            block, n_walks, key, coupling, thresholds, guide, table.packed, front, begin, walkers
        )
        if n + more > nodes.size:
            return begin, n, most
        n += walk_block(
            block,
            n_walks,
            count,
            key,
            coupling,
            table,
            factors,
            front,
            begin,
            walkers,
            order,
            reserved,
            more,
            nodes[n:],
            values[n:],
        )
        for j in range(count if laws.size else 0):
            laws[done + walkers.origin[j]] = walkers.law[j]
        j = 0
        for i in range(begin, end):
            size = np.int64(0)
            for _ in range(count_walks(i, n_walks, key, front)):
                lengths[done + j] = walkers.lengths[j]
                size += walkers.lengths[j] + 1
                j += 1
            most = max(most, size)
        done, begin = done + count, end
    return starts.size, n, most
