"""Graphs on disk: where a graph is saved, what of it can be saved, and graph stores.

A store is a folder with the arrays of a graph, which are mapped into memory, not read.

    manifest.json                n_nodes, directed, n_self_loops, fingerprint, and an entry of each array
    indptr.npy  indices.npy      the CSR matrix
    weights.npy                  if the graph has weights
    node_labels.npy              if the graph has labels: text or int64
    alias-…                      a cached table, added when a graph with weights is first walked on

Opening a store takes constant time: files that have the modification times of the manifest are trusted.
``verify_store`` compares all files with their digests.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, refuse, shown
from walkernel._files import file_path
from walkernel.storage import CACHE_PREFIX, MANIFEST, Folder, Kind, any_entry, verify_cached, write_folder

GRAPH_FORMAT = "walkernel graph 1"
STORE = Kind(
    "graph store", "walkernel graph store 1", "Write the store again or restore the file from a copy."
)
ARRAYS = {"indptr": ("<i8",), "indices": ("<i4", "<i8"), "weights": ("<f8",), "node_labels": ("<i8", "<U")}
"""Arrays of a store, in the order of the fingerprint, and the types that they may have."""
RELABEL = "Relabel the nodes first, for instance with their positions or with str."
FIELDS = {"n_nodes": int, "directed": bool, "n_self_loops": int, "fingerprint": str}


def goes_to_folder(path: object) -> bool:
    """Tell whether a graph is written to a folder (True) or to an archive, or refuse the path."""
    target = file_path(path)
    ends = tuple(filter(None, (os.sep, os.altsep)))
    if os.fsdecode(path).endswith(ends):  # type: ignore[arg-type]
        return True
    if target.suffix.lower() == ".npz":
        return False
    if target.suffix and not target.is_dir():
        rule = "a file name that ends in .npz, or a folder: a name without a suffix, or with a separator last"
        refuse("path", rule, str(target), "No other format is written.")
    return True


def plain_labels(labels: Sequence[Hashable]) -> NDArray[Any]:
    """Return labels as an array of text or of int64, or refuse those that only pickle could store."""
    if all(type(label) is str for label in labels):
        array = np.array(labels)
    elif all(type(label) is int and -(2**63) <= label < 2**63 for label in labels):
        array = np.array(labels, dtype=np.int64)
    else:
        odd = next((label for label in labels if type(label) is not str), labels[0])
        got = Described(f"{shown(odd)} of type {type(odd).__name__}")
        refuse("labels", "all text or all whole numbers of 64 bits", got, RELABEL, TypeError)
    if array.tolist() != list(labels):
        lost = next(label for label, kept in zip(labels, array.tolist(), strict=True) if label != kept)
        refuse("labels", "text without final NUL characters", lost, RELABEL)
    return array


def is_store(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a folder with the manifest of a graph store, damaged or not."""
    try:
        return STORE.format.rpartition(" ")[0].encode() in Path(path, MANIFEST).read_bytes()
    except OSError:
        return False


def write_store(path: str | os.PathLike[str], arrays: dict[str, Any], about: dict[str, Any]) -> None:
    """Write a graph, unless its folder would replace anything but an empty folder or a store."""
    target = Path(path).resolve()
    rule = "a new folder, an empty folder or a graph store"
    if target.exists() and not target.is_dir():
        refuse("path", rule, Described(f"the file {target}"), "Give another name, or remove the file.")
    own = (MANIFEST, *(f"{name}.npy" for name in ARRAYS))
    present = sorted(os.listdir(target)) if target.exists() else []
    foreign = [name for name in present if name not in own and not name.lstrip(".").startswith(CACHE_PREFIX)]
    if foreign or (present and not is_store(target)):
        got = f"the folder {target} " + (f"with {foreign[0]!r} in it" if foreign else "without a manifest")
        remedy = "Nothing was changed. Give another name, or remove the folder yourself."
        refuse("path", rule, Described(got), remedy)
    write_folder(target, STORE, about, arrays)


def open_store(path: str | os.PathLike[str]) -> tuple[Folder, dict[str, NDArray[Any]]]:
    """Open a store and map its arrays, or refuse one that is damaged."""
    folder = Folder(Path(path).absolute(), STORE)
    types = {key: type(value) for key, value in folder.about.items()}
    known = all(entry.dtype.startswith(ARRAYS.get(name, ())) for name, entry in folder.entries.items())
    if types != FIELDS or not known or not {"indptr", "indices"} <= set(folder.entries):
        folder.raise_damaged(MANIFEST, "it does not describe a graph")
    arrays = {name: folder.array(name, by_time=True) for name in folder.entries}
    n_nodes, n_entries = folder.about["n_nodes"], arrays["indices"].size
    lengths = {"indptr": n_nodes + 1, "indices": n_entries, "weights": n_entries, "node_labels": n_nodes}
    for name, array in arrays.items():
        if array.shape != (lengths[name],):
            folder.raise_damaged(f"{name}.npy", f"its shape must be ({lengths[name]},), not {array.shape}")
    if arrays["indptr"][0] != 0 or arrays["indptr"][-1] != n_entries:
        folder.raise_damaged("indptr.npy", f"rows must go from 0 to {n_entries}")
    return folder, arrays


def verify_store(path: str | os.PathLike[str]) -> list[str]:
    """Compare every byte of a store with its digests; return the names of the files read."""
    folder, arrays = open_store(path)
    files = folder.verify()
    if any_entry(np.diff(arrays["indptr"]), lambda count: count < 0):
        folder.raise_damaged("indptr.npy", "its rows overlap")
    n_nodes = folder.about["n_nodes"]
    if any_entry(arrays["indices"], lambda node: (node < 0) | (node >= n_nodes)):
        folder.raise_damaged("indices.npy", f"nodes must be from 0 to {n_nodes - 1}")
    return files + verify_cached(folder.path)
