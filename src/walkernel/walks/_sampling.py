"""Walks over many start nodes: blocks of nodes, a thread for each, the same bits for any partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._random import key_words
from walkernel.walks._samplers import survival_of
from walkernel.walks._tables import WalkTable

BLOCK_WALKS = 2**14
"""Walks of one block: some thousands of steps for each thread between two looks at the keyboard."""

Progress = Callable[[int, int], object]


class Deposits(NamedTuple):
    """What the walks of some start nodes left behind, node by node and walk by walk.

    The deposits of the i-th start node are at ``indptr[i]:indptr[i + 1]``; a length of 0 opens a walk.
    """

    indptr: NDArray[np.int64]
    nodes: NDArray[np.signedinteger[Any]]
    lengths: NDArray[np.int32]
    loads: NDArray[np.float64]


class Request(NamedTuple):
    """All that decides the bits of a sample, and nothing else."""

    table: WalkTable
    thresholds: NDArray[np.uint64]
    n_walks: int
    seed: int
    stream: int
    first_walk: int = 0


def sample_deposits(
    request: Request, starts: NDArray[np.int64], n_threads: int, progress: Progress | None
) -> Deposits:
    """Walk from all start nodes and return the deposits in their order."""
    size = max(1, BLOCK_WALKS // request.n_walks)
    blocks = [starts[i : i + size] for i in range(0, starts.size, size)]
    parts: list[Deposits | None] = [None] * len(blocks)
    done = 0
    for number, deposits in _run(lambda block: walk_from(request, block), blocks, n_threads):
        parts[number] = deposits
        done += blocks[number].size
        if progress is not None:
            progress(done, starts.size)
    return concatenate([part for part in parts if part is not None])


def walk_from(request: Request, starts: NDArray[np.int64]) -> Deposits:
    """Walk from one block of start nodes."""
    from walkernel.walks import _loops

    table = request.table
    key = (request.first_walk, np.uint64(request.stream), *key_words(request.seed))
    steps = np.empty((starts.size, request.n_walks), dtype=np.int32)
    _loops.draw_lengths(starts, request.n_walks, *key, request.thresholds, steps)
    most = int(steps.sum(dtype=np.int64)) + steps.size
    counts = np.empty(starts.size, dtype=np.int64)
    nodes = np.empty(most, dtype=table.indices.dtype)
    lengths = np.empty(most, dtype=np.int32)
    loads = np.empty(most)
    survival = survival_of(request.thresholds)
    n = _loops.walk_block(starts, steps, *key, *table, survival, counts, nodes, lengths, loads)
    if n < most:
        nodes, lengths, loads = nodes[:n].copy(), lengths[:n].copy(), loads[:n].copy()
    return Deposits(np.concatenate([[0], np.cumsum(counts)]), nodes, lengths, loads)


def concatenate(parts: list[Deposits]) -> Deposits:
    """Join the deposits of consecutive blocks of start nodes."""
    offsets = np.cumsum([0] + [part.indptr[-1] for part in parts])
    indptr = [part.indptr[1:] + offset for part, offset in zip(parts, offsets[:-1], strict=True)]
    return Deposits(
        np.concatenate([np.zeros(1, dtype=np.int64), *indptr]),
        np.concatenate([part.nodes for part in parts]),
        np.concatenate([part.lengths for part in parts]),
        np.concatenate([part.loads for part in parts]),
    )


def _run(
    work: Callable[[NDArray[np.int64]], Deposits], blocks: list[NDArray[np.int64]], n_threads: int
) -> Iterator[tuple[int, Deposits]]:
    """Yield (number, result) of each block as it finishes; an interrupt drops the blocks not yet begun."""
    with ThreadPoolExecutor(max_workers=min(n_threads, len(blocks))) as pool:
        pending: dict[Future[Deposits], int] = {}
        try:
            pending = {pool.submit(work, block): i for i, block in enumerate(blocks)}
            while pending:
                finished, _ = wait(pending, return_when=FIRST_COMPLETED)
                for future in finished:
                    yield pending.pop(future), future.result()
        finally:
            for future in pending:
                future.cancel()
