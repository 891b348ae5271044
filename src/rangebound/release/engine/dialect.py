"""Trees of SQL, and what the statements ask of a database's own SQL: one value for each, in a file of its own.

Statements are trees that mean the same everywhere; what databases write differently is made here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from sqlglot import exp, parse_one

if TYPE_CHECKING:
    Tree = exp.Expr
else:  # before sqlglot 30, `Expression` was the base of all
    Tree = getattr(exp, "Expr", exp.Expression)


@cache
def _parsed(template: str) -> Tree:
    return parse_one(template)


def term(template: str, **parts: Tree) -> Tree:
    """A tree from SQL of our own with holes such as `:x`, in which copies of other trees are put; never their text."""
    root = exp.Paren(this=_parsed(template).copy())
    for hole in list(root.find_all(exp.Placeholder)):
        hole.replace(parts[hole.name].copy())
    found: Tree = root.this.pop()
    return found


def integer(value: int) -> Tree:
    """A whole number."""
    literal = exp.Literal.number(str(abs(value)))
    return literal if value >= 0 else exp.Paren(this=exp.Neg(this=literal))


def double(value: float) -> Tree:
    """A double, to the last bit: a decimal point alone would make a decimal number of it in one of the engines."""
    return exp.cast(exp.Literal.string(repr(float(value))), "DOUBLE")


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


class Dialect(ABC):
    """The SQL of one database.

    Guarantee of every implementation: what it makes has the same value in every database, to the last bit, and no row
    of a table can make it fail.
    """

    name: str
    """Its name for sqlglot."""
    wide: str
    """A type of whole numbers that holds sums of 2^63 numbers below 2^31."""
    most_whole: int
    """The largest whole number that can be compared."""
    timestamp: str
    """The type of times without a zone."""
    masks = False
    """Whether whole numbers have 128 bits that can be set, and joined over rows."""
    tables_in_choices = False
    """Whether a choice may ask if a value is in a table."""
    stops = False
    """Whether a number that is too large or too small for a double stops a statement, and is not infinite or 0."""

    def decimal(self, scale: int) -> str:
        """The type of the decimals of a public table with this many digits behind the point."""
        return f"DECIMAL(38, {scale})"

    def written(self, tree: Tree) -> str:
        """A statement as text."""
        return tree.sql(self.name)

    def misfit(self, name: str) -> str:
        """Why no new column can have this name; an empty text where it can."""
        return ""

    def added(self, tree: Tree) -> Tree:
        """The sum of whole numbers of 64 bits over rows, in more than these."""
        return exp.Sum(this=exp.cast(tree, self.wide))

    def added_rows(self, tree: Tree) -> Tree:
        """The sum over the rows of a table of whole numbers from 0 to 2^30."""
        return self.added(tree)

    def times(self, amount: Tree, factor: Tree) -> Tree:
        """The product of such a sum and a whole number below 2^31, in as many bits as it needs."""
        return exp.Paren(this=exp.Mul(this=amount, expression=factor))

    def computed(self, operation: type[exp.Binary], left: Tree, right: Tree) -> Tree:
        """One operation on doubles: Add, Sub, Mul, Div (not by 0) or Mod (not by 0, with the sign of `left`).

        Where the dialect `stops`, both are finite or NULL, may stand in the tree more than once, and a result that is
        infinite elsewhere is NULL.
        """
        return exp.Paren(this=operation(this=left, expression=right))

    def scaled(self, value: Tree, factor: float) -> Tree:
        """A double times a factor, which is rounded to a whole number afterwards; the product is far from overflow."""
        return exp.Mul(this=value, expression=double(factor))

    def whole_quotient(self, first: Tree, second: Tree) -> Tree:
        """The quotient, rounded down, of whole numbers of 64 bits that are not negative."""
        return exp.IntDiv(this=first, expression=second)

    def apart(self, rows: exp.Select) -> exp.Select:
        """A selection whose columns are computed once for each row, however often they are read."""
        return rows

    @abstractmethod
    def hexadecimal(self, digits: Tree) -> Tree:
        """The whole number of up to seven hexadecimal digits."""

    @abstractmethod
    def start(self, day: Tree, period: str) -> Tree:
        """The first day of the WEEK (from Monday on) or MONTH that a day is in."""

    @abstractmethod
    def unfolded(
        self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str, count: int | None
    ) -> exp.Select:
        """A table with a column for each text, which is split into rows; with a `count`, the first counts from 0."""

    @abstractmethod
    def item(self, numbers: Sequence[str], place: Tree, *, whole: bool) -> Tree:
        """The number at a place, counted from 1, of a list of doubles or of `whole` numbers."""
