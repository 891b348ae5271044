"""What the parts of a plan share: strictness, spans of numbers or dates, names."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from keyword import iskeyword
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from rangebound.release.plan.faults import reported, unknown_field
from rangebound.values.arguments import brief, from_numpy
from rangebound.values.support import Interval, Union

_EPOCH = datetime.date(1970, 1, 1)
WHOLE = 2.0**53
"""From here on not every whole number is a double."""
HUGE = 2.0**126
"""Up to here every engine can compare whole numbers; none has a type for those of more than twice as much."""
_NARROWEST, _WIDEST = 1e-150, 1e150  # beyond these the fixed-point scale of a column would leave the doubles


@brief
class Part(BaseModel):
    """A piece of a plan: frozen, strict about types, and without room for unknown fields.

    Guarantee: a fault is a `PlanError` that names the field, whether a part is made by itself or inside a whole plan.
    Edge cases: in Python a list and a tuple are the same, a dict may stand for a part, and numbers, texts and arrays of
    NumPy for those of Python. A `repr` names the fields that are not as by default, and makes the same part again where
    it is not cut.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        defer_build=True,  # a part is prepared for checks when it is first asked for, so that an import stays light
    )

    def __init__(self, /, **fields: object) -> None:
        with reported(type(self).__name__.lower(), data=fields):
            super().__init__(**{name: without_numpy(value) for name, value in fields.items()})

    def as_written(self) -> Part:
        """The part as a plan writes it, where the plan holds another in its place."""
        return self

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if value != field.get_default(call_default_factory=True):
                written = field.alias if field.alias and not iskeyword(field.alias) else name
                yield written, value.value if isinstance(value, Enum) else value

    @model_validator(mode="wrap")
    @classmethod
    def _known(cls, data: object, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Name an unknown field first: a typo explains a gap."""
        if isinstance(data, dict):
            names = {each for name, field in cls.model_fields.items() for each in (field.alias, name) if each}
            for name, value in data.items():
                if name not in names:
                    fields = [field.alias or own for own, field in cls.model_fields.items()]
                    raise unknown_field(name, value, fields)
        return handler(data)


LATE = ConfigDict(defer_build=True)
"""For a checker of a single value, which is prepared when it is first asked, as parts are."""


def without_numpy(value: object) -> object:
    """A value with the scalars and arrays of NumPy in it as those of Python.

    >>> import numpy as np
    >>> without_numpy({"range": np.array([0, 10]), "last": np.datetime64("2025-01-31")})
    {'range': [0, 10], 'last': datetime.date(2025, 1, 31)}
    """
    if from_numpy(value):
        import numpy as np

        if isinstance(value, (np.generic, np.ndarray)):
            timed = value.dtype.kind == "M" and value.dtype != np.dtype("datetime64[D]")
            return value.astype("datetime64[us]").tolist() if timed else value.tolist()
    if isinstance(value, dict):
        return {name: without_numpy(each) for name, each in value.items()}
    if isinstance(value, list):
        return [without_numpy(each) for each in value]
    if isinstance(value, tuple):
        return tuple(without_numpy(each) for each in value)
    return value


def no_time_of_day(value: object) -> object:
    """Refuse what would silently lose a part of it: a time of day, or a whole number that no double holds."""
    if isinstance(value, datetime.datetime):  # a datetime passes as a date, and its hours would silently be lost
        raise ValueError("must be a number or a date without a time of day")
    if isinstance(value, int) and abs(value) > WHOLE:
        try:
            exact = int(float(value)) == value
        except OverflowError:
            exact = False
        if not exact:  # it would silently be rounded
            raise ValueError("must be a number that a double holds exactly; an id can be compared as text")
    return value


def as_tuple(value: object) -> object:
    """A list as a tuple; anything else as it is."""
    return tuple(value) if isinstance(value, list) else value


def named_lists(value: object) -> object:
    """A table of names, each with a list of keys; or pairs of these, as canonical JSON has them, which sorts tables."""
    if not isinstance(value, (list, tuple)):
        return value
    found: dict[object, object] = {}
    for pair in value:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str) or pair[0] in found:
            raise ValueError("must be a table of names, each with a list of keys")
        found[pair[0]] = pair[1]
    return found


def printable(value: str) -> str:
    """Refuse a text that not every engine can hold."""
    if "\x00" in value:
        raise ValueError("must not hold the character of code 0")
    if re.search("[\ud800-\udfff]", value):
        raise ValueError("must be Unicode, without half of a surrogate pair")
    return value


Text = Annotated[str, AfterValidator(printable)]
Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(printable)]
Positive = Annotated[float, Field(gt=0.0)]
Bound = Annotated[float | datetime.date, BeforeValidator(no_time_of_day)]
Ends = tuple[float | datetime.date, float | datetime.date]
Pair = Annotated[tuple[Bound, Bound], BeforeValidator(as_tuple)]
Names = Annotated[tuple[Name, ...], BeforeValidator(as_tuple)]


def number(value: float | datetime.date) -> float:
    """A bound as a number: a date counts the days since 1970-01-01."""
    return float((value - _EPOCH).days) if isinstance(value, datetime.date) else float(value)


def written(value: float) -> Fraction:
    """A number exactly as it is written, by its shortest decimal: the double 0.1 is a tenth.

    From 2^53 on the double itself: there its shortest decimal may be another whole number.

    >>> written(0.1), written(2.0**60) == 2**60
    (Fraction(1, 10), True)
    """
    return Fraction(repr(value)) if abs(value) < WHOLE else Fraction(value)


def date(value: float) -> datetime.date:
    """The day that `number` counted, rounded to the nearest."""
    return _EPOCH + datetime.timedelta(days=round(value))


def _ordered(value: Ends) -> Ends:
    if isinstance(value[0], datetime.date) != isinstance(value[1], datetime.date):
        raise ValueError("both ends must be numbers, or both dates")
    if not number(value[0]) < number(value[1]):
        raise ValueError("the lower end must be below the upper end")
    return value


def measurable(size: float) -> bool:
    """Whether numbers of this size can be added up: their squares, times the rows of many units, are doubles too."""
    return _NARROWEST < size < _WIDEST


def _measurable(value: Ends) -> Ends:
    lower, upper = map(number, value)
    if not measurable(upper - lower) or max(abs(lower), abs(upper)) > _WIDEST:
        raise ValueError(f"the width must lie between {_NARROWEST:g} and {_WIDEST:g}, and so must the ends be")
    if (upper - lower) < max(abs(lower), abs(upper)) * 2.0**-40:
        raise ValueError("the range is too narrow for numbers of this size; shift the column nearer to 0")
    return value


Span = Annotated[Pair, AfterValidator(_ordered)]
Range = Annotated[Span, AfterValidator(_measurable)]
UNKNOWN: Ends = (-math.inf, math.inf)
"""The range of a column that states none, until the plan fills it in."""


MOST_BINS = 1000
"""Bins that a list of edges may make."""


def _rising(value: tuple[float | datetime.date, ...]) -> tuple[float | datetime.date, ...]:
    if not 2 <= len(value) <= MOST_BINS + 1:
        raise ValueError(f"must be a list of 2 to {MOST_BINS + 1} edges")
    if len({isinstance(each, datetime.date) for each in value}) > 1:
        raise ValueError("the edges must be all numbers, or all dates")
    if not all(number(a) < number(b) for a, b in pairwise(value)):
        raise ValueError("the edges must rise")
    return value


Edges = Annotated[tuple[Bound, ...], BeforeValidator(as_tuple), AfterValidator(_rising)]
"""The edges of bins, in order."""


def _as_spans(value: object) -> object:
    if isinstance(value, (list, tuple)) and value and not isinstance(value[0], (list, tuple)):
        return (as_tuple(value),)
    return tuple(map(as_tuple, value)) if isinstance(value, (list, tuple)) else value


def _in_order(value: tuple[Ends, ...]) -> tuple[Ends, ...]:
    as_support(value)
    return value


Spans = Annotated[
    tuple[Span, ...], Field(min_length=1, max_length=1000), BeforeValidator(_as_spans), AfterValidator(_in_order)
]


def as_support(spans: Sequence[Ends]) -> Interval | Union:
    """The allowed spans of a plan as a support."""
    pairs = [(number(lower), number(upper)) for lower, upper in spans]
    return Interval(*pairs[0]) if len(pairs) == 1 else Union(*pairs)


def _key(value: object) -> object:
    if not isinstance(value, (bool, int, str, datetime.date)) or isinstance(value, datetime.datetime):
        raise ValueError("must be a text, a whole number, a date without a time of day, or true or false")
    return printable(value) if isinstance(value, str) else value


Key = Annotated[bool | int | datetime.date | Text, BeforeValidator(_key)]
"""A public key, as a plan writes it."""


MOST_KEYS = 100_000
"""Public keys that a column may have."""


def canonical(key: bool | int | datetime.date | str) -> str:
    """A key as the text that both engines make of it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return key.isoformat() if isinstance(key, datetime.date) else str(key)


HALF_LINE = Interval(0.0, math.inf)
LINE = Interval(-math.inf, math.inf)


def end(value: float, *, dated: bool) -> str:
    """A public number with all its digits, or a day.

    >>> end(12.0, dated=False), end(1.0, dated=True)
    ('12', '1970-01-02')
    """
    return date(value).isoformat() if dated else repr(value).removesuffix(".0")


def span(ends: Interval, *, dated: bool) -> str:
    """Two ends, such as `0 to 12`."""
    return f"{end(ends.lower, dated=dated)} to {end(ends.upper, dated=dated)}"


def bounds(ends: Ends) -> str:
    """Two ends as a plan writes them, such as `[0, 12]`."""
    return f"[{', '.join(f'{each:g}' if isinstance(each, float) else str(each) for each in ends)}]"
