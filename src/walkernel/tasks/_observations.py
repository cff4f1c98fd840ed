"""Observations at nodes: y = g(node) + h·β + noise, where nodes may repeat.

The least-squares fit of y on the columns h is subtracted beforehand, so that a large offset costs no digits
beyond those that y has lost already; with a flat prior on β this changes only β. Observations of one node are
merged without loss: with D the variances of the noise and P = Σ 1/D, the prior sees one observation P⁻¹Σ y/D
of variance 1/P at each node, and two constants hold what the other observations tell about noise and β. The
system is therefore never larger than the number of distinct nodes, which is at most the number of features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.operators import normalize_columns

Array = NDArray[np.float64]

EPSILON = float(np.finfo(np.float64).eps)
MAX_ROUNDING_UNITS = 4.0
"""Units of rounding up to which the residual of y on the columns counts as zero."""


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
    offset: Array  # (q,): the least-squares fit that was subtracted, to be added to β

    @classmethod
    def at(cls, ids: NDArray[np.int64], y: Array, columns: Array, variances: Array) -> Observations:
        """Return observations y of nodes that may repeat, minus their least-squares fit on the columns.

        They are sorted by node, so that their order makes no difference, not even in rounding.
        """
        order = np.argsort(ids, kind="stable")
        ids, y, columns, variances = ids[order], y[order], columns[order], variances[order]
        distinct, place = np.unique(ids, return_inverse=True)
        offset, rest = np.zeros(columns.shape[1]), y
        for _ in range(2):  # the second pass removes rounding errors of the first
            fitted = np.asarray(np.linalg.lstsq(columns, rest)[0], dtype=np.float64)
            offset, rest = offset + fitted, rest - columns @ fitted
        return cls(distinct, place, np.column_stack([rest, columns]), variances, offset)

    @property
    def rounding(self) -> float:
        """Unit of rounding of the least-squares fit."""
        return EPSILON * float(np.abs(self.sides[:, 1:] @ self.offset).max(initial=0.0))

    @property
    def deviation(self) -> float:
        """Standard deviation of the residual of y on the columns."""
        rest = self.sides[:, :1]
        scaled, unit = normalize_columns(rest)
        return float(unit[0] * np.sqrt(np.mean(scaled**2)))

    @property
    def spread(self) -> float:
        """The deviation, or the size of y where the residual is only rounding."""
        deviation, rounding = self.deviation, self.rounding
        return deviation if deviation > MAX_ROUNDING_UNITS * rounding else rounding / EPSILON or 1.0

    def scaled(self, unit: float) -> Observations:
        """Return the observations with y divided by ``unit``."""
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
        """Return Σ⁻¹[y h] of all observations, (m, 1 + q), and tr Σ⁻¹, from those of the merged ones.

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
        """Return the observations of some nodes, given by ascending positions."""
        kept = np.isin(self.place, chosen)
        place = np.searchsorted(chosen, self.place[kept])
        return Observations(self.ids[chosen], place, self.sides[kept], self.variances[kept], self.offset)

    def _summed(self, values: Array) -> Array:
        """Return sums over the observations of each node, (n,) or (n, columns)."""
        result = np.zeros((self.ids.size, *values.shape[1:]))
        np.add.at(result, self.place, values)
        return result
