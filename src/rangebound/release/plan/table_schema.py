"""What is known of a table before its data are read: the names of its columns and the families of their types."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum

from rangebound.errors import PlanError
from rangebound.release.plan.columns import MadeColumn
from rangebound.release.plan.condition import HIDDEN, Comparison, Condition, Plain, hidden_text, size
from rangebound.release.plan.expressions.nodes import Named, ValueType, type_of
from rangebound.release.plan.expressions.typed import column_uses, compared_constants
from rangebound.release.plan.faults import in_query
from rangebound.release.plan.fields import HUGE, canonical, number
from rangebound.release.plan.key_rule import KeyRule
from rangebound.release.plan.kinds.kind import Kind
from rangebound.release.plan.measure import Values
from rangebound.release.plan.model import Plan
from rangebound.release.plan.source import PLAIN, TextFormat
from rangebound.values import arguments

TO_FILL_IN = "?"
"""What a first plan says for a unit that only the custodian knows."""
_MOST_NAMES = 12  # columns that a message lists


class Family(Enum):
    """The families of column types that a plan can use."""

    INTEGER = "integer"
    NUMBER = "number"
    DECIMAL = "decimal"
    TEXT = "text"
    UNTYPED = "untyped"  # a field of a CSV file: a text that may stand for anything
    DATE = "date"
    TIMESTAMP = "timestamp"
    BOOLEAN = "boolean"
    OTHER = "other"


Schema = Mapping[str, Family]


class TypedSchema(dict[str, Family]):
    """A schema that also has the engine's own names of the types of columns that cannot be used, for messages.

    The `instants` are those of them whose types have a time zone; statements see each as a timestamp in UTC. They can
    be used in a plan with a `zone`, as local time. `forms` says how the texts of untyped columns spell numbers and
    dates.

    >>> TypedSchema({"at": Family.OTHER}, types={"at": "TIME"}).types["at"]
    'TIME'
    """

    def __init__(
        self,
        families: Schema,
        *,
        types: Mapping[str, str],
        instants: Iterable[str] = (),
        forms: Mapping[str, TextFormat] | None = None,
    ) -> None:
        super().__init__(families)
        self.types = dict(types)
        self.instants = tuple(instants)
        self.forms = dict(forms or {})


def extended(schema: Schema, more: Schema) -> dict[str, Family]:
    """A schema with further columns, or others in the place of some, which keeps the names of types and the forms."""
    families, forms = {**schema, **more}, {**_forms(schema), **_forms(more)}
    if not isinstance(schema, TypedSchema):
        return TypedSchema(families, types={}, forms=forms) if forms else families
    left = (each for each in schema.instants if families[each] is Family.OTHER)
    return TypedSchema(families, types=schema.types, instants=left, forms=forms)


def _forms(schema: Schema) -> Mapping[str, TextFormat]:
    return schema.forms if isinstance(schema, TypedSchema) else {}


def form_of(schema: Schema, column: str) -> TextFormat:
    """How the texts of a column spell numbers and dates."""
    return _forms(schema).get(column, PLAIN)


def type_name(schema: Schema, column: str) -> str:
    """The type of a column in words: its family, or the engine's own name where it is of none."""
    family = schema[column]
    own = schema.types.get(column) if isinstance(schema, TypedSchema) and family is Family.OTHER else None
    return own or family.value


