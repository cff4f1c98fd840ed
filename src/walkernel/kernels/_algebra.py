"""Arithmetic of kernels: sums, multiples, products and M → βM. All are functions of the same matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import real_number, refuse
from walkernel.kernels._base import LONGEST_NUMERICAL, ClosedForm, Kernel
from walkernel.kernels._sequences import convolve


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """K₁ + K₂."""

    left: Kernel
    right: Kernel

    def coefficients(self, length: int) -> NDArray[np.float64]:
        """Return α of the sum."""
        return self.left.coefficients(length) + self.right.coefficients(length)

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return K₁(λ) + K₂(λ)."""
        return np.asarray(self.left.spectrum(eigenvalues) + self.right.spectrum(eigenvalues))

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the sum of the scaled terms, or a root of it."""
        if exponent != 1.0:
            return super().scaled_power(exponent, length, beta)
        return self.left.scaled_power(1.0, length, beta) + self.right.scaled_power(1.0, length, beta)

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients can be had of both, and of a root."""
        return min(super().max_length(exponent), *(k.max_length(exponent) for k in (self.left, self.right)))

    @property
    def radius(self) -> float:
        """The smaller radius of convergence."""
        return min(self.left.radius, self.right.radius)

    @property
    def degree(self) -> float:
        """The larger degree."""
        return max(self.left.degree, self.right.degree)


@dataclass(frozen=True, repr=False)
class Product(ClosedForm):
    """The matrix product K₁K₂; the two commute."""

    left: Kernel
    right: Kernel

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return the convolution of the factors' powers; a square has its factor for a root."""
        if exponent != 1.0 and self.left == self.right:
            return self.left.power(2 * exponent, length)
        return convolve(self.left.power(exponent, length), self.right.power(exponent, length), length)

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the convolution of the factors' scaled powers."""
        if exponent != 1.0 and self.left == self.right:
            return self.left.scaled_power(2 * exponent, length, beta)
        left, right = (side.scaled_power(exponent, length, beta) for side in (self.left, self.right))
        return convolve(left, right, length)

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients can be had: a convolution takes the square of their number."""
        return LONGEST_NUMERICAL

    def has_root(self) -> bool:
        """Tell whether both factors have one, or are the same."""
        square = self.left == self.right and float(np.real(self.left.spectrum(0.0))) != 0
        return square or (self.left.has_root() and self.right.has_root())

    def power_radius(self, exponent: float) -> float:
        """Return the smaller of the factors' radii."""
        if exponent != 1.0 and self.left == self.right:
            return self.left.power_radius(2 * exponent)
        return min(self.left.power_radius(exponent), self.right.power_radius(exponent))

    @property
    def degree(self) -> float:
        """The sum of the degrees."""
        return self.left.degree + self.right.degree

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return K₁(λ) K₂(λ)."""
        return np.asarray(self.left.spectrum(eigenvalues) * self.right.spectrum(eigenvalues))


@dataclass(frozen=True, repr=False)
class Rescaled(ClosedForm):
    """A kernel with its values or its matrix multiplied by a number; all else is that of the kernel."""

    kernel: Kernel

    def max_length(self, exponent: float) -> int:
        """Return how many coefficients can be had of the kernel."""
        return self.kernel.max_length(exponent)

    def has_root(self) -> bool:
        """Tell whether the kernel has one."""
        return self.kernel.has_root()

    def power_radius(self, exponent: float) -> float:
        """Return the kernel's own radius."""
        return self.kernel.power_radius(exponent)

    @property
    def degree(self) -> float:
        """The kernel's own degree."""
        return self.kernel.degree

    @property
    def lengthscale(self) -> float | None:
        """The kernel's own."""
        return self.kernel.lengthscale

    def with_lengthscale(self, lengthscale: float) -> Self:
        """Return the same of a wider or narrower kernel."""
        return replace(self, kernel=self.kernel.with_lengthscale(lengthscale))

    def log_slope(self, exponent: float) -> tuple[float, float]:
        """Return the kernel's own."""
        return self.kernel.log_slope(exponent)


@dataclass(frozen=True, repr=False)
class Multiple(Rescaled):
    """c·K for a number c."""

    factor: float
    _checks: ClassVar = {"factor": real_number}

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return c^g times the kernel's power."""
        if self.factor <= 0 and exponent != 1.0:
            refuse("factor", "positive for a root", self.factor, "Use pair='lazy'.")
        return float(self.factor**exponent) * self.kernel.power(exponent, length)

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return c^g times the kernel's scaled power."""
        if self.factor <= 0 and exponent != 1.0:
            return self.power(exponent, length)
        return float(self.factor**exponent) * self.kernel.scaled_power(exponent, length, beta)

    def has_root(self) -> bool:
        """Tell whether the multiple is positive and the kernel has one."""
        return self.factor > 0 and super().has_root()

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return c·K(λ)."""
        return np.asarray(self.factor * self.kernel.spectrum(eigenvalues))


@dataclass(frozen=True, repr=False)
class Scaled(Rescaled):
    """K(βM)."""

    beta: float
    _checks: ClassVar = {"beta": real_number}

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return βᵏ times the kernel's k-th term."""
        return self.kernel.scaled_power(exponent, length, self.beta)

    def scaled_power(self, exponent: float, length: int, beta: float) -> NDArray[np.float64]:
        """Return the kernel's own with both factors."""
        return self.kernel.scaled_power(exponent, length, self.beta * beta)

    def power_radius(self, exponent: float) -> float:
        """Return the kernel's radius over |β|."""
        return super().power_radius(exponent) / abs(self.beta) if self.beta else math.inf

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return K(βλ)."""
        return self.kernel.spectrum(self.beta * np.asarray(eigenvalues))
