"""Kernel ridge regression and classification on nodes, with everything chosen by leave-one-out.

Both minimise Σ_i w_i |y_i − g_i − b|² + α ‖g‖²_K over functions g of the kernel and an intercept b; a
classifier takes indicators of the classes for y. Kernel and α are chosen by the predictions of each node from
the others, which have a closed form (``_leave_one_out``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin

from walkernel._checks import Described, check_flag, real_number, refuse, whole_number
from walkernel._door import all_or_nothing, door
from walkernel.operators import normalize_columns
from walkernel.tasks._choice import choose_prior
from walkernel.tasks._labels import count_labels
from walkernel.tasks._learning import sample_positions
from walkernel.tasks._leave_one_out import (
    PENALTIES,
    RidgePath,
    calibrated_sharpness,
    penalty_unit,
    sharpest_loss,
)
from walkernel.tasks._moments import MAX_COMPARED_NODES, Candidates
from walkernel.tasks._nodes import NodeEstimator, node_ids, node_targets, sample_weights
from walkernel.tasks._observations import Array
from walkernel.tasks._solvers import make_solver

Loss = Callable[[NDArray[np.int64], Array], float]
"""Takes positions of observed nodes and predictions of each of them from the others, (n, c)."""


class _LeftOut(NamedTuple):
    """The loss of predictions of nodes from the others, the penalty, and these predictions."""

    loss: float
    alpha: float
    left_out: Array


@dataclass(eq=False, repr=False, kw_only=True)
class RidgeEstimator(NodeEstimator):
    """What ridge regression and classification share."""

    alpha: float | None = None
    fit_intercept: bool = True
    tol: float = 1e-8
    max_iter: int = 1000

    def _fit_ridge(
        self, ids: NDArray[np.int64], y: Array, weights: Array, loss: Loss
    ) -> tuple[NDArray[np.int64], Array]:
        """Fit g and b to columns y, (n, c), at distinct nodes; kernel and α minimise a loss.

        Returns positions of nodes, and predictions of each of them from the others.
        """
        alphas = PENALTIES if self.alpha is None else (real_number("alpha", self.alpha, above=0),)
        check_flag("fit_intercept", self.fit_intercept)
        tol = real_number("tol", self.tol, above=0, below=1)
        max_iter = whole_number("max_iter", self.max_iter, 1)
        level = y.mean(axis=0) if self.fit_intercept else np.zeros(y.shape[1])
        y = y - level  # lest a large intercept cost digits

        def best(positions: NDArray[np.int64], K: Array) -> _LeftOut:
            path = RidgePath(K, y[positions], weights[positions], fit_intercept=self.fit_intercept)
            unit = penalty_unit(K, fit_intercept=self.fit_intercept) if self.alpha is None else 1.0
            solved = (path.solve(unit * alpha) for alpha in alphas)
            tried = [
                _LeftOut(loss(positions, one.left_out + level), one.penalty, one.left_out + level)
                for one in solved
            ]
            return min(tried, key=lambda one: one.loss)

        choice = choose_prior(self, ids, lambda positions, K: -best(positions, K).loss)
        prior = choice.prior.at(ids)
        positions = sample_positions(ids.size, 0, MAX_COMPARED_NODES)
        found = best(positions, prior.covariance_of(positions))
        alpha = found.alpha
        system = make_solver(prior, alpha / weights, solver="auto", tol=tol, max_iter=max_iter)
        sides = np.column_stack([y, np.ones(len(y))]) if self.fit_intercept else y
        dual = system.solve(sides)
        intercept = np.zeros(y.shape[1])
        if self.fit_intercept:
            dual, ones = dual[:, :-1], dual[:, -1:]
            intercept = dual.sum(axis=0) / ones.sum()
            dual = dual - ones * intercept
        self._choice, self._at, self._weights = choice.prior, prior, prior.weights_of(dual)
        self._columns_intercept = intercept + level
        self.dual_coef_, self.alpha_ = dual, alpha
        self.kernel_, self.candidates_ = choice.prior.hyper.kernel, Candidates(choice.candidates)
        self.method_, self.sampler_ = choice.prior.method, choice.prior.sampler
        self.n_iter_, self.n_features_in_ = system.n_iter, 1
        self._fitted_graph = self.graph
        self._trust_features(choice.prior, ids)
        return positions, found.left_out

    def _predict_columns(self, ids: NDArray[np.int64]) -> Array:
        """Return g + b at some nodes, (n, c)."""
        result = np.empty((ids.size, self._columns_intercept.size))
        for part, nodes in self._choice.blocks(ids):
            result[part] = self._at.values(nodes, self._weights)
        return result + self._columns_intercept


@dataclass(eq=False, repr=False, kw_only=True)
class NodeRidge(MultiOutputMixin, RegressorMixin, RidgeEstimator):
    r"""Kernel ridge regression on nodes: values at all nodes, from some known ones.

    .. math:: \min_{g, b} \; \sum_i w_i \left(y_i - g(x_i) - b\right)^2 + \alpha \, \|g\|_K^2, \qquad
        g(z) = \sum_i K(z, x_i) \, c_i

    The kernel and α minimise the mean squared error of predictions of each node from the others.

    Parameters
    ----------
    graph : Graph
        The graph. Nodes are X in ``fit`` and ``predict``.
    kernel : Kernel, optional
        The kernel, positive semidefinite. None compares Diffusion and Matérn kernels of several widths.
    method : {"auto", "polynomial", "walks"}
        How the kernel is computed: exact rows by polynomials of the matrix, or features of walks. "auto"
        takes exact rows unless there are more than 4096 nodes with values or the graph is too large.
    normalize : bool
        Divide the kernel by √(K_ii K_jj), so that all nodes vary alike before any value is seen. Without it,
        nodes of low degree vary more.
    alpha : float, optional
        Strength α of the penalty, positive: the variance of the noise in units of the prior variance, if K is
        normalized. Larger values give smoother functions. Chosen by leave-one-out if not given.
    fit_intercept : bool
        Whether to fit b, which is not penalised.
    n_walks : int
        Walks from each node, where walks are used. Increase it if ``fit`` warns of the error of features.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernel if not given. A sampler that is given implies walks.
    tol : float
        Relative residual that conjugate gradients must reach.
    max_iter : int
        Maximum number of iterations of conjugate gradients; RuntimeError is raised if they do not converge.
    random_state : int, RandomState or None
        Seed of the walks; None is 0.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled, and exact rows computed: see :mod:`walkernel.engines`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that is used.
    candidates_ : list of (kernel, score, normalize)
        The kernels that were compared, the best one first; empty if one was given.
    alpha_ : float
        The penalty that is used.
    method_ : str
        "polynomial" or "walks".
    dual_coef_ : ndarray, (n, n_outputs)
        Coefficients of the kernel at the distinct nodes, in the order of their ids.
    intercept_ : float or ndarray, (n_outputs,)
        The intercept b.
    n_iter_ : int
        Iterations of conjugate gradients; 0 for a direct solution.

    See Also
    --------
    NodeGPRegressor : Predictions with standard deviations.

    Examples
    --------
    >>> import numpy as np, walkernel as wk
    >>> ring = wk.Graph.from_edges([(i, (i + 1) % 40) for i in range(40)])
    >>> y = np.sin(2 * np.pi * np.arange(40) / 40)
    >>> model = wk.NodeRidge(ring).fit(range(0, 40, 2), y[::2])
    >>> bool(abs(model.predict(range(1, 40, 2)) - y[1::2]).max() < 0.1)
    True
    """

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> NodeRidge:
        """Choose the kernel and the penalty, and fit g and b.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Nodes of known values: names (``graph.labels``) if the graph has them, else ids. A repeated node
            must have the same value each time; its weights are added.
        y : array of float, (n,) or (n, n_outputs)
            Known values.
        sample_weight : array of float, (n,), optional
            Weights w_i of the squared errors, not negative; all are one by default.

        Returns
        -------
        self : NodeRidge
            The fitted estimator.
        """
        self._check_sampling()
        ids = node_ids(self.graph, X)
        weights = sample_weights(sample_weight, ids.size)
        used = weights > 0
        targets = node_targets(self.graph, ids, y, used)
        distinct, first, place = np.unique(ids[used], return_index=True, return_inverse=True)
        total = np.bincount(place, weights[used]).astype(np.float64)
        columns = targets[first].reshape(distinct.size, -1)

        _, units = normalize_columns(columns)
        unit = float(units.max())

        def squared_error(positions: NDArray[np.int64], left_out: Array) -> float:
            errors = (left_out - columns[positions]) / unit
            return float(np.average((errors**2).sum(axis=1), weights=total[positions]))

        self._fit_ridge(distinct, columns, total, squared_error)
        self._shape = targets.shape[1:]
        shape, intercept = self._shape, self._columns_intercept
        self.intercept_ = intercept.reshape(shape) if shape else float(intercept[0])
        return self

    @door
    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return g + b at some nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Any nodes of the graph.

        Returns
        -------
        ndarray of float64, (n,) or (n, n_outputs)
            Predicted values, in the unit of y.
        """
        ids = self._requested_ids(X)
        return self._predict_columns(ids).reshape(ids.size, *self._shape)


