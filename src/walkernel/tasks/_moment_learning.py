"""Hyper-parameters by maximum marginal likelihood, with exact covariances from Chebyshev moments.

Kernels of one family, or of all, are compared on at most 500 observed nodes, each with its best amplitude and
noise; the lengthscale of the best one is then refined between its neighbours. Amplitude and noise follow
from one eigendecomposition of the covariance where they can, else L-BFGS finds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import scipy.optimize

from walkernel._door import warn
from walkernel.kernels import Kernel
from walkernel.tasks._learning import Learned, Trials, scaled_problem
from walkernel.tasks._likelihood import LOGARITHMIC, Hyperparameters
from walkernel.tasks._moments import (
    Candidate,
    Moments,
    Search,
    compare_kernels,
    kernel_family,
    lengthscales,
    markov_family,
)
from walkernel.tasks._observations import Array, Observations
from walkernel.tasks._profile import (
    beyond_columns,
    eigenvalues_and_vectors,
    has_profile,
    is_observed_once,
    profiled,
)

MIN_FREE_SHARE = 1e-4
"""Least share of its variance that a kernel has beyond the columns of the mean."""


class Fit(NamedTuple):
    """The likelihood of a kernel with the best amplitude and noise of each output, and these."""

    value: float
    hypers: tuple[Hyperparameters, ...]


class Outputs:
    """Sets of observations of the same nodes, each in units of its own spread.

    They share the kernel; amplitude, noise and nugget belong to each of them.
    """

    def __init__(
        self, data: Sequence[Observations], starts: Sequence[Hyperparameters], learn: tuple[str, ...]
    ) -> None:
        self._starts, self._learn = starts, learn
        problems = [scaled_problem([one], start, learn) for one, start in zip(data, starts, strict=True)]
        self._data = [one for (one,), _, _ in problems]
        self._begins = [begin for _, begin, _ in problems]
        self.units = [unit for _, _, unit in problems]
        self.n_free = [one.place.size - one.offset.size for one in data]

    def fit(self, K: Array, kernel: Kernel, normalize: bool) -> Fit:
        """Return the best amplitude, noise and nugget for a covariance of the nodes, (n, n)."""
        hypers = [replace(begin, kernel=kernel, normalize=normalize) for begin in self._begins]
        return _best_scales(hypers, K, self._data, self._learn)

    def learned(self, found: Fit, n_evaluations: int) -> Learned:
        """Return what was found, in the units of y."""
        hypers = []
        for hyper, unit, start in zip(found.hypers, self.units, self._starts, strict=True):
            kept = {name: getattr(start, name) for name in LOGARITHMIC if name not in self._learn}
            hypers.append(replace(hyper.scaled(unit), **kept))
        value = found.value + self.shift([1.0] * len(hypers))
        n_nodes, n_free = self._data[0].ids.size, sum(self.n_free)
        return Learned(hypers[0], None, value, n_evaluations, n_nodes, n_free, tuple(hypers[1:]))

    def shift(self, units: Sequence[float]) -> float:
        """Return what is added to the likelihood for y in other units."""
        pairs = zip(self.n_free, self.units, units, strict=True)
        return sum(n * (math.log(new) - math.log(old)) for n, old, new in pairs)


def learn_by_moments(
    moments: Moments,
    data: Sequence[Observations],
    start: Hyperparameters,
    learn: tuple[str, ...],
    kernel: Kernel | None,
    normalize: bool | None,
    *,
    only_markov: bool = False,
) -> tuple[Learned, list[Candidate]]:
    """Return the hyper-parameters of largest likelihood, and the kernels that were compared.

    ``data`` are sets of observations of the nodes of the moments, at most 500: the kernel is chosen by the
    sum of their likelihoods, amplitude and noise for each of them. Where no kernel is given, the whole family
    is compared, with and without normalization if ``normalize`` is None, or the part of it that has sparse
    inverses. Kernels that are constant at the nodes, but for 1e-4 of their variance, are left out: they are
    hardly wider than others, and have fewer digits.
    """
    outputs = Outputs(data, [start] * len(data), learn)
    fits: dict[tuple[Kernel, bool], Fit] = {}

    def fit(kernel: Kernel, K: Array, normalize: bool) -> float:
        if fits and free_share(K, data[0]) < MIN_FREE_SHARE:
            return -math.inf
        scaled = replace(start, normalize=normalize).normalized(K)
        fits[kernel, normalize] = outputs.fit(scaled, kernel, normalize)
        return fits[kernel, normalize].value

    if kernel is not None and "lengthscale" not in learn:
        value = fit(kernel, moments.exact(kernel), start.normalize)
        candidates = [Candidate(kernel, value, start.normalize)]
    else:
        family = markov_family(moments.graph) if only_markov else kernel_family(moments.graph)
        kinds = family if kernel is None else [lengthscales(moments.graph, kernel)]
        search = compare_kernels(moments, kinds, fit, normalize)
        candidates = search.candidates()
        _refine(moments, search, candidates[0], fit)
    found = max(fits.values(), key=lambda one: one.value)
    return outputs.learned(found, len(fits)), candidates


def refit_scales(learned: Learned, K: Array, data: Sequence[Observations], learn: tuple[str, ...]) -> Learned:
    """Return the best amplitudes and noises for the kernel that was found, with Cov(g)/a² at all nodes."""
    outputs = Outputs(data, learned.hypers, learn)
    hyper = learned.hyper
    return outputs.learned(outputs.fit(K, hyper.kernel, hyper.normalize), learned.n_evaluations)


def _refine(
    moments: Moments, search: Search, best: Candidate, fit: Callable[[Kernel, Array, bool], float]
) -> None:
    """Fit kernels with lengthscales between the neighbours of the best one so far."""
    kernel, _, normalize = best
    tried = next(done for done in search.tried if kernel in [one.kernel for one in done])
    place = [one.kernel for one in tried].index(kernel)
    ends = tried[max(0, place - 1)].kernel, tried[min(len(tried) - 1, place + 1)].kernel
    low, high = (math.log(float(end.lengthscale)) for end in ends)  # type: ignore[arg-type]
    is_widest = place == len(tried) - 1 and not search.tried_wider(kernel)
    if is_widest and place and tried[-1].score > tried[-2].score + 0.5:
        warn(
            f"the likelihood still grows with the lengthscale at {kernel}, the widest kernel that was tried. "
            "Either the data do not determine the lengthscale, or the kernel should be wider."
        )

    def loss(log_width: float) -> float:
        other = kernel.with_lengthscale(math.exp(log_width))
        K = moments.covariance(other)
        return math.inf if K is None else -fit(other, K, normalize)

    if high > low:
        scipy.optimize.minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 0.05})


def _best_scales(
    hypers: Sequence[Hyperparameters], K: Array, data: Sequence[Observations], learn: tuple[str, ...]
) -> Fit:
    """Return the best amplitude, noise and nugget of each output for K at the observed nodes."""
    once = is_observed_once(data)
    values, vectors = eigenvalues_and_vectors(beyond_columns(K, data[0].sides[:, 1:]) if once else K)
    pairs = list(zip(hypers, data, strict=True))
    if once and all(has_profile(hyper, learn) for hyper in hypers):
        found = [profiled(hyper, values, [vectors.T @ one.sides]) for hyper, one in pairs]
    else:
        whole = (vectors * values) @ vectors.T
        found = [Trials([one], learn).best(hyper, whole)[:2] for hyper, one in pairs]
    return Fit(sum(value for value, _ in found), tuple(hyper for _, hyper in found))


def free_share(K: Array, observed: Observations) -> float:
    """Return the share of the variance of g, at all observed nodes, beyond the columns of the mean."""
    columns = observed.sides[:, 1:]
    if observed.place.size != observed.ids.size or observed.ids.size <= columns.shape[1]:
        return 1.0
    return float(beyond_columns(K, columns).trace() / K.trace())
