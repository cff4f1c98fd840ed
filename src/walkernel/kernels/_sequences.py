"""Power series as sequences of Taylor coefficients: powers, quotients, zeros.

The modulation function f of a kernel with coefficients α solves f * f = α (Theorem 2.2): it is the
series of √K. The recursion of that theorem is unstable in float64: for exp(−tL) at t = 30 it is off by
fifteen orders of magnitude, while f * f = α still holds. Two stable routes are used instead:

* ``power`` runs the recursion for K^g in decimal arithmetic, with as many digits as it takes;
* ``power_on_circle`` evaluates K^g on circles about 0 and transforms back (Cauchy's formula).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import real_array, refuse, whole_number

Function = Callable[[NDArray[np.complex128]], NDArray[np.complex128]]

EPSILON = float(np.finfo(np.float64).eps)
AGREEMENT = 1e-14
MAX_POINTS = 2**17
MAX_EVEN_POINTS = 2**12
"""Points of a circle that are tried before it is cut into arcs."""
MAX_FINE_POINTS = 2**20
"""Points of a circle near a singularity."""
LARGEST_RADIUS = 2.0**20
SMALLEST_RADIUS = 2.0**-20
CLOSEST = 1e-10
"""Relative distance of a singularity from the unit circle that is told from none."""
WORST_ERROR = 1e-9
"""Error of a coefficient, relative to the largest, that is not accepted any more."""
ARCS, SHORTEST_ARC = 128, 1e-11
"""Arcs of a circle to begin with, and half the angle of the shortest."""
RESOLVED = 1e-13
"""What may be left of a function that is resolved, relative to its size."""
FREQUENCIES = (*range(1, 65), *(2**j for j in range(7, 32)))
"""Negative frequencies that a function must not have."""
WIDEST_TURN = 4.0
"""Half the phase of a frequency that an arc resolves."""
NODES, WEIGHTS = np.polynomial.legendre.leggauss(16)
LEGENDRE = np.polynomial.legendre.legvander(NODES, 15) * WEIGHTS[:, None] * (np.arange(16) + 0.5)
"""What gives the coefficients of Legendre polynomials from values at the nodes, (16, 16)."""
FIRST_END, LAST_END = LEGENDRE @ (-1.0) ** np.arange(16), LEGENDRE.sum(axis=1)
"""What gives the values at the ends of an arc, (16,) each."""


def convolve(a: ArrayLike, b: ArrayLike, length: int) -> NDArray[np.float64]:
    r"""Return the first terms of the convolution of two sequences.

    .. math:: (a * b)_k = \sum_{p=0}^{k} a_p b_{k-p}

    Parameters
    ----------
    a : array of float, (n,)
        The first sequence, zero beyond its end.
    b : array of float, (m,)
        The second sequence, zero beyond its end.
    length : int
        Number of terms to return.

    Returns
    -------
    ndarray of float64, (length,)
        The terms 0 … length − 1.

    See Also
    --------
    deconvolve : The inverse operation.

    Examples
    --------
    >>> from walkernel.kernels import convolve
    >>> convolve([1.0, 1.0], [1.0, 1.0], 4)
    array([1., 2., 1., 0.])
    """
    length = whole_number("length", length, 1)
    full = np.convolve(check_sequence("a", a)[:length], check_sequence("b", b)[:length])
    return fit_length(full, length)


def check_sequence(parameter: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return a list of at least one real number as an array."""
    array = real_array(parameter, values, ndim=1)
    if array.size == 0:
        refuse(parameter, "a non-empty list", values)
    return array


def fit_length(sequence: NDArray[np.float64], length: int) -> NDArray[np.float64]:
    """Cut a sequence to ``length``, or extend it by zeros."""
    result = np.zeros(length)
    result[: min(length, sequence.size)] = sequence[:length]
    return result


