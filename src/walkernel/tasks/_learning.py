"""Hyper-parameters by maximum marginal likelihood: one walk sample serves every value that is tried.

Walks are drawn for lengthscales up to 1.5 times that of the start, as far as the series converges. Where the
likelihood still grows at the end of that range, or is largest far below it, the search goes on with walks
that suit it, so that no walk is stretched to a kernel that it hardly reaches; the hyper-parameters that are
returned come from the last sample alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import InfiniteVarianceWarning
from walkernel.kernels import Kernel
from walkernel.planning import NARROWER, WIDER, converging
from walkernel.tasks._covariances import Prior
from walkernel.tasks._likelihood import (
    LOGARITHMIC,
    FeaturesOf,
    Hyperparameters,
    Parameters,
    Weighed,
    likelihood_at,
    log_likelihood,
)
from walkernel.tasks._observations import EPSILON, Array, Observations
from walkernel.tasks._walk_cache import WALK_CACHE, WalkKind

MOST_LEARNED_FROM = 2000
"""Nodes whose exact likelihood is maximised; of more, so many are chosen at random."""
MOST_TRIED = 500
"""Nodes by which a start is chosen."""
LEAP = 2.0
"""How far the next range begins beyond this one, as a factor, where the best start is at its end."""
WORTH_A_LEAP = 1.01
FAR_BELOW = 1 / 4
"""A maximum so far below the range's center, as a factor, is sought again with shorter walks."""
LEAST_SHARE = 0.1
"""f(1) / f(0) below which a kernel is as good as diagonal."""
MOST_DOUBLINGS = 16
"""Doublings of a lengthscale that may make a kernel leave its node."""
MOST_SAMPLES = 8
"""Walk samples at most that a search takes."""
WORTH_A_SAMPLE = 0.5
"""What log p must gain, or how steep it must be in the log lengthscale, at an end of the range."""
MOST_BYTES = 2**32
"""Walks of one sample that are kept beyond the limit of the cache."""
MOST_PEAKS = 3
"""Lengths from 1 on at which a free f may begin to be largest."""
STOPPING = {"ftol": 1e-8, "maxiter": 100}
START_RANGE = 1e-6, 1e6
"""Amplitudes and noises that a search may begin with, relative to the spread of y."""
FEWEST_LEVELS = 2.0**16
"""Units of rounding that y must deviate by, lest rounding be part of what is learned."""
SIGNAL_SHARES = (0.95, 0.5)
"""Shares of the variance of y that a start gives to the prior."""


class Learned(NamedTuple):
    """Hyper-parameters, the walks they were learned from, and how."""

    hyper: Hyperparameters
    kind: WalkKind
    log_likelihood: float
    n_evaluations: int
    n_nodes: int
    n_free: int  # observations less columns of the mean


def learn_hyperparameters(
    owner: str,
    kind_for: Callable[[Kernel, tuple[str, ...]], WalkKind],
    data: Sequence[Observations],
    start: Hyperparameters,
    learn: tuple[str, ...],
) -> Learned:
    """Return the hyper-parameters of the largest marginal likelihood of sets of observations.

    All sets are of the same nodes. ``kind_for`` gives the walks for a start and what is learned.
    """
    for observed in data:
        _warn_of_rounding(owner, observed)
    spreads = np.array([observed.spread for observed in data])
    unit = float(spreads.max() * np.sqrt(np.mean((spreads / spreads.max()) ** 2)))
    begin = start.scaled(1 / unit)
    near: dict[str, Any] = {
        name: float(np.clip(getattr(begin, name), *START_RANGE)) for name in LOGARITHMIC if name in learn
    }
    learned, ends = _searched(kind_for, [one.scaled(unit) for one in data], replace(begin, **near), learn)
    hyper = learned.hyper.scaled(unit)
    kept = {name: getattr(start, name) for name in LOGARITHMIC if name not in learn}
    if not ends:
        warnings.warn(
            f"{owner}: the likelihood still changes with the lengthscale at {hyper.kernel}, where the "
            "search ends. Either the data do not say how wide the kernel is, or start from there.",
            stacklevel=3,
        )
    shift = learned.n_free * math.log(unit)
    return learned._replace(hyper=replace(hyper, **kept), log_likelihood=learned.log_likelihood - shift)


def _warn_of_rounding(owner: str, observed: Observations) -> None:
    """Warn if y has lost nearly all digits of its deviations to a constant, or to what covariates explain."""
    deviation, rounding = observed.deviation, observed.rounding
    if EPSILON * rounding * FEWEST_LEVELS < deviation < FEWEST_LEVELS * rounding:  # less is a constant
        used = (
            "they are taken for rounding" if observed.spread > deviation else "noise below that is rounding"
        )
        warnings.warn(
            f"{owner}: y deviates from the fitted mean function by {deviation:.2g}, and float64 resolves its "
            f"values to {rounding:.1g} only: {used}. Subtract the common part of y before it is rounded.",
            stacklevel=4,
        )


