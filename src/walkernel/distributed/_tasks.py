"""A connection to a cluster, and tasks there that survive the loss of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np
import scipy.sparse
from distributed import Client, Future, as_completed
from numpy.typing import NDArray

from walkernel._checks import instance, refuse, whole_number
from walkernel.distributed._there import GraphThere
from walkernel.graph import Graph
from walkernel.products import block_edges, bytes_of

Progress = Callable[[int, int], object]
MOST_LOSSES = 10
"""How often in a row what was lost is made again before that is given up."""
BLOCKS_OF_A_WORKER = 4
MORE_THAN_IN_FILES = 4
"""How much larger blocks in the memory of workers may be than those in files: fewer page faults and tasks."""
PATIENCE = 30.0
"""Seconds to wait for a worker where there is none."""
SMALL = 2**16
"""Bytes of an array that travels with a task rather than on its own."""


class Sent:
    """A graph, and where it was sent; it stays there as long as something that was made of it does."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.future: Future | None = None


_SENT: WeakValueDictionary[tuple[str, int], Sent] = WeakValueDictionary()


class Cluster:
    """A connection, and the graph on the other side of it."""

    def __init__(self, owner: str, client: Client, graph: Graph) -> None:
        instance(owner, "client", client, Client, "Connect with distributed.Client(address).")
        if client.asynchronous:
            refuse(owner, "client", "one that is not asynchronous", client)
        self.owner, self.client, self.graph = owner, client, graph
        self._there = _SENT.setdefault((client.id, id(graph)), Sent(graph))

    @property
    def sent(self) -> Future:
        """The graph on all workers, sent again if none has it any more."""
        there = self._there
        if there.future is None or there.future.status in ("cancelled", "lost"):
            there.future = self._send(GraphThere.of(self.graph), broadcast=True)
        return there.future

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Run a function of this library there."""
        return self.client.submit(function, *arguments, pure=False)

    def share(self, array: Any) -> Any:
        """Send an array, unless it is small enough to travel with a task."""
        size = bytes_of(array) if scipy.sparse.issparse(array) else array.nbytes
        return array if size < SMALL else self._send(array)

    def _send(self, value: Any, broadcast: bool = False) -> Future:
        """Send a value to one worker or to all, and once more if one dies meanwhile."""
        for _ in range(MOST_LOSSES):
            try:
                return self.client.scatter(value, broadcast=broadcast, hash=False, timeout=PATIENCE)
            except TimeoutError as error:
                self._refuse_to_wait(error)
            except OSError:
                continue
        return self.client.scatter(value, broadcast=broadcast, hash=False, timeout=PATIENCE)

    def _refuse_to_wait(self, error: TimeoutError) -> NoReturn:
        address = self.client.scheduler.address
        raise TimeoutError(
            f"{self.owner}: the cluster at {address} has had no worker for {PATIENCE:g} seconds. Start one "
            f"with `dask worker {address}`."
        ) from error

    @property
    def n_workers(self) -> int:
        """Number of workers; the first one is waited for."""
        if not self.client.nthreads():
            try:
                self.client.wait_for_workers(1, timeout=PATIENCE)
            except TimeoutError as error:
                self._refuse_to_wait(error)
        return max(1, len(self.client.nthreads()))

    def edges(self, n: int, block_size: int | None, largest: int) -> NDArray[np.int64]:
        """Return the edges of blocks of start nodes: if nothing is said, as many for each worker."""
        if block_size is None:
            each = max(BLOCKS_OF_A_WORKER, -(-n // (MORE_THAN_IN_FILES * largest * self.n_workers)))
            block_size = max(1, -(-n // (each * self.n_workers)))
        return block_edges(n, block_size)


class Tasks:
    """Tasks that are submitted again if they are lost, and cancelled if their results are not awaited."""

    def __init__(self, cluster: Cluster, calls: Sequence[Callable[[], Future]]) -> None:
        self.cluster, self.calls = cluster, calls
        self.futures: list[Future | None] = [None] * len(calls)

    def submit(self) -> Tasks:
        """Submit all of them."""
        for number in range(len(self.calls)):
            self.future(number)
        return self

    def future(self, number: int) -> Future:
        """Return a task, submitted again if it was cancelled or let go of; Dask sees to all other losses."""
        if _is_gone(self.futures[number]):
            self.futures[number] = self.calls[number]()
        return self.futures[number]

    def later(
        self, function: Callable[..., Any], number: int, *arguments: Any, with_graph: bool = False
    ) -> Callable[[], Future]:
        """Return what submits a function of the result of a task, and of the graph if it wants that."""

        def call() -> Future:
            graph = [self.cluster.sent] if with_graph else []
            return self.cluster.submit(function, self.future(number), *graph, *arguments)

        return call

    def let_go(self) -> None:
        """Keep no results but those that others need."""
        self.futures = [None] * len(self.calls)

    def results(self, at_once: int | None = None) -> Iterator[tuple[int, Any]]:
        """Yield the number and the result of each task, as they come in, and let go of it.

        No more tasks than ``at_once`` are made or wait for the caller at a time.
        """
        left, running = list(range(len(self.calls)))[::-1], dict[str, int]()
        coming, losses = as_completed(loop=self.cluster.client.loop), 0

        def submit(number: int) -> None:
            future = self.future(number)
            running[future.key] = number
            coming.add(future)

        try:
            while left or running:
                while left and len(running) < (at_once or len(self.calls)):
                    submit(left.pop())
                future = next(coming)
                number = running.pop(future.key)
                try:
                    result = future.result()
                except CancelledError as loss:
                    forget(loss)
                    losses += 1
                    if losses > MOST_LOSSES * len(self.calls):
                        raise
                    submit(number)
                    continue
                losses, self.futures[number] = 0, None
                del future
                yield number, result
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """Stop what is not done."""
        self.cluster.client.cancel([future for future in self.futures if future is not None])
        self.let_go()


def forget(loss: CancelledError) -> None:
    """Drop the frames of an error, which Dask keeps with the future: they would keep all futures in turn."""
    loss.__traceback__ = None


def _is_gone(future: Future | None) -> bool:
    return future is None or future.status == "cancelled"


def checked_block_size(owner: str, block_size: int | None) -> int | None:
    """Return the number of nodes of a block, if it is given."""
    return None if block_size is None else whole_number(owner, "block_size", block_size, 1)