_F = Family
_NUMBERS = (_F.INTEGER, _F.NUMBER, _F.DECIMAL, _F.BOOLEAN, _F.UNTYPED)
_DATES = (_F.DATE, _F.TIMESTAMP, _F.TEXT, _F.UNTYPED)
USABLE = tuple(each for each in Family if each is not Family.OTHER)
"""All families but that of types that no question can use."""
KEYS = (_F.INTEGER, _F.TEXT, _F.DATE, _F.BOOLEAN, _F.UNTYPED)
"""The families of columns that keys can be made of."""
TEXTS = (_F.TEXT, _F.UNTYPED)
"""Those whose values are texts of any length."""
_UNITS = (_F.INTEGER, _F.TEXT, _F.DATE, _F.UNTYPED)
_READ: dict[ValueType, tuple[Family, ...]] = {
    ValueType.NUMBER: _NUMBERS,
    ValueType.TEXT: (_F.TEXT, _F.INTEGER, _F.DATE, _F.UNTYPED),
    ValueType.TRUTH: (_F.BOOLEAN, _F.TEXT, _F.UNTYPED),
    ValueType.DATE: _DATES,
}
_USED = {
    "number(...)": (*_NUMBERS, _F.TEXT),
    "text(...)": KEYS,
    "date(...)": _DATES,
    "missing(...)": (*_NUMBERS, *_DATES),
    "hour(...)": (_F.TIMESTAMP, _F.TEXT, _F.UNTYPED),
}
"""The families that serve a function of a column as it stands."""
_OTHERWISE: dict[tuple[ValueType, Family | None], str] = {
    **dict.fromkeys(((ValueType.NUMBER, each) for each in (_F.DATE, _F.TIMESTAMP)), "CAST({} AS DATE) reads it"),
    (ValueType.NUMBER, _F.TEXT): "CAST({} AS DOUBLE) reads it",
    **dict.fromkeys(((ValueType.TRUTH, each) for each in (_F.INTEGER, _F.NUMBER, _F.DECIMAL)), "{} = 1 compares it"),
}
"""What to write for a column whose type does not serve as it is used."""


def check_schema(plan: Plan, schema: Schema) -> None:
    """Refuse a plan whose columns are not in the table or cannot be used as the plan says.

    Guarantee: looks at names and types only; a plan that passes runs without an error whatever the data are.
    """
    if plan.counted_unit.column is not None:
        check_unit_column(schema, plan.counted_unit.column, "unit.column")
    if plan.counted_unit.period is not None:
        check_column(schema, plan.counted_unit.period.column, _DATES, "unit.period.column", "dates")
    for index, question in enumerate(plan.query):
        try:
            _check_question(plan, schema, question, f"query[{index}]")
        except PlanError as error:
            whose = in_query(question.name, str(error)) if error.field.startswith("query[") else ""
            raise PlanError(f"{error}{whose}", field=error.field) from None


def _check_question(plan: Plan, schema: Schema, question: Kind, place: str) -> None:
    if plan.per_unit is not None:
        used = [*question.by, *(each.column for each in question.conditions), *question.compares.values()]
        for column in (*used, *(each.column for _, each in reads_of(question, ""))):
            if column not in schema:  # the rows of a unit may have it, but the one row that is made of them does not
                rule = f"is not a column of [per_unit], which makes one row of all rows of each {plan.unit.column!r}"
                way = f"add one there, such as max({column}), or first({column}, day) with a column of dates"
                raise PlanError(f"{place}: {column!r} {rule}; {way}", field=place)
    if question.period is not None:
        check_column(schema, question.period.column, _DATES, f"{place}.period.column", "dates")
    for column in question.by:
        field = "column" if column == question.selected else "by"
        _check_key(schema, column, plan.rule(column), f"{place}.{field}")
    for column in question.keyed:
        _check_key(schema, column, plan.rule(column), f"{place}.column")
    for each in question.conditions:
        numeric = schema.get(each.column) in (Family.INTEGER, Family.NUMBER, Family.DECIMAL)
        truth = numeric and bool(each.values) and type_of(each.values[0]) is ValueType.TRUTH
        way = f" (compare it with 1 or 0, as in {Named(each.column)} = 1)" if truth else ""
        field = place + next((f".{at}" for at in ("where", "of") if each in getattr(question, at, ())), ".column")
        check_column(schema, each.column, _families(each), field, _CONDITION, way=way)
        _comparable(schema, each.column, each.values, field)
        _check_values(schema, each.column, _texts(each.values), field)
    for field, column in question.compares.items():
        check_column(schema, column, KEYS, f"{place}.{field}", "distinct values, which are compared as keys")
    for field, values in reads_of(question, place):
        families = _DATES if values.dated else _NUMBERS
        check_column(schema, values.column, families, f"{field}.column", "dates" if values.dated else "numbers")
        _comparable(schema, values.column, (values.lower, values.upper), f"{field}.range")