def deconvolve(
    coefficients: ArrayLike, modulation: ArrayLike, length: int | None = None
) -> NDArray[np.float64]:
    r"""Return the other half of an asymmetric pair of modulation functions: f₁ with f₁ * f₂ = α.

    .. math:: \sum_{p=0}^{k} f_1(p) f_2(k - p) = \alpha_k

    Walks weighted by f₁ on one side and by f₂ on the other estimate the kernel of coefficients α (Theorem 2.1
    of the paper).

    Parameters
    ----------
    coefficients : array of float, (n,)
        α₀, α₁, …, zero beyond the end.
    modulation : array of float, (m,)
        f₂, zero beyond the end; f₂(0) must not be zero.
    length : int, optional
        Number of terms of f₁; n if not given. Increase it where f₁ does not end with α.

    Returns
    -------
    ndarray of float64, (length,)
        The terms of f₁.

    Raises
    ------
    ValueError
        If f₂(0) is zero, or the sequences contain numbers that are not finite.

    See Also
    --------
    convolve : The inverse operation.

    Examples
    --------
    >>> from walkernel.kernels import deconvolve
    >>> deconvolve([1.0, 2.0, 1.0], [1.0, 1.0])
    array([1., 1., 0.])
    """
    alpha = check_sequence("coefficients", coefficients)
    divisor = check_sequence("modulation", modulation)
    if divisor[0] == 0:
        rule = "a sequence that starts with a number other than zero"
        refuse("modulation", rule, modulation, "Choose f₂ with f₂(0) ≠ 0.")
    n = alpha.size if length is None else whole_number("length", length, 1)
    return _with_enough_digits(lambda: _divide(_decimals(alpha), _decimals(divisor), n))


def power(coefficients: ArrayLike, exponent: float, length: int) -> NDArray[np.float64]:
    """Return the first ``length`` coefficients of (Σ αₖ zᵏ)^g for α₀ > 0, exact for the given α.

    J. C. P. Miller's recurrence, from K f' = g K' f:  k α₀ f_k = Σ_{j=1}^k ((g + 1) j − k) α_j f_{k−j}.
    """
    alpha = np.trim_zeros(np.asarray(coefficients, dtype=np.float64), "b")[:length]
    if alpha.size == 0 or alpha[0] <= 0:
        raise ValueError(no_root(alpha[0] if alpha.size else 0.0))
    return _with_enough_digits(lambda: _power_decimals(_decimals(alpha), Decimal(exponent), length))


def no_root(first: float) -> str:
    """Word the refusal of a symmetric modulation for α₀ ≤ 0."""
    return (
        f"The symmetric modulation needs a positive α₀, got {first:g}: no real f has f * f = α. "
        "Use pair='lazy', which takes f₁ = α and f₂ = (1, 0, 0, …)."
    )


def power_on_circle(function: Function, exponent: float, length: int, radius: float) -> NDArray[np.float64]:
    """Return the first ``length`` Taylor coefficients of K(z)^g, K analytic, not zero in |z| < radius.

    Each coefficient is taken from the circle that gives it best: on |z| = r the k-th has an absolute
    error of (rounding + aliasing) / r^k, both read off the circle's values. Coefficients that are
    smaller than their error are zero; a series that no circle resolves is refused.
    """
    best = np.zeros(length)
    error = np.full(length, np.inf)
    edge = min(radius, LARGEST_RADIUS)
    for r, most_points in _circles(edge, length):
        samples = _power_samples(function, exponent, length, r, most_points)
        if samples is None:
            continue
        values, rounding = samples
        spectrum = np.fft.fft(values) / values.size
        half = values.size // 2
        aliasing = _aliasing(spectrum)
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            scale = np.exp(-np.arange(length) * math.log(r))
            found = fit_length(spectrum.real[:half], length) * scale
            floor = (rounding + aliasing) * scale
        better = floor < error
        best[better], error[better] = found[better], floor[better]
    if np.isinf(error).all():
        raise ValueError("The function could not be evaluated on any circle about 0: its values overflow.")
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        sizes = np.exp(np.arange(length) * math.log(min(1.0, edge)))
        unresolved = np.flatnonzero(error * sizes > WORST_ERROR * np.nanmax(np.abs(best) * sizes))
    if unresolved.size:
        raise ValueError(
            f"Taylor coefficients from number {unresolved[0]} on cannot be told from values of the function, "
            f"which is singular at about |z| = {edge:.12g}. Ask for fewer terms, or use a kernel with a "
            "closed form, such as RegularizedLaplacian."
        )
    best[~(np.abs(best) > error)] = 0.0
    return best


