"""From the original files of data sets to plain arrays in the edge format of ``io``.

Each converter takes the paths of a data set's original files, in the order of its source, and returns
``n``, ``edges`` (each once, the smaller end first, sorted) and what the originals tell of the nodes.
Loops are dropped and listed in ``self_loops``; directed and repeated links become one edge.
"""

from __future__ import annotations

import csv
import lzma
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import scipy.sparse
from numpy.typing import NDArray

from walkernel.io import face_edges, find_layout, optional, read_integers, read_mesh, refuse_lines

ArrayDict = dict[str, NDArray[Any]]


def from_gml(paths: Sequence[Path]) -> ArrayDict:
    """Read GML whose nodes have a ``label`` and, if their class is known, a ``gt``."""
    networkx = optional("networkx", "data", "Reading GML files")
    with paths[0].open(encoding="utf-8") as file:
        G = networkx.parse_gml(file, label="id")
    number = {node: i for i, node in enumerate(G)}
    arrays = simple_edges(np.array([(number[a], number[b]) for a, b in G.edges()]), len(number))
    attributes = [G.nodes[node] for node in G]
    arrays["node_names"] = np.array([str(entry["label"]) for entry in attributes])
    arrays |= classes([str(entry["gt"]) if "gt" in entry else None for entry in attributes])
    values = {tuple(sorted((number[a], number[b]))): value for a, b, value in G.edges(data="value")}
    ordered = [values[a, b] for a, b in arrays["edges"].tolist()]
    if None not in ordered:
        arrays["edge_value"] = np.array(ordered, dtype=np.float64)
    return arrays


def from_class_table(paths: Sequence[Path]) -> ArrayDict:
    """Read links and a table whose first column is the node and whose last is its class."""
    nodes, last = _table(paths[1])
    arrays = simple_edges(_links(paths[0]), len(nodes))
    return arrays | classes([last[node] for node in range(len(nodes))])


def from_target_table(paths: Sequence[Path]) -> ArrayDict:
    """Read links and a table of nodes and their monthly traffic."""
    nodes, last = _table(paths[1])
    arrays = simple_edges(_links(paths[0]), len(nodes))
    arrays["targets"] = np.array([[float(last[node])] for node in range(len(nodes))])
    arrays["target_names"] = np.array(["monthly_traffic"])
    return arrays


def from_links(paths: Sequence[Path]) -> ArrayDict:
    """Read links between numbers with gaps; nodes keep the order of their numbers."""
    numbers, ends = np.unique(_links(paths[0]), return_inverse=True)
    return simple_edges(ends.reshape(-1, 2), numbers.size)


def from_matlab(paths: Sequence[Path]) -> ArrayDict:
    """Read an adjacency matrix ``A`` and positions ``xy``."""
    content = scipy.io.loadmat(paths[0], variable_names=["A", "xy"])
    matrix = scipy.sparse.coo_array(content["A"])
    ends = np.stack([matrix.row, matrix.col], axis=1)[matrix.data != 0]
    return simple_edges(ends, matrix.shape[0]) | {"coords": np.asarray(content["xy"], dtype=np.float64)}


def from_dimacs(paths: Sequence[Path]) -> ArrayDict:
    """Read a DIMACS or PACE graph packed by xz: ``c`` comments, one ``p`` line, edges from 1.

    An edge is two numbers, after an ``a`` or ``e`` in some dialects; what follows them is not read.
    """
    n_nodes = None
    lines = []
    with lzma.open(paths[0], "rt", encoding="ascii") as file:
        for line in file:
            if line.startswith("p"):
                n_nodes = int(line.split()[2])
            elif not line.startswith("c") and not line.isspace():
                lines.append(line.lstrip("ae "))
    if n_nodes is None:
        raise ValueError(f"{paths[0].name} has no line that begins with p")
    ends = np.loadtxt(lines, dtype=np.int64, usecols=(0, 1), comments=None, ndmin=2) - 1
    return simple_edges(ends, n_nodes)


def from_mesh(paths: Sequence[Path]) -> ArrayDict:
    """Read a mesh."""
    contents = read_mesh(paths[0])
    faces = contents.data["faces"]
    arrays = simple_edges(face_edges(faces), contents.graph.n_nodes)
    arrays |= {"vertices": contents.data["coordinates"], "normals": contents.data["normals"]}
    return arrays | {"faces": faces.astype(np.int32)}


def simple_edges(ends: NDArray[np.integer[Any]], n_nodes: int) -> ArrayDict:
    """Return ``n``, ``edges`` and, if there are any, ``self_loops``."""
    loops = np.unique(ends[ends[:, 0] == ends[:, 1], 0])
    kept = ends[ends[:, 0] != ends[:, 1]].astype(np.int64)
    keys = np.unique(kept.min(axis=1) * n_nodes + kept.max(axis=1))
    edges = np.stack(np.divmod(keys, n_nodes), axis=1).astype(np.int32)
    arrays: ArrayDict = {"n": np.array(n_nodes), "edges": edges}
    return arrays | ({"self_loops": loops.astype(np.int32)} if loops.size else {})


def classes(names: Sequence[str | None]) -> ArrayDict:
    """Assign numbers to classes in the order of their names, or of their values if all are numbers."""
    distinct = {name for name in names if name is not None}
    numeric = all(name.isdecimal() for name in distinct)
    order = sorted(distinct, key=(lambda name: (int(name), name)) if numeric else (lambda name: (0, name)))
    number = {name: i for i, name in enumerate(order)}
    labels = [-1 if name is None else number[name] for name in names]
    return {"labels": np.array(labels, dtype=np.int32), "label_names": np.array(order)}


def _links(path: Path) -> NDArray[np.int64]:
    layout = find_layout(path)
    edges = read_integers(path, layout)
    if edges is None:
        refuse_lines(path, layout)
    return edges.ends


def _table(path: Path) -> tuple[list[int], dict[int, str]]:
    """Return the nodes of a table with a header, and the last column of each."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    last = {int(row[0]): row[-1] for row in rows if row}
    nodes = sorted(last)
    if nodes != list(range(len(nodes))):
        raise ValueError(f"{path.name} must list the nodes 0 to {len(nodes) - 1}, each once")
    return nodes, last
