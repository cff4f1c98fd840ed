"""A report in a single HTML file: figures, tables and verdicts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from pathlib import Path

from walkernel._files import atomic_write
from walkernel.experiments._study import Finding, Row, Run, written

MAX_ROWS = 60
MAX_OPEN_ROWS = 20
COLOURS = {True: "yes", False: "no", None: "open"}
STYLE = """
:root { color-scheme: light; --ink: #1d2430; --soft: #667085; --line: #e4e7ec; --accent: #08519c; }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: #fff; }
main { max-width: 1060px; margin: 0 auto; padding: 24px 20px 80px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 12px 0 4px; }
h2 { font-size: 1.3rem; margin: 0; }
header p, .about { color: var(--soft); margin: 4px 0 0; }
section { border-top: 1px solid var(--line); padding: 28px 0 8px; margin-top: 28px; }
nav { display: flex; flex-wrap: wrap; gap: 6px 10px; margin: 20px 0 0; padding: 0; }
nav a { color: var(--accent); text-decoration: none; border: 1px solid var(--line); border-radius: 14px;
        padding: 2px 12px; font-size: .9rem; }
.badge { display: inline-block; border-radius: 12px; padding: 1px 10px; font-size: .8rem; font-weight: 600; }
.yes { background: #d9f2e3; color: #0b5d33; } .no { background: #fde2e0; color: #8c1d18; }
.open { background: #eef0f3; color: #475467; }
img { max-width: 100%; height: auto; display: block; }
.picture { overflow-x: auto; margin: 16px 0; }
details { margin: 12px 0; } summary { cursor: pointer; color: var(--accent); font-size: .9rem; }
details p { margin: 6px 0; font-size: .85rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; font-size: .82rem; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 4px 10px; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; background: #f9fafb; }
th:first-child, td:first-child { text-align: left; }
tr:last-child td { border-bottom: 0; }
.verdict { margin: 10px 0 0; }
@media (max-width: 600px) {
  main { padding: 12px 12px 60px; } h1 { font-size: 1.5rem; } .picture img { max-width: none; width: 640px; }
}
"""


def write_report(findings: Sequence[Finding], run: Run, about: str) -> Path:
    """Write ``report.html``, which needs no other file, and return its path."""
    links = "".join(f'<a href="#{f.study.name}">{escape(f.study.name)}</a>' for f in findings)
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>walkernel: the paper, run again</title><style>{STYLE}</style></head><body><main><header>"
        "<h1>General graph random features, run again</h1>"
        f"<p>{escape(about)}</p></header><nav>{links}</nav>"
        + "".join(_section(finding, run) for finding in findings)
        + "</main></body></html>"
    )
    path = run.out / "report.html"
    with atomic_write(path) as file:
        file.write(page.encode())
    return path


def _section(finding: Finding, run: Run) -> str:
    study, verdict = finding.study, finding.verdict
    picture = base64.b64encode((run.out / f"{study.name}.png").read_bytes()).decode()
    tables = "".join(_table(study.tables[table], rows, table) for table, rows in finding.rows.items())
    return (
        f'<section id="{study.name}"><h2>{escape(study.title)}</h2>'
        f'<p class="about">Section {escape(study.section)} · {study.name} · {finding.seconds:.0f} s · '
        f'<span class="badge {COLOURS[verdict.holds]}">{verdict.words}</span></p>'
        f'<p class="verdict">{escape(verdict.text)}</p>'
        f'<div class="picture"><img alt="{escape(study.title)}" width="{96 * study.figure_size[0]:.0f}" '
        f'src="data:image/png;base64,{picture}"></div>{tables}</section>'
    )


def _table(columns: Sequence[str], rows: Sequence[Row], name: str) -> str:
    """Return the first rows of a table, without columns that are empty or the same in all rows."""
    texts = [[written(row.get(column)) for column in columns] for row in rows]
    constant = {
        column: texts[0][place]
        for place, column in enumerate(columns)
        if len(texts) > 1 and len({text[place] for text in texts}) == 1
    }
    shown = [place for place, column in enumerate(columns) if column not in constant]
    head = "".join(f"<th>{escape(columns[place])}</th>" for place in shown)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text[place])}</td>" for place in shown) + "</tr>"
        for text in texts[:MAX_ROWS]
    )
    same = ", ".join(f"{column}: {value}" for column, value in constant.items() if value)
    notes = [f"In all rows {same}."] if same else []
    notes += [f"First {MAX_ROWS} of {len(rows)} rows."] if len(rows) > MAX_ROWS else []
    note = f'<p class="about">{escape(" ".join(notes))}</p>' if notes else ""
    is_open = " open" if len(rows) <= MAX_OPEN_ROWS else ""
    return (
        f"<details{is_open}><summary>{escape(name)}.csv, {len(rows)} rows</summary>{note}"
        f'<div class="wide"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></details>"
    )
