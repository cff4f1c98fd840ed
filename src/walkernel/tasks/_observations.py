"""What was measured at nodes: y = g(node) + h·β + noise, where nodes may repeat.

What the columns h alone can say of y is taken out beforehand, so that a large offset costs no more digits
than y has lost to it: with a flat prior on β it changes nothing but β. Observations of one node are merged
without loss: with D the variances of the noise, the prior sees one observation P⁻¹Σ y/D of variance 1/P at
each node, P = Σ 1/D, and what the others say about noise and β is in two constants. So no system is larger
than the number of distinct nodes, which is at most the number of features: the n×n system is never the larger
one of the two.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.operators import of_size_one

Array = NDArray[np.float64]

EPSILON = float(np.finfo(np.float64).eps)
MAX_ROUNDING_UNITS = 4.0
"""Units of rounding that may be left of a y that is a combination of the columns."""


class Merged(NamedTuple):
    """One observation for each node, for one level of the noise."""

    sides: Array  # (n, 1 + q): means of y and of the columns h
    variances: Array  # (n,): 1/P
    scatter: Array  # (1 + q, 1 + q): sums of products about the means, over D
    log_volume: float  # Σ log D + Σ log P


class Observations(NamedTuple):
    """Targets at nodes, columns of the mean function, known variances."""

    ids: NDArray[np.int64]  # (n,): the distinct nodes
    place: NDArray[np.int64]  # (m,): which of them was observed
    sides: Array  # (m, 1 + q): y − h·offset, then the columns h of the mean function
    variances: Array  # (m,): known variances, to which that of the noise is added
    offset: Array  # (q,): what was taken out of β

    @classmethod
    def at(cls, ids: NDArray[np.int64], y: Array, columns: Array, variances: Array) -> Observations:
        """Return observations y of nodes that may repeat, without their least-squares fit on the columns.

        They are sorted by node, so that their order makes no difference, not even of rounding.
        """
        order = np.argsort(ids, kind="stable")
        ids, y, columns, variances = ids[order], y[order], columns[order], variances[order]
        distinct, place = np.unique(ids, return_inverse=True)
        offset, rest = np.zeros(columns.shape[1]), y
        for _ in range(2):  # the second time for what rounding has left
            fitted = np.asarray(np.linalg.lstsq(columns, rest)[0], dtype=np.float64)
            offset, rest = offset + fitted, rest - columns @ fitted
        return cls(distinct, place, np.column_stack([rest, columns]), variances, offset)

    @property
    def rounding(self) -> float:
        """Unit of rounding of what the columns say of y."""
        return EPSILON * float(np.abs(self.sides[:, 1:] @ self.offset).max(initial=0.0))

    @property
    def deviation(self) -> float:
        """Standard deviation of what the columns leave of y."""
        rest = self.sides[:, :1]
        scaled, unit = of_size_one(rest)
        return float(unit[0] * np.sqrt(np.mean(scaled**2)))

    @property
    def spread(self) -> float:
        """The same, or the size of y where only rounding is left."""
        deviation, rounding = self.deviation, self.rounding
        return deviation if deviation > MAX_ROUNDING_UNITS * rounding else rounding / EPSILON or 1.0

    def scaled(self, unit: float) -> Observations:
        """Return the same in other units of y."""
        sides = self.sides.copy()
        sides[:, 0] /= unit
        return self._replace(sides=sides, variances=self.variances / unit**2, offset=self.offset / unit)

    def merged(self, noise: float) -> Merged:
        """Return one observation for each node."""
        precisions = 1 / (self.variances + noise**2)
        totals = self._summed(precisions)
        sides = self._summed(precisions[:, None] * self.sides) / totals[:, None]
        rest = self.sides - sides[self.place]
        scatter = rest.T @ (precisions[:, None] * rest)
        return Merged(sides, 1 / totals, scatter, float(np.log(totals).sum() - np.log(precisions).sum()))

    def noise_slope(self, noise: float, solved: Array, inverse_diagonal: Array) -> tuple[Array, float]:
        """Return Σ⁻¹[y h] of all observations, (m, 1 + q), and tr Σ⁻¹, from what the merged ones have.

        Parameters
        ----------
        noise : float
        solved : ndarray, (n, 1 + q)
            S⁻¹ of the merged sides.
        inverse_diagonal : ndarray, (n,)
            Diagonal of S⁻¹.
        """
        precisions = 1 / (self.variances + noise**2)
        merged = self.merged(noise)
        prior = merged.sides - solved * merged.variances[:, None]
        full = precisions[:, None] * (self.sides - prior[self.place])
        explained = merged.variances - inverse_diagonal * merged.variances**2
        return full, float(precisions.sum() - self._summed(precisions**2) @ explained)

    def select_nodes(self, chosen: NDArray[np.int64]) -> Observations:
        """Return the observations of some of the nodes, given by their positions, in ascending order."""
        kept = np.isin(self.place, chosen)
        place = np.searchsorted(chosen, self.place[kept])
        return Observations(self.ids[chosen], place, self.sides[kept], self.variances[kept], self.offset)

    def _summed(self, values: Array) -> Array:
        """Return sums over the observations of each node, (n,) or (n, columns)."""
        result = np.zeros((self.ids.size, *values.shape[1:]))
        np.add.at(result, self.place, values)
        return result
