"""Clusters of nodes by kernel k-means, and the paper's distance between clusterings."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.utils.validation import check_array, validate_data

from walkernel._checks import Described, is_hashable, refuse, shown, whole_number
from walkernel._door import door, warn
from walkernel.graph import Graph
from walkernel.operators import KernelOperator
from walkernel.tasks._lloyd import Points, Run, first_labels, lloyd
from walkernel.tasks._nodes import check_random_seed, is_missing, sample_weights

SCOUT_ITERATIONS = 8
"""Iterations after which only the best of several starts is continued."""


class KernelKMeans(ClusterMixin, BaseEstimator):
    """Weighted kernel k-means on a ``KernelOperator`` or on features.

    The objective never rises: where K̂ is not positive semidefinite (estimates other than ``shared`` ones may
    have slightly negative eigenvalues), the run stops before an iteration that would raise it. An operator
    that is not symmetric is replaced by (K + Kᵀ) / 2.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, all of them non-empty at the end.
    init : "k-means++" or array of int, (n,)
        k-means++ in feature space, or the labels to start from, 0 … n_clusters − 1, each used.
    n_init : int
        Number of k-means++ starts; the one that is best after 8 iterations is continued to convergence.
    max_iter : int
        Maximum number of iterations of a run.
    random_state : int, RandomState or None
        Seed of k-means++; None is 0.

    Attributes
    ----------
    labels_ : ndarray of int32, (n,)
        Cluster of each node.
    inertia_ : float
        The objective.
    objectives_ : ndarray, (n_iter_ + 1,)
        The objective before the first and after each iteration of the best run.
    n_iter_ : int
        Iterations of the best run.

    Examples
    --------
    >>> import walkernel as wk
    >>> club = wk.load_dataset("karate")
    >>> K = wk.estimate_kernel(club.graph, wk.Diffusion(2.0), n_walks=512)
    >>> labels = wk.KernelKMeans(2, random_state=0).fit(K).labels_
    >>> wk.clustering_error(labels, club.labels) < 0.2
    True
    """

    def __init__(
        self,
        n_clusters: int,
        *,
        init: str | ArrayLike = "k-means++",
        n_init: int = 10,
        max_iter: int = 300,
        random_state: Any = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.random_state = random_state

    @door
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> KernelKMeans:
        """Cluster the rows of a kernel or of features.

        Parameters
        ----------
        X : KernelOperator, (n, n), or features, sparse or dense, (n, d)
            An array is treated as features, even if it is square.
        y : ignored
        sample_weight : array of float, (n,), optional
        """
        k = whole_number("n_clusters", self.n_clusters, 1)
        starts = whole_number("n_init", self.n_init, 1)
        max_iter = whole_number("max_iter", self.max_iter, 1)
        if isinstance(self.init, str) and self.init != "k-means++":
            refuse("init", "'k-means++' or an array of labels", self.init)
        random = np.random.RandomState(check_random_seed(self.random_state) % 2**32)
        points = self._points(X, sample_weight, k)
        n = points.weights.size
        most = int(np.sum(points.weights > 0))
        if k > most:
            refuse("n_clusters", f"at most n_samples={most}, the number of points with weight", k)
        if isinstance(self.init, str):
            scouts = 0 if starts == 1 else min(SCOUT_ITERATIONS, max_iter)
            trials = (lloyd(points, first_labels(points, random), scouts) for _ in range(starts))
            start = min(trials, key=lambda run: run.objectives[-1])
        else:
            labels = _given_labels(self.init, n, k)
            if not points.members(labels).any(axis=0).all():
                refuse("init", "clusters of positive weight", Described("one without"))
            start = lloyd(points, labels, 0)
        best = start
        if not start.converged:
            rest = lloyd(points, start.labels, max_iter - len(start.objectives) + 1)
            best = Run(rest.labels, start.objectives + rest.objectives[1:], rest.converged)
        if not best.converged:
            warn(f"labels still change after max_iter={max_iter} iterations.", ConvergenceWarning)
        if isinstance(X, KernelOperator):
            self.__dict__.pop("n_features_in_", None)
        else:
            validate_data(self, X, skip_check_array=True)
        self.labels_ = best.labels.astype(np.int32)
        self.objectives_ = np.array(best.objectives)
        self.inertia_, self.n_iter_ = best.objectives[-1], len(best.objectives) - 1
        return self

    def _points(self, X: Any, sample_weight: ArrayLike | None, k: int) -> Points:
        """Return the points, by the kernel or the features that are given."""
        if isinstance(X, KernelOperator):
            weights = sample_weights(sample_weight, X.shape[0])
            if X.T is X:
                return Points(lambda Z: X @ Z, X.diagonal(), weights, k)
            return Points(lambda Z: (X @ Z + X.T @ Z) / 2, X.diagonal(), weights, k)
        if isinstance(X, (Graph, LinearOperator)):
            refuse("X", "a KernelOperator or features", X, "Make one with estimate_kernel.", TypeError)
        features = check_array(X, accept_sparse="csr", dtype=np.float64, estimator=self)
        weights = sample_weights(sample_weight, features.shape[0])
        if scipy.sparse.issparse(features):
            squares = np.asarray(features.power(2).sum(axis=1)).ravel()
        else:  # centering changes no distance, and avoids cancellation far from zero
            if features.shape[0] == features.shape[1] > 1 and np.array_equal(features, features.T):
                warn(
                    "a square symmetric array is treated as features, not as a kernel. "
                    "For the exact kernel use polynomial_operator."
                )
            features = features - np.average(features, axis=0, weights=weights)
            squares = np.einsum("ij,ij->i", features, features)
        if not np.isfinite(squares).all():
            refuse("X", "features whose squares are finite numbers", X)
        return Points(lambda Z: features @ (features.T @ Z), squares, weights, k)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _given_labels(init: ArrayLike, n: int, k: int) -> NDArray[np.int64]:
    try:
        labels = np.asarray(init)
    except ValueError:
        labels = np.empty(0)
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        refuse("init", f"'k-means++' or {n} whole numbers, one label for each point", init)
    if not np.array_equal(np.unique(labels), np.arange(k)):
        got = Described(f"the labels {np.unique(labels)[:10].tolist()}")
        refuse("init", f"labels from 0 to {k - 1}, each used at least once", got)
    return labels.astype(np.int64)


def clustering_error(a: ArrayLike, b: ArrayLike) -> float:
    """Return E_c, the fraction of pairs that one clustering joins and the other separates (Sec. 3.3).

    It costs O(n + k²) and is one minus the Rand index.

    Parameters
    ----------
    a, b : array, (n,)
        Labels of the same n ≥ 2 nodes; which label a cluster has does not matter.

    Examples
    --------
    >>> import walkernel as wk
    >>> wk.clustering_error([0, 0, 1, 1], [1, 1, 0, 0])
    0.0
    >>> wk.clustering_error([0, 0, 0], [0, 0, 1])
    0.6666666666666666
    """
    one, two = _numbered("a", a), _numbered("b", b)
    if one.size != two.size:
        refuse("b", f"of length {one.size}, as a is", Described(f"length {two.size}"))
    pairs = pair_confusion_matrix(one, two)
    return float((pairs[0, 1] + pairs[1, 0]) / pairs.sum())


def _numbered(name: str, labels: ArrayLike) -> NDArray[np.int64]:
    """Return labels of any kind as whole numbers."""
    if isinstance(labels, (list, tuple)) and not all(isinstance(x, (int, np.integer)) for x in labels):
        array = np.empty(len(labels), dtype=object)
        array[:] = [label if is_hashable(label) else None for label in labels]
    else:
        array = np.asarray(labels)
    if array.ndim != 1 or array.size < 2:
        refuse(name, "labels of at least two nodes, (n,)", labels)
    if array.dtype.kind != "O":
        if array.dtype.kind in "fc" and np.isnan(array).any():
            refuse(name, "labels of all nodes, (n,)", Described("nan among them"))
        return np.asarray(np.unique(array, return_inverse=True)[1])
    known: dict[Any, int] = {}
    for label in array:
        if not is_hashable(label) or is_missing(label):
            refuse(name, "labels of all nodes, (n,)", Described(f"{shown(label)} among them"))
    return np.array([known.setdefault(label, len(known)) for label in array])
