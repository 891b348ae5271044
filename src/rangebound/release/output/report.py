"""One page about a release, for three readers: numbers in words and pictures, the table, the guarantee and its plan."""

from __future__ import annotations

import html

from rangebound.release.output.explain import explained
from rangebound.release.output.facts import Published, TableFacts, plan_facts, scope, table_facts
from rangebound.release.output.in_words import in_words
from rangebound.release.output.pictures import STYLE, pictures
from rangebound.release.output.rendering import table
from rangebound.values.arguments import counted
from rangebound.values.serial import visible

_STYLE = """
:root { color-scheme: light dark; --ink: #222; --soft: #555; --faint: #767676; --line: #ddd; --paper: #fff;
  --shade: #f4f4f4; --accent: #0072b2 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --soft: #b8b8b8; --faint: #8f8f8f; --line: #3a3a3a;
  --paper: #16181b; --shade: #22252a; --accent: #56b4e9 } }
@media print { :root { --ink: #000; --soft: #444; --faint: #767676; --line: #ccc; --paper: #fff; --shade: #fff;
  --accent: #0072b2 } nav { display: none } h2 { break-before: page }
  h2:first-of-type { break-before: auto } h2, h3 { break-after: avoid } div.wide { overflow: visible !important }
  table { font-size: 8px !important } td, th { padding: 1px 3px !important } details { display: none } }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--paper) }
a { color: var(--accent) } nav a { margin-right: 1.2rem } h2 { margin-top: 2.2rem }
ul.told { columns: 22rem; padding-left: 1.2rem; margin: .2rem 0 1rem } ul.told li { break-inside: avoid }
table { border-collapse: collapse; width: 100%; font-size: 13px } td, th { padding: .2rem .5rem; text-align: left }
div.wide { overflow-x: auto; background: linear-gradient(to right, var(--paper) 30%, transparent),
  linear-gradient(to left, var(--paper) 30%, transparent) 100% 0, linear-gradient(to right, var(--faint), transparent),
  linear-gradient(to left, var(--faint), transparent) 100% 0; background-attachment: local, local, scroll, scroll;
  background-size: 40px 100%, 40px 100%, 10px 100%, 10px 100%; background-repeat: no-repeat }
@media print { div.wide { background: none } } @media screen { div.wide td { white-space: nowrap } }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
tr:nth-child(even) { background: color-mix(in srgb, var(--faint) 12%, transparent) }
th { border-bottom: 1px solid var(--faint) }
pre { background: var(--shade); padding: 1rem; white-space: pre-wrap } pre.all { user-select: all }
tr.unreliable { color: var(--faint) } p.scope { font-size: 13px; color: var(--soft); margin: .2rem 0 }
code { overflow-wrap: anywhere }
"""
_READERS = (
    "<nav><a href=#short>In short</a><a href=#pictures>Pictures</a><a href=#statistics>For statisticians</a>"
    "<a href=#privacy>For privacy officers</a></nav>"
)
_GREY_NOTE = " Numbers in grey are unreliable: their interval is wider than the number."
_REGRESSION = """<h3>How to use the numbers</h3><ul>
<li>A published number is the true one plus noise that was drawn for it alone. Its size is the expected error of the
plan below, and it is known: no estimate of it is needed.</li>
<li>As an outcome of a regression: the noise adds to the residual variance. Weight each number by
1 / (s&sup2; + e&sup2;), with s&sup2; the residual variance and e its expected error (root mean square).</li>
<li>As an explanatory variable: noise makes slopes too small. Take e&sup2; as the known variance of a measurement error,
in Deming regression, regression calibration or SIMEX.</li>
<li>Differences and sums of independent numbers: add the squares of their errors. Numbers of one crosstab, hierarchy or
series, and numbers that a consistent plan fits to each other, are not independent.</li>
<li>Near an end of its range a number is clamped or truncated, so it is biased there; the column bias bounds by how
much. Do not drop numbers because they are small: that makes the bias yours.</li></ul>"""


