"""Walk tables: a graph's matrix M in the form the walker needs.

A step u → v along entry e is taken with probability P_uv and multiplies the load by M_uv / P_uv, so that
the load at v = u_k after k ≥ 1 steps from s is

    first[s] · inner[u_1] ⋯ inner[u_{k−1}] · last[v] · (edge factors).

With steps in proportion to |a_uv| the normalized matrix has M_uv / P_uv = sign(a_uv) √(d_out(u) / d_in(v)):
in an undirected graph all inner factors are one, loads are √(d_s / d_v), and weights add no variance.
The random-walk matrix is P itself, and all its loads are one; those of its transpose have the inner factors
d_in(u) / d_out(u), and are d_s / d_v in an undirected graph.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import Described, refuse
from walkernel.graph import Graph, inverse_root
from walkernel.storage import any_entry, cached_array, row_sums
from walkernel.walks._state import read_only

NO_FLOATS = np.empty(0)
NO_WORDS = np.empty(0, dtype=np.uint64)
NO_WORDS.flags.writeable = False  # as all words are: loops are compiled once for each kind of array
ALIAS_FORMAT = "walkernel alias 1"
DEGREE_BITS = 28
MAX_WEIGHTED_NODES = 2**31
LARGEST_MOMENT = 2.0**500
"""Second moments that may be squared once more."""
LARGEST_LOAD = 2.0**250
"""Loads of walks on the transpose of the random-walk matrix, whose cubes are moments too."""


class WalkTable(NamedTuple):
    """What the loops gather from; arrays that would hold ones only are empty.

    ``packed[u]`` is begin · 2²⁸ + degree: where row u starts and how many entries it has. ``alias`` holds two
    words for each entry of a weighted graph (Walker's alias method): a threshold, and the two nodes it
    decides between, the entry's own in the low half and its alias in the high half; bit 31 of either is set
    if that entry is negative. ``edge`` holds M's own entries where steps do not follow them.
    """

    packed: NDArray[np.uint64]
    indices: NDArray[Any]
    alias: NDArray[np.uint64]
    edge: NDArray[np.float64]
    first: NDArray[np.float64]
    inner: NDArray[np.float64]
    last: NDArray[np.float64]
    scale: float
    """Loads are those of M / scale, a power of two, so that products of large entries do not overflow."""
    is_plain: bool
    """Whether loads need no running product and no walk can get stuck after its start."""
    last_by_degree: bool
    """Whether ``last`` is indexed by the degree of a node rather than by the node."""


class StepLaw(NamedTuple):
    """M and P on one pattern, with an entry for every edge e = (u, v); empty arrays stand for ones.

    M_uv = leave[u] · values[e] · enter[v] and P_uv = |weights[e]| / totals[u].
    """

    indptr: NDArray[np.int64]
    indices: NDArray[Any]
    values: NDArray[np.float64]
    weights: NDArray[np.float64]
    leave: NDArray[np.float64]
    enter: NDArray[np.float64]
    totals: NDArray[np.float64]

    def second_moments(self) -> scipy.sparse.csr_array:
        """Return Q₀ with entries M²/P: what governs the variance of long walks."""
        counts = np.diff(self.indptr)
        values = self.values if self.values.size else np.ones(self.indices.size)
        weights = np.abs(self.weights) if self.weights.size else np.ones(self.indices.size)
        M = values * np.repeat(self.leave, counts) * self.enter[self.indices]
        with np.errstate(over="ignore"):
            moments = M * (M * np.repeat(self.totals, counts) / weights)
        if moments.max(initial=0.0) > LARGEST_MOMENT:
            received = Described(f"entries up to {np.abs(M).max():.2g}")
            remedy = "Multiply the weights by a number, and scale the kernel by one over it."
            refuse("the matrix", "of entries below about 1e75", received, remedy)
        return scipy.sparse.csr_array((moments, self.indices, self.indptr), shape=(self.enter.size,) * 2)


def step_law(graph: Graph, matrix: str, transition: str, transpose: bool) -> StepLaw:
    """Return the law of steps on M, or on Mᵀ."""
    leave = enter = np.ones(graph.n_nodes)
    owner = _owner(graph, matrix, transpose)
    if owner is None:
        M = graph.to_scipy(matrix)
        M = M.T.tocsr() if transpose else M
        M.eliminate_zeros()
        M.sort_indices()
        indptr, indices, values = M.indptr.astype(np.int64), M.indices.astype(graph.indices.dtype), M.data
    else:
        indptr, indices, values = owner.indptr, owner.indices, owner.weights
        if matrix == "normalized":
            leave, enter = inverse_root(owner.out_degrees()), inverse_root(owner.in_degrees())
        elif matrix == "random-walk":
            of_rows = graph.inverse_out_degrees()
            leave, enter = (leave, of_rows) if transpose else (of_rows, enter)
    weights = None if transition == "uniform" else values
    totals = row_sums(indptr, weights) if owner is None or weights is None else owner.out_degrees()
    if matrix == "random-walk" and transpose and weights is not None:
        _check_loads(totals, enter)
    values, weights = (NO_FLOATS if array is None else array for array in (values, weights))
    return StepLaw(indptr, indices, values, weights, leave, enter, totals)


def _check_loads(totals: NDArray[np.float64], enter: NDArray[np.float64]) -> None:
    """Refuse walks on the transpose of D⁻¹A where loads, ratios of degrees, may be beyond all numbers."""
    factor = np.log10([totals.max(), enter.max()]).sum()
    if factor > np.log10(LARGEST_LOAD):
        rule = "within a factor of 1e75 of one another for walks on the transpose of matrix='random-walk'"
        remedy = "Use pair='lazy', polynomial_operator, or matrix='normalized'."
        refuse("degrees", rule, Described(f"a factor of 1e{factor:.0f}"), remedy)


def _owner(graph: Graph, matrix: str, transpose: bool) -> Graph | None:
    """Return the graph whose own arrays are the pattern of M, or of Mᵀ; None if there is none."""
    if matrix == "combinatorial":
        return None
    return graph.reversed() if transpose else graph


def walk_table(graph: Graph, matrix: str, transition: str, transpose: bool) -> WalkTable:
    """Return the table of M, or of Mᵀ; built once for each graph."""
    transpose = transpose and not graph.is_symmetric(matrix)
    key = ("walk_table", matrix, transition, transpose)
    return graph.derived(key, lambda: _build(graph, matrix, transition, transpose))


def hop_table(graph: Graph, matrix: str, transition: str, transpose: bool) -> StepLaw:
    """Return the law of steps on M / scale, or on its transpose; built once for each graph."""
    transpose = transpose and not graph.is_symmetric(matrix)

    def build() -> StepLaw:
        law = step_law(graph, matrix, transition, transpose)
        scale = walk_table(graph, matrix, transition, transpose).scale
        return StepLaw._make(map(read_only, law._replace(leave=law.leave / scale)))

    return graph.derived(("hop_table", matrix, transition, transpose), build)


def _build(graph: Graph, matrix: str, transition: str, transpose: bool) -> WalkTable:
    law = step_law(graph, matrix, transition, transpose)
    counts = np.diff(law.indptr)
    if counts.max(initial=0) >= 2**DEGREE_BITS or law.indices.size >= 2 ** (64 - DEGREE_BITS):
        refuse("graph", "of degrees below 2**28 and fewer than 2**36 entries", law.indices.size)
    scale = _typical_factor(law.totals) if matrix == "adjacency" else 1.0
    first = law.leave * law.totals / scale
    inner = first * law.enter
    if np.abs(inner[(counts > 0) & (law.enter > 0)] - 1).max(initial=0) < 1e-12:
        inner = NO_FLOATS
    alias, edge, signed = NO_WORDS, law.values, False
    if law.weights.size:
        alias, edge = _alias_words(law, _owner(graph, matrix, transpose)), NO_FLOATS
        signed = any_entry(law.values, lambda values: values < 0)
    stuck = False
    if (graph.directed or matrix == "combinatorial") and (counts == 0).any():
        stuck = any_entry(law.indices, lambda nodes: counts[nodes] == 0)
    plain = not (inner.size or edge.size or signed or stuck)
    packed, last, by_degree = _node_words(law, counts, plain)
    entries = (read_only(law.indices), alias, read_only(edge))
    return WalkTable(packed, *entries, first, inner, last, scale, plain, by_degree)


def _node_words(
    law: StepLaw, counts: NDArray[np.int64], plain: bool
) -> tuple[NDArray[np.uint64], NDArray[np.float64], bool]:
    """Return packed rows, last factors, and whether these go by degree.

    A deposit needs the last factor of a node and the next step its row. Factors that depend on the degree
    alone are kept in a short list; others share the cache lines of the rows.
    """
    words = (law.indptr[:-1].astype(np.uint64) << np.uint64(DEGREE_BITS)) | counts.astype(np.uint64)
    of_degree = np.zeros(counts.max(initial=0) + 1)
    of_degree[counts] = law.enter
    if plain and np.array_equal(of_degree[counts], law.enter):
        return words, of_degree, True
    pairs = np.empty((counts.size, 2), dtype=np.uint64)
    pairs[:, 0] = words
    pairs.view(np.float64)[:, 1] = law.enter
    return pairs[:, 0], pairs.view(np.float64)[:, 1], False


def _typical_factor(totals: NDArray[np.float64]) -> float:
    """Return the power of two next to the row total that walks meet on average, Σd² / Σd."""
    largest = totals.max(initial=0.0)
    if largest == 0:
        return 1.0
    relative = totals / largest
    exponent = np.round(np.log2((relative**2).sum() / relative.sum()) + np.log2(largest))
    return float(2.0**exponent)


def _alias_words(law: StepLaw, owner: Graph | None) -> NDArray[np.uint64]:
    """Return the alias words of a law, kept with the files of the graph whose own arrays it has, if any."""
    from walkernel.walks._alias import build_alias

    if law.enter.size >= MAX_WEIGHTED_NODES:
        refuse("graph", "of fewer than 2**31 nodes if it has weights", law.enter.size)
    steps = (law.indptr, law.indices, law.weights)
    size = 2 * law.indices.size
    if owner is not None and owner.store is not None:
        about = f"{ALIAS_FORMAT} of {owner.fingerprint}"
        return cached_array(owner.store, about, np.uint64, size, lambda words: build_alias(*steps, words))
    words = np.empty(size, dtype=np.uint64)
    build_alias.for_work(size)(*steps, words)
    words.flags.writeable = False
    return words
