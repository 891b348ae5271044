"""Trees of SQL, and what the statements ask of a database's own SQL: one value for each, in a file of its own.

Statements are trees that mean the same everywhere; what databases write differently is made here.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from sqlglot import exp, parse_one

if TYPE_CHECKING:
    Tree = exp.Expr
else:  # before sqlglot 30, `Expression` was the base of all
    Tree = getattr(exp, "Expr", exp.Expression)


@cache
def _parsed(template: str, dialect: str | None) -> Tree:
    return parse_one(template, dialect=dialect)


def term(template: str, dialect: str | None = None, /, **parts: Tree) -> Tree:
    """A tree from SQL with holes such as `:x`, in which other trees are put; never their text, and none is changed.

    The SQL is our own, or that of a `dialect` of sqlglot.
    """
    root = exp.Paren(this=_parsed(template, dialect).copy())
    for hole in list(root.find_all(exp.Placeholder)):
        hole.replace(parts[hole.name])
    found: Tree = root.this.pop()
    return found


def integer(value: int) -> Tree:
    """A whole number."""
    literal = exp.Literal.number(str(abs(value)))
    return literal if value >= 0 else exp.Paren(this=exp.Neg(this=literal))


def double(value: float) -> Tree:
    """A double, to the last bit: a decimal point alone would make a decimal number of it in one of the engines."""
    return exp.Cast(this=exp.Literal.string(repr(float(value))), to=exp.DataType(this=exp.DType.DOUBLE))


def text(value: str) -> Tree:
    """A text."""
    return exp.Literal.string(value)


def call(function: str, *arguments: Tree) -> Tree:
    """A function by its name in a database."""
    return exp.Anonymous(this=function, expressions=list(arguments))


def choice(*cases: tuple[Tree, Tree], otherwise: Tree | None = None) -> Tree:
    """The value of the first case that holds, else `otherwise` (NULL without one)."""
    return exp.Case(ifs=[exp.If(this=test, true=value) for test, value in cases], default=otherwise)


def matches(this: Tree, pattern: str) -> Tree:
    """Whether a text matches a pattern."""
    return exp.RegexpLike(this=this, expression=text(pattern))


# Arithmetic of doubles where an engine stops at a result that overflows, and at a product or quotient that is 0 though
# no operand is. What could stop has a branch of its own, and of an AND or OR any part may be computed first. Far from
# both limits a number is multiplied by a power of two exactly. IEEE 754 rounds an exact result of 2^1024 - 2^970 or
# more to infinity: times 2^-1024, it is rounded to 1 or more. It rounds one of at most 2^-1075 to 0 (the tie goes to
# the even one): times 2^1075, it is at most 1, and where a product is rounded to 1, the halves of its factors say on
# which side it is (Dekker).
_BOTH = "ABS(:x) BETWEEN 2^-500 AND 2^500 AND ABS(:y) BETWEEN 2^-500 AND 2^500"
_SUM = """CASE WHEN ABS(:x) < 2^0 OR ABS(:y) < 2^0 THEN :x {sign} :y
    WHEN ABS(:x * 2^-1 {sign} :y * 2^-1) < 2^1023 THEN :x {sign} :y END"""
_A, _B = "(ABS(:x) * 2^537)", "(ABS(:y) * 2^538)"
_HIGH_A, _HIGH_B = (f"({each} * (2^27 + 2^0) - ({each} * (2^27 + 2^0) - {each}))" for each in (_A, _B))
_LOW_A, _LOW_B = f"({_A} - {_HIGH_A})", f"({_B} - {_HIGH_B})"
_REST = f"{_HIGH_A} * {_HIGH_B} - 2^0 + {_HIGH_A} * {_LOW_B} + {_LOW_A} * {_HIGH_B} + {_LOW_A} * {_LOW_B}"
_PRODUCT = f"""CASE WHEN :x = 0 OR :y = 0 OR {_BOTH} THEN :x * :y
    WHEN ABS(:x) >= 2^0 AND ABS(:y) >= 2^0 THEN CASE WHEN ABS(:x) * 2^-512 * (ABS(:y) * 2^-512) < 2^0 THEN :x * :y END
    WHEN ABS(:x) >= 2^0 OR ABS(:y) >= 2^0 THEN :x * :y
    WHEN {_A} * {_B} > 2^0 THEN :x * :y WHEN {_A} * {_B} < 2^0 THEN CAST(0 AS DOUBLE)
    WHEN {_REST} > 0 THEN :x * :y WHEN {_A} * {_B} = 2^0 THEN CAST(0 AS DOUBLE) END"""
_QUOTIENT = f"""CASE WHEN :x = 0 OR {_BOTH} THEN :x / :y
    WHEN ABS(:x) < 2^0 AND ABS(:y) >= 2^0 THEN
        CASE WHEN ABS(:x) * 2^1000 <= ABS(:y) * 2^-75 THEN CAST(0 AS DOUBLE) ELSE :x / :y END
    WHEN ABS(:x) < 2^-60 OR ABS(:y) >= 2^0 THEN :x / :y
    WHEN ABS(:x) * 2^-20 < ABS(:y) * 2^1000 THEN :x / :y
    WHEN ABS(:x) * 2^-30 < ABS(:y) * 2^1000 THEN
        CASE WHEN ABS(:x) * 2^-24 / (ABS(:y) * 2^1000) < 2^0 THEN :x / :y END END"""
CHECKED: dict[type[exp.Binary], str] = {
    operation: re.sub(r"2\^(-?\d+)", lambda found: double(2.0 ** int(found[1])).sql(), template)
    for operation, template in (
        (exp.Add, _SUM.format(sign="+")),
        (exp.Sub, _SUM.format(sign="-")),
        (exp.Mul, _PRODUCT),
        (exp.Div, _QUOTIENT),
    )
}


class Dialect(ABC):
    """The SQL of one database.

    Guarantee of every implementation: what it makes has the same value in every database, to the last bit, and no row
    of a table can make it fail.
    """

    name: str
    """Its name for sqlglot."""
    wide: str
    """A type of whole numbers that holds sums of 2^63 numbers below 2^31."""
    sums: str
    """The sum over rows of whole numbers :x of 64 bits, in more than these."""
    hexadecimal: str
    """The whole number of up to seven hexadecimal :digits."""
    items: str
    """The one at a :place, counted from 1, of a list of :numbers, a text with blanks between, of the type `{}`."""
    whole: str
    """The type of whole numbers up to `most_whole`."""
    most_whole: int
    """The largest whole number that can be compared."""
    timestamp: str
    """The type of times without a zone."""
    masks = False
    """Whether whole numbers have 128 bits that can be set, and joined over rows."""
    tables_in_choices = False
    """Whether a choice may ask if a value is in a table."""
    decimal = "DECIMAL(38, {})"
    """The type of the decimals of a public table with this many digits behind the point."""
    checked: ClassVar[Mapping[type[exp.Binary], str]] = {}
    """Operations on the doubles :x and :y, where one that is too large or too small for a double stops a statement.

    `CHECKED` has those that are the same in every such database. They give NULL where a result is infinite elsewhere.
    """
    rules: ClassVar[Mapping[type[Tree], Callable[[Tree, Tree], Tree]]] = {}
    """What is written in another way than sqlglot would, given a node and the one it stands in."""

    def written(self, tree: Tree) -> str:
        """A statement as text."""
        if not self.rules:
            return tree.sql(self.name)
        root = exp.Paren(this=tree.copy())
        for node in reversed(list(root.walk())):  # what stands in a node before the node
            rule, parent, key, index = self.rules.get(type(node)), node.parent, node.arg_key, node.index
            if rule is not None and parent is not None and key is not None:
                other = rule(node, parent)
                if other is not node:
                    parent.set(key, other, index)
        written: str = root.this.sql(self.name)
        return written

    def misfit(self, name: str) -> str:
        """Why no new column can have this name; an empty text where it can."""
        return ""

    def added(self, tree: Tree) -> Tree:
        """The sum of whole numbers over rows."""
        return term(self.sums, self.name, x=tree)

    def computed(self, operation: type[exp.Binary], left: Tree, right: Tree) -> Tree:
        """One operation on doubles: Add, Sub, Mul, Div (not by 0) or Mod (not by 0, with the sign of `left`).

        Where they are `checked`, both are finite or NULL, and may stand in the tree more than once; the sign of a 0 is
        not defined.
        """
        if operation in self.checked:
            return exp.Paren(this=term(self.checked[operation], self.name, x=left, y=right))
        return exp.Paren(this=operation(this=left, expression=right))

    def apart(self, rows: exp.Select) -> exp.Select:
        """A selection whose columns are computed once for each row, however often they are read."""
        return rows

    @abstractmethod
    def unfolded(self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str) -> exp.Select:
        """A table with the place of each row, from 0 on, and a column for each text, which is split into rows."""

    def item(self, numbers: Sequence[str], place: Tree, *, whole: bool) -> Tree:
        """The number at a place, counted from 1, of a list of doubles or of `whole` numbers."""
        template = self.items.format(self.whole if whole else "DOUBLE")
        return term(template, self.name, numbers=text(" ".join(numbers)), place=place)
