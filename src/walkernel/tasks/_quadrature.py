"""Rules for ∫₀ᵗ exp(G(t−τ)) y(τ) dτ: where the source is looked at, and with what weight."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, real_array, refuse

FEWEST_POINTS = 4
MOST_POINTS = 256
Source = Callable[[float], NDArray[np.float64]]


class Rule(NamedTuple):
    """Times τ and weights, both (n_points,)."""

    times: NDArray[np.float64]
    weights: NDArray[np.float64]


def gauss_legendre(start: float, stop: float, n_points: int) -> Rule:
    """Return the Gauss–Legendre rule on an interval."""
    nodes, weights = np.polynomial.legendre.leggauss(n_points)
    half = (stop - start) / 2
    return Rule(start + half * (nodes + 1), half * weights)


def suited_points(source: Source | None, start: float, stop: float, speed: float, tol: float) -> int:
    """Return how many Gauss–Legendre points an interval needs; ``source`` is None for a constant one.

    They must integrate e^(−speed · τ), the fastest mode of G, to ``tol``. For a source that changes
    with time the number is doubled until ∫ y(τ) dτ agrees with half as many points to ``tol``.
    """
    n, length = FEWEST_POINTS, stop - start
    exact = -np.expm1(-speed * length) / speed

    def misses(n: int) -> bool:
        times, weights = gauss_legendre(0.0, length, n)
        return bool(abs(weights @ np.exp(-speed * times) - exact) > tol * exact)

    while n < MOST_POINTS and misses(n):
        n *= 2
    if source is None:
        return n
    coarse = _integral(source, start, stop, n)
    while True:
        fine = _integral(source, start, stop, 2 * n)
        change = np.linalg.norm(fine - coarse) / max(float(np.linalg.norm(fine)), np.finfo(float).tiny)
        if change <= tol:
            return n
        if 2 * n >= MOST_POINTS:
            warnings.warn(
                f"solve_ode: the integral of the source changes by {change:.1e} from {n} to {2 * n} points: "
                "it is rough in time. Give n_points, or solve from jump to jump with initial=.",
                stacklevel=3,
            )
            return 2 * n
        n, coarse = 2 * n, fine


def _integral(source: Source, start: float, stop: float, n_points: int) -> NDArray[np.float64]:
    rule = gauss_legendre(start, stop, n_points)
    return np.asarray(sum(w * source(t) for t, w in zip(*rule, strict=True)))


def monte_carlo(stop: float, n_points: int, density: Any, seed: int) -> Rule:
    """Return n_points times drawn from a density on [0, stop], with weights 1/(n p(τ)) (Sec. 3.2)."""
    generator = np.random.Generator(np.random.Philox(key=seed))
    if density is None:
        return Rule(stop * generator.random(n_points), np.full(n_points, stop / n_points))
    if not (hasattr(density, "rvs") and hasattr(density, "pdf")):
        remedy = "scipy.stats has many, for example scipy.stats.uniform(0, 1)."
        refuse(
            "solve_ode", "density", "a distribution with rvs and pdf, or None for uniform", density, remedy
        )
    if hasattr(density, "support"):
        low, high = density.support()
        if low > 0 or high < stop:
            got = Described(f"one on {low:g} to {high:g}")
            refuse("solve_ode", "density", f"positive from 0 to the last t ({stop:g})", got)
    times = _sample("density.rvs()", density.rvs(size=n_points, random_state=generator), n_points)
    if times.min() < 0 or times.max() > stop:
        outside = Described(f"a time {times[(times < 0) | (times > stop)][0]:.3g}")
        refuse("solve_ode", "density", f"on the interval from 0 to the last t ({stop:g})", outside)
    chances = _sample("density.pdf()", density.pdf(times), n_points)
    if (chances <= 0).any():
        refuse("solve_ode", "density.pdf()", "positive at times that were drawn", float(chances.min()))
    return Rule(times, 1 / (n_points * chances))


def _sample(name: str, values: Any, n_points: int) -> NDArray[np.float64]:
    array = real_array("solve_ode", name, values, ndim=1)
    if array.size != n_points:
        refuse("solve_ode", name, f"of length {n_points}", Described(f"length {array.size}"))
    return array
