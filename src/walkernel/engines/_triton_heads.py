"""Exact heads as Triton kernels: hops along edges, and the fronts behind them.

A hop has a place for each edge that was followed, start node by start node; as edges meet at nodes, the first
places of each start node are taken by entries, and the rest are gaps. Sums are made one by one in the order
in which the compiled loops meet their terms, so that their bits are the same: every lane of a row goes over
all values of the row and adds up those that belong to it. No value is multiplied in the kernel that adds it
up, because the two would be rounded as one.
"""

# mypy: ignore-errors
# Triton compiles these functions, and knows no annotations but its own.

from __future__ import annotations

import triton
import triton.language as tl

from walkernel.engines._triton_walks import DEGREE, DEGREE_BITS


@triton.jit
def _entry_at(place, n_places, rows, begins, counts):
    """Return the row of each place, its number among the entries of the row, and whether it is one."""
    inside = place < n_places
    row = tl.load(rows + place, mask=inside, other=0)
    number = place - tl.load(begins + row, mask=inside, other=0)
    return row, number, inside & (number < tl.load(counts + row, mask=inside, other=0))


@triton.jit
def choose_edges(
    starts,  # (starts,) int64
    rows,  # (places,) int32: the start node of each place
    begins,  # (starts + 1,) int64: where the places of each start node begin
    counts,  # (starts,) int32: its entries
    nodes,  # (places,)
    chances,  # (places,) float64
    packed,  # (all nodes,) int64
    first,  # (all nodes,) float64
    enter,  # (all nodes,) float64
    rule,  # (2,) float64: what following saves at this hop, and the threshold
    degrees,  # (places,) int32, filled: number of edges that are followed
    leaves,  # (places,) int32, filled: 1 where walks may begin
    n_places,
    SOURCE: tl.constexpr,  # whether entries are the start nodes themselves
    LAST: tl.constexpr,  # whether no edges are followed any more
    BLOCK: tl.constexpr,
):
    """Decide which edges are followed from each entry."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, _, valid = _entry_at(place, n_places, rows, begins, counts)
    node = tl.load(nodes + place, mask=valid, other=0).to(tl.int64)
    chance = tl.load(chances + place, mask=valid, other=0.0)
    degree = tl.load(packed + node, mask=valid, other=0) & DEGREE
    if LAST:
        follows = degree < 0
    else:
        start = tl.load(starts + row, mask=valid, other=0)
        saved = tl.load(first + start, mask=valid, other=0.0) * chance * tl.load(rule)
        follows = saved >= tl.load(rule + 1) * degree.to(tl.float64)
    if SOURCE:
        follows = follows | (tl.load(enter + node, mask=valid, other=0.0) == 0)
        valid = valid & (degree > 0)
    tl.store(degrees + place, tl.where(valid & follows, degree, 0).to(tl.int32), mask=place < n_places)
    leaves_here = valid & (follows == 0) & (chance > 0)
    tl.store(leaves + place, leaves_here.to(tl.int32), mask=place < n_places)


@triton.jit
def hop_along_edges(
    begins,  # (starts + 1,) int64: the places of the entries of each start node
    counts,  # (starts,) int32: the entries of each start node
    ends,  # (places + 1,) int64: where the edges of each entry begin, and where the last one's end
    nodes,  # (places,)
    source_loads,  # (places,) float64
    source_chances,  # (places,) float64
    packed,  # (all nodes,) int64
    indices,  # (entries of the matrix,)
    leave,  # (all nodes,) float64
    totals,  # (all nodes,) float64
    values,  # (entries of the matrix,) float64, if not all are one
    weights,  # (entries of the matrix,) float64, likewise
    rows,  # (edges,) int32, filled
    found_nodes,  # (edges,), filled
    loads,  # (edges,), filled
    chances,  # (edges,), filled
    n_starts,
    VALUES: tl.constexpr,
    WEIGHTS: tl.constexpr,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,
):
    """Send loads and chances along the edges of some start nodes, whose programs take them in turn."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    here = row < n_starts
    begin = tl.load(begins + row, mask=here, other=0)
    end = begin + tl.load(counts + row, mask=here, other=0)
    edge = tl.load(ends + begin, mask=here, other=0) + tl.program_id(1) * LANES + tl.arange(0, LANES)[None, :]
    last = tl.load(ends + end, mask=here, other=0)
    while tl.max((edge < last).to(tl.int32)) > 0:
        valid = edge < last
        source, after = begin + edge * 0, end + edge * 0
        while tl.max(after - source) > 1:
            middle = (source + after) // 2
            is_before = tl.load(ends + middle, mask=valid, other=0) <= edge
            source, after = tl.where(is_before, middle, source), tl.where(is_before, after, middle)
        node = tl.load(nodes + source, mask=valid, other=0).to(tl.int64)
        load = tl.load(source_loads + source, mask=valid, other=0.0)
        load *= tl.load(leave + node, mask=valid, other=0.0)
        chance = tl.load(source_chances + source, mask=valid, other=0.0)
        chance = chance / tl.load(totals + node, mask=valid, other=1.0)
        entry = (tl.load(packed + node, mask=valid, other=0) >> DEGREE_BITS) + edge
        entry -= tl.load(ends + source, mask=valid, other=0)
        if VALUES:
            load *= tl.load(values + entry, mask=valid, other=0.0)
        if WEIGHTS:
            chance *= tl.load(weights + entry, mask=valid, other=0.0)
        tl.store(rows + edge, row + tl.zeros([ROWS, LANES], dtype=tl.int32), mask=valid)
        tl.store(found_nodes + edge, tl.load(indices + entry, mask=valid, other=0), mask=valid)
        tl.store(loads + edge, load, mask=valid)
        tl.store(chances + edge, chance, mask=valid)
        edge += tl.num_programs(1) * LANES


