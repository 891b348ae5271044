"""The rows that a SELECT gives: made of a published table, so that HAVING, ORDER BY and LIMIT cost nothing."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from rangebound.errors import ArgumentError, plain
from rangebound.release.output.facts import scope_lines
from rangebound.release.output.order import reading_order
from rangebound.release.output.rendering import lined_up, shown
from rangebound.release.output.table import Release
from rangebound.release.plan.asking.computed import Group, Value, truth_of, value_of
from rangebound.release.plan.asking.translation import Ordering, Translated
from rangebound.release.plan.fields import date
from rangebound.values.arguments import counted
from rangebound.values.extras import need
from rangebound.values.serial import csv_text, visible


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
        return f"<Answer: {counted(len(self.rows()), 'row')}, {self.asked.plan.budget}>"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of SELECT."""
        return tuple(name for name, _ in self.asked.columns)

    def rows(self) -> list[dict[str, Value]]:
        """The rows, one mapping each."""
        groups = _groups(self.release)
        if self.asked.having is not None:
            groups = [each for each in groups if truth_of(self.asked.having, each) is True]
        for ordering in reversed(self.asked.order):
            groups = _ordered(groups, ordering)
        kept = groups if self.asked.limit is None else groups[: self.asked.limit]
        return [{name: value_of(value, each) for name, value in self.asked.columns} for each in kept]

    def __str__(self) -> str:
        cells = [list(self.columns), *([shown("value", each) for each in row.values()] for row in self.rows())]
        return "\n".join([*lined_up(cells), *self.said()])

    def said(self) -> list[str]:
        """What the numbers are of, where they are not quite what other databases would give, and what is unknown."""
        return [*scope_lines(self.asked.plan), *(f"note: {plain(each)}" for each in self.notes)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Those of the translation, and those of the release."""
        return (*self.asked.notes, *self.release.notes)

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        cells = (
            "".join(f"<td>{html.escape(visible(shown('value', each)))}</td>" for each in row.values())
            for row in self.rows()
        )
        body = "".join(f"<tr>{row}</tr>" for row in cells)
        said = "".join(f"<p class=scope>{html.escape(line)}</p>" for line in self.said())
        return f"<table><tr>{head}</tr>{body}</table>{said}"

    def to_csv(self) -> str:
        """The rows as CSV."""
        return csv_text([self.columns, *(row.values() for row in self.rows())])

    def to_pandas(self) -> object:
        """The rows for pandas."""
        need("pandas")
        import pandas

        return pandas.DataFrame(self.rows(), columns=list(self.columns))


def _groups(release: Release) -> list[Group]:
    """What was published, group by group, in the order of the plan."""
    found: dict[tuple[Value, ...], dict[int, dict[str, Value]]] = {}
    for at in reading_order(release.plan, release.cells):
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
