"""Gaussian process regression with the kernel of an operator, using nothing but its products.

The operator may be exact (``polynomial_operator``), or estimated with shared walks, in memory, in files or
on a cluster: linear systems are solved by conjugate gradients on K @ V, and no features are gathered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import check_instance, real_array, real_number, refuse, whole_number
from walkernel._door import door
from walkernel.operators import KernelOperator
from walkernel.planning import check_symmetric
from walkernel.tasks._nodes import check_same_length
from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._posterior import Posterior, posterior_variances
from walkernel.tasks._solvers import CGSolver, CovarianceProducts, Prior


class GPPrediction(NamedTuple):
    """Mean and standard deviation of a posterior at some nodes; unpacks as ``mean, std, n_iter``.

    Attributes
    ----------
    mean : ndarray of float64, (k,)
        The posterior mean, in the unit of y.
    std : ndarray of float64, (k,)
        The posterior standard deviation, without that of the noise.
    n_iter : int
        Iterations of conjugate gradients.

    Examples
    --------
    >>> import walkernel as wk
    >>> K = wk.polynomial_operator(wk.load_dataset("karate").graph, wk.Diffusion(1.0))
    >>> wk.gp_posterior(K, [0, 33], [1.0, -1.0], [1, 32], noise=0.1).std.round(3)
    array([0.952, 0.954])
    """

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
    r"""Return the posterior of a Gaussian process with given hyper-parameters, on any kernel operator.

    .. math:: \mathbb{E}\, g(z) + \beta = \hat\beta + a^2 K_{zX} \left(a^2 K_{XX} + s^2 I\right)^{-1}
        (y - \hat\beta)

    The model is y = β + g(node) + noise with g ~ N(0, a²K) and a flat prior on β. Here s is ``noise``, a is
    ``amplitude``, and β̂ the generalised least-squares estimate of the constant. ``NodeGPRegressor`` learns
    the hyper-parameters.

    Parameters
    ----------
    K : KernelOperator
        The kernel on all nodes concerned, from ``polynomial_operator``, or from ``estimate_kernel`` with
        ``ensembles="shared"`` on any engine. Other estimates are not positive semidefinite.
    X : nodes, (n,)
        Observed nodes, which may repeat.
    y : array of float, (n,)
        Observed values.
    nodes : nodes, (k,)
        Where the posterior is wanted.
    noise : float
        s, the standard deviation of the noise, in the unit of y.
    amplitude : float
        a, the factor of the standard deviation of g, in the unit of y. Without normalization the prior
        standard deviation at node i is a √K_ii.
    tol : float
        Relative residual that conjugate gradients must reach.
    max_iter : int
        Maximum number of iterations of conjugate gradients.

    Returns
    -------
    GPPrediction
        Mean and standard deviation of g + β at the nodes, and the number of iterations.

    Raises
    ------
    RuntimeError
        If conjugate gradients do not converge.

    See Also
    --------
    NodeGPRegressor : The estimator, which also learns.

    Examples
    --------
    >>> import walkernel as wk
    >>> K = wk.polynomial_operator(wk.load_dataset("karate").graph, wk.Diffusion(1.0))
    >>> mean, std, n_iter = wk.gp_posterior(K, [0, 33], [1.0, -1.0], [1, 32], noise=0.1)
    >>> bool(mean[0] > 0 > mean[1])
    True
    """
    check_instance("K", K, KernelOperator, "Make one with estimate_kernel or polynomial_operator.")
    check_symmetric(K.kernel, "K")
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
    prior = OperatorPrior(observed.ids, amplitude, K)
    posterior = Posterior(observed, prior, noise, partial(CGSolver, tol=tol, max_iter=max_iter))
    constant = np.ones((asked.size, 1))
    mean = unit * posterior.mean(asked, constant)
    std = unit * np.sqrt(posterior_variances([posterior], asked, constant)[:, 0])
    return GPPrediction(mean, std, posterior.system.n_iter)


@dataclass(frozen=True, eq=False)
class OperatorPrior(Prior):
    """g ~ N(0, a²K): nodes are given by their positions in an operator, an array of int64, (n,)."""

    K: KernelOperator

    @property
    def row_size(self) -> int:
        """Number of all positions: K computes whole rows."""
        return int(self.K.shape[1])

    def products(self) -> CovarianceProducts:
        """Return the products with a²K at the positions."""
        own = self.observed
        return CovarianceProducts(lambda V: self.weights_of(V)[own], self.variances(own), self.row_size)

    def with_nodes(self, nodes: NDArray[np.int64]) -> Array:
        """Return a²K between observed and other positions, (n, k)."""
        return self.amplitude**2 * self.K._rows(nodes)[:, self.observed].T

    def variances(self, nodes: NDArray[np.int64]) -> Array:
        """Return the diagonal of a²K at other positions, (k,)."""
        return self.amplitude**2 * self.K._entries(nodes, nodes)

    def weights_of(self, dual: Array) -> Array:
        """Return a²K times a dual solution, at all positions."""
        spread = np.zeros((self.row_size, *dual.shape[1:]))
        spread[self.observed] = dual
        return self.amplitude**2 * np.asarray(self.K @ spread)

    def draw(self, n_draws: int, rng: np.random.Generator) -> Array:
        """Refuse: an operator does not know a root of K."""
        raise NotImplementedError

    def values(self, nodes: NDArray[np.int64], weights: Array) -> Array:
        """Return those at other positions."""
        return weights[nodes]
