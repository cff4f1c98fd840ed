"""From walks to features Φ: the record, weights f, variance, and the matrix Φ wherever it is kept."""

from walkernel.features._convergence import adjacency_bound, check_convergence, spectral_radius
from walkernel.features._gram import add_products, gram, is_dense_cheaper
from walkernel.features._matrix import (
    NO_NORMS,
    BlockedFeatures,
    FeatureMatrix,
    HostFeatures,
    SumFeatures,
    identity_features,
)
from walkernel.features._products import (
    Dense,
    block_edges,
    by_block,
    bytes_of,
    keep_reached,
    multiply,
    multiply_transposed,
    row_of_entries,
    squared_norms,
    stack,
)
from walkernel.features._record import HostRecord, Record, Walks, modulation_values, to_csr
from walkernel.features._reduction import anchor_points, johnson_lindenstrauss
from walkernel.features._variance import (
    UNSERVED,
    Modulated,
    find_series,
    lack_of_variance,
    largest_norm,
    second_moment_radius,
    warn_of_infinite_variance,
)
from walkernel.features._weights import KernelOrF, Lazy, Pair, Symmetric, Weights

__all__ = [
    "NO_NORMS",
    "UNSERVED",
    "BlockedFeatures",
    "Dense",
    "FeatureMatrix",
    "HostFeatures",
    "HostRecord",
    "KernelOrF",
    "Lazy",
    "Modulated",
    "Pair",
    "Record",
    "SumFeatures",
    "Symmetric",
    "Walks",
    "Weights",
    "add_products",
    "adjacency_bound",
    "anchor_points",
    "block_edges",
    "by_block",
    "bytes_of",
    "check_convergence",
    "find_series",
    "gram",
    "identity_features",
    "is_dense_cheaper",
    "johnson_lindenstrauss",
    "keep_reached",
    "lack_of_variance",
    "largest_norm",
    "modulation_values",
    "multiply",
    "multiply_transposed",
    "row_of_entries",
    "second_moment_radius",
    "spectral_radius",
    "squared_norms",
    "stack",
    "to_csr",
    "warn_of_infinite_variance",
]
