"""Every field of every part and kind of a plan in one text: type, default and effect, as the code has them."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from rangebound.release.plan.condition import Condition
from rangebound.release.plan.fields import Part
from rangebound.release.plan.kinds import written_kinds
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.model import Plan

_EFFECTS = """
Plan.title: a heading for the report
Plan.source: the table
Plan.zone: the time zone, such as `"Europe/Paris"`, in whose local time timestamps with a zone are read; without it,
  such columns cannot be used
Plan.unit: the privacy unit and its contribution bounds; without it, every single row
Plan.budget: what the release may spend, and the account that pays
Plan.join: columns of other tables, public or of the same privacy unit
Plan.made_columns: made columns, and the public ranges of columns
Plan.per_unit: one row per unit before the questions, with these columns; then the row is the unit
Plan.keys: public keys of grouping columns; the keys of a column that is not here are selected privately, which needs
  a delta
Plan.combinations: keys of several columns that occur together, in place of all combinations of their keys
Plan.only_listed: a row counts for no question at all if one of the columns in `[keys]` has another key in it, or none
Plan.selection: the weight of partition selection beside the weights of the questions
Plan.objective: what is least where no question has a weight: the total of the variances, or that of the relative
  ones; without it, `"total"`
Plan.level: the confidence level of the intervals
Plan.joint: all intervals of the table hold at once with probability `level`, in place of each; the keys must be
  public
Plan.consistent: make the numbers agree with each other after the noise
Plan.report_clipping: spend a part of epsilon on how much was truncated and clipped
Plan.clipping_share: that part, of what margins leave
Plan.query: the questions, one to a thousand
Kind.kind: what is published; see the kinds below
Kind.name: unique in the plan
Kind.where: conditions on a row, all of which must hold: an expression, or a list of conditions
Kind.by: grouping columns
Kind.rows: the rows of a unit that count in each group, for this question; without it, those of `[unit]`
Kind.groups: the groups of a unit that count, for this question; without it, those of `[unit]`
Kind.period: the period of the contribution bound, for this question; without it, that of `[unit]`
Kind.support: where the published number may lie: one span, or a list of spans; without it, the natural support of the
  kind
Kind.step: round the published number to multiples of it
Kind.weight: the share of the question in the account, beside the weights of the others; 1 where some other question
  has one
Kind.margin: in place of a weight: half the width of its interval at most, in units of the answer
Bounds.column: the column whose range is not known
Bounds.dates: whether the column holds dates
Kind.column: the column of numbers or dates
Kind.range: the public range of its values; values outside it are clipped. Without it, the range that `[columns]`
  states or that follows from an expression
Kind.missing: the number that a missing value counts as; without it, rows without a value do not count
RankKind.interval_share: the part of the question's budget that pays for the interval; with 0 the interval is the
  whole support
CentralRange.share: the part of the values that lies in the range; half of the rest lies below it, half above
MomentsKind.x: the column on the x axis: `{column, range}`, or its name where `[columns]` has the range
MomentsKind.y: the column on the y axis, in the same form
Kind.weighted_by: survey weights, from 0 on: `{column, range}`, or the name of the column where `[columns]` has the
  range; a row counts as often as its weight says
Kind.unbiased: publish the number before it was moved into the support as well, in the column `unbiased`; not with
  truncated mechanisms
Kind.signed: publish that number in place of the one in the support; not with a `support`, nor counts of a
  `consistent` plan
Kind.mechanism: the noise and its bounding, or the `optimal` table for a `support` with two ends; without it, the
  noise with the smallest error
Mean.mechanism, Share.mechanism: the `optimal` table, where the number of rows is public; without it, clamped Laplace
  or Gaussian noise
WorkloadKind.unbiased: publish the answers before they were made to add up as well, in the column `unbiased`
Crosstab.margins: false publishes the cells without their sums
DistinctCount.column: a column of texts, whole numbers, dates or truth values, which are compared as grouping keys are
DistinctCount.values: contribution bound: the distinct values of a unit that count in each group
Hierarchy.levels: from fine to coarse, such as `[{name = "canton", members = {ZH = ["Uster", "Wald"], UR =
  ["Altdorf"]}}]`; every key is in one member
