"""Edge lists as text: two columns of nodes, and a third of weights if there is one.

Columns are separated by commas, tabs, semicolons or spaces, whichever the first line of data has. A
line that begins with # or % is a comment, and blank lines are skipped. Files are UTF-8, with or
without a byte-order mark, with any line ends. Fields may be in quotes, which end on the same line.

*Header.* The first line is one if it has names where the second has whole numbers, or where the second
has a weight, or if both names are usual ones such as ``source`` and ``target``.

*Ids or labels.* If the first edge has whole numbers, they are ids throughout; otherwise all nodes are
labels, kept as text.

Whole numbers are parsed by NumPy's C reader, many lines at a time; only when it refuses a block is the
file read again line by line, to say where and why.
"""

from __future__ import annotations

import array
import io
import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from walkernel.graph import Arrays, Graph, Labels, check_ids
from walkernel.io._contents import Contents, bare_suffix, malformed, open_binary, split_lines

BYTES_AT_ONCE = 2**22
INTEGER = re.compile(r"[+-]?[0-9]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
TITLE = re.compile(r"(?!(?i:inf(inity)?|nan|na|null|none)$)[^\W\d].*")
"""What a column of weights may be called; not what stands for a missing number."""
HEADER_NAMES = {
    *("source", "target", "src", "dst", "dest", "from", "to", "head", "tail", "start", "end"),
    *("id_1", "id_2", "id1", "id2", "node_1", "node_2", "node1", "node2"),
    *("from_node", "to_node", "fromnodeid", "tonodeid", "source_id", "target_id"),
}
WEIGHTED = np.dtype([("start", np.int64), ("end", np.int64), ("weight", np.float64)])
RELABEL = "Pass relabel=True to read every node as a label."


class Layout(NamedTuple):
    """How the lines of a file are to be read."""

    delimiter: str | None  # None: spaces and tabs
    n_columns: int
    first_line: int
    integers: bool


class Edges(NamedTuple):
    """Ids of the ends, (m, 2), and weights, (m,)."""

    ends: NDArray[np.int64]
    weights: NDArray[np.float64] | None


def read_edge_list(path: Path, directed: bool, relabel: bool) -> Contents:
    """Read an edge list as a graph."""
    layout = find_layout(path)
    edges = read_integers(path, layout) if layout.integers else None
    unusable = edges is None or edges.ends.min() < 0
    if layout.integers and unusable and not relabel:
        refuse_lines(path, layout)
    if edges is None:
        return Contents(_labelled(path, layout, directed), {})
    if relabel:
        return Contents(
            Graph.from_edges(edges.ends, weights=edges.weights, directed=directed, relabel=True), {}
        )
    size = check_ids(edges.ends, None, f"the nodes of {path}", RELABEL)
    return Contents(Graph.from_edges(edges.ends, n_nodes=size, weights=edges.weights, directed=directed), {})


def find_layout(path: Path) -> Layout:
    """Return delimiter, columns, header and kind of nodes, from the first two lines of data."""
    first: list[tuple[int, str]] = []
    for entry in _data_lines(path):
        first.append(entry)
        if len(first) == 2:
            break
    if not first:
        malformed(path, "edges", "no line of data")
    order = ";,\t" if bare_suffix(path) == ".csv" else "\t;,"
    delimiter = next((mark for mark in order if mark in first[0][1]), None)
    rows = [fields for _, fields in _split(path, first, delimiter)]
    header = _is_header(rows)
    if header and len(rows) == 1:
        malformed(path, "edges", "nothing but a header", first[0][0])
    number, row = first[header][0], rows[header]
    if len(row) not in (2, 3):
        malformed(path, "two nodes and at most a weight", f"{len(row)} columns", number)
    for node in row[:2]:
        if NUMBER.fullmatch(node) and not INTEGER.fullmatch(node):
            malformed(path, "a whole number or a name for a node", repr(node), number)
    integers = all(INTEGER.fullmatch(node) for node in row[:2])
    return Layout(delimiter, len(row), number, integers)


def read_integers(path: Path, layout: Layout) -> Edges | None:
    """Return the edges of a file of whole numbers, or None if it holds anything else."""
    blocks = []
    try:
        with open_binary(path) as binary, io.TextIOWrapper(binary, encoding="utf-8-sig") as file:
            for _ in range(layout.first_line - 1):
                file.readline()
            while lines := file.readlines(BYTES_AT_ONCE):
                blocks.append(_parse(lines, layout))
    except ValueError:  # callers then read it line by line, and name the line of an error
        return None
    table = np.concatenate(blocks)
    del blocks
    if layout.n_columns == 2:
        edges = Edges(table, None)
    else:
        edges = Edges(np.stack([table["start"], table["end"]], axis=1), table["weight"].copy())
    infinite = edges.weights is not None and not np.isfinite(edges.weights).all()
    return None if infinite else edges


def refuse_lines(path: Path, layout: Layout) -> NoReturn:
    """Raise the error of the first line that is not an edge between two ids."""
    for number, fields in _rows(path, layout):
        _check_row(path, number, fields, layout)
        for node in fields[:2]:
            if not INTEGER.fullmatch(node):
                malformed(path, "a whole number as on the first edge", repr(node), number, RELABEL)
            if not 0 <= int(node) < 2**63:
                malformed(path, "an id from 0 to 2**63 - 1", node, number, RELABEL)
    malformed(path, "an edge list", "lines that cannot be read as one")


def _parse(lines: list[str], layout: Layout) -> NDArray[Any]:
    """Parse a block of lines; comments and lines of spaces are dropped only if they are in the way."""
    try:
        return _load(lines, layout)
    except ValueError:
        texts = (line.strip() for line in lines)
        return _load([text for text in texts if text and text[0] not in "#%"], layout)


def _load(lines: list[str], layout: Layout) -> NDArray[Any]:
    weighted = layout.n_columns == 3
    if all(not line or line.isspace() for line in lines):
        return np.empty(0, dtype=WEIGHTED) if weighted else np.empty((0, 2), dtype=np.int64)
    if '"' in "".join(lines) and any(line.count('"') % 2 for line in lines):
        raise ValueError("NumPy's reader would take the next line for the rest of a field")
    return np.loadtxt(
        lines,
        dtype=WEIGHTED if weighted else np.int64,
        delimiter=layout.delimiter,
        comments=None,
        quotechar='"',
        ndmin=1 if weighted else 2,
    )


def _labelled(path: Path, layout: Layout, directed: bool) -> Graph:
    """Read nodes as text labels, numbered by first appearance."""
    known: dict[str, int] = {}
    ends, weights = array.array("q"), array.array("d")
    for number, fields in _rows(path, layout):
        _check_row(path, number, fields, layout)
        ends.append(known.setdefault(fields[0], len(known)))
        ends.append(known.setdefault(fields[1], len(known)))
        if layout.n_columns == 3:
            weights.append(float(fields[2]))
    edges = np.frombuffer(ends, dtype=np.int64).reshape(-1, 2)
    values = np.frombuffer(weights) if layout.n_columns == 3 else None
    graph = Graph.from_edges(edges, n_nodes=len(known), weights=values, directed=directed)
    return Graph(Arrays(graph.indptr, graph.indices, graph.weights), directed, Labels(list(known)))


def _check_row(path: Path, number: int, fields: list[str], layout: Layout) -> None:
    if len(fields) != layout.n_columns:
        malformed(path, f"{layout.n_columns} columns as on the first edge", str(len(fields)), number)
    if not fields[0] or not fields[1]:
        malformed(path, "two nodes", "an empty name", number)
    if layout.n_columns == 3:
        weight = float(fields[2]) if NUMBER.fullmatch(fields[2]) else math.nan
        if not math.isfinite(weight):
            malformed(path, "a finite number as the weight", repr(fields[2]), number)


def _is_header(rows: list[list[str]]) -> bool:
    """Return whether the first of at most two rows holds names of columns."""
    first = rows[0]
    if len(first) >= 2 and all(name.lower() in HEADER_NAMES for name in first[:2]):
        return True
    if len(rows) < 2 or len(first) != len(rows[1]):
        return False
    named = not any(INTEGER.fullmatch(field) for field in first[:2])
    numbered = all(INTEGER.fullmatch(field) for field in rows[1][:2])
    titled = len(first) == 3 and bool(TITLE.fullmatch(first[2])) and bool(NUMBER.fullmatch(rows[1][2]))
    return named and (numbered or titled)


def _rows(path: Path, layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield line numbers and fields of all edges."""
    lines = ((number, text) for number, text in _data_lines(path) if number >= layout.first_line)
    return _split(path, lines, layout.delimiter)


def _split(
    path: Path, lines: Iterable[tuple[int, str]], delimiter: str | None
) -> Iterator[tuple[int, list[str]]]:
    if delimiter is None:
        lines = ((number, text.replace("\t", " ")) for number, text in lines)
    return split_lines(path, lines, delimiter or " ")


def _data_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of the lines that are neither blank nor a comment."""
    with (
        open_binary(path) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape") as file,
    ):
        for number, line in enumerate(file, start=1):
            wrong = next((c for c in line if "\udc80" <= c <= "\udcff"), None)
            if wrong is not None:
                malformed(path, "UTF-8 text", f"the byte {ord(wrong) - 0xDC00:#04x}", number)
            text = line.strip()
            if text and text[0] not in "#%":
                yield number, text
