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
    """An analytic function of a graph's matrix; subclasses give ``coefficients`` and ``spectrum``.

    Parameters have names, as scikit-learn's searches address them. Unlike scikit-learn's estimators a kernel
    is a value: ``set_params`` returns another one, and a clone is the object itself. The estimators of this
    package put the new value in the place of the old one, so that a search over ``kernel__sigma`` changes no
    other estimator with the same kernel.
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
        """Return the Taylor coefficients α₀ … α_{length−1}, shape (length,)."""

    @abstractmethod
    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return K(λ) for eigenvalues λ of M, real or complex, elementwise."""

    def modulation(self, length: int, *, stitches: int = 1) -> NDArray[np.float64]:
        """Return f₀ … f_{length−1} with f * f = α, or with 2·stitches factors: the series of K^(1/2l).

        Parameters
        ----------
        length : int
            Number of terms.
        stitches : int
            l: α is the convolution of 2l copies of f.
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
        """Return the first ``length`` Taylor coefficients of K(z)^exponent."""
        if exponent == 1.0:
            return self.coefficients(length)
        return sequences.power_on_circle(self.spectrum, exponent, length, self.power_radius(exponent))

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the first ``length`` coefficients of K(βz)^exponent: βᵏ times those of K(z)^exponent.

        Where terms may be too small or too large for a float before β is applied, kernels apply it inside.
        """
        if beta == 0:
            return self.power(exponent, length) * (np.arange(length) == 0)
        radius = self.power_radius(exponent) / abs(beta)
        return sequences.power_on_circle(lambda z: self.spectrum(beta * z), exponent, length, radius)

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients of K(z)^exponent can be had in some seconds."""
        return LONGEST_CLOSED if exponent == 1.0 else LONGEST_NUMERICAL

    def has_root(self) -> bool:
        """Tell whether α₀ > 0, so that a real f with f * f = α exists as a formal series."""
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
        """Radius of convergence of the series of K(z)^exponent: up to the first singularity or zero."""
        if exponent == 1.0:
            return self.radius
        return self.remembered("zero-free", lambda: sequences.zero_free_radius(self.spectrum, self.radius))

    @property
    def lengthscale(self) -> float | None:
        """The parameter that says how wide the kernel is; None for one that has no such parameter."""
        return None

    def with_lengthscale(self, lengthscale: float) -> Kernel:
        """Return the same kernel, wider or narrower."""
        refuse("kernel", "one with a lengthscale", self, "Use kernel.scaled(beta).")

    def resolvent_power(self) -> tuple[float, int] | None:
        """Return (s, p) if K is a multiple of (sI + L)^-p with a whole number p, L = I − M; else None.

        The inverse of such a kernel is as sparse as Lᵖ.
        """
        return None

    def log_slope(self, exponent: float) -> tuple[float, float]:
        """Return (a, b): ∂ log(coefficient k of K(z)^exponent) / ∂ log lengthscale = a + b·k.

        The lengthscale of every kernel that has one is a factor, and another one at each step:
        the k-th coefficient is A(lengthscale) · r(lengthscale)ᵏ times a number.
        """
        refuse("kernel", "one with a lengthscale", self)

    def modulation_slope(self, length: int) -> NDArray[np.float64]:
        """Return ∂f/∂ log lengthscale at 0 … length − 1, shape (length,)."""
        constant, growth = self.log_slope(0.5)
        return (constant + growth * np.arange(length)) * self.modulation(length)

    def is_positive_semidefinite(self, interval: tuple[float, float] | None = None) -> bool:
        """Tell whether K(λ) ≥ 0 on an interval that holds the eigenvalues of a symmetric M.

        [−1, 1] holds those of the normalized and the combinatorial matrix of every graph, and those of the
        random-walk matrix, which is similar to the normalized one; it is the default for them. Eigenvalues of
        adjacency matrices have no such bound.
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
        """Return the kernel K(βM): α_k becomes βᵏ α_k and f_k becomes βᵏ f_k."""
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
            Whether to return those of the parts too, under names such as ``left__sigma``.

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
        **params
            New values by name; ``left__sigma=2.0`` is for a part. Parts have the matrix of the whole.

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
        """Return the Taylor coefficients α₀ … α_{length−1}, shape (length,)."""
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
