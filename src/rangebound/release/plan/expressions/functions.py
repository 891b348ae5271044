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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from rangebound.release.plan.expressions.nodes import CALENDAR, EVERYTHING, TRUTHS, Range, ValueType

Ranges = Sequence[Range]


def _hull(values: Iterable[float]) -> Range:
    """The range of some values; a NaN among them is infinity times zero or less itself, of which nothing is known."""
    found = [each + 0.0 for each in values]
    return EVERYTHING if any(map(math.isnan, found)) else (min(found), max(found))


def total(ranges: Ranges) -> Range:
    """x + y."""
    (a, b), (c, d) = ranges
    return _hull((a + c, b + d))


def difference(ranges: Ranges) -> Range:
    """x - y."""
    (a, b), (c, d) = ranges
    return _hull((a - d, b - c))


def times(ranges: Ranges) -> Range:
    """x * y."""
    first, second = ranges
    return _hull(x * y for x, y in product(first, second))


def quotient(ranges: Ranges) -> Range:
    """x / y; nothing is known where y may be 0, however near."""
    first, (c, d) = ranges
    if c <= 0.0 <= d or not all(map(math.isfinite, first)):
        return EVERYTHING
    return _hull(x / y for x, y in product(first, (c, d)))


def whole_quotient(ranges: Ranges) -> Range:
    """x // y, which is the whole number at or below x / y."""
    return rounded_down([quotient(ranges)])


def remainder(ranges: Ranges) -> Range:
    """x % y, between 0 and y; it may be y itself where a tiny negative x is rounded to it."""
    _, (c, d) = ranges
    return min(c, 0.0), max(d, 0.0)


def negative(ranges: Ranges) -> Range:
    """-x."""
    ((a, b),) = ranges
    return _hull((-b, -a))


def size(ranges: Ranges) -> Range:
    """abs(x)."""
    ((a, b),) = ranges
    return (0.0 if a <= 0.0 <= b else min(abs(a), abs(b))), max(abs(a), abs(b))


def _on_both(rounding: Callable[[float], int]) -> Callable[[Ranges], Range]:
    """A rounding, which keeps order; what is infinite stays so."""

    def rounded(ranges: Ranges) -> Range:
        low, high = (float(rounding(each)) if math.isfinite(each) else each for each in ranges[0])
        return low, high

    return rounded


def _nearest(value: float) -> int:
    low = math.floor(abs(value))
    size = low + (abs(value) - low >= 0.5)
    return size if value > 0.0 else -size


rounded_down, rounded_up, rounded = _on_both(math.floor), _on_both(math.ceil), _on_both(_nearest)
"""The ranges of floor(x), ceil(x), and round(x), a half away from zero."""


def least(ranges: Ranges) -> Range:
    """min(x, ...)."""
    return min(a for a, _ in ranges), min(b for _, b in ranges)


def largest(ranges: Ranges) -> Range:
    """max(x, ...)."""
    return max(a for a, _ in ranges), max(b for _, b in ranges)


def clipped(ranges: Ranges) -> Range:
    """clip(x, lower, upper)."""
    x, lower, upper = ranges
    return least([largest([x, lower]), upper])


def union(ranges: Ranges) -> Range:
    """One of several values."""
    return min(a for a, _ in ranges), max(b for _, b in ranges)


def chosen(ranges: Ranges) -> Range:
    """case(condition, value, ..., default): one of the values."""
    values = ranges[1::2] if len(ranges) % 2 == 0 else (*ranges[1::2], ranges[-1])
    return union(values)


def binned(ranges: Ranges) -> Range:
    """bin(x, width): a multiple of the width; or bin(x, edge, edge, ...): one of the edges but the last."""
    if len(ranges) > 2:
        return ranges[1][0], ranges[-2][1]
    return times([whole_quotient(ranges), ranges[1]])


def days_later(ranges: Ranges) -> Range:
    """A date and a number of days, within the calendar: what is beyond is missing.

    >>> days_later([(0.0, 10.0), (1e308, 1e308)])
    (2932896.0, 2932896.0)
    """
    return _within_calendar(total([ranges[0], rounded_down([ranges[1]])]))


