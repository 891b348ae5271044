"""One page about a release, for three readers: numbers in words and pictures, the table, the guarantee and its plan.

Pictures are points with error bars, series over time, and tables of two columns.
"""

from __future__ import annotations

import datetime
import html
import math
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN
from importlib.resources import files
from itertools import groupby, pairwise
from string import Template

from rangebound.release.output.explain import explained
from rangebound.release.output.plan_facts import Row, TableFacts, plan_facts, scope
from rangebound.release.output.rendering import FACTS, in_words, outwards, plain_number, rounded, shown, table
from rangebound.release.plan.expressions.nodes import iso_day
from rangebound.release.plan.fields import date
from rangebound.values.arguments import counted, upwards
from rangebound.values.serial import visible

_ROW, _LABEL, _WIDTH, _EDGE, _HEIGHT = 22, 200, 760, 230, 170
_LONGEST = 34  # letters that fit beside a picture
_MOST_ROWS, _MOST_PICTURES, _MOST_COLUMNS = 200, 24, 12
_FEWEST_DAYS = 8  # that are drawn as a series
_TABLE_ALONE = "They are for this table: how far a population that its rows are a sample of is from it is left out."
_WIDER = (
    "The dark ones are for this table, with its noise alone; the wider, paler ones, where there is one, are for the "
    "population that its units are an independent sample of, with sampling as well."
)
_GREY = " Numbers in grey are unreliable: their interval is wider than the number."


