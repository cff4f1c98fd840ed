"""Rows of Φ for scikit-learn: nodes in, sparse features out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import check_flag, fits_in_memory, one_of, whole_number
from walkernel._door import all_or_nothing, door
from walkernel.engines import resolve
from walkernel.features import anchor_points, johnson_lindenstrauss
from walkernel.kernels import Diffusion, Kernel
from walkernel.operators import ChebyshevBasis
from walkernel.tasks._labels import label_array
from walkernel.tasks._learning import sample_positions
from walkernel.tasks._likelihood import Hyperparameters
from walkernel.tasks._nodes import NodeEstimator, check_same_length, given_targets, node_ids
from walkernel.tasks._polynomial_prior import PolynomialPrior
from walkernel.tasks._prior import WalkPrior
from walkernel.tasks._ridge import NodeRidge, NodeRidgeClassifier
from walkernel.tasks._solvers import row_lengths
from walkernel.tasks._walk_cache import WALK_CACHE

DEFAULT_KERNEL = Diffusion(4.0)
"""The kernel where neither a kernel nor targets are given: exp(−8L)."""
MAX_LANDMARKS = 512
"""At most this many nodes, chosen at random, span the exact features."""
MIN_EIGENVALUE = 1e-7
"""Directions of the landmarks with smaller eigenvalues, relative to the largest, are left out."""
MIN_SCALE = 1e-4
"""Least square of the scale: labels that no kernel predicts leave nothing to scale."""
REDUCTIONS = ("johnson-lindenstrauss", "anchors")


@dataclass(eq=False, repr=False, kw_only=True)
class NodeFeatures(TransformerMixin, NodeEstimator):
    r"""Turn nodes into features whose products are a kernel, for any linear model.

    .. math::

        \Phi &= K_{\cdot L} K_{LL}^{-1/2}, \qquad \Phi \Phi^\top \approx K
        \quad \text{(exact rows at landmarks } L \text{)} \\
        \mathbb{E}[\Phi \Phi^\top]_{ij} &= K_{ij}, \quad i \ne j \quad \text{(walks)}

    X holds nodes, ids or labels by the graph's own rule, as a flat list, an array, a pandas Series, or one
    column of shape (n, 1).

    With exact rows, features are dense and span the kernel of some landmarks L, the nodes that ``fit`` is
    given (Nyström). With walks, they are sparse and unbiased off the diagonal. Walks start only from the
    requested nodes. They depend on the graph, the sampler and ``random_state``, and are cached: a grid over
    kernels and lengthscales re-weights the same walks.

    On a directed graph, and for the random-walk matrix of any, Φ estimates Ψ(M) with Ψ² = K, and ΦΦᵀ
    estimates Ψ(M)Ψ(M)ᵀ, which is K itself for symmetric M only.

    Parameters
    ----------
    graph : Graph
        The graph, directed or not. Nodes are X in ``fit`` and ``transform``.
    kernel : Kernel, optional
        The kernel; it needs a symmetric modulation function (α₀ > 0). None compares Diffusion and Matérn
        kernels of several widths by how well ridge regression predicts each y from the others; without y it
        is Diffusion(4).
    method : {"auto", "polynomial", "walks"}
        Dense features of landmarks by polynomials of the matrix, or sparse ones of walks. "auto" takes the
        first for undirected graphs that are not too large.
    normalize : bool
        Divide the kernel by √(K_ii K_jj): rows of Φ have norm 1 with walks, and at landmarks.
    n_walks : int
        Walks from each node, where walks are used. The error of products falls as one over its square root.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernel if not given. ``choose_sampler(graph, *kernels)`` gives one
        that serves all kernels of a grid.
    n_components : int, optional
        Number of columns: the leading directions of the landmarks, or a reduction of the n_nodes columns of
        walks. Set it if the model takes dense or short rows only.
    reduction : {"johnson-lindenstrauss", "anchors"}
        With walks, a dense Gaussian projection, or the columns of some nodes chosen at random.
    sparse_output : bool
        False gives dense arrays, as ``set_output(transform="pandas")`` needs them.
    random_state : int, RandomState or None
        Seed of the walks; None is 0. The same seed gives the same walks, for any number of threads and on any
        machine.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled, and exact rows computed: see :mod:`walkernel.engines`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel that is used.
    method_ : str
        "polynomial" or "walks".
    scale_ : float
        Factor of the features where y has decided between kernels, so that linear models with a penalty of 1
        are regularized as the best ridge regression was; else 1.
    sampler_ : Sampler or None
        The sampler that is used; None without walks.
    seed_ : int
        The seed that is used.

    See Also
    --------
    sample_features : The sparse features of all nodes, without an estimator.

    Examples
    --------
    >>> import walkernel as wk
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> club = wk.load_dataset("karate")
    >>> model = make_pipeline(wk.NodeFeatures(club.graph, wk.Diffusion(2.0)), LogisticRegression())
    >>> bool(model.fit([0, 1, 32, 33], club.labels[[0, 1, 32, 33]]).score(range(34), club.labels) > 0.9)
    True
    """

    n_walks: int = 64
    n_components: int | None = None
    reduction: str = "johnson-lindenstrauss"
    sparse_output: bool = True

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> NodeFeatures:
        """Choose the kernel, the method and the landmarks; no walks are sampled yet.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            With exact rows, the landmarks are these nodes, or 512 of them chosen at random.
        y : array, (n,), optional
            Labels or numbers: they decide between kernels where none is given.

        Returns
        -------
        self : NodeFeatures
            The fitted transformer.
        """
        _, seed = self._check_sampling()
        one_of("reduction", self.reduction, REDUCTIONS)
        check_flag("sparse_output", self.sparse_output)
        if self.n_components is not None:
            most = self.graph.n_nodes if self.reduction == "anchors" else None
            whole_number("n_components", self.n_components, 1, most)
        ids, first = np.unique(node_ids(self.graph, X), return_index=True)
        chosen = sample_positions(ids.size, seed, MAX_LANDMARKS)
        self.scale_ = 1.0
        if self.kernel is None and y is not None:
            targets = label_array(given_targets(y))
            check_same_length(targets, len(node_ids(self.graph, X)))
            self.kernel_, self.scale_ = self._kernel_for(ids[chosen], targets[first][chosen])
        else:
            self.kernel_ = DEFAULT_KERNEL if self.kernel is None else self.kernel
        self._output = (self.n_components, self.reduction, self.sparse_output, self.normalize)
        self.method_ = self._choose_method(chosen.size, self.kernel_)
        self.n_features_in_, self.seed_, self._fitted_graph = 1, seed, self.graph
        if self.method_ == "polynomial":
            self._fit_landmarks(ids[chosen])
            self.sampler_ = None
            self._trust_features(self._prior.source, ids[chosen])
        else:
            _, spec, self._engine = self._check_walks(self.kernel_)
            self._spec, self.sampler_ = spec, spec.sampler
            hyper = Hyperparameters(self.kernel_, 1.0, 0.0, normalize=self.normalize)
            self._trust_features(WalkPrior(spec, hyper, self._engine), ids[chosen])
        return self

    def _kernel_for(self, ids: NDArray[np.int64], targets: NDArray[Any]) -> tuple[Kernel, float]:
        """Return the kernel whose ridge regression predicts each target best from the others, and the scale.

        Features that are multiplied by s give logistic regression with a penalty of 1 the scores s²K(Y − P),
        P = softmax of the scores, and linear regression s²K(Y − G). Those of the ridge regression are K times
        its dual solution, sharpened for classes. So s² is their ratio, in the least-squares sense.
        """
        names = self.graph.names(ids)
        if type_of_target(targets) not in ("binary", "multiclass"):
            ridge = NodeRidge(**self._ridge_parameters()).fit(names, targets)
            return ridge.kernel_, 1 / math.sqrt(ridge.alpha_)
        model = NodeRidgeClassifier(**self._ridge_parameters()).fit(names, targets)
        rest = (targets[:, None] == model.classes_) - model.predict_proba(names)
        ratio = model.sharpness_ * float((model.dual_coef_ * rest).sum()) / float((rest**2).sum())
        return model.kernel_, math.sqrt(max(ratio, MIN_SCALE))

    def _ridge_parameters(self) -> dict[str, Any]:
        names = ("graph", "method", "normalize", "n_walks", "sampler", "random_state", "engine")
        return {name: getattr(self, name) for name in names}

    def _fit_landmarks(self, landmarks: NDArray[np.int64]) -> None:
        """Decompose the kernel at the landmarks: K_LL = U D Uᵀ."""
        basis = ChebyshevBasis(self.graph, self.kernel_.matrix, resolve(self.engine))
        hyper = Hyperparameters(self.kernel_, 1.0, 0.0, normalize=self.normalize)
        self._prior = PolynomialPrior(basis, hyper).at(landmarks)
        values, vectors = np.linalg.eigh(self._prior.covariance)
        kept = values > MIN_EIGENVALUE * values[-1]
        if self.n_components is not None:
            kept &= np.arange(values.size) >= values.size - self.n_components
        self._map = self.scale_ * vectors[:, kept] / np.sqrt(values[kept])  # (landmarks, components)

    @door
    def fit_transform(
        self, X: Any, y: Any = None, **fit_params: Any
    ) -> scipy.sparse.csr_array | NDArray[np.float64]:
        """Call ``fit``, then ``transform``.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Nodes, as in ``fit``.
        y : array, (n,), optional
            Labels or numbers, as in ``fit``.
        **fit_params : object
            No parameters are taken.

        Returns
        -------
        csr_array or ndarray of float64
            The features of the nodes, as ``transform`` returns them.
        """
        return super().fit_transform(X, y, **fit_params)

    @door
    def transform(self, X: Any) -> scipy.sparse.csr_array | NDArray[np.float64]:
        """Return the features of some nodes, in this order.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
            Any nodes of the graph.

        Returns
        -------
        ndarray of float64, (n, n_landmarks), or csr_array of float64, (n, n_nodes)
            Dense features with exact rows, sparse ones with walks; (n, n_components) after a reduction.
        """
        ids = self._requested_ids(X)
        n_components, reduction, sparse, normalize = self._output
        if self.method_ == "polynomial":
            distinct, place = np.unique(ids, return_inverse=True)
            return np.asarray((self._prior.with_nodes(distinct).T @ self._map)[place])
        features = WALK_CACHE.held(self._spec, self.kernel_, ids, self._engine)
        if normalize:
            features = features.scale_rows(self.scale_ / row_lengths(features))
        rows = features.to_scipy()
        if n_components is not None:
            if reduction == "johnson-lindenstrauss":
                return johnson_lindenstrauss(rows, n_components, seed=self.seed_)
            rows = anchor_points(rows, n_components, seed=self.seed_)
        if sparse:
            return rows
        fits_in_memory(rows.shape, "Use sparse_output=True or n_components.")
        return np.asarray(rows.toarray())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of the columns: the nodes' own for walks, or numbers.

        Parameters
        ----------
        input_features : object
            No effect; scikit-learn passes it.

        Returns
        -------
        ndarray of object, (n_columns,)
            The names.
        """
        check_is_fitted(self)
        graph, (n_components, *_) = self._fitted_graph, self._output
        if self.method_ == "polynomial":
            n_components = self._map.shape[1]
        if n_components is None:
            names = graph.names(np.arange(graph.n_nodes))
            return np.array([f"node {name}" for name in names], dtype=object)
        return np.array([f"nodefeatures{i}" for i in range(n_components)], dtype=object)
