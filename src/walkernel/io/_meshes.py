"""Triangular meshes through trimesh: the graph of vertices and edges, with positions and normals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel.graph import Graph
from walkernel.io._contents import Contents, malformed, optional


def read_mesh(path: Path) -> Contents:
    """Read a mesh; vertices at the same place are merged, as trimesh does by default."""
    suffix = path.suffix.lower()
    trimesh = optional("trimesh", "mesh", f"Reading {suffix} files")
    try:
        mesh = trimesh.load_mesh(path)
        vertices, faces = np.array(mesh.vertices), np.array(mesh.faces)
    except MemoryError:
        raise
    except Exception as error:
        malformed(path, f"a {suffix} mesh", f"what trimesh cannot read ({type(error).__name__}: {error})")
    if faces.size == 0:
        malformed(path, f"a {suffix} mesh", "no faces in it")
    data = {"coordinates": vertices, "normals": vertex_normals(vertices, faces), "faces": faces}
    return Contents(Graph.from_edges(face_edges(faces), n_nodes=len(vertices)), data)


def face_edges(faces: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the edges of triangles, each once with the smaller end first, sorted, (m, 2)."""
    ends = np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    return np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)


def vertex_normals(vertices: ArrayLike, faces: ArrayLike) -> NDArray[np.float64]:
    """Return unit normals of vertices: the direction of the plain mean of the faces' unit normals.

    Parameters
    ----------
    vertices : array of float, (n, 3)
    faces : array of int, (f, 3)
        Corners counter-clockwise when seen from outside.

    Returns
    -------
    ndarray of float64, (n, 3)
        Zero where a vertex has no face, or faces whose normals cancel.

    Examples
    --------
    >>> vertex_normals([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])[0].tolist()
    [0.0, 0.0, 1.0]
    """
    points, corners = np.asarray(vertices, dtype=np.float64), np.asarray(faces)
    first, second, third = points[corners].transpose(1, 0, 2)
    per_face = _unit(np.cross(second - first, third - first))
    total = np.zeros_like(points)
    for corner in corners.T:
        np.add.at(total, corner, per_face)
    return _unit(total)


def _unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
