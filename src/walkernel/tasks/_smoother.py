"""Kernel smoothing: a value at a node is the sum of the known values, weighted by the kernel."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import flag
from walkernel.features import Coefficients
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.tasks._nodes import NodeRegressor, node_ids, node_targets, walk_kind
from walkernel.tasks._walk_cache import WALK_CACHE, WalkKind
from walkernel.walks import Sampler


class NodeSmoother(NodeRegressor):
    """Predict v̂_i = Σ_j K̂_ij v_j over the known nodes j, or that divided by Σ_j K̂_ij.

    The walks of the known nodes and of those asked for are independent, so that v̂ is unbiased, also at nodes
    that are known themselves. Kernels without a symmetric modulation take the lazy pair: only the nodes asked
    for are walked from.

    Parameters
    ----------
    graph : Graph
        The graph.
    kernel : Kernel
        The kernel.
    n_walks : int
        Walks from each node.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernel if not given.
    normalize : bool
        Divide by Σ_j K̂_ij: a weighted mean of the known values.
    random_state : int, RandomState or None
        Seed of the walks; None is 0.

    Attributes
    ----------
    pair_ : str
        "symmetric" or "lazy".
    sampler_ : Sampler
        The sampler that is used.

    Examples
    --------
    >>> import walkernel as wk
    >>> ring = wk.Graph.from_edges([(i, (i + 1) % 20) for i in range(20)])
    >>> smoother = wk.NodeSmoother(ring, wk.Diffusion(2.0), normalize=True)
    >>> prediction = smoother.fit([0, 10], [1.0, -1.0]).predict([1, 9])
    >>> bool(prediction[0] > 0.5 and prediction[1] < -0.5)
    True
    """

    def __init__(
        self,
        graph: Graph,
        kernel: Kernel,
        *,
        n_walks: int = 256,
        sampler: Sampler | None = None,
        normalize: bool = False,
        random_state: Any = None,
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.n_walks = n_walks
        self.sampler = sampler
        self.normalize = normalize
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike) -> NodeSmoother:
        """Store the known values and walk from their nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            A node that is named twice with the same value counts once.
        y : array of float, (n,) or (n, n_outputs)
        """
        owner = type(self).__name__
        pair, kind = walk_kind(
            owner, self.graph, self.kernel, self.n_walks, self.sampler, self.random_state, pair="auto"
        )
        flag(owner, "normalize", self.normalize)
        ids = node_ids(owner, self.graph, X)
        targets = node_targets(owner, self.graph, ids, y)
        known, first = np.unique(ids, return_index=True)
        values = targets[first].reshape(known.size, -1)
        weights = self._right_side(pair, kind, known, np.column_stack([values, np.ones(known.size)]))
        self.pair_, self.sampler_, self.n_features_in_ = pair, kind.sampler, 1
        self._kind, self._weights, self._mean = kind, weights, values.mean(axis=0)
        self._sequence = Coefficients(self.kernel) if pair == "lazy" else self.kernel
        self._output = (targets.shape[1:], self.normalize)
        return self

    def _right_side(
        self, pair: str, kind: WalkKind, known: NDArray[np.int64], values: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return Φ₂ᵀ v, (n_nodes, c): what the walks from the known nodes carry to every node."""
        if pair == "lazy":
            carried = np.zeros((self.graph.n_nodes, values.shape[1]))
            carried[known] = values
            return carried
        other_side = kind._replace(stream=1, transpose=self.graph.directed)
        return np.asarray(WALK_CACHE.features(other_side, self.kernel, known).T @ values)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the smoothed values at some nodes, (n,) or (n, n_outputs)."""
        check_is_fitted(self)
        ids = node_ids(type(self).__name__, self._kind.graph, X)
        shape, normalize = self._output
        sums = WALK_CACHE.features(self._kind, self._sequence, ids) @ self._weights
        values, total = sums[:, :-1], sums[:, -1:]
        if normalize:
            met = total > 0
            values = np.where(met, values / np.where(met, total, 1.0), self._mean)
            if not met.all():
                warnings.warn(
                    f"NodeSmoother: {np.sum(~met)} of {ids.size} nodes have no positive sum of kernel values "
                    "over the known nodes and get their mean. Use a wider kernel or more walks.",
                    stacklevel=2,
                )
        return values.reshape(ids.size, *shape)
