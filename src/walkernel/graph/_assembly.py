"""From what users have (edge lists, matrices) to checked, coalesced CSR arrays.

Rules: zero weights are no edges; repeated edges collapse where there are no weights and are summed
where there are; an undirected edge is summed once, then mirrored, so that the stored matrix is
symmetric to the last bit; weights that are all one are not stored.
"""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import Described, is_hashable, real_array, refuse, whole_number
from walkernel._door import warn
from walkernel.graph._labels import Labels, is_integer, number_hashables, number_integers

SPARSE_ID_FACTOR = 100
"""Ids above this multiple of the number of distinct ids are taken for labels given by mistake."""


LARGEST_TOTAL, SMALLEST_ENTRY = 2.0**960, float(np.finfo(np.float64).tiny)
"""The sum of all entries at most, and a single one at least: shares of degrees have all their digits."""


class Arrays(NamedTuple):
    """A coalesced CSR matrix: sorted indices, no explicit zeros, ``weights`` None if all are one."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.signedinteger[Any]]
    weights: NDArray[np.float64] | None


def read_ends(edges: object, relabel: bool) -> tuple[NDArray[np.int64], Labels | None]:
    """Return the two ends of every edge as ids of shape (m, 2), and labels unless ids were given."""
    array = _as_array(edges)
    if array is not None and array.dtype.kind in "iu":
        if array.size and array.max() > np.iinfo(np.int64).max:
            refuse("edges", "ids below 2**63", Described(str(array.max())))
        ends = array.astype(np.int64)
        if relabel:
            labels, ends = number_integers(ends)
            return ends, labels
        return ends, None
    rows = _pairs(edges if array is None else array.tolist())
    if not rows:
        return np.empty((0, 2), dtype=np.int64), None
    _refuse_float_ids(rows)
    if not relabel and all(is_integer(end) for row in rows for end in row):
        largest: Any = max(max(row) for row in rows)  # type: ignore[type-var]
        if largest > np.iinfo(np.int64).max:
            refuse("edges", "ids below 2**63", largest)
        return np.array(rows, dtype=np.int64), None
    labels, ends = number_hashables(rows)
    return ends, labels


def check_ids(
    ends: NDArray[np.int64],
    n_nodes: int | None,
    parameter: str = "edges",
    remedy: str = "Pass relabel=True to treat the integers as labels, or n_nodes= if they are ids.",
) -> int:
    """Return the number of nodes of an edge list of ids, or refuse the ids; warn if none of them is 0."""
    if ends.size and ends.min() < 0:
        refuse(parameter, "ids of at least 0", Described(f"the id {ends.min()}"))
    largest = int(ends.max()) if ends.size else -1
    if n_nodes is not None:
        if largest >= n_nodes:
            refuse(
                parameter, f"ids below n_nodes={n_nodes}", Described(f"the id {largest}"), "Ids count from 0."
            )
        return n_nodes
    if largest >= SPARSE_ID_FACTOR:
        n_distinct = _count_distinct(ends, largest)
        if largest > SPARSE_ID_FACTOR * n_distinct:
            refuse(
                parameter,
                "ids numbered 0 to n-1",
                Described(f"the id {largest} among only {n_distinct} distinct ids"),
                remedy,
            )
    if ends.size and (smallest := int(ends.min())) > 0:
        lonely = "node 0 has" if smallest == 1 else f"the nodes 0 to {smallest - 1} have"
        warn(
            f"{parameter} begin at the id {smallest}, so that {lonely} no edge: ids count from 0. "
            f"Subtract {smallest} from them if no such nodes are meant. {remedy}"
        )
    return largest + 1


def _count_distinct(ends: NDArray[np.int64], largest: int) -> int:
    if largest > 4 * ends.size:
        return np.unique(ends).size
    seen = np.zeros(largest + 1, dtype=bool)
    seen[ends] = True
    return int(seen.sum())


def read_weights(weights: object, n_edges: int, parameter: str = "weights") -> NDArray[np.float64] | None:
    """Return one finite weight per edge, or None."""
    if weights is None:
        return None
    array = real_array(parameter, weights, ndim=1)
    if array.size != n_edges:
        refuse(parameter, f"one per edge ({n_edges})", Described(f"{array.size} weights"))
    return array


def read_networkx(
    G: Any, weight: str | None
) -> tuple[list[Hashable], NDArray[np.int64], NDArray[np.float64] | None]:
    """Return nodes, edges as ids (m, 2) and weights of a NetworkX graph."""
    if isinstance(G, type) or not all(hasattr(G, name) for name in ("nodes", "edges", "is_directed")):
        refuse("G", "a NetworkX graph", G, error=TypeError)
    nodes = list(G)
    if any(node != node for node in nodes):
        refuse("G", "a graph without NaN among its nodes", np.nan, "NaN is not equal to itself.")
    number = {node: i for i, node in enumerate(nodes)}
    edges = list(G.edges(data=weight if weight is not None else False))
    ends = np.array([(number[edge[0]], number[edge[1]]) for edge in edges], dtype=np.int64).reshape(-1, 2)
    given = weight is not None and any(edge[2] is not None for edge in edges)
    values = [1.0 if edge[2] is None else edge[2] for edge in edges] if given else None
    return nodes, ends, read_weights(values, len(ends))


def read_pyg(data: Any) -> tuple[NDArray[np.int64], NDArray[np.float64] | None, int]:
    """Return directed entries as ids (m, 2), weights and the number of nodes of a PyG ``Data``."""
    index = getattr(data, "edge_index", None)
    if index is None:
        refuse("data", "an object with an edge_index", data, error=TypeError)
    index = np.asarray(index)
    if index.ndim != 2 or index.shape[0] != 2 or index.dtype.kind not in "iu":
        refuse("edge_index", "an integer array of shape (2, m)", index)
    n_nodes = getattr(data, "num_nodes", None)
    n_nodes = None if n_nodes is None else whole_number("num_nodes", n_nodes)
    size = check_ids(index.T, n_nodes, "edge_index", "Set num_nodes if they are ids.")
    weights = read_weights(getattr(data, "edge_weight", None), index.shape[1], "edge_weight")
    return index.T.astype(np.int64), weights, size


def assemble_edges(
    ends: NDArray[np.int64],
    weights: NDArray[np.float64] | None,
    n_nodes: int,
    directed: bool,
    warn_of_repeats: bool = True,
) -> Arrays:
    """Coalesce an edge list into CSR arrays; exact repeats among directed edges are warned of."""
    start, end = ends[:, 0], ends[:, 1]
    if not directed:
        start, end = np.minimum(start, end), np.maximum(start, end)
    values = np.ones(start.size) if weights is None else weights
    matrix = scipy.sparse.coo_array((values, (start, end)), shape=(n_nodes, n_nodes)).tocsr()
    if weights is None:
        if warn_of_repeats and directed and matrix.nnz < start.size:
            warn(
                f"{start.size - matrix.nnz} repeated edges were collapsed. "
                "Pass weights= to have repeats summed."
            )
        matrix.data[:] = 1.0
    if not directed:
        matrix = matrix + scipy.sparse.triu(matrix, k=1).T
    return to_arrays("weights", matrix)


def check_sizes(parameter: str, sizes: NDArray[np.float64]) -> None:
    """Refuse entries so large or so small that degrees, or one over them, lose digits."""
    with np.errstate(over="ignore"):
        total = sizes.sum()
    remedy = "Multiply all of them by a number (matrix='normalized' has no unit), or leave such edges out."
    if total > LARGEST_TOTAL:
        received = Described(f"numbers up to {sizes.max():.3g} of sum {total:.3g}")
        refuse(parameter, f"of finite sum, below {LARGEST_TOTAL:.2g}", received, remedy)
    if sizes.size and sizes.min() < SMALLEST_ENTRY:
        received = Described(f"{sizes.min():.3g}, which float64 holds with fewer digits")
        refuse(parameter, f"zero, or of size {SMALLEST_ENTRY:.2g} or more", received, remedy)


def read_matrix(matrix: Any, directed: bool | None) -> tuple[Arrays, bool]:
    """Check an adjacency matrix, sparse or dense: (CSR arrays, directed)."""
    if scipy.sparse.issparse(matrix):
        real_array("A", matrix.tocoo().data)
        csr = scipy.sparse.csr_array(matrix, dtype=np.float64, copy=True)
    else:
        csr = scipy.sparse.csr_array(real_array("A", matrix, ndim=2))
    if csr.ndim != 2 or csr.shape[0] != csr.shape[1]:
        refuse("A", "a square matrix", Described(f"shape {csr.shape}"))
    csr.sum_duplicates()
    csr.eliminate_zeros()
    symmetric = (csr != csr.T.tocsr()).nnz == 0
    if directed is False and not symmetric:
        refuse(
            "A",
            "symmetric for directed=False",
            Described("a matrix that is not"),
            "Pass (A + A.T) / 2, or directed=True.",
        )
    return to_arrays("A", csr), not symmetric if directed is None else directed


def to_arrays(parameter: str, matrix: scipy.sparse.csr_array) -> Arrays:
    """Turn a SciPy matrix into CSR arrays with the smallest index type."""
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    matrix.sort_indices()
    check_sizes(parameter, np.abs(matrix.data))
    small = matrix.shape[0] <= np.iinfo(np.int32).max
    return Arrays(
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32 if small else np.int64),
        None if np.all(matrix.data == 1.0) else matrix.data.astype(np.float64),
    )


def check_not_empty(n_nodes: int, remedy: str = "") -> None:
    """Refuse a graph without nodes."""
    if n_nodes < 1:
        refuse("the graph", "of at least one node", Described("none"), remedy)


def _as_array(edges: object) -> NDArray[Any] | None:
    """Return edges as an (m, 2) array if they are an array, or a list of pairs of integers."""
    if isinstance(edges, (list, tuple)):
        try:
            array = np.asarray(edges)
        except ValueError:
            return None
        ids = array.dtype.kind in "iu" and array.ndim == 2 and array.shape[1] == 2
        return array if ids and not any(isinstance(end, bool) for edge in edges for end in edge) else None
    if not hasattr(edges, "__array__"):
        return None
    array = np.asarray(edges)
    if array.ndim != 2 or array.shape[1] != 2:
        hints = ["Pass the transpose."] if array.ndim == 2 and array.shape[0] == 2 else []
        if array.ndim == 2 and array.shape[1] == 3:
            hints.append("Pass the third column as weights=.")
        hint = " Or: ".join(hints)
        refuse("edges", "of shape (m, 2)", Described(f"shape {array.shape}"), hint)
    return array


def _pairs(edges: object) -> list[tuple[Hashable, Hashable]]:
    """Return a list of pairs of hashables, or refuse the first entry that is not one."""
    if scipy.sparse.issparse(edges):
        refuse("edges", "a list of pairs of nodes", edges, "Use Graph.from_scipy.", TypeError)
    if isinstance(edges, (str, bytes)) or not isinstance(edges, Iterable):
        refuse("edges", "a list of pairs of nodes", edges, error=TypeError)
    pairs = []
    for position, edge in enumerate(edges):
        if isinstance(edge, (str, bytes, Set, Mapping)) or not hasattr(edge, "__len__") or len(edge) != 2:
            hint = "Pass the third column as weights=." if hasattr(edge, "__len__") and len(edge) == 3 else ""
            refuse(f"edges[{position}]", "a pair of nodes", edge, hint)
        pair = tuple(edge)
        if not is_hashable(pair):
            refuse(f"edges[{position}]", "a pair of hashable nodes", pair, error=TypeError)
        if any(isinstance(end, (bool, np.bool_)) for end in pair):
            refuse(
                f"edges[{position}]", "a pair of whole-number ids or labels, not bools", pair, error=TypeError
            )
        if any(isinstance(end, (float, np.floating)) and np.isnan(end) for end in pair):
            refuse(f"edges[{position}]", "a pair of nodes", pair, "NaN is not equal to itself.")
        pairs.append(pair)
    return pairs


def _refuse_float_ids(pairs: list[tuple[Hashable, Hashable]]) -> None:
    """Floats and bools among nothing but numbers are ids gone wrong; beside other labels they are labels."""
    ends = [end for pair in pairs for end in pair]
    if all(isinstance(end, (numbers.Number, np.bool_)) for end in ends):
        wrong = [end for end in ends if not is_integer(end)]
        if wrong:
            refuse("edges", "whole-number ids or labels", wrong[0], "Convert ids to int.", TypeError)
