"""Hyper-parameters by maximum marginal likelihood: the same walks serve every value that is tried.

One set of walks serves a window of lengthscales, from an eighth of its center to 1.5 times the center. The
centers are powers of two, so neither the walks nor the lengthscales that are compared depend on the start
that the user gives. The windows are scanned upwards, beginning with the narrowest kernel that differs from a
diagonal one, at two lengthscales each and with the best amplitude and noise for each lengthscale. The cost of
a window grows with the square of the lengthscale, so the scan stops at the first window that brings no gain,
or at the end of which the likelihood has dropped clearly. L-BFGS then starts from the best lengthscale; if it
reaches the end of its window, it continues in the next one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from walkernel._checks import InfiniteVarianceWarning
from walkernel._door import warn, without_warnings
from walkernel.engines import Engine
from walkernel.features import FeatureMatrix, KernelOrF
from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.planning import NARROWER, WIDER, widest_served
from walkernel.tasks._likelihood import (
    LOGARITHMIC,
    NO_WINDOW,
    FeaturesOf,
    Hyperparameters,
    Parameters,
    likelihood_at,
    log_likelihood,
    scale_likelihood_at,
)
from walkernel.tasks._observations import EPSILON, Array, Observations
from walkernel.tasks._profile import (
    beyond_columns,
    eigenvalues_and_vectors,
    has_profile,
    is_observed_once,
    profiled,
)
from walkernel.tasks._solvers import as_array
from walkernel.tasks._walk_cache import WALK_CACHE, record_bytes, weighted
from walkernel.walks import WalkSpec

MAX_LEARNING_NODES = 2000
"""At most this many observed nodes, chosen at random, are used to learn the hyper-parameters."""
MAX_TRIAL_NODES = 250
"""At most this many observed nodes are used to compare lengthscales and starts."""
FAR_BELOW_CENTER = 1 / 4
"""A maximum below this fraction of the center of its window is searched again with shorter walks."""
MIN_SHARE = 0.1
"""A kernel whose f(1) / f(0) is smaller counts as diagonal."""
MAX_WINDOWS = 64
"""Maximum number of windows."""
MIN_GAIN = 0.1
"""Gain of log p in a window without which no wider window is scanned."""
TIE = 1e-3
"""Gain of log p without which the narrower one of two kernels is taken."""
MAX_DROP = 3.0
"""Drop of log p below its maximum, at the end of a window, beyond which no wider window is scanned."""
MIN_CORRELATION = 0.3
"""Observed nodes count as correlated if the median of their largest correlations exceeds this value."""
MIN_SLOPE, MIN_WARNED_SLOPE = 0.05, 0.5
"""Slopes of log p in the log lengthscale at the end of a window: above the first, the next window is
searched; above the second, a warning is given if there is no next window."""
MAX_LEARNING_BYTES = 2**32
"""Size up to which walks that exceed the limit of the cache are kept while learning from them."""
MAX_SPECULATIVE_BYTES = 2**30
"""Size up to which walks are drawn for a window while the observed nodes are not yet correlated."""
MAX_PEAKS = 3
"""Number of starts of a free f that have their peak at a single length, 1, 2, …"""
STOPPING = {"ftol": 1e-8, "maxiter": 100}
START_RANGE = 1e-6, 1e6
"""Range of the amplitudes and noises that a search may start from, relative to the spread of y."""
MIN_LEVELS = 2.0**16
"""Units of rounding by which y must deviate, so that rounding errors are not learned as noise."""
SIGNAL_SHARES = (0.95, 0.5)
"""Shares of the variance of y that a start assigns to the prior."""

SpecFor = Callable[[Kernel], WalkSpec]
"""Returns the walks for a kernel, and for the others of its window if the lengthscale is learned."""


class Learned(NamedTuple):
    """Learned hyper-parameters, the walks they were learned from, and the course of the search."""

    hyper: Hyperparameters
    spec: WalkSpec | None  # None for moments
    log_likelihood: float
    n_evaluations: int
    n_nodes: int
    n_free: int  # observations less columns of the mean
    others: tuple[Hyperparameters, ...] = ()  # those of further outputs, which share kernel and walks

    @property
    def hypers(self) -> tuple[Hyperparameters, ...]:
        """The hyper-parameters of all outputs."""
        return self.hyper, *self.others


def learn_hyperparameters(
    graph: Graph,
    spec_for: SpecFor,
    engine: Engine,
    data: Sequence[Observations],
    start: Hyperparameters,
    learn: tuple[str, ...],
) -> Learned:
    """Return the hyper-parameters that maximise the summed marginal likelihood of sets of observations.

    All sets are of the same nodes. Among the learned hyper-parameters, only a free f depends on ``start``.
    """
    if not learn:
        return Learned(start, spec_for(start.kernel), np.nan, 0, 0, 0)
    scaled, first, unit = scaled_problem(data, start, learn)

    def search_for(kernel: Kernel) -> _Search:
        return _Search(spec_for(kernel), engine, scaled, learn)

    if "lengthscale" in learn:
        ends = window_ends(first.kernel, widest_served(graph, first.kernel))
        learned, still_grows = _search_windows(search_for, first, ends)
    else:
        search = search_for(first.kernel)
        (learned, _), still_grows = search.climb(search.best_start(first)), False
    hyper = learned.hyper.scaled(unit)
    kept = {name: getattr(start, name) for name in LOGARITHMIC if name not in learn}
    if still_grows:
        warn(
            f"the likelihood still grows with the lengthscale at {hyper.kernel}, the widest kernel "
            "that a search by walks can afford. Either the data do not determine the lengthscale, or the "
            "kernel should be wider: use Diffusion or a larger nu."
        )
    shift = learned.n_free * math.log(unit)
    return learned._replace(hyper=replace(hyper, **kept), log_likelihood=learned.log_likelihood - shift)


def trial_likelihood(
    graph: Graph,
    spec_for: SpecFor,
    engine: Engine,
    data: Sequence[Observations],
    start: Hyperparameters,
    learn: tuple[str, ...],
) -> float:
    """Return log p(y) at the trial nodes, for y of spread 1, of the best lengthscale that is tried."""
    scaled, first, _ = scaled_problem(data, start, learn)
    ends = window_ends(first.kernel, widest_served(graph, first.kernel))

    def search_in(place: int) -> _Search:
        center = first.kernel.with_lengthscale(ends[place] / WIDER)
        return _Search(spec_for(center), engine, scaled, learn)

    return _scan(search_in, first, ends)[1].value


def scaled_problem(
    data: Sequence[Observations], start: Hyperparameters, learn: tuple[str, ...]
) -> tuple[list[Observations], Hyperparameters, float]:
    """Return observations and start in units of the spread of y, and this unit."""
    for observed in data:
        _warn_of_rounding(observed)
    spreads = np.array([observed.spread for observed in data])
    unit = float(spreads.max() * np.sqrt(np.mean((spreads / spreads.max()) ** 2)))
    begin = start.scaled(1 / unit)
    near: dict[str, Any] = {
        name: float(np.clip(getattr(begin, name), *START_RANGE)) for name in LOGARITHMIC if name in learn
    }
    return [one.scaled(unit) for one in data], replace(begin, **near), unit


def _warn_of_rounding(observed: Observations) -> None:
    """Warn if rounding leaves hardly a digit of the deviations of y from a constant or the covariates."""
    deviation, rounding = observed.deviation, observed.rounding
    if EPSILON * rounding * MIN_LEVELS < deviation < MIN_LEVELS * rounding:  # less is a constant
        used = (
            "they are taken for rounding" if observed.spread > deviation else "noise below that is rounding"
        )
        warn(
            f"y deviates from the fitted mean function by {deviation:.2g}, and float64 resolves its "
            f"values to {rounding:.1g} only: {used}. Subtract the common part of y before it is rounded."
        )


class _Trial(NamedTuple):
    """The likelihood of a lengthscale with the best amplitude and noise, on the trial nodes."""

    value: float
    hyper: Hyperparameters
    is_correlated: bool


def _search_windows(
    search_for: Callable[[Kernel], _Search], start: Hyperparameters, ends: list[float]
) -> tuple[Learned, bool]:
    """Return the maximum over all windows, and whether the likelihood still grows at the widest kernel."""

    def search_in(place: int) -> _Search:
        return search_for(start.kernel.with_lengthscale(ends[place] / WIDER))

    place, trial = _scan(search_in, start, ends)
    hyper = trial.hyper
    visited: set[int] = set()
    n_evaluations = 0
    while True:
        visited.add(place)
        end = ends[place]
        center = end / WIDER
        learned, slope = search_in(place).climb(hyper, (NARROWER * center, end))
        hyper, n_evaluations = learned.hyper, n_evaluations + learned.n_evaluations
        slope = slope if hyper.lengthscale > 0.999 * end else 0.0
        if slope > MIN_SLOPE and place + 1 < len(ends):
            other = place + 1
        elif hyper.lengthscale < FAR_BELOW_CENTER * center:
            other = int(np.searchsorted(ends, hyper.lengthscale))
        else:
            break
        if other in visited:
            break
        place = other
    return learned._replace(n_evaluations=n_evaluations), slope > MIN_WARNED_SLOPE


def _scan(
    search_in: Callable[[int], _Search], start: Hyperparameters, ends: list[float]
) -> tuple[int, _Trial]:
    """Return the window of the best lengthscale tried, and the likelihood and hyper-parameters there."""
    best_place = 0
    best = last = _Trial(-math.inf, start, False)
    for place, end in enumerate(ends):
        search = search_in(place)
        if not (place == 0 or last.is_correlated or search.is_cheap):
            break
        before = best.value
        for width in (end / math.sqrt(2), end):
            last = search.trial(replace(start, kernel=start.kernel.with_lengthscale(width)))
            if last.value > best.value + TIE:
                best_place, best = place, last
        gained = best.value > before + MIN_GAIN and last.value > best.value - MAX_DROP
        if last.is_correlated and not gained:
            break
    return best_place, best


def window_ends(kernel: Kernel, widest: float) -> list[float]:
    """Return the largest lengthscale of each window, ascending: 1.5 times powers of two, and ``widest``.

    The first window is the narrowest whose kernel is not practically diagonal.
    """

    def share(lengthscale: float) -> float:
        f = np.abs(kernel.with_lengthscale(lengthscale).modulation(2))
        return f[1] / f[0] if f[0] > 0 else math.inf

    least = min(MIN_SHARE, share(widest) / 2)
    ends = [widest]
    power = math.ceil(math.log2(widest / WIDER)) - 1
    while share(ends[-1]) > least and len(ends) < MAX_WINDOWS:
        ends.append(WIDER * 2.0**power)
        power -= 1
    return ends[::-1]


class Trials:
    """Maximisation of the likelihood over amplitude, noise and nugget for given covariances."""

    def __init__(self, data: Sequence[Observations], learn: tuple[str, ...]) -> None:
        self._tried, self._learn = data, learn

    def best(self, hyper: Hyperparameters, own: Array) -> _Trial:
        """Return the maximum for K at the nodes, (n, n), as far as the three are learned."""
        if has_profile(hyper, self._learn) and is_observed_once(self._tried):
            values, vectors = eigenvalues_and_vectors(beyond_columns(own, self._tried[0].sides[:, 1:]))
            value, found = profiled(hyper, values, [vectors.T @ one.sides for one in self._tried])
            size = 1 / math.sqrt(own.trace() / len(own) or 1.0)
            parameters = Parameters(("amplitude", "noise"), replace(hyper, amplitude=size, noise=1.0))
            inside = np.clip(parameters.theta(found), *parameters.bounds().T)  # where y is constant
            return _Trial(value, parameters.hyperparameters(inside), _is_correlated(own))
        best = max(self._split_variance(hyper, own), key=lambda one: one.value)
        names = tuple(name for name in self._learn if name in LOGARITHMIC)
        if not names:
            return best
        parameters = Parameters(names, best.hyper)
        optimum = _maximize(
            lambda theta: scale_likelihood_at(theta, parameters, own, self._tried),
            parameters.theta(best.hyper),
            parameters.bounds(),
        )
        return best._replace(value=-float(optimum.fun), hyper=parameters.hyperparameters(optimum.x))

    def _split_variance(self, hyper: Hyperparameters, gram: Array) -> Iterator[_Trial]:
        """Yield starts that split the variance of y, 1, between the prior and the noise."""
        power = gram.trace() / len(gram)
        for share in SIGNAL_SHARES:
            size = math.sqrt(share / (power or 1.0))
            rest = math.sqrt((1 - share) / (2 if {"noise", "nugget"} <= set(self._learn) else 1))
            split = {"amplitude": size, "noise": rest, "nugget": rest}
            changes: dict[str, Any] = {name: split[name] for name in self._learn if name in split}
            if hyper.modulation is None:
                yield self._evaluate(replace(hyper, **changes), gram)
            else:
                changes["modulation"] = size * hyper.modulation
                yield self._evaluate(replace(hyper, **changes), size**2 * gram)

    def _evaluate(self, hyper: Hyperparameters, gram: Array) -> _Trial:
        covariance = hyper.with_nugget(hyper.amplitude**2 * gram)
        found = [log_likelihood(one, covariance, hyper.noise, slopes=False).value for one in self._tried]
        return _Trial(sum(found), hyper, _is_correlated(gram))


class _Search(Trials):
    """Maximisation of the likelihood with one set of walks."""

    def __init__(
        self, spec: WalkSpec, engine: Engine, data: Sequence[Observations], learn: tuple[str, ...]
    ) -> None:
        super().__init__(sample_nodes(data, spec.seed, MAX_TRIAL_NODES), learn)
        self._spec, self._engine, self._all = spec, engine, data

    @property
    def is_cheap(self) -> bool:
        """Whether the walks from the trial nodes are small enough to be drawn speculatively."""
        return record_bytes(self._spec, self._tried[0].ids.size) <= MAX_SPECULATIVE_BYTES

    @cached_property
    def _tried_features_of(self) -> FeaturesOf:
        return features_of(self._spec, self._tried[0].ids, self._engine)

    def _gram(self, hyper: Hyperparameters) -> Array:
        """Return ΦΦᵀ of the trial nodes."""
        rows = hyper.rows(self._tried_features_of(hyper.weights))
        return as_array(rows.gram(rows))

    def best_start(self, start: Hyperparameters) -> Hyperparameters:
        """Return the best of the given start and of those that split the variance of y, 1, differently."""
        shapes: list[Array | None] = [start.modulation]
        if start.modulation is not None:  # its likelihood has many maxima: peaks at single lengths, too
            shapes += list(0.1 + np.eye(start.n_terms)[1 : 1 + MAX_PEAKS])
        starts = [self._evaluate(start, self._gram(start))]
        for shape in shapes:
            hyper = replace(start, modulation=shape)
            starts += self._split_variance(hyper, self._gram(hyper))
        return max(starts, key=lambda one: one.value).hyper

    def trial(self, hyper: Hyperparameters) -> _Trial:
        """Maximise the likelihood over amplitude, noise and nugget, as far as they are learned."""
        return self.best(hyper, self._gram(hyper))

    def climb(self, start: Hyperparameters, window: tuple[float, float] = NO_WINDOW) -> tuple[Learned, float]:
        """Return the maximum that L-BFGS finds from a start, and the slope of log p in the log lengthscale.

        A lengthscale that is learned stays within the window.
        """
        data = sample_nodes(self._all, self._spec.seed, MAX_LEARNING_NODES)
        features = features_of(self._spec, data[0].ids, self._engine)
        parameters = Parameters(self._learn, start)
        found = _maximize(
            lambda theta: likelihood_at(theta, parameters, features, data),
            parameters.theta(start),
            parameters.bounds(window),
        )
        slope = -found.jac[self._learn.index("lengthscale")] if "lengthscale" in self._learn else 0.0
        n_free = sum(observed.place.size - observed.offset.size for observed in data)
        hyper, n_nodes = parameters.hyperparameters(found.x), data[0].ids.size
        return Learned(hyper, self._spec, -float(found.fun), found.nfev, n_nodes, n_free), float(slope)


def _maximize(
    objective: Callable[[Array], tuple[float, Array]], start: Array, bounds: NDArray[np.float64]
) -> scipy.optimize.OptimizeResult:
    """Maximise a function of θ, given with its gradient, by L-BFGS; the result is of the negative."""

    def loss(theta: Array) -> tuple[float, Array]:
        value, gradient = objective(theta)
        return -value, -gradient

    if not start.size:
        value, gradient = loss(start)
        return scipy.optimize.OptimizeResult(x=start, fun=value, jac=gradient, nfev=1)
    return scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options=STOPPING)


def _is_correlated(gram: Array) -> bool:
    """Return whether most nodes are clearly correlated with another one."""
    if len(gram) < 2:
        return True
    scales = np.sqrt(np.maximum(gram.diagonal(), np.finfo(float).tiny))
    correlations = gram / np.outer(scales, scales)
    np.fill_diagonal(correlations, 0.0)
    return bool(np.median(correlations.max(axis=1)) > MIN_CORRELATION)


def features_of(spec: WalkSpec, ids: NDArray[np.int64], engine: Engine) -> FeaturesOf:
    """Return a function that computes the features of some nodes for any f from the same walks.

    The features of unit vectors f are cached. Walks that are too large for ``WALK_CACHE`` are kept here while
    hyper-parameters are learned from them.
    """
    unit_features: dict[int, FeatureMatrix] = {}
    is_kept = WALK_CACHE.limit < record_bytes(spec, ids.size) <= MAX_LEARNING_BYTES
    own = engine.walks(spec.at(ids)) if is_kept else None

    def found(weights: KernelOrF) -> FeatureMatrix:
        return WALK_CACHE.held(spec, weights, ids, engine) if own is None else weighted(own, weights)

    def features(weights: KernelOrF) -> FeatureMatrix:
        with without_warnings(InfiniteVarianceWarning):  # of lengthscales that are only tried
            if not (isinstance(weights, np.ndarray) and np.count_nonzero(weights) == 1 == weights.sum()):
                return found(weights)
            length = int(weights.argmax())
            if length not in unit_features:
                unit_features[length] = found(weights)
            return unit_features[length]

    return features


def sample_positions(n: int, seed: int, most: int = MAX_LEARNING_NODES) -> NDArray[np.int64]:
    """Return at most ``most`` of n positions, chosen at random, in ascending order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def sample_nodes(data: Sequence[Observations], seed: int, most: int) -> list[Observations]:
    """Return the observations of at most ``most`` nodes, chosen at random."""
    positions = sample_positions(data[0].ids.size, seed, most)
    return [observed.select_nodes(positions) for observed in data]
