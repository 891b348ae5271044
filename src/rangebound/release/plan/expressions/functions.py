"""The functions and operators of the language: what they take and give, and where their values lie.

The room `sql` has a table of the same names that says how each is computed; a test holds the two together.

Public ranges: sums, differences, products and quotients are computed in doubles by every engine, to the nearest.
Rounding to the nearest never changes an order, so the same operation on the ends of the ranges bounds the result to the
last bit. A bound that overflows is infinite, which is to say that there is none: a value that overflows is missing.
Nothing private depends on a range being narrow or even right: whatever a question counts is clipped to its range.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from rangebound.release.plan.expressions.nodes import CALENDAR, EVERYTHING, SIGNS, TRUTHS, Range, ValueType

Ranges = Sequence[Range]
RangeOf = Callable[[Ranges], Range]
"""Where the value of an expression lies, whatever the row, by the ranges of its parts."""


def _hull(values: Iterable[float]) -> Range:
    """The range of some values; a NaN among them is infinity times zero or less itself, of which nothing is known."""
    found = [each + 0.0 for each in values]
    return EVERYTHING if any(map(math.isnan, found)) else (min(found), max(found))


def _corners(computed: Callable[[float, float], float]) -> RangeOf:
    """Of an operation that rises or falls in either side, whatever the other: the hull of what the ends make."""
    return lambda ranges: _hull(computed(x, y) for x, y in product(*ranges))


def _ends(low: Callable[[Iterable[float]], float], high: Callable[[Iterable[float]], float]) -> RangeOf:
    """From one of the lower ends to one of the upper ends."""
    return lambda ranges: (low(lower for lower, _ in ranges), high(upper for _, upper in ranges))


_total, _difference, _product = _corners(operator.add), _corners(operator.sub), _corners(operator.mul)
_least, _largest, _union = _ends(min, min), _ends(max, max), _ends(min, max)


def _quotient(ranges: Ranges) -> Range:
    """The range of x / y; nothing is known where y may be 0, however near."""
    first, (low, high) = ranges
    if low <= 0.0 <= high or not all(map(math.isfinite, first)):
        return EVERYTHING
    return _hull(x / y for x, y in product(first, (low, high)))


def _size(ranges: Ranges) -> Range:
    ((low, high),) = ranges
    return (0.0 if low <= 0.0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _rounding(rounded: Callable[[float], float]) -> RangeOf:
    """A rounding keeps order; what is infinite stays so."""

    def found(ranges: Ranges) -> Range:
        low, high = (rounded(each) + 0.0 if math.isfinite(each) else each for each in ranges[0])
        return low, high

    return found


def _nearest(value: float) -> float:
    low = math.floor(abs(value))
    return math.copysign(low + (abs(value) - low >= 0.5), value)


_down = _rounding(math.floor)


def _remainder(ranges: Ranges) -> Range:
    """Between 0 and y; it may be y itself where a tiny negative x is rounded to it."""
    return min(ranges[1][0], 0.0), max(ranges[1][1], 0.0)


def _binned(ranges: Ranges) -> Range:
    """A multiple of the width, or one of the edges but the last."""
    if len(ranges) > 2:
        return ranges[1][0], ranges[-2][1]
    return _product([_down([_quotient(ranges)]), ranges[1]])


def _days(combined: RangeOf) -> RangeOf:
    """A date and a number of days, within the calendar: where all days are beyond it every value is missing.

    Then its nearest day serves as the range.
    """

    def found(ranges: Ranges) -> Range:
        low, high = (min(max(each, CALENDAR[0]), CALENDAR[1]) for each in combined([ranges[0], _down([ranges[1]])]))
        return low, high

    return found


_N, _T, _B, _D, _C = ValueType.NUMBER, ValueType.TEXT, ValueType.TRUTH, ValueType.DATE, ValueType.COLUMN
_EPOCH = datetime.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The types of the arguments, the last of which may be `repeated`, and the type of the value."""

    takes: tuple[ValueType, ...]
    gives: ValueType
    repeated: bool = False

    def types(self, count: int) -> tuple[ValueType, ...] | None:
        """The types of this many arguments; None if it does not take this many."""
        if not self.repeated:
            return self.takes if count == len(self.takes) else None
        return self.takes + self.takes[-1:] * (count - len(self.takes)) if count >= len(self.takes) else None


