"""Quadrature rules for ∫₀ᵗ exp(G(t−τ)) y(τ) dτ: times at which the source is evaluated, and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, real_array, refuse
from walkernel._door import warn

MIN_POINTS = 4
MAX_POINTS = 1024
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


def choose_n_points(source: Source | None, start: float, stop: float, speed: float, tol: float) -> int:
    """Return the number of Gauss–Legendre points for an interval; ``source`` is None if it is constant.

    The rule must integrate e^(−speed · τ), the fastest mode of G, to ``tol``. For a source y that changes
    with time the number is doubled until some moments of y agree with those of half as many points, relative
    to ∫‖y‖ dτ.
    """
    n, length = MIN_POINTS, stop - start
    exact = -np.expm1(-speed * length) / speed

    def error(n: int) -> float:
        times, weights = gauss_legendre(0.0, length, n)
        return float(abs(weights @ np.exp(-speed * times) - exact) / exact)

    while n < MAX_POINTS and error(n) > tol:
        n *= 2
    if source is None:
        change = error(n)
    else:
        coarse, _ = _moments(source, start, stop, speed, n)
        while True:
            fine, size = _moments(source, start, stop, speed, 2 * n)
            change = float(np.linalg.norm(fine - coarse, axis=1).max()) / size
            if change <= tol or 2 * n >= MAX_POINTS:
                break
            n, coarse = 2 * n, fine
    if change > tol:
        warn(
            f"{n} points of quadrature leave an error of {change:.1e} in the integral over the "
            "source. Use more n_points or intermediate times t, at the jumps of a discontinuous source."
        )
    return n


def _moments(
    source: Source, start: float, stop: float, speed: float, n_points: int
) -> tuple[NDArray[np.float64], float]:
    """Return ∫ p y dτ for p = 1, τ, e^(−speed · (stop−τ)), which symmetry does not cancel, and ∫‖y‖ dτ."""
    times, weights = gauss_legendre(start, stop, n_points)
    place = (times - start) / (stop - start)
    tests = np.array([np.ones(n_points), place, np.exp(-speed * (stop - times))]) * weights
    values = [source(float(time)) for time in times]
    sums = np.array([sum(w * y for w, y in zip(test, values, strict=True)) for test in tests])
    size = sum(w * float(np.linalg.norm(y)) for w, y in zip(weights, values, strict=True))
    return sums, max(size, np.finfo(float).tiny)


def monte_carlo(stop: float, n_points: int, density: Any, seed: int) -> Rule:
    """Return n_points times drawn from a density on [0, stop], with weights 1/(n p(τ)) (Sec. 3.2)."""
    generator = np.random.Generator(np.random.Philox(key=seed))
    if density is None:
        return Rule(stop * generator.random(n_points), np.full(n_points, stop / n_points))
    if not (hasattr(density, "rvs") and hasattr(density, "pdf")):
        remedy = "scipy.stats has many, for example scipy.stats.uniform(0, 1)."
        refuse("density", "a distribution with rvs and pdf, or None for uniform", density, remedy)
    if hasattr(density, "support") and not np.allclose(density.support(), (0.0, stop), rtol=1e-9, atol=0):
        got = Described("one from {:g} to {:g}".format(*density.support()))
        refuse("density", f"one from 0 to the last t ({stop:g})", got)
    times = _sample("density.rvs()", density.rvs(size=n_points, random_state=generator), n_points)
    if times.min() < 0 or times.max() > stop:
        outside = Described(f"a time {times[(times < 0) | (times > stop)][0]:.3g}")
        refuse("density", f"one from 0 to the last t ({stop:g})", outside)
    chances = _sample("density.pdf()", density.pdf(times), n_points)
    if (chances <= 0).any():
        refuse("density.pdf()", "positive at times that were drawn", float(chances.min()))
    return Rule(times, 1 / (n_points * chances))


def _sample(name: str, values: Any, n_points: int) -> NDArray[np.float64]:
    array = real_array(name, values, ndim=1)
    if array.size != n_points:
        refuse(name, f"of length {n_points}", Described(f"length {array.size}"))
    return array
