"""Appendix A.7, "Choice of p_halt": longer walks have less error, and cost more steps.

The paper calls any reasonably small value good. Here are the error, the steps and their product for two
kernels on two graphs, and beside them what this library's own choice of walks makes of as many steps. With
f_l ~ cˡ and geometric halting the second moment grows like (c²/(1 − p_halt))ˡ: where that is not below 1, the
variance is infinite, and means over repeats, however small they look, tell nothing.
"""

from __future__ import annotations

import warnings
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel._checks import InfiniteVarianceWarning
from walkernel.experiments._errors import draw_walks, squared_error
from walkernel.experiments._graphs import load
from walkernel.experiments._study import COMMON, Cell, Row, Run, Study, Verdict, named, summary
from walkernel.graph import Graph
from walkernel.kernels import Diffusion, Kernel, RegularizedLaplacian
from walkernel.operators import estimate_kernel, exact_kernel

GRAPHS = ("karate", "binary tree")
KERNELS: dict[str, Kernel] = {
    "2-reg. Laplacian, σ = 2": RegularizedLaplacian(2, 2.0),
    "diffusion, σ = 2": Diffusion(2.0),
}
FACTORS = (0.8, 2.0)
"""c of each kernel: σ²/(1 + σ²) and σ²/2."""
P_HALTS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
PAPER_P_HALT = 0.1
"""The paper's usual value."""
N_WALKS = 32
REPEATS = {"quick": 40, "full": 400}


def cells(size: str) -> list[Cell]:
    """Return a cell for each kernel and graph."""
    return [
        Cell("p-halt", f"{graph}-{i}", {"graph": graph, "kernel": kernel})
        for i, kernel in enumerate(KERNELS)
        for graph in GRAPHS
    ]


def measure(cell: Cell, run: Run) -> list[Row]:
    """Return errors and costs of one kernel on one graph."""
    name, kernel = cell.given["graph"], cell.given["kernel"]
    graph, number = load(name).graph, list(KERNELS).index(kernel)
    key = (7, GRAPHS.index(name), number)
    seeds = run.seeds(*key).integers(2**31, size=(len(P_HALTS), REPEATS[run.size])).tolist()
    exact = exact_kernel(graph, KERNELS[kernel])
    rows: list[Row] = []
    for p_halt, own in zip(P_HALTS, seeds, strict=True):
        tries = np.array([compare(graph, KERNELS[kernel], exact, p_halt, seed) for seed in own])
        errors, steps, defaults, own_steps = tries.T
        rows.append(
            {
                "graph": name, "n": graph.n_nodes, "kernel": kernel, "p_halt": p_halt,
                "variance": "finite" if p_halt < largest_p_halt(KERNELS[kernel]) else "infinite",
                "steps_per_walk": steps.mean(), "error_times_steps": errors.mean() * steps.mean(),
                "median": np.median(errors), "our_error": defaults.mean(),
                "our_steps_per_walk": own_steps.mean(), **summary(errors),
                "error_kind": "squared", "ensembles": "independent", "c": FACTORS[number],
                "parameters": named(n_walks=N_WALKS),
            }
        )  # fmt: skip
    return rows


def compare(
    graph: Graph, kernel: Kernel, exact: NDArray[np.float64], p_halt: float, seed: int
) -> tuple[float, float, float, float]:
    """Return the errors of the paper's walks and of ours, each with its steps per walk of the paper's."""
    n_all = 2 * graph.n_nodes * N_WALKS
    with warnings.catch_warnings():  # that a variance is infinite is a column of the table
        warnings.simplefilter("ignore", InfiniteVarianceWarning)
        walks = draw_walks(graph, N_WALKS, p_halt, seed, "independent")
        error = squared_error(walks.estimate(kernel), exact)
    budget = walks.left.n_steps + walks.right.n_steps
    own = estimate_kernel(graph, kernel, budget=budget, ensembles="independent", stitches=1, seed=seed)
    return error, budget / n_all, squared_error(own.to_dense(), exact), own.n_steps / n_all


