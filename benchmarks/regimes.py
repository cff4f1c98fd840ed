"""Who is first to a given error: walks, or a deterministic way, for some questions of users.

    python benchmarks/regimes.py [--quick] [--limit SECONDS] [--out FOLDER]

Everything runs in one thread, the matrix or the walk table of the graph being warm; times are processor
times. Errors are relative, in the Frobenius norm: over one product, 32 rows of ΦΦᵀ, or all entries among 100
nodes. For the 20 nearest nodes it is the largest relative error of the values that are returned, or, if that
is more, how far the true value of a node that is returned lies below the 20th largest. Kernels are exp(−tL)
on random graphs (3 edges drawn for each node) and square grids. FOLDER gets regimes.csv, .txt and .png.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from core import machine, random_graph, table
from numpy.typing import NDArray
from regimes_figure import (
    NEAREST_MANY,
    NEAREST_ONE,
    SWEEP,
    TARGETS,
    WALKS,
    Point,
    camp,
    save_regimes_figure,
    seconds_to,
    verdict,
)
from rivals import LocalSeries, ball_kernel, eigen_features, grow, pruned_features, pruned_rows, series
from scipy.sparse.linalg import ArpackNoConvergence
from threadpoolctl import threadpool_limits

import walkernel as wk

WIDTHS = (1, 5, 20)
TOLERANCES = (0.3, 0.1, 0.03, 0.01, 1e-3, 1e-4)
STEPS = (50, 200, 800, 3200)
QUERY_STEPS = (100, 1000, 10_000, 100_000)
RANKS = (8, 32, 128)
KEPT = (8, 32, 128)
NEAREST_TOLERANCES = (0.3, 0.1, 0.03, 0.01)
NEAREST_KEPT = (32, 128, 512, 2048, 8192)
N_ROWS, N_QUERY, N_SWEPT, N_NEAREST = 32, 100, 20, 20

Attempt = Callable[[], Any]


class Case(NamedTuple):
    """A graph and a kernel to ask about."""

    shape: str
    n_nodes: int
    """As a power of ten; a grid has a few less."""

    graph: wk.Graph
    matrix: scipy.sparse.csr_array
    width: int

    @property
    def kernel(self) -> wk.Kernel:
        """The diffusion kernel exp(−tL)."""
        return diffusion(self.width)


class Problem(NamedTuple):
    """Ways to an answer, each from cheap to dear, and the error of an answer."""

    ways: dict[str, list[tuple[float, Attempt]]]
    error: Callable[[Any], float]


def diffusion(t: float) -> wk.Kernel:
    return wk.Diffusion(float(np.sqrt(2 * t)))


def relative(estimate: NDArray[np.float64], exact: NDArray[np.float64]) -> float:
    return float(np.linalg.norm(estimate - exact) / np.linalg.norm(exact))


def whole_product(case: Case) -> Problem:
    """K @ v for one vector over the whole graph."""
    graph, kernel, n = case.graph, case.kernel, case.graph.n_nodes
    v = np.random.default_rng(1).standard_normal(n)
    exact = wk.polynomial_operator(graph, kernel) @ v

    def from_eigenvectors(rank: int) -> NDArray[np.float64]:
        (features,) = eigen_features(case.matrix, [kernel], rank)
        return np.asarray(features @ (features.T @ v))

    operators = [(tol, wk.polynomial_operator(graph, kernel, tol=tol)) for tol in TOLERANCES]
    estimate = wk.estimate_kernel
    ways: dict[str, list[tuple[float, Attempt]]] = {
        "features": [(s, lambda s=s: estimate(graph, kernel, budget=s * n, stitches=1) @ v) for s in STEPS],
        "operator": [(s, lambda s=s: estimate(graph, kernel, budget=s * n) @ v) for s in STEPS],
        "polynomial": [(tol, lambda P=P: P @ v) for tol, P in operators],
        "eigenvectors": [(r, lambda r=r: from_eigenvectors(r)) for r in RANKS],
    }
    return Problem(ways, lambda product: relative(product, exact))


def some_rows(graph: wk.Graph) -> NDArray[np.int64]:
    return np.random.default_rng(2).choice(graph.n_nodes, N_ROWS, replace=False)


def gram_rows(features: Any, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return rows of ΦΦᵀ, dense."""
    product = features[rows] @ features.T
    return product.toarray() if scipy.sparse.issparse(product) else product


