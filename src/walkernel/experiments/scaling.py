"""Appendix A.6, second part: the error does not grow with the graph, and the time grows slower than K's.

Erdős–Rényi graphs with half of all edges; a graph of 12800 nodes has 41 million. The exact kernel takes O(N³)
time. Where that is too long, the error is that of some rows, whose exact values are products with the sparse
matrix (``polynomial_operator``), and the time of the exact kernel is not known.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from walkernel.datasets import erdos_renyi
from walkernel.engines import sample_features
from walkernel.experiments._errors import squared_error
from walkernel.experiments._study import COMMON, Cell, Row, Run, Study, Verdict, named, summary
from walkernel.graph import Graph
from walkernel.kernels import Diffusion
from walkernel.operators import exact_kernel, polynomial_operator
from walkernel.walks import IndependentWalks

T = TypeVar("T")
N_WALKS, P_HALT, P_EDGE, C = 8, 0.5, 0.5, 0.2
KERNEL = Diffusion(np.sqrt(2 * C))  # exp(c W̃), a constant factor apart
REPEATS = {
    "quick": {100: 20, 200: 20, 400: 10, 800: 4, 1600: 2},
    "full": {100: 50, 200: 50, 400: 20, 800: 10, 1600: 5, 3200: 2, 6400: 1, 12800: 1},
}
"""Sizes of the graphs, and how many are drawn of each."""
MAX_EXACT_NODES = 6400
"""Nodes of the largest graph whose kernel is computed exactly."""
N_ROWS = 64
PUBLISHED, SPEED_UP = 0.005, 7.8


def cells(size: str) -> list[Cell]:
    """Return a cell for each number of nodes."""
    return [Cell("scaling", str(n), {"n": n}) for n in REPEATS[size]]


def measure(cell: Cell, run: Run) -> list[Row]:
    """Return the error at one number of nodes; seconds are no column of the table."""
    n = cell.given["n"]
    seeds = run.seeds(62, n).integers(2**31, size=REPEATS[run.size][n]).tolist()
    estimate(erdos_renyi(20, P_EDGE).graph, 0)  # compilation is not timed
    errors, seconds = zip(*(compare(n, seed) for seed in seeds), strict=True)
    took = run.kept(f"scaling-seconds/{n}", lambda: np.median(np.array(seconds), axis=0).tolist())
    exact = n <= MAX_EXACT_NODES
    return [
        {
            "graph": "Erdős–Rényi", "n": n, "p_edge": P_EDGE, "rows": "all" if exact else N_ROWS,
            "published": PUBLISHED, **summary(errors), "error_kind": "squared", "ensembles": "shared", "c": C,
            "parameters": named(kernel="diffusion", n_walks=N_WALKS, p_halt=P_HALT),
            "seconds_walks": took[0], "seconds_exact": took[1] if exact else None,
        }
    ]  # fmt: skip


def estimate(graph: Graph, seed: int) -> Any:
    """Return K̂ = ΦΦᵀ, sparse."""
    features = sample_features(graph, KERNEL, N_WALKS, sampler=IndependentWalks(P_HALT), seed=seed)
    return features @ features.T


def compare(n: int, seed: int) -> tuple[float, tuple[float, float]]:
    """Return the error on one graph, and the seconds of the estimate and of what it is compared with."""
    graph = erdos_renyi(n, P_EDGE, seed=seed).graph
    K, walking = timed(lambda: estimate(graph, seed))
    chosen = np.arange(n)
    if n > MAX_EXACT_NODES:
        chosen = np.sort(np.random.default_rng(seed).choice(n, size=N_ROWS, replace=False))
    exact, exactly = timed(lambda: _exact_rows(graph, chosen))
    return squared_error(K[chosen].toarray(), exact), (walking, exactly)


def _exact_rows(graph: Graph, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    if chosen.size == graph.n_nodes:
        return exact_kernel(graph, KERNEL)
    return polynomial_operator(graph, KERNEL).rows(chosen)


def timed(compute: Callable[[], T]) -> tuple[T, float]:
    """Return a result and the seconds it took."""
    begin = time.perf_counter()
    return compute(), time.perf_counter() - begin


def draw(rows: dict[str, list[Row]], figure: Any) -> None:
    """Draw the error, and the seconds of both ways."""
    left, right = figure.subplots(1, 2)
    found = rows["scaling"]
    n, errors = (np.array([row[key] for row in found]) for key in ("n", "ours"))
    bars = np.array([2 * (row["stderr"] or 0) for row in found])
    left.errorbar(n, errors, bars, fmt="o-", capsize=3, label="ours (bars: two standard errors)")
    left.axhline(PUBLISHED, color="tab:orange", linestyle="--", label=f"the paper: ≈ {PUBLISHED}")
    left.set(xscale="log", ylim=(0, 0.008), xlabel="nodes", ylabel="squared relative error")
    left.legend(loc="lower left")
    for key, label in (("seconds_exact", "exact kernel"), ("seconds_walks", "walks and their product")):
        timed_rows = [row for row in found if row[key] is not None]
        right.loglog(*([row[name] for row in timed_rows] for name in ("n", key)), "o-", label=label)
    right.set(xlabel="nodes", ylabel="seconds")
    right.legend(loc="upper left")
    for axes in (left, right):
        axes.set_xticks(n, [str(value) for value in n], rotation=45 if n.size > 6 else 0)
        axes.minorticks_off()


def judge(rows: dict[str, list[Row]]) -> Verdict:
    """Compare errors with the paper's, and its speed-up with ours."""
    found = rows["scaling"]
    errors = [row["ours"] for row in found]
    holds = all(abs(error / PUBLISHED - 1) <= 0.1 for error in errors)
    last = [row for row in found if row["seconds_exact"] is not None][-1]
    faster = last["seconds_exact"] / last["seconds_walks"]
    partial = [row["n"] for row in found if row["rows"] != "all"]
    where = f" (at {partial[0]} nodes of {N_ROWS} rows)" if partial else ""
    return Verdict(
        holds,
        f"The squared error is {min(errors):.5f}–{max(errors):.5f} from {found[0]['n']} to {found[-1]['n']} "
        f"nodes{where}, the paper's ≈ {PUBLISHED}; it writes the norm of the error and prints the square. At "
        f"{last['n']} nodes walks and their sparse product took {last['seconds_walks']:.2g} s and the exact "
        f"kernel {last['seconds_exact']:.3g} s on this machine, {faster:.0f} times as long; the paper "
        f"reports {SPEED_UP} times at 12800 nodes.",
    )


STUDY = Study(
    "scaling", "A.6", "Error and time against the size of a random graph",
    {"scaling": ("graph", "n", "p_edge", "rows", *COMMON)},
    cells, measure, draw, judge, figure_size=(9.5, 3.8),
)  # fmt: skip
