"""One page about a release: the plan in words, the table, pictures with error bars, what was spent."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from rangebound.release.part import date
from rangebound.release.result import FACTS, Release, readable, sha256
from rangebound.release.words import explain

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100%; font-size: 13px } td, th { padding: .2rem .5rem; text-align: left }
td.n { text-align: right; font-variant-numeric: tabular-nums } tr:nth-child(even) { background: #f4f4f4 }
th { border-bottom: 1px solid #888 } pre { background: #f4f4f4; padding: 1rem; white-space: pre-wrap }
svg { width: 100% }
"""
_ROW, _LABEL, _WIDTH = 22, 220, 760


def report(release: Release) -> str:
    """The page as HTML; it needs no other file.

    Guarantee: made of the published numbers and the plan alone, and every text of the plan is escaped.
    """
    plan, rows = release.plan, release.rows()
    title = html.escape(plan.title or "Private release")
    spent = f"epsilon {plan.budget.epsilon:g}" + (f", delta {plan.budget.delta:g}" if plan.budget.delta else "")
    pictures = "".join(_picture(question.name, rows) for question in plan.query)
    noted = "".join(f"<p>Note: {html.escape(each)}.</p>" for each in release.notes)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>Spent: {spent}. Error bars are {plan.level:.0%} confidence intervals for the noise; "
        f"they say nothing about how the data were gathered.</p><h2>Numbers</h2>{pictures}"
        f"<h2>Table</h2>{_table(rows)}{noted}"
        f"<h2>Plan</h2><pre>{html.escape(explain(plan))}</pre>"
        f"<p>Published bytes: SHA-256 <code>{sha256(release.to_bytes())}</code></p></html>\n"
    )


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _table(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "<p>No group was selected.</p>"
    rows = [readable(row) for row in rows]
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=n' if isinstance(value, float) else ''}>{html.escape(_shown(value))}</td>"
            for value in row.values()
        )
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _picture(name: str, rows: Sequence[dict[str, Any]]) -> str:
    """The numbers of one query as points with error bars, one line each."""
    own = [row for row in rows if row["query"] == name][:200]
    if not own:
        return ""
    ends = [x for row in own for x in (row["value"], row["lower"], row["upper"]) if math.isfinite(x)]
    left, right = min(ends), max(ends)
    width = (right - left) or 1.0

    def at(x: float) -> float:
        return float(_LABEL + (min(max(x, left), right) - left) / width * (_WIDTH - _LABEL - 20) + 10)

    marks = []
    for place, row in enumerate(own):
        y = place * _ROW + _ROW / 2
        keys = [str(value) for key, value in row.items() if key not in FACTS and value is not None]
        label = html.escape(", ".join([*keys, *([row["part"]] if row["part"] else [])]) or "all")
        marks.append(
            f'<text x="{_LABEL - 6}" y="{y + 4}" text-anchor="end" font-size="12">{label[:60]}</text>'
            f'<line x1="{at(row["lower"])}" x2="{at(row["upper"])}" y1="{y}" y2="{y}" stroke="#888"/>'
            f'<circle cx="{at(row["value"])}" cy="{y}" r="4" fill="#0b6"/>'
        )
    height = len(own) * _ROW + 16
    first, last = (date(x).isoformat() if own[0]["date"] else f"{x:.5g}" for x in (left, right))
    scale = (
        f'<text x="{at(left)}" y="{height - 2}" font-size="11">{first}</text>'
        f'<text x="{at(right)}" y="{height - 2}" font-size="11" text-anchor="end">{last}</text>'
    )
    kind = html.escape(f"{name}: {own[0]['kind']}")
    return f'<h3>{kind}</h3><svg viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(marks)}{scale}</svg>'
