"""Which kernel, and how it is computed, where the user leaves it open.

Kernels are compared on at most 500 observed nodes by a score of their covariance there, all of them on one
set of Chebyshev moments, or of walks, for each matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import InfiniteVarianceWarning
from walkernel._door import without_warnings
from walkernel.engines import resolve
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning import check_symmetric, choose_sampler, widest_served
from walkernel.tasks._learning import sample_positions
from walkernel.tasks._likelihood import Hyperparameters
from walkernel.tasks._moments import MAX_COMPARED_NODES, Candidate, Moments, compare_kernels, kernel_family
from walkernel.tasks._nodes import NodeEstimator
from walkernel.tasks._observations import Array
from walkernel.tasks._polynomial_prior import PolynomialPrior
from walkernel.tasks._prior import WalkPrior
from walkernel.tasks._solvers import as_array
from walkernel.tasks._walk_cache import WALK_CACHE
from walkernel.walks import NO_NODES, WalkSpec

Score = Callable[[NDArray[np.int64], Array], float]
"""Takes positions of observed nodes and their covariance, (n, n); the larger its result, the better."""
MAX_WALKED_WIDTH = 8.0
"""Lengthscale of the widest kernel that is tried by walks: σ of Diffusion, κ/√(2ν) of Matérn."""


class Choice(NamedTuple):
    """The prior that was chosen, and the kernels that were compared, the best one first."""

    prior: WalkPrior | PolynomialPrior
    candidates: list[Candidate]


def choose_prior(estimator: NodeEstimator, ids: NDArray[np.int64], score: Score) -> Choice:
    """Return the prior of an estimator for some observed nodes: its kernel, or that of the best score."""
    n_walks, seed = estimator._check_sampling()
    graph, kernel = estimator.graph, estimator.kernel
    if kernel is not None:
        check_symmetric(kernel)
    engine = resolve(estimator.engine)
    method = estimator._choose_method(ids.size, kernel)
    positions = sample_positions(ids.size, seed, MAX_COMPARED_NODES)
    some = ids[positions]

    def value(kernel: Kernel, K: Array, normalize: bool) -> float:
        return score(positions, Hyperparameters(kernel, 1.0, 0.0, normalize=normalize).normalized(K))

    if method == "polynomial":
        moments = Moments(graph, some, engine)
        tried = []
        if kernel is None:
            family = kernel_family(graph)
            tried = compare_kernels(moments, family, value, estimator.normalize).candidates()
        chosen = kernel or tried[0].kernel
        hyper = Hyperparameters(chosen, 1.0, 0.0, normalize=estimator.normalize)
        return Choice(PolynomialPrior(moments.basis(chosen.matrix), hyper), tried)

    def spec_for(*kernels: Kernel) -> WalkSpec:
        sampler = estimator.sampler or choose_sampler(graph, *kernels, n_walks=n_walks)
        return WalkSpec(graph, NO_NODES, n_walks, sampler, seed, matrix=kernels[0].matrix)

    tried = []
    if kernel is None:
        family = kernel_family(graph)
        of_one_matrix = [kind for kind in family if kind[0].matrix == family[0][0].matrix]
        walked = [one for kind in of_one_matrix for one in kind if _is_walked(graph, one)]
        spec = spec_for(*walked)
        for one in walked:
            with without_warnings(InfiniteVarianceWarning):  # of kernels that are only tried
                rows = WALK_CACHE.held(spec, one, some, engine)
            K = as_array(rows.gram(rows))
            tried.append(Candidate(one, value(one, K, estimator.normalize), estimator.normalize))
        tried.sort(key=lambda one: one.score, reverse=True)
    chosen = kernel or tried[0].kernel
    _, spec, _ = estimator._check_walks(chosen)
    hyper = Hyperparameters(chosen, 1.0, 0.0, normalize=estimator.normalize)
    return Choice(WalkPrior(spec, hyper, engine), tried)


def _is_walked(graph: Graph, kernel: Kernel) -> bool:
    """Return whether a kernel of the family is compared by walks: those that are too wide are not."""
    nu = getattr(kernel, "nu", 0.5)
    width = (kernel.lengthscale or 0.0) / np.sqrt(2 * nu)
    return bool(width <= min(MAX_WALKED_WIDTH, widest_served(graph, kernel)))
