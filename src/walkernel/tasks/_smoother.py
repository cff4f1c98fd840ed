"""Kernel smoothing: a value at a node is the sum of the known values, weighted by the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from walkernel._checks import check_flag, refuse
from walkernel._door import all_or_nothing, door, warn
from walkernel.engines import resolve
from walkernel.features import HostFeatures, identity_features
from walkernel.operators import ChebyshevBasis, Groups, normalize_columns, standard_errors
from walkernel.tasks._choice import choose_prior
from walkernel.tasks._likelihood import Hyperparameters
from walkernel.tasks._nodes import NodeEstimator, node_ids, node_targets
from walkernel.tasks._polynomial_prior import PolynomialPrior
from walkernel.tasks._walk_cache import WALK_CACHE
from walkernel.walks import WalkSpec


@dataclass(eq=False, repr=False, kw_only=True)
class NodeSmoother(MultiOutputMixin, RegressorMixin, NodeEstimator):
    r"""Predict values as means of the known ones, weighted by the kernel; no training.

    .. math:: \hat v_i = \frac{\sum_j K_{ij} v_j}{\sum_j K_{ij}}, \qquad \text{sums over the known nodes } j

    With ``average=False`` it is the sum in the numerator alone.

    With walks, those of the known nodes and of the requested nodes are independent, so sums are unbiased,
    also at known nodes. Kernels without a symmetric modulation function use the lazy pair, which walks from
    the requested nodes only.

    Parameters
    ----------
    graph : Graph
        The graph, directed or not. Nodes are X in ``fit`` and ``predict``.
    kernel : Kernel, optional
        The kernel. None compares Diffusion and Matérn kernels of several widths by the squared error of each
        known value predicted from the others.
    method : {"auto", "polynomial", "walks"}
        How the kernel is computed: exactly by polynomials of the matrix, or from walks. "auto" is exact for
        undirected graphs that are not too large, unless the kernel has negative eigenvalues.
    average : bool
        Divide by Σ_j K_ij: a weighted mean of the known values. Without it predictions fall to zero far from
        known nodes.
    normalize : bool
        Replace K by K_ij / √(K_ii K_jj); with exact kernels only.
    n_walks : int
        Walks from each node, where walks are used. Standard errors fall as one over its square root.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernel if not given. A sampler that is given implies walks.
    random_state : int, RandomState or None
        Seed of the walks; None is 0.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled, and exact rows computed: see :mod:`walkernel.engines`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that is used.
    method_ : str
        "polynomial" or "walks".
    pair_ : str or None
        "symmetric" or "lazy"; None without walks.
    sampler_ : Sampler or None
        The sampler that is used.

    See Also
    --------
    NodeRidge : Fits the known values instead of averaging them.

    Examples
    --------
    >>> import walkernel as wk
    >>> ring = wk.Graph.from_edges([(i, (i + 1) % 20) for i in range(20)])
    >>> smoother = wk.NodeSmoother(ring, wk.Diffusion(2.0))
    >>> prediction = smoother.fit([0, 10], [1.0, -1.0]).predict([1, 9])
    >>> bool(prediction[0] > 0.5 and prediction[1] < -0.5)
    True
    """

    average: bool = True
    normalize: bool = False

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike) -> NodeSmoother:
        """Store the known values and choose the kernel; with walks, walk from their nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Nodes of known values: names (``graph.labels``) if the graph has them, else ids. A repeated node
            must have the same value each time, and counts once.
        y : array of float, (n,) or (n, n_outputs)
            Known values.

        Returns
        -------
        self : NodeSmoother
            The fitted estimator.
        """
        self._check_sampling()
        check_flag("average", self.average)
        ids = node_ids(self.graph, X)
        targets = node_targets(self.graph, ids, y)
        known, first = np.unique(ids, return_index=True)
        values = targets[first].reshape(known.size, -1)
        kernel = self.kernel
        if self.graph.directed and kernel is None:
            refuse("kernel", "given for a directed graph", None)
        exact = self._choose_method(known.size, kernel) == "polynomial"
        if kernel is None:
            chosen = choose_prior(self, known, lambda at, K: -_left_out_error(K, values[at]))
            kernel, exact = chosen.prior.hyper.kernel, chosen.prior.method == "polynomial"
        self._fitted_graph, self.kernel_, self.n_features_in_ = self.graph, kernel, 1
        self._observed_ids = known
        columns = np.column_stack([values, np.ones(known.size)])
        self._mean = values.mean(axis=0)
        self._output = (targets.shape[1:], self.average)
        if exact:
            basis = ChebyshevBasis(self.graph, kernel.matrix, resolve(self.engine))
            hyper = Hyperparameters(kernel, 1.0, 0.0, normalize=self.normalize)
            self._weights = PolynomialPrior(basis, hyper).at(known).weights_of(columns)
            self.method_, self.pair_, self.sampler_ = "polynomial", None, None
            return self
        if self.normalize:
            refuse("normalize", "False with walks", self.normalize)
        pair, spec, engine = self._check_walks(kernel, "auto")
        self._pair, self._engine = pair, engine
        right = self._right_side(spec, known)
        self.method_, self.pair_, self.sampler_ = "walks", pair.pair, spec.sampler
        self._spec, self._known = spec, (known, columns)
        self._weights = np.asarray(right.matrix.T @ columns)
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
            Any nodes of the graph.
        return_std : bool
            Also return standard errors, by the jackknife over at least 16 independent groups of walks. They
            measure the distance to the value of infinitely many walks, not to the truth. The walks of all
            nodes concerned are sampled once more. NaN where a value is the mean of the known values. They
            are 0 where the kernel is exact.

        Returns
        -------
        values : ndarray of float64, (n,) or (n, n_outputs)
            The smoothed values, in the unit of y.
        stderr : ndarray of float64, (n,) or (n, n_outputs)
            Standard errors, if ``return_std``.

        Warns
        -----
        UserWarning
            If nodes have no positive sum of kernel values over the known nodes; they get the mean of the
            known values.

        Examples
        --------
        >>> import walkernel as wk
        >>> ring = wk.Graph.from_edges([(i, (i + 1) % 20) for i in range(20)])
        >>> smoother = wk.NodeSmoother(ring, wk.Diffusion(2.0), method="walks").fit([0, 10], [1.0, -1.0])
        >>> values, stderr = smoother.predict([1, 9], return_std=True)
        >>> values.shape, bool((stderr < 0.1).all())
        ((2,), True)
        """
        ids = self._requested_ids(X)
        check_flag("return_std", return_std)
        shape, average = self._output
        if self.method_ == "polynomial":
            sums = self._weights[ids]
        else:
            sums = WALK_CACHE.features(self._spec, self._pair, ids, self._engine) @ self._weights
        values, total = sums[:, :-1], sums[:, -1:]
        met = total > 0
        if average:
            values = np.where(met, values / np.where(met, total, 1.0), self._mean)
            if not met.all():
                warn(
                    f"{np.sum(~met)} of {ids.size} nodes have no positive sum of kernel values "
                    "over the known nodes and get their mean. Use a wider kernel or more walks."
                )
        if not return_std:
            return values.reshape(ids.size, *shape)
        if self.method_ == "polynomial":
            return values.reshape(ids.size, *shape), np.zeros((ids.size, *shape))
        errors = self._standard_errors(ids, values, np.where(met, total, np.nan) if average else None)
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


def _left_out_error(K: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """Return the mean squared error of weighted means that predict each value from the others."""
    weights = K - np.diag(K.diagonal())
    totals = weights.sum(axis=1, keepdims=True)
    tiny = np.finfo(float).tiny
    means = np.where(totals > tiny, weights @ values / np.maximum(totals, tiny), values.mean(axis=0))
    return float(np.mean((means - values) ** 2))