def zero_free_radius(function: Function, analytic_radius: float) -> float:
    """Return the largest r, to 1e-6 relative, such that K has no zero in |z| < r.

    K(0) must be positive. By the argument principle the curve K(|z| = r) winds round 0 once for each
    zero inside; a winding number of 0 and no zero on the circle is the test.
    """
    low, high = SMALLEST_RADIUS, min(LARGEST_RADIUS, analytic_radius * (1 - CLOSEST))
    while high > low and not _usable(_on_circle(function, high, 64)):
        high /= 2
    if winding_number(function, high) == 0:
        return math.inf if math.isinf(analytic_radius) else high
    return _bisect(low, high, 1e-6, lambda r: winding_number(function, r) == 0)


def winding_number(function: Function, radius: float) -> int | None:
    """Return how often K(|z| = radius) winds round 0, or None if it passes through 0 or cannot be told."""
    arcs = _resolve(function, radius, turns=True)
    if arcs is None:
        return None
    values = arcs.values.ravel()
    if np.abs(values).min() == 0:
        return None
    steps = _phase_steps(values)
    return round(float(steps.sum()) / (2 * math.pi)) if np.abs(steps).max() < math.pi / 2 else None


def analytic_radius(function: Function) -> float:
    """Return a radius, at most LARGEST_RADIUS, within which a function is seen to be analytic.

    The largest circle on which it is seen to be the boundary value of an analytic function is found by
    bisection, to 1e-4 relative, and closer about the unit circle. 0.0 if there is none, infinity if only
    overflow ends the search.
    """
    low = next((r for r in (1.0, 0.5, 0.25, 2.0**-6, SMALLEST_RADIUS) if _is_analytic(function, r)), 0.0)
    if low == 0.0:
        return 0.0
    high = 2 * low
    while high <= LARGEST_RADIUS and _is_analytic(function, high):
        low, high = high, 2 * high
    if high > LARGEST_RADIUS or _overflows(function, high):
        return math.inf
    return _bisect(low, high, 1e-4, lambda r: _is_analytic(function, r))


def _bisect(low: float, high: float, precision: float, holds: Callable[[float], bool]) -> float:
    """Return where a property ends that holds at ``low`` and not at ``high``, seen from inside.

    The spectral radius of a normalized matrix is one: whether the end is beyond it is told more precisely.
    """
    while high > low * (1 + (CLOSEST if low <= 1.0 < high else precision)):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _overflows(function: Function, radius: float) -> bool:
    """Tell whether the values are too large on an arc, not just near a pole."""
    return bool(np.mean(~(np.abs(_on_circle(function, radius, 256)) < 1e300)) > 0.1)


class Arcs(NamedTuple):
    """Values of a function at the Gauss–Legendre nodes of arcs that make up a circle, in order."""

    points: NDArray[np.complex128]  # (arcs, nodes)
    values: NDArray[np.complex128]
    halves: NDArray[np.float64]  # (arcs,): half the angle of each
    slopes: NDArray[np.float64]  # (arcs,): the largest of each


