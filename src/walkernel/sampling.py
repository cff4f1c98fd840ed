"""Sampling by name: walks that can be weighted later, or features for one f at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import (
    MATRICES,
    check_distinct,
    check_flag,
    check_instance,
    one_of,
    progress_callback,
    thread_count,
    whole_number,
)
from walkernel._door import door
from walkernel._random import check_seed, check_stream
from walkernel.features import Walks, modulation_values, to_csr
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.walks import SAMPLERS, IndependentWalks, Sampler, WalkSpec, sample_deposits, sample_rows
from walkernel.weights import KernelOrF

MAX_WALKS = 2**32 - 2


def checked_spec(
    owner: str,
    graph: Graph,
    n_walks: int,
    sampler: Sampler | None,
    seed: int,
    stream: int,
    nodes: Any,
    matrix: str,
    transpose: bool,
) -> WalkSpec:
    """Check the arguments that the sampling functions share, for a function named ``owner``."""
    check_instance(
        owner, "graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx."
    )
    n_walks = whole_number(owner, "n_walks", n_walks, 1, MAX_WALKS)
    sampler = IndependentWalks() if sampler is None else sampler
    check_instance(owner, "sampler", sampler, Sampler, SAMPLERS)
    seed, stream = check_seed(owner, seed), check_stream(owner, stream)
    one_of(owner, "matrix", matrix, MATRICES)
    check_flag(owner, "transpose", transpose)
    ids = np.arange(graph.n_nodes) if nodes is None else graph.ids(nodes)
    check_distinct(owner, "nodes", ids, graph.names)
    return WalkSpec(graph, ids, n_walks, sampler, seed, stream, matrix, bool(transpose))


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
    n_threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Walks:
    """Sample random walks; they depend on the graph, the sampler and the seed, and on no kernel.

    The same seed gives the same walks for any number of threads, any choice and order of nodes and
    on any machine, and 32 walks begin with the same 16.

    Parameters
    ----------
    graph : Graph
        The graph.
    n_walks : int
        Walks from each node.
    sampler : Sampler, optional
        How walks are drawn; ``IndependentWalks(p_halt=0.1)`` if not given.
    seed, stream : int
        Key of the randomness, 64 and 16 bits; different streams are independent.
    nodes : list of nodes, optional
        Start nodes, by the addressing rule; all nodes if not given.
    matrix : {"normalized", "adjacency", "combinatorial"}
        The matrix M whose entries the loads multiply.
    transpose : bool
        Walk Mᵀ, against the direction of the edges: the right-hand side of a directed kernel.
    n_threads : int, optional
        WALKERNEL_NUM_THREADS or the CPUs of this process if not given.
    progress : callable, optional
        Called with (nodes done, nodes in all) after each block of nodes.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    >>> walks = wk.sample_walks(graph, n_walks=100, nodes=["d", "a"])
    >>> walks.features(wk.Diffusion(sigma=1.0)).shape
    (2, 4)
    """
    owner = "sample_walks"
    spec = checked_spec(owner, graph, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    return record_walks(spec, n_threads, progress_callback(owner, progress))


def record_walks(
    spec: WalkSpec, n_threads: int | None = None, progress: Callable[[int, int], object] | None = None
) -> Walks:
    """Walk, and return the walks with their record."""
    deposits = sample_deposits(spec, thread_count("sample_walks", n_threads), progress)
    return Walks(**spec.arguments(), deposits=deposits)


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
    n_threads: int | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> scipy.sparse.csr_array:
    """Sample walks and return their features for one f: ``sample_walks(…).features(f)`` without the record.

    Use it where the kernel is known: it needs memory for the features only, and less time.

    Parameters
    ----------
    kernel_or_f : Kernel, array of float or callable
        As in ``Walks.features``.
    matrix : {"normalized", "adjacency", "combinatorial"}, optional
        The kernel's matrix if not given, "normalized" for other f.
    graph, n_walks, sampler, seed, stream, nodes, transpose, n_threads, progress
        As in ``sample_walks``.

    Returns
    -------
    csr_array of float64, (len(nodes), n_nodes)

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([(0, 1), (1, 2), (2, 0)])
    >>> wk.sample_features(graph, wk.Diffusion(), 8, nodes=[2]).shape
    (1, 3)
    """
    owner = "sample_features"
    job = features_job(owner, graph, kernel_or_f, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    (rows,) = walk_job(job, thread_count(owner, n_threads), progress_callback(owner, progress))
    return rows.matrix


def features_job(
    owner: str,
    graph: Graph,
    kernel_or_f: KernelOrF,
    n_walks: int,
    sampler: Sampler | None,
    seed: int,
    stream: int,
    nodes: Any,
    matrix: str | None,
    transpose: bool,
) -> WalkJob:
    """Check the arguments of functions that make features, for one named ``owner``."""
    if matrix is None:
        matrix = kernel_or_f.matrix if isinstance(kernel_or_f, Kernel) else "normalized"
    spec = checked_spec(owner, graph, n_walks, sampler, seed, stream, nodes, matrix, transpose)
    return job_for(spec, kernel_or_f)


def job_for(spec: WalkSpec, kernel_or_f: KernelOrF) -> WalkJob:
    """Return the job that makes the features of some walks for one f."""
    return WalkJob(spec, modulation_values(spec, kernel_or_f, spec.longest + 1), (spec.stream,))


class FeatureRows(NamedTuple):
    """Features, the norms of ``Rows``, (n, 2), and the number of steps walked for them."""

    matrix: scipy.sparse.csr_array
    norms: NDArray[np.float64]
    n_steps: int


@dataclass(frozen=True, eq=False)
class WalkJob:
    """Features for one f, of the walks of each of some streams, which all go in the same direction.

    Exact heads that are to be kept apart are one more result, the last, and the others are the walks' share.
    Norms are there only if asked for. Walks in groups have rows of their own for each group of a start node.
    """

    spec: WalkSpec
    f: NDArray[np.float64]
    streams: tuple[int, ...]
    with_norms: bool = False
    separate_heads: bool = False
    n_groups: int = 1

    @property
    def n_results(self) -> int:
        """Number of feature matrices."""
        return len(self.streams) + self.separate_heads

    def part(self, first: int, last: int) -> WalkJob:
        """Return the same for some of the start nodes."""
        return replace(self, spec=self.spec.part(first, last))


def walk_job(
    job: WalkJob, n_threads: int | None = None, progress: Callable[[int, int], object] | None = None
) -> list[FeatureRows]:
    """Return the features of a job."""
    found = sample_rows(
        job.spec, job.f, thread_count("sample_features", n_threads), progress,
        with_norms=job.with_norms, streams=job.streams, separate_heads=job.separate_heads,
        n_groups=job.n_groups,
    )  # fmt: skip
    n_columns = job.spec.graph.n_nodes
    return [FeatureRows(to_csr(rows, n_columns), rows.norms, rows.n_steps) for rows in found]
