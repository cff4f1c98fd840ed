"""What a kernel is: an analytic function K(M) = Σₖ αₖ Mᵏ of a graph's matrix, without the graph.

A kernel is a small frozen value. A new one needs two methods, ``coefficients`` and ``spectrum``;
modulation functions, pairs, radii of convergence and arithmetic are derived. One with a closed form
for its powers K^g gives ``power`` and ``power_radius`` instead (``ClosedForm``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import MATRICES, check_instance, one_of, real_number, refuse, whole_number
from walkernel.kernels import _sequences as sequences

T = TypeVar("T")
NO_TERMS = np.empty(0)
LONGEST_CLOSED, LONGEST_NUMERICAL = 2**20, 2**14
"""Terms of series that have a closed form, and of those that are found numerically."""


@dataclass(frozen=True, repr=False)
class Kernel(ABC):
    r"""An analytic function K(M) of a matrix of a graph; the base class of all kernels.

    .. math:: K(M) = \sum_{k=0}^{\infty} \alpha_k M^k

    A kernel is a small immutable value that knows no graph. ``K1 + K2``, ``c * K`` and ``K1 * K2`` (the
    matrix product) are kernels again. A subclass gives ``coefficients`` and ``spectrum``; all other methods
    are derived from these two.

    Parameters have names, as scikit-learn's searches address them. Unlike scikit-learn's estimators a kernel
    is a value: ``set_params`` returns another kernel, and a clone is the object itself. The estimators of
    this package replace their kernel, so that a search over ``kernel__sigma`` changes no other estimator that
    has the same kernel.

    Parameters
    ----------
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M, whose entries ``Graph.to_scipy`` describes. "normalized" suits graphs of uneven degrees;
        "combinatorial" roads, grids and meshes; "random-walk" gives probabilities of a walker instead of
        covariances; "adjacency" is for kernels that are defined by A itself, whose series may diverge.

    See Also
    --------
    PowerSeries.from_function : A kernel from a function, without a class of its own.

    Examples
    --------
    >>> import walkernel as wk
    >>> kernel = wk.Diffusion(sigma=1.0) + 0.5 * wk.Matern(nu=1.5, kappa=4.0)
    >>> kernel.spectrum([1.0, 0.5, 0.0]).round(3)
    array([7.158, 1.656, 0.993])
    >>> kernel.matrix
    'normalized'
    """

    __array_ufunc__ = None  # so that array * kernel is refused by the kernel

    matrix: str = field(default="normalized", kw_only=True)
    _checks: ClassVar[Mapping[str, Callable[[str, Any], Any]]] = {}
    """Functions of name and value that return a parameter's valid value or refuse it."""

    def __post_init__(self) -> None:
        one_of("matrix", self.matrix, MATRICES)
        for name, check in self._checks.items():
            object.__setattr__(self, name, check(name, getattr(self, name)))

    def __repr__(self) -> str:
        """Show the parameters, and the matrix where it is not the default of the class."""
        shown = [f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.name != "matrix"]
        shown += [
            f"matrix={self.matrix!r}" for f in fields(self) if f.name == "matrix" and self.matrix != f.default
        ]
        return f"{type(self).__name__}({', '.join(shown)})"

    @abstractmethod
    def coefficients(self, length: int) -> NDArray[np.float64]:
        """Return the first Taylor coefficients α₀, α₁, … of K.

        Parameters
        ----------
        length : int
            Number of coefficients, at least 1.

        Returns
        -------
        ndarray of float64, (length,)
            The coefficients, α₀ first.
        """

    @abstractmethod
    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return the eigenvalues K(λ) of the kernel for eigenvalues λ of M.

        Parameters
        ----------
        eigenvalues : array of float or complex
            Eigenvalues of M, of any shape. Those of the normalized matrix are between −1 and 1.

        Returns
        -------
        ndarray
            K(λ), of the shape of ``eigenvalues``.
        """

    def modulation(self, length: int, *, stitches: int = 1) -> NDArray[np.float64]:
        r"""Return the modulation function f with f * f = α, by which walks are weighted.

        .. math:: \sum_{l=0}^{k} f_l f_{k-l} = \alpha_k, \qquad \sum_l f_l z^l = K(z)^{1/2}

        Parameters
        ----------
        length : int
            Number of values, at least 1.
        stitches : int
            Number l of factors that the kernel is the product of: f is then the series of K^(1/2l), and α is
            the convolution of 2l copies of it. 1 unless an operator is stitched.

        Returns
        -------
        ndarray of float64, (length,)
            The values f₀, f₁, … of f.

        Raises
        ------
        ValueError
            If α₀ ≤ 0, so that there is no real f. ``estimate_kernel(pair="lazy")`` needs none.

        Examples
        --------
        >>> import numpy as np, walkernel as wk
        >>> f = wk.Diffusion(sigma=1.0).modulation(4)
        >>> np.allclose(np.convolve(f, f)[:4], wk.Diffusion(sigma=1.0).coefficients(4))
        True
        """
        whole_number("length", length, 1)
        if not self.has_root():
            raise ValueError(f"{self}: {sequences.no_root(float(np.real(self.spectrum(0.0))))}")
        exponent = 0.5 / whole_number("stitches", stitches, 1)
        memory = self.__dict__.setdefault("_memory", {})
        if memory.get(exponent, NO_TERMS).size < length:
            memory[exponent] = self.power(exponent, length)
        return memory[exponent][:length].copy()

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return the Taylor coefficients of a power of the kernel.

        Parameters
        ----------
        exponent : float
            g, the exponent of K(z)^g: 1 for the kernel, 1/2 for its modulation function.
        length : int
            Number of coefficients.

        Returns
        -------
        ndarray of float64, (length,)
            The coefficients, that of z⁰ first.
        """
        if exponent == 1.0:
            return self.coefficients(length)
        return sequences.power_on_circle(self.spectrum, exponent, length, self.power_radius(exponent))

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the Taylor coefficients of K(βz)^g: βᵏ times those of K(z)^g.

        Where terms may be too small or too large for a float before β is applied, kernels apply it inside.

        Parameters
        ----------
        exponent : float
            The exponent g.
        length : int
            Number of coefficients.
        beta : float
            The factor β of the matrix.

        Returns
        -------
        ndarray of float64, (length,)
            The coefficients, that of z⁰ first.
        """
        if beta == 0:
            return self.power(exponent, length) * (np.arange(length) == 0)
        radius = self.power_radius(exponent) / abs(beta)
        return sequences.power_on_circle(lambda z: self.spectrum(beta * z), exponent, length, radius)

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients of a power of the kernel can be computed in some seconds.

        Parameters
        ----------
        exponent : float
            The exponent of the power.

        Returns
        -------
        int
            The number of coefficients.
        """
        return LONGEST_CLOSED if exponent == 1.0 else LONGEST_NUMERICAL

    def has_root(self) -> bool:
        """Tell whether α₀ > 0, so that a real f with f * f = α exists as a formal series.

        Returns
        -------
        bool
            Whether there is a modulation function.
        """
        return float(np.real(self.spectrum(0.0))) > 0

    @property
    def radius(self) -> float:
        """Radius of convergence of Σ αₖ zᵏ (a lower bound where it is found numerically)."""
        return self.remembered("analytic", lambda: sequences.analytic_radius(self.spectrum))

    @property
    def degree(self) -> float:
        """Degree of a polynomial kernel, infinity for a series."""
        return math.inf

    def power_radius(self, exponent: float) -> float:
        """Return the radius of convergence of the series of a power: the first singularity or zero of K.

        Parameters
        ----------
        exponent : float
            The exponent of the power.

        Returns
        -------
        float
            The radius, which may be infinite.
        """
        if exponent == 1.0:
            return self.radius
        return self.remembered("zero-free", lambda: sequences.zero_free_radius(self.spectrum, self.radius))

    @property
    def lengthscale(self) -> float | None:
        """The parameter that says how wide the kernel is; None for one that has no such parameter."""
        return None

    def with_lengthscale(self, lengthscale: float) -> Kernel:
        """Return the same kernel, wider or narrower.

        Parameters
        ----------
        lengthscale : float
            The new value of the parameter that ``lengthscale`` returns; larger values give wider kernels.

        Returns
        -------
        Kernel
            A new kernel; this one stays as it is.

        Raises
        ------
        ValueError
            If the kernel has no lengthscale; ``scaled`` serves all kernels.
        """
        refuse("kernel", "one with a lengthscale", self, "Use kernel.scaled(beta).")

    def resolvent_power(self) -> tuple[float, int] | None:
        """Return (s, p) if K is a multiple of (sI + L)^-p with a whole number p; None for other kernels.

        The inverse of such a kernel is as sparse as Lᵖ, L = I − M.

        Returns
        -------
        tuple of float and int, or None
            The shift s and the power p.
        """
        return None

    def log_slope(self, exponent: float) -> tuple[float, float]:
        """Return how the coefficients change with the lengthscale, as (a, b): the slopes are a + b·k.

        That is ∂ log α_k / ∂ log lengthscale = a + b·k, since coefficient k of every kernel that has a
        lengthscale is A(lengthscale) · r(lengthscale)ᵏ times a number. Gaussian processes learn the
        lengthscale of a kernel of your own that gives ``lengthscale``, ``with_lengthscale`` and this method.

        Parameters
        ----------
        exponent : float
            The exponent g; the coefficients are those of K(z)^g: 1 for the kernel, 1/2 for f.

        Returns
        -------
        a, b : float
            The constants, at this lengthscale.

        Raises
        ------
        ValueError
            If the kernel has no lengthscale.

        Examples
        --------
        >>> import numpy as np, walkernel as wk
        >>> a, b = wk.Diffusion(2.0).log_slope(1.0)
        >>> narrow, wide = (wk.Diffusion(2.0 * factor).coefficients(5) for factor in (0.99999, 1.00001))
        >>> np.allclose(np.log(wide / narrow) / np.log(1.00001 / 0.99999), a + b * np.arange(5))
        True
        """
        refuse("kernel", "one with a lengthscale", self)

    def modulation_slope(self, length: int) -> NDArray[np.float64]:
        """Return the derivative of the modulation function by the logarithm of the lengthscale.

        Parameters
        ----------
        length : int
            Number of values.

        Returns
        -------
        ndarray of float64, (length,)
            ∂f_l / ∂ log lengthscale for l = 0 … length − 1.
        """
        constant, growth = self.log_slope(0.5)
        return (constant + growth * np.arange(length)) * self.modulation(length)

    def is_positive_semidefinite(self, interval: tuple[float, float] | None = None) -> bool:
        """Tell whether K(λ) ≥ 0 on an interval that contains the eigenvalues of a symmetric M.

        Covariances have to be positive semidefinite: Gaussian processes and ridge regression refuse other
        kernels.

        Parameters
        ----------
        interval : pair of float, optional
            The ends of the interval. The default, [−1, 1], contains the eigenvalues of the normalized and the
            combinatorial matrix of every graph, and those of the random-walk matrix, which is similar to the
            normalized one. Eigenvalues of adjacency matrices have no such bound, so that it must be given
            there.

        Returns
        -------
        bool
            Whether K is positive semidefinite, to rounding, at 2001 points of the interval.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Diffusion(3.0).is_positive_semidefinite()
        True
        >>> wk.PowerSeries([0.0, 1.0]).is_positive_semidefinite()  # M itself has negative eigenvalues
        False
        """
        if interval is None:
            if self.matrix == "adjacency":
                remedy = "Give the range of the graph's eigenvalues."
                refuse("interval", "given for an adjacency matrix", None, remedy)
            interval = (-1.0, 1.0)
        if np.shape(interval) != (2,):
            refuse("interval", "a pair of numbers", interval)
        low, high = (real_number("interval", end) for end in interval)
        points = (low + high) / 2 + (high - low) / 2 * np.cos(np.linspace(0, np.pi, 2001))
        values = np.real(self.spectrum(points))
        return bool(values.min() >= -1e-12 * np.abs(values).max())

    def scaled(self, beta: float) -> Kernel:
        """Return the kernel K(βM): α_k becomes βᵏ α_k, and f_k becomes βᵏ f_k.

        Parameters
        ----------
        beta : float
            The factor β: below 1 it makes a kernel narrower. For the adjacency matrix, one over the spectral
            radius makes every series converge that does so for the normalized matrix.

        Returns
        -------
        Kernel
            A function of the same matrix.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.PageRank(damping=0.5).scaled(0.5).coefficients(3)
        array([0.5    , 0.125  , 0.03125])
        """
        from walkernel.kernels._algebra import Scaled

        return Scaled(self, real_number("beta", beta), matrix=self.matrix)

    def __add__(self, other: Kernel) -> Kernel:
        from walkernel.kernels._algebra import Sum

        self._check_same_matrix(other)
        return Sum(self, other, matrix=self.matrix)

    def __mul__(self, other: Kernel | float) -> Kernel:
        from walkernel.kernels._algebra import Multiple, Product

        if not isinstance(other, Kernel):
            return Multiple(self, real_number("factor", other), matrix=self.matrix)
        self._check_same_matrix(other)
        return Product(self, other, matrix=self.matrix)

    __rmul__ = __mul__

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            Whether to return the parameters of parts too, under names such as ``left__sigma``.

        Returns
        -------
        dict
            Values by name.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Diffusion(2.0).get_params()
        {'matrix': 'normalized', 'sigma': 2.0}
        """
        names = [field.name for field in fields(self) if field.init]
        own = {name: getattr(self, name) for name in names}
        of_parts = {
            f"{name}__{inner}": value
            for name, part in own.items()
            if deep and isinstance(part, Kernel)
            for inner, value in part.get_params().items()
        }
        return own | of_parts

    def set_params(self, **params: Any) -> Self:
        """Return the same kernel with other parameters, and leave this one as it is.

        Parameters
        ----------
        **params : object
            New values by name; ``left__sigma=2.0`` is for a part. Parts have the matrix of the whole.

        Returns
        -------
        Kernel
            A new kernel.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Diffusion(2.0).set_params(sigma=3.0)
        Diffusion(sigma=3.0)
        >>> (wk.Diffusion(2.0) + wk.Matern()).set_params(left__sigma=3.0).left
        Diffusion(sigma=3.0)
        """
        new = self.get_params(deep=False)
        of_parts: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            first, _, rest = name.partition("__")
            one_of("the name of a parameter", first, new)
            if rest:
                of_parts.setdefault(first, {})[rest] = value
            else:
                new[first] = value
        for name, part in new.items():
            asked = of_parts.get(name, {})
            if asked and not isinstance(part, Kernel):
                refuse(name, "a kernel, to have parameters of its own", part)
            if isinstance(part, Kernel):
                asked = {"matrix": new["matrix"]} | asked if "matrix" in params else asked
                new[name] = part = part.set_params(**asked) if asked else part
                if part.matrix != new["matrix"]:
                    rule = f"that of the whole, {new['matrix']!r}"
                    refuse(f"{name}.matrix", rule, part.matrix, "Set matrix for all parts at once.")
        return type(self)(**new)

    def __sklearn_clone__(self) -> Self:
        return self

    def remembered(self, key: object, compute: Callable[[], T]) -> T:
        """Return a result that is asked for with every walk sample, computed once for this object."""
        memory = self.__dict__.setdefault("_memory", {})
        if key not in memory:
            memory[key] = compute()
        return memory[key]  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_memory"}

    def _check_same_matrix(self, other: Kernel) -> None:
        check_instance("the other side", other, Kernel)
        if other.matrix != self.matrix:
            refuse("matrix", f"the same on both sides ({self.matrix!r})", other.matrix)


class ClosedForm(Kernel):
    """A kernel whose powers have a closed form."""

    @abstractmethod
    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return the first ``length`` Taylor coefficients of K(z)^exponent."""

    @abstractmethod
    def power_radius(self, exponent: float) -> float:
        """Radius of convergence of the series of K(z)^exponent."""

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return βᵏ times the k-th coefficient of K(z)^exponent."""
        terms = self.power(exponent, length)
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            return np.where(terms == 0, 0.0, terms * float(beta) ** np.arange(length))

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients of K(z)^exponent can be had in some seconds."""
        return LONGEST_CLOSED

    def coefficients(self, length: int) -> NDArray[np.float64]:
        """Return the first Taylor coefficients α₀, α₁, … of K.

        Parameters
        ----------
        length : int
            Number of coefficients, at least 1.

        Returns
        -------
        ndarray of float64, (length,)
            The coefficients, α₀ first.
        """
        return self.power(1.0, whole_number("length", length, 1))

    @property
    def radius(self) -> float:
        """Radius of convergence of Σ αₖ zᵏ."""
        return self.power_radius(1.0)


def exponentiated(logs: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """Return βᵏ exp(logs_k)."""
    k = np.arange(logs.size)
    with np.errstate(under="ignore", over="ignore", divide="ignore", invalid="ignore"):
        scaled = np.exp(np.where(k == 0, logs, logs + k * np.log(abs(beta))))
    return scaled * np.where(k % 2 == 1, math.copysign(1.0, beta), 1.0)


def geometric_product(first: float, ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return first · Π_{j≤k} ratios_j for k = 0, 1, …: the terms of a hypergeometric series."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.concatenate([[first], first * np.cumprod(ratios)])
