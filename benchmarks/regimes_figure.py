"""The picture of the regimes: time against error for some questions, and a map of who is first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy_figure import save_small

SWEEP = "features, 20 kernels"
NEAREST_ONE, NEAREST_MANY = "nearest 20, 1 node", "nearest 20, 100 nodes"
ONLY_MAPPED = ("100 neighbours", NEAREST_ONE, NEAREST_MANY)
"""Questions without a panel."""

TARGETS = (0.1, 0.01)


class Point(NamedTuple):
    """One run of one way to answer a question."""

    question: str
    shape: str
    n_nodes: int
    width: int
    way: str
    setting: float
    seconds: float
    error: float


class Way(NamedTuple):
    """How a way is drawn."""

    label: str
    colour: str
    marker: str


WAYS = {
    "features": Way("walks: features", "#0072b2", "o"),
    "operator": Way("walks: operator", "#56b4e9", "D"),
    "nearest": Way("wk.nearest", "#009e73", "P"),
    "polynomial": Way("polynomial, whole graph", "#d55e00", "s"),
    "ball": Way("polynomial, ball of some hops", "#e69f00", "v"),
    "pruned series": Way("polynomial, largest entries kept", "#f0c040", "^"),
    "eigenvectors": Way("eigenvectors", "#999999", "X"),
}
WALKS = ("features", "operator")
SHOWN_WIDTH, MOST_LEAD = 5, 1000
HEADING = {"fontsize": 11, "fontweight": "bold"}
NOTE = (
    "Numbers: how many times sooner than the best of another side.  "
    "only: no other side is there in time.  –: nobody is."
)


class Verdict(NamedTuple):
    """Who is first to an error, and how many times sooner than the best of another camp."""

    way: str
    seconds: float
    lead: float


def camp(way: str) -> str:
    """Return the side of a way: walks, ``wk.nearest``, or a deterministic way."""
    if way in WALKS:
        return "walks"
    return "nearest" if way == "nearest" else "deterministic"


def seconds_to(target: float, points: Sequence[Point], beyond: bool = False) -> float:
    """Return the time to an error, between measured points by a power law; infinity if it is not reached.

    ``beyond`` goes on from the last point as walks do, whose error falls as 1/√time.
    """
    best = np.inf
    for i, point in enumerate(points):
        if point.error > target:
            continue
        before = points[i - 1] if i else point
        seconds = point.seconds
        if before.error > target and before.seconds < point.seconds:
            part = np.log(before.error / target) / np.log(before.error / point.error)
            seconds = before.seconds * (point.seconds / before.seconds) ** part
        best = min(best, seconds)
    if beyond and points and np.isinf(best):
        best = min(point.seconds * (point.error / target) ** 2 for point in points)
    return float(best)


def verdict(points: Sequence[Point], target: float) -> Verdict | None:
    """Return who is first among the ways of one question, None if nobody gets there."""
    ways = dict.fromkeys(point.way for point in points)
    curves = {way: [p for p in points if p.way == way] for way in ways}
    times = {way: seconds_to(target, curve) for way, curve in curves.items()}
    if not np.isfinite(min(times.values(), default=np.inf)):
        return None
    first = min(times, key=lambda way: times[way])
    rest = [seconds_to(target, curves[way], way in WALKS) for way in ways if camp(way) != camp(first)]
    return Verdict(first, times[first], min(rest, default=np.inf) / times[first])


def save_regimes_figure(points: Sequence[Point], path: Path) -> None:
    """Draw a panel of time and error for each question, and below them the maps."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    questions = list(dict.fromkeys(point.question for point in points))
    rows = sorted({(questions.index(p.question), p.n_nodes) for p in points})
    above, below = 3.7, 1.35 + 0.3 * len(rows)
    with pyplot.rc_context({"font.size": 9, "axes.linewidth": 0.6}):
        figure = pyplot.figure(figsize=(9.6, above + below), layout="constrained")
        panels, maps = figure.subfigures(2, 1, height_ratios=[above, below])
        panels.suptitle(f"Error against time: exp(−{SHOWN_WIDTH}L), random graphs, one thread", **HEADING)
        maps.suptitle("Who is first: walks (blue), wk.nearest (green) or a deterministic way", **HEADING)
        shown = [question for question in questions if question not in ONLY_MAPPED]
        all_axes = panels.subplots(1, len(shown), sharey=True)
        for axes, question in zip(all_axes, shown, strict=True):
            _draw_curves(axes, [p for p in points if p.question == question])
        all_axes[0].set_ylabel("relative error")
        panels.legend(handles=_handles(), loc="outside lower center", ncols=3, frameon=False)
        maps.supxlabel(NOTE, fontsize=8.5)
        for axes, target in zip(maps.subplots(1, len(TARGETS), sharey=True), TARGETS, strict=True):
            _draw_map(axes, points, [(questions[i], n) for i, n in rows], target)
        save_small(figure, path)
    pyplot.close(figure)