def reads_of(question: Kind, place: str) -> Iterator[tuple[str, Values]]:
    """The columns of numbers or dates that a question reads, each by the field that has its column and its range."""
    if question.reads is not None:
        yield place, question.reads
    yield from ((f"{place}.{field}", each.values) for field, each in question.reads_also.items())


def _check_key(schema: Schema, column: str, rule: KeyRule | None, field: str) -> None:
    """Refuse a grouping column whose values no key can be made of, as its rule makes it."""
    if rule is not None:
        _check_values(schema, column, rule.listed_values, f"keys.{column}")
    if rule is None or (rule.bins is None and not rule.dated):
        check_column(schema, column, KEYS, field, "a grouping key")
    elif rule.bins is None:
        days = rule.span is not None
        check_column(
            schema, column, _DATES if days else (*KEYS, _F.TIMESTAMP), field, "days" if days else "a grouping key"
        )
    else:
        check_column(
            schema, column, _DATES if rule.dated else _NUMBERS, field, "bins of days" if rule.dated else "bins"
        )
        _comparable(schema, column, [number(each) for each in rule.bins], f"keys.{column}.bins")


_SPELT: dict[Family, tuple[type, Callable[[str], int | datetime.date], str]] = {
    _F.INTEGER: (int, int, "whole numbers, such as 1 and 0"),
    _F.BOOLEAN: (bool, "true".__eq__, "true and false"),
    **dict.fromkeys((_F.DATE, _F.TIMESTAMP), (datetime.date, datetime.date.fromisoformat, "dates, such as 2025-01-31")),
}
"""What a key of a typed column is, how it is read from a text, and how it is written."""


def _check_values(schema: Schema, column: str, values: Iterable[object], field: str) -> None:
    """Refuse a key, or a text to compare with, that no value of a typed column can be: whatever the data, none is it.

    A text that spells a value as keys are written is that value.
    """
    if schema.get(column) not in _SPELT:
        return
    kind, read, way = _SPELT[schema[column]]
    for each in values:
        try:
            fits = canonical(read(each)) == each if isinstance(each, str) else type(each) is kind
        except ValueError:
            fits = False
        if not fits:
            rule = f"is not a value of a column of type {type_name(schema, column)}, so no row can have it"
            shown = canonical(each) if isinstance(each, bool) else arguments.shown(each)  # as a plan writes it
            raise PlanError(f"{field}: {shown} {rule}; write {way}", field=field)


def _texts(values: Iterable[object]) -> Iterator[str]:
    """The texts of a condition; numbers, dates and truth values that it compares are refused by the column's type."""
    return (each for each in values if isinstance(each, str))


def check_made(plan: Plan, schema: Schema, made: Sequence[MadeColumn], table: str = "the table") -> None:
    """Refuse made columns whose expressions use columns that are not in the table, or cannot be used as they do.

    A made column must not have the name of one of the table: which of the two is meant would be a matter of the order
    of steps. Looks at names and types only.
    """
    names, taken = {each.name for each in made}, {each.casefold() for each in schema}
    for name, each in plan.made_columns.items():
        field = f"columns.{name}"
        if each.value is None and each.type is not None and table == "the table":
            check_column(schema, name, _READ[each.type], field, "this range")
        elif name in names and name.casefold() in taken:
            rule = "has a column of this name (engines do not distinguish cases); give the made one another"
            raise PlanError(f"{field}: {table} {rule}", field=field)
    for one in made:
        for use, name, kind in column_uses(one.value):
            if name not in names:
                read = _OTHERWISE.get((kind, schema.get(name)), "")
                way = f"{use}; {read.format(Named(name))}" if read else use
                check_column(schema, name, _USED[use] if use in _USED else _READ[kind], one.field, way, table)
        for name, values in compared_constants(one.value):
            _check_values(schema, name, _texts(values), one.field)


