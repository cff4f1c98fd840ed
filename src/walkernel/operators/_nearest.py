"""The nearest nodes of a few nodes, to a tolerance: by push, by push and walks, or by a polynomial.

``push`` (``_push``) costs what lies around a node, and its answers are within bounds that are proven.
``walks`` pushes less far and estimates what is left by walks from the nodes that may be among the nearest
ones; its answers hold at a level of 95 %. Both are first wherever a kernel is narrow or the graph does not
spread fast, and a ball of all nodes within some hops is a push that does not look where the loads are.
``polynomial`` costs sparse products with the whole matrix, which many nodes share, and is first where a
kernel reaches most of a graph. "auto" pushes and walks as long as that is likely to cost less than the
polynomial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import (
    check_instance,
    fits_in_memory,
    one_of,
    progress_callback,
    real_number,
    refuse,
    whole_number,
)
from walkernel._door import door, warn
from walkernel._philox import check_seed
from walkernel._threads import thread_count
from walkernel.engines import Engine
from walkernel.features import check_convergence
from walkernel.graph import Graph
from walkernel.kernels import Kernel, PageRank
from walkernel.operators._base import KernelOperator
from walkernel.operators._neighbors import TIE, EstimatedNeighbors
from walkernel.operators._polynomial import (
    PolynomialOperator,
    columns_at_once,
    polynomial_engine,
    polynomial_operator,
)
from walkernel.planning import check_rounding, find_polynomial
from walkernel.walks import read_only

METHODS = ("auto", "push", "walks", "polynomial")
POLYNOMIAL_TOL = 1e-10
PRODUCTS_PER_EDGE = 16
"""Entries of sparse products that take as long as one edge of a push."""
MAX_EDGES = 2.0**40
"""Edges that ``method="push"`` and ``"walks"`` follow from a node at most."""
AT_ONCE = 2**6
"""Nodes that are answered together: progress is reported after each such part."""
FIRST_LOOK = 1e-3
"""Error, relative to the largest value, at which rows of a polynomial are looked at first."""
LARGEST_FALL = 1e-3
"""By how much that error falls from one look to the next at most."""


@door
def nearest(
    graph: Graph,
    kernel: Kernel,
    nodes: Any,
    k: int,
    *,
    tolerance: float = 0.01,
    method: str = "auto",
    seed: int = 0,
    engine: str | Engine | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> EstimatedNeighbors:
    """Return the k most similar nodes of each of some nodes: those of the largest kernel values.

    The node itself is not among them. The search looks only at the part of the graph that matters for the
    tolerance, unless a kernel reaches most of it.

    Parameters
    ----------
    graph : Graph
        The graph, directed or not.
    kernel : Kernel
        The kernel; its series must converge on the graph. The values of ``PageRank`` are divided by the sum
        of their row, so that walks which end in nodes without out-edges return to where they began.
    nodes : node or list of nodes
        Whose neighbours are wanted.
    k : int
        How many.
    tolerance : float in (0, 1)
        ε: no value is off by more than ε times the k-th largest one, and no node that is left out has more
        than 1 + ε times it. That is certain with "push" and "polynomial"; where walks are used, it holds at a
        level of 95 % for all of a row together. Smaller tolerances take longer, and certify more.
    method : {"auto", "push", "walks", "polynomial"}
        "push" follows edges from the node until the tolerance is certain; "walks" does so only until walks
        can tell the rest; both follow up to 2⁴⁰ edges. "polynomial" takes some tens of sparse products with
        the whole matrix, which many nodes share. "auto" pushes and walks, or takes the polynomial where that
        costs less.
    seed : int
        Key of the randomness of walks; push and polynomials have none.
    engine : {None, "cpu", "cuda"}, CPU or CUDA
        Where polynomials are computed. Push and walks are those of the CPU, and nodes are divided among its
        threads; on a device, where products take less time, "auto" gives them up earlier.
    progress : callable, optional
        Called with (nodes done, nodes in all).

    Returns
    -------
    EstimatedNeighbors
        Arrays of shape (len(nodes), k), best first. ``stderr`` is the standard error of a value, or half of
        what it may be off where that is certain; ``certified`` tells which nodes are among the k nearest
        ones, as certainly as the tolerance holds. Where fewer than k nodes have positive values, the
        remaining values are NaN.

    Raises
    ------
    DivergentKernelError
        If the series of the kernel diverges on the graph.

    Warns
    -----
    UserWarning
        If values are off by more than the tolerance: a polynomial does not resolve values below 1e-10 of the
        largest eigenvalue of the kernel.

    See Also
    --------
    KernelOperator.topk : The largest entries of an operator that there is already.
    sparse_kernel : The largest entries of all rows.

    Examples
    --------
    >>> import walkernel as wk
    >>> graph = wk.Graph.from_edges([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    >>> best = wk.nearest(graph, wk.PageRank(0.85), ["d", "a"], 2)
    >>> best.nodes.tolist()
    [['c', 'a'], ['c', 'b']]
    >>> best.certified.tolist()
    [[True, False], [True, True]]
    """
    check_instance("graph", graph, Graph, "Build one with Graph.from_edges, from_scipy or from_networkx.")
    check_instance("kernel", kernel, Kernel, "For a function of the matrix use PowerSeries.from_function.")
    ids = np.atleast_1d(graph.ids(nodes))
    if ids.ndim > 1:
        refuse("nodes", "a flat list of nodes", ids)
    k = whole_number("k", k, 1)
    fits_in_memory((ids.size, k), "Use a smaller k.")
    tolerance = real_number("tolerance", tolerance, above=0, below=1)
    one_of("method", method, METHODS)
    seed, report, where = check_seed(seed), progress_callback(progress), polynomial_engine(engine)
    check_convergence(graph, kernel)
    rows = Rows(graph, ids, k)
    if method != "polynomial":
        _push(graph, kernel, rows, tolerance, method, seed, where, report)
    _multiply(graph, kernel, rows, tolerance, where, report)
    return rows.neighbors(_row_sums(graph, kernel, ids, where))


class Rows:
    """Neighbours of some nodes, row by row as they are found.

    Attributes
    ----------
    found, values, errors, lower : ndarray, (n, k)
        Nodes, best first, their values, standard errors and lower bounds.
    others : ndarray, (n,)
        What any other node has at most.
    is_open : ndarray of bool, (n,)
        Which rows are still to be found.
    """

    def __init__(self, graph: Graph, ids: NDArray[np.int64], k: int) -> None:
        self.graph, self.ids, self.k = graph, ids, k
        width = min(k, max(1, graph.n_nodes - 1))
        self.found = np.full((ids.size, width), -1, dtype=np.int64)
        self.values, self.errors, self.lower = np.full((3, ids.size, width), np.nan)
        self.others = np.full(ids.size, np.inf)
        self.is_open = np.ones(ids.size, dtype=bool)

    def neighbors(self, sums: NDArray[np.float64] | None) -> EstimatedNeighbors:
        """Return them by name, padded to k columns, values divided by sums of rows if there are any."""
        margin = TIE * np.abs(self.values)
        with np.errstate(invalid="ignore"):
            certified = (self.lower - margin > self.others[:, None]) & (self.found >= 0)
        unit = 1.0 if sums is None else 1.0 / sums[:, None]
        names = self.graph.names(np.maximum(self.found, 0))
        missing: Any = None if names.dtype == object else self.graph.n_nodes
        parts = [np.where(self.found < 0, missing, names), unit * self.values, unit * self.errors, certified]
        gap = self.k - self.found.shape[1]
        if gap:
            ends = (missing, np.nan, np.nan, False)
            parts = [
                np.pad(p, ((0, 0), (0, gap)), constant_values=end) for p, end in zip(parts, ends, strict=True)
            ]
        return EstimatedNeighbors(*parts)


def _push(
    graph: Graph,
    kernel: Kernel,
    rows: Rows,
    tolerance: float,
    method: str,
    seed: int,
    engine: Engine,
    report: Callable[[int, int], object] | None,
) -> None:
    """Fill the rows that a push finds within its limit, by the threads of the engine."""
    from walkernel.operators._push import DONE, NO_ROOM, search
    from walkernel.operators._push_setup import Rooms, make_answer, series_of, steps_of, walking_of

    series = series_of(graph, kernel)
    if series is None:
        if method != "auto":
            rule = (
                "one that can be pushed: of at most a thousand terms that do not cancel, and not of the "
                "adjacency matrix of a directed graph"
            )
            refuse("kernel", rule, kernel, "Use method='polynomial'.")
        return
    ids, k = rows.ids, rows.found.shape[1]
    limit = _limit(graph, kernel) / engine.product_speed if method == "auto" else MAX_EDGES
    steps, _ = steps_of(graph, kernel)
    walking = walking_of(graph, kernel, series, seed)
    if method == "push":
        walking = walking._replace(packed=walking.packed[:0])
    rooms: Rooms = graph.derived("push_rooms", Rooms)
    work = int(min(limit, 4 * steps.indices.size, 2.0**30)) * ids.size

    def fill(part: NDArray[np.int64]) -> None:
        while part.size:
            answer = make_answer(part.size, k)
            with rooms.lend(k, series.terms.size) as room:
                search.for_work(work)(
                    read_only(ids[part]), limit, tolerance, steps, series, walking, room, answer
                )
            done = answer.status == DONE
            at = part[done]
            rows.found[at], rows.others[at], rows.is_open[at] = answer.nodes[done], answer.others[done], False
            rows.values[at], rows.errors[at], rows.lower[at] = answer.values[:, done]
            part = part[answer.status == NO_ROOM]
            if part.size:
                rooms.grow(room)

    n_threads = thread_count(engine.n_threads)
    size = max(1, min(AT_ONCE, -(-ids.size // n_threads)))
    parts = [np.arange(first, min(first + size, ids.size)) for first in range(0, ids.size, size)]
    for _ in _over(fill, parts, n_threads):
        if report is not None:
            report(int(ids.size - rows.is_open.sum()), ids.size)
    if method != "auto" and rows.is_open.any():
        stranger = graph.names(ids[rows.is_open])[0]
        refuse("tolerance", "within reach of a push from every node", stranger, "Use method='auto'.")


def _over(
    work: Callable[[NDArray[np.int64]], None], parts: list[NDArray[np.int64]], n_threads: int
) -> Iterator[None]:
    """Do the work of all parts, and yield as each one after the other is done."""
    if n_threads == 1 or len(parts) == 1:
        for part in parts:
            work(part)
            yield
        return
    with ThreadPoolExecutor(n_threads) as threads:
        tasks = [threads.submit(work, part) for part in parts]
        try:
            for task in tasks:
                task.result()
                yield
        except BaseException:
            threads.shutdown(wait=True, cancel_futures=True)
            raise


def _limit(graph: Graph, kernel: Kernel) -> float:
    """Return the edges from a node that take as long as its row by a polynomial."""

    def count() -> float:
        polynomial = find_polynomial(graph, kernel, POLYNOMIAL_TOL)
        if polynomial is None:
            return MAX_EDGES
        entries = graph.indices.size + 2 * graph.n_nodes
        return polynomial.n_products / 2 * entries / PRODUCTS_PER_EDGE

    return graph.derived(("edges_for_a_polynomial", kernel), count)


def _multiply(
    graph: Graph,
    kernel: Kernel,
    rows: Rows,
    tolerance: float,
    engine: Engine,
    report: Callable[[int, int], object] | None,
) -> None:
    """Fill the rows that are still open by a polynomial, some at a time."""
    left = np.flatnonzero(rows.is_open)
    if not left.size:
        return
    K = _polynomial(graph, kernel, engine)
    size = columns_at_once(graph.n_nodes, engine.n_threads)
    for first in range(0, left.size, size):
        part = left[first : first + size]
        looks = K.converging_rows(rows.ids[part], FIRST_LOOK)
        block, error = next(looks)
        while wanted := _take(rows, part, block, error, K.growth_of_entries(), tolerance):
            try:
                block, error = looks.send(wanted)
            except StopIteration:
                break
        rows.is_open[part] = False
        if report is not None:
            report(int(rows.ids.size - rows.is_open.sum()), rows.ids.size)
    _warn_of_errors(rows, left, tolerance)


def _warn_of_errors(rows: Rows, some: NDArray[np.int64], tolerance: float) -> None:
    """Warn if values of some rows are off by more than the tolerance, and no polynomial is nearer."""
    found = rows.found[some] >= 0
    off = 2 * rows.errors[some].max(axis=1, where=found, initial=0.0)
    last = rows.values[some].min(axis=1, where=found, initial=np.inf)
    missed = off > tolerance * last
    if missed.any():
        warn(
            f"{int(missed.sum())} of the nodes have neighbours whose values are off by up to "
            f"{float(off[missed].max()):.1g}, more than tolerance={tolerance:g} allows: they are too small "
            "beside the largest ones, or beside the terms of the series, which cancel. Ask for fewer "
            "neighbours, or use a wider kernel."
        )


def _polynomial(graph: Graph, kernel: Kernel, engine: Engine) -> PolynomialOperator:
    """Return the kernel as a polynomial; kept with the graph."""

    def build() -> KernelOperator:
        check_rounding(graph, kernel, POLYNOMIAL_TOL)
        if find_polynomial(graph, kernel, POLYNOMIAL_TOL) is None:
            refuse("kernel", "one that a polynomial of the matrix resolves", kernel, "Use a narrower kernel.")
        return polynomial_operator(graph, kernel, tol=POLYNOMIAL_TOL, engine=engine)

    return graph.derived(("rows_by_polynomial", kernel, engine), build)


def _take(
    rows: Rows,
    part: NDArray[np.int64],
    block: NDArray[np.float64],
    error: float,
    growth: NDArray[np.float64],
    tolerance: float,
) -> float:
    """Fill rows from dense ones that lack error · growth_j / growth_i; return the next error, 0 for none."""
    width, wanted = rows.found.shape[1], np.inf
    for i, row in zip(part, block.copy(), strict=True):
        start = rows.ids[i]
        off = error * growth / growth[start]
        best = np.argpartition(-row, min(width + 1, row.size - 1))[: width + 2]
        best = best[best != start]
        best = best[np.lexsort((best, -row[best]))]
        chosen = best[:width][row[best[:width]] > 0]
        n = chosen.size
        rows.found[i], rows.values[i], rows.errors[i], rows.lower[i] = -1, np.nan, np.nan, np.nan
        rows.found[i, :n], rows.values[i, :n] = chosen, row[chosen]
        rows.errors[i, :n], rows.lower[i, :n] = off[chosen] / 2, row[chosen] - off[chosen]
        last = row[chosen[-1]] if n else 0.0
        is_open = (row + off > last - off[chosen[-1:]].sum()) & (2 * off > tolerance * last)
        is_open[start] = False
        if is_open.any():
            wanted = min(wanted, error * max(tolerance * last / (2 * off[is_open].max()), LARGEST_FALL))
        row[chosen], row[start] = -np.inf, -np.inf
        rows.others[i] = (row + off).max()
    return 0.0 if np.isinf(wanted) else wanted


def _row_sums(
    graph: Graph, kernel: Kernel, ids: NDArray[np.int64], engine: Engine
) -> NDArray[np.float64] | None:
    """Return what rows of PageRank sum to where walks can end in nodes without out-edges."""
    if not isinstance(kernel, PageRank) or kernel.matrix != "random-walk" or not graph.directed:
        return None
    if graph.out_degrees().min(initial=1.0) > 0:
        return None

    def build() -> NDArray[np.float64]:
        return np.asarray(_polynomial(graph, kernel, engine) @ np.ones(graph.n_nodes))

    return graph.derived(("row_sums", kernel), build)[ids]
