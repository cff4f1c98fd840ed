"""Deterministic ways to a kernel that walks are compared with, each as good as it is easily made.

Features Φ of a rival are such that ΦΦᵀ is close to K. Matrices are the normalised ones, kernels have
non-negative coefficients.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

import walkernel as wk

REST = 1e-4
"""Part of Σ|f| that a cut series may lack: less than what pruning costs."""

MAX_ITERATIONS = 40


@numba.njit(nogil=True)
def _keep_largest(indptr, indices, data, n_kept):
    """Return the arrays of a matrix with the ``n_kept`` largest entries of each row."""
    n_rows = indptr.size - 1
    starts = np.zeros(n_rows + 1, dtype=np.int64)
    for i in range(n_rows):
        starts[i + 1] = starts[i] + min(n_kept, indptr[i + 1] - indptr[i])
    columns, values = np.empty(starts[-1], dtype=indices.dtype), np.empty(starts[-1])
    for i in range(n_rows):
        row = data[indptr[i] : indptr[i + 1]]
        place = starts[i]
        limit = -np.inf if row.size <= n_kept else np.partition(row, row.size - n_kept)[row.size - n_kept]
        for j in range(row.size):
            if row[j] >= limit and place < starts[i + 1]:
                columns[place], values[place] = indices[indptr[i] + j], row[j]
                place += 1
    return starts, columns, values


def keep_largest(matrix: scipy.sparse.csr_array, n_kept: int) -> scipy.sparse.csr_array:
    """Return a matrix with the ``n_kept`` largest entries of each row."""
    starts, columns, values = _keep_largest(matrix.indptr, matrix.indices, matrix.data, n_kept)
    return scipy.sparse.csr_array((values, columns, starts), shape=matrix.shape)


def series(kernel: wk.Kernel, rest: float = REST, *, root: bool) -> NDArray[np.float64]:
    """Return the coefficients of K, or of its root, up to where ``rest`` of their sum is left."""
    terms = kernel.modulation(512) if root else kernel.coefficients(512)
    left = np.cumsum(terms[::-1])[::-1]
    return terms[: int(np.argmax(left <= rest * left[0])) or 1]


def pruned_features(M: scipy.sparse.csr_array, kernel: wk.Kernel, n_kept: int) -> scipy.sparse.csr_array:
    """Return the rows of K^½, the largest entries of each kept after every term of Horner's scheme."""
    n, f = M.shape[0], series(kernel, root=True)
    identity = scipy.sparse.eye_array(n, format="csr")
    features = f[-1] * identity
    for term in f[-2::-1]:
        features = keep_largest(M @ features + term * identity, n_kept)
    return features


def pruned_rows(
    M: scipy.sparse.csr_array, kernel: wk.Kernel, nodes: NDArray[np.int64], n_kept: int
) -> scipy.sparse.csr_array:
    """Return some rows of K^½, the largest entries of each row of every power of M kept."""
    f, starts = series(kernel, root=True), np.arange(nodes.size + 1)
    power = scipy.sparse.csr_array((np.ones(nodes.size), nodes, starts), shape=(nodes.size, M.shape[0]))
    features = f[0] * power
    for term in f[1:]:
        power = keep_largest(power @ M, n_kept)
        features = features + term * power
    return features


def eigen_features(
    M: scipy.sparse.csr_array, kernels: list[wk.Kernel], rank: int
) -> list[NDArray[np.float64]]:
    """Return features of ``rank`` columns for each kernel from the leading eigenvectors of M.

    Raises ArpackNoConvergence if they are not found in some tens of restarts.
    """
    start = np.random.default_rng(0).standard_normal(M.shape[0])
    values, vectors = scipy.sparse.linalg.eigsh(
        M, rank, which="LA", tol=1e-3, maxiter=MAX_ITERATIONS, v0=start
    )
    return [vectors * np.sqrt(np.real(kernel.spectrum(values))) for kernel in kernels]