Histogram.bins: the number of bins of equal width, or a list of their edges, such as `[0, 18, 65, 120]`; `range` then
  is from the first to the last
Histogram.bin_names: the names of the bins, one for each, in place of their edges
Line.slopes: where the slope is published; without it, that of all lines that the ranges allow
Line.intercepts: where the intercept is published; without it, that of all lines that the ranges allow
Maximum.level: the level of the quantile that is published
Minimum.level: the level of the quantile that is published
SelectionKind.column: the column whose most frequent keys are published; its public keys stand in `[keys]`, and those
  of a `top k` are selected privately where it lists none
Mode.range: the public range of a column of numbers or dates, cut into bins; without it, the answer is one of the
  column's public keys
Mode.bins: the number of bins of equal width over `range`, where the answer is a bin; 10 with a `range` alone
Quantiles.levels: the levels of the quantiles, in ascending order
Ratio.numerator: the column summed above: `{column, range}`, or its name where `[columns]` has the range
Ratio.denominator: the column summed below, in the same form
Series.totals: which sums a series has
Share.of: the conditions of the share: an expression, or a list of conditions
Share.partition: shares with the same name add up to 1 where the plan is `consistent`
TopK.k: how many keys are published, from the most frequent on; no more than `[keys]` lists, and fewer where fewer are
  selected privately
Source.path: a `.csv`, `.tsv`, `.xlsx`, `.parquet` or DuckDB file; relative to the folder of the plan
Source.table: the table in a DuckDB file, of a database (`schema.table`) or on a Spark Connect server; of an `.xlsx`
  file the sheet, without it the first
TextFormat.encoding: the encoding of a text file, such as `"latin-1"`, `"windows-1252"` or `"utf-16"`; without it,
  UTF-8
TextFormat.delimiter: what separates the values of a text file; without it, `,` or in a `.tsv` file a tab
TextFormat.quote: the quotation mark of a text file; without it `"`; empty where there is none
TextFormat.multiline: whether a quoted value may continue in the next line; otherwise it ends with its line, so that
  an unclosed quotation mark damages one line
TextFormat.decimal: the decimal sign of numbers in a text file or in text cells; without it, a point
TextFormat.thousands: what separates thousands in numbers there; without it, nothing
TextFormat.date_format: how dates are written there, such as `"%d.%m.%Y"`; without it, `"%Y-%m-%d"`. A time of day may
  follow
Source.spark: the address of a Spark Connect server, `sc://host:15002`, without a token, because plans are published
Source.postgres: the address of a PostgreSQL database, `postgresql://user@host/database` or `service=name`, without a
  password
Unit.column: all rows with the same value belong to one unit; without a column, each row is a unit
Unit.rows: contribution bound: the rows of a unit that count in each group
Unit.groups: contribution bound: the groups of a unit that count
Unit.period: the rows of a unit are counted in each day, week or month of the range by themselves
Unit.neighbours: `"replace"` means that one unit changes its rows (replace-one), and needs `size`
Unit.size: the public number of units; only with `"replace"`
Budget.epsilon: what the whole release may spend; at most 100
Budget.delta: the delta of the whole release: 0, or 1e-24 to 0.5
Budget.account: the account of the ledger that is charged
Budget.ledger: the path of the ledger from the folder of the plan, or the address of a database
Join.path: the file of the other table, or the DuckDB file that has it
Join.table: the name of the other table: in its file, beside the plan's own, or in `tables=` in Python
Join.public: whether everybody may know the other table; else it shares the privacy unit
Join.on: the columns that must be the same: ours and theirs, or a list where both have one name
Join.how: `"inner"` leaves out rows without a match; else their joined columns are missing
Join.columns: the columns that come along, or a mapping of our names to theirs
Join.rows: of a private table: the most rows that are joined for each key
Join.own_rows: of a private table: the most rows of ours that are joined for each key
ColumnDeclaration.value: the expression that makes the column; without it, the column is the table's own
ColumnDeclaration.range: the public range of its values, which are clipped to it; that of an expression follows from
  its parts