def _resolve(function: Function, radius: float, *, turns: bool = False) -> Arcs | None:
    """Halve arcs of a circle until a polynomial of the angle is the function on each; None if that fails.

    A pole at a distance d from the circle takes some log 1/d arcs, where evenly spaced points would have to
    be 1/d. With ``turns`` the phase also turns by less than π/4 between neighbouring nodes and ends. What may
    be left is rounding: of the values, and of the points that they are taken at.
    """
    middles = (np.arange(ARCS) + 0.5) * (2 * math.pi / ARCS)
    half, size = math.pi / ARCS, 0.0
    found: list[tuple[NDArray[np.float64], Arcs]] = []
    n_points = 0
    while middles.size:
        n_points += middles.size * NODES.size
        if n_points > MAX_POINTS or half < SHORTEST_ARC:
            return None
        points = radius * np.exp(1j * middles)[:, None] * np.exp(1j * half * NODES)
        with np.errstate(all="ignore"):
            values = np.asarray(function(points.ravel()), dtype=np.complex128).reshape(points.shape)
        if not _usable(values):
            return None
        size = size or float(np.abs(values).mean())
        with np.errstate(over="ignore"):
            slopes = np.abs(np.diff(values, axis=1) / np.diff(points, axis=1)).max(axis=1)
        if not np.isfinite(slopes).all():
            return None
        errors = RESOLVED * (size + np.abs(values).max(axis=1)) + 8 * EPSILON * radius * slopes
        rest = np.abs(values @ LEGENDRE[:, 14:]).max(axis=1)
        done = rest <= errors
        if turns:
            closed = np.column_stack([values @ FIRST_END, values, values @ LAST_END])
            turned = np.angle(np.exp(1j * np.diff(np.angle(closed), axis=1)))
            done &= np.abs(turned).max(axis=1) < math.pi / 4
        found.append(
            (middles[done], Arcs(points[done], values[done], np.full(done.sum(), half), slopes[done]))
        )
        half /= 2
        middles = (middles[~done, None] + half * np.array([-1.0, 1.0])).ravel()
    order = np.argsort(np.concatenate([angles for angles, _ in found]))
    parts = zip(*(arcs for _, arcs in found), strict=True)
    return Arcs(*(np.concatenate(part)[order] for part in parts))


def _is_analytic(function: Function, radius: float) -> bool:
    """Tell whether a function is smooth on a circle and its values there are those of one analytic inside.

    Then it has no negative frequencies. Evenly spaced points show all frequencies, unless a singularity is
    so close to the circle that it takes too many of them.
    """
    n_points = 256
    while n_points <= MAX_POINTS:
        values = _on_circle(function, radius, n_points)
        if not _usable(values):
            return False
        spectrum, least = np.abs(np.fft.fft(values)) / n_points, RESOLVED * np.abs(values).max()
        half, part = n_points // 2, n_points // 8
        if spectrum[half - part :].max() <= least:
            return True
        if n_points >= MAX_EVEN_POINTS and spectrum[half - part : half + part].max() > least:
            arcs = _resolve(function, radius)
            return arcs is not None and _has_no_negative_frequencies(arcs, radius)
        n_points *= 2
    return False


def _has_no_negative_frequencies(arcs: Arcs, radius: float) -> bool:
    """Tell whether ∮ f(z) zⁿ dz = 0 for some n, but for rounding of the values and of the points.

    A singularity inside at a distance d from the circle shows at n up to 1/d; where n is too large for an
    arc, the arc may contribute anything.
    """
    weights = arcs.halves[:, None] * WEIGHTS
    steps, angles = arcs.values * weights, np.angle(arcs.points)
    sizes = np.abs(steps).sum(axis=1)
    total = float(sizes.sum())
    shifts = arcs.halves * arcs.slopes  # of whole arcs, by the rounding of their points
    largest = float(shifts.max())
    random = 2 * EPSILON * radius * largest * float(np.linalg.norm(shifts / (largest or 1.0)))
    for n in FREQUENCIES:
        found = abs(np.sum(steps * np.exp(1j * n * angles)))
        rounding = 4 * ((2 * RESOLVED + n * EPSILON) * total + random)
        if found > rounding + sizes[n * arcs.halves > WIDEST_TURN].sum():
            return False
    return True


def _on_circle(function: Function, radius: float, n_points: int) -> NDArray[np.complex128]:
    points = radius * np.exp(2j * np.pi * np.arange(n_points) / n_points)
    with np.errstate(all="ignore"):
        return np.asarray(function(points), dtype=np.complex128)


def _phase_steps(values: NDArray[np.complex128]) -> NDArray[np.float64]:
    """Return the turn from each value to the next, in (−π, π], round the whole circle."""
    phase = np.angle(values)
    return np.angle(np.exp(1j * (np.roll(phase, -1) - phase)))


def _usable(values: NDArray[np.complex128]) -> bool:
    """Tell whether sums of the values stay finite."""
    return bool(np.abs(values).max() < 1e300)