@triton.jit
def merge_edges(
    begins,  # (starts + 1,) int64: the edges of each start node
    nodes,  # (edges,)
    loads,  # (edges,) float64
    chances,  # (edges,) float64
    enter,  # (all nodes,) float64
    merged_nodes,  # (edges,), filled
    merged_loads,  # (edges,), filled
    merged_chances,  # (edges,), filled
    counts,  # (starts,) int32, filled: the entries of each start node
    least,
    n_starts,
    ROWS: tl.constexpr,
    ROOM: tl.constexpr,
):
    """Add up what the edges of a start node bring to the same node; entries are as they are met first.

    Start nodes of at most ``least`` edges, or of more than ROOM, are left to others.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    begin = tl.load(begins + row, mask=row < n_starts, other=0)
    width = tl.load(begins + row + 1, mask=row < n_starts, other=0) - begin
    own = (width > least) & (width <= ROOM)
    width = tl.where(own, width, 0)
    j = tl.arange(0, ROOM)[None, :]
    valid = j < width
    node = tl.load(nodes + begin + j, mask=valid, other=-1)
    load = tl.zeros([ROWS, ROOM], dtype=tl.float64)
    chance = tl.zeros([ROWS, ROOM], dtype=tl.float64)
    is_first = valid
    for i in range(tl.max(width)):
        place, inside = begin + j * 0 + i, i + j * 0 < width
        same = node == tl.load(nodes + place, mask=inside, other=-2)
        load = tl.where(same, load + tl.load(loads + place, mask=inside, other=0.0), load)
        chance = tl.where(same, chance + tl.load(chances + place, mask=inside, other=0.0), chance)
        is_first = is_first & ((same == 0) | (j <= i))
    target = begin + tl.cumsum(is_first.to(tl.int32), axis=1) - 1
    load *= tl.load(enter + node, mask=is_first, other=0.0)
    tl.store(merged_nodes + target, node, mask=is_first)
    tl.store(merged_loads + target, load, mask=is_first)
    tl.store(merged_chances + target, chance, mask=is_first)
    tl.store(counts + row, tl.sum(is_first.to(tl.int32), axis=1, keep_dims=True), mask=own)


@triton.jit
def collect_entries(
    rows,  # (places,) int32
    begins,  # (starts + 1,) int64
    counts,  # (starts,) int32
    nodes,  # (places,)
    loads,  # (places,) float64
    chances,  # (places,) float64
    leaves,  # (places + 1,) int64: entries before each place where walks may begin
    head_begins,  # (starts,) int64: where the entries of this hop go
    front_begins,  # (starts,) int64: where those of them go that walks begin at
    worth,  # (1,) float64
    law,
    length,
    head_nodes,  # filled, also the following
    head_lengths,
    head_loads,
    front_rows,
    front_nodes,
    front_laws,
    front_loads,
    front_chances,
    n_places,
    HEAD: tl.constexpr,  # whether entries belong to the head
    BLOCK: tl.constexpr,
):
    """Bring the entries of a hop to their places in heads and fronts."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row, number, valid = _entry_at(place, n_places, rows, begins, counts)
    node = tl.load(nodes + place, mask=valid, other=0)
    load = tl.load(loads + place, mask=valid, other=0.0)
    if HEAD:
        target = tl.load(head_begins + row, mask=valid, other=0) + number
        tl.store(head_nodes + target, node, mask=valid)
        tl.store(head_lengths + target, length, mask=valid)
        tl.store(head_loads + target, load, mask=valid)
    before = tl.load(leaves + place, mask=valid, other=0)
    leaving = valid & (tl.load(leaves + place + 1, mask=valid, other=0) > before)
    begin = tl.load(begins + row, mask=leaving, other=0)
    target = tl.load(front_begins + row, mask=leaving, other=0) + before
    target -= tl.load(leaves + begin, mask=leaving, other=0)
    tl.store(front_rows + target, row, mask=leaving)
    tl.store(front_nodes + target, node, mask=leaving)
    tl.store(front_laws + target, law, mask=leaving)
    tl.store(front_loads + target, load, mask=leaving)
    chance = tl.load(chances + place, mask=leaving, other=0.0)
    tl.store(front_chances + target, chance * tl.load(worth), mask=leaving)


