"""Gaussian process priors on nodes with attributes: a graph kernel K and an RBF kernel R of the attributes.

With d attributes x of each node, standardised to mean 0 and standard deviation 1, and a lengthscale ℓ,

    R_ij = exp(−|x_i − x_j|² / (2dℓ²)),    product: a²K∘R + ν²I,    sum: a²(wK/κ + (1 − w)R) + ν²I,

where κ is the mean variance of K at the nodes that kernels are compared on, 1 for a normalized K. Attributes
may also join the columns of the mean function (linear). The ways are compared by their marginal likelihood,
less ½ log n for each of ℓ and w. Coefficients in the mean are integrated out in units of the spread of y, so
their number counts already.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from walkernel._checks import Described, real_array, refuse
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.tasks._learning import Learned
from walkernel.tasks._likelihood import Hyperparameters
from walkernel.tasks._moment_learning import Fit, Outputs
from walkernel.tasks._moments import Basis, Moments
from walkernel.tasks._observations import EPSILON, Array, Observations
from walkernel.tasks._polynomial_prior import MAX_EXACT_NODES, NodePrior, PolynomialPrior, drawn_variances
from walkernel.tasks._posterior import Posterior, posterior_variances
from walkernel.tasks._solvers import MAX_BLOCK_ENTRIES, CovarianceProducts, Prior

COMBINATIONS = ("auto", "product", "sum", "linear")
LENGTHSCALES = (0.5, 1.0, 2.0, 4.0)
"""Lengthscales ℓ of the attributes that are compared."""
GRAPH_SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Shares w of the graph kernel in a sum that are compared."""
EXTRA_PARAMETERS = {"none": 0, "linear": 0, "product": 1, "sum": 2}
"""Parameters that are chosen in addition to those of the graph kernel."""
MAX_DOUBLINGS = 4
"""Times that the lengthscale of the graph kernel is halved or doubled at most."""
MIN_OBSERVATIONS = 4
"""Observations of each attribute from which on "auto" offers a mean that is linear in them."""
MAX_DRAWN_NODES = 4096
"""Nodes at which functions can be drawn from a joint covariance."""
ROUNDING_UNITS = 8
"""Units of rounding up to which the deviation of a column from its mean counts as zero."""


def standardized_attributes(graph: Graph, features: ArrayLike) -> Array:
    """Return attributes of all nodes with mean 0 and standard deviation 1, (n_nodes, d)."""
    array = real_array("features", getattr(features, "to_numpy", lambda: features)())
    if array.ndim not in (1, 2) or len(array) != graph.n_nodes or array.size == 0:
        rule = f"of shape ({graph.n_nodes},) or ({graph.n_nodes}, d), a row for each node of the graph"
        refuse("features", rule, Described(f"shape {array.shape}"))
    columns = array.reshape(graph.n_nodes, -1)
    columns = columns / np.maximum(np.abs(columns).max(axis=0), np.finfo(float).tiny)
    columns = columns - columns.mean(axis=0)
    deviations = np.sqrt(np.mean(columns**2, axis=0))
    constant = np.flatnonzero(deviations <= ROUNDING_UNITS * EPSILON)
    if constant.size:
        rule = "columns that differ between nodes"
        refuse("features", rule, Described(f"a constant column {constant[0]}"), "Leave it out.")
    return np.asarray(columns / deviations)


def attribute_kernel(left: Array, right: Array, lengthscale: float) -> Array:
    """Return R between nodes with attributes (n, d) and (k, d), (n, k)."""
    squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
    return np.asarray(np.exp(np.maximum(squares, 0.0) / (-2 * left.shape[1] * lengthscale**2)))


class Combination(NamedTuple):
    """How attributes enter: "none", "linear", "product" or "sum"."""

    kind: str
    lengthscale: float = math.nan  # ℓ
    share: float = math.nan  # w
    unit: float = 1.0  # κ

    def covariance(self, K: Array, R: Array | float) -> Array:
        """Return Cov(g)/a² from covariances of both kernels, or from variances and 1."""
        if self.kind == "product":
            return K * R
        return (self.share / self.unit) * K + (1 - self.share) * R


class Attributes(NamedTuple):
    """Attributes of all nodes, and the ways of using them that are to be compared."""

    values: Array  # (n_nodes, d), standardised
    kinds: tuple[str, ...]

    def at(self, combination: Combination, K: Array, ids: NDArray[np.int64]) -> Array:
        """Return Cov(g)/a² of some nodes from their K, (n, n)."""
        some = self.values[ids]
        return combination.covariance(K, attribute_kernel(some, some, combination.lengthscale))


class _Trial(NamedTuple):
    """A way of using the attributes with a graph kernel, and its score."""

    score: float
    kernel: Kernel
    combination: Combination
    fit: Fit