def _circles(edge: float, length: int) -> list[tuple[float, int]]:
    """Circles in the disc, and how many points they may take.

    There are some near the edge, the unit circle, and four to each doubling. Late coefficients are on those
    so near the edge that r^length is not small, which take the most points.
    """
    fine = [(edge * math.exp(-share / length), MAX_FINE_POINTS) for share in (0.25, 1.0, 4.0)]
    near = [edge * part for part in (0.99, 0.97, 0.93)] + [1.0] * (edge > 1.0)
    n_circles = max(8, math.ceil(4 * math.log2(edge / SMALLEST_RADIUS)))
    return fine + [(r, MAX_POINTS) for r in near + [edge * 2.0 ** (-j / 4) for j in range(1, n_circles)]]


def _aliasing(spectrum: NDArray[np.complex128]) -> float:
    """Return what the frequencies at the end of a spectrum say of those beyond it."""
    half = spectrum.size // 2
    return 2 * float(np.abs(spectrum[half : half + half // 2]).max())


def _power_samples(
    function: Function, exponent: float, length: int, radius: float, most_points: int
) -> tuple[NDArray[np.complex128], float] | None:
    """Return K(z)^g on the circle and its rounding error, with points enough for ``length`` terms.

    The logarithm must be continuous: between neighbouring points the phase of K may turn by less than π/2.
    Points are added until what they leave out is rounding, or there are no more.
    """
    n_points = max(1024, 2 ** math.ceil(math.log2(4 * length)))
    limit, found = max(most_points, n_points), None
    while n_points <= limit:
        values = _on_circle(function, radius, n_points)
        if not _usable(values):
            return None
        if exponent == 1.0:
            found = values, 4 * EPSILON * float(np.abs(values).max())
        elif np.abs(values).min() == 0:
            return None
        elif np.abs(_phase_steps(values)).max() < math.pi / 2:
            logs = exponent * (np.log(np.abs(values)) + 1j * np.unwrap(np.angle(values)))
            powers = np.exp(logs)
            found = powers, EPSILON * float((np.abs(powers) * (4 + np.abs(logs))).max())
        if found is not None and (
            most_points < MAX_FINE_POINTS or _aliasing(np.fft.fft(found[0]) / n_points) <= found[1]
        ):
            return found
        n_points *= 2
    return found


def _with_enough_digits(compute: Callable[[], Sequence[Decimal]]) -> NDArray[np.float64]:
    """Run a decimal computation with more and more digits until its result stands still."""
    digits, previous = 50, None
    while True:
        with localcontext() as context:
            context.prec, context.Emin, context.Emax = digits, -999999, 999999
            result = check_finite(np.array([float(x) for x in compute()]))
        if previous is not None and np.abs(result - previous).max() <= AGREEMENT * np.abs(result).max():
            return result
        digits, previous = 2 * digits, result


def check_finite(terms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the terms of a series, and refuse any that overflow."""
    if not np.isfinite(terms).all():
        raise ValueError(
            "The terms of this series overflow: its first coefficient is too small beside the others."
        )
    return terms


def _decimals(values: NDArray[np.float64]) -> list[Decimal]:
    return [Decimal(float(value)) for value in values]


def _power_decimals(alpha: list[Decimal], exponent: Decimal, length: int) -> list[Decimal]:
    rounded = [+a for a in alpha]
    result = [rounded[0] ** exponent]
    for k in range(1, length):
        top = min(k, len(rounded) - 1)
        total = sum(((exponent + 1) * j - k) * rounded[j] * result[k - j] for j in range(1, top + 1))
        result.append(total / (k * rounded[0]))
    return result


def _divide(alpha: list[Decimal], divisor: list[Decimal], length: int) -> list[Decimal]:
    result: list[Decimal] = []
    for k in range(length):
        top = min(k, len(divisor) - 1)
        known = sum((divisor[j] * result[k - j] for j in range(1, top + 1)), Decimal(0))
        result.append(((alpha[k] if k < len(alpha) else Decimal(0)) - known) / divisor[0])
    return result
