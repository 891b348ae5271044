"""Small pieces that the families of `exact` share: the ends of spans."""

from __future__ import annotations

import math
from typing import overload

from rangebound.values.ball import Ball, End, ball, is_taylor


def finite_end(x: float) -> End:
    """An end of a span as a ball; None where it is infinite."""
    return None if math.isinf(x) else ball(x)


@overload
def shifted(x: Ball, p: Ball) -> Ball: ...


@overload
def shifted(x: None, p: Ball) -> None: ...


@overload
def shifted(x: End, p: Ball) -> End: ...


def shifted(x: End, p: Ball) -> End:
    """An end as seen from the position `p`."""
    return None if x is None else x - p


def up_to(d: Ball) -> Ball:
    """A ball around [0, d]."""
    return ball(0.0).union(d)


def near_pair(p: Ball, d: Ball) -> bool:
    """Whether p is the series about a cell that is wider than the distance of the pair."""
    return is_taylor(p) and bool(2 * p[0].rad() > d)
