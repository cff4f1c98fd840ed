"""Deterministic graphs: the karate club, trees, grids, closed surfaces of triangles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import whole_number
from walkernel.datasets._dataset import Dataset
from walkernel.graph import Graph
from walkernel.io import face_edges, vertex_normals

# Zachary's karate club (1977): 34 members, 78 friendships, and the side each took when the club split.
KARATE_EDGES = """
0:1,2,3,4,5,6,7,8,10,11,12,13,17,19,21,31 1:2,3,7,13,17,19,21,30 2:3,7,8,9,13,27,28,32
3:7,12,13 4:6,10 5:6,10,16 6:16 8:30,32,33 9:33 13:33 14:32,33 15:32,33 18:32,33 19:33
20:32,33 22:32,33 23:25,27,29,32,33 24:25,27,31 25:31 26:29,33 27:33 28:31,33 29:32,33
30:32,33 31:32,33 32:33
"""
KARATE_SIDES = "0000000001000011001010111111111111"
KARATE_LICENCE = "facts published by W. W. Zachary, J. Anthropological Research 33 (1977)"
GENERATED = "none needed: generated"

TUBE = 0.4
"""Radius of the torus's tube; the circle it runs along has radius one."""


def karate() -> Dataset:
    """Return Zachary's karate club: 34 members, 78 friendships, two sides.

    Returns
    -------
    Dataset
        The graph, with the side of each member as ``labels``.

    Examples
    --------
    >>> karate().graph
    Graph(n_nodes=34, n_edges=78, undirected, unweighted)
    """
    edges = []
    for entry in KARATE_EDGES.split():
        node, neighbors = entry.split(":")
        edges += [(int(node), int(neighbor)) for neighbor in neighbors.split(",")]
    return Dataset(
        name="karate",
        graph=Graph.from_edges(edges),
        labels=np.array([int(side) for side in KARATE_SIDES]),
        label_names=("Mr. Hi", "Officer"),
        licence=KARATE_LICENCE,
    )


def binary_tree(depth: int = 6) -> Dataset:
    """Return the full binary tree with 2^(depth + 1) − 1 nodes; node i hangs from node (i − 1) // 2.

    Parameters
    ----------
    depth : int
        Number of edges from the root to a leaf.

    Returns
    -------
    Dataset
        The graph.

    Examples
    --------
    >>> binary_tree(6).graph
    Graph(n_nodes=127, n_edges=126, undirected, unweighted)
    """
    n_nodes = 2 ** (whole_number("depth", depth, 0, 30) + 1) - 1
    nodes = np.arange(1, n_nodes)
    graph = Graph.from_edges(np.stack([(nodes - 1) // 2, nodes], axis=1), n_nodes=n_nodes)
    return Dataset(name="binary-tree", graph=graph, licence=GENERATED)


def grid(n_rows: int = 20, n_columns: int = 20) -> Dataset:
    """Return a square grid; node ``row * n_columns + column`` is at coordinates (column, row).

    Parameters
    ----------
    n_rows : int
        Number of nodes in a column of the grid.
    n_columns : int
        Number of nodes in a row of the grid.

    Returns
    -------
    Dataset
        The graph, with ``coordinates`` of the nodes.

    Examples
    --------
    >>> grid(2, 3).graph
    Graph(n_nodes=6, n_edges=7, undirected, unweighted)
    """
    rows = whole_number("n_rows", n_rows, 1)
    columns = whole_number("n_columns", n_columns, 1)
    nodes = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()], axis=1)
    down = np.stack([nodes[:-1].ravel(), nodes[1:].ravel()], axis=1)
    graph = Graph.from_edges(np.concatenate([across, down]), n_nodes=nodes.size)
    y, x = np.divmod(nodes.ravel(), columns)
    places = np.stack([x, y], axis=1).astype(np.float64)
    return Dataset(name="grid", graph=graph, coordinates=places, licence=GENERATED)


def torus_mesh(n_major: int = 40, n_minor: int = 20) -> Dataset:
    """Return a closed surface of triangles in the shape of a ring, with positions and unit normals.

    Parameters
    ----------
    n_major : int
        Number of vertices along the ring, at least 3.
    n_minor : int
        Number of vertices around its tube, at least 3.

    Returns
    -------
    Dataset
        The graph of the edges, with ``coordinates``, ``faces`` and ``normals``.

    Examples
    --------
    >>> torus_mesh(10, 6).normals.shape
    (60, 3)
    """
    major = whole_number("n_major", n_major, 3)
    minor = whole_number("n_minor", n_minor, 3)
    along, around = np.divmod(np.arange(major * minor), minor)
    u, v = 2 * np.pi * along / major, 2 * np.pi * around / minor
    ring = 1 + TUBE * np.cos(v)
    vertices = np.stack([ring * np.cos(u), ring * np.sin(u), TUBE * np.sin(v)], axis=1)
    ahead, up = (along + 1) % major * minor, (around + 1) % minor
    here, right = along * minor + around, ahead + around
    faces = _split_quads(here, right, ahead + up, along * minor + up)
    return _surface("torus-mesh", vertices, faces)


def cylinder_mesh(n_around: int = 24, n_along: int = 12) -> Dataset:
    """Return a closed cylinder of triangles, with positions and unit normals.

    Rings of ``n_around`` vertices are followed by the centres of the bottom and of the top.

    Parameters
    ----------
    n_around : int
        Number of vertices of a ring, at least 3.
    n_along : int
        Number of rings, at least 2.

    Returns
    -------
    Dataset
        The graph of the edges, with ``coordinates``, ``faces`` and ``normals``.

    Examples
    --------
    >>> cylinder_mesh(8, 3).graph
    Graph(n_nodes=26, n_edges=72, undirected, unweighted)
    """
    around = whole_number("n_around", n_around, 3)
    along = whole_number("n_along", n_along, 2)
    ring, place = np.divmod(np.arange(around * along), around)
    angle, height = 2 * np.pi * place / around, 2 * ring / (along - 1) - 1
    side = np.stack([np.cos(angle), np.sin(angle), height], axis=1)
    vertices = np.concatenate([side, [[0, 0, -1], [0, 0, 1]]])
    low = np.flatnonzero(ring < along - 1)
    following = ring * around + (place + 1) % around
    walls = _split_quads(low, following[low], following[low] + around, low + around)
    first, last = np.arange(around), np.arange(around) + around * (along - 1)
    bottom = np.stack([np.full(around, around * along), following[first], first], axis=1)
    top = np.stack([np.full(around, around * along + 1), last, following[last]], axis=1)
    return _surface("cylinder-mesh", vertices, np.concatenate([walls, bottom, top]))


def _split_quads(
    a: NDArray[np.int64], b: NDArray[np.int64], c: NDArray[np.int64], d: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return two triangles for each quadrilateral a b c d, (2 q, 3)."""
    return np.concatenate([np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)])


def _surface(name: str, vertices: NDArray[np.float64], faces: NDArray[np.int64]) -> Dataset:
    return Dataset(
        name=name,
        graph=Graph.from_edges(face_edges(faces), n_nodes=len(vertices)),
        coordinates=vertices,
        normals=vertex_normals(vertices, faces),
        faces=faces,
        licence=GENERATED,
    )
