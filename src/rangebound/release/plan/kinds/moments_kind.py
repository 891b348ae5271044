"""Questions about how the values of two columns go together, from bounded moments."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from rangebound.release.noise.allocation import Sensitivity
from rangebound.release.noise.draw import Coordinates
from rangebound.release.noise.moment_intervals import ALPHA, BETA, GAMMA
from rangebound.release.plan.kinds.two_columns_kind import TwoColumnsKind
from rangebound.release.plan.measure import ONE, Counted, Found, GroupSums, Measure, Measures, Product, Square, Value
from rangebound.release.plan.ranged_column import RangedColumn
from rangebound.release.plan.sensitivity import touched
from rangebound.release.plan.unit import Unit

_SQUARE = ALPHA**2 + BETA**2 + GAMMA**2
_ROUNDED = Fraction(18, ONE)  # of what a row adds in L1, by fixed point


class MomentsKind(TwoColumnsKind):
    """A question about the columns `x` and `y`, answered from their first and second moments."""

    x: RangedColumn
    y: RangedColumn

    @property
    def reads_also(self) -> Mapping[str, RangedColumn]:
        """Both columns."""
        return {"x": self.x, "y": self.y}

    def measures(self, unit: Unit, groups: float) -> Measures:
        """The rows within the contribution bounds, their values in fixed point, and squares and product of these."""
        x, y = self.x.values, self.y.values
        both = Product(of=(Value(of=x), Value(of=y)))
        of: dict[str, Measure] = {
            "x": Value(of=x),
            "y": Value(of=y),
            "xx": Square(of=x),
            "yy": Square(of=y),
            "xy": both,
        }
        return GroupSums(rows=self.counted_rows, of={"n": Counted(), **of})

    def coordinates(self, found: Found, unit: Unit) -> Coordinates:
        """a n, b u, b v, c u^2, c v^2 and 2 c u v, summed over rows, for u = x + y - 1 and v = x - y."""
        n = Fraction(found.get("n", 0))
        x, y, xx, yy, xy = (Fraction(found.get(name, 0), ONE) for name in ("x", "y", "xx", "yy", "xy"))
        uu, vv, uv = xx + yy + 2 * xy - 2 * x - 2 * y + n, xx + yy - 2 * xy, xx - yy - x + y
        return ALPHA * n, BETA * (x + y - n), BETA * (x - y), GAMMA * uu, GAMMA * vv, 2 * GAMMA * uv

    def sensitivity(self, unit: Unit, groups: float) -> Sensitivity:
        """L1 r g, L2 r sqrt(s g) with s = a^2 + b^2 + c^2 = 0.395, for a = 3/20, b = 7/20 and c = 1/2; nearly.

        For x and y from 0 to 1, |u| + |v| = max(|2 x - 1|, |2 y - 1|) <= 1 for u = x + y - 1 and v = x - y: first
        moments of both columns fit into the room of one. So do the second: u^2 + v^2 + 2 |u v| = (|u| + |v|)^2 <= 1.
        With a + b + c = 1 a row adds at most 1 in L1. L2: u^2 + v^2 <= 1 and u^4 + v^4 + 4 u^2 v^2 <= (|u| + |v|)^4
        <= 1, so that the squares add up to at most s; at u = 1 and v = 0 both are attained.

        Replace: the unit is taken away and another put in its place, 2 g steps of r in L1, two of which may be in one
        group. In a group that it leaves with n rows and enters with m, L1 is at most a |n - m| + (b + c) (n + m), which
        for n, m <= r is at most 2 (b + c) r = 1.7 r; where all groups are such ones, that is taken. L2: what r rows add
        is r times a point of the convex hull of 0 and all f(x, y), and the distance of two such points is largest
        between two of these. From 0 it is at most s. For f and f' the squares, without a, add up to
        b^2 (|w|^2 + |w'|^2 - 2 t) + c^2 (q + q' - 2 e), w = (u, v), q = u^4 + v^4 + 4 u^2 v^2, t = u u' + v v' and
        e = t^2 + 2 u u' v v'. There -2 b^2 t - 2 c^2 t^2 <= b^4 / (2 c^2). If u u' v v' >= 0, all of it is at most
        2 (b^2 + c^2) + b^4 / (2 c^2). If not, let p = |u v| and p' = |u' v'| be at most 1/4: q <= (1 - 2 p)^2 + 2 p^2
        <= 1 - 5 p / 2, and -4 c^2 u u' v v' = 4 c^2 p p' <= c^2 (p + p') / 2, which that outweighs: the same bound. It
        is less than 2 s, since b^2 <= 2 a c. So in all groups together the square is at most 2 s r^2 g.

        Fixed point: squares and the product of a row are rounded down to multiples of 1 / ONE, and each sum of a unit
        that has too many rows once more. The first moves the coordinates by less than 12 c / ONE in L1 for each row,
        the second by less than (4 b + 20 c) / ONE: together by less than 18 r / ONE.
        """
        (own, _), rows = touched(unit, groups), unit.most_rows
        if not unit.replaced:
            square = _SQUARE + 2 * _ROUNDED
            return Sensitivity(cell=rows * (1 + _ROUNDED), groups=own, square=rows**2 * own * square)
        square = 2 * _SQUARE + 4 * _ROUNDED
        if groups == own:
            cell = 2 * (BETA + GAMMA + _ROUNDED)
            return Sensitivity(cell=rows * cell, groups=own, square=rows**2 * own * square)
        cell = rows * (1 + _ROUNDED)
        return Sensitivity(cell=cell, groups=2 * own, square=rows**2 * own * square, twice=True)

    @property
    def subject(self) -> tuple[str, str]:
        """Both columns and their ranges."""
        return f" of {self.x.subject}, and {self.y.subject}", ""
