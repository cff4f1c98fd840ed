"""Sec. 3.2: heat from one node, by walks: the error against their number, with two rules for the times.

x' = −Lx + e₁ from x(0) = 0 up to t = 1, where L = I − W̃. The paper draws ten times at random for the integral
over the source; that alone costs some percent, whatever the walks do. It also writes +L, with a steady state
L⁻¹(−e₁): solutions then grow, and L is singular on every graph, so that state does not exist. The table
``ode-growth`` shows it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from walkernel.experiments._graphs import absent, load, present
from walkernel.experiments._study import COMMON, Cell, Row, Run, Study, Verdict, named, summary
from walkernel.graph import Graph
from walkernel.tasks import ODESolution, solve_ode
from walkernel.walks import IndependentWalks

GRAPHS = ("karate", "dolphins", "football")
RULES = {"monte-carlo": 10, "gauss-legendre": 4}
"""Rules for the integral over the source and their numbers of times; the first is the paper's."""
WALKS = (2, 4, 8, 16, 32, 64, 128, 256)
P_HALT, TIME, LATE = 0.1, 1.0, 4.0
ALONE = "exact kernel"
FEW, MANY = 8, 128
GOAL = (3.0, 5.0)
"""Where the error with few walks, divided by that with many, should be: √16, give or take."""
REPEATS = {"quick": 10, "full": 100}


def cells(size: str) -> list[Cell]:
    """Return a cell for each graph and rule, and one for the paper's sign on each graph."""
    graphs = present(GRAPHS)
    found = [
        Cell("ode", f"{graph}-{rule}", {"graph": graph, "rule": rule}) for graph in graphs for rule in RULES
    ]
    return found + [Cell("ode-growth", f"{graph}-growth", {"graph": graph}) for graph in graphs]


def solve(graph: Graph, t: Any = TIME, **options: Any) -> ODESolution:
    """Solve the equation with a source at the first node; that solutions of +L grow is known here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*: with matrix='positive-laplacian'")
        return solve_ode(graph, np.eye(graph.n_nodes)[0], t, **options)


def errors_of(
    graph: Graph, exact: NDArray[np.float64], seeds: list[int], **options: Any
) -> NDArray[np.float64]:
    """Return ‖x̂ − x‖ / ‖x‖ at the end for each seed."""
    states = np.array([solve(graph, seed=seed, **options).x[0] for seed in seeds])
    return np.linalg.norm(states - exact, axis=1) / np.linalg.norm(exact)


def measure(cell: Cell, run: Run) -> list[Row]:
    """Return the rows of one cell."""
    return _growth(cell, run) if cell.table == "ode-growth" else _errors(cell, run)


def _common(**parameters: Any) -> dict[str, Any]:
    return {
        "error_kind": "norm", "ensembles": "independent", "c": TIME,
        "parameters": named(t=TIME, p_halt=P_HALT, **parameters),
    }  # fmt: skip


def _errors(cell: Cell, run: Run) -> list[Row]:
    """Return the errors of one rule on one graph, and what random times cost even with the exact kernel."""
    name, rule = cell.given["graph"], cell.given["rule"]
    graph = load(name).graph
    exact = solve(graph, method="polynomial").x[0]
    counts: list[Any] = [*WALKS, ALONE] if rule == "monte-carlo" else list(WALKS)
    key = (32, GRAPHS.index(name), list(RULES).index(rule))
    seeds = run.seeds(*key).integers(2**31, size=(len(counts), REPEATS["full"])).tolist()
    rows: list[Row] = []
    for n_walks, own in zip(counts, seeds, strict=True):
        own = own if n_walks == ALONE else own[: REPEATS[run.size]]
        how = {"method": "polynomial"} if n_walks == ALONE else _walking(n_walks)
        errors = errors_of(graph, exact, own, quadrature=rule, n_points=RULES[rule], **how)
        rows.append(
            {
                "graph": name, "n": graph.n_nodes, "rule": rule, "n_times": RULES[rule], "n_walks": n_walks,
                **summary(errors), **_common(matrix="-L"),
            }
        )  # fmt: skip
    return rows


def _walking(n_walks: int) -> dict[str, Any]:
    return {"method": "walks", "n_walks": n_walks, "sampler": IndependentWalks(P_HALT), "pair": "symmetric"}


def _growth(cell: Cell, run: Run) -> list[Row]:
    """Return what becomes of the equation with the paper's sign on one graph."""
    name = cell.given["graph"]
    graph = load(name).graph
    laplacian = np.eye(graph.n_nodes) - graph.to_scipy("normalized").toarray()
    literal = {"matrix": "positive-laplacian"}
    decays, grows = (solve(graph, [TIME, LATE], method="polynomial", **sign) for sign in ({}, literal))
    seeds = run.seeds(32, GRAPHS.index(name), 9).integers(2**31, size=REPEATS[run.size]).tolist()
    errors = errors_of(
        graph, grows.x[0], seeds, n_points=RULES["gauss-legendre"], **literal, **_walking(MANY)
    )
    return [
        {
            "graph": name, "n": graph.n_nodes, "n_walks": MANY,
            "zero_eigenvalues": int((np.linalg.eigvalsh(laplacian) < 1e-9).sum()),
            "steady_state_minus": _limit(decays), "steady_state_plus": _limit(grows),
            "norm_minus_1": np.linalg.norm(decays.x[0]), "norm_minus_4": np.linalg.norm(decays.x[1]),
            "norm_plus_1": np.linalg.norm(grows.x[0]), "norm_plus_4": np.linalg.norm(grows.x[1]),
            **summary(errors), **_common(matrix="+L", rule="gauss-legendre"),
        }
    ]  # fmt: skip


