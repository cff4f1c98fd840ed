"""What walks are weighted with: a pair of sequences f₁ * f₂ = α, one for each side of K̂ = Φ₁Φ₂ᵀ.

The symmetric pair has f₁ = f₂ = α^{*1/2}, or α^{*1/(2l)} where K̂ is stitched from l factors. The lazy pair
has f₁ = α and f₂ = δ₀: the other side makes no step, and its features are those of the identity.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import real_array, refuse
from walkernel.kernels import Kernel


@dataclass(frozen=True)
class Symmetric:
    """The sequence f = α^{*1/(2l)} of both sides of each of l factors."""

    kernel: Kernel
    stitches: int = 1
    pair: ClassVar[str] = "symmetric"
    directions: ClassVar[tuple[bool, ...]] = (False, True)
    """For each side that walks, whether it walks Mᵀ."""

    @property
    def exponent(self) -> float:
        """Σ f_l zˡ is this power of K(z)."""
        return 0.5 / self.stitches

    @property
    def radius(self) -> float:
        """Radius of convergence of Σ f_l zˡ."""
        return self.kernel.power_radius(self.exponent)

    @property
    def other(self) -> Symmetric:
        """What the right-hand side is weighted with: the same."""
        return self

    def stitched(self, n_factors: int) -> Symmetric:
        """Return the weights of each of some factors."""
        return Symmetric(self.kernel, n_factors)

    def check(self) -> None:
        """Refuse a kernel that has no symmetric pair."""
        self.kernel.modulation(1)

    def values(self, length: int, scale: float = 1.0) -> NDArray[np.float64]:
        """Return f(0) … f(length − 1) for loads that are divided by ``scale`` at every step."""
        return scaled(self.kernel, scale).modulation(length, stitches=self.stitches)


@dataclass(frozen=True)
class Lazy:
    """The sequence f = α of the left-hand side; the right-hand side makes no step."""

    kernel: Kernel
    stitches: ClassVar[int] = 1
    pair: ClassVar[str] = "lazy"
    directions: ClassVar[tuple[bool, ...]] = (False,)
    exponent: ClassVar[float] = 1.0
    other: ClassVar[None] = None
    """The right-hand side makes no step."""

    @property
    def radius(self) -> float:
        """Radius of convergence of K."""
        return self.kernel.radius

    def stitched(self, n_factors: int) -> Lazy:
        """Return the same: there is one factor only."""
        return self

    def check(self) -> None:
        """Accept any kernel."""

    def values(self, length: int, scale: float = 1.0) -> NDArray[np.float64]:
        """Return α(0) … α(length − 1) for loads that are divided by ``scale`` at every step."""
        return scaled(self.kernel, scale).coefficients(length)


@dataclass(frozen=True, eq=False)
class Given:
    """A sequence that was given: an array, which is zero beyond its end, or a function of the lengths."""

    f: ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]

    def values(self, length: int, scale: float = 1.0) -> NDArray[np.float64]:
        """Return f(0) … f(length − 1) for loads that are divided by ``scale`` at every step."""
        given = self.f(np.arange(length)) if callable(self.f) else self.f
        f = real_array("f", given, ndim=1)
        if callable(self.f) and f.size != length:
            refuse("f", f"one value for each of {length} lengths", f)
        result = np.zeros(length)
        result[: min(length, f.size)] = f[:length]
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(result == 0, 0.0, result * scale ** np.arange(length))


Pair = Symmetric | Lazy
Weights = Pair | Given
KernelOrF = Kernel | Weights | ArrayLike | Callable[[NDArray[np.int64]], ArrayLike]


def as_weights(kernel_or_f: KernelOrF) -> Weights:
    """Return weights; a kernel stands for its symmetric pair."""
    if isinstance(kernel_or_f, Kernel):
        return Symmetric(kernel_or_f)
    return kernel_or_f if isinstance(kernel_or_f, Symmetric | Lazy | Given) else Given(kernel_or_f)


def scaled(kernel: Kernel, scale: float) -> Kernel:
    """Return the kernel as a function of M / scale."""
    return kernel if scale == 1.0 else kernel.scaled(scale)
