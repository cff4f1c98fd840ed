"""Pictures of learned modulation functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

BLUES = ("#9ecae1", "#4292c6", "#08519c", "#08306b")
COLOURS = {"1-reg": "#999999", "2-reg": "#e69f00", "diffusion": "#009e73", "learned": "#d55e00"}


def save_figures(curves: dict[str, Any], folder: Path) -> None:
    """Draw what was learned: f by number of walks, f for meshes, and an asymmetric pair."""
    if not curves:
        return
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    panels = [name for name in ("walks", "pair", "meshes") if name in curves]
    with pyplot.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = pyplot.subplots(
            1, len(panels), figsize=(4.3 * len(panels), 3.9), layout="constrained", squeeze=False
        )
        for axis, name in zip(axes[0], panels, strict=True):
            DRAWING[name](axis, curves[name])
            axis.set_xlabel("length of a walk")
            axis.set_xticks(range(8))
        figure.savefig(folder / "learned_modulation.png", dpi=150)
        pyplot.close(figure)


def draw_walks(axis: Any, found: dict[int, np.ndarray]) -> None:
    for (n_walks, f), colour in zip(found.items(), BLUES, strict=True):
        axis.plot(f, "o-", color=colour, ms=4, label=f"{n_walks} walks")
    axis.axhline(1, color="#d55e00", ls="--", label="unbiased")
    axis.set(title="Better than unbiased: learned f", ylabel="f / unbiased f", ylim=(0, 1.12))
    axis.legend(frameon=False, fontsize=9)


def draw_pair(axis: Any, found: dict[str, np.ndarray]) -> None:
    for name, f in found.items():
        axis.plot(
            f, ls=":" if "before" in name else "-", marker="o", ms=4,
            color="#0072b2" if name.startswith("f₁") else "#d55e00", label=name,
        )  # fmt: skip
    axis.set(title="A pair from a flat and a lazy start", ylabel="f / unbiased f", ylim=(0, None))
    axis.legend(frameon=False, fontsize=9)


def draw_meshes(axis: Any, found: dict[str, np.ndarray]) -> None:
    for name, f in found.items():
        axis.semilogy(np.maximum(f, 1e-9), "o-", ms=4, color=COLOURS[name], label=name)
    axis.set(title="Normals of meshes: fixed f and learned", ylabel="f / f(0)", ylim=(1e-6, 2))
    axis.legend(frameon=False, fontsize=9)


DRAWING = {"walks": draw_walks, "pair": draw_pair, "meshes": draw_meshes}
