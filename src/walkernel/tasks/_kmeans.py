"""Clusters of nodes by kernel k-means, and the paper's distance between clusterings."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from walkernel._checks import Described, check_instance, is_hashable, one_of, refuse, shown, whole_number
from walkernel._door import all_or_nothing, warn
from walkernel.engines import Engine, resolve
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import Explanation, KernelOperator
from walkernel.planning import check_symmetric
from walkernel.tasks._cluster_points import METHODS, ClusterPoints, check_count, graph_points
from walkernel.tasks._lloyd import Points, Run, first_labels, lloyd
from walkernel.tasks._nodes import check_random_seed, is_missing, sample_weights

SCOUT_ITERATIONS = 8
"""Iterations after which only the best of several starts is continued."""


class KernelKMeans(ClusterMixin, BaseEstimator):
    r"""Weighted kernel k-means: clusters of a graph, of a ``KernelOperator`` or of features.

    .. math::

        & \min_{\text{clusters}} \; \sum_c \sum_{i \in c} w_i \, \| \phi_i - \mu_c \|^2, \\
        & \mu_c = \sum_{i \in c} w_i \phi_i \Big/ \sum_{i \in c} w_i, \qquad \phi_i^\top \phi_j = K_{ij}

    Of a graph, the normalized kernel K_ij / √(K_ii K_jj) is clustered. By default it is represented by the
    leading eigenvectors of the normalized matrix, weighted as the kernel weights them: that is spectral
    clustering with more eigenvectors than clusters, of which the kernel makes the smaller ones count less. A
    directed graph is treated as the undirected graph with the matrix A + Aᵀ. Components have nothing in
    common: where there are more of them than clusters, small ones and nodes without edges join the most
    diffuse cluster.

    The objective never rises: where K̂ is not positive semidefinite (estimates other than ``shared`` ones may
    have slightly negative eigenvalues), the run stops before an iteration that would raise it. An operator
    that is not symmetric is replaced by (K + Kᵀ) / 2; functions of the random-walk matrix are refused.

    Parameters
    ----------
    n_clusters : int or None
        Number of clusters, all of them non-empty at the end. None, for graphs only, takes the k from 2 to 30
        with the largest gap between the eigenvalues k and k + 1 of the normalized matrix.
    kernel : Kernel, optional
        The kernel of a graph; ``Diffusion(5.0)`` if not given. A narrower one finds smaller clusters. For
        anything but a graph it must be None.
    method : {"auto", "eigenvectors", "polynomial", "walks"}
        How the kernel of a graph is computed. "eigenvectors" takes ``n_clusters + 20`` leading ones of the
        normalized matrix, which serves kernels that increase with its eigenvalues, and is the choice of
        "auto" for these. "polynomial" clusters the kernel itself through deterministic products, at most some
        ten thousand nodes; it is the choice of "auto" for other kernels and for negative weights. "walks"
        clusters an estimate, which suits narrow kernels only.
    init : "k-means++" or array of int, (n,)
        k-means++ in feature space, or the labels to start from, 0 … n_clusters − 1, each used.
    n_init : int
        Number of k-means++ starts; the one that is best after 8 iterations is continued to convergence.
    random_state : int, RandomState or None
        Seed of k-means++ and of the walks; None is 0.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled, and polynomials computed: see :mod:`walkernel.engines`. Eigenvectors are
        computed on the CPU.
    max_iter : int
        Maximum number of iterations of a run.

    Attributes
    ----------
    labels_ : ndarray of int32, (n,)
        Cluster of each node.
    n_clusters_ : int
        Number of clusters.
    kernel_, method_ : Kernel, str
        The kernel of the graph and how it was computed; None if an operator or features were given.
    inertia_ : float
        The objective at the end.
    objectives_ : ndarray, (number of iterations + 1,)
        The objective before the first and after each iteration of the best run.
    n_iter_ : int
        Iterations of the best run.

    See Also
    --------
    clustering_error : The distance of two clusterings.

    Examples
    --------
    >>> import walkernel as wk
    >>> club = wk.load_dataset("karate")
    >>> model = wk.KernelKMeans(2).fit(club.graph)
    >>> wk.clustering_error(model.labels_, club.labels) < 0.2
    True
    >>> model.kernel_, model.method_
    (Diffusion(sigma=5.0), 'eigenvectors')
    """

    def __init__(
        self,
        n_clusters: int | None,
        *,
        kernel: Kernel | None = None,
        method: str = "auto",
        init: str | ArrayLike = "k-means++",
        n_init: int = 10,
        random_state: Any = None,
        engine: str | Engine | None = None,
        max_iter: int = 300,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.method = method
        self.init = init
        self.n_init = n_init
        self.random_state = random_state
        self.engine = engine
        self.max_iter = max_iter

    def set_params(self, **params: Any) -> Self:
        """Set parameters of the estimator; parameters of the kernel replace it by a new one.

        Parameters
        ----------
        **params : object
            New values by name; ``kernel__sigma=2.0`` gives the estimator another kernel.

        Returns
        -------
        self : object
            The estimator.
        """
        of_kernel = {name: params.pop(name) for name in list(params) if name.startswith("kernel__")}
        super().set_params(**params)
        if of_kernel:
            check_instance("kernel", self.kernel, Kernel, "Only kernels have parameters of their own.")
            new = {name.removeprefix("kernel__"): value for name, value in of_kernel.items()}
            self.kernel = self.kernel.set_params(**new)  # type: ignore[union-attr]
        return self

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> KernelKMeans:
        """Cluster the nodes of a graph, or the rows of a kernel or of features.

        Parameters
        ----------
        X : Graph, KernelOperator, (n, n), or features, sparse or dense, (n, d)
            What to cluster. An array is treated as features, even if it is square.
        y : object
            No effect; scikit-learn passes it.
        sample_weight : array of float, (n,), optional
            Weights w_i of nodes in the objective, not negative; all are one by default.

        Returns
        -------
        self : KernelKMeans
            The fitted estimator.

        Warns
        -----
        ConvergenceWarning
            If labels still change after ``max_iter`` iterations.
        """
        k = None if self.n_clusters is None else whole_number("n_clusters", self.n_clusters, 1)
        starts = whole_number("n_init", self.n_init, 1)
        max_iter = whole_number("max_iter", self.max_iter, 1)
        if isinstance(self.init, str) and self.init != "k-means++":
            refuse("init", "'k-means++' or an array of labels", self.init)
        one_of("method", self.method, METHODS)
        if self.engine is not None:
            resolve(self.engine)
        seed = check_random_seed(self.random_state)
        random = np.random.RandomState(seed % 2**32)
        if isinstance(X, Graph):
            if k is None and not isinstance(self.init, str):
                refuse("n_clusters", "given if init are labels", None)
            weights = sample_weights(sample_weight, X.n_nodes)
            task = graph_points(X, k, self.kernel, self.method, weights, seed, self.engine)
        else:
            task = self._given_points(X, sample_weight, k)
        points = task.points
        n, k = points.weights.size, points.k
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
        if isinstance(X, (Graph, KernelOperator)):
            self.__dict__.pop("n_features_in_", None)
        else:
            validate_data(self, X, skip_check_array=True)
        self.labels_ = best.labels.astype(np.int32)
        self.objectives_ = np.array(best.objectives)
        self.inertia_, self.n_iter_ = best.objectives[-1], len(best.objectives) - 1
        self.n_clusters_, self.kernel_, self.method_ = k, task.kernel, task.method
        self._explanation = task.explanation
        return self

    def explain(self) -> Explanation:
        """Say in words and numbers what was clustered.

        Returns
        -------
        Explanation
            Prints as its ``text``.
        """
        check_is_fitted(self, "labels_")
        return self._explanation

    def _given_points(self, X: Any, sample_weight: ArrayLike | None, k: int | None) -> ClusterPoints:
        """Return the points of the kernel or the features that are given."""
        if self.kernel is not None:
            refuse("kernel", "None unless X is a Graph", self.kernel)
        if self.method != "auto":
            refuse("method", "'auto' unless X is a Graph", self.method)
        if k is None:
            remedy = "It is chosen for a Graph only."
            refuse("n_clusters", "a whole number of at least 1", None, remedy, TypeError)
        if isinstance(X, KernelOperator):
            check_symmetric(X.kernel, "X")
            if X.shape[0] != X.shape[1]:
                got = Described(f"rows of one, of shape {X.shape}")
                refuse("X", "an operator with the same rows and columns", got, "Use nodes= instead of rows=.")
            weights = sample_weights(sample_weight, X.shape[0])
            check_count(k, weights)
            multiply = X.__matmul__ if X.T is X else lambda Z: (X @ Z + X.T @ Z) / 2
            text = f"Kernel k-means into {k} clusters by {X!r}, which was given; its explain() says more."
            points = Points(multiply, X.diagonal(), weights, k)
            return ClusterPoints(points, None, None, Explanation(text, 0, 0, None, None))
        if isinstance(X, LinearOperator):
            remedy = "Make one with estimate_kernel."
            refuse("X", "a Graph, a KernelOperator or features", X, remedy, TypeError)
        features = check_array(X, accept_sparse="csr", dtype=np.float64, estimator=self)
        weights = sample_weights(sample_weight, features.shape[0])
        check_count(k, weights)
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
        text = f"k-means of {features.shape[0]} points with {features.shape[1]} features into {k} clusters."
        points = Points(lambda Z: features @ (features.T @ Z), squares, weights, k)
        return ClusterPoints(points, None, None, Explanation(text, 0, 0, None, None))

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
    r"""Return the share of pairs of nodes that one clustering joins and the other separates.

    .. math:: E_c = \frac{2}{n (n - 1)} \, \#\{ i < j : [a_i = a_j] \ne [b_i = b_j] \}

    It is one minus the Rand index, and the error of Sec. 3.3 of the paper. It costs O(n + k²) for k clusters.

    Parameters
    ----------
    a : array, (n,)
        Labels of n ≥ 2 nodes; which label a cluster has does not matter.
    b : array, (n,)
        Other labels of the same nodes.

    Returns
    -------
    float
        From 0, for equal clusterings, to 1.

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