@dataclass(eq=False, repr=False, kw_only=True)
class NodeRidgeClassifier(ClassifierMixin, RidgeEstimator):
    r"""Classification of nodes by ridge regression on indicators of the classes.

    .. math:: \min_{g_c, b_c} \; \sum_i w_i \left(Y_{ic} - g_c(x_i) - b_c\right)^2 + \alpha \, \|g_c\|_K^2
        \quad \text{for each class } c

    Y_ic is the indicator of the class of observation i. One factorisation serves all classes.

    The kernel and the penalty minimise the logarithmic loss of predictions of each labelled node from the
    others, which have a closed form. The same predictions calibrate the probabilities: these are the softmax
    of the scores times ``sharpness_``, which is chosen as if one label more had been a guess.

    Parameters
    ----------
    graph : Graph
        The graph. Nodes are X in ``fit`` and ``predict``.
    kernel : Kernel, optional
        The kernel, positive semidefinite. None compares Diffusion and Matérn kernels of several widths.
    method : {"auto", "polynomial", "walks"}
        How the kernel is computed: exact rows by polynomials of the matrix, or features of walks. "auto"
        takes exact rows unless there are more than 4096 labelled nodes or the graph is too large.
    normalize : bool
        Divide the kernel by √(K_ii K_jj), so that all nodes vary alike before any value is seen. Without it,
        nodes of low degree vary more.
    alpha : float, optional
        Strength α of the penalty, positive: the variance of the noise in units of the prior variance, if K is
        normalized. Larger values give smoother functions. Chosen by leave-one-out if not given.
    class_weight : None, "balanced" or dict
        Weights of the labels of each class. "balanced" gives all classes the same total weight, which serves
        macro-averaged scores.
    fit_intercept : bool
        Whether the scores have intercepts, which are not penalised.
    n_walks : int
        Walks from each node, where walks are used. Increase it if ``fit`` warns of the error of features.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernel if not given. A sampler that is given implies walks.
    tol : float
        Relative residual that conjugate gradients must reach.
    max_iter : int
        Maximum number of iterations of conjugate gradients; RuntimeError is raised if they do not converge.
    random_state : int, RandomState or None
        Seed of the walks; None is 0.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled, and exact rows computed: see :mod:`walkernel.engines`.

    Attributes
    ----------
    classes_ : ndarray, (n_classes,)
        The labels, sorted.
    kernel_ : Kernel
        The kernel that is used.
    candidates_ : list of (kernel, score, normalize)
        The kernels that were compared, the best one first; empty if one was given.
    alpha_, sharpness_ : float
        The penalty, and the factor of the scores.
    method_ : str
        "polynomial" or "walks".
    dual_coef_ : ndarray, (n, n_classes)
        Coefficients of the kernel at the labelled nodes, in the order of their ids.
    n_iter_ : int
        Iterations of conjugate gradients; 0 for a direct solution.

    See Also
    --------
    NodeGPClassifier : Probabilities from Gaussian processes.

    Examples
    --------
    >>> import walkernel as wk
    >>> club = wk.load_dataset("karate")
    >>> known = [0, 1, 2, 30, 32, 33]
    >>> model = wk.NodeRidgeClassifier(club.graph).fit(known, club.labels[known])
    >>> bool(model.score(range(34), club.labels) > 0.9), model.predict_proba([3, 8]).shape
    (True, (2, 2))
    """

    class_weight: str | dict[Any, float] | None = None

    @all_or_nothing
    def fit(self, X: Any, y: ArrayLike) -> NodeRidgeClassifier:
        """Choose the kernel and the penalty, and fit a score for each class.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Labelled nodes: names (``graph.labels``) if the graph has them, else ids. They may repeat; their
            classes are counted.
        y : array of labels, (n,)
            Classes: numbers or text, at least two different ones.

        Returns
        -------
        self : NodeRidgeClassifier
            The fitted estimator.
        """
        self._check_sampling()
        classes, ids, counts = count_labels(self.graph, X, y)
        weighted = counts * class_weights(self.class_weight, classes, counts.sum(axis=0))
        total = weighted.sum(axis=1)
        used = total > 0
        ids, weighted, total = ids[used], weighted[used], total[used]
        if ids.size == 0:
            refuse("class_weight", "positive for some class", self.class_weight)

        def log_loss(positions: NDArray[np.int64], left_out: Array) -> float:
            return sharpest_loss(left_out, weighted[positions])[0]

        positions, left_out = self._fit_ridge(ids, weighted / total[:, None], total, log_loss)
        self.sharpness_ = calibrated_sharpness(left_out, weighted[positions])
        self.classes_ = classes
        return self

    @door
    def decision_function(self, X: Any) -> Array:
        """Return the score of each class at some nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Any nodes of the graph.

        Returns
        -------
        ndarray of float64, (n, n_classes) or (n,)
            Scores; for two classes, the score of the second less that of the first.
        """
        scores = self._predict_columns(self._requested_ids(X))
        return scores[:, 1] - scores[:, 0] if self.classes_.size == 2 else scores

    @door
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class at some nodes: the softmax of the scores times ``sharpness_``.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Any nodes of the graph.

        Returns
        -------
        ndarray of float64, (n, n_classes)
            Rows sum to one; classes are in the order of ``classes_``.
        """
        scores = self._predict_columns(self._requested_ids(X))
        return np.asarray(scipy.special.softmax(self.sharpness_ * scores, axis=1))

    @door
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of the largest score at some nodes.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Any nodes of the graph.

        Returns
        -------
        ndarray, (n,)
            Labels, of the type that ``fit`` was given.
        """
        scores = self._predict_columns(self._requested_ids(X))
        return np.asarray(self.classes_[scores.argmax(axis=1)])


def class_weights(given: Any, classes: NDArray[Any], counts: Array) -> Array:
    """Return the weight of each class, (n_classes,), from ``class_weight`` and the number of its labels."""
    if given is None:
        return np.ones(classes.size)
    if isinstance(given, str) and given == "balanced":
        return np.asarray(counts.sum() / (classes.size * counts))
    if not isinstance(given, dict):
        refuse("class_weight", "None, 'balanced' or a dict of classes and weights", given)
    unknown = [one for one in given if one not in set(classes.tolist())]
    if unknown:
        refuse("class_weight", f"weights of classes among {classes.tolist()}", Described(f"{unknown[0]!r}"))
    return np.array([real_number("class_weight", given.get(one, 1.0), minimum=0) for one in classes.tolist()])
