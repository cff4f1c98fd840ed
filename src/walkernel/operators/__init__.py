"""Kernel operators: K̂ from walks, by a polynomial, or exact, behind one type; error bars, nearest nodes."""

from walkernel.operators._base import KernelOperator
from walkernel.operators._chebyshev import ChebyshevBasis, LeadingEigenvectors, States
from walkernel.operators._eigenvectors import Eigenvectors, leading_eigenvectors
from walkernel.operators._entry_errors import Estimate
from walkernel.operators._estimate import estimate_kernel
from walkernel.operators._exact import exact_kernel
from walkernel.operators._explanation import Explanation
from walkernel.operators._groups import Groups, normalize_columns, standard_errors
from walkernel.operators._nearest import nearest
from walkernel.operators._neighbors import EstimatedNeighbors, Neighbors
from walkernel.operators._pagerank import personalized_pagerank
from walkernel.operators._polynomial import polynomial_engine, polynomial_operator
from walkernel.operators._precision import SparseFactor, SparsePrecision, has_sparse_factor
from walkernel.operators._returns import return_probabilities
from walkernel.operators._sparse_rows import sparse_kernel

__all__ = [
    "ChebyshevBasis",
    "Eigenvectors",
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
    "leading_eigenvectors",
    "nearest",
    "normalize_columns",
    "personalized_pagerank",
    "polynomial_engine",
    "polynomial_operator",
    "return_probabilities",
    "sparse_kernel",
    "standard_errors",
]
