"""The paper's theory as functions: batch length (A.1), Rademacher and generalisation bounds (Theorem 2.3)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from walkernel._checks import Described, real_array, real_number, refuse, whole_number


def batch_length(n_walks: int, p_halt: float, delta: float = 0.01, *, n_nodes: int = 1) -> int:
    """Return b such that all walks have fewer than b steps with probability at least 1 − δ.

    Pr(all < b) = (1 − (1−p)ᵇ)^(n_nodes · n_walks), so b grows with the logarithm of the number of walks.
    It is the length to which a modulation function has to be computed beforehand.

    Examples
    --------
    >>> from walkernel.theory import batch_length
    >>> batch_length(16, 0.1, delta=0.01), batch_length(16, 0.1, delta=0.01, n_nodes=10**6)
    (70, 202)
    """
    count = whole_number("n_walks", n_walks, 1) * whole_number("n_nodes", n_nodes, 1)
    p = real_number("p_halt", p_halt, above=0, below=1)
    delta = real_number("delta", delta, above=0, below=1)
    tail = -math.expm1(math.log1p(-delta) / count)
    return math.ceil(math.log(tail) / math.log1p(-p))


def rademacher_bound(coefficient_bounds: ArrayLike, spectral_radius: float, n_samples: int) -> float:
    """Return Theorem 2.3's bound √(Σᵢ αᵢ^(M) ρⁱ / m) on the empirical Rademacher complexity.

    Parameters
    ----------
    coefficient_bounds : array of float, (k,)
        ``αᵢ^(M) ≥ |αᵢ|``, the largest coefficients of the family of kernels.
    spectral_radius : float
        ρ(M).
    n_samples : int
        m.
    """
    bounds = real_array("coefficient_bounds", coefficient_bounds, ndim=1)
    if bounds.size == 0:
        refuse("coefficient_bounds", "a non-empty list", bounds)
    if (bounds < 0).any():
        refuse("coefficient_bounds", "non-negative", Described(str(bounds.min())))
    rho = real_number("spectral_radius", spectral_radius, minimum=0)
    m = whole_number("n_samples", n_samples, 1)
    return math.sqrt(float(np.polynomial.polynomial.polyval(rho, bounds)) / m)


def margin_loss(labels: ArrayLike, scores: ArrayLike, margin: float) -> float:
    """Return the empirical margin loss, the mean of min(1, max(0, 1 − y h / margin)) over labels y = ±1."""
    y = real_array("labels", labels, ndim=1)
    h = real_array("scores", scores, ndim=1)
    if y.size == 0:
        refuse("labels", "a non-empty list", y)
    if y.size != h.size:
        refuse("scores", f"one for each of {y.size} labels", h)
    if not np.isin(y, (-1, 1)).all():
        refuse("labels", "-1 or 1", y[~np.isin(y, (-1, 1))][0])
    margin = real_number("margin", margin, above=0)
    return float(np.clip(1 - y * h / margin, 0, 1).mean())


def generalization_bound(
    labels: ArrayLike, scores: ArrayLike, *, margin: float, complexity: float, delta: float = 0.05
) -> float:
    """Return the bound on the true error that holds with probability 1 − δ (appendix A.4).

    R(h) ≤ margin loss + 2/margin · complexity + 3 √(log(2/δ) / 2m).

    Parameters
    ----------
    labels, scores : array of float, (m,)
        y = ±1 and h(x) on the training nodes.
    margin : float
        ρ > 0 of the margin loss.
    complexity : float
        Empirical Rademacher complexity, or ``rademacher_bound``.
    delta : float
        Probability that the bound fails.
    """
    loss = margin_loss(labels, scores, margin)
    complexity = real_number("complexity", complexity, minimum=0)
    delta = real_number("delta", delta, above=0, below=1)
    return loss + 2 / margin * complexity + 3 * math.sqrt(math.log(2 / delta) / (2 * np.size(labels)))
