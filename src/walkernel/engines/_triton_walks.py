"""The walker as a Triton kernel: one lane for each walk, keyed as on the CPU, to take the same steps.

Decisions are comparisons and products of integers, the same as in the compiled loops: a draw is 64 bits, here
two words of 32; the neighbour is the high part of draw · degree; the draws of walks that share one are moved
apart by additions to the high word. Row pointers and degrees are packed into one word, so that a step reads
two words from memory: the neighbour, and its row.

What becomes of a deposit is decided when a kernel is compiled: it is written down (RECORD), multiplied with a
row of a matrix and added up (GATHER: Φ U), added to the row of its node (SCATTER: Φᵀ V), or nothing (STEPS).
"""

# mypy: ignore-errors
# Triton compiles these functions, and knows no annotations but its own.

from __future__ import annotations

import triton
import triton.language as tl

DEGREE_BITS = tl.constexpr(28)
DEGREE = tl.constexpr(2**28 - 1)
STEPS, RECORD, GATHER, SCATTER = (tl.constexpr(mode) for mode in range(4))


@triton.jit
def _counter(start, stream):
    """Return the words of a walk's counter that its start node decides."""
    high = (((start >> 32) & 0xFFFF) << 16) | stream
    return start.to(tl.uint32), high.to(tl.uint32)


@triton.jit
def _reversed_bits(k, SHARED: tl.constexpr):
    """Return k of SHARED bits in reversed order."""
    swapped = ((k & 1) << 3) | ((k & 2) << 1) | ((k & 4) >> 1) | ((k & 8) >> 3)
    return swapped >> (4 - SHARED)


@triton.jit
def _length(seed, walk, low, high, thresholds, guide, n_thresholds, can_go, SHARED: tl.constexpr):
    """Return the number of steps of each walk: as many as there are thresholds above its draw."""
    w0, w1, _, _ = tl.philox(seed, low * 0, (walk >> SHARED) << SHARED, low, high)
    if SHARED > 0:
        w0 += (walk & ((1 << SHARED) - 1)) << (32 - SHARED)
    word = (w0.to(tl.uint64) << 32) | w1.to(tl.uint64)
    length = tl.load(guide + (w0 >> 24).to(tl.int32), mask=can_go, other=0)
    going = can_go & (length < n_thresholds)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        limit = tl.load(thresholds + length, mask=going, other=0).to(tl.uint64, bitcast=True)
        above = going & (word < limit)
        length = tl.where(above, length + 1, length)
        going = above & (length < n_thresholds)
    return length


@triton.jit
def _front_place(high, low, first, last, cuts, guide, going):
    """Return the first place on the front whose cut is above a draw; the guide says where to begin."""
    word = (high.to(tl.uint64) << 32) | low.to(tl.uint64)
    bits = (first * 0).to(tl.uint64)
    count = last - first
    size = first * 0 + 1
    while tl.max((going & (size < count)).to(tl.int32), axis=0) > 0:
        more = going & (size < count)
        size = tl.where(more, size * 2, size)
        bits = tl.where(more, bits + 1, bits)
    several = going & (bits > 0)
    shift = tl.where(several, 64 - bits, 1)
    begin = 2 * first + (word >> shift).to(tl.int64)
    place = first + tl.load(guide + begin, mask=several, other=0)
    looking = going & (place < last - 1)
    while tl.max(looking.to(tl.int32), axis=0) > 0:
        cut = tl.load(cuts + place, mask=looking, other=0).to(tl.uint64, bitcast=True)
        below = looking & (word >= cut)
        place = tl.where(below, place + 1, place)
        looking = below & (place < last - 1)
    return place


@triton.jit
def _step(row, high, low, going, indices, alias, ALIAS: tl.constexpr):
    """Return the entry that a draw selects in a row, the node it leads to, and whether it is negative."""
    degree = (row & DEGREE).to(tl.uint64)
    bottom = low.to(tl.uint64) * degree
    top = high.to(tl.uint64) * degree + (bottom >> 32)
    entry = (row >> DEGREE_BITS) + (top >> 32).to(tl.int64)
    if ALIAS:
        rest = (top << 32) | (bottom & 0xFFFFFFFF)
        limit = tl.load(alias + 2 * entry, mask=going, other=0).to(tl.uint64, bitcast=True)
        both = tl.load(alias + 2 * entry + 1, mask=going, other=0).to(tl.uint64, bitcast=True)
        mark = tl.where(rest < limit, both & 0xFFFFFFFF, both >> 32)
        is_negative = (mark >> 31) > 0
        node = (mark & 0x7FFFFFFF).to(tl.int64)
    else:
        is_negative = degree < 0
        node = tl.load(indices + entry, mask=going, other=0).to(tl.int64)
    return entry, node, is_negative


