"""What an estimate is made of: pair, ensembles, sampler, walks and stitches, from what the user asked for."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, real_number, refuse, whole_number
from walkernel.budgeting import (
    FEWEST_WALKS,
    PROBES,
    Spending,
    head_costs,
    matched_after,
    spend_budget,
    spend_on_polynomial,
    spend_walks,
)
from walkernel.convergence import Modulated
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning import (
    DIRECTIONS,
    MOST_STITCHES,
    check_served,
    checked_sampler,
    choose_pair,
    warn_of_unreached,
)
from walkernel.sampling import MOST_WALKS
from walkernel.walks import CoupledWalks, Sampler

OWNER = "estimate_kernel"
DEFAULT_STEPS = 400
"""Steps from each node if nothing is said, and more where three walks are longer."""
MOST_CHOSEN = 6
"""Factors that are chosen unasked: more have less error yet, in ever longer products."""


class Asked(NamedTuple):
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


class Plan(NamedTuple):
    """What is done about it."""

    pair: str
    note: str
    ensembles: str
    sampler: Sampler
    n_walks: int
    stitches: int


def make_plan(asked: Asked) -> Plan:
    """Decide all that is left open."""
    if asked.n_walks is not None and asked.budget is not None:
        refuse(OWNER, "budget", "None if n_walks is given", asked.budget, "Give one of the two.")
    pair, note, stitches = settle(asked)
    if asked.sampler is not None or not _has_finite_variance(asked, pair, stitches or 1):
        return _with_sampler(asked, pair, note, stitches or 1)
    ensembles = _ensembles(asked, pair)
    spent = _spend(asked, pair, ensembles, stitches)
    if asked.n_walks is not None and ensembles == "debiased" and asked.ensembles is None:
        ensembles = "debiased" if spent.n_walks >= 2 else "independent"
    _check_groups(ensembles, spent.n_walks, spent.sampler)
    checked_sampler(asked.graph, asked.kernel, pair, spent.sampler, stitches=spent.stitches)
    return Plan(pair, note, ensembles, spent.sampler, spent.n_walks, spent.stitches)


def check_reach(asked: Asked, plan: Plan) -> None:
    """Warn if hardly any of the walks are as long as the kernel is wide; one walk has no error bars."""
    if plan.n_walks > 1:
        warn_of_unreached(_modulated(asked, plan.pair, plan.stitches), plan.sampler, plan.n_walks)


def settle(asked: Asked) -> tuple[str, str, int | None]:
    """Return the pair, the reason for it if there is one, and the number of factors that was asked for."""
    stitches = None
    if asked.stitches is not None:
        stitches = whole_number(OWNER, "stitches", asked.stitches, 1, MOST_STITCHES)
    pair, note = choose_pair(asked.graph, asked.kernel, asked.pair, asked.sampler, stitches or 1)
    _check_stitches(stitches or 1, asked.local, pair, note)
    return pair, note, stitches


def _spend(asked: Asked, pair: str, ensembles: str, stitches: int | None) -> Spending:
    """Choose head, law, groups and factors for a number of walks or of steps."""
    two_sided = is_two_sided(pair, ensembles)

    def sizes_of(factors: int) -> NDArray[np.float64]:
        return walked_sizes(asked, pair, factors)

    def costs(limit: float) -> list[float]:
        return edges_of_heads(asked, pair, ensembles, limit)

    if asked.n_walks is not None:
        n_walks = whole_number(OWNER, "n_walks", asked.n_walks, 1, MOST_WALKS)
        sizes = sizes_of(stitches or 1)
        limit = n_walks * float(matched_after(sizes, 0).sum()) * (stitches or 1)
        walks = spend_walks(sizes, costs(limit), n_walks, lambda head: matched_after(sizes, head))
        return walks._replace(stitches=stitches or 1)
    steps = DEFAULT_STEPS * 1.0
    if asked.budget is not None:
        steps = real_number(OWNER, "budget", asked.budget, above=0) / asked.ids.size
    edges, sides = costs(steps / 2), 2 if two_sided else 1
    numbers = [stitches or 1]
    if pair == "symmetric" and not asked.local and asked.budget is not None and stitches is None:
        numbers = [n for n in range(MOST_CHOSEN, 1, -1) if _has_finite_variance(asked, pair, n)] + [1]
        numbers = [n for n in numbers if _modulated(asked, pair, n).is_served] or [1]
    if len(numbers) > 1 and math.isfinite(asked.kernel.degree):
        spent = spend_on_polynomial(sizes_of, edges, steps, sides=sides, stitches=numbers[::-1])
    else:
        spent = spend_budget(sizes_of, edges, steps, sides=sides, stitches=numbers)
    if spent is not None:
        return spent
    fewest = 2 if ensembles == "debiased" else 1
    return _few_steps(sizes_of(stitches or 1), stitches or 1, sides, steps, asked, fewest)


def _modulated(asked: Asked, pair: str, stitches: int) -> Modulated:
    return Modulated(asked.graph, asked.kernel, pair, DIRECTIONS[pair], stitches)


def is_two_sided(pair: str, ensembles: str) -> bool:
    """Tell whether each side has walks of its own."""
    return pair == "symmetric" and ensembles == "independent"


def walked_sizes(asked: Asked, pair: str, stitches: int) -> NDArray[np.float64]:
    """Return the |f_k| of what the walks of a factor are weighted with, the largest between ½ and 1."""
    modulated = _modulated(asked, pair, stitches)
    check_served(modulated)
    sizes = modulated.sizes("weights", rest=2.0**-64)
    return np.asarray(np.ldexp(sizes, -np.frexp(sizes.max())[1]))


def edges_of_heads(
    asked: Asked, pair: str, ensembles: str, limit: float, n_probes: int = PROBES
) -> list[float]:
    """Return the edges that exact heads of 0, 1, … hops follow from a node on average, up to a limit."""
    directions = DIRECTIONS[pair] if is_two_sided(pair, ensembles) else (False,)
    return head_costs(asked.graph, asked.ids, asked.kernel.matrix, directions, limit, n_probes=n_probes)


def _few_steps(
    sizes: NDArray[np.float64], stitches: int, sides: int, steps: float, asked: Asked, fewest: int
) -> Spending:
    """Return the few walks that a small budget is enough for, or refuse it."""
    law = matched_after(sizes, 0)
    per_walk = float(law.sum()) * sides * stitches
    count = _enough(int(steps / per_walk + 1e-9), per_walk, asked, fewest)
    return Spending(CoupledWalks(tuple(law), group=1), count, stitches, 0.0, np.inf)


def _with_sampler(asked: Asked, pair: str, note: str, stitches: int) -> Plan:
    """Count the walks of a sampler that was given, or of a last resort."""
    graph, kernel = asked.graph, asked.kernel
    _refuse_ensembles(graph, pair, asked.ensembles)
    count = 1 if asked.n_walks is None else whole_number(OWNER, "n_walks", asked.n_walks, 1, MOST_WALKS)
    sampler = checked_sampler(graph, kernel, pair, asked.sampler, stitches=stitches)
    one_set = pair == "symmetric" and not graph.directed  # may serve both sides
    sides = 2 if pair == "symmetric" and (asked.ensembles == "independent" or graph.directed) else 1
    if asked.n_walks is None:
        count = _count(asked, sampler, pair, stitches, sides)
    ensembles = asked.ensembles or (
        "debiased" if one_set and count > sampler.coupling.group else "independent"
    )
    if asked.n_walks is None:
        sides = 2 if pair == "symmetric" and ensembles == "independent" else 1
        count = _count(asked, sampler, pair, stitches, sides)
        fewest = sampler.coupling.group + 1 if ensembles == "debiased" else 1
        count = min(_enough(count, sampler.mean_steps * sides * stitches, asked, fewest), MOST_WALKS)
    _check_groups(ensembles, count, sampler)
    return Plan(pair, note, ensembles, sampler, count, stitches)


def _count(asked: Asked, sampler: Sampler, pair: str, stitches: int, sides: int) -> int:
    """Return the walks from each node that the steps are enough for, if any."""
    steps, limit = DEFAULT_STEPS * 1.0, np.inf
    if asked.budget is not None:
        limit = steps = real_number(OWNER, "budget", asked.budget, above=0) / asked.ids.size
    if sampler.head:
        directions = DIRECTIONS[pair][:sides]
        costs = head_costs(asked.graph, asked.ids, asked.kernel.matrix, directions, limit, sampler.head)
        if len(costs) <= sampler.head:
            rule = f"enough for the edges of exact heads of {sampler.head} hops"
            refuse(OWNER, "budget", rule, asked.budget, "Give more, fewer nodes=, or a shorter head.")
        steps -= costs[sampler.head]
    return max(0, int(steps / (sampler.mean_steps * sides * stitches) + 1e-9))


def _enough(count: int, per_walk: float, asked: Asked, fewest: int) -> int:
    """Return a number of walks that serves; refuse a budget that is too small, but not the default one."""
    if asked.budget is None:
        return max(count, fewest, FEWEST_WALKS)
    if count < fewest:
        walks = "one walk" if fewest == 1 else f"{fewest} walks"
        steps = math.ceil(per_walk * fewest * asked.ids.size - 1e-6)
        rule = f"at least {steps} steps, {walks} from each node"
        refuse(OWNER, "budget", rule, asked.budget, "Give more, or fewer nodes=.")
    return count


def _has_finite_variance(asked: Asked, pair: str, stitches: int) -> bool:
    return _modulated(asked, pair, stitches).largest_p_halt() > 0


def _ensembles(asked: Asked, pair: str) -> str:
    _refuse_ensembles(asked.graph, pair, asked.ensembles)
    symmetric = pair == "symmetric" and not asked.graph.directed
    return asked.ensembles or ("debiased" if symmetric else "independent")


def _refuse_ensembles(graph: Graph, pair: str, ensembles: str | None) -> None:
    """Refuse to share walks where that estimates something else."""
    if ensembles not in ("shared", "debiased"):
        return
    if pair == "lazy":
        refuse(
            OWNER, "ensembles", "None or 'independent' with the lazy pair", ensembles,
            "Its one walk set is unbiased already.",
        )  # fmt: skip
    if graph.directed:
        refuse(
            OWNER, "ensembles", "None or 'independent' for a directed graph", ensembles,
            "One walk set estimates Ψ(M)Ψ(M)ᵀ, which is K for symmetric M only.",
        )  # fmt: skip


def _check_groups(ensembles: str, n_walks: int, sampler: Sampler) -> None:
    group = sampler.coupling.group
    if ensembles == "debiased" and n_walks <= group:
        rule = f"at least {group + 1} for ensembles='debiased': two groups of walks"
        refuse(OWNER, "n_walks", rule, n_walks)


def _check_stitches(stitches: int, local: bool, pair: str, note: str) -> None:
    """Refuse to stitch what has no symmetric pair, and a part of the graph."""
    if stitches > 1 and pair == "lazy":
        reason = f" ({note})" if note else ""
        refuse(OWNER, "stitches", f"1 with the lazy pair{reason}", stitches,
               "Only the symmetric pair can be stitched.")  # fmt: skip
    if stitches > 1 and local:
        remedy = "A stitched kernel is a product over the whole graph. Use stitches=1 for a few nodes."
        received = Described(f"stitches={stitches}")
        refuse(OWNER, "nodes", "None with more than one stitch", received, remedy)
