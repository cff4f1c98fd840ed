"""The kernels of the literature, constants included: L means I − M throughout.

Each is the true function, not its normalized series: (I + σ²L)^-d starts with α₀ = (1 + σ²)^-d.
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
        """Return the same kernel, wider or narrower.

        Parameters
        ----------
        lengthscale : float
            The new width, positive: σ, or κ of a Matérn kernel.

        Returns
        -------
        Kernel
            A new kernel; this one stays as it is.
        """
        changed: dict[str, Any] = {self._width: lengthscale}
        return replace(self, **changed)


@dataclass(frozen=True, repr=False)
class Diffusion(ZeroFree):
    r"""The diffusion (heat) kernel: how heat has spread from node to node after a time σ²/2.

    .. math::

        K &= e^{-\frac{\sigma^2}{2} L}, \qquad L = I - M, \\
        \alpha_k &= e^{-t} \, \frac{t^k}{k!}, \quad t = \frac{\sigma^2}{2}

    It is the smoothest of the kernels: use it for quantities that change little from a node to the next. Its
    walks have a Poisson number of steps, of mean t.

    Parameters
    ----------
    sigma : float
        The width σ, in hops: the root mean square distance from a node, weighted by its row of K, is σ/√2 on
        a path and on a grid. On a square grid K is close to a normal density of standard deviation σ/2 in
        each direction. With "combinatorial" both are shorter by √(d/d_max), d being the degree of the nodes
        around. Increase σ for signals that vary over longer distances; the Gaussian processes of this package
        learn it.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M; see :class:`~walkernel.Kernel`. With "combinatorial", L = (D − A) / d_max:
        exp(−t(D − A)), whose steady states are constants, is
        ``Diffusion(sqrt(2 * t * d_max), matrix="combinatorial")``.

    See Also
    --------
    Matern : Rougher functions, with the same unit of width.
    solve_ode : Heat equations with sources.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.Diffusion(sigma=2.0).coefficients(3).round(4)
    array([0.1353, 0.2707, 0.2707])
    >>> path = wk.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    >>> wk.exact_kernel(path, wk.Diffusion(sigma=1.0))[0].round(3)
    array([0.645, 0.221, 0.028, 0.003])
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
        """Return the eigenvalues exp(−σ²(1 − λ)/2) of the kernel.

        Parameters
        ----------
        eigenvalues : array of float or complex
            Eigenvalues λ of M.

        Returns
        -------
        ndarray
            K(λ), of the shape of ``eigenvalues``.
        """
        return np.exp(self.sigma**2 / 2 * (np.asarray(eigenvalues) - 1.0))