def grow(graph: wk.Graph, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return nodes and all their neighbours, the old ones first; the cost is that of their edges."""
    starts, counts = graph.indptr[nodes], graph.indptr[nodes + 1] - graph.indptr[nodes]
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    reached = np.unique(graph.indices[np.repeat(starts, counts) + offsets])
    return np.concatenate([nodes, np.setdiff1d(reached, nodes)])


def ball_kernel(
    graph: wk.Graph, M: scipy.sparse.csr_array, kernel: wk.Kernel, nodes: NDArray[np.int64], radius: int
) -> NDArray[np.float64]:
    """Return K among some nodes, (n, n), from the series of M cut to all nodes within ``radius`` hops."""
    ball = nodes
    for _ in range(radius):
        ball = grow(graph, ball)
    inside = M[ball][:, ball]
    power = np.zeros((ball.size, nodes.size))
    power[np.arange(nodes.size), np.arange(nodes.size)] = 1.0
    total = np.zeros((nodes.size, nodes.size))
    for k, term in enumerate(series(kernel, root=False)):
        power = inside @ power if k else power
        total += term * power[: nodes.size]
    return total


@numba.njit(nogil=True)
def _ball_row(indptr, indices, data, node, radius, terms, place, ball, rows):
    """Write into ``rows`` the series of one node on the ball around it; return the size of the ball.

    ``place`` is −1 for all nodes and is left so; ``ball`` receives the nodes in the order of their distance.
    """
    ball[0], place[node] = node, 0
    size, first = 1, 0
    for _ in range(radius):
        last = size
        for i in range(first, last):
            for e in range(indptr[ball[i]], indptr[ball[i] + 1]):
                if place[indices[e]] < 0:
                    ball[size], place[indices[e]] = indices[e], size
                    size += 1
        first = last
    starts = np.zeros(size + 1, dtype=np.int64)
    for i in range(size):
        starts[i + 1] = starts[i]
        for e in range(indptr[ball[i]], indptr[ball[i] + 1]):
            starts[i + 1] += place[indices[e]] >= 0
    columns, values = np.empty(starts[-1], dtype=np.int64), np.empty(starts[-1])
    for i in range(size):
        k = starts[i]
        for e in range(indptr[ball[i]], indptr[ball[i] + 1]):
            if place[indices[e]] >= 0:
                columns[k], values[k] = place[indices[e]], data[e]
                k += 1
    total, power, following = rows[0], rows[1], rows[2]
    power[:size] = 0.0
    power[0] = 1.0
    for j in range(size):
        total[j] = terms[0] * power[j]
        place[ball[j]] = -1
    for k in range(1, terms.size):
        following[:size] = 0.0
        for i in range(size):
            if power[i] != 0.0:
                for e in range(starts[i], starts[i + 1]):
                    following[columns[e]] += power[i] * values[e]
        power, following = following, power
        for j in range(size):
            total[j] += terms[k] * power[j]
    return size


@numba.njit(nogil=True)
def _pruned_row(indptr, indices, data, node, n_kept, terms, place, reached, rows):
    """Write into ``rows`` the series of one node, each power cut to its largest entries; return its size.

    ``place`` is −1 for all nodes and is left so; ``reached`` receives the nodes that have a value.
    """
    total, power, following = rows[0], rows[1], rows[2]
    reached[0], place[node] = node, 0
    total[0], power[0], following[0] = terms[0], 1.0, 0.0
    size = 1
    for k in range(1, terms.size):
        for i in range(size):
            if power[i] == 0.0:
                continue
            for e in range(indptr[reached[i]], indptr[reached[i] + 1]):
                j = place[indices[e]]
                if j < 0:
                    j = size
                    reached[j], place[indices[e]] = indices[e], j
                    total[j], power[j], following[j] = 0.0, 0.0, 0.0
                    size += 1
                following[j] += power[i] * data[e]
        for j in range(size):
            total[j] += terms[k] * following[j]
        if size > n_kept:
            limit = np.partition(following[:size], size - n_kept)[size - n_kept]
            for j in range(size):
                if following[j] < limit:
                    following[j] = 0.0
        power, following = following, power
        following[:size] = 0.0
    for j in range(size):
        place[reached[j]] = -1
    return size


class LocalSeries:
    """Single rows of kernels by series that stay near a node; the arrays over all nodes are kept.

    M may have any signs for ``ball``; ``pruned`` keeps the largest entries, as for non-negative ones.
    """

    def __init__(self, M: scipy.sparse.csr_array) -> None:
        self.M = M
        n = M.shape[0]
        self._place, self._nodes, self._rows = np.full(n, -1), np.empty(n, dtype=np.int64), np.empty((3, n))

    def ball(
        self, node: int, radius: int, terms: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nodes within ``radius`` hops, and the row Σ termsₖ Mᵏ of the graph induced by them."""
        return self._found(_ball_row, node, radius, terms)

    def pruned(
        self, node: int, n_kept: int, terms: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nodes reached and the row Σ termsₖ Mᵏ, ``n_kept`` entries of each power kept."""
        return self._found(_pruned_row, node, n_kept, terms)

    def _found(
        self, loop: Any, node: int, size: int, terms: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        M = self.M
        n = loop(M.indptr, M.indices, M.data, node, size, terms, self._place, self._nodes, self._rows)
        return self._nodes[:n].copy(), self._rows[0, :n].copy()
