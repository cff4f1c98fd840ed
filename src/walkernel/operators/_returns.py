"""Return probabilities (Pᵏ)_ii of the random walk P = D⁻¹A, for k = 1, 2, …, without a power of P.

A power is split, k = a + b, and (Pᵏ)_ii = Σ_v (Pᵃ)_iv (Pᵇ)_vi is a product of a row and a column. For
undirected graphs (Pᵏ)_ii = (W̃ᵏ)_ii with the normalized matrix, whose columns are its rows.

*Exact.* With a and b the halves of k, rows and columns hold the paths of up to k/2 edges around i. They are
followed edge by edge, as far as a number of edges reaches: that gives all lengths on roads, grids and
molecules, and the first few elsewhere. Or they are products of the matrix with unit vectors, a block of nodes
at a time.

*Polynomial.* For a vector z of random signs, E[(Mᵃz)_i ((Mᵀ)ᵇz)_i] = (Mᵏ)_ii, for all nodes at once. With s
vectors the variance is at most ((W̃²ᵃ)_ii (W̃²ᵇ)_ii + (W̃ᵏ)²_ii) / s for undirected graphs: for even k the
relative error is at most √(2/s) at every node, however small the probability is. For directed graphs
M = SPS⁻¹ has the diagonals of P for any positive diagonal S. The law of a walk that jumps to any node with a
probability of .05 at each step, after some steps, is taken for S²: with its stationary law, standard errors
are at most 1.8 / √s at 16 steps, also at nodes that very many edges lead to.

*Walks.* (Pᵏ)_ii = E[(Pʳ)_{X, i}] with X where a walk from i is after k − r steps, and the r-th column from
paths against the edges. The variance of a walk is at most 1/4, and less than that of counting returns, which
is the case r = 0. The cost has no term in n_nodes. Splitting k into halves that are both walked,
Σ_v (Pᵃ)_iv (Pᵇ)_vi over pairs of walks, has about the same variance at nodes of few edges and ten times as
much at hubs, with 64 to 256 walks and r = 2 on citation and social networks.

Standard errors are those of the jackknife over 16 groups of vectors or of walks. Those of walks count what
the walks may have missed, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from walkernel._checks import (
    Described,
    check_instance,
    fits_in_memory,
    one_of,
    progress_callback,
    refuse,
    whole_number,
)
from walkernel._door import door
from walkernel._philox import check_seed
from walkernel._threads import split_rows, thread_count, threads_for
from walkernel.engines import Engine, resolve
from walkernel.features import multiply
from walkernel.graph import Graph
from walkernel.operators._base import check_nodes
from walkernel.operators._entry_errors import MAX_RELATIVE_ERROR, Estimate
from walkernel.operators._groups import standard_errors
from walkernel.walks import GROUPS, MAX_WALKS, CoupledWalks, WalkSpec, hop_table

METHODS = ("auto", "exact", "polynomial", "walks")
MAX_LENGTH = 1024
N_GROUPS = 16
FEW_MULTIPLICATIONS = 2**22
"""Multiplications up to which products with unit vectors take no longer than to begin anything else."""
EXACT_WORK = 2**31
"""Multiplications up to which the answer is exact, whatever an estimate costs."""
PER_EDGE, PER_STEP = 3, 12
"""Multiplications that take as long as an edge that is followed, and as a step of a walk."""
MAX_HEAD = 16
ENTRIES_AT_ONCE = 2**22
"""Entries of unit vectors, and steps of walks, that are in memory together."""
NODES_AT_ONCE = 2**14
"""Nodes whose paths are followed between two reports of progress."""
JUMP, ITERATIONS = 0.05, 32
NO_STEPS = 2.0**-60
"""The probability of a step, for walks of which the heads are wanted."""


@door
def return_probabilities(
    graph: Graph,
    walk_length: int = 16,
    *,
    nodes: Any = None,
    method: str = "auto",
    n_samples: int = 256,
    seed: int = 0,
    engine: str | Engine | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Estimate:
    r"""Return the probabilities that a random walk from a node is there again after 1, 2, … steps.

    .. math:: r_k(i) = (P^k)_{ii}, \qquad P = D^{-1} A, \qquad k = 1, \dots, \text{walk\_length}

    They are known as random-walk positional encodings, and are computed without a power of P: exactly where
    that costs little, and otherwise as unbiased estimates with standard errors.

    Parameters
    ----------
    graph : Graph
        The graph, directed or not, without negative weights.
    walk_length : int
        The largest number of steps, from 1 to 1024. More of them tell of wider surroundings.
    nodes : list of nodes, optional
        Nodes of which the probabilities are wanted; all if not given.
    method : {"auto", "exact", "polynomial", "walks"}
        "exact" follows all paths around each node, or multiplies the matrix with its unit vector, whichever
        costs less. "polynomial" multiplies the matrix with vectors of random signs, which serve all nodes at
        once; "walks" samples walks from the nodes, and serves a few nodes of a large graph. Both give exact
        values for as many steps as costs no more than the estimates of the others. "auto" takes the exact
        answer up to about 2³¹ multiplications, and the cheaper of the estimates beyond.
    n_samples : int
        Number of vectors of signs, or of walks from each node: at least 32, made a multiple of 16. Four times
        as many halve the error. Signs have a relative error of √(2 / n_samples) at most for even numbers of
        steps on undirected graphs; that of walks grows as probabilities become small.
    seed : int
        Key of the randomness.
    engine : {None, "cpu", "cuda"} or Engine
        Where walks are sampled; all else takes the threads of a CPU engine.
    progress : callable, optional
        Called with (done, in all), for each stage of the work.

    Returns
    -------
    Estimate
        ``value`` and ``stderr`` of shape (len(nodes), walk_length): column k − 1 belongs to k steps. The
        standard error is 0 where a value is exact. Walks end in nodes without out-edges.

    See Also
    --------
    torch.RandomWalkEncoding : The same as a transform of PyTorch Geometric.

    Examples
    --------
    >>> import walkernel as wk
    >>> path = wk.Graph.from_edges([(0, 1), (1, 2)])
    >>> wk.return_probabilities(path, 4).value
    array([[0. , 0.5, 0. , 0.5],
           [0. , 1. , 0. , 1. ],
           [0. , 0.5, 0. , 0.5]])
    """
    check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    length = whole_number("walk_length", walk_length, 1, MAX_LENGTH)
    one_of("method", method, METHODS)
    n_samples = whole_number("n_samples", n_samples, 2 * N_GROUPS, MAX_WALKS)
    n_samples += -n_samples % N_GROUPS
    if graph.weights is not None and graph.weights.min(initial=0.0) < 0:
        refuse("graph", "without negative weights", Described(f"weights down to {graph.weights.min():.3g}"))
    ids = check_nodes(graph, nodes)
    fits_in_memory((ids.size, length), "Ask for fewer nodes at a time.")
    report = progress_callback(progress)
    returns = Returns(graph, ids, length, n_samples, check_seed(seed), resolve(engine), report)
    return returns.by(method)


@dataclass(frozen=True, eq=False)
class Returns:
    """The return probabilities of some nodes, by each of the methods."""

    graph: Graph
    ids: NDArray[np.int64]
    length: int
    n_samples: int
    seed: int
    engine: Engine
    report: Callable[[int, int], object] | None = None

    def by(self, method: str) -> Estimate:
        """Return them by a method, exact as far as that costs no more."""
        value, stderr = np.zeros((2, self.ids.size, self.length))
        entries = self.graph.indices.size + self.graph.n_nodes
        product = -(-self.length // 2) * (2 if self.graph.directed else 1) * entries
        by_columns, by_signs = self.ids.size * product, self.n_samples * product
        by_walks = self.ids.size * self.length * self.n_samples * PER_STEP
        if by_columns <= FEW_MULTIPLICATIONS and method in ("auto", "exact"):
            return Estimate(self._by_columns(self.ids), stderr, 0)
        works = {"exact": by_columns, "polynomial": by_signs, "walks": by_walks}
        works["auto"] = min(by_columns, max(EXACT_WORK, min(by_signs, by_walks)))
        known = self._follow(works[method] / (PER_EDGE * self.ids.size), value)
        rest = np.flatnonzero(known < self.length)
        if method == "auto":
            by_columns, by_walks = (rest.size * work // self.ids.size for work in (by_columns, by_walks))
            estimate = "polynomial" if by_signs <= by_walks else "walks"
            method = "exact" if by_columns <= max(EXACT_WORK, min(by_signs, by_walks)) else estimate
        if method == "exact" or not rest.size:
            value[rest] = self._by_columns(self.ids[rest])
            return Estimate(value, stderr, 0)
        return {"polynomial": self._by_signs, "walks": self._by_walks}[method](known, value, stderr)

    @property
    def _matrix(self) -> str:
        """The matrix whose powers have the diagonals of those of P."""
        return "random-walk" if self.graph.directed else "normalized"

    @property
    def _threads(self) -> int:
        return thread_count(self.engine.n_threads)

    def _parts(self, n: int, size: int) -> Iterator[slice]:
        """Yield parts of n nodes, of some size, and report after each."""
        for first in range(0, n, max(1, size)):
            last = min(first + max(1, size), n)
            yield slice(first, last)
            if self.report is not None:
                self.report(last, n)

    # exact ------------------------------------------------------------------------------------------

    def _follow(self, limit: float, value: NDArray[np.float64]) -> NDArray[np.int64]:
        """Fill in the first lengths from all paths of so many edges; return how many those are, (n,)."""
        from walkernel.operators._return_loops import follow_paths, make_room

        n, is_symmetric = self.ids.size, not self.graph.directed
        tables = [hop_table(self.graph, self._matrix, "weights", against) for against in (False, True)]
        rooms = [make_room(self.graph.n_nodes) for _ in range(self._threads)]
        known = np.empty(n, dtype=np.int64)
        work = int(min(limit, 2.0**40)) * min(n, NODES_AT_ONCE)

        def follow(first: int, last: int) -> None:
            room, own = rooms.pop(), slice(first, last)
            loop, starts = follow_paths.for_work(work), self.ids[own].copy()
            loop(starts, self.length, limit, *tables, is_symmetric, room, value[own], known[own])
            rooms.append(room)

        for part in self._parts(n, NODES_AT_ONCE):
            split_rows(partial(_shifted, follow, part.start), part.stop - part.start, self._threads, work)
        return known

    def _by_columns(self, ids: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the probabilities of nodes from products with unit vectors, a block of nodes at a time."""
        result, matrices = np.empty((ids.size, self.length)), self._matrices()
        for part in self._parts(ids.size, ENTRIES_AT_ONCE // self.graph.n_nodes):
            own = ids[part]
            units = np.zeros((self.graph.n_nodes, own.size))
            units[own, np.arange(own.size)] = 1.0
            for k, (row, column) in enumerate(self._products(matrices, units)):
                result[part, k] = np.einsum("ij,ij->j", row, column)
        return result

    def _matrices(self) -> list[scipy.sparse.csr_array]:
        """Return a matrix that has the diagonals of P, P², …, and its transpose."""
        if not self.graph.directed:
            return 2 * [self.graph.to_scipy("normalized")]
        P = self.graph.to_scipy("random-walk")
        transposed = P.T.tocsr()
        law = start = np.full(self.graph.n_nodes, 1.0 / self.graph.n_nodes)
        for _ in range(ITERATIONS):
            law = (1.0 - JUMP) * (transposed @ law) + JUMP * start
        scale = scipy.sparse.diags_array(np.sqrt(law))
        M = scipy.sparse.csr_array(scale @ P @ scipy.sparse.diags_array(1.0 / np.sqrt(law)))
        return [M, M.T.tocsr()]

    def _products(
        self, matrices: list[scipy.sparse.csr_array], V: NDArray[np.float64]
    ) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Yield (Mᵀ)ᵃV and MᵇV for k = 1, 2, …, with a ≥ b the halves of k."""
        M, transposed = matrices
        row = column = V
        for k in range(1, self.length + 1):
            if k % 2:
                row = self._multiply(transposed, row)
            else:
                column = self._multiply(M, column) if self.graph.directed else row
            yield row, column

    def _multiply(self, matrix: scipy.sparse.csr_array, V: NDArray[np.float64]) -> NDArray[np.float64]:
        threads = threads_for(matrix.nnz * V.shape[1], self._threads)
        return np.asarray(matrix @ V) if threads == 1 else multiply(matrix, V, threads)

    # estimates --------------------------------------------------------------------------------------

    def _by_signs(
        self, known: NDArray[np.int64], value: NDArray[np.float64], stderr: NDArray[np.float64]
    ) -> Estimate:
        """Fill in what is not known from vectors of random signs, in groups that are added up one by one."""
        matrices, n_columns = self._matrices(), self.n_samples // N_GROUPS
        for group in self._parts(N_GROUPS, 1):
            rng = np.random.default_rng((self.seed, group.start))
            bits = rng.integers(0, 2, (self.graph.n_nodes, n_columns), dtype=np.int8)
            signs = np.where(bits, 1.0, -1.0)
            for k, (row, column) in enumerate(self._products(matrices, signs)):
                open_ = np.flatnonzero(known <= k)
                if open_.size:
                    ids = self.ids[open_]
                    own = np.einsum("ij,ij->i", row[ids], column[ids]) / n_columns
                    step = own - value[open_, k]
                    value[open_, k] += step / (group.start + 1)
                    stderr[open_, k] += step * (own - value[open_, k])  # squares of deviations so far
        return Estimate(value, np.sqrt(stderr / (N_GROUPS * (N_GROUPS - 1))), N_GROUPS)

    def _by_walks(
        self, known: NDArray[np.int64], value: NDArray[np.float64], stderr: NDArray[np.float64]
    ) -> Estimate:
        """Fill in what is not known from walks, whose heads are as long as exact lengths were cheap."""
        rare, limit = np.zeros(value.shape, dtype=bool), np.zeros(value.shape)
        heads = np.where(known < self.length, np.minimum(known // 2, MAX_HEAD), -1)
        for head in np.unique(heads[heads >= 0]).tolist():
            nodes = np.flatnonzero(heads == head)
            size = ENTRIES_AT_ONCE // (self.n_samples * (self.length - 2 * head))
            for part in self._parts(nodes.size, size):
                own = nodes[part]
                groups = self._walk_from(self.ids[own], head)
                means = groups.mean(axis=2)
                errors = _with_missed(standard_errors(groups - means[:, :, None]), means)
                there = known[own, None] <= np.arange(self.length)
                value[own] = np.where(there, means, value[own])
                stderr[own] = np.where(there, errors, 0.0)
                rare[own] = there & (errors >= MAX_RELATIVE_ERROR * means)
                limit[own] = np.where(rare[own], self._most(value[own], head), 0.0)
        return Estimate(value, stderr, N_GROUPS, rare, limit)

    def _walk_from(self, ids: NDArray[np.int64], head: int) -> NDArray[np.float64]:
        """Return the means of groups of walks, (ids, length, groups), for lengths of more than 2·head."""
        from walkernel.operators._return_loops import meet_column

        group = next(size for size in (*GROUPS, 1) if self.n_samples % (N_GROUPS * size) == 0)
        sampler = CoupledWalks((1.0,) * (self.length - 2 * head), head=head, group=group)
        spec = WalkSpec(self.graph, ids, self.n_samples, sampler, self.seed, matrix=self._matrix)
        deposits = self.engine.walks(spec).deposits
        against = deposits.head
        if self.graph.directed and head:
            one = WalkSpec(self.graph, ids, 1, CoupledWalks((NO_STEPS,), head=head), matrix=self._matrix)
            against = self.engine.walks(one.opposite()).deposits.head
        groups = np.zeros((ids.size, self.length, N_GROUPS))
        sums, in_group = np.zeros(self.graph.n_nodes), self.n_samples // N_GROUPS
        meet = meet_column.for_work(deposits.nodes.size)
        meet(ids, in_group, tuple(deposits[:4]), tuple(against[:4]), head, sums, groups)
        return groups

    def _most(self, value: NDArray[np.float64], head: int) -> NDArray[np.float64] | float:
        """Return bounds of the probabilities of more than 2·head steps.

        For undirected graphs none is larger than an earlier one for an even number of steps.
        """
        return value[:, [2 * head - 1]] if head and not self.graph.directed else 1.0


def _with_missed(errors: NDArray[np.float64], means: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return standard errors that count a contribution of a walk that may have been missed.

    Means of few contributions of size c over m walks have the variance c/m times their expectation. What is
    above it by chance has a larger standard error than what is below. So the largest c/m = stderr² / value of
    all lengths of a node is added to the standard errors of each.
    """
    sizes = np.divide(errors**2, means, out=np.zeros_like(means), where=means > 0)
    return np.hypot(errors, sizes.max(axis=1, keepdims=True))


def _shifted(work: Callable[[int, int], None], start: int, first: int, last: int) -> None:
    """Do the work of a range that counts from a start."""
    work(start + first, start + last)