def _searched(
    kind_for: Callable[[Kernel, tuple[str, ...]], WalkKind],
    data: Sequence[Observations],
    start: Hyperparameters,
    learn: tuple[str, ...],
) -> tuple[Learned, bool]:
    """Return the maximum for y of unit spread, and whether the search came to an end."""
    if "lengthscale" in learn:
        start = replace(start, kernel=_that_leaves_its_node(start.kernel))
    n_evaluations = 0
    for sample in range(MOST_SAMPLES):
        kind = kind_for(start.kernel, learn)
        search = _Search(kind, data, start, learn)
        hyper, last = search.parameters.start, sample == MOST_SAMPLES - 1
        leap = converging(kind.graph, hyper.kernel, LEAP) if search.starts_at_the_end else 1.0
        if leap > WORTH_A_LEAP and not last:
            start = replace(hyper, kernel=hyper.kernel.with_lengthscale(leap * hyper.lengthscale))
            continue
        found = search.maximize()
        n_evaluations += found.nfev
        hyper = search.parameters.hyperparameters(found.x)
        too_narrow = search.is_open(found) and converging(kind.graph, hyper.kernel, WIDER) > WORTH_A_LEAP
        too_wide = hyper.lengthscale < FAR_BELOW * start.lengthscale and _leaves_its_node(hyper.kernel)
        if last or not (too_narrow or too_wide):
            break
        start = hyper
    n_free = sum(observed.place.size - observed.offset.size for observed in search.data)
    n_nodes = search.data[0].ids.size
    learned = Learned(hyper, kind, -float(found.fun), n_evaluations, n_nodes, n_free)
    return learned, not (search.is_open(found) or too_wide)


def _leaves_its_node(kernel: Kernel) -> bool:
    """Tell whether f has a share beyond its node that a likelihood can see."""
    f = np.abs(kernel.modulation(2))
    return bool(f[1] > LEAST_SHARE * f[0] or f[0] == 0)


def _that_leaves_its_node(kernel: Kernel) -> Kernel:
    """Return the kernel or a wider one: where K is nearly diagonal, the likelihood has no slope to climb."""
    if kernel.matrix == "adjacency" or kernel.lengthscale is None:
        return kernel
    wider = (kernel.with_lengthscale(kernel.lengthscale * 2.0**k) for k in range(MOST_DOUBLINGS))
    return next((one for one in wider if _leaves_its_node(one)), kernel)


