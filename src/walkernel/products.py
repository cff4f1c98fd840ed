"""SciPy's sparse products on several threads: they release the GIL, and rows and columns are independent.

Rows of Φ X are split among the threads, and columns of Φᵀ V, so that the result does not depend on how
many there are.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

SMALL = 2**20
"""Multiplications below which one thread is faster."""


class SharedHead(NamedTuple):
    """Features Φ = H + R, the exact heads H being those of other factors as well: they are kept once.

    It has what operators ask of a sparse matrix; sums are made of the rows that are asked for.
    """

    head: scipy.sparse.csr_array
    walks: scipy.sparse.csr_array

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.walks.shape  # type: ignore[no-any-return]

    @property
    def nnz(self) -> int:
        """Entries of both parts."""
        return int(self.head.nnz + self.walks.nnz)

    def tocsr(self) -> scipy.sparse.csr_array:
        """Return the sum."""
        return (self.head + self.walks).tocsr()

    def rows(self, positions: Any) -> scipy.sparse.csr_array:
        """Return the sum of some rows."""
        return (self.head[positions] + self.walks[positions]).tocsr()


Features: TypeAlias = scipy.sparse.csr_array | SharedHead


def parts_of(features: Features) -> tuple[scipy.sparse.csr_array, ...]:
    """Return the matrices that features are the sum of."""
    return tuple(features) if isinstance(features, SharedHead) else (features,)


def rows_of(features: Features, positions: Any) -> scipy.sparse.csr_array:
    """Return some rows."""
    return features.rows(positions) if isinstance(features, SharedHead) else features[positions]


def multiply(features: Features, X: NDArray[np.float64], n_threads: int) -> NDArray[np.float64]:
    """Return Φ X, threads over rows."""
    if isinstance(features, SharedHead):
        return multiply(features.head, X, n_threads) + multiply(features.walks, X, n_threads)
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


def multiply_transposed(features: Features, V: NDArray[np.float64], n_threads: int) -> NDArray[np.float64]:
    """Return Φᵀ V, threads over columns of V."""
    if isinstance(features, SharedHead):
        return multiply_transposed(features.head, V, n_threads) + multiply_transposed(
            features.walks, V, n_threads
        )
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
