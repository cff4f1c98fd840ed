"""Ways to add up what edges of a start node bring to the same node, on a CUDA device, to the same bits.

    python benchmarks/merging.py [--quick | --tiny] [--out FILE]

The library compares all pairs of a start node's edges. Here a table in memory finds the first of equal nodes:
each lane leaves its node and number at a place that its node chooses, the least of them stays, and lanes
whose node is not there go to the next place. Repeated nodes alone are then added one after the other.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import triton
import triton.language as tl
from card import DEVICE, REHEARSES, Size, default_plan, milliseconds, random_graph, run, tell
from core import table

import walkernel as wk
from walkernel.engines import CUDA, checked_spec
from walkernel.engines._device_heads import HeadFollower
from walkernel.engines._device_walks import Walker

ROOMS = ((32, 1), (128, 2), (512, 4))
"""Edges up to which a program has lanes for those of a start node, and its warps."""
PLACES = 4
"""Places of a table for each lane."""


@triton.jit
def merge_by_table(
    begins,  # (starts + 1,) int64: the edges of each start node
    nodes,  # (edges,)
    loads,  # (edges,) float64
    chances,  # (edges,) float64
    enter,  # (all nodes,) float64
    merged_nodes,  # (edges,), filled
    merged_loads,  # (edges,), filled
    merged_chances,  # (edges,), filled
    counts,  # (starts,) int32, filled: the entries of each start node
    places,  # (programs, PLACES · ROOM) int64, all of them the largest integer
    firsts,  # (programs, ROOM) int32, overwritten
    more_loads,  # (programs, ROOM) float64, overwritten
    more_chances,  # (programs, ROOM) float64, overwritten
    least,
    n_starts,
    ROOM: tl.constexpr,
    BITS: tl.constexpr,  # binary logarithm of ROOM
    PLACE_BITS: tl.constexpr,  # that of the number of places
):
    """Merge the edges of start nodes of more than ``least`` and at most ROOM edges; programs take turns."""
    program = tl.program_id(0).to(tl.int64)
    places += program << PLACE_BITS
    firsts, more_loads, more_chances = (
        firsts + program * ROOM, more_loads + program * ROOM, more_chances + program * ROOM
    )  # fmt: skip
    j = tl.arange(0, ROOM)
    for row in range(tl.program_id(0), n_starts, tl.num_programs(0)):
        begin = tl.load(begins + row)
        width = tl.load(begins + row + 1) - begin
        if (width > least) & (width <= ROOM):
            valid = j < width
            node = tl.load(nodes + begin + j, mask=valid, other=0).to(tl.int64)
            # what was left for earlier start nodes is larger
            key = ((n_starts - row) // tl.num_programs(0)).to(tl.int64) << (31 + BITS)
            key += (node << BITS) + j
            place = ((node.to(tl.uint32) * 1481765933) >> (32 - PLACE_BITS)).to(tl.int32)
            first = j * 0
            looks = valid
            while tl.max(looks.to(tl.int32), axis=0) > 0:
                tl.atomic_min(places + place, key, mask=looks, sem="relaxed")
                tl.debug_barrier()
                there = tl.load(places + place, mask=looks, other=0, cache_modifier=".cg")
                tl.debug_barrier()
                found = looks & ((there >> BITS) == (key >> BITS))
                first = tl.where(found, (there & (ROOM - 1)).to(tl.int32), first)
                looks = looks & (found == 0)
                place = (place + 1) & ((1 << PLACE_BITS) - 1)
            load = tl.load(loads + begin + j, mask=valid, other=0.0)
            chance = tl.load(chances + begin + j, mask=valid, other=0.0)
            is_first = valid & (first == j)
            repeats = valid & (first != j)
            at = tl.cumsum(repeats.to(tl.int32), axis=0) - 1
            tl.store(firsts + at, first, mask=repeats)
            tl.store(more_loads + at, load, mask=repeats)
            tl.store(more_chances + at, chance, mask=repeats)
            tl.debug_barrier()
            for i in range(tl.sum(repeats.to(tl.int32), axis=0)):
                here = j == tl.load(firsts + i, cache_modifier=".cg")
                load = tl.where(here, load + tl.load(more_loads + i, cache_modifier=".cg"), load)
                chance = tl.where(here, chance + tl.load(more_chances + i, cache_modifier=".cg"), chance)
            target = begin + tl.cumsum(is_first.to(tl.int32), axis=0) - 1
            load *= tl.load(enter + node, mask=is_first, other=0.0)
            tl.store(merged_nodes + target, node, mask=is_first)
            tl.store(merged_loads + target, load, mask=is_first)
            tl.store(merged_chances + target, chance, mask=is_first)
            tl.store(counts + row, tl.sum(is_first.to(tl.int32), axis=0))
            tl.debug_barrier()


def by_table(follower: HeadFollower, met: Any, longest: int, programs: int) -> Any:
    """Return merged edges of start nodes with at most as many edges as the largest program has lanes."""
    result = met._replace(
        **{name: torch.empty_like(getattr(met, name)) for name in ("nodes", "loads", "chances")}
    )
    result = result._replace(counts=torch.zeros_like(met.counts))
    least, n = 0, met.counts.numel()
    for room, warps in ROOMS:
        if longest > least:
            n_programs = max(1, min(n, programs))
            places = torch.full((n_programs, PLACES * room), 2**63 - 1, device=met.nodes.device)
            firsts = met.counts.new_empty(n_programs, room)
            more = [met.loads.new_empty(n_programs, room) for _ in range(2)]
            merge_by_table[(n_programs,)](
                met.begins, met.nodes, met.loads, met.chances, follower._enter, result.nodes, result.loads,
                result.chances, result.counts, places, firsts, *more, least, n, ROOM=room,
                BITS=room.bit_length() - 1, PLACE_BITS=(PLACES * room).bit_length() - 1, num_warps=warps,
            )  # fmt: skip
        least = room
    return result


def hops_of(graph: wk.Graph, t: float, steps: int, n_starts: int) -> list[tuple[HeadFollower, Any, int]]:
    """Return what edges bring in the hops of default heads, of which copies are kept."""
    _, plan = default_plan(graph, t, steps)
    spec = checked_spec(graph, plan.n_walks, plan.sampler, 0, 0, range(n_starts), "normalized", False)
    found, merge = [], HeadFollower._merge

    def keep(self: HeadFollower, met: Any, longest: int) -> Any:
        found.append((self, met, longest))
        return merge(self, met, longest)

    HeadFollower._merge = keep  # type: ignore[method-assign]
    try:
        Walker(CUDA(DEVICE), spec).at(spec.ids)
    finally:
        HeadFollower._merge = merge  # type: ignore[method-assign]
    return found


def differences(one: Any, other: Any, met: Any, longest: int) -> int:
    """Return how many start nodes of at most ``longest`` edges have other entries."""
    fits = met.begins.diff() <= longest
    differs = one.counts != other.counts
    rows = met.rows.long()
    number = torch.arange(rows.numel(), device=rows.device) - met.begins[rows]
    there = fits[rows] & (number < one.counts[rows])
    for name in ("nodes", "loads", "chances"):
        unequal = getattr(one, name) != getattr(other, name)
        differs[rows[there & unequal]] = True
    return int((differs & fits).sum())


def merging_table(size: Size) -> str:
    """Return times of both ways at the hops of default heads, and how many start nodes differ."""
    graphs = {"random": random_graph(*size.of((10**6, 10), (10**4, 10), (30, 8)))}
    if os.environ.get("WALKERNEL_DATA") and size is not Size.TINY:
        names = ["road_fla", "soc_epinions"] if size is Size.FULL else ["soc_epinions"]
        graphs.update({name: wk.load_dataset(name).graph for name in names})
    cores = 1 if REHEARSES else torch.cuda.get_device_properties(0).multi_processor_count
    largest, rows = ROOMS[-1][0], []
    for name, graph in graphs.items():
        for t in (1, 5):
            hops = hops_of(graph, t, *size.of((400, graph.n_nodes), (400, 1000), (250, 8)))
            for number, (follower, met, longest) in enumerate(hops, 1):
                pairs, widths = follower._merge(met, min(longest, largest)), met.begins.diff()
                cells = [name, str(t), str(number), str(int(widths.sum()) // widths.numel()), str(longest)]
                for per_core in (4, 8, 16):
                    args = follower, met, longest, cores * per_core
                    wrong = differences(pairs, by_table(*args), met, largest)
                    cells.append(f"{wrong} {milliseconds(lambda a=args: by_table(*a), 3):.2f}")
                args = follower, met, min(longest, largest)
                cells.append(f"{milliseconds(lambda a=args: a[0]._merge(*a[1:]), 3):.2f}")
                rows.append(tell(cells))
    header = ["graph", "t", "hop", "edges", "most", "4 programs", "8", "16", "all pairs"]
    title = (
        "Edges merged by tables (start nodes that differ, ms; programs on each core), and by all pairs (ms)"
    )
    return table(title, header, rows)


if __name__ == "__main__":
    run({"merging": merging_table})
