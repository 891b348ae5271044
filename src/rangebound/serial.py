"""Numbers and supports as plain data: a double as itself, an infinity as a string."""

from __future__ import annotations

import math
from typing import Any

from rangebound import arguments
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.support import Grid, Interval, Support, Union

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}


def number(x: float) -> float | str:
    """A double in a form that JSON can hold and `parse_number` reads back exactly."""
    return x if math.isfinite(x) else ("inf" if x > 0 else "-inf")


def parse_number(value: object) -> float:
    """The double that `number` wrote."""
    if isinstance(value, str):
        if value not in _INFINITIES:
            raise ArgumentTypeError(f'number={arguments.shown(value)}: must be a number, "inf" or "-inf"')
        return _INFINITIES[value]
    return arguments.finite("number", value)


def support_to_dict(support: Support) -> dict[str, Any]:
    """A support as plain data."""
    if isinstance(support, Grid):
        within = [support.within.lower, support.within.upper]
        return {"grid": {"step": support.step, "within": within}}
    spans = [[number(lower), number(upper)] for lower, upper in support.spans]
    return {"interval": spans[0]} if isinstance(support, Interval) else {"union": spans}


def support_from_dict(data: dict[str, Any]) -> Support:
    """The support that `support_to_dict` wrote."""
    match data:
        case {"interval": [lower, upper], **rest} if not rest:
            return Interval(parse_number(lower), parse_number(upper))
        case {"union": [*spans], **rest} if not rest and all(isinstance(each, list) for each in spans):
            return Union(*(tuple(map(parse_number, span)) for span in spans))
        case {"grid": {"step": step, "within": [lower, upper]}, **rest} if not rest:
            return Grid(step=parse_number(step), within=Interval(parse_number(lower), parse_number(upper)))
    raise ArgumentError(
        f"support={arguments.shown(data)}: must be an interval, a union or a grid, "
        "such as {'grid': {'step': 1, 'within': [0, 10]}}"
    )
