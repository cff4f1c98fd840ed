"""Studies, and how they are run so that an interrupted run resumes.

A study is divided into cells, each of which takes seconds to minutes and depends only on its parameters, the
size and the seed. The result of a cell is written to its own file at once; a run that was killed resumes with
the next cell, and its tables are the same to the last byte. Timings are kept apart from the tables.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from walkernel._files import atomic_write

SIZES = ("quick", "full")
FORMAT = "walkernel cells 1"
COMMON = ("published", "ours", "stderr", "repeats", "error_kind", "ensembles", "c", "seed", "parameters")
"""The last columns of most tables: the paper's number, ours with its standard error, and how it was found."""

Row = Mapping[str, Any]


class Cell(NamedTuple):
    """A part of a study: the table its rows go to, a name of its own, and its parameters."""

    table: str
    key: str
    given: dict[str, Any]


class Verdict(NamedTuple):
    """Whether the paper's claim was found again (None: there is no number to compare with), and why."""

    holds: bool | None
    text: str

    @property
    def words(self) -> str:
        """The verdict in a word or two."""
        return {True: "reproduced", False: "not reproduced", None: "no number to compare"}[self.holds]


@dataclass(frozen=True)
class Study:
    """A section of the paper.

    Parameters
    ----------
    name, section, title : str
        Its name, its section in the paper, and its subject.
    tables : dict
        Columns of each table; the tables are files of that name.
    cells : callable
        Of the size: the cells, in the order of their rows.
    measure : callable
        Of a cell and the run: its rows, without the seed and the columns that are empty.
    draw : callable
        Of all rows by table, and a matplotlib figure to draw them in.
    judge : callable
        Of all rows by table: the verdict.
    figure_size : tuple of float
        Inches.
    """

    name: str
    section: str
    title: str
    tables: dict[str, tuple[str, ...]]
    cells: Callable[[str], list[Cell]]
    measure: Callable[[Cell, Run], list[Row]]
    draw: Callable[[dict[str, list[Row]], Any], None]
    judge: Callable[[dict[str, list[Row]]], Verdict]
    figure_size: tuple[float, float] = (9.0, 4.0)


@dataclass
class Run:
    """Where, how large and from which seed studies are run."""

    out: Path
    size: str
    seed: int
    timings: dict[str, float] = field(default_factory=dict)
    _inner: float = 0.0  # seconds of what is kept inside of what is being computed

    @property
    def full(self) -> bool:
        """Whether the paper's number of repeats is used."""
        return self.size == "full"

    @property
    def store(self) -> Path:
        """The folder of finished cells."""
        return self.out / ".cells" / f"{self.size}-{self.seed}-{_digest()}"

    def finish(self) -> None:
        """Remove the cells of this run after its tables are written, and keep those of other runs."""
        for key in self.timings:
            (self.store / f"{key}.json").unlink(missing_ok=True)
        folders = {(self.store / key).parent for key in self.timings} | {self.store, self.store.parent}
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):  # it is not empty
                folder.rmdir()

    def kept(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return a JSON value, computed on first use and cached in a file."""
        path = self.store / f"{key}.json"
        found = _read(path)
        if found is None:
            begin, outer, self._inner = time.perf_counter(), self._inner, 0.0
            value = compute()
            seconds = time.perf_counter() - begin
            found = {"format": FORMAT, "value": value, "seconds": seconds - self._inner}
            self._inner = outer + seconds
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(json.dumps(found).encode())
        self.timings[key] = found["seconds"]
        return found["value"]

    def seeds(self, *key: int) -> np.random.Generator:
        """Return a generator for some purpose, different for each key and each seed of the run."""
        return np.random.default_rng([self.seed, *key])


@cache
def _digest() -> str:
    """Return a digest of the code, so that cells of another version are not used."""
    sources = sorted(Path(__file__).parents[1].rglob("*.py"))
    return hashlib.blake2b(b"".join(path.read_bytes() for path in sources), digest_size=6).hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    """Return a finished cell, or None if there is none or it is not usable."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


class Finding(NamedTuple):
    """The results of a study."""

    study: Study
    rows: dict[str, list[Row]]
    verdict: Verdict
    seconds: float


def run_study(study: Study, run: Run, report: Callable[[str], object] = lambda key: None) -> Finding:
    """Measure the unfinished cells, and write the tables and the figure of a study."""
    rows: dict[str, list[Row]] = {table: [] for table in study.tables}
    for cell in study.cells(run.size):
        name = f"{study.name}/{cell.key}"
        rows[cell.table] += run.kept(name, partial(_measured, study, cell, run))
        report(name)
    run.out.mkdir(parents=True, exist_ok=True)
    for table, found in rows.items():
        with atomic_write(run.out / f"{table}.csv") as file:
            file.write(as_csv(study.tables[table], found).encode())
    _draw(study, rows, run.out / f"{study.name}.png")
    seconds = sum(value for key, value in run.timings.items() if key.startswith(f"{study.name}/"))
    return Finding(study, rows, study.judge(rows), seconds)


def _measured(study: Study, cell: Cell, run: Run) -> list[dict[str, Any]]:
    """Return the rows of a cell with all columns, and with Python's numbers, which JSON can hold."""
    empty = dict.fromkeys(study.tables[cell.table]) | {"seed": run.seed}
    return [
        empty | {key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()}
        for row in study.measure(cell, run)
    ]


def as_csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    """Return rows as text: numbers with six digits, the same on every machine; nothing for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([written(row.get(column)) for column in columns])
    return text.getvalue()


def written(value: Any) -> str:
    """Return a cell of a table."""
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _draw(study: Study, rows: dict[str, list[Row]], path: Path) -> None:
    from matplotlib import rc_context
    from matplotlib.figure import Figure  # not pyplot, whose backend is the caller's to choose

    style = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}
    with rc_context(style):
        figure = Figure(figsize=study.figure_size, layout="constrained")
        study.draw(rows, figure)
        with atomic_write(path) as file:
            figure.savefig(file, format="png", dpi=150)


def summary(values: Any) -> dict[str, Any]:
    """Return the columns ``ours``, ``stderr`` and ``repeats`` of repeated measurements."""
    values = np.asarray(values, dtype=float)
    stderr = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else None
    return {"ours": float(values.mean()), "stderr": stderr, "repeats": values.size}


def named(**parameters: Any) -> str:
    """Return parameters as the text of their column."""

    def shown(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) else str(value)

    return " ".join(f"{name}={shown(value)}" for name, value in parameters.items())
