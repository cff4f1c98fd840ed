"""Rows of Φ for scikit-learn: nodes in, sparse features out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import check_flag, fits_in_memory, one_of, whole_number
from walkernel._door import door
from walkernel.features import anchor_points, johnson_lindenstrauss
from walkernel.tasks._nodes import NodeEstimator, node_ids
from walkernel.tasks._walk_cache import WALK_CACHE

REDUCTIONS = ("johnson-lindenstrauss", "anchors")


@dataclass(eq=False, repr=False, kw_only=True)
class NodeFeatures(TransformerMixin, NodeEstimator):
    """Turn nodes into sparse features Φ with E[ΦΦᵀ] = K off the diagonal: a kernel for any linear model.

    X holds nodes, ids or labels by the graph's own rule, as a flat list, an array, a pandas Series, or one
    column of shape (n, 1). Walks start only from the requested nodes. They depend on the graph, the sampler
    and ``random_state``, and are cached: a grid over kernels and lengthscales re-weights the same walks.

    On a directed graph ΦΦᵀ estimates Ψ(M)Ψ(M)ᵀ with Ψ² = K, which is K itself for symmetric M only.

    Parameters
    ----------
    graph : Graph
        The graph.
    kernel : Kernel
        The kernel; it needs a symmetric modulation function (α₀ > 0).
    n_walks : int
        Walks from each node.
    sampler : Sampler, optional
        How walks are drawn; chosen for the kernel if not given. ``choose_sampler(graph, *kernels)`` gives one
        that serves all kernels of a grid.
    n_components : int, optional
        Number of columns after a reduction; all n_nodes columns if not given.
    reduction : {"johnson-lindenstrauss", "anchors"}
        A dense Gaussian projection, or the columns of some nodes chosen at random.
    sparse_output : bool
        False gives dense arrays, as ``set_output(transform="pandas")`` needs them.
    random_state : int, RandomState or None
        Seed of the walks. None is 0: the same seed gives the same walks on every machine.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled: see ``walkernel.engines``.

    Attributes
    ----------
    sampler_ : Sampler
        The sampler that is used.
    seed_ : int
        The seed that is used.

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

    @door
    def fit(self, X: Any, y: Any = None) -> NodeFeatures:
        """Check nodes and parameters, and choose sampler and seed; no walks are sampled yet.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)
        y : ignored
        """
        _, spec, engine = self._check_walks()
        one_of("reduction", self.reduction, REDUCTIONS)
        check_flag("sparse_output", self.sparse_output)
        if self.n_components is not None:
            most = self.graph.n_nodes if self.reduction == "anchors" else None
            whole_number("n_components", self.n_components, 1, most)
        node_ids(self.graph, X)
        self.sampler_, self.seed_ = spec.sampler, spec.seed
        self.n_features_in_ = 1
        self._spec, self._engine, self._fitted_kernel = spec, engine, self.kernel
        self._output = (self.n_components, self.reduction, self.sparse_output)
        return self

    @door
    def fit_transform(
        self, X: Any, y: Any = None, **fit_params: Any
    ) -> scipy.sparse.csr_array | NDArray[np.float64]:
        """Call ``fit``, then ``transform``."""
        return super().fit_transform(X, y, **fit_params)

    @door
    def transform(self, X: Any) -> scipy.sparse.csr_array | NDArray[np.float64]:
        """Return the features of some nodes, in this order.

        Parameters
        ----------
        X : nodes, (n,) or (n, 1)

        Returns
        -------
        csr_array of float64, (n, n_nodes), or (n, n_components); an array for a dense projection
        """
        ids = self._requested_ids(X)
        n_components, reduction, sparse = self._output
        rows = WALK_CACHE.features(self._spec, self._fitted_kernel, ids, self._engine)
        if n_components is not None:
            if reduction == "johnson-lindenstrauss":
                return johnson_lindenstrauss(rows, n_components, seed=self.seed_)
            rows = anchor_points(rows, n_components, seed=self.seed_)
        if sparse:
            return rows
        fits_in_memory(rows.shape, "Use sparse_output=True or n_components.")
        return np.asarray(rows.toarray())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return names of the columns: the nodes' own, or numbers after a reduction."""
        check_is_fitted(self)
        graph, (n_components, _, _) = self._spec.graph, self._output
        if n_components is None:
            names = graph.names(np.arange(graph.n_nodes))
            return np.array([f"node {name}" for name in names], dtype=object)
        return np.array([f"nodefeatures{i}" for i in range(n_components)], dtype=object)
