"""Conditions on rows: a column, a comparison, a value; or an expression, made of these and of anything else."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator
from enum import Enum
from types import NoneType
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    WrapSerializer,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rangebound.release.plan.expressions.nodes import (
    COMPARISONS,
    LONGEST,
    Call,
    Constant,
    Expression,
    Named,
    ValueType,
    call,
    constant,
    type_of,
)
from rangebound.release.plan.expressions.reading import read
from rangebound.release.plan.fields import Bound, Part, Text, as_tuple, no_time_of_day, printable

HIDDEN = "= "
"""What the name of a column begins with that an expression in `where` or `of` makes; its text follows."""


class HiddenName(str):
    """The name of a column that an expression makes: no name that a plan writes is one, whatever it begins with."""


LONGEST_NAME = len(HIDDEN) + LONGEST
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Fields = dict[str, object]


def conditions_of(text: str | Expression) -> list[Fields]:
    """The conditions that hold together where an expression does, as fields of a plan.

    A comparison of a column with a constant, a truth column and `column IS NULL` are conditions as a list of them
    would say it, so that both ways to write a plan are one. Any other part is a column of truth values named by itself.

    >>> conditions_of("age >= 18 AND a + b > 3")
    [{'column': 'age', 'is': '>=', 'value': 18.0}, {'column': '= a + b > 3', 'is': '==', 'value': True}]
    """
    node = read(text)
    parts = node.arguments if isinstance(node, Call) and node.function == "and" else (node,)
    return [
        next(iter([*_plain(each), {"column": HiddenName(f"{HIDDEN}{each}"), "is": "==", "value": True}]))
        for each in parts
    ]


def hidden_text(column: str) -> str | None:
    """The text of the expression that makes a column of this name; None for any other column."""
    return column.removeprefix(HIDDEN) if column.startswith(HIDDEN) else None


def _plain(node: Expression) -> Iterator[Fields]:
    match node:
        case Named(name):
            yield {"column": name, "is": "==", "value": True}
        case Call("not", (Named(name),)):
            yield {"column": name, "is": "==", "value": False}
        case Call("missing", (Named(name),)):
            yield {"column": name, "is": "missing"}
        case Call("not", (Call("missing", (Named(name),)),)):
            yield {"column": name, "is": "present"}
        case Call(sign, (Named(name), Constant(value=value))) if sign in COMPARISONS:
            yield {"column": name, "is": sign, "value": value}
        case Call(sign, (Constant(value=value), Named(name))) if sign in COMPARISONS:
            yield {"column": name, "is": _MIRRORED.get(sign, sign), "value": value}
        case Call("in" | "not in" as sign, (Named(name), *values)):
            listed = tuple(each.value for each in values if isinstance(each, Constant))
            yield {"column": name, "is": sign, "value": listed}


class Comparison(Enum):
    """How a column is compared with a value; a missing value meets no comparison but `MISSING`."""

    EQUAL = "=="
    UNEQUAL = "!="
    BELOW = "<"
    AT_MOST = "<="
    ABOVE = ">"
    AT_LEAST = ">="
    ONE_OF = "in"
    NONE_OF = "not in"
    MISSING = "missing"
    PRESENT = "present"


_LISTS = (Comparison.ONE_OF, Comparison.NONE_OF)
_ALONE = (Comparison.MISSING, Comparison.PRESENT)
_ORDERED = (Comparison.BELOW, Comparison.AT_MOST, Comparison.ABOVE, Comparison.AT_LEAST)

Plain = bool | Bound | Text
_MOST_VALUES = 10_000


def _values(value: object) -> object:
    """Refuse an invalid value in our own words: pydantic would report only the first of several types."""
    values = value if isinstance(value, (list, tuple)) else (value,)
    if not 1 <= len(values) <= _MOST_VALUES:
        raise ValueError(f"must be a list of 1 to {_MOST_VALUES} values")
    for each in values:
        if not isinstance(each, (bool, int, float, str, datetime.date, NoneType)):
            raise ValueError("must be a number, a date, a text, or true or false; or a list of these")
        if isinstance(each, float) and not math.isfinite(each):
            raise ValueError('must be finite; what is not is missing, which takes is = "missing"')
        no_time_of_day(each)
        printable(each if isinstance(each, str) else "")
    return as_tuple(value)


Value = Plain | Annotated[tuple[Plain, ...], Field(min_length=1, max_length=_MOST_VALUES)]


def _comparison(value: object) -> object:
    try:
        return Comparison(value)
    except ValueError:
        raise ValueError("must be one of " + ", ".join(f'"{each.value}"' for each in Comparison)) from None


def _not_hidden(name: object) -> object:
    """Refuse a column that would be taken for the text of an expression; only `where` and `of` make such columns."""
    if isinstance(name, str) and hidden_text(name) is not None and not isinstance(name, HiddenName):
        way = 'rename the column, or write the whole condition as an expression, such as where = "a + b > 3"'
        raise ValueError(f"must not begin with {HIDDEN!r}, since expressions in where are named so; {way}")
    if isinstance(name, str) and len(name) > _LONGEST_COLUMN and hidden_text(name) is None:
        raise ValueError(f"must have at most {_LONGEST_COLUMN} characters")
    return name


_LONGEST_COLUMN = 200
Column = Annotated[
    str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(printable), BeforeValidator(_not_hidden)
]
_SUCH = '{column = "age", is = ">=", value = 18}'


class Condition(Part):
    """One condition on a row, such as `{column = "age", is = ">=", value = 18}`; several hold together.

    Guarantee: whether a row meets it depends on that row alone, and evaluating it never fails.
    Edge cases: NULL, NaN and infinities are missing, and so is a text that is not a number, a date or a truth value
    where the value is one. The values 1 and true make different conditions: a field "1" of a CSV file meets both, a
    field "yes" the second alone.

    >>> Condition(column="age", comparison=">=", value=18).value
    18.0
    """

    column: Column
    comparison: Annotated[Comparison, BeforeValidator(_comparison)] = Field(alias="is")
    value: Annotated[Value | None, BeforeValidator(_values)] = None

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    @model_validator(mode="wrap")
    @classmethod
    def _written(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(data, (dict, Condition)):
            raise ValueError(f"must be a condition, such as {_SUCH}")
        return handler(data)

    @model_validator(mode="after")
    def _value_fits(self) -> Condition:
        if (self.value is None) != (self.comparison in _ALONE):
            rule = "takes no value" if self.comparison in _ALONE else "needs a value"
            raise ValueError(f'"{self.comparison.value}" {rule}')
        if isinstance(self.value, tuple) != (self.comparison in _LISTS):
            raise ValueError('a list of values goes with "in" and "not in", and only with these')
        kinds = {type_of(each) for each in self.values}
        if len(kinds) > 1:
            raise ValueError("the values of a list must be of one kind")
        if self.comparison in _ORDERED and kinds & {ValueType.TEXT, ValueType.TRUTH}:
            raise ValueError("texts and truth values have no order here; use numbers or dates, without quotation marks")
        return self

    def __eq__(self, other: object) -> bool:
        """Whether two conditions are met by the same rows as they are written: 1 is not true, though Python says so."""
        return self._facts == other._facts if isinstance(other, Condition) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._facts)

    @property
    def _facts(self) -> tuple[object, ...]:
        return self.column, self.comparison, self.value, tuple(map(type_of, self.values))

    @property
    def values(self) -> tuple[Plain, ...]:
        """The values to compare with: none, one or several."""
        if self.value is None:
            return ()
        return self.value if isinstance(self.value, tuple) else (self.value,)


def _listed(value: object) -> object:
    found = tuple(conditions_of(value)) if isinstance(value, (str, Expression)) else as_tuple(value)
    if not isinstance(found, tuple):
        raise ValueError(f'must be an expression, such as "age >= 18", or a list of conditions, such as [{_SUCH}]')
    return found


class OrText:
    """Tells the JSON schema of a plan that a part may be written as the text of an expression."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "minLength": 1, "maxLength": LONGEST}, handler(schema)]}


