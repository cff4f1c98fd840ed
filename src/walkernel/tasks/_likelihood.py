"""The marginal likelihood of a Gaussian process on walk features, and its gradient in the hyper-parameters.

With y = g + Hβ + ε, g ~ N(0, a²ΦΦᵀ + ν²I), a flat prior on β and Σ = Cov(y),

    log p(y) = −½ (yᵀQy + log det Σ + log det HᵀΣ⁻¹H + (m − q) log 2π),   Q = Σ⁻¹ − Σ⁻¹H(HᵀΣ⁻¹H)⁻¹HᵀΣ⁻¹,
    ∂ log p(y) = ½ ⟨Qy yᵀQ − Q, ∂Σ⟩.

Φ is linear in f, so ∂Φ are the features of ∂f: another weighting of the same walks. Where rows of Φ are
scaled to one length, K̂ᵢⱼ = Kᵢⱼ/√(KᵢᵢKⱼⱼ) has ∂K̂ᵢⱼ = ∂Kᵢⱼ/√(KᵢᵢKⱼⱼ) − K̂ᵢⱼ (∂Kᵢᵢ/Kᵢᵢ + ∂Kⱼⱼ/Kⱼⱼ)/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import Described, real_array, refuse
from walkernel.features import FeatureMatrix, KernelOrF
from walkernel.kernels import Kernel
from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._solvers import (
    Matrix,
    as_array,
    directional_slope,
    factorize,
    like,
    plus_diagonal,
    row_lengths,
)

FeaturesOf = Callable[[KernelOrF], FeatureMatrix]
"""Features of the observed nodes for a kernel, a sequence f or a function of the length."""

MIN_SCALE = 1e-153
"""Smallest amplitude and noise: their squares do not underflow."""
LOGARITHMIC = ("amplitude", "noise", "nugget")
"""Hyper-parameters beside the lengthscale that are learned as logarithms."""
MAX_LOG_CHANGE, MIN_LOG_NOISE, MAX_LOG_NOISE = math.log(1e4), math.log(1e-3), math.log(1e2)
"""How far an amplitude may move from its start, and the range of noise and nugget for y of spread 1."""
NO_WINDOW = (math.nan, math.nan)
"""The window of lengthscales where none is learned."""
LOG_2PI = math.log(2 * math.pi)


@dataclass(frozen=True)
class Hyperparameters:
    """The prior a²Φ_fΦ_fᵀ + ν²I and the standard deviation of the noise."""

    kernel: Kernel
    amplitude: float
    noise: float
    modulation: Array | None = None  # f, where it is not that of the kernel
    normalize: bool = False  # rows of Φ are scaled to norm 1; for a free f, to |f|
    nugget: float = 0.0  # ν, the standard deviation of an independent effect of each node

    @property
    def weights(self) -> Kernel | Array:
        """What the walks are weighted by: the kernel, or f itself."""
        return self.kernel if self.modulation is None else self.modulation

    def scaled(self, factor: float) -> Hyperparameters:
        """Return the hyper-parameters for y multiplied by ``factor``."""
        same = replace(self, noise=self.noise * factor, nugget=self.nugget * factor)
        if self.modulation is not None:
            return replace(same, modulation=self.modulation * factor)
        return replace(same, amplitude=self.amplitude * factor)

    def rows(self, features: FeatureMatrix) -> FeatureMatrix:
        """Return the rows of Φ as the prior uses them, normalized if asked for."""
        if not self.normalize:
            return features
        return features.scale_rows(self.length / row_lengths(features))

    def row_scales(self, squared_norms: Array) -> Array:
        """Return what the prior multiplies rows of Φ with, of which it needs ‖φ_i‖², (n,)."""
        if not self.normalize:
            return np.ones(squared_norms.size)
        lengths = np.sqrt(squared_norms)
        return self.length / np.where(lengths > 0, lengths, np.inf)

    def normalized(self, K: Array) -> Array:
        """Return K_ij / √(K_ii K_jj) if the prior is normalized, else K."""
        if not self.normalize:
            return K
        scales = np.sqrt(np.maximum(K.diagonal(), np.finfo(float).tiny))
        return np.asarray(K / scales / scales[:, None])

    def with_nugget(self, covariance: Matrix) -> Matrix:
        """Return the covariance of g at distinct nodes, (n, n), from a²ΦΦᵀ."""
        if not self.nugget:
            return covariance
        return plus_diagonal(covariance, np.full(len(covariance), self.nugget**2))

    @property
    def length(self) -> float:
        """The norm of all rows of Φ, where they are normalized."""
        return 1.0 if self.modulation is None else float(np.linalg.norm(self.modulation))

    @property
    def n_terms(self) -> int:
        """Number of free terms of f."""
        return 0 if self.modulation is None else self.modulation.size

    @property
    def lengthscale(self) -> float:
        """The lengthscale of the kernel, NaN if it has none."""
        return math.nan if self.kernel.lengthscale is None else self.kernel.lengthscale


class Likelihood(NamedTuple):
    """log p(y), and its slopes: ∂ log p = ½⟨by_covariance, ∂Cov(g)⟩ + by_variance ∂(noise²)."""

    value: float
    by_covariance: Matrix  # (n, n)
    by_variance: float


def log_likelihood(observed: Observations, covariance: Matrix, noise: float, *, slopes: bool) -> Likelihood:
    """Return log p(y) for the covariance of g at the observed nodes, (n, n), and its slopes if asked for."""
    merged = observed.merged(noise)
    system = factorize(covariance, merged.variances)
    solved = system.solve(merged.sides)
    products = merged.sides.T @ solved + merged.scatter
    inner, outer = products[1:, 1:], products[1:, 0]
    beta = np.linalg.solve(inner, outer)
    volume = system.log_determinant() + merged.log_volume + float(np.linalg.slogdet(inner)[1])
    n_free = observed.place.size - beta.size
    value = -0.5 * float(products[0, 0] - outer @ beta + volume + n_free * LOG_2PI)
    if not slopes:
        return Likelihood(value, np.empty((0, 0)), math.nan)
    residual, basis = np.append(1.0, -beta), np.linalg.inv(inner)
    inverse = system.inverse()
    full, trace = observed.noise_slope(merged, solved, as_array(inverse.diagonal()))
    by_variance = float(((full @ residual) ** 2).sum() - trace + np.sum((full[:, 1:] @ basis) * full[:, 1:]))
    factors = solved @ residual, solved[:, 1:] @ basis, solved[:, 1:]
    dual, left, right = (like(inverse, factor) for factor in factors)
    inverse *= -1
    inverse += dual[:, None] * dual + left @ right.T
    return Likelihood(value, inverse, 0.5 * by_variance)


class Parameters(NamedTuple):
    """The hyper-parameters that vary: θ holds their logarithms, and f itself."""

    learn: tuple[str, ...]
    start: Hyperparameters

    def theta(self, hyper: Hyperparameters) -> Array:
        """Return θ of some hyper-parameters."""
        parts = [
            hyper.modulation if name == "modulation" else np.log([getattr(hyper, name)])
            for name in self.learn
        ]
        return np.concatenate([np.empty(0), *parts])

    def checked(self, theta: ArrayLike) -> Hyperparameters:
        """Return the hyper-parameters of a θ that a user gave."""
        values = real_array("theta", theta, ndim=1)
        if values.shape != self.theta(self.start).shape:
            rule = f"one number for each of {', '.join(self.learn) or 'nothing'}"
            refuse("theta", rule, Described(f"{values.size} numbers"))
        try:
            hyper = self.hyperparameters(values)
        except OverflowError:
            hyper = None
        positive = [] if hyper is None else [getattr(hyper, one) for one in self.learn if one in LOGARITHMIC]
        if hyper is None or not all(MIN_SCALE <= value <= 1 / MIN_SCALE for value in positive):
            rule = f"logarithms of numbers between {MIN_SCALE:g} and {1 / MIN_SCALE:g}"
            refuse("theta", rule, theta)
        return hyper

    def hyperparameters(self, theta: Array) -> Hyperparameters:
        """Return the hyper-parameters of a θ; the others keep their initial values."""
        found, rest = self.start, np.asarray(theta, dtype=np.float64)
        for name in self.learn:
            if name == "modulation":
                size = self.start.n_terms
                found, rest = replace(found, modulation=rest[:size]), rest[size:]
                continue
            value, rest = math.exp(rest[0]), rest[1:]
            if name == "lengthscale":
                found = replace(found, kernel=self.start.kernel.with_lengthscale(value))
            else:
                changed: dict[str, Any] = {name: value}
                found = replace(found, **changed)
        return found

    def bounds(self, window: tuple[float, float] = NO_WINDOW) -> Array:
        """Return the range of θ for a search from the start, (len(θ), 2), within a window of lengthscales."""
        bounds: list[tuple[float, float]] = []
        for name in self.learn:
            if name == "modulation":
                bounds += [(-math.inf, math.inf)] * self.start.n_terms
                continue
            if name == "lengthscale":
                bounds.append(tuple(np.log(window)))
                continue
            value = float(np.log(getattr(self.start, name)))
            if name == "amplitude":
                bounds.append((value - MAX_LOG_CHANGE, value + MAX_LOG_CHANGE))
            else:
                bounds.append((min(MIN_LOG_NOISE, value), max(MAX_LOG_NOISE, value)))
        return np.array(bounds)


def _by_gram(hyper: Hyperparameters, features: FeatureMatrix, slope: Matrix, covariance: Matrix) -> Matrix:
    """Return the slope in ΦΦᵀ, with Φ before normalization, from the slope in the covariance."""
    if not hyper.normalize:
        return hyper.amplitude**2 * slope
    lengths = row_lengths(features)
    scales = like(slope, hyper.amplitude * hyper.length / lengths)
    of_rows = as_array((slope * covariance).sum(axis=1))
    return plus_diagonal(slope * (scales[:, None] * scales), -(of_rows / lengths**2))


def _sum_of_likelihoods(
    hyper: Hyperparameters, covariance: Matrix, data: Sequence[Observations]
) -> tuple[float, Matrix, dict[str, float]]:
    """Return Σ log p(y) over sets of observations of the same nodes for a²ΦΦᵀ, (n, n), and its slopes.

    They are those in the covariance, (n, n), and in the logarithms of amplitude, noise and nugget.
    """
    whole = hyper.with_nugget(covariance)
    found = [log_likelihood(observed, whole, hyper.noise, slopes=True) for observed in data]
    slope = sum((one.by_covariance for one in found[1:]), found[0].by_covariance)
    by_log = {
        "amplitude": float((slope * covariance).sum()),
        "noise": 2 * hyper.noise**2 * sum(one.by_variance for one in found),
        "nugget": hyper.nugget**2 * float(slope.trace()),
    }
    return sum(one.value for one in found), slope, by_log


def scale_likelihood_at(
    theta: Array, parameters: Parameters, gram: Array, data: Sequence[Observations]
) -> tuple[float, Array]:
    """Return Σ log p(y) and its gradient for a fixed ΦΦᵀ, (n, n), in amplitude, noise and nugget."""
    hyper = parameters.hyperparameters(theta)
    value, _, by_log = _sum_of_likelihoods(hyper, hyper.amplitude**2 * gram, data)
    return value, np.array([by_log[name] for name in parameters.learn])


def likelihood_at(
    theta: Array, parameters: Parameters, features_of: FeaturesOf, data: Sequence[Observations]
) -> tuple[float, Array]:
    """Return Σ log p(y) over sets of observations of the same nodes, and its gradient in θ."""
    hyper = parameters.hyperparameters(theta)
    features = features_of(hyper.weights)
    rows = hyper.rows(features)
    covariance = hyper.amplitude**2 * rows.gram(rows)
    value, slope, by_log = _sum_of_likelihoods(hyper, covariance, data)
    slope_along = directional_slope(_by_gram(hyper, features, slope, covariance), features, hyper.n_terms)

    def df(lengths: NDArray[np.int64]) -> Array:  # ∂f/∂ log lengthscale
        return hyper.kernel.modulation_slope(int(lengths.max()) + 1)[lengths]

    gradient: list[float] = []
    for name in parameters.learn:
        if name == "lengthscale":
            gradient.append(slope_along(features_of(df)))
        elif name == "modulation":
            by_length = by_log["amplitude"] / hyper.length**2 if hyper.normalize else 0.0
            by_term = np.array([slope_along(features_of(unit)) for unit in np.eye(hyper.n_terms)])
            gradient += list(by_term + by_length * np.asarray(hyper.modulation))
        else:
            gradient.append(by_log[name])
    return value, np.array(gradient)
