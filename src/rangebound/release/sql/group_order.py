"""Which groups of a unit count: a random choice that is the same in every engine, thread and order of rows.

Every unit puts the groups it has rows in into an order of its own and keeps the first few. The order depends on the
unit, the keys and the release's salt, on nothing else; so what one unit does never moves another one's choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from rangebound.errors import ArgumentError
from rangebound.release.engine.dialect import Dialect
from rangebound.release.engine.term import Tree, term
from rangebound.release.plan.table_schema import TEXTS, Family
from rangebound.release.sql.expression import choice, integer, longer, text
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


def modulus(groups: int) -> int:
    """The prime that the places of `groups` public groups are taken by."""
    return SMALL_PRIME if groups <= SMALL_PRIME else PRIME


def unit_number(unit: Tree, family: Family, salt: Salt, dialect: Dialect) -> Tree:
    """A unit as a whole number between 0 and 2^32, the same in every engine."""
    if family is Family.INTEGER:  # the remainder has the sign of the unit, and its width: the sum needs more bits
        return term(f"(CAST((:u) % {PRIME} AS BIGINT) + {PRIME})", u=unit)
    own = shortened(unit) if family in TEXTS else unit
    return dialect.hexadecimal(exp.Left(this=digest(salt, own), expression=integer(7)))


def digest(salt: Salt, *parts: Tree) -> Tree:
    """A keyed hash of texts: 32 hexadecimal digits."""
    joined: Tree = text(salt.letters)
    for part in parts:
        joined = exp.DPipe(
            this=exp.DPipe(this=joined, expression=text("\x1f")), expression=exp.cast(part.copy(), "TEXT")
        )
    return exp.MD5(this=joined)


def shortened(part: Tree) -> Tree:
    """A text, or the hash of one so long that an engine might not have room for it joined with others."""
    whole = exp.cast(part.copy(), "TEXT")
    return choice((longer(part, LONG), exp.MD5(this=whole)), otherwise=whole.copy())


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
