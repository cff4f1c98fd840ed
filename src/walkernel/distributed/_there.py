"""What workers do."""

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

sizeof.register(scipy.sparse.csr_array, bytes_of)  # Dask, which knows csr_matrix alone, would say 56 bytes


class Summary(NamedTuple):
    """What is known of features that stay on a worker."""

    norms: NDArray[np.float64]
    n_steps: int
    nnz: int
    nbytes: int


class GraphThere:
    """A graph that is sent: its arrays, or, if it was opened from a directory, the path of that.

    A directory is opened by the first task that wants the graph, and not where Dask receives it: so one that
    a worker does not see is an error of a task, which Dask passes on.
    """

    def __init__(self, make: Callable[..., Graph], arguments: tuple[Any, ...]) -> None:
        self._make, self._arguments = make, arguments

    @classmethod
    def of(cls, graph: Graph) -> GraphThere:
        """Return what is sent for a graph."""
        return cls(_itself, (graph,)) if graph.store is None else cls(*graph.__reduce__())

    @cached_property
    def graph(self) -> Graph:
        """The graph."""
        return self._make(*self._arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        return GraphThere, (self._make, self._arguments)

    def __sizeof__(self) -> int:
        sent = [part for part in self._arguments if isinstance(part, Graph)]
        return object.__sizeof__(self) + sum(sizeof((g.indptr, g.indices, g.weights)) for g in sent)


def _itself(graph: Graph) -> Graph:
    return graph


class RecordThere:
    """Deposits of some start nodes; the graph, which workers have, is not sent along with them."""

    def __init__(self, own: dict[str, Any], deposits: Deposits) -> None:
        self.own, self.deposits = own, deposits
        self._walks: Walks | None = None

    def walks(self, graph: Graph) -> Walks:
        """Return the record, which keeps its sorted deposits for the next time."""
        if self._walks is None:
            self._walks = Walks(**_spec(graph, self.own).arguments(), deposits=self.deposits)
        return self._walks

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordThere, (self.own, self.deposits)

    def __sizeof__(self) -> int:
        return sizeof(tuple(self.deposits))


def without_graph(spec: WalkSpec, first: int, last: int) -> dict[str, Any]:
    """Return which walks start from some of the nodes, without the graph, which workers have."""
    own = {name: value for name, value in spec.arguments().items() if name != "graph"}
    ids = spec.ids[first:last]
    in_a_row = bool((np.diff(ids) == 1).all())
    return own | {"ids": range(ids[0], ids[-1] + 1) if in_a_row else ids}


def _spec(graph: Graph, own: dict[str, Any]) -> WalkSpec:
    return WalkSpec(graph, **own | {"ids": np.asarray(own["ids"], dtype=np.int64)})


def walk_there(
    there: GraphThere, own: dict[str, Any], f: NDArray[np.float64], *rest: Any
) -> list[FeatureRows]:
    """Walk from some start nodes and return features."""
    return walk_job(WalkJob(_spec(there.graph, own), f, *rest), 1, None)


def record_there(there: GraphThere, own: dict[str, Any]) -> RecordThere:
    """Walk from some start nodes and return the record."""
    return RecordThere(own, sample_deposits(_spec(there.graph, own), 1, None))


def weigh_there(record: RecordThere, there: GraphThere, f: NDArray[np.float64]) -> list[FeatureRows]:
    """Return the features of a record for f / n_walks."""
    walks = record.walks(there.graph)
    rows = walks.terms.weighted(f, np.arange(walks.ids.size), 1)
    return [FeatureRows(to_csr(rows, walks.graph.n_nodes), np.zeros((walks.ids.size, 2)), 0)]


def count_steps(record: RecordThere, there: GraphThere) -> tuple[int, int]:
    """Return the number of steps and the longest length."""
    walks = record.walks(there.graph)
    return walks.n_steps, max(walks.sampler.head, int(walks.deposits.lengths.max(initial=0)))


def deposits_of(record: RecordThere) -> Deposits:
    """Return the record alone."""
    return record.deposits


def summarize(found: list[FeatureRows]) -> list[Summary]:
    """Return what is to be known of the features of a block."""
    return [Summary(rows.norms, rows.n_steps, rows.matrix.nnz, bytes_of(rows.matrix)) for rows in found]


def pick(found: list[FeatureRows], result: int) -> scipy.sparse.csr_array:
    """Return one of several matrices."""
    return found[result].matrix
