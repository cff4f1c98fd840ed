"""The graph: a validated, immutable weighted adjacency matrix in CSR form, with node labels.

A graph is data. What is derived from it (degrees, the reversed graph, walk tables, spectral bounds)
is computed when first asked for and kept beside it, never inside its state.

The matrices a kernel can be a function of, M, are

    "normalized"     a_ij / √(d_i d_j), d_i = Σ_j |a_ij|; directed: a_ij / √(d_out(i) d_in(j))
    "adjacency"      A
    "combinatorial"  I − (D − A) / d_max

and L always means I − M. Rows of nodes without edges are zero in the first two.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from walkernel._assembly import (
    Arrays,
    assemble_edges,
    check_ids,
    freeze,
    read_ends,
    read_matrix,
    read_networkx,
    read_pyg,
    read_weights,
)
from walkernel._checks import MATRICES, Described, flag, one_of, refuse, whole_number
from walkernel._files import write_graph
from walkernel._labels import Labels, fill_objects, find_ids

T = TypeVar("T")

ROWS_AT_ONCE = 2**18
MOST_NODES = 2**48
"""Ids have 48 bits in the counter of the random numbers."""


class Graph:
    """A graph on nodes 0 … n−1, or on labelled nodes; build it with one of the ``from_`` constructors.

    Weights are **similarities**, not lengths: a walk prefers heavy edges. Turn lengths into
    similarities first, for instance with ``weights=np.exp(-lengths / scale)``.

    Wherever a node is passed or returned, a graph with labels takes labels only and one without takes
    ids only.

    Attributes
    ----------
    indptr : ndarray of int64, (n_nodes + 1,)
        Row i of the adjacency matrix is at ``indptr[i]:indptr[i + 1]``.
    indices : ndarray of int32 (int64 beyond 2³¹ nodes), (n_entries,)
        Column of each entry; undirected edges are stored in both directions, self-loops once.
    weights : ndarray of float64, (n_entries,), or None
        Value of each entry; None if all are one.
    directed : bool
        Whether the matrix may be asymmetric.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    >>> graph
    Graph(n_nodes=4, n_edges=4, undirected, unweighted, labelled)
    >>> graph.ids(["d", "a"])
    array([3, 0])
    """

    def __init__(self, arrays: Arrays, directed: bool, labels: Labels | None = None) -> None:
        self.indptr, self.indices, self.weights = freeze(arrays)
        self.directed = directed
        self._labels = labels
        self._derived: dict[Hashable, Any] = {}

    # constructors ---------------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        edges: object,
        *,
        n_nodes: int | None = None,
        weights: ArrayLike | None = None,
        directed: bool = False,
        relabel: bool = False,
    ) -> Graph:
        """Build a graph from a list of edges.

        Parameters
        ----------
        edges : array of int, (m, 2), or iterable of m pairs of hashables
            Integers are ids and count from 0; anything else is a label, numbered by first appearance.
        n_nodes : int, optional
            Number of nodes, to have isolated ones at the end; with ids only.
        weights : array of float, (m,), optional
            Similarity of each edge, of either sign. Repeated edges are summed; without weights they
            collapse to one.
        directed : bool
            Whether (i, j) is an edge from i to j only.
        relabel : bool
            Treat integers as labels.
        """
        owner = "Graph.from_edges"
        flag(owner, "directed", directed)
        flag(owner, "relabel", relabel)
        ends, labels = read_ends(owner, edges, relabel)
        values = read_weights(owner, weights, len(ends))
        if labels is None:
            size = None if n_nodes is None else whole_number(owner, "n_nodes", n_nodes, 1, MOST_NODES)
            size = check_ids(owner, ends, size)
        elif n_nodes is not None:
            remedy = "Isolated nodes with labels come in through Graph.from_networkx."
            refuse(owner, "n_nodes", "None for a graph with labels", n_nodes, remedy)
        else:
            size = len(labels)
        _check_not_empty(owner, size, "Pass n_nodes= or edges.")
        return cls(assemble_edges(owner, ends, values, size, directed), directed, labels)

    @classmethod
    def from_scipy(cls, A: Any, *, directed: bool | None = None) -> Graph:
        """Build a graph from its adjacency matrix.

        Parameters
        ----------
        A : sparse array, sparse matrix or array of float, (n, n)
            Explicit zeros are no edges.
        directed : bool, optional
            None: directed unless A is exactly symmetric.
        """
        owner = "Graph.from_scipy"
        if directed is not None:
            flag(owner, "directed", directed)
        arrays, is_directed = read_matrix(owner, A, directed)
        _check_not_empty(owner, len(arrays.indptr) - 1)
        return cls(arrays, is_directed)

    @classmethod
    def from_networkx(cls, G: Any, *, weight: str | None = "weight") -> Graph:
        """Build a graph from a NetworkX graph; parallel edges are summed if they have weights.

        Parameters
        ----------
        G : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
            Its nodes become the labels, unless they are 0 … n−1 in that order.
        weight : str, optional
            Edge attribute that holds the similarity, one where it is missing. None ignores weights.
        """
        owner = "Graph.from_networkx"
        nodes, ends, values = read_networkx(owner, G, weight)
        _check_not_empty(owner, len(nodes))
        arrays = assemble_edges(owner, ends, values, len(nodes), G.is_directed())
        plain = all(isinstance(node, int) and node == i for i, node in enumerate(nodes))
        return cls(arrays, G.is_directed(), None if plain else Labels(nodes))

    @classmethod
    def from_pyg(cls, data: Any, *, directed: bool | None = None) -> Graph:
        """Build a graph from a PyTorch Geometric ``Data`` object, or anything with an ``edge_index``.

        Parameters
        ----------
        data : object
            With ``edge_index`` of shape (2, m), read as directed entries, and optionally
            ``edge_weight`` of shape (m,) and ``num_nodes``.
        directed : bool, optional
            None: directed unless the entries are exactly symmetric.
        """
        owner = "Graph.from_pyg"
        ends, values, size = read_pyg(owner, data)
        _check_not_empty(owner, size)
        arrays = assemble_edges(owner, ends, values, size, directed=True, warn=False)
        return cls.from_scipy(Graph(arrays, True).to_scipy(), directed=directed)

    # what it is -----------------------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.indptr.size - 1

    @property
    def n_edges(self) -> int:
        """Number of edges: pairs of nodes if undirected, entries if directed; a self-loop is one."""
        if self.directed:
            return self.indices.size
        return (self.indices.size + self.n_self_loops) // 2

    @property
    def n_self_loops(self) -> int:
        """Number of self-loops."""
        return self.derived("n_self_loops", self._count_self_loops)

    def _count_self_loops(self) -> int:
        total = 0
        for first in range(0, self.n_nodes, ROWS_AT_ONCE):
            part = self.indptr[first : first + ROWS_AT_ONCE + 1]
            rows = np.repeat(np.arange(first, first + part.size - 1), np.diff(part))
            total += int(np.sum(self.indices[part[0] : part[-1]] == rows))
        return total

    @property
    def labels(self) -> tuple[Hashable, ...] | None:
        """Labels in the order of the ids, or None for a graph whose nodes are ids."""
        return None if self._labels is None else self._labels.values

    def __repr__(self) -> str:
        words = [
            f"n_nodes={self.n_nodes}",
            f"n_edges={self.n_edges}",
            "directed" if self.directed else "undirected",
            "unweighted" if self.weights is None else "weighted",
        ]
        return f"Graph({', '.join(words + ['labelled'] * (self._labels is not None))})"

    # nodes ----------------------------------------------------------------------------------------

    def ids(self, nodes: Any) -> NDArray[np.int64]:
        """Return ids of nodes given by the addressing rule: labels if the graph has them, else ids.

        Parameters
        ----------
        nodes : node or (nested) sequence or array of nodes
            In a labelled graph, a hashable that is a label counts as one node.

        Returns
        -------
        ndarray of int64
            Of the shape of ``nodes``; a single node gives an array of shape ().
        """
        return find_ids(nodes, self._labels, self.n_nodes)

    def names(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return nodes as users know them: labels, in an object array, or the ids themselves."""
        if self._labels is None:
            return ids
        return fill_objects([self._labels.values[i] for i in ids.flat], ids.shape)

    # derived data ---------------------------------------------------------------------------------

    def derived(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return what ``build`` makes of this graph, built at the first call and kept."""
        if key not in self._derived:
            value = build()
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            self._derived[key] = value
        return self._derived[key]  # type: ignore[no-any-return]

    def row_indices(self) -> NDArray[np.int64]:
        """Return the row of each stored entry."""
        return np.repeat(np.arange(self.n_nodes), np.diff(self.indptr))

    def out_degrees(self) -> NDArray[np.float64]:
        """Return d_out(i) = Σ_j |a_ij|, shape (n_nodes,)."""
        return self.derived("out_degrees", self._row_sums)

    def in_degrees(self) -> NDArray[np.float64]:
        """Return d_in(j) = Σ_i |a_ij|, shape (n_nodes,)."""
        return self.out_degrees() if not self.directed else self.reversed().out_degrees()

    def _row_sums(self) -> NDArray[np.float64]:
        if self.weights is None:
            return np.diff(self.indptr).astype(np.float64)
        entries = (np.abs(self.weights), self.indices, self.indptr)
        return np.asarray(scipy.sparse.csr_array(entries, shape=self._shape).sum(axis=1))

    @property
    def _shape(self) -> tuple[int, int]:
        return (self.n_nodes, self.n_nodes)

    def reversed(self) -> Graph:
        """Return the graph with every edge turned round; an undirected graph is its own reverse."""
        return self if not self.directed else self.derived("reversed", self._reverse)

    def _reverse(self) -> Graph:
        graph = self._like(self.to_scipy().T.tocsr(), self._labels)
        graph._derived["reversed"] = self
        return graph

    def _like(self, matrix: scipy.sparse.csr_array, labels: Labels | None) -> Graph:
        matrix.sort_indices()
        weights = None if self.weights is None else matrix.data
        arrays = Arrays(matrix.indptr.astype(np.int64), matrix.indices.astype(self.indices.dtype), weights)
        return Graph(arrays, self.directed, labels)

    def largest_component(self) -> Graph:
        """Return the largest (weakly) connected part; its nodes keep their names.

        The nodes of a graph without labels are labelled by their old ids.
        """
        _, part = scipy.sparse.csgraph.connected_components(self.to_scipy(), directed=self.directed)
        kept = np.flatnonzero(part == np.argmax(np.bincount(part)))
        if kept.size == self.n_nodes:
            return self
        labels = Labels(kept) if self._labels is None else self._labels.take(kept)
        return self._like(self.to_scipy()[kept][:, kept].tocsr(), labels)

    def to_scipy(self, matrix: str = "adjacency") -> scipy.sparse.csr_array:
        """Return M as a SciPy array of float64.

        Parameters
        ----------
        matrix : {"adjacency", "normalized", "combinatorial"}
            Which M; see the module's text for their definitions.
        """
        one_of("Graph.to_scipy", "matrix", matrix, MATRICES)
        values = np.ones(self.indices.size) if self.weights is None else self.weights
        if matrix == "normalized":
            rows = inverse_root(self.out_degrees())
            values = values * rows[self.row_indices()] * inverse_root(self.in_degrees())[self.indices]
        elif matrix == "adjacency":
            values = values.copy()
        index_type = np.int32 if self.indices.size <= np.iinfo(np.int32).max else np.int64
        structure = (self.indices.astype(index_type), self.indptr.astype(index_type))
        result = scipy.sparse.csr_array((values, *structure), shape=self._shape)
        if matrix == "combinatorial":
            largest = self.out_degrees().max() or 1.0
            diagonal = scipy.sparse.diags_array(1.0 - self.out_degrees() / largest)
            result = (result / largest + diagonal).tocsr()
            result.sort_indices()
        return result

    def to_networkx(self) -> Any:
        """Return a NetworkX Graph or DiGraph on the same node names, weights as attribute "weight"."""
        import networkx

        G = networkx.DiGraph() if self.directed else networkx.Graph()
        names = range(self.n_nodes) if self._labels is None else self._labels.values
        G.add_nodes_from(names)
        rows, columns = self.row_indices().tolist(), self.indices.tolist()
        if self.weights is None:
            G.add_edges_from((names[i], names[j]) for i, j in zip(rows, columns, strict=True))
        else:
            triples = zip(rows, columns, self.weights.tolist(), strict=True)
            G.add_weighted_edges_from((names[i], names[j], w) for i, j, w in triples)
        return G

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a ``.npz`` file that ``load_graph`` reads; labels must be text or integers.

        The file appears only when it is complete, and holds plain arrays: no pickle.
        """
        write_graph("Graph.save", path, *self.__getstate__())

    @property
    def fingerprint(self) -> str:
        """A digest of the matrix, to tell whether stored walks belong to this graph."""
        return self.derived("fingerprint", self._digest)

    def _digest(self) -> str:
        digest = hashlib.blake2b(str((self.n_nodes, self.directed)).encode(), digest_size=16)
        for array in (self.indptr, self.indices, self.weights):
            digest.update(b"" if array is None else np.ascontiguousarray(array).data)
        return digest.hexdigest()

    # protocols ------------------------------------------------------------------------------------

    def __getstate__(self) -> tuple[Arrays, bool, Labels | None]:
        return Arrays(self.indptr, self.indices, self.weights), self.directed, self._labels

    def __setstate__(self, state: tuple[Arrays, bool, Labels | None]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __setattr__(self, name: str, value: object) -> None:
        if "_derived" in self.__dict__:
            raise AttributeError(f"Graph is immutable: cannot set {name!r}. Build a new graph instead.")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Graph is immutable: cannot delete {name!r}. Build a new graph instead.")

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self

    def __sklearn_clone__(self) -> Graph:
        return self


def inverse_root(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return d^-½, zero where d is zero."""
    return np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)


def _check_not_empty(owner: str, n_nodes: int, remedy: str = "") -> None:
    if n_nodes < 1:
        refuse(owner, "the graph", "of at least one node", Described("none"), remedy)
