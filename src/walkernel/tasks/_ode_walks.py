"""The walk engine of ``solve_ode``: sums of terms exp(sG) v, with error bars from groups of walks.

Symmetric pair: x̂ = L̄ (R̄ᵀ v), where L̄ and R̄ are means over groups of features of independent walks. The
variance is that over the left groups with the right mean fixed, plus the reverse. Lazy pair: R is the
identity. Walks are drawn block by block of start nodes and never kept; their keys make them the same for
every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel.graph import Graph
from walkernel.kernels import Kernel
from walkernel.products import multiply
from walkernel.sampling import sample_walks
from walkernel.tasks._walk_cache import Coefficients
from walkernel.walks import Sampler

GROUPS = 16
DEPOSITS_AT_ONCE = 2**23
NUMBERS_AT_ONCE = 2**27
"""Numbers that right-hand sides may take together."""


class Term(NamedTuple):
    """K v, a share of x at the output time with this position."""

    time: int
    kernel: Kernel
    vector: NDArray[np.float64]  # (n_nodes,)
    sampled: bool  # whether it stands for one of several times drawn at random


class Estimate(NamedTuple):
    """x and its variance over walks, both (n_times, nodes), and the shares of the terms, (n_terms, nodes)."""

    x: NDArray[np.float64]
    variance: NDArray[np.float64]
    shares: NDArray[np.float64]
    terms: list[Term]

    def at(self, ids: NDArray[np.int64]) -> Estimate:
        """Return the same for some of the nodes."""
        return Estimate(self.x[:, ids], self.variance[:, ids], self.shares[:, ids], self.terms)


class WalkPlan(NamedTuple):
    """How walks are drawn for the terms."""

    graph: Graph
    ids: NDArray[np.int64]
    pair: str
    n_walks: int
    sampler: Sampler
    seed: int
    matrix: str
    n_threads: int
    progress: Callable[[int, int], object] | None

    @property
    def n_groups(self) -> int:
        """Number of independent groups."""
        return min(GROUPS, self.n_walks)

    def features(
        self, ids: NDArray[np.int64], stream: int, transpose: bool, terms: list[Term]
    ) -> Iterator[tuple[NDArray[np.int64], list[scipy.sparse.csr_array]]]:
        """Yield blocks of start nodes and their features, one for each term, from the same walks."""
        count = -(-self.n_walks // self.n_groups)
        size = max(1, int(DEPOSITS_AT_ONCE / (count * (1 + self.sampler.mean_steps))))
        for first in range(0, ids.size, size):
            block = ids[first : first + size]
            walks = sample_walks(
                self.graph, count, sampler=self.sampler, seed=self.seed, stream=stream,
                nodes=self.graph.names(block), matrix=self.matrix, transpose=transpose,
                n_threads=self.n_threads,
            )  # fmt: skip
            sequences: list[Any] = [term.kernel for term in terms]
            if self.pair == "lazy":
                sequences = [Coefficients(kernel) for kernel in sequences]
            yield block, [walks.features(sequence) for sequence in sequences]


def solve_by_walks(plan: WalkPlan, terms: list[Term], n_times: int) -> Estimate:
    """Estimate the sums of the terms of each output time."""
    x, variance = np.zeros((2, n_times, plan.ids.size))
    shares = np.zeros((len(terms), plan.ids.size))
    chunks = _chunks(plan, terms, n_times)
    for done, times in enumerate(chunks):
        inside = [i for i, term in enumerate(terms) if term.time in times]
        left, right, shares[inside] = _group_estimates(plan, [terms[i] for i in inside], times)
        x[times] = left.mean(axis=2)
        variance[times] = (left.var(axis=2, ddof=1) + right.var(axis=2, ddof=1)) / plan.n_groups
        if plan.progress is not None:
            plan.progress(done + 1, len(chunks))
    return Estimate(x, variance, shares, terms)


def _chunks(plan: WalkPlan, terms: list[Term], n_times: int) -> list[list[int]]:
    """Split the output times so that the right-hand sides of each part fit into memory."""
    per_time = (1 + plan.n_groups) * (plan.graph.n_nodes * len(terms) / n_times + 2 * plan.ids.size)
    size = max(1, int(NUMBERS_AT_ONCE / per_time))
    return [list(range(first, min(first + size, n_times))) for first in range(0, n_times, size)]


def _group_estimates(
    plan: WalkPlan, terms: list[Term], times: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return x with one group on the left, and on the right, (times, nodes, groups), and the shares."""
    left, right = np.zeros((2, len(times), plan.ids.size, plan.n_groups))
    shares = np.zeros((len(terms), plan.ids.size))
    carried = _right_sides(plan, terms)
    for group in range(plan.n_groups):
        first = 0
        for block, features in plan.features(plan.ids, group, False, terms):
            rows = slice(first, first + block.size)
            first += block.size
            for share, term, phi, vectors in zip(shares, terms, features, carried, strict=True):
                products, time = multiply(phi, vectors, plan.n_threads), times.index(term.time)
                share[rows] += products[:, 0] / plan.n_groups
                left[time, rows, group] += products[:, 0]
                if plan.pair == "symmetric":
                    right[time, rows] += products[:, 1:]
    return left, right / plan.n_groups, shares


def _right_sides(plan: WalkPlan, terms: list[Term]) -> list[NDArray[np.float64]]:
    """Return R̄ᵀv and R_gᵀv of every group, (n_nodes, 1 + groups), for each term; v alone if lazy."""
    if plan.pair == "lazy":
        return [term.vector[:, None] for term in terms]
    groups = plan.n_groups
    carried = [np.zeros((plan.graph.n_nodes, 1 + groups)) for _ in terms]
    for support, some in _by_support(terms):
        for group in range(groups):
            chosen = [terms[i] for i in some]
            for block, features in plan.features(support, groups + group, plan.graph.directed, chosen):
                for i, phi in zip(some, features, strict=True):
                    carried[i][:, 1 + group] += phi.T @ terms[i].vector[block]
    for sums in carried:
        sums[:, 0] = sums[:, 1:].mean(axis=1)
    return carried


def _by_support(terms: list[Term]) -> Iterator[tuple[NDArray[np.int64], list[int]]]:
    """Yield the nodes where some terms' vectors are not zero, and the positions of these terms."""
    together: dict[bytes, list[int]] = {}
    for i, term in enumerate(terms):
        together.setdefault(np.packbits(term.vector != 0).tobytes(), []).append(i)
    for some in together.values():
        yield np.flatnonzero(terms[some[0]].vector), some
