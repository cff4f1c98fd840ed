"""How far K̂ is from K: its relative Frobenius error, from the spread of groups of walks.

The squared error ‖K̂ − K‖² is a sum over columns, ‖(K̂ − K) B‖² for any B with B Bᵀ = I, and so is ‖K̂‖². Where
the kernel has few columns, B = I. Otherwise B = [Q, P V / √c], with Q an orthonormal basis of a few
directions in which K̂ is largest, P = I − QQᵀ, and V of c columns of random signs, so that E[B Bᵀ] = I: signs
alone tell little of a wide kernel, nearly all of which lies in one direction. Then

    A = Σ_b var(K̂ b),   by the jackknife over groups of walks to first order (``_products``),
    T = Σ_b var(product of the errors of both sides), which A has twice,

and the squared error is A − T, the squared norm of K is ‖K̂ B‖² − (A − T). T depends on the squares of the
entries of b alone, since walks from different nodes are independent, so that any few columns of signs have
it. With n times the walks, A − 2T is n times smaller and T n² times.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.operators._products import of_size_one, root_sum_of_squares

if TYPE_CHECKING:
    from walkernel.operators._base import KernelOperator
    from walkernel.operators._walk import FeatureOperator

ENTRIES, FEWEST_COLUMNS, MOST_COLUMNS = 2**13, 4, 64
"""Entries of B, about, and its columns: fewer for larger graphs."""
ENTRIES_OF_T, FEWEST_OF_T = 2**10, 2
"""The same for the signs that T is taken from."""


class Accuracy(NamedTuple):
    """Squared Frobenius norms, in a unit in which that of K̂ is one."""

    once: float
    """Of what goes with one over the number of walks, A − 2T."""
    twice: float
    """Of what goes with its square, T."""
    signal: float
    """Of K."""

    @property
    def error(self) -> float:
        """The relative error; infinite where it drowns the kernel, NaN where it cannot be told."""
        if not self.is_known:
            return np.nan
        squared = self.once + self.twice
        return 0.0 if squared == 0 else float(np.sqrt(squared / self.signal)) if self.signal > 0 else np.inf

    @property
    def is_known(self) -> bool:
        """Whether the norms are numbers."""
        return bool(np.isfinite(self).all())

    def share_for(self, error: float) -> float:
        """Return x, such that walks of x times the variance in the mean have a relative error.

        It solves (A − 2T) x + T x² = ε²‖K‖²; 0 where the norm of K is not known.
        """
        wanted = error**2 * max(0.0, self.signal)
        root = np.sqrt(self.once**2 + 4 * self.twice * wanted)
        return float(2 * wanted / (self.once + root)) if self.once + root > 0 else 1.0


def accuracy(K: KernelOperator) -> Accuracy:
    """Return how far an operator made of walks is from the kernel; its walks are walked again."""
    from walkernel.operators._walk import FeatureOperator

    n = K.shape[0]
    columns = max(FEWEST_COLUMNS, min(MOST_COLUMNS, ENTRIES // n))
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(n, columns))
    probes = _probes(K, signs)
    norm, doubled = float(root_sum_of_squares(K._matmat(probes), None)), 0.0
    if isinstance(K, FeatureOperator):
        deviations, _ = K.deviations(probes)
        groups = deviations.shape[-1]
        spread = float(root_sum_of_squares(deviations, None) / np.sqrt(groups * (groups - 1)))
        doubled = _second_order(K, signs)
    else:  # a product of factors, of which T is not known
        spread = float(root_sum_of_squares(K._product_errors(probes)[0], None))
    unit = norm or max(spread, doubled) or 1.0
    signal, variance, twice = (norm / unit) ** 2, (spread / unit) ** 2, (doubled / unit) ** 2
    if twice > variance / 2:  # then A and 2T are estimates of the same
        twice = (variance / 2 + twice) / 2
        return Accuracy(0.0, twice, signal - twice)
    return Accuracy(variance - 2 * twice, twice, signal - variance + twice)


def _probes(K: KernelOperator, signs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return B: the unit vectors if there are no more columns, else the largest directions and signs."""
    n, columns = signs.shape
    if n <= columns:
        return np.eye(n)
    largest, rest = signs[:, : columns // 2], signs[:, columns // 2 :]
    image, _ = of_size_one(K._matmat(largest))
    Q, _ = np.linalg.qr(of_size_one(K._transpose()._matmat(image))[0])
    return np.hstack([Q, (rest - Q @ (Q.T @ rest)) / np.sqrt(rest.shape[1])])


def _second_order(K: FeatureOperator, signs: NDArray[np.float64]) -> float:
    """Return √T."""
    few = np.ascontiguousarray(signs[:, : max(FEWEST_OF_T, ENTRIES_OF_T // K.shape[0])])
    _, doubled = K.deviations(few, second_order=True)
    return float(root_sum_of_squares(doubled, None) / np.sqrt(few.shape[1]))
