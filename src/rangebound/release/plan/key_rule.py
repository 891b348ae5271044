"""How a row gets its key in a grouping column: listed keys, rules for many, groups for what is missing or not listed.

A key is a public function of the row alone, whatever the rule: no rule changes how many rows or groups of a unit count,
and so none changes a sensitivity.
"""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.resources import files
from itertools import pairwise
from string import Template
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    model_validator,
)

from rangebound.release.plan.faults import fault, unknown_field
from rangebound.release.plan.fields import (
    LATE,
    MOST_BINS,
    MOST_KEYS,
    Edges,
    Key,
    Name,
    Part,
    as_tuple,
    canonical,
    named_lists,
)
from rangebound.release.plan.source import file_rows
from rangebound.values import arguments

Plain = bool | int | datetime.date | str
"""A key as a plan holds it."""
Listed = Annotated[tuple[Key, ...], Field(min_length=1, max_length=MOST_KEYS), BeforeValidator(as_tuple)]
_LISTED: TypeAdapter[tuple[Plain, ...]] = TypeAdapter(Listed, config=LATE)


def _two_days(value: object) -> object:
    found = as_tuple(value)
    if not isinstance(found, tuple) or [type(each) for each in found] != [datetime.date] * 2:
        raise ValueError("must be the first and the last day, two dates")
    if found[0] > found[1]:
        raise ValueError("the first day must not be after the last")
    return found


Days = Annotated[tuple[datetime.date, datetime.date], BeforeValidator(_two_days)]
Labels = Annotated[tuple[Name, ...], BeforeValidator(as_tuple)]


