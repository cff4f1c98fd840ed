"""Sampling by name: walks that can be weighted later, or features for one f at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from walkernel._checks import (
    MATRICES,
    check_distinct,
    check_flag,
    check_instance,
    one_of,
    progress_callback,
    whole_number,
)
from walkernel._door import door
from walkernel._philox import check_seed, check_stream
from walkernel.engines._base import Engine, FeatureJob, resolve
from walkernel.engines._stored_features import check_block_size, store
from walkernel.features import KernelOrF, Walks, modulation_values
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.walks import MAX_WALKS, SAMPLERS, IndependentWalks, Sampler, WalkSpec


def checked_spec(
    graph: Graph,
    n_walks: int,
    sampler: Sampler | None,
    seed: int,
    stream: int,
    nodes: Any,
    matrix: str,
    transpose: bool,
) -> WalkSpec:
    """Check the arguments that the sampling functions share."""
    check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    n_walks = whole_number("n_walks", n_walks, 1, MAX_WALKS)
    sampler = IndependentWalks() if sampler is None else sampler
    check_instance("sampler", sampler, Sampler, SAMPLERS)
    seed, stream = check_seed(seed), check_stream(stream)
    one_of("matrix", matrix, MATRICES)
    check_flag("transpose", transpose)
    ids = np.arange(graph.n_nodes) if nodes is None else graph.ids(nodes)
    if nodes is not None:
        check_distinct("nodes", ids, graph.names)
    return WalkSpec(graph, ids, n_walks, sampler, seed, stream, matrix, bool(transpose))


@door
def sample_walks(
    graph: Graph,
    n_walks: int,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    matrix: str = "normalized",
    transpose: bool = False,
    engine: str | Engine | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Walks:
    """Sample random walks; they depend on the graph, the sampler and the seed, and on no kernel.

    Take it to compare many kernels, or to learn f, on one sample; ``sample_features`` needs less memory for
    one kernel. The same seed gives the same walks for any number of threads, any choice and order of nodes
    and on any machine, and 32 walks begin with the same 16.

    Parameters
    ----------
    graph : Graph
        The graph.
    n_walks : int
        Walks from each node. Errors of features fall as one over its square root.
    sampler : Sampler, optional
        How walks are drawn; ``IndependentWalks(p_halt=0.1)`` if not given. ``choose_sampler(graph,
        *kernels)`` gives one that is matched to kernels, with far less error.
    seed : int
        Key of the randomness, 64 bits. Change it for independent walks.
    stream : int
        Second part of the key, 16 bits: different streams are independent, as those of the two sides of a
        kernel.
    nodes : list of nodes, optional
        Start nodes: names (``graph.labels``) if the graph has them, else ids; all nodes if not given.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}
        The matrix M whose entries the loads multiply; kernels must be functions of the same one.
    transpose : bool
        Walk Mᵀ, as the right-hand side of a kernel does: against the direction of the edges. It matters for
        directed graphs and for the random-walk matrix.
    engine : {None, "cpu", "cuda"} or Engine
        Where they are sampled and kept: see :mod:`walkernel.engines`. None is the environment variable
        ``WALKERNEL_ENGINE``, or else the CPU.
    progress : callable, optional
        Called with (nodes done, nodes in all) after each block of nodes.

    Returns
    -------
    Walks
        The walks, in memory, on the device or on the cluster.

    See Also
    --------
    sample_features : Features for one kernel, without the record of all walks.
    estimate_kernel : The kernel itself, with everything chosen for it.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    >>> walks = wk.sample_walks(graph, n_walks=100, nodes=["d", "a"])
    >>> walks.features(wk.Diffusion(sigma=1.0)).shape
    (2, 4)
    """
    spec = checked_spec(graph, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    record = resolve(engine).record(spec, progress_callback(progress))
    return Walks(**spec.arguments(), record=record, is_native=engine is not None)


@door
def sample_features(
    graph: Graph,
    kernel_or_f: KernelOrF,
    n_walks: int,
    *,
    sampler: Sampler | None = None,
    seed: int = 0,
    stream: int = 0,
    nodes: Any = None,
    matrix: str | None = None,
    transpose: bool = False,
    directory: str | os.PathLike[str] | None = None,
    block_size: int | None = None,
    engine: str | Engine | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Any:
    r"""Sample walks and return their features for one kernel, without the record of the walks.

    .. math::

        & \Phi[i, v] = \frac{1}{m} \sum_{\text{walks from } i} \; \sum_{\text{deposits at } v}
        \text{load} \cdot f(\text{length}), \\
        & \mathbb{E}[\Phi_1 \Phi_2^\top] = K \text{ if } f * f = \alpha

    Here m is ``n_walks``, and Φ₁ and Φ₂ have different streams. It is ``sample_walks(…).features(f)``. Use it
    where the kernel is known: it needs memory for the features only, and less time.

    Parameters
    ----------
    graph : Graph
        The graph.
    kernel_or_f : Kernel, array of float or callable
        A kernel stands for its symmetric modulation function. An array is exactly that sequence, zero beyond
        its end. A callable takes an array of lengths.
    n_walks : int
        Walks from each node. Errors of features fall as one over its square root.
    sampler : Sampler, optional
        How walks are drawn; ``IndependentWalks(p_halt=0.1)`` if not given.
    seed : int
        Key of the randomness, 64 bits. Change it for independent features.
    stream : int
        Second part of the key, 16 bits: different streams are independent.
    nodes : list of nodes, optional
        Start nodes: names (``graph.labels``) if the graph has them, else ids; all nodes if not given.
    matrix : {"normalized", "adjacency", "combinatorial", "random-walk"}, optional
        The matrix M: the kernel's if not given, and "normalized" for other f.
    transpose : bool
        Walk Mᵀ, as the right-hand side of a kernel does: against the direction of the edges.
    directory : path, optional
        Write the features there, block by block, instead of keeping them in memory: a new or empty
        directory, or that of an earlier call with the same arguments. A call that was interrupted, in
        whatever way, resumes when it is repeated; one that was completed only opens the files, as
        ``open_features`` does. Only one process may write to a directory at a time.
    block_size : int, optional
        Number of nodes per block of files; the default gives blocks of about 64 MiB.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled and features are kept: see :mod:`walkernel.engines`.
    progress : callable, optional
        Called with (nodes done, nodes in all) after each block of nodes.

    Returns
    -------
    csr_array of float64, (len(nodes), n_nodes)
        A CSR tensor of a device that was named as engine, a ``FeatureMatrix`` of a cluster, or the
        ``StoredFeatures`` of a directory.

    See Also
    --------
    NodeFeatures : The same as a scikit-learn transformer, with the walks chosen for the kernel.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0)])
    >>> wk.sample_features(graph, wk.Diffusion(), 8, nodes=[2]).shape
    (1, 3)

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> stored = wk.sample_features(graph, wk.Diffusion(), 8, directory=folder.name, block_size=2)
    >>> stored.n_blocks, stored[[2, 0]].shape
    (2, (2, 3))
    >>> folder.cleanup()
    """
    if matrix is None:
        matrix = kernel_or_f.matrix if isinstance(kernel_or_f, Kernel) else "normalized"
    spec = checked_spec(graph, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    job, report = features_job(spec, kernel_or_f), progress_callback(progress)
    where, size = resolve(engine), check_block_size(block_size, directory)
    if directory is not None:
        return store(directory, job, size, where, report)[0]
    (found,) = where.features(job, report)
    return found.to_scipy() if engine is None else found.native


def features_job(spec: WalkSpec, kernel_or_f: KernelOrF) -> FeatureJob:
    """Return the job that makes the features of some walks for one f."""
    return FeatureJob(spec, modulation_values(spec, kernel_or_f, spec.longest + 1), (spec.stream,))
