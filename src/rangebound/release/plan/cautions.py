"""What a plan may not mean: columns that are read as numbers, dates or truth values, and may hold other things."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rangebound.release.plan.expressions.nodes import Named, ValueType, type_of
from rangebound.release.plan.expressions.typed import column_uses
from rangebound.release.plan.kinds.ranks import RankKind
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import Family, Schema, reads_of

_WORDY = re.compile(
    "address|band|bracket|branch|brand|breed|category|city|class|colou?r|comments?|country|county|department|description|"
    "diagnosis|district|e?mail|firstname|forename|gender|genre|group|job|keyword|kind|label|language|lastname|"
    "message|method|mode|model|name|"
    "nationality|notes?|occupation|profession|province|reason|region|remarks?|room|sector|sex|species|state|station|"
    "status|street|surname|text|tier|title|town|type|url|vendor|village|ward|zone"
)
"""Words in the name of a column that is rarely one of numbers."""


def cautions(plan: Plan, schema: Schema, before_units: Schema | None = None) -> Iterator[str]:
    """Warnings before the charge: columns that are read as what they may not hold, by their name or type.

    A table without types cannot be refused by its types, and must not be by its values: one row would then decide. So
    the names of its columns are looked at, and nothing else. A truth value may be spelled in other words, as in "oui",
    and every row would be false: the plan says how many are, or which text is meant. `before_units` has the columns of
    the rows of which a plan with that step makes one row per unit.

    Guarantee: made of the plan and the names and types of the columns.
    """
    wanted = {ValueType.NUMBER: "a number", ValueType.DATE: "a date such as 2025-01-31"}
    open_ = unread_columns(plan, schema, before_units)
    for seen, column, field, read_as in _all_reads(plan, schema, before_units):
        found, missing = seen.get(column), f"where it is not {wanted.get(read_as)}, it is missing"
        if read_as is ValueType.DATE and found is Family.TEXT:  # a text is refused for a number
            yield f"{field}={column!r}: is of type text; {missing}"
        elif read_as in wanted and found is Family.UNTYPED and sounds_like_text(column):
            yield f"{field}={column!r}: sounds like text, and a CSV file has no types; {missing}"
        elif read_as is ValueType.TRUTH and found is Family.UNTYPED and column in open_:
            name = Named(column)
            yield f"{field}={column!r}: {_TRUTHS}; for other words compare the text, as in `{name} = 'oui'`"


def unread_columns(plan: Plan, schema: Schema, before_units: Schema | None = None) -> tuple[str, ...]:
    """Columns of a text file that a plan reads, and does not ask how many of their values cannot be read so.

    It asks by a count or share of rows, or a column of a unit: whether `CAST(x AS DOUBLE)`, `CAST(x AS DATE)` or
    `(x = true)` IS NULL, and of texts, which cannot be read where they have invalid bytes, whether `x IS NULL`, by such
    a condition, or by a group of what is missing.

    Guarantee: made of the plan and the names and types of the columns.
    """
    rows = schema if before_units is None else before_units
    steps = (rows, plan.early), (schema, plan.made)
    reads = [(seen, column, read_as) for seen, column, _, read_as in _all_reads(plan, schema, before_units)]
    reads += [
        (seen, column, _FUNCTIONS[use])
        for seen, made in steps
        for one in made
        for use, column, _ in column_uses(one.value)
        if use in _FUNCTIONS
    ]
    found = dict.fromkeys((column, kind) for seen, column, kind in reads if seen.get(column) is Family.UNTYPED)
    counts = [one for one in plan.query if one.kind in ("count", "count of units", "share")]
    counted = {
        *(each.column for one in counts for each in one.conditions),
        *(name for one in counts for name in one.by),
    }
    texts = [str(one.value) for one in plan.early] + [str(one.value) for one in plan.made if one.name in counted]
    texts += [f"{Named(each.column)} IS NULL" for one in counts for each in one.conditions if not each.values]
    grouped = {column: plan.rule(column) for one in plan.query for column in (*one.by, *one.keyed)}
    texts += [f"{Named(name)} IS NULL" for name, rule in grouped.items() if rule is not None and rule.missing]
    open_ = [
        name
        for name, kind in found
        if not any(f"{_UNREAD[kind].format(Named(name))} IS NULL" in each for each in texts)
    ]
    return tuple(dict.fromkeys(open_))


def whole_quantiles(plan: Plan, schema: Schema) -> tuple[str, ...]:
    """The names of quantiles of columns whose type is one of whole numbers, where the plan leaves the step open.

    Guarantee: made of the plan and the names and types of the columns.
    """
    ranks = (each for each in plan.query if isinstance(each, RankKind) and each.can_be_whole)
    return tuple(each.name for each in ranks if schema.get(each.column) in (Family.INTEGER, Family.BOOLEAN))


_TRUTHS = "is read as true or false, t or f, yes or no, y or n, 1 or 0, and any other text is missing"
_UNREAD = {
    ValueType.NUMBER: "CAST({} AS DOUBLE)",
    ValueType.DATE: "CAST({} AS DATE)",
    ValueType.TRUTH: "({} = true)",
    ValueType.TEXT: "{}",
}
_FUNCTIONS = {"number(...)": ValueType.NUMBER, "date(...)": ValueType.DATE, "hour(...)": ValueType.DATE}


def _all_reads(plan: Plan, schema: Schema, before_units: Schema | None) -> Iterator[tuple[Schema, str, str, ValueType]]:
    """Columns that a plan reads, but for those of units and joins: their table, name, and field of the plan."""
    rows = schema if before_units is None else before_units
    for seen, made in ((rows, plan.early), (schema, plan.made)):
        for one in made:
            for _, name, read_as in column_uses(one.value):
                if read_as in _UNREAD:
                    yield seen, name, one.field, read_as
    for own in plan.of_unit:
        if own.function in ("first", "last") and rows.get(own.arguments[1]) is Family.UNTYPED:  # a text spells its day
            yield rows, own.arguments[1], own.field, ValueType.DATE
    if plan.counted_unit.period is not None:
        yield schema, plan.counted_unit.period.column, "unit.period.column", ValueType.DATE
    for index, question in enumerate(plan.query):
        place = f"query[{index}]"
        if question.period is not None:
            yield schema, question.period.column, f"{place}.period.column", ValueType.DATE
        for field, values in reads_of(question, place):
            yield schema, values.column, f"{field}.column", ValueType.DATE if values.dated else ValueType.NUMBER
        for column in (*question.by, *question.keyed, *question.compares.values()):
            rule = plan.rule(column)
            read_as = ValueType.TEXT
            if rule is not None and (rule.bins is not None or rule.span is not None):
                read_as = ValueType.DATE if rule.dated else ValueType.NUMBER
            yield schema, column, f"{place}.by", read_as
        for each in question.conditions:
            if each.values:
                field = "where" if each in question.where else "of"
                yield schema, each.column, f"{place}.{field}", type_of(each.values[0])


def sounds_like_text(column: str) -> bool:
    """Whether the name of a column has a word that is rarely one of numbers.

    >>> sounds_like_text("firstName"), sounds_like_text("home_city"), sounds_like_text("age")
    (True, True, False)
    """
    words = re.findall("[A-Z]*[a-z]+|[A-Z]+", column)
    return any(_WORDY.fullmatch(each.lower()) for each in words)
