"""The kernels of the literature, constants included: L means I − M throughout.

Each is the true function, not its normalised series: (I + σ²L)^-d starts with α₀ = (1 + σ²)^-d.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import Described, real_number, refuse, whole_number
from walkernel.kernels import _sequences as sequences
from walkernel.kernels._base import ClosedForm, exponentiated, geometric_product

_positive = partial(real_number, above=0)


def _lengthscale(parameter: str, value: float) -> float:
    """Return a lengthscale whose square is a positive, finite number."""
    number = real_number(parameter, value, above=0)
    if not 1e-100 < number < 1e100:
        refuse(parameter, "between 1e-100 and 1e100", value)
    return number


class ZeroFree(ClosedForm):
    """A kernel that has no zeros, and a parameter that says how wide it is."""

    _width: ClassVar[str] = "sigma"
    """Name of this parameter."""

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return the first ``length`` Taylor coefficients of K(z)^exponent."""
        return self.scaled_power(exponent, length, 1.0)

    def has_root(self) -> bool:
        """Return True, also where α₀ is too small for a float."""
        return True

    @property
    def lengthscale(self) -> float:
        """The parameter that says how wide the kernel is."""
        return float(getattr(self, self._width))

    def with_lengthscale(self, lengthscale: float) -> Self:
        """Return the same kernel, wider or narrower."""
        changed: dict[str, Any] = {self._width: lengthscale}
        return replace(self, **changed)


@dataclass(frozen=True, repr=False)
class Diffusion(ZeroFree):
    """The heat kernel exp(−σ²L/2), i.e. exp(−tL) with t = σ²/2.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.Diffusion(sigma=2.0).coefficients(3).round(4)
    array([0.1353, 0.2707, 0.2707])
    """

    sigma: float = 1.0
    _checks: ClassVar = {"sigma": _lengthscale}

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return e^-s (sβ)ᵏ/k! with s = t·exponent, through logarithms so that no term underflows early."""
        s = self.sigma**2 / 2 * exponent
        logs = np.concatenate([[0.0], np.cumsum(np.log(s) - np.log(np.arange(1, length)))]) - s
        return exponentiated(logs, beta)

    def power_radius(self, exponent: float) -> float:
        """Return infinity: the exponential is entire and has no zeros."""
        return math.inf

    def log_slope(self, exponent: float) -> tuple[float, float]:
        """Return (−2s, 2): the terms are e^-s sᵏ/k! with s = σ²/2 · exponent."""
        return -(self.sigma**2) * exponent, 2.0

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return exp(−t(1 − λ))."""
        return np.exp(self.sigma**2 / 2 * (np.asarray(eigenvalues) - 1.0))


@dataclass(frozen=True, repr=False)
class RegularizedLaplacian(ZeroFree):
    """The d-regularised Laplacian kernel (I + σ²L)^-d, for any real d > 0.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.RegularizedLaplacian(d=2, sigma=1.0).modulation(4)
    array([0.5   , 0.25  , 0.125 , 0.0625])
    """

    d: float = 1
    sigma: float = 1.0
    _checks: ClassVar = {"d": _positive, "sigma": _lengthscale}

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return (1+σ²)^-s (s)_k/k! (cβ)ᵏ with s = d·exponent and c = σ²/(1+σ²), through logarithms."""
        s, k = self.d * exponent, np.arange(1, length)
        ratios = np.log((s + k - 1) / k) - math.log1p(self.sigma**-2)
        logs = np.concatenate([[0.0], np.cumsum(ratios)]) - s * math.log1p(self.sigma**2)
        return exponentiated(logs, beta)

    def power_radius(self, exponent: float) -> float:
        """Return 1 + σ^-2, the pole."""
        return 1 + self.sigma**-2

    def log_slope(self, exponent: float) -> tuple[float, float]:
        """Return (−2sc, 2(1 − c)): the terms are (1 − c)^s (s)_k/k! cᵏ with s = d·exponent."""
        rest = 1 / (1 + self.sigma**2)
        return -2 * self.d * exponent * (1 - rest), 2 * rest

    def resolvent_power(self) -> tuple[float, int] | None:
        """Return (σ⁻², d) for a whole number d."""
        return (self.sigma**-2, int(self.d)) if float(self.d).is_integer() else None

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return (1 + σ²(1 − λ))^-d."""
        return (1 + self.sigma**2 * (1 - np.asarray(eigenvalues))) ** -float(self.d)


