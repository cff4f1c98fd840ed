"""Where nodes are drawn: at places that are known, or at those of a layout.

Layouts start from distances in steps between nodes: those to some nodes far apart, the pivots, are scaled
to two dimensions (pivot MDS: principal components of the centred squares). Springs improve the layout of
small components. Components are set beside each other, the largest one first.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, dijkstra

from walkernel._checks import Described, refuse, shown
from walkernel._door import door
from walkernel.datasets import Dataset
from walkernel.graph import Graph

Array = NDArray[np.float64]
Ids = NDArray[np.int64]
SPRING_NODES, MAX_SPRING_NODES = 499, 2000
"""Nodes of a component, and of a graph, up to which springs improve a layout: more would take seconds."""
SPRING_ROUNDS = 50
MAX_PIVOTS, MIN_PIVOTS, PIVOT_WORK = 30, 4, 1e7
"""Pivots of each component, fewer where the products of pivots of all components would not fit."""
GOLDEN_ANGLE = np.pi * (3 - np.sqrt(5))


@door
def node_positions(graph: Graph | Dataset, positions: Any = None) -> Array:
    """Return where nodes are drawn.

    Parameters
    ----------
    graph : Graph or Dataset
        The coordinates of a data set are the positions, if it has any.
    positions : array_like of float, (n_nodes, 2) or (n_nodes, 3), or mapping, optional
        Given positions, in the order of ids, or a mapping of nodes to theirs, such as NetworkX's layouts
        return. Of three coordinates, the two directions in which the nodes spread most are taken.

    Returns
    -------
    ndarray of float64, (n_nodes, 2)
        The positions. Without given ones, those of a layout, which is the same at every call, and kept with
        the graph: classical scaling of distances in steps (pivot MDS), improved by NetworkX's springs where
        a component has fewer than 500 nodes. Weights and directions of edges do not matter for it. It takes
        0.6 seconds for 10⁵ nodes and 3 · 10⁵ edges, and the memory of 300 bytes for each node.

    Examples
    --------
    >>> import walkernel as wk
    >>> from walkernel.plots import node_positions
    >>> node_positions(wk.load_dataset("karate").graph).shape
    (34, 2)
    """
    network = as_graph(graph)
    if positions is None and isinstance(graph, Dataset):
        positions = graph.coordinates
    if positions is None:
        found: Array = network.derived("layout", lambda: _layout(network))
        return found
    if isinstance(positions, Mapping):
        positions = _in_order(network, positions)
    rule = f"numbers of shape ({network.n_nodes}, 2) or ({network.n_nodes}, 3)"
    try:
        places = np.asarray(positions, dtype=np.float64)
    except (TypeError, ValueError):
        refuse("positions", rule, positions, error=TypeError)
    if places.ndim != 2 or places.shape[0] != network.n_nodes or places.shape[1] not in (2, 3):
        refuse("positions", rule, Described(f"shape {places.shape}"))
    if not np.isfinite(places).all():
        row = np.flatnonzero(~np.isfinite(places).all(axis=1))[:1]
        refuse("positions", "finite", Described(f"{places[row[0]].tolist()} for node {_name(network, row)}"))
    return places if places.shape[1] == 2 else _widest_view(places)


def as_graph(graph: Graph | Dataset) -> Graph:
    """Return a graph, or the graph of a data set."""
    if isinstance(graph, Dataset):
        return graph.graph
    if not isinstance(graph, Graph):
        refuse("graph", "a Graph or a Dataset", graph, error=TypeError)
    return graph


def _name(graph: Graph, ids: Ids) -> str:
    return shown(graph.names(ids)[0])


def _in_order(graph: Graph, positions: Mapping[Any, Any]) -> list[Any]:
    """Return the positions of a mapping in the order of ids."""
    ids = graph.ids(list(positions)) if positions else np.zeros(0, dtype=np.int64)
    missing = np.setdiff1d(np.arange(graph.n_nodes), ids)
    if missing.size:
        refuse("positions", "a mapping with all nodes", Described(f"none for node {_name(graph, missing)}"))
    given = list(positions.values())
    return [given[i] for i in np.argsort(ids)]


def _widest_view(places: Array) -> Array:
    centred = places - places.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    directions = np.vstack([directions, np.zeros((3 - len(directions), 3))])
    signs = np.sign(directions[np.arange(3), np.abs(directions).argmax(axis=1)])
    return np.asarray(centred @ (directions * signs[:, None])[:2].T)


def _layout(graph: Graph) -> Array:
    """Return places of all nodes; two neighbours are about 1 apart where a component fills its square."""
    A = graph.to_scipy()
    A = scipy.sparse.csr_array((np.ones(A.nnz), A.indices, A.indptr), shape=A.shape)
    A = (A + A.T).tocsr() if graph.directed else A
    count, component = connected_components(A, directed=False)
    places = _apart(_pivot_scaling(A, count, component), count, component)
    members = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    if graph.n_nodes <= MAX_SPRING_NODES and find_spec("networkx") is not None:
        for own in members:
            if 2 < own.size <= SPRING_NODES:
                places[own] = _with_springs(A[own][:, own], places[own])
    return _side_by_side(places, members)


def _pivot_scaling(A: scipy.sparse.csr_array, count: int, component: Ids) -> Array:
    """Return two principal components of the centred squares of distances to pivots, in each component.

    The pivots of a component are chosen one after the other, each as far as possible from those before.
    """
    n, sizes = component.size, np.bincount(component)
    n_pivots = int(np.clip(np.sqrt(PIVOT_WORK / count), MIN_PIVOTS, MAX_PIVOTS))
    squares = np.empty((n, n_pivots), dtype=np.float32)

    def steps_from(sources: Ids) -> Array:
        steps: Array = dijkstra(A, unweighted=True, indices=sources, min_only=True)
        return steps

    nearest, pivots = np.full(n, np.inf), _furthest(steps_from(_furthest(np.zeros(n), component)), component)
    for k in range(n_pivots):
        steps = steps_from(pivots)
        squares[:, k] = steps**2
        nearest = np.minimum(nearest, steps)
        pivots = _furthest(nearest, component)
    means = [np.bincount(component, column) / sizes for column in squares.T]
    squares -= np.column_stack(means).astype(np.float32)[component]
    squares -= squares.mean(axis=1, keepdims=True)
    grouped = squares[np.argsort(component, kind="stable")]
    starts = np.cumsum(sizes) - sizes
    products = [
        np.add.reduceat(grouped * column[:, None], starts, axis=0, dtype=np.float64) for column in grouped.T
    ]
    directions = np.linalg.eigh(np.stack(products, axis=1)).eigenvectors[:, :, :-3:-1]  # (count, n_pivots, 2)
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    directions = (directions * np.sign(largest)).astype(np.float32)
    places = [(squares * directions[:, :, j][component]).sum(axis=1) for j in range(2)]
    return np.column_stack(places).astype(np.float64)


def _furthest(distance: Array, component: Ids) -> Ids:
    """Return the node of each component that has the largest distance."""
    order = np.lexsort((distance, component))
    last: Ids = order[np.cumsum(np.bincount(component)) - 1]
    return last


def _apart(places: Array, count: int, component: Ids) -> Array:
    """Move nodes at one place, such as the leaves of a star, to discs whose area is their share of all."""
    low, high = np.full((count, 2), np.inf), np.full((count, 2), -np.inf)
    np.minimum.at(low, component, places)
    np.maximum.at(high, component, places)
    extent = (high - low).max(axis=1)[component]
    cells = np.round((places - low[component]) / np.where(extent > 0, extent, 1.0)[:, None] * 1e5)
    order = np.lexsort((cells[:, 1], cells[:, 0], component))
    keys = np.column_stack([component, cells])[order]
    first = np.append(True, (keys[1:] != keys[:-1]).any(axis=1))
    starts, group = np.flatnonzero(first), np.cumsum(first) - 1
    together = np.diff(np.append(starts, order.size))[group]
    number = np.arange(order.size) - starts[group]
    share = together / np.bincount(component)[component[order]]
    radius = np.where(together > 1, 0.5 * extent[order] * np.sqrt(share * (number + 0.5) / together), 0.0)
    angle = GOLDEN_ANGLE * number
    result = places.copy()
    result[order] += radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return result


def _with_springs(A: scipy.sparse.csr_array, places: Array) -> Array:
    """Return the places to which springs along the edges pull nodes that repel each other."""
    import networkx

    places = places / np.abs(places).max()
    edges = A.tocoo()
    length = float(np.linalg.norm(places[edges.row] - places[edges.col], axis=1).mean())
    network = networkx.from_scipy_sparse_array(A)
    start = dict(enumerate(places))
    found = networkx.spring_layout(network, k=length, pos=start, iterations=SPRING_ROUNDS, seed=0)
    return np.array([found[i] for i in range(len(places))])


def _side_by_side(places: Array, members: list[Ids]) -> Array:
    """Return places of components in rows from left to right, the largest component first.

    The larger side of a component is the square root of its number of nodes, and the space between two is 1.
    """
    boxes = np.empty((len(members), 2))
    result = np.empty_like(places)
    for i, own in enumerate(members):
        low, high = places[own].min(axis=0), places[own].max(axis=0)
        scale = np.sqrt(own.size) / max((high - low).max(), 1e-300)
        result[own] = (places[own] - low) * scale
        boxes[i] = (high - low) * scale
    width = max(boxes[:, 0].max(), np.sqrt(1.5 * (boxes + 1).prod(axis=1).sum()))
    x = y = height = 0.0
    for i in np.argsort([-own.size for own in members], kind="stable"):
        if x > 0 and x + boxes[i, 0] > width:
            x, y, height = 0.0, y - height - 1, 0.0
        result[members[i]] += x, y - boxes[i, 1]
        x, height = x + boxes[i, 0] + 1, max(height, boxes[i, 1])
    return result