def _handles() -> list[Any]:
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=w.colour, marker=w.marker, label=w.label) for w in WAYS.values()]


def _draw_curves(axes: Any, points: Sequence[Point]) -> None:
    """Draw error against time of each way on the largest random graph, at middle width."""
    largest = max(point.n_nodes for point in points)
    mine = [p for p in points if p.n_nodes == largest and p.shape == "random" and p.width == SHOWN_WIDTH]
    for name, way in WAYS.items():
        curve = [p for p in mine if p.way == name]
        if curve:
            axes.plot([p.seconds for p in curve], [p.error for p in curve], color=way.colour,
                      marker=way.marker, markersize=5, linewidth=1.5, label=way.label)  # fmt: skip
    for target in TARGETS:
        axes.axhline(target, color="black", linewidth=0.6, linestyle=":")
    axes.set(xscale="log", yscale="log", ylim=(1e-4, 2), xlabel="seconds")
    axes.set_title(f"{points[0].question}\n{_count(largest)} nodes", fontsize=9.5)
    axes.grid(alpha=0.3, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)


def _count(n_nodes: int) -> str:
    return f"10{'⁴⁵⁶⁷'[round(np.log10(n_nodes)) - 4]}"


def _draw_map(axes: Any, points: Sequence[Point], rows: list[tuple[str, int]], target: float) -> None:
    """Colour a tile for each question, size, shape and width by who is first to an error."""
    from matplotlib.patches import Rectangle

    columns = list(dict.fromkeys((p.shape, p.width) for p in points))
    for y, (question, n_nodes) in enumerate(rows):
        for x, (shape, width) in enumerate(columns):
            here = (question, n_nodes, shape, width)
            mine = [p for p in points if (p.question, p.n_nodes, p.shape, p.width) == here]
            found = verdict(mine, target)
            colour = "#eeeeee" if found is None else WAYS[found.way].colour
            axes.add_patch(Rectangle((x - 0.47, y - 0.45), 0.94, 0.9, color=colour, linewidth=0))
            text = "–" if found is None else _lead(found.lead)
            dark = found is None or found.way in ("pruned series", "operator", "ball")
            axes.text(x, y, text, ha="center", va="center", fontsize=8,
                      color="black" if dark else "white")  # fmt: skip
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
    axes.set_xticks(range(len(columns)), [f"{shape}\nt = {width}" for shape, width in columns])
    axes.set_yticks(range(len(rows)), [f"{question}, {_count(n)}" for question, n in rows])
    axes.set_title(f"to {100 * target:g} % error", fontsize=10)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _lead(lead: float) -> str:
    if not np.isfinite(lead):
        return "only"
    if lead > MOST_LEAD:
        return f">{MOST_LEAD}×"
    return f"{lead:.0f}×" if lead >= 10 else f"{lead:.1f}×"
