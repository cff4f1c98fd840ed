"""The walker as a Triton kernel: one lane for each walk, keyed as on the CPU, to take the same steps.

Decisions are comparisons and products of integers, the same as in the compiled loops: a draw is 64 bits, here
two words of 32; the neighbour is the high part of draw · degree; the draws of walks that share one are moved
apart by additions to the high word. Row pointers and degrees are packed into one word, so that a step reads
two words from memory: the neighbour, and its row.

Where there is one length law and every start node has equally many walks, which is decided when a kernel is
compiled too, nothing of what is needed otherwise is read: of SEVERAL laws that of a walk is found with the
place where it leaves its head, and of UNEVEN numbers each walk looks up its start node and its number.

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
def _walk_of(j, valid, n_walks, owners, firsts, shared_bits, UNEVEN: tl.constexpr):
    """Return the position of each walk's start node, the walk's number, and how many bits share its draws."""
    if UNEVEN:
        i = tl.load(owners + j, mask=valid, other=0).to(tl.int64)
        number = j - tl.load(firsts + i, mask=valid, other=0)
        bits = tl.load(shared_bits + i, mask=valid, other=0).to(tl.uint32)
    else:
        i = j // n_walks
        number = j % n_walks
        bits = number.to(tl.uint32) * 0
    return i, number.to(tl.uint32), bits


@triton.jit
def _draw(seed, pair, walk, low, high, bits):
    """Return the two draws of a pair of slots, of which 2^bits walks share each, two words for either."""
    return tl.philox(seed, (low * 0 + pair).to(tl.uint32), (walk >> bits) << bits, low, high)


@triton.jit
def _number_in_group(walk, bits):
    """Return the number of each walk among the 2^bits that share a draw."""
    return walk - ((walk >> bits) << bits)


@triton.jit
def _spread(k, bits):
    """Return k / 2^bits of the range of a high word, modulo that range; nothing for bits = 0 and k = 0."""
    return k << ((32 - bits) & 31)


@triton.jit
def _first_draw(seed, walk, low, high, bits):
    """Return the draw of the first step, or of the place where a walk leaves its head."""
    _, _, w2, w3 = _draw(seed, 0, walk, low, high, bits)
    k = _number_in_group(walk, bits)
    reversed_bits = ((k & 1) << 3) | ((k & 2) << 1) | ((k & 4) >> 1) | ((k & 8) >> 3)
    return w2 + _spread(reversed_bits >> (4 - bits), bits), w3


@triton.jit
def _length(seed, walk, low, high, thresholds, guide, n_thresholds, can_go, bits):
    """Return the number of steps of each walk: as many as there are thresholds above its draw."""
    w0, w1, _, _ = _draw(seed, 0, walk, low, high, bits)
    w0 += _spread(_number_in_group(walk, bits), bits)
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
    spots,  # (walkers,) int64, filled where there are several laws: the place where a walk leaves its head
    key,  # (1,) int64: the seed
    thresholds,  # (laws, steps) int64: the length laws
    guide,  # (laws, 256) int32
    packed,  # (all nodes,) int64
    owners,  # (walkers,) int32: the position of the start node, where numbers of walks are unequal
    firsts,  # (nodes + 1,) int64: the first walker of each start node
    shared_bits,  # (nodes,) int32: binary logarithm of how many walks share a draw
    ends,  # (nodes + 1,) int64: fronts of exact heads
    cuts,  # (places,) int64
    front_laws,  # (places + 1,) int32
    front_guide,  # (2 · places,) int32
    n_walkers,
    n_walks,
    n_thresholds,
    stream,
    LENGTH: tl.constexpr,  # binary logarithm of how many walks share the draw of their length, if all do
    FIRST: tl.constexpr,  # the same for their first step
    FRONT: tl.constexpr,
    SEVERAL: tl.constexpr,
    UNEVEN: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Draw the number of steps of every walk; none from nodes without edges, or whose head ends nowhere."""
    j = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = j < n_walkers
    i, walk_number, bits = _walk_of(j, valid, n_walks, owners, firsts, shared_bits, UNEVEN)
    start = tl.load(starts + i, mask=valid, other=0)
    low, high = _counter(start, stream)
    seed = tl.load(key)
    if FRONT:
        begin = tl.load(ends + i, mask=valid, other=0)
        end = tl.load(ends + i + 1, mask=valid, other=0)
        can_go = valid & (begin < end)
    else:
        can_go = valid & ((tl.load(packed + start, mask=valid, other=0) & DEGREE) > 0)
    if SEVERAL:
        w2, w3 = _first_draw(seed, walk_number, low, high, bits if UNEVEN else FIRST)
        spot = _front_place(w2, w3, begin, end, cuts, front_guide, can_go)
        tl.store(spots + j, spot, mask=valid)
        law = tl.load(front_laws + spot, mask=can_go, other=0)
        thresholds += law * n_thresholds
        guide += law * 256
    length = _length(
        seed, walk_number, low, high, thresholds, guide, n_thresholds, can_go, bits if UNEVEN else LENGTH
    )
    tl.store(lengths + j, length, mask=valid)


