"""Functions that run on workers, and the types that travel between them and the client."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from dask.sizeof import sizeof
from numpy.typing import NDArray

from walkernel.features import Walks, to_csr
from walkernel.graph import Graph
from walkernel.products import bytes_of
from walkernel.sampling import FeatureRows, WalkJob, walk_job
from walkernel.walks import Deposits, WalkSpec, sample_deposits

sizeof.register(scipy.sparse.csr_array, bytes_of)  # Dask knows csr_matrix only and would count 56 bytes


class Summary(NamedTuple):
    """What the client knows of features that stay on a worker."""

    norms: NDArray[np.float64]
    n_steps: int
    nnz: int
    nbytes: int


class RemoteGraph:
    """A graph as it is sent to workers: its arrays, or its path if it was opened from a directory.

    A directory is opened by the first task that uses the graph, not on arrival: a path that does not exist
    on a worker is then the error of a task, which Dask passes on to the client.
    """

    def __init__(self, make: Callable[..., Graph], arguments: tuple[Any, ...]) -> None:
        self._make, self._arguments = make, arguments

    @classmethod
    def of(cls, graph: Graph) -> RemoteGraph:
        """Return the remote form of a graph."""
        return cls(_itself, (graph,)) if graph.store is None else cls(*graph.__reduce__())

    @cached_property
    def graph(self) -> Graph:
        """The graph."""
        return self._make(*self._arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteGraph, (self._make, self._arguments)

    def __sizeof__(self) -> int:
        sent = [part for part in self._arguments if isinstance(part, Graph)]
        return object.__sizeof__(self) + sum(sizeof((g.indptr, g.indices, g.weights)) for g in sent)


def _itself(graph: Graph) -> Graph:
    return graph


class RemoteRecord:
    """Deposits of some start nodes, without the graph, which every worker holds already."""

    def __init__(self, part: dict[str, Any], deposits: Deposits) -> None:
        self.part, self.deposits = part, deposits
        self._walks: Walks | None = None

    def walks(self, graph: Graph) -> Walks:
        """Return the walks, cached because they cache their sorted deposits."""
        if self._walks is None:
            self._walks = Walks(**_spec(graph, self.part).arguments(), deposits=self.deposits)
        return self._walks

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteRecord, (self.part, self.deposits)

    def __sizeof__(self) -> int:
        return sizeof(tuple(self.deposits))


def spec_part(spec: WalkSpec, first: int, last: int) -> dict[str, Any]:
    """Return the fields of a specification for a range of its start nodes, without the graph."""
    fields = {name: value for name, value in spec.arguments().items() if name != "graph"}
    ids = spec.ids[first:last]
    is_consecutive = bool((np.diff(ids) == 1).all())
    return fields | {"ids": range(ids[0], ids[-1] + 1) if is_consecutive else ids}


def _spec(graph: Graph, part: dict[str, Any]) -> WalkSpec:
    return WalkSpec(graph, **part | {"ids": np.asarray(part["ids"], dtype=np.int64)})


def walk_on_worker(
    remote: RemoteGraph, part: dict[str, Any], f: NDArray[np.float64], *rest: Any
) -> list[FeatureRows]:
    """Walk from some start nodes and return their features."""
    return walk_job(WalkJob(_spec(remote.graph, part), f, *rest), 1, None)


def record_on_worker(remote: RemoteGraph, part: dict[str, Any]) -> RemoteRecord:
    """Walk from some start nodes and return their deposits."""
    return RemoteRecord(part, sample_deposits(_spec(remote.graph, part), 1, None))


def weight_on_worker(record: RemoteRecord, remote: RemoteGraph, f: NDArray[np.float64]) -> list[FeatureRows]:
    """Return the features of recorded walks, given f / n_walks."""
    walks = record.walks(remote.graph)
    rows = walks.terms.weighted(f, np.arange(walks.ids.size), 1)
    return [FeatureRows(to_csr(rows, walks.graph.n_nodes), np.zeros((walks.ids.size, 2)), 0)]


def count_steps(record: RemoteRecord, remote: RemoteGraph) -> tuple[int, int]:
    """Return the number of steps and the longest length."""
    walks = record.walks(remote.graph)
    return walks.n_steps, max(walks.sampler.head, int(walks.deposits.lengths.max(initial=0)))


def deposits_of(record: RemoteRecord) -> Deposits:
    """Return the deposits of recorded walks."""
    return record.deposits


def summarize(found: list[FeatureRows]) -> list[Summary]:
    """Return a summary of each matrix of a block."""
    return [Summary(rows.norms, rows.n_steps, rows.matrix.nnz, bytes_of(rows.matrix)) for rows in found]


def pick(found: list[FeatureRows], result: int) -> scipy.sparse.csr_array:
    """Return one of several matrices."""
    return found[result].matrix
