"""Graphs: validated, immutable CSR matrices with labels, in memory or in folders."""

from walkernel.graph._assembly import Arrays, check_ids
from walkernel.graph._graph import Graph, inverse_root, open_graph
from walkernel.graph._labels import Labels
from walkernel.graph._store import GRAPH_FORMAT, is_store, verify_store

__all__ = [
    "GRAPH_FORMAT",
    "Arrays",
    "Graph",
    "Labels",
    "check_ids",
    "inverse_root",
    "is_store",
    "open_graph",
    "verify_store",
]
