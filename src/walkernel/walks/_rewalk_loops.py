"""Loops over a record whose graph has changed: which walks touched a changed node, and new ones put in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel.walks.compiling import compiled, subroutine

DEGREE_BITS = np.uint64(28)
DEGREE = np.uint64(2**28 - 1)
ONE, WORD_BITS, LAST_BIT = np.uint32(1), np.uint32(5), np.uint32(31)
ROWS_AT_ONCE = 64


class Entries(NamedTuple):
    """Deposits, or heads: those of row i are at ``indptr[i]:indptr[i + 1]``."""

    indptr: NDArray[np.int64]
    nodes: Any
    lengths: NDArray[np.int32]
    loads: NDArray[np.float64]


class Spans(NamedTuple):
    """Parts of rows that are replaced, in the order of rows and of places within a row."""

    rows: NDArray[np.int64]
    begins: NDArray[np.int64]  # where they were
    sizes: NDArray[np.int64]
    sources: NDArray[np.int64]  # where the new ones are
    source_sizes: NDArray[np.int64]


@subroutine
def row_of(node: int, packed: NDArray[np.uint64]) -> Any:
    """Return where the row of a node begins and how many entries it has."""
    return np.int64(packed[node] >> DEGREE_BITS), np.int64(packed[node] & DEGREE)


@subroutine
def differ(old: Any, new: Any) -> bool:
    """Tell whether arrays of one size differ; without a way out, so that it becomes vector instructions."""
    found = old.dtype.type(0)
    for e in range(old.size):
        found |= old[e] ^ new[e]
    return found != 0


@compiled
def compare_rows(
    first: int,
    last: int,
    width: int,
    old_packed: NDArray[np.uint64],
    new_packed: NDArray[np.uint64],
    old: Any,  # (width · entries,)
    new: Any,  # (width · entries,)
    changed: NDArray[np.bool_],  # (nodes,): other degrees are marked already
) -> None:
    """Mark those of the nodes first … last − 1 whose rows differ; like ones are passed by together."""
    for begin in range(first, last, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, last)
        here, there, size = row_of(begin, old_packed)[0], row_of(begin, new_packed)[0], np.int64(0)
        known = False
        for node in range(begin, end):
            known |= changed[node]
            size += row_of(node, new_packed)[1]
        span = slice(width * here, width * (here + size)), slice(width * there, width * (there + size))
        if not known and not differ(old[span[0]], new[span[1]]):
            continue
        for node in range(begin, end):
            if not changed[node]:
                here, size = row_of(node, old_packed)
                there = row_of(node, new_packed)[0]
                changed[node] = differ(
                    old[width * here : width * (here + size)], new[width * there : width * (there + size)]
                )


@compiled
def find_rows(
    first: int,
    last: int,
    origin: NDArray[np.int64],  # (rows,): their place among the entries, -1 for none
    entries: Entries,
    marks: NDArray[np.uint32],  # one bit for each node
    touched: NDArray[np.bool_],  # (rows,), filled
) -> None:
    """Find out which of the rows first … last − 1 have an entry on a marked node; nodes are unsigned."""
    for row in range(first, last):
        found = np.uint32(0)
        if origin[row] >= 0:
            for node in entries.nodes[entries.indptr[origin[row]] : entries.indptr[origin[row] + 1]]:
                found |= marks[node >> WORD_BITS] >> (node & LAST_BIT)
        touched[row] = (found & ONE) != 0


@compiled
def list_walks(
    first: int,
    last: int,
    rows: NDArray[np.int64],  # places among the entries
    entries: Entries,
    marks: NDArray[np.uint32],
    places: NDArray[np.int64],  # (rows + 1,): where the walks of each row are listed
    counts: NDArray[np.int64],  # (rows,), filled: walks of each row that touched a marked node
    numbers: NDArray[np.int64],  # filled; without room, walks are counted and not listed
    begins: NDArray[np.int64],  # filled
    sizes: NDArray[np.int64],  # filled
) -> None:
    """List the walks of rows[first] … rows[last − 1] that touched a marked node.

    They are listed by their numbers, where they open in the record and how many entries they have there.
    """
    for i in range(first, last):
        q, end = entries.indptr[rows[i]], entries.indptr[rows[i] + 1]
        place, number = places[i], 0
        while q < end:
            begin, found = q, np.uint32(0)
            while q == begin or (q < end and entries.lengths[q] > 0):
                node = entries.nodes[q]
                found |= marks[node >> WORD_BITS] >> (node & LAST_BIT)
                q += 1
            if found & ONE:
                if numbers.size:
                    numbers[place], begins[place], sizes[place] = number, begin, q - begin
                place += 1
            number += 1
        counts[i] = place - places[i]


@subroutine
def copy_entries(begin: int, size: int, source: Entries, place: int, target: Entries) -> None:
    """Copy some entries."""
    for q in range(size):
        target.nodes[place + q] = source.nodes[begin + q]
        target.lengths[place + q] = source.lengths[begin + q]
        target.loads[place + q] = source.loads[begin + q]


@compiled
def patch(spans: Spans, fresh: Entries, entries: Entries) -> None:
    """Write new parts over old ones of the same size."""
    for j in range(spans.rows.size):
        copy_entries(spans.sources[j], spans.sizes[j], fresh, spans.begins[j], entries)


@compiled
def splice(
    first: int,
    last: int,
    origin: NDArray[np.int64],  # (rows,): their place among the old entries, -1 for none
    places: NDArray[np.int64],  # (rows + 1,): the spans of row i are at places[i] : places[i + 1]
    spans: Spans,
    fresh: Entries,
    old: Entries,
    new: Entries,  # filled
) -> None:
    """Fill the rows first … last − 1 with old entries, and new ones in place of the spans."""
    for row in range(first, last):
        target, q, end = new.indptr[row], np.int64(0), np.int64(0)
        if origin[row] >= 0:
            q, end = old.indptr[origin[row]], old.indptr[origin[row] + 1]
        for j in range(places[row], places[row + 1]):
            kept = spans.begins[j] - q
            copy_entries(q, kept, old, target, new)
            copy_entries(spans.sources[j], spans.source_sizes[j], fresh, target + kept, new)
            target += kept + spans.source_sizes[j]
            q = spans.begins[j] + spans.sizes[j]
        copy_entries(q, end - q, old, target, new)
