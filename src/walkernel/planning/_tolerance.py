"""Accuracy on demand: plans of more and more walks until the error ‖K̂ − K‖/‖K‖ meets a tolerance.

A batch of walks tells its own error, which operators measure, and what another one would have. Let f be what
walks are weighted with, S_r the length law after an exact head of r hops, V_r = Σ_{k>r} f_k² / S_r(k), and n
walks from each node. The part of the squared error that goes with one walk is in proportion to x = V_r / n,
that of pairs of walks to x²: from one batch follows the x that meets the tolerance, and so, for every head,

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
from dataclasses import replace
from typing import NamedTuple, NoReturn

import numpy as np
from scipy.special import fdtri

from walkernel._checks import Described, real_number, refuse
from walkernel.features import Modulated, lack_of_variance
from walkernel.planning._allocation import MANY_GROUPS, RARELY, Sizes, is_exact, matched_after, walk_variance
from walkernel.planning._degree import find_polynomial
from walkernel.planning._pair import check_served, divergence
from walkernel.planning._plan import (
    Plan,
    Request,
    decide,
    edges_of_heads,
    settle,
    walked_sizes,
    warn_of_short_walks,
)
from walkernel.planning._sampler import LAST_RESORT
from walkernel.walks import GROUPS, CoupledWalks, Sampler

MIN_FIRST_WALKS, MIN_FIRST_TOTAL = 16, 2**10
"""Walks of a batch, at least: from each node, and from all, lest those of a few nodes agree by chance."""
LEAST_USE = 0.5
"""Share of the fewest walks that must be needed after a head, lest it be too long for the tolerance."""
CONFIDENCE = 0.95
"""Share of all samples whose error is within the margin."""
AIM = 0.9
"""Share of the tolerance that the next batch is to have as its error."""
MAX_GROWTH = 16.0
"""How many times smaller the variance of the next batch may be: what is known from few walks is uncertain."""
MAX_GROUPS = 24
"""Groups for error bars, which are between 16 and this."""
ROUNDING, ROUNDING_OF_SUMS = 1e-12, 1e-13
"""Error of what is exact, and relative error of sums of floating-point numbers."""
MAX_STEPS = 10**10
MAX_BYTES = 2**35
REFINE_PROBES, MAX_PROBED = 32, 2**22
"""Nodes, and edges from them, that are followed to learn what heads cost."""
BYTES_OF_STEP = 12
"""Memory that a deposit needs at most: a number and a column."""


class Accuracy(NamedTuple):
    """Squared Frobenius norms, in a unit in which that of K̂ is one."""

    once: float
    """Of what goes with one over the number of walks, A − 2T."""
    twice: float
    """Of what goes with its square, T."""
    signal: float
    """Of K."""
    freedom: float
    """Degrees of freedom of the squared error: how many independent errors of the same size it is made of."""
    n_groups: int

    @property
    def error(self) -> float:
        """The relative error; infinite where it drowns the kernel, NaN where it cannot be told."""
        if not np.isfinite(self).all():
            return np.nan
        squared = self.once + self.twice
        return (
            float(np.hypot(np.sqrt(squared / self.signal), ROUNDING_OF_SUMS)) if self.signal > 0 else np.inf
        )

    @property
    def margin(self) -> float:
        """How many times its estimate the error of a sample is at most, in 95 % of all samples.

        The squared errors of a sample and of its estimate have ``freedom`` and (n_groups − 1) times as many
        degrees of freedom: the square root of a quantile of the F distribution.
        """
        others = max(1, self.n_groups - 1)
        return float(np.sqrt(fdtri(self.freedom, others * self.freedom, CONFIDENCE)))

    def share_for(self, error: float) -> float:
        """Return x, such that walks of x times the variance in the mean have a relative error.

        It solves (A − 2T) x + T x² = ε²‖K‖²; 0 where the norm of K is not known.
        """
        wanted = error**2 * max(0.0, self.signal)
        root = np.sqrt(self.once**2 + 4 * self.twice * wanted)
        return float(2 * wanted / (self.once + root)) if self.once + root > 0 else 1.0


def first_plan(request: Request) -> Plan:
    """Return the plan for the fewest walks, in groups enough to tell their error."""
    tolerance = _checked_tolerance(request)
    fewest = _fewest_walks(request)
    group = _group_of(fewest) if request.sampler is None else request.sampler.coupling.group
    plan = decide(request._replace(n_walks=whole_groups(fewest, group)))
    if request.sampler is None:
        assert isinstance(plan.sampler, CoupledWalks)
        plan = plan._replace(sampler=replace(plan.sampler, group=_group_of(plan.n_walks)))
    n_steps = plan.n_walks * plan.sampler.mean_steps * plan.n_sets * request.ids.size
    _refuse_excess(request, tolerance, n_steps, BYTES_OF_STEP * n_steps)
    return plan


def refine(request: Request, plan: Plan, found: Accuracy, n_steps: int, n_bytes: int) -> Plan | None:
    """Return the plan of the next batch; None where the error of this one is at most the tolerance.

    ``found``, ``n_steps`` and ``n_bytes`` are what was measured of the walks of the plan.
    """
    tolerance = float(request.tolerance)
    if found.error * found.margin <= max(tolerance, ROUNDING):
        warn_of_short_walks(request, plan)
        return None
    share, least = _share_for(found, AIM * tolerance / found.margin, request), 1 / MAX_GROWTH
    batch, needed = _batch_for(request, plan, n_steps, share)
    _refuse_excess(request, tolerance, needed, n_bytes * needed / n_steps)
    if share < least:
        batch, _ = _batch_for(request, plan, n_steps, max(least, math.sqrt(share)))
    if batch.n_walks <= plan.n_walks and batch.sampler.head <= plan.sampler.head:
        _refuse_unreachable(request, f"{found.error:.2g}, which a further batch would not make smaller")
    return batch


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


def _checked_tolerance(request: Request) -> float:
    """Return the tolerance, and refuse what it cannot go together with."""
    tolerance = real_number("tolerance", request.tolerance, above=0, below=1)
    for name in ("n_walks", "budget"):
        if getattr(request, name) is not None:
            refuse("tolerance", f"None if {name} is given", request.tolerance, "Give one of the two.")
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
        refuse("tolerance", rule, request.tolerance, problem)
    if request.sampler is None:
        check_served(modulated)
    return tolerance


def _fewest_walks(request: Request) -> int:
    return max(MIN_FIRST_WALKS, -(-MIN_FIRST_TOTAL // request.ids.size))


def _group_of(n_walks: float) -> int:
    """Return the largest size of groups of which there are 16."""
    return next(group for group in GROUPS if n_walks >= MANY_GROUPS * group)


def _batch_for(request: Request, plan: Plan, n_steps: int, share: float) -> tuple[Plan, float]:
    """Return the plan of least cost whose walks have a share of the variance of a plan's, and its steps.

    These are the steps of all sides and factors and the edges of heads, as ``n_steps`` are of the plan.
    """
    if request.sampler is not None:
        n_walks = whole_groups(plan.n_walks / share, plan.sampler.coupling.group)
        return plan._replace(n_walks=n_walks), n_steps * n_walks / plan.n_walks
    n, sizes, first = request.ids.size, walked_sizes(request, plan.weights), plan.sampler.head
    law = plan.sampler.survival()[first + 1 :]
    per_variance = plan.n_walks / walk_variance(sizes, first, law) / share
    limit = min(n_steps / share / n, MAX_PROBED / min(REFINE_PROBES, n))
    costs = edges_of_heads(request, plan.weights, plan.ensembles, limit, REFINE_PROBES)
    costs += [0.0] * (first + 1 - len(costs))
    batches = []
    for head in range(first, max(first + 1, min(len(costs), sizes.size - 1))):
        sampler, n_walks = _walks_after(sizes, head, per_variance, _fewest_walks(request))
        if n_walks:
            steps = costs[head] + n_walks * sampler.mean_steps * plan.n_sets
            batches.append((plan._replace(sampler=sampler, n_walks=n_walks), steps * n))
    return min(batches, key=lambda batch: batch[1])


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


def _refuse_excess(request: Request, tolerance: float, n_steps: float, n_bytes: float) -> None:
    """Refuse walks that would take too long, or more memory than there mostly is."""
    n_bytes = min(n_bytes, BYTES_OF_STEP * float(request.ids.size) * request.graph.n_nodes)
    if n_steps <= MAX_STEPS and n_bytes <= MAX_BYTES:
        return
    remedy = "Give a larger one, or fewer nodes"
    if (polynomial := find_polynomial(request.graph, request.kernel, tolerance)) is not None:
        products = f"{polynomial.n_products} sparse products for K @ v to that tolerance"
        remedy += f"; polynomial_operator takes {products}"
    rule = f"one that {MAX_STEPS:.0e} steps and {MAX_BYTES / 2**30:.0f} GiB are enough for"
    needed = f"{tolerance:g}, which takes about {n_steps:.1g} steps and {n_bytes / 2**30:.2g} GiB or more"
    refuse("tolerance", rule, Described(needed), f"{remedy}.")
