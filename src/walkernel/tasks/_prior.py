"""Gaussian process priors on nodes: their parameters, walks and features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import one_of, real_number, refuse, whole_number
from walkernel._door import warn
from walkernel.engines import CPU, Engine, resolve
from walkernel.features import FeatureMatrix, HostFeatures, Symmetric
from walkernel.graph import Graph
from walkernel.kernels import Diffusion, Kernel, Matern, PowerSeries
from walkernel.operators import SparsePrecision, has_sparse_factor
from walkernel.planning import (
    check_covariance,
    checked_sampler,
    choose_sampler,
    served_kernels,
    widest_served,
)
from walkernel.tasks._attributes import AttributePrior, Attributes, Combination
from walkernel.tasks._learning import (
    MAX_LEARNING_NODES,
    Learned,
    SpecFor,
    learn_hyperparameters,
    sample_nodes,
    sample_positions,
    trial_likelihood,
)
from walkernel.tasks._likelihood import MIN_SCALE, Hyperparameters
from walkernel.tasks._moment_learning import learn_by_moments, refit_scales
from walkernel.tasks._moments import (
    MIN_COMPARED_NODES,
    Candidate,
    Candidates,
    Moments,
    compared_nodes,
    exact_covariance,
    suited_basis,
)
from walkernel.tasks._nodes import NodeEstimator, check_random_seed
from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._polynomial_prior import PolynomialPrior
from walkernel.tasks._posterior import Posterior, posterior_variances
from walkernel.tasks._solvers import SOLVERS, FeaturePrior, Solver, make_solver
from walkernel.tasks._walk_cache import WALK_CACHE
from walkernel.walks import NO_NODES, Sampler, WalkSpec

LEARNED = ("lengthscale", "amplitude", "noise", "nugget", "modulation")
MAX_REFIT_WORK = 2**36
"""Multiplications for the covariances from which amplitude and noise are learned."""
MAX_FREE_TERMS = 32
"""Maximum number of terms of a modulation function that is learned term by term."""


@dataclass(eq=False, repr=False, kw_only=True)
class NodeGP(NodeEstimator):
    """What regression and classification share: the parameters of the prior, and how they are learned."""

    learn: tuple[str, ...] | None = None
    amplitude: float = 1.0
    solver: str = "auto"
    tol: float = 1e-8
    max_iter: int = 1000

    def _check_learning(self, allowed: tuple[str, ...]) -> tuple[str, ...]:
        """Check the parameters of the prior, and return the names of what is learned."""
        self._check_sampling()
        if self.kernel is not None:
            check_covariance(self.graph, self.kernel)
        elif self.graph.directed:
            check_covariance(self.graph, Diffusion())
        return learned_names(self.learn, self.kernel, allowed)

    def _learn(
        self, data: Sequence[Observations], learn: tuple[str, ...], noise: float = 0.0, nugget: float = 0.0
    ) -> tuple[Learned, SomeGraphPrior]:
        """Learn the hyper-parameters from sets of observations of the same nodes, and return the prior."""
        seed, engine = check_random_seed(self.random_state), resolve(self.engine)
        if self._has_exact_rows(data[0].ids.size, learn):
            moments, learned = self._search(data, learn, (noise, nugget), seed)
            return self._exact_prior(moments, data, learned, learn)
        units = own_units(data, learn, nugget)
        scaled = [one.scaled(unit) for one, unit in zip(data, units, strict=True)]
        kernel = self.kernel or self._walked_kernel(scaled, learn, noise, nugget)
        center, spec_for = self._walks_for(kernel, learn)
        start = self._start(center, learn, noise, nugget)
        best = learn_hyperparameters(self.graph, spec_for, engine, scaled, start, learn)
        if self.kernel is not None:
            hyper = best.hyper
            self.candidates_ = Candidates([Candidate(hyper.kernel, best.log_likelihood, hyper.normalize)])
        assert best.spec is not None
        prior = WalkPrior(best.spec, best.hyper.scaled(units[0]), engine)
        others = tuple(best.hyper.scaled(unit) for unit in units[1:])
        value = best.log_likelihood - best.n_free / len(units) * float(np.log(units).sum())
        return best._replace(hyper=prior.hyper, log_likelihood=value, others=others), prior

    def _walked_kernel(
        self, data: Sequence[Observations], learn: tuple[str, ...], noise: float, nugget: float
    ) -> Kernel:
        """Return the kernel of the largest likelihood at few nodes, with the best width that walks afford."""
        engine, found = resolve(self.engine), []
        for kernel in WALKED_FAMILY:
            center, spec_for = self._walks_for(kernel, learn)
            start = self._start(center, learn, noise, nugget)
            value = trial_likelihood(self.graph, spec_for, engine, data, start, learn)
            found.append(Candidate(kernel, value, start.normalize))
        self.candidates_ = Candidates(sorted(found, key=lambda one: one.score, reverse=True))
        return self.candidates_[0].kernel

    def _has_exact_rows(self, n_observed: int, learn: tuple[str, ...]) -> bool:
        """Return whether the kernel is computed exactly for so many observed nodes."""
        if "modulation" in learn:
            return False
        exact = self._choose_method(n_observed, self.kernel) == "polynomial"
        return exact or self._has_markov_prior()

    def _has_markov_prior(self) -> bool:
        """Return whether kernels with a sparse inverse serve any number of observed nodes."""
        on_cpu = isinstance(resolve(self.engine), CPU)
        if self.method != "auto" or self.sampler is not None or not on_cpu:
            return False
        suited = self.kernel is None or self.kernel.resolvent_power() is not None
        return suited and has_sparse_factor(self.graph)

    def _search(
        self, data: Sequence[Observations], learn: tuple[str, ...], scales: tuple[float, float], seed: int
    ) -> tuple[Moments, Learned]:
        """Choose the kernel by moments of at most 500 observed nodes; noise and nugget are given."""
        ids, most = data[0].ids, compared_nodes(self.graph)
        some = ids[sample_positions(ids.size, seed, most)]
        moments = Moments(self.graph, some, resolve(self.engine))
        start = self._start(self.kernel or Diffusion(), learn, *scales)
        if not learn:
            self.candidates_ = Candidates()
            return moments, Learned(start, None, np.nan, 0, 0, 0, (start,) * (len(data) - 1))
        normalize = self.normalize if self.kernel is None else start.normalize
        compared = sample_nodes(data, seed, most)
        only_markov = self._choose_method(ids.size, self.kernel) == "walks"
        learned, found = learn_by_moments(
            moments, compared, start, learn, self.kernel, normalize, only_markov=only_markov
        )
        self.candidates_ = Candidates(found)
        return moments, learned

    def _exact_prior(
        self,
        moments: Moments,
        data: Sequence[Observations],
        learned: Learned,
        learn: tuple[str, ...],
        joined: tuple[Attributes, Combination] | None = None,
    ) -> tuple[Learned, SomeGraphPrior]:
        """Return the prior for the kernel that was found, with amplitude and noise from all nodes."""
        ids, kernel = data[0].ids, learned.hyper.kernel
        basis = suited_basis(moments.basis(kernel.matrix), kernel, ids.size)
        most = refitted_nodes(basis) if isinstance(basis, SparsePrecision) else MAX_LEARNING_NODES
        few = ids.size <= most
        known = (ids, exact_covariance(basis, kernel, ids)) if few or joined is not None else None
        if learn and known is not None and moments.ids.size < ids.size <= MAX_LEARNING_NODES:
            K = learned.hyper.normalized(known[1])
            K = K if joined is None else joined[0].at(joined[1], K, ids)
            learned = refit_scales(learned, K, data, learn)
        elif learn and known is None:
            some = sample_nodes(data, check_random_seed(self.random_state), most)
            K = exact_covariance(basis, kernel, some[0].ids)
            learned = refit_scales(learned, learned.hyper.normalized(K), some, learn)
        if joined is None:
            return learned, PolynomialPrior(basis, learned.hyper, known)
        attributes, combination = joined
        graph_prior = PolynomialPrior(basis, replace(learned.hyper, amplitude=1.0, nugget=0.0), known)
        return learned, AttributePrior(graph_prior, learned.hyper, attributes.values, combination)

    def _walks_for(self, kernel: Kernel, learn: tuple[str, ...]) -> tuple[Kernel, SpecFor]:
        """Return the kernel that a search by walks begins with, and which walks serve a kernel."""
        graph, sampler = self.graph, self.sampler
        n_walks, seed = self._check_sampling()
        if "lengthscale" in learn and kernel.has_root():
            widest = kernel.with_lengthscale(widest_served(graph, kernel))
            if widest.lengthscale < kernel.lengthscale:  # type: ignore[operator]
                warn(
                    f"{kernel} is wider than a search by walks can afford. The lengthscale is learned among "
                    f"those up to {widest}."
                )
                kernel = widest

        def spec_for(center: Kernel) -> WalkSpec:
            chosen = sampler or choose_sampler(graph, *served_kernels(graph, center, learn), n_walks=n_walks)
            return WalkSpec(graph, NO_NODES, n_walks, chosen, seed, matrix=kernel.matrix)

        if "lengthscale" in learn:
            return kernel, spec_for
        spec = spec_for(kernel)
        checked_sampler(graph, Symmetric(kernel), spec.sampler, n_walks)
        return kernel, lambda _: spec

    def _check_solver(self, n_systems: int = 1) -> Callable[[Any, Array], Solver]:
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
        normalize = self.normalize is not False
        start = Hyperparameters(kernel, amplitude, noise, normalize=normalize, nugget=nugget)
        return free_modulation(start) if "modulation" in learn else start

    def _set(self, learned: Learned, prior: SomeGraphPrior) -> None:
        """Set the fitted attributes that do not depend on the observations."""
        hyper = learned.hyper
        self._prior, self._fitted_graph = prior, prior.graph
        f, matrix = hyper.modulation, hyper.kernel.matrix
        self.kernel_ = hyper.kernel if f is None else PowerSeries(np.convolve(f, f), matrix=matrix)
        self.modulation_, self.normalize_ = f, hyper.normalize
        self.amplitude_: float | Array = hyper.amplitude
        self.log_marginal_likelihood_value_ = learned.log_likelihood
        self.n_learned_from_, self.n_evaluations_ = learned.n_nodes, learned.n_evaluations
        self.method_, self.sampler_, self.n_features_in_ = prior.method, prior.sampler, 1


def refitted_nodes(basis: SparsePrecision) -> int:
    """Return how many observed nodes tell amplitude and noise: fewer where the factor is large."""
    return int(np.clip(MAX_REFIT_WORK // basis.cost, MIN_COMPARED_NODES, MAX_LEARNING_NODES))


def learned_names(learn: Any, kernel: Kernel | None, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the hyper-parameters to learn; None means the default ones."""
    has_lengthscale = kernel is None or kernel.lengthscale is not None
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
    if kernel is None and "lengthscale" not in names:
        refuse("kernel", "given where its lengthscale is not learned", None)
    if "modulation" in names and {"lengthscale", "amplitude"} & set(names):
        refuse("learn", "without 'lengthscale' and 'amplitude' where f itself is learned", learn)
    return names


