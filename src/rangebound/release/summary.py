"""A summary of a table that no plan describes: a plan that finds unknown ranges and keys, one that asks the rest."""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import Enum
from itertools import combinations
from pathlib import PurePath
from typing import Any

from rangebound.errors import ArgumentError
from rangebound.release.output.forecast import forecast
from rangebound.release.output.table import Release
from rangebound.release.plan.draft import Key
from rangebound.release.plan.expressions.nodes import Named
from rangebound.release.plan.fields import Ends, date, number
from rangebound.release.plan.key_rule import KeyRule
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.ranks import DAYS, VALUES
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family, Schema, one_of
from rangebound.release.plan.toml import make_plan
from rangebound.values import arguments

MOST_COLUMNS = 60
"""Columns of a summary: of more, each number would have a small share of the budget, and nobody would read the page."""
_KEYS, _BINS, _CELLS, _TABLES = 50, 10, 5_000, 63
_BEYOND = 0.2  # of the units, at each end of a range that was found


class Role(Enum):
    """What a column is summarised as, by the option that declares it."""

    NUMBER = "numeric"
    CATEGORY = "category"
    DAY = "date"


_ROLES = {
    **dict.fromkeys((Family.INTEGER, Family.NUMBER, Family.DECIMAL), Role.NUMBER),
    **dict.fromkeys((Family.TEXT, Family.BOOLEAN), Role.CATEGORY),
    **dict.fromkeys((Family.DATE, Family.TIMESTAMP), Role.DAY),
}
_SPELT: dict[Family | None, Callable[[str], Key]] = {
    Family.INTEGER: int,
    Family.DATE: datetime.date.fromisoformat,
    Family.BOOLEAN: {"true": True, "false": False}.__getitem__,
}
"""How a key of a typed column is read from a text."""


def roles_of(schema: Schema, declared: Mapping[str, Role], unit: str | None) -> dict[str, Role]:
    """What each column is summarised as: those that are declared, or else all by their types, but for the unit.

    Guarantee: made of names and types alone. Columns of a text file have no type and must be declared.

    >>> roles_of({"who": Family.TEXT, "age": Family.INTEGER}, {}, "who")
    {'age': <Role.NUMBER: 'numeric'>}
    """
    found = dict(declared) or {name: _ROLES[each] for name, each in schema.items() if each in _ROLES}
    found.pop(unit or "", None)
    if not found:
        way = "declare what they hold, as --numeric age,cost --category city --date day, or give --metadata"
        columns = one_of({name: each for name, each in schema.items() if name != unit})
        raise ArgumentError(f"numeric: columns {columns} have no types, and rows that suggest some would leak; {way}")
    if len(found) > MOST_COLUMNS:
        way = f"name at most {MOST_COLUMNS}, by --numeric, --category and --date"
        raise ArgumentError(f"columns: {len(found)} of them would share one budget, so that all is noise; {way}")
    return found


