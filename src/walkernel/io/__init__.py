"""Graphs from files, by their suffix; errors name the file and the line.

``load_graph`` returns the graph alone, ``read_file`` also the data of its nodes (positions
and normals of a mesh, classes, targets). No format that can run code is read: archives are opened
without pickle, and arrays of Python objects are refused. Readers of single formats are in the modules
below; each returns ``Contents`` and raises ``ValueError`` through ``malformed``.
"""

from walkernel.io._contents import Contents, malformed, optional, split_lines
from walkernel.io._edge_lists import find_layout, read_integers, refuse_lines
from walkernel.io._meshes import face_edges, read_mesh, vertex_normals
from walkernel.io._reading import is_readable, known_suffixes, load_graph, read_file

__all__ = [
    "Contents",
    "face_edges",
    "find_layout",
    "is_readable",
    "known_suffixes",
    "load_graph",
    "malformed",
    "optional",
    "read_file",
    "read_integers",
    "read_mesh",
    "refuse_lines",
    "split_lines",
    "vertex_normals",
]