@dataclass(frozen=True, repr=False)
class RegularizedLaplacian(ZeroFree):
    r"""The regularized Laplacian kernel: the resolvent of the graph Laplacian, to a power d > 0.

    .. math::

        K &= (I + \sigma^2 L)^{-d}, \qquad L = I - M, \\
        \alpha_k &= (1 - c)^d \binom{d + k - 1}{k} c^k, \quad c = \frac{\sigma^2}{1 + \sigma^2}

    With d = 1 it is the resolvent of the graph, whose value at a node is the discounted sum over all walks.
    Walks have a negative binomial number of steps, of mean dσ².

    Parameters
    ----------
    d : float
        The order, positive. Larger ones give smoother functions; 1 gives a sharp peak at each node and a long
        tail.
    sigma : float
        The width σ, in hops, of one factor (I + σ²L)⁻¹: walks have dσ² steps on average, and the root mean
        square distance from a node, weighted by its row of K, is σ√d on a path and on a grid. Increase it for
        signals that vary over longer distances; Gaussian processes learn it.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M; see :class:`~walkernel.Kernel`. For "adjacency" the series diverges unless σ is small
        enough for the spectral radius of the graph, and is then refused.

    See Also
    --------
    Matern : The same family, with a width that does not depend on the order.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.RegularizedLaplacian(d=2, sigma=1.0).modulation(4)
    array([0.5   , 0.25  , 0.125 , 0.0625])
    >>> wk.exact_kernel(wk.Graph.from_edges([(0, 1)]), wk.RegularizedLaplacian(d=1, sigma=1.0)).round(3)
    array([[0.667, 0.333],
           [0.333, 0.667]])
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
        """Return the eigenvalues (1 + σ²(1 − λ))^-d of the kernel.

        Parameters
        ----------
        eigenvalues : array of float or complex
            Eigenvalues λ of M.

        Returns
        -------
        ndarray
            K(λ), of the shape of ``eigenvalues``.
        """
        return (1 + self.sigma**2 * (1 - np.asarray(eigenvalues))) ** -float(self.d)


@dataclass(frozen=True, repr=False)
class Matern(ZeroFree):
    r"""The graph Matérn kernel: wide or narrow as diffusion is, with a smoothness ν to choose.

    .. math:: K = \left(\frac{2\nu}{\kappa^2} I + L\right)^{-\nu}
        = \left(\frac{\kappa^2}{2\nu}\right)^{\nu} \left(I + \frac{\kappa^2}{2\nu} L\right)^{-\nu},
        \qquad L = I - M

    It is a multiple of ``RegularizedLaplacian(d=nu, sigma=kappa / sqrt(2 * nu))``, and for large ν it has the
    shape of ``Diffusion(kappa)``. Its factor is that of the literature: estimators with ``normalize=True``
    divide by it.

    Parameters
    ----------
    nu : float
        The smoothness ν, positive: 1/2 to 3/2 for rough quantities or ones with sharp borders, larger values
        for smooth ones. Whole numbers have sparse inverses, which make Gaussian processes on roads, grids and
        meshes fast.
    kappa : float
        The width κ, in hops, in the unit of σ of ``Diffusion``: walks have κ²/2 steps on average, and the
        root mean square distance from a node, weighted by its row of K, is κ/√2 on a path and on a grid.
        Increase it for signals that vary over longer distances; Gaussian processes learn it.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M; see :class:`~walkernel.Kernel`. "combinatorial" suits roads, grids and meshes.

    See Also
    --------
    Diffusion : The limit of large ν.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.Matern(nu=1.0, kappa=2.0).coefficients(2).round(4)
    array([0.6667, 0.4444])
    >>> wk.Matern(nu=1.5, kappa=4.0).with_lengthscale(8.0)
    Matern(nu=1.5, kappa=8.0)
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
        """Return the regularized Laplacian's series at ν·exponent, scaled."""
        return self._scale**exponent * self._regularized.scaled_power(exponent, length, beta)

    def power_radius(self, exponent: float) -> float:
        """Return 1 + 2ν/κ², the pole."""
        return self._regularized.power_radius(exponent)

    def log_slope(self, exponent: float) -> tuple[float, float]:
        """Return that of the regularized Laplacian, and 2ν·exponent of the factor (κ²/2ν)^ν."""
        constant, growth = self._regularized.log_slope(exponent)
        return constant + 2 * self.nu * exponent, growth

    def resolvent_power(self) -> tuple[float, int] | None:
        """Return (2ν/κ², ν) for a whole number ν."""
        return self._regularized.resolvent_power()

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return the eigenvalues (2ν/κ² + 1 − λ)^-ν of the kernel.

        Parameters
        ----------
        eigenvalues : array of float or complex
            Eigenvalues λ of M.

        Returns
        -------
        ndarray
            K(λ), of the shape of ``eigenvalues``.
        """
        return self._scale * self._regularized.spectrum(eigenvalues)


@dataclass(frozen=True, repr=False)
class PageRank(ClosedForm):
    r"""The kernel of personalised PageRank: where walks end that stop with probability 1 − c at each node.

    .. math:: K = (1 - c) (I - cM)^{-1} = (1 - c) \sum_{k=0}^{\infty} c^k M^k, \qquad M = D^{-1} A

    Row i is the distribution of the end of a walk from node i: the personalised PageRank of i. Where nodes
    have no out-edges such walks are lost, and the row sums to less than one; divided by its sum, it is the
    answer for walks that return to i from there (``personalized_pagerank``).

    Parameters
    ----------
    damping : float in (0, 1)
        c, the probability to take another step: walks have c / (1 − c) steps on average, 5.7 by default.
        Decrease it to stay closer to the node; values near 1 approach a ranking that is the same for all
        nodes.
    matrix : {"random-walk", "normalized", "adjacency", "combinatorial"}
        The matrix M, D⁻¹A unless said otherwise. "normalized" gives a symmetric kernel, which is a
        covariance.

    See Also
    --------
    personalized_pagerank : The distribution of one or several seeds, by products with the matrix.
    nearest : The nodes of the largest values, without looking at the whole graph.

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
        """Return the eigenvalues (1 − c) / (1 − cλ) of the kernel.

        Parameters
        ----------
        eigenvalues : array of float or complex
            Eigenvalues λ of the matrix.

        Returns
        -------
        ndarray
            K(λ), of the shape of ``eigenvalues``.
        """
        return (1 - self.damping) / (1 - self.damping * np.asarray(eigenvalues))


