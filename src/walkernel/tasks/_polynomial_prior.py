"""Gaussian process priors on nodes from polynomials of the matrix: exact rows of the kernel, no walks.

With K = Ψ², Ψ a polynomial too, Ψz is a draw of the prior at all nodes for standard normal z. A normalized
prior is divided by s_i s_j. On graphs of some thousand nodes s_i² is K_ii. On larger ones it is estimated
from the mean of (Ψz)_i² over 256 draws, whose logarithm has the known variance ψ'(128) ≈ 1/128: the
logarithm is shrunk towards a linear function of the logarithms of the degrees of the node and of its
neighbours, by as much as that variance explains of the rest (empirical Bayes). Every positive s makes a
valid prior; s differs from √K_ii by about 4 % at most, and alike at nodes that are near to each other,
because their draws are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import scipy.special
from numpy.typing import NDArray

from walkernel.graph import Graph
from walkernel.operators import ChebyshevBasis, SparseFactor, SparsePrecision
from walkernel.tasks._likelihood import Hyperparameters
from walkernel.tasks._moments import Basis, exact_covariance, isolated_variance, required_terms
from walkernel.tasks._observations import Array
from walkernel.tasks._posterior import Posterior, posterior_variances
from walkernel.tasks._solvers import CovarianceProducts, Prior, Solver

MAX_EXACT_SCALES = 2**32
"""Multiplications that exact scales at all nodes may take; for more they are estimated from draws."""
MAX_EXACT_NODES = 512
"""Nodes up to which posterior variances are exact; those of more nodes are estimated from draws."""
SCALE_DRAWS, MAX_DRAWN = 256, 2**26
"""Draws from which the scales of a normalized prior are estimated; and numbers that are drawn at a time."""
MIN_MARKOV_NODES = 1024
"""Observed nodes from which a kernel with a sparse inverse is conditioned by that inverse."""


@dataclass(frozen=True, eq=False)
class PolynomialPrior:
    """g ~ N(0, a²K + ν²I) at all nodes of a graph, by products with the matrix.

    It has the methods of ``WalkPrior``; nodes are given by their ids.
    """

    basis: Basis
    hyper: Hyperparameters
    known: tuple[NDArray[np.int64], Array] | None = None  # some nodes, and K between them
    method: ClassVar[str] = "polynomial"
    sampler: ClassVar[None] = None

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.basis.graph

    @cached_property
    def terms(self) -> Array:
        """The Chebyshev coefficients of K."""
        return required_terms(self.basis, self.hyper.kernel)

    @cached_property
    def _root_terms(self) -> Array:
        return required_terms(self.basis, self.hyper.kernel, root=True)

    @cached_property
    def scales(self) -> Array:
        """The scales s at all nodes, (n_nodes,), estimated from draws where exact ones take too long."""
        found = self.exact_variances
        if found is None:
            rng, squares = np.random.default_rng(0), np.zeros(self.graph.n_nodes)
            for n_draws in draws_at_once(self.graph.n_nodes):
                draws = self.draw_roots(n_draws, rng)
                squares += np.einsum("ij,ij->i", draws, draws)
            found = shrunk_towards_degrees(self.graph, squares / SCALE_DRAWS, SCALE_DRAWS)
        scales = np.sqrt(np.maximum(found, np.finfo(float).tiny))
        scales[self.basis.isolated] = math.sqrt(self.isolated_variance)
        return scales

    @cached_property
    def exact_variances(self) -> Array | None:
        """K_ii at all nodes, (n_nodes,), or None where it takes too long; not of nodes without neighbours."""
        found = self.basis.diagonal(self.terms)
        if found is None and isinstance(self.basis, ChebyshevBasis):
            n, terms = self.graph.n_nodes, self._root_terms
            if n * terms.size * self.basis.cost <= MAX_EXACT_SCALES:
                found = self.basis.squared_norms(terms)
        return found

    @property
    def isolated_variance(self) -> float:
        """K_ii of nodes without neighbours."""
        return isolated_variance(self.hyper.kernel)

    def draw_roots(self, n_draws: int, rng: np.random.Generator) -> Array:
        """Return Ψz, draws of N(0, K) at all nodes, (n_nodes, n_draws)."""
        return self.basis.draw(self._root_terms, n_draws, rng)

    def with_hyper(self, hyper: Hyperparameters) -> PolynomialPrior:
        """Return the prior with other hyper-parameters."""
        if hyper.kernel == self.hyper.kernel:
            return replace(self, hyper=hyper)
        return PolynomialPrior(ChebyshevBasis(self.graph, hyper.kernel.matrix, self.basis.engine), hyper)

    def at(self, ids: NDArray[np.int64], hyper: Hyperparameters | None = None) -> NodePrior:
        """Return the prior of g at some nodes, with another amplitude and nugget if given."""
        hyper = hyper or self.hyper
        return NodePrior(ids, hyper.amplitude, self, hyper.nugget)

    def covariance(self, ids: NDArray[np.int64]) -> Array:
        """Return K at some nodes, (n, n)."""
        if self.known is not None and np.array_equal(ids, self.known[0]):
            return self.known[1]
        return exact_covariance(self.basis, self.hyper.kernel, ids)

    def blocks(self, ids: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Yield all the nodes at once: what they cost does not depend on their number."""
        yield slice(0, ids.size), ids

    def functions(self, ids: NDArray[np.int64], weights: Array) -> Iterator[tuple[slice, Array]]:
        """Yield all the nodes at once, and functions that are known at all nodes there, (k, c)."""
        yield slice(0, ids.size), weights[ids]

    def posterior_variances(self, posteriors: Sequence[Posterior[Any]], nodes: Any, columns: Array) -> Array:
        """Return the variances of g + hβ at some nodes of posteriors of this prior, (k, posteriors).

        They are exact for at most 512 nodes, with leading eigenvectors, and on graphs of some thousand nodes.
        Else they are those of 256 draws about the mean, which cost the same for any number of nodes, and are
        within 9 % (4 % for standard deviations) at most of them.
        """
        distinct = np.unique(nodes)
        if distinct.size <= MAX_EXACT_NODES or self.exact_variances is not None:
            return posterior_variances(posteriors, nodes, columns)
        return drawn_variances(posteriors, nodes, columns, self.graph.n_nodes)