@dataclass(frozen=True, kw_only=True)
class Cases(Signature):
    """Conditions and values in turn, and a default that may be left out."""

    def types(self, count: int) -> tuple[ValueType, ...] | None:
        pairs = (_B, self.gives) * (count // 2)
        return None if count < 2 else pairs if count % 2 == 0 else (*pairs, self.gives)


Signatures = tuple[Signature, ...]
Part = tuple[ValueType, bool]
"""The type of an argument, and whether it is always a whole number."""


@dataclass(frozen=True)
class Function:
    """A function or operator: how it is written, and the public facts of its value.

    What it means stands in `docs/columns.md`. `whole` says whether its value is a whole number, by what the arguments
    are. `constants` says that all arguments but the first must be constants; `ask`, that a type which does not follow
    from an argument has to be asked for. Without it numbers are meant.
    """

    written: str
    signatures: Signatures
    range: RangeOf
    whole: Callable[[Sequence[Part]], bool] = lambda _: False
    constants: bool = False
    ask: bool = False


def _if_parts(parts: Sequence[Part]) -> bool:
    return all(whole for kind, whole in parts if kind is _N)


def _takes(*takes: ValueType, gives: ValueType, repeated: bool = False) -> Signatures:
    return (Signature(takes=takes, gives=gives, repeated=repeated),)


def _alike(*types: ValueType, count: int, gives: ValueType | None = None, repeated: bool = False) -> Signatures:
    """For each type a signature of this many arguments of it, or more; it gives the same type, if `gives` is none."""
    return tuple(Signature(takes=(each,) * count, gives=gives or each, repeated=repeated) for each in types)


def _between(lower: float, upper: float) -> RangeOf:
    return lambda _: (lower, upper)


def _years(found: Ranges) -> Range:
    low, high = (float(datetime.date.fromordinal(int(each) + _EPOCH).year) for each in found[0])
    return low, high


def _comparison(sign: str, *types: ValueType) -> Function:
    return Function(f"x {SIGNS.get(sign, sign)} y", _alike(*types, count=2, gives=_B), _truth, ask=True)


def _part(name: str, lower: float, upper: float, written: str = "") -> Function:
    return Function(f"{written or name.upper()}(d)", _takes(_D, gives=_N), _between(lower, upper), lambda _: True)


_truth = _between(*TRUTHS)
_ALL = (_N, _T, _B, _D)
_ONE, _TWO = _takes(_N, gives=_N), _takes(_N, _N, gives=_N)
_LISTED = _alike(*_ALL, count=2, gives=_B, repeated=True)
_BOTH = _takes(_B, _B, gives=_B, repeated=True)
_TEXTS = _takes(_T, _T, gives=_B)
_LATER = _takes(_D, _N, gives=_D)

FUNCTIONS: Mapping[str, Function] = {
    "+": Function("x + y", (*_TWO, *_LATER, *_takes(_N, _D, gives=_D)), _total, _if_parts),
    "-": Function("x - y", (*_TWO, *_takes(_D, _D, gives=_N), *_LATER), _difference, _if_parts),
    "*": Function("x * y", _TWO, _product, _if_parts),
    "/": Function("x / y", _TWO, _quotient),
    "//": Function("FLOOR_DIV(x, y)", _TWO, lambda found: _down([_quotient(found)]), lambda _: True),
    "%": Function("FLOOR_MOD(x, y)", _TWO, _remainder, _if_parts),
    "-x": Function("-x", _ONE, lambda found: (-found[0][1] + 0.0, -found[0][0] + 0.0), _if_parts),
    "==": _comparison("==", *_ALL),
    "!=": _comparison("!=", *_ALL),
    "<": _comparison("<", _N, _D),
    "<=": _comparison("<=", _N, _D),
    ">": _comparison(">", _N, _D),
    ">=": _comparison(">=", _N, _D),
    "in": Function("x IN (y, ...)", _LISTED, _truth, constants=True, ask=True),
    "not in": Function("x NOT IN (y, ...)", _LISTED, _truth, constants=True, ask=True),
    "and": Function("a AND b", _BOTH, _truth),
    "or": Function("a OR b", _BOTH, _truth),
    "not": Function("NOT a", _takes(_B, gives=_B), _truth),
    "case": Function(
        "CASE WHEN a THEN x WHEN b THEN y ... ELSE z END",
        tuple(Cases(takes=(_B, each), gives=each) for each in _ALL),
        lambda found: _union([*found[1::2], *(found[-1:] if len(found) % 2 else ())]),
        _if_parts,
        ask=True,
    ),
    "coalesce": Function("COALESCE(x, y, ...)", _alike(*_ALL, count=2, repeated=True), _union, _if_parts, ask=True),
    "missing": Function("x IS NULL", _alike(*_ALL, _C, count=1, gives=_B), _truth),
    "number": Function(
        "CAST(x AS DOUBLE)",
        _alike(_N, _T, _B, _C, count=1, gives=_N),
        lambda found: found[0],
        lambda parts: parts[0][0] is _B or parts[0][1],  # a truth value, or what is whole already
    ),
    "text": Function("CAST(x AS VARCHAR)", _alike(_T, _B, _D, _C, count=1, gives=_T), _between(*_N.everything)),
    "date": Function(
        "CAST(x AS DATE)",
        _alike(_D, _T, _C, count=1, gives=_D),
        lambda found: _D.everything if found[0] == _N.everything else found[0],
    ),
    "year": Function("YEAR(d)", _takes(_D, gives=_N), _years, lambda _: True),
    "quarter": _part("quarter", 1.0, 4.0),
    "month": _part("month", 1.0, 12.0),
    "week": _part("week", 1.0, 53.0),
    "day": _part("day", 1.0, 31.0),
    "weekday": _part("weekday", 1.0, 7.0, "ISODOW"),
    "hour": Function("HOUR(c)", _takes(_C, gives=_N), _between(0.0, 23.0), lambda _: True),
    "floor": Function("FLOOR(x)", _ONE, _down, lambda _: True),
    "ceil": Function("CEIL(x)", _ONE, _rounding(math.ceil), lambda _: True),
    "round": Function("ROUND(x)", _ONE, _rounding(_nearest), lambda _: True),
    "abs": Function("ABS(x)", _ONE, _size, _if_parts),
    "min": Function("LEAST(x, y, ...)", _alike(_N, _D, count=2, repeated=True), _least, _if_parts),
    "max": Function("GREATEST(x, y, ...)", _alike(_N, _D, count=2, repeated=True), _largest, _if_parts),
    "clip": Function(
        "CLIP(x, lower, upper)",
        _alike(_N, _D, count=3),
        lambda found: _least([_largest(found[:2]), found[2]]),
        _if_parts,
    ),
    "bin": Function(
        "BIN(x, width); BIN(x, edge, edge, ...)",
        _takes(_N, _N, gives=_N, repeated=True),
        _binned,
        lambda parts: all(whole for _, whole in parts[1:]),
        constants=True,
    ),
    "starts": Function("STARTS_WITH(x, '...')", _TEXTS, _truth),
    "ends": Function("ENDS_WITH(x, '...')", _TEXTS, _truth),
    "contains": Function("CONTAINS(x, '...')", _TEXTS, _truth),
}
"""Every function and operator by its name."""

DATED: Mapping[tuple[str, tuple[ValueType, ...]], Callable[[Ranges], Range]] = {
    ("+", (_D, _N)): _days(_total),
    ("+", (_N, _D)): lambda found: _days(_total)(found[::-1]),
    ("-", (_D, _N)): _days(_difference),
}
"""Where dates come out of arithmetic, which end with the calendar."""

_BITS = "its last bits differ between engines"
_UNICODE = "engines have different tables of letters; compare with each spelling, as x IN (...)"
_PATTERN = "engines read patterns differently; STARTS_WITH, ENDS_WITH and CONTAINS compare texts byte by byte"
_CLOCK = "its value depends on the day on which it is asked; write the day, as DATE '2025-01-31'"
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("exp", "log", "ln", "log2", "log10", "pow", "power", "sqrt", "sin", "cos", "tan"), _BITS),
    **dict.fromkeys(("upper", "lower", "casefold", "title", "trim", "strip"), _UNICODE),
    **dict.fromkeys(("matches", "regexp", "replace", "substring", "substr", "split"), _PATTERN),
    **dict.fromkeys(("now", "today", "current_date"), _CLOCK),
    **dict.fromkeys(("rand", "random", "uuid"), "a value must follow from its row"),
    **dict.fromkeys(
        ("sum", "count", "mean", "avg", "median", "any", "all", "first", "last"),
        "a value must follow from its row alone; ask a query for it, or [per_unit] for one value per unit",
    ),
    **dict.fromkeys(("float", "int", "double", "to_number"), "CAST(x AS DOUBLE) reads a number"),
    **dict.fromkeys(("str", "string", "to_char"), "CAST(x AS VARCHAR) reads a text"),
    **dict.fromkeys(("starts", "prefix"), "STARTS_WITH(x, '...') compares the beginning of a text"),
    **dict.fromkeys(("ends", "suffix"), "ENDS_WITH(x, '...') compares the end of a text"),
    **dict.fromkeys(("isnull", "isna", "is_null"), "x IS NULL says whether a value is missing"),
    **dict.fromkeys(("if_", "ifelse"), "CASE WHEN condition THEN value ELSE default END chooses"),
    **dict.fromkeys(("min",), "LEAST(x, y) is the least"),
    **dict.fromkeys(("max",), "GREATEST(x, y) is the largest"),
    **dict.fromkeys(("fillna",), "COALESCE(x, y) is the first that is not missing"),
    **dict.fromkeys(("weekday", "dayofweek", "dow"), "dialects count from different days; ISODOW(d) is 1 for Monday"),
    **dict.fromkeys(("mod", "fmod"), "the sign of a remainder differs between dialects; FLOOR_MOD(x, y) has that of y"),
    **dict.fromkeys(("fdiv",), "how it rounds differs between dialects; FLOOR(x / y) says it"),
}
"""Functions that people look for, and why the language has none of that name."""
