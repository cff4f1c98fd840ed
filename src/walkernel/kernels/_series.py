"""Kernels given by their coefficients, or by the function itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import MATRICES, Described, one_of, refuse, whole_number
from walkernel.kernels import _sequences as sequences
from walkernel.kernels._base import LONGEST_NUMERICAL, ClosedForm, Kernel


@dataclass(frozen=True, init=False, repr=False)
class PowerSeries(ClosedForm):
    r"""The polynomial of the matrix with a given list of coefficients.

    .. math:: K = \sum_{k=0}^{n-1} \alpha_k M^k

    For a function of the matrix that is no polynomial use ``PowerSeries.from_function``: it finds the
    modulation function from the function itself, which is stable where a list of coefficients is not.

    Parameters
    ----------
    coefficients : sequence of float, (n,)
        The coefficients α₀, α₁, …; they are zero beyond the end. α_k weights walks of k steps.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M; see :class:`~walkernel.Kernel`.

    See Also
    --------
    kernels.deconvolve : The other half of an asymmetric pair of modulation functions.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.PowerSeries([1.0, 2.0, 1.0]).modulation(4)
    array([1., 1., 0., 0.])
    >>> wk.exact_kernel(wk.Graph.from_edges([(0, 1)]), wk.PowerSeries([1.0, 0.5]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    terms: tuple[float, ...] = (1.0,)

    def __init__(self, coefficients: ArrayLike, *, matrix: str = "normalized") -> None:
        terms = sequences.check_sequence("coefficients", coefficients)
        vars(self).update(terms=tuple(terms.tolist()), matrix=matrix)
        super().__post_init__()

    @staticmethod
    def from_function(fn: Callable[[Any], Any], *, matrix: str = "normalized") -> Kernel:
        """Return the kernel fn(M) of a function that is analytic in a disc about 0.

        Parameters
        ----------
        fn : callable
            A function of the matrix, vectorised over complex numbers and real on the real axis;
            exp(sA) is ``PowerSeries.from_function(lambda x: np.exp(s * x), matrix="adjacency")``.
        matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
            The matrix M; see :class:`~walkernel.Kernel`.

        Returns
        -------
        Kernel
            Its coefficients are accurate to about 1e-14 of the largest.

        Raises
        ------
        ValueError
            If the series does not reproduce the function, as for abs, sqrt and log; shift their argument.

        Examples
        --------
        >>> import numpy as np, walkernel as wk
        >>> wk.PowerSeries.from_function(lambda x: 1 / (1 - x / 2)).coefficients(4)
        array([1.   , 0.5  , 0.25 , 0.125])
        """
        one_of("matrix", matrix, MATRICES)
        return AnalyticFunction(fn, matrix=matrix)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool
            No effect: a list of coefficients has no parts.

        Returns
        -------
        dict
            Values by name.
        """
        return {"coefficients": self.terms, "matrix": self.matrix}

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return the series of the power, by recursion in decimal arithmetic."""
        if exponent == 1.0:
            return sequences.fit_length(np.array(self.terms), length)
        return sequences.power(self.terms, exponent, length)

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the series of the polynomial with terms βᵏ αₖ."""
        scaled = np.array(self.terms) * float(beta) ** np.arange(len(self.terms))
        return PowerSeries(scaled, matrix=self.matrix).power(exponent, length)

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients can be had: roots are found by a recursion with many digits."""
        return super().max_length(exponent) if exponent == 1.0 else LONGEST_NUMERICAL

    def power_radius(self, exponent: float) -> float:
        """Return the smallest root's modulus, or infinity where the power is a polynomial."""
        return self.remembered(("radius", exponent), lambda: self._power_radius(exponent))

    def _power_radius(self, exponent: float) -> float:
        terms = np.array(self.terms)
        terms = np.trim_zeros(np.where(np.abs(terms) < 1e-60 * np.abs(terms).max(), 0.0, terms), "b")
        if exponent == 1.0 or terms.size <= 1:
            return math.inf
        if terms[0] == 0:
            return 0.0
        if terms[0] > 0 and not sequences.power(terms, exponent, 2 * terms.size)[terms.size :].any():
            return math.inf
        return float(np.abs(np.roots(terms[::-1])).min())

    @property
    def degree(self) -> float:
        """The number of the last coefficient."""
        return len(self.terms) - 1

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return the eigenvalues Σ αₖ λᵏ of the kernel.

        Parameters
        ----------
        eigenvalues : array of float or complex
            Eigenvalues λ of M.

        Returns
        -------
        ndarray
            K(λ), of the shape of ``eigenvalues``.
        """
        return np.asarray(np.polynomial.polynomial.polyval(np.asarray(eigenvalues), np.array(self.terms)))


@dataclass(frozen=True, init=False, repr=False)
class SquaredSeries(ClosedForm):
    """The kernel (Σ f_l Mˡ)² of a finite modulation function, for instance one that was learned.

    Its coefficients are f * f, and its symmetric pair is f itself, whatever its signs: where all that is
    known is f, nothing is lost by taking a root.

    Parameters
    ----------
    modulation : sequence of float
        f₀, f₁, …; zero beyond the end.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M.

    Examples
    --------
    >>> from walkernel.kernels import SquaredSeries
    >>> SquaredSeries([1.0, -0.5]).coefficients(4)
    array([ 1.  , -1.  ,  0.25,  0.  ])
    """

    f: tuple[float, ...] = (1.0,)

    def __init__(self, modulation: ArrayLike, *, matrix: str = "normalized") -> None:
        f = sequences.check_sequence("modulation", modulation)
        vars(self).update(f=tuple(f.tolist()), matrix=matrix)
        super().__post_init__()

    def __repr__(self) -> str:
        """Show the first terms."""
        shown = ", ".join([f"{term:.4g}" for term in self.f[:4]] + ["…"] * (len(self.f) > 4))
        return f"SquaredSeries([{shown}]{'' if self.matrix == 'normalized' else f', matrix={self.matrix!r}'})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {"modulation": self.f, "matrix": self.matrix}

    @property
    def _root(self) -> PowerSeries:
        """That of f and −f, whose squares are the same, which has other roots: the one with f(0) ≥ 0."""
        sign = -1.0 if self.f[0] < 0 else 1.0
        return self.remembered("root", lambda: PowerSeries(sign * np.array(self.f), matrix=self.matrix))

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return f for the exponent one half, f * f for one, and powers of f for others."""
        if exponent == 1.0:
            return sequences.fit_length(np.convolve(self.f, self.f), length)
        if exponent == 0.5:
            return sequences.fit_length(np.array(self.f), length)
        return self._root.power(2 * exponent, length)

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the same of βᵏ f_k."""
        scaled = np.array(self.f) * float(beta) ** np.arange(len(self.f))
        return SquaredSeries(scaled, matrix=self.matrix).power(exponent, length)

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients can be had: roots of f are found by a recursion with many digits."""
        return super().max_length(exponent) if exponent in (0.5, 1.0) else LONGEST_NUMERICAL

    def power_radius(self, exponent: float) -> float:
        """Return infinity for f and f * f, and the modulus of the smallest root of f for other powers."""
        return math.inf if exponent == 1.0 else self._root.power_radius(2 * exponent)

    def has_root(self) -> bool:
        """Tell that there is a symmetric pair: f."""
        return True

    @property
    def degree(self) -> float:
        """The number of the last coefficient."""
        return 2 * len(self.f) - 2

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return (Σ f_l λˡ)²."""
        return self._root.spectrum(eigenvalues) ** 2


@dataclass(frozen=True, repr=False)
class AnalyticFunction(Kernel):
    """K = fn(M); made by ``PowerSeries.from_function``."""

    fn: Callable[[Any], Any]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.fn):
            refuse("fn", "a function of complex arrays", self.fn, error=TypeError)
        points = np.exp(1j * np.linspace(0.1, 3.0, 7))
        try:
            with np.errstate(all="ignore"):
                values = np.asarray(self.fn(points), dtype=np.complex128)
                mirrored = np.asarray(self.fn(points.conj()), dtype=np.complex128)
        except (TypeError, ValueError) as error:
            refuse("fn", "vectorised over complex arrays", Described(f"{type(error).__name__}: {error}"))
        if values.shape != points.shape:
            refuse("fn", "elementwise", Described(f"shape {values.shape} from shape {points.shape}"))
        if np.isfinite(values).all() and not np.allclose(mirrored, values.conj(), rtol=1e-8):
            refuse("fn", "real on the real axis", Described("fn(z̄) different from the conjugate of fn(z)"))
        if not self._is_reproduced():
            refuse(
                "fn",
                "analytic in a disc about 0",
                Described("a function whose series does not reproduce it"),
                "Functions such as abs, sqrt and log have no power series at 0; shift their argument.",
            )

    def _is_reproduced(self) -> bool:
        """Tell whether the series agrees with fn inside the disc, where one function can be the other."""
        if self.radius == 0.0:
            return False
        terms = self.coefficients(512)
        for radius in (0.8 * min(1.0, self.radius), 0.01 * min(1.0, self.radius)):
            points = radius * np.array([-1, -0.5, 0.3, 1, 0.6 + 0.4j])
            with np.errstate(all="ignore"):
                values = np.asarray(self.fn(points))
                error = np.abs(np.polynomial.polynomial.polyval(points, terms) - values).max()
                if error <= 1e-10 * np.abs(values).max() < math.inf:
                    return True
        return False

    def __repr__(self) -> str:
        """Show it as it was made."""
        name = getattr(self.fn, "__name__", repr(self.fn))
        return f"PowerSeries.from_function({name}, matrix={self.matrix!r})"

    @cached_property
    def radius(self) -> float:  # type: ignore[override]
        """Radius of a disc about 0 in which fn is seen to be analytic."""
        return sequences.analytic_radius(self.fn)

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients can be had by transforms of values on circles."""
        return LONGEST_NUMERICAL

    def coefficients(self, length: int) -> NDArray[np.float64]:
        """Return the Taylor coefficients by Cauchy's formula."""
        whole_number("length", length, 1)
        return self.remembered(
            ("coefficients", length), lambda: sequences.power_on_circle(self.fn, 1.0, length, self.radius)
        ).copy()

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return fn(λ); holes such as that of sin(λ)/λ at 0 are filled from the series."""
        points = np.asarray(eigenvalues)
        with np.errstate(all="ignore"):
            values = np.asarray(self.fn(points))
        if np.iscomplexobj(points):
            return values
        values, flat = np.atleast_1d(np.real(values)).copy(), np.atleast_1d(points)
        holes = np.isnan(values) & (np.abs(flat) < 0.5 * self.radius)
        if holes.any():
            values[holes] = np.polynomial.polynomial.polyval(flat[holes], self.coefficients(256))
        return values.reshape(points.shape)
