"""Features in blocks on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
from distributed import Future
from numpy.typing import NDArray

from walkernel.engines._base import Progress
from walkernel.engines._cluster import MAX_LOSSES, Tasks, drop_frames
from walkernel.engines._worker import Summary, pick, summarize
from walkernel.features import BlockedFeatures


class Blocks:
    """Blocks of rows on the workers, a row for each group of walks; each holds one matrix per result."""

    def __init__(
        self,
        tasks: Tasks,
        edges: NDArray[np.int64],
        n_results: int,
        progress: Progress | None,
        n_groups: int = 1,
    ) -> None:
        self.cluster, self.edges, self._n_results = tasks.cluster, edges * n_groups, n_results
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


class ClusterFeatures(BlockedFeatures):
    """One of the results that the blocks on the workers of a cluster hold."""

    def __init__(self, blocks: Blocks, result: int) -> None:
        self._blocks, self._result = blocks, result
        self.edges = blocks.edges
        summaries = [block[result] for block in blocks.summaries]
        self.nnz = sum(summary.nnz for summary in summaries)
        self.nbytes = sum(summary.nbytes for summary in summaries)
        self.norms = np.concatenate([summary.norms for summary in summaries])
        self.n_steps = sum(summary.n_steps for summary in summaries)
        self.shape = (int(self.edges[-1]), blocks.cluster.graph.n_nodes)

    def __repr__(self) -> str:
        n, N = self.shape
        return f"ClusterFeatures({n}x{N}, {self.n_blocks} blocks on {self._blocks.cluster.client})"

    def _block(self, number: int) -> Future:
        return self._blocks.matrix(number, self._result)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        return self._blocks.cluster.submit(function, *arguments)

    def _gather(self, results: list[Any]) -> list[Any]:
        return list(self._blocks.cluster.client.gather(results))

    def _share(self, array: Any) -> Any:
        return self._blocks.cluster.share(array)

    def _complete(self, work: Callable[[], Any]) -> Any:
        """Call ``work``, and call it again if data that it needs are lost meanwhile."""
        for _ in range(MAX_LOSSES):
            try:
                return work()
            except CancelledError as loss:
                drop_frames(loss)
        return work()
