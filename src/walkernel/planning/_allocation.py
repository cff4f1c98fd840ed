"""How steps are spent: on an exact head, on how many factors, in which groups of walks.

Let f be the sequence of a factor's walks, S_r the length law matched to what a head of r hops leaves of it,
and c_r the edges that the head follows. With l factors, each with ``sides`` sets of walks, and B steps from
each node, the squared relative error goes, to first order, with

    sides · Σ_{k>r} f_k² / S_r(k) · Σ_{k>r} S_r(k) / (B − c_r):

variance of a walk times its steps, over the steps there are; r minimises it. The head is the same in all sets
of walks and is paid for once. As for l, more factors, up to six, had less error but for near ties in all
cases measured (six kinds of graphs, five kernels, 100 to 800 steps), as long as each factor has some walks;
polynomials, whose roots may decay slower than they do, are the exception.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.graph import Graph
from walkernel.walks import (
    MARGIN,
    CoupledWalks,
    PrunedWalks,
    StepLaw,
    follow_front,
    hop_table,
    matched_survival,
)

HEAD_PROBES, GOLDEN = 256, 0.6180339887498949
"""Start nodes whose heads are followed to learn what heads cost."""
MAX_PLANNED_HEAD = 8
HEAD_SHARE = 0.9
"""Share of the steps that a head may take at most; how many suit best is decided by the score."""
MIN_PLANNED_WALKS, MAX_PLANNED_WALKS = 3, 2**24
LONGEST_MARGIN = 1.5
"""By how much walks are made more probable to go on, where steps are left."""
FEW_GROUPS, MANY_GROUPS = 4, 16
"""Groups of walks that are wanted at least, and for error bars."""
NOTHING, RARELY = 1e-15, 2.0**-20
"""What is left of a sequence that ends in the head, and the law of walks that have nothing to do."""

Sizes = NDArray[np.float64]


class Allocation(NamedTuple):
    """How the steps from each node are spent."""

    sampler: CoupledWalks | PrunedWalks
    n_walks: int
    """Walks from each node, for each side and factor; with unequal numbers, of most nodes."""
    stitches: int
    score: float
    """What the squared relative error goes with."""


def head_costs(
    graph: Graph,
    ids: NDArray[np.int64],
    matrix: str,
    directions: Iterable[bool],
    limit: float,
    longest: int = MAX_PLANNED_HEAD,
    n_probes: int = HEAD_PROBES,
) -> list[float]:
    """Return the mean number of edges that heads of 0, 1, … hops follow, as long as it is within a limit.

    On a symmetric matrix all sets of walks share one head; on another one those of each direction do.
    """
    turned = {direction and not graph.is_symmetric(matrix) for direction in directions}
    probes, per_direction = probe_nodes(ids, n_probes), []
    for direction in turned:
        edges_of = partial(_edges_of_hop, hop_table(graph, matrix, "weights", direction), probes)
        if ids.size == graph.n_nodes:
            edges_of = partial(_kept_edges, graph, ("edges of heads", matrix, direction, n_probes), edges_of)
        per_direction.append(_edges(edges_of, limit, longest))
    shortest = min(len(edges) for edges in per_direction)
    totals = [sum(edges[r] for edges in per_direction) for r in range(shortest)]
    return [total for total in totals if total <= limit]


def probe_nodes(ids: NDArray[np.int64], n_probes: int) -> NDArray[np.int64]:
    """Return some of the start nodes, spread evenly, or all if there are no more."""
    if ids.size <= n_probes:
        return ids
    return ids[((np.arange(n_probes) + 0.5) * GOLDEN % 1.0 * ids.size).astype(np.int64)]


def _edges(edges_of: Callable[[int], float], limit: float, longest: int) -> list[float]:
    """Return the edges of heads of 0, 1, … hops up to the first that is beyond a limit."""
    edges = [0.0]
    while edges[-1] <= limit and len(edges) <= longest:
        edges.append(edges[-1] + edges_of(len(edges)))
    return edges


def _edges_of_hop(hops: StepLaw, probes: NDArray[np.int64], hop: int) -> float:
    """Return the mean number of edges that heads of some nodes follow in one hop."""
    front = probes if hop == 1 else follow_front(hops, hop - 1, probes)
    return float((hops.indptr[front + 1] - hops.indptr[front]).sum()) / probes.size


def _kept_edges(graph: Graph, key: tuple[Hashable, ...], edges_of: Callable[[int], float], hop: int) -> float:
    """Return the same for all nodes, which is kept with the graph: many plans ask for it."""
    return graph.derived((*key, hop), lambda: edges_of(hop))


def group_of(n_walks: int) -> int:
    """Return the size of the groups that a number of walks is coupled in.

    There are 16 of them where the walks are enough, since error bars are as good as groups are many; groups
    of 4 have most of the gain.
    """
    fitting = [group for group in (16, 8, 4, 2) if n_walks % group == 0]
    for group in fitting:
        if n_walks >= MANY_GROUPS * group or (group <= 4 and n_walks >= FEW_GROUPS * group):
            return group
    return 1


def allocate_budget(
    sizes_of: Callable[[int], Sizes],
    costs: list[float],
    budget: float,
    *,
    sides: int,
    stitches: Iterable[int],
    is_polynomial: bool = False,
) -> Allocation | None:
    """Return the best way to spend a number of steps from each node; None if they are too few for any.

    ``sizes_of(l)`` are the |f_k| of each of l factors; of the numbers of factors the first is taken for which
    there are steps enough. For a kernel of finite degree it is the one of least relative error: a root of a
    polynomial may be one, which heads have all of, or may decay far slower than it.
    """
    spent = filter(None, (_best_head(sizes_of(n), costs, budget, sides, n) for n in stitches))
    if not is_polynomial:
        return next(spent, None)

    def relative_error(own: Allocation) -> float:
        return own.stitches * own.score / float(sizes_of(own.stitches).sum()) ** 2

    return min(spent, key=relative_error, default=None)


def _best_head(
    sizes: Sizes, costs: list[float], budget: float, sides: int, stitches: int
) -> Allocation | None:
    """Return the best way to spend the steps on a number of factors, if there are enough."""
    affordable = [cost for cost in costs[: sizes.size - 1] if cost <= HEAD_SHARE * budget]
    steps = [(budget - cost) / (stitches * sides) for cost in affordable]
    found = filter(None, (_spent(sizes, head, own, stitches) for head, own in enumerate(steps)))
    return min(found, key=lambda own: own.score, default=None)


def is_exact(sizes: Sizes, head: int) -> bool:
    """Tell whether a head leaves nothing of a sequence to walks."""
    return float(sizes[head + 1 :].sum()) <= NOTHING * float(sizes.sum())


def _spent(sizes: Sizes, head: int, steps: float, stitches: int) -> Allocation | None:
    """Return the walks that so many steps of one set of walks are enough for.

    They are in whole groups, and as long as uses up the steps that are left then. Where nothing is left for
    them to do, they are few and stay where they are.
    """
    if is_exact(sizes, head):
        return Allocation(CoupledWalks((RARELY,), head=head, group=1), MANY_GROUPS, stitches, 0.0)
    law = matched_after(sizes, head)
    n_walks = min(int(steps / law.sum() + 1e-9), MAX_PLANNED_WALKS)
    n_walks -= n_walks % next((g for g in (16, 8) if n_walks >= MANY_GROUPS * g), 4 if n_walks >= 16 else 1)
    if n_walks < MIN_PLANNED_WALKS:
        return None
    score = walk_variance(sizes, head, law) * law.sum() / steps
    for margin in np.arange(1.0, LONGEST_MARGIN, 0.02) * MARGIN:
        longer = matched_survival(sizes[head:], margin=margin)[1:]
        if n_walks * longer.sum() > steps:
            break
        law = longer
    sampler = CoupledWalks(tuple(law), head=head, group=group_of(n_walks))
    return Allocation(sampler, n_walks, stitches, score)


def allocate_walks(
    sizes: Sizes, costs: list[float], n_walks: int, law_after: Callable[[int], NDArray[np.float64]]
) -> Allocation:
    """Return the head that makes the most of a number of walks: of least variance times steps.

    ``law_after(head)`` is the length law S(1), S(2), … of the walks after a head.
    """
    heads = range(max(1, min(len(costs), sizes.size - 1)))
    laws = [law_after(head) for head in heads]
    scores = [
        walk_variance(sizes, head, law) / n_walks * (cost + n_walks * law.sum())
        for head, law, cost in zip(heads, laws, costs, strict=False)
    ]
    best = min(heads, key=scores.__getitem__)
    sampler = CoupledWalks(tuple(laws[best]), head=best, group=group_of(n_walks))
    return Allocation(sampler, n_walks, 1, scores[best])


def matched_after(sizes: Sizes, head: int) -> NDArray[np.float64]:
    """Return the law S(1), S(2), … that is matched to what a head leaves of a sequence."""
    return matched_survival(sizes[head:])[1:]


def walk_variance(sizes: Sizes, head: int, law: NDArray[np.float64]) -> float:
    """Return Σ f_k² / S(k) over the lengths beyond the head."""
    beyond = sizes[head + 1 : head + 1 + law.size]
    return float((beyond**2 / law[: beyond.size]).sum())
