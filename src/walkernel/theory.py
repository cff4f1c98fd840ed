"""The paper's theory as functions: batch length (A.1), Rademacher and generalisation bounds (Theorem 2.3)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from walkernel._checks import Described, real_array, real_number, refuse, whole_number


def batch_length(n_walks: int, p_halt: float, delta: float = 0.01, *, n_nodes: int = 1) -> int:
    r"""Return a number of steps that no walk reaches, with probability at least 1 − δ (appendix A.1).

    .. math:: P(\text{all} < b) = \left(1 - (1 - p)^b\right)^{n m} \ge 1 - \delta

    Here n is ``n_nodes``, m is ``n_walks`` and p is ``p_halt``, so b grows with the logarithm of the number
    of walks. It is the length to which a modulation function has to be computed beforehand.

    Parameters
    ----------
    n_walks : int
        Walks from each node.
    p_halt : float in (0, 1)
        Probability that a walk stops after a step.
    delta : float in (0, 1)
        Probability that some walk is longer.
    n_nodes : int
        Number of start nodes.

    Returns
    -------
    int
        b, a number of steps.

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
    r"""Return a bound on the empirical Rademacher complexity of a family of kernels (Theorem 2.3).

    .. math:: \sqrt{\frac{1}{m} \sum_i \alpha_i^{(M)} \rho^i}, \qquad \alpha_i^{(M)} \ge |\alpha_i|

    Parameters
    ----------
    coefficient_bounds : array of float, (k,)
        The largest coefficients α_i^(M) of the family of kernels, not negative.
    spectral_radius : float
        ρ, the spectral radius of M; 1 for the normalized matrix.
    n_samples : int
        m, the number of training nodes.

    Returns
    -------
    float
        The bound, without a unit.

    Examples
    --------
    >>> from walkernel.theory import rademacher_bound
    >>> rademacher_bound([1.0, 0.5, 0.5], spectral_radius=1.0, n_samples=50)
    0.2
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
    r"""Return the empirical margin loss of scores for labels ±1.

    .. math:: \frac{1}{m} \sum_{i=1}^{m} \min\left(1, \max\left(0, 1 - \frac{y_i h_i}{\rho}\right)\right)

    Parameters
    ----------
    labels : array of float, (m,)
        The labels y_i, each −1 or 1.
    scores : array of float, (m,)
        The scores h_i.
    margin : float
        ρ > 0, in the unit of the scores: scores that are right by less than it lose something.

    Returns
    -------
    float
        The loss, from 0 to 1.

    Examples
    --------
    >>> from walkernel.theory import margin_loss
    >>> margin_loss([1, -1, 1], [2.0, -0.5, -1.0], margin=1.0)
    0.5
    """
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
    r"""Return a bound on the true error that holds with probability 1 − δ (appendix A.4).

    .. math:: R(h) \le \widehat{R}_\rho(h) + \frac{2}{\rho} \, \mathcal{R}
        + 3 \sqrt{\frac{\log(2 / \delta)}{2m}}

    R̂_ρ is the margin loss on m training nodes.

    Parameters
    ----------
    labels : array of float, (m,)
        The labels of the training nodes, each −1 or 1.
    scores : array of float, (m,)
        The scores h of the training nodes.
    margin : float
        ρ > 0, the margin of the loss, in the unit of the scores.
    complexity : float
        ℛ, the empirical Rademacher complexity, or ``rademacher_bound``.
    delta : float in (0, 1)
        δ, the probability that the bound fails.

    Returns
    -------
    float
        The bound on the share of nodes that are classified wrongly; above 1 it says nothing.

    See Also
    --------
    rademacher_bound : The complexity of a family of kernels.

    Examples
    --------
    >>> from walkernel.theory import generalization_bound
    >>> labels, scores = [1, -1] * 500, [1.5, -0.8] * 500
    >>> round(generalization_bound(labels, scores, margin=1.0, complexity=0.05), 3)
    0.329
    """
    loss = margin_loss(labels, scores, margin)
    complexity = real_number("complexity", complexity, minimum=0)
    delta = real_number("delta", delta, above=0, below=1)
    return loss + 2 / margin * complexity + 3 * math.sqrt(math.log(2 / delta) / (2 * np.size(labels)))
