"""Finite variance, and series that are long enough, of a modulation function on a graph.

* Walks whose length law decays like (1−p)ᵏ have finite variance if R_f² > ρ(Q₀) / (1−p), where R_f is the
  radius of convergence of Σ f_l zˡ and Q₀ has entries M²/P.
* No sequence is cut off silently. Σ_{k<n} f_k zᵏ is compared with the function it is the series of,
  K(z)^(1/2l), at points of the circle |z| = √ρ(Q₀): what is missing lies beyond n. Walks serve a sequence if
  at most ``UNSERVED`` of Σ |f_k| |z|ᵏ lies beyond the longest series that can be had.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import InfiniteVarianceWarning
from walkernel._door import warn
from walkernel.features._convergence import spectral_bound, spectral_radius
from walkernel.features._weights import Pair
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.walks import Sampler, matched_survival, step_law

RARE = 1e-6
SHORT_SERIES = 2**14
"""Terms of a series that diverges, of which only the first few count."""
ROUNDING = 1e-9
"""Share of a sum that is taken for rounding."""
UNSERVED = 1e-6
"""Largest share of Σ |f_k| that may lie beyond the longest walk."""
ANGLES = 2 * np.pi * np.concatenate([[0.0, 0.5], np.arange(1, 7) * 0.6180339887498949 % 1.0])
"""Where series are compared with the functions they belong to."""
LARGEST_SUM = 1e250
"""Sum of sizes above which products with loads may overflow."""


def second_moment_radius(
    graph: Graph, transition: str, matrix: str, directions: Iterable[bool] = (False,)
) -> float:
    """Return an upper bound on ρ(Q₀) of the walks on M and, for True among the directions, on Mᵀ."""
    turned = {direction and not graph.is_symmetric(matrix) for direction in directions}
    return max(_second_moment_radius(graph, transition, matrix, direction) for direction in turned)


def _second_moment_radius(graph: Graph, transition: str, matrix: str, transpose: bool) -> float:
    is_known = matrix == "normalized" or (matrix == "random-walk" and not (graph.directed and transpose))
    if is_known and (transition == "weights" or graph.weights is None):
        return 1.0

    def bound() -> float:
        found = spectral_bound(step_law(graph, matrix, transition, transpose).second_moments()).upper
        return max(found, 1.0) if matrix == "random-walk" else found  # as for the other direction

    return graph.derived(("second_moment_radius", matrix, transition, transpose), bound)


def largest_norm(graph: Graph, kernel: Kernel) -> float:
    """Return a bound on the norm of each row of K, and so on its entries; infinity where none is known.

    It is one on the spectral norm, or for the random-walk matrix, whose rows sum to at most one, on the
    maximum norm.
    """
    if graph.is_symmetric(kernel.matrix):
        radius = spectral_radius(graph, kernel.matrix) or 1.0
        points = radius * np.cos(np.linspace(0, np.pi, 2001))
        with np.errstate(all="ignore"):
            return float(np.abs(np.real(kernel.spectrum(points))).max())
    if kernel.matrix not in ("normalized", "random-walk"):
        return math.inf
    series = find_series(kernel, 1.0, 1.0, UNSERVED)
    return float(series.sizes.sum() + series.missing)


class Modulated(NamedTuple):
    """Weights of walks on a graph: what is known of f where loads grow like ρ(Q₀)^(l/2)."""

    graph: Graph
    weights: Pair
    directions: tuple[bool, ...]
    """For each side that walks, whether it walks Mᵀ."""

    @classmethod
    def of(cls, graph: Graph, weights: Pair) -> Modulated:
        """Return those of both sides."""
        return cls(graph, weights, weights.directions)

    @property
    def kernel(self) -> Kernel:
        """The kernel that is estimated."""
        return self.weights.kernel

    @property
    def name(self) -> str:
        """What a warning calls it."""
        stitches = self.weights.stitches
        stitched = f", stitched from {stitches} factors," if stitches > 1 else ""
        return f"The {self.weights.pair} pair of {self.kernel}{stitched}"

    @property
    def root(self) -> str:
        """What Σ f_l zˡ is to a symmetric pair."""
        return "√K" if self.weights.stitches == 1 else f"K^(1/{2 * self.weights.stitches})"

    @property
    def radius(self) -> float:
        """Radius of convergence of Σ f_l zˡ."""
        return self.weights.radius

    def growth(self, transition: str) -> float:
        """Return an upper bound on ρ(Q₀)."""
        return second_moment_radius(self.graph, transition, self.kernel.matrix, self.directions)

    def largest_p_halt(self, transition: str = "weights") -> float:
        """Return the p_halt below which the variance is finite; not positive if there is none."""
        if math.isinf(self.radius):
            return 1.0
        return 1.0 - self.growth(transition) / self.radius**2 if self.radius > 0 else -math.inf

    def sizes(self, transition: str, rest: float = 1e-6) -> NDArray[np.float64]:
        """Return |f_l| ρ(Q₀)^(l/2) up to where at most ``rest`` of the sum is left, if that is possible."""
        return self._series(transition, rest).sizes

    def beyond(self, transition: str = "weights") -> float:
        """Return the share of Σ |f_l| ρ(Q₀)^(l/2) beyond the longest series that can be computed."""
        series = self._series(transition, UNSERVED)
        with np.errstate(invalid="ignore"):  # NaN where the function is beyond all numbers
            return series.missing / (series.sizes.sum() + series.missing)

    @property
    def is_served(self) -> bool:
        """Whether walks can be as long as the sequence."""
        return self.beyond() <= UNSERVED

    def _series(self, transition: str, rest: float) -> Series:
        root = math.sqrt(self.growth(transition))  # 0 where there is no edge, or where squares underflow
        radius = root or spectral_radius(self.graph, self.kernel.matrix) or 1.0
        return find_series(self.kernel, self.weights.exponent, radius, rest)


class Series(NamedTuple):
    """The first terms of a power series at some radius."""

    terms: NDArray[np.float64]
    missing: float
    """What their sum lacks of the function, at most, at points of the circle."""

    @property
    def sizes(self) -> NDArray[np.float64]:
        """The absolute values of the terms."""
        return np.abs(self.terms)


def find_series(kernel: Kernel, exponent: float, radius: float, rest: float) -> Series:
    """Return the coefficients of K(radius · z)^exponent up to where at most ``rest`` of their sum is left.

    The number of terms is doubled until both their sizes and the function itself tell that little is left, or
    until there are as many as can be computed.
    """
    return kernel.remembered(
        ("series", exponent, radius, rest), lambda: _find_series(kernel, exponent, radius, rest)
    )


def _find_series(kernel: Kernel, exponent: float, radius: float, rest: float) -> Series:
    scaled = kernel if radius == 1.0 else kernel.scaled(radius)
    converges = radius < (kernel.radius if exponent == 1.0 else kernel.power_radius(exponent))
    longest = kernel.max_length(exponent) if converges else SHORT_SERIES
    n = 128
    while True:
        terms = (
            scaled.coefficients(n)
            if exponent == 1.0
            else scaled.modulation(n, stitches=round(0.5 / exponent))
        )
        sizes = np.abs(terms)
        total = sizes.sum()
        if not total < LARGEST_SUM:
            return Series(terms, math.nan)
        if n >= longest or (total > 0 and sizes[n // 2 :].sum() <= rest * total):
            missing = _missing(scaled, exponent, terms)
            if n >= longest or missing <= max(rest, ROUNDING) * total:
                return Series(terms, 0.0 if missing <= ROUNDING * total else missing)
        n *= 2


def _missing(kernel: Kernel, exponent: float, terms: NDArray[np.float64]) -> float:
    """Return by how much |Σ f_k zᵏ| differs from |K(z)|^exponent on the unit circle, at most.

    For a sequence without negative terms that is what lies beyond its end, at z = 1.
    """
    with np.errstate(all="ignore"):
        wanted = np.abs(kernel.spectrum(np.exp(1j * ANGLES))) ** exponent
        found = [abs(np.exp(1j * angle * np.arange(terms.size)) @ terms) for angle in ANGLES]
        return float(np.abs(wanted - found).max())


def warn_of_infinite_variance(modulated: Modulated, sampler: Sampler) -> None:
    """Warn if the walks are too short for the sequence, in theory or in practice."""
    if message := lack_of_variance(modulated, sampler):
        warn(message, InfiniteVarianceWarning)


def lack_of_variance(modulated: Modulated, sampler: Sampler) -> str:
    """Say why walks are too short for the sequence, in theory or in practice; "" if they are not."""
    limit = modulated.largest_p_halt(sampler.transition)
    if 1 - sampler.ratio >= limit and sampler.ratio > 0:
        longer = f"p_halt below {limit:.3g}" if limit > 0 else ""
        return (
            f"{modulated.name} has infinite variance with {sampler}: it decays too slowly for walks that "
            f"short. {_remedy(modulated, longer)}"
        )
    sizes = modulated.sizes(sampler.transition)
    beyond = modulated.beyond(sampler.transition)
    unseen = beyond + (1 - beyond) * sizes[sampler.reach(RARE) :].sum() / sizes.sum() if sizes.any() else 1.0
    if not unseen <= 1e-3:  # NaN where the sizes are beyond all numbers
        longer = "a smaller p_halt" if sampler.ratio > 0 else ""
        return (
            f"{modulated.name} has a variance that is infinite in practice with {sampler}: "
            f"{100 * unseen:.3g} % of it lies at lengths that fewer than one walk in a million reaches. "
            f"{_remedy(modulated, longer)}"
        )
    if sampler.ratio == 0 and (excess := _excess(sizes, sampler.survival())) > 100:
        return (
            f"{modulated.name} has {excess:.0f} times the variance with {sampler} that matched walks have "
            f"for the same number of steps. {_remedy(modulated)}"
        )
    return ""


def _remedy(modulated: Modulated, longer: str = "") -> str:
    """Say which walks have a finite variance, or what serves where a symmetric pair has none with any."""
    if modulated.largest_p_halt() > 0:
        return f"Use {longer}{' or ' if longer else ''}sampler=choose_sampler(graph, kernel)."
    return "Use estimate_kernel with pair='lazy', polynomial_operator, or a narrower kernel."


def _excess(sizes: NDArray[np.float64], survival: NDArray[np.float64]) -> float:
    """Return variance times steps under a law, relative to the matched one."""
    sizes = sizes / sizes.max()
    weights = sizes * np.cumsum(sizes[::-1])[::-1]

    def cost(law: NDArray[np.float64]) -> float:
        n = min(law.size, sizes.size)
        return float((weights[:n] / law[:n]).sum() * law[1:].sum())

    return cost(survival) / cost(matched_survival(sizes))
