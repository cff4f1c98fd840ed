"""Tables that notebooks show instead of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

MAX_ROWS = 20
"""Rows that a table shows; the rest is one line that counts them."""


def html_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table with a title; column titles are left out if there are none."""
    head = _row("th", columns) if columns else ""
    lines = [_row("td", [_shown(cell) for cell in row]) for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        lines.append(f'<tr><td colspan="{len(rows[0])}">{len(rows) - MAX_ROWS} more</td></tr>')
    return f"<table><caption>{escape(title)}</caption>{head}{''.join(lines)}</table>"


def _row(tag: str, cells: Iterable[str]) -> str:
    return (
        "<tr>" + "".join(f'<{tag} style="text-align:left">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"
    )


def _shown(cell: object) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