class KeyRule(Part):
    """The keys of a grouping column, and which rows have which: one of `values`, `weeks`, `months`, `fold` and `bins`.

    The keys that `values` lists; the `weeks` (from Monday) or `months` of the days from the first to the last, each
    under its first day there; the names of a `fold`, each for some values; `bins` between edges, under their `names`:
    each has its lower edge and not its upper one, but the last has both. Rows that have no value have the key
    `missing`, where that is given, and rows with another value the key `other`; without these they have no key. With
    `missing` alone the keys are selected privately.

    Guarantee: the key depends on one value of the row, and on nothing else; finding it never fails.
    Edge cases: NULL is missing; for bins so are NaN, infinities and texts that are not numbers, for days texts that are
    not dates. `missing` and `other` may be the name of a key that is there: such rows are then in its group.

    >>> KeyRule(bins=(0, 18, 65), missing="unknown").labels
    ('[0, 18)', '[18, 65]', 'unknown')
    >>> KeyRule(weeks=(datetime.date(2025, 1, 1), datetime.date(2025, 1, 13))).labels
    ('2025-01-01', '2025-01-06', '2025-01-13')
    """

    values: Listed | None = None
    weeks: Days | None = None
    months: Days | None = None
    fold: Annotated[dict[Name, Listed], Field(min_length=1), BeforeValidator(named_lists)] | None = None
    bins: Edges | None = None
    names: Labels | None = None
    missing: Name | None = None
    other: Name | None = None

    @model_validator(mode="after")
    def _fits(self) -> KeyRule:
        given = [each for each in (self.values, self.weeks, self.months, self.fold, self.bins) if each is not None]
        if len(given) > 1 or not (given or self.missing):
            raise ValueError(_ONE)
        if self.other is not None and not given:
            raise ValueError("other: goes with listed keys; all other keys are those that are not listed")
        if self.names is not None:
            if self.bins is None:
                raise ValueError("names: goes with bins")
            if len(self.names) != len(self.bins) - 1:
                raise ValueError(f"names: must be {len(self.bins) - 1}, one for each bin")
            if len(set(self.names)) < len(self.names):
                raise ValueError("names: two bins have the same name")
        if self.fold is not None and sum(map(len, self.fold.values())) > MOST_KEYS:
            raise ValueError(f"fold: must have at most {MOST_KEYS} keys")
        if len(self.own_labels) > MOST_KEYS:
            raise ValueError(f"must be at most {MOST_KEYS} keys")
        return self

    def __repr__(self) -> str:
        return repr(as_written(self))

    @property
    def own_labels(self) -> tuple[str, ...]:
        """The public keys but for those of what is missing or not listed."""
        if self.values is not None:
            return tuple(map(canonical, self.values))
        if self.bins is not None:
            return self.names or bin_names(self.bins)
        if self.fold is not None:
            return tuple(self.fold)
        return tuple(map(canonical, self.starts))

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The public keys as texts, in order; empty where they are selected privately."""
        own, more = self.own_labels, [each for each in (self.other, self.missing) if each is not None]
        return tuple(dict.fromkeys((*own, *more))) if own and more else own

    @property
    def public(self) -> bool:
        """Whether the keys are public."""
        return bool(self.labels)

    @property
    def listed_alone(self) -> bool:
        """Whether a row's key is its value as it is, and nothing more is said than which of them are public."""
        return self.values is not None and self.missing is None and self.other is None

    @property
    def complete(self) -> bool:
        """Whether every row has one of the public keys."""
        return self.public and self.missing is not None and self.other is not None

    @property
    def kind(self) -> type:
        """What the listed values are, if all are of one type; else text."""
        kinds = set(map(type, self.listed_values))
        return kinds.pop() if len(kinds) == 1 else str

    @property
    def span(self) -> tuple[datetime.date, datetime.date] | None:
        """The days that have a week or month."""
        return self.weeks or self.months

    @property
    def starts(self) -> Sequence[datetime.date]:
        """The first day of every week or month, within the span."""
        if self.span is None:
            return ()
        first, last = self.span
        if self.weeks is not None:
            monday = first.toordinal() - (first.toordinal() - 1) % 7 + 7
            return [first, *map(datetime.date.fromordinal, range(monday, last.toordinal() + 1, 7))]
        months = range(first.year * 12 + first.month, last.year * 12 + last.month)
        return [first, *(datetime.date(month // 12, month % 12 + 1, 1) for month in months)]

    @property
    def dated(self) -> bool:
        """Whether the column is read as one of days."""
        days = isinstance(self.bins[0], datetime.date) if self.bins else self.kind is datetime.date
        return days or self.span is not None

    def within_one(self, each: str) -> bool:
        """Whether all rows with a key are in one period: the same day, week or month, as `each` says."""
        if self.other is not None:
            return False
        days = self.values is not None and self.kind is datetime.date
        return days or (self.weeks is not None and each == "week") or (self.months is not None and each == "month")

    @property
    def listed_values(self) -> Iterator[Plain]:
        """The values that are listed, as keys or for those of a fold."""
        return (one for some in (self.values or (), *(self.fold or {}).values()) for one in some)

    @property
    def listed(self) -> Iterator[str]:
        """The same as texts."""
        return map(canonical, self.listed_values)

    @property
    def repeated(self) -> str:
        """A value that is listed twice; empty if none is."""
        return next((each for each, count in Counter(self.listed).items() if count > 1), "")

    def words(self, column: str) -> str:
        """The rule in one sentence; empty where keys are listed and nothing else."""
        said = ""
        if self.span is not None:
            said = f"the {'weeks' if self.weeks else 'months'} of the days {self.span[0]} to {self.span[1]}"
        elif self.bins is not None:
            named = zip(self.own_labels, bin_names(self.bins), strict=True)
            said = "bins " + _some([bins if name == bins else f"{name!r} {bins}" for name, bins in named])
        elif self.fold is not None:
            said = "; ".join(
                f"{name!r} for {_some([canonical(each) for each in self.fold[name]])}" for name in self.fold
            )
        elif self.values is not None:
            said = arguments.counted(len(self.values), "listed key")
        if self.other is not None:
            said += f", and {self.other!r} for all others"
        if self.missing is not None:
            said += f"{', and ' if said else ''}{self.missing!r} where it is missing"
        return "" if self.listed_alone else f"Keys of {column!r}: {said}."


_SHOWN = 6  # keys that a sentence has room for


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def bin_names(edges: Sequence[float | datetime.date]) -> tuple[str, ...]:
    """Bins by their edges: a round bracket at an edge that a bin does not have.

    >>> bin_names((0.0, 18.0, 65.5))
    ('[0, 18)', '[18, 65.5]')
    """
    texts = [repr(each).removesuffix(".0") if isinstance(each, float) else each.isoformat() for each in edges]
    named = [f"[{a}, {b})" for a, b in pairwise(texts)]
    return (*named[:-1], named[-1][:-1] + "]")


_WAYS = ("values", "days", "numbers", "weeks", "months", "file", "fold", "bins")
_ONE = f"must have one of {', '.join(_WAYS)}; or `missing` alone"
_FIELDS = (*_WAYS, "column", "names", "missing", "other")


def key_rule(value: object) -> KeyRule:
    """The keys of a column as a plan writes them: a list, or a table of fields; files are read, and lists made.

    `{days = [first, last]}` stands for all days from the first to the last, `{numbers = [first, last]}` for all whole
    numbers, `{file = "airports.csv", column = "code"}` for the values of a public file.
    """
    if isinstance(value, KeyRule):
        return value
    if not isinstance(value, dict):
        if not isinstance(value, (list, tuple)):
            raise ValueError(f"must be a list of keys, or a table with one of {', '.join(_WAYS)}")
        return KeyRule.model_validate({"values": _LISTED.validate_python(value, strict=True)})
    for name in value:
        if name not in _FIELDS:
            raise unknown_field(name, value[name], _FIELDS)
    given = {**value}
    if isinstance(given.get("values"), dict):
        inner = given.pop("values")
        if not set(inner) <= {"days", "numbers", "weeks", "months", "file", "column"} or set(inner) & set(given):
            raise fault("must be a list, or one of days, numbers, weeks, months and file", ("values",), inner)
        given |= inner
    ways = [each for each in _WAYS if each in given]
    if len(ways) > 1:
        raise ValueError(_ONE)
    if "column" in given and ways != ["file"]:
        raise ValueError("column: goes with file")
    for way in {"days", "numbers", "file"}.intersection(ways):
        given["values"] = _stood_for(way, given.pop(way), given.pop("column", None))
    return KeyRule.model_validate(given)


def _stood_for(way: str, given: object, column: object) -> tuple[object, ...]:
    if way == "file":
        if not isinstance(column, str):
            raise ValueError('file: goes with the name of a column, such as column = "code"')
        return tuple(key for (key,) in file_rows(given, [column], most=MOST_KEYS))
    kind, words = (datetime.date, "dates") if way == "days" else (int, "whole numbers")
    if not isinstance(given, (list, tuple)) or [type(each) for each in given] != [kind] * 2:
        raise ValueError(f"{way} must be the first and the last of them, two {words}")
    first, last = (each.toordinal() if way == "days" else each for each in given)
    if not first <= last < first + MOST_KEYS:
        raise ValueError(f"{way} must be in order, and at most {MOST_KEYS} of them")
    return tuple(map(datetime.date.fromordinal if way == "days" else int, range(first, last + 1)))


def as_written(rule: KeyRule) -> object:
    """A rule as a plan writes it: keys that are only listed as a list, as all versions wrote them."""
    if rule.listed_alone:
        return rule.values
    return rule.model_dump(exclude_none=True)


_TEXT = (files(__package__) / "keys_schema.json").read_text(encoding="utf-8")
_SCHEMA: dict[str, Any] = json.loads(Template(_TEXT).substitute(most_keys=MOST_KEYS, most_edges=MOST_BINS + 1))
Keys = Annotated[
    KeyRule,
    PlainValidator(key_rule),
    PlainSerializer(as_written),
    WithJsonSchema({"anyOf": [_SCHEMA["list"], _SCHEMA["table"]]}),
]


def _combined(value: object, info: ValidationInfo) -> object:
    if isinstance(value, dict):
        if set(value) != {"file"}:
            raise ValueError('must be a list of combinations, or {file = "cities.csv"}')
        columns = info.data.get("columns", ())
        return tuple(file_rows(value["file"], columns, most=MOST_KEYS))
    return tuple(map(as_tuple, value)) if isinstance(value, (list, tuple)) else value


class Combination(Part):
    """Public keys of several columns that occur together: a grouping by these has the listed ones, not the product.

    >>> Combination(columns=("country", "city"), keys=(("fr", "paris"), ("it", "rome"))).texts
    (('fr', 'paris'), ('it', 'rome'))
    """

    columns: Annotated[Labels, Field(min_length=2, max_length=20)]
    keys: Annotated[
        tuple[tuple[Key, ...], ...],
        Field(min_length=1, max_length=MOST_KEYS),
        BeforeValidator(_combined),
        WithJsonSchema({"anyOf": [_SCHEMA["combinations"], _SCHEMA["file"]]}),
    ]

    @model_validator(mode="after")
    def _fits(self) -> Combination:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("columns: one of them is named twice")
        for at, key in enumerate(self.keys):
            if len(key) != len(self.columns):
                raise ValueError(f"keys.{at}: must have one key for each of {len(self.columns)} columns")
        if len(set(self.texts)) < len(self.texts):
            raise ValueError("keys: a combination is listed twice")
        return self

    def __repr__(self) -> str:
        return repr(self.model_dump())

    @cached_property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The combinations as texts, in order."""
        return tuple(tuple(map(canonical, key)) for key in self.keys)

    def rule(self, column: str) -> KeyRule:
        """The keys of one of the columns: those that occur in a combination."""
        place = self.columns.index(column)
        found = {canonical(key[place]): key[place] for key in self.keys}
        return KeyRule(values=tuple(found.values()))


def all_rules(keys: Mapping[str, KeyRule], combinations: Sequence[Combination]) -> dict[str, KeyRule]:
    """The keys of every column that has any: by itself, or as those that occur in combinations."""
    found = {**keys}
    seen: set[str] = set()
    for index, each in enumerate(combinations):
        for at, column in enumerate(each.columns):
            if column in seen:
                raise ValueError(f"combinations.{index}: {column!r} is in another combination too")
            seen.add(column)
            rule = found.setdefault(column, each.rule(column))
            known = set(rule.labels)
            other = next((key[at] for key in each.texts if key[at] not in known), None)
            if other is not None:
                raise ValueError(f"combinations.{index}: {other!r} is not among the keys of {column!r}")
    return found
