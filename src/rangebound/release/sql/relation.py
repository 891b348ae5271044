"""Builders of SQL relations, views, and the order in which the groups of a unit count.

Which groups of a unit count is a random choice that is the same in every engine, thread and order of rows. Every unit
puts the groups it has rows in into an order of its own and keeps the first few. The order depends on the unit, the keys
and the release's salt, on nothing else; so what one unit does never moves another one's choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from rangebound.errors import ArgumentError
from rangebound.release.engine.dialect import Dialect, Tree, choice, integer, term, text
from rangebound.release.engine.interface import Relation as Relation
from rangebound.release.plan.table_schema import TEXTS, Family, Schema, extended
from rangebound.release.sql.expression import SOURCE, cast, column, every, local, longer
from rangebound.values import arguments

PRIME = 2**31 - 1
SMALL_PRIME = 127
"""With at most this many groups the places of a unit's groups fit into one word of 128 bits."""
LONG = 1000
"""A text of more characters is joined with others by its hash."""


@dataclass(frozen=True, kw_only=True)
class Salt:
    """The chance of one release: four numbers below 2^30, and a text for hashes."""

    numbers: tuple[int, int, int, int]
    letters: str

    def __post_init__(self) -> None:
        if not all(0 <= each < 2**30 for each in self.numbers):
            raise ArgumentError(f"numbers={arguments.shown(self.numbers)}: must be four integers in [0, 2^30)")

    @classmethod
    def draw(cls, bits: Callable[[int], int]) -> Salt:
        """A fresh salt; `bits(n)` gives n secure random bits as an integer."""
        a, b, c, d = (bits(30) for _ in range(4))
        return cls(numbers=(a | 1, b, c | 1, d), letters=f"{bits(128):032x}")


def unit_number(unit: Tree, family: Family, salt: Salt, dialect: Dialect) -> Tree:
    """A unit as a whole number between 0 and 2^32, the same in every engine."""
    if family is Family.INTEGER:  # the remainder has the sign of the unit, and its width: the sum needs more bits
        return term(f"(CAST((:u) % {PRIME} AS BIGINT) + {PRIME})", u=unit)
    own = shortened(unit) if family in TEXTS else unit
    return term(dialect.hexadecimal, dialect.name, digits=exp.Left(this=digest(salt, own), expression=integer(7)))


def digest(salt: Salt, *parts: Tree) -> Tree:
    """A keyed hash of texts: 32 hexadecimal digits."""
    joined: Tree = text(salt.letters)
    for part in parts:
        joined = exp.DPipe(this=exp.DPipe(this=joined, expression=text("\x1f")), expression=cast(part, "TEXT"))
    return exp.MD5(this=joined)


def shortened(part: Tree) -> Tree:
    """A text, or the hash of one so long that an engine might not have room for it joined with others."""
    whole = cast(part, "TEXT")
    return choice((longer(part, LONG), exp.MD5(this=whole)), otherwise=whole)


def place(unit: Tree, index: Tree, salt: Salt, prime: int) -> Tree:
    """The place of a public group in a unit's own order: (c * index + d) mod prime, with c and d drawn for the unit.

    Guarantee: different groups of a unit have different places, and any two groups are equally likely to come first, up
    to one part in a million (c and d are made of the unit by two random linear maps modulo 2^31 - 1).
    """
    a, b, c, d = map(integer, salt.numbers)
    linear = f"((:u) * :{{}} + :{{}}) % {PRIME}"
    step, offset = linear.format("a", "b"), linear.format("c", "d")
    moved = f"((1 + {step} % {prime - 1}) * :index + {offset}) % {prime}"
    return term(moved, u=unit, index=index, a=a, b=b, c=c, d=d)


# The builders copy their trees unless they are told not to, and a tree may hold thousands of keys.
def select_from(rows: exp.Select, name: str, /, *columns: Tree, **made: Tree) -> exp.Select:
    """Columns of a selection, which has a name, and those that are made of them."""
    return exp.select(*columns, *named(made), copy=False).from_(rows.subquery(name, copy=False), copy=False)


def named(made: Mapping[str, Tree]) -> list[Tree]:
    """Trees as columns of these names."""
    return [exp.alias_(tree, name, quoted=True, copy="alias" in tree.arg_types) for name, tree in made.items()]


@dataclass(frozen=True, kw_only=True)
class View:
    """A table as the questions see it: its columns, and the tree that stands for it in a statement.

    Guarantee: `schema` follows from the plan and the names and types of columns; the tree from these and the salt.
    """

    schema: Schema
    source: Callable[[Salt], Relation]
    before_units: Schema | None = None
    """The columns of the rows that one row per unit is made of, where a plan has that step."""


def star() -> Tree:
    """All columns of the table that has the alias `SOURCE`."""
    return exp.Column(this=exp.Star(), table=exp.to_identifier(SOURCE, quoted=True))


