"""A connection to a cluster, and tasks there that survive the loss of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from distributed import Client, Future, as_completed
from numpy.typing import NDArray

from walkernel._checks import instance, refuse, whole_number
from walkernel.graph import Graph
from walkernel.products import block_edges, bytes_of

Progress = Callable[[int, int], object]
MOST_LOSSES = 10
"""How often in a row what was lost is made again before that is given up."""
BLOCKS_OF_A_WORKER = 4
SMALL = 2**16
"""Bytes of an array that travels with a task rather than on its own."""


class Cluster:
    """A connection, and the graph on the other side of it."""

    def __init__(self, owner: str, client: Client, graph: Graph) -> None:
        instance(owner, "client", client, Client, "Connect with distributed.Client(address).")
        if client.asynchronous:
            refuse(owner, "client", "one that is not asynchronous", client)
        self.client, self.graph = client, graph

    @cached_property
    def sent(self) -> Future:
        """The graph on all workers."""
        return self.client.scatter(self.graph, broadcast=True, hash=False)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Run a function of this library there."""
        return self.client.submit(function, *arguments, pure=False)

    def share(self, array: Any) -> Any:
        """Send an array, unless it is small enough to travel with a task."""
        size = bytes_of(array) if scipy.sparse.issparse(array) else array.nbytes
        return array if size < SMALL else self.client.scatter(array, hash=False)

    def forget_lost(self) -> None:
        """Send the graph again when it is next needed, if no worker has it any more."""
        if "sent" in self.__dict__ and self.sent.status in ("cancelled", "lost"):
            del self.__dict__["sent"]

    @property
    def n_workers(self) -> int:
        """Number of workers, or 1 while there is none."""
        return max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))

    def edges(self, n: int, block_size: int | None, largest: int) -> NDArray[np.int64]:
        """Return the edges of blocks of start nodes."""
        if block_size is None:
            block_size = max(1, min(largest, -(-n // (BLOCKS_OF_A_WORKER * self.n_workers))))
        return block_edges(n, block_size)


class Tasks:
    """Tasks that are submitted again if they are lost, and cancelled if their results are not awaited."""

    def __init__(self, cluster: Cluster, calls: Sequence[Callable[[], Future]]) -> None:
        self.cluster, self.calls = cluster, calls
        self.futures: list[Future | None] = [call() for call in calls]

    def future(self, number: int) -> Future:
        """Return a task, submitted again if it was lost or let go of."""
        if _is_lost(self.futures[number]):
            self.cluster.forget_lost()
            self.futures[number] = self.calls[number]()
        return self.futures[number]

    def later(self, function: Callable[..., Any], number: int, *arguments: Any) -> Callable[[], Future]:
        """Return what submits a function of the result of a task."""
        return lambda: self.cluster.submit(function, self.future(number), *arguments)

    def let_go(self) -> None:
        """Keep no results but those that others need."""
        self.futures = [None] * len(self.calls)

    def results(self) -> Iterator[tuple[int, Any]]:
        """Yield the number and the result of each task, as they come in, and let go of it."""
        waiting, losses = set(range(len(self.calls))), 0
        try:
            while waiting:
                number_of = {self.future(number).key: number for number in waiting}
                for future in as_completed([self.future(number) for number in waiting], raise_errors=False):
                    if _is_lost(future):
                        continue
                    result = future.result()
                    number, losses = number_of[future.key], 0
                    waiting.discard(number)
                    self.futures[number] = None
                    yield number, result
                losses += 1
                if waiting and losses > MOST_LOSSES:
                    raise CancelledError(f"{len(waiting)} tasks were lost {losses} times in a row.")
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Stop what is not done."""
        self.cluster.client.cancel([future for future in self.futures if future is not None])


def _is_lost(future: Future | None) -> bool:
    return future is None or future.status in ("cancelled", "lost")


def checked_block_size(owner: str, block_size: int | None) -> int | None:
    """Return the number of nodes of a block, if it is given."""
    return None if block_size is None else whole_number(owner, "block_size", block_size, 1)
