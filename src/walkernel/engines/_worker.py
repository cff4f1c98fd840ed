"""Functions that run on workers, and the types that travel between them and the client."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from dask.sizeof import sizeof
from numpy.typing import NDArray

from walkernel.engines._base import FeatureJob
from walkernel.engines._cpu import CPU
from walkernel.features import FeatureMatrix, HostFeatures, HostRecord, bytes_of
from walkernel.graph import Graph
from walkernel.walks import Deposits, WalkSpec

sizeof.register(scipy.sparse.csr_array, bytes_of)  # Dask knows csr_matrix only and would count 56 bytes
sizeof.register(HostRecord, lambda record: sizeof(tuple(record.deposits)))


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

    def __init__(self, sent: Graph | tuple[Any, ...]) -> None:
        self._sent = sent

    @classmethod
    def of(cls, graph: Graph) -> RemoteGraph:
        """Return the remote form of a graph."""
        return cls(graph if graph.store is None else graph.__reduce__())

    @cached_property
    def graph(self) -> Graph:
        """The graph."""
        if isinstance(self._sent, Graph):
            return self._sent
        open_graph, arguments = self._sent
        return open_graph(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteGraph, (self._sent,)

    def __sizeof__(self) -> int:
        own, sent = object.__sizeof__(self), self._sent
        return own + sizeof((sent.indptr, sent.indices, sent.weights)) if isinstance(sent, Graph) else own


def spec_part(spec: WalkSpec, first: int, last: int) -> dict[str, Any]:
    """Return the fields of a specification for a range of its start nodes, without the graph."""
    fields = {name: value for name, value in spec.arguments().items() if name != "graph"}
    ids = spec.ids[first:last]
    is_consecutive = bool((np.diff(ids) == 1).all())
    return fields | {"ids": range(ids[0], ids[-1] + 1) if is_consecutive else ids}


def _spec(remote: RemoteGraph, part: dict[str, Any]) -> WalkSpec:
    return WalkSpec(remote.graph, **part | {"ids": np.asarray(part["ids"], dtype=np.int64)})


def walk_on_worker(
    remote: RemoteGraph, part: dict[str, Any], f: NDArray[np.float64], *rest: Any
) -> list[FeatureMatrix]:
    """Walk from some start nodes and return their features."""
    return CPU(1).features(FeatureJob(_spec(remote, part), f, *rest))


def record_on_worker(remote: RemoteGraph, part: dict[str, Any]) -> HostRecord:
    """Walk from some start nodes and return their deposits."""
    return CPU(1).record(_spec(remote, part))


def weigh_on_worker(
    record: HostRecord, f: NDArray[np.float64], rows: NDArray[np.int64] | None = None
) -> list[HostFeatures]:
    """Return the features of recorded walks, or some rows of them, given f / n_walks."""
    return [record.weigh(f, rows)]


def count_steps(record: HostRecord) -> tuple[int, int]:
    """Return the number of steps and the longest length."""
    return record.n_steps, record.longest


def deposits_of(record: HostRecord) -> Deposits:
    """Return the deposits of recorded walks."""
    return record.deposits


def summarize(found: list[FeatureMatrix]) -> list[Summary]:
    """Return a summary of each matrix of a block."""
    return [Summary(rows.norms, rows.n_steps, rows.nnz, rows.nbytes) for rows in found]


def pick(found: list[FeatureMatrix], result: int) -> scipy.sparse.csr_array:
    """Return one of several matrices."""
    return found[result].to_scipy()