def _comparable(schema: Schema, column: str, values: Iterable[Plain], field: str) -> None:
    """Refuse the few numbers that not every engine compares exactly with all of its whole numbers."""
    if schema[column] is Family.INTEGER and any(HUGE <= size(each) <= 2 * HUGE for each in values):
        rule = "no number between 2^126 and 2^127 can be compared with whole numbers in every engine; take another"
        raise PlanError(f"{field}: {rule}", field=field)


def check_unit_column(schema: Schema, column: str, field: str) -> None:
    """Refuse a column that is not in the table or cannot name the owners of rows."""
    if column == TO_FILL_IN and column not in schema:
        rule = f"is still to be filled in: name the column that says whose a row is, {one_of(schema)}"
        raise PlanError(f"{field}={column!r}: {rule}; without [unit], every single row is protected", field=field)
    check_column(schema, column, _UNITS, field, "a privacy unit")


def check_unit_columns(plan: Plan, schema: Schema) -> None:
    """Refuse columns of a unit that take a column of the table as it stands which it does not have or cannot use."""
    assert plan.unit.column is not None
    check_unit_column(schema, plan.unit.column, "unit.column")
    for each in plan.of_unit:
        made = {one.name for one in each.made}
        for at, name in enumerate(each.arguments):
            if name not in made:
                use = f"{each.function}(...)"
                check_column(schema, name, _TIMES if at else _STANDING[each.function], each.field, use)


_TIMES = (_F.DATE, _F.TIMESTAMP, _F.INTEGER, _F.NUMBER, _F.DECIMAL, _F.TEXT, _F.UNTYPED)
_STANDING = dict.fromkeys(("first", "last", "distinct"), (*KEYS, _F.NUMBER, _F.DECIMAL, _F.TIMESTAMP))
UNIT_TABLE = "the table of [per_unit]"
"""What errors call the table after the step that makes one row per unit."""


def _families(condition: Condition) -> tuple[Family, ...]:
    if condition.comparison in (Comparison.MISSING, Comparison.PRESENT):
        return (*_NUMBERS, *_DATES)
    return _READ[type_of(condition.values[0])]


def check_column(
    schema: Schema,
    column: str,
    families: tuple[Family, ...],
    field: str,
    use: str,
    table: str = "the table",
    way: str = "",
) -> None:
    """Refuse a column that is not in a table, or whose values do not serve for a use, which these families do."""
    if use != _CONDITION and hidden_text(column) is not None:
        rule = f"a column whose name begins with {HIDDEN!r} cannot be used, since expressions in where are named so"
        raise PlanError(f"{field}={column!r}: {rule}; rename it", field=field)
    family = schema.get(column)
    if family is None:
        hint = f"; {arguments.similar(column, schema) or f'its columns are {one_of(schema)}'}" if schema else ""
        raise PlanError(f"{field}={column!r}: {table} has no such column{hint}", field=field)
    if family not in families:
        wanted = ", ".join(each.value for each in families if each is not Family.UNTYPED)
        rule = f"is of type {type_name(schema, column)}, which does not serve for {use}; it takes {wanted}"
        whole = family is Family.NUMBER and Family.INTEGER in families
        way = " (a column of whole numbers that has become one of floats can be stored as integers)" if whole else way
        zoned = isinstance(schema, TypedSchema) and column in schema.instants  # and the plan has no zone
        way = _LOCAL if zoned else way
        raise PlanError(f"{field}={column!r}: {rule}{way}", field=field)


def one_of(schema: Schema) -> str:
    """The columns of a table, in a list of words that is not too long."""
    names = [repr(each) for each in schema]
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


_CONDITION = "this condition"
_LOCAL = ' (its day depends on a time zone: say zone = "Europe/Paris" in the plan, for the local time there)'