def aliased(relation: Relation, name: str = SOURCE) -> Tree:
    """A relation with an alias: here the one that expressions about columns expect of their table."""
    alias = exp.to_identifier(name, quoted=True)
    if isinstance(relation, exp.Select):
        return relation.subquery(alias, copy=False)
    return exp.alias_(relation, alias, table=True)


def with_columns(seen: View, made: Mapping[str, tuple[Tree, Family]], dialect: Dialect) -> View:
    """A view with further columns, each an expression over the columns of a row and its family.

    A made column takes the place of one that has its name. Every row stays, so what one unit can change stays too.
    Edge cases: columns of family OTHER are carried along only where no column is replaced; no statement reads them.
    """
    if not made:
        return seen
    schema = extended(seen.schema, {name: family for name, (_, family) in made.items()})
    trees = {name: tree for name, (tree, _) in made.items()}
    return View(schema=schema, source=lambda salt: with_trees(seen.source(salt), seen.schema, trees, dialect))


def with_trees(rows: Relation, schema: Schema, made: Mapping[str, Tree], dialect: Dialect) -> exp.Select:
    """The rows of a relation with further columns, which take the place of those that have their names."""
    kept: list[Tree] = [star()]
    if not made.keys().isdisjoint(schema):
        names = [name for name, family in schema.items() if family is not Family.OTHER and name not in made]
        kept = [column(name) for name in names]
    return dialect.apart(exp.select(*kept, *named(made), copy=False).from_(aliased(rows), copy=False))


def unused_name(name: str, schema: Schema) -> str:
    """A name that no column has, in no case."""
    taken = {each.casefold() for each in schema}
    while name.casefold() in taken:
        name += "_"
    return name


def where(rows: exp.Select, *conditions: Tree) -> exp.Select:
    """The rows that meet conditions."""
    return rows.where(*conditions, copy=False)


def join(rows: exp.Select, other: Tree, on: Tree) -> exp.Select:
    """An inner join."""
    return rows.join(other, on=on, copy=False)


def of(table: str, name: str) -> exp.Column:
    """A column of a relation that we made."""
    return exp.column(exp.to_identifier(name, quoted=True), table=table)


def same(names: list[str], left: str, right: str) -> Tree:
    """Whether two relations have the same values in some columns."""
    return every([exp.EQ(this=of(left, name), expression=of(right, name)) for name in names])


MANY = 100
"""Rows from which on a table of texts is written as one: one constant per row takes longer to write and to read."""
_SEPARATOR = "\x1f"


def table_of(
    names: Sequence[str], rows: Sequence[Sequence[str]], dialect: Dialect, *, place: str | None = None
) -> exp.Select:
    """A table of texts, each row with its place from 0 on, where that has a name.

    Long ones are written as one text for each column, which the engine splits: thousands of keys take milliseconds.
    Edge cases: texts that hold the character that separates them are written one by one.
    """
    columns = [exp.to_identifier(name, quoted=True) for name in (place or "i", *names)]
    joined = [_SEPARATOR.join(column) for column in zip(*rows, strict=True)]
    if len(rows) <= MANY or any(each.count(_SEPARATOR) != len(rows) - 1 for each in joined):
        tuples = [
            exp.Tuple(expressions=[*([integer(at)] if place else []), *map(text, row)]) for at, row in enumerate(rows)
        ]
        alias = exp.TableAlias(this=exp.to_identifier("t"), columns=columns if place else columns[1:])
        values = exp.Values(expressions=tuples, alias=alias)
        return exp.select(exp.Star(), copy=False).from_(values, copy=False)
    found = dialect.unfolded(columns, joined, _SEPARATOR)
    return found if place else select_from(found, "unfolded", *map(local, names))


def is_listed(values: Sequence[Tree], keys: Sequence[Sequence[str]], dialect: Dialect) -> Tree:
    """Whether texts are together among some keys, which are a table of constants."""
    listed = table_of([f"k{at}" for at in range(len(values))], keys, dialect)
    this = values[0] if len(values) == 1 else exp.Tuple(expressions=list(values))
    return exp.In(this=this, query=listed.subquery(copy=False))


def wide(tree: Tree, dialect: Dialect) -> Tree:
    """A whole number in more than 64 bits."""
    return cast(tree, dialect.wide)


def counted(name: str, measure: Tree) -> Tree:
    """How many rows have the measure; 1 is had by all."""
    return exp.Count(this=exp.Star() if measure == integer(1) else local(name))


def at_most(amount: Tree, n: Tree, rows: int, dialect: Dialect) -> Tree:
    """`amount`, a sum over n rows, or the part of it that `rows` of the n rows have on average, rounded down.

    The average over all choices of this many rows: it is bounded as any one choice is, and adds no chance of its own.
    """
    most = integer(rows)
    part = cast(exp.IntDiv(this=term("(:amount * :most)", amount=amount, most=most), expression=n), "BIGINT")
    bounded = "CAST(CASE WHEN :n <= :most THEN :amount ELSE :part END AS BIGINT)"
    return term(bounded, n=n, most=most, amount=amount, part=part)
