"""Pictures; matplotlib is imported when one is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from walkernel._files import atomic_write

if TYPE_CHECKING:
    from walkernel.experiments.demo import ErrorCurve

MARKERS = "osD^v"


def save_error_curves(curves: Sequence[ErrorCurve], title: str, path: Path) -> None:
    """Draw errors against the number of walks, and the last estimate against the exact kernel."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for curve, marker in zip(curves, MARKERS, strict=False):
        left.errorbar(
            curve.walks,
            curve.mean,
            yerr=2 * curve.stderr,
            marker=marker,
            markersize=5,
            capsize=2,
            label=curve.name,
        )
        scale = np.abs(curve.exact).max()
        right.plot(
            curve.exact.ravel() / scale,
            curve.estimate.ravel() / scale,
            marker,
            markersize=3,
            alpha=0.35,
            label=curve.name,
        )
    walks = np.array(curves[0].walks)
    guide = 1.6 * max(curve.mean[0] for curve in curves) * np.sqrt(walks[0] / walks)
    left.plot(walks, guide, "k--", linewidth=1, label="slope −1/2")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="walks from each node",
        ylabel="relative Frobenius error ‖K̂ − K‖ / ‖K‖",
    )
    left.set_xticks(walks, [str(n) for n in walks])
    left.minorticks_off()
    left.set_title("the error falls as 1/√walks (bars: two standard errors)", fontsize=10)
    left.legend(frameon=False, fontsize=8)
    left.grid(alpha=0.25)
    low, high = right.get_xlim()
    right.plot([low, high], [low, high], "k-", linewidth=0.8)
    right.set(xlabel="exact entry / largest entry", ylabel=f"estimate from {walks[-1]} walks")
    right.set_title("every entry of K, exact and estimated", fontsize=10)
    right.grid(alpha=0.25)
    figure.suptitle(title)
    _save(figure, path)
    pyplot.close(figure)


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=150)
