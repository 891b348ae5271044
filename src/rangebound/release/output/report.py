"""One page about a release: the plan in words, the table, pictures with error bars, what was spent."""

from __future__ import annotations

import hashlib
import html

from rangebound.release.output.conversion import allocation_of, conversions
from rangebound.release.output.explain import explain
from rangebound.release.output.pictures import STYLE, pictures
from rangebound.release.output.plan_risk import plan_odds
from rangebound.release.output.rendering import Published, table
from rangebound.release.output.scope import scope
from rangebound.release.output.stated_promise import stated_promise

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100%; font-size: 13px } td, th { padding: .2rem .5rem; text-align: left }
div.wide { overflow-x: auto } @media screen { div.wide td { white-space: nowrap } }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
tr:nth-child(even) { background: #f4f4f4 }
th { border-bottom: 1px solid #888 } pre { background: #f4f4f4; padding: 1rem; white-space: pre-wrap }
tr.unreliable { color: #888 }
p.scope { font-size: 13px; color: #555; margin: .2rem 0 }
"""
_GREY_NOTE = " Numbers in grey are unreliable: their interval is wider than the number."


def report(release: Published) -> str:
    """The page as HTML; it needs no other file.

    Guarantee: made of the published numbers and the plan alone, and every text of the plan is escaped.
    """
    plan, rows = release.plan, release.rows()
    title = html.escape(plan.title or "Private release")
    drawn = "".join(
        pictures(question.name, rows, levels=question.together or question.apart, selected=question.selected)
        + _scope(scope(plan, index))
        for index, question in enumerate(plan.query)
    )
    grey = _GREY_NOTE if any(row["unreliable"] for row in rows) else ""
    promise = stated_promise(release.certificate)
    weaker = f"<p><strong>{html.escape(promise)}</strong></p>" if promise else ""
    way = allocation_of(release)
    stated = "" if way is None else f"<p>{html.escape(plan_odds(plan, way))}</p>"
    stated += "" if way is None else f"<p>The same in other terms. {html.escape(str(conversions(plan, way)))}</p>"
    noted = "".join(f"<p>Note: {html.escape(each)}.</p>" for each in release.notes)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}{STYLE}</style>'
        f"<h1>{title}</h1><p>Spent: {plan.budget}. Error bars and bands are {plan.level:.0%} confidence intervals for "
        f"the noise{', all of them at once' if plan.joint else ''}; "
        "they say nothing about how the data were gathered, nor about what was left out, cut or clipped before the "
        f"noise, which stands below each picture.{grey}</p>{weaker}{stated}<h2>Numbers</h2>{drawn}"
        f"<h2>Table</h2><div class=wide>{table(release)}</div>{noted}"
        f"<h2>Plan</h2><pre>{html.escape(explain(plan))}</pre>"
        f"<p>Published bytes: SHA-256 <code>{hashlib.sha256(release.to_bytes()).hexdigest()}</code></p></html>\n"
    )


def _scope(said: str) -> str:
    """What the numbers of a question are of."""
    return f"<p class=scope>Of: {html.escape(said)}.</p>" if said else ""