@dataclass(frozen=True, eq=False)
class NodePrior(Prior):
    """The prior at observed nodes; nodes are given by their ids, (n,)."""

    source: PolynomialPrior
    nugget: float = 0.0  # ν

    @property
    def scales(self) -> Array:
        """The scales s at all nodes; ones if the prior is not normalized."""
        if not self.source.hyper.normalize:
            return np.ones(self.source.graph.n_nodes)
        return self.source.scales

    @cached_property
    def covariance(self) -> Array:
        """The covariance of the observed nodes, (n, n)."""
        scales = self._observed_scales
        K = self.source.covariance(self.observed)
        result = self.amplitude**2 * K / scales / scales[:, None]
        result[np.diag_indices_from(result)] += self.nugget**2
        return result

    @property
    def _observed_scales(self) -> Array:
        return self.scales[self.observed]

    def products(self) -> CovarianceProducts:
        """Return the products with the covariance of the observed nodes."""
        matrix = self.covariance
        return CovarianceProducts(lambda V: matrix @ V, matrix.diagonal(), len(matrix))

    def direct_solver(self, variances: Array) -> Solver | None:
        """Return the solver by the sparse inverse of the kernel where it has one and nodes are many."""
        basis = self.source.basis
        if not isinstance(basis, SparsePrecision) or self.observed.size < MIN_MARKOV_NODES:
            return None
        factors = self.amplitude / self._observed_scales
        return MarkovSolver(basis, self.observed, factors, variances + self.nugget**2)

    def with_nodes(self, nodes: NDArray[np.int64]) -> Array:
        """Return the covariances with other nodes, (n, k)."""
        source, same = self.source, self.observed[:, None] == nodes
        K = source.basis.block(source.terms, self.observed, nodes)
        alone = source.basis.isolated[nodes]
        K[:, alone] = np.where(same[:, alone], source.isolated_variance, 0.0)
        result = self.amplitude**2 * K / self.scales[nodes] / self._observed_scales[:, None]
        return result + self.nugget**2 * same

    def variances(self, nodes: NDArray[np.int64]) -> Array:
        """Return the variances at other nodes, (k,): exact, one column of the recurrence for each."""
        basis, terms = self.source.basis, self.source.terms
        whole = self.source.exact_variances if nodes.size > MAX_EXACT_NODES else None
        if whole is None:
            distinct, place = np.unique(nodes, return_inverse=True)
            diagonal = basis.block(terms, distinct, distinct).diagonal()[place]
        else:
            diagonal = whole[nodes]
        diagonal[basis.isolated[nodes]] = self.source.isolated_variance
        return self.amplitude**2 * diagonal / self.scales[nodes] ** 2 + self.nugget**2

    def estimated_variances(self, nodes: NDArray[np.int64]) -> Array:
        """Return the variances at other nodes, (k,), with the scales that were estimated from draws."""
        normalize = self.source.hyper.normalize
        shares = np.ones(nodes.size) if normalize else self.source.scales[nodes] ** 2
        return self.amplitude**2 * shares + self.nugget**2

    def weights_of(self, dual: Array) -> Array:
        """Return the covariances of all nodes with the observed ones, times a dual solution."""
        columns = dual.reshape(len(dual), -1)
        spread = np.zeros((self.source.graph.n_nodes, columns.shape[1]))
        spread[self.observed] = columns / self._observed_scales[:, None]
        result = self.amplitude**2 * self.source.basis.product(self.source.terms, spread)
        result /= self.scales[:, None]
        result[self.source.basis.isolated] = 0.0
        own = self.source.basis.isolated[self.observed]
        alone = self.amplitude**2 * self.source.isolated_variance / self._observed_scales[own] ** 2
        result[self.observed[own]] = alone[:, None] * columns[own]
        result[self.observed] += self.nugget**2 * columns
        return result.reshape(-1, *dual.shape[1:])

    def values(self, nodes: NDArray[np.int64], weights: Array) -> Array:
        """Return those at other nodes."""
        return weights[nodes]

    def draw(self, n_draws: int, rng: np.random.Generator) -> Array:
        """Return draws of g at all nodes, as ``values`` takes them."""
        drawn = self.amplitude * self.source.draw_roots(n_draws, rng) / self.scales[:, None]
        return drawn + self.nugget * rng.standard_normal(drawn.shape) if self.nugget else drawn


