"""A connection to a cluster: a graph is sent to its workers once, and tasks survive their loss."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from threading import Lock
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import numpy as np
import scipy.sparse
from distributed import Client, Future, as_completed
from numpy.typing import NDArray

from walkernel.engines._worker import RemoteGraph, spec_part
from walkernel.features import block_edges, bytes_of
from walkernel.graph import Graph
from walkernel.walks import WalkSpec

MAX_LOSSES = 10
"""Number of consecutive losses after which a task is no longer resubmitted."""
BLOCKS_PER_WORKER = 4
MEMORY_BLOCK_FACTOR = 4
"""Size of blocks in the memory of workers relative to blocks in files: larger ones cause fewer page faults
and fewer tasks."""
SCHEDULER_TIMEOUT, WORKER_TIMEOUT = 30.0, 30.0
"""Seconds to wait for a scheduler, and for a first worker."""
MAX_INLINE_BYTES = 2**16
"""Arrays below this size are sent as arguments of a task, larger ones by ``scatter``."""

_CLIENTS: dict[tuple[int, str], Client] = {}
_OPENING = Lock()


def open_client(address: str, timeout: float) -> Client:
    """Connect to the scheduler at an address."""
    try:
        return Client(address, timeout=timeout, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ConnectionError(
            f"No Dask scheduler was reached at {address} ({reason}). Start one with `dask scheduler`, "
            "and workers with `dask worker ADDRESS`."
        ) from error


def kept_client(address: str) -> Client:
    """Return the connection of this process to an address, opened if there is none."""
    key = os.getpid(), address
    with _OPENING:
        if key not in _CLIENTS or _CLIENTS[key].status in ("closed", "closing"):
            _CLIENTS[key] = open_client(address, SCHEDULER_TIMEOUT)
        return _CLIENTS[key]


class SentGraph:
    """A graph and its future on the workers, alive as long as anything computed from it."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.future: Future | None = None


_SENT_GRAPHS: WeakValueDictionary[tuple[str, int], SentGraph] = WeakValueDictionary()


class Cluster:
    """A connection to a cluster, and a graph that is sent to its workers on demand."""

    def __init__(self, client: Client, graph: Graph) -> None:
        self.client, self.graph = client, graph
        self._sent = _SENT_GRAPHS.setdefault((client.id, id(graph)), SentGraph(graph))

    @property
    def remote_graph(self) -> Future:
        """The graph on all workers, sent again if no worker holds it any more."""
        sent = self._sent
        if sent.future is None or sent.future.status in ("cancelled", "lost"):
            sent.future = self._send(RemoteGraph.of(self.graph), broadcast=True)
        return sent.future

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Run a function of this library on a worker."""
        return self.client.submit(function, *arguments, pure=False)

    def walk(
        self, function: Callable[..., Any], spec: WalkSpec, ranges: Iterable[tuple[int, int]], *rest: Any
    ) -> Tasks:
        """Return a task for each range of start nodes: a function of the graph, the walks and the rest."""

        def call(first: int, last: int) -> Callable[[], Future]:
            part = spec_part(spec, first, last)
            return lambda: self.submit(function, self.remote_graph, part, *rest)

        return Tasks(self, [call(*place) for place in ranges])

    def share(self, array: Any) -> Any:
        """Send an array to a worker, unless it is small enough to be an argument of a task."""
        size = bytes_of(array) if scipy.sparse.issparse(array) else array.nbytes
        return array if size < MAX_INLINE_BYTES else self._send(array)

    def _send(self, value: Any, broadcast: bool = False) -> Future:
        """Send a value to one worker or to all, and retry if a worker dies meanwhile."""
        for _ in range(MAX_LOSSES):
            try:
                return self.client.scatter(value, broadcast=broadcast, hash=False, timeout=WORKER_TIMEOUT)
            except TimeoutError as error:
                self._raise_no_worker(error)
            except OSError:
                continue
        return self.client.scatter(value, broadcast=broadcast, hash=False, timeout=WORKER_TIMEOUT)

    def _raise_no_worker(self, error: TimeoutError) -> NoReturn:
        address = self.client.scheduler.address
        raise TimeoutError(
            f"Dask: the cluster at {address} has had no worker for {WORKER_TIMEOUT:g} seconds. "
            f"Start one with `dask worker {address}`."
        ) from error

    @property
    def n_workers(self) -> int:
        """Number of workers; waits for the first one."""
        if not self.client.nthreads():
            try:
                self.client.wait_for_workers(1, timeout=WORKER_TIMEOUT)
            except TimeoutError as error:
                self._raise_no_worker(error)
        return max(1, len(self.client.nthreads()))

    def edges(self, n: int, block_size: int | None, largest: int) -> NDArray[np.int64]:
        """Return the first start node of each block, and n; by default every worker gets as many blocks."""
        if block_size is None:
            per_worker = max(BLOCKS_PER_WORKER, -(-n // (MEMORY_BLOCK_FACTOR * largest * self.n_workers)))
            block_size = max(1, -(-n // (per_worker * self.n_workers)))
        return block_edges(n, block_size)


class Tasks:
    """Tasks that are resubmitted if they are lost, and cancelled if their results are not awaited."""

    def __init__(self, cluster: Cluster, calls: Sequence[Callable[[], Future]]) -> None:
        self.cluster, self.calls = cluster, calls
        self.futures: list[Future | None] = [None] * len(calls)

    def submit(self) -> Tasks:
        """Submit all tasks."""
        for number in range(len(self.calls)):
            self.future(number)
        return self

    def future(self, number: int) -> Future:
        """Return the future of a task, resubmitted if it was cancelled or released.

        Dask recomputes results that are lost in any other way.
        """
        future = self.futures[number]
        if future is None or future.status == "cancelled":
            future = self.futures[number] = self.calls[number]()
        return future

    def then(self, function: Callable[..., Any], number: int, *arguments: Any) -> Callable[[], Future]:
        """Return a call that submits a function of the result of a task."""
        return lambda: self.cluster.submit(function, self.future(number), *arguments)

    def release(self) -> None:
        """Release all results that no other task needs."""
        self.futures = [None] * len(self.calls)

    def results(self, at_once: int | None = None) -> Iterator[tuple[int, Any]]:
        """Yield the number and the result of each task as it completes, and release it.

        At most ``at_once`` tasks are running or waiting for the caller at any time.
        """
        pending, running = list(range(len(self.calls)))[::-1], dict[str, int]()
        completed, losses = as_completed(loop=self.cluster.client.loop), 0

        def submit(number: int) -> None:
            future = self.future(number)
            running[future.key] = number
            completed.add(future)

        try:
            while pending or running:
                while pending and len(running) < (at_once or len(self.calls)):
                    submit(pending.pop())
                future = next(completed)
                number = running.pop(future.key)
                try:
                    result = future.result()
                except CancelledError as loss:
                    drop_frames(loss)
                    losses += 1
                    if losses > MAX_LOSSES * len(self.calls):
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
        """Cancel all unfinished tasks."""
        self.cluster.client.cancel([future for future in self.futures if future is not None])
        self.release()


def drop_frames(loss: CancelledError) -> None:
    """Drop the traceback of an error, which Dask keeps with its future: its frames would keep all futures."""
    loss.__traceback__ = None
