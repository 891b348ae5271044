"""The SQL of PostgreSQL.

A statement that no row can stop needs care here: a cast of a text raises, arithmetic raises, and of the parts of an AND
any may be computed first. So whatever could fail is in a branch of a CASE of its own. Texts are compared and sorted as
their bytes: every text that a statement makes has the collation "C".

Arithmetic of doubles is one correctly rounded operation, or NULL. PostgreSQL stops a statement where a result
overflows, and where a product or quotient of numbers that are not 0 is 0. So the result is computed only where it is
known to be neither. The operands are finite or NULL, and stand several times in what is made of them. Where both are of
moderate size that is plain. Elsewhere a finite double is, but for its sign, a whole number of 2^-1074, and PostgreSQL
computes with whole numbers of thousands of digits exactly. IEEE 754 rounds an exact result of 2^1024 - 2^970 or more to
infinity, and one of at most 2^-1075 to 0 (the tie goes to the even one); so two comparisons of whole numbers decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp, parse_one

from rangebound.release.engine.dialect import Dialect, Tree, call, choice, double, integer, matches, text
from rangebound.release.plan.condition import HIDDEN

_APART = f"{HIDDEN}apart"
_LONGEST_NAME = 63  # bytes; PostgreSQL cuts off what is longer
_NUMERAL = r"^ *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,3})? *\Z"
_LEAP = "(([02468][048]|[13579][26])00|[0-9]{2}(0[48]|[2468][048]|[13579][26]))-02-29"
_CALENDAR = (
    rf"^([0-9]{{4}}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    rf"|02-(0[1-9]|1[0-9]|2[0-8]))|{_LEAP})\Z"
)
OVERFLOW = (2**54 - 1) << 970
"""From here on a number is not rounded to a finite double."""
UNDERFLOW = f"{5**1075}e-1075"
"""2^-1075: a number up to here is rounded to 0."""
_TINY = 2.0**-200


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


class _Postgres(Dialect):
    """With `few`, no table that is summed has 2^33 rows or more."""

    name = "postgres"
    wide = "NUMERIC"
    most_whole = 2**127 - 1
    timestamp = "TIMESTAMP"
    tables_in_choices = True
    stops = True

    def __init__(self, *, few: bool) -> None:
        self._few = few

    def written(self, tree: Tree) -> str:
        root = exp.Paren(this=tree.copy())
        for node in reversed(list(root.walk())):  # what stands in a node before the node
            rule, parent, key, index = _RULES.get(type(node)), node.parent, node.arg_key, node.index
            if rule is not None and parent is not None and key is not None:
                other = rule(node, parent)
                if other is not node:
                    parent.set(key, other, index)
        written: str = root.this.sql(self.name, copy=False)
        return written

    def decimal(self, scale: int) -> str:
        return "NUMERIC"

    def misfit(self, name: str) -> str:
        rule = f"the name of a column must not be longer than {_LONGEST_NAME} bytes, which is all that PostgreSQL keeps"
        return rule if len(name.encode()) > _LONGEST_NAME else ""

    def added(self, tree: Tree) -> Tree:
        """Numbers of 64 bits have a sum of 128, and longer ones a longer sum: what is added to 0 is one of both."""
        return exp.Sum(this=exp.Add(this=exp.Paren(this=tree), expression=exp.cast(integer(0), "BIGINT")))

    def added_rows(self, tree: Tree) -> Tree:
        """Numbers of 32 bits have a sum of 64, which is enough for fewer than 2^33 of them."""
        return exp.Sum(this=exp.cast(tree, "INT" if self._few else "BIGINT"))

    def times(self, amount: Tree, factor: Tree) -> Tree:
        return super().times(exp.cast(amount, "NUMERIC"), factor)

    def computed(self, operation: type[exp.Binary], left: Tree, right: Tree) -> Tree:
        """As stated, by the rules of IEEE 754; the sign of a 0 is not defined."""
        sides: dict[str, Callable[[], Tree]] = {"x": left.copy, "y": right.copy}

        def put(node: Tree) -> Tree:
            return sides[node.name]() if isinstance(node, exp.Column) and node.name in sides else node

        return exp.Paren(this=parse_one(_OPERATIONS[operation], dialect=self.name).transform(put))

    def scaled(self, value: Tree, factor: float) -> Tree:
        """A value that is tiny beside the unit of the result is moved away from 0, so that the product is not 0.

        A factor of 1 or more makes no number 0, so nothing is moved.
        What is added is 2^-200 units: of a value of 2^-147 units or more less than half of the last place, so nothing
        changes; a smaller one is rounded to the same whole number either way.
        """
        if factor >= 1.0:
            return super().scaled(value, factor)
        moved = exp.Paren(this=exp.Add(this=value, expression=double(_TINY / factor)))
        return exp.Mul(this=moved, expression=double(factor))

    def whole_quotient(self, first: Tree, second: Tree) -> Tree:
        return exp.Paren(this=exp.Div(this=first, expression=second, typed=True))

    def apart(self, rows: exp.Select) -> exp.Select:
        """PostgreSQL would copy the expressions of a selection to all places above where they are read.

        It leaves alone a selection with a function whose value may change, and all processes of the server may share
        the work where that function is one like this one. It is never called: the constant CASE is computed before.
        """
        never = exp.alias_(choice((exp.false(), call("PG_IS_IN_RECOVERY"))), _APART, quoted=True)
        return rows.select(never, copy=False)

    def hexadecimal(self, digits: Tree) -> Tree:
        bits = exp.DPipe(this=text("x"), expression=call("LPAD", digits, integer(8), text("0")))
        return exp.cast(exp.cast(exp.Paren(this=bits), "BIT(32)", dialect=self.name), "BIGINT")

    def start(self, day: Tree, period: str) -> Tree:
        return call("DATE_TRUNC", text(period), exp.cast(day, "TIMESTAMP"))

    def unfolded(
        self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str, count: int | None
    ) -> exp.Select:
        lists = [call("STRING_TO_ARRAY", text(each), text(separator)) for each in texts]
        texts_of = list(names) if count is None else list(names[1:])
        place = exp.to_identifier("rangebound_place", quoted=True)
        alias = exp.TableAlias(this=exp.to_identifier("t"), columns=[each.copy() for each in texts_of])
        rows = exp.Unnest(expressions=lists, alias=alias, offset=None if count is None else place.copy())
        columns: list[Tree] = [exp.column(each.copy()) for each in texts_of]
        if count is not None:
            index = exp.Sub(this=exp.column(place.copy()), expression=integer(1))
            columns.insert(0, exp.alias_(exp.Paren(this=index), names[0], quoted=True))
        return exp.select(*columns, copy=False).from_(rows, copy=False)

    def item(self, numbers: Sequence[str], place: Tree, *, whole: bool) -> Tree:
        listed = exp.cast(text("{" + ",".join(numbers) + "}"), "DECIMAL[]" if whole else "DOUBLE[]")
        return exp.Bracket(this=exp.Paren(this=listed), expressions=[place], offset=1)  # counted from 1 already


def _collated(tree: Tree) -> Tree:
    return exp.Paren(this=exp.Collate(this=tree, expression=exp.to_identifier("C", quoted=True)))


def _long(tree: Tree, most: int) -> tuple[Tree, Tree]:
    """A text with more characters is missing: of 270 million letters, a pattern takes more memory than there can be."""
    return exp.GT(this=exp.Length(this=tree.copy()), expression=integer(most)), exp.Null()


def _read_double(this: Tree) -> Tree:
    """Up to 300 digits without a power of ten are from 1e-299 to 1e300, or 0; others are compared as decimals first."""
    numeral = matches(this.copy(), _NUMERAL)
    short = exp.LTE(this=exp.Length(this=this.copy()), expression=integer(300))
    plain = exp.And(this=short, expression=exp.Not(this=exp.Paren(this=matches(this.copy(), "[eE]"))))
    value, decimal = exp.cast(this.copy(), "DOUBLE"), exp.cast(this.copy(), "NUMERIC")
    rounded = choice(
        (exp.GTE(this=decimal.copy(), expression=integer(OVERFLOW)), double(float("inf"))),
        (exp.LTE(this=decimal.copy(), expression=exp.Neg(this=integer(OVERFLOW))), double(float("-inf"))),
        (exp.LTE(this=exp.Abs(this=decimal), expression=exp.cast(text(UNDERFLOW), "NUMERIC")), double(0.0)),
        otherwise=value.copy(),
    )
    return choice(_long(this, 1000), (exp.And(this=numeral, expression=plain), value), (numeral.copy(), rounded))


def _read_date(this: Tree) -> Tree:
    there = exp.NEQ(this=exp.Left(this=this.copy(), expression=integer(4)), expression=text("0000"))
    inside = exp.And(this=matches(this.copy(), _CALENDAR), expression=there)
    return choice(_long(this, 10), (inside, exp.cast(this, "DATE")))


def _read_whole(this: Tree) -> Tree:
    return choice(_long(this, 9), (matches(this.copy(), r"^[0-9]{1,9}\Z"), exp.cast(this, "INT")))


_READ: dict[str, Callable[[Tree], Tree]] = {"DOUBLE": _read_double, "DATE": _read_date, "INT": _read_whole}


def _cast(node: Tree, parent: Tree) -> Tree:
    textual = node.args["to"].is_type(exp.DataType.Type.TEXT) and not isinstance(parent, exp.Collate)
    return _collated(node) if textual else node


def _literal(node: Tree, parent: Tree) -> Tree:
    if not node.args.get("is_string") or isinstance(parent, (exp.Cast, exp.TryCast, exp.Collate, exp.Interval)):
        return node
    return _collated(text(node.this.replace(r"\z", r"\Z") if isinstance(parent, exp.RegexpLike) else node.this))


def _ends(node: Tree, _: Tree) -> Tree:
    last = exp.Right(this=node.this, expression=exp.Length(this=node.expression.copy()))
    return exp.Paren(this=exp.EQ(this=last, expression=node.expression))


# What is written in another way than sqlglot would, given a node and the one it stands in.
_RULES: dict[type[Tree], Callable[[Tree, Tree], Tree]] = {
    exp.TryCast: lambda node, _: _READ[node.args["to"].this.name](node.this),
    exp.Cast: _cast,
    exp.Literal: _literal,
    exp.DateDiff: lambda node, _: exp.Paren(this=exp.Sub(this=node.this, expression=node.expression)),
    exp.DateAdd: lambda node, _: exp.Paren(this=exp.Add(this=node.this, expression=node.expression)),
    exp.Contains: lambda node, _: exp.Paren(
        this=exp.GT(this=call("STRPOS", node.this, node.expression), expression=integer(0))
    ),
    exp.EndsWith: _ends,
}

POSTGRES = _Postgres(few=False)
POSTGRES_OF_FEW = _Postgres(few=True)
FEW = 2**33
"""With fewer rows than this the sums of a statement have 64 bits."""
