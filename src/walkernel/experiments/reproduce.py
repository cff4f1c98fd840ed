"""The paper by name: every section is a study, and a run of some or all of them makes one report."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from walkernel._checks import Described, one_of, refuse, whole_number
from walkernel._files import atomic_write
from walkernel.experiments._report import write_report
from walkernel.experiments._study import SIZES, Finding, Run, Study, run_study
from walkernel.io._contents import optional

NAMES = (
    *("fixed-kernels", "ode", "clustering", "learned-f", "meshes", "asymmetric", "sparsity", "scaling"),
    *("p-halt", "bounds"),
)
NEED_TORCH = {"learned-f", "meshes", "asymmetric"}


def load_study(name: str) -> Study:
    """Return a study by its name."""
    one_of("name", name, NAMES)
    module = importlib.import_module(f"walkernel.experiments.{name.replace('-', '_')}")
    return module.STUDY  # type: ignore[no-any-return]


def reproduce(
    names: Sequence[str] = NAMES,
    *,
    out: Path,
    size: str = "quick",
    seed: int = 0,
    progress: Callable[[str, int, int], object] | None = None,
) -> list[Finding]:
    """Run studies, write their tables and pictures and a report of all of them.

    A run that was interrupted, in whatever way, resumes after the last finished part when it is started again
    with the same arguments, and ends with the same tables.

    Parameters
    ----------
    names : list of str
        Studies to run; all if not given.
    out : Path
        Folder for NAME.csv, NAME.png, report.html and timings.json.
    size : {"quick", "full"}
        "full" uses the paper's number of repeats.
    seed : int
        Seed of all walks and draws.
    progress : callable, optional
        Called with (name of a part, parts done, parts in all).
    """
    run = Run(Path(out), one_of("size", size, SIZES), whole_number("seed", seed))
    if not names:
        refuse("names", "at least one of " + ", ".join(NAMES), Described("none"))
    optional("matplotlib", "plot", "reproduce")
    if NEED_TORCH & set(names):
        optional("torch", "torch", "reproduce")
    studies = [load_study(name) for name in dict.fromkeys(names)]
    total, done, findings = sum(len(study.cells(size)) for study in studies), 0, []

    def report(key: str) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(key, done, total)

    for study in studies:
        findings.append(run_study(study, run, report))
    write_report(findings, run, _about(run))
    with atomic_write(run.out / "timings.json") as file:
        file.write(json.dumps(run.timings, indent=1, sort_keys=True).encode())
    run.finish()
    return findings


def _about(run: Run) -> str:
    """Return how the numbers on the page were obtained."""
    repeats = "the paper's number of repeats" if run.full else "fewer repeats than the paper's (quick)"
    return (
        f"Reid, Choromanski, Berger, Weller, ICLR 2024. Every number of ours was measured in this run: seed "
        f"{run.seed}, {repeats}. Published numbers are the paper's; stderr is one standard error of ours."
    )
