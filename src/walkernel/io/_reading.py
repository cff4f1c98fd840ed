"""Choice of the reader by the suffix of a path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

import scipy.io

from walkernel._checks import Described, check_flag, refuse
from walkernel._door import door
from walkernel._files import existing_file, file_path
from walkernel.graph import Graph, open_graph
from walkernel.io._archives import read_archive
from walkernel.io._contents import Contents, bare_suffix, malformed, open_binary, optional
from walkernel.io._edge_lists import read_edge_list
from walkernel.io._meshes import read_mesh
from walkernel.storage import MANIFEST

EDGE_LISTS = (".csv", ".tsv", ".txt", ".edges")
MATRICES = (".mtx",)
MESHES = (".stl", ".ply", ".obj")
MARKUPS = (".graphml", ".gml")
ARCHIVES = (".npz",)
PACKED = (*EDGE_LISTS, *MATRICES, *MARKUPS)
"""Formats that may be compressed by gzip, with .gz after their suffix."""


def known_suffixes() -> list[str]:
    """Return the suffixes of the formats that can be read."""
    return [*ARCHIVES, *PACKED, *(f"{suffix}.gz" for suffix in PACKED), *MESHES]


def is_readable(name: str) -> bool:
    """Return whether the suffix of a file is that of a readable format."""
    return name.lower().endswith(tuple(known_suffixes()))


@door
def load_graph(path: str | os.PathLike[str], *, directed: bool | None = None, relabel: bool = False) -> Graph:
    r"""Read a graph from a file of one of many formats, or open a folder that ``Graph.save`` has written.

    The suffix of a file, in small letters or capitals, determines its format:

    =====================================  =========================================================
    a folder                               ``Graph.save``: mapped into memory, not read
    ``.npz``                               ``Graph.save``, ``scipy.sparse.save_npz``, or arrays
                                           ``edges`` (m, 2) and ``n``
    ``.csv`` ``.tsv`` ``.txt`` ``.edges``  edge lists: two columns of nodes, and weights if there is a
                                           third; # and % begin comments; header or not
    ``.mtx``                               Matrix Market
    ``.graphml`` ``.gml``                  through NetworkX (``pip install walkernel[data]``)
    ``.stl`` ``.ply`` ``.obj``             the vertices and edges of a mesh, through trimesh
                                           (``pip install walkernel[mesh]``)
    =====================================  =========================================================

    Text formats may be compressed, with ``.gz`` after their suffix. No pickle is ever loaded.

    A folder opens in milliseconds, and the graph may be larger than the memory: ``sample_walks``,
    ``sample_features`` and ``estimate_kernel(nodes=…)`` on the normalized matrix hold nothing of the size of
    its edges (against the edges of a directed graph they do; ``pair="lazy"`` goes along them only). Files
    that were changed or copied since they were written are compared with their checksums, and a damaged one
    is named; ``walkernel info FOLDER`` compares all. Pickling such a graph sends its path, not its arrays.

    Parameters
    ----------
    path : str or path
        The file or folder.
    directed : bool, optional
        Whether each edge of an edge list leads from its first node to its second only; for a matrix,
        None goes by exact symmetry. Formats that say it themselves must agree.
    relabel : bool
        Edge lists only: treat whole numbers as labels. Names are labels anyway.

    Returns
    -------
    Graph
        The graph; names in files become its labels.

    Raises
    ------
    ValueError
        If the format is unknown or the file is damaged.
    ImportError
        If a format needs a package that is not installed.

    See Also
    --------
    Graph.save : Write a graph.
    Graph.from_edges : Build one from arrays or pairs.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "friends.csv")
    >>> _ = path.write_text("source,target,weight\nAda,Ben,2\nBen,Cem,0.5\n")
    >>> load_graph(path)
    Graph(n_nodes=3, n_edges=2, undirected, weighted, labelled)
    >>> folder.cleanup()
    """
    return read_file(path, directed=directed, relabel=relabel).graph


@door
def read_file(
    path: str | os.PathLike[str], *, directed: bool | None = None, relabel: bool = False
) -> Contents:
    """Read a graph and the data of its nodes; the arguments are those of ``load_graph``."""
    check_flag("relabel", relabel)
    if directed is not None:
        check_flag("directed", directed)
    file = file_path(path)
    stored = _is_folder(file)
    if not (stored or is_readable(file.name)):
        rule = "a folder written by Graph.save, or a file name that ends in one of "
        refuse("path", rule + " ".join(known_suffixes()), str(file))
    suffix = "" if stored else bare_suffix(existing_file(file))
    if not (stored or file.is_file()):
        remedy = "Files are read more than once: copy it to a regular file first."
        refuse("path", "a regular file or a folder", Described(f"{file}, a pipe or a device"), remedy)
    if suffix in EDGE_LISTS:
        return read_edge_list(file, bool(directed), relabel)
    if relabel:
        kind = "folders" if stored else f"{suffix} files"
        refuse("relabel", f"False for {kind}", relabel, "Only edge lists are relabelled.")
    contents = Contents(open_graph(file), {}) if stored else _read_by_suffix(file, suffix, directed)
    if directed is not None and contents.graph.directed != directed:
        refuse("directed", f"{not directed} or None, as {file} says", directed)
    return contents


def _is_folder(path: Path) -> bool:
    """Return whether a path belongs to a graph store; a name without a suffix is that of a folder."""
    if (path / MANIFEST).exists() or not (path.suffix or path.is_file()):
        return True
    return path.is_dir() and not is_readable(path.name)


def _read_by_suffix(file: Path, suffix: str, directed: bool | None) -> Contents:
    if suffix in ARCHIVES:
        return read_archive(file, directed)
    if suffix in MESHES:
        return read_mesh(file)
    if suffix in MARKUPS:
        return _read_markup(file, suffix)
    return _read_matrix(file, directed)


def _read_matrix(path: Path, directed: bool | None) -> Contents:
    """Read a Matrix Market file."""
    with open_binary(path) as file:
        try:
            matrix = scipy.io.mmread(file)
        except (ValueError, TypeError, OverflowError) as error:
            malformed(path, "a Matrix Market file", f"an error in it ({error})")
    try:
        return Contents(Graph.from_scipy(matrix, directed=directed), {})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _read_markup(path: Path, suffix: str) -> Contents:
    """Read GraphML or GML."""
    networkx = optional("networkx", "data", f"Reading {suffix} files")
    with open_binary(path) as file:
        try:
            G = networkx.read_graphml(file) if suffix == ".graphml" else _read_gml(networkx, file)
        except (networkx.NetworkXException, SyntaxError, ValueError, KeyError, TypeError) as error:
            kind = "GraphML" if suffix == ".graphml" else "GML"
            malformed(path, f"a {kind} file", f"an error in it ({type(error).__name__}: {error})")
    try:
        return Contents(Graph.from_networkx(G), {})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def _read_gml(networkx: Any, file: IO[bytes]) -> Any:
    """Read GML with labels as nodes, or with its ids where labels are missing or repeated."""
    lines = file.read().decode("utf-8", errors="replace").splitlines()
    try:
        return networkx.parse_gml(lines, label="label")
    except networkx.NetworkXError as error:
        if "label" not in str(error):
            raise
        return networkx.parse_gml(lines, label="id")