def days_before(ranges: Ranges) -> Range:
    """A date less a number of days, within the calendar."""
    return _within_calendar(difference([ranges[0], rounded_down([ranges[1]])]))


def _within_calendar(found: Range) -> Range:
    """Where all days are beyond the calendar every value is missing, and its nearest day serves as the range."""
    low, high = (min(max(each, CALENDAR[0]), CALENDAR[1]) for each in found)
    return low, high


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
    """A function or operator: how it is written, what it means, and the public facts of its value.

    `whole` says whether its value is a whole number, by what the arguments are. `constants` says that all arguments but
    the first must be constants; `ask`, that a type which does not follow from an argument has to be asked for. Without
    it numbers are meant.
    """

    written: str
    means: str
    signatures: Signatures
    range: Callable[[Ranges], Range]
    whole: Callable[[Sequence[Part]], bool] = lambda _: False
    constants: bool = False
    ask: bool = False


def _always(_: Sequence[Part]) -> bool:
    return True


def _if_parts(parts: Sequence[Part]) -> bool:
    return all(whole for kind, whole in parts if kind is _N)


def _if_others(parts: Sequence[Part]) -> bool:
    return all(whole for _, whole in parts[1:])


def _if_read(parts: Sequence[Part]) -> bool:
    """A truth value, or what is whole already."""
    return parts[0][0] is _B or parts[0][1]


def _takes(*takes: ValueType, gives: ValueType, repeated: bool = False) -> Signatures:
    return (Signature(takes=takes, gives=gives, repeated=repeated),)


def _alike(*types: ValueType, count: int, gives: ValueType | None = None, repeated: bool = False) -> Signatures:
    """For each type a signature of this many arguments of it, or more; it gives the same type, if `gives` is none."""
    return tuple(Signature(takes=(each,) * count, gives=gives or each, repeated=repeated) for each in types)


def _between(lower: float, upper: float) -> Callable[[Ranges], Range]:
    return lambda _: (lower, upper)


def _itself(found: Ranges) -> Range:
    return found[0]


def _dates(found: Ranges) -> Range:
    return _D.everything if found[0] == _N.everything else found[0]


def _years(found: Ranges) -> Range:
    low, high = (float(datetime.date.fromordinal(int(each) + _EPOCH).year) for each in found[0])
    return low, high


def _comparison(sign: str, means: str, *types: ValueType) -> Function:
    return Function(f"x {sign} y", means, _alike(*types, count=2, gives=_B), _truth, ask=True)


def _part(name: str, means: str, lower: float, upper: float) -> Function:
    return Function(f"{name}(d)", means, _takes(_D, gives=_N), _between(lower, upper), _always)


_truth = _between(*TRUTHS)
_ALL = (_N, _T, _B, _D)
_ONE, _TWO = _takes(_N, gives=_N), _takes(_N, _N, gives=_N)
_LISTED = _alike(*_ALL, count=2, gives=_B, repeated=True)
_BOTH = _takes(_B, _B, gives=_B, repeated=True)
_TEXTS = _takes(_T, _T, gives=_B)
_LATER = _takes(_D, _N, gives=_D)

