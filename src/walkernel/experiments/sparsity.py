"""Appendix A.6, first part: the error hardly depends on how dense a random graph is."""

from __future__ import annotations

from typing import Any

import numpy as np

from walkernel.datasets import erdos_renyi
from walkernel.experiments._errors import draw_walks, squared_error
from walkernel.experiments._study import COMMON, Cell, Row, Run, Study, Verdict, named, summary
from walkernel.kernels import Diffusion
from walkernel.operators import exact_kernel

N_NODES, N_WALKS, P_HALT, C = 100, 8, 0.1, 0.2
P_EDGES = (0.1, 0.3, 0.5, 0.7, 0.9)
KERNEL = Diffusion(np.sqrt(2 * C))  # exp(c W̃), a constant factor apart
LIMIT = 0.00275
"""The paper's errors are less than this."""


def cells(size: str) -> list[Cell]:
    """Return a cell for each density."""
    return [Cell("sparsity", f"{p_edge:g}", {"p_edge": p_edge}) for p_edge in P_EDGES]


def measure(cell: Cell, run: Run) -> list[Row]:
    """Return the error at one density, each repeat on a graph of its own."""
    p_edge, n_repeats = cell.given["p_edge"], 100 if run.full else 30
    errors = []
    for seed in run.seeds(6, round(100 * p_edge)).integers(2**31, size=n_repeats).tolist():
        graph = erdos_renyi(N_NODES, p_edge, seed=seed).graph
        K = draw_walks(graph, N_WALKS, P_HALT, seed, "shared").estimate(KERNEL)
        errors.append(squared_error(K, exact_kernel(graph, KERNEL)))
    return [
        {
            "graph": "Erdős–Rényi", "n": N_NODES, "p_edge": p_edge, "published": f"< {LIMIT}",
            **summary(errors), "error_kind": "squared", "ensembles": "shared", "c": C,
            "parameters": named(kernel="diffusion", n_walks=N_WALKS, p_halt=P_HALT),
        }
    ]  # fmt: skip


def draw(rows: dict[str, list[Row]], figure: Any) -> None:
    """Draw the error against the density."""
    axes, found = figure.subplots(), rows["sparsity"]
    x, y, bars = (np.array([row[key] for row in found]) for key in ("p_edge", "ours", "stderr"))
    axes.errorbar(x, y, 2 * bars, fmt="o-", capsize=3, label="ours (bars: two standard errors)")
    axes.axhline(LIMIT, color="tab:orange", linestyle="--", label=f"the paper: below {LIMIT}")
    axes.set(xlabel="probability of an edge", ylabel="squared relative error", ylim=(0, 0.0032))
    axes.legend(loc="lower right")


def judge(rows: dict[str, list[Row]]) -> Verdict:
    """Compare with the paper's limit."""
    errors = [row["ours"] for row in rows["sparsity"]]
    holds = max(errors) <= 1.05 * LIMIT
    return Verdict(
        holds,
        f"The squared error goes from {errors[0]:.5f} on the sparsest graphs to {errors[-1]:.5f} on the "
        f"densest; the paper's stays below {LIMIT}, which is "
        f"{'met' if holds else 'not met'} within 5 %. It writes the norm of the error and prints the square.",
    )


STUDY = Study(
    "sparsity", "A.6", "Error against the density of a random graph",
    {"sparsity": ("graph", "n", "p_edge", *COMMON)},
    cells, measure, draw, judge, figure_size=(6.5, 3.6),
)  # fmt: skip
