"""A SELECT from beginning to end: translated into a plan, released like any other, and its rows made of that table.

They are made of published numbers, so that HAVING, ORDER BY and LIMIT cost nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rangebound.errors import ArgumentError, plain
from rangebound.ledger.book import Ledger
from rangebound.release.noise.draw import Cell
from rangebound.release.output.plan_facts import scope_lines
from rangebound.release.output.rendering import lined_up, shown
from rangebound.release.output.table import Release, reading_order
from rangebound.release.plan.asking.published_values import Group, Number, Value, truth_of, value_of
from rangebound.release.plan.asking.translation import Ordering, Translated, translate
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan
from rangebound.release.run import Progress, demand_plan_approval, engine_of, needs_approval, release
from rangebound.values import arguments
from rangebound.values.data_frames import escaped, rows_as_html
from rangebound.values.extras import need
from rangebound.values.serial import csv_text


@dataclass(frozen=True, kw_only=True, repr=False)
class Answer:
    """The answer to a SELECT: `rows` as it asks for them, and the whole `release` with every interval and cost.

    Guarantee: made of published numbers alone. HAVING, ORDER BY and LIMIT leave rows out of this answer, not out of
    the release.
    """

    asked: Translated
    release: Release

    def __post_init__(self) -> None:
        if self.release.plan != self.asked.plan:
            raise ArgumentError("request: was published for another plan; give this SELECT an id of its own")

    def __repr__(self) -> str:
        return f"<Answer: {arguments.counted(len(self.rows()), 'row')}, {self.asked.plan.budget}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of SELECT."""
        return tuple(name for name, _ in self.asked.columns)

    def rows(self) -> list[dict[str, Value]]:
        """The rows, one mapping each."""
        return [{name: value_of(value, each) for name, value in self.asked.columns} for each in self._kept()]

    def table(self) -> list[list[str]]:
        """The names of the columns and the rows, as texts: behind each published number its interval."""
        plan = self.asked.plan
        numbers = {name: value for name, value in self.asked.columns if isinstance(value, Number)}
        known = {name: value for name, value in numbers.items() if plan.query[value.question].selected is None}
        level = f"{100 * plan.level:g} % interval"
        table = [[text for name in self.columns for text in ([name, level] if name in known else [name])]]
        cells: dict[tuple[object, int, str | None], Cell]
        cells = {(each.key, each.question, each.part): each for each in self.release.cells}
        for group in self._kept():
            row = []
            for name, value in self.asked.columns:
                row.append(shown("value", value_of(value, group)))
                if name in known:
                    asked = known[name].question
                    parts = group.numbers.get(asked, {}) if known[name].part is None else [known[name].part]
                    found = next((cells[group.key, asked, part] for part in parts), None)
                    row.append("" if found is None else _interval(found, dated=plan.query[asked].answers_dated))
            table.append(row)
        return table

    def _kept(self) -> list[Group]:
        """The groups that HAVING and LIMIT keep, in the order of ORDER BY."""
        groups = _groups(self.release)
        if self.asked.having is not None:
            groups = [each for each in groups if truth_of(self.asked.having, each) is True]
        for ordering in reversed(self.asked.order):
            groups = _ordered(groups, ordering)
        return groups if self.asked.limit is None else groups[: self.asked.limit]

    def __str__(self) -> str:
        return "\n".join([*lined_up(self.table()), *self.said()])

    def said(self) -> list[str]:
        """What the numbers are of, where they are not quite what other databases would give, and what is unknown."""
        return [*scope_lines(self.asked.plan), *(f"note: {plain(each)}" for each in self.notes)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the translation, and those of the release."""
        return (*self.asked.notes, *self.release.notes)

    def _repr_html_(self) -> str:
        head, *rows = self.table()
        said = "".join(f"<p class=scope>{escaped(line)}</p>" for line in self.said())
        return rows_as_html(head, rows) + said

    def to_csv(self) -> str:
        """The rows as CSV."""
        return csv_text([self.columns, *(row.values() for row in self.rows())])

    def to_pandas(self) -> object:
        """The rows for pandas."""
        need("pandas")
        import pandas

        return pandas.DataFrame(self.rows(), columns=list(self.columns))


@arguments.guided
def sql(
    text: str,
    data: Any,
    *,
    plan: Plan | Mapping[str, object],
    ledger: Ledger | None,
    request: str | None = None,
    tables: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Answer:
    """Answer a SELECT privately.

    `plan` is the base: the privacy unit, the budget, public keys, ranges and joins; its own questions are not asked.
    `data`, `ledger`, `request` and `tables` are those of `rb.release_table`. `translate(text, plan)` shows the plan
    that would be released, with notes on what differs from other databases, and charges nothing.

    Guarantee: that of the plan, whatever the text is. No part of the text reaches an engine: it is parsed into a plan,
    and statements are written from plans alone. What is not in the subset is refused before the charge.
    Edge cases: HAVING, ORDER BY and LIMIT work on published numbers; the release has those that they leave out. The
    columns are not read before an account that needs approval has it, and names are then taken as they are written.

    >>> import pyarrow
    >>> base = {"budget": {"epsilon": 50.0}, "keys": {"clinic": ["north", "south"]}}
    >>> table = pyarrow.table({"clinic": ["north", "north", "south"]})
    >>> found = sql("SELECT clinic, COUNT(*) AS n FROM t GROUP BY clinic ORDER BY n", table, plan=base, ledger=None)
    >>> found.rows()
    [{'clinic': 'south', 'n': 1.0}, {'clinic': 'north', 'n': 2.0}]
    """
    if needs_approval(ledger, paying_account(plan)):
        asked = translate(text, plan)
        if ledger is not None and request is not None:
            with asked.pointing():
                demand_plan_approval(asked.plan, ledger=ledger, request=request)
        engine = engine_of(data)
    else:
        engine = engine_of(data)
        asked = translate(text, plan, columns=engine.schema())
    with asked.pointing():
        made = release(asked.plan, engine, ledger=ledger, request=request, tables=tables, progress=progress)
    return Answer(asked=asked, release=made)


ask = sql
"""Its name in `rangebound.release`."""


def paying_account(base: Plan | Mapping[str, object]) -> object:
    """The account that a base plan names, which may not have been checked yet."""
    budget = base.budget if isinstance(base, Plan) else base.get("budget")
    return budget.get("account") if isinstance(budget, Mapping) else getattr(budget, "account", None)


def _interval(cell: Cell, *, dated: bool) -> str:
    ends = cell.lower, cell.upper
    return " to ".join(date(each).isoformat() if dated else shown("value", each) for each in ends)


def _groups(release: Release) -> list[Group]:
    """What was published, group by group, in the order of the plan."""
    found: dict[tuple[Value, ...], dict[int, dict[str, Value]]] = {}
    for at in reading_order(release):
        cell = release.cells[at]
        question = release.plan.query[cell.question]
        if question.made:
            continue
        value: Value = date(cell.value).isoformat() if question.answers_dated else cell.value
        if question.selected is not None:
            value = question.answer(cell.key, cell.draws)
        found.setdefault(cell.key, {}).setdefault(cell.question, {})[cell.part] = value
    return [Group(key=key, numbers=numbers) for key, numbers in found.items()]


def _ordered(groups: Sequence[Group], ordering: Ordering) -> list[Group]:
    """The groups by one value; those that have the same stay as they are."""
    values = [(value_of(ordering.by, each), each) for each in groups]
    there = [(value, each) for value, each in values if value is not None]
    texts = [value for value, _ in there if isinstance(value, str)]
    numbers = {text: _number(text) for text in texts}
    plainly = any(each is None for each in numbers.values())

    def rank(pair: tuple[Value, Group]) -> tuple[bool, float, str]:
        value = pair[0]
        if isinstance(value, str):
            return True, 0.0 if plainly else numbers[value] or 0.0, value
        return False, float(value or 0.0), ""

    there.sort(key=rank, reverse=ordering.falling)
    missing = [each for value, each in values if value is None]
    ordered = [each for _, each in there]
    return [*missing, *ordered] if ordering.missing_first else [*ordered, *missing]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
