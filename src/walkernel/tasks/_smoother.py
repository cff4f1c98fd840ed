"""Kernel smoothing: a value at a node is the sum of the known values, weighted by the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from walkernel._checks import check_flag
from walkernel._door import door, warn
from walkernel.features import HostFeatures, identity_features
from walkernel.operators import Groups, normalize_columns, standard_errors
from walkernel.tasks._nodes import NodeEstimator, node_ids, node_targets
from walkernel.tasks._walk_cache import WALK_CACHE
from walkernel.walks import WalkSpec


@dataclass(eq=False, repr=False, kw_only=True)
class NodeSmoother(MultiOutputMixin, RegressorMixin, NodeEstimator):
    """Predict v̂_i = Σ_j K̂_ij v_j over the known nodes j, or that divided by Σ_j K̂_ij.

    The walks of the known nodes and of the requested nodes are independent, so v̂ is unbiased, also at known
    nodes. Kernels without a symmetric modulation function use the lazy pair, which walks from the requested
    nodes only.

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
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see ``walkernel.engines``.

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

    normalize: bool = False

    @door
    def fit(self, X: Any, y: ArrayLike) -> NodeSmoother:
        """Store the known values and walk from their nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            A repeated node must have the same value each time, and counts once.
        y : array of float, (n,) or (n, n_outputs)
        """
        pair, spec, engine = self._check_walks("auto")
        check_flag("normalize", self.normalize)
        ids = node_ids(self.graph, X)
        targets = node_targets(self.graph, ids, y)
        known, first = np.unique(ids, return_index=True)
        values = targets[first].reshape(known.size, -1)
        self._pair, self._engine = pair, engine
        right = self._right_side(spec, known)
        values = np.column_stack([values, np.ones(known.size)])
        self.pair_, self.sampler_, self.n_features_in_ = pair.pair, spec.sampler, 1
        self._spec, self._mean = spec, values[:, :-1].mean(axis=0)
        self._weights = np.asarray(right.matrix.T @ values)
        self._known = (known, values)
        self._output = (targets.shape[1:], self.normalize)
        return self

    def _right_side(self, spec: WalkSpec, known: NDArray[np.int64]) -> HostFeatures:
        """Return Φ₂, (known, n_nodes), the features of the known nodes."""
        if self._pair.other is None:
            return identity_features(known, spec.graph.n_nodes)
        return HostFeatures(WALK_CACHE.features(spec.opposite(), self._pair, known, self._engine))

    @door
    def predict(
        self, X: Any, return_std: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smoothed values at some nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
        return_std : bool
            Also return standard errors, by the jackknife over at least 16 independent groups of walks. They
            measure the distance to the value of infinitely many walks, not to the truth. The walks of all
            nodes concerned are sampled once more. NaN where a value is the mean of the known values.

        Returns
        -------
        values : ndarray of float64, (n,) or (n, n_outputs)
        stderr : ndarray of the same shape, if ``return_std``

        Examples
        --------
        >>> import walkernel as wk
        >>> ring = wk.Graph.from_edges([(i, (i + 1) % 20) for i in range(20)])
        >>> smoother = wk.NodeSmoother(ring, wk.Diffusion(2.0)).fit([0, 10], [1.0, -1.0])
        >>> values, stderr = smoother.predict([1, 9], return_std=True)
        >>> values.shape, bool((stderr < 0.1).all())
        ((2,), True)
        """
        ids = self._requested_ids(X)
        check_flag("return_std", return_std)
        shape, normalize = self._output
        sums = WALK_CACHE.features(self._spec, self._pair, ids, self._engine) @ self._weights
        values, total = sums[:, :-1], sums[:, -1:]
        met = total > 0
        if normalize:
            values = np.where(met, values / np.where(met, total, 1.0), self._mean)
            if not met.all():
                warn(
                    f"{np.sum(~met)} of {ids.size} nodes have no positive sum of kernel values "
                    "over the known nodes and get their mean. Use a wider kernel or more walks."
                )
        if not return_std:
            return values.reshape(ids.size, *shape)
        errors = self._standard_errors(ids, values, np.where(met, total, np.nan) if normalize else None)
        return values.reshape(ids.size, *shape), errors.reshape(ids.size, *shape)

    def _standard_errors(
        self, ids: NDArray[np.int64], values: NDArray[np.float64], total: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        """Return standard errors of sums, or of their ratios to ``total``, (n, n_outputs)."""
        spec, (known, weights) = self._spec, self._known
        asked, where = np.unique(ids, return_inverse=True)
        right = None if self._pair.other is None else spec.opposite().at(known)
        groups = Groups(spec.at(asked), right, self._pair, "independent", self._engine.local)
        groups.check_number()
        left = HostFeatures(WALK_CACHE.features(spec, self._pair, asked, self._engine))
        if total is not None:  # a constant has no error in a mean; subtracting it avoids cancellation
            weights = np.column_stack([weights[:, :-1] - self._mean, weights[:, -1:]])
            values = values - self._mean
        scaled, units = normalize_columns(weights)
        found = groups.deviations(left, self._right_side(spec, known), scaled, second_order=True)
        deviations, doubled = (part[where] for part in found)
        if total is None:
            return standard_errors(deviations[:, :-1], doubled[:, :-1]) * units[:-1]
        ratios = (deviations[:, :-1] - (values / units[:-1])[:, :, None] * deviations[:, -1:]) / total[
            :, :, None
        ]
        return standard_errors(ratios) * units[:-1]
