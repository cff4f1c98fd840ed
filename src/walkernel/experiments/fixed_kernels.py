"""Sec. 3.1, Fig. 2: the error of five kernels on eight graphs falls with the root of the number of walks.

The paper has no numbers in its text, only that the error "improves as m grows and becomes very small"; what
can be checked is the rate, which is −1/2 for every unbiased estimate. The inverse cosine of the paper's
Table 1 has infinite variance with symmetric f under any geometric halting, so it is taken of 0.0625 W̃.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from walkernel.experiments._errors import draw_walks, squared_error
from walkernel.experiments._graphs import PAPER_GRAPHS, absent, load, present
from walkernel.experiments._study import COMMON, Cell, Row, Run, Study, Verdict, named, summary
from walkernel.kernels import Diffusion, InverseCosine, Kernel, PStepRandomWalk, RegularizedLaplacian
from walkernel.operators import exact_kernel

WALKS = (1, 2, 4, 8, 16, 32, 64, 128)
MIN_FITTED_WALKS = 4
"""Smallest number of walks in the fit of the slope: with fewer, terms in 1/m² add to the squared error."""
P_HALT, SIGMA, ALPHA, C_COSINE = 0.1, 0.25, 20.0, 0.0625
GOAL, TOLERANCE = -0.5, 0.03
LARGE = ("eurosis",)
"""Graphs that a quick run repeats less often."""


class Fixed(NamedTuple):
    """A kernel of the figure: itself, the factor c of its modulation function, and its parameter."""

    kernel: Kernel
    c: float
    parameter: str


KERNELS = {
    "1-reg. Laplacian": Fixed(RegularizedLaplacian(1, SIGMA), SIGMA**2 / (1 + SIGMA**2), f"sigma={SIGMA}"),
    "2-reg. Laplacian": Fixed(RegularizedLaplacian(2, SIGMA), SIGMA**2 / (1 + SIGMA**2), f"sigma={SIGMA}"),
    "2-step walk": Fixed(PStepRandomWalk(2, ALPHA), 1 / (ALPHA - 1), f"alpha={ALPHA:g}"),
    "diffusion": Fixed(Diffusion(SIGMA), SIGMA**2 / 2, f"sigma={SIGMA}"),
    "inverse cosine": Fixed(InverseCosine(C_COSINE), C_COSINE, f"scale={C_COSINE}"),
}


def cells(size: str) -> list[Cell]:
    """Return a cell for each graph that is here."""
    return [Cell("fixed-kernels", graph, {"graph": graph}) for graph in present(PAPER_GRAPHS)]


def measure(cell: Cell, run: Run) -> list[Row]:
    """Return the errors of all kernels on one graph; one sample of walks serves them all."""
    name = cell.given["graph"]
    graph = load(name).graph
    exact = [exact_kernel(graph, fixed.kernel) for fixed in KERNELS.values()]
    n_repeats = 3 if name in LARGE and not run.full else 10
    seeds = run.seeds(31, PAPER_GRAPHS.index(name)).integers(2**31, size=(len(WALKS), n_repeats)).tolist()
    squares = np.empty((len(KERNELS), len(WALKS), n_repeats))
    for i, n_walks in enumerate(WALKS):
        for repeat, seed in enumerate(seeds[i]):
            walks = draw_walks(graph, n_walks, P_HALT, seed, "independent")
            for k, (fixed, K) in enumerate(zip(KERNELS.values(), exact, strict=True)):
                squares[k, i, repeat] = squared_error(walks.estimate(fixed.kernel), K)
    return [
        {
            "graph": name, "n": graph.n_nodes, "kernel": kernel, "n_walks": n_walks,
            "squared": squares[k, i].mean(), **summary(np.sqrt(squares[k, i])),
            "error_kind": "norm", "ensembles": "independent", "c": fixed.c,
            "parameters": f"{named(p_halt=P_HALT)} {fixed.parameter}",
        }
        for k, (kernel, fixed) in enumerate(KERNELS.items())
        for i, n_walks in enumerate(WALKS)
    ]  # fmt: skip


class Curve(NamedTuple):
    """The error of one kernel on one graph against the number of walks."""

    graph: str
    n: int
    kernel: str
    n_walks: Any
    errors: Any
    stderr: Any

    @property
    def slope(self) -> float:
        """Exponent of the error in the number of walks."""
        many = self.n_walks >= MIN_FITTED_WALKS
        return float(np.polyfit(np.log(self.n_walks[many]), np.log(self.errors[many]), 1)[0])


def curves(rows: list[Row]) -> Iterator[Curve]:
    """Yield the curves that the rows of a table make up."""
    for graph, kernel in dict.fromkeys((row["graph"], row["kernel"]) for row in rows):
        own = [row for row in rows if (row["graph"], row["kernel"]) == (graph, kernel)]
        columns = (np.array([row[key] for row in own]) for key in ("n_walks", "ours", "stderr"))
        yield Curve(graph, own[0]["n"], kernel, *columns)


def draw(rows: dict[str, list[Row]], figure: Any) -> None:
    """Draw a panel for each graph, with the standard deviation of the mean shaded."""
    found = list(curves(rows["fixed-kernels"]))
    graphs = list(dict.fromkeys(curve.graph for curve in found))
    panels = figure.subplots(
        -(-len(graphs) // 4), min(4, len(graphs)), sharex=True, sharey=True, squeeze=False
    )
    for axes, graph in zip(panels.flat, graphs, strict=False):
        own = [curve for curve in found if curve.graph == graph]
        for curve in own:
            (line,) = axes.loglog(curve.n_walks, curve.errors, linewidth=0.9, label=curve.kernel)
            low, high = curve.errors - curve.stderr, curve.errors + curve.stderr
            axes.fill_between(curve.n_walks, low, high, color=line.get_color(), alpha=0.4, linewidth=0)
        guide = 0.13 / np.sqrt(own[0].n_walks)
        axes.loglog(own[0].n_walks, guide, "--", color="0.6", linewidth=1, label="slope −1/2")
        axes.set_title(f"{graph}, N = {own[0].n}", fontsize=9)
        axes.set_xticks([1, 4, 16, 64], ["1", "4", "16", "64"], minor=False)
        axes.minorticks_off()
    for axes in panels.flat[len(graphs) :]:
        axes.set_axis_off()
    shaded = "shaded: one standard deviation of the mean, often narrower than a line"
    figure.supxlabel(f"walks from each node ({shaded})", fontsize=9)
    figure.supylabel("relative error, Frobenius norm", fontsize=9)
    figure.legend(*panels.flat[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)


def judge(rows: dict[str, list[Row]]) -> Verdict:
    """Judge whether every error falls with the root of the number of walks."""
    found = list(curves(rows["fixed-kernels"]))
    steepest, flattest = (pick(found, key=lambda curve: curve.slope) for pick in (min, max))
    worst = max(found, key=lambda curve: curve.errors[-1])
    holds = all(abs(curve.slope - GOAL) <= TOLERANCE for curve in found)
    return Verdict(
        holds,
        f"From {MIN_FITTED_WALKS} to {WALKS[-1]} walks the error of {len(KERNELS)} kernels on "
        f"{len(found) // len(KERNELS)} graphs has slopes from {steepest.slope:.3f} ({steepest.kernel}, "
        f"{steepest.graph}) to {flattest.slope:.3f} ({flattest.kernel}, {flattest.graph}), "
        f"{'all' if holds else 'not all'} within {GOAL} ± {TOLERANCE}, as unbiased estimates must have. With "
        f"{WALKS[-1]} walks it is {worst.errors[-1]:.4f} at most ({worst.kernel}, {worst.graph}): very "
        f"small, as the paper says, whose figure has no numbers to compare with.{absent(PAPER_GRAPHS)}",
    )


STUDY = Study(
    "fixed-kernels", "3.1", "Unbiased estimates of fixed kernels",
    {"fixed-kernels": ("graph", "n", "kernel", "n_walks", "squared", *COMMON)},
    cells, measure, draw, judge, figure_size=(11.0, 5.4),
)  # fmt: skip