FUNCTIONS: Mapping[str, Function] = {
    "+": Function(
        "x + y",
        "the sum; a date plus a number of days, rounded down, is a date",
        (*_TWO, *_LATER, *_takes(_N, _D, gives=_D)),
        total,
        _if_parts,
    ),
    "-": Function(
        "x - y",
        "the difference; of two dates the number of days, of a date and a number of days a date",
        (*_TWO, *_takes(_D, _D, gives=_N), *_LATER),
        difference,
        _if_parts,
    ),
    "*": Function("x * y", "the product", _TWO, times, _if_parts),
    "/": Function("x / y", "the quotient; missing where y is 0", _TWO, quotient),
    "//": Function("x // y", "floor(x / y); missing where y is 0", _TWO, whole_quotient, _always),
    "%": Function("x % y", "the remainder, which has the sign of y; missing where y is 0", _TWO, remainder, _if_parts),
    "-x": Function("-x", "the negative", _ONE, negative, _if_parts),
    "==": _comparison("==", "whether both are the same; texts byte by byte", *_ALL),
    "!=": _comparison("!=", "whether they differ", *_ALL),
    "<": _comparison("<", "whether x is below y, of numbers or dates", _N, _D),
    "<=": _comparison("<=", "whether x is at most y", _N, _D),
    ">": _comparison(">", "whether x is above y", _N, _D),
    ">=": _comparison(">=", "whether x is at least y", _N, _D),
    "in": Function("x in [y, ...]", "whether x is one of some constants", _LISTED, _truth, constants=True, ask=True),
    "not in": Function(
        "x not in [y, ...]", "whether x is none of some constants", _LISTED, _truth, constants=True, ask=True
    ),
    "and": Function("a and b", "whether both hold; false as soon as one does not, whatever is missing", _BOTH, _truth),
    "or": Function("a or b", "whether one of them holds; true as soon as one does, whatever is missing", _BOTH, _truth),
    "not": Function("not a", "whether it does not hold", _takes(_B, gives=_B), _truth),
    "case": Function(
        "case(a, x, b, y, ..., z)",
        "x where a holds, else y where b does, ..., else z; missing where none holds and there is no z. "
        "`x if a else z` is case(a, x, z)",
        tuple(Cases(takes=(_B, each), gives=each) for each in _ALL),
        chosen,
        _if_parts,
        ask=True,
    ),
    "coalesce": Function(
        "coalesce(x, y, ...)",
        "the first that is not missing",
        _alike(*_ALL, count=2, repeated=True),
        union,
        _if_parts,
        ask=True,
    ),
    "missing": Function(
        "missing(x)", "whether it is missing; never missing itself", _alike(*_ALL, _C, count=1, gives=_B), _truth
    ),
    "number": Function(
        "number(x)",
        "a column as numbers, a text as the number that it spells, true as 1 and false as 0",
        _alike(_N, _T, _B, _C, count=1, gives=_N),
        _itself,
        _if_read,
    ),
    "text": Function(
        "text(x)",
        "a column as texts, a date as 2025-01-31, a truth value as true or false",
        _alike(_T, _B, _D, _C, count=1, gives=_T),
        _between(*_N.everything),
    ),
    "date": Function(
        "date(x)",
        'a column as dates, a text as the date that it spells; date("2025-01-31") is a constant',
        _alike(_D, _T, _C, count=1, gives=_D),
        _dates,
    ),
    "year": Function("year(d)", "the year", _takes(_D, gives=_N), _years, _always),
    "quarter": _part("quarter", "the quarter of the year, 1 to 4", 1.0, 4.0),
    "month": _part("month", "the month, 1 to 12", 1.0, 12.0),
    "week": _part("week", "the week of the year by ISO 8601, 1 to 53", 1.0, 53.0),
    "day": _part("day", "the day of the month, 1 to 31", 1.0, 31.0),
    "weekday": _part("weekday", "the day of the week, 1 for Monday to 7 for Sunday", 1.0, 7.0),
    "hour": Function(
        "hour(c)", "the hour of a column of timestamps, 0 to 23", _takes(_C, gives=_N), _between(0.0, 23.0), _always
    ),
    "floor": Function("floor(x)", "the whole number at or below x", _ONE, rounded_down, _always),
    "ceil": Function("ceil(x)", "the whole number at or above x", _ONE, rounded_up, _always),
    "round": Function("round(x)", "the nearest whole number, a half away from zero", _ONE, rounded, _always),
    "abs": Function("abs(x)", "the size of x", _ONE, size, _if_parts),
    "min": Function(
        "min(x, y, ...)",
        "the least, of numbers or dates; missing where an argument is",
        _alike(_N, _D, count=2, repeated=True),
        least,
        _if_parts,
    ),
    "max": Function(
        "max(x, y, ...)",
        "the largest, of numbers or dates; missing where an argument is",
        _alike(_N, _D, count=2, repeated=True),
        largest,
        _if_parts,
    ),
    "clip": Function(
        "clip(x, lower, upper)",
        "x, or the end that it is beyond: min(max(x, lower), upper)",
        _alike(_N, _D, count=3),
        clipped,
        _if_parts,
    ),
    "bin": Function(
        "bin(x, width); bin(x, edge, edge, ...)",
        "the lower end of the bin that x lies in: floor(x / width) * width, or one of rising edges; each bin "
        "holds its lower edge, the last one its upper edge too, and beyond the edges the value is missing",
        _takes(_N, _N, gives=_N, repeated=True),
        binned,
        _if_others,
        constants=True,
    ),
    "starts": Function('starts(x, "...")', "whether a text begins with another, byte by byte", _TEXTS, _truth),
    "ends": Function('ends(x, "...")', "whether a text ends with another", _TEXTS, _truth),
    "contains": Function('contains(x, "...")', "whether a text holds another", _TEXTS, _truth),
}
"""Every function and operator by its name."""

