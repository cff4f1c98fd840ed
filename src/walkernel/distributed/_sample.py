"""Features computed on a cluster: kept in the memory of its workers, or written to files."""

from __future__ import annotations

import os
from typing import Any

from distributed import Client

from walkernel._checks import progress_callback
from walkernel._door import door
from walkernel.distributed._features import ClusterFeatures, block_producer, sample_job
from walkernel.distributed._tasks import Cluster, Progress, check_block_size
from walkernel.graph import Graph
from walkernel.sampling import features_job
from walkernel.storing import StoredFeatures, store_job
from walkernel.walks import Sampler
from walkernel.weights import KernelOrF


@door
def sample_features(
    graph: Graph,
    kernel_or_f: KernelOrF,
    n_walks: int,
    *,
    client: Client,
    block_size: int | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    matrix: str | None = None,
    transpose: bool = False,
    progress: Progress | None = None,
) -> ClusterFeatures:
    """Sample features on a cluster and keep them there: ``walkernel.sample_features``, to the last bit.

    Parameters
    ----------
    client, block_size
        As in ``estimate_kernel``.
    graph, kernel_or_f, n_walks, sampler, seed, stream, nodes, matrix, transpose, progress
        As in ``walkernel.sample_features``.

    Examples
    --------
    >>> from distributed import Client
    >>> import walkernel as wk, walkernel.distributed
    >>> graph = wk.load_dataset("karate").graph
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     features = wk.distributed.sample_features(graph, wk.Diffusion(), 16, client=client)
    ...     (features.to_csr() != wk.sample_features(graph, wk.Diffusion(), 16)).nnz
    0
    """
    owner = "walkernel.distributed.sample_features"
    job = features_job(owner, graph, kernel_or_f, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    cluster, report = Cluster(owner, client, graph), progress_callback(owner, progress)
    return sample_job(job, cluster, check_block_size(owner, block_size), report)[0].matrix


@door
def store_features(
    directory: str | os.PathLike[str],
    graph: Graph,
    kernel_or_f: KernelOrF,
    n_walks: int,
    *,
    client: Client,
    block_size: int | None = None,
    sampler: Sampler | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    matrix: str | None = None,
    transpose: bool = False,
    progress: Progress | None = None,
) -> StoredFeatures:
    """Sample features on a cluster and write them here, block by block: ``walkernel.store_features``.

    Both functions write the same files, so either resumes what the other began. This process writes them and
    holds one block in memory at a time.

    Parameters
    ----------
    client
        As in ``estimate_kernel``.
    directory, graph, kernel_or_f, n_walks, block_size
        As in ``walkernel.store_features``.
    sampler, seed, stream, nodes, matrix, transpose, progress
        As in ``walkernel.store_features``.

    Examples
    --------
    >>> import tempfile
    >>> from distributed import Client
    >>> import walkernel as wk, walkernel.distributed
    >>> graph = wk.load_dataset("karate").graph
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Client(processes=False, n_workers=2, dashboard_address=":0") as client:
    ...     wk.distributed.store_features(folder.name, graph, wk.Diffusion(), 8, client=client).shape
    (34, 34)
    >>> folder.cleanup()
    """
    owner = "walkernel.distributed.store_features"
    job = features_job(owner, graph, kernel_or_f, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    cluster, report = Cluster(owner, client, graph), progress_callback(owner, progress)
    size = check_block_size(owner, block_size)
    return store_job(owner, directory, job, size, block_producer(cluster), report)[0].matrix
