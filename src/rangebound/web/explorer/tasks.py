"""What the page asks for, by name: each a function of plain data, made of functions that others call too.

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
from rangebound.release.output.deployment_record import record, record_text
from rangebound.release.output.explain import explain
from rangebound.release.output.facts import Row
from rangebound.release.output.forecast import ExpectedWidth, MarginMet, Solution, expected_widths, solve
from rangebound.release.output.table import Release
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan
from rangebound.values.arguments import counted, upwards
from rangebound.web.explorer.adjusted_plan import PlanChanges, adjusted, adjusted_text, kept
from rangebound.web.explorer.edited_text import with_values, without_query
from rangebound.web.explorer.forms import OneNumber, QuestionForm, with_question
from rangebound.web.explorer.notebook_export import notebook
from rangebound.web.explorer.plan_tables import (
    account_words,
    charged_release,
    check_columns,
    column_names,
    made_up_trial,
    paying_account,
)
from rangebound.web.explorer.plan_view import KnownWidths, plan_view
from rangebound.web.processes import work

Answered = tuple[dict[str, object], KnownWidths | None]
SMALL_REST = 0.1
"""The part of the account that the smaller of two epsilons for the margins leaves for what has none."""
_MOST_NAMED = 4  # questions without a margin whose errors are said


def plan_of(asked: Mapping[str, Any], folder: Path) -> Plan:
    """The plan that a request is about: its text, with the changes that were made on the page."""
    return adjusted(_text(asked), PlanChanges.from_dict(asked.get("changes") or {}), folder)


def _certified(asked: Mapping[str, Any], folder: Path) -> Answered:
    plan, answers = plan_of(asked, folder), asked.get("answers")
    if answers is not None and not (isinstance(answers, list) and all(type(x) in (int, float) for x in answers)):
        raise ArgumentError("answers: must be numbers")
    account, question = paying_account(plan, folder), asked.get("question")
    found, known = plan_view(plan, question=question, answers=answers, account=account, rows=_rows(asked))
    return {**found, "text": _new_text(asked)}, known


def _solved(asked: Mapping[str, Any], folder: Path) -> Answered:
    """The epsilon for the margins: as the command finds it, and where that leaves much for what has none, a smaller."""
    plan, rows = plan_of(asked, folder), _rows(asked)
    found = solve(plan)
    ways = [solve(plan, rest=SMALL_REST), found] if found.rest > SMALL_REST else [found]
    alone = f"The margins alone need epsilon {upwards(found.margins_alone)}." if found.rest else ""
    offered = [{"epsilon": each.epsilon, "rest": each.rest, "words": _solution_words(each, rows)} for each in ways]
    return {**found.to_dict(), "words": alone, "offered": offered}, None


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


def _rows(asked: Mapping[str, Any]) -> float | None:
    """About how many rows the table has, as somebody says."""
    rows = asked.get("rows")
    if rows is not None and type(rows) not in (int, float):
        raise ArgumentError("rows: must be a number")
    return rows


def _trial(asked: Mapping[str, Any], folder: Path) -> Answered:
    return _shown(made_up_trial(plan_of(asked, folder))), None


def _published(asked: Mapping[str, Any], folder: Path) -> Answered:
    request, confirmed = asked.get("request"), asked.get("confirmed")
    if not isinstance(request, str) or not request or not isinstance(confirmed, str):
        raise ArgumentError("request: missing; give the release an id, which is charged once")
    made, left = charged_release(plan_of(asked, folder), folder, request=request, confirmed=confirmed)
    files = {"table.csv": made.to_csv(), "table.json": made.to_bytes().decode(), "certificate.json": made.certificate}
    return {**_shown(made), "files": files, "left": left}, None


def _shown(made: Release) -> dict[str, object]:
    """The columns of a table that a reader looks at; days as dates."""
    names = ["query", *made.grouped_by, "part", "value", "lower", "upper", "unreliable"]
    rows = [_dated(row) if row["date"] else row for row in made.rows()]
    kept = [name for name in names if any(row.get(name) not in (None, "", False) for row in rows)]
    return {"columns": kept, "rows": [[row.get(name) for name in kept] for row in rows], "notes": list(made.notes)}


def _dated(row: Row) -> Row:
    days = {name: date(row[name]).isoformat() for name in ("value", "lower", "upper") if row[name] is not None}
    return {**row, **days}


def _account(asked: Mapping[str, Any], folder: Path) -> Answered:
    return account_words(plan_of(asked, folder), folder), None


def _number(asked: Mapping[str, Any], folder: Path) -> Answered:
    return {"plan": OneNumber.from_dict(asked.get("number")).plan().to_toml()}, None


def _added(asked: Mapping[str, Any], folder: Path) -> Answered:
    before, form = _text(asked), QuestionForm.from_dict(asked.get("form"))
    after = with_question(before, form)
    reused = bool(form.by) and not form.keys and form.by in tomllib.loads(before).get("keys", {})
    done = f"Added, for the values of {form.by!r} that the plan lists" if reused else "Added"
    return _edited(asked, folder, after, done)


def _removed(asked: Mapping[str, Any], folder: Path) -> Answered:
    return _edited(asked, folder, without_query(_text(asked), str(asked.get("query"))), "Removed")


def _edited(asked: Mapping[str, Any], folder: Path, after: str, done: str) -> Answered:
    """A text of a plan that the page has edited, checked with the changes that still hold and with its columns."""
    left = kept(_text(asked), after, PlanChanges.from_dict(asked.get("changes") or {}), folder)
    plan = adjusted(after, left, folder)
    anew = " The text had to be written anew, without its comments." if "#" in _text(asked) and "#" not in after else ""
    return {"plan": after, "changes": left.to_dict(), "words": f"{done}.{anew}{check_columns(plan, folder)}"}, None


def _bounds(asked: Mapping[str, Any], folder: Path) -> Answered:
    """The plan with other contribution bounds of one question; without any, it has those of the unit."""
    data, name = tomllib.loads(_text(asked)), asked.get("query")
    own = next((each for each in data["query"] if each["name"] == name), None)
    if own is None:
        raise ArgumentError(f"query={name!r:.80}: is not in the plan")
    for bound in ("rows", "groups"):
        value = asked.get(bound)
        if value is not None and (type(value) is not int or value < 1):
            raise ArgumentError(f"{bound}={value!r:.80}: must be a whole number, at least 1")
        own.pop(bound, None)
        own |= {bound: value} if value is not None else {}
    return _edited(asked, folder, with_values(_text(asked), data), "Changed")


def _unit(asked: Mapping[str, Any], folder: Path) -> Answered:
    """The plan with another column that says whose a row is; without one, each single row is protected."""
    data, column = tomllib.loads(_text(asked)), asked.get("column")
    if not isinstance(column, str):
        raise ArgumentError("column: must be the name of a column, or empty")
    unit = {name: each for name, each in data.get("unit", {}).items() if name != "column"}
    wanted = {**data, "unit": {**unit, **({"column": column.strip()} if column.strip() else {})}}
    after = with_values(_text(asked), {name: each for name, each in wanted.items() if name != "unit" or each})
    return _edited(asked, folder, after, "Changed")


def _columns(asked: Mapping[str, Any], folder: Path) -> Answered:
    return {"columns": list(column_names(plan_of(asked, folder), folder))}, None


def _text(asked: Mapping[str, Any]) -> str:
    text = asked.get("plan")
    if not isinstance(text, str):
        raise ArgumentError("plan: must be the text of a plan")
    return text


def _kept(asked: Mapping[str, Any], folder: Path) -> Answered:
    before, after = asked.get("before"), asked.get("plan")
    if not isinstance(before, str) or not isinstance(after, str):
        raise ArgumentError("plan: must be the text of a plan, and before: that of the plan before it")
    given = PlanChanges.from_dict(asked.get("changes") or {})
    left = kept(before, after, given, folder)
    seen = check_columns(adjusted(after, left, folder), folder)
    return {"plan": adjusted_text(after, left), "changes": {}, "words": f"Checked.{seen}"}, None


def _new_text(asked: Mapping[str, Any]) -> str:
    return adjusted_text(_text(asked), PlanChanges.from_dict(asked.get("changes") or {}))


def _checked(asked: Mapping[str, Any], folder: Path) -> Answered:
    """The text to save, and what `rangebound plan check` says about it, which a first plan need not pass yet."""
    plan, text = plan_of(asked, folder), _new_text(asked)
    if "#" in _text(asked) and "#" not in text:
        raise ArgumentError("plan: cannot be written with its comments, so the file is left as it is; save a copy")
    try:
        explain(plan)
        seen = check_columns(plan, folder)
    except PlanError as error:
        return {"text": text, "ready": False, "words": f"Not ready yet: {error}."}, None
    count = counted(sum(not each.made for each in plan.query), "query", "queries")
    return {"text": text, "ready": True, "words": f"Checked, as rangebound plan check does: ok, {count}.{seen}"}, None


def _exported(asked: Mapping[str, Any], folder: Path) -> Answered:
    plan = plan_of(asked, folder)
    made: dict[str, Callable[[], str]] = {
        "plan.toml": lambda: _new_text(asked),
        "plan.ipynb": lambda: notebook(plan),
        "record.yaml": lambda: record_text(record(plan, account=paying_account(plan, folder))),
    }
    name = asked.get("name")
    if name not in made:
        raise ArgumentError(f"name={name!r:.80}: must be one of {', '.join(exports())}")
    return {"name": name, "text": made[name]()}, None


def exports() -> tuple[str, ...]:
    """The files that the page offers."""
    return ("plan.toml", "plan.ipynb", "record.yaml")


TASKS: Mapping[str, Callable[[Mapping[str, Any], Path], Answered]] = {
    "certified": _certified,
    "solve": _solved,
    "trial": _trial,
    "publish": _published,
    "account": _account,
    "number": _number,
    "add": _added,
    "remove": _removed,
    "unit": _unit,
    "bounds": _bounds,
    "columns": _columns,
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
        shown, known = TASKS[message["task"]](message["asked"], folder)
        return {"shown": shown, "known": None if known is None else asdict(known)}
    except RangeboundError as error:
        field = {"field": error.field} if isinstance(error, PlanError) else {}
        return {"shown": {"error": " ".join(str(error).split()), **field}, "known": None}
    except Exception as error:  # its message may contain data, so it is not shown
        words = f"unexpected {type(error).__name__}; this is a bug, please report it"
        return {"shown": {"error": words}, "known": None}


if __name__ == "__main__":
    work(nullcontext(partial(answer, Path(sys.argv[1]))))
