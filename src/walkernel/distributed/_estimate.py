"""Kernels whose features stay on the workers of a cluster."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from distributed import Client

from walkernel._checks import progress_callback
from walkernel._door import door
from walkernel._random import check_seed
from walkernel.distributed._features import brought_here, sample_job
from walkernel.distributed._tasks import Cluster, Progress, checked_block_size
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import (
    KernelOperator,
    build_operator,
    in_directory,
    refuse_tolerance,
    validate_request,
)
from walkernel.walks import Sampler


@door
def estimate_kernel(
    graph: Graph,
    kernel: Kernel,
    n_walks: int | None = None,
    *,
    client: Client,
    block_size: int | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    nodes: Any = None,
    pair: str = "auto",
    ensembles: str | None = None,
    stitches: int | None = None,
    budget: float | None = None,
    tolerance: float | None = None,
    directory: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> KernelOperator:
    """Estimate a kernel on a cluster: the operator of ``walkernel.estimate_kernel``, to the last bit.

    Products, entries, rows and neighbours are computed where the features are; standard errors walk again in
    this process.

    Parameters
    ----------
    graph : Graph
        The graph. One that was opened from a directory is opened there by the workers too, which must see it
        under the same path; any other is sent to them once.
    client : distributed.Client
        A connection to the cluster.
    block_size : int, optional
        Nodes of a block of features; if not given, four blocks for each worker, or more of about 256 MiB.
    directory : path, optional
        Keep the features there, in files that this process writes, in place of the workers' memory.
    kernel, n_walks, sampler, seed, nodes, pair, ensembles, stitches, budget, tolerance, progress
        As in ``walkernel.estimate_kernel``.

    Examples
    --------
    >>> from distributed import Client
    >>> import walkernel as wk, walkernel.distributed
    >>> graph = wk.load_dataset("karate").graph
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     K = wk.distributed.estimate_kernel(graph, wk.Diffusion(), 64, client=client, block_size=10)
    ...     bool((K @ range(34) == wk.estimate_kernel(graph, wk.Diffusion(), 64) @ range(34)).all())
    True
    """
    owner = "walkernel.distributed.estimate_kernel"
    request = validate_request(
        owner, graph, kernel, n_walks,
        sampler=sampler, nodes=nodes, pair=pair, ensembles=ensembles, stitches=stitches, budget=budget,
    )  # fmt: skip
    cluster, report = Cluster(owner, client, graph), progress_callback(owner, progress)
    size = checked_block_size(owner, block_size)
    if directory is None:
        source: Any = partial(sample_job, cluster=cluster, block_size=size, progress=report)
    else:
        refuse_tolerance(owner, tolerance)
        source = in_directory(owner, directory, size, brought_here(cluster), report)
    return build_operator(request, tolerance, check_seed(owner, seed), source)
