"""What an estimate is made of: pair, ensembles, sampler, walks and stitches, from what the user asked for."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, real_number, refuse, whole_number
from walkernel.features import Modulated, Pair
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning._allocation import (
    HEAD_PROBES,
    HEAD_SHARE,
    MIN_PLANNED_WALKS,
    RARELY,
    Allocation,
    allocate_budget,
    allocate_walks,
    head_costs,
    matched_after,
)
from walkernel.planning._pair import check_served, choose_pair
from walkernel.planning._pruning import prune, pruned_costs
from walkernel.planning._sampler import MAX_STITCHES, checked_sampler, warn_of_unreached
from walkernel.walks import MAX_WALKS, CoupledWalks, PrunedWalks, Sampler

DEFAULT_STEPS = 400
"""Steps from each node if nothing is said, and more where three walks are longer."""
MAX_CHOSEN = 6
"""Factors that are chosen unasked: more have less error yet, in ever longer products."""


FEW_STARTS = 1000
"""Start nodes of a query below which heads stay whole: to prune them would take longer than the walks."""


class Request(NamedTuple):
    """What the user said, as far as it is checked at the door."""

    graph: Graph
    kernel: Kernel
    ids: NDArray[np.int64]
    pair: str
    ensembles: str | None
    n_walks: Any
    budget: Any
    sampler: Sampler | None
    stitches: Any
    local: bool
    tolerance: Any = None

    @property
    def is_symmetric(self) -> bool:
        """Whether the matrix is, so that one set of walks may serve both sides."""
        return self.graph.is_symmetric(self.kernel.matrix)

    @property
    def steps(self) -> float:
        """Steps from each node that were asked for, or the default."""
        if self.budget is None:
            return float(DEFAULT_STEPS)
        return real_number("budget", self.budget, above=0) / self.ids.size


class Plan(NamedTuple):
    """What is done about it."""

    weights: Pair
    note: str
    ensembles: str
    sampler: Sampler
    n_walks: int

    @property
    def sides(self) -> int:
        """Sets of walks of each factor."""
        return count_sides(self.weights, self.ensembles)

    @property
    def n_sets(self) -> int:
        """Sets of walks, of all sides and factors."""
        return self.weights.stitches * self.sides


def make_plan(request: Request) -> Plan:
    """Decide all that is left open, and warn of walks that are too short for the kernel."""
    plan = decide(request)
    warn_of_short_walks(request, plan)
    return plan


def decide(request: Request) -> Plan:
    """Return the plan for a number of walks or of steps, whatever the walks reach."""
    if request.n_walks is not None and request.budget is not None:
        refuse("budget", "None if n_walks is given", request.budget, "Give one of the two.")
    weights, note = settle(request)
    _refuse_ensembles(request, weights)
    one_set = weights.other is not None and request.is_symmetric  # may serve both sides
    ensembles = request.ensembles or ("debiased" if one_set else "independent")
    if request.sampler is not None or not _has_finite_variance(request, weights):
        return _with_sampler(request, weights, note, ensembles)
    spent = _allocate(request, weights, ensembles)
    weights = weights.stitched(spent.stitches)
    if request.n_walks is not None and ensembles == "debiased" and request.ensembles is None:
        ensembles = "debiased" if spent.n_walks >= 2 else "independent"
    _check_groups(ensembles, spent.n_walks, spent.sampler)
    checked_sampler(request.graph, weights, spent.sampler)
    return Plan(weights, note, ensembles, spent.sampler, spent.n_walks)


def warn_of_short_walks(request: Request, plan: Plan) -> None:
    """Warn if hardly any of the walks are as long as the kernel is wide; one walk has no error bars."""
    if plan.n_walks > 1:
        warn_of_unreached(Modulated.of(request.graph, plan.weights), plan.sampler, plan.n_walks)


def settle(request: Request) -> tuple[Pair, str]:
    """Return the pair, of as many factors as were asked for, and the reason for it if there is one."""
    stitches = 1
    if request.stitches is not None:
        stitches = whole_number("stitches", request.stitches, 1, MAX_STITCHES)
    weights, note = choose_pair(request.graph, request.kernel, request.pair, request.sampler, stitches)
    if stitches > 1 and weights.other is None:
        reason = f" ({note})" if note else ""
        refuse("stitches", f"1 with the lazy pair{reason}", stitches,
               "Only the symmetric pair can be stitched.")  # fmt: skip
    if stitches > 1 and request.local:
        remedy = "A stitched kernel is a product over the whole graph. Use stitches=1 for a few nodes."
        received = Described(f"stitches={stitches}")
        refuse("nodes", "None with more than one stitch", received, remedy)
    return weights, note


def _allocate(request: Request, weights: Pair, ensembles: str) -> Allocation:
    """Choose head, law, groups and factors for a number of walks or of steps."""
    sides, stitches = count_sides(weights, ensembles), weights.stitches

    def sizes_of(factors: int) -> NDArray[np.float64]:
        return walked_sizes(request, weights.stitched(factors))

    def costs(limit: float) -> list[float]:
        return edges_of_heads(request, weights, ensembles, limit)

    if request.n_walks is not None:
        n_walks = whole_number("n_walks", request.n_walks, 1, MAX_WALKS)
        sizes = sizes_of(stitches)
        limit = n_walks * float(matched_after(sizes, 0).sum()) * stitches
        walks = allocate_walks(sizes, costs(limit), n_walks, lambda head: matched_after(sizes, head))
        return walks._replace(stitches=stitches)
    steps, numbers = request.steps, [stitches]
    chooses = weights.other is not None and request.budget is not None and request.stitches is None
    if chooses and not request.local:
        factors = {n: weights.stitched(n) for n in range(MAX_CHOSEN, 0, -1)}
        numbers = [n for n, own in factors.items() if n == 1 or _has_finite_variance(request, own)]
        numbers = [n for n in numbers if Modulated.of(request.graph, factors[n]).is_served] or [1]
    is_polynomial = len(numbers) > 1 and math.isfinite(request.kernel.degree)
    spent = allocate_budget(
        sizes_of, costs(HEAD_SHARE * steps), steps,
        sides=sides, stitches=numbers[::-1] if is_polynomial else numbers, is_polynomial=is_polynomial,
    )  # fmt: skip
    if spent is not None and request.local and request.ids.size < FEW_STARTS:
        return spent
    if spent is not None:
        directions = weights.directions[:sides]
        return prune(
            request.graph, request.ids, request.kernel.matrix, directions, sizes_of(spent.stitches), steps,
            spent, sides * spent.stitches,
        )  # fmt: skip
    law = matched_after(sizes_of(stitches), 0)
    per_walk = float(law.sum()) * sides * stitches
    fewest = 2 if ensembles == "debiased" else 1
    count = _enough(int(steps / per_walk + 1e-9), per_walk, request, fewest)
    return Allocation(CoupledWalks(tuple(law), group=1), count, stitches, np.inf)


def count_sides(weights: Pair, ensembles: str) -> int:
    """Return the number of sets of walks of a factor: 2 if each side has walks of its own."""
    return 2 if weights.other is not None and ensembles == "independent" else 1


def walked_sizes(request: Request, weights: Pair) -> NDArray[np.float64]:
    """Return the |f_k| of what the walks of a factor are weighted with, the largest between ½ and 1."""
    modulated = Modulated.of(request.graph, weights)
    check_served(modulated)
    sizes = modulated.sizes("weights", rest=2.0**-64)
    return np.asarray(np.ldexp(sizes, -np.frexp(sizes.max())[1]))


def edges_of_heads(
    request: Request, weights: Pair, ensembles: str, limit: float, n_probes: int = HEAD_PROBES
) -> list[float]:
    """Return the edges that exact heads of 0, 1, … hops follow from a node on average, up to a limit."""
    directions = weights.directions[: count_sides(weights, ensembles)]
    return head_costs(request.graph, request.ids, request.kernel.matrix, directions, limit, n_probes=n_probes)


def _with_sampler(request: Request, weights: Pair, note: str, ensembles: str) -> Plan:
    """Count the walks of a sampler that was given, or of a last resort."""
    count = 0 if request.n_walks is None else whole_number("n_walks", request.n_walks, 1, MAX_WALKS)
    sampler = checked_sampler(request.graph, weights, request.sampler)
    group = sampler.coupling.group
    count = count or _count(request, sampler, weights, count_sides(weights, ensembles))
    if request.ensembles is None and count <= group:
        ensembles = "independent"
    if request.n_walks is None:
        sides = count_sides(weights, ensembles)
        count = _count(request, sampler, weights, sides)
        unit = group if isinstance(sampler, PrunedWalks) and sampler.unevenness else 1
        fewest = group + unit if ensembles == "debiased" else unit
        count -= count % unit
        count = min(_enough(count, sampler.mean_steps * sides * weights.stitches, request, fewest), MAX_WALKS)
        count += -count % unit
    _check_groups(ensembles, count, sampler)
    return Plan(weights, note, ensembles, sampler, count)


def _count(request: Request, sampler: Sampler, weights: Pair, sides: int) -> int:
    """Return the walks from each node that the steps are enough for, if any."""
    steps, per_walk = request.steps, sampler.mean_steps
    if isinstance(sampler, PrunedWalks):
        matrix, directions = request.kernel.matrix, weights.directions[:sides]
        edges, per_walk = pruned_costs(request.graph, request.ids, matrix, directions, sampler)
        if request.budget is not None and edges > steps:
            rule = "enough for the edges that heads follow"
            refuse("budget", rule, request.budget, "Give more, fewer nodes, or a larger threshold.")
        steps -= edges
    elif sampler.head:
        directions, limit = weights.directions[:sides], np.inf if request.budget is None else steps
        costs = head_costs(request.graph, request.ids, request.kernel.matrix, directions, limit, sampler.head)
        if len(costs) <= sampler.head:
            rule = f"enough for the edges of exact heads of {sampler.head} hops"
            refuse("budget", rule, request.budget, "Give more, fewer nodes, or a shorter head.")
        steps -= costs[sampler.head]
    return max(0, int(steps / (max(per_walk, RARELY) * sides * weights.stitches) + 1e-9))


def _enough(count: int, per_walk: float, request: Request, fewest: int) -> int:
    """Return a number of walks that serves; refuse a budget that is too small, but not the default one."""
    if request.budget is None:
        return max(count, fewest, MIN_PLANNED_WALKS)
    if count < fewest:
        walks = "one walk" if fewest == 1 else f"{fewest} walks"
        steps = math.ceil(per_walk * fewest * request.ids.size - 1e-6)
        rule = f"at least {steps} steps, {walks} from each node"
        refuse("budget", rule, request.budget, "Give more, or fewer nodes.")
    return count


def _has_finite_variance(request: Request, weights: Pair) -> bool:
    return Modulated.of(request.graph, weights).largest_p_halt() > 0


def _refuse_ensembles(request: Request, weights: Pair) -> None:
    """Refuse to share walks where that estimates something else."""
    ensembles = request.ensembles
    if ensembles not in ("shared", "debiased"):
        return
    if weights.other is None:
        refuse(
            "ensembles", "None or 'independent' with the lazy pair", ensembles,
            "Its one walk set is unbiased already.",
        )  # fmt: skip
    if not request.is_symmetric:
        what = "a directed graph" if request.graph.directed else "matrix='random-walk'"
        refuse(
            "ensembles", f"None or 'independent' for {what}", ensembles,
            "One walk set estimates Ψ(M)Ψ(M)ᵀ, which is K for symmetric M only.",
        )  # fmt: skip


def _check_groups(ensembles: str, n_walks: int, sampler: Sampler) -> None:
    group = sampler.coupling.group
    if ensembles == "debiased" and n_walks <= group:
        rule = f"at least {group + 1} for ensembles='debiased': two groups of walks"
        refuse("n_walks", rule, n_walks)