@triton.jit
def walk(
    starts,  # (nodes,) int64
    lengths,  # (walkers,) int32, drawn before; where walks get stuck, filled with the steps they made
    spots,  # (walkers,) int64, drawn before where there are several laws
    places,  # (walkers,) int64: where the deposits of a walk begin, for RECORD
    key,
    packed,
    indices,  # (entries,) int32 or int64
    alias,  # (2 · entries,) int64, where steps follow weights
    edge,  # (entries,), where loads have factors of their own
    first,  # (all nodes,)
    inner,  # (all nodes,), where loads are running products
    last,  # (all nodes,), or (degrees,)
    factors,  # (laws, steps + 1): what a load is multiplied by
    owners,
    firsts,
    shared_bits,
    shares,  # (nodes,): what a walk counts, where numbers of walks are unequal
    ends,
    cuts,
    front_laws,
    front_guide,
    front_nodes,
    front_loads,
    law_hops,  # (laws,) int32: the hop at which walks of each law begin
    nodes,  # (deposits,), filled; for STEPS (walkers,), the last nodes
    loads,  # (deposits,), filled
    hops,  # (deposits,) int32, filled: the length of each deposit
    matrix,  # (all nodes, columns): U for GATHER; added to for SCATTER
    own,  # (nodes, columns): added to for GATHER; V for SCATTER
    n_walkers,
    n_walks,
    n_factors,
    stream,
    n_columns,
    MODE: tl.constexpr,
    FIRST: tl.constexpr,
    LATER: tl.constexpr,
    FRONT: tl.constexpr,
    SEVERAL: tl.constexpr,
    UNEVEN: tl.constexpr,
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
    i, walk_number, bits = _walk_of(j, valid, n_walks, owners, firsts, shared_bits, UNEVEN)
    start = tl.load(starts + i, mask=valid, other=0)
    low, high = _counter(start, stream)
    seed = tl.load(key)
    length = tl.load(lengths + j, mask=valid, other=0)
    here, load = start, tl.load(first + start, mask=valid, other=0.0)
    home = load * 0 + tl.load(factors)
    if UNEVEN:
        share = tl.load(shares + i, mask=valid, other=0.0)
        home *= share
    column = tl.arange(0, COLUMNS)
    inside = column < n_columns
    if MODE == RECORD:
        place = tl.load(places + j, mask=valid, other=0)
        tl.store(nodes + place, start, mask=valid)
        tl.store(loads + place, home, mask=valid)
        tl.store(hops + place, length * 0, mask=valid)
    if MODE == GATHER:
        at = start[:, None] * n_columns + column[None, :]
        total = home[:, None] * tl.load(matrix + at, mask=valid[:, None] & inside[None, :], other=0.0)
    if MODE == SCATTER:
        at = i[:, None] * n_columns + column[None, :]
        mine = tl.load(own + at, mask=valid[:, None] & inside[None, :], other=0.0)
        at = start[:, None] * n_columns + column[None, :]
        tl.atomic_add(matrix + at, home[:, None] * mine, mask=valid[:, None] & inside[None, :], sem="relaxed")
    w2, w3 = _first_draw(seed, walk_number, low, high, bits if UNEVEN else FIRST)
    if FRONT:
        leaving = valid & (length > 0)
        if SEVERAL:
            spot = tl.load(spots + j, mask=leaving, other=0)
            law = tl.load(front_laws + spot, mask=leaving, other=0)
            factors += law * n_factors
            law_hops += law
        else:
            begin = tl.load(ends + i, mask=valid, other=0)
            end = tl.load(ends + i + 1, mask=valid, other=0)
            spot = _front_place(w2, w3, begin, end, cuts, front_guide, leaving)
        here = tl.where(leaving, tl.load(front_nodes + spot, mask=leaving, other=0).to(tl.int64), here)
        load = tl.where(leaving, tl.load(front_loads + spot, mask=leaving, other=0.0), load)
    if UNEVEN:
        load *= share
    if MODE == RECORD:
        first_hop = length * 0 + tl.load(law_hops)
    row = tl.load(packed + here, mask=valid, other=0)
    w0, w1, made = w2, w3, length * 0
    longest = tl.max(length, axis=0)
    for t in range(1, longest + 1):
        slot = t + FRONT
        if slot % 2 == 0:
            w0, w1, w2, w3 = _draw(seed, slot // 2, walk_number, low, high, bits if UNEVEN else LATER)
            k = _number_in_group(walk_number, bits if UNEVEN else LATER)
            w0 += _spread(k * (((w1 << 1) | 1) & 15), bits if UNEVEN else LATER)
            w2 += _spread(k * (((w3 << 1) | 1) & 15), bits if UNEVEN else LATER)
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
            value = tl.load(factors + t) * load * final
            if MODE == RECORD:
                tl.store(nodes + place + t, here, mask=going)
                tl.store(loads + place + t, value, mask=going)
                tl.store(hops + place + t, first_hop + t, mask=going)
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


@triton.jit
def add_runs(
    values,  # (values,)
    order,  # (values,) int64
    runs,  # (runs,) int64: where each run begins in that order
    sums,  # (runs,), filled
    n_values,
    n_runs,
    BLOCK: tl.constexpr,
):
    """Add the values of each run one by one, so that sums are those of a loop, bit by bit."""
    run = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = run < n_runs
    place = tl.load(runs + run, mask=valid, other=0)
    end = tl.load(runs + run + 1, mask=run + 1 < n_runs, other=n_values)
    total = tl.zeros([BLOCK], dtype=sums.dtype.element_ty)
    going = valid & (place < end)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        where = tl.load(order + place, mask=going, other=0)
        total += tl.load(values + where, mask=going, other=0.0)
        place += 1
        going = going & (place < end)
    tl.store(sums + run, total, mask=valid)
