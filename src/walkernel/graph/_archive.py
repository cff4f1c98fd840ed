"""Where a graph is written to, an archive or a folder, and what of it can be written."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, refuse, shown
from walkernel._files import file_path, write_archive
from walkernel.graph._assembly import Arrays
from walkernel.graph._labels import Labels

GRAPH_FORMAT = "walkernel graph 1"
RELABEL = "Relabel the nodes first, for instance with their positions or with str."


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


def write_graph(path: str | os.PathLike[str], arrays: Arrays, directed: bool, labels: Labels | None) -> None:
    """Write a graph as plain arrays: those of its CSR matrix, ``directed`` and ``node_labels``."""
    target = file_path(path, ".npz")
    entries: dict[str, Any] = {"format": np.array(GRAPH_FORMAT), "directed": np.array(directed)}
    entries |= {name: array for name, array in arrays._asdict().items() if array is not None}
    if labels is not None:
        entries["node_labels"] = plain_labels(labels.values)
    write_archive(target, entries)


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