@dataclass(frozen=True, repr=False)
class Matern(ZeroFree):
    """The graph Matérn kernel (2ν/κ² I + L)^-ν = (κ²/2ν)^ν · RegularizedLaplacian(d=ν, σ²=κ²/2ν).

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.Matern(nu=1.0, kappa=2.0).coefficients(2).round(4)
    array([0.6667, 0.4444])
    """

    nu: float = 1.5
    kappa: float = 1.0
    _checks: ClassVar = {"nu": _positive, "kappa": _lengthscale}
    _width = "kappa"

    @property
    def _regularized(self) -> RegularizedLaplacian:
        return RegularizedLaplacian(self.nu, self.kappa / math.sqrt(2 * self.nu), matrix=self.matrix)

    @property
    def _scale(self) -> float:
        return float((self.kappa**2 / (2 * self.nu)) ** self.nu)

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the regularised Laplacian's series at ν·exponent, scaled."""
        return self._scale**exponent * self._regularized.scaled_power(exponent, length, beta)

    def power_radius(self, exponent: float) -> float:
        """Return 1 + 2ν/κ², the pole."""
        return self._regularized.power_radius(exponent)

    def log_slope(self, exponent: float) -> tuple[float, float]:
        """Return that of the regularised Laplacian, and 2ν·exponent of the factor (κ²/2ν)^ν."""
        constant, growth = self._regularized.log_slope(exponent)
        return constant + 2 * self.nu * exponent, growth

    def resolvent_power(self) -> tuple[float, int] | None:
        """Return (2ν/κ², ν) for a whole number ν."""
        return self._regularized.resolvent_power()

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return (2ν/κ² + 1 − λ)^-ν."""
        return self._scale * self._regularized.spectrum(eigenvalues)


@dataclass(frozen=True, repr=False)
class PageRank(ClosedForm):
    """The kernel of personalised PageRank, (1 − c)(I − cP)⁻¹ = (1 − c) Σₖ cᵏPᵏ with P = D⁻¹A.

    Row i holds where a walk from node i ends that goes on with probability c at each step: the personalised
    PageRank of i. Where nodes have no out-edges such walks are lost, and the row sums to less than one;
    divided by its sum, it is the answer for walks that return to i from there (``personalized_pagerank``).

    Parameters
    ----------
    damping : float in (0, 1)
        c, the probability to go on.
    matrix : str
        "random-walk" unless said otherwise.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.PageRank(damping=0.5).coefficients(3)
    array([0.5  , 0.25 , 0.125])
    >>> wk.exact_kernel(wk.Graph.from_edges([(0, 1), (1, 2)]), wk.PageRank(0.5)).sum(axis=1).round(12)
    array([1., 1., 1.])
    """

    damping: float = 0.85
    matrix: str = field(default="random-walk", kw_only=True)
    _checks: ClassVar = {"damping": partial(real_number, above=0, below=1)}

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return the first ``length`` Taylor coefficients of K(z)^exponent."""
        return self.scaled_power(exponent, length, 1.0)

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return (1−c)^s (s)_k/k! (cβ)ᵏ with s = exponent."""
        k = np.arange(1, length)
        return geometric_product((1 - self.damping) ** exponent, beta * self.damping * (exponent + k - 1) / k)

    def power_radius(self, exponent: float) -> float:
        """Return 1/c, the pole."""
        return 1 / self.damping

    def has_root(self) -> bool:
        """Return True: the kernel has no zeros."""
        return True

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return (1 − c) / (1 − cλ)."""
        return (1 - self.damping) / (1 - self.damping * np.asarray(eigenvalues))