def largest_p_halt(kernel: Kernel) -> float:
    """Return where c²/(1 − p_halt) = 1: below it variances are finite. 1/c is the radius of Σ f_l zˡ."""
    return 1 - kernel.power_radius(0.5) ** -2


def _groups(rows: list[Row]) -> list[list[Row]]:
    """Return the rows of each kernel and graph."""
    return [list(group) for _, group in groupby(rows, itemgetter("kernel", "graph"))]


def draw(rows: dict[str, list[Row]], figure: Any) -> None:
    """Draw errors above and errors times steps below, for each kernel and graph."""
    groups = _groups(rows["p-halt"])
    panels = figure.subplots(2, len(groups), sharex=True, squeeze=False)
    for above, below, group in zip(*panels, groups, strict=True):
        p, errors, steps, own, own_steps = (
            np.array([row[key] for row in group])
            for key in ("p_halt", "ours", "steps_per_walk", "our_error", "our_steps_per_walk")
        )
        for axes, factor, own_factor in ((above, 1.0, 1.0), (below, steps, own_steps)):
            axes.loglog(p, errors * factor, "o-", markersize=3, label="the paper's walks")
            axes.loglog(p, own * own_factor, "s-", markersize=3, label="our default walks, as many steps")
            limit = largest_p_halt(KERNELS[group[0]["kernel"]])
            if limit < 1:
                axes.axvspan(
                    limit, 0.8, color="0.9", linewidth=0, label="there the paper's have infinite variance"
                )
            axes.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
            axes.minorticks_off()
            axes.set_xlim(0.018, 0.8)
        above.set_title(f"{group[0]['kernel']}\n{group[0]['graph']}", fontsize=9)
        below.set_xlabel("probability to halt")
    panels[0, 0].set_ylabel("squared relative error")
    panels[1, 0].set_ylabel("the same × steps per walk")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)


def judge(rows: dict[str, list[Row]]) -> Verdict:
    """Judge whether smaller values are better, what they cost, and where the variance is infinite."""
    groups = _groups(rows["p-halt"])
    finite = [[row for row in group if row["variance"] == "finite"] for group in groups]
    falls = all(
        shorter["ours"] - longer["ours"] > -2 * np.hypot(shorter["stderr"], longer["stderr"])
        for group in finite
        for longer, shorter in pairwise(group)
    )
    best = [min(group, key=lambda row: row["error_times_steps"])["p_halt"] for group in finite]
    papers = [next(row for row in group if row["p_halt"] == PAPER_P_HALT) for group in groups]
    gains = [row["ours"] / row["our_error"] for row in papers]
    infinite = [row for group in groups for row in group if row["variance"] == "infinite"]
    limit = min(largest_p_halt(kernel) for kernel in KERNELS.values())
    claim = "falls as p_halt falls, as the paper says" if falls else "does not always fall as p_halt does"
    return Verdict(
        falls,
        f"Where the variance is finite, the error {claim}; per step the best is {min(best):g} to "
        f"{max(best):g}, by kernel and graph, and at the paper's {PAPER_P_HALT} our default walks have at "
        f"least {min(gains):.1f} times less squared error for as many steps. From p_halt = {limit:.2g} on, "
        f"where c² / (1 − p_halt) ≥ 1, the variance of the regularized Laplacian with c = {FACTORS[0]} is "
        f"infinite, and the means there (up to {max(row['ours'] for row in infinite):.2g}) are no estimates.",
    )


STUDY = Study(
    "p-halt", "A.7", "The choice of p_halt: error and cost",
    {
        "p-halt": (
            "graph", "n", "kernel", "p_halt", "variance", "steps_per_walk", "error_times_steps", "median",
            "our_error", "our_steps_per_walk", *COMMON,
        )
    },
    cells, measure, draw, judge, figure_size=(11.0, 5.4),
)  # fmt: skip
