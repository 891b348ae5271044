"""What the statements ask of a database's own SQL: one value for each database, in a file of its own.

Statements are trees that mean the same everywhere; what databases write differently is made here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from sqlglot import exp


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
    ranks_rows = False
    """Whether the rows of a unit are ranked by their groups as they are read, in one pass, and not its groups alone."""
    stops = False
    """Whether a number that is too large or too small for a double stops a statement, and is not infinite or 0."""

    def written(self, tree: exp.Expr) -> str:
        """A statement as text."""
        return tree.sql(self.name)

    def misfit(self, name: str) -> str:
        """Why no new column can have this name; an empty text where it can."""
        return ""

    def added(self, tree: exp.Expr) -> exp.Expr:
        """The sum of whole numbers of 64 bits over rows, in more than these."""
        return exp.Sum(this=exp.cast(tree, self.wide))

    def added_rows(self, tree: exp.Expr) -> exp.Expr:
        """The sum over the rows of a table of whole numbers from 0 to 2^30."""
        return self.added(tree)

    def times(self, amount: exp.Expr, factor: exp.Expr) -> exp.Expr:
        """The product of such a sum and a whole number below 2^31, in as many bits as it needs."""
        return exp.Paren(this=exp.Mul(this=amount, expression=factor))

    def computed(self, operation: type[exp.Binary], left: exp.Expr, right: exp.Expr) -> exp.Expr:
        """One operation on doubles: Add, Sub, Mul, Div (not by 0) or Mod (not by 0, with the sign of `left`).

        Where the dialect `stops`, both are finite or NULL, may stand in the tree more than once, and a result that is
        infinite elsewhere is NULL.
        """
        return exp.Paren(this=operation(this=left, expression=right))

    def scaled(self, value: exp.Expr, factor: float) -> exp.Expr:
        """A double times a factor, which is rounded to a whole number afterwards; the product is far from overflow."""
        return exp.Mul(this=value, expression=exp.cast(exp.Literal.string(repr(factor)), "DOUBLE"))

    def whole_quotient(self, first: exp.Expr, second: exp.Expr) -> exp.Expr:
        """The quotient, rounded down, of whole numbers of 64 bits that are not negative."""
        return exp.IntDiv(this=first, expression=second)

    def apart(self, rows: exp.Select) -> exp.Select:
        """A selection whose columns are computed once for each row, however often they are read."""
        return rows

    @abstractmethod
    def hexadecimal(self, digits: exp.Expr) -> exp.Expr:
        """The whole number of up to seven hexadecimal digits."""

    @abstractmethod
    def start(self, day: exp.Expr, period: str) -> exp.Expr:
        """The first day of the WEEK (from Monday on) or MONTH that a day is in."""

    @abstractmethod
    def unfolded(
        self, names: Sequence[exp.Identifier], texts: Sequence[str], separator: str, count: int | None
    ) -> exp.Select:
        """A table with a column for each text, which is split into rows; with a `count`, the first counts from 0."""

    @abstractmethod
    def item(self, numbers: Sequence[str], place: exp.Expr, *, whole: bool) -> exp.Expr:
        """The number at a place, counted from 1, of a list of doubles or of `whole` numbers."""
