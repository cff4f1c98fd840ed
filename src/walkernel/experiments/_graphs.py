"""The graphs of the paper's tables; those in files are omitted if they are not on this machine."""

from __future__ import annotations

from functools import cache

from walkernel.datasets import Dataset, available, binary_tree, erdos_renyi, load_dataset, random_regular

PAPER_GRAPHS = ("ER 20", "ER 100", "binary tree", "d-regular", "karate", "dolphins", "football", "eurosis")
"""Graphs of Sec. 3.1 and 3.4."""
GENERATED = {
    "ER 20": lambda: erdos_renyi(20, 0.2),
    "ER 100": lambda: erdos_renyi(100, 0.04),
    "binary tree": lambda: binary_tree(6),
    "d-regular": lambda: random_regular(100, 4),
}
"""p_edge and d are not in the paper: .2, .04 and 4 fit its numbers."""


@cache
def load(name: str) -> Dataset:
    """Return a graph of the paper by the name it has in our tables."""
    return GENERATED[name]() if name in GENERATED else load_dataset(name)


def present(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the graphs that need no download."""
    here = {*GENERATED, *(entry.name for entry in available() if entry.present)}
    return tuple(name for name in names if name in here)


def absent(names: tuple[str, ...]) -> str:
    """Return a sentence about the graphs that are not on this machine, or nothing."""
    missing = [name for name in names if name not in present(names)]
    return f" Not on this machine, and left out: {', '.join(missing)}." if missing else ""
