"""Walks on a graph that has changed: those that touched a changed node are walked again, and no others.

A walk's random words depend on its start node, its number and its step alone. So a walk whose nodes all have
the same rows and the same factors in both walk tables would be walked to the same bits again: it stays. A
node is changed if anything that a walk or a head reads of it differs; arrays that a table leaves out, since
they would hold ones only, count as ones. A start node whose head touched a changed node is walked from anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._threads import over_threads
from walkernel.walks._heads import Head, no_heads, offsets
from walkernel.walks._sampling import Deposits, Progress, concatenate, sample_deposits
from walkernel.walks._spec import WalkSpec
from walkernel.walks._tables import DEGREE_BITS, WalkTable

if TYPE_CHECKING:
    from walkernel.walks._rewalk_loops import Entries, Spans

MAX_REWALKED = 0.3
"""The share of walks beyond which all are walked again: that is faster than to put single ones in."""
ALWAYS = 2**64 - 1


class Starts(NamedTuple):
    """Start nodes on a new graph, and where each stands in the record on the old one, -1 for nowhere."""

    ids: NDArray[np.int64]
    origin: NDArray[np.int64]


class Touched(NamedTuple):
    """Which walks have to be walked again: all from some start nodes, and single ones from others."""

    rows: NDArray[np.int64]  # positions among the start nodes
    single: NDArray[np.int64]  # the same for each single walk
    numbers: NDArray[np.int64]
    begins: NDArray[np.int64]  # where it opens in the record
    sizes: NDArray[np.int64]


def rewalk(
    old: WalkSpec,
    new: WalkSpec,
    record: Deposits,
    starts: Starts,
    n_threads: int,
    progress: Progress | None,
    *,
    in_place: bool,
) -> tuple[Deposits, int] | None:
    """Walk the walks again that touched a changed node, and those from start nodes not in the record.

    Return the record on the new graph and the number of these walks, or None where it is better to sample all
    walks again. The new deposits are written to the record, as the last thing, if all sizes stay the same, or
    to a copy where ``in_place`` or the flags of its arrays forbid it.
    """
    from walkernel.walks._rewalk_loops import patch

    if old.table.indices.dtype != new.table.indices.dtype:
        return None
    arrays = (*record[:4], *record.head)
    if not in_place or not all(array.flags.owndata and array.flags.writeable for array in arrays):
        record = Deposits._make([array.copy() for array in record])
    changed = changed_nodes(old, new, n_threads)
    touched = _find_touched(record, starts, changed, bool(new.sampler.head), n_threads)
    total = touched.rows.size * new.n_walks + touched.single.size
    if total > MAX_REWALKED * starts.ids.size * new.n_walks:
        return None
    fresh = _walk_touched(new, starts, touched, total, n_threads, progress)
    same_rows = np.array_equal(starts.origin, np.arange(record.indptr.size - 1))
    has_heads = bool(new.sampler.head)
    deposits, edits = _put_in(record, starts, touched, fresh, same_rows, n_threads, has_heads=has_heads)
    for edit in edits:
        patch(*edit)
    return deposits, total


def changed_nodes(old: WalkSpec, new: WalkSpec, n_threads: int) -> NDArray[np.bool_]:
    """Tell of each node whether walks or heads may go on differently from there; nodes of one graph may.

    What all nodes share needs no look: another scale or largest degree is in the factors or words of each.
    """
    from walkernel.walks._rewalk_loops import compare_rows

    a, b = old.table, new.table
    n = min(a.packed.size, b.packed.size)
    changed = np.ones(max(a.packed.size, b.packed.size), dtype=np.bool_)
    of_nodes = [(_degrees(a), _degrees(b)), (a.first, b.first), (_last(a), _last(b))]
    of_rows: list[tuple[NDArray[Any], NDArray[Any]]] = []
    if a.inner.size or b.inner.size:
        of_nodes.append((_or_ones(a.inner, a.packed.size), _or_ones(b.inner, b.packed.size)))
    if a.alias.size or b.alias.size:
        of_rows.append((_alias(a), _alias(b)))
    else:
        of_rows.append((a.indices, b.indices))
    if a.edge.size or b.edge.size:
        of_rows.append((_or_ones(a.edge, a.indices.size), _or_ones(b.edge, b.indices.size)))
    if old.hops is not None and new.hops is not None:
        x, y = old.hops, new.hops
        of_nodes += [(x.leave, y.leave), (x.enter, y.enter), (x.totals, y.totals)]
        if x.values.size or y.values.size:
            of_rows.append((_or_ones(x.values, x.indices.size), _or_ones(y.values, y.indices.size)))
    changed[:n] = False
    for here, there in of_nodes:
        changed[:n] |= _words(here)[:n] != _words(there)[:n]
    for here, there in of_rows:
        width = here.size // max(1, a.indices.size)
        both = a.packed, b.packed, _words(here), _words(there), changed

        def work(first: int, last: int, width: int = width, both: Any = both) -> None:
            compare_rows(first, last, width, *both)

        over_threads(work, np.arange(n + 1) * max(1, b.indices.size // n), n_threads)
    return changed


def _words(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as integers of the same bits, which are equal only if all bits are."""
    return array.view(np.uint64) if array.dtype == np.float64 else array


