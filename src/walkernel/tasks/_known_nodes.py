"""What a Gaussian process knows of nodes apart from walks: mean columns, and nodes that count as one."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import Described, real_array, refuse
from walkernel.graph import Graph
from walkernel.tasks._nodes import check_same_length, node_ids
from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._prior import check_rank


class KnownNodes(NamedTuple):
    """The nodes of a graph with the columns of their mean function."""

    graph: Graph
    columns: Array  # (n_nodes, q): columns h of the mean function
    representative: NDArray[np.int64]  # (n_nodes,): the node whose walks and value each node shares

    def observations(self, X: Any, y: ArrayLike, noise_std: ArrayLike | None) -> Observations:
        """Check observations and return them."""
        ids = node_ids(self.graph, X)
        if y is None:
            refuse("y", "given: requires y to be passed", Described("the target y is None"))
        targets = real_array("y", getattr(y, "to_numpy", lambda: y)(), ndim=1)
        check_same_length(targets, ids.size)
        known = np.zeros(ids.size)
        if noise_std is not None:
            known = real_array("noise_std", noise_std)
            if known.shape != (ids.size,) or (known < 0).any():
                refuse("noise_std", f"{ids.size} non-negative numbers, one for each y", noise_std)
        check_rank(self.columns[ids])
        return Observations.at(self.representative[ids], targets, self.columns[ids], known**2)


def first_twins(graph: Graph) -> NDArray[np.int64]:
    """Return for each node the first one with the same neighbours and weights, (n_nodes,).

    A node without neighbours has no twin.
    """
    A = scipy.sparse.csr_array(graph.to_scipy("adjacency"))
    A.sort_indices()
    first: dict[tuple[bytes, bytes], int] = {}
    result = np.arange(graph.n_nodes)
    for node in np.flatnonzero(np.diff(A.indptr)):
        own = slice(A.indptr[node], A.indptr[node + 1])
        result[node] = first.setdefault((A.indices[own].tobytes(), A.data[own].tobytes()), int(node))
    return result
