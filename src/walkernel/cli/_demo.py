"""Five kernels on the karate graph: a table and a picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from walkernel.cli._app import app, console, progress

if TYPE_CHECKING:
    from walkernel.experiments.demo import ErrorCurve


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Where the picture is saved.")] = Path("walkernel-demo.png"),
    repeats: Annotated[int, typer.Option(min=2, help="Repeats behind each standard error.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the first repeat.")] = 0,
) -> None:
    """Estimate five kernels on the karate graph with more and more walks.

    Example: walkernel demo --out karate.png
    """
    from walkernel.datasets import load_dataset
    from walkernel.experiments.demo import KERNELS, error_curves

    graph = load_dataset("karate").graph
    console.print(f"Zachary's karate club: {graph}")
    curves = []
    with progress("kernels") as report:
        for curve in error_curves(graph, repeats, seed):
            curves.append(curve)
            report(len(curves), len(KERNELS))
    console.print(_error_table(curves, repeats))
    try:
        from walkernel.plots import save_error_curves

        save_error_curves(curves, "Five kernels on Zachary's karate club, estimated from random walks", out)
        console.print(f"Picture saved to {out}", markup=False, soft_wrap=True)
    except ModuleNotFoundError:
        hint = "No picture: matplotlib is missing. Install it with: pip install 'walkernel[plot]'"
        console.print(hint, markup=False, soft_wrap=True)


def _error_table(curves: list[ErrorCurve], repeats: int) -> Table:
    table = Table(
        title="relative Frobenius error ‖K̂ − K‖ / ‖K‖ against the exact kernel",
        caption=f"brackets: standard error of the last digit, {repeats} repeats; * lazy pair",
        box=box.SIMPLE_HEAD,
        padding=(0, 1),
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("walks per node", no_wrap=True)
    for n_walks in curves[0].walks:
        table.add_column(str(n_walks), justify="right")
    table.add_column("slope", justify="right")
    for curve in curves:
        cells = [with_error(mean, error) for mean, error in zip(curve.mean, curve.stderr, strict=True)]
        table.add_row(curve.name + " *" * (curve.pair == "lazy"), *cells, f"{curve.slope:.2f}")
    return table


def with_error(value: float, stderr: float) -> str:
    """Write a value with its standard error in brackets, in units of the last digit: 0.183(3)."""
    if not (stderr > 0 and math.isfinite(stderr)):
        return f"{value:.4g}"
    digits = max(0, -math.floor(math.log10(stderr)))
    return f"{value:.{digits}f}({round(stderr * 10**digits)})"
