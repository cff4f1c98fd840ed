"""NumPy archives: graphs written by ``Graph.save``, data files in the edge format, SciPy matrices.

The three are distinguished by their keys:

    ``format``, ``indptr``, ``indices`` ...    ``Graph.save``
    ``edges``, ``n`` ...                       an edge list with classes, targets, coordinates of its nodes
    ``format``, ``shape``, ``data`` ...        ``scipy.sparse.save_npz``

Nothing is unpickled, and the contents are checked like input of a user.
"""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel.graph import GRAPH_FORMAT, Arrays, Graph, Labels
from walkernel.io._contents import Contents, malformed

PER_NODE = {
    "labels": "labels",
    "targets": "targets",
    "coords": "coordinates",
    "vertices": "coordinates",
    "normals": "normals",
    "node_names": "node_names",
    "node_ids": "node_ids",
    "test_mask": "test_mask",
}
PER_EDGE = {"lengths": "lengths", "edge_value": "edge_values"}
OTHER = {"label_names": "label_names", "target_names": "target_names", "faces": "faces"}


def read_archive(path: Path, directed: bool | None) -> Contents:
    """Read a ``.npz`` file of any of the three kinds."""
    arrays = load_arrays(path)
    kind = str(arrays["format"]) if "format" in arrays and arrays["format"].dtype.kind == "U" else ""
    try:
        if kind == GRAPH_FORMAT:
            return Contents(_saved_graph(arrays), {})
        if "edges" in arrays:
            return _edge_archive(arrays)
        if "format" in arrays and "shape" in arrays:
            return Contents(Graph.from_scipy(scipy.sparse.load_npz(path), directed=directed), {})
    except (ValueError, TypeError, KeyError, IndexError) as error:
        reason = f"no array {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(f"{path}: the archive is not consistent: {reason.rstrip('.')}.") from error
    keys = ", ".join(sorted(arrays)) or "nothing"
    expected = "an archive by Graph.save, by scipy.sparse.save_npz, or with edges and n"
    malformed(path, expected, f"one with {keys}")


def load_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Return the arrays of an archive, none of them made of Python objects."""
    with path.open("rb") as file:
        start = file.read(4)
    if not start.startswith(b"PK"):
        what = "an empty one" if not start else "a file of another kind"
        malformed(path, "a NumPy archive", what)
    name = ""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {}
            for name in archive.files:
                arrays[name] = archive[name]
            return arrays
    except ValueError as error:
        if "allow_pickle" in str(error):
            expected = "plain arrays"
            remedy = "They could run code when read: save numbers or text instead."
            malformed(path, expected, f"pickled Python objects in {name!r}", remedy=remedy)
        malformed(path, "a whole NumPy archive", f"a damaged one ({error})", remedy="Get the file again.")
    except (zipfile.BadZipFile, EOFError, zlib.error, OSError, NotImplementedError) as error:
        what = f"a truncated or damaged one ({error})"
        malformed(path, "a whole NumPy archive", what, remedy="Get the file again.")


def _saved_graph(arrays: dict[str, NDArray[Any]]) -> Graph:
    """Rebuild a graph written by ``Graph.save``."""
    indptr, indices = arrays["indptr"], arrays["indices"]
    weights = arrays.get("weights", np.ones(indices.size))
    shape = (indptr.size - 1, indptr.size - 1)
    matrix = scipy.sparse.csr_array((weights, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    directed = bool(arrays["directed"])
    graph = Graph.from_scipy(matrix, directed=directed)
    if "node_labels" not in arrays:
        return graph
    names = arrays["node_labels"]
    labels = Labels(names.astype(np.int64) if names.dtype.kind == "i" else names.tolist())
    if names.shape != (graph.n_nodes,) or len(set(labels.values)) != graph.n_nodes:
        raise ValueError(f"node_labels must be {graph.n_nodes} distinct labels")
    return Graph(Arrays(graph.indptr, graph.indices, graph.weights), directed, labels)


def _edge_archive(arrays: dict[str, NDArray[Any]]) -> Contents:
    """Rebuild a graph and its node data from the edge format."""
    edges = arrays["edges"]
    n_nodes = int(arrays["n"])
    edges = edges.reshape(0, 2) if edges.size == 0 else edges
    directed = bool(arrays.get("directed", False))
    graph = Graph.from_edges(edges, n_nodes=n_nodes, weights=arrays.get("weights"), directed=directed)
    data = {}
    for key, field in PER_NODE.items():
        if key in arrays:
            _check_length(key, arrays[key], n_nodes, "node")
            data[field] = arrays[key]
    order = np.lexsort((edges.max(axis=1), edges.min(axis=1)))
    for key, field in PER_EDGE.items():
        if key in arrays:
            _check_length(key, arrays[key], len(edges), "edge")
            if directed or len(edges) != graph.n_edges:
                raise ValueError(f"{key} needs undirected edges, each of them once")
            data[field] = arrays[key][order]
    data |= {field: arrays[key] for key, field in OTHER.items() if key in arrays}
    return Contents(graph, data)


def _check_length(key: str, array: NDArray[Any], length: int, what: str) -> None:
    if array.ndim == 0 or len(array) != length:
        raise ValueError(f"{key} must have one entry for each {what} ({length}), got shape {array.shape}")
