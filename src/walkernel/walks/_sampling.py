"""Walks over many start nodes: tasks of consecutive nodes, threads over tasks, the same bits always.

Results of tasks are joined in order as they come in, into arrays that are reserved once for the expected size
and cut to the true one in place, so that the peak of memory is the result and a few tasks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import Described, refuse
from walkernel._philox import key_words
from walkernel.walks import _state
from walkernel.walks._heads import MAX_SHIFT, Head, join_entries, join_heads, offsets
from walkernel.walks._spec import WalkSpec

if TYPE_CHECKING:
    from walkernel.walks._coalesce import Lookup

BLOCK_WALKS = 2**11
"""Walkers that advance together; their state and deposits stay in the second cache level."""
TASK_WALKS = 2**13
"""Walks of one task at most: some milliseconds between two looks at the keyboard."""

Progress = Callable[[int, int], object]
Item = TypeVar("Item")
Result = TypeVar("Result")
NO_NORMS = np.empty((0, 2))
FEW_STARTS = 64
"""Start nodes whose heads tell how much room all of them need."""


class Deposits(NamedTuple):
    """What the walks of some start nodes left behind, node by node and walk by walk.

    The deposits of the i-th start node are at ``indptr[i]:indptr[i + 1]``; a length of 0 opens a walk. What
    all walks of a start node have in common beyond that is its head.
    """

    indptr: NDArray[np.int64]
    nodes: NDArray[np.signedinteger[Any]]
    lengths: NDArray[np.int32]
    loads: NDArray[np.float64]
    head: Head


class Rows(NamedTuple):
    """CSR rows of features, nodes in the order of their first visit.

    Of the part R of a row that its walks leave, heads apart, ``norms`` has Σ_g ‖R^(g)‖² over the groups of
    walks and ‖R‖², in two columns.
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.signedinteger[Any]]
    data: NDArray[np.float64]
    norms: NDArray[np.float64]
    n_steps: int


def sample_deposits(
    spec: WalkSpec, n_threads: int, progress: Progress | None, first_walks: NDArray[np.int64] | None = None
) -> Deposits:
    """Walk from all start nodes and return the record of all deposits.

    Walks are numbered from 0, or from ``first_walks``, (starts,): any of them can be walked alone.
    """
    from walkernel.walks._coalesce import count_hops

    factors, heads = spec.law.factors(), dict[int, Head]()

    def work(part: slice, pool: Pool) -> list[Piece]:
        own, numbers = spec.at(spec.ids[part]), None if first_walks is None else first_walks[part]
        head, front = own.heads()
        walked = walk(own, factors, front, pool, numbers)
        nodes, loads, hops = walked.arrays
        count_hops.for_work(walked.n)(spec.law.hops, walked.lengths, walked.laws, hops)
        heads[part.start] = head.copy()
        return [Piece(walked.counts(), NO_NORMS, walked.n, [nodes, loads, hops], 0)]

    types = [spec.table.indices.dtype, np.float64, np.int32]
    (joiner,) = _gather(spec, n_threads, progress, work, types)
    counts, _, (nodes, loads, hops) = joiner.result()
    head = join_heads([heads[first] for first in sorted(heads)])
    return Deposits(offsets(counts), nodes, hops, loads, head)