def _one_text(some: tuple[Condition, ...]) -> str | None:
    """One expression, where an expression has made any of some conditions; None where they are written as a list."""
    if all(hidden_text(each.column) is None for each in some):
        return None
    return " AND ".join(f"({_expression(each)})" for each in some)


def _not_too_long(value: tuple[Condition, ...]) -> tuple[Condition, ...]:
    """Refuse an expression that could not be read again in the form in which it is written."""
    if len(_one_text(value) or "") > LONGEST:
        raise ValueError(f"must have at most {LONGEST} characters in all; name a part in [columns] and use its name")
    return value


def _expression(condition: Condition) -> str:
    hidden = hidden_text(condition.column)
    if hidden is not None:
        return hidden
    name, sign = Named(condition.column), condition.comparison
    if sign is Comparison.MISSING:
        return str(call("missing", name))
    if sign is Comparison.PRESENT:
        return str(call("not", call("missing", name)))
    return str(call(sign.value, name, *map(constant, condition.values)))


Conditions = Annotated[
    tuple[Condition, ...],
    BeforeValidator(_listed),
    AfterValidator(_not_too_long),
    WrapSerializer(lambda value, dump: _one_text(value) or dump(value)),
    OrText,
]
"""Conditions that hold together: a list of them, or an expression that is true or false."""


def size(value: Plain) -> float:
    """The size of a number; 0 for what is not one."""
    return abs(value) if isinstance(value, float) else 0.0


_LONGEST_SHOWN = 300  # characters of an expression that a line has room for


def conditions(some: tuple[Condition, ...]) -> str:
    """Conditions that hold together, as one expression."""
    return " AND ".join(_shown(each, alone=len(some) == 1) for each in some)


def _shown(condition: Condition, *, alone: bool) -> str:
    text = _expression(condition)
    shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
    return shown if alone or " OR " not in shown else f"({shown})"