def join_attributes(
    attributes: Attributes,
    moments: Moments,
    data: Sequence[Observations],
    linear: Sequence[Observations],
    learned: Learned,
    learn: tuple[str, ...],
) -> tuple[Learned, Combination]:
    """Return the best way of using the attributes, with its hyper-parameters.

    ``data`` are observations of the nodes of the moments, and ``linear`` the same with the attributes among
    the columns of the mean. Every way is tried with the graph kernel that was found without attributes, and
    the best ℓ and w also with narrower and wider ones, as far as the likelihood grows.
    """
    hyper, ids = learned.hyper, moments.ids
    own = Outputs(data, learned.hypers, learn)
    with_columns = Outputs(linear, learned.hypers, learn) if "linear" in attributes.kinds else own
    penalty = 0.5 * math.log(sum(one.place.size for one in data))

    def trial(kernel: Kernel, K: Array, combination: Combination) -> _Trial:
        kind = combination.kind
        outputs = with_columns if kind == "linear" else own
        if kind == "sum":
            combination = combination._replace(unit=1.0 if hyper.normalize else float(K.diagonal().mean()))
        covariance = K if kind in ("none", "linear") else attributes.at(combination, K, ids)
        fit = outputs.fit(covariance, kernel, hyper.normalize)
        score = fit.value + outputs.shift(own.units) - penalty * EXTRA_PARAMETERS[kind]
        return _Trial(score, kernel, combination, fit)

    def climbed(best: _Trial) -> _Trial:
        for factor in (0.5, 2.0):
            for _ in range(MAX_DOUBLINGS):
                kernel = best.kernel.with_lengthscale(factor * best.kernel.lengthscale)  # type: ignore
                K = moments.covariance(kernel)
                if K is None:
                    break
                other = trial(kernel, hyper.normalized(K), best.combination)
                if other.score <= best.score:
                    break
                best = other
        return best

    is_learned = "lengthscale" in learn
    K = moments.covariance(hyper.kernel) if is_learned else None
    K = hyper.normalized(moments.exact(hyper.kernel) if K is None else K)
    found = []
    for kind in attributes.kinds:
        best = max((trial(hyper.kernel, K, one) for one in _choices(kind)), key=lambda one: one.score)
        found.append(climbed(best) if is_learned and kind != "none" else best)
    winner = max(found, key=lambda one: one.score)
    if not learn or winner.combination.kind == "none":
        return learned, winner.combination
    return own.learned(winner.fit, learned.n_evaluations), winner.combination


def _choices(kind: str) -> list[Combination]:
    """Return what is compared of one kind."""
    if kind == "product":
        return [Combination(kind, lengthscale) for lengthscale in LENGTHSCALES]
    if kind == "sum":
        return [Combination(kind, lengthscale, w) for lengthscale in LENGTHSCALES for w in GRAPH_SHARES]
    return [Combination(kind)]


