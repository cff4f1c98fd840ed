"""Amplitude and noise of largest likelihood for a given covariance, from one eigendecomposition.

Where the noise is the same for all observations and no node is observed twice, Cov(y) = a²(K + λI). With
K = VDVᵀ, everything in

    −2 log p(y) = (m − q) log a² + log det(K + λI) + log det Hᵀ(K + λI)⁻¹H + (m − q)(1 + log 2π),
    a² = yᵀQy / (m − q)

is a sum over the eigenvalues D + λ. λ is measured against the mean variance that K has beyond the columns H,
which is what the data can tell: a wide kernel is nearly constant. The logarithm of its root times a has a
weak prior about the spread of y, which matters for few observations only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.optimize

from walkernel.tasks._likelihood import LOG_2PI, Hyperparameters
from walkernel.tasks._observations import Array, Observations

NOISE_RATIOS = 10.0 ** np.arange(-6.0, 4.01, 0.5)
"""Ratios λ of noise and prior variance that are compared before the best one is refined."""
MIN_EIGENVALUE = 1e-9
"""Eigenvalues of a covariance, relative to the largest, below which they count as rounding."""
AMPLITUDE_SPREAD = 1.0
"""Standard deviation of the prior of log a about the spread of y: few observations leave a undetermined."""


def is_observed_once(data: Sequence[Observations]) -> bool:
    """Tell whether no node is observed twice, and all observations have the same noise."""
    return all(one.place.size == one.ids.size and not one.variances.any() for one in data)


def has_profile(hyper: Hyperparameters, learn: tuple[str, ...]) -> bool:
    """Tell whether amplitude and noise, and no nugget, are learned for a covariance."""
    both = {"amplitude", "noise"} <= set(learn)
    return both and "nugget" not in learn and not hyper.nugget and hyper.modulation is None


def eigenvalues_and_vectors(K: Array) -> tuple[Array, Array]:
    """Return D, (n,), of which none is mere rounding, and V, (n, n)."""
    values, vectors = np.linalg.eigh(K)
    return np.maximum(values, MIN_EIGENVALUE * values[-1]), vectors


def beyond_columns(K: Array, columns: Array) -> Array:
    """Return the covariance of what g has beyond the columns of the mean, (n, n).

    The likelihood is the same, because β has a flat prior, and loses no digits to a part that β explains.
    """
    span, _ = np.linalg.qr(columns)
    rest = K - span @ (span.T @ K)
    rest -= (rest @ span) @ span.T
    return np.asarray((rest + rest.T) / 2)


def profiled(
    hyper: Hyperparameters,
    values: Array,  # (n,)
    sides: Sequence[Array],  # (n, 1 + q) each
) -> tuple[float, Hyperparameters]:
    """Return the best likelihood, amplitude and noise from the eigenvalues of K and Vᵀ(y, H) of each set."""
    n, free = values.size, sum(len(one) - one.shape[1] + 1 for one in sides)
    unit = float(values.sum()) / max(1, n - sides[0].shape[1] + 1) or 1.0

    def profile(log_ratio: float) -> tuple[float, float]:
        weights = 1 / (values + math.exp(log_ratio))
        rest = volume = 0.0
        for one in sides:
            products = one.T @ (weights[:, None] * one)
            inner, outer = products[1:, 1:], products[1:, 0]
            rest += float(products[0, 0] - outer @ np.linalg.solve(inner, outer))
            volume += float(np.linalg.slogdet(inner)[1]) - float(np.log(weights).sum())
        square = max(rest, np.finfo(float).tiny) / free if free else 1.0  # else the mode of its prior
        value = -0.5 * (free * (math.log(square) + 1 + LOG_2PI) + volume)
        return value - 0.5 * (0.5 * math.log(square * unit) / AMPLITUDE_SPREAD) ** 2, square

    logs = np.log(unit * NOISE_RATIOS)
    place = int(np.argmax([profile(one)[0] for one in logs]))
    bounds = logs[max(0, place - 1)], logs[min(logs.size - 1, place + 1)]
    found = scipy.optimize.minimize_scalar(
        lambda one: -profile(one)[0], bounds=bounds, method="bounded", options={"xatol": 1e-3}
    )
    value, square = profile(float(found.x))
    amplitude = math.sqrt(square)
    noise = amplitude * math.exp(float(found.x) / 2)
    return value, replace(hyper, amplitude=amplitude, noise=noise)
