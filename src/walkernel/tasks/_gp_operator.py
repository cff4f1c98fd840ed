"""Gaussian process regression with the kernel of an operator, using nothing but its products.

The operator may be exact (``polynomial_operator``), or estimated with shared walks, in memory, in files or
on a cluster: linear systems are solved by conjugate gradients on K @ V, and no features are gathered.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import check_instance, real_array, real_number, refuse, whole_number
from walkernel._door import door
from walkernel.operators import KernelOperator
from walkernel.tasks._nodes import check_same_length
from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._posterior import Posterior
from walkernel.tasks._solvers import MAX_BLOCK_ENTRIES, CGSolver, CovarianceProducts, Prior


class GPPrediction(NamedTuple):
    """Mean and standard deviation of the posterior at some nodes, and the number of iterations."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    n_iter: int


@door
def gp_posterior(
    K: KernelOperator,
    X: Any,
    y: ArrayLike,
    nodes: Any,
    *,
    noise: float,
    amplitude: float = 1.0,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> GPPrediction:
    """Return the posterior of y = β + g(node) + noise, g ~ N(0, a²K), with a flat prior on β.

    The hyper-parameters are given; ``NodeGPRegressor`` learns them.

    Parameters
    ----------
    K : KernelOperator
        The kernel on all nodes concerned, from ``polynomial_operator``, or from ``estimate_kernel`` with
        ``ensembles="shared"`` on any engine. Other estimates are not positive semidefinite.
    X : nodes, (n,)
        Observed nodes, which may repeat.
    y : array of float, (n,)
    nodes : nodes, (k,)
        Where the posterior is wanted.
    noise, amplitude : float
        Standard deviation of the noise, and a.
    tol, max_iter : float, int
        Relative residual that conjugate gradients must reach, and the maximum number of iterations;
        RuntimeError is raised if they do not converge.

    Returns
    -------
    GPPrediction

    Examples
    --------
    >>> import walkernel as wk
    >>> K = wk.polynomial_operator(wk.load_dataset("karate").graph, wk.Diffusion(1.0))
    >>> mean, std, n_iter = wk.gp_posterior(K, [0, 33], [1.0, -1.0], [1, 32], noise=0.1)
    >>> bool(mean[0] > 0 > mean[1])
    True
    """
    check_instance("K", K, KernelOperator, "Make one with estimate_kernel or polynomial_operator.")
    if getattr(K, "ensembles", "shared") != "shared" or K.graph.directed:
        remedy = "Use estimate_kernel(…, ensembles='shared') on an undirected graph, or polynomial_operator."
        refuse("K", "positive semidefinite", K, remedy)
    noise, amplitude = (
        real_number(name, value, above=0) for name, value in (("noise", noise), ("amplitude", amplitude))
    )
    tol = real_number("tol", tol, above=0, below=1)
    max_iter = whole_number("max_iter", max_iter, 1)
    observed_at, asked = K.positions("X", X), K.positions("nodes", nodes)
    targets = real_array("y", y, ndim=1)
    check_same_length(targets, observed_at.size)
    observed = Observations.at(observed_at, targets, np.ones((targets.size, 1)), np.zeros(targets.size))
    unit = math.ldexp(1.0, math.frexp(noise)[1])
    observed, noise, amplitude = observed.scaled(unit), noise / unit, amplitude / unit
    prior = OperatorPrior(K, observed.ids, amplitude)
    system = partial(CGSolver, tol=tol, max_iter=max_iter)
    posterior = Posterior(observed, cast(Prior, prior), noise, system)  # it is only asked for solutions
    mean = prior.all_products(posterior.dual[:, None])[asked, 0] + posterior.beta[0]
    variances = prior.variances_at(asked)
    for part, shared in prior.cross_blocks(asked):
        rho, solved = posterior.mean_uncertainty(shared, np.ones((shared.shape[1], 1)))
        variances[part] += (rho * solved.T).sum(axis=1) - posterior.system.explained_diagonal(shared)
    std = unit * np.sqrt(np.maximum(variances, 0.0))
    return GPPrediction(unit * mean, std, posterior.system.n_iter)


class OperatorPrior:
    """g ~ N(0, a²K) at some positions of an operator.

    Parameters
    ----------
    K : KernelOperator
    positions : ndarray of int64, (n,)
    amplitude : float
        a.
    """

    def __init__(self, K: KernelOperator, positions: NDArray[np.int64], amplitude: float) -> None:
        self._K, self._positions, self._scale = K, positions, amplitude**2

    def products(self) -> CovarianceProducts:
        """Return the products with the covariance at the positions, and its diagonal."""
        own, K = self._positions, self._K
        return CovarianceProducts(lambda V: self.all_products(V)[own], self.variances_at(own), K.shape[0])

    def all_products(self, V: Array) -> Array:
        """Return a² K[:, positions] V, (all positions, c)."""
        spread = np.zeros((self._K.shape[1], V.shape[1]))
        spread[self._positions] = V
        return self._scale * np.asarray(self._K @ spread)

    def variances_at(self, positions: NDArray[np.int64]) -> Array:
        """Return prior variances."""
        names = self._K.nodes[positions]
        return self._scale * self._K.entries(names, names)

    def cross_blocks(self, positions: NDArray[np.int64]) -> Any:
        """Yield the covariances with other positions, (n, k), in blocks of columns."""
        size = max(1, MAX_BLOCK_ENTRIES // self._K.shape[1])
        for first in range(0, positions.size, size):
            part = slice(first, min(first + size, positions.size))
            rows = self._K.rows(self._K.nodes[positions[part]])
            yield part, self._scale * rows[:, self._positions].T
