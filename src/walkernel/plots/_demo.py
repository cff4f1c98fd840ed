"""The picture of ``walkernel demo``; matplotlib is imported when it is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from walkernel._files import atomic_write
from walkernel.plots._curves import GUIDE, curve_style

if TYPE_CHECKING:
    from walkernel.experiments.demo import ErrorCurve


def save_error_curves(curves: Sequence[ErrorCurve], title: str, path: Path) -> None:
    """Draw errors against the number of walks, and the last estimate against the exact kernel, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, curve in enumerate(curves):
        style = curve_style(i)
        bars = 2 * curve.stderr
        left.errorbar(curve.walks, curve.mean, bars, markersize=5, capsize=2, label=curve.name, **style)
        scale = np.abs(curve.exact).max()
        exact, estimate = curve.exact.ravel() / scale, curve.estimate.ravel() / scale
        right.plot(exact, estimate, linestyle="none", markersize=3, alpha=0.35, label=curve.name, **style)
    walks = np.array(curves[0].walks)
    guide = GUIDE * max(curve.mean[0] for curve in curves) * np.sqrt(walks[0] / walks)
    left.plot(walks, guide, "k--", linewidth=1, label="slope −1/2")
    left.set(xscale="log", yscale="log", xlabel="walks from each node")
    left.set_ylabel("relative Frobenius error ‖K̂ − K‖ / ‖K‖")
    left.set_xticks(walks, [str(n) for n in walks])
    left.minorticks_off()
    left.set_title("The error falls as 1/√walks (bars: two standard errors)", fontsize=10)
    left.legend(frameon=False, fontsize=8)
    left.grid(alpha=0.25)
    low, high = right.get_xlim()
    right.plot([low, high], [low, high], "k-", linewidth=0.8)
    right.set(xlabel="exact entry / largest exact entry")
    right.set_ylabel(f"estimate from {walks[-1]} walks / largest exact entry")
    right.set_title("Every entry of K, exact and estimated", fontsize=10)
    right.grid(alpha=0.25)
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=150)