@dataclass(frozen=True, repr=False)
class PStepRandomWalk(ClosedForm):
    r"""The p-step random walk kernel: what is reached in at most p steps, and nothing beyond.

    .. math::

        K &= (\alpha I - L)^p = \left((\alpha - 1) I + M\right)^p, \\
        \alpha_k &= \binom{p}{k} (\alpha - 1)^{p - k}, \quad k \le p

    Each of the p steps stays where it is with weight α − 1 and moves along an edge with weight 1. Values
    between nodes that are more than p hops apart are exactly zero.

    Parameters
    ----------
    p : int
        Number of steps, at least 1. Increase it to reach farther.
    alpha : float
        α, at least 2, without a unit: of p steps about p/α move. Larger values keep more weight at the node
        itself. With an odd p, α = 2 has no symmetric modulation function of finite variance; take an even p
        or α > 2.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M; see :class:`~walkernel.Kernel`.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.PStepRandomWalk(p=2, alpha=3.0).coefficients(4)
    array([4., 4., 1., 0.])
    >>> wk.PStepRandomWalk(p=2, alpha=3.0).modulation(3)
    array([2., 1., 0.])
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
        """Return the eigenvalues (α − 1 + λ)^p of the kernel.

        Parameters
        ----------
        eigenvalues : array of float or complex
            Eigenvalues λ of M.

        Returns
        -------
        ndarray
            K(λ), of the shape of ``eigenvalues``.
        """
        return (self.alpha - 1 + np.asarray(eigenvalues)) ** self.p


@dataclass(frozen=True, repr=False)
class InverseCosine(ClosedForm):
    r"""The inverse cosine kernel, whose eigenvalues fall slowly from smooth to rough functions.

    .. math:: K = \cos\left(\frac{\pi}{4} (I - sM)\right), \qquad s = \text{scale};
        \qquad s = 1:\; K = \cos\frac{\pi L}{4}

    At scale 1 its generating function has a zero on the unit circle, so that f_l decays only like l^-1.5 and
    the symmetric pair has infinite variance; ``estimate_kernel`` then takes the lazy pair, which is finite.

    Parameters
    ----------
    scale : float
        The factor s of the matrix, not 0, without a unit. Values below 1 make the kernel narrower, and give
        the symmetric pair a finite variance.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M; see :class:`~walkernel.Kernel`.

    Notes
    -----
    With u = scale · z the kernel is sin(π/4 · (1 + u)) = (1 + u) h(u), where h(u) = π/4 · sinc((1 + u)/4) has
    no zero in ``|u| < 3``: roots are the product of a binomial series and the short series of a root of h.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.InverseCosine().coefficients(3).round(4)
    array([ 0.7071,  0.5554, -0.2181])
    >>> wk.InverseCosine().spectrum([-1.0, 0.0, 1.0]).round(4)
    array([0.    , 0.7071, 1.    ])
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
        """Return the eigenvalues cos(π/4 · (1 − scale·λ)) of the kernel.

        Parameters
        ----------
        eigenvalues : array of float or complex
            Eigenvalues λ of M.

        Returns
        -------
        ndarray
            K(λ), of the shape of ``eigenvalues``.
        """
        return np.cos(np.pi / 4 * (1 - self.scale * np.asarray(eigenvalues)))
