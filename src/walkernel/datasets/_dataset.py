"""A data set: a graph and data of its nodes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel.graph import Graph
from walkernel.io import Contents


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """A graph with data of its nodes, such as labels and coordinates.

    Fields that are not known are None, and arrays are read-only.

    Attributes
    ----------
    name : str
        Name of the data set, or of its file.
    graph : Graph
        The graph; its nodes are the rows of the arrays below.
    labels : ndarray of int, (n_nodes,)
        Class of each node, -1 for none.
    label_names : tuple of str, (n_classes,)
        Name of each class.
    targets : ndarray of float, (n_nodes, n_targets)
        Quantities to regress on, NaN for none.
    target_names : tuple of str, (n_targets,)
        Name of each quantity.
    coordinates : ndarray of float, (n_nodes, 2) or (n_nodes, 3)
        Position of each node; longitude and latitude for roads.
    normals : ndarray of float, (n_nodes, 3)
        Unit normals of a surface: the direction of the plain mean of the normals of the faces around.
    faces : ndarray of int, (n_faces, 3)
        Corners of the triangles of a surface.
    lengths : ndarray of float, (n_edges,)
        Length of each edge i < j, in order of (i, j): a distance, not a similarity.
    edge_values : ndarray of float, (n_edges,)
        Value the source gives to each edge, in the same order.
    node_names : ndarray of str, (n_nodes,)
        Name the source gives to each node.
    node_ids : ndarray of int, (n_nodes,)
        Number the source gives to each node.
    test_mask : ndarray of bool, (n_nodes,)
        The nodes of the customary test set.
    licence : str
        Terms of use, as far as the source states them.

    Examples
    --------
    >>> import walkernel as wk
    >>> club = wk.load_dataset("karate")
    >>> club.graph.n_nodes, club.label_names
    (34, ('Mr. Hi', 'Officer'))
    """

    name: str
    graph: Graph
    labels: NDArray[np.int64] | None = None
    label_names: tuple[str, ...] | None = None
    targets: NDArray[np.float64] | None = None
    target_names: tuple[str, ...] | None = None
    coordinates: NDArray[np.float64] | None = None
    normals: NDArray[np.float64] | None = None
    faces: NDArray[np.int64] | None = None
    lengths: NDArray[np.float64] | None = None
    edge_values: NDArray[np.float64] | None = None
    node_names: NDArray[np.str_] | None = None
    node_ids: NDArray[np.int64] | None = None
    test_mask: NDArray[np.bool_] | None = None
    licence: str = "not stated"

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    def __repr__(self) -> str:
        known = [
            field.name
            for field in fields(self)
            if field.name not in ("name", "graph", "licence") and getattr(self, field.name) is not None
        ]
        return f"Dataset({', '.join([repr(self.name), repr(self.graph), *known])})"


def from_contents(name: str, contents: Contents, licence: str = "not stated") -> Dataset:
    """Return the contents of a file as a data set."""
    data: dict[str, Any] = dict(contents.data)
    for key in ("label_names", "target_names"):
        if key in data:
            data[key] = tuple(data[key].tolist())
    for key in ("labels", "faces", "node_ids"):
        if key in data:
            data[key] = data[key].astype(np.int64)
    return Dataset(name=name, graph=contents.graph, licence=licence, **data)
