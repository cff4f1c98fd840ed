"""What the groups of walks cannot tell: the spread of a walk, from its law.

The jackknife over groups of walks sees only what happened. Where an entry depends on events of which a sample
has hardly one, such as a walk that crosses a weak edge, the groups agree, and agree on too little. The law of
the walks is known, however. Let a walk deposit c_l v(x) times its load when it arrives at node x with its
l-th step, where c_l = f_l / S(l), or 0 within the exact head, and let R_l be all that it adds after that,
relative to its load at x. With D_l = c_l v + R_l, the matrix M and the law of steps P,

    E[R_{l−1}] = S(l)/S(l−1) · M E[D_l],        E[R_{l−1}²] = S(l)/S(l−1) · Q E[D_l²],   Q = M²/P,
    E[D_l²] = c_l² v² + 2 c_l v E[R_l] + E[R_l²],

and likewise for the third moment with P (M/P)³, so that sparse products from the last length back to the head
give the moments of a walk from every node at once. With v = φ_j, the variance of φ_i·φ_j to first order is
that of the walks of i plus that of the walks of j with v = φ_i.

An error bar is at least as long as the smallest of three lengths, which all follow from these moments:

* σ, the standard deviation;
* 1.5 jumps. A jump is what one walk of those that make up the variance changes, E|Z|³ / E|Z|² over the number
  of walks. By the rule of three, an event that no walk took is expected to occur less than three times in as
  many walks, with 95 % confidence; and 95 % intervals have at least twice the length of an error bar. Where
  many walks make up the variance, as they mostly do, jumps are short and the jackknife is left as it is;
* τ / 1.96, where τ is the mean of the absolute values of all that walks add: those that never see an event
  miss no more than its mean, however large its variance is.

The products cost as much as some columns of the kernel would on a graph of up to 4096 nodes; of larger ones
only the part is taken that the walks of an entry's two nodes reached, heads included, so that the cost does
not grow with the graph. Paths that leave that part and come back are neglected.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel.features import Pair, modulation_values
from walkernel.operators._groups import EntryFeatures, Groups
from walkernel.walks import StepLaw, WalkSpec, hop_table

JUMPS, NORMAL_QUANTILE = 1.5, 1.96
"""Jumps and normal standard errors that the error bar is measured against, see above."""
MAX_NODES = 2**12
"""Larger graphs are cut to the nodes that the features of an entry have, at most this many."""
MAX_LENGTH = 2**10
NEGLIGIBLE, ROUNDING = 1e-4, 1e-12
"""Share of Σ f²/S in lengths that are left out, and of a second moment that is taken for rounding."""
LARGEST_LOAD = 1e100
"""Larger loads of walks that begin behind a head count as this, so that their cubes are numbers."""
ELEMENTS_AT_ONCE, ELEMENTS_OF_CUTS = 2**22, 2**14
"""Elements of v for a block of entries: of the whole graph, and of parts of a larger one."""


class Spread(NamedTuple):
    """What walks add, for each start node and each column of v: (starts, c) each.

    The variance is that of their mean; ``size``, ``square`` and ``cube`` are sums over walks of the moments
    of |Z|, Z being the share of one walk in the mean.
    """

    variance: NDArray[np.float64]
    size: NDArray[np.float64]
    square: NDArray[np.float64]
    cube: NDArray[np.float64]


class Beginnings(NamedTuple):
    """Where walks from some start nodes begin."""

    powers: list[list[scipy.sparse.csr_array]]
    """For each law chances to begin at a node times the load there, its square and cube, (starts, n) each."""
    n_walks: NDArray[np.int64]
    """Walks from each start node, (starts,)."""

    def absolute(self) -> Beginnings:
        """Return the same without signs of loads."""
        return self._replace(powers=[[abs(power) for power in powers] for powers in self.powers])


class Lengths(NamedTuple):
    """What walks of one law deposit, by their length with that of the head."""

    hop: int
    """Where they begin."""
    factors: NDArray[np.float64]
    """c_l, from l = 0; 0 up to where they begin."""
    survival: NDArray[np.float64]
    """The chance to reach a length, from 0; 1 up to where they begin."""


@dataclass(frozen=True, eq=False)
class WalkLaw:
    """The law of one set of walks on a graph, or on some of its nodes."""

    spec: WalkSpec
    nodes: NDArray[np.int64] | None
    """Nodes that it is restricted to, in order; None for all."""
    chances: scipy.sparse.csr_array
    """P, the law of steps."""
    loads: NDArray[np.float64]
    """M/P of each of its entries."""
    lengths: list[Lengths]
    """For each hop that walks begin at."""
    is_closed: bool
    """Whether no edge leads out of the nodes, and no length that matters is left out."""

    @classmethod
    def of(cls, spec: WalkSpec, weights: Pair, nodes: NDArray[np.int64] | None = None) -> WalkLaw:
        """Return the law of walks, restricted to nodes in order."""
        hops = _hops(spec)
        within = np.arange(spec.graph.n_nodes) if nodes is None else nodes
        counts = hops.indptr[within + 1] - hops.indptr[within]
        start = np.repeat(np.arange(within.size), counts)
        edges = np.arange(start.size) + np.repeat(hops.indptr[within] - np.cumsum(counts) + counts, counts)
        target, inside = _positions(hops.indices[edges], within)
        start, target, edges = start[inside], target[inside], edges[inside]
        u, v = within[start], within[target]
        values = hops.values[edges] if hops.values.size else 1.0
        chances = (np.abs(hops.weights[edges]) if hops.weights.size else 1.0) / hops.totals[u]
        sizes = hops.leave[u] * values * hops.enter[v]
        loads = np.divide(sizes, chances, out=np.zeros_like(sizes), where=chances > 0)
        indptr = np.searchsorted(start, np.arange(within.size + 1))
        P = scipy.sparse.csr_array((chances, target, indptr), shape=(within.size, within.size))
        lengths, complete = _lengths(spec, weights)
        return cls(spec, nodes, P, loads, lengths, bool(inside.all()) and complete)

    @property
    def is_exact(self) -> bool:
        """Whether the head leaves nothing to the walks."""
        return self.is_closed and self.size == 0

    @property
    def size(self) -> float:
        """The largest |c_l|."""
        return max(float(np.abs(own.factors).max(initial=0.0)) for own in self.lengths)

    def in_unit(self, unit: float) -> WalkLaw:
        """Return the law for f in some unit, so that powers of it do not overflow."""
        return replace(self, lengths=[own._replace(factors=own.factors / unit) for own in self.lengths])

    def spread(self, v: NDArray[np.float64], beginnings: Beginnings) -> Spread:
        """Return what walks add for v, (n, c)."""
        mean, square, cube = self._moments(v, beginnings)
        variance = square - mean**2
        variance[variance <= ROUNDING * square] = 0.0
        least = min(float(own.factors.min(initial=0)) for own in self.lengths)
        if min(self.loads.min(initial=0), least, v.min(initial=0)) < 0:
            lengths = [own._replace(factors=np.abs(own.factors)) for own in self.lengths]
            positive = replace(self, loads=np.abs(self.loads), lengths=lengths)
            mean, square, cube = positive._moments(np.abs(v), beginnings.absolute())
        n_walks = beginnings.n_walks[:, None]
        return Spread(variance / n_walks, mean, square / n_walks, cube / n_walks**2)

    def _moments(self, v: NDArray[np.float64], beginnings: Beginnings) -> list[NDArray[np.float64]]:
        """Return the mean, the mean square and the mean cube of what one walk adds, (starts, c) each."""
        total = [np.zeros((beginnings.n_walks.size, v.shape[1])) for _ in range(3)]
        for own, powers in zip(self.lengths, beginnings.powers, strict=True):
            if powers[0].nnz:
                for moment, power, rest in zip(total, powers, self._rests(v, own), strict=True):
                    moment += power @ rest
        return total

    def _rests(self, v: NDArray[np.float64], own: Lengths) -> list[NDArray[np.float64]]:
        """Return E[R], E[R²] and E[R³] where walks of one law begin, (n, c) each."""
        P = self.chances
        chances = P.data
        steps = []
        for _ in range(3):
            chances = chances * self.loads
            steps.append(scipy.sparse.csr_array((chances, P.indices, P.indptr), shape=P.shape))
        first, second, third = (np.zeros(v.shape) for _ in steps)
        for length in range(own.factors.size - 1, own.hop, -1):
            deposit = own.factors[length] * v
            third += deposit * (3 * second + deposit * (3 * first + deposit))
            second += deposit * (2 * first + deposit)
            first += deposit
            going_on = own.survival[length] / own.survival[length - 1]
            moments = zip(steps, (first, second, third), strict=True)
            first, second, third = (going_on * (step @ moment) for step, moment in moments)
        return [first, second, third]

    def beginnings(self, ids: NDArray[np.int64]) -> Beginnings:
        """Return where walks from some nodes begin."""
        spec = self.spec.at(ids)
        _, front = spec.heads()
        shape = (ids.size, self.chances.shape[0])
        if front.depth == 0:
            start, place, laws = np.arange(ids.size), ids, np.zeros(ids.size, dtype=np.int32)
            chances = loads = np.ones(ids.size)
        else:
            start = np.repeat(np.arange(ids.size), np.diff(front.ends))
            cuts = front.cuts / 2.0**64
            chances = np.diff(cuts, prepend=0.0)
            begins = front.ends[:-1][np.diff(front.ends) > 0]
            chances[begins] = cuts[begins]
            place, laws = front.nodes, front.laws
            loads = front.loads * _hops(spec).enter[place]
        inside = np.ones(start.size, dtype=bool)
        if self.nodes is not None:
            place, inside = _positions(place, self.nodes)
        found = []
        for law in range(len(self.lengths)):
            kept = inside & (laws == law)
            about = start[kept], place[kept]
            own = np.clip(loads[kept], -LARGEST_LOAD, LARGEST_LOAD)
            powers = [chances[kept] * own**power for power in (1, 2, 3)]
            found.append([scipy.sparse.csr_array((values, about), shape=shape) for values in powers])
        return Beginnings(found, spec.walks_from(front))


def _hops(spec: WalkSpec) -> StepLaw:
    """Return the law of the steps of some walks."""
    return hop_table(spec.graph, spec.matrix, spec.sampler.transition, spec.transpose)


def _lengths(spec: WalkSpec, weights: Pair) -> tuple[list[Lengths], bool]:
    """Return c_l and S(l) for the lengths that matter, and whether these are few enough to have them all."""
    f = modulation_values(spec, weights, spec.longest + 1)
    unit, found, complete = np.abs(f).max() or 1.0, [], True
    for hop, steps in zip(spec.law.hops.tolist(), spec.law.survival, strict=True):
        survival = np.concatenate([np.ones(hop), steps[steps > 0]])
        own = f[: survival.size].copy()
        own[: hop + 1] = 0.0
        beyond = np.cumsum((np.square(own / unit) / survival)[::-1])[::-1]
        count = int(np.count_nonzero(beyond > NEGLIGIBLE * beyond[0]))
        kept = slice(min(MAX_LENGTH, count))
        found.append(Lengths(hop, (own / survival)[kept], survival[kept]))
        complete = complete and count <= MAX_LENGTH
    return found, complete


def _positions(
    targets: NDArray[np.int64], nodes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return where targets stand among nodes in order, and which are there."""
    position = np.minimum(np.searchsorted(nodes, targets), nodes.size - 1)
    return position, nodes[position] == targets


