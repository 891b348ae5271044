"""One page about a release: the plan in words, the table, pictures with error bars, what was spent."""

from __future__ import annotations

import hashlib
import html
import math
from collections.abc import Sequence

from rangebound.release.output.conversion import conversions_of
from rangebound.release.output.explain import explain
from rangebound.release.output.rendering import FACTS, Published, Row, shown, table
from rangebound.release.output.scope import scope
from rangebound.release.plan.fields import date

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100%; font-size: 13px } td, th { padding: .2rem .5rem; text-align: left }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
tr:nth-child(even) { background: #f4f4f4 }
th { border-bottom: 1px solid #888 } pre { background: #f4f4f4; padding: 1rem; white-space: pre-wrap }
tr.unreliable { color: #888 }
svg { width: 100% } p.scope { font-size: 13px; color: #555; margin: .2rem 0 }
"""
_ROW, _LABEL, _WIDTH, _EDGE = 22, 220, 760, 50
_PLAIN, _GREY = ("", "#555", "#0072b2"), (' fill="#888"', "#bbb", "#aaa")  # of labels, error bars and points
_LONGEST = 34  # letters that fit beside a picture

_GREY_NOTE = " Numbers in grey are unreliable: their interval is wider than the number."


def report(release: Published) -> str:
    """The page as HTML; it needs no other file.

    Guarantee: made of the published numbers and the plan alone, and every text of the plan is escaped.
    """
    plan, rows = release.plan, release.rows()
    title = html.escape(plan.title or "Private release")
    pictures = "".join(_picture(question.name, rows, scope(plan, index)) for index, question in enumerate(plan.query))
    grey = _GREY_NOTE if any(row["unreliable"] for row in rows) else ""
    terms = conversions_of(release)
    stated = f"<p>The same in other terms. {html.escape(str(terms))}</p>" if terms else ""
    noted = "".join(f"<p>Note: {html.escape(each)}.</p>" for each in release.notes)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>Spent: {plan.budget}. Error bars are {plan.level:.0%} confidence intervals for the noise"
        f"{', all of them at once' if plan.joint else ''}; "
        "they say nothing about how the data were gathered, nor about what was left out, cut or clipped before the "
        f"noise, which stands below each picture.{grey}</p>{stated}<h2>Numbers</h2>{pictures}"
        f"<h2>Table</h2>{table(release)}{noted}"
        f"<h2>Plan</h2><pre>{html.escape(explain(plan))}</pre>"
        f"<p>Published bytes: SHA-256 <code>{hashlib.sha256(release.to_bytes()).hexdigest()}</code></p></html>\n"
    )


def _picture(name: str, rows: Sequence[Row], said: str) -> str:
    """The numbers of one query as points with error bars, one line each, and what they are of."""
    own = [row for row in rows if row["query"] == name][:200]
    if not own:
        return ""
    ends = [x for row in own for x in (row["value"], row["lower"], row["upper"]) if math.isfinite(x)]
    left, right = min(ends), max(ends)
    width, dated = (right - left) or 1.0, bool(own[0]["date"])
    bottom = len(own) * _ROW

    def at(x: float) -> float:
        return float(f"{_LABEL + (min(max(x, left), right) - left) / width * (_WIDTH - _LABEL - _EDGE) + 10:.1f}")

    marks = [
        f'<line x1="{at(x)}" x2="{at(x)}" y1="0" y2="{bottom}" stroke="#ddd"/>'
        f'<text x="{at(x)}" y="{bottom + 14}" text-anchor="middle" font-size="11">'
        f"{date(x).isoformat() if dated else shown('value', x)}</text>"
        for x in _ticks(left, right, least=1.0 if dated else 0.0)
    ]
    for place, row in enumerate(own):
        y = place * _ROW + _ROW / 2
        ink, bar, dot = _GREY if row["unreliable"] else _PLAIN
        keys = [str(value) for key, value in row.items() if key not in FACTS and value is not None]
        label = ", ".join([*keys, *([row["part"]] if row["part"] else [])]) or "all"
        label = html.escape(label if len(label) <= _LONGEST else label[: _LONGEST - 3] + "...")
        marks.append(
            f'<text x="{_LABEL - 6}" y="{y + 4}" text-anchor="end" font-size="12"{ink}>{label}</text>'
            f'<line x1="{at(row["lower"])}" x2="{at(row["upper"])}" y1="{y}" y2="{y}" stroke="{bar}"/>'
            f'<circle cx="{at(row["value"])}" cy="{y}" r="4" fill="{dot}"/>'
        )
    kind = html.escape(f"{name}: {own[0]['kind']}")
    svg = f'<svg viewBox="0 0 {_WIDTH} {bottom + 18}" role="img" aria-label="{kind}">{"".join(marks)}</svg>'
    return f"<h3>{kind}</h3>{svg}" + (f"<p class=scope>Of: {html.escape(said)}.</p>" if said else "")


def _ticks(left: float, right: float, *, least: float) -> list[float]:
    """Round numbers between two ends, some three to six of them; `least` is the smallest distance that makes sense.

    >>> _ticks(13.2, 52.9, least=0.0)
    [20.0, 30.0, 40.0, 50.0]
    """
    if not right > left:
        return [left]
    rough = max((right - left) / 6, least)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(each * power for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))
    first, last = math.ceil(left / step), math.floor(right / step)
    return [float(f"{place * step:.15g}") for place in range(first, last + 1)]
