"""What was measured at nodes: y = g(node) + h·β + noise, where nodes may repeat.

Observations of one node are merged without loss: with D the variances of the noise, the prior sees one
observation P⁻¹Σ y/D of variance 1/P at each node, P = Σ 1/D, and what the others say about noise and β is in
two constants. So no system is larger than the number of distinct nodes, and the n×n system of the prior is
never larger than that of the features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Merged(NamedTuple):
    """One observation for each node, for one level of the noise."""

    sides: NDArray[np.float64]  # (n, 1 + q): means of y and of the columns h
    variances: NDArray[np.float64]  # (n,): 1/P
    scatter: NDArray[np.float64]  # (1 + q, 1 + q): sums of products about the means, over D
    log_volume: float  # Σ log D + Σ log P


class Observations(NamedTuple):
    """Targets at nodes, columns of the mean function, known variances."""

    ids: NDArray[np.int64]  # (n,): the distinct nodes
    place: NDArray[np.int64]  # (m,): which of them was observed
    sides: NDArray[np.float64]  # (m, 1 + q): y, then the columns h of the mean function
    variances: NDArray[np.float64]  # (m,): known variances, to which that of the noise is added

    def merged(self, noise: float) -> Merged:
        """Return one observation for each node."""
        precisions = 1 / (self.variances + noise**2)
        totals = self._summed(precisions)
        sides = self._summed(precisions[:, None] * self.sides) / totals[:, None]
        rest = self.sides - sides[self.place]
        scatter = rest.T @ (precisions[:, None] * rest)
        return Merged(sides, 1 / totals, scatter, float(np.log(totals).sum() - np.log(precisions).sum()))

    def noise_slope(
        self, noise: float, solved: NDArray[np.float64], inverse_diagonal: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], float]:
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

    def of_nodes(self, chosen: NDArray[np.int64]) -> Observations:
        """Return the observations of some of the nodes, given by their positions, in ascending order."""
        kept = np.isin(self.place, chosen)
        place = np.searchsorted(chosen, self.place[kept])
        return Observations(self.ids[chosen], place, self.sides[kept], self.variances[kept])

    def _summed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return sums over the observations of each node, (n,) or (n, columns)."""
        result = np.zeros((self.ids.size, *values.shape[1:]))
        np.add.at(result, self.place, values)
        return result
