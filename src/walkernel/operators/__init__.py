"""Kernel operators: K̂ from walks, by a polynomial, or exact, behind one type; error bars, nearest nodes."""

from walkernel.operators._base import KernelOperator
from walkernel.operators._chebyshev import ChebyshevBasis, LeadingEigenvectors, States
from walkernel.operators._entry_errors import Estimate
from walkernel.operators._estimate import estimate_kernel
from walkernel.operators._exact import exact_kernel
from walkernel.operators._explanation import Explanation
from walkernel.operators._groups import Groups, normalize_columns, standard_errors
from walkernel.operators._neighbors import EstimatedNeighbors, Neighbors
from walkernel.operators._polynomial import polynomial_engine, polynomial_operator
from walkernel.operators._precision import SparseFactor, SparsePrecision, has_sparse_factor

__all__ = [
    "ChebyshevBasis",
    "Estimate",
    "EstimatedNeighbors",
    "Explanation",
    "Groups",
    "KernelOperator",
    "LeadingEigenvectors",
    "Neighbors",
    "SparseFactor",
    "SparsePrecision",
    "States",
    "estimate_kernel",
    "exact_kernel",
    "has_sparse_factor",
    "normalize_columns",
    "polynomial_engine",
    "polynomial_operator",
    "standard_errors",
]
