"""Walks that stay on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from distributed import Client, Future

from walkernel._checks import progress_callback
from walkernel._door import door
from walkernel.distributed._features import Blocks, ClusterFeatures, gather_blocks
from walkernel.distributed._tasks import Cluster, Progress, Tasks, check_block_size
from walkernel.distributed._worker import (
    count_steps,
    deposits_of,
    record_on_worker,
    spec_part,
    weight_on_worker,
)
from walkernel.features import Walks, modulation_values
from walkernel.graph import Graph
from walkernel.sampling import WalkJob, checked_spec
from walkernel.storing import default_block_size
from walkernel.walks import Sampler, WalkSpec, concatenate
from walkernel.weights import KernelOrF


def sample_walks(
    graph: Graph,
    n_walks: int,
    *,
    client: Client,
    block_size: int | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    matrix: str = "normalized",
    transpose: bool = False,
    progress: Progress | None = None,
) -> ClusterWalks:
    """Sample walks on a cluster and keep them there: ``walkernel.sample_walks``, to the last bit.

    Parameters
    ----------
    client, block_size
        As in ``estimate_kernel``.
    graph, n_walks, sampler, seed, stream, nodes, matrix, transpose, progress
        As in ``walkernel.sample_walks``.

    Examples
    --------
    >>> from distributed import Client
    >>> import walkernel as wk, walkernel.distributed
    >>> graph = wk.load_dataset("karate").graph
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     walks = wk.distributed.sample_walks(graph, 16, client=client, block_size=10)
    ...     walks.features(wk.Diffusion()).shape, walks.gather().n_steps == walks.n_steps
    ((34, 34), True)
    """
    owner = "walkernel.distributed.sample_walks"
    spec = checked_spec(owner, graph, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    cluster, report = Cluster(owner, client, graph), progress_callback(owner, progress)
    return ClusterWalks(cluster, spec, check_block_size(owner, block_size), report)


class ClusterWalks:
    """Walks on the workers of a cluster: what ``sample_walks`` returns.

    Attributes
    ----------
    spec : WalkSpec
        What defines the walks.
    n_steps : int
        Number of steps of all walks, plus the number of edges that exact heads followed.
    """

    def __init__(
        self, cluster: Cluster, spec: WalkSpec, block_size: int | None, progress: Progress | None
    ) -> None:
        self.spec = spec
        largest = default_block_size(WalkJob(spec, np.empty(0), (spec.stream,)))
        self._edges = cluster.edges(spec.ids.size, block_size, largest)
        self._numbers = range(self._edges.size - 1)
        self._tasks = Tasks(
            cluster, [_submit_record(cluster, spec, *place) for place in pairwise(self._edges)]
        )
        counts = [self._tasks.then(count_steps, b, with_graph=True) for b in self._numbers]
        steps, longest = zip(*gather_blocks(self._tasks, counts, self._edges, progress).values(), strict=True)
        self.n_steps, self._longest = sum(steps), max(longest)

    def __repr__(self) -> str:
        own = self.spec
        return (
            f"ClusterWalks({own.ids.size} nodes x {own.n_walks} walks, {self.n_steps} steps, {own.sampler}, "
            f"seed={own.seed}, stream={own.stream}, matrix={own.matrix!r})"
        )

    @door
    def features(self, kernel_or_f: KernelOrF) -> ClusterFeatures:
        """Return the features Φ_f, which stay on the workers; see ``Walks.features``."""
        own = self.spec
        length = self._longest + 1
        f = modulation_values(own, kernel_or_f, length)
        f = f / own.n_walks
        calls = [self._tasks.then(weight_on_worker, b, f, with_graph=True) for b in self._numbers]
        return ClusterFeatures(Blocks(Tasks(self._tasks.cluster, calls), self._edges, 1, None), 0)

    def gather(self) -> Walks:
        """Gather the walks in this process."""
        calls = [self._tasks.then(deposits_of, b) for b in self._numbers]
        found = gather_blocks(self._tasks, calls, self._edges, None)
        deposits = concatenate([found[b] for b in self._numbers])
        return Walks(**self.spec.arguments(), deposits=deposits)


def _submit_record(cluster: Cluster, spec: WalkSpec, first: int, last: int) -> Callable[[], Future]:
    """Return a function that submits the walks of a range of start nodes."""
    part = spec_part(spec, first, last)
    return lambda: cluster.submit(record_on_worker, cluster.remote_graph, part)
