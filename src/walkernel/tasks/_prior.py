"""Gaussian process priors on nodes: their parameters, walks and features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import Described, check_flag, one_of, real_array, real_number, refuse, whole_number
from walkernel._door import warn
from walkernel.engines import Engine
from walkernel.features import Symmetric, check_convergence
from walkernel.graph import Graph
from walkernel.kernels import Kernel, PowerSeries
from walkernel.planning import (
    check_covariance,
    checked_sampler,
    choose_sampler,
    served_kernels,
    widest_served,
)
from walkernel.tasks._learning import Learned, SpecFor
from walkernel.tasks._likelihood import MIN_SCALE, Hyperparameters
from walkernel.tasks._nodes import NodeEstimator, check_kernel
from walkernel.tasks._observations import Array
from walkernel.tasks._solvers import SOLVERS, Prior, Solver, make_solver
from walkernel.tasks._walk_cache import WALK_CACHE
from walkernel.walks import NO_NODES, WalkSpec

MEANS = ("constant", "zero")
LEARNED = ("lengthscale", "amplitude", "noise", "nugget", "modulation")
MAX_FREE_TERMS = 32
"""Maximum number of terms of a modulation function that is learned term by term."""


@dataclass(eq=False, repr=False, kw_only=True)
class NodeGP(NodeEstimator):
    """What regression and classification share: the parameters of the prior, and how they are learned."""

    learn: tuple[str, ...] | None = None
    amplitude: float = 1.0
    normalize: bool = False
    solver: str = "auto"
    tol: float = 1e-8
    max_iter: int = 1000

    def _check_search(self, allowed: tuple[str, ...]) -> tuple[Kernel, tuple[str, ...]]:
        """Return the kernel that a search begins with, no wider than walks can serve, and what is learned."""
        graph, kernel = self.graph, self.kernel
        check_kernel(graph, kernel)
        check_convergence(graph, kernel)
        names = learned_names(self.learn, kernel, allowed)
        if kernel.lengthscale is None or "lengthscale" not in names or not kernel.has_root():
            return kernel, names
        widest = kernel.with_lengthscale(widest_served(graph, kernel))
        if widest.lengthscale >= kernel.lengthscale:  # type: ignore[operator]
            return kernel, names
        warn(
            f"{kernel} is wider than a search by walks can afford. The lengthscale is learned among those up "
            f"to {widest}."
        )
        return widest, names

    def _walks_for(self, kernel: Kernel, learn: tuple[str, ...]) -> SpecFor:
        """Check the walks; return a function that chooses those for a kernel to be learned."""
        graph, sampler = self.graph, self.sampler
        n_walks, seed = self._check_sampling(kernel)
        check_covariance(graph, kernel)
        if "lengthscale" not in learn:
            checked_sampler(graph, Symmetric(kernel), sampler, n_walks)

        def spec_for(start: Kernel, learn: tuple[str, ...]) -> WalkSpec:
            chosen = sampler or choose_sampler(graph, *served_kernels(graph, start, learn), n_walks=n_walks)
            return WalkSpec(graph, NO_NODES, n_walks, chosen, seed, matrix=kernel.matrix)

        return spec_for

    def _check_solver(self, n_systems: int = 1) -> Callable[[Prior, Array], Solver]:
        """Return what solves linear systems of a prior and variances."""
        return partial(
            make_solver,
            solver=one_of("solver", self.solver, SOLVERS),
            tol=real_number("tol", self.tol, above=0, below=1),
            max_iter=whole_number("max_iter", self.max_iter, 1),
            n_systems=n_systems,
        )

    def _start(
        self, kernel: Kernel, learn: tuple[str, ...], noise: float = 0.0, nugget: float = 0.0
    ) -> Hyperparameters:
        """Return the hyper-parameters that a search begins with."""
        amplitude = real_number("amplitude", self.amplitude, minimum=MIN_SCALE)
        check_flag("normalize", self.normalize)
        start = Hyperparameters(kernel, amplitude, noise, normalize=self.normalize, nugget=nugget)
        return free_modulation(start) if "modulation" in learn else start

    def _set(self, learned: Learned, engine: Engine) -> None:
        """Set the fitted attributes that do not depend on the observations."""
        hyper, spec = learned.hyper, learned.spec
        self._spec, self._engine = spec, engine
        f, matrix = hyper.modulation, hyper.kernel.matrix
        self.kernel_ = hyper.kernel if f is None else PowerSeries(np.convolve(f, f), matrix=matrix)
        self.modulation_, self.amplitude_ = f, hyper.amplitude
        self.log_marginal_likelihood_value_ = learned.log_likelihood
        self.n_learned_from_, self.n_evaluations_ = learned.n_nodes, learned.n_evaluations
        self.sampler_, self.n_features_in_ = spec.sampler, 1


def learned_names(learn: Any, kernel: Kernel, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the hyper-parameters to learn; None means the default ones."""
    has_lengthscale = kernel.lengthscale is not None
    if learn is None:
        free = ("lengthscale", "amplitude", "noise") if has_lengthscale else ("amplitude", "noise")
        return tuple(name for name in free if name in allowed)
    rule = f"a tuple of names among {', '.join(map(repr, allowed))}, or None"
    if isinstance(learn, str) or not hasattr(learn, "__iter__"):
        refuse("learn", rule, learn, error=TypeError)
    names = tuple(learn)
    if any(name not in allowed for name in names) or len(set(names)) < len(names):
        refuse("learn", rule, learn)
    if "lengthscale" in names and not has_lengthscale:
        refuse("learn", "without 'lengthscale' for a kernel that has none", kernel, "Use learn=None.")
    if "modulation" in names and {"lengthscale", "amplitude"} & set(names):
        refuse("learn", "without 'lengthscale' and 'amplitude' where f itself is learned", learn)
    return names


