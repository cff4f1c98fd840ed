"""Kernel operators: walk, polynomial and exact engines behind one type."""

from walkernel.operators._base import KernelOperator, Neighbors
from walkernel.operators._error_bars import Estimate
from walkernel.operators._estimate import estimate_kernel
from walkernel.operators._exact import exact_kernel
from walkernel.operators._polynomial import polynomial_operator

__all__ = [
    "Estimate",
    "KernelOperator",
    "Neighbors",
    "estimate_kernel",
    "exact_kernel",
    "polynomial_operator",
]
