"""The engine Dask and the record of its walks: they stay on the workers, and results come back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

try:
    from distributed import Client
    from distributed.comm.addressing import normalize_address
except ImportError as error:
    raise ImportError(
        "walkernel.engines.Dask needs Dask. Install it with `pip install walkernel[dask]`."
    ) from error

from walkernel._checks import check_instance, refuse, whole_number
from walkernel.engines._base import Engine, FeatureJob, Progress
from walkernel.engines._cluster import BLOCKS_PER_WORKER, Cluster, Tasks, kept_client
from walkernel.engines._cluster_features import Blocks, ClusterFeatures, gather_blocks
from walkernel.engines._cpu import CPU
from walkernel.engines._stored_features import default_block_size
from walkernel.engines._worker import (
    count_steps,
    deposits_of,
    record_on_worker,
    walk_on_worker,
    weigh_on_worker,
)
from walkernel.features import FeatureMatrix, HostFeatures, HostRecord, Record, by_block, stack
from walkernel.walks import Deposits, WalkSpec, concatenate

ADDRESS = r"inproc://\S+|(\w+://)?[^\s/]+:\d+"


@dataclass(frozen=True)
class Dask(Engine):
    """A Dask cluster: walks and features on the workers of a scheduler.

    Results have the bits of one process, for any number of workers and any block size: walks depend on their
    start nodes alone, and sums over blocks follow the summation tree of ``products``. Products, entries, rows
    and neighbours are computed on the workers that hold the features. Standard errors are computed in this
    process, which samples the walks again, and files of a ``directory`` are written by it.

    A graph that was opened from a directory is opened by the workers at the same path, which must exist on
    each of them; any other graph is sent to every worker once.

    When a worker dies, its blocks are lost; Dask recomputes them from the copy of the graph on another
    worker. If no worker holds the graph any more, this process sends it again and resubmits the lost tasks.
    While the cluster has no worker, tasks wait until one joins; sending the graph waits for at most 30
    seconds. Each task uses one thread, so give workers one thread per core.

    Engines of the same scheduler and block size are equal. A pickled engine has the address of its scheduler
    only, and opens a connection of its own where it is used.

    Parameters
    ----------
    client : distributed.Client or str
        A connection to the cluster, or the address of its scheduler; one connection to an address is opened
        on first use, and kept as long as this process.
    block_size : int, optional
        Number of nodes per block of features. The default is four blocks per worker, or more where a block
        would exceed about 256 MiB.

    Attributes
    ----------
    address : str
        Address of the scheduler.

    Examples
    --------
    >>> from distributed import Client
    >>> import walkernel as wk
    >>> graph = wk.load_dataset("karate").graph
    >>> here = wk.estimate_kernel(graph, wk.Diffusion(), 64)
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     K = wk.estimate_kernel(graph, wk.Diffusion(), 64, engine=wk.engines.Dask(client, block_size=10))
    ...     bool((K @ range(34) == here @ range(34)).all())
    True
    """

    client: Client | str = field(compare=False, repr=False)
    block_size: int | None = None
    address: str = field(init=False)

    def __post_init__(self) -> None:
        size = None if self.block_size is None else whole_number("block_size", self.block_size, 1)
        object.__setattr__(self, "block_size", size)
        object.__setattr__(self, "address", _address_of(self.client))

    def record(self, spec: WalkSpec, progress: Progress | None = None) -> ClusterRecord:
        """Sample walks and keep their deposits on the workers."""
        return ClusterRecord(self._cluster(spec), spec, self.block_size, progress)

    def features(self, job: FeatureJob, progress: Progress | None = None) -> list[FeatureMatrix]:
        """Return the features of a job, which stay on the workers."""
        cluster = self._cluster(job.spec)
        edges = cluster.edges(job.spec.ids.size, self.block_size, default_block_size(job))
        tasks = _feature_tasks(cluster, job, pairwise(edges))
        blocks = Blocks(tasks, edges, job.n_results, progress, job.n_groups)
        return [ClusterFeatures(blocks, result) for result in range(job.n_results)]

    def blocks(
        self, job: FeatureJob, ranges: list[tuple[int, int]]
    ) -> Iterator[tuple[int, list[FeatureMatrix]]]:
        """Yield the blocks of features as workers finish them, a few at a time."""
        cluster = self._cluster(job.spec)
        return _feature_tasks(cluster, job, ranges).results(BLOCKS_PER_WORKER * cluster.n_workers)

    @property
    def cache_key(self) -> tuple[str, str]:
        """Its connection: what the workers hold for one is gone when it is closed."""
        return "dask", self.address if isinstance(self.client, str) else self.client.id

    @property
    def local(self) -> CPU:
        """The CPU of this process, which walks from a few nodes sooner than a cluster."""
        return CPU()

    def _cluster(self, spec: WalkSpec) -> Cluster:
        client = kept_client(self.address) if isinstance(self.client, str) else self.client
        return Cluster(client, spec.graph)

    def __reduce__(self) -> tuple[Any, ...]:
        return Dask, (self.address, self.block_size)


def _feature_tasks(cluster: Cluster, job: FeatureJob, ranges: Iterable[tuple[int, int]]) -> Tasks:
    """Return tasks for the features of some ranges of start nodes."""
    rest = (job.f, job.streams, job.with_norms, job.separate_heads, job.n_groups)
    return cluster.walk(walk_on_worker, job.spec, ranges, *rest)


def _address_of(client: Any) -> str:
    """Check a client or an address, and return the address; nothing is opened."""
    if isinstance(client, str):
        if not re.fullmatch(ADDRESS, client):
            refuse("client", "a Client or an address such as tcp://127.0.0.1:8786", client)
        return str(normalize_address(client))
    check_instance("client", client, Client, "Connect with distributed.Client(address).")
    if client.asynchronous:
        refuse("client", "one that is not asynchronous", client)
    if client.scheduler is None:
        refuse("client", "connected to a scheduler", client)
    return str(client.scheduler.address)


class ClusterRecord(Record):
    """Deposits on the workers of a cluster; pickled, those that were gathered."""

    def __init__(
        self, cluster: Cluster, spec: WalkSpec, block_size: int | None, progress: Progress | None
    ) -> None:
        self._n_walks, self._block_size = spec.n_walks, block_size
        largest = default_block_size(FeatureJob(spec, np.empty(0), (spec.stream,)))
        self._edges = cluster.edges(spec.ids.size, block_size, largest)
        self._tasks = cluster.walk(record_on_worker, spec, pairwise(self._edges))
        counts = [self._tasks.then(count_steps, b) for b in self._numbers]
        steps, longest = zip(*gather_blocks(self._tasks, counts, self._edges, progress).values(), strict=True)
        self._n_steps, self._longest = sum(steps), max(longest)

    @property
    def n_steps(self) -> int:
        """Number of steps walked, and of edges that exact heads followed."""
        return self._n_steps

    @property
    def longest(self) -> int:
        """Length of the longest walk, a head included."""
        return self._longest

    @cached_property
    def deposits(self) -> Deposits:
        """The deposits, gathered in this process when they are first asked for."""
        calls = [self._tasks.then(deposits_of, b) for b in self._numbers]
        found = gather_blocks(self._tasks, calls, self._edges, None)
        return concatenate([found[b] for b in self._numbers])

    def weigh(self, f: NDArray[np.float64], rows: NDArray[np.int64] | None = None) -> FeatureMatrix:
        """Return the features of all start nodes, which stay on the workers, or of some, which come here."""
        if rows is not None:
            return HostFeatures(self._weighed_rows(f, rows), n_threads=None)
        calls = [self._tasks.then(weigh_on_worker, b, f) for b in self._numbers]
        return ClusterFeatures(Blocks(Tasks(self._tasks.cluster, calls), self._edges, 1, None), 0)

    def _weighed_rows(self, f: NDArray[np.float64], rows: NDArray[np.int64]) -> scipy.sparse.csr_array:
        if not rows.size:
            return scipy.sparse.csr_array((0, self._tasks.cluster.graph.n_nodes))
        found = by_block(self._edges, rows)
        calls = [self._tasks.then(weigh_on_worker, b, f, inside) for b, _, inside in found]
        parts = dict(Tasks(self._tasks.cluster, calls).results())
        order = np.argsort(np.concatenate([at for _, at, _ in found]))
        return stack(order, *(parts[k][0].to_scipy() for k in range(len(calls))))

    def sample_again(self, spec: WalkSpec, progress: Progress | None) -> ClusterRecord:
        """Sample other walks on the same cluster."""
        cluster = Cluster(self._tasks.cluster.client, spec.graph)
        return ClusterRecord(cluster, spec, self._block_size, progress)

    @property
    def _numbers(self) -> range:
        return range(self._edges.size - 1)

    def __reduce__(self) -> tuple[Any, ...]:
        return HostRecord, (self.deposits, self._n_walks, self._tasks.cluster.graph.n_nodes)

    def __deepcopy__(self, memo: dict[int, Any]) -> ClusterRecord:
        return self
