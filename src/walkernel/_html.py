"""Tables that notebooks show instead of text; colours and fonts are those of the notebook, light or dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice

MAX_ROWS = 20
"""Rows that a table shows; the rest is one line that counts them."""
MAX_TEXT = 200
"""Characters that a cell shows."""


def html_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], n_rows: int | None = None
) -> str:
    """Return a table with a title; column titles are left out if there are none.

    Rows beyond the first ``MAX_ROWS`` are counted. They are not made if ``rows`` is an iterator, of which
    ``n_rows`` says how many there are.
    """
    total = len(rows) if isinstance(rows, Sequence) else n_rows or 0
    head = f"<thead>{_row('th', columns)}</thead>" if columns else ""
    shown = [[_shown(cell) for cell in row] for row in islice(rows, MAX_ROWS)]
    lines = [_row("td", cells) for cells in shown]
    if total > len(shown):
        lines.append(_row("td", [f"{total - len(shown):,} more"], f' colspan="{len(shown[0])}"'))
    return f"<table><caption>{escape(title)}</caption>{head}<tbody>{''.join(lines)}</tbody></table>"


def _row(tag: str, cells: Iterable[str], attributes: str = "") -> str:
    texts = (f'<{tag}{attributes} style="text-align:left">{escape(cell)}</{tag}>' for cell in cells)
    return f"<tr>{''.join(texts)}</tr>"


def _shown(cell: object) -> str:
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