def report(release: Published) -> str:
    """The page as HTML, for three kinds of readers; it needs no other file and no network, and no script runs in it.

    First come the numbers in words and in pictures, then the table with what a statistician asks, then the guarantee
    with what a privacy officer asks. It is made for screens, light and dark, and for paper.

    Guarantee: made of the published numbers and the plan alone, and every text of the plan is escaped.
    """
    plan, rows, facts = release.plan, release.rows(), table_facts(release)
    title = html.escape(facts.title)
    grey = _GREY_NOTE if any(row["unreliable"] for row in rows) else ""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}{STYLE}</style><h1>{title}</h1>{_READERS}"
        f"<h2 id=short>In short</h2><p>{_told(release)}{grey}</p>{_words(release)}"
        f"<h2 id=pictures>Pictures</h2><p>Points are the published numbers, lines and bands their "
        f"{plan.level:.0%} confidence intervals.</p>{_pictures(release)}"
        f"<h2 id=statistics>For statisticians</h2>{_statistics(release, facts)}"
        f"<h2 id=privacy>For privacy officers</h2>{_privacy(release, facts)}</html>\n"
    )


def _told(release: Published) -> str:
    """What the numbers are, for a reader who sees such a table for the first time."""
    plan = release.plan
    many = counted(f"{len(release.rows()):,}", "number")
    return (
        f"This page has {many}. Noise was added to each of them on purpose, so that they say little about whether any "
        "one person is in the data; how little is said for privacy officers. So each is given with an interval: at "
        f"{plan.level:.0%} confidence{', for all of them at once,' if plan.joint else ''} the exact number is in it. "
        "The intervals are for the noise. They say nothing about how the data were gathered, nor about what was left "
        "out, cut or clipped before, which stands below each picture."
    )


def _words(release: Published) -> str:
    found = ""
    for name, lines in in_words(release):
        listed = "".join(f"<li>{html.escape(visible(each))}</li>" for each in lines)
        found += f"<h3>{html.escape(name)}</h3><ul class=told>{listed}</ul>"
    return found


def _pictures(release: Published) -> str:
    plan, rows = release.plan, release.rows()
    found = []
    for index, question in enumerate(plan.query):
        ends = question.published_in(plan.unit_of(question)).hull
        found.append(
            pictures(
                question.name,
                rows,
                levels=question.together or question.apart,
                selected=question.selected,
                from_zero=ends.lower == 0.0 and not question.answers_dated,
            )
        )
        said = scope(plan, index)
        found.append(f"<p class=scope>Of: {html.escape(said)}.</p>" if said else "")
    return "".join(found)


def _statistics(release: Published, facts: TableFacts) -> str:
    """The table to read and to copy, how sure it is, and how to use it."""
    plan = release.plan
    level = (
        f"All intervals hold at once with probability {plan.level:.0%} or more."
        if plan.joint
        else f"Each interval covers the exact answer of its question with probability {plan.level:.0%} or more; of "
        "many of them, some do not."
    )
    fitted = (
        "Numbers that must agree were fitted to each other after the noise, which costs no privacy."
        if plan.consistent
        else "Numbers were not fitted to each other: totals may differ from the sums of their parts by the noise."
    )
    noted = "".join(f"<p>Note: {html.escape(each)}.</p>" for each in facts.notes)
    return (
        f"<p>{level} {fitted}</p><div class=wide tabindex=0>{table(release)}</div>{noted}"
        f"<details><summary>The same as CSV, to copy</summary><pre class=all>{html.escape(release.to_csv())}</pre>"
        f"</details>{_REGRESSION}"
    )


def _privacy(release: Published, facts: TableFacts) -> str:
    """The guarantee in several terms, the risk in odds, where it was charged, and how to check all that."""
    ready = release.facts
    strong = [*([facts.promise] if facts.promise else []), *facts.warnings]
    lines = [facts.spent, *(f"<strong>{html.escape(each)}</strong>" for each in strong)]
    if ready is not None:
        lines.append(html.escape(ready.odds))
        lines.append(f"The same in other terms. {html.escape(str(ready.conversions))}")
    if facts.entry is not None:
        lines.append(
            f"Charged to account <code>{html.escape(facts.entry['account'])}</code> under request "
            f"<code>{html.escape(facts.entry['request'])}</code>; the ledger's head is then "
            f"<code>{html.escape(facts.entry['head'])}</code>."
        )
    lines.append(
        "To check it: <code>rangebound verify certificate.json table.json</code> proves the guarantee again from the "
        "certificate and the published bytes, and with <code>--ledger</code> the charge. The release writes both files "
        "with <code>--certificate certificate.json</code> and <code>-o table.json</code>; the same request again costs "
        "nothing."
    )
    lines.append(f"Published bytes: SHA-256 <code>{facts.sha256}</code>")
    said = "".join(f"<p>{each}</p>" for each in lines)
    words = html.escape(explained(ready or plan_facts(release.plan)))
    return f"{said}<h3>The plan</h3><pre>{words}</pre>"