def report(found: TableFacts, csv: str) -> str:
    """The page as HTML, for three kinds of readers; it needs no other file and no network, and no script runs in it.

    First come the numbers in words and in pictures, then the table with what a statistician asks, `csv` to copy, then
    the guarantee with what a privacy officer asks. It is made for screens, light and dark, and for paper.

    Guarantee: made of the published numbers and the plan alone, and every text of the plan is escaped.
    """
    plan, ready, rows = found.plan, found.facts, found.rows
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
    words = ""
    for name, lines in in_words(found):
        listed = "".join(f"<li>{html.escape(visible(each))}</li>" for each in lines)
        words += f"<h3>{html.escape(name)}</h3><ul class=told>{listed}</ul>"
    folder = files("rangebound.release.output")
    page = Template((folder / "report.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=html.escape(found.title),
        style=(folder / "report.css").read_text(encoding="utf-8"),
        count=counted(f"{len(rows):,}", "number"),
        confidence=f"{plan.level:.0%}",
        once=", for all of them at once, " if plan.joint else " ",
        grey=_GREY if any(row["unreliable"] for row in rows) else "",
        sampling=_WIDER if plan.of_population else _TABLE_ALONE,
        words=words,
        pictures=_all_pictures(found),
        level=level,
        fitted=fitted,
        table=table(found),
        notes="".join(f"<p>Note: {html.escape(each)}.</p>" for each in found.notes),
        csv=html.escape(csv),
        privacy=_privacy(found),
        sha256=found.sha256,
        plan=html.escape(explained(ready or plan_facts(plan))),
    )


def _all_pictures(found: TableFacts) -> str:
    """The pictures of each question, and what its numbers are of."""
    drawn = []
    for index, question in enumerate(found.plan.query):
        ends = question.published_in(found.plan.unit_of(question)).hull
        levels, from_zero = question.together or question.apart, ends.lower == 0.0 and not question.answers_dated
        drawn.append(
            pictures(question.name, found.rows, levels=levels, selected=question.selected, from_zero=from_zero)
        )
        said = scope(found.plan, index)
        drawn.append(f"<p class=scope>Of: {html.escape(said)}.</p>" if said else "")
    return "".join(drawn)


def _privacy(found: TableFacts) -> str:
    """The guarantee in several terms, the risk in odds, and where it was charged."""
    strong = [*([found.promise] if found.promise else []), *found.warnings]
    lines = [found.spent, *(f"<strong>{html.escape(each)}</strong>" for each in strong)]
    if found.facts is not None:
        lines.append(html.escape(found.facts.odds))
        lines.append(f"The same in other terms. {html.escape(str(found.facts.conversions))}")
    if found.entry is not None:
        account, request, head = (html.escape(found.entry[name]) for name in ("account", "request", "head"))
        lines.append(
            f"Charged to account <code>{account}</code> under request <code>{request}</code>; the ledger's head is "
            f"then <code>{head}</code>."
        )
    return "".join(f"<p>{each}</p>" for each in lines)


def pictures(
    name: str, rows: Sequence[Row], *, levels: bool, selected: str | None = None, from_zero: bool = False
) -> str:
    """The numbers of one question: each level of sums in a picture of its own where there are `levels`.

    Axes reach beyond all that is drawn, and with `from_zero` they begin at 0.

    Days are drawn as a series, two columns with their margins as a table, all else as points with error bars. Where the
    answers are keys of the column `selected`, they are listed by rank.

    Guarantee: made of published numbers alone; every text is escaped. Edge cases: of very many numbers the first are
    drawn, and the picture says so.
    """
    own = [row for row in rows if row["query"] == name]
    if not own:
        return ""
    kind = html.escape(f"{name}: {own[0]['kind']}")
    columns = [key for key in own[0] if key not in FACTS and any(row[key] is not None for row in own)]
    drawn = [_cross_table(own, columns)] if levels and _is_cross_table(own, columns) else []
    if selected is not None:
        drawn = [_ranking(own, columns, selected)]
    if not drawn:
        for said, panel in _panels(own, columns) if levels else [("", own)]:
            drawn += _drawn(said, panel, columns, kind, from_zero=from_zero)
    more = len(drawn) - _MOST_PICTURES
    left_out = (
        f"<p class=scope>{counted(more, 'more picture')} left out; the table has all numbers.</p>" if more > 0 else ""
    )
    return f"<h3>{kind}</h3>{''.join(drawn[:_MOST_PICTURES])}{left_out}"


def _ranking(rows: Sequence[Row], columns: Sequence[str], selected: str) -> str:
    """Selected keys by rank: a list for each group."""
    own, chosen = rows[:_MOST_ROWS], selected
    while chosen in FACTS:
        chosen += "_"
    lines: dict[str, list[str]] = {}
    for row in own:
        group = ", ".join(str(row[name]) for name in columns if name != chosen)
        lines.setdefault(group, []).append(f"<li>{html.escape(visible(str(row[chosen])))}</li>")
    body = "".join(f"{_heading(group)}<ol>{''.join(keys)}</ol>" for group, keys in lines.items())
    more = len(rows) - len(own)
    left_out = f"<p class=scope>The table alone has {counted(more, 'more key')}.</p>" if more else ""
    errors = [row["rank_error"] for row in rows if row["rank_error"] is not None]
    below = counted(upwards(max(errors), 3), "unit") if errors else ""
    words = f"The count of each key is at most {below} below the true one of its rank, at the level of the intervals."
    said = f"<p class=scope>{words}</p>" if below else ""
    return f"{body}{left_out}{said}"


def _panels(rows: Sequence[Row], columns: Sequence[str]) -> list[tuple[str, list[Row]]]:
    """The rows of each level: those that have keys in the same columns, and the same part."""

    def level(row: Row) -> tuple[tuple[str, ...], str]:
        return tuple(key for key in columns if row[key] is not None), row["part"]

    found: dict[tuple[tuple[str, ...], str], list[Row]] = {}
    for row in rows:
        found.setdefault(level(row), []).append(row)
    if len(found) == 1:
        return [("", list(rows))]
    said = {(keys, part): part or ("by " + ", ".join(keys) if keys else "total") for keys, part in found}
    return [(said[each], panel) for each, panel in found.items()]


def _drawn(said: str, rows: list[Row], columns: Sequence[str], kind: str, *, from_zero: bool) -> list[str]:
    """The pictures of one level."""
    days, ends = next((key for key in columns if _are_days(rows, key)), None), _ends(rows[:_MOST_ROWS], from_zero)
    if days is None:
        return [_heading(said) + _points(rows, columns, ends, kind, parts=not said)]
    others = [key for key in columns if key != days]

    def group(row: Row) -> tuple[str, ...]:
        return tuple(str(row[key]) for key in others if row[key] is not None)

    level = said and (rows[0]["part"] or f"by {days}")
    found = []
    for keys, series in groupby(sorted(rows, key=group), key=group):
        words = ", ".join(each for each in (level, *keys) if each)
        found.append(_heading(words) + _series(list(series), days, ends, kind))
    return found


def _heading(words: str) -> str:
    return f"<p class=panel>{html.escape(visible(words))}</p>" if words else ""


def _ends(rows: Sequence[Row], from_zero: bool) -> tuple[float, float]:
    """The ends of an axis: round numbers beyond all that is drawn, or 0."""
    ends = [
        x for row in rows for x in (row["value"], row["lower"], row["upper"], *_population_of(row)) if math.isfinite(x)
    ]
    low, high = min(ends), max(ends)
    low = min(low, 0.0) if from_zero else low
    step = tick_step(low, high, least=1.0 if rows[0]["date"] else 0.0)
    return (low if low == 0.0 and from_zero else step * (math.ceil(low / step) - 1)), step * (
        math.floor(high / step) + 1
    )


def _are_days(rows: Sequence[Row], column: str) -> bool:
    """Whether a column has enough days as keys to be drawn as a series, and each number is one of a group's."""
    days = {iso_day(str(row[column])) for row in rows}
    return None not in days and len(days) >= _FEWEST_DAYS and len({row["part"] for row in rows}) == 1


def _series(rows: list[Row], column: str, ends: tuple[float, float], kind: str) -> str:
    """Numbers over time, with the band of their intervals."""
    dated = sorted(((datetime.date.fromisoformat(row[column]).toordinal(), row) for row in rows), key=lambda x: x[0])
    (first, last), (low, high) = (dated[0][0], dated[-1][0]), ends

    def across(day: float) -> float:
        return round(_LABEL / 2 + (day - first) / ((last - first) or 1) * (_WIDTH - _LABEL), 1)

    def down(x: float) -> float:
        return round(_HEIGHT - (min(max(x, low), high) - low) / ((high - low) or 1.0) * (_HEIGHT - 8), 1)

    marks = [
        f'<line x1="{across(first)}" x2="{across(last)}" y1="{down(x)}" y2="{down(x)}" class="grid"/>'
        f'<text x="{across(first) - 6}" y="{down(x) + 4}" text-anchor="end" class="small">{shown("value", x)}</text>'
        for x in ticks(low, high, least=0.0)
    ]
    labelled = [round(first + (last - first) * part / 4) for part in range(5)] if last > first else [first]
    marks += [
        f'<text x="{across(day)}" y="{_HEIGHT + 14}" text-anchor="middle" class="small">'
        f"{datetime.date.fromordinal(day).isoformat()}</text>"
        for day in labelled
    ]
    paler = [(day, *_population_of(row)) for day, row in dated] if "population_lower" in dated[0][1] else []
    for band in filter(None, (paler, [(day, row["lower"], row["upper"]) for day, row in dated])):
        upper = [f"{across(day)},{down(high)}" for day, _, high in band]
        lower = [f"{across(day)},{down(low)}" for day, low, _ in reversed(band)]
        marks.append(f'<polygon points="{" ".join(upper + lower)}" class="band{" population" * (band is paler)}"/>')
    marks += [
        f'<line x1="{across(a)}" y1="{down(one["value"])}" x2="{across(b)}" y2="{down(two["value"])}" '
        f'class="curve{" unreliable" if one["unreliable"] or two["unreliable"] else ""}"/>'
        for (a, one), (b, two) in pairwise(dated)
    ]
    return _framed(marks, _HEIGHT + 20, kind)


def _is_cross_table(rows: Sequence[Row], columns: Sequence[str]) -> bool:
    """Whether the numbers are those of two columns, all of which fit on a page beside each other."""
    if len(columns) != 2 or any(row["part"] for row in rows):
        return False
    return len({row[columns[1]] for row in rows}) <= _MOST_COLUMNS and len(rows) <= _MOST_ROWS * _MOST_COLUMNS


def _cross_table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Two columns with their margins as a table: each number above its interval."""
    down, across = (list(dict.fromkeys(row[key] for row in rows)) for key in columns)
    cells = {(row[columns[0]], row[columns[1]]): row for row in rows}
    inner = [row["value"] for (one, two), row in cells.items() if one is not None and two is not None]
    most = max(inner, default=0.0) or 1.0

    def words(key: object) -> str:
        return html.escape(visible(str(key))) if key is not None else "all"

    def cell(one: object, two: object) -> str:
        row = cells.get((one, two))
        if row is None:
            return "<td></td>"
        deep = row["value"] / most if one is not None and two is not None else 0.0
        shade = f' style="background: rgb(0 114 178 / {40 * min(max(deep, 0.0), 1.0):.0f}%)"' if deep else ""
        flag = " class=unreliable" if row["unreliable"] else ""
        ends = f"{shown('lower', row['lower'])} to {shown('upper', row['upper'])}"
        return f"<td{flag}{shade}>{shown('value', row['value'])}<br><small>{ends}</small></td>"

    head = "".join(f"<th>{words(key)}</th>" for key in across)
    body = "".join(f"<tr><th>{words(one)}</th>{''.join(cell(one, two) for two in across)}</tr>" for one in down)
    corner = html.escape(f"{columns[0]} / {columns[1]}")
    return f"<table class=cross><tr><th>{corner}</th>{head}</tr>{body}</table>"


def _points(rows: Sequence[Row], columns: Sequence[str], ends: tuple[float, float], kind: str, *, parts: bool) -> str:
    """Numbers as points with error bars, one line each."""
    own = rows[:_MOST_ROWS]
    left, right = ends
    width, dated = (right - left) or 1.0, bool(own[0]["date"])
    bottom = len(own) * _ROW

    def at(x: float) -> float:
        return float(f"{_LABEL + 10 + (min(max(x, left), right) - left) / width * (_WIDTH - _LABEL - _EDGE - 20):.1f}")

    marks = [
        f'<line x1="{at(x)}" x2="{at(x)}" y1="0" y2="{bottom}" class="grid"/>'
        f'<text x="{at(x)}" y="{bottom + 14}" text-anchor="middle" class="small">'
        f"{date(x).isoformat() if dated else shown('value', x)}</text>"
        for x in ticks(left, right, least=1.0 if dated else 0.0)[:: 2 if dated else 1]  # dates are long
    ]
    for place, row in enumerate(own):
        y = place * _ROW + _ROW / 2
        grey = " unreliable" if row["unreliable"] else ""
        keys = [str(row[key]) for key in columns if row[key] is not None]
        label = visible(", ".join([*keys, *([row["part"]] if parts and row["part"] else [])])) or "all"
        label = html.escape(label if len(label) <= _LONGEST else label[: _LONGEST - 3] + "...")
        marks.append(
            f'<text x="{_LABEL - 6}" y="{y + 4}" text-anchor="end" class="label{grey}">{label}</text>'
            f"{_paler(row, at, y)}"
            f'<line x1="{at(row["lower"])}" x2="{at(row["upper"])}" y1="{y}" y2="{y}" class="bar{grey}"/>'
            f'<circle cx="{at(row["value"])}" cy="{y}" r="4" class="dot{grey}"/>'
            f'<text x="{_WIDTH}" y="{y + 4}" text-anchor="end" class="small{grey}">{_told(row, dated=dated)}</text>'
        )
    more = len(rows) - len(own)
    left_out = f"<p class=scope>The table alone has {counted(more, 'more number')}.</p>" if more else ""
    return _framed(marks, bottom + 18, kind) + left_out


def _paler(row: Row, at: Callable[[float], float], y: float) -> str:
    """The interval for the population behind that for the table, wider and paler; nothing where there is none."""
    if row.get("population_lower") is None:
        return ""
    lower, upper = _population_of(row)
    return f'<line x1="{at(lower)}" x2="{at(upper)}" y1="{y}" y2="{y}" class="bar population"/>'


def _population_of(row: Row) -> tuple[float, float]:
    """The interval for the population; without one, that for the table."""
    found = row.get("population_lower"), row.get("population_upper")
    return tuple(row[name] if each is None else each for each, name in zip(found, ("lower", "upper"), strict=True))


def _framed(marks: Sequence[str], height: int, kind: str) -> str:
    """A picture that can be moved sideways where the page is narrow."""
    head = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{kind}">'
    return f"<div class=wide tabindex=0>{head}{''.join(marks)}</svg></div>"


def _told(row: Row, *, dated: bool) -> str:
    """A number and its interval, beside its point; the interval is rounded outwards."""
    if dated:
        first, middle, last = (date(row[name]).isoformat() for name in ("lower", "value", "upper"))
        return f"{middle} ({first} to {last})"
    lower, upper, digit = outwards(row["lower"], row["upper"])
    value = rounded(row["value"], digit / 10, ROUND_HALF_EVEN)
    return f"{plain_number(value)} ({plain_number(lower)} to {plain_number(upper)})"


def tick_step(left: float, right: float, *, least: float) -> float:
    """The distance of round numbers between two ends, of which there are some three to six; at least `least`."""
    rough = max((right - left) / 6, least) or max(abs(left), 1.0)
    power = 10.0 ** math.floor(math.log10(rough))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= rough * (1 - 1e-9))


def ticks(left: float, right: float, *, least: float) -> list[float]:
    """Round numbers between two ends, some three to six of them; `least` is the smallest distance that makes sense.

    >>> ticks(13.2, 52.9, least=0.0)
    [20.0, 30.0, 40.0, 50.0]
    """
    if not right > left:
        return [left]
    step = tick_step(left, right, least=least)
    first, last = math.ceil(left / step - 1e-9), math.floor(right / step + 1e-9)
    return [float(f"{place * step:.15g}") for place in range(first, last + 1)]