def explicit_features(case: Case) -> Problem:
    """Features of all nodes; ΦΦᵀ is what a linear model on them sees, so nothing is debiased."""
    graph, kernel, M = case.graph, case.kernel, case.matrix
    rows = some_rows(graph)
    exact = wk.polynomial_operator(graph, kernel).rows(rows)
    options: dict[str, Any] = {"ensembles": "shared", "stitches": 1}

    def walked(steps: int) -> Any:
        return wk.estimate_kernel(graph, kernel, budget=steps * graph.n_nodes, **options)

    def error(answer: Any) -> float:
        found = answer.rows(rows) if isinstance(answer, wk.KernelOperator) else gram_rows(answer, rows)
        return relative(found, exact)

    ways: dict[str, list[tuple[float, Attempt]]] = {
        "features": [(s, lambda s=s: walked(s)) for s in STEPS],
        "pruned series": [(k, lambda k=k: pruned_features(M, kernel, k)) for k in KEPT],
        "eigenvectors": [(r, lambda r=r: eigen_features(M, [kernel], r)[0]) for r in RANKS],
    }
    return Problem(ways, error)


def neighbours(case: Case) -> Problem:
    """K among a node and those around it."""
    nodes = np.array([case.graph.n_nodes // 2 + int(np.sqrt(case.graph.n_nodes)) // 2])
    while nodes.size < N_QUERY:
        nodes = grow(case.graph, nodes)
    return few_nodes(case, nodes[:N_QUERY])


def scattered(case: Case) -> Problem:
    """K among nodes drawn at random, as labelled ones often are."""
    return few_nodes(case, np.random.default_rng(3).choice(case.graph.n_nodes, N_QUERY, replace=False))


def few_nodes(case: Case, nodes: NDArray[np.int64]) -> Problem:
    """K among some nodes."""
    graph, kernel, M = case.graph, case.kernel, case.matrix
    exact = wk.polynomial_operator(graph, kernel, tol=1e-6).rows(nodes)[:, nodes]

    def walked(steps: int) -> NDArray[np.float64]:
        budget = steps * N_QUERY
        return wk.estimate_kernel(graph, kernel, nodes=nodes, budget=budget, stitches=1).to_dense()

    def pruned(n_kept: int) -> NDArray[np.float64]:
        features = pruned_rows(M, kernel, nodes, n_kept)
        return np.asarray((features @ features.T).toarray())

    def from_eigenvectors(rank: int) -> NDArray[np.float64]:
        (features,) = eigen_features(M, [kernel], rank)
        return np.asarray(features[nodes] @ features[nodes].T)

    operators = [(tol, wk.polynomial_operator(graph, kernel, tol=tol)) for tol in TOLERANCES[1::2]]
    ways: dict[str, list[tuple[float, Attempt]]] = {
        "features": [(s, lambda s=s: walked(s)) for s in QUERY_STEPS],
        "polynomial": [(tol, lambda P=P: P.rows(nodes)[:, nodes]) for tol, P in operators],
        "ball": [(r, lambda r=r: ball_kernel(graph, M, kernel, nodes, r)) for r in range(8)],
        "pruned series": [(k, lambda k=k: pruned(k)) for k in KEPT],
        "eigenvectors": [(r, lambda r=r: from_eigenvectors(r)) for r in RANKS],
    }
    return Problem(ways, lambda block: relative(block, exact))


def kernel_sweep(case: Case) -> Problem:
    """Features of all nodes for 20 kernels; the error is a mean over three of them."""
    graph, M, rows = case.graph, case.matrix, some_rows(case.graph)
    kernels = [diffusion(t) for t in case.width * np.geomspace(0.25, 1, N_SWEPT)]
    shown = (0, N_SWEPT // 2, N_SWEPT - 1)
    exact = {i: wk.polynomial_operator(graph, kernels[i]).rows(rows) for i in shown}
    sampler = wk.CoupledWalks(wk.matched_law(graph, *kernels))

    def kept(answers: Sequence[Any]) -> dict[int, Any]:
        return {i: answers[i] for i in shown}

    def walked(steps: int) -> dict[int, Any]:
        walks = wk.sample_walks(graph, max(2, round(steps / sampler.mean_steps)), sampler=sampler)
        found = {}
        for i, kernel in enumerate(kernels):
            features = walks.features(kernel)
            if i in shown:
                found[i] = features
        return found

    def error(answer: dict[int, Any]) -> float:
        return float(np.mean([relative(gram_rows(answer[i], rows), exact[i]) for i in shown]))

    ways: dict[str, list[tuple[float, Attempt]]] = {
        "features": [(s, lambda s=s: walked(s)) for s in STEPS],
        "pruned series": [
            (k, lambda k=k: kept([pruned_features(M, kernel, k) for kernel in kernels])) for k in KEPT
        ],
        "eigenvectors": [(r, lambda r=r: kept(eigen_features(M, kernels, r))) for r in RANKS],
    }
    return Problem(ways, error)


class Nearest(NamedTuple):
    """The nearest nodes of some nodes, best first, and their values, both (n, N_NEAREST)."""

    nodes: NDArray[np.int64]
    values: NDArray[np.float64]


def nearest_of_one(case: Case) -> Problem:
    """Return the question of the nearest nodes of a node drawn at random."""
    return nearest_nodes(case, np.random.default_rng(3).choice(case.graph.n_nodes, 1))


def nearest_of_many(case: Case) -> Problem:
    """Return the question of the nearest nodes of 100 nodes drawn at random."""
    return nearest_nodes(case, np.random.default_rng(3).choice(case.graph.n_nodes, N_QUERY, replace=False))


def nearest_nodes(case: Case, nodes: NDArray[np.int64]) -> Problem:
    """Return the question of the nearest nodes of some nodes, with ways that find rows or parts of them.

    Walks estimate rows of K with the sampler that ``estimate_kernel`` plans for the lazy pair.
    """
    graph, kernel, M = case.graph, case.kernel, case.matrix
    exact = wk.polynomial_operator(graph, kernel).rows(nodes)
    last = largest_of_rows(nodes, exact.copy()).values[:, -1:]
    local, terms = LocalSeries(M), series(kernel, 1e-6, root=False)
    all_terms = series(kernel, 1e-12, root=False)

    def found(tolerance: float) -> Nearest:
        answer = wk.nearest(graph, kernel, nodes, N_NEAREST, tolerance=tolerance)
        return Nearest(answer.nodes, answer.values)

    def walked(spec: Any) -> Nearest:
        rows = wk.sample_features(graph, all_terms, spec.n_walks, sampler=spec.sampler, nodes=nodes)
        parts = [slice(*ends) for ends in pairwise(rows.indptr.tolist())]
        return stacked(
            [largest(i, rows.indices[part], rows.data[part]) for i, part in zip(nodes, parts, strict=True)]
        )

    def by_series(way: Callable[..., Any], size: int) -> Nearest:
        return stacked([largest(i, *way(i, size, terms)) for i in nodes])

    def error(answer: Nearest) -> float:
        is_there = answer.nodes < graph.n_nodes
        true = np.take_along_axis(exact, np.where(is_there, answer.nodes, 0), axis=1)
        off = np.where(is_there, np.abs(answer.values - true) / np.maximum(true, 1e-300), 1.0)
        return float(np.max(np.maximum(off, np.where(is_there, 1 - true / last, 1.0))))

    plans = [
        (s, wk.estimate_kernel(graph, kernel, nodes=nodes[:1], pair="lazy", budget=s).groups.left)
        for s in QUERY_STEPS
    ]
    operators = [(tol, wk.polynomial_operator(graph, kernel, tol=tol)) for tol in TOLERANCES]
    ways: dict[str, list[tuple[float, Attempt]]] = {
        "nearest": [(tol, lambda tol=tol: found(tol)) for tol in NEAREST_TOLERANCES],
        "features": [(s, lambda spec=spec: walked(spec)) for s, spec in plans],
        "polynomial": [(tol, lambda P=P: largest_of_rows(nodes, P.rows(nodes))) for tol, P in operators],
        "ball": [(r, lambda r=r: by_series(local.ball, r)) for r in range(1, 31)],
        "pruned series": [(k, lambda k=k: by_series(local.pruned, k)) for k in NEAREST_KEPT],
    }
    return Problem(ways, error)


def largest(node: int, reached: NDArray[np.int64], values: NDArray[np.float64]) -> Nearest:
    """Return the nearest of the nodes that were reached, without the node itself."""
    values[reached == node] = -np.inf
    best = (
        np.argpartition(-values, N_NEAREST)[:N_NEAREST] if values.size > N_NEAREST else np.arange(values.size)
    )
    best = best[np.argsort(-values[best])]
    best = best[np.isfinite(values[best])]
    return Nearest(reached[best], values[best])


def largest_of_rows(nodes: NDArray[np.int64], rows: NDArray[np.float64]) -> Nearest:
    """Return the nearest nodes from rows over all nodes, which are spoilt."""
    every = np.arange(rows.shape[1])
    return stacked([largest(i, every, row) for i, row in zip(nodes, rows, strict=True)])


def stacked(answers: Sequence[Nearest]) -> Nearest:
    """Return answers as one; a large number and NaN stand where there are too few nodes."""
    found = np.full((len(answers), N_NEAREST), np.iinfo(np.int64).max)
    values = np.full(found.shape, np.nan)
    for i, answer in enumerate(answers):
        found[i, : answer.nodes.size], values[i, : answer.nodes.size] = answer
    return Nearest(found, values)


QUESTIONS = {
    "K @ v, whole graph": whole_product,
    "features, all nodes": explicit_features,
    "100 scattered nodes": scattered,
    "100 neighbours": neighbours,
    NEAREST_ONE: nearest_of_one,
    NEAREST_MANY: nearest_of_many,
    SWEEP: kernel_sweep,
}
SIZES = {
    "K @ v, whole graph": (10**4, 10**5, 10**6),
    "features, all nodes": (10**4, 10**5),
    "100 scattered nodes": (10**4, 10**5, 10**6),
    "100 neighbours": (10**4, 10**5, 10**6),
    NEAREST_ONE: (10**4, 10**5, 10**6),
    NEAREST_MANY: (10**4, 10**5, 10**6),
    SWEEP: (10**4, 10**5),
}


def timed(attempt: Attempt) -> tuple[float, Any]:
    """Return the least processor time of up to three runs that together take half a second, and an answer."""
    best, total = np.inf, 0.0
    for _ in range(3):
        begin = time.process_time()
        answer = attempt()
        passed = time.process_time() - begin
        best, total = min(best, passed), total + passed
        if total > 0.5:
            break
    return best, answer


def measure(question: str, case: Case, limit: float) -> list[Point]:
    """Try the ways of a question from cheap to dear, as long as the next is likely to keep the limit."""
    problem = QUESTIONS[question](case)
    points = []
    for way, attempts in problem.ways.items():
        for setting, attempt in attempts:
            try:
                seconds, answer = timed(attempt)
            except ArpackNoConvergence:
                break
            error = problem.error(answer)
            about = (question, case.shape, case.n_nodes, case.width, way, setting)
            points.append(Point(*about, seconds, error))
            if seconds > limit / 4 or error < TARGETS[-1] / 10:
                break
    return points


def graph_of(shape: str, n_nodes: int) -> wk.Graph:
    if shape == "random":
        return random_graph(n_nodes, degree=3)
    side = round(np.sqrt(n_nodes))
    return wk.datasets.grid(side, side).graph


def all_points(largest: dict[str, int], limit: float) -> list[Point]:
    """Ask every question of every graph up to its largest."""
    points: list[Point] = []
    for n_nodes in sorted({n for sizes in SIZES.values() for n in sizes}):
        asked = [q for q in QUESTIONS if n_nodes in SIZES[q] and n_nodes <= largest[q]]
        for shape in ("random", "grid") if asked else ():
            graph = graph_of(shape, n_nodes)
            matrix = graph.to_scipy("normalized")
            for question in asked:
                begin = time.perf_counter()
                for width in WIDTHS:
                    points += measure(question, Case(shape, n_nodes, graph, matrix, width), limit)
                passed = time.perf_counter() - begin
                print(f"{question}, {shape}, {n_nodes} nodes ({passed:.0f} s)", file=sys.stderr)
            del graph, matrix
            gc.collect()
    return points


def winners(points: Sequence[Point]) -> str:
    """Return the table of who is first to each error, with the time of the best of the other camp."""
    places = dict.fromkeys((p.question, p.shape, p.n_nodes, p.width) for p in points)
    rows = []
    for place in places:
        mine = [p for p in points if (p.question, p.shape, p.n_nodes, p.width) == place]
        question, shape, n_nodes, width = place
        row = [question, shape, f"{n_nodes:.0e}", str(width)]
        for target in TARGETS:
            found = verdict(mine, target)
            row.append("nobody" if found is None else f"{found.way} {1e3 * found.seconds:.3g} ms")
            row.append("" if found is None else others(found.way, mine, target))
        rows.append(row)
    names = [name for target in TARGETS for name in (f"first to {target:.0%}", "best of the others")]
    return table(
        "Who is first; times of walks beyond the limit by error ~ 1/√time",
        ["question", "graph", "nodes", "t", *names],
        rows,
    )


def others(first: str, points: Sequence[Point], target: float) -> str:
    """Return the best way of another camp and its time."""
    ways = [way for way in dict.fromkeys(p.way for p in points) if camp(way) != camp(first)]
    times = {way: seconds_to(target, [p for p in points if p.way == way], way in WALKS) for way in ways}
    best = min(times, key=lambda way: times[way])
    return f"{best} {1e3 * times[best]:.3g} ms" if np.isfinite(times[best]) else "none in time"


def warm_up() -> None:
    """Compile everything on a small graph."""
    graph = graph_of("random", 2000)
    for question in QUESTIONS:
        measure(question, Case("random", 2000, graph, graph.to_scipy("normalized"), 1), 0.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    parser.add_argument("--limit", type=float, help="seconds for a way; 20, or 2 with --quick")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder to fill")
    options = parser.parse_args()
    os.environ["WALKERNEL_NUM_THREADS"] = "1"
    threadpool_limits(1)
    warnings.simplefilter("ignore", wk.InfiniteVarianceWarning)
    warm_up()
    cut = 1 if options.quick else 0
    largest = {question: sizes[-1 - cut] for question, sizes in SIZES.items()}
    points = all_points(largest, options.limit or (2.0 if options.quick else 20.0))
    text = machine() + "\n" + winners(points)
    print(text)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "regimes.txt").write_text(text, encoding="utf-8")
    with (options.out / "regimes.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([Point._fields, *points])
    save_regimes_figure(points, options.out / "regimes.png")


if __name__ == "__main__":
    main()
