"""Heads that follow edges only where that is worth it, and unequal numbers of walks, for a number of steps.

A pruned head has one parameter, the threshold τ of ``walkernel.walks._follow``. The heads of some start nodes
are followed for a grid of them; each tells the edges c, T = Σ q w_h and Z = Σ q s_h of its residues, and a,
what the loads of walks begin with. With n walks from each node the squared error goes with the mean of
a² T Z / n, and the steps are c + n Z / T on average. Numbers in proportion to a T are best; they are rounded
to powers of two of the number that most nodes have, which costs hardly anything.

What coupling gains is not in this: on a grid a group of four walks behind a whole head has .6 of the variance
of independent walks, behind a pruned one .8; elsewhere it gains nothing. So some walks of each kind are made,
and their variance decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.graph import Graph
from walkernel.planning._allocation import (
    HEAD_SHARE,
    MANY_GROUPS,
    MAX_PLANNED_HEAD,
    MAX_PLANNED_WALKS,
    MIN_PLANNED_WALKS,
    Allocation,
    group_of,
    probe_nodes,
    walk_variance,
)
from walkernel.walks import (
    MAX_SHIFT,
    CoupledWalks,
    PrunedWalks,
    WalkSpec,
    head_rule,
    hop_table,
    measure_heads,
    sample_rows,
    walk_table,
)

WORTH_IT = {True: 0.93, False: 0.8}
"""Variance relative to that of whole heads, predicted and in a trial, below which heads are pruned, with
equal numbers of walks and with unequal ones, which take walks from some nodes."""
HOPELESS = 2.0
"""Variance relative to the least so far above which smaller thresholds are not looked at."""
PROBES, CAREFUL_PROBES, TRIALS = (32, 256), (512, 2048), (64, 128)
"""The least and the largest number of start nodes, an eighth of all in between: whose heads are followed for
all thresholds, and for the one that is chosen, and which are walked from in a trial."""
TRIAL_GROUPS, TRIAL_SEED = 8, 0x7472_6961_6C73
THRESHOLDS = 2.0 ** -np.arange(1, 40)
"""Thresholds that are tried, relative to the largest that anything is worth."""
FEWEST = {16: 8.0, 8: 4.0, 4: 2.0}
"""Groups of walks, and the fewest walks that a tenth of the nodes should have for so many groups."""
TURNS = 12

Floats = NDArray[np.float64]


class Probe(NamedTuple):
    """What the heads of some start nodes leave, in one direction."""

    threshold: float
    edges: float
    """Edges followed on average."""
    first: Floats
    """a."""
    total: Floats
    """T."""
    worth: Floats
    """Z."""

    @property
    def steps(self) -> Floats:
        """Steps of a walk on average; those of nodes without residues make none."""
        return np.divide(self.worth, self.total, out=np.zeros_like(self.worth), where=self.total > 0)


def prune(
    graph: Graph,
    ids: NDArray[np.int64],
    matrix: str,
    directions: Iterable[bool],
    sizes: Floats,
    budget: float,
    spent: Allocation,
    n_sets: int,
) -> Allocation:
    """Return walks behind pruned heads if they are likely to have less error than those behind whole ones.

    ``sizes`` are those of a factor, and ``n_sets`` the sets of walks of all sides and factors.
    """
    assert isinstance(spent.sampler, CoupledWalks)
    if spent.score == 0:
        return spent
    head = min(MAX_PLANNED_HEAD, sizes.size - 1)
    heads = _Heads(graph, matrix, directions, PrunedWalks(tuple(sizes), head=head))
    whole = walk_variance(sizes, spent.sampler.head, np.array(spent.sampler.law)) / spent.n_walks
    best: dict[bool, tuple[float, float]] = {}
    for found in heads.of_thresholds(_some(ids, *PROBES), HEAD_SHARE * budget):
        limit = whole * sum(float(np.square(probe.first).mean()) for probe in found)
        scores = dict(heads.allocations(found, budget, n_sets, spent.stitches))
        for is_even, own in scores.items():
            best[is_even] = min(best.get(is_even, (np.inf, 0.0)), (own.score / limit, found[0].threshold))
        is_hopeless = [own.score > HOPELESS * limit * best[is_even][0] for is_even, own in scores.items()]
        if is_hopeless and all(is_hopeless):
            break
    tried = _some(ids, *TRIALS)
    least, chosen = np.inf, spent
    for wanted, (score, threshold) in best.items():
        if score >= WORTH_IT[wanted]:
            continue
        if np.isinf(least):
            least = heads.trial_variance(tried, spent)
        found = heads.probe(_some(ids, *CAREFUL_PROBES), threshold)
        for is_even, own in heads.allocations(found, budget, n_sets, spent.stitches):
            variance = heads.trial_variance(tried, own) if is_even == wanted else np.inf
            if variance / WORTH_IT[wanted] < least:
                least, chosen = variance / WORTH_IT[wanted], own
    return chosen


def _some(ids: NDArray[np.int64], least: int, most: int) -> NDArray[np.int64]:
    """Return an eighth of the start nodes, but not fewer or more than that."""
    return probe_nodes(ids, int(np.clip(ids.size // 8, least, most)))


class _Heads:
    """Pruned heads of walks that are weighted with a sequence, in some directions."""

    def __init__(self, graph: Graph, matrix: str, directions: Iterable[bool], sampler: PrunedWalks) -> None:
        self.graph, self.matrix, self.sampler = graph, matrix, sampler
        self.directions = sorted({direction and not graph.is_symmetric(matrix) for direction in directions})
        kind = sampler.transition
        self.tables = [hop_table(graph, matrix, kind, direction) for direction in self.directions]
        self.firsts = [walk_table(graph, matrix, kind, direction).first for direction in self.directions]
        self.rules = [head_rule(sampler, first) for first in self.firsts]

    def probe(self, ids: NDArray[np.int64], threshold: float) -> list[Probe]:
        """Return what the heads of some nodes leave, in each direction."""
        found = []
        for hops, rule, first in zip(self.tables, self.rules, self.firsts, strict=True):
            edges, sums = measure_heads(hops, rule._replace(threshold=threshold), ids)
            found.append(Probe(threshold, float(edges.mean()), first[ids], *sums.T))
        return found

    def of_thresholds(self, ids: NDArray[np.int64], limit: float) -> Iterator[list[Probe]]:
        """Yield what heads leave for smaller and smaller thresholds, while they follow few edges."""
        largest = 0.0
        for hops, rule, first in zip(self.tables, self.rules, self.firsts, strict=True):
            degrees = hops.indptr[ids + 1] - hops.indptr[ids]
            largest = max(largest, float((first[ids] * rule.gains[0] / np.maximum(degrees, 1)).max()))
        for share in THRESHOLDS if largest > 0 else ():
            found = self.probe(ids, share * largest)
            if sum(probe.edges for probe in found) > limit:
                return
            yield found

    def allocations(
        self, found: list[Probe], budget: float, n_sets: int, stitches: int
    ) -> Iterator[tuple[bool, Allocation]]:
        """Yield equal and unequal numbers of walks that the steps are enough for, and whether equal."""
        steps = (budget - sum(probe.edges for probe in found)) / n_sets
        for n_walks, group, unevenness in _numbers(found, steps):
            numbers = (_numbers_of(probe, n_walks, group, unevenness) for probe in found)
            variance = sum(map(_variance, found, numbers))
            sampler = replace(self.sampler, threshold=found[0].threshold, unevenness=unevenness, group=group)
            yield unevenness == 0, Allocation(sampler, n_walks, stitches, variance)

    def trial_variance(self, ids: NDArray[np.int64], own: Allocation) -> float:
        """Return the variance of the features of some nodes on average, as groups of walks show it."""
        group = own.sampler.coupling.group
        n_groups = max(2, min(own.n_walks // group, TRIAL_GROUPS))
        total = 0.0
        for direction in self.directions:
            spec = WalkSpec(
                self.graph, ids, n_groups * group, own.sampler, TRIAL_SEED,
                matrix=self.matrix, transpose=direction,
            )  # fmt: skip
            (rows,) = sample_rows(spec, np.array(self.sampler.sizes), 1, None, with_norms=True, streams=(0,))
            of_groups, of_all = rows.norms.mean(axis=0)
            total += float(of_groups - of_all / n_groups) * n_groups / (n_groups - 1)
        return total * n_groups * group / own.n_walks


def _numbers(found: list[Probe], steps: float) -> Iterator[tuple[int, int, float]]:
    """Yield numbers of walks, their groups and their unevenness, that so many steps are enough for."""
    mean = float(np.mean([probe.steps.mean() for probe in found]))
    if mean <= 0:
        return
    n_walks = min(int(steps / mean + 1e-9), MAX_PLANNED_WALKS)
    n_walks -= n_walks % next((g for g in (16, 8) if n_walks >= MANY_GROUPS * g), 4 if n_walks >= 16 else 1)
    if n_walks >= MIN_PLANNED_WALKS:
        yield n_walks, group_of(n_walks), 0.0
    weights = np.concatenate([probe.first * probe.total for probe in found])
    costs = np.concatenate([probe.steps for probe in found])
    if not weights.any():
        return
    wanted = weights * steps / (weights * costs).mean()
    n_groups = next((n for n, least in FEWEST.items() if np.quantile(wanted, 0.1) >= least), 0)
    if not n_groups:
        return
    usual = float(np.exp(np.log(wanted[wanted > 0]).mean()))
    group = int(2 ** np.clip(np.round(np.log2(usual / n_groups)), 0, MAX_SHIFT))
    n_walks, unevenness = n_groups * group, float(steps / (weights * costs).mean() / (n_groups * group))
    for _ in range(TURNS):
        numbers = [_numbers_of(probe, n_walks, group, unevenness) for probe in found]
        walked = float((np.concatenate(numbers) * costs).mean())
        if walked <= steps and walked > 0.98 * steps:
            break
        unevenness *= min(steps / walked, 1.0 if walked <= steps else 0.995 * steps / walked)
    if walked <= 1.02 * steps:
        yield n_walks, group, unevenness


def pruned_costs(
    graph: Graph, ids: NDArray[np.int64], matrix: str, directions: Iterable[bool], sampler: PrunedWalks
) -> tuple[float, float]:
    """Return the edges that the heads of a node follow on average, and the steps of a set of single walks.

    With unequal numbers there are as many of them as a node makes walks for each one that is asked for.
    """
    heads = _Heads(graph, matrix, directions, sampler)
    found = heads.probe(_some(ids, *CAREFUL_PROBES), sampler.threshold)
    walked = [_numbers_of(probe, 1, sampler.group, sampler.unevenness) * probe.steps for probe in found]
    return sum(probe.edges for probe in found), float(np.mean(walked))


def _numbers_of(probe: Probe, n_walks: int, group: int, unevenness: float) -> Floats:
    """Return the number of walks of each node, as the walker rounds them: in proportion to a T, or equal."""
    weights = probe.first * probe.total
    if unevenness == 0:
        return np.full(weights.size, float(n_walks))
    mantissa, exponent = np.frexp(unevenness * weights)
    shifts = np.where(mantissa < np.sqrt(0.5), exponent - 1, exponent)
    shifts = np.where(weights > 0, shifts, -MAX_SHIFT)
    return n_walks * 2.0 ** np.clip(shifts, 1 - group.bit_length(), MAX_SHIFT)


def _variance(probe: Probe, numbers: Floats) -> float:
    """Return the mean of a² T Z / n."""
    return float((probe.first**2 * probe.total * probe.worth / numbers).mean())
