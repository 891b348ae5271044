"""What the page asks for, by name: each a function of what it sends, made of functions that others call too.

As a program, this module is the process that computes certified answers, so that quick ones never wait for them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentError, PlanError, RangeboundError
from rangebound.release import MarginMet, Plan, Release, Solution, explain, record, record_text, solve
from rangebound.release.output.forecast import ExpectedWidth, expected_widths
from rangebound.release.output.plan_facts import Row
from rangebound.release.plan.fields import date
from rangebound.values.arguments import counted, upwards
from rangebound.web.explorer.edited_plan import adjusted, adjusted_text, kept, with_question, with_values, without_query
from rangebound.web.explorer.plan_tables import (
    account_words,
    charged_release,
    check_columns,
    column_names,
    made_up_trial,
    notebook,
    paying_account,
)
from rangebound.web.explorer.plan_view import plan_view
from rangebound.web.explorer.question_forms import BOUNDS, Asked
from rangebound.web.processes import work

Shown = dict[str, object]
SMALL_REST = 0.1
"""The part of the account that the smaller of two epsilons for the margins leaves for what has none."""
_MOST_NAMED = 4  # questions without a margin whose errors are said
EXPORTS = ("plan.toml", "plan.ipynb", "record.yaml")
"""The files that the page offers."""


def plan_of(asked: Asked, folder: Path) -> Plan:
    """The plan that a request is about: its text, with the changes that were made on the page."""
    return adjusted(asked.plan, asked.changes, folder)


def _certified(asked: Asked, folder: Path) -> Shown:
    plan = plan_of(asked, folder)
    own = {"question": asked.question, "answers": asked.answers, "rows": asked.rows}
    found, known = plan_view(plan, account=paying_account(plan, folder), **own)  # type: ignore[arg-type]
    return {**found, "text": adjusted_text(asked.plan, asked.changes), "known": asdict(known)}


def _solved(asked: Asked, folder: Path) -> Shown:
    """The epsilon for the margins: as the command finds it, and where that leaves much for what has none, a smaller."""
    plan = plan_of(asked, folder)
    found = solve(plan)
    ways = [solve(plan, rest=SMALL_REST), found] if found.rest > SMALL_REST else [found]
    alone = f"The margins alone need epsilon {upwards(found.margins_alone)}." if found.rest else ""
    words = [_solution_words(each, asked.rows) for each in ways]
    offered = [{"epsilon": way.epsilon, "rest": way.rest, "words": said} for way, said in zip(ways, words, strict=True)]
    return {**found.to_dict(), "words": alone, "offered": offered}


def _solution_words(found: Solution, rows: float | None) -> str:
    """What an epsilon buys: all margins, and what is left for the others with the error that they have then."""
    if not found.rest:
        return "meets all margins."
    widths = [None] * len(found.questions) if rows is None else expected_widths(found.plan, rows)
    pairs = zip(found.questions, widths, strict=True)
    others = [f"{met.query}: {_error_words(met, width)}" for met, width in pairs if met.margin is None and met.share]
    errors = "; ".join(others[:_MOST_NAMED])
    more = f"; and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
    part = f"meets all margins, and leaves {upwards(100 * found.rest, 3)} % of the budget for the others"
    return f"{part} ({errors}{more})." if errors else f"{part}."


def _error_words(met: MarginMet, width: ExpectedWidth | None) -> str:
    hopeless = ", hopeless" if width is not None and width.hopeless else ""
    if met.half_width is not None:
        return f"half-width {met.half_width:.4g}{hopeless}"
    if width is not None and width.half_width is not None:
        return f"half-width about {width.half_width:.4g} for {counted(f'{width.rows:.4g}', 'row')}{hopeless}"
    return f"error {re.split(';|, with| [(]', met.error)[0]}{hopeless}"


def _published(asked: Asked, folder: Path) -> Shown:
    if not asked.request or asked.confirmed is None:
        raise ArgumentError("request: missing; give the release an id, which is charged once")
    plan = plan_of(asked, folder)
    made, left = charged_release(plan, folder, request=asked.request, confirmed=asked.confirmed)
    files = {"table.csv": made.to_csv(), "table.json": made.to_bytes().decode(), "certificate.json": made.certificate}
    return {**_shown(made), "files": files, "left": left}


def _shown(made: Release) -> Shown:
    """The columns of a table that a reader looks at; days as dates."""

    def dated(row: Row) -> Row:
        days = {name: date(row[name]).isoformat() for name in ("value", "lower", "upper") if row[name] is not None}
        return {**row, **days} if row["date"] else row

    names = ["query", *made.grouped_by, "part", "value", "lower", "upper", "unreliable"]
    rows = [dated(row) for row in made.rows()]
    kept = [name for name in names if any(row.get(name) not in (None, "", False) for row in rows)]
    return {"columns": kept, "rows": [[row.get(name) for name in kept] for row in rows], "notes": list(made.notes)}


def _added(asked: Asked, folder: Path) -> Shown:
    form = asked.given("form")
    after = with_question(asked.plan, form)
    by = ", ".join(form.by)
    reused = not form.keys and by in tomllib.loads(asked.plan).get("keys", {})
    done = f"Added, for the values of {by!r} that the plan lists" if reused else "Added"
    return _edited(asked, folder, after, done)


def _bounds(asked: Asked, folder: Path) -> Shown:
    """The plan with other contribution bounds of one question; without any, it has those of the unit."""
    data, name, bounds = tomllib.loads(asked.plan), asked.query, asked.given("bounds")
    own = next((each for each in data["query"] if each["name"] == name), None)
    if own is None:
        raise ArgumentError(f"query={name!r:.80}: is not in the plan")
    for bound in BOUNDS:
        own.pop(bound, None)
    own |= bounds.model_dump(exclude_none=True)
    return _edited(asked, folder, with_values(asked.plan, data), "Changed")


def _unit(asked: Asked, folder: Path) -> Shown:
    """The plan with another column that says whose a row is; without one, each single row is protected."""
    data, column = tomllib.loads(asked.plan), asked.given("column").strip()
    unit = {name: each for name, each in data.pop("unit", {}).items() if name != "column"}
    unit |= {"column": column} if column else {}
    return _edited(asked, folder, with_values(asked.plan, {**data, **({"unit": unit} if unit else {})}), "Changed")


def _edited(asked: Asked, folder: Path, after: str, done: str) -> Shown:
    """A text of a plan that the page has edited, checked with the changes that still hold and with its columns."""
    left = kept(asked.plan, after, asked.changes, folder)
    anew = " The text had to be written anew, without its comments." if "#" in asked.plan and "#" not in after else ""
    words = f"{done}.{anew}{check_columns(adjusted(after, left, folder), folder)}"
    return {"plan": after, "changes": left.to_dict(), "words": words}


def _kept(asked: Asked, folder: Path) -> Shown:
    left = kept(asked.given("before"), asked.plan, asked.changes, folder)
    seen = check_columns(adjusted(asked.plan, left, folder), folder)
    return {"plan": adjusted_text(asked.plan, left), "changes": {}, "words": f"Checked.{seen}"}


def _checked(asked: Asked, folder: Path) -> Shown:
    """The text to save, and what `rangebound plan check` says about it, which a first plan need not pass yet."""
    plan, text = plan_of(asked, folder), adjusted_text(asked.plan, asked.changes)
    if "#" in asked.plan and "#" not in text:
        raise ArgumentError("plan: cannot be written with its comments, so the file is left as it is; save a copy")
    try:
        explain(plan)
        seen = check_columns(plan, folder)
    except PlanError as error:
        return {"text": text, "ready": False, "words": f"Not ready yet: {error}."}
    count = counted(sum(not each.made for each in plan.query), "query", "queries")
    return {"text": text, "ready": True, "words": f"Checked, as rangebound plan check does: ok, {count}.{seen}"}


def _exported(asked: Asked, folder: Path) -> Shown:
    plan = plan_of(asked, folder)
    made: dict[str, Callable[[], str]] = {
        "plan.toml": lambda: adjusted_text(asked.plan, asked.changes),
        "plan.ipynb": lambda: notebook(plan),
        "record.yaml": lambda: record_text(record(plan, account=paying_account(plan, folder))),
    }
    name = asked.given("name")
    if name not in made:
        raise ArgumentError(f"name={name!r:.80}: must be one of {', '.join(EXPORTS)}")
    return {"name": name, "text": made[name]()}


TASKS: Mapping[str, Callable[[Asked, Path], Shown]] = {
    "certified": _certified,
    "solve": _solved,
    "trial": lambda asked, folder: _shown(made_up_trial(plan_of(asked, folder))),
    "publish": _published,
    "account": lambda asked, folder: account_words(plan_of(asked, folder), folder),
    "number": lambda asked, _: {"plan": asked.given("number").plan().to_toml()},
    "add": _added,
    "remove": lambda asked, folder: _edited(asked, folder, without_query(asked.plan, asked.given("query")), "Removed"),
    "unit": _unit,
    "bounds": _bounds,
    "columns": lambda asked, folder: {"columns": list(column_names(plan_of(asked, folder), folder))},
    "kept": _kept,
    "checked": _checked,
    "export": _exported,
}
"""What the page may ask for; beside these, `quick` is answered at once, and `save` writes the file."""


def answer(folder: Path, message: Mapping[str, Any]) -> dict[str, Any]:
    """What is `shown` for a task, and what quick answers may be scaled from as `known`.

    Edge cases: an error of the library is an answer, with the key `error` and, for a plan, the `field` at fault.
    """
    try:
        shown = TASKS[message["task"]](Asked.read(message["asked"]), folder)
        return {"known": shown.pop("known", None), "shown": shown}
    except RangeboundError as error:
        field = {"field": error.field} if isinstance(error, PlanError) else {}
        return {"shown": {"error": " ".join(str(error).split()), **field}, "known": None}
    except Exception as error:  # its message may contain data, so it is not shown
        words = f"unexpected {type(error).__name__}; this is a bug, please report it"
        return {"shown": {"error": words}, "known": None}


if __name__ == "__main__":
    work(nullcontext(partial(answer, Path(sys.argv[1]))))
