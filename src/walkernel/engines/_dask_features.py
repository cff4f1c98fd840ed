"""Features in blocks on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse
from distributed import Future
from numpy.typing import NDArray

from walkernel.distributed._tasks import BLOCKS_PER_WORKER, MAX_LOSSES, Cluster, Progress, Tasks, drop_frames
from walkernel.distributed._worker import Summary, pick, spec_part, summarize, walk_on_worker
from walkernel.products import BlockedFeatures
from walkernel.sampling import FeatureRows, WalkJob
from walkernel.storing import Produce, default_block_size

T = TypeVar("T")


def sample_job(
    job: WalkJob, cluster: Cluster, block_size: int | None, progress: Progress | None
) -> list[ClusterRows]:
    """Compute the features of a job and leave them on the workers."""
    edges = cluster.edges(job.spec.ids.size, block_size, default_block_size(job))
    tasks = Tasks(cluster, [_submit_features(cluster, job, *place) for place in pairwise(edges)])
    blocks = Blocks(tasks, edges, job.n_results, progress)
    return [
        ClusterRows(
            ClusterFeatures(blocks, result),
            np.concatenate([found[result].norms for found in blocks.summaries]),
            sum(found[result].n_steps for found in blocks.summaries),
        )
        for result in range(job.n_results)
    ]


def block_producer(cluster: Cluster) -> Produce:
    """Return a function that computes features on the workers and yields their blocks, a few at a time."""

    def produce(job: WalkJob, ranges: list[tuple[int, int]]) -> Iterator[tuple[int, list[FeatureRows]]]:
        tasks = Tasks(cluster, [_submit_features(cluster, job, *place) for place in ranges])
        return tasks.results(BLOCKS_PER_WORKER * cluster.n_workers)

    return produce


class ClusterRows(NamedTuple):
    """Features on the workers, the norms of their rows, and the number of steps of the walks behind them."""

    matrix: ClusterFeatures
    norms: NDArray[np.float64]
    n_steps: int


class Blocks:
    """Blocks of rows on the workers; each block holds one matrix per result."""

    def __init__(
        self, tasks: Tasks, edges: NDArray[np.int64], n_results: int, progress: Progress | None
    ) -> None:
        self.cluster, self.edges, self._n_results = tasks.cluster, edges, n_results
        numbers = range(edges.size - 1)
        calls = [tasks.then(summarize, number) for number in numbers]
        found = gather_blocks(tasks, calls, edges, progress)
        self.summaries: list[list[Summary]] = [found[number] for number in numbers]
        picks = [tasks.then(pick, number, result) for number in numbers for result in range(n_results)]
        self._matrices = Tasks(tasks.cluster, picks).submit()
        tasks.release()

    def matrix(self, number: int, result: int) -> Future:
        """Return the future of one block of one result."""
        return self._matrices.future(number * self._n_results + result)

    def complete(self, work: Callable[[], T]) -> T:
        """Call ``work``, and call it again if data that it needs are lost meanwhile."""
        for _ in range(MAX_LOSSES):
            try:
                return work()
            except CancelledError as loss:
                drop_frames(loss)
        return work()


def gather_blocks(
    tasks: Tasks, calls: Sequence[Callable[[], Future]], edges: NDArray[np.int64], progress: Progress | None
) -> dict[int, Any]:
    """Return the result of each call by block number, reporting progress; cancel all tasks on failure."""
    found, done = {}, 0
    try:
        for number, result in Tasks(tasks.cluster, calls).results():
            found[number] = result
            done += int(edges[number + 1] - edges[number])
            if progress is not None:
                progress(done, int(edges[-1]))
    except BaseException:
        tasks.cancel()
        raise
    return found


def _submit_features(cluster: Cluster, job: WalkJob, first: int, last: int) -> Callable[[], Future]:
    """Return a function that submits the features of a range of start nodes."""
    part = spec_part(job.spec, first, last)
    rest = (job.f, job.streams, job.with_norms, job.separate_heads)
    return lambda: cluster.submit(walk_on_worker, cluster.remote_graph, part, *rest)


class ClusterFeatures(BlockedFeatures):
    """Features in blocks on the workers of a cluster.

    Attributes
    ----------
    shape : tuple of int
        Number of start nodes and number of nodes of the graph.
    edges : ndarray of int64, (n_blocks + 1,)
        First row of each block, followed by the number of rows.
    nnz, nbytes : int
        Number of stored entries, and their size in bytes.
    """

    def __init__(self, blocks: Blocks, result: int) -> None:
        self._blocks, self._result = blocks, result
        self.edges = blocks.edges
        summaries = [block[result] for block in blocks.summaries]
        self.nnz = sum(summary.nnz for summary in summaries)
        self.nbytes = sum(summary.nbytes for summary in summaries)
        self.shape = (int(self.edges[-1]), blocks.cluster.graph.n_nodes)

    def __repr__(self) -> str:
        n, N = self.shape
        return f"ClusterFeatures({n}x{N}, {self.n_blocks} blocks on {self._blocks.cluster.client})"

    def to_csr(self) -> scipy.sparse.csr_array:
        """Gather all rows in this process."""
        return self.rows(np.arange(self.shape[0]))

    def _block(self, number: int) -> Future:
        return self._blocks.matrix(number, self._result)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        return self._blocks.cluster.submit(function, *arguments)

    def _gather(self, results: list[Any]) -> list[Any]:
        return list(self._blocks.cluster.client.gather(results))

    def _share(self, array: Any) -> Any:
        return self._blocks.cluster.share(array)

    def _complete(self, work: Callable[[], Any]) -> Any:
        return self._blocks.complete(work)
