"""Accuracy on demand: walks until the relative Frobenius error ‖K̂ − K‖/‖K‖ meets a tolerance.

A batch of walks tells its own error (``_accuracy``), and what another one would have. Let f be what walks are
weighted with, S_r the length law after an exact head of r hops, V_r = Σ_{k>r} f_k² / S_r(k), and n walks from
each node. The part of the squared error that goes with one walk is in proportion to x = V_r / n, that of
pairs of walks to x²: from one batch follows the x that meets the tolerance, and hence, for every head,

    n_r = V_r / x   walks,   at the cost of   c_r + n_r · Σ_k S_r(k)   steps:

the edges that the head follows and the steps of the walks. The head of least cost is taken, of those that
leave something to at least half of the fewest walks: longer ones would give far more than was asked for.
Heads only get longer and, for the same head, walks more numerous, so that this comes to an end. That V_r
tells what a head is worth holds within some ten percent from one hop on, and errs to the side of too few
walks, which the next batch makes good.

A batch is all walks anew. The next one has at most 16 times smaller a variance; where more is needed, it goes
half the way there, by the logarithm, if that is less, so that the last batch dominates. Its walks begin with
those of the batch before as long as the sampler stays the same, since walks are keyed; the same seed, sampler
and n_walks give the same operator without a tolerance. Batches aim at 0.9 of the tolerance, so that the
estimate of the error, right within a few percent, rarely asks for one more.

The error of a single sample varies about its expectation, by about a percent for a thousand nodes, a tenth
for thirty, and for a block of a few entries as much as these do. The tolerance is met with the margin that
95 % of all samples stay within.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, NoReturn

from walkernel._checks import Described, real_number, refuse
from walkernel.features import Modulated, lack_of_variance
from walkernel.operators._accuracy import Accuracy, accuracy
from walkernel.operators._explain import feature_bytes
from walkernel.operators._walk import WalkOperator
from walkernel.planning import (
    LAST_RESORT,
    MANY_GROUPS,
    RARELY,
    Plan,
    Request,
    Sizes,
    check_reach,
    check_served,
    divergence,
    edges_of_heads,
    find_polynomial,
    is_exact,
    is_two_sided,
    make_plan,
    matched_after,
    settle,
    walk_variance,
    walked_sizes,
)
from walkernel.walks import GROUPS, CoupledWalks, Sampler

MIN_FIRST_WALKS, MIN_FIRST_TOTAL = 16, 2**10
"""Walks of a batch, at least: from each node, and from all, lest those of a few nodes agree by chance."""
LEAST_USE = 0.5
"""Share of the fewest walks that must be needed after a head, lest it be too long for the tolerance."""
AIM = 0.9
"""Share of the tolerance that the next batch is to have as its error."""
MAX_GROWTH = 16.0
"""How many times smaller the variance of the next batch may be: what is known from few walks is uncertain."""
MAX_GROUPS = 24
"""Groups for error bars, which are between 16 and this."""
ROUNDING = 1e-12
"""Error of what is exact."""
MAX_STEPS = 10**10
MAX_BYTES = 2**35
REFINE_PROBES, MAX_PROBED = 32, 2**22
"""Nodes, and edges from them, that are followed to learn what heads cost."""
BYTES_OF_STEP = 12
"""Memory that a deposit needs at most: a number and a column."""


class Batch(NamedTuple):
    """Walks to be made, and what they are thought to take."""

    sampler: Sampler
    n_walks: int
    n_steps: float
    """In all, by all sides and factors, and along all edges of heads."""


def meet_tolerance(request: Request, tolerance: object, walk: Callable[[Plan], WalkOperator]) -> WalkOperator:
    """Walk in ever larger batches until the estimated error is at most the tolerance; return the last."""
    wanted = _checked(request, tolerance)
    plan, heads = _first_plan(request), _Heads()
    _refuse_excess(request, wanted, plan.n_walks * plan.sampler.mean_steps * _sets(plan) * request.ids.size)
    while True:
        K = walk(plan)
        found = accuracy(K)
        if found.error * found.margin <= max(wanted, ROUNDING):
            check_reach(request, plan)
            return K
        share, least = _share_for(found, AIM * wanted / found.margin, request), 1 / MAX_GROWTH
        batch = _batch_for(request, plan, K, share, heads)
        _refuse_excess(request, wanted, batch.n_steps, K)
        if share < least:
            batch = _batch_for(request, plan, K, max(least, math.sqrt(share)), heads)
        if batch.n_walks <= plan.n_walks and batch.sampler.head <= plan.sampler.head:
            _refuse_unreachable(request, f"{found.error:.2g}, which a further batch would not make smaller")
        plan = plan._replace(sampler=batch.sampler, n_walks=batch.n_walks)


def _share_for(found: Accuracy, wanted: float, request: Request) -> float:
    """Return the share of a batch's variance that the tolerance allows, or refuse what no walks can meet.

    Where the error drowns the kernel, its norm is taken to be the error.
    """
    share = found.share_for(wanted) or found._replace(signal=found.once + found.twice).share_for(wanted)
    if not 0 < share < 1:  # nor NaN, where the norms are no numbers
        _refuse_unreachable(
            request, f"{found.error:.2g}, from which the walks that are needed cannot be told"
        )
    return share


def _refuse_unreachable(request: Request, received: str) -> NoReturn:
    """Refuse a tolerance that batch after batch would not come nearer to."""
    rule = f"None for {request.kernel}, unless the error of the first walks tells how many are needed"
    remedy = "Give n_walks or budget in place of a tolerance, or use polynomial_operator."
    refuse("tolerance", rule, Described(f"an error of {received}"), remedy)


def _checked(request: Request, tolerance: object) -> float:
    """Return the tolerance, and refuse what it cannot go together with."""
    wanted = real_number("tolerance", tolerance, above=0, below=1)
    for name in ("n_walks", "budget"):
        if getattr(request, name) is not None:
            refuse("tolerance", f"None if {name} is given", tolerance, "Give one of the two.")
    if request.ensembles == "shared":
        refuse(
            "ensembles", "None, 'independent' or 'debiased' with a tolerance", request.ensembles,
            "Shared walks are biased on the diagonal, which no spread of theirs tells of.",
        )  # fmt: skip
    modulated = Modulated.of(request.graph, settle(request)[0])
    problem = divergence(modulated)
    if not problem and (request.sampler is not None or modulated.largest_p_halt() <= 0):
        problem = lack_of_variance(modulated, request.sampler or LAST_RESORT)
    if problem:
        rule = "None where walks have no finite variance, so that no error can be promised"
        refuse("tolerance", rule, tolerance, problem)
    if request.sampler is None:
        check_served(modulated)
    return wanted


def _first_plan(request: Request) -> Plan:
    """Return the plan for the fewest walks, in groups enough to tell their error."""
    fewest = _fewest_walks(request)
    if request.sampler is not None:
        return make_plan(request._replace(n_walks=whole_groups(fewest, request.sampler.coupling.group)))
    plan = make_plan(request._replace(n_walks=whole_groups(fewest, _group_of(fewest))))
    assert isinstance(plan.sampler, CoupledWalks)
    return plan._replace(sampler=replace(plan.sampler, group=_group_of(plan.n_walks)))


def _fewest_walks(request: Request) -> int:
    return max(MIN_FIRST_WALKS, -(-MIN_FIRST_TOTAL // request.ids.size))


def _group_of(n_walks: float) -> int:
    """Return the largest size of groups of which there are 16."""
    return next(group for group in GROUPS if n_walks >= MANY_GROUPS * group)


def _sets(plan: Plan) -> int:
    """Return the number of sets of walks: sides times factors."""
    return plan.weights.stitches * (2 if is_two_sided(plan.weights, plan.ensembles) else 1)


class _Heads:
    """What heads cost, followed once for all batches."""

    def __init__(self) -> None:
        self.limit, self.known = 0.0, [0.0]

    def edges(self, request: Request, plan: Plan, limit: float) -> list[float]:
        """Return the edges of heads of 0, 1, … hops, up to a limit and at least to the head there is."""
        limit = min(limit, MAX_PROBED / min(REFINE_PROBES, request.ids.size))
        if limit > self.limit:
            self.limit, self.known = (
                limit,
                edges_of_heads(request, plan.weights, plan.ensembles, limit, REFINE_PROBES),
            )
        found = [cost for cost in self.known if cost <= limit]
        return found + [0.0] * (plan.sampler.head + 1 - len(found))


def _batch_for(request: Request, plan: Plan, K: WalkOperator, share: float, heads: _Heads) -> Batch:
    """Return the batch of least cost whose walks have so large a share of the variance of K's."""
    if request.sampler is not None:
        n_walks = whole_groups(plan.n_walks / share, plan.sampler.coupling.group)
        return Batch(plan.sampler, n_walks, K.n_steps * n_walks / plan.n_walks)
    sizes, first = walked_sizes(request, plan.weights), plan.sampler.head
    law = plan.sampler.survival()[first + 1 :]
    per_variance = plan.n_walks / walk_variance(sizes, first, law) / share
    costs = heads.edges(request, plan, K.n_steps / share / request.ids.size)
    batches = []
    for head in range(first, max(first + 1, min(len(costs), sizes.size - 1))):
        sampler, n_walks = _walks_after(sizes, head, per_variance, _fewest_walks(request))
        if n_walks:
            steps = costs[head] + n_walks * sampler.mean_steps * _sets(plan)
            batches.append(Batch(sampler, n_walks, steps * request.ids.size))
    return min(batches, key=lambda batch: batch.n_steps)