def _or_ones(array: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    return array if array.size else np.ones(size)


def _degrees(table: WalkTable) -> NDArray[np.int64]:
    return (table.packed & np.uint64(2**DEGREE_BITS - 1)).astype(np.int64)


def _last(table: WalkTable) -> NDArray[np.float64]:
    return table.last[_degrees(table)] if table.last_by_degree else table.last


def _alias(table: WalkTable) -> NDArray[np.uint64]:
    """Return the alias words, or those that rows of equal weights would have."""
    if table.alias.size:
        return table.alias
    nodes = table.indices.astype(np.uint64)
    words = np.full((nodes.size, 2), ALWAYS, dtype=np.uint64)
    words[:, 1] = nodes | (nodes << np.uint64(32))
    return words.ravel()


def _find_touched(
    record: Deposits, starts: Starts, changed: NDArray[np.bool_], has_heads: bool, n_threads: int
) -> Touched:
    from walkernel.walks._rewalk_loops import find_rows, list_walks

    n = starts.ids.size
    bits = np.packbits(np.pad(changed, (0, -changed.size % 32)), bitorder="little").view(np.uint32)

    def touched_rows(entries: Entries) -> NDArray[np.bool_]:
        touched = np.zeros(n, dtype=np.bool_)
        if not changed.any():
            return touched
        even = np.arange(n + 1) * (max(1, entries.nodes.size) // n)
        over_threads(
            lambda first, last: find_rows(first, last, starts.origin, entries, bits, touched), even, n_threads
        )
        return touched

    entries = _unsigned(record)
    whole = starts.origin < 0
    if has_heads:
        whole |= changed[starts.ids] | touched_rows(_unsigned(record.head))
    rows = np.flatnonzero(touched_rows(entries) & ~whole)
    places = starts.origin[rows]
    even = offsets(_sizes(record.indptr, places))
    counts = np.empty(rows.size, dtype=np.int64)

    def touched_walks(where: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        found = [np.empty(where[-1], dtype=np.int64) for _ in range(3)]

        def work(first: int, last: int) -> None:
            list_walks(first, last, places, entries, bits, where, counts, *found)

        over_threads(work, even, n_threads)
        return found

    touched_walks(np.zeros(rows.size + 1, dtype=np.int64))  # which counts them
    numbers, begins, sizes = touched_walks(offsets(counts))
    return Touched(np.flatnonzero(whole), np.repeat(rows, counts), numbers, begins, sizes)


def _unsigned(part: Deposits | Head) -> Entries:
    """Return entries whose nodes index arrays without a look at their sign."""
    from walkernel.walks._rewalk_loops import Entries

    kind = np.uint32 if part.nodes.dtype == np.int32 else np.uint64
    return Entries(part.indptr, part.nodes.view(kind), part.lengths, part.loads)


def _walk_touched(
    spec: WalkSpec, starts: Starts, touched: Touched, total: int, n_threads: int, progress: Progress | None
) -> Deposits:
    """Walk again what has to be: whole start nodes, then single walks."""
    dtype = spec.table.indices.dtype
    none = no_heads(0, dtype)
    parts = [Deposits(*none[:4], none)]
    if touched.rows.size:
        report = report_walks(progress, spec.n_walks, 0, total)
        parts.append(sample_deposits(spec.at(starts.ids[touched.rows]), n_threads, report))
    if touched.single.size:
        report = report_walks(progress, 1, total - touched.single.size, total)
        alone = spec.at(starts.ids[touched.single]).first_walks(1)
        parts.append(sample_deposits(alone, n_threads, report, touched.numbers))
    return concatenate(parts)


def report_walks(progress: Progress | None, each: int, before: int, total: int) -> Progress | None:
    """Return a report on start nodes that counts their walks, so many of each, after earlier ones."""
    return None if progress is None else lambda done, _: progress(before + each * done, total)


def _put_in(
    record: Deposits,
    starts: Starts,
    touched: Touched,
    fresh: Deposits,
    same_rows: bool,
    n_threads: int,
    *,
    has_heads: bool,
) -> tuple[Deposits, list[tuple[Spans, Entries, Entries]]]:
    """Return the record with fresh walks in it, or the old one and what is to be written to it."""
    from walkernel.walks._rewalk_loops import Entries, Spans

    rows, origin = touched.rows, starts.origin[touched.rows]
    spans = Spans(
        np.concatenate([rows, touched.single]),
        np.concatenate([_begins(record.indptr, origin), touched.begins]),
        np.concatenate([_sizes(record.indptr, origin), touched.sizes]),
        fresh.indptr[:-1],
        np.diff(fresh.indptr),
    )
    order = np.argsort(spans.rows, kind="stable")
    spans = Spans._make([array[order] for array in spans])
    old, new = (Entries(*part[:4]) for part in (record, fresh))
    walked, edits = _exchange(old, starts.origin, spans, new, same_rows, n_threads)
    if not has_heads:
        return Deposits(*walked, no_heads(starts.ids.size, walked.nodes.dtype)), edits
    head, n = fresh.head, rows.size
    spans = Spans(
        rows, _begins(record.head.indptr, origin), _sizes(record.head.indptr, origin),
        head.indptr[:n], np.diff(head.indptr)[:n],
    )  # fmt: skip
    old, new = (Entries(*part[:4]) for part in (record.head, head))
    followed, more = _exchange(old, starts.origin, spans, new, same_rows, n_threads)
    edges, shifts = record.head.edges[starts.origin], record.head.shifts
    edges[rows] = head.edges[:n]
    if shifts.size:
        shifts = shifts[starts.origin]
        shifts[rows] = head.shifts[:n]
    return Deposits(*walked, Head(*followed, edges, shifts)), edits + more


def _exchange(
    old: Entries, origin: NDArray[np.int64], spans: Spans, fresh: Entries, same_rows: bool, n_threads: int
) -> tuple[Entries, list[tuple[Spans, Entries, Entries]]]:
    from walkernel.walks._rewalk_loops import Entries, splice

    if same_rows and np.array_equal(spans.sizes, spans.source_sizes):
        return old, [(spans, fresh, old)]
    counts = _sizes(old.indptr, origin)
    np.add.at(counts, spans.rows, spans.source_sizes - spans.sizes)
    indptr = offsets(counts)
    new = Entries(indptr, *(np.empty(indptr[-1], dtype=array.dtype) for array in old[1:]))
    places = np.searchsorted(spans.rows, np.arange(origin.size + 1))

    def work(first: int, last: int) -> None:
        splice(first, last, origin, places, spans, fresh, old, new)

    over_threads(work, indptr, n_threads)
    return new, []


def _begins(indptr: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where rows begin; those that are not there have no place."""
    return np.where(rows >= 0, indptr[rows], 0)


def _sizes(indptr: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many entries rows have; those that are not there have none."""
    return np.where(rows >= 0, indptr[rows + 1] - indptr[rows], 0)
