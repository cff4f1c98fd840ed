"""Gaussian process priors on nodes: checks of their parameters, and their walks and features."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import Described, check_instance, one_of, real_array, real_number, refuse, whole_number
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
from walkernel.tasks._likelihood import Hyperparameters
from walkernel.tasks._nodes import check_random_seed, checked_walks
from walkernel.tasks._observations import Array
from walkernel.tasks._solvers import SOLVERS, Prior
from walkernel.tasks._walk_cache import WALK_CACHE
from walkernel.walks import NO_NODES, Sampler, WalkSpec

MEANS = ("constant", "zero")
LEARNED = ("lengthscale", "amplitude", "noise", "nugget", "modulation")
MAX_FREE_TERMS = 32
"""Maximum number of terms of a modulation function that is learned term by term."""


def check_search(
    graph: Graph, kernel: Kernel, learn: Any, allowed: tuple[str, ...]
) -> tuple[Kernel, tuple[str, ...]]:
    """Return the kernel that a search begins with, no wider than walks can serve, and what is learned."""
    check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    check_instance("kernel", kernel, Kernel, "For a function of the matrix use PowerSeries.from_function.")
    check_convergence(graph, kernel)
    names = learned_names(learn, kernel, allowed)
    if kernel.lengthscale is None or "lengthscale" not in names or not kernel.has_root():
        return kernel, names
    widest = kernel.with_lengthscale(widest_served(graph, kernel))
    if widest.lengthscale >= kernel.lengthscale:  # type: ignore[operator]
        return kernel, names
    message = (
        f"{kernel} is wider than a search by walks can afford. The lengthscale is learned among "
        f"those up to {widest}."
    )
    warn(message)
    return widest, names


def walks_for(
    graph: Graph,
    kernel: Kernel,
    n_walks: int,
    sampler: Sampler | None,
    random_state: Any,
    learn: tuple[str, ...],
) -> Callable[[Kernel, tuple[str, ...]], WalkSpec]:
    """Check the parameters of a prior; return a function that chooses walks for a kernel to be learned."""
    n_walks = checked_walks(graph, kernel, n_walks, sampler)
    seed = check_random_seed(random_state)
    check_covariance(graph, kernel)
    if "lengthscale" not in learn:
        checked_sampler(graph, Symmetric(kernel), sampler, n_walks)

    def spec_for(start: Kernel, learn: tuple[str, ...]) -> WalkSpec:
        chosen = sampler or choose_sampler(graph, *served_kernels(graph, start, learn), n_walks=n_walks)
        return WalkSpec(graph, NO_NODES, n_walks, chosen, seed, matrix=kernel.matrix)

    return spec_for


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


def fitted_kernel(hyper: Hyperparameters) -> Kernel:
    """Return the kernel that was found: f * f as a power series if f was learned."""
    if hyper.modulation is None:
        return hyper.kernel
    return PowerSeries(np.convolve(hyper.modulation, hyper.modulation), matrix=hyper.kernel.matrix)


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


def check_solver(solver: str, tol: float, max_iter: int) -> dict[str, Any]:
    """Return valid options of ``make_solver``."""
    return {
        "solver": one_of("solver", solver, SOLVERS),
        "tol": real_number("tol", tol, above=0, below=1),
        "max_iter": whole_number("max_iter", max_iter, 1),
    }
