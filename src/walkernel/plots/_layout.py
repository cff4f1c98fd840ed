"""Where nodes are drawn: at places that are known, or at those of a layout."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, refuse
from walkernel._door import door
from walkernel.datasets import Dataset
from walkernel.graph import Graph
from walkernel.operators import leading_eigenvectors

Array = NDArray[np.float64]
SPRING_NODES = 1000
"""Number of nodes up to which springs find the layout; they take seconds for more."""
ACCURACY = 9e-4
"""Accuracy of the eigenvectors of a layout: rough ones of grids and roads are mixtures of many."""


@door
def node_positions(graph: Graph | Dataset, positions: Any = None) -> Array:
    """Return where nodes are drawn, (n_nodes, 2).

    Parameters
    ----------
    graph : Graph or Dataset
        The coordinates of a data set are the positions, if it has any.
    positions : array_like, (n_nodes, 2) or (n_nodes, 3), optional
        Given positions; of three coordinates, the two directions in which the nodes spread most are taken.

    Returns
    -------
    ndarray of float64
        Without positions, those of a spring layout (NetworkX) for up to 1000 nodes, otherwise two
        eigenvectors of the random-walk matrix. Both are the same at every call, and kept with the graph.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.plots import node_positions
    >>> node_positions(wk.load_dataset("karate").graph).shape
    (34, 2)
    """
    network = graph.graph if isinstance(graph, Dataset) else graph
    if not isinstance(network, Graph):
        refuse("graph", "a Graph or a Dataset", graph, error=TypeError)
    if positions is None and isinstance(graph, Dataset):
        positions = graph.coordinates
    if positions is None:
        found: Array = network.derived("layout", lambda: _layout(network))
        return found
    places = np.asarray(positions, dtype=np.float64)
    rule = f"finite numbers of shape ({network.n_nodes}, 2) or ({network.n_nodes}, 3)"
    if places.ndim != 2 or places.shape[0] != network.n_nodes or places.shape[1] not in (2, 3):
        refuse("positions", rule, Described(f"shape {places.shape}"))
    if not np.isfinite(places).all():
        refuse("positions", rule, Described("NaN or infinity"))
    return places if places.shape[1] == 2 else _widest_view(places)


def _widest_view(places: Array) -> Array:
    centred = places - places.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    signs = np.sign(directions[np.arange(3), np.abs(directions).argmax(axis=1)])
    return np.asarray(centred @ (directions * signs[:, None])[:2].T)


def _layout(graph: Graph) -> Array:
    A = abs(graph.to_scipy("adjacency"))
    A = (A + A.T).tocsr()
    if graph.n_nodes <= SPRING_NODES and find_spec("networkx") is not None:
        import networkx

        found = networkx.spring_layout(networkx.from_scipy_sparse_array(A), seed=0, iterations=200)
        return np.array([found[i] for i in range(graph.n_nodes)]).reshape(-1, 2)
    undirected = Graph.from_scipy(A, directed=False)
    vectors = leading_eigenvectors(undirected, min(2, graph.n_nodes), ACCURACY).vectors
    places = np.zeros((graph.n_nodes, 2))
    degrees = undirected.out_degrees()
    places[:, : vectors.shape[1]] = vectors / np.sqrt(np.where(degrees > 0, degrees, 1.0))[:, None]
    return places