def _part(side: EntryFeatures, entries: NDArray[np.int64]) -> EntryFeatures:
    """Return the features of some of the entries."""
    needed, where = np.unique(side.where[entries], return_inverse=True)
    return EntryFeatures(side.ids[needed], where, side.features[needed])


def _columns(side: EntryFeatures, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return features as columns on nodes in order, (len(nodes), len(ids))."""
    position, inside = _positions(side.features.indices, nodes)
    own = np.repeat(np.arange(side.ids.size), np.diff(side.features.indptr))
    columns = np.zeros((nodes.size, side.ids.size))
    np.add.at(columns, (position[inside], own[inside]), side.features.data[inside])
    return columns


def unseen_error(
    variance: NDArray[np.float64], size: NDArray[np.float64], jump: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the least error bar of an estimate: the smallest of σ, 1.5 jumps and τ / 1.96."""
    return np.asarray(np.minimum(np.sqrt(variance), np.minimum(JUMPS * jump, size / NORMAL_QUANTILE)))


def unseen_errors(
    groups: Groups, left: EntryFeatures, right: EntryFeatures
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the least error bars of entries, and where they tell of what walks may do.

    They do not where no walk of the lengths that matter leads from one node to the other, nor where paths
    that leave the nodes of the features, which a large graph is cut to, are left out.
    """
    n, n_entries = groups.left.graph.n_nodes, left.where.size
    errors, known = np.zeros(n_entries), np.zeros(n_entries, dtype=bool)
    laws = walk_laws(groups) if n <= MAX_NODES else None
    most = ELEMENTS_AT_ONCE if laws is not None else ELEMENTS_OF_CUTS
    pending = [np.argsort(left.where, kind="stable")]
    while pending:
        entries = pending.pop()
        sides = _part(left, entries), _part(right, entries)
        nodes = np.arange(n) if laws is not None else _reached(*sides)
        elements = nodes.size * (sides[0].ids.size + sides[1].ids.size)
        if entries.size > 1 and (elements > most or nodes.size > MAX_NODES):
            pending += np.array_split(entries, 2)
            continue
        if laws is None:
            nodes = _heaviest(nodes, *sides)
        errors[entries], known[entries] = _block_errors(
            groups, laws or walk_laws(groups, nodes), nodes, *sides
        )
    return errors, known


def ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a quotient, 0 where the divisor is, infinite where it is near that."""
    with np.errstate(over="ignore"):
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def walk_laws(groups: Groups, nodes: NDArray[np.int64] | None = None) -> list[WalkLaw]:
    """Return the laws of the walks of each side that walks: the same one twice on a symmetric matrix."""
    left = WalkLaw.of(groups.left, groups.weights, nodes)
    if groups.right is None:
        return [left]
    if groups.left.is_symmetric:
        return [left, left]
    return [left, WalkLaw.of(groups.right, groups.weights, nodes)]


def _block_errors(
    groups: Groups, laws: list[WalkLaw], nodes: NDArray[np.int64], left: EntryFeatures, right: EntryFeatures
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the error bars of some entries; moments are those of f and of features of size one."""
    unit = max(law.size for law in laws) or 1.0
    others = (right, left)[: len(laws)]
    size = max(float(np.abs(other.features.data).max(initial=0.0)) for other in others) or 1.0
    spreads = []
    for law, own, other in zip(laws, (left, right), others, strict=False):
        spread = law.in_unit(unit).spread(_columns(other, nodes) / size, law.beginnings(own.ids))
        spreads.append([moment[own.where, other.where] for moment in spread])
    variances, sizes, squares, cubes = np.array(spreads).swapaxes(0, 1)
    variance, jump = variances.sum(axis=0), ratio(cubes.sum(axis=0), squares.sum(axis=0))
    if groups.ensembles != "independent" and len(laws) == 2:
        diagonal = left.ids[left.where] == right.ids[right.where]  # the same walks on both sides
        variance = np.where(diagonal, np.square(np.sqrt(variances).sum(axis=0)), variance)
        jump[diagonal] *= 2
    errors = unit * size * unseen_error(variance, sizes.sum(axis=0), jump)
    if all(law.is_exact for law in laws):
        return errors, np.ones(errors.size, dtype=bool)
    return errors, (errors > 0) & all(law.is_closed for law in laws)


def _reached(*sides: EntryFeatures) -> NDArray[np.int64]:
    """Return the nodes that the entries' features have, and their own, in order."""
    parts = [part for side in sides for part in (side.ids, side.features.indices)]
    return np.unique(np.concatenate(parts)).astype(np.int64)


def _heaviest(nodes: NDArray[np.int64], *sides: EntryFeatures) -> NDArray[np.int64]:
    """Return nodes cut to those of the largest features, and the entries' own."""
    if nodes.size <= MAX_NODES:
        return nodes
    weights = np.zeros(nodes.size)
    for side in sides:
        features = np.abs(_columns(side, nodes)).sum(axis=1)
        weights += features / features.sum()
        weights[np.searchsorted(nodes, side.ids)] = np.inf
    return nodes[np.sort(np.argpartition(-weights, MAX_NODES)[:MAX_NODES])]