def _limit(solution: ODESolution) -> str:
    """Return whether a solution has a steady state."""
    try:
        solution.steady_state()
    except ValueError:
        return "none"
    return "exists"


def _curve(rows: list[Row], graph: str, rule: str) -> tuple[NDArray[Any], ...]:
    """Return walks, errors and their standard errors."""
    own = [row for row in rows if (row["graph"], row["rule"]) == (graph, rule) and row["n_walks"] != ALONE]
    return tuple(np.array([row[key] for row in own]) for key in ("n_walks", "ours", "stderr"))


def _alone(rows: list[Row]) -> dict[str, float]:
    """Return the error of random times with the exact kernel on each graph."""
    return {row["graph"]: row["ours"] for row in rows if row["n_walks"] == ALONE}


def draw(rows: dict[str, list[Row]], figure: Any) -> None:
    """Draw a panel for each graph, with the standard deviation of the mean shaded."""
    names = {"monte-carlo": "ten random times (the paper)", "gauss-legendre": "four Gauss–Legendre times"}
    alone = _alone(rows["ode"])
    panels = figure.subplots(1, len(alone), sharex=True, sharey=True, squeeze=False)[0]
    for axes, graph in zip(panels, alone, strict=True):
        for rule, label in names.items():
            n_walks, errors, stderr = _curve(rows["ode"], graph, rule)
            (line,) = axes.loglog(n_walks, errors, ".-", linewidth=1.2, label=label)
            axes.fill_between(
                n_walks, errors - stderr, errors + stderr, color=line.get_color(), alpha=0.3, linewidth=0
            )
        axes.axhline(alone[graph], color="tab:blue", linestyle=":", label="ten random times, exact kernel")
        guide = 0.7 * errors[0] * np.sqrt(n_walks[0] / n_walks)
        axes.loglog(n_walks, guide, "--", color="0.6", linewidth=1, label="slope −1/2")
        axes.set_title(graph, fontsize=9)
        axes.set_xticks([2, 8, 32, 128], ["2", "8", "32", "128"])
        axes.minorticks_off()
        axes.set_xlabel("walks from each node")
    panels[0].set_ylabel("relative error of the state at t = 1")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)


def judge(rows: dict[str, list[Row]]) -> Verdict:
    """Judge how the error falls, and what the paper's sign does."""
    alone, growth = _alone(rows["ode"]), rows["ode-growth"]
    ratios, last = {}, []
    for graph in alone:
        n_walks, errors, _ = _curve(rows["ode"], graph, "gauss-legendre")
        ratios[graph] = float(errors[n_walks == FEW][0] / errors[n_walks == MANY][0])
        last.append(_curve(rows["ode"], graph, "monte-carlo")[1][-1])
    holds = all(GOAL[0] <= ratio <= GOAL[1] for ratio in ratios.values())
    shown = ", ".join(f"{ratio:.2f} on {graph}" for graph, ratio in ratios.items())
    lacks = all(
        row["zero_eigenvalues"] > 0 and row["steady_state_plus"] == row["steady_state_minus"] == "none"
        for row in growth
    )
    early, late = (max(row[key] for row in growth) for key in ("norm_plus_1", "norm_plus_4"))
    return Verdict(
        holds,
        f"For x' = −Lx + e₁ the error {'drops as' if holds else 'does not drop as'} the paper says: with "
        f"four Gauss–Legendre times {FEW} walks have {shown} times the error of {MANY} (√16 = 4 expected), "
        f"but with the paper's ten random times it stalls at {min(last):.3f}–{max(last):.3f}, since these "
        f"alone cost {min(alone.values()):.3f}–"
        f"{max(alone.values()):.3f} even with the exact kernel. With the paper's +L the state grows, in norm "
        f"from {early:.2f} at t = {TIME:g} to {late:.0f} at t = {LATE:g}, and its steady state L⁻¹(−y) "
        f"{'does not exist: L is singular on every graph' if lacks else 'exists on some graph'}."
        f"{absent(GRAPHS)}",
    )


STUDY = Study(
    "ode", "3.2", "A differential equation on graphs",
    {
        "ode": ("graph", "n", "rule", "n_times", "n_walks", *COMMON),
        "ode-growth": (
            "graph", "n", "n_walks", "zero_eigenvalues", "steady_state_minus", "steady_state_plus",
            "norm_minus_1", "norm_minus_4", "norm_plus_1", "norm_plus_4", *COMMON,
        ),
    },
    cells, measure, draw, judge, figure_size=(9.5, 3.8),
)  # fmt: skip
