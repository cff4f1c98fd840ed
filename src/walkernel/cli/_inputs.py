"""The reading of graphs, nodes and values that commands are given."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from walkernel.datasets import Dataset
    from walkernel.graph import Graph


def read_graph(name: str, directed: bool | None, relabel: bool) -> Graph:
    """Return the graph of a file, of a folder or of a data set."""
    return read_dataset(name, directed, relabel).graph


def read_dataset(name: str, directed: bool | None, relabel: bool) -> Dataset:
    """Return a data set, or the graph of a file or of a folder as one."""
    from walkernel.datasets import Dataset, load_dataset
    from walkernel.graph import is_store
    from walkernel.io import is_readable, load_graph

    path = Path(name)
    if is_readable(name) or path.is_file() or is_store(path) or os.sep in name:
        return Dataset(name=name, graph=load_graph(name, directed=directed, relabel=relabel))
    if directed is not None or relabel:
        raise typer.BadParameter(f"--directed and --relabel are for files, and {name!r} is not a file.")
    return load_dataset(name)


def every_node(graph: Graph) -> list[Hashable]:
    """Return all nodes as users know them."""
    return list(range(graph.n_nodes) if graph.labels is None else graph.labels)


def find_node(graph: Graph, text: str) -> Hashable:
    """Return the node with a name: a label of any type if the graph has labels, else an id."""
    if graph.labels is None:
        if text.strip().isdecimal() and int(text) < graph.n_nodes:
            return int(text)
        raise ValueError(f"There is no node {text!r}: the nodes are ids from 0 to {graph.n_nodes - 1}.")
    by_name = graph.derived("nodes by their names", lambda: _by_name(graph))
    if text not in by_name:
        few = ", ".join(repr(name) for name, _ in zip(by_name, range(3), strict=False))
        raise ValueError(f"There is no node {text!r}: the nodes are labels such as {few}.")
    return by_name[text]


def _by_name(graph: Graph) -> dict[str, Hashable]:
    labels = graph.labels or ()
    texts = {label: label for label in labels if isinstance(label, str)}
    return {str(label): label for label in labels} | texts


def chosen_nodes(graph: Graph, names: list[str] | None, file: Path | None) -> list[Hashable] | None:
    """Return the nodes named on the command line and in a file; None if there are neither."""
    from walkernel.io import malformed

    if not names and file is None:
        return None
    found = [find_node(graph, name) for name in names or []]
    if file is not None:
        for line, row in _rows(file):
            if not (line == 1 and row[0].strip().lower() == "node" and not _is_node(graph, row[0])):
                found.append(_node_in(file, line, graph, row[0]))
        if not found:
            malformed(file, "nodes", "none")
    return found


def read_values(path: Path, graph: Graph) -> tuple[list[Hashable], list[float]]:
    """Read a CSV file of node,value; a header line is skipped."""
    from walkernel.io import malformed

    nodes, values = [], []
    for line, row in _rows(path):
        if len(row) != 2:
            malformed(path, "two columns, node,value", f"{len(row)}", line)
        value = _number(row[1])
        if value is None and line == 1 and not _is_node(graph, row[0]):
            continue
        if value is None or not math.isfinite(value):
            malformed(path, "a finite number as the value", repr(row[1]), line)
        nodes.append(_node_in(path, line, graph, row[0]))
        values.append(value)
    if not nodes:
        malformed(path, "lines of node,value", "none")
    return nodes, values


def read_labels(path: Path, graph: Graph) -> tuple[list[Hashable], list[str]]:
    """Read a CSV file of node,label; a header line, whose first column is no node, is skipped."""
    from walkernel.io import malformed

    nodes: list[Hashable] = []
    labels: list[str] = []
    for line, row in _rows(path):
        if len(row) != 2:
            malformed(path, "two columns, node,label", f"{len(row)}", line)
        if line == 1 and not _is_node(graph, row[0]):
            continue
        if not row[1]:
            malformed(path, "a label for each node", "none", line)
        nodes.append(_node_in(path, line, graph, row[0]))
        labels.append(row[1])
    if not nodes:
        malformed(path, "lines of node,label", "none")
    return nodes, labels


def read_positions(path: Path, graph: Graph) -> NDArray[np.float64]:
    """Read a CSV file of node,x,y with a line for each node; a header line is skipped."""
    import numpy as np

    from walkernel._checks import shown
    from walkernel.io import malformed

    places = np.full((graph.n_nodes, 2), np.nan)
    for line, row in _rows(path):
        if len(row) != 3:
            malformed(path, "three columns, node,x,y", f"{len(row)}", line)
        x, y = _number(row[1]), _number(row[2])
        if (x is None or y is None) and line == 1 and not _is_node(graph, row[0]):
            continue
        if x is None or y is None or not (math.isfinite(x) and math.isfinite(y)):
            malformed(path, "finite numbers as x and y", repr(",".join(row[1:])), line)
        places[graph.ids([_node_in(path, line, graph, row[0])])] = x, y
    missing = np.flatnonzero(np.isnan(places[:, 0]))
    if missing.size:
        malformed(path, "a position for each node", f"none for {shown(graph.names(missing[:1])[0])}")
    return places


class Drawn(NamedTuple):
    """What is drawn: a value of each node, the name of the values, and any standard deviations."""

    values: NDArray[Any]
    name: str
    std: NDArray[np.float64] | None


def read_drawn_labels(path: Path, graph: Graph) -> Drawn:
    """Read a CSV file of node,label; nodes that it does not name have None."""
    import numpy as np

    nodes, labels = read_labels(path, graph)
    values = np.full(graph.n_nodes, None, dtype=object)
    values[_distinct(path, graph, nodes)] = labels
    return Drawn(values, "label", None)


def read_drawn_values(path: Path, graph: Graph) -> Drawn:
    """Read a CSV file of node,value or node,value,std; a header line names the values.

    Several values of one node are averaged. Nodes that it does not name, or without a value, have NaN, and
    the largest standard deviation.
    """
    import numpy as np

    from walkernel.io import malformed

    nodes: list[Hashable] = []
    values: list[float] = []
    std: list[float] = []
    name = "value"
    for line, row in _rows(path):
        if len(row) not in (2, 3) or (nodes and (len(row) == 3) != bool(std)):
            malformed(path, "two columns, node,value, or three, node,value,std", f"{len(row)}", line)
        value = _number(row[1] or "nan")
        if value is None and line == 1 and not _is_node(graph, row[0]):
            name = row[1]
            continue
        if value is None:
            malformed(path, "a number as the value", f"{row[1]!r} (labels are drawn with --labels)", line)
        nodes.append(_node_in(path, line, graph, row[0]))
        values.append(value)
        if len(row) == 3:
            deviation = _number(row[2])
            if deviation is None or not 0 <= deviation < math.inf:
                malformed(path, "a standard deviation of at least 0", repr(row[2]), line)
            std.append(deviation)
    if not nodes:
        malformed(path, "lines of node,value", "none")
    if not std:
        ids, found = np.unique(graph.ids(nodes), return_inverse=True)
        means = np.full(graph.n_nodes, np.nan)
        means[ids] = np.bincount(found, values) / np.bincount(found)
        return Drawn(means, name, None)
    ids, found = _distinct(path, graph, nodes), np.full(graph.n_nodes, np.nan)
    found[ids] = values
    spread = np.full(graph.n_nodes, max(std))
    spread[ids] = std
    return Drawn(found, name, spread)


def _distinct(path: Path, graph: Graph, nodes: list[Hashable]) -> NDArray[np.int64]:
    """Return ids of the nodes of a file, or raise an error if one is there twice."""
    import numpy as np

    from walkernel._checks import shown
    from walkernel.io import malformed

    ids = graph.ids(nodes)
    found, counts = np.unique(ids, return_counts=True)
    if (counts > 1).any():
        twice = shown(graph.names(found[counts > 1])[0])
        malformed(path, "one line for each node", f"several for {twice}")
    return ids


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each line of a CSV file that is not blank, and its fields."""
    from walkernel._files import existing_file
    from walkernel.io import malformed, split_lines

    number = 0
    with existing_file(path).open(encoding="utf-8-sig") as file:
        try:
            for number, row in split_lines(path, enumerate(file, start=1), ","):
                if any(row):
                    yield number, row
        except UnicodeDecodeError as error:
            malformed(path, "a CSV file in UTF-8", f"an error ({error})", number + 1)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_node(graph: Graph, text: str) -> bool:
    try:
        find_node(graph, text)
    except ValueError:
        return False
    return True


def _node_in(path: Path, line: int, graph: Graph, text: str) -> Any:
    """Return a node named in a file, or raise an error that names the line."""
    try:
        return find_node(graph, text)
    except ValueError as error:
        raise ValueError(f"{path}, line {line}: {error}") from None
