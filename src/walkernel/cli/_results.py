"""Results on stdout as tables for people and as JSON for programs, and in CSV files."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from walkernel.cli._app import console

MAX_LINE_WIDTH = 10_000
"""Maximum number of characters in a line, where the output is not a terminal."""


def show_table(titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their titles, numbers to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    cells = [list(row) for row in rows]
    for column, title in enumerate(titles):
        numbers = all(isinstance(row[column], (int, float)) for row in cells)
        table.add_column(title, justify="right" if numbers else "left", no_wrap=True)
    for row in cells:
        table.add_row(*(Text(_shown(cell)) for cell in row))
    screen = console if console.is_terminal else Console(width=MAX_LINE_WIDTH)
    screen.print(table)


def _shown(cell: object) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)


def show_json(data: object) -> None:
    """Print JSON in ASCII, which every terminal can show; numbers that are not finite are null."""
    print(json.dumps(_plain(data), indent=1, ensure_ascii=True, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return what JSON can hold: nodes that are neither text nor numbers as text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


def write_csv(path: Path | None, titles: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a CSV file, whole or not at all, or print it if there is no path."""
    from walkernel._files import atomic_write

    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows(rows)
    if path is None:
        print(text.getvalue(), end="")
        return
    with atomic_write(path) as file:
        file.write(text.getvalue().encode())