def sample_rows(
    spec: WalkSpec,
    f: NDArray[np.float64],
    n_threads: int,
    progress: Progress | None,
    *,
    with_norms: bool,
    streams: Sequence[int],
    separate_heads: bool = False,
    n_groups: int = 1,
) -> list[Rows]:
    """Walk from all start nodes and return features for a known f, for each of some streams.

    Deposits are never kept, and heads, which are the same in all streams, are followed once; if they are to
    be kept apart, they are the last result, and the others are the walks' share. With more than one group,
    the walks of each start node are in equal groups, each of which has a row of its own.
    """
    from walkernel.walks._coalesce import coalesce, coalesce_heads

    in_row = spec.n_walks // n_groups
    with np.errstate(over="ignore", invalid="ignore"):
        weights = f / in_row
        factors = spec.law.factors(weights)
    if not np.isfinite(factors).all():
        remedy = "Scale the kernel or the weights of the graph, or use matrix='normalized'."
        refuse("f", "small enough for f(k) / S(k) to be a number", Described("overflow"), remedy)
    types = [spec.table.indices.dtype, np.float64]
    deposits = Pool(types)

    group = spec.sampler.coupling.group if with_norms else 0
    of_heads = np.append(weights[: spec.sampler.head + 1], np.zeros(max(0, spec.sampler.head + 1 - f.size)))

    def work(part: slice, pool: Pool) -> list[Piece]:
        own = spec.at(spec.ids[part])
        head, front = own.heads()
        edges, head = int(head.edges.sum()), head.repeated(n_groups) if n_groups > 1 else head
        known = (head.indptr, head.nodes, head.loads * in_row * of_heads[head.lengths])
        added = (np.zeros_like(head.indptr), *(array[:0] for array in known[1:])) if separate_heads else known
        most_of_heads = int((head.indptr[1:] - head.indptr[:-1]).max()) if head.nodes.size else 0
        pieces: list[Piece] = []
        for stream in streams:
            walked = walk(own.on_stream(stream), factors, front, deposits)
            n, room = walked.n, walked.arrays
            steps = n - walked.lengths.size + (0 if pieces else edges)
            counts = np.empty(own.ids.size * n_groups, dtype=np.int64)
            norms = np.empty((counts.size * (group > 0), 2))
            rows = pool.take(n + head.nodes.size)
            lookup = deposits.lookup(walked.most + most_of_heads)
            join = coalesce.for_work(n + head.nodes.size)
            walks = walked.ends(n_groups)
            n = join(in_row, walks, walked.lengths, *room, *added, group, counts, norms, *rows, lookup)
            deposits.give_back(room)
            pieces.append(Piece(counts, norms, n, rows, steps))
        if separate_heads:
            rows, counts = pool.take(head.nodes.size), np.empty(own.ids.size, dtype=np.int64)
            join = coalesce_heads.for_work(head.nodes.size)
            n = join(*known, counts, *rows, deposits.lookup(most_of_heads))
            pieces.append(Piece(counts, NO_NORMS, n, rows, 0))
        return pieces

    joiners = _gather(spec, n_threads, progress, work, types, len(streams) + separate_heads)
    return [joiner.rows() for joiner in joiners]


def concatenate(parts: list[Deposits]) -> Deposits:
    """Join the deposits of consecutive blocks of start nodes."""
    return Deposits(*join_entries(parts), join_heads([part.head for part in parts]))


class Piece(NamedTuple):
    """What one task hands over: counts and norms of its rows, and n valid entries of some arrays."""

    counts: NDArray[np.int64]
    norms: NDArray[np.float64]
    n: int
    arrays: list[NDArray[Any]]
    steps: int


class Pool:
    """Arrays that the tasks of one job write to, used again: fresh memory would cost every task time."""

    def __init__(self, types: list[Any]) -> None:
        self.types = types
        self._spare: SimpleQueue[list[NDArray[Any]]] = SimpleQueue()
        self._own: Any = threading.local()

    def take(self, size: int) -> list[NDArray[Any]]:
        """Return arrays of at least this size."""
        try:
            arrays = self._spare.get_nowait()
        except Empty:
            arrays = []
        return arrays if arrays and arrays[0].size >= size else [np.empty(size, dtype=t) for t in self.types]

    def give_back(self, arrays: list[NDArray[Any]]) -> None:
        """Let other tasks have the arrays."""
        self._spare.put(arrays)

    def walkers(self, count: int, n_lengths: int) -> tuple[_state.Walkers, _state.Order]:
        """Return this thread's room for a block of walkers; all tasks of a job have blocks of one size."""
        if not hasattr(self._own, "walkers"):
            self._own.walkers = _state.make_walkers(count, n_lengths)
        return self._own.walkers

    def lookup(self, size: int) -> Lookup:
        """Return this thread's hash table, emptied, for rows of at most ``size`` deposits."""
        from walkernel.walks._coalesce import make_lookup, slots_for

        table = getattr(self._own, "lookup", None)
        if table is None or table.slots.size < slots_for(size):
            table = self._own.lookup = make_lookup(size)
        table.slots.fill(0)
        return table


