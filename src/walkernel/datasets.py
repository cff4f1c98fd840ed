"""Graphs that come with the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import one_of
from walkernel.graph import Graph

# Zachary's karate club (1977): 34 members, 78 friendships, and the side each took when the club split.
KARATE_EDGES = """
0:1,2,3,4,5,6,7,8,10,11,12,13,17,19,21,31 1:2,3,7,13,17,19,21,30 2:3,7,8,9,13,27,28,32
3:7,12,13 4:6,10 5:6,10,16 6:16 8:30,32,33 9:33 13:33 14:32,33 15:32,33 18:32,33 19:33
20:32,33 22:32,33 23:25,27,29,32,33 24:25,27,31 25:31 26:29,33 27:33 28:31,33 29:32,33
30:32,33 31:32,33 32:33
"""
KARATE_SIDES = "0000000001000011001010111111111111"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A graph and what was measured on its nodes.

    Attributes
    ----------
    name : str
    graph : Graph
    labels : ndarray of int, (n_nodes,), or None
        Class of each node.
    """

    name: str
    graph: Graph
    labels: NDArray[np.int64] | None = None


def load_dataset(name: str) -> Dataset:
    """Return a data set by name: "karate".

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.load_dataset("karate").graph
    Graph(n_nodes=34, n_edges=78, undirected, unweighted)
    """
    one_of("load_dataset", "name", name, ("karate",))
    edges = []
    for entry in KARATE_EDGES.split():
        node, neighbors = entry.split(":")
        edges += [(int(node), int(neighbor)) for neighbor in neighbors.split(",")]
    return Dataset("karate", Graph.from_edges(edges), np.array([int(side) for side in KARATE_SIDES]))
