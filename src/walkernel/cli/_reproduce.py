"""The paper by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from walkernel.cli import _options as option
from walkernel.cli._app import app, console, progress
from walkernel.cli._results import show_table


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Studies, or all.", show_default="all")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The paper's repeats, or fewer: minutes in all.")
    ] = False,
    seed: option.Seed = 0,
    out: Annotated[Path, typer.Option(help="Folder for tables, pictures and report.html.")] = Path("paper"),
) -> None:
    """Run the paper's experiments again, and write tables, pictures and a report beside its numbers.

    NAME is fixed-kernels, ode, clustering, learned-f, meshes, asymmetric, sparsity, scaling, p-halt or
    bounds.

    After any interruption, the same command resumes with the parts that are not finished.

    Example: walkernel reproduce sparsity bounds --quick --out paper
    """
    from walkernel.experiments.reproduce import NAMES
    from walkernel.experiments.reproduce import reproduce as run

    chosen = NAMES if not names or names == ["all"] else tuple(names)
    with progress("parts") as report:
        findings = run(
            chosen,
            out=out,
            size="full" if full else "quick",
            seed=seed,
            progress=lambda name, done, total: report(done, total),
        )
    show_table(
        ["study", "section", "", "seconds"],
        [(f.study.name, f.study.section, f.verdict.words, round(f.seconds)) for f in findings],
    )
    for finding in findings:
        console.print(f"{finding.study.name}: {finding.verdict.text}\n", markup=False, highlight=False)
    console.print(f"Report: {out / 'report.html'}", markup=False, highlight=False)
