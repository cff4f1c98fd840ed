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

from walkernel.distributed._tasks import BLOCKS_OF_A_WORKER, MOST_LOSSES, Cluster, Progress, Tasks, forget
from walkernel.distributed._there import Summary, pick, summarize, walk_there, without_graph
from walkernel.products import FeatureBlocks
from walkernel.sampling import FeatureRows, WalkJob
from walkernel.storing import Produce, default_block_size

T = TypeVar("T")


def sample_job(
    job: WalkJob, cluster: Cluster, block_size: int | None, progress: Progress | None
) -> list[ClusterRows]:
    """Make the features of a job, which stay on the workers."""
    edges = cluster.edges(job.spec.ids.size, block_size, default_block_size(job))
    tasks = Tasks(cluster, [_features_of(cluster, job, *place) for place in pairwise(edges)])
    blocks = Blocks(tasks, edges, job.n_results, progress)
    return [
        ClusterRows(
            ClusterFeatures(blocks, result),
            np.concatenate([found[result].norms for found in blocks.summaries]),
            sum(found[result].n_steps for found in blocks.summaries),
        )
        for result in range(job.n_results)
    ]


def brought_here(cluster: Cluster) -> Produce:
    """Return what makes the features of ranges of start nodes and brings them here, some at a time."""

    def produce(job: WalkJob, ranges: list[tuple[int, int]]) -> Iterator[tuple[int, list[FeatureRows]]]:
        tasks = Tasks(cluster, [_features_of(cluster, job, *place) for place in ranges])
        return tasks.results(BLOCKS_OF_A_WORKER * cluster.n_workers)

    return produce


class ClusterRows(NamedTuple):
    """Features on the workers, the norms of their rows, and the number of steps walked for them."""

    matrix: ClusterFeatures
    norms: NDArray[np.float64]
    n_steps: int


class Blocks:
    """Blocks on the workers, as many matrices of each as there are results."""

    def __init__(
        self, tasks: Tasks, edges: NDArray[np.int64], n_results: int, progress: Progress | None
    ) -> None:
        self.cluster, self.edges, self._n_results = tasks.cluster, edges, n_results
        numbers = range(edges.size - 1)
        calls = [tasks.later(summarize, number) for number in numbers]
        found = gathered(tasks, calls, edges, progress)
        self.summaries: list[list[Summary]] = [found[number] for number in numbers]
        picks = [tasks.later(pick, number, result) for number in numbers for result in range(n_results)]
        self._matrices = Tasks(tasks.cluster, picks).submit()
        tasks.let_go()

    def matrix(self, number: int, result: int) -> Future:
        """Return a block of a result."""
        return self._matrices.future(number * self._n_results + result)

    def complete(self, work: Callable[[], T]) -> T:
        """Do a work, and do it again if something that it needs is lost on the way."""
        for _ in range(MOST_LOSSES):
            try:
                return work()
            except CancelledError as loss:
                forget(loss)
        return work()


def gathered(
    tasks: Tasks, calls: Sequence[Callable[[], Future]], edges: NDArray[np.int64], progress: Progress | None
) -> dict[int, Any]:
    """Return what calls make of each block, with progress in start nodes; if that fails, end all tasks."""
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


def _features_of(cluster: Cluster, job: WalkJob, first: int, last: int) -> Callable[[], Future]:
    """Return what submits the walks of a range of start nodes."""
    own = without_graph(job.spec, first, last)
    rest = (job.f, job.streams, job.with_norms, job.apart)
    return lambda: cluster.submit(walk_there, cluster.sent, own, *rest)


class ClusterFeatures(FeatureBlocks):
    """Features in blocks on the workers of a cluster.

    Attributes
    ----------
    shape : tuple of int
        Start nodes and nodes of the graph.
    edges : ndarray of int64, (n_blocks + 1,)
        Rows where the blocks begin, and where the last one ends.
    nnz, nbytes : int
        Entries that are stored, and their size.
    """

    def __init__(self, blocks: Blocks, result: int) -> None:
        self._kept, self._result = blocks, result
        self.edges = blocks.edges
        own = [found[result] for found in blocks.summaries]
        self.nnz, self.nbytes = sum(one.nnz for one in own), sum(one.nbytes for one in own)
        self.shape = (int(self.edges[-1]), blocks.cluster.graph.n_nodes)

    def __repr__(self) -> str:
        n, N = self.shape
        return f"ClusterFeatures({n}x{N}, {self.n_blocks} blocks on {self._kept.cluster.client})"

    def to_csr(self) -> scipy.sparse.csr_array:
        """Bring all rows into this process."""
        return self.rows(np.arange(self.shape[0]))

    def _block(self, number: int) -> Future:
        return self._kept.matrix(number, self._result)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        return self._kept.cluster.submit(function, *arguments)

    def _gather(self, results: list[Any]) -> list[Any]:
        return list(self._kept.cluster.client.gather(results))

    def _share(self, array: Any) -> Any:
        return self._kept.cluster.share(array)

    def _complete(self, work: Callable[[], Any]) -> Any:
        return self._kept.complete(work)
