"""Sparse times dense on several threads; SciPy's products run on one.

Rows of Φ X are independent, and so are columns of Φᵀ V, so that the result does not depend on the number of
threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel.walks.compiling import compiled

SMALL = 2**17
"""Multiplications below which one thread is faster."""


@compiled
def rows_times_dense(
    indptr: Any,
    indices: Any,
    data: Any,
    X: NDArray[np.float64],
    out: NDArray[np.float64],
    first: int,
    last: int,
) -> None:
    """Fill rows first … last−1 of out = Φ X."""
    for row in range(first, last):
        for c in range(X.shape[1]):
            out[row, c] = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            value, source = data[entry], indices[entry]
            for c in range(X.shape[1]):
                out[row, c] += value * X[source, c]


@compiled
def columns_times_dense(
    indptr: Any,
    indices: Any,
    data: Any,
    V: NDArray[np.float64],
    out: NDArray[np.float64],
    first: int,
    last: int,
) -> None:
    """Add Φᵀ V to columns first … last−1 of out."""
    for row in range(indptr.size - 1):
        for entry in range(indptr[row], indptr[row + 1]):
            value, target = data[entry], indices[entry]
            for c in range(first, last):
                out[target, c] += value * V[row, c]


def multiply(features: scipy.sparse.csr_array, X: NDArray[np.float64], n_threads: int) -> NDArray[np.float64]:
    """Return Φ X, threads over rows."""
    X = np.ascontiguousarray(X)
    out = np.empty((features.shape[0], X.shape[1]))
    arrays = (features.indptr, features.indices, features.data, X, out)
    _split(rows_times_dense, arrays, features.shape[0], n_threads, features.nnz * X.shape[1])
    return out


def multiply_transposed(
    features: scipy.sparse.csr_array, V: NDArray[np.float64], n_threads: int
) -> NDArray[np.float64]:
    """Return Φᵀ V, threads over columns of V."""
    V = np.ascontiguousarray(V)
    out = np.zeros((features.shape[1], V.shape[1]))
    arrays = (features.indptr, features.indices, features.data, V, out)
    _split(columns_times_dense, arrays, V.shape[1], n_threads, features.nnz * V.shape[1])
    return out


def _split(work: Callable[..., None], arrays: tuple[Any, ...], count: int, n_threads: int, cost: int) -> None:
    """Call ``work`` with consecutive ranges of 0 … count, one for each thread."""
    parts = 1 if cost < SMALL else max(1, min(n_threads, count))
    edges = np.linspace(0, count, parts + 1).astype(int)
    ranges = [(edges[i], edges[i + 1]) for i in range(parts)]
    if parts == 1:
        work(*arrays, *ranges[0])
        return
    with ThreadPoolExecutor(parts) as threads:
        list(threads.map(lambda part: work(*arrays, *part), ranges))
