"""A graph in the forms of other libraries: SciPy arrays of its matrices, NetworkX graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

if TYPE_CHECKING:
    from walkernel.graph._graph import Graph


def inverse_root(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return d^-½, zero where d is zero."""
    return np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)


def scipy_matrix(graph: Graph, matrix: str) -> scipy.sparse.csr_array:
    """Return M as a SciPy array of float64, in memory of its own."""
    values = np.ones(graph.indices.size) if graph.weights is None else graph.weights
    if matrix == "normalized":
        rows = inverse_root(graph.out_degrees())
        values = values * rows[graph.row_indices()] * inverse_root(graph.in_degrees())[graph.indices]
    elif matrix == "adjacency":
        values = values.copy()
    index_type = np.int32 if graph.indices.size <= np.iinfo(np.int32).max else np.int64
    structure = (graph.indices.astype(index_type), graph.indptr.astype(index_type))
    result = scipy.sparse.csr_array((values, *structure), shape=(graph.n_nodes, graph.n_nodes))
    if matrix == "combinatorial":
        largest = graph.out_degrees().max() or 1.0
        diagonal = scipy.sparse.diags_array(1.0 - graph.out_degrees() / largest)
        result = (result / largest + diagonal).tocsr()
        result.sort_indices()
    return result


def networkx_graph(graph: Graph) -> Any:
    """Return a NetworkX Graph or DiGraph on the same node names, weights as attribute "weight"."""
    import networkx

    G = networkx.DiGraph() if graph.directed else networkx.Graph()
    names = range(graph.n_nodes) if graph.labels is None else graph.labels
    G.add_nodes_from(names)
    rows, columns = graph.row_indices().tolist(), graph.indices.tolist()
    if graph.weights is None:
        G.add_edges_from((names[i], names[j]) for i, j in zip(rows, columns, strict=True))
    else:
        triples = zip(rows, columns, graph.weights.tolist(), strict=True)
        G.add_weighted_edges_from((names[i], names[j], w) for i, j, w in triples)
    return G
