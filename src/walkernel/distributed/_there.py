"""What workers do."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel.features import Sampling, Walks, to_csr
from walkernel.graph import Graph
from walkernel.products import bytes_of
from walkernel.sampling import FeatureRows, WalkJob, walk_job
from walkernel.walks import Deposits, sample_deposits


class Summary(NamedTuple):
    """What is known of features that stay on a worker."""

    norms: NDArray[np.float64]
    n_steps: int
    nnz: int
    nbytes: int


def without_graph(sampling: Sampling, first: int, last: int) -> dict[str, Any]:
    """Return what a sampling is for some of its start nodes, beside the graph, which workers have."""
    own = {name: value for name, value in vars(sampling).items() if name != "graph"}
    return own | {"ids": sampling.ids[first:last]}


def walk_there(graph: Graph, own: dict[str, Any], f: NDArray[np.float64], *rest: Any) -> list[FeatureRows]:
    """Walk from some start nodes and return features."""
    return walk_job(WalkJob(Sampling(graph, **own), f, *rest), 1, None)


def record_there(graph: Graph, own: dict[str, Any]) -> Walks:
    """Walk from some start nodes and return the record."""
    sampling = Sampling(graph, **own)
    return Walks(**vars(sampling), deposits=sample_deposits(sampling.request(), sampling.ids, 1, None))


def weigh_there(walks: Walks, f: NDArray[np.float64]) -> list[FeatureRows]:
    """Return the features of a record for f / n_walks."""
    rows = walks.terms.weighted(f, np.arange(walks.ids.size), 1)
    return [FeatureRows(to_csr(rows, walks.graph.n_nodes), np.zeros((walks.ids.size, 2)), 0)]


def count_steps(walks: Walks) -> tuple[int, int]:
    """Return the number of steps and the longest length."""
    return walks.n_steps, max(walks.sampler.head, int(walks.deposits.lengths.max(initial=0)))


def deposits_of(walks: Walks) -> Deposits:
    """Return the record alone."""
    return walks.deposits


def summarize(found: list[FeatureRows]) -> list[Summary]:
    """Return what is to be known of the features of a block."""
    return [Summary(rows.norms, rows.n_steps, rows.matrix.nnz, bytes_of(rows.matrix)) for rows in found]


def pick(found: list[FeatureRows], result: int) -> scipy.sparse.csr_array:
    """Return one of several matrices."""
    return found[result].matrix
