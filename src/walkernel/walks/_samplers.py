"""Samplers are descriptors: they say how walks are drawn, and hold no state.

The walker sees a sampler as three things: a transition law, a length law and a coupling. A length law is an
array of 64-bit thresholds: the walk makes its k-th step if the walk's 64-bit draw is below
``thresholds[k-1]``. S(k) = thresholds[k-1] / 2⁶⁴ is the probability of at least k steps, and the deposit at
length k is divided by it. S is computed from the quantised thresholds, so it is the law that is really
walked.

A coupling lets the n walks of a group share a draw, to which each adds another multiple of 1/n (modulo 1).
Every draw of every walk stays uniform, and independent of the walk's other draws: single walks have the law
they would have alone, and means over walks stay unbiased.

A head of r hops is exact: from its start node all paths of up to r edges are followed, and walks begin where
these end, in proportion to the chance to be there. Their length law counts the steps after the head. A pruned
head follows the edges of a node only where that is worth it, so that walks begin after different numbers of
hops, by a law for each of them; start nodes may have unequal numbers of walks.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import one_of, real_array, real_number, refuse, whole_number
from walkernel.walks._laws import matched_survival, to_thresholds

SAMPLERS = "Use IndependentWalks, CoupledWalks or PrunedWalks."
TRANSITIONS = ("weights", "uniform")
SMALLEST_P_HALT = 1e-6
GROUPS = (16, 8, 4, 2, 1)
MAX_LAW = 2**20
MAX_HEAD = 16
LENGTHS = ("independent", "antithetic", "systematic")
STEPS = ("independent", "systematic")


class Coupling(NamedTuple):
    """Binary logarithms of how many walks share the draw of their length, first step, and later steps."""

    length: int
    first: int
    later: int

    @property
    def group(self) -> int:
        """Walks of one group, which are independent of all others."""
        return 2 ** max(self)


class Sampler(ABC):
    """How walks are drawn: a transition law, a length law, a coupling."""

    transition: str
    head: int = 0
    """Hops that are exact, before any walk begins."""

    @abstractmethod
    def thresholds(self) -> NDArray[np.uint64]:
        """Return the length law: thresholds of steps 1, 2, … after the head, decreasing, all positive."""

    def laws(self) -> list[tuple[int, NDArray[np.uint64]]]:
        """Return the hops at which walks begin, each with the thresholds of the steps from there."""
        return [(self.head, self.thresholds())]

    @property
    def coupling(self) -> Coupling:
        """How walks depend on one another: not at all, if not said otherwise."""
        return Coupling(0, 0, 0)

    @property
    def ratio(self) -> float:
        """What S(k+1) / S(k) tends to; 0 for a law that ends, or falls faster than any geometric one."""
        return 0.0

    def survival(self) -> NDArray[np.float64]:
        """Return the length law S: the probability of a deposit at each length.

        Returns
        -------
        ndarray of float64, (longest + 1,)
            S(0) = 1, S(1), …; all are 1 in an exact head.
        """
        return survival_of(self.thresholds(), self.head)

    @property
    def exact_hops(self) -> int:
        """Hops of which every path is followed."""
        return self.head

    @property
    def longest(self) -> int:
        """Length of the longest walk, the head included."""
        return self.head + self.thresholds().size

    def reach(self, probability: float) -> int:
        """Return the first length that a walk reaches with less than some probability.

        Parameters
        ----------
        probability : float in (0, 1)
            The probability.

        Returns
        -------
        int
            The number of steps.
        """
        survival = self.survival()
        return int(np.searchsorted(-survival, -probability, side="right"))

    @property
    def mean_steps(self) -> float:
        """Expected number of steps of a walk on a graph without dead ends, its head apart."""
        return float(self.survival()[self.head + 1 :].sum())


@dataclass(frozen=True)
class IndependentWalks(Sampler):
    r"""The paper's walks: independent of each other, and of geometric length (Algorithm 1).

    .. math:: S(k) = P(\text{length} \ge k) = (1 - p)^k

    They are the simplest walks and the reference for comparisons. Leave ``sampler`` out where you can: the
    walks that are chosen for a kernel have less error for the same steps.

    Parameters
    ----------
    p_halt : float in (0, 1)
        p, the probability to stop after each step; the mean walk has (1 − p) / p steps, 9 by default.
        Decrease it for wider kernels, which need longer walks. Walks longer than 64 ln 2 / p steps, which
        have probability 2⁻⁶⁴, do not occur.
    transition : {"weights", "uniform"}
        Step from u to v with probability ``|a_uv| / Σ|a_u·|``, or 1 / deg(u) as the paper has it. They are
        the same in an unweighted graph; in a weighted one "uniform" has far more variance.

    See Also
    --------
    CoupledWalks : Walks of any length law, in groups.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.IndependentWalks(p_halt=0.5).survival()[:4]
    array([1.   , 0.5  , 0.25 , 0.125])
    """

    p_halt: float = 0.1
    transition: str = "weights"

    def __post_init__(self) -> None:
        p = real_number("p_halt", self.p_halt, above=0, below=1)
        if p < SMALLEST_P_HALT:
            refuse(
                "p_halt",
                f"at least {SMALLEST_P_HALT:g}",
                self.p_halt,
                "Walks of a million steps have no use.",
            )
        object.__setattr__(self, "p_halt", p)
        one_of("transition", self.transition, TRANSITIONS)

    def thresholds(self) -> NDArray[np.uint64]:
        """Return the length law: thresholds of steps 1, 2, …, decreasing, all positive."""
        longest = math.ceil(-64 * math.log(2) / math.log1p(-self.p_halt))
        survival = (1.0 - self.p_halt) ** np.arange(1, longest + 1)
        thresholds = (survival * 2.0**64).astype(np.uint64)
        return thresholds[thresholds > 0]

    @property
    def ratio(self) -> float:
        """The probability to go on."""
        return 1.0 - self.p_halt

    def reach(self, probability: float) -> int:
        """Return the first length that a walk reaches with less than some probability.

        Parameters
        ----------
        probability : float in (0, 1)
            The probability.

        Returns
        -------
        int
            The number of steps.
        """
        return math.ceil(math.log(probability) / math.log1p(-self.p_halt))


@dataclass(frozen=True, repr=False)
class CoupledWalks(Sampler):
    """Walks of any length law, in independent groups whose draws are spread evenly.

    Estimators choose such walks for their kernel, and ``choose_sampler`` returns one that is matched to
    several.

    Parameters
    ----------
    law : sequence of float
        S(1), S(2), …: the probability of at least k steps, from 1 down to 0. ``matched_law`` gives the one
        that suits a kernel. With a head it is that of the steps after the head.
    transition : {"weights", "uniform"}
        Step from u to v in proportion to ``|a_uv|``, or to each neighbour alike, with far more variance in
        weighted graphs.
    lengths : {"systematic", "antithetic", "independent"}
        Whether the walks of a group share the draw of their lengths, at equal distances; or two of them, at a
        distance of 1/2 (Reid, Choromanski, Weller 2023, quasi-Monte Carlo graph random features); or none.
    first_step : {"systematic", "independent"}
        The same for the neighbour that the first step goes to: walks of a group then take different ones.
        With a head, it is the step that picks the node where a walk leaves it.
    later_steps : {"systematic", "independent"}
        The same for further steps: walks of a group that stand on the same node tend to different neighbours
        (after Reid et al. 2024, repelling random walks); the order of the walks is mixed anew at each step,
        as in Latin hypercube sampling.
    head : int
        Number of hops that are exact: all paths of up to so many edges are followed, at the cost of the edges
        they touch, and walks begin where they end. It pays on graphs of low degree.
    group : {16, 8, 4, 2, 1}
        Walks of a group; of one walk, nothing is shared. Debiasing needs two groups, good error bars 16.

    See Also
    --------
    choose_sampler : The one that suits some kernels.

    Examples
    --------
    >>> import walkernel as wk
    >>> sampler = wk.CoupledWalks([1.0, 0.5, 0.25])
    >>> sampler.mean_steps
    1.75
    >>> graph, kernel = wk.load_dataset("karate").graph, wk.Diffusion(1.0)
    >>> matched = wk.CoupledWalks(wk.matched_law(graph, kernel))
    >>> K = wk.estimate_kernel(graph, kernel, 64, sampler=matched)
    >>> bool(K.explain().error < 0.02)
    True
    """

    law: tuple[float, ...] = field()
    transition: str = "weights"
    lengths: str = "systematic"
    first_step: str = "systematic"
    later_steps: str = "systematic"
    head: int = 0
    group: int = 16

    def __post_init__(self) -> None:
        law = list(self.law) if isinstance(self.law, Iterable) else self.law
        values = real_array("law", law, ndim=1)
        falls = (np.diff(values) <= 0).all() and (values >= 0).all() and (values <= 1).all()
        if not 0 < values.size <= MAX_LAW or not falls or values[0] == 0:
            rule = f"up to {MAX_LAW} probabilities that do not rise, the first of them positive"
            refuse("law", rule, law)
        object.__setattr__(self, "law", tuple(values.tolist()))
        one_of("transition", self.transition, TRANSITIONS)
        one_of("lengths", self.lengths, LENGTHS)
        for name in ("first_step", "later_steps"):
            one_of(name, getattr(self, name), STEPS)
        object.__setattr__(self, "group", whole_number("group", self.group, 1))
        if self.group not in GROUPS:
            refuse("group", "16, 8, 4, 2 or 1", self.group)
        object.__setattr__(self, "head", whole_number("head", self.head, 0, MAX_HEAD))

    def __repr__(self) -> str:
        """Show the mean length instead of the law, and what is not the default."""
        shown = [f"{self.mean_steps:.3g} steps on average"]
        shown += [f"head={self.head}"] if self.head else []
        shown += [f"group={self.group}"] if self.group != 16 else []
        shown += [f"transition={self.transition!r}"] if self.transition != "weights" else []
        names = ("lengths", "first_step", "later_steps")
        shown += [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) != "systematic"]
        return f"CoupledWalks({', '.join(shown)})"

    def thresholds(self) -> NDArray[np.uint64]:
        """Return the length law: thresholds of steps 1, 2, …, decreasing, all positive."""
        return to_thresholds(np.array(self.law))

    @property
    def coupling(self) -> Coupling:
        """How many walks share their draws."""
        shares = {"independent": 0, "antithetic": 1, "systematic": self.group.bit_length() - 1}
        return Coupling(shares[self.lengths], shares[self.first_step], shares[self.later_steps])


@dataclass(frozen=True, repr=False)
class PrunedWalks(Sampler):
    """Walks behind an exact head, which follows edges only where that is worth it.

    The head is the first hops from a node: all paths along such edges are followed instead of sampled.

    The draws of a group are spread evenly, as by ``CoupledWalks``. Which edges a head follows, where walks
    leave it and how long they are is decided by what deposits are weighted with. All of it is unbiased for
    any weights. ``estimate_kernel(budget=…)`` chooses such walks.

    Parameters
    ----------
    sizes : sequence of float
        ``|f(0)|, |f(1)|, …``: the sizes of what deposits are weighted with, in any unit;
        ``kernel.modulation`` gives them.
    threshold : float
        τ: what following an edge must save to be worth it, in the unit of the sizes; 0 follows all edges.
    head : int
        Number of hops that are followed at most.
    unevenness : float
        0 gives every start node the same number of walks. Otherwise a node whose residues, the loads that
        leave its head, are worth Z gets n_walks · 2^round(log₂(unevenness · Z)), at least n_walks / group and
        at most 16 n_walks: nodes with much to walk for get more walks.
    transition : {"weights", "uniform"}
        Step from u to v in proportion to ``|a_uv|``, or to each neighbour alike, with far more variance in
        weighted graphs.
    group : {16, 8, 4, 2, 1}
        Walks of a group, of a node with n_walks of them; others have larger or smaller groups.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph, kernel = wk.load_dataset("karate").graph, wk.Diffusion(1.0)
    >>> sampler = wk.PrunedWalks(kernel.modulation(16), threshold=1e-3, head=3)
    >>> wk.sample_walks(graph, 16, sampler=sampler).features(kernel).shape
    (34, 34)
    """

    sizes: tuple[float, ...] = field()
    threshold: float = 0.0
    head: int = 4
    unevenness: float = 0.0
    transition: str = "weights"
    group: int = 16

    def __post_init__(self) -> None:
        sizes = list(self.sizes) if isinstance(self.sizes, Iterable) else self.sizes
        values = real_array("sizes", sizes, ndim=1)
        if not 1 < values.size <= MAX_LAW or (values < 0).any() or not values[1:].any():
            rule = f"2 to {MAX_LAW} numbers that are not negative, one of them after the first positive"
            refuse("sizes", rule, sizes)
        object.__setattr__(self, "sizes", tuple(values.tolist()))
        for name in ("threshold", "unevenness"):
            object.__setattr__(self, name, real_number(name, getattr(self, name), minimum=0))
        object.__setattr__(self, "head", whole_number("head", self.head, 1, MAX_HEAD))
        one_of("transition", self.transition, TRANSITIONS)
        object.__setattr__(self, "group", whole_number("group", self.group, 1))
        if self.group not in GROUPS:
            refuse("group", "16, 8, 4, 2 or 1", self.group)

    def __repr__(self) -> str:
        """Show how many steps walks from a start node make on average instead of the sizes."""
        shown = [f"{self.mean_steps:.3g} steps on average", f"threshold={self.threshold:.3g}"]
        shown += [f"head={self.head}", f"group={self.group}"]
        shown += [f"unevenness={self.unevenness:.3g}"] if self.unevenness else []
        shown += [f"transition={self.transition!r}"] if self.transition != "weights" else []
        return f"PrunedWalks({', '.join(shown)})"

    def thresholds(self) -> NDArray[np.uint64]:
        """Return the length law of walks that begin at their start node."""
        return self.laws()[0][1]

    def laws(self) -> list[tuple[int, NDArray[np.uint64]]]:
        """Return the law that is matched to the sizes beyond each hop of the head."""
        return _matched_laws(self.sizes, self.head)

    def survival(self) -> NDArray[np.float64]:
        """Return the length law S of walks that begin at their start node; others are more probable.

        Returns
        -------
        ndarray of float64, (longest + 1,)
            The probabilities S(0) = 1, S(1), ….
        """
        return survival_of(self.thresholds(), 0)

    @property
    def exact_hops(self) -> int:
        """Hops of which every path is followed."""
        return 0

    @property
    def longest(self) -> int:
        """Length of the longest walk, the head included."""
        return max(hop + thresholds.size for hop, thresholds in self.laws())

    @property
    def mean_steps(self) -> float:
        """Expected number of steps of a walk that begins at its start node."""
        return float(self.survival()[1:].sum())

    @property
    def coupling(self) -> Coupling:
        """How many walks share their draws, from a node with ``n_walks`` of them."""
        return Coupling(*[self.group.bit_length() - 1] * 3)


@lru_cache(maxsize=64)
def _matched_laws(sizes: tuple[float, ...], head: int) -> list[tuple[int, NDArray[np.uint64]]]:
    """Return the law that is matched to what is left of some sizes after 0 … head hops."""
    padded = np.append(sizes, np.zeros(head))
    laws = [matched_survival(padded[hop:]) for hop in range(head + 1)]
    return [(hop, to_thresholds(law[1:])) for hop, law in enumerate(laws)]


def survival_of(thresholds: NDArray[np.uint64], head: int) -> NDArray[np.float64]:
    """Return S(0) = 1, S(1), … of a length law after so many exact hops."""
    return np.concatenate([np.ones(1 + head), thresholds.astype(np.float64) / 2.0**64])


def sampler_fields(sampler: Sampler) -> dict[str, Any]:
    """Return what ``sampler_from`` makes the sampler of again."""
    return {"kind": type(sampler).__name__, **vars(sampler)}


def sampler_from(fields: dict[str, Any]) -> Sampler:
    """Return the sampler with these fields."""
    kinds = {kind.__name__: kind for kind in (IndependentWalks, CoupledWalks, PrunedWalks)}
    return kinds[fields["kind"]](**{name: value for name, value in fields.items() if name != "kind"})
