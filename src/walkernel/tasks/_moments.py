"""Covariances of a few nodes under many kernels, from one set of Chebyshev moments for each matrix.

The widths of the kernels are tried from narrow to wide. A wide kernel takes more terms of the recurrence: the
first moments have as many of 64, 128, 256 or 512 terms as take little work, and more of them are computed
while the best kernel is the widest of its kind. On roads, grids and meshes, wider kernels are Matérn kernels
with ν = 1, 2 and 3 instead, whose covariances come from a sparse factorisation for each width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import refuse
from walkernel._html import html_table
from walkernel.engines import Engine
from walkernel.graph import Graph
from walkernel.kernels import Diffusion, Kernel, Matern
from walkernel.operators import (
    ChebyshevBasis,
    LeadingEigenvectors,
    SparsePrecision,
    States,
    has_sparse_factor,
)

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
WIDE_SMOOTHNESS, MAX_WIDTH = (1, 2, 3), 4.0**11
"""ν of the Matérn kernels whose widths a sparse factorisation serves, and s of the widest."""
LARGE_GRAPH = 2**18
"""Nodes from which the widths of these kernels differ by factors of 16 in s instead of 4 at first."""
MAX_FALLS = 3
"""Scores below the best one after which no wider kernel of a kind is tried."""
EQUAL_VARIANCES = 1.001
"""Ratio of variances up to which a kernel counts as normalized already."""


Basis: TypeAlias = ChebyshevBasis | LeadingEigenvectors | SparsePrecision
Score: TypeAlias = Callable[[Kernel, Array, bool], float]
"""Takes a kernel, its covariance at the nodes, (n, n), and whether to normalize it."""


class Candidate(NamedTuple):
    """A kernel that was tried, its score (the larger, the better), and whether it was normalized."""

    kernel: Kernel
    score: float
    normalize: bool = True


class Candidates(list[Candidate]):
    """The kernels that were tried, the best one first, as a table in notebooks."""

    def _repr_html_(self) -> str:
        rows = [(repr(one.kernel), one.score, "yes" if one.normalize else "no") for one in self]
        return html_table("Kernels, the best one first", ["kernel", "score", "normalized"], rows)


def compared_nodes(graph: Graph) -> int:
    """Return how many observed nodes decide between kernels: fewer where the graph is large."""
    cost = 2 * graph.n_edges + graph.n_nodes
    return max(MIN_COMPARED_NODES, min(MAX_COMPARED_NODES, MAX_WORK // (MANY_TERMS * cost)))


class Moments:
    """Covariances of some nodes under any kernel."""

    def __init__(self, graph: Graph, ids: NDArray[np.int64], engine: Engine) -> None:
        self.graph, self.ids, self._engine = graph, ids, engine
        self.bases: dict[str, ChebyshevBasis] = {}
        self._moments: dict[str, NDArray[Any]] = {}
        self._states: dict[str, States] = {}
        self._powers: dict[tuple[str, float], list[Array]] = {}

    def basis(self, matrix: str) -> ChebyshevBasis:
        """Return the Chebyshev polynomials of a matrix."""
        if matrix not in self.bases:
            self.bases[matrix] = ChebyshevBasis(self.graph, matrix, self._engine)
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

    def covariance(self, kernel: Kernel) -> Array | None:
        """Return K at the nodes, (n, n), from moments or by a sparse factorisation; None if neither does."""
        matrix, terms = kernel.matrix, self.terms(kernel)
        if terms is None:
            return self._factored(kernel)
        K = self.basis(matrix).covariance(terms, self._moments[matrix], self.ids.size)
        set_isolated(self.basis(matrix), kernel, self.ids, K)
        return K

    def _factored(self, kernel: Kernel) -> Array | None:
        """Return K at the nodes by a sparse factorisation, which serves all powers of the same resolvent."""
        found = kernel.resolvent_power()
        if found is None or found[1] > max(WIDE_SMOOTHNESS) or not has_sparse_factor(self.graph):
            return None
        shift, power = found
        key = kernel.matrix, round(math.log(shift), 9)  # the same for all powers
        if key not in self._powers:
            factor = SparsePrecision(self.graph, kernel, self._engine)
            self._powers[key] = factor.covariances(self.ids, max(WIDE_SMOOTHNESS))
        return float(np.real(kernel.spectrum(np.ones(1))[0])) * shift**power * self._powers[key][power - 1]

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
    """Set the variances of isolated nodes, which may be far below the error of the others."""
    where = np.flatnonzero(basis.isolated[ids])
    K[where, where] = isolated_variance(kernel)


def isolated_variance(kernel: Kernel) -> float:
    """Return K_ii of nodes without neighbours; positive also where it is too small for a float.

    Their eigenvalue is 0, and 1 for the combinatorial matrix.
    """
    eigenvalue = np.full(1, float(kernel.matrix == "combinatorial"))
    return max(float(np.real(kernel.spectrum(eigenvalue)[0])), np.finfo(float).tiny)


def suited_basis(basis: ChebyshevBasis, kernel: Kernel, n_observed: int) -> Basis:
    """Return what costs least for a wide kernel: a sparse factor, leading eigenvectors or exact rows.

    The number of eigenvalues at which K is above 1e-8 of its maximum is about the trace of K^(1/8), relative
    to its maximum; the trace is estimated at 64 nodes.
    """
    terms = kernel_terms(basis, kernel, MAX_TERMS)
    few = terms is not None and (n_observed + ROWS_FOR_SCALES) * terms.size * basis.cost <= COMFORTABLE_WORK
    if not few and kernel.resolvent_power() is not None and has_sparse_factor(basis.graph):
        return SparsePrecision(basis.graph, kernel, basis.engine)
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


def wide_family(graph: Graph, matrix: str, narrowest: float) -> list[list[Kernel]]:
    """Return Matérn kernels with ν = 1, 2 and 3 of the same widths, from narrow to wide.

    (1 + sL)^-ν has s = ¼, 1, 4, … times the unit of the matrix, from ``narrowest`` on; ¼, 4, 64, … on large
    graphs, where a factorisation takes seconds.
    """
    unit = degree_ratio(graph) if matrix == "combinatorial" else 1.0
    step = 4.0 if graph.n_nodes < LARGE_GRAPH else 16.0
    powers = 0.25 * step ** np.arange(round(math.log(4 * MAX_WIDTH, step)) + 1)
    widths = [float(unit * s) for s in powers if unit * s >= narrowest]
    return [[Matern(nu, math.sqrt(2 * nu * s), matrix=matrix) for s in widths] for nu in WIDE_SMOOTHNESS]


def markov_family(graph: Graph) -> list[list[Kernel]]:
    """Return the kernels with a sparse inverse to try where none is given."""
    matrices = dict.fromkeys(kind[0].matrix for kind in kernel_family(graph))
    return [kind for matrix in matrices for kind in wide_family(graph, matrix, 0.0)]


class Search:
    """The comparison of kernels by a score of their covariances at some nodes.

    Kernels are normalized first. Where ``normalize`` is None, the best kernel of each kind is also tried as
    it is, and then its neighbours.

    Attributes
    ----------
    kinds : list of list of Kernel
        What was to be tried.
    tried : list of list of Candidate
        What was tried of each kind.
    """

    def __init__(self, moments: Moments, score: Score, normalize: bool | None) -> None:
        self._moments, self._score, self._normalize = moments, score, normalize
        self.kinds: list[Sequence[Kernel]] = []
        self.tried: list[list[Candidate]] = []
        self._plain: list[Candidate] = []

    def candidates(self) -> list[Candidate]:
        """Return the kernels that were tried, the best one first."""
        found = [one for done in self.tried for one in done] + self._plain
        return sorted(found, key=lambda one: one.score, reverse=True)

    def extend(self, kinds: Sequence[Sequence[Kernel]]) -> None:
        """Try kernels of some kinds from narrow to wide, as far as moments reach and scores do not fall."""
        for kind in kinds:
            if kind not in self.kinds:
                self.kinds.append(kind)
                self.tried.append([])
            done = self.tried[self.kinds.index(kind)]
            for kernel in kind[len(done) :]:
                if done and len(done) - 1 - best_place(done) >= MAX_FALLS:
                    break
                K = self._moments.covariance(kernel)
                if K is None:
                    break
                normalize = self._normalize is not False
                done.append(Candidate(kernel, self._score(kernel, K, normalize), normalize))

    def widest_wins(self) -> Candidate | None:
        """Return the best kernel if it is the widest of its kind that was tried, else None."""
        winner = max((done for done in self.tried if done), key=lambda done: done[best_place(done)].score)
        return winner[-1] if best_place(winner) == len(winner) - 1 else None

    def tried_wider(self, kernel: Kernel) -> bool:
        """Return whether a kernel of the same matrix with a larger lengthscale was tried."""
        return any(
            one.kernel.matrix == kernel.matrix and (one.kernel.lengthscale or 0) > (kernel.lengthscale or 0)
            for done in self.tried
            for one in done
        )

    def try_plain(self) -> None:
        """Try the best kernel of each kind without normalization, and narrower and wider ones of its kind."""
        if self._normalize is not None:
            return
        places = [(i, best_place(done)) for i, done in enumerate(self.tried) if done]
        tried = ((place, self._plain_at(*place)) for place in places)
        found = {place: one for place, one in tried if one is not None}
        self._plain += found.values()
        if not found:
            return
        kind, place = max(found, key=lambda place: found[place].score)
        best = found[kind, place]
        for step in (-1, 1):
            at = place + step
            while 0 <= at < len(self.tried[kind]):
                other = self._plain_at(kind, at)
                if other is None:
                    break
                self._plain.append(other)
                if other.score <= best.score:
                    break
                best, at = other, at + step

    def _plain_at(self, kind: int, place: int) -> Candidate | None:
        kernel = self.tried[kind][place].kernel
        K = self._moments.covariance(kernel)
        assert K is not None
        variances = K.diagonal()
        if variances.max() <= EQUAL_VARIANCES * variances.min():
            return None
        return Candidate(kernel, self._score(kernel, K, False), False)


def best_place(tried: Sequence[Candidate]) -> int:
    """Return the position of the best of some kernels."""
    return max(range(len(tried)), key=lambda i: tried[i].score)


def compare_kernels(
    moments: Moments, kinds: Sequence[Sequence[Kernel]], score: Score, normalize: bool | None
) -> Search:
    """Compare kernels of some kinds, and wider ones while the widest is the best."""
    search = Search(moments, score, normalize)
    matrix = kinds[0][0].matrix
    given = len(kinds) == 1 or kinds[0][0].resolvent_power() is not None
    factored = not given and has_sparse_factor(moments.graph)
    first = max([n for n in ROUNDS[:4] if moments.affords(matrix, n, COMFORTABLE_WORK)], default=0)
    for n_terms in (n for n in ROUNDS if n >= first):
        if n_terms > max(first, ROUNDS[0]) and (factored or not moments.affords(matrix, n_terms)):
            break
        for kind in kinds:
            moments.compute(kind[0].matrix, n_terms)
        search.extend(kinds)
        widest = search.widest_wins()
        if widest is None:
            break
    if factored and widest is not None:
        narrowest = max(4.0, (widest.kernel.lengthscale or 0.0) ** 2 / 64)
        search.extend(wide_family(moments.graph, widest.kernel.matrix, narrowest))
    search.try_plain()
    return search
