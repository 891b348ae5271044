"""A release that was made: its table, in many forms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from rangebound.errors import ArgumentError, PlanError
from rangebound.mechanisms.finite import Table
from rangebound.release.noise.draw import Cell
from rangebound.release.noise.forms import Form, form_of
from rangebound.release.output import reliability, rendering
from rangebound.release.output.agreement import notes
from rangebound.release.output.comparison import compare_groups
from rangebound.release.output.plan_facts import (
    PlanFacts,
    Row,
    TableFacts,
    facts_of,
    hazards,
    plan_from_json,
    plan_json,
    scope_lines,
    scopes,
    sha256,
    stated,
)
from rangebound.release.output.rendering import ENDING, FACTS, FIRST, LAST, csvw_description, workbook
from rangebound.release.output.report import report
from rangebound.release.plan.fields import date
from rangebound.release.plan.model import Plan
from rangebound.values import arguments, data_frames
from rangebound.values.extras import need
from rangebound.values.serial import csv_text

_NUMBER = re.compile(r"-?\d+(\.\d+)?")
FORMAT, _FIRST_FORMAT = "rangebound release 2", "rangebound release 1"


@dataclass(frozen=True, kw_only=True, repr=False)
class Release:
    """A published table: the plan it follows and its numbers, each with its interval, mechanism and cost.

    The column `scope` says what a number is of: what contribution bounds, clipping and missing values did before the
    noise, which is all that the interval is for. `bias` bounds how far the number is off on average, at any true answer
    in its interval; `population_lower` and `population_upper` are an interval for the population, where the plan asks
    for one; `unbiased` is the number before it was moved into its support, where the plan asks for it; a number
    is `unreliable` where its interval is wider than the number.
    `tables` are the optimal tables that numbers were drawn from, by the place of their question in the plan. `unread`
    are columns of a text file of which no number says how many values could not be read; `whole` are the quantiles of
    columns whose type is one of whole numbers, and are whole themselves.
    `print` shows the numbers as a table of text, a notebook as one of HTML.
    """

    plan: Plan
    cells: tuple[Cell, ...]
    mechanisms: tuple[str, ...]
    certificate: str = ""
    tables: Mapping[int, Table] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Release: {arguments.counted(len(self.cells), 'number')}, {self.plan.budget}>"

    def __str__(self) -> str:
        return rendering.text(self.table_facts)

    def _repr_html_(self) -> str:
        return rendering.table(self.table_facts)

    @cached_property
    def grouped_by(self) -> tuple[str, ...]:
        """All grouping columns of the plan, each once, in the order of `by`, and those whose keys are answers."""
        return rendering.grouping_columns(
            (*each.by, *([each.selected] if each.selected else [])) for each in self.plan.query
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the table's columns, in order."""
        last = LAST if self.plan.of_population else (each for each in LAST if each not in data_frames.POPULATION)
        return (*FIRST, *self._named.values(), *last)

    @property
    def _named(self) -> dict[str, str]:
        """The name of every grouping column in the table; one of the table's own names gets an underscore."""
        found: dict[str, str] = {}
        for column in self.grouped_by:
            name = column
            while name in FACTS or name in found.values():
                name += "_"
            found[column] = name
        return found

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be made consistent, which numbers reach an end of their support, what is unknown."""
        names = ", ".join(map(repr, self.unread))
        unread = f"how many values of {names} could not be read from the file is unknown; they count as missing"
        asked = self._forms, self.cells
        asked_for = self.facts.questions if self.facts is not None and self.plan.of_population else ()
        said = (*reliability.reached_ends(*asked), *reliability.unknown_cuts(*asked))
        sampling = [f"{each.question.name}: {each.sampled}" for each in asked_for if isinstance(each.sampled, str)]
        return (*notes(self.plan, self.cells), *said, *sampling, *([unread] if self.unread else []))

    @cached_property
    def _forms(self) -> tuple[Form, ...]:
        """Every question of its plan in its form, with the contribution bounds that hold for it."""
        return tuple(form_of(each, self.plan.unit_of(each)) for each in self.plan.query)

    @cached_property
    def facts(self) -> PlanFacts | None:
        """The facts about its plan, whose budget is split as the numbers state; None for a table of another version."""
        return facts_of(self.plan, self.cells, self.tables)

    @property
    def table_facts(self) -> TableFacts:
        """All that is said of the table, in every form of it."""
        entry = stated(self.certificate, "ledger")
        promise = entry.get("promise") if isinstance(entry, dict) else None
        whole = isinstance(entry, dict) and all(isinstance(each, str) for each in entry.values())
        return TableFacts(
            plan=self.plan,
            facts=self.facts,
            rows=self.rows(),
            title=self.plan.title or "Private release",
            spent=f"Spent: {self.plan.budget}.",
            promise=promise if isinstance(promise, str) else None,
            entry=entry if whole and {"account", "request", "head"} <= entry.keys() else None,
            warnings=tuple(f"Warning: {each}." for each in hazards(self.plan)),
            scopes=tuple(scope_lines(self.plan)),
            notes=self.notes,
            sha256=sha256(self.to_bytes()),
        )

    def rows(self) -> list[Row]:
        """The table in the order of the plan, one mapping per row; an unused grouping column is None."""
        found, named, said = [], self._named, scopes(self.plan)
        for cell, moved in zip(self.cells, reliability.moved_numbers(self._forms, self.facts, self.cells), strict=True):
            question = self.plan.query[cell.question]
            keys = dict(zip(question.by, cell.key, strict=True))
            if question.selected is not None:
                keys[question.selected] = question.answer(cell.key, cell.draws)
            dated = question.answers_dated
            found.append(
                {
                    "query": question.name,
                    "kind": question.kind,
                    **{name: keys.get(column) for column, name in named.items()},
                    "part": cell.part,
                    "value": cell.value,
                    "lower": cell.lower + 0.0,  # -0.0 is 0.0
                    "upper": cell.upper,
                    **(
                        {each: getattr(cell, each) for each in data_frames.POPULATION}
                        if self.plan.of_population
                        else {}
                    ),
                    "unbiased": moved.unbiased,
                    "bias": moved.bias,
                    "unreliable": None if dated or question.selected else reliability.is_unreliable(cell, moved.spread),
                    "date": date(cell.value).isoformat() if dated else None,
                    "rank_error": cell.rank_error,
                    "scope": said[cell.question],
                    "mechanism": self.mechanisms[cell.question],
                    "epsilon": None if cell.mu else cell.epsilon,
                    "delta": None if cell.mu else cell.delta,
                    "mu": cell.mu or None,
                }
            )
        return [found[at] for at in reading_order(self)]

    def estimate(
        self, question: str, *, prior: str | Mapping[float, float] | Sequence[float], level: float = 0.95
    ) -> list[Row]:
        """Estimates of the true answers of one question: a mapping for each group, the published number beside it.

        As `rangebound.estimate`, which says what a prior is and what the intervals hold: `prior="fit"` reads off the
        numbers of all groups how the true answers spread.

        Guarantee: post-processing of the published table, which it leaves as it is.
        Edge cases: a question whose numbers were measured together, or are not whole numbers with noise of their own,
        is refused, and so is a table whose budget this version of the library would split otherwise.
        """
        return reliability.estimate_rows(
            self._forms, self.facts, self.cells, self.tables, question, prior=prior, level=level
        )

    def compare(self, question: str, *, by: str, level: float | None = None) -> list[Row]:
        """The differences between the groups of a question in the population, for every pair by the column `by`.

        A mapping for each pair of groups that differ in nothing else: the keys `first` and `second`, the `difference`
        of their numbers, an interval `lower, upper` for that in the population, and a `p_value` for no difference. Both
        are corrected for the number of pairs (Bonferroni): all intervals hold at once with probability `level`.

        Guarantee: post-processing of the published table. Asymptotic, as intervals for the population are.
        Assumes: units are an independent sample of the population; they may be in several groups.
        Edge cases: a kind without such an interval is refused. Means whose plan does not ask for `intervals = "both"`
        are compared by the largest variance that they allow, which is wide.

        >>> import pyarrow
        >>> from rangebound.release import parse_plan, release
        >>> plan = parse_plan('''budget = {epsilon = 50.0}
        ... keys = {plot = ["a", "b"]}
        ... query = [{name = "tall", kind = "share", of = "height > 10", by = ["plot"]}]''')
        >>> rows = pyarrow.table({"plot": ["a"] * 90 + ["b"] * 90, "height": [4] * 80 + [20] * 100})
        >>> (found,) = release(plan, rows, ledger=None).compare("tall", by="plot")
        >>> found["first"], found["second"], found["upper"] < 0, found["p_value"] < 0.001
        ('a', 'b', True, True)
        """
        level = self.plan.level if level is None else level
        return compare_groups(self.facts, self.cells, question, by=by, level=level)

    def to_bytes(self) -> bytes:
        """The release as canonical JSON: these are the bytes that the ledger keeps and the certificate is about."""
        tables = {self.plan.query[at].name: each.to_dict()["table"] for at, each in self.tables.items()}
        data = {
            "format": FORMAT,
            "plan": json.loads(plan_json(self.plan)),
            "mechanisms": list(self.mechanisms),
            "scopes": list(scopes(self.plan)),
            "cells": [cell.stored() for cell in self.cells],
            **({"tables": tables} if tables else {}),
            **({"unread": list(self.unread)} if self.unread else {}),
            **({"whole": list(self.whole)} if self.whole else {}),
        }
        return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes, *, certificate: str = "") -> Self:
        """The release that `to_bytes` wrote."""
        try:
            found = json.loads(data)
            if found["format"] != FORMAT:
                raise KeyError("format")
            cells = tuple(map(_cell, found["cells"]))
            plan, mechanisms = plan_from_json(found["plan"]), tuple(found["mechanisms"])
            places = {each.name: at for at, each in enumerate(plan.query)}
            stored = dict(found.get("tables", {}))
            tables = {places[name]: Table.from_dict({"table": data}) for name, data in stored.items()}
            named = {each: tuple(map(str, found.get(each, ()))) for each in ("unread", "whole")}
        except (ValueError, KeyError, TypeError, RecursionError, PlanError):
            old = f'"format":"{_FIRST_FORMAT}"'.encode() in data
            rule = "was published by version 0.1, which counts missing values otherwise; read it with that version"
            raise ArgumentError(
                f"data={arguments.shown(data)}: {rule if old else 'must be the bytes of a release'}"
            ) from None
        return cls(plan=plan, cells=cells, mechanisms=mechanisms, certificate=certificate, tables=tables, **named)

    def to_csv(self) -> str:
        """The table as CSV."""
        rows = (
            (None if name in FACTS and value == "" else value for name, value in row.items()) for row in self.rows()
        )
        return csv_text([self.columns, *rows])

    def to_arrow(self) -> Any:
        """The table for Arrow: numbers and dates as such, keys as texts."""
        return data_frames.to_arrow(self.columns, self.rows())

    def to_pandas(self) -> Any:
        """The table for pandas: numbers and dates as such, keys as texts."""
        return data_frames.to_pandas(self.columns, self.rows())

    def to_polars(self) -> Any:
        """The table for Polars: numbers and dates as such, keys as texts."""
        return data_frames.to_polars(self.columns, self.rows())

    def write(self, path: str | Path) -> None:
        """Write the table; the name's ending says how.

        .csv, .parquet, .xlsx, .json (the certified bytes) or .html; .csv-metadata.json is the description of the .csv
        file of that name by CSVW.
        """
        file = writable(path)
        described = file.name.removesuffix(ENDING)
        if file.name.lower().endswith(f".csv{ENDING}"):
            file.write_text(csvw_description(self.table_facts, self.columns, described), encoding="utf-8")
            return
        match file.suffix.lower():
            case ".csv":
                file.write_text(self.to_csv(), encoding="utf-8")
            case ".json":
                file.write_bytes(self.to_bytes())
            case ".parquet":
                data_frames.optional("pyarrow.parquet").write_table(self.to_arrow(), file)
            case ".xlsx":
                file.write_bytes(workbook(self.table_facts))
            case ".html":
                file.write_text(report(self.table_facts, self.to_csv()), encoding="utf-8")


def reading_order(found: Release) -> list[int]:
    """The places of the cells in the order of the plan: by question, and selected keys as they are sorted by a reader.

    Public keys are as the plan lists them. Of selected keys, a column that the plan lists goes by its list, numbers go
    by size, and texts by their letters; keys that are ranked go by rank.

    Guarantee: made of published keys alone.
    """
    cells = found.cells
    orders = {index: _key_order(found, index) for index in {each.question for each in cells}}
    return sorted(range(len(cells)), key=lambda at: (cells[at].question, orders[cells[at].question](cells[at])))


def _key_order(found: Release, index: int) -> Callable[[Cell], tuple[object, ...]]:
    question = found.plan.query[index]
    if not found.plan.private(question.by):
        return lambda _: ()  # as the plan lists them, already
    keys = zip(*(each.key for each in found.cells if each.question == index), strict=True)
    ranks = [_ranks(column, listed) for column, listed in zip(keys, found.plan.columns(question.by), strict=True)]
    if question.ranked:
        return lambda cell: (*(rank[key] for rank, key in zip(ranks[:-1], cell.key, strict=False)), cell.value)
    return lambda cell: tuple(rank[key] for rank, key in zip(ranks, cell.key, strict=True))


def _ranks(keys: Iterable[str | None], listed: Sequence[str]) -> dict[str | None, int]:
    """The place of each key of a column among all of them."""
    texts = {each: each or "" for each in keys}
    places = {each: at for at, each in enumerate(listed)}
    numbers = all(_NUMBER.fullmatch(each) for each in texts.values())

    def order(each: str | None) -> Any:
        own = texts[each]
        return places.get(own, len(places)) if listed else (float(own), own) if numbers else own

    return {each: at for at, each in enumerate(sorted(texts, key=order))}


def writable(path: str | Path) -> Path:
    """The file for a table, if its name says in which form and its folder is there."""
    file = Path(path)
    if file.suffix.lower() not in (".csv", ".parquet", ".xlsx", ".json", ".html"):
        raise ArgumentError(f"path={str(path)!r}: must end in .csv, .parquet, .xlsx, .json or .html")
    if not file.parent.is_dir():
        raise ArgumentError(f"path={str(path)!r}: must be in an existing folder")
    needed = {".parquet": "pyarrow", ".xlsx": "xlsxwriter"}.get(file.suffix.lower())
    if needed is not None:
        need(needed, what=f"path={str(path)!r}")
    return file


def _cell(data: dict[str, Any]) -> Cell:
    """The cell that was written, if all its fields are of their types."""
    cell = Cell(**{**data, "key": tuple(data["key"]), "draws": tuple(data["draws"])})
    numbers = (*cell.draws, cell.value, cell.lower, cell.upper, cell.epsilon, cell.delta, cell.mu)
    given = (cell.rank_error, cell.population_lower, cell.population_upper)
    numbers += tuple(each for each in given if each is not None)
    right = type(cell.question) is int and all(type(each) is float for each in numbers)
    if not right or type(cell.part) is not str or not all(each is None or type(each) is str for each in cell.key):
        raise TypeError("a field of a cell is of another type")
    return cell
