"""Arithmetic of doubles that no row can stop, in the SQL of PostgreSQL: one correctly rounded operation, or NULL.

PostgreSQL stops a statement where a result overflows, and where a product or quotient of numbers that are not 0 is 0.
So the result is computed only where it is known to be neither. The operands are finite or NULL, and stand several times
in what is made of them.

Where both are of moderate size that is plain. Elsewhere a finite double is, but for its sign, a whole number of
2^-1074, and PostgreSQL computes with whole numbers of thousands of digits exactly. IEEE 754 rounds an exact result of
2^1024 - 2^970 or more to infinity, and one of at most 2^-1075 to 0 (the tie goes to the even one); so two comparisons
of whole numbers decide.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp, parse_one

_UNITS = 1074  # a double is a whole number of 2^-1074
_HALFWAY = 2**54 - 1  # times 2^970: half way between the largest double and 2^1024
_BITS = "('x' || encode(float8send({0}), 'hex'))::bit(64)::bigint"
_MANTISSA = (
    f"(CASE WHEN ({_BITS} & 9218868437227405312) = 0 THEN 0 ELSE 4503599627370496 END"
    f" + ({_BITS} & 4503599627370495))::numeric"
)
_PLACE = f"(greatest(({_BITS} >> 52) & 2047, 1) - 1)"  # |x| = mantissa 2^(place - 1074)
_WHOLE = f"{_MANTISSA} * power(2::numeric, {_PLACE})"
_MODERATE = "abs({0}) BETWEEN 1e-150::float8 AND 1e150::float8"
_BOTH = f"{_MODERATE.format('x')} AND {_MODERATE.format('y')}"
_SIDES = f"(SELECT {_WHOLE.format('x')} AS a, {_WHOLE.format('y')} AS b OFFSET 0) AS sides"

# A product of sizes from 1e-300 to 1e300, and one with a factor 0, cannot fail. A product of whole numbers of 2^-1074
# is one of 2^-2148.
_PRODUCT = f"""CASE
    WHEN x = 0::float8 OR y = 0::float8 OR ({_BOTH}) THEN x * y
    WHEN NOT x IS NULL AND NOT y IS NULL THEN (SELECT CASE
        WHEN a * b >= {_HALFWAY << 970 + 2 * _UNITS} THEN NULL::float8
        WHEN a * b <= {1 << 2 * _UNITS - 1075} THEN 0::float8
        ELSE x * y END FROM {_SIDES}) END"""
# x / y is at least a limit where x is at least y times the limit; y is not 0.
_QUOTIENT = f"""CASE
    WHEN x = 0::float8 OR ({_BOTH}) THEN x / y
    WHEN NOT x IS NULL AND NOT y IS NULL THEN (SELECT CASE
        WHEN a >= b * {_HALFWAY << 970} THEN NULL::float8
        WHEN a * {1 << 1075} <= b THEN 0::float8
        ELSE x / y END FROM {_SIDES}) END"""
# Below 8e307 the sum is below 1.6e308; a sum of opposite signs is no larger than the larger one. A sum that is not 0 is
# never rounded to 0, since it is a whole number of 2^-1074.
_SUM = f"""CASE
    WHEN abs(x) <= 8e307::float8 AND abs(y) <= 8e307::float8 OR (x < 0::float8) <> (y < 0::float8) THEN x {{sign}} y
    WHEN NOT x IS NULL AND NOT y IS NULL THEN (SELECT CASE
        WHEN a + b >= {_HALFWAY << 970 + _UNITS} THEN NULL::float8
        ELSE x {{sign}} y END FROM {_SIDES}) END"""
_DIFFERENCE = _SUM.format(sign="-").replace("<> (y < 0::float8)", "= (y < 0::float8)")
# The remainder of whole numbers below 2^53, or in units of 2^p, with the smaller place p of the two, that of whole
# numbers: it is no larger than the mantissa of one of them, so it is a double, which its decimal digits spell.
_REMAINDER = f"""CASE
    WHEN abs(x) < abs(y) THEN x
    WHEN abs(x) < 9007199254740992::float8 AND x = floor(x) AND y = floor(y) THEN (x::bigint % y::bigint)::float8
    WHEN NOT x IS NULL AND NOT y IS NULL THEN (SELECT sign(x) * CASE
        WHEN p >= {_UNITS} THEN (r * power(2::numeric, p - {_UNITS}))::float8
        ELSE ((r * power(5::numeric, {_UNITS} - p))::text || 'e' || (p - {_UNITS})::text)::float8 END
        FROM (SELECT mod(m * power(2::numeric, u - least(u, v)), n * power(2::numeric, v - least(u, v))) AS r,
            least(u, v) AS p FROM (SELECT {_MANTISSA.format("x")} AS m, {_PLACE.format("x")} AS u,
            {_MANTISSA.format("y")} AS n, {_PLACE.format("y")} AS v OFFSET 0) AS parts OFFSET 0) AS rest) END"""
_OPERATIONS = {
    exp.Add: _SUM.format(sign="+"),
    exp.Sub: _DIFFERENCE,
    exp.Mul: _PRODUCT,
    exp.Div: _QUOTIENT,
    exp.Mod: _REMAINDER,
}


def computed(operation: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """One operation on doubles that are finite or NULL; a divisor is not 0. NULL where the result is infinite.

    Guarantee: else the double nearest to the exact result, ties to even; the sign of a 0 is not defined.
    """
    sides: dict[str, Callable[[], exp.Expr]] = {"x": left.copy, "y": right.copy}

    def put(node: exp.Expr) -> exp.Expr:
        return sides[node.name]() if isinstance(node, exp.Column) and node.name in sides else node

    return exp.Paren(this=parse_one(_OPERATIONS[operation], dialect="postgres").transform(put))
