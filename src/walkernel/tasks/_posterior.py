"""The posterior of a Gaussian process: exact for the covariance at hand.

For merged observations z of variances r at n nodes, S = K + diag(r), and a flat prior on β, at a node *

    mean      h*·β + k*ᵀ S⁻¹ (z − Hβ),                     k* = Cov(g, g*),   β = A⁻¹ HᵀΣ⁻¹y,   A = HᵀΣ⁻¹H,
    variance  Var(g*) − k*ᵀ S⁻¹ k* + ρᵀ A⁻¹ ρ,              ρ = h* − Hᵀ S⁻¹ k*,

and a draw of the whole function is a draw of the prior plus the mean that belongs to the residuals of that
draw (pathwise conditioning).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._solvers import Matrix, Prior, Solver, as_array, cholesky_solver, like

SomePrior = TypeVar("SomePrior", bound=Prior)


class Posterior(Generic[SomePrior]):
    """A Gaussian process conditioned on observations; other nodes are given as its prior takes them.

    Parameters
    ----------
    observed : Observations
    prior : Prior
        The prior of the observed nodes.
    noise : float
        Standard deviation of the noise.
    system : callable
        Returns a solver for S, given the prior and the variances r.
    """

    def __init__(
        self,
        observed: Observations,
        prior: SomePrior,
        noise: float,
        system: Callable[[SomePrior, Array], Solver],
    ) -> None:
        self.observed, self.prior, self._noise = observed, prior, noise
        self._merged = merged = observed.merged(noise)
        self.system = system(prior, merged.variances)
        solved = self.system.solve(merged.sides)
        products = merged.sides.T @ solved + merged.scatter
        self._basis = solved[:, 1:]
        self._certainty = products[1:, 1:]
        rest = np.linalg.solve(self._certainty, products[1:, 0])
        self.beta = observed.offset + rest
        self.dual = solved[:, 0] - self._basis @ rest

    @cached_property
    def weights(self) -> Array:
        """What the prior needs of S⁻¹(z − Hβ) to compute means; a²Φᵀ times it for features."""
        return self.prior.weights_of(self.dual)

    def mean(self, nodes: Any, columns: Array) -> Array:
        """Return the mean at k nodes with columns h, (k, q)."""
        return self.prior.values(nodes, self.weights) + columns @ self.beta

    def mean_uncertainty(self, shared: Matrix, columns: Array) -> tuple[Array, Array]:
        """Return ρ, (k, q), and A⁻¹ρᵀ, (q, k): their product is the variance due to β."""
        rho = columns - as_array(shared.T @ like(shared, self._basis))
        return rho, np.asarray(np.linalg.solve(self._certainty, rho.T), dtype=np.float64)

    def covariance(self, asked: Prior, columns: Array) -> Array:
        """Return the covariances of g + hβ between nodes with a prior of their own, (k, k)."""
        shared = self.prior.with_nodes(asked.observed)
        rho, solved = self.mean_uncertainty(shared, columns)
        explained = self.system.best_for(len(columns)).explained(shared)
        result = as_array(asked.covariance) - explained + rho @ solved
        return (result + result.T) / 2

    def leave_one_out(self) -> tuple[Array, Array]:
        """Return mean and variance of g + hβ at each observed node given the others, (n,) each.

        With Q = S⁻¹ − S⁻¹H A⁻¹ HᵀS⁻¹ they are z − (Qz)/diag Q and 1/diag Q − r.
        """
        merged = self._merged
        level = merged.sides[:, 1:] @ self.observed.offset
        inverse = as_array(cholesky_solver(self.prior, merged.variances).inverse().diagonal())
        fixed = (self._basis * np.linalg.solve(self._certainty, self._basis.T).T).sum(axis=1)
        precisions = inverse - fixed
        return level + merged.sides[:, 0] - self.dual / precisions, np.maximum(
            1 / precisions - merged.variances, 0.0
        )

    def draw(self, n_samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return functions of the posterior, as the prior's ``values`` takes them, and β, (q, n_samples).

        Each is the sum of its value and h·β at every node of the graph.
        """
        drawn = self.prior.draw(n_samples, rng)
        observed, place = self.observed, self.observed.place
        noise = np.sqrt(observed.variances + self._noise**2)[:, None]
        values = self.prior.values(self.prior.observed, drawn)[place]
        values = values + noise * rng.standard_normal((place.size, n_samples))
        sides = np.column_stack([observed.sides[:, :1] - values, observed.sides[:, 1:]])
        merged = observed._replace(sides=sides).merged(self._noise)
        solved = self.system.solve(merged.sides[:, :n_samples])
        outer = merged.sides[:, n_samples:].T @ solved
        beta = np.asarray(np.linalg.solve(self._certainty, outer), dtype=np.float64)
        weights = drawn + self.prior.weights_of(solved - self._basis @ beta)
        return weights, beta + observed.offset[:, None]


def posterior_variances(posteriors: Sequence[Posterior[SomePrior]], nodes: Any, columns: Array) -> Array:
    """Return the variances of g + hβ at some nodes of posteriors of the same prior, (k, posteriors)."""
    prior = posteriors[0].prior
    systems = [posterior.system.best_for(len(columns)) for posterior in posteriors]
    result = np.repeat(prior.variances(nodes)[:, None], len(posteriors), axis=1)
    for part, shared in prior.blocks(nodes):
        for which, (posterior, system) in enumerate(zip(posteriors, systems, strict=True)):
            rho, solved = posterior.mean_uncertainty(shared, columns[part])
            result[part, which] += (rho * solved.T).sum(axis=1) - system.explained_diagonal(shared)
    return np.maximum(result, 0.0)