DATED: Mapping[tuple[str, tuple[ValueType, ...]], Callable[[Ranges], Range]] = {
    ("+", (_D, _N)): days_later,
    ("+", (_N, _D)): lambda found: days_later((found[1], found[0])),
    ("-", (_D, _N)): days_before,
}
"""Where dates come out of arithmetic, which end with the calendar."""

_BITS = "its last bits differ between engines"
_UNICODE = "engines have different tables of letters; compare with each spelling, as x in [...]"
_PATTERN = "engines read patterns differently; starts, ends and contains compare texts byte by byte"
_CLOCK = 'its value depends on the day on which it is asked; write the day, as date("2025-01-31")'
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("exp", "log", "ln", "log2", "log10", "pow", "power", "sqrt", "sin", "cos", "tan"), _BITS),
    **dict.fromkeys(("upper", "lower", "casefold", "title", "trim", "strip"), _UNICODE),
    **dict.fromkeys(("like", "matches", "regexp", "replace", "substring", "substr", "split"), _PATTERN),
    **dict.fromkeys(("now", "today", "current_date"), _CLOCK),
    **dict.fromkeys(("rand", "random", "uuid"), "a value must follow from its row"),
    **dict.fromkeys(
        ("sum", "count", "mean", "avg", "median", "any", "all", "first", "last"),
        "a value must follow from its row alone; ask a query for it, or [per_unit] for one value per unit",
    ),
    **dict.fromkeys(("float", "int", "double"), "number(x) reads a number"),
    **dict.fromkeys(("str", "string"), "text(x) reads a text"),
    **dict.fromkeys(("startswith", "starts_with", "prefix"), 'starts(x, "...") compares the beginning of a text'),
    **dict.fromkeys(("endswith", "ends_with", "suffix"), 'ends(x, "...") compares the end of a text'),
    **dict.fromkeys(("isnull", "isna", "is_null"), "missing(x) says whether a value is missing"),
    **dict.fromkeys(("if_", "iif", "when", "where", "ifelse"), "case(condition, value, default) chooses"),
    **dict.fromkeys(("least",), "min(x, y) is the least"),
    **dict.fromkeys(("greatest",), "max(x, y) is the largest"),
    **dict.fromkeys(("ifnull", "nvl", "fillna"), "coalesce(x, y) is the first that is not missing"),
}
"""Functions that people look for, and why the language has none of that name."""


def function_table() -> str:
    """The language as a table in Markdown, for the reference: how each function is written, what it takes and gives.

    >>> print(function_table().splitlines()[2])
    | `x + y` | a number or a date | the sum; a date plus a number of days, rounded down, is a date |
    """
    lines = ["| written | is | meaning |", "| --- | --- | --- |"]
    for each in FUNCTIONS.values():
        gives = list(dict.fromkeys(one.gives.value for one in each.signatures))
        kind = "what its parts are" if len(gives) > 2 else " or ".join(gives)
        lines.append(f"| {', '.join(f'`{one}`' for one in each.written.split('; '))} | {kind} | {each.means} |")
    return "\n".join(lines)
