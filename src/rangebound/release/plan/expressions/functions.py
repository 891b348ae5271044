"""The functions and operators of the language: what they take and give, and where their values lie.

The room `sql` has a table of the same names that says how each is computed; a test holds the two together.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rangebound.release.plan.expressions import public_range as ranges
from rangebound.release.plan.expressions.value_type import TRUTHS, Range, ValueType

_N, _T, _B, _D, _C = ValueType.NUMBER, ValueType.TEXT, ValueType.TRUTH, ValueType.DATE, ValueType.COLUMN
_EPOCH = datetime.date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The types of the arguments, the last of which may be `repeated`, and the type of the value."""

    takes: tuple[ValueType, ...]
    gives: ValueType
    repeated: bool = False

    def types(self, count: int) -> tuple[ValueType, ...] | None:
        """The types of so many arguments; None if it does not take so many."""
        if not self.repeated:
            return self.takes if count == len(self.takes) else None
        return self.takes + self.takes[-1:] * (count - len(self.takes)) if count >= len(self.takes) else None


@dataclass(frozen=True, kw_only=True)
class Cases(Signature):
    """Conditions and values in turn, and a default that may be left out."""

    def types(self, count: int) -> tuple[ValueType, ...] | None:
        """Conditions and values in turn."""
        pairs = (_B, self.gives) * (count // 2)
        return None if count < 2 else pairs if count % 2 == 0 else (*pairs, self.gives)


Part = tuple[ValueType, bool]
"""The type of an argument, and whether it is always a whole number."""


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function or operator: how it is written, what it means, and the public facts of its value.

    `ask` says that a type which does not follow from an argument has to be asked for; else numbers are meant.
    """

    written: str
    means: str
    signatures: tuple[Signature, ...]
    range: Callable[[ranges.Ranges], Range]
    whole: Callable[[Sequence[Part]], bool] = lambda _: False
    constants: bool = False
    """Whether all arguments but the first must be constants."""
    ask: bool = False


def _always(_: Sequence[Part]) -> bool:
    return True


def _if_parts(parts: Sequence[Part]) -> bool:
    return all(whole for kind, whole in parts if kind is _N)


def _if_others(parts: Sequence[Part]) -> bool:
    return all(whole for _, whole in parts[1:])


def _if_read(parts: Sequence[Part]) -> bool:
    """Of number(x): a truth value, or what is whole already."""
    return parts[0][0] is _B or parts[0][1]


def _same(*types: ValueType, gives: ValueType | None = None, least: int = 2) -> tuple[Signature, ...]:
    """Any number of arguments of one type."""
    return tuple(Signature(takes=(each,) * least, gives=gives or each, repeated=True) for each in types)


def _pair(*types: ValueType) -> tuple[Signature, ...]:
    return tuple(Signature(takes=(each, each), gives=_B) for each in types)


def _of(*types: ValueType, gives: ValueType) -> tuple[Signature, ...]:
    return tuple(Signature(takes=(each,), gives=gives) for each in types)


def _truth(_: ranges.Ranges) -> Range:
    return TRUTHS


def _nothing(found: ranges.Ranges) -> Range:
    return _N.everything


def _between(lower: float, upper: float) -> Callable[[ranges.Ranges], Range]:
    return lambda _: (lower, upper)


def _itself(found: ranges.Ranges) -> Range:
    return found[0]


def _years(found: ranges.Ranges) -> Range:
    low, high = (float(datetime.date.fromordinal(int(each) + _EPOCH).year) for each in found[0])
    return low, high


def _arithmetic(written: str, means: str, of: Callable[[ranges.Ranges], Range], *more: Signature) -> Function:
    return Function(
        written=written,
        means=means,
        signatures=(Signature(takes=(_N, _N), gives=_N), *more),
        range=of,
        whole=_if_parts,
    )


def _comparison(sign: str, means: str, *types: ValueType) -> Function:
    return Function(written=f"x {sign} y", means=means, signatures=_pair(*types), range=_truth, ask=True)


def _part(name: str, means: str, lower: float, upper: float) -> Function:
    return Function(
        written=f"{name}(d)",
        means=means,
        signatures=_of(_D, gives=_N),
        range=_between(lower, upper),
        whole=_always,
    )


def _rounding(name: str, means: str, of: Callable[[ranges.Ranges], Range]) -> Function:
    return Function(written=f"{name}(x)", means=means, signatures=_of(_N, gives=_N), range=of, whole=_always)


_ALL = (_N, _T, _B, _D)
_MISSING = "missing where an argument is"

FUNCTIONS: Mapping[str, Function] = {
    "+": _arithmetic(
        "x + y",
        "the sum; a date plus a number of days, rounded down, is a date",
        ranges.total,
        Signature(takes=(_D, _N), gives=_D),
        Signature(takes=(_N, _D), gives=_D),
    ),
    "-": _arithmetic(
        "x - y",
        "the difference; of two dates the number of days, of a date and a number of days a date",
        ranges.difference,
        Signature(takes=(_D, _D), gives=_N),
        Signature(takes=(_D, _N), gives=_D),
    ),
    "*": _arithmetic("x * y", "the product", ranges.times),
    "/": Function(
        written="x / y",
        means="the quotient; missing where y is 0",
        signatures=(Signature(takes=(_N, _N), gives=_N),),
        range=ranges.quotient,
    ),
    "//": Function(
        written="x // y",
        means="floor(x / y); missing where y is 0",
        signatures=(Signature(takes=(_N, _N), gives=_N),),
        range=ranges.whole_quotient,
        whole=_always,
    ),
    "%": _arithmetic("x % y", "the remainder, which has the sign of y; missing where y is 0", ranges.remainder),
    "-x": Function(
        written="-x", means="the negative", signatures=_of(_N, gives=_N), range=ranges.negative, whole=_if_parts
    ),
    "==": _comparison("==", "whether both are the same; texts byte by byte", *_ALL),
    "!=": _comparison("!=", "whether they differ", *_ALL),
    "<": _comparison("<", "whether x is below y, of numbers or dates", _N, _D),
    "<=": _comparison("<=", "whether x is at most y", _N, _D),
    ">": _comparison(">", "whether x is above y", _N, _D),
    ">=": _comparison(">=", "whether x is at least y", _N, _D),
    "in": Function(
        written="x in [y, ...]",
        means="whether x is one of some constants",
        signatures=_same(*_ALL, gives=_B),
        range=_truth,
        constants=True,
        ask=True,
    ),
    "not in": Function(
        written="x not in [y, ...]",
        means="whether x is none of some constants",
        signatures=_same(*_ALL, gives=_B),
        range=_truth,
        constants=True,
        ask=True,
    ),
    "and": Function(
        written="a and b",
        means="whether both hold; false as soon as one does not, whatever is missing",
        signatures=_same(_B),
        range=_truth,
    ),
    "or": Function(
        written="a or b",
        means="whether one of them holds; true as soon as one does, whatever is missing",
        signatures=_same(_B),
        range=_truth,
    ),
    "not": Function(written="not a", means="whether it does not hold", signatures=_of(_B, gives=_B), range=_truth),
    "case": Function(
        written="case(a, x, b, y, ..., z)",
        means="x where a holds, else y where b does, ..., else z; missing where none holds and there is no z. "
        "`x if a else z` is case(a, x, z)",
        signatures=tuple(Cases(takes=(_B, each), gives=each) for each in _ALL),
        range=ranges.chosen,
        whole=_if_parts,
        ask=True,
    ),
    "coalesce": Function(
        written="coalesce(x, y, ...)",
        means="the first that is not missing",
        signatures=_same(*_ALL),
        range=ranges.union,
        whole=_if_parts,
        ask=True,
    ),
    "missing": Function(
        written="missing(x)",
        means="whether it is missing; never missing itself",
        signatures=_of(*_ALL, _C, gives=_B),
        range=_truth,
    ),
    "number": Function(
        written="number(x)",
        means="a column as numbers, a text as the number that it spells, true as 1 and false as 0",
        signatures=_of(_N, _T, _B, _C, gives=_N),
        range=lambda found: found[0],
        whole=_if_read,
    ),
    "text": Function(
        written="text(x)",
        means="a column as texts, a date as 2025-01-31, a truth value as true or false",
        signatures=_of(_T, _B, _D, _C, gives=_T),
        range=_nothing,
    ),
    "date": Function(
        written="date(x)",
        means='a column as dates, a text as the date that it spells; date("2025-01-31") is a constant',
        signatures=_of(_D, _T, _C, gives=_D),
        range=lambda found: _D.everything if found[0] == _N.everything else found[0],
    ),
    "year": Function(written="year(d)", means="the year", signatures=_of(_D, gives=_N), range=_years, whole=_always),
    "quarter": _part("quarter", "the quarter of the year, 1 to 4", 1.0, 4.0),
    "month": _part("month", "the month, 1 to 12", 1.0, 12.0),
    "week": _part("week", "the week of the year by ISO 8601, 1 to 53", 1.0, 53.0),
    "day": _part("day", "the day of the month, 1 to 31", 1.0, 31.0),
    "weekday": _part("weekday", "the day of the week, 1 for Monday to 7 for Sunday", 1.0, 7.0),
    "hour": Function(
        written="hour(c)",
        means="the hour of a column of timestamps, 0 to 23",
        signatures=_of(_C, gives=_N),
        range=_between(0.0, 23.0),
        whole=_always,
    ),
    "floor": _rounding("floor", "the whole number at or below x", ranges.rounded_down),
    "ceil": _rounding("ceil", "the whole number at or above x", ranges.rounded_up),
    "round": _rounding("round", "the nearest whole number, a half away from zero", ranges.rounded),
    "abs": Function(
        written="abs(x)", means="the size of x", signatures=_of(_N, gives=_N), range=ranges.size, whole=_if_parts
    ),
    "min": Function(
        written="min(x, y, ...)",
        means=f"the least, of numbers or dates; {_MISSING}",
        signatures=_same(_N, _D),
        range=ranges.least,
        whole=_if_parts,
    ),
    "max": Function(
        written="max(x, y, ...)",
        means=f"the largest, of numbers or dates; {_MISSING}",
        signatures=_same(_N, _D),
        range=ranges.largest,
        whole=_if_parts,
    ),
    "clip": Function(
        written="clip(x, lower, upper)",
        means="x, or the end that it is beyond: min(max(x, lower), upper)",
        signatures=tuple(Signature(takes=(each,) * 3, gives=each) for each in (_N, _D)),
        range=ranges.clipped,
        whole=_if_parts,
    ),
    "bin": Function(
        written="bin(x, width); bin(x, edge, edge, ...)",
        means="the lower end of the bin that x lies in: floor(x / width) * width, or one of rising edges; each bin "
        "holds its lower edge, the last one its upper edge too, and beyond the edges the value is missing",
        signatures=(Signature(takes=(_N, _N), gives=_N, repeated=True),),
        range=ranges.binned,
        whole=_if_others,
        constants=True,
    ),
    "starts": Function(
        written='starts(x, "...")',
        means="whether a text begins with another, byte by byte",
        signatures=(Signature(takes=(_T, _T), gives=_B),),
        range=_truth,
    ),
    "ends": Function(
        written='ends(x, "...")',
        means="whether a text ends with another",
        signatures=(Signature(takes=(_T, _T), gives=_B),),
        range=_truth,
    ),
    "contains": Function(
        written='contains(x, "...")',
        means="whether a text holds another",
        signatures=(Signature(takes=(_T, _T), gives=_B),),
        range=_truth,
    ),
}
"""Every function and operator by its name."""

DATED: Mapping[tuple[str, tuple[ValueType, ...]], Callable[[ranges.Ranges], Range]] = {
    ("+", (_D, _N)): ranges.days_later,
    ("+", (_N, _D)): lambda found: ranges.days_later((found[1], found[0])),
    ("-", (_D, _N)): ranges.days_before,
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
        "a value must follow from its row alone; ask a query for it, or [per_unit] for one value a unit",
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