@dataclass(frozen=True, eq=False)
class AttributePrior:
    """g ~ N(0, a²K∘R + ν²I), or that of a sum, at all nodes of a graph.

    It has the methods of ``PolynomialPrior``; nodes are given by their ids.
    """

    graph_prior: PolynomialPrior  # N(0, K)
    hyper: Hyperparameters
    attributes: Array  # (n_nodes, d), standardised
    combination: Combination
    method: ClassVar[str] = "polynomial"
    sampler: ClassVar[None] = None

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.graph_prior.graph

    @property
    def basis(self) -> Basis:
        """What the rows of K come from."""
        return self.graph_prior.basis

    def with_hyper(self, hyper: Hyperparameters) -> AttributePrior:
        """Return the prior with other hyper-parameters."""
        graph_prior = self.graph_prior.with_hyper(replace(hyper, amplitude=1.0, nugget=0.0))
        return replace(self, hyper=hyper, graph_prior=graph_prior)

    def at(self, ids: NDArray[np.int64], hyper: Hyperparameters | None = None) -> AttributeNodePrior:
        """Return the prior of g at some nodes, with another amplitude and nugget if given."""
        hyper = hyper or self.hyper
        return AttributeNodePrior(ids, hyper.amplitude, self, self.graph_prior.at(ids), hyper.nugget)

    def blocks(self, ids: NDArray[np.int64]) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Yield all the nodes at once."""
        yield slice(0, ids.size), ids

    def posterior_variances(self, posteriors: Sequence[Posterior[Any]], nodes: Any, columns: Array) -> Array:
        """Return the variances of g + hβ at some nodes of posteriors of this prior, (k, posteriors).

        They are exact where the variances of K are, and for at most 512 nodes. For more they are those of 256
        draws about the mean, within 12 % (6 % for standard deviations) at most of them.
        """
        if self.graph_prior.exact_variances is None and np.unique(nodes).size > MAX_EXACT_NODES:
            return drawn_variances(posteriors, nodes, columns, self.graph.n_nodes)
        return posterior_variances(posteriors, nodes, columns)

    def posterior_draws(
        self,
        posterior: Posterior[Any],
        ids: NDArray[np.int64],
        columns: Array,
        n_draws: int,
        rng: np.random.Generator,
    ) -> Array:
        """Return draws of g + hβ at some nodes from their joint posterior, (n, n_draws)."""
        if ids.size > MAX_DRAWN_NODES:
            remedy = f"Draw at fewer nodes: combine={self.combination.kind!r} takes their joint covariance."
            refuse("X", f"at most {MAX_DRAWN_NODES} nodes to draw at with attributes", ids.size, remedy)
        asked = replace(posterior.prior, observed=ids, graph_part=self.graph_prior.at(ids))
        values, vectors = np.linalg.eigh(posterior.covariance(asked, columns))
        roots = vectors * np.sqrt(np.maximum(values, 0.0))
        return posterior.mean(ids, columns)[:, None] + roots @ rng.standard_normal((ids.size, n_draws))


@dataclass(frozen=True, eq=False)
class AttributeNodePrior(Prior):
    """The prior at observed nodes; nodes are given by their ids, (n,)."""

    source: AttributePrior
    graph_part: NodePrior  # N(0, K)
    nugget: float  # ν

    @cached_property
    def covariance(self) -> Array:
        """The covariance of the observed nodes, (n, n)."""
        result = self._joined(self.graph_part.covariance, self.observed)
        result[np.diag_indices_from(result)] += self.nugget**2
        return result

    def products(self) -> CovarianceProducts:
        """Return the products with the covariance of the observed nodes."""
        matrix = self.covariance
        return CovarianceProducts(lambda V: matrix @ V, matrix.diagonal(), len(matrix))

    def with_nodes(self, nodes: NDArray[np.int64]) -> Array:
        """Return the covariances with other nodes, (n, k)."""
        same = self.observed[:, None] == nodes
        return self._joined(self.graph_part.with_nodes(nodes), nodes) + self.nugget**2 * same

    def _joined(self, K: Array, nodes: NDArray[np.int64]) -> Array:
        """Return the covariances with other nodes without the nugget from those of the graph kernel."""
        attributes, combination = self.source.attributes, self.source.combination
        R = attribute_kernel(attributes[self.observed], attributes[nodes], combination.lengthscale)
        return self.amplitude**2 * combination.covariance(K, R)

    def variances(self, nodes: NDArray[np.int64]) -> Array:
        """Return the variances at other nodes, (k,): exact."""
        is_known = self.source.graph_prior.exact_variances is not None
        K = self.graph_part.estimated_variances(nodes) if is_known else self.graph_part.variances(nodes)
        return self.amplitude**2 * self.source.combination.covariance(K, 1.0) + self.nugget**2

    def weights_of(self, dual: Array) -> Array:
        """Return the covariances of all nodes with the observed ones, times a dual solution.

        They are computed in blocks of observed nodes: every column goes through the recurrence once.
        """
        everyone = np.arange(self.source.graph.n_nodes)
        result = np.zeros((everyone.size, *dual.shape[1:]))
        size = max(1, MAX_BLOCK_ENTRIES // everyone.size)
        for first in range(0, self.row_size, size):
            part = slice(first, first + size)
            some = replace(
                self,
                observed=self.observed[part],
                graph_part=replace(self.graph_part, observed=self.observed[part]),
            )
            result += some.with_nodes(everyone).T @ dual[part]
        return result

    def values(self, nodes: NDArray[np.int64], weights: Array) -> Array:
        """Return those at other nodes."""
        return weights[nodes]

    def draw(self, n_draws: int, rng: np.random.Generator) -> Array:
        """Return functions at all nodes that have the covariance of g, but are not Gaussian.

        A draw u of N(0, K) and v = √2 cos(ω·x + φ) with random ω and φ, whose covariance is R, are multiplied
        or added. They serve variances; draws of the posterior come from ``AttributePrior``.
        """
        x, combination = self.source.attributes, self.source.combination
        graph_part = self.graph_part.draw(n_draws, rng)
        omega = rng.standard_normal((x.shape[1], n_draws)) / (math.sqrt(x.shape[1]) * combination.lengthscale)
        radial = math.sqrt(2) * np.cos(x @ omega + rng.uniform(0, 2 * math.pi, n_draws))
        if combination.kind == "product":
            drawn = graph_part * radial
        else:
            share = combination.share
            drawn = math.sqrt(share / combination.unit) * graph_part + math.sqrt(1 - share) * radial
        return self.amplitude * drawn + self.nugget * rng.standard_normal(drawn.shape)