def own_units(data: Sequence[Observations], learn: tuple[str, ...], nugget: float) -> list[float]:
    """Return the spread of each output, in which they share amplitude and noise; ones if some is given."""
    free = {"amplitude", "noise"} <= set(learn) and ("nugget" in learn or not nugget)
    return [one.spread if free and len(data) > 1 else 1.0 for one in data]


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


WALKED_FAMILY = (Diffusion(), Matern(1.5), Matern(2.5))
"""Kernels that are compared by walks where none is given, each with the best of its lengthscales."""


@dataclass(frozen=True, eq=False)
class WalkPrior:
    """g ~ N(0, a²ΦΦᵀ + ν²I) at all nodes of a graph: where a Gaussian process gets its covariance from.

    Estimators ask it for the prior of observed nodes, and for other nodes in the form in which that prior
    takes them; they look at neither walks nor features.
    """

    spec: WalkSpec
    hyper: Hyperparameters
    engine: Engine
    method: ClassVar[str] = "walks"

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.spec.graph

    @property
    def sampler(self) -> Sampler:
        """The sampler of the walks."""
        return self.spec.sampler

    def with_hyper(self, hyper: Hyperparameters) -> WalkPrior:
        """Return the prior with other hyper-parameters."""
        return replace(self, hyper=hyper)

    def at(self, ids: NDArray[np.int64], hyper: Hyperparameters | None = None) -> FeaturePrior:
        """Return the prior of g at some nodes, with another amplitude and the same ν/a if given."""
        features = WALK_CACHE.held(self.spec, self.hyper.weights, ids, self.engine)
        rows, amplitude = self._rows(features, ids), (hyper or self.hyper).amplitude
        if isinstance(rows, scipy.sparse.csr_array):
            return FeaturePrior(rows, amplitude)
        from walkernel.tasks._device_prior import DeviceFeaturePrior

        return DeviceFeaturePrior(rows, amplitude)

    def blocks(self, ids: NDArray[np.int64]) -> Iterator[tuple[slice, Any]]:
        """Yield some nodes, as the prior takes them, in blocks."""
        for part, features in WALK_CACHE.blocks(self.spec, self.hyper.weights, ids, self.engine):
            yield part, self._rows(features, ids[part])

    def functions(self, ids: NDArray[np.int64], weights: Array) -> Iterator[tuple[slice, Array]]:
        """Yield distinct nodes in blocks, and the functions with some weights of the features there, (k, c).

        Features are multiplied where the engine has made them.
        """
        hyper, n_nodes = self.hyper, self.graph.n_nodes
        for part, features in WALK_CACHE.matrices(self.spec, hyper.weights, ids, self.engine):
            values = np.asarray(features.multiply(np.ascontiguousarray(weights[:n_nodes])))
            values = hyper.row_scales(features.squared_norms())[:, None] * values
            if hyper.nugget:
                values += hyper.nugget / hyper.amplitude * weights[n_nodes + ids[part]]
            yield part, values

    def posterior_variances(self, posteriors: Sequence[Posterior[Any]], nodes: Any, columns: Array) -> Array:
        """Return the variances of g + hβ at some nodes of posteriors of this prior, (k, posteriors)."""
        return posterior_variances(posteriors, nodes, columns)

    def _rows(self, features: FeatureMatrix, ids: NDArray[np.int64]) -> Any:
        """Return (Φ, ν/a E), a csr_array or DeviceFeatures.

        The independent effect of a node is a feature that no other node has.
        """
        rows, hyper = self.hyper.rows(features), self.hyper
        if hyper.nugget:
            n, n_nodes = rows.shape
            own = scipy.sparse.csr_array((np.ones(n), ids, np.arange(n + 1)), (n, n_nodes))
            effects = hyper.nugget / hyper.amplitude * own
            rows = self.engine.hold(scipy.sparse.hstack([rows.to_scipy(), effects], format="csr"))
        return rows.matrix if isinstance(rows, HostFeatures) else rows


SomeGraphPrior: TypeAlias = WalkPrior | PolynomialPrior | AttributePrior