@dataclass(frozen=True, kw_only=True)
class Described:
    """What is publicly known of a table, and what its summary may spend; `unit` is None where each row is one.

    Of units that are a `sample`, means and quartiles have an interval for the population as well.

    Of units with `rows` = 1 one row is made, with the least value of each column: all counts are then about the same
    rows, are measured together and add up. With more, each question has contribution bounds of its own.
    """

    source: Source
    schema: Schema
    roles: Mapping[str, Role]
    unit: str | None
    rows: int = 1
    epsilon: float
    delta: float
    account: str
    ledger: str
    ranges: Mapping[str, Ends]
    keys: Mapping[str, tuple[Key, ...]]
    sample: bool = False
    before: str = ""

    @property
    def made(self) -> bool:
        """Whether one row is made of those of a unit."""
        return self.unit is not None and self.rows == 1

    @property
    def unknown(self) -> tuple[str, ...]:
        """The columns whose range or keys nobody stated."""
        known = {role: self.keys if role is Role.CATEGORY else self.ranges for role in Role}
        return tuple(name for name, role in self.roles.items() if name not in known[role])

    def ends(self, column: str, lower: str, upper: str) -> Ends:
        """A range of a column from two texts."""
        read: Callable[[str], Any] = datetime.date.fromisoformat if self.roles[column] is Role.DAY else float
        return read(lower), read(upper)

    def key(self, column: str, text: str) -> Key:
        """A key of a column, as a plan lists it, from a text."""
        try:
            return _SPELT.get(self.schema.get(column), str)(text)
        except (ValueError, KeyError):
            raise ArgumentError(f"keys: {arguments.shown(text)} is not a value of column {column!r}") from None

    def first(self, share: float) -> dict[str, Any]:
        """The plan that finds unknown ranges and keys for a `share` of the budget, as plain data."""
        asked: list[dict[str, Any]] = []
        for name in self.unknown:
            if self.roles[name] is not Role.CATEGORY:
                asked.append({"name": name, "kind": "bounds", "column": name, "dates": self.roles[name] is Role.DAY})
            elif self.delta:
                asked.append({"name": name, "kind": "top k", "column": name, "k": _KEYS})
            else:
                way = f"such as --delta 1e-6; or state them, as --keys {name}=A,B"
                raise ArgumentError(f"keys: those of {name!r} are found privately, which needs a delta, {way}")
        counted = "count of units" if self.unit is not None else "count"
        asked.append({"name": _free("units", self.roles), "kind": counted})
        paid = _split(self.epsilon, share)[0], _split(self.delta, share)[0]
        return self._plan("Ranges and keys for a summary of", *paid, {}, asked)

    def learnt(self, made: Release, share: float) -> Described:
        """The same with the ranges and keys that the table of `first` has; what it has not found stays unknown.

        What is left of the budget is exactly what the first plan does not spend. A range beyond whose ends a fifth of
        the units may lie is none, and a key that no plan can list is among the others.
        """
        ends, keys = dict[str, list[float]](), dict[str, tuple[Key, ...]]()
        asked, ranges = made.plan.query, dict(self.ranges)
        units = next(each.value for each in made.cells if asked[each.question].name not in self.roles)
        for cell in made.cells:
            name = asked[cell.question].name
            if self.roles.get(name) is Role.CATEGORY:
                with suppress(ValueError):
                    KeyRule(values=(key := self.key(name, str(cell.key[-1])),))
                    keys[name] = (*keys.get(name, ()), key)
            elif name in self.roles and (cell.rank_error or 0.0) <= _BEYOND * units:
                ends.setdefault(name, []).append(cell.value)
        for name, found in ends.items():
            dated = self.roles[name] is Role.DAY
            edges = DAYS if dated else VALUES
            if edges[0] < found[0] < found[-1] < edges[-1]:
                ranges[name] = (date(found[0]), date(found[-1])) if dated else (found[0], found[-1])
        names = [name for name in self.unknown if name in ranges or name in keys]
        before = f" Those of {', '.join(map(repr, names)) or 'no column'} were found privately before, for "
        known = replace(self, ranges=ranges, keys={**self.keys, **keys}, before=f"{before}{made.plan.budget}.")
        return replace(known, epsilon=_split(self.epsilon, share)[1], delta=_split(self.delta, share)[1])

    def plan(self, error: float | None = None) -> dict[str, Any]:
        """The plan of the summary as plain data, with two-way tables as long as every count is within `error`.

        Those with few cells come first; half the width of an interval counts, at the plan's level.
        """
        if error is None:
            return self._asking(())
        sizes = {name: len(KeyRule(**self._rule(name)).labels) for name in self.roles if name not in self.unknown}
        pairs = {each: sizes[each[0]] * sizes[each[1]] for each in combinations(sizes, 2)}
        fit = sorted((each for each in pairs if pairs[each] <= _CELLS), key=pairs.__getitem__)
        order = fit[: max(_TABLES - len(self.roles), 0)]

        def widest(tables: int) -> float:
            outlooks = forecast(make_plan(self._asking(order[:tables])))
            return max(each.half_width or 0.0 for each in outlooks if each.kind == "count")

        return self._asking(order[: max(bisect_right(range(len(order) + 1), error, key=widest) - 1, 0)])

    def _asking(self, tables: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """The plan with some two-way tables."""
        apart = self.unit is not None and self.rows > 1
        asked: list[dict[str, Any]] = []

        def ask(name: str, kind: str, **fields: Any) -> None:
            asked.append({"name": _free(name, [each["name"] for each in asked]), "kind": kind, **fields})

        def count(*by: str) -> None:
            ask(" by ".join(by), "count", by=list(by), **({"groups": self.rows} if apart else {}))

        ask("units" if self.made else "rows", "count")
        if apart:
            ask("units", "count of units")
        for name, role in self.roles.items():
            known = name not in self.unknown
            if not known or (apart and role is not Role.CATEGORY):
                ask(f"{name} missing", "count", where=f"{Named(name) if self.made else self._column(name)} IS NULL")
            if known and (role is Role.CATEGORY or not apart):
                count(name)
            if known and role is not Role.CATEGORY:
                column = {"column": name, "range": list(self.ranges[name])}
                if apart and len(self._edges(name)) > 2:  # bins share the rows of a unit, groups would multiply them
                    ask(name, "histogram", column=name, bins=self._edges(name))
                ask(f"{name} mean", "mean", **column)
                ask(f"{name} spread", "standard deviation", **column)
                ask(f"{name} quartiles", "quantiles", levels=[0.25, 0.5, 0.75], **column)
        for pair in tables:
            count(*pair)
        grouped = dict.fromkeys(name for each in asked for name in each.get("by", ()))
        more: dict[str, Any] = {"per_unit": {name: self._one(name) for name in self.roles}} if self.made else {}
        more |= {"keys": {name: self._rule(name) for name in grouped}} if grouped else {}
        more |= {"intervals": "both"} if self.sample else {}
        words = f". Of each {self.unit!r} the least value of each column counts" if self.made else ""
        words += f". Taken as public: names and types of columns, the unit, ranges and keys.{self.before}"
        found = self._plan("Summary of", self.epsilon, self.delta, more, asked, self.rows)
        return found | {"title": f"{found['title']}{words}", "consistent": True}

    def _plan(
        self, what: str, epsilon: float, delta: float, more: dict[str, Any], asked: list[dict[str, Any]], rows: int = 1
    ) -> dict[str, Any]:
        name = PurePath(self.source.path or "").name or self.source.table
        paid = {"epsilon": epsilon, "delta": delta, "account": self.account, "ledger": self.ledger}
        unit = {} if self.unit is None else {"unit": {"column": self.unit, **({"rows": rows} if rows > 1 else {})}}
        source = self.source.model_dump(exclude_none=True)
        return {"title": f"{what} {name}", "source": source, **unit, "budget": paid, **more, "query": asked}

    def _edges(self, name: str) -> list[float | datetime.date]:
        ends, dated = self.ranges[name], self.roles[name] is Role.DAY
        bins = min(_BINS, round(number(ends[1]) - number(ends[0]))) if dated else _BINS
        edges = Histogram(name=name, column=name, range=ends, bins=bins).edges if bins > 1 else map(number, ends)
        return [date(each) if dated else each for each in edges]

    def _rule(self, name: str) -> dict[str, Any]:
        if self.roles[name] is Role.CATEGORY:
            keys = KeyRule(values=self.keys[name]).labels
            return {"values": list(self.keys[name]), "missing": _free("missing", keys), "other": _free("other", keys)}
        return {"bins": self._edges(name), "missing": "missing", "other": "outside"}

    def _column(self, name: str) -> str:
        """A column as what it is declared to be."""
        bare = self.schema.get(name) in (Family.TEXT, Family.UNTYPED)
        kind = {Role.DAY: "DATE", Role.NUMBER: "DOUBLE" if bare else ""}.get(self.roles[name])
        return f"CAST({Named(name)} AS {kind})" if kind else str(Named(name))

    def _one(self, name: str) -> str:
        """The value of a unit in a column: the least one."""
        if self.roles[name] is Role.CATEGORY:
            return f"ARG_MIN({Named(name)}, DATE '2000-01-01')"  # of several on one date, the least
        return f"MIN({self._column(name)})"


def _free(name: str, taken: Collection[str]) -> str:
    """A name that is not taken, with as many underscores as that needs."""
    while name in taken:
        name += "_"
    return name


def _split(total: float, share: float) -> tuple[float, float]:
    """A part of a budget, of four digits, and the rest: decimals that add up exactly."""
    part = float(f"{total * share:.4g}")
    return part, float(Decimal(repr(total)) - Decimal(repr(part)))
