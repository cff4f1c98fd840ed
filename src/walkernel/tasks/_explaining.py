"""What a fitted estimator did, what the alternative would have cost, and how far its features are off."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from walkernel._door import warn, without_warnings
from walkernel.engines import Engine
from walkernel.kernels import Kernel
from walkernel.operators import ChebyshevBasis, Explanation, SparsePrecision, estimate_kernel
from walkernel.planning import choose_sampler
from walkernel.tasks._moments import MAX_TERMS, TOLERANCE, kernel_terms
from walkernel.walks import Sampler

if TYPE_CHECKING:
    from walkernel.graph import Graph

MAX_ERROR = 0.3
"""Relative error of features above which a fit warns."""
COLLAPSE_NODES, MIN_AWAY, MIN_DIFFERENCE = 16, 0.01, 1e-5
"""Observed nodes that tell whether a kernel collapses; share of a row off the diagonal, and mean difference
of correlations from 1, below which it does."""
PROBED_NODES = 128
"""At most this many observed nodes tell the error of features."""


def feature_error(
    graph: Graph,
    kernel: Kernel,
    n_walks: int,
    sampler: Sampler,
    ids: NDArray[np.int64],
    seed: int,
    engine: str | Engine | None = None,
) -> float:
    """Return the relative error of ΦΦᵀ at some observed nodes, from the spread of groups of their walks.

    It is kept with the graph.
    """
    probed = ids
    if ids.size > PROBED_NODES:
        probed = np.sort(np.random.default_rng(seed).choice(ids, PROBED_NODES, replace=False))
    key = ("feature error", kernel, n_walks, sampler, seed, probed.tobytes())
    return graph.derived(key, lambda: _feature_error(graph, kernel, n_walks, sampler, probed, seed, engine))


def _feature_error(
    graph: Graph,
    kernel: Kernel,
    n_walks: int,
    sampler: Sampler,
    probed: NDArray[np.int64],
    seed: int,
    engine: str | Engine | None,
) -> float:
    with without_warnings(Warning):
        K = estimate_kernel(
            graph,
            kernel,
            n_walks,
            sampler=sampler,
            seed=seed,
            nodes=graph.names(probed),
            pair="symmetric",
            engine=engine,
            ensembles="shared" if graph.is_symmetric(kernel.matrix) else None,
        )
        error = K.explain().error
    return math.nan if error is None else error


def warn_of_error(error: float, n_walks: int) -> None:
    """Warn if features are so far off that answers may be worthless."""
    if error > MAX_ERROR:
        size = f"a relative error of about {error:.2g}" if np.isfinite(error) else "errors above the kernel"
        warn(
            f"the features of {n_walks} walks a node have {size} at the observed nodes, so predictions may "
            "be poor. Use method='polynomial', more walks or a narrower kernel."
        )


def warn_of_collapse(prior: Any, ids: NDArray[np.int64]) -> None:
    """Warn if an exact kernel says nothing about most nodes, or nearly the same about all of them.

    Some of the observed nodes with neighbours are looked at: how much of the sum of |K_ij| over a row lies
    off the diagonal, and how much their correlations differ from 1.
    """
    connected = ids[~prior.basis.isolated[ids]]
    if connected.size < 2:
        return
    some = np.unique(connected[np.linspace(0, connected.size - 1, COLLAPSE_NODES).astype(int)])
    units = np.zeros((prior.graph.n_nodes, some.size))
    units[some, np.arange(some.size)] = 1.0
    rows = prior.basis.product(prior.terms, units)
    own = rows[some, np.arange(some.size)]
    away = float(np.median(1 - own / np.abs(rows).sum(axis=0)))
    if away < MIN_AWAY:
        warn(
            f"{prior.hyper.kernel} is nearly a multiple of the identity on this graph: only {away:.1g} of a "
            "row lies off the diagonal, so predictions at other nodes are the mean. Use a wider kernel, "
            "kernel=None, or matrix='normalized'."
        )
        return
    scales = np.sqrt(own)
    rest = 1 - float(np.mean(rows[some] / scales / scales[:, None]))
    if rest < MIN_DIFFERENCE:
        warn(
            f"{prior.hyper.kernel} is nearly constant on this graph: the correlations of nodes differ from 1 "
            f"by {max(rest, 0.0):.1g} only, so predictions are hardly more than the mean. Use a narrower "
            "kernel, or kernel=None."
        )


def explain_estimator(
    graph: Graph,
    kernel: Kernel,
    method: str,
    ids: NDArray[np.int64],
    n_walks: int,
    seed: int,
    n_tried: int,
    prior: Any,
) -> Explanation:
    """Say how a fitted estimator computes its kernel at n observed nodes, and what else it would cost."""
    basis = ChebyshevBasis(graph, kernel.matrix) if graph.is_symmetric(kernel.matrix) else None
    terms = None if basis is None else kernel_terms(basis, kernel, MAX_TERMS)
    work = None if terms is None or basis is None else ids.size * terms.size * basis.cost
    sampler = choose_sampler(graph, kernel, n_walks=n_walks) if kernel.has_root() else None
    error = None
    if sampler is not None:
        error = feature_error(graph, kernel, n_walks, sampler, ids, seed)
    chosen = f"{kernel}, the best of {n_tried} kernels" if n_tried > 1 else str(kernel)
    polynomial = "Polynomials do not serve this kernel or graph."
    if terms is not None:
        polynomial = (
            f"exact rows of the kernel at {ids.size} observed nodes, by polynomials of degree "
            f"{terms.size - 1}: {work:.2g} multiplications."
        )
    walks = "Walks do not serve this kernel."
    if error is not None:
        walks = (
            f"features of {n_walks} walks from each node, whose relative error at the observed nodes is "
            f"about {error:.2g}."
        )
    basis_used = getattr(prior, "basis", None)
    if isinstance(basis_used, SparsePrecision):
        polynomial = (
            f"exact covariances at {ids.size} observed nodes, by a sparse factorisation of K⁻¹: "
            f"{ids.size * basis_used.cost:.2g} multiplications."
        )
    if method == "polynomial":
        lines = [f"The kernel is {chosen}.", f"Used: {polynomial}", f"Instead: {walks}"]
    else:
        lines = [f"The kernel is {chosen}.", f"Used: {walks}", f"Instead: {polynomial}"]
    shown = (
        (TOLERANCE if method == "polynomial" else error) if terms is not None or error is not None else None
    )
    return Explanation("\n".join(lines), 0, 0, shown, None if terms is None else terms.size - 1)