UnitColumnDeclaration.value: a function of all rows of a unit, such as `sum(cost)`
UnitColumnDeclaration.range: the range that its value is clipped to
KeyRule.values: the public keys; in a file, `days = [first, last]`, `numbers = [first, last]` and `file` with `column`
  stand for such a list
KeyRule.weeks: the first and the last day: a key for each week from Monday on, its first day within them
KeyRule.months: the first and the last day: a key for each month, its first day within them
KeyRule.fold: keys that stand for several values each
KeyRule.bins: the edges of bins; each has its lower edge, the last one both
KeyRule.names: the names of the bins
KeyRule.missing: the key of rows without a value, which count in no group otherwise
KeyRule.other: the key of rows with any other value, which count in no group otherwise
Combination.columns: the columns that the keys are of
Combination.keys: the keys that occur together, or a file that lists them
Period.column: the column of days or timestamps
Period.each: how long a period is
Period.range: the first and the last day; rows on other days do not count
RangedColumn.column: the column
RangedColumn.range: the public range of its values, which are clipped to it
Level.name: the name of the level, which stands in the column `part`
Level.members: for each member of the level, the keys or members below it
Condition.column: the column that is compared
Condition.comparison: the comparison; a missing value meets none but `missing`
Condition.value: what it is compared with; a list for `in` and `not in`
"""
EFFECTS: Mapping[str, str] = {
    name: effect
    for names, _, effect in (each.partition(": ") for each in _EFFECTS.replace("\n  ", " ").strip().splitlines())
    for name in names.split(", ")
}
"""The effect of every field, by the class that declares it and its name."""


_HEAD = (
    "# Every field of a plan\n\n"
    "This page is made from the code, by `rangebound plan fields`, and a test compares the two. [The plan](plan.md) "
    "says what the parts are for, and has examples. `required` says that a field has no default. In Python, the class "
    "of a kind is named after it: `CountOfUnits(name=...)` for `count of units`.\n"
)
_ROW = "| field | type | default | effect |\n| --- | --- | --- | --- |"


def field_table() -> str:
    """All fields of a plan as Markdown tables: type, default and effect of each.

    Guarantee: made from the classes that check plans, so a field that is missing here does not exist.

    >>> [line for line in field_table().splitlines() if line.startswith("| `epsilon`")]
    ['| `epsilon` | number above 0, at most 100 | required | what the whole release may spend; at most 100 |']
    """
    parts = _parts()
    text = [_HEAD, f"## Top level\n\n{_ROW}", *_rows(Plan)]
    for title, part in parts:
        text += [f"\n## `{title}`\n\n{_ROW}", *_rows(part)]
    shared = list(Kind.model_fields)
    text += [f"\n## `[[query]]`: fields of every kind\n\n{_ROW}", *_rows(Kind)]
    for name, kind in written_kinds().items():
        own = [each for each in kind.model_fields if each not in shared]
        said = (kind.__doc__ or "").strip().partition("\n\n")[0]
        text.append(f"\n## Kind `{name}`\n\n{' '.join(said.split())}\n")
        if own:
            text += [_ROW, *_rows(kind, own)]
    return "\n".join(text).replace("\n\n\n", "\n\n") + "\n"


def missing_effects() -> list[str]:
    """Fields whose effect nobody has written, and effects of fields that do not exist."""
    classes: list[type[Part]] = [Plan, Kind, *written_kinds().values(), *(part for _, part in _parts())]
    named = {_effect(each, name) for each in classes for name, at in each.model_fields.items() if not at.description}
    return sorted(named ^ set(EFFECTS))


def _parts() -> list[tuple[str, type[Part]]]:
    """The parts of a plan with their titles, in the order of the plan, and those of its parts and kinds."""
    found: list[tuple[str, type[Part]]] = []
    for name, field in Plan.model_fields.items():
        for part in _part_types(field.annotation):
            if not issubclass(part, Kind):
                many = "[[{}]]" if "tuple" in str(field.annotation) else "[{}]"
                found.append((many.format(field.alias or name), part))
    top = dict.fromkeys(found)
    inner: dict[type[Part], dict[str, None]] = {}
    owners: list[type[Part]] = [*(part for _, part in top), Kind, *written_kinds().values()]
    for owner in owners:
        for name, field in owner.model_fields.items():
            for part in _part_types(field.annotation):
                inner.setdefault(part, {})[name] = None
    own = {part for _, part in top} | {Condition}
    nested = [(", ".join(names), part) for part, names in inner.items() if part not in own]
    return [*top, *nested, ("condition", Condition)]


def _part_types(annotation: object) -> Iterator[type[Part]]:
    if isinstance(annotation, type) and issubclass(annotation, Part):
        yield annotation
    for each in getattr(annotation, "__args__", ()):
        yield from _part_types(each)


def _rows(part: type[Part], names: list[str] | None = None) -> Iterator[str]:
    own = part.model_json_schema(by_alias=True)
    for name, field in part.model_fields.items():
        if names is not None and name not in names:
            continue
        key = field.alias or name
        facts = own.get("properties", {}).get(key, {})
        kind = _type({"$defs": own.get("$defs", {})}, facts)
        effect = EFFECTS.get(_effect(part, name), field.description or "")
        yield f"| `{key}` | {kind} | {_default(field)} | {effect} |"


def _effect(part: type[Part], name: str) -> str:
    """The entry of a field among the effects: that of the class that declares it, or of all kinds that have it."""
    owner = next(each for each in part.__mro__ if name in getattr(each, "__annotations__", {}) and each is not Part)
    own, shared = f"{owner.__name__}.{name}", f"Kind.{name}"
    return shared if own not in EFFECTS and shared in EFFECTS and issubclass(part, Kind) else own


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value == (-math.inf, math.inf):
        return "that of `[columns]`"
    if value is None or value == () or value == {} or value is PydanticUndefined or isinstance(value, Part):
        return "none"
    return f"`{_written(value)}`"


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return _written(value.value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, datetime.date):
        return value.isoformat()
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


_SIMPLE = {"string": "text", "number": "number", "integer": "whole number", "boolean": "true or false", "null": ""}
_LIMITS = {
    "exclusiveMinimum": "above {}",
    "minimum": "at least {}",
    "exclusiveMaximum": "below {}",
    "maximum": "at most {}",
}


def _type(whole: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    if "$ref" in facts:
        name = facts["$ref"].rpartition("/")[2]
        found = whole.get("$defs", {}).get(name, {})
        return _type(whole, found) if "enum" in found else "table"
    if "const" in facts:
        return f'`"{facts["const"]}"`'
    if "enum" in facts:
        return ", ".join(f'`"{each}"`' for each in facts["enum"])
    if "anyOf" in facts:
        kinds = dict.fromkeys(each for each in (_type(whole, one) for one in facts["anyOf"]) if each)
        return " or ".join(kinds)
    if facts.get("type") == "array":
        if inner := facts.get("prefixItems"):
            return f"list of {len(inner)}: {_type(whole, inner[0])}"
        items = facts.get("items")
        return f"list of {_type(whole, items)}" if isinstance(items, dict) and items else "list"
    if facts.get("type") == "object" or "oneOf" in facts or "discriminator" in facts:
        return "table"
    if facts.get("format") == "date":
        return "date"
    simple = _SIMPLE.get(str(facts.get("type")), "text" if facts.get("type") is None else "")
    given = ((words, facts[key]) for key, words in _LIMITS.items() if key in facts)
    limits = [words.format(f"{size:,}" if isinstance(size, int) else f"{size:g}") for words, size in given]
    return " ".join([simple, ", ".join(limits)]).strip()
