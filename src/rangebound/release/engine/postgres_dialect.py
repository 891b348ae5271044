"""The SQL of PostgreSQL.

A statement that no row can stop needs care here: a cast of a text raises, arithmetic raises (`postgres_arithmetic`),
and of the parts of an AND any may be computed first. So whatever could fail is in a branch of a CASE of its own. Texts
are compared and sorted as their bytes: every text that a statement makes has the collation "C".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from rangebound.release.engine.dialect import Dialect
from rangebound.release.engine.postgres_arithmetic import computed
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


class _Postgres(Dialect):
    """With `few`, no table that is summed has 2^33 rows or more."""

    name = "postgres"
    wide = "NUMERIC"
    most_whole = 2**127 - 1
    timestamp = "TIMESTAMP"
    tables_in_choices = True
    ranks_rows = True
    stops = True

    def __init__(self, *, few: bool) -> None:
        self._few = few

    def written(self, tree: exp.Expr) -> str:
        root = exp.Paren(this=tree.copy())
        for node in reversed(list(root.walk())):  # what stands in a node before the node
            rule, parent, key, index = _RULES.get(type(node)), node.parent, node.arg_key, node.index
            if rule is not None and parent is not None and key is not None:
                other = rule(node, parent)
                if other is not node:
                    parent.set(key, other, index)
        written: str = root.this.sql(self.name, copy=False)
        return written

    def misfit(self, name: str) -> str:
        rule = f"the name of a column must not be longer than {_LONGEST_NAME} bytes, which is all that PostgreSQL keeps"
        return rule if len(name.encode()) > _LONGEST_NAME else ""

    def added(self, tree: exp.Expr) -> exp.Expr:
        """Numbers of 64 bits have a sum of 128, and longer ones a longer sum: what is added to 0 is one of both."""
        return exp.Sum(this=exp.Add(this=exp.Paren(this=tree), expression=exp.cast(_whole(0), "BIGINT")))

    def added_rows(self, tree: exp.Expr) -> exp.Expr:
        """Numbers of 32 bits have a sum of 64, which is enough for fewer than 2^33 of them."""
        return exp.Sum(this=exp.cast(tree, "INT" if self._few else "BIGINT"))

    def times(self, amount: exp.Expr, factor: exp.Expr) -> exp.Expr:
        return super().times(exp.cast(amount, "NUMERIC"), factor)

    def computed(self, operation: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
        return computed(operation, left, right)

    def scaled(self, value: exp.Expr, factor: float) -> exp.Expr:
        """A value that is tiny beside the unit of the result is moved away from 0, so that the product is not 0.

        A factor of 1 or more makes no number 0, so nothing is moved.
        What is added is 2^-200 units: of a value of 2^-147 units or more less than half of the last place, so nothing
        changes; a smaller one is rounded to the same whole number either way.
        """
        if factor >= 1.0:
            return super().scaled(value, factor)
        moved = exp.Paren(this=exp.Add(this=value, expression=_double(_TINY / factor)))
        return exp.Mul(this=moved, expression=_double(factor))

    def whole_quotient(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        return exp.Paren(this=exp.Div(this=first, expression=second, typed=True))

    def apart(self, rows: exp.Select) -> exp.Select:
        """PostgreSQL would copy the expressions of a selection to all places above where they are read.

        It leaves alone a selection with a function whose value may change, and all processes of the server may share
        the work where that function is one like this one. It is never called: the constant CASE is computed before.
        """
        changing = exp.Anonymous(this="PG_IS_IN_RECOVERY", expressions=[])
        never = exp.alias_(_choice((exp.false(), changing)), _APART, quoted=True)
        return rows.select(never, copy=False)

    def hexadecimal(self, digits: exp.Expr) -> exp.Expr:
        padded = exp.Anonymous(this="LPAD", expressions=[digits, _whole(8), exp.Literal.string("0")])
        bits = exp.DPipe(this=exp.Literal.string("x"), expression=padded)
        return exp.cast(exp.cast(exp.Paren(this=bits), "BIT(32)", dialect=self.name), "BIGINT")

    def start(self, day: exp.Expr, period: str) -> exp.Expr:
        return exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string(period), exp.cast(day, "TIMESTAMP")])

    def unfolded(
        self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str, count: int | None
    ) -> exp.Select:
        lists = [
            exp.Anonymous(this="STRING_TO_ARRAY", expressions=[exp.Literal.string(each), exp.Literal.string(separator)])
            for each in texts
        ]
        texts_of = list(names) if count is None else list(names[1:])
        place = exp.to_identifier("rangebound_place", quoted=True)
        alias = exp.TableAlias(this=exp.to_identifier("t"), columns=[each.copy() for each in texts_of])
        rows = exp.Unnest(expressions=lists, alias=alias, offset=None if count is None else place.copy())
        columns: list[exp.Expr] = [exp.column(each.copy()) for each in texts_of]
        if count is not None:
            index = exp.Sub(this=exp.column(place.copy()), expression=_whole(1))
            columns.insert(0, exp.alias_(exp.Paren(this=index), names[0], quoted=True))
        return exp.select(*columns, copy=False).from_(rows, copy=False)

    def item(self, numbers: Sequence[str], place: exp.Expr, *, whole: bool) -> exp.Expr:
        listed = exp.cast(exp.Literal.string("{" + ",".join(numbers) + "}"), "DECIMAL[]" if whole else "DOUBLE[]")
        return exp.Bracket(this=exp.Paren(this=listed), expressions=[place], offset=1)  # counted from 1 already


def _whole(value: int) -> exp.Expr:
    return exp.Literal.number(str(value))


def _double(value: float) -> exp.Expr:
    return exp.cast(exp.Literal.string(repr(value)), "DOUBLE")


def _collated(tree: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Collate(this=tree, expression=exp.to_identifier("C", quoted=True)))


def _choice(*cases: tuple[exp.Expr, exp.Expr], otherwise: exp.Expr | None = None) -> exp.Expr:
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in cases], default=otherwise)


def _matches(tree: exp.Expr, pattern: str) -> exp.Expr:
    return exp.RegexpLike(this=tree.copy(), expression=exp.Literal.string(pattern))


def _longer(tree: exp.Expr, characters: int) -> tuple[exp.Expr, exp.Expr]:
    """A text with more characters is missing: of 270 million letters, a pattern takes more memory than there can be."""
    return exp.GT(this=exp.Length(this=tree.copy()), expression=_whole(characters)), exp.Null()


def _read_double(text: exp.Expr) -> exp.Expr:
    """Up to 300 digits without a power of ten are from 1e-299 to 1e300, or 0; others are compared as decimals first."""
    numeral = _matches(text, _NUMERAL)
    short = exp.LTE(this=exp.Length(this=text.copy()), expression=_whole(300))
    plain = exp.And(this=short, expression=exp.Not(this=exp.Paren(this=_matches(text, "[eE]"))))
    value, decimal = exp.cast(text.copy(), "DOUBLE"), exp.cast(text.copy(), "NUMERIC")
    size, overflow = exp.Abs(this=decimal.copy()), _whole(OVERFLOW)
    rounded = _choice(
        (exp.GTE(this=decimal.copy(), expression=overflow), _double(float("inf"))),
        (exp.LTE(this=decimal, expression=exp.Neg(this=overflow.copy())), _double(float("-inf"))),
        (exp.LTE(this=size, expression=exp.cast(exp.Literal.string(UNDERFLOW), "NUMERIC")), _double(0.0)),
        otherwise=value.copy(),
    )
    return _choice(
        _longer(text, 1000),
        (exp.And(this=numeral, expression=plain), value),
        (numeral.copy(), rounded),
    )


def _read_date(text: exp.Expr) -> exp.Expr:
    there = exp.NEQ(this=exp.Left(this=text.copy(), expression=_whole(4)), expression=exp.Literal.string("0000"))
    inside = exp.And(this=_matches(text, _CALENDAR), expression=there)
    return _choice(_longer(text, 10), (inside, exp.cast(text, "DATE")))


def _read_whole(text: exp.Expr) -> exp.Expr:
    return _choice(_longer(text, 9), (_matches(text, r"^[0-9]{1,9}\Z"), exp.cast(text, "INT")))


_READ: dict[str, Callable[[exp.Expr], exp.Expr]] = {"DOUBLE": _read_double, "DATE": _read_date, "INT": _read_whole}


# What is written in another way than sqlglot would, given a node and the one it stands in.
def _tried(node: exp.Expr, _: exp.Expr) -> exp.Expr:
    return _READ[node.args["to"].this.name](node.this)


def _cast(node: exp.Expr, parent: exp.Expr) -> exp.Expr:
    textual = node.args["to"].is_type(exp.DataType.Type.TEXT) and not isinstance(parent, exp.Collate)
    return _collated(node) if textual else node


_UNCOLLATED = (exp.Cast, exp.TryCast, exp.Collate, exp.Interval)


def _literal(node: exp.Expr, parent: exp.Expr) -> exp.Expr:
    if not node.args.get("is_string") or isinstance(parent, _UNCOLLATED):
        return node
    text = node.this.replace(r"\z", r"\Z") if isinstance(parent, exp.RegexpLike) else node.this
    return _collated(exp.Literal.string(text))


def _days_between(node: exp.Expr, _: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Sub(this=node.this, expression=node.expression))


def _days_later(node: exp.Expr, _: exp.Expr) -> exp.Expr:
    return exp.Paren(this=exp.Add(this=node.this, expression=node.expression))


def _contains(node: exp.Expr, _: exp.Expr) -> exp.Expr:
    place = exp.Anonymous(this="STRPOS", expressions=[node.this, node.expression])
    return exp.Paren(this=exp.GT(this=place, expression=_whole(0)))


def _ends(node: exp.Expr, _: exp.Expr) -> exp.Expr:
    last = exp.Right(this=node.this, expression=exp.Length(this=node.expression.copy()))
    return exp.Paren(this=exp.EQ(this=last, expression=node.expression))


_RULES: dict[type[exp.Expr], Callable[[exp.Expr, exp.Expr], exp.Expr]] = {
    exp.TryCast: _tried,
    exp.Cast: _cast,
    exp.Literal: _literal,
    exp.DateDiff: _days_between,
    exp.DateAdd: _days_later,
    exp.Contains: _contains,
    exp.EndsWith: _ends,
}

POSTGRES = _Postgres(few=False)
POSTGRES_OF_FEW = _Postgres(few=True)
FEW = 2**33
"""With fewer rows than this the sums of a statement have 64 bits."""
