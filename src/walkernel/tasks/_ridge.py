"""Kernel ridge regression on walk features: direct for few nodes, by conjugate gradients for many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from walkernel._checks import check_flag, real_number, whole_number
from walkernel._door import door
from walkernel.tasks._nodes import NodeEstimator, node_ids, node_targets, sample_weights
from walkernel.tasks._solvers import FeaturePrior, make_solver
from walkernel.tasks._walk_cache import WALK_CACHE


@dataclass(eq=False, repr=False, kw_only=True)
class NodeRidge(MultiOutputMixin, RegressorMixin, NodeEstimator):
    """Ridge regression on the features of nodes: minimise Σ_i w_i (y_i − φ_i·c − b)² + α ‖c‖².

    The kernel is ΦΦᵀ of a single set of walks, positive semidefinite by construction; the upward bias of its
    diagonal acts like a larger α. For at most 4096 nodes the dual n×n system is factorized; for more,
    conjugate gradients use Φ and Φᵀ alone.

    Parameters
    ----------
    graph : Graph
        The graph.
    kernel : Kernel
        The kernel; it needs a symmetric modulation function (α₀ > 0).
    alpha : float
        Strength of the penalty, positive.
    fit_intercept : bool
        Whether to fit b, which is not penalised.
    n_walks : int
        Walks from each node.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernel if not given.
    tol, max_iter : float, int
        Relative residual that conjugate gradients must reach, and the maximum number of iterations; ``fit``
        raises RuntimeError if they do not converge.
    random_state : int, RandomState or None
        Seed of the walks; None is 0.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see ``walkernel.engines``.

    Attributes
    ----------
    coef_ : ndarray, (n_nodes,) or (n_nodes, n_outputs)
        c, one coefficient for each column of Φ.
    intercept_ : float or ndarray, (n_outputs,)
        b.
    n_iter_ : int
        Iterations of conjugate gradients; 0 for a direct solution.

    Examples
    --------
    >>> import numpy as np, walkernel as wk
    >>> ring = wk.Graph.from_edges([(i, (i + 1) % 40) for i in range(40)])
    >>> y = np.sin(2 * np.pi * np.arange(40) / 40)
    >>> model = wk.NodeRidge(ring, wk.Diffusion(3.0), alpha=0.01).fit(range(0, 40, 2), y[::2])
    >>> bool(abs(model.predict(range(1, 40, 2)) - y[1::2]).max() < 0.3)
    True
    """

    alpha: float = 1.0
    fit_intercept: bool = True
    tol: float = 1e-8
    max_iter: int = 1000

    @door
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> NodeRidge:
        """Fit coefficients and intercept.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
        y : array of float, (n,) or (n, n_outputs)
        sample_weight : array of float, (n,), optional
        """
        _, spec, engine = self._check_walks()
        alpha = real_number("alpha", self.alpha, above=0)
        check_flag("fit_intercept", self.fit_intercept)
        tol = real_number("tol", self.tol, above=0, below=1)
        max_iter = whole_number("max_iter", self.max_iter, 1)
        ids = node_ids(self.graph, X)
        weights = sample_weights(sample_weight, ids.size)
        used = weights > 0
        targets = node_targets(self.graph, ids, y, used)
        features = WALK_CACHE.features(spec, self.kernel, ids[used], engine)
        shape = targets.shape[1:]
        sides = targets.reshape(len(targets), -1)
        level = np.zeros(sides.shape[1])
        if self.fit_intercept:  # one more right-hand side, for b
            level = sides.mean(axis=0)  # subtracted, to avoid cancellation where b is large
            sides = np.column_stack([sides - level, np.ones(len(sides))])
        system = make_solver(
            FeaturePrior(features, 1.0), alpha / weights[used], solver="auto", tol=tol, max_iter=max_iter
        )
        dual = system.solve(sides)
        intercept = np.zeros(dual.shape[1])
        if self.fit_intercept:
            dual, ones = dual[:, :-1], dual[:, -1:]
            intercept = dual.sum(axis=0) / ones.sum()
            dual = dual - ones * intercept
            intercept = intercept + level
        coefficients = features.T @ dual
        self.coef_ = coefficients.reshape(self.graph.n_nodes, *shape)
        self.intercept_ = intercept.reshape(shape) if shape else float(intercept[0])
        self.n_iter_, self.n_features_in_ = system.n_iter, 1
        self._spec, self._engine, self._fitted_kernel = spec, engine, self.kernel
        return self

    @door
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return φ·c + b at some nodes, (n,) or (n, n_outputs)."""
        ids = self._requested_ids(X)
        features = WALK_CACHE.features(self._spec, self._fitted_kernel, ids, self._engine)
        return np.asarray(features @ self.coef_ + self.intercept_)
