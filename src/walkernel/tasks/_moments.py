"""Covariances of a few nodes under many kernels, from one set of Chebyshev moments for each matrix.

The widths of the kernels are tried from narrow to wide. A wide kernel takes more terms of the recurrence: the
first moments have as many of 64, 128, 256 or 512 terms as take little work, and more of them are computed
while the best kernel is the widest of its kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import refuse
from walkernel.graph import Graph
from walkernel.kernels import Diffusion, Kernel, Matern
from walkernel.operators import ChebyshevBasis, LeadingEigenvectors, States

Array: TypeAlias = NDArray[np.float64]

ROUNDS = (64, 128, 256, 512, 1024, 2048)
"""Numbers of terms of the recurrence that are tried in turn."""
MAX_TERMS = 2**13
"""Terms of the longest polynomial of a single kernel."""
MAX_WORK = 2**35
"""Multiplications that the moments of one matrix may take in a search."""
MAX_MOMENTS = 2**27
"""Numbers that the moments of one matrix may have."""
MAX_COMPARED_NODES = 500
"""At most this many observed nodes, chosen at random, decide between kernels."""
MIN_TOLERANCE = 1e-11
"""Least error of a polynomial, relative to the maximum of the kernel, that rounding leaves within reach."""
MAX_STATE = 2**25
"""Numbers in the state of a recurrence up to which it is continued instead of repeated."""
MIN_COMPARED_NODES, MANY_TERMS = 100, 512
"""At least this many observed nodes decide between kernels, and terms that they should afford."""
TOLERANCE = 1e-8
"""Error of a covariance relative to the least variance at a node that a wide kernel leaves."""
COMFORTABLE_WORK = 2**32
"""Multiplications that the first moments of one matrix may take."""
MIN_EIGEN_WORK = 2**35
"""Multiplications for exact rows below which leading eigenvectors are not looked for."""
MAX_EIGENVECTORS, ROWS_FOR_SCALES = 600, 384
"""Most eigenvectors; and columns of the recurrence that scales and standard deviations at all nodes take."""
MIN_DEGREE_RATIO, MAX_DEGREE_RATIO = 1.1, 8.0
"""Ratios of the largest and the mean degree between which both matrices are tried: below, they differ by
little, and the combinatorial one is taken; above, hubs make it nearly diagonal elsewhere."""
SMOOTHNESS = (0.5, 1.5, 2.5)
"""ν of the Matérn kernels that are tried."""


Basis: TypeAlias = ChebyshevBasis | LeadingEigenvectors


class Candidate(NamedTuple):
    """A kernel that was tried, and its score: the larger, the better."""

    kernel: Kernel
    score: float


def compared_nodes(graph: Graph) -> int:
    """Return how many observed nodes decide between kernels: fewer where the graph is large."""
    cost = 2 * graph.n_edges + graph.n_nodes
    return max(MIN_COMPARED_NODES, min(MAX_COMPARED_NODES, MAX_WORK // (MANY_TERMS * cost)))


class Moments:
    """Covariances of some nodes under any kernel."""

    def __init__(self, graph: Graph, ids: NDArray[np.int64], n_threads: int | None) -> None:
        self.graph, self.ids, self._n_threads = graph, ids, n_threads
        self.bases: dict[str, ChebyshevBasis] = {}
        self._moments: dict[str, NDArray[np.float32]] = {}
        self._states: dict[str, States] = {}

    def basis(self, matrix: str) -> ChebyshevBasis:
        """Return the Chebyshev polynomials of a matrix."""
        if matrix not in self.bases:
            self.bases[matrix] = ChebyshevBasis(self.graph, matrix, self._n_threads)
        return self.bases[matrix]

    def terms(self, kernel: Kernel) -> Array | None:
        """Return the Chebyshev coefficients of a kernel, or None if the moments do not suffice for it."""
        return kernel_terms(self.basis(kernel.matrix), kernel, self.n_terms(kernel.matrix))

    def affords(self, matrix: str, n_terms: int, work: int = MAX_WORK) -> bool:
        """Return whether moments of so many terms are within the limits of work and memory."""
        n = self.ids.size
        return n * n_terms * self.basis(matrix).cost <= work and n * n * n_terms <= MAX_MOMENTS

    def compute(self, matrix: str, n_terms: int) -> None:
        """Compute at least ``n_terms`` moments of a matrix."""
        done = self.n_terms(matrix)
        if done >= n_terms:
            return
        if self.ids.size * self.graph.n_nodes > MAX_STATE:
            self._moments[matrix] = self.basis(matrix).moments(self.ids, n_terms)
            return
        more = self.basis(matrix).moments(self.ids, n_terms, self._states.setdefault(matrix, {}), done)
        self._moments[matrix] = np.concatenate([self._moments[matrix], more]) if done else more

    def n_terms(self, matrix: str) -> int:
        """Return the number of moments of a matrix that there are."""
        return len(self._moments.get(matrix, ()))

    def covariance(self, kernel: Kernel, terms: Array) -> Array:
        """Return K at the nodes, (n, n), from moments that were computed."""
        matrix = kernel.matrix
        used = self._moments[matrix][: terms.size]
        K = np.tensordot(terms.astype(np.float32), used, 1).astype(np.float64)
        K = (K + K.T) / 2
        set_isolated(self.basis(matrix), kernel, self.ids, K)
        return K

    def exact(self, kernel: Kernel) -> Array:
        """Return K at the nodes for a single kernel, (n, n), without moments."""
        return exact_covariance(self.basis(kernel.matrix), kernel, self.ids)


def exact_covariance(basis: Basis, kernel: Kernel, ids: NDArray[np.int64]) -> Array:
    """Return K at some nodes, (n, n); refuse a kernel that takes too long a polynomial."""
    K = basis.block(required_terms(basis, kernel), ids, ids)
    K = (K + K.T) / 2
    set_isolated(basis, kernel, ids, K)
    return K


def required_terms(basis: Basis, kernel: Kernel, *, root: bool = False) -> Array:
    """Return the Chebyshev coefficients of a kernel or of its root; refuse one that has too many."""
    terms = kernel_terms(basis, kernel, MAX_TERMS, root=root)
    if terms is None:
        rule = f"one that a polynomial of degree {MAX_TERMS} resolves"
        refuse("kernel", rule, kernel, "Use a narrower kernel, or method='walks'.")
    return terms


def kernel_terms(basis: Basis, kernel: Kernel, max_terms: int, *, root: bool = False) -> Array | None:
    """Return the Chebyshev coefficients of a kernel or of its root, or None if there are too many.

    Covariances are within 1e-8 of the least variance at a node.
    """

    def function(x: Array) -> Array:
        values = np.real(kernel.spectrum(x))
        return np.sqrt(np.maximum(values, 0.0)) if root else values

    share = math.sqrt(basis.least_share) if root else basis.least_share
    return basis.terms(function, max(TOLERANCE * share, MIN_TOLERANCE), max_terms)


def set_isolated(basis: Basis, kernel: Kernel, ids: NDArray[np.int64], K: Array) -> None:
    """Set the variances of isolated nodes, K(0), which may be far below the error of the others."""
    where = np.flatnonzero(basis.isolated[ids])
    K[where, where] = max(float(np.real(kernel.spectrum(np.zeros(1))[0])), np.finfo(float).tiny)


def suited_basis(basis: ChebyshevBasis, kernel: Kernel, n_observed: int) -> Basis:
    """Return the leading eigenvectors of a wide kernel where they cost less than exact rows.

    The number of eigenvalues at which K is above 1e-8 of its maximum is about the trace of K^(1/8), relative
    to its maximum; the trace is estimated at 64 nodes.
    """
    terms = kernel_terms(basis, kernel, MAX_TERMS)
    if terms is None or (n_observed + ROWS_FOR_SCALES) * terms.size * basis.cost < MIN_EIGEN_WORK:
        return basis
    largest = float(np.real(kernel.spectrum(np.array([basis.unit]))[0]))

    def counted(x: Array) -> Array:
        return np.asarray(np.maximum(np.real(kernel.spectrum(x)) / largest, 0.0) ** 0.125)

    count = basis.terms(counted, 1e-4 / basis.graph.n_nodes, MAX_TERMS)
    if count is None:
        return basis
    some = np.random.default_rng(0).choice(basis.graph.n_nodes, min(64, basis.graph.n_nodes), replace=False)
    trace = float(basis.block(count, some, some).diagonal().mean()) * basis.graph.n_nodes
    rank = math.ceil(2 * trace) + 16
    if rank > min(MAX_EIGENVECTORS, n_observed + ROWS_FOR_SCALES):
        return basis
    return LeadingEigenvectors(basis, terms, rank)


def kernel_family(graph: Graph) -> list[list[Kernel]]:
    """Return kernels to try where none is given: for each kind, from narrow to wide.

    They are Diffusion and Matérn kernels with ν = 1/2, 3/2 and 5/2: of the normalized matrix, unless all
    degrees are about the same, and of the combinatorial one, unless hubs have many times the mean degree.
    exp(−tL) and (1 + sL)^-ν have t = ½, 1, 2, … and s = ¼, 1, 4, …; for the combinatorial matrix, in units of
    the mean degree instead of the largest.
    """
    ratio = degree_ratio(graph)
    scales = {}
    if ratio > MIN_DEGREE_RATIO:
        scales["normalized"] = 1.0
    if ratio <= MAX_DEGREE_RATIO:
        scales["combinatorial"] = ratio
    return [kind for matrix, scale in scales.items() for kind in _kinds(matrix, scale)]


def lengthscales(graph: Graph, kernel: Kernel) -> list[Kernel]:
    """Return a kernel with lengthscales from narrow to wide, by factors of √2."""
    unit = math.sqrt(degree_ratio(graph)) if kernel.matrix == "combinatorial" else 1.0
    return [kernel.with_lengthscale(unit * 2.0 ** (j / 2)) for j in range(-4, 21)]


def degree_ratio(graph: Graph) -> float:
    """Return the largest degree divided by the mean degree, 1 for a graph without edges."""
    degrees = np.asarray(abs(graph.to_scipy("adjacency")).sum(axis=1)).ravel()
    return float(degrees.max(initial=0.0)) / (float(degrees.mean()) or 1.0) or 1.0


def _kinds(matrix: str, scale: float) -> Iterator[list[Kernel]]:
    yield [Diffusion(math.sqrt(2 * scale * 2.0**j), matrix=matrix) for j in range(-1, 13)]
    for nu in SMOOTHNESS:
        yield [Matern(nu, math.sqrt(2 * nu * scale * 4.0**j), matrix=matrix) for j in range(-1, 8)]


def best_kernel(
    moments: Moments, kinds: Sequence[Sequence[Kernel]], score: Callable[[Kernel, Array], float]
) -> list[Candidate]:
    """Return the kernels that were tried with their scores, the best one first.

    ``score`` takes a kernel and its covariance at the nodes, (n, n).
    """
    tried: list[list[Candidate]] = [[] for _ in kinds]
    matrix = kinds[0][0].matrix
    first = max([n for n in ROUNDS[:4] if moments.affords(matrix, n, COMFORTABLE_WORK)], default=0)
    for n_terms in (n for n in ROUNDS if n >= first):
        if n_terms > max(first, ROUNDS[0]) and not moments.affords(matrix, n_terms):
            break
        for kind, done in zip(kinds, tried, strict=True):
            moments.compute(kind[0].matrix, n_terms)
            for kernel in kind[len(done) :]:
                terms = moments.terms(kernel)
                if terms is None:
                    break
                done.append(Candidate(kernel, score(kernel, moments.covariance(kernel, terms))))
        winner = max((done for done in tried if done), key=lambda done: max(one.score for one in done))
        best = max(range(len(winner)), key=lambda i: winner[i].score)
        if best < len(winner) - 1:
            break
    found = [one for done in tried for one in done]
    return sorted(found, key=lambda one: one.score, reverse=True)
