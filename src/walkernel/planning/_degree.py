"""The polynomial in M that is within a tolerance of a kernel: how many sparse products K @ v takes.

Symmetric M: the Chebyshev series of the spectrum on an interval that is known to hold all eigenvalues.
Directed graphs: the Taylor series, cut where a bound on the rest is below the tolerance.

The random-walk matrix of an undirected graph is similar to the normalized one, P = D^-½ W̃ D^½, and has its
eigenvalues, so that a Chebyshev series serves, but its error is bounded in the norm ‖D^½ v‖. In the maximum
norm that error may be √(Σ_i d_i / min d_i) times as large, so that the series is longer by the logarithm of
it; where degrees are so uneven that rounding would be enlarged beyond the tolerance, the Taylor series
serves, which enlarges nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.fft
from numpy.typing import NDArray

from walkernel._checks import Described, refuse
from walkernel._door import warn
from walkernel.features import adjacency_bound, find_series, spectral_radius
from walkernel.graph import Graph
from walkernel.kernels import Kernel

MAX_TERMS = 2**22
"""Terms of the longest polynomial."""
MAX_ROUNDING, LOUD_ROUNDING = 1e-3, 1e-8
"""Errors by rounding above which a polynomial is refused, and is used with a warning."""
MIN_CHEBYSHEV_TOL = 8 * float(np.finfo(np.float64).eps)
"""Least error of a Chebyshev series, relative to the largest value of the kernel, above its rounding."""

MAX_SERIES_REST = 1e-9
"""What may be left of a Taylor series before it is cut, relative to its sum; more would count as missing."""


class Polynomial(NamedTuple):
    """Σ_k c_k p_k(M / unit) with Chebyshev polynomials or powers p_k."""

    unit: float
    coefficients: NDArray[np.float64]
    tol: float
    """Its certified error, relative to the largest value of the kernel."""
    is_chebyshev: bool

    @property
    def n_products(self) -> int:
        """Sparse products that K @ v takes."""
        return self.coefficients.size - 1


def suited_polynomial(graph: Graph, kernel: Kernel, tol: float) -> Polynomial:
    """Return the shortest polynomial that is within ``tol`` of a kernel, as far as rounding allows.

    Entries of M are rounded to ε. Where the kernel is so steep that this alone changes it by more than
    ``tol``, the polynomial is as exact as that; a warning says so where hardly eight digits are left.
    """
    check_rounding(graph, kernel, tol)
    found = find_polynomial(graph, kernel, tol)
    if found is None:
        remedy = "Use a larger tol, or a narrower kernel."
        refuse("tol", f"within reach of a polynomial of degree {MAX_TERMS}", tol, remedy)
    return found


def check_rounding(graph: Graph, kernel: Kernel, tol: float = 0.0) -> None:
    """Refuse a kernel of which the rounding of M leaves no digits; warn where it leaves hardly eight."""
    rounding = _rounding(graph, kernel)
    if not rounding <= MAX_ROUNDING:
        refuse(
            "kernel", "one that the rounding of M to 16 digits leaves intact",
            Described(f"{kernel}, which it changes by {rounding:.1g} of its maximum"), "Use a narrower one.",
        )  # fmt: skip
    if rounding > max(tol, LOUD_ROUNDING):
        warn(
            f"{kernel} is so wide that rounding the entries of M changes it by {rounding:.1g} of "
            "its maximum, which is the error here."
        )


def find_polynomial(graph: Graph, kernel: Kernel, tol: float) -> Polynomial | None:
    """Return the shortest polynomial that is as near to a kernel as ``tol`` and rounding allow, if any is."""
    rounding = _rounding(graph, kernel)
    if not rounding <= MAX_ROUNDING:
        return None
    tol = max(tol, rounding)
    if graph.directed:
        return _taylor(graph, kernel, tol)
    unevenness = 1.0 if graph.is_symmetric(kernel.matrix) else _unevenness(graph)
    terms = None
    if unevenness == 1.0 or tol / unevenness >= MIN_CHEBYSHEV_TOL:
        radius = spectral_radius(graph, kernel.matrix) or 1.0
        terms = chebyshev_terms(lambda x: np.real(kernel.spectrum(x)), radius, tol / unevenness)
    if terms is not None:
        return Polynomial(radius, terms, tol, is_chebyshev=True)
    return None if graph.is_symmetric(kernel.matrix) else _taylor(graph, kernel, tol)


def _unevenness(graph: Graph) -> float:
    """Return √(Σ_i d_i / min d_i), what an error in ‖D^½ v‖ may be enlarged by in the maximum norm."""
    degrees = graph.out_degrees()
    least = degrees.min(initial=np.inf, where=degrees > 0)
    return 1.0 if least == np.inf else float(np.sqrt(degrees.sum()) / np.sqrt(least))


def _rounding(graph: Graph, kernel: Kernel) -> float:
    """Return how much the kernel changes, relative to its maximum, where eigenvalues are off by rounding."""
    radius = spectral_radius(graph, kernel.matrix) or 1.0
    ends = np.array([radius, -radius])
    with np.errstate(all="ignore"):
        values = np.real(kernel.spectrum(ends))
        moved = np.real(kernel.spectrum(ends * (1 - 4 * np.finfo(float).eps)))
        largest = np.abs(values).max()
        return float(np.abs(values - moved).max() / largest) if 0 < largest < np.inf else 0.0


def chebyshev_terms(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    radius: float,
    tol: float,
    max_terms: int = MAX_TERMS,
) -> NDArray[np.float64] | None:
    """Return Chebyshev coefficients of K on [−radius, radius], cut where the rest sums to less than tol.

    Points resolve the function if the second half of the coefficients is small, and if the sum is right at
    the ends of the interval, which no point lies on: a kernel that is analytic in a disc can be narrow only
    there. The result is None if more than ``max_terms`` would be needed.
    """
    ends = function(np.array([radius, -radius]))
    n = 64
    while n <= 2 * max_terms:
        points = np.cos(np.pi * (np.arange(n) + 0.5) / n)
        values = function(radius * points)
        terms = scipy.fft.dct(values) / n
        terms[0] /= 2
        rest = np.cumsum(np.abs(terms[::-1]))[::-1]
        limit = tol * np.abs(values).max()
        off = np.abs([terms.sum() - ends[0], terms[::2].sum() - terms[1::2].sum() - ends[1]]).max()
        if rest[n // 2] <= limit / 2 and off <= 2 * limit:
            count = max(1, int(np.argmax(rest <= limit)))
            return np.asarray(terms[:count]) if count <= max_terms else None
        rounding = n * np.finfo(float).eps * np.abs(values).max()
        if max(rest[n // 2], off / 2) <= rounding:  # which more points only add to
            return None
        n *= 2
    return None


def _taylor(graph: Graph, kernel: Kernel, tol: float) -> Polynomial | None:
    """Return the Taylor polynomial, cut where Σ |αₖ| ‖Mᵏ‖ over the rest is below tol times the whole sum."""
    base, condition = 1.0, 1.0
    if kernel.matrix == "adjacency":
        bound = adjacency_bound(graph)
        base, condition = bound.upper or 1.0, float(bound.vector.max() / bound.vector.min())
    series = find_series(kernel, 1.0, base, min(tol / condition / 4, MAX_SERIES_REST))
    rest = np.cumsum(series.sizes[::-1])[::-1]
    limit = tol * rest[0] / condition
    if series.missing > 0 or rest[rest.size // 2] > limit / 2:
        return None
    terms = series.terms[: max(1, int(np.argmax(rest <= limit)))]
    return Polynomial(base, terms, tol, is_chebyshev=False)
