"""A summary of a table that no plan describes: one plan that finds unknown ranges and keys, and one that asks the rest.

Both are made of names, declared types and what is publicly known, and run as any other plan.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
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
from rangebound.release.plan.expressions.nodes import Named
from rangebound.release.plan.fields import Ends, date
from rangebound.release.plan.key_rule import KeyRule
from rangebound.release.plan.kinds.histogram import Histogram
from rangebound.release.plan.kinds.ranks import DAYS, VALUES
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family, Schema
from rangebound.release.plan.toml import make_plan
from rangebound.values import arguments

MOST_COLUMNS = 60
"""Columns of a summary: of many, each number would have a small share of the budget, and nobody reads the page."""
SHARE = 0.08
"""The part of the budget that goes into ranges and keys: all errors grow by less than a tenth."""
MISSING, OTHER, OUTSIDE = "missing", "other", "outside"
_KEYS, _BINS, _CELLS, _TABLES = 50, 10, 5_000, 63
_BEYOND = 0.2  # of the units, at each end of a range that was found
_STANDS = "DATE '2000-01-01'"
Key = str | int | bool | datetime.date


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
_SPELT: dict[Family, tuple[Callable[[str], Key], Key]] = {
    Family.INTEGER: (int, 0),
    Family.DATE: (datetime.date.fromisoformat, datetime.date(2000, 1, 1)),
    Family.BOOLEAN: ({"true": True, "false": False}.__getitem__, True),
}
"""How a key of a typed column is read from a text, and some key of this type."""


def roles_of(schema: Schema, declared: Mapping[str, Role], unit: str | None) -> dict[str, Role]:
    """What each column is summarised as: those that are declared, or else all by their types but for the unit.

    Guarantee: made of names and types alone. Edge cases: columns without a type, as those of a text file, must be
    declared; the error has their names and what to write.

    >>> roles_of({"who": Family.TEXT, "age": Family.INTEGER}, {}, "who")
    {'age': <Role.NUMBER: 'numeric'>}
    """
    for name in (*declared, *([unit] if unit is not None else [])):
        if name not in schema:
            hint = arguments.similar(name, schema) or f"its columns are {_listed(schema)}"
            raise ArgumentError(f"column={name!r}: the table has no such column; {hint}")
    found = dict(declared) or {name: _ROLES[each] for name, each in schema.items() if each in _ROLES}
    found.pop(unit or "", None)
    if not found:
        names = _listed(each for each in schema if each != unit)
        raise ArgumentError(
            f"numeric: the columns of this table have no types, and guessing these from rows would leak: {names}. "
            "Say which hold what, such as --numeric age,cost --category city --date day, or give --metadata"
        )
    if len(found) > MOST_COLUMNS:
        raise ArgumentError(
            f"columns: {arguments.counted(len(found), 'column')} would share one budget, so every number would be "
            f"noise; name at most {MOST_COLUMNS} by --numeric, --category and --date, and leave out the others"
        )
    return found


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - 12} more" if len(found) > 12 else ""
    return ", ".join(map(repr, found[:12])) + more


@dataclass(frozen=True, kw_only=True)
class Described:
    """What is publicly known of a table, and what its summary may spend; `unit` is None where each row is one.

    Of units with `rows` = 1 one row is made, with the least value of each column: all counts are then about the same
    rows, are measured together and add up. With more, each question has contribution bounds of its own.
    """

    source: Source
    schema: Schema
    roles: Mapping[str, Role]
    unit: str | None
    rows: int = 1
    groups: int | None = None
    epsilon: float
    delta: float
    account: str
    ledger: str
    ranges: Mapping[str, Ends]
    keys: Mapping[str, tuple[Key, ...]]
    before: str = ""

    @property
    def unknown(self) -> tuple[str, ...]:
        """The columns whose range or keys nobody stated."""
        known = {role: self.keys if role is Role.CATEGORY else self.ranges for role in Role}
        return tuple(name for name, role in self.roles.items() if name not in known[role])

    def ends(self, column: str, lower: str, upper: str) -> Ends:
        """A range of a column from two texts."""
        if self.roles[column] is Role.DAY:
            return datetime.date.fromisoformat(lower), datetime.date.fromisoformat(upper)
        return float(lower), float(upper)

    def key(self, column: str, text: str) -> Key:
        """A key of a column, as a plan lists it, from a text."""
        try:
            return _SPELT[self.schema[column]][0](text) if self.schema.get(column) in _SPELT else text
        except (ValueError, KeyError):
            kind = self.schema[column].value
            raise ArgumentError(f"keys: {arguments.shown(text)} is no key of {column!r}, of type {kind}") from None

    def first(self, share: float) -> dict[str, Any]:
        """The plan that finds unknown ranges and keys for a `share` of the budget, as plain data."""
        asked: list[dict[str, Any]] = []
        for name in self.unknown:
            if self.roles[name] is not Role.CATEGORY:
                asked.append({"name": name, "kind": "bounds", "column": name, "dates": self.roles[name] is Role.DAY})
                continue
            if not self.delta:
                raise ArgumentError(
                    f"keys: those of {name!r} are found privately, which needs a delta, such as --delta 1e-6; "
                    f"or state them, as --keys {name}=A,B"
                )
            asked.append({"name": name, "kind": "top k", "column": name, "k": _KEYS})
        owner = {} if self.unit is None else {"unit": {"column": self.unit}}
        asked.append({"name": "units" + "_" * (1 + max(map(len, self.roles))), "kind": "count of units"})
        title = f"Ranges and keys for a summary of {self._name}"
        return {"title": title, **self._spending(_part(self.epsilon, share), _part(self.delta, share), owner, asked)}

    def learnt(self, made: Release, share: float) -> tuple[Described, tuple[str, ...]]:
        """The same with the ranges and keys that the table of `first` has, without the columns for which it has none.

        These come second. What is left of the budget is exactly what the first plan does not spend. A range beyond
        whose ends a fifth of the units may lie is none. A key that no plan can list, such as one with the character of
        code 0, is among the others.
        """
        ends: dict[str, list[float]] = {}
        keys: dict[str, tuple[Key, ...]] = {}
        *cells, units = made.cells
        for cell in cells:
            name = made.plan.query[cell.question].name
            if self.roles[name] is not Role.CATEGORY:
                if cell.rank_error is not None and cell.rank_error <= _BEYOND * units.value:
                    ends.setdefault(name, []).append(cell.value)
                continue
            with suppress(ValueError):
                KeyRule(values=(key := self.key(name, str(cell.key[-1])),))
                keys[name] = (*keys.get(name, ()), key)
        ranges = dict(self.ranges)
        for name, (lower, upper) in ends.items():
            edges = DAYS if self.roles[name] is Role.DAY else VALUES
            if edges[0] < lower < upper < edges[-1]:
                ranges[name] = (date(lower), date(upper)) if self.roles[name] is Role.DAY else (lower, upper)
        spent = {name: _part(getattr(self, name), share) for name in ("epsilon", "delta")}
        words = f"epsilon {spent['epsilon']:g}" + (f", delta {spent['delta']:g}" if self.delta else "")
        found = replace(
            self,
            **{name: _rest(getattr(self, name), each) for name, each in spent.items()},
            ranges=ranges,
            keys={**self.keys, **keys},
            before=f" Those of {', '.join(map(repr, self.unknown))} were found privately before, for {words}.",
        )
        left = found.unknown
        return replace(found, roles={name: each for name, each in self.roles.items() if name not in left}), left

    def guessed(self, share: float) -> Described:
        """The same with made-up ranges and keys in place of unknown ones, to check the second plan before the first."""
        known = {name: _SPELT.get(self.schema[name], (str, "-"))[1] for name in self.unknown}
        spare = [datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)]
        ends: dict[str, Ends] = {
            name: (spare[0], spare[1]) if self.roles[name] is Role.DAY else (0.0, 1.0) for name in self.unknown
        }
        return replace(
            self,
            epsilon=_rest(self.epsilon, _part(self.epsilon, share)),
            delta=_rest(self.delta, _part(self.delta, share)),
            ranges={**ends, **self.ranges},
            keys=self.keys | {name: (key,) for name, key in known.items() if self.roles[name] is Role.CATEGORY},
        )

    def plan(self, error: float | None = None) -> dict[str, Any]:
        """The plan of the summary as plain data, with two-way tables as long as every count is within `error`.

        Those with few cells come first; half the width of an interval counts, at the plan's level.
        """
        if error is None:
            return self._asking(())
        pairs = [each for each in combinations(self.roles, 2) if self._cells(each) <= _CELLS]
        pairs = sorted(pairs, key=self._cells)[: max(_TABLES - len(self.roles), 0)]
        fit, beyond = 0, len(pairs) + 1
        while beyond - fit > 1:
            middle = (fit + beyond) // 2
            if self._widest(pairs[:middle]) <= error:
                fit = middle
            else:
                beyond = middle
        return self._asking(pairs[:fit])

    def _widest(self, pairs: Iterable[tuple[str, str]]) -> float:
        outlooks = forecast(make_plan(self._asking(pairs)))
        return max(each.half_width or 0.0 for each in outlooks if each.kind == "count")

    def _cells(self, columns: Iterable[str]) -> int:
        cells = 1
        for each in columns:
            cells *= 2 + (len(self.keys[each]) if self.roles[each] is Role.CATEGORY else len(self._edges(each)) - 1)
        return cells

    def _asking(self, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
        """The plan with some two-way tables."""
        made, tables = self.unit is not None and self.rows == 1, list(pairs)
        apart = self.unit is not None and not made
        asked: list[dict[str, Any]] = []

        def ask(name: str, kind: str, **fields: Any) -> None:
            while any(each["name"] == name for each in asked):
                name += "_"
            asked.append({"name": name, "kind": kind, **fields})

        def count(*by: str) -> None:
            several = {"groups": min(self.groups or self.rows, self._cells(by))} if apart else {}
            ask(" by ".join(by), "count", by=list(by), **several)

        ask("units" if made else "rows", "count")
        if apart:
            ask("units", "count of units")
        for name, role in self.roles.items():
            if role is Role.CATEGORY:
                count(name)
                continue
            column = {"column": name, "range": list(self.ranges[name])}
            if apart:  # bins share the rows of a unit, groups would multiply them
                ask(name, "histogram", column=name, bins=self._edges(name))
                ask(f"{name} missing", "count", where=f"{self._read(name)} IS NULL")
            else:
                count(name)
            ask(f"{name} mean", "mean", **column)
            ask(f"{name} spread", "standard deviation", **column)
            ask(f"{name} quartiles", "quantiles", levels=[0.25, 0.5, 0.75], **column)
        for pair in tables:
            count(*pair)
        grouped = {name for each in asked for name in each.get("by", ())}
        keys = {name: self._rule(name) for name in self.roles if name in grouped}
        owner: dict[str, Any] = {} if self.unit is None else {"unit": {"column": self.unit}}
        if apart:
            owner["unit"] |= {"rows": self.rows, "groups": self.groups or self.rows}
        if made:
            owner["per_unit"] = {name: self._one(name) for name in self.roles}
        title = f"Summary of {self._name}. Taken as public: names and types of columns, the unit, ranges and keys."
        found = self._spending(self.epsilon, self.delta, {**owner, **({"keys": keys} if keys else {})}, asked)
        return {"title": title + self.before, "consistent": True, **found}

    @property
    def _name(self) -> str:
        return PurePath(self.source.path or "").name or str(self.source.table)

    def _spending(
        self, epsilon: float, delta: float, more: Mapping[str, Any], asked: list[dict[str, Any]]
    ) -> dict[str, Any]:
        paid = {"epsilon": epsilon, "delta": delta, "account": self.account, "ledger": self.ledger}
        return {"source": self.source.model_dump(exclude_none=True), "budget": paid, **more, "query": asked}

    def _edges(self, name: str) -> list[float | datetime.date]:
        dated = self.roles[name] is Role.DAY
        low, high = self.ranges[name]
        bins = min(_BINS, (high - low).days) if isinstance(low, datetime.date) else _BINS  # type: ignore[union-attr, operator]
        if bins < 2:
            return [low, high]
        edges = Histogram(name=name, column=name, range=(low, high), bins=bins).edges
        return [date(each) if dated else each for each in edges]

    def _rule(self, name: str) -> dict[str, Any]:
        if self.roles[name] is Role.CATEGORY:
            return {"values": list(self.keys[name]), "missing": MISSING, "other": OTHER}
        return {"bins": self._edges(name), "missing": MISSING, "other": OUTSIDE}

    def _read(self, name: str) -> str:
        """A column as numbers or dates."""
        if self.roles[name] is Role.DAY:
            return f"CAST({Named(name)} AS DATE)"
        bare = self.schema[name] in (Family.TEXT, Family.UNTYPED)
        return f"CAST({Named(name)} AS DOUBLE)" if bare else str(Named(name))

    def _one(self, name: str) -> str:
        """The value of a unit in a column: the least one."""
        if self.roles[name] is Role.CATEGORY:
            return f"ARG_MIN({Named(name)}, {_STANDS})"  # of several on one date, the least
        return f"MIN({self._read(name)})"


def _part(total: float, share: float) -> float:
    """A part of a budget, of four digits, so that it and the rest are decimals that add up exactly."""
    return float(f"{total * share:.4g}")


def _rest(total: float, part: float) -> float:
    return float(Decimal(repr(total)) - Decimal(repr(part)))
