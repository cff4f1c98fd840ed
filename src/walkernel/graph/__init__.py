"""Graphs: validated, immutable CSR matrices with labels, in memory or in folders."""

from walkernel.graph._archive import GRAPH_FORMAT
from walkernel.graph._assembly import Arrays, check_ids
from walkernel.graph._graph import Graph, open_graph
from walkernel.graph._labels import Labels
from walkernel.graph._matrices import inverse_root

__all__ = ["GRAPH_FORMAT", "Arrays", "Graph", "Labels", "check_ids", "inverse_root", "open_graph"]
