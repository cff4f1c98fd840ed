"""``solve_ode`` by walks: sums of terms exp(sG) v, with error bars from groups of walks.

Symmetric pair: x̂ = L̄ (R̄ᵀ v), where L̄ and R̄ are means over groups of features of independent walks. The
variance is that over the left groups with the right mean fixed, plus the reverse. Lazy pair: R is the
identity. Walks are drawn block by block of start nodes and never kept; their keys make them the same for
every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import InfiniteVarianceWarning
from walkernel._door import without_warnings
from walkernel.engines import Engine
from walkernel.features import HostFeatures, Lazy, Symmetric
from walkernel.kernels import Kernel
from walkernel.operators import standard_errors
from walkernel.walks import WalkSpec

GROUPS = 16
DEPOSITS_AT_ONCE = 2**23
NUMBERS_AT_ONCE = 2**27
"""Floats that all right-hand sides together may take."""


class Term(NamedTuple):
    """K v, a term of the sum x at the output time with this position."""

    time: int
    kernel: Kernel
    vector: Callable[[], NDArray[np.float64]]  # returns (n_nodes,)
    sampled: bool  # whether its time was drawn at random


class WalkPlan(NamedTuple):
    """How the walks of the terms are drawn."""

    spec: WalkSpec
    pair: type[Symmetric] | type[Lazy]
    engine: Engine
    progress: Callable[[int, int], object] | None

    @property
    def n_groups(self) -> int:
        """Number of independent groups."""
        return min(GROUPS, self.spec.n_walks)

    def features(
        self, ids: NDArray[np.int64], stream: int, transpose: bool, terms: list[Term]
    ) -> Iterator[tuple[NDArray[np.int64], list[scipy.sparse.csr_array]]]:
        """Yield blocks of start nodes and their features, one for each term, from the same walks."""
        spec = self.spec.first_walks(-(-self.spec.n_walks // self.n_groups)).on_stream(stream)
        spec = replace(spec, transpose=transpose)
        size = max(1, int(DEPOSITS_AT_ONCE / (spec.n_walks * (1 + spec.sampler.mean_steps))))
        for first in range(0, ids.size, size):
            block = ids[first : first + size]
            walks = self.engine.walks(spec.at(block))
            with without_warnings(InfiniteVarianceWarning):  # the walks suit the last time
                features = [walks.features(self.pair(term.kernel)) for term in terms]
            yield block, features


def solve_by_walks(
    plan: WalkPlan, terms: list[Term], n_times: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Estimate the sums of the terms, which are sorted by time.

    Returns x and its variance over walks, (n_times, nodes), and the share of each term in x,
    (n_terms, nodes), or an array without rows if no time is random.
    """
    x, variance = np.zeros((2, n_times, plan.spec.ids.size))
    shares = np.zeros((len(terms) if any(term.sampled for term in terms) else 0, plan.spec.ids.size))
    first = 0
    chunks = _chunks(plan, len(terms) / n_times, n_times)
    for done, times in enumerate(chunks):
        chunk = [term for term in terms if times[0] <= term.time <= times[-1]]
        left, right = _group_estimates(plan, chunk, times, shares[first : first + len(chunk)])
        first += len(chunk)
        x[times] = left.mean(axis=2)
        sides = (side - side.mean(axis=2, keepdims=True) for side in (left, right))
        variance[times] = sum(standard_errors(side) ** 2 for side in sides)
        if plan.progress is not None:
            plan.progress(done + 1, len(chunks))
    return x, variance, shares


def _chunks(plan: WalkPlan, terms_per_time: float, n_times: int) -> list[list[int]]:
    """Split the output times so that the right-hand sides of each part fit into memory."""
    columns = 1 if plan.pair is Lazy else 1 + plan.n_groups
    per_time = columns * plan.spec.graph.n_nodes * terms_per_time + 2 * plan.n_groups * plan.spec.ids.size
    size = max(1, int(NUMBERS_AT_ONCE / max(per_time, 1)))
    return [list(range(first, min(first + size, n_times))) for first in range(0, n_times, size)]


def _group_estimates(
    plan: WalkPlan, terms: list[Term], times: list[int], shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return x with one group on the left, and on the right, (times, nodes, groups); add to the shares."""
    left, right = np.zeros((2, len(times), plan.spec.ids.size, plan.n_groups))
    carried = _right_sides(plan, terms)
    for group in range(plan.n_groups):
        first = 0
        for block, features in plan.features(plan.spec.ids, group, False, terms):
            rows = slice(first, first + block.size)
            first += block.size
            for i, (term, phi, vectors) in enumerate(zip(terms, features, carried, strict=True)):
                products = HostFeatures(phi, n_threads=plan.engine.n_threads).multiply(vectors)
                time = term.time - times[0]
                left[time, rows, group] += products[:, 0]
                if plan.pair is Symmetric:
                    right[time, rows] += products[:, 1:]
                if shares.size:
                    shares[i, rows] += products[:, 0] / plan.n_groups
    return left, right / plan.n_groups


def _right_sides(plan: WalkPlan, terms: list[Term]) -> list[NDArray[np.float64]]:
    """Return R̄ᵀv and R_gᵀv of every group, (n_nodes, 1 + groups), for each term; v alone if lazy."""
    vectors = [term.vector() for term in terms]
    if plan.pair is Lazy:
        return [vector[:, None] for vector in vectors]
    groups = plan.n_groups
    carried = [np.zeros((plan.spec.graph.n_nodes, 1 + groups)) for _ in terms]
    for support, some in _by_support(vectors):
        for group in range(groups):
            chosen = [terms[i] for i in some]
            for block, features in plan.features(support, groups + group, plan.spec.graph.directed, chosen):
                for i, phi in zip(some, features, strict=True):
                    carried[i][:, 1 + group] += phi.T @ vectors[i][block]
    for sums in carried:
        sums[:, 0] = sums[:, 1:].mean(axis=1)
    return carried


def _by_support(vectors: list[NDArray[np.float64]]) -> Iterator[tuple[NDArray[np.int64], list[int]]]:
    """Yield the nodes where some vectors are not zero, and the positions of these vectors."""
    together: dict[bytes, list[int]] = {}
    for i, vector in enumerate(vectors):
        together.setdefault(np.packbits(vector != 0).tobytes(), []).append(i)
    for some in together.values():
        yield np.flatnonzero(vectors[some[0]]), some
