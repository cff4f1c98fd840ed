"""The picture of the accuracy benchmark: a panel for each graph and kernel."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from acceptance import Cell

DPI = 150
FLOOR = 1e-5
"""Errors below it are drawn there."""
MOST_GAIN = 1000
LETTER = 0.13
"""Height of a label as a part of a panel's."""

COLOURS = 96
"""Colours of a saved picture: enough for smooth letters, a third of the file."""


class Line(NamedTuple):
    """How a method is drawn."""

    label: str
    colour: str
    marker: str
    with_gain: bool


LINES = {
    "paper": Line("the paper's walks", "#808080", "s", False),
    "+ coupled": Line("coupled walks", "#56b4e9", "^", False),
    "default features": Line("default features", "#0072b2", "o", True),
    "default operator": Line("default operator", "#d55e00", "D", True),
}
TITLES = {
    "diffusion t=1": "exp(−L)",
    "diffusion t=5": "exp(−5L)",
    "diffusion t=20": "exp(−20L)",
    "reg. Laplacian 1, 1": "(I + L)⁻¹",
    "reg. Laplacian 2, √5": "(I + 5L)⁻²",
}


def save_accuracy_figure(cells: Sequence[Cell], path: Path) -> None:
    """Draw error against steps for every graph (rows) and kernel (columns), all on the same scale."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    graphs = list(dict.fromkeys(cell.graph for cell in cells))
    kernels = list(dict.fromkeys(cell.kernel for cell in cells))
    with pyplot.rc_context({"font.size": 9, "axes.linewidth": 0.6}):
        figure, axes = pyplot.subplots(
            len(graphs), len(kernels), figsize=(9.6, 1.2 + 1.3 * len(graphs)), sharex=True, sharey=True,
            squeeze=False,
        )  # fmt: skip
        for i, graph in enumerate(graphs):
            for j, kernel in enumerate(kernels):
                mine = [cell for cell in cells if (cell.graph, cell.kernel) == (graph, kernel)]
                _draw_panel(axes[i, j], mine, _drawn_range(cells))
            axes[i, 0].set_ylabel(graph, fontsize=9.5)
        for j, kernel in enumerate(kernels):
            axes[0, j].set_title(TITLES[kernel], fontsize=10.5)
            axes[-1, j].set_xlabel("steps per node")
        _set_scales(axes[0, 0], cells)
        _head(figure, axes[0, 0], max(cell.steps for cell in cells))
        save_small(figure, path)
    pyplot.close(figure)


def _drawn_range(cells: Sequence[Cell]) -> tuple[float, float]:
    """Return the ends of the axis of errors."""
    drawn = [cell.error for cell in cells if cell.method in LINES]
    return max(FLOOR, min(drawn)) / 2.5, 1.5 * max(drawn)


def _draw_panel(axes: Any, cells: Sequence[Cell], ends: tuple[float, float]) -> None:
    """Draw the lines, and where the last of them end how much less their error is than the paper's."""
    last: dict[str, Cell] = {}
    for name, line in LINES.items():
        mine = [cell for cell in cells if cell.method == name]
        steps, errors = [cell.walked for cell in mine], [max(FLOOR, cell.error) for cell in mine]
        style = {"color": line.colour, "marker": line.marker, "markersize": 3.2, "linewidth": 1.4}
        axes.plot(steps, errors, label=line.label, **style)
        last[name] = mine[-1]
    paper = last["paper"]
    errors = {name: max(FLOOR, last[name].error) for name, line in LINES.items() if line.with_gain}
    for name, height in _apart(errors, (ends[1] / ends[0]) ** LETTER).items():
        gain = float(f"{paper.error / last[name].error:.2g}")
        label = f"{gain:g}×" if gain <= MOST_GAIN else f">{MOST_GAIN}×"
        axes.text(1.12 * paper.walked, height, label, color=LINES[name].colour, fontsize=8.5,
                  fontweight="bold", va="center")  # fmt: skip
    axes.grid(alpha=0.35, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=2, labelsize=8)


def _apart(errors: dict[str, float], factor: float) -> dict[str, float]:
    """Return heights of labels near some errors, no two closer than a factor."""
    names = sorted(errors, key=lambda name: errors[name])
    heights = {name: errors[name] for name in names}
    for below, above in itertools.pairwise(names):
        short = factor * heights[below] / heights[above]
        if short > 1:
            heights[below] /= np.sqrt(short)
            heights[above] *= np.sqrt(short)
    return heights


def _set_scales(axes: Any, cells: Sequence[Cell]) -> None:
    steps = sorted({cell.steps for cell in cells})
    low, high = _drawn_range(cells)
    axes.set(xscale="log", yscale="log", xlim=(0.75 * steps[0], 3.7 * steps[-1]), ylim=(low, high))
    axes.set_xticks(steps, [str(n) for n in steps])
    axes.set_xticks([], minor=True)
    powers = range(0, int(np.log10(low)) - 1, -1)
    axes.set_yticks([10.0**p for p in powers if 10.0**p > low])
    axes.set_yticks([], minor=True)


def _head(figure: Any, axes: Any, steps: int) -> None:
    """Put a title and one legend above the panels."""
    height = figure.get_figheight()
    figure.subplots_adjust(left=0.085, right=0.995, bottom=0.45 / height, top=1 - 0.82 / height,
                           wspace=0.07, hspace=0.12)  # fmt: skip
    title = "Relative error ‖K̂ − K‖ / ‖K‖ at equal steps"
    figure.text(0.085, 1 - 0.18 / height, title, fontsize=11.5, va="center", fontweight="bold")
    note = f"Times less error than the paper's walks at {steps} steps; drawn down to {FLOOR:.0e}"
    figure.text(0.995, 1 - 0.18 / height, note, fontsize=9, va="center", ha="right")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="center left", bbox_to_anchor=(0.075, 1 - 0.42 / height),
                  ncols=len(LINES), frameon=False, fontsize=9.5)  # fmt: skip


def save_small(figure: Any, path: Path) -> None:
    """Save a picture as a PNG of few colours."""
    from PIL import Image

    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white")
    picture = Image.open(buffer).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
