"""One row per unit: columns that say of each unit what there is in its rows, before any question is asked."""

from __future__ import annotations

import ast
import datetime
import math
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from rangebound.release.plan.column_declaration import ColumnDeclaration, MadeColumn
from rangebound.release.plan.expressions.nodes import LONGEST, Expression, Named, ValueType, columns_of
from rangebound.release.plan.expressions.nodes import Range as PublicRange
from rangebound.release.plan.expressions.reading import read
from rangebound.release.plan.expressions.typed import Known, Typed, typed
from rangebound.release.plan.faults import fault
from rangebound.release.plan.fields import Name, Part, Range, bounds, number
from rangebound.values import arguments

_MOST = 100
_TAKES = {
    "count": (0, 1, "count() for the rows, or count(condition) for those that meet it"),
    "any": (1, 1, "any(condition)"),
    "all": (1, 1, "all(condition)"),
    "sum": (1, 1, "sum(x), x a number with a public range"),
    "min": (1, 1, "min(x)"),
    "max": (1, 1, "max(x)"),
    "first": (2, 2, "first(x, date)"),
    "last": (2, 2, "last(x, date)"),
    "distinct": (1, 1, "distinct(x)"),
}
_TRUTHS = ("count", "any", "all")
_NO_RANGE = (
    "what is added up needs a public range; state that of its columns in [columns], as cost = {range = [0, 500]}, or "
    "write clip(x, 0, 500)"
)


@dataclass(frozen=True)
class UnitCall:
    """A function of all rows of a unit, and its arguments, which are expressions over one row."""

    function: str
    arguments: tuple[Expression, ...]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


def read_call(text: str | UnitCall) -> UnitCall:
    """What a per-unit column is made by; a call is checked as its text would be.

    Guarantee: a call of one of our functions or a `ValueError` with the reason; nothing is ever evaluated.

    >>> str(read_call("sum(cost*2)")), read_call("count()").arguments
    ('sum(cost * 2)', ())
    """
    if isinstance(text, UnitCall):
        return UnitCall(text.function, tuple(map(read, text.arguments)))
    if len(text) > LONGEST:
        raise ValueError(f"must have at most {LONGEST} characters; name a part in [columns] and use its name")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ValueError(f"not a valid expression; {_SUCH}") from None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in _TAKES:
        name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        guess = arguments.similar(name, _TAKES)
        raise ValueError(f"must be one function of all rows of a unit; {f'{guess} ' if guess else ''}{_SUCH}")
    function, given = node.func.id, node.args
    least, most, words = _TAKES[function]
    if node.keywords or not least <= len(given) <= most or any(isinstance(each, ast.Starred) for each in given):
        raise ValueError(f"{function}(...) is written {words}")
    parts = [ast.get_source_segment(text.strip(), each) or "" for each in given]
    return UnitCall(function, tuple(map(read, parts)))


_SUCH = f"there are {', '.join(f'{each}(...)' for each in _TAKES)}; compute with their results in [columns]"


def _in_one_form(value: object) -> object:
    return str(read_call(value)) if isinstance(value, (str, UnitCall)) else value


class UnitColumnDeclaration(Part):
    """A column of the table that has one row per unit: a function of all rows of the unit, and the range of its values.

    >>> UnitColumnDeclaration(value="sum( cost )", range=(0.0, 5000.0)).value
    'sum(cost)'
    """

    value: Annotated[str, BeforeValidator(_in_one_form)]
    range: Range | None = None

    @property
    def ends(self) -> PublicRange | None:
        """The range in numbers."""
        return None if self.range is None else (number(self.range[0]), number(self.range[1]))

    @property
    def words(self) -> str:
        """The function, and the range that its value is clipped to."""
        shown = "" if self.range is None else f", clipped to {bounds(self.range)}"
        return f"{self.value}{shown}"


def _declaration(value: object) -> object:
    return {"value": value} if isinstance(value, (str, UnitCall)) else value


_TEXT = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_ENDS = {"type": "array", "items": {"type": ["number", "string"]}, "minItems": 2, "maxItems": 2}
_SCHEMA = {
    "anyOf": [
        _TEXT,
        {
            "type": "object",
            "properties": {"value": _TEXT, "range": _ENDS},
            "required": ["value"],
            "additionalProperties": False,
        },
    ]
}
UnitColumns = Annotated[
    dict[Name, Annotated[UnitColumnDeclaration, BeforeValidator(_declaration), WithJsonSchema(_SCHEMA)]],
    Field(min_length=1, max_length=_MOST),
]


