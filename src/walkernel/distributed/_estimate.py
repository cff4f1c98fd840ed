"""Kernels whose features stay on the workers of a cluster."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from distributed import Client

from walkernel._checks import progress_callback
from walkernel._door import door
from walkernel._random import check_seed
from walkernel.distributed._features import block_producer, sample_job
from walkernel.distributed._tasks import Cluster, Progress, check_block_size
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import (
    KernelOperator,
    build_operator,
    check_no_tolerance,
    directory_source,
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

    Products, entries, rows and neighbours are computed on the workers that hold the features. Standard errors
    are computed in this process, which samples the walks again.

    Parameters
    ----------
    graph : Graph
        The graph. If it was opened from a directory, the workers open the same path, which must exist on
        each of them; any other graph is sent to every worker once.
    client : distributed.Client
        A connection to the cluster.
    block_size : int, optional
        Number of nodes per block of features. The default is four blocks per worker, or more where a block
        would exceed about 256 MiB.
    directory : path, optional
        Write the features to files in this directory, from this process, instead of keeping them in the
        memory of the workers.
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
    size = check_block_size(owner, block_size)
    if directory is None:
        source: Any = partial(sample_job, cluster=cluster, block_size=size, progress=report)
    else:
        check_no_tolerance(owner, tolerance)
        source = directory_source(owner, directory, size, block_producer(cluster), report)
    return build_operator(request, tolerance, check_seed(owner, seed), source)