class Walked(NamedTuple):
    """What one task leaves."""

    walks: NDArray[np.int64]
    """Number of walks from each start node."""
    lengths: NDArray[np.int32]
    """Steps of each walk."""
    laws: NDArray[np.int32]
    """Law of the length of each walk; nothing if there is only one."""
    n: int
    """Number of deposits."""
    most: int
    """Number of deposits of the start node that has most of them."""
    arrays: list[NDArray[Any]]
    """Nodes, loads and others of the deposits."""

    def ends(self, n_groups: int = 1) -> NDArray[np.int64]:
        """Return where the walks of each group of each start node begin, and where the last ones end."""
        return offsets(np.repeat(self.walks // n_groups, n_groups))

    def counts(self, n_groups: int = 1) -> NDArray[np.int64]:
        """Return the number of deposits of each group of each start node."""
        ends = self.ends(n_groups)
        sums = np.concatenate([[0], np.cumsum(self.lengths, dtype=np.int64)])
        return np.diff(sums[ends]) + np.diff(ends)


def walk(
    spec: WalkSpec,
    factors: NDArray[np.float64],
    front: _state.Front,
    pool: Pool,
    first_walks: NDArray[np.int64] | None = None,
) -> Walked:
    """Walk one task; walks are numbered from 0, or from ``first_walks``."""
    from walkernel.walks import _loops

    starts, n_walks, law, is_single = spec.ids, spec.n_walks, spec.law, first_walks is not None
    numbers = np.zeros(starts.size, dtype=np.int64) if first_walks is None else first_walks
    key = _state.Key(np.uint64(spec.stream), *key_words(spec.seed), numbers, is_single)
    walks = np.full(starts.size, n_walks) if is_single else spec.walks_from(front)
    lengths = np.empty(walks.sum(), dtype=np.int32)
    laws = np.empty(lengths.size if len(law.thresholds) > 1 else 0, dtype=np.int32)
    block = max(n_walks, BLOCK_WALKS // n_walks * n_walks, n_walks << MAX_SHIFT if front.shifts.size else 0)
    task = (_state.read_only(starts), n_walks, key, spec.sampler.coupling, spec.table)
    reserved = None if spec.table.is_plain else np.empty(block, dtype=np.int32)
    size = law.expected_deposits(lengths.size)
    room = pool.walkers(block, law.thresholds.shape[1] + 2)
    rest = (law.thresholds, law.guide, factors, front, *room, reserved, lengths, laws)
    while True:
        arrays = pool.take(size)
        done, n, most = _loops.walk_task.for_work(size)(*task, *rest, *arrays[:2])
        if done == starts.size:
            return Walked(walks, lengths, laws, int(n), int(most), arrays)
        size = 2 * arrays[0].size


class Joiner:
    """Pieces joined in the order of their tasks, by whichever thread finds the next ones ready.

    Their places are known as soon as all earlier pieces are there; copying needs no lock. Pieces beyond the
    reserved capacity, which hardly ever come, wait for the end.
    """

    def __init__(self, capacity: int, pool: Pool) -> None:
        self.capacity, self.pool = capacity, pool
        self.whole = [np.empty(capacity, dtype=t) for t in pool.types]
        self.counts: list[NDArray[np.int64]] = []
        self.norms: list[NDArray[np.float64]] = []
        self.filled = self.steps = 0
        self._lock = threading.Lock()
        self._early: dict[int, Piece] = {}
        self._late: list[tuple[int, Piece]] = []

    def add(self, number: int, piece: Piece) -> None:
        """Take the piece of a task, and copy all pieces whose places are known now."""
        with self._lock:
            self._early[number] = piece
            ready = []
            while len(self.counts) in self._early:
                following = self._early.pop(len(self.counts))
                ready.append((self.filled, following))
                self.filled += following.n
                self.counts.append(following.counts)
                self.norms.append(following.norms)
                self.steps += following.steps
        for place, following in ready:
            if place + following.n > self.capacity:
                self._late.append((place, following))
                continue
            _copy(following.n, following.arrays, self.whole, place)
            self.pool.give_back(following.arrays)

    def result(self) -> tuple[NDArray[np.int64], NDArray[np.float64], list[NDArray[Any]]]:
        """Return counts, norms and arrays of all pieces."""
        if self._late:
            kept = min(place for place, _ in self._late)
            larger = [np.empty(self.filled, dtype=t) for t in self.pool.types]
            _copy(kept, self.whole, larger, 0)
            for place, piece in self._late:
                _copy(piece.n, piece.arrays, larger, place)
            self.whole = larger
        for array in self.whole:
            array.resize(self.filled, refcheck=False)
        return np.concatenate(self.counts), np.concatenate(self.norms), self.whole

    def rows(self) -> Rows:
        """Return the pieces as rows of features."""
        counts, norms, (indices, data) = self.result()
        return Rows(offsets(counts), indices, data, norms, self.steps)


def _copy(n: int, sources: list[NDArray[Any]], targets: list[NDArray[Any]], place: int) -> None:
    for target, source in zip(targets, sources, strict=True):
        target[place : place + n] = source[:n]


def _gather(
    spec: WalkSpec,
    n_threads: int,
    progress: Progress | None,
    work: Callable[[slice, Pool], list[Piece]],
    types: list[Any],
    n_results: int = 1,
) -> list[Joiner]:
    """Run the tasks and join their pieces, of which each has as many as there are results."""
    _ = spec.table, spec.hops  # which all tasks share
    n = spec.ids.size
    walks = min(TASK_WALKS, max(BLOCK_WALKS, n * spec.n_walks // (4 * n_threads)))
    size = max(1, walks // spec.n_walks)
    parts = [slice(i, min(i + size, n)) for i in range(0, n, size)]
    capacity = spec.law.expected_deposits(n * spec.n_walks) if len(parts) > 1 else 0
    if spec.sampler.head and len(parts) > 1:
        probe = spec.at(spec.ids[:: max(1, n // FEW_STARTS)])
        head, front = probe.heads()
        capacity = int(capacity * max(1.0, probe.walks_from(front).mean() / spec.n_walks))
        capacity += int(1.2 * n / probe.ids.size * head.nodes.size)
    pool = Pool(types)
    try:
        joiners = [Joiner(capacity, pool) for _ in range(n_results)]
    except MemoryError:
        size = n_results * capacity * sum(np.dtype(t).itemsize for t in types) / 2**30
        raise MemoryError(
            f"{spec.n_walks} walks from each of {n} nodes, of about {spec.sampler.mean_steps:.4g} steps, "
            f"need up to {size:.3g} GiB. Use fewer walks, some of the nodes, a narrower kernel, or files "
            "(directory=); or polynomial_operator for products with the kernel."
        ) from None

    def task(number: int) -> int:
        for joiner, piece in zip(joiners, work(parts[number], pool), strict=True):
            joiner.add(number, piece)
        return parts[number].stop

    for done in in_order(task, range(len(parts)), n_threads):
        if progress is not None:
            progress(done, n)
    return joiners


def in_order(
    work: Callable[[Item], Result], items: Sequence[Item], n_threads: int, ahead: int = 4
) -> Iterator[Result]:
    """Yield what a function makes of each item, in order, with a few items ahead for each thread.

    An interrupt drops the items not yet begun.
    """
    if n_threads == 1 or len(items) < 2:
        yield from map(work, items)
        return
    with ThreadPoolExecutor(min(n_threads, len(items))) as threads:
        pending: deque[Future[Result]] = deque()
        try:
            for item in items:
                pending.append(threads.submit(work, item))
                if len(pending) == ahead * n_threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
