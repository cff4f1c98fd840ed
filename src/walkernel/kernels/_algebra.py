"""Arithmetic of kernels: sums, multiples, products and M → βM. All are functions of the same matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import refuse
from walkernel.kernels._base import ClosedForm, Kernel
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

    @property
    def radius(self) -> float:
        """The smaller radius of convergence."""
        return min(self.left.radius, self.right.radius)


@dataclass(frozen=True, repr=False)
class Product(ClosedForm):
    """The matrix product K₁K₂; the two commute."""

    left: Kernel
    right: Kernel

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return the convolution of the factors' powers."""
        return convolve(self.left.power(exponent, length), self.right.power(exponent, length), length)

    def has_root(self) -> bool:
        """Tell whether both factors have one."""
        return self.left.has_root() and self.right.has_root()

    def power_radius(self, exponent: float) -> float:
        """Return the smaller of the factors' radii."""
        return min(self.left.power_radius(exponent), self.right.power_radius(exponent))

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return K₁(λ) K₂(λ)."""
        return np.asarray(self.left.spectrum(eigenvalues) * self.right.spectrum(eigenvalues))


@dataclass(frozen=True, repr=False)
class Multiple(ClosedForm):
    """c·K for a number c."""

    kernel: Kernel
    factor: float

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return c^g times the kernel's power."""
        if self.factor < 0 and not float(exponent).is_integer():
            refuse("Multiple", "factor", "positive for a root", self.factor, "Use pair='lazy'.")
        return float(self.factor**exponent) * self.kernel.power(exponent, length)

    def has_root(self) -> bool:
        """Tell whether the multiple is positive and the kernel has one."""
        return self.factor > 0 and self.kernel.has_root()

    def power_radius(self, exponent: float) -> float:
        """Return the kernel's own radius."""
        return self.kernel.power_radius(exponent)

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return c·K(λ)."""
        return np.asarray(self.factor * self.kernel.spectrum(eigenvalues))


@dataclass(frozen=True, repr=False)
class Scaled(ClosedForm):
    """K(βM)."""

    kernel: Kernel
    beta: float

    def power(self, exponent: float, length: int) -> NDArray[np.float64]:
        """Return βᵏ times the kernel's k-th term."""
        with np.errstate(under="ignore"):
            return self.kernel.power(exponent, length) * float(self.beta) ** np.arange(length)

    def has_root(self) -> bool:
        """Tell whether the kernel has one: α₀ is the same."""
        return self.kernel.has_root()

    def power_radius(self, exponent: float) -> float:
        """Return the kernel's radius over |β|."""
        return self.kernel.power_radius(exponent) / abs(self.beta) if self.beta else math.inf

    def spectrum(self, eigenvalues: ArrayLike) -> NDArray[Any]:
        """Return K(βλ)."""
        return self.kernel.spectrum(self.beta * np.asarray(eigenvalues))
