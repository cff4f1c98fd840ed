"""Samplers are descriptors: they say how walks are drawn, and hold no state.

The walker sees a sampler as two things: a transition law and a length law. A length law is an array
of 64-bit thresholds: the walk makes its k-th step if the walk's 64-bit draw is below ``thresholds[k-1]``.
S(k) = thresholds[k-1] / 2⁶⁴ is the probability of at least k steps, and the deposit at length k is
divided by it. S is computed from the quantised thresholds, so it is the law that is really walked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import one_of, real_number, refuse

TRANSITIONS = ("weights", "uniform")
SMALLEST_P_HALT = 1e-6


@dataclass(frozen=True)
class IndependentWalks:
    """Algorithm 1's sampler: independent walks of geometric length.

    Parameters
    ----------
    p_halt : float in (0, 1)
        Probability to stop after each step; the mean walk has (1 − p) / p steps. Walks longer than
        64 ln 2 / p steps, which have probability 2⁻⁶⁴, do not occur.
    transition : {"weights", "uniform"}
        Step from u to v with probability |a_uv| / Σ|a_u·|, or 1 / deg(u) as the paper has it. They are
        the same in an unweighted graph; in a weighted one "uniform" has far more variance.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.IndependentWalks(p_halt=0.5).survival()[:4]
    array([1.   , 0.5  , 0.25 , 0.125])
    """

    p_halt: float = 0.1
    transition: str = "weights"

    def __post_init__(self) -> None:
        p = real_number("IndependentWalks", "p_halt", self.p_halt, above=0, below=1)
        if p < SMALLEST_P_HALT:
            refuse(
                "IndependentWalks",
                "p_halt",
                f"at least {SMALLEST_P_HALT:g}",
                self.p_halt,
                "Walks of a million steps have no use.",
            )
        one_of("IndependentWalks", "transition", self.transition, TRANSITIONS)

    def thresholds(self) -> NDArray[np.uint64]:
        """Return the length law: thresholds of steps 1, 2, …, decreasing, all positive."""
        longest = math.ceil(-64 * math.log(2) / math.log1p(-self.p_halt))
        survival = (1.0 - self.p_halt) ** np.arange(1, longest + 1)
        thresholds = (survival * 2.0**64).astype(np.uint64)
        return thresholds[thresholds > 0]

    def survival(self) -> NDArray[np.float64]:
        """Return S(0) = 1, S(1), …: the probability of at least k steps."""
        return survival_of(self.thresholds())

    def reach(self, probability: float) -> int:
        """Return the first length that a walk reaches with less than this probability."""
        return math.ceil(math.log(probability) / math.log1p(-self.p_halt))

    @property
    def mean_steps(self) -> float:
        """Expected number of steps of a walk on a graph without dead ends."""
        return float(self.survival()[1:].sum())


def survival_of(thresholds: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return S(0) = 1, S(1), … of a length law."""
    return np.concatenate([[1.0], thresholds.astype(np.float64) / 2.0**64])