@dataclass(frozen=True, repr=False)
class PStepRandomWalk(ClosedForm):
    """The p-step random walk kernel (αI − L)^p with α ≥ 2.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.PStepRandomWalk(p=2, alpha=3.0).coefficients(4)
    array([4., 4., 1., 0.])
    """

    p: int = 2
    alpha: float = 2.0
    _checks: ClassVar = {"p": partial(whole_number, minimum=1), "alpha": partial(real_number, minimum=2)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.p * math.log(self.alpha) > 700:
            refuse("alpha ** p", "below 1e304", Described(f"{self.alpha} ** {self.p}"))

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return the first ``length`` Taylor coefficients of K(z)^exponent."""
        return self.scaled_power(exponent, length, 1.0)

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return binom(s, k) (α−1)^(s−k) βᵏ with s = p·exponent."""
        s, k = self.p * exponent, np.arange(1, length)
        return geometric_product((self.alpha - 1) ** s, beta * (s - k + 1) / k / (self.alpha - 1))

    def power_radius(self, exponent: float) -> float:
        """Return α − 1, the zero of the kernel, or infinity where the power is a polynomial."""
        return math.inf if float(self.p * exponent).is_integer() else self.alpha - 1.0

    @property
    def degree(self) -> float:
        """The number of steps."""
        return self.p

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return (α − 1 + λ)^p."""
        return (self.alpha - 1 + np.asarray(eigenvalues)) ** self.p


@dataclass(frozen=True, repr=False)
class InverseCosine(ClosedForm):
    """The inverse cosine kernel cos(π/4 · (I − scale·M)); cos(πL/4) at scale 1.

    At scale 1 its generating function has a zero on the unit circle, so that f_l decays only like
    l^-1.5 and the symmetric pair has infinite variance; the lazy pair is finite. With u = scale·z it is
    sin(π/4 · (1 + u)) = (1 + u) h(u), where h(u) = π/4 · sinc((1 + u)/4) has no zero in ``|u| < 3``:
    roots are the product of a binomial series and the short series of a root of h.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.InverseCosine().coefficients(3).round(4)
    array([ 0.7071,  0.5554, -0.2181])
    """

    scale: float = 1.0
    _checks: ClassVar = {"scale": real_number}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scale == 0:
            refuse("scale", "a number other than 0", self.scale)

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return √½ (π·scale/4)ᵏ/k! with signs + + − −, or the series of (1 + u)^g h(u)^g."""
        k = np.arange(1, length)
        if exponent == 1.0:
            terms = geometric_product(math.sqrt(0.5), np.pi * self.scale / 4 / k)
            return terms * np.where(np.arange(length) // 2 % 2 == 0, 1.0, -1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            root = geometric_product(1.0, self.scale * (exponent - k + 1) / k)
            rest = sequences.power_on_circle(
                lambda u: np.pi / 4 * np.sinc((1 + u) / 4), exponent, min(length, 64), 3.0
            )
            rest *= self.scale ** np.arange(rest.size)
            return sequences.check_finite(np.convolve(root, rest)[:length])

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the series of cos(π/4 · (1 − scale·β·z)) or of its power."""
        if beta == 0:
            return super().scaled_power(exponent, length, beta)
        return InverseCosine(self.scale * beta, matrix=self.matrix).power(exponent, length)

    def power_radius(self, exponent: float) -> float:
        """Return infinity for the cosine itself, ``1/|scale|`` for its roots."""
        return math.inf if float(exponent).is_integer() else 1 / abs(self.scale)

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return cos(π/4 · (1 − scale·λ))."""
        return np.cos(np.pi / 4 * (1 - self.scale * np.asarray(eigenvalues)))