@triton.jit
def add_along_runs(
    values,  # (values,) float64
    ends,  # (runs + 1,) int64
    sums,  # (values,) float64, filled: the running sums of each run
    totals,  # (runs,) float64, filled: the last of them
    n_runs,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Add the values of each run one by one, and keep what they add up to."""
    run = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = run < n_runs
    place = tl.load(ends + run, mask=here, other=0)
    end = tl.load(ends + run + 1, mask=here, other=0)
    total = tl.zeros([ROWS], dtype=tl.float64)
    j = tl.arange(0, WIDTH)[None, :]
    most = tl.max(end - place, axis=0)
    while most > 0:
        sum_so_far = total[:, None] + tl.zeros([ROWS, WIDTH], dtype=tl.float64)
        for i in range(tl.minimum(most, WIDTH)):
            value = tl.load(values + place + i, mask=place + i < end, other=0.0)
            total += value
            sum_so_far = tl.where(j >= i, sum_so_far + value[:, None], sum_so_far)
        tl.store(sums + place[:, None] + j, sum_so_far, mask=place[:, None] + j < end[:, None])
        place += WIDTH
        most -= WIDTH
    tl.store(totals + run, total, mask=here)


@triton.jit
def cut_fronts(
    rows,  # (places,) int32
    nodes,  # (places,)
    enter,  # (all nodes,) float64
    totals,  # (starts,) float64
    sums,  # (places,) float64
    chances,  # (places,) float64
    loads,  # (places,) float64: those of the entries, filled with those that walks begin with
    cuts,  # (places,) int64, filled: unsigned words
    n_places,
    BLOCK: tl.constexpr,
):
    """Tell up to which draw a walk begins at each place, and with what load."""
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = place < n_places
    total = tl.load(totals + tl.load(rows + place, mask=valid, other=0), mask=valid, other=1.0)
    half = (place * 0 + (1 << 62)).to(tl.float64) * 2.0  # 2⁶³; a constant would be rounded
    share = tl.load(sums + place, mask=valid, other=0.0) / total * (half * 2.0)
    high = tl.where(share >= half, half, 0.0)
    word = tl.minimum(share - high, half - 1024.0).to(tl.int64)
    word = tl.where(high > 0, word ^ (tl.full([BLOCK], 1, tl.int64) << 63), word)
    word = tl.where(share >= half + (half - 2048.0), -1, word)
    tl.store(cuts + place, word, mask=valid)
    node = tl.load(nodes + place, mask=valid, other=0)
    chance = tl.load(chances + place, mask=valid, other=1.0) * tl.load(enter + node, mask=valid, other=1.0)
    tl.store(loads + place, total * tl.load(loads + place, mask=valid, other=0.0) / chance, mask=valid)


@triton.jit
def fill_guides(
    rows,  # (places,) int32
    ends,  # (starts + 1,) int64
    cuts,  # (places,) int64
    guide,  # (2 · places,) int32, filled as far as it is read
    n_guides,
    BLOCK: tl.constexpr,
):
    """Find for the first bits of a draw where in its front a place with a larger cut may be first."""
    slot = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    valid = slot < n_guides
    row = tl.load(rows + slot // 2, mask=valid, other=0)
    first = tl.load(ends + row, mask=valid, other=0)
    last = tl.load(ends + row + 1, mask=valid, other=1) - 1
    shift, size = slot * 0 + 64, slot * 0 + 1
    while tl.max((size <= last - first).to(tl.int32), axis=0) > 0:
        shift = tl.where(size <= last - first, shift - 1, shift)
        size = tl.where(size <= last - first, size * 2, size)
    k = slot - 2 * first
    valid = valid & (k < size)
    least = k.to(tl.uint64) << tl.where(k > 0, shift, 1).to(tl.uint64)
    begin, end = first, last  # the first place of a larger cut, or the last one, is between them
    while tl.max((valid & (begin < end)).to(tl.int32), axis=0) > 0:
        middle = (begin + end) // 2
        looking = valid & (begin < end)
        cut = tl.load(cuts + middle, mask=looking, other=0).to(tl.uint64, bitcast=True)
        below = looking & (cut <= least)
        begin = tl.where(below, middle + 1, begin)
        end = tl.where(looking & (below == 0), middle, end)
    tl.store(guide + slot, (begin - first).to(tl.int32), mask=valid)
