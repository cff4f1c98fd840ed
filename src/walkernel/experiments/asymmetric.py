"""Appendix A.5: an asymmetric pair, from a flat f₁ and a lazy f₂, becomes similar in training."""

from __future__ import annotations

from typing import Any

import numpy as np

from walkernel.experiments._graphs import load
from walkernel.experiments._study import COMMON, Cell, Row, Run, Study, Verdict
from walkernel.experiments.learned_f import KERNEL, N_WALKS, SAMPLER, SETTING, C

N_LENGTHS = 8
LAZY = ((1.0, 1.0), (-3.0, 3.55))
"""Weight and bias of both layers with which f₂ leaves nearly everything at the start node."""


def cells(size: str) -> list[Cell]:
    """Return the one cell."""
    return [Cell("asymmetric", "pair", {})]


def measure(cell: Cell, run: Run) -> list[Row]:
    """Train the pair and return both functions before and after."""
    import torch

    from walkernel.torch import ModulationPair, NeuralModulation, Schedule, fit_to_kernel

    scales = {"amplitude": float(KERNEL.modulation(1)[0]), "decay": C}
    first, second = NeuralModulation(**scales), NeuralModulation(**scales)  # type: ignore[arg-type]
    with torch.no_grad():
        for layer, (weight, bias) in zip(second.layers, LAZY, strict=True):
            layer.weight.fill_(weight)
            layer.bias.fill_(bias)
    start = ModulationPair(first, second)
    schedule = Schedule(n_epochs=2000 if run.full else 800, every=20 if run.full else 8)
    fit = fit_to_kernel(
        load("ER 20").graph, KERNEL, N_WALKS, sampler=SAMPLER, modulation=start, schedule=schedule,
        seed=run.seed, n_held_out=100,
    )  # fmt: skip
    unbiased = KERNEL.modulation(N_LENGTHS)
    rows: list[Row] = []
    for when, modulation in (("before", start), ("after", fit.modulation)):
        for side, f in zip(("f1", "f2"), modulation.sides(N_LENGTHS), strict=True):
            rows += [
                {
                    "when": when, "side": side, "length": length, "repeats": 1,
                    "start" if when == "before" else "ours": value, "error_kind": "f / unbiased f",
                    "ensembles": "independent", "c": C, "parameters": SETTING, "error_ratio": fit.ratio,
                }
                for length, value in enumerate((f.detach().numpy() / unbiased).tolist())
            ]  # fmt: skip
    return rows


def _curve(rows: list[Row], when: str, side: str) -> np.ndarray:
    key = "start" if when == "before" else "ours"
    return np.array([row[key] for row in rows if (row["when"], row["side"]) == (when, side)])


def draw(rows: dict[str, list[Row]], figure: Any) -> None:
    """Draw both functions before and after training."""
    axes = figure.subplots()
    for side, name, colour in (("f1", "f₁", "#0072b2"), ("f2", "f₂", "#d55e00")):
        for when, style in (("before", ":"), ("after", "-")):
            f = _curve(rows["asymmetric"], when, side)
            axes.plot(f, style, marker="o", markersize=4, color=colour, label=f"{name} {when} training")
    axes.set(xlabel="length of a walk", ylabel="f / unbiased f", ylim=(0, None))
    axes.legend()


def judge(rows: dict[str, list[Row]]) -> Verdict:
    """Compare the shapes of both functions."""
    found = rows["asymmetric"]
    apart = [
        float(np.abs(a / a[0] - b / b[0]).max())
        for a, b in ((_curve(found, when, "f1"), _curve(found, when, "f2")) for when in ("before", "after"))
    ]
    factor = (_curve(found, "after", "f2") / _curve(found, "after", "f1")).mean()
    return Verdict(
        apart[1] < 0.2 * apart[0],
        f"Scaled to f(0) = 1, f₁ and f₂ differ by up to {apart[0]:.2f} before training and by {apart[1]:.3f} "
        f"after it: they become the same but for a factor of {factor:.2f}, which says nothing of the kernel. "
        f"The pair's error is {found[0]['error_ratio']:.2f} of the unbiased f's.",
    )


STUDY = Study(
    "asymmetric", "A.5", "An asymmetric pair of modulation functions",
    {"asymmetric": ("when", "side", "length", "start", "error_ratio", *COMMON)}, cells, measure, draw, judge,
    figure_size=(6.5, 3.8),
)  # fmt: skip
