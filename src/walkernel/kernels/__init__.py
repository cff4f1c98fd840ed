"""Kernels as analytic functions of a matrix: coefficients, spectra and modulation functions."""

from walkernel.kernels._base import Kernel
from walkernel.kernels._named import (
    Diffusion,
    InverseCosine,
    Matern,
    PageRank,
    PStepRandomWalk,
    RegularizedLaplacian,
)
from walkernel.kernels._sequences import convolve, deconvolve
from walkernel.kernels._series import PowerSeries, SquaredSeries

__all__ = [
    "Diffusion",
    "InverseCosine",
    "Kernel",
    "Matern",
    "PStepRandomWalk",
    "PageRank",
    "PowerSeries",
    "RegularizedLaplacian",
    "SquaredSeries",
    "convolve",
    "deconvolve",
]