@dataclass(frozen=True, kw_only=True)
class UnitColumn:
    """A column of a unit: a function of columns, which are the table's own or made for it.

    `made` are those that have to be made first; `values` is the public range of what is added up, and `clipped` the
    range of the result, where one is stated. `known` is what expressions know of the result, if anything.
    """

    name: str
    function: str
    arguments: tuple[str, ...]
    made: tuple[MadeColumn, ...] = ()
    values: PublicRange = (-math.inf, math.inf)
    clipped: PublicRange | None = None
    known: Known | None = None
    field: str = ""


def independent(declared: Mapping[str, ColumnDeclaration], units: Collection[str]) -> dict[str, ColumnDeclaration]:
    """The declared columns that use no column of a unit, neither themselves nor by others that they use."""
    late, more = set(units), True
    while more:
        found = {
            name
            for name, each in declared.items()
            if name not in late and each.value is not None and late.intersection(columns_of(read(each.value)))
        }
        late, more = late | found, bool(found)
    return {name: each for name, each in declared.items() if name not in late}


def unit_columns(declared: Mapping[str, UnitColumnDeclaration], known: Mapping[str, Known]) -> tuple[UnitColumn, ...]:
    """The columns of a unit with what has to be made for them; a fault is named with its field."""
    found = []
    for name, each in declared.items():
        try:
            found.append(_resolved(name, each, known))
        except ValueError as reason:
            raise fault(str(reason), ("per_unit", name), each.value) from None
    return tuple(found)


def _resolved(name: str, declared: UnitColumnDeclaration, known: Mapping[str, Known]) -> UnitColumn:
    call, field = read_call(declared.value), f"per_unit.{name}"
    wanted = None
    if declared.range is not None:
        wanted = ValueType.DATE if isinstance(declared.range[0], datetime.date) else ValueType.NUMBER
    parts = [_argument(call, at, each, known, wanted) for at, each in enumerate(call.arguments)]
    made, names = [], []
    for at, (node, part) in enumerate(zip(call.arguments, parts, strict=True)):
        if part is None:
            assert isinstance(node, Named)
            names.append(node.name)
        else:
            names.append(f"\x1f{field}.{at}")
            made.append(MadeColumn(name=names[-1], value=part, field=field))
    first = parts[0] if parts else None
    values = (-math.inf, math.inf) if first is None else first.range
    if call.function == "sum" and not all(map(math.isfinite, values)):
        raise ValueError(f"{call}: {_NO_RANGE}")
    kind = _kind(call.function, first)
    if wanted is not None and kind is not wanted:
        raise ValueError(f"{call}: is {kind.value if kind else 'a column as it stands'}, and has no such range")
    return UnitColumn(
        name=name,
        function=call.function,
        arguments=tuple(names),
        made=tuple(made),
        values=values,
        clipped=declared.ends,
        known=_known(call.function, first, declared.ends, kind),
        field=field,
    )


def _argument(
    call: UnitCall, at: int, node: Expression, known: Mapping[str, Known], wanted: ValueType | None
) -> Typed | None:
    """An argument with its type; None for a column of the table that is taken as it stands.

    `wanted` is the type of the result by its stated range.
    """
    standing = isinstance(node, Named) and node.name not in known
    if call.function in _TRUTHS:
        return typed(node, known, ValueType.TRUTH)
    if call.function == "sum":
        return typed(node, known, ValueType.NUMBER)
    if call.function in ("min", "max"):
        return _ordered(call, typed(node, known, (wanted or ValueType.NUMBER) if standing else None))
    if at == 1:
        return None if standing else _ordered(call, typed(node, known))
    if call.function == "distinct" or wanted is None:
        return None if standing else typed(node, known)
    return typed(node, known, wanted)


def _ordered(call: UnitCall, found: Typed) -> Typed:
    if found.type not in (ValueType.NUMBER, ValueType.DATE):
        raise ValueError(f"{call}: {found} is {found.type.value}; {call.function} goes by numbers and dates")
    return found


def _kind(function: str, first: Typed | None) -> ValueType | None:
    """The type of the result; None where it is that of a column as it stands."""
    if function in ("any", "all"):
        return ValueType.TRUTH
    if function in ("count", "distinct", "sum"):
        return ValueType.NUMBER
    return None if first is None else first.type


def _known(function: str, first: Typed | None, ends: PublicRange | None, kind: ValueType | None) -> Known | None:
    """What expressions know of the result; nothing of a column that is taken as it stands."""
    if kind is None:
        return None
    if ends is not None:
        return Known(type=kind, range=ends)
    if function in ("count", "distinct"):
        return Known(type=kind, range=(0.0, math.inf))
    if function in ("any", "all"):
        return Known(type=kind, range=(0.0, 1.0))
    assert first is not None
    if function == "sum":
        low, high = first.range
        return Known(type=kind, range=(-math.inf if low < 0.0 else 0.0, math.inf if high > 0.0 else 0.0))
    return Known(type=kind, range=first.range)
