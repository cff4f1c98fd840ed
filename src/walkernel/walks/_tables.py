"""Walk tables: a graph's matrix M in the form the walker needs.

A step u → v along entry e is taken with probability P_uv and multiplies the load by

    M_uv / P_uv = leave[u] · edge[e] · enter[v].

Arrays of ones are left empty. With steps in proportion to |a_uv| the factor of the normalized matrix
is sign(a_uv) √(d_out(u) / d_in(v)): for an undirected graph it telescopes, and weights add no variance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel.graph import Graph, inverse_root

NOTHING = np.empty(0)


class WalkTable(NamedTuple):
    """CSR structure of the walk, cumulative step probabilities and load factors.

    ``cdf[e]`` is the probability, times 2⁶⁴, of a step along an entry of e's row up to and including e;
    the last entry of a row takes what is left. Empty: all entries of a row are equally likely.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.signedinteger[Any]]
    cdf: NDArray[np.uint64]
    leave: NDArray[np.float64]
    edge: NDArray[np.float64]
    enter: NDArray[np.float64]

    def step_probabilities(self) -> NDArray[np.float64]:
        """Return P of each entry, as it is walked."""
        counts = np.diff(self.indptr)
        if self.cdf.size == 0:
            return np.repeat(np.divide(1.0, counts, where=counts > 0, out=np.zeros(counts.size)), counts)
        upper = self.cdf.astype(np.float64) / 2.0**64
        upper[self.indptr[1:][counts > 0] - 1] = 1.0
        lower = np.concatenate([[0.0], upper[:-1]])
        lower[self.indptr[:-1][counts > 0]] = 0.0
        return upper - lower

    def load_factors(self) -> NDArray[np.float64]:
        """Return M/P of each entry."""
        factors = np.ones(self.indices.size) if self.edge.size == 0 else self.edge.copy()
        if self.leave.size:
            factors *= np.repeat(self.leave, np.diff(self.indptr))
        if self.enter.size:
            factors *= self.enter[self.indices]
        return factors

    def second_moments(self) -> scipy.sparse.csr_array:
        """Return Q₀ with entries M²/P: what governs the variance of long walks."""
        shape = (self.indptr.size - 1,) * 2
        values = self.load_factors() ** 2 * self.step_probabilities()
        return scipy.sparse.csr_array((values, self.indices, self.indptr), shape=shape)


def walk_table(graph: Graph, matrix: str, transition: str, transpose: bool) -> WalkTable:
    """Return the table of M, or of Mᵀ; built once for each graph."""
    transpose = transpose and graph.directed
    key = ("walk_table", matrix, transition, transpose)
    return graph.derived(key, lambda: _build(graph, matrix, transition, transpose))


def _build(graph: Graph, matrix: str, transition: str, transpose: bool) -> WalkTable:
    if matrix == "combinatorial":
        M = graph.to_scipy(matrix)
        M = M.T.tocsr() if transpose else M
        M.eliminate_zeros()
        M.sort_indices()
        structure = M.indptr.astype(np.int64), M.indices.astype(graph.indices.dtype)
        return _finish(*structure, M.data, transition, np.ones(graph.n_nodes), NOTHING)
    walked = graph.reversed() if transpose else graph
    leave, enter = np.ones(walked.n_nodes), NOTHING
    if matrix == "normalized":
        leave, enter = inverse_root(walked.out_degrees()), inverse_root(walked.in_degrees())
    return _finish(walked.indptr, walked.indices, walked.weights, transition, leave, enter)


def _finish(
    indptr: NDArray[np.int64],
    indices: NDArray[Any],
    values: NDArray[np.float64] | None,
    transition: str,
    leave: NDArray[np.float64],
    enter: NDArray[np.float64],
) -> WalkTable:
    """Complete the table of M_uv = leave[u] · values[e] · enter[v] by dividing by the step probabilities."""
    counts = np.diff(indptr)
    if values is None:
        return WalkTable(indptr, indices, NOTHING.astype(np.uint64), leave * counts, NOTHING, enter)
    if transition == "uniform":
        return WalkTable(indptr, indices, NOTHING.astype(np.uint64), leave * counts, values, enter)
    cumulative, totals = _row_sums(indptr, np.abs(values))
    signs = np.sign(values) if (values < 0).any() else NOTHING
    return WalkTable(indptr, indices, _quantise(cumulative), leave * totals, signs, enter)


def _row_sums(indptr: NDArray[np.int64], values: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the cumulative sums of each row divided by its total, and the totals."""
    from walkernel.walks._loops import cumulate_rows

    cumulative, totals = np.empty(values.size), np.empty(indptr.size - 1)
    cumulate_rows(indptr, values, cumulative, totals)
    return cumulative, totals


def _quantise(cumulative: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return probabilities times 2⁶⁴; what rounds to 2⁶⁴ becomes the largest float64 below it."""
    return np.minimum(cumulative * 2.0**64, np.nextafter(2.0**64, 0)).astype(np.uint64)