@triton.jit
def draw_lengths(
    starts,  # (nodes,) int64
    lengths,  # (walkers,) int32, filled
    key,  # (1,) int64: the seed
    thresholds,  # (steps,) int64: the length law
    guide,  # (256,) int32
    packed,  # (all nodes,) int64
    ends,  # (nodes + 1,) int64: fronts of exact heads
    n_walkers,
    n_walks,
    n_thresholds,
    stream,
    SHARED: tl.constexpr,
    FRONT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Draw the number of steps of every walk; none from nodes without edges, or whose head ends nowhere."""
    j = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = j < n_walkers
    i = j // n_walks
    start = tl.load(starts + i, mask=valid, other=0)
    low, high = _counter(start, stream)
    if FRONT:
        can_go = valid & (tl.load(ends + i, mask=valid, other=0) < tl.load(ends + i + 1, mask=valid, other=0))
    else:
        can_go = valid & ((tl.load(packed + start, mask=valid, other=0) & DEGREE) > 0)
    walk_number = (j % n_walks).to(tl.uint32)
    length = _length(tl.load(key), walk_number, low, high, thresholds, guide, n_thresholds, can_go, SHARED)
    tl.store(lengths + j, length, mask=valid)


@triton.jit
def walk(
    starts,  # (nodes,) int64
    lengths,  # (walkers,) int32, drawn before; where walks get stuck, filled with the steps they made
    places,  # (walkers,) int64: where the deposits of a walk begin, for RECORD
    key,
    packed,
    indices,  # (entries,) int32 or int64
    alias,  # (2 · entries,) int64, where steps follow weights
    edge,  # (entries,), where loads have factors of their own
    first,  # (all nodes,)
    inner,  # (all nodes,), where loads are running products
    last,  # (all nodes,), or (degrees,)
    factors,  # (lengths,): what a load is multiplied by
    ends,
    front_nodes,
    cuts,
    front_loads,
    front_guide,
    nodes,  # (deposits,), filled; for STEPS (walkers,), the last nodes
    loads,  # (deposits,), filled
    matrix,  # (all nodes, columns): U for GATHER; added to for SCATTER
    own,  # (nodes, columns): added to for GATHER; V for SCATTER
    n_walkers,
    n_walks,
    stream,
    n_columns,
    MODE: tl.constexpr,
    FIRST: tl.constexpr,  # binary logarithm of how many walks share the draw of their first step
    LATER: tl.constexpr,
    HEAD: tl.constexpr,
    ALIAS: tl.constexpr,
    EDGE: tl.constexpr,
    INNER: tl.constexpr,
    PLAIN: tl.constexpr,
    LAST_BY_DEGREE: tl.constexpr,
    COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Walk, and do with every deposit (node, load) what the mode says."""
    j = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = j < n_walkers
    i = j // n_walks
    start = tl.load(starts + i, mask=valid, other=0)
    walk_number = (j % n_walks).to(tl.uint32)
    low, high = _counter(start, stream)
    seed = tl.load(key)
    length = tl.load(lengths + j, mask=valid, other=0)
    here, load = start, tl.load(first + start, mask=valid, other=0.0)
    home = load * 0 + tl.load(factors)
    column = tl.arange(0, COLUMNS)
    inside = column < n_columns
    if MODE == RECORD:
        place = tl.load(places + j, mask=valid, other=0)
        tl.store(nodes + place, start, mask=valid)
        tl.store(loads + place, home, mask=valid)
    if MODE == GATHER:
        at = start[:, None] * n_columns + column[None, :]
        total = home[:, None] * tl.load(matrix + at, mask=valid[:, None] & inside[None, :], other=0.0)
    if MODE == SCATTER:
        at = i[:, None] * n_columns + column[None, :]
        mine = tl.load(own + at, mask=valid[:, None] & inside[None, :], other=0.0)
        at = start[:, None] * n_columns + column[None, :]
        tl.atomic_add(matrix + at, home[:, None] * mine, mask=valid[:, None] & inside[None, :], sem="relaxed")
    _, _, w2, w3 = tl.philox(seed, low * 0, (walk_number >> FIRST) << FIRST, low, high)
    if FIRST > 0:
        w2 += _reversed_bits(walk_number & ((1 << FIRST) - 1), FIRST) << (32 - FIRST)
    if HEAD > 0:
        begin = tl.load(ends + i, mask=valid, other=0)
        end = tl.load(ends + i + 1, mask=valid, other=0)
        leaving = valid & (length > 0)
        spot = _front_place(w2, w3, begin, end, cuts, front_guide, leaving)
        here = tl.where(leaving, tl.load(front_nodes + spot, mask=leaving, other=0).to(tl.int64), here)
        load = tl.where(leaving, tl.load(front_loads + spot, mask=leaving, other=0.0), load)
    row = tl.load(packed + here, mask=valid, other=0)
    w0, w1, made = w2, w3, length * 0
    longest = tl.max(length, axis=0)
    for t in range(1, longest + 1):
        slot = t + (HEAD > 0)
        if slot % 2 == 0:
            w0, w1, w2, w3 = tl.philox(
                seed, (low * 0 + slot // 2).to(tl.uint32), (walk_number >> LATER) << LATER, low, high
            )
            if LATER > 0:
                apart = walk_number & ((1 << LATER) - 1)
                w0 += (apart * (((w1 << 1) | 1) & 15)) << (32 - LATER)
                w2 += (apart * (((w3 << 1) | 1) & 15)) << (32 - LATER)
        else:
            w0, w1 = w2, w3
        going = (length >= t) & valid
        if not PLAIN:
            going = going & (made == t - 1) & ((row & DEGREE) > 0)
            if INNER:
                away = going & ((made * 0 + slot) > 1)
                load = tl.where(away, load * tl.load(inner + here, mask=away, other=1.0), load)
        entry, node, is_negative = _step(row, w0, w1, going, indices, alias, ALIAS)
        if not PLAIN:
            made = tl.where(going, t, made)
            if ALIAS:
                load = tl.where(going & is_negative, -load, load)
            if EDGE:
                load = tl.where(going, load * tl.load(edge + entry, mask=going, other=1.0), load)
        here = tl.where(going, node, here)
        row = tl.load(packed + here, mask=going, other=0)
        if MODE != STEPS:
            if LAST_BY_DEGREE:
                final = tl.load(last + (row & DEGREE), mask=going, other=0.0)
            else:
                final = tl.load(last + here, mask=going, other=0.0)
            value = tl.load(factors + HEAD + t) * load * final
            if MODE == RECORD:
                tl.store(nodes + place + t, here, mask=going)
                tl.store(loads + place + t, value, mask=going)
            else:
                at = here[:, None] * n_columns + column[None, :]
                which = going[:, None] & inside[None, :]
                if MODE == GATHER:
                    total += value[:, None] * tl.load(matrix + at, mask=which, other=0.0)
                else:
                    tl.atomic_add(matrix + at, value[:, None] * mine, mask=which, sem="relaxed")
    if MODE == STEPS:
        tl.store(nodes + j, here, mask=valid)
    if MODE == GATHER:
        at = i[:, None] * n_columns + column[None, :]
        tl.atomic_add(own + at, total, mask=valid[:, None] & inside[None, :], sem="relaxed")
    if not PLAIN:
        tl.store(lengths + j, made, mask=valid)


@triton.jit
def _add_if_same(node, value, later_node, later_value):
    """Add up values of the same node, in a scan over sorted nodes."""
    return later_node, tl.where(node == later_node, value + later_value, later_value)


@triton.jit
def sort_rows(
    rows,  # (programs,) int64
    indptr,  # (all rows + 1,) int64
    nodes,  # (deposits,) int32
    values,  # (deposits,) float32
    sorted_nodes,  # (deposits,) int32, filled: by node within each row
    totals,  # (deposits,) float32, filled: the last of a node has the sum of all of its values
    ROOM: tl.constexpr,
):
    """Sort the deposits of each of some rows by node, and add those of a node up."""
    row = tl.load(rows + tl.program_id(0))
    begin, end = tl.load(indptr + row), tl.load(indptr + row + 1)
    k = tl.arange(0, ROOM)
    here = k < end - begin
    node = tl.load(nodes + begin + k, mask=here, other=2**31 - 1)
    value = tl.load(values + begin + k, mask=here, other=0.0)
    bits = value.to(tl.uint32, bitcast=True).to(tl.int64)
    word = tl.sort((node.to(tl.int64) << 32) | bits)
    node = (word >> 32).to(tl.int32)
    value = (word & 0xFFFFFFFF).to(tl.uint32).to(tl.float32, bitcast=True)
    _, total = tl.associative_scan((node, value), 0, _add_if_same)
    tl.store(sorted_nodes + begin + k, node, mask=here)
    tl.store(totals + begin + k, total, mask=here)
