"""Loading of data sets, by name or from a file."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from walkernel._checks import Described, refuse, shown
from walkernel.datasets import _random_graphs as _random
from walkernel.datasets import _shapes, _sources
from walkernel.datasets._dataset import Dataset, from_contents
from walkernel.io import is_readable, read_file

BUILT_IN: dict[str, Callable[[], Dataset]] = {
    "karate": _shapes.karate,
    "binary-tree": _shapes.binary_tree,
    "erdos-renyi": _random.erdos_renyi,
    "d-regular": _random.random_regular,
    "grid": _shapes.grid,
    "barabasi-albert": _random.barabasi_albert,
    "stochastic-block-model": _random.stochastic_block_model,
    "torus-mesh": _shapes.torus_mesh,
    "cylinder-mesh": _shapes.cylinder_mesh,
}
IN_FILES = {source.name: source for source in _sources.SOURCES}


class Entry(NamedTuple):
    """An entry of the list of data sets; ``present`` is True if no download is needed.

    ``has_labels`` is True if the classes of nodes are known, and None if that needs a download.
    """

    name: str
    present: bool
    n_nodes: int
    n_edges: int
    licence: str
    has_labels: bool | None


def load_dataset(name: str | os.PathLike[str]) -> Dataset:
    """Return a data set by its name, or from a file.

    Built in, with the parameters of the functions of ``walkernel.datasets`` at their defaults: "karate",
    "binary-tree" (127 nodes), "erdos-renyi" (100 nodes, p = 0.04), "d-regular" (100 nodes of degree 4),
    "grid" (20 × 20), "barabasi-albert" (100 nodes), "stochastic-block-model" (3 blocks of 40),
    "torus-mesh" and "cylinder-mesh".

    From files: "dolphins", "polbooks", "football", "databases", "eurosis", "cora", "citeseer", "pubmed",
    "facebook_pages", "lastfm_asia", "wiki_chameleon", "minnesota", "road_fla", "soc_epinions", and the
    meshes "cylinder", "teapot", "idler-riser", "busted", "torus", "cycloidal". They are looked for below
    ``$WALKERNEL_DATA`` (graphs/NAME.npz, meshes/NAME.npz), then in the cache (``$WALKERNEL_CACHE``, else
    the user's cache folder), and downloaded if they are in neither.

    Parameters
    ----------
    name : str or path
        A name, with - or _ alike, or a file in one of the formats of ``load_graph``.

    Returns
    -------
    Dataset
        The graph and what is known of its nodes.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.load_dataset("torus-mesh").normals.shape
    (800, 3)
    """
    if isinstance(name, os.PathLike) or (isinstance(name, str) and is_readable(name)):
        path = Path(os.fsdecode(name))
        return from_contents(path.name, read_file(path))
    if not isinstance(name, str):
        refuse("name", "the name of a data set or a path", name, error=TypeError)
    key = _find_name(name)
    if key in BUILT_IN:
        return BUILT_IN[key]()
    source = IN_FILES[key]
    path = _sources.find_file(source) or _sources.download(source)
    return from_contents(key, read_file(path), source.licence)


def available() -> list[Entry]:
    """Return all data sets with their sizes and licences, and whether they are on this machine.

    Returns
    -------
    list of Entry
        Named tuples (name, present, n_nodes, n_edges, licence, has_labels): ``present`` tells that no
        download is needed, and ``has_labels`` whether the classes of nodes are known, None if that needs a
        download.

    Examples
    --------
    >>> available()[0].name, available()[0].present
    ('karate', True)
    """
    entries = []
    for name, build in BUILT_IN.items():
        data = build()
        size = (data.graph.n_nodes, data.graph.n_edges)
        entries.append(Entry(name, True, *size, data.licence, data.labels is not None))
    for source in _sources.SOURCES:
        path, size = _sources.find_file(source), (source.n_nodes, source.n_edges)
        entries.append(Entry(source.name, path is not None, *size, source.licence, _has_labels(path)))
    return entries


def _has_labels(path: Path | None) -> bool | None:
    """Return whether a file has classes, by the names of its arrays; None if it is missing or damaged."""
    try:
        return None if path is None else "labels.npy" in zipfile.ZipFile(path).namelist()
    except (OSError, zipfile.BadZipFile):
        return None


def _find_name(name: str) -> str:
    known = {key.replace("-", "_"): key for key in (*BUILT_IN, *IN_FILES)}
    key = known.get(name.strip().lower().replace("-", "_"))
    if key is None:
        everything = ", ".join(map(repr, known.values()))
        rule = f"one of {everything}, or a file"
        refuse("name", rule, Described(f"the unknown {shown(name)}"))
    return key
