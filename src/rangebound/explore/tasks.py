"""What the page asks for, by name: each a function of plain data, made of functions that others call too."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rangebound.arguments import upwards
from rangebound.errors import ArgumentError
from rangebound.explore.added_question import QuestionForm, with_question
from rangebound.explore.adjusted_plan import PlanChanges, adjusted, adjusted_text, kept
from rangebound.explore.charged_release import account_words, charged_release, paying_account
from rangebound.explore.edited_text import with_values, without_query
from rangebound.explore.made_up_trial import made_up_trial
from rangebound.explore.notebook_export import notebook
from rangebound.explore.one_number import OneNumber
from rangebound.explore.plan_view import plan_view
from rangebound.explore.quick_shares import KnownWidths
from rangebound.explore.source_columns import check_columns, column_names
from rangebound.release.output.deployment_record import record, record_text
from rangebound.release.output.rendering import Row
from rangebound.release.output.solution import solve
from rangebound.release.output.table import Release
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan

Answered = tuple[dict[str, object], KnownWidths | None]


def plan_of(asked: Mapping[str, Any], folder: Path) -> Plan:
    """The plan that a request is about: its text, with the changes that were made on the page."""
    return adjusted(_text(asked), PlanChanges.from_dict(asked.get("changes") or {}), folder)


def _certified(asked: Mapping[str, Any], folder: Path) -> Answered:
    plan, answers = plan_of(asked, folder), asked.get("answers")
    if answers is not None and not (isinstance(answers, list) and all(type(x) in (int, float) for x in answers)):
        raise ArgumentError("answers: must be numbers")
    question = asked.get("question")
    account = paying_account(plan, folder)
    return plan_view(plan, question=question, answers=answers, account=account)


def _solved(asked: Mapping[str, Any], folder: Path) -> Answered:
    found = solve(plan_of(asked, folder))
    words = f"Epsilon {upwards(found.epsilon)} meets all margins."
    if found.rest:
        words = f"{words[:-1]}, and leaves {upwards(100 * found.rest, 3)} % of the budget for what has no margin."
        words += " For a smaller epsilon, leave less: rangebound plan solve --rest, or give more questions a margin."
    return {**found.to_dict(), "words": words}, None


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
    return _edited(asked, folder, with_question(before, form), "Added")


def _removed(asked: Mapping[str, Any], folder: Path) -> Answered:
    return _edited(asked, folder, without_query(_text(asked), str(asked.get("query"))), "Removed")


def _edited(asked: Mapping[str, Any], folder: Path, after: str, done: str) -> Answered:
    """A text of a plan that the page has edited, checked with the changes that still hold and with its columns."""
    left = kept(_text(asked), after, PlanChanges.from_dict(asked.get("changes") or {}), folder)
    plan = adjusted(after, left, folder)
    return {"plan": after, "changes": left.to_dict(), "words": f"{done}.{check_columns(plan, folder)}"}, None


def _unit(asked: Mapping[str, Any], folder: Path) -> Answered:
    """The plan with another column that says whose a row is; without one, each single row is protected."""
    data, column = tomllib.loads(_text(asked)), asked.get("column")
    if not isinstance(column, str):
        raise ArgumentError("column: must be the name of a column, or empty")
    unit = {name: each for name, each in data.get("unit", {}).items() if name != "column"}
    wanted = {**data, "unit": {**unit, **({"column": column.strip()} if column.strip() else {})}}
    after = with_values(_text(asked), {name: each for name, each in wanted.items() if each != {}})
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
    said = f" Your changes above are kept: {left.words()}." if left.words() else ""
    lost = " Where the text says otherwise now, it has taken their place." if left.words() != given.words() else ""
    return {"changes": left.to_dict(), "words": f"Checked.{said}{lost}{seen}"}, None


def _exported(asked: Mapping[str, Any], folder: Path) -> Answered:
    plan = plan_of(asked, folder)
    made: dict[str, Callable[[], str]] = {
        "plan.toml": lambda: adjusted_text(_text(asked), PlanChanges.from_dict(asked.get("changes") or {})),
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
    "columns": _columns,
    "kept": _kept,
    "export": _exported,
}
"""What the page may ask for; beside these, `quick` is answered at once."""
