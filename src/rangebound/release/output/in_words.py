"""Published numbers in words: as many digits as the noise leaves, and an interval that is never too short."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from rangebound.release.output.facts import Published, Row
from rangebound.release.output.rendering import FACTS
from rangebound.release.plan.fields import date
from rangebound.values.arguments import counted
from rangebound.values.support import Interval, Union

_MOST = 12  # numbers of a question that are told one by one


def in_words(release: Published) -> Iterator[tuple[str, list[str]]]:
    """The questions of a table with their numbers in words: those of each up to a dozen, one by one.

    Guarantee: made of published numbers alone, none of which is outside its range; an interval is rounded outwards.
    Edge cases: of more numbers there is one line that says how many. Ranks are told as the keys in their order.
    """
    rows = release.rows()
    for question in release.plan.query:
        own = [row for row in rows if row["query"] == question.name]
        columns = [name for name in (own[0] if own else ()) if name not in FACTS]
        told = f"{question.name} ({question.kind})"
        if question.selected is not None or not own:
            continue
        if len(own) > _MOST:
            unreliable = sum(bool(row["unreliable"]) for row in own)
            rest = f", {unreliable:,} of them unreliable" if unreliable else ""
            yield told, [f"{counted(f'{len(own):,}', 'number')}{rest}; see the picture and the table"]
            continue
        allowed = question.published_in(release.plan.unit_of(question))
        if len({row["part"] for row in own}) > 1:
            columns.append("part")
        yield told, [_line(row, columns, allowed) for row in own]


def _line(row: Row, columns: list[str], allowed: Interval | Union) -> str:
    """One number with what it is of."""
    of = ", ".join(str(row[name]) for name in columns if row[name])
    return f"{of}: {spoken(row, allowed)}" if of else spoken(row, allowed)


def spoken(row: Row, allowed: Interval | Union) -> str:
    """A number with its interval, in as many digits as the interval leaves.

    >>> row = {"value": 1838.0, "lower": 1756.2, "upper": 1919.8, "unreliable": False, "date": False}
    >>> spoken(row, Interval(0, math.inf))
    'about 1,840, between 1,756 and 1,920'
    >>> spoken({**row, "unreliable": True}, Interval(0, 1919.8))
    'too uncertain to say; between 1,756 and 1,919.8'
    >>> spoken({**row, "lower": -math.inf, "upper": math.inf, "unreliable": True}, Interval(0, 1900.0))
    'too uncertain to say; any number may be the true one'
    """
    value, lower, upper = row["value"], row["lower"], row["upper"]
    if row["date"]:
        first, last = (date(each).isoformat() for each in (lower, upper))
        return date(value).isoformat() + (f", between {first} and {last}" if first != last else "")
    low, high, digit = outwards(lower, upper)
    low = max(low, _exact(min(allowed.hull.lower, lower)))  # true answers may lie outside of what is published
    high = min(high, _exact(max(allowed.hull.upper, upper)))
    if low == high:
        return plain_number(low)
    between = _between(low, high)
    if row["unreliable"]:
        return f"too uncertain to say; {between}"
    low, high = max(low, _exact(allowed.hull.lower)), min(high, _exact(allowed.hull.upper))
    return f"about {plain_number(min(max(rounded(value, digit, ROUND_HALF_EVEN), low), high))}, {between}"


def _between(low: Decimal, high: Decimal) -> str:
    if low.is_infinite() and high.is_infinite():
        return "any number may be the true one"
    if low.is_infinite() or high.is_infinite():
        return f"at {'most' if low.is_infinite() else 'least'} {plain_number(high if low.is_infinite() else low)}"
    return f"between {plain_number(low)} and {plain_number(high)}"


def outwards(lower: float, upper: float) -> tuple[Decimal, Decimal, Decimal]:
    """An interval that is rounded outwards to a tenth of the first digit of half its width, and that digit's unit.

    >>> outwards(19.476, 31.528)
    (Decimal('19.4'), Decimal('31.6'), Decimal('1'))
    """
    half = 0.5 * (upper - lower)
    if not 0.0 < half < math.inf:
        finite = [abs(_exact(end)) for end in (upper, lower) if math.isfinite(end) and end != 0.0]
        return _exact(lower), _exact(upper), finite[0] if finite else Decimal(1)
    digit = Decimal(1).scaleb(math.floor(math.log10(half)))
    return rounded(lower, digit / 10, ROUND_FLOOR), rounded(upper, digit / 10, ROUND_CEILING), digit


def rounded(x: float, digit: Decimal, way: str) -> Decimal:
    """A number as a multiple of `digit`, the next one in a direction."""
    return (_exact(x) / digit).to_integral_value(way) * digit


def plain_number(x: Decimal) -> str:
    """A number with thousands apart, without zeros at its end.

    >>> plain_number(Decimal("12340.50")), plain_number(Decimal("-0.0")), plain_number(Decimal("-inf"))
    ('12,340.5', '0', '-inf')
    """
    if x.is_infinite():
        return str(float(x))
    text = f"{x:,f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def _exact(x: float) -> Decimal:
    """The decimal that a number prints as."""
    return Decimal(repr(x))
