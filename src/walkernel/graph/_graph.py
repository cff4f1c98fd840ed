"""The graph: a validated, immutable weighted adjacency matrix in CSR form, with node labels.

A graph is data. What is derived from it (degrees, the reversed graph, walk tables, spectral bounds)
is computed when first asked for and kept beside it, never inside its state.

The matrices a kernel can be a function of, M, are

    "normalized"     a_ij / √(d_i d_j), d_i = Σ_j |a_ij|; directed: a_ij / √(d_out(i) d_in(j))
    "adjacency"      A
    "combinatorial"  I − (D − A) / d_max
    "random-walk"    P = D⁻¹A, a_ij / d_out(i), for weights that are not negative

and L always means I − M. Rows of nodes without edges are zero in all but the third. The last one is not
symmetric, even for an undirected graph, where K(P) = D^-½ K(W̃) D^½ with W̃ the normalized matrix: a scaling of
rows and columns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import MATRICES, Described, check_flag, one_of, refuse, shown, whole_number
from walkernel._door import door
from walkernel._files import write_archive
from walkernel._html import html_table
from walkernel.graph._assembly import (
    Arrays,
    assemble_edges,
    check_ids,
    check_not_empty,
    read_ends,
    read_matrix,
    read_networkx,
    read_pyg,
    read_weights,
)
from walkernel.graph._csr import is_tensor, read_csr
from walkernel.graph._labels import Labels, fill_objects, find_ids, is_integer
from walkernel.graph._store import GRAPH_FORMAT, goes_to_folder, open_store, plain_labels, write_store
from walkernel.storage import Folder, any_entry, column_sums, count_self_loops, digest_arrays, row_sums

T = TypeVar("T")

MAX_NODES = 2**48
"""Ids have 48 bits in the counter of the random numbers."""


class Graph:
    """A weighted graph on nodes 0 … n−1, or on labelled nodes; immutable.

    Build it with one of the ``from_`` constructors, or read it with :func:`~walkernel.load_graph`.

    Weights are **similarities**, not lengths: a walk prefers heavy edges. Turn lengths into similarities
    first, for instance with ``weights=np.exp(-lengths / lengths.mean())``, in any unit of length.

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

    def __init__(
        self, arrays: Arrays, directed: bool, labels: Labels | None = None, stored: Folder | None = None
    ) -> None:
        for array in arrays:
            if array is not None:
                array.flags.writeable = False
        self.indptr, self.indices, self.weights = arrays
        self.directed = directed
        self._labels = labels
        self._stored = stored
        self._derived: dict[Hashable, Any] = dict(() if stored is None else stored.about.items())

    # constructors ---------------------------------------------------------------------------------

    @classmethod
    @door
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
            Number of nodes, for graphs whose last nodes have no edges; with ids only. By default the largest
            id plus one.
        weights : array of float, (m,), optional
            Similarity of each edge, of either sign, in any unit. Repeated edges are summed; without weights
            they collapse to one.
        directed : bool
            Whether (i, j) is an edge from i to j only.
        relabel : bool
            Treat integers as labels. Set it if ids have large gaps.

        Returns
        -------
        Graph
            The graph.

        Raises
        ------
        ValueError
            If the largest id is above 100 times the number of distinct ids, and ``relabel`` is not set.

        Warns
        -----
        UserWarning
            If no edge has the id 0, so that the nodes up to the first id are isolated, or if edges of a
            directed graph without weights are repeated.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Graph.from_edges([(0, 1), (1, 2)], weights=[2.0, 0.5])
        Graph(n_nodes=3, n_edges=2, undirected, weighted)
        """
        check_flag("directed", directed)
        check_flag("relabel", relabel)
        ends, labels = read_ends(edges, relabel)
        values = read_weights(weights, len(ends))
        if labels is None:
            size = None if n_nodes is None else whole_number("n_nodes", n_nodes, 1, MAX_NODES)
            size = check_ids(ends, size)
        elif n_nodes is not None:
            remedy = "Isolated nodes with labels come in through Graph.from_networkx."
            refuse("n_nodes", "None for a graph with labels", n_nodes, remedy)
        else:
            size = len(labels)
        check_not_empty(size, "Pass n_nodes= or edges.")
        return cls(assemble_edges(ends, values, size, directed), directed, labels)

    @classmethod
    def from_scipy(cls, A: Any, *, directed: bool | None = None) -> Graph:
        """Build a graph from its adjacency matrix.

        Parameters
        ----------
        A : sparse array, sparse matrix or array of float, (n, n)
            The similarities a_ij, of either sign. Explicit zeros are no edges.
        directed : bool, optional
            Whether the edges have directions. By default they have, unless A is exactly symmetric.

        Returns
        -------
        Graph
            The graph, whose nodes are the rows of A.

        Examples
        --------
        >>> import numpy as np, walkernel as wk
        >>> wk.Graph.from_scipy(np.array([[0.0, 2.0], [2.0, 0.0]]))
        Graph(n_nodes=2, n_edges=1, undirected, weighted)
        """
        if directed is not None:
            check_flag("directed", directed)
        arrays, is_directed = read_matrix(A, directed)
        check_not_empty(len(arrays.indptr) - 1)
        return cls(arrays, is_directed)

    @classmethod
    @door
    def from_csr(cls, indptr: Any, indices: Any, weights: Any = None, *, directed: bool = False) -> Graph:
        """Build a graph from the CSR arrays of its adjacency matrix, which are checked but not sorted.

        This is the shortest way for large graphs: a few passes over the entries, made where the arrays are.
        Indices on a CUDA device serve walks there without being sent again; do not change them afterwards.

        Parameters
        ----------
        indptr : array or tensor of int, (n_nodes + 1,)
            Where each row begins: row i is at ``indptr[i]:indptr[i + 1]``.
        indices : array or tensor of int, (n_entries,)
            Columns, ascending in each row and none twice. The edges of an undirected graph are given in both
            directions.
        weights : array or tensor of float, (n_entries,), optional
            Similarities, of either sign; all are one by default.
        directed : bool
            Whether entry (i, j) is an edge from i to j only.

        Returns
        -------
        Graph
            The graph.

        Raises
        ------
        ValueError
            If columns are not sorted, or if the matrix of an undirected graph is not symmetric.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Graph.from_csr([0, 1, 3, 4], [1, 0, 2, 1])
        Graph(n_nodes=3, n_edges=2, undirected, unweighted)
        """
        check_flag("directed", directed)
        arrays, n_loops = read_csr(indptr, indices, weights, directed)
        graph = cls(arrays, directed)
        graph.derived("n_self_loops", lambda: n_loops)
        if is_tensor(indices) and indices.device.type != "cpu":
            kind = "int32" if graph.indices.dtype == np.int32 else "int64"
            graph.derived(
                ("indices", str(indices.device)), lambda: indices.to(getattr(sys.modules["torch"], kind))
            )
        return graph

    @classmethod
    @door
    def from_networkx(cls, G: Any, *, weight: str | None = "weight") -> Graph:
        """Build a graph from a NetworkX graph; parallel edges are summed if they have weights.

        Parameters
        ----------
        G : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
            Its nodes become the labels, unless they are 0 … n−1 in that order.
        weight : str, optional
            Edge attribute that holds the similarity; it is one where the attribute is missing. None ignores
            weights, which is right where they are lengths.

        Returns
        -------
        Graph
            The graph, directed if G is.

        Examples
        --------
        >>> import networkx, walkernel as wk
        >>> wk.Graph.from_networkx(networkx.cycle_graph(5))
        Graph(n_nodes=5, n_edges=5, undirected, unweighted)
        """
        nodes, ends, values = read_networkx(G, weight)
        check_not_empty(len(nodes))
        arrays = assemble_edges(ends, values, len(nodes), G.is_directed())
        plain = all(is_integer(node) and node == i for i, node in enumerate(nodes))
        return cls(arrays, G.is_directed(), None if plain else Labels(nodes))

    @classmethod
    @door
    def from_pyg(cls, data: Any, *, directed: bool | None = None) -> Graph:
        """Build a graph from a PyTorch Geometric ``Data`` object, or anything with an ``edge_index``.

        Parameters
        ----------
        data : object
            With ``edge_index`` of shape (2, m), read as directed entries, and optionally
            ``edge_weight`` of shape (m,) and ``num_nodes``.
        directed : bool, optional
            Whether the edges have directions. By default they have, unless the entries are exactly symmetric.

        Returns
        -------
        Graph
            The graph, on the ids of ``data``.

        Examples
        --------
        >>> from types import SimpleNamespace
        >>> import numpy as np, walkernel as wk
        >>> wk.Graph.from_pyg(SimpleNamespace(edge_index=np.array([[0, 1], [1, 0]])))  # or a Data object
        Graph(n_nodes=2, n_edges=1, undirected, unweighted)
        """
        ends, values, size = read_pyg(data)
        check_not_empty(size)
        arrays = assemble_edges(ends, values, size, directed=True, warn_of_repeats=False)
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
        return self.derived("n_self_loops", lambda: count_self_loops(self.indptr, self.indices))

    @property
    def store(self) -> Path | None:
        """The folder that the graph is mapped from, or None for a graph in memory."""
        return None if self._stored is None else self._stored.path

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

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [("nodes", f"{self.n_nodes:,}"), ("edges", f"{self.n_edges:,}")]
        rows.append(("edges per node", f"{self.n_edges / max(1, self.n_nodes):.3g}"))
        rows.append(("direction", "directed" if self.directed else "undirected"))
        rows.append(("weights", "all 1" if self.weights is None else "given"))
        if self._labels is not None:
            some = ", ".join(shown(label) for label in self._labels.values[:3])
            rows.append(("labels", some + ", …" * (self.n_nodes > 3)))
        return html_table("Graph", [], rows)

    # nodes ----------------------------------------------------------------------------------------

    def ids(self, nodes: Any) -> NDArray[np.int64]:
        """Return the ids of nodes, which are given as labels if the graph has them, else as ids.

        Parameters
        ----------
        nodes : node or (nested) sequence or array of nodes
            Nodes of the graph. In a labelled graph, a hashable that is a label counts as one node.

        Returns
        -------
        ndarray of int64
            Of the shape of ``nodes``; a single node gives an array of shape ().

        Raises
        ------
        ValueError
            If a label or an id is not in the graph.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Graph.from_edges([("a", "b"), ("b", "c")]).ids(["c", "a"])
        array([2, 0])
        """
        return find_ids(nodes, self._labels, self.n_nodes)

    def names(self, ids: NDArray[np.int64]) -> NDArray[Any]:
        """Return nodes as users know them: labels, in an object array, or the ids themselves.

        Parameters
        ----------
        ids : ndarray of int64
            Ids of nodes, of any shape.

        Returns
        -------
        ndarray of object or of int64
            The nodes, of the shape of ``ids``.

        Examples
        --------
        >>> import numpy as np, walkernel as wk
        >>> wk.Graph.from_edges([("a", "b"), ("b", "c")]).names(np.array([2, 0]))
        array(['c', 'a'], dtype=object)
        """
        if self._labels is None:
            return ids
        return fill_objects([self._labels.values[i] for i in ids.flat], ids.shape)

    # derived data ---------------------------------------------------------------------------------

    def derived(self, key: Hashable, build: Callable[[], T]) -> T:
        """Return what ``build`` makes of this graph, built at the first call and kept.

        Parameters
        ----------
        key : hashable
            Name of the result.
        build : callable
            Function without arguments that computes it.

        Returns
        -------
        object
            The result.
        """
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
        """Return the degrees ``d_out(i) = Σ_j |a_ij|`` of all nodes: numbers of edges, if weights are one.

        Returns
        -------
        ndarray of float64, (n_nodes,)
            Degrees in the order of the ids.
        """
        return self.derived("out_degrees", lambda: row_sums(self.indptr, self.weights))

    def inverse_out_degrees(self) -> NDArray[np.float64]:
        """Return 1 / d_out(i), the factors of the rows of D⁻¹A, (n_nodes,); zero for nodes without out-edges.

        Negative weights, of which no step of a random walk can be made, are refused.
        """

        def build() -> NDArray[np.float64]:
            if self.weights is not None and any_entry(self.weights, lambda values: values < 0):
                received = Described(f"weights down to {self.weights.min():.3g}")
                remedy = "Use matrix='normalized', which takes weights of either sign."
                refuse("graph", "without negative weights for matrix='random-walk'", received, remedy)
            degrees = self.out_degrees()
            return np.divide(1.0, degrees, out=np.zeros_like(degrees), where=degrees > 0)

        return self.derived("inverse_out_degrees", build)

    def in_degrees(self) -> NDArray[np.float64]:
        """Return the degrees ``d_in(j) = Σ_i |a_ij|`` of all nodes; those of ``out_degrees`` if undirected.

        Returns
        -------
        ndarray of float64, (n_nodes,)
            Degrees in the order of the ids.
        """
        if not self.directed:
            return self.out_degrees()
        if self._stored is None:
            return self.reversed().out_degrees()
        return self.derived("in_degrees", lambda: column_sums(self.indices, self.weights, self.n_nodes))

    def reversed(self) -> Graph:
        """Return the graph with every edge turned round; an undirected graph is its own reverse.

        Returns
        -------
        Graph
            The reversed graph, on the same nodes.
        """
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
        """Return the largest (weakly) connected component; its nodes keep their names.

        The nodes of a graph without labels are labelled by their old ids.

        Returns
        -------
        Graph
            The component.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Graph.from_edges([(0, 1), (2, 3), (3, 4)]).largest_component()
        Graph(n_nodes=3, n_edges=2, undirected, unweighted, labelled)
        """
        _, part = scipy.sparse.csgraph.connected_components(self.to_scipy(), directed=self.directed)
        kept = np.flatnonzero(part == np.argmax(np.bincount(part)))
        if kept.size == self.n_nodes:
            return self
        labels = Labels(kept) if self._labels is None else self._labels.take(kept)
        return self._like(self.to_scipy()[kept][:, kept].tocsr(), labels)

    def is_symmetric(self, matrix: str) -> bool:
        """Tell whether M is symmetric: that of an undirected graph is, except for the random-walk matrix.

        Parameters
        ----------
        matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
            Which M; see ``to_scipy``.

        Returns
        -------
        bool
            Whether M equals its transpose.
        """
        return not self.directed and matrix != "random-walk"

    def to_scipy(self, matrix: str = "adjacency") -> scipy.sparse.csr_array:
        r"""Return the matrix M of the graph that kernels are functions of, as a sparse array.

        ================= ======================================== ==========================================
        matrix            entries                                  take it if
        ================= ======================================== ==========================================
        "adjacency"       a_ij                                     a kernel is defined by A itself
        "normalized"      a_ij / √(d_i d_j); directed:             degrees differ much, as in networks of
                          a_ij / √(d_out(i) d_in(j))               people or pages
        "combinatorial"   I − (D − A) / d_max                      degrees are alike: roads, grids, meshes
        "random-walk"     a_ij / d_out(i)                          rows are probabilities of a walker; takes
                                                                   no negative weights
        ================= ======================================== ==========================================

        Degrees are sums of absolute values, d_i = Σ_j \|a_ij\|. Rows of nodes without edges are zero in all
        but the combinatorial matrix. L means I − M throughout.

        Parameters
        ----------
        matrix : {"adjacency", "normalized", "combinatorial", "random-walk"}
            Which M. The default is A, although the default of kernels is the normalized matrix.

        Returns
        -------
        csr_array of float64, (n_nodes, n_nodes)
            The matrix.

        Examples
        --------
        >>> import walkernel as wk
        >>> wk.Graph.from_edges([(0, 1), (1, 2)]).to_scipy("random-walk").toarray()
        array([[0. , 1. , 0. ],
               [0.5, 0. , 0.5],
               [0. , 1. , 0. ]])
        """
        one_of("matrix", matrix, MATRICES)
        values = np.ones(self.indices.size) if self.weights is None else self.weights
        if matrix == "normalized":
            rows = inverse_root(self.out_degrees())
            values = values * rows[self.row_indices()] * inverse_root(self.in_degrees())[self.indices]
        elif matrix == "random-walk":
            values = values * self.inverse_out_degrees()[self.row_indices()]
        elif matrix == "adjacency":
            values = values.copy()
        index_type = np.int32 if self.indices.size <= np.iinfo(np.int32).max else np.int64
        structure = (self.indices.astype(index_type), self.indptr.astype(index_type))
        result = scipy.sparse.csr_array((values, *structure), shape=(self.n_nodes, self.n_nodes))
        if matrix == "combinatorial":
            largest = self.out_degrees().max() or 1.0
            diagonal = scipy.sparse.diags_array(1.0 - self.out_degrees() / largest)
            result = (result / largest + diagonal).tocsr()
            result.sort_indices()
        return result

    def to_networkx(self) -> Any:
        """Return a NetworkX Graph or DiGraph on the same node names, weights as attribute "weight".

        Returns
        -------
        networkx.Graph or networkx.DiGraph
            A copy.
        """
        import networkx

        G = networkx.DiGraph() if self.directed else networkx.Graph()
        names = range(self.n_nodes) if self.labels is None else self.labels
        G.add_nodes_from(names)
        rows, columns = self.row_indices().tolist(), self.indices.tolist()
        if self.weights is None:
            G.add_edges_from((names[i], names[j]) for i, j in zip(rows, columns, strict=True))
        else:
            triples = zip(rows, columns, self.weights.tolist(), strict=True)
            G.add_weighted_edges_from((names[i], names[j], w) for i, j, w in triples)
        return G

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the graph to a ``.npz`` file or to a folder that ``load_graph`` opens, whole or not at all.

        A path that ends in ``.npz`` is an archive. One without a suffix, or with a separator at its end, is a
        folder of plain arrays (a *store*): ``load_graph`` maps it into memory in milliseconds, whatever its
        size, and walks and queries of a few nodes read only the pages that they touch, so that the graph may
        be larger than the memory. The first walks on a graph with weights add a file of 16 bytes an entry.

        Files hold plain arrays, no pickle; labels must be text or integers. An existing store is replaced as
        a whole; other folders that are not empty are refused.

        Parameters
        ----------
        path : str or path
            Where to write. Take a folder for graphs that are large or opened by several processes.

        See Also
        --------
        load_graph : Open what was saved.

        Examples
        --------
        >>> import tempfile, walkernel as wk
        >>> folder = tempfile.TemporaryDirectory()
        >>> wk.load_dataset("karate").graph.save(folder.name + "/karate")
        >>> graph = wk.load_graph(folder.name + "/karate")
        >>> graph, graph.store.name
        (Graph(n_nodes=34, n_edges=78, undirected, unweighted), 'karate')
        >>> folder.cleanup()
        """
        to_folder = goes_to_folder(path)
        names = None if self._labels is None else plain_labels(self._labels.values)
        arrays = {**self._parts()[0]._asdict(), "node_labels": names}
        kept = {name: array for name, array in arrays.items() if array is not None}
        if to_folder:
            about: dict[str, Any] = {"n_nodes": self.n_nodes, "directed": bool(self.directed)}
            about |= {"n_self_loops": self.n_self_loops, "fingerprint": self.fingerprint}
            write_store(path, kept, about)
        else:
            write_archive(Path(path), {"format": GRAPH_FORMAT, "directed": self.directed, **kept})

    @property
    def fingerprint(self) -> str:
        """A digest of the matrix, to tell whether stored walks belong to this graph."""
        title = str((self.n_nodes, self.directed))
        return self.derived("fingerprint", lambda: digest_arrays(title, *self._parts()[0]))

    # protocols ------------------------------------------------------------------------------------

    def _parts(self) -> tuple[Arrays, bool, Labels | None]:
        return Arrays(self.indptr, self.indices, self.weights), self.directed, self._labels

    def __reduce__(self) -> tuple[Any, ...]:
        if self._stored is None:
            return Graph, self._parts()
        return open_graph, (str(self.store), self.fingerprint, _digest_of_names(self._stored))

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


def open_graph(path: str | os.PathLike[str], fingerprint: str | None = None, names: str = "") -> Graph:
    """Open a graph store, and refuse it if another graph is expected, by its fingerprint and its names."""
    stored, arrays = open_store(path)
    found = stored.about["fingerprint"], _digest_of_names(stored)
    if fingerprint is not None and found != (fingerprint, names):
        raise ValueError(
            f"The graph store {stored.path} is not the one that was sent: it has been replaced, or another "
            "one has that path on this machine. Send the graph again, or copy its store to this path."
        )
    labels = Labels(arrays["node_labels"]) if "node_labels" in arrays else None
    csr = Arrays(arrays["indptr"], arrays["indices"], arrays.get("weights"))
    return Graph(csr, stored.about["directed"], labels, stored)


def inverse_root(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return d^-½, zero where d is zero."""
    return np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)


def _digest_of_names(stored: Folder) -> str:
    return stored.entries["node_labels"].digest if "node_labels" in stored.entries else ""
