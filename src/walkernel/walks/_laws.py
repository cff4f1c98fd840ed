"""Laws of lengths: how probable it is that a walk makes another step, and what residues of heads are worth.

Walks that are weighted with f and begin after h hops make at least j steps with probability S_h(j), and what
they leave after j steps is divided by it. Their variance goes with V_h = Σ_j f²_{h+j} / S_h(j), their steps
with C_h = Σ_j S_h(j), and s_h = √(V_h C_h) is what they cost: of many residues of chances q, the steps that a
given variance takes are least if walks begin at them in proportion to q √(V_h / C_h), and go with (Σ q s_h)².
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from walkernel.walks._samplers import Sampler

MARGIN = 1.3
"""By how much the law of least variance is exceeded, for what sequences have besides their maximum."""

Floats = NDArray[np.float64]


def matched_survival(*sizes: Floats, margin: float = MARGIN) -> Floats:
    """Return the length law S(0) = 1, S(1), … that suits sequences of these sizes.

    S(k) = min(1, 1.3 · max_{j≥k} |f_j| / max_{j≥1} |f_j|) is within some percent of the law of least variance
    for the steps it costs; of several sequences the largest, each measured by its own maximum, decides.
    """
    longest = max(size.size for size in sizes)
    law = np.zeros(longest)
    for size in sizes:
        later = np.maximum.accumulate(size[::-1])[::-1]
        if size[1:].any():
            with np.errstate(over="ignore"):  # of a size at 0 that is far larger than all others
                law[: size.size] = np.maximum(law[: size.size], margin * later / size[1:].max())
    law = np.minimum(law, 1.0)
    law[0] = 1.0
    if longest < 2 or law[1] == 0:
        return np.array([1.0, 2.0**-20])
    return law[law > 2.0**-64]


def to_thresholds(law: Floats) -> NDArray[np.uint64]:
    """Return 64-bit thresholds of the probabilities S(1), S(2), …, as far as they are positive."""
    scaled = np.minimum(law * 2.0**64, np.nextafter(2.0**64, 0))
    thresholds = scaled.astype(np.uint64)
    thresholds[law == 1.0] = np.uint64(2**64 - 1)
    return thresholds[thresholds > 0]


class ResidueWorth:
    """What residues at each hop are worth to walks that are weighted with a sequence of some sizes.

    Attributes
    ----------
    worths, weights : ndarray, (depth + 1,)
        s_h = √(V_h C_h) and w_h = √(V_h / C_h), zero where nothing of the sequence is left.
    gains : ndarray, (depth,)
        s_h − s_{h+1}, what is saved by following the edges of a residue, or zero.
    """

    def __init__(self, sizes: Floats, depth: int) -> None:
        self.worths, self.weights = np.zeros((2, depth + 1))
        for hop in range(depth + 1):
            rest = sizes[hop:]
            if rest[1:].any():
                law = matched_survival(rest)[1:]
                variance, steps = (rest[1 : 1 + law.size] ** 2 / law[: rest.size - 1]).sum(), law.sum()
                self.worths[hop], self.weights[hop] = math.sqrt(variance * steps), math.sqrt(variance / steps)
        self.gains = np.maximum(self.worths[:-1] - self.worths[1:], 0.0)


class LengthLaw:
    """The length laws of a sampler, one for each hop that walks begin at, and what is derived from them."""

    def __init__(self, sampler: Sampler) -> None:
        self.sampler = sampler

    @cached_property
    def hops(self) -> NDArray[np.int64]:
        """The hop at which walks of each law begin, (laws,)."""
        return np.array([hop for hop, _ in self.sampler.laws()])

    @cached_property
    def thresholds(self) -> NDArray[np.uint64]:
        """A walk makes its k-th step if its draw is below ``thresholds[law, k − 1]``, (laws, steps)."""
        laws = [thresholds for _, thresholds in self.sampler.laws()]
        table = np.zeros((len(laws), max(law.size for law in laws)), dtype=np.uint64)
        for row, law in zip(table, laws, strict=True):
            row[: law.size] = law
        return table

    @cached_property
    def guide(self) -> NDArray[np.int32]:
        """For each value of a draw's first 8 bits, how many thresholds are above it for sure, (laws, 256)."""
        largest = ((np.arange(1, 257, dtype=object) << 56) - 1).astype(np.uint64)
        n = self.thresholds.shape[1]
        rows = [n - np.searchsorted(law[::-1], largest, side="right") for law in self.thresholds]
        return np.array(rows, dtype=np.int32)

    @cached_property
    def survival(self) -> Floats:
        """S(0) = 1, S(1), …: the probability of so many steps, (laws, steps + 1), zero for more."""
        ones = np.ones((len(self.thresholds), 1))
        return np.hstack([ones, self.thresholds.astype(np.float64) / 2.0**64])

    @property
    def longest(self) -> int:
        """Length of the longest walk, the head included."""
        return int((self.hops + np.count_nonzero(self.thresholds, axis=1)).max())

    def factors(self, f: Floats | None = None) -> Floats:
        """Return what a deposit is multiplied by: 1 / S, times f at its length, (laws, steps + 1).

        The first column is that of deposits at home, of length 0.
        """
        inverse = np.divide(1.0, self.survival, out=np.zeros_like(self.survival), where=self.survival > 0)
        if f is None:
            return inverse
        lengths = self.hops[:, None] + np.arange(inverse.shape[1])
        lengths[:, 0] = 0
        weights = np.append(f, 0.0)[np.minimum(lengths, f.size)]
        return np.asarray(inverse * weights)

    @cached_property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the number of steps, of the law that has the most."""
        tails = self.survival[:, 1:]
        tail = tails[int(tails.sum(axis=1).argmax())]
        mean = float(tail.sum())
        return mean, float(((2 * np.arange(1, tail.size + 1) - 1) * tail).sum()) - mean**2

    def expected_deposits(self, n_walks: int) -> int:
        """Return a number of deposits that so many walks hardly exceed: mean + 10 standard deviations."""
        mean, variance = self.moments
        return math.ceil(n_walks * (1 + mean) + 10 * math.sqrt(n_walks * max(variance, 0.0)) + 16)