class _Search:
    """A maximum of the likelihood over the range that one walk sample serves."""

    def __init__(
        self, kind: WalkKind, data: Sequence[Observations], start: Hyperparameters, learn: tuple[str, ...]
    ) -> None:
        self.data = some_nodes(data, kind.seed, MOST_LEARNED_FROM)
        self.features_of = features_of(kind, self.data[0].ids)
        self._tried = some_nodes(data, kind.seed, MOST_TRIED)
        self._tried_features_of = features_of(kind, self._tried[0].ids)
        wider = converging(kind.graph, start.kernel, WIDER) if "lengthscale" in learn else math.nan
        self._widest = wider * start.lengthscale
        starts = [start, *self._starts(start, learn)]
        self.parameters = Parameters(learn, max(starts, key=self._worth))
        self._bounds = self._bounds_around(start)

    @property
    def starts_at_the_end(self) -> bool:
        """Tell whether the widest kernel that the walks serve is the best start by far."""
        return "lengthscale" in self.parameters.learn and self._is_widest(self.parameters.start)

    def _is_widest(self, hyper: Hyperparameters) -> bool:
        return hyper.lengthscale > 0.999 * self._widest

    def _starts(self, start: Hyperparameters, learn: tuple[str, ...]) -> Iterator[Hyperparameters]:
        """Give lengthscales over the range, each with amplitude and noise that share the spread of y, 1."""
        kernels = [start.kernel]
        if "lengthscale" in learn:
            scales = np.geomspace(NARROWER * start.lengthscale, self._widest, 5)
            kernels = [start.kernel.with_lengthscale(scale) for scale in scales]
        shapes = [start.modulation] if start.modulation is None else _shapes(start.modulation)
        for kernel, shape in product(kernels, shapes):
            hyper = replace(start, kernel=kernel, modulation=shape)
            rows = hyper.rows(self._tried_features_of(hyper.weighing))
            power = rows.power(2).sum() / self._tried[0].ids.size
            for share in SIGNAL_SHARES:
                size = math.sqrt(share / (power or 1.0))
                if "amplitude" in learn:
                    hyper = replace(hyper, amplitude=size)
                if shape is not None:
                    hyper = replace(hyper, modulation=size * shape)
                rest = math.sqrt((1 - share) / (2 if {"noise", "nugget"} <= set(learn) else 1))
                if "noise" in learn:
                    hyper = replace(hyper, noise=rest)
                if "nugget" in learn:
                    hyper = replace(hyper, nugget=rest)
                yield hyper

    def _worth(self, hyper: Hyperparameters) -> float:
        """Return log p of the few nodes by which a start is chosen, the widest kernel at a handicap."""
        rows = hyper.rows(self._tried_features_of(hyper.weighing))
        covariance = hyper.with_nugget(Prior(rows, hyper.amplitude).covariance)
        found = [log_likelihood(one, covariance, hyper.noise, slopes=False).value for one in self._tried]
        return sum(found) - WORTH_A_SAMPLE * self._is_widest(hyper)

    def _bounds_around(self, start: Hyperparameters) -> NDArray[np.float64]:
        """Return the range of θ, (len(θ), 2)."""
        theta = self.parameters.theta(self.parameters.start)
        bounds = np.column_stack([theta - np.log(1e4), theta + np.log(1e4)])
        place = 0
        for name in self.parameters.learn:
            if name == "modulation":
                size = start.n_terms
                bounds[place : place + size] = -np.inf, np.inf
                place += size
                continue
            if name == "lengthscale":
                center = math.log(start.lengthscale)
                bounds[place] = center + math.log(NARROWER), math.log(self._widest)
            elif name in ("noise", "nugget"):
                bounds[place] = min(math.log(1e-3), theta[place]), max(math.log(1e2), theta[place])
            place += 1
        return bounds

    def maximize(self) -> scipy.optimize.OptimizeResult:
        """Climb from the start by L-BFGS."""

        def loss(theta: Array) -> tuple[float, Array]:
            value, gradient = likelihood_at(theta, self.parameters, self.features_of, self.data)
            return -value, -gradient

        theta = self.parameters.theta(self.parameters.start)
        if not theta.size:
            value, gradient = loss(theta)
            return scipy.optimize.OptimizeResult(x=theta, fun=value, jac=gradient, nfev=1)
        return scipy.optimize.minimize(
            loss, theta, jac=True, method="L-BFGS-B", bounds=self._bounds, options=STOPPING
        )

    def is_open(self, found: scipy.optimize.OptimizeResult) -> bool:
        """Tell whether the likelihood still grows beyond the largest lengthscale."""
        if "lengthscale" not in self.parameters.learn:
            return False
        place = self.parameters.learn.index("lengthscale")
        at_end = np.isclose(found.x[place], self._bounds[place, 1], atol=1e-6)
        return bool(at_end and abs(found.jac[place]) > WORTH_A_SAMPLE)


def _shapes(f: Array) -> list[Array]:
    """Return starts of a free f, whose likelihood has many maxima: itself, and peaks at single lengths."""
    peaks = 0.1 + np.eye(f.size)[1 : 1 + MOST_PEAKS]
    return [f, *peaks]


def features_of(kind: WalkKind, ids: NDArray[np.int64]) -> FeaturesOf:
    """Return what makes features of some nodes, for any f, from the same walks; those of units are kept.

    Walks that are too many for the cache are kept here as long as hyper-parameters are learned from them.
    """
    of_units: dict[int, scipy.sparse.csr_array] = {}
    own = kind.walk(ids) if WALK_CACHE.limit < kind.n_bytes(ids.size) <= MOST_BYTES else None

    def weighed(weighing: Weighed) -> scipy.sparse.csr_array:
        return WALK_CACHE.features(kind, weighing, ids) if own is None else own.features(weighing)

    def features(weighing: Weighed) -> scipy.sparse.csr_array:
        with warnings.catch_warnings():  # of widths that are only tried
            warnings.simplefilter("ignore", InfiniteVarianceWarning)
            if not (isinstance(weighing, np.ndarray) and np.count_nonzero(weighing) == 1 == weighing.sum()):
                return weighed(weighing)
            length = int(weighing.argmax())
            if length not in of_units:
                of_units[length] = weighed(weighing)
            return of_units[length]

    return features


def some_positions(n: int, seed: int, most: int = MOST_LEARNED_FROM) -> NDArray[np.int64]:
    """Return at most so many of n positions, chosen at random, in ascending order."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(seed).choice(n, most, replace=False))


def some_nodes(data: Sequence[Observations], seed: int, most: int) -> list[Observations]:
    """Return the observations of at most so many nodes, chosen at random."""
    positions = some_positions(data[0].ids.size, seed, most)
    return [observed.of_nodes(positions) for observed in data]
