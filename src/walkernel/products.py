"""SciPy's sparse products on several threads: they release the GIL, and rows and columns are independent.

Rows of Φ X are split among the threads, and columns of Φᵀ V, so that the result does not depend on how
many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

SMALL = 2**20
"""Multiplications below which one thread is faster."""


def multiply(features: scipy.sparse.csr_array, X: NDArray[np.float64], n_threads: int) -> NDArray[np.float64]:
    """Return Φ X, threads over rows."""
    out = np.empty((features.shape[0], X.shape[1]))

    def work(first: int, last: int) -> None:
        entries = slice(features.indptr[first], features.indptr[last])
        indptr = features.indptr[first : last + 1] - features.indptr[first]
        shape = (last - first, features.shape[1])
        part = scipy.sparse.csr_array(
            (features.data[entries], features.indices[entries], indptr), shape=shape
        )
        out[first:last] = part @ X

    _split(work, features.shape[0], n_threads, features.nnz * X.shape[1])
    return out


def multiply_transposed(
    features: scipy.sparse.csr_array, V: NDArray[np.float64], n_threads: int
) -> NDArray[np.float64]:
    """Return Φᵀ V, threads over columns of V."""
    turned = features.T
    if n_threads == 1 or V.shape[1] == 1:
        return np.asarray(turned @ V)
    out = np.empty((features.shape[1], V.shape[1]))

    def work(first: int, last: int) -> None:
        out[:, first:last] = turned @ np.ascontiguousarray(V[:, first:last])

    _split(work, V.shape[1], n_threads, features.nnz * V.shape[1])
    return out


def _split(work: Callable[[int, int], None], count: int, n_threads: int, cost: int) -> None:
    """Call ``work`` with consecutive ranges of 0 … count, one for each thread."""
    parts = 1 if cost < SMALL else max(1, min(n_threads, count))
    edges = [count * i // parts for i in range(parts + 1)]
    if parts == 1:
        work(0, count)
        return
    with ThreadPoolExecutor(parts) as threads:
        list(threads.map(work, edges[:-1], edges[1:]))
