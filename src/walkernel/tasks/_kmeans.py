"""Kernel k-means (Dhillon, Guan, Kulis 2004) through products with the kernel: K is never formed.

The weighted objective Σ_c Σ_{i∈c} w_i ‖φ_i − m_c‖² needs of K only its diagonal and K Z, where Z holds the
weights of the members of each cluster:

    ‖φ_i − m_c‖² = K_ii − 2 (K Z)_ic / s_c + (Zᵀ K Z)_cc / s_c²,     s_c = Σ_{i∈c} w_i.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.utils.validation import validate_data

from walkernel._checks import Described, refuse, whole_number
from walkernel.operators import KernelOperator
from walkernel.tasks._nodes import check_random_seed, sample_weights


class _Gram(NamedTuple):
    """A symmetric kernel on n points: its products and its diagonal."""

    multiply: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    diagonal: NDArray[np.float64]


class _Run(NamedTuple):
    labels: NDArray[np.int64]
    objectives: list[float]
    converged: bool


class KernelKMeans(ClusterMixin, BaseEstimator):
    """Weighted kernel k-means on a ``KernelOperator`` or on features.

    The objective never rises. Where K̂ is not positive semidefinite (estimates other than ``shared`` ones may
    have slightly negative eigenvalues) a step that would raise it ends the run before it. An operator that is
    not symmetric is replaced by (K + Kᵀ) / 2.

    Parameters
    ----------
    n_clusters : int
        Number of clusters, all of them non-empty at the end.
    init : "k-means++" or array of int, (n,)
        k-means++ in feature space, or the labels to start from, 0 … n_clusters − 1, each used.
    n_init : int
        Runs from different k-means++ seeds, of which the best is kept.
    max_iter : int
        Iterations of one run at most.
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

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> KernelKMeans:
        """Cluster the rows of a kernel or of features.

        Parameters
        ----------
        X : KernelOperator, (n, n), or features, sparse or dense, (n, d)
        y : ignored
        sample_weight : array of float, (n,), optional
        """
        owner = type(self).__name__
        gram = self._gram(X)
        n = gram.diagonal.size
        k = whole_number(owner, "n_clusters", self.n_clusters, 1)
        if k > n:
            refuse(owner, "n_clusters", f"at most n_samples={n}, the number of points", k)
        max_iter = whole_number(owner, "max_iter", self.max_iter, 1)
        weights = sample_weights(owner, sample_weight, n)
        random = np.random.RandomState(check_random_seed(self.random_state) % 2**32)
        if isinstance(self.init, str):
            if self.init != "k-means++":
                refuse(owner, "init", "'k-means++' or an array of labels", self.init)
            starts = whole_number(owner, "n_init", self.n_init, 1)
            runs = (
                _lloyd(gram, weights, _plus_plus(gram, weights, k, random), k, max_iter)
                for _ in range(starts)
            )
        else:
            runs = (
                _lloyd(gram, weights, _given_labels(owner, self.init, n, k), k, max_iter) for _ in range(1)
            )
        best = min(runs, key=lambda run: run.objectives[-1])
        if not best.converged:
            warnings.warn(
                f"{owner}: labels still change after max_iter={max_iter} iterations.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.labels_ = best.labels.astype(np.int32)
        self.objectives_ = np.array(best.objectives)
        self.inertia_, self.n_iter_ = best.objectives[-1], len(best.objectives) - 1
        return self

    def _gram(self, X: Any) -> _Gram:
        if isinstance(X, KernelOperator):
            if X.T is X:
                return _Gram(lambda Z: X @ Z, X.diagonal())
            return _Gram(lambda Z: (X @ Z + X.T @ Z) / 2, X.diagonal())
        features = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        squares = features.power(2) if hasattr(features, "power") else features**2
        return _Gram(lambda Z: features @ (features.T @ Z), np.asarray(squares.sum(axis=1)).ravel())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _given_labels(owner: str, init: ArrayLike, n: int, k: int) -> NDArray[np.int64]:
    labels = np.asarray(init)
    if labels.shape != (n,) or labels.dtype.kind not in "iu":
        refuse(owner, "init", f"'k-means++' or {n} whole numbers, one label for each point", init)
    if not np.array_equal(np.unique(labels), np.arange(k)):
        got = Described(f"the labels {np.unique(labels)[:10].tolist()}")
        refuse(owner, "init", f"labels from 0 to {k - 1}, each used at least once", got)
    return labels.astype(np.int64)


def _lloyd(
    gram: _Gram, weights: NDArray[np.float64], labels: NDArray[np.int64], k: int, max_iter: int
) -> _Run:
    """Alternate between centres and nearest centres until no label changes, or the objective would rise."""
    points = np.arange(labels.size)
    distances = _distances(gram, weights, labels, k)
    objectives = [float(weights @ distances[points, labels])]
    for _ in range(max_iter):
        here = distances[points, labels]
        nearest = np.where(distances.min(axis=1) < here, distances.argmin(axis=1), labels)
        _fill_empty(nearest, weights * distances[points, nearest], k)
        if np.array_equal(nearest, labels):
            return _Run(labels, objectives, True)
        moved = _distances(gram, weights, nearest, k)
        objective = float(weights @ moved[points, nearest])
        if objective > objectives[-1]:
            return _Run(labels, objectives, True)
        labels, distances = nearest, moved
        objectives.append(objective)
    return _Run(labels, objectives, False)


def _distances(
    gram: _Gram, weights: NDArray[np.float64], labels: NDArray[np.int64], k: int
) -> NDArray[np.float64]:
    """Return ‖φ_i − m_c‖², (n, k)."""
    members = np.zeros((labels.size, k))
    members[np.arange(labels.size), labels] = weights
    sizes = np.maximum(members.sum(axis=0), np.finfo(float).tiny)
    products = gram.multiply(members)
    squares = np.einsum("ic,ic->c", members, products) / sizes**2
    return gram.diagonal[:, None] - 2 * products / sizes + squares


def _fill_empty(labels: NDArray[np.int64], costs: NDArray[np.float64], k: int) -> None:
    """Give each empty cluster the costliest point of a cluster that has others."""
    counts = np.bincount(labels, minlength=k)
    for cluster in np.flatnonzero(counts == 0):
        point = int(np.argmax(np.where(counts[labels] > 1, costs, -np.inf)))
        counts[labels[point]] -= 1
        counts[cluster], labels[point], costs[point] = 1, cluster, -np.inf


def _plus_plus(
    gram: _Gram, weights: NDArray[np.float64], k: int, random: np.random.RandomState
) -> NDArray[np.int64]:
    """Return labels from greedy k-means++: the nearest of k points, drawn far from one another."""
    n, trials = weights.size, 2 + int(math.log(k))
    nearest, distance = np.zeros(n, dtype=np.int64), np.full(n, np.inf)
    chances = weights
    for cluster in range(k):
        candidates = random.choice(n, size=1 if cluster == 0 else trials, p=chances / chances.sum())
        units = np.zeros((n, candidates.size))
        units[candidates, np.arange(candidates.size)] = 1.0
        to_candidates = gram.diagonal[:, None] - 2 * gram.multiply(units) + gram.diagonal[candidates]
        to_candidates = np.minimum(np.maximum(to_candidates, 0.0), distance[:, None])
        best = int(np.argmin(weights @ to_candidates))
        nearest[to_candidates[:, best] < distance] = cluster
        nearest[candidates[best]] = cluster
        distance = to_candidates[:, best]
        distance[candidates[best]] = 0.0
        chances = weights * distance if (weights * distance).any() else weights
    _fill_empty(nearest, weights * distance, k)
    return nearest


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
    owner = "clustering_error"
    one, two = np.asarray(a), np.asarray(b)
    for name, labels in (("a", one), ("b", two)):
        if labels.ndim != 1 or labels.size < 2:
            refuse(owner, name, "labels of at least two nodes, (n,)", Described(f"shape {labels.shape}"))
        if labels.dtype.kind == "f" and np.isnan(labels).any():
            refuse(owner, name, "labels of all nodes", Described("NaN"))
    if one.size != two.size:
        refuse(owner, "b", f"of length {one.size}, as a is", Described(f"length {two.size}"))
    pairs = pair_confusion_matrix(one, two)
    return float((pairs[0, 1] + pairs[1, 0]) / pairs.sum())
