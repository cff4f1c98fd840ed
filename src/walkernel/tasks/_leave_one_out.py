"""Kernel ridge regression with an intercept, and predictions of each node from the others in closed form.

For weights w, W = diag(w), the dual solution is Ay with A = G − G11ᵀG/(1ᵀG1), G = (K + λW⁻¹)⁻¹, and the
prediction of node i from the others is y_i − (Ay)_i / A_ii. One eigendecomposition of W^½ K W^½ serves all λ
and all columns of y.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from walkernel.tasks._observations import Array

PENALTIES = tuple(10.0 ** (j / 2) for j in range(-6, 4))
"""Penalties λ that are tried for a kernel whose variance about its mean is 1."""
MIN_VARIANCE = 1e-5
"""Least variance about the mean, relative to the diagonal, that moments in single precision resolve."""
SHARPNESS = tuple(2.0 ** (j / 2) for j in range(13))
"""Factors of the scores that are tried before the softmax, 1 … 64."""


class Solution(NamedTuple):
    """The solution for one penalty."""

    penalty: float
    dual: Array  # (n, c)
    intercept: Array  # (c,)
    left_out: Array  # (n, c): predictions of each node from the others


class RidgePath:
    """Solutions for any penalty."""

    def __init__(self, K: Array, y: Array, weights: Array, *, fit_intercept: bool = True) -> None:
        self._y, self._fit_intercept = y, fit_intercept
        self._root = np.sqrt(weights)
        values, self._vectors = np.linalg.eigh(self._root[:, None] * K * self._root)
        self._values = np.maximum(values, 0.0)
        self._rotated = self._vectors.T @ (self._root[:, None] * y)
        self._ones = self._vectors.T @ self._root

    def solve(self, penalty: float) -> Solution:
        """Return the solution for a penalty."""
        inverse = 1 / (self._values + penalty)
        root, vectors = self._root[:, None], self._vectors
        diagonal = (vectors**2 @ inverse) * self._root**2
        dual = root * (vectors @ (inverse[:, None] * self._rotated))
        intercept = np.zeros(self._y.shape[1])
        if self._fit_intercept:
            ones = self._root * (vectors @ (inverse * self._ones))
            total = float(ones @ np.ones_like(ones))
            intercept = dual.sum(axis=0) / total
            dual = dual - np.outer(ones, intercept)
            diagonal = diagonal - ones**2 / total
        left_out = self._y - dual / np.maximum(diagonal, np.finfo(float).tiny)[:, None]
        return Solution(penalty, dual, intercept, left_out)


def penalty_unit(K: Array, *, fit_intercept: bool = True) -> float:
    """Return the mean variance of g, about its mean over the nodes if there is an intercept.

    A wide kernel is nearly constant. The intercept takes that part, and the penalty is measured against what
    is left, or it would hide what tells the nodes apart.
    """
    whole = float(K.diagonal().mean())
    return max(whole - float(K.mean()), MIN_VARIANCE * whole) if fit_intercept else whole


def sharpest_loss(scores: Array, weights: Array) -> tuple[float, float]:
    """Return the least cross entropy of softmax(factor · scores) over factors, and the best factor."""
    return min((cross_entropy(factor * scores, weights), factor) for factor in SHARPNESS)


def calibrated_sharpness(scores: Array, weights: Array) -> float:
    """Return the best factor of scores, as if one label more had been a guess among all classes.

    Labels that are all predicted rightly from each other would make the model sure of everything without it.
    """
    shares = weights.sum(axis=1, keepdims=True) / weights.sum()
    return sharpest_loss(scores, weights + shares / weights.shape[1])[1]


def cross_entropy(scores: Array, weights: Array) -> float:
    """Return the mean of −log softmax(scores) of labels with weights, (n, n_classes)."""
    below = scores - scores.max(axis=1, keepdims=True)
    sums = np.log(np.exp(below).sum(axis=1))
    return float((weights.sum(axis=1) @ sums - (weights * below).sum()) / weights.sum())