def free_modulation(hyper: Hyperparameters) -> Hyperparameters:
    """Return the same prior with f as a free sequence that includes the amplitude."""
    kernel = hyper.kernel
    if np.abs(kernel.modulation(2 * MAX_FREE_TERMS)).argmax() >= MAX_FREE_TERMS:
        rule = f"one whose f is largest in its first {MAX_FREE_TERMS} terms where f itself is learned"
        refuse("kernel", rule, kernel, "Start from a narrower kernel, or use learn=None.")
    f = hyper.amplitude * kernel.modulation(MAX_FREE_TERMS)
    wide = kernel if kernel.lengthscale is None else kernel.with_lengthscale(2 * kernel.lengthscale)
    sizes = np.abs(wide.modulation(MAX_FREE_TERMS))
    length = int(np.flatnonzero(sizes > 1e-2 * sizes.max())[-1]) + 1
    return replace(hyper, amplitude=1.0, modulation=f[:length])


def prior_at(spec: WalkSpec, hyper: Hyperparameters, ids: NDArray[np.int64], engine: Engine) -> Prior:
    """Return the prior of g at some nodes."""
    rows = hyper.rows(WALK_CACHE.features(spec, hyper.weights, ids, engine))
    return Prior(_with_nugget(hyper, rows, ids), hyper.amplitude)


def prior_blocks(
    spec: WalkSpec, hyper: Hyperparameters, ids: NDArray[np.int64], engine: Engine
) -> Iterator[tuple[slice, scipy.sparse.csr_array]]:
    """Yield the rows of Φ of some nodes, as the prior uses them, in blocks."""
    for part, features in WALK_CACHE.blocks(spec, hyper.weights, ids, engine):
        yield part, _with_nugget(hyper, hyper.rows(features), ids[part])


def _with_nugget(
    hyper: Hyperparameters, rows: scipy.sparse.csr_array, ids: NDArray[np.int64]
) -> scipy.sparse.csr_array:
    """Return (Φ, ν/a E): the independent effect of a node is a feature that no other node has."""
    if not hyper.nugget:
        return rows
    n, n_nodes = rows.shape
    own = scipy.sparse.csr_array((np.ones(n), ids, np.arange(n + 1)), (n, n_nodes))
    return scipy.sparse.hstack([rows, hyper.nugget / hyper.amplitude * own], format="csr")


def mean_columns(graph: Graph, mean: str, covariates: ArrayLike | None) -> Array:
    """Return the columns of the mean function at all nodes, (n_nodes, q)."""
    one_of("mean", mean, MEANS)
    constant = np.ones((graph.n_nodes, 1 if mean == "constant" else 0))
    if covariates is None:
        return constant
    array = real_array("covariates", getattr(covariates, "to_numpy", lambda: covariates)())
    if array.ndim not in (1, 2) or len(array) != graph.n_nodes:
        rule = f"of shape ({graph.n_nodes},) or ({graph.n_nodes}, q), a row for each node of the graph"
        refuse("covariates", rule, Described(f"shape {array.shape}"))
    return np.column_stack([constant, array])


def check_rank(columns: Array) -> None:
    """Refuse columns of the mean function that are linearly dependent at the observed nodes."""
    q = columns.shape[1]
    scaled = columns / np.maximum(np.abs(columns).max(axis=0), np.finfo(float).tiny)
    if np.linalg.matrix_rank(scaled) < q:
        refuse(
            "covariates", f"{q} columns, the constant included, independent at the observed nodes",
            Described(f"{len(columns)} observations of rank {np.linalg.matrix_rank(scaled)}"),
            "Leave some out, or use mean='zero'.",
        )  # fmt: skip