def _walks_after(sizes: Sizes, head: int, per_variance: float, fewest: int) -> tuple[Sampler, int]:
    """Return the walks after a head, so many for their variance; none where the fewest are far too many."""
    if is_exact(sizes, head):
        return CoupledWalks((RARELY,), head=head, group=1), MANY_GROUPS
    law = matched_after(sizes, head)
    needed = per_variance * walk_variance(sizes, head, law)
    sampler = CoupledWalks(tuple(law), head=head, group=_group_of(max(fewest, needed)))
    return sampler, whole_groups(max(fewest, needed), sampler.group) if needed >= LEAST_USE * fewest else 0


def whole_groups(needed: float, group: int) -> int:
    """Return the least number of walks that is enough, in whole groups of which 16 to 24 make equal parts."""
    least = max(MANY_GROUPS, math.ceil(needed / group - 1e-9))
    return group * min(parts * -(-least // parts) for parts in range(MANY_GROUPS, MAX_GROUPS + 1))


def _refuse_excess(request: Request, tolerance: float, n_steps: float, K: WalkOperator | None = None) -> None:
    """Refuse walks that would take too long, or more memory than there mostly is."""
    n_bytes = BYTES_OF_STEP * n_steps
    if K is not None:
        n_bytes = feature_bytes(K.factors) * n_steps / K.n_steps
    n_bytes = min(n_bytes, BYTES_OF_STEP * float(request.ids.size) * request.graph.n_nodes)
    if n_steps <= MAX_STEPS and n_bytes <= MAX_BYTES:
        return
    rule = f"one that {MAX_STEPS:.0e} steps and {MAX_BYTES / 2**30:.0f} GiB are enough for"
    needed = f"{tolerance:g}, which takes about {n_steps:.1g} steps and {n_bytes / 2**30:.2g} GiB or more"
    refuse("tolerance", rule, Described(needed), _remedy(request, tolerance))


def _remedy(request: Request, tolerance: float) -> str:
    remedy = "Give a larger one, or fewer nodes="
    polynomial = find_polynomial(request.graph, request.kernel, tolerance)
    if polynomial is None:
        return f"{remedy}."
    products = polynomial.n_products
    return f"{remedy}; polynomial_operator takes {products} sparse products for K @ v to that tolerance."