class MarkovSolver(Solver):
    """Solutions with S = FKFᵀ + R by the sparse inverse Q of K, for any number of observed nodes.

    F has an entry f_i for each observed node, R is diagonal, and S⁻¹ = R⁻¹ − R⁻¹F (Q + FᵀR⁻¹F)⁻¹ FᵀR⁻¹.
    """

    def __init__(
        self, basis: SparsePrecision, observed: NDArray[np.int64], factors: Array, variances: Array
    ) -> None:
        self._observed, self._n_nodes = observed, basis.graph.n_nodes
        self._variances, self._factors = variances, factors
        weights = np.zeros(self._n_nodes)
        weights[observed] = factors**2 / variances
        matrix = basis.precision + scipy.sparse.diags_array(weights)
        self._inverse = SparseFactor(matrix, basis.engine.n_threads)

    def solve(self, sides: Array) -> Array:
        """Return S⁻¹ B, (n, c)."""
        columns = sides.reshape(len(sides), -1) / self._variances[:, None]
        spread = np.zeros((self._n_nodes, columns.shape[1]))
        spread[self._observed] = self._factors[:, None] * columns
        smooth = self._inverse.solve(spread)[self._observed]
        columns -= (self._factors / self._variances)[:, None] * smooth
        return columns.reshape(sides.shape)


def draws_at_once(n_nodes: int) -> list[int]:
    """Return into how many draws at a time those of the scales are divided on a large graph."""
    size = min(SCALE_DRAWS, max(32, MAX_DRAWN // n_nodes // 32 * 32))
    return [size] * (SCALE_DRAWS // size) + [SCALE_DRAWS % size] * (SCALE_DRAWS % size > 0)


def drawn_variances(posteriors: Sequence[Posterior[Any]], nodes: Any, columns: Array, n_nodes: int) -> Array:
    """Return the variances of g + hβ at some nodes from draws about the mean, (k, posteriors)."""
    result = np.empty((nodes.size, len(posteriors)))
    for which, posterior in enumerate(posteriors):
        rng, squares = np.random.default_rng(1), np.zeros(nodes.size)
        for n_draws in draws_at_once(n_nodes):
            drawn, beta = posterior.draw(n_draws, rng)
            functions = posterior.prior.values(nodes, drawn) + columns @ beta
            functions -= posterior.mean(nodes, columns)[:, None]
            squares += np.einsum("ij,ij->i", functions, functions)
        result[:, which] = squares / SCALE_DRAWS
    return result


def shrunk_towards_degrees(graph: Graph, squares: Array, n_draws: int) -> Array:
    """Return estimates of K_ii, shrunk towards what degrees tell, (n_nodes,)."""
    A = abs(graph.to_scipy("adjacency"))
    degrees = np.asarray(A.sum(axis=1)).ravel()
    own = np.log(np.where(degrees > 0, degrees, 1.0))
    around = np.asarray(A @ own) / np.where(degrees > 0, degrees, 1.0)
    columns = np.column_stack([np.ones_like(own), own, around, degrees == 0])
    logs = np.log(np.maximum(squares, np.finfo(float).tiny))
    fitted = columns @ np.linalg.lstsq(columns, logs)[0]
    rest = logs - fitted
    noise = float(scipy.special.polygamma(1, n_draws / 2))
    spread = float(np.mean(rest**2))
    kept = max(0.0, 1 - noise / spread) if spread > 0 else 0.0
    return np.asarray(np.exp(fitted + kept * rest))
