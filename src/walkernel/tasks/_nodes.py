"""The base class of estimators whose X are nodes, and their checks of nodes, targets and parameters."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from walkernel._checks import (
    Described,
    check_flag,
    check_instance,
    one_of,
    real_array,
    refuse,
    shown,
    whole_number,
)
from walkernel._door import has_warned
from walkernel.engines import Engine, resolve
from walkernel.features import Pair, check_convergence
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.operators import Explanation
from walkernel.planning import checked_sampler, choose_pair
from walkernel.tasks._explaining import explain_estimator, feature_error, warn_of_collapse, warn_of_error
from walkernel.walks import MAX_WALKS, NO_NODES, SAMPLERS, Sampler, WalkSpec

METHODS = ("auto", "polynomial", "walks")
FEW_TERMS, MAX_POLYNOMIAL_WORK = 64, 2**36
"""Terms of a polynomial of middling width, and multiplications up to which exact rows are preferred."""
MAX_ROWS = 4096
"""Observed nodes up to which exact rows are preferred to features."""


@dataclass(eq=False, repr=False)
class NodeEstimator(BaseEstimator):
    """An estimator whose X are nodes. Its fields, and those of a subclass, are its parameters.

    ``set_params(kernel__sigma=2.0)`` replaces the kernel instead of changing it. So a parameter grid may
    contain ``kernel__sigma``, and ``kernel__left__sigma`` for a sum of kernels.
    """

    graph: Graph
    kernel: Kernel | None = None
    _: KW_ONLY
    method: str = "auto"
    normalize: bool = True
    n_walks: int = 256
    sampler: Sampler | None = None
    random_state: Any = None
    engine: str | Engine | None = None
    _may_compare_normalization: ClassVar[bool] = False

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
            remedy = "Only kernels have parameters of their own."
            if not isinstance(self.kernel, Kernel):
                refuse("kernel", "a Kernel", self.kernel, remedy, TypeError)
            new = {name.removeprefix("kernel__"): value for name, value in of_kernel.items()}
            self.kernel = self.kernel.set_params(**new)
        return self

    def _check_walks(self, kernel: Kernel, pair: str = "symmetric") -> tuple[Pair, WalkSpec, Engine]:
        """Return the pair of a kernel, the walks of its left-hand side and the engine."""
        graph = self.graph
        n_walks, seed = self._check_sampling()
        if pair == "symmetric" and not kernel.has_root():
            remedy = "NodeSmoother takes it, with the lazy pair."
            refuse("kernel", "one with a symmetric modulation function (α₀ > 0)", kernel, remedy)
        weights, _ = choose_pair(graph, kernel, pair, self.sampler)
        chosen = checked_sampler(graph, weights, self.sampler, n_walks)
        spec = WalkSpec(graph, NO_NODES, n_walks, chosen, seed, matrix=kernel.matrix)
        return weights, spec, resolve(self.engine)

    def _check_sampling(self) -> tuple[int, int]:
        """Check graph, kernel and sampler, and return the number of walks and the seed."""
        graph, kernel = self.graph, self.kernel
        check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
        if kernel is not None:
            remedy = "For a function of the matrix use PowerSeries.from_function."
            check_instance("kernel", kernel, Kernel, remedy)
            check_convergence(graph, kernel)
        one_of("method", self.method, METHODS)
        if self.normalize is not None or not self._may_compare_normalization:
            check_flag("normalize", self.normalize)
        n_walks = whole_number("n_walks", self.n_walks, 1, MAX_WALKS)
        if self.sampler is not None:
            check_instance("sampler", self.sampler, Sampler, SAMPLERS)
        return n_walks, check_random_seed(self.random_state)

    def _choose_method(self, n_observed: int, kernel: Kernel | None) -> str:
        """Return how the kernel is computed for so many observed nodes: a function of the arguments alone.

        Polynomials have to resolve the variance at every node, which is not bounded from below for functions
        of the adjacency matrix, and need a root of the kernel to draw from.
        """
        graph, has_rows = self.graph, resolve(self.engine).multiplies_matrices
        resolved = kernel is None or kernel.matrix in ("normalized", "combinatorial")
        if resolved and kernel is not None:
            resolved = kernel.has_root() and kernel.is_positive_semidefinite()
        if self.method == "polynomial":
            if graph.directed:
                refuse("method", "'walks' or 'auto' for a directed graph", self.method)
            if not has_rows:
                refuse("method", "'walks' or 'auto' on this engine", self.method, "Use engine=None.")
            if not resolved:
                rule = "positive semidefinite, of the normalized or the combinatorial matrix, for exact rows"
                refuse("kernel", rule, kernel, "Use method='walks'.")
            return "polynomial"
        work = n_observed * FEW_TERMS * (2 * graph.n_edges + graph.n_nodes)
        few = n_observed <= MAX_ROWS and work <= MAX_POLYNOMIAL_WORK
        exact = few and resolved and has_rows and not graph.directed and self.sampler is None
        return "polynomial" if exact and self.method == "auto" else "walks"

    def explain(self) -> Explanation:
        """Say which kernel a fitted estimator uses, how it is computed, and what else it would have cost.

        The error of features is estimated from the spread of groups of walks from at most 128 observed nodes.

        Returns
        -------
        Explanation
            Prints as its ``text``; ``error`` is the relative error of features, 0 for exact rows.
        """
        check_is_fitted(self, "_fitted_graph")
        tried = getattr(self, "candidates_", [])
        return explain_estimator(
            self._fitted_graph, self.kernel_, self.method_, self._observed_ids, self.n_walks,
            check_random_seed(self.random_state), len(tried), getattr(self, "_prior", None),
        )  # fmt: skip

    def _trust_features(self, prior: Any, ids: NDArray[np.int64]) -> None:
        """Remember the observed nodes; warn if walks are far off there, or the given kernel collapses."""
        self._observed_ids = ids
        graph_prior = getattr(prior, "graph_prior", prior)
        if prior.method == "polynomial" and graph_prior.hyper.kernel == self.kernel:
            warn_of_collapse(graph_prior, ids)
        if prior.method == "walks" and not has_warned():
            spec, kernel = prior.spec, prior.hyper.kernel
            error = feature_error(
                spec.graph, kernel, spec.n_walks, spec.sampler, ids, spec.seed, prior.engine
            )
            warn_of_error(error, spec.n_walks)

    def _requested_ids(self, X: Any) -> NDArray[np.int64]:
        """Return the ids of nodes that a fitted estimator is asked for."""
        check_is_fitted(self, "_fitted_graph")
        return node_ids(self._fitted_graph, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags


def node_ids(graph: Graph, nodes: Any) -> NDArray[np.int64]:
    """Return the ids of nodes given as a flat list or as one column, (n,)."""
    try:
        ids = graph.ids(nodes)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace(": nodes ", ": X ", 1)) from None
    if ids.ndim == 2 and ids.shape[1] == 1:
        ids = ids[:, 0]
    if ids.ndim != 1 or ids.size == 0:
        refuse(
            "X", "nodes of shape (n,) or (n, 1), at least one", Described(f"shape {ids.shape}"),
            "Node ids or labels are the samples; they are not numbers to compute with.",
        )  # fmt: skip
    return ids


def node_targets(
    graph: Graph, ids: NDArray[np.int64], y: ArrayLike | None, used: NDArray[np.bool_] | slice = slice(None)
) -> NDArray[np.float64]:
    """Return the finite targets of the nodes in use, (n,) or (n, n_outputs); repeated nodes must agree."""
    targets = real_array("y", given_targets(y))
    if targets.ndim not in (1, 2) or targets.size == 0:
        refuse("y", "of shape (n,) or (n, n_outputs)", Described(f"shape {targets.shape}"))
    check_same_length(targets, ids.size)
    ids, targets = ids[used], targets[used]
    distinct, first, where = np.unique(ids, return_index=True, return_inverse=True)
    if distinct.size < ids.size:
        differs = (targets != targets[first[where]]).reshape(ids.size, -1).any(axis=1)
        if differs.any():
            node = shown(graph.names(ids[differs])[0])
            refuse(
                "y", "the same wherever a node occurs more than once",
                Described(f"different targets for node {node}"), "Average them first.",
            )  # fmt: skip
    return targets


def given_targets(y: ArrayLike | None) -> ArrayLike:
    """Return targets as NumPy takes them; refuse None."""
    if y is None:
        refuse("y", "given: requires y to be passed", Described("the target y is None"))
    return getattr(y, "to_numpy", lambda: y)()


def is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN or pandas' NA, whose comparison has no truth value."""
    try:
        return label is None or bool(label != label)
    except (TypeError, ValueError):
        return True


def check_same_length(targets: NDArray[Any], n: int) -> None:
    """Refuse targets unless there is one for each node."""
    if len(targets) != n:
        refuse("y", f"of length {n}, one target for each node", Described(f"length {len(targets)}"))


def sample_weights(weights: ArrayLike | None, n: int) -> NDArray[np.float64]:
    """Return non-negative weights, not all zero, (n,); ones if none are given."""
    if weights is None:
        return np.ones(n)
    result = real_array("sample_weight", weights)
    if result.ndim == 0:
        result = np.full(n, float(result))
    if result.shape != (n,) or (result < 0).any() or not result.any():
        refuse("sample_weight", f"{n} non-negative numbers, not all zero", weights)
    return result


def check_random_seed(random_state: Any) -> int:
    """Return the seed that a scikit-learn ``random_state`` stands for; None is 0, a RandomState draws one."""
    if random_state is None:
        return 0
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, (bool, np.bool_)):
        return whole_number("random_state", random_state, 0, 2**64 - 1)
    refuse(
        "random_state", "None, a whole number or a numpy.random.RandomState", random_state, error=TypeError
    )
