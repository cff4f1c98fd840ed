"""Some rows of a kernel against all nodes: K̂ = Φ with f₁ = α, f₂ = δ₀, at a cost without a term in N.

A walk of the lazy pair carries all of α, and its deposits are the row itself. The right-hand side stands for
every node and is never made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._door import door
from walkernel.features import FeatureMatrix
from walkernel.graph import Graph
from walkernel.operators._groups import Groups, root_sum_of_squares
from walkernel.operators._walk import FeatureOperator
from walkernel.planning import Accuracy


class EveryNode(FeatureMatrix):
    """The identity on all nodes: features of walks that make no step, which take no memory."""

    nnz = nbytes = 0

    def __init__(self, n_nodes: int) -> None:
        self.shape = (n_nodes, n_nodes)

    def multiply(self, X: Any) -> Any:
        """Return X."""
        return X

    def multiply_transposed(self, V: Any) -> Any:
        """Return V."""
        return V

    def rows(self, positions: NDArray[np.int64]) -> scipy.sparse.csr_array:
        """Return unit vectors."""
        entries = (np.ones(positions.size), positions, np.arange(positions.size + 1))
        return scipy.sparse.csr_array(entries, shape=(positions.size, self.shape[1]))

    def row_products(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return the rows themselves."""
        return rows

    def map_rows(self, function: Callable[..., NDArray[np.float64]], *arrays: NDArray[Any]) -> Any:
        """Return what a function makes of the identity and of some arrays."""
        return function(self.to_scipy(), *arrays)


class RowsOperator(FeatureOperator):
    """Rows of K̂ over all nodes of the graph, (n, n_nodes)."""

    def __init__(
        self, graph: Graph, ids: NDArray[np.int64], features: FeatureMatrix, groups: Groups, note: str
    ) -> None:
        every = EveryNode(graph.n_nodes)
        super().__init__(graph, ids, features, every, groups=groups, note=note, columns=None)

    def _transpose(self) -> FeatureOperator:
        if self._transposed is None:
            self._transposed = FeatureOperator(
                self.graph, np.arange(self.graph.n_nodes), self.right, self.left,
                groups=self.groups.transposed(), note=self.note, columns=self.ids,
            )  # fmt: skip
            self._transposed._transposed = self
        return self._transposed

    @door
    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return all rows as a sparse array: the nodes that walks reached have entries.

        Examples
        --------
        >>> import walkernel as wk
        >>> graph = wk.load_dataset("karate").graph
        >>> wk.estimate_kernel(graph, wk.PageRank(0.5), rows=[0, 33]).to_scipy().shape
        (2, 34)
        """
        return self.left.to_scipy()

    def accuracy(self) -> Accuracy:
        """Return how far the rows are from the kernel's: a sum over entries of the spread of groups."""
        G, groups = self.groups.n_groups, self.groups.features(self.groups.left)
        every = scipy.sparse.csr_array(
            (
                np.full(groups.shape[0], 1 / G),
                np.arange(groups.shape[0]),
                np.arange(0, groups.shape[0] + 1, G),
            ),
            shape=(self.shape[0], groups.shape[0]),
        )
        means = every @ groups
        norm = float(root_sum_of_squares(means.data, None)) or 1.0
        of_all = float(np.square(groups.data / norm).sum()) / G
        of_means = float(np.square(means.data / norm).sum())
        once = max(0.0, of_all - of_means) / (G - 1)
        freedom = float(max(1, means.nnz))
        return Accuracy(once, 0.0, of_means - once, freedom, G)
