"""Types of an expression's parts, which follow from their use, and the public range of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rangebound.release.plan.expressions.functions import DATED, FUNCTIONS, Signature
from rangebound.release.plan.expressions.nodes import (
    COMPARISONS,
    EVERYTHING,
    Call,
    Constant,
    Expression,
    Named,
    Range,
    ValueType,
)
from rangebound.release.plan.fields import number

_NUMBER, _TEXT, _DATE, _COLUMN = ValueType.NUMBER, ValueType.TEXT, ValueType.DATE, ValueType.COLUMN


@dataclass(frozen=True, kw_only=True)
class Known:
    """A column of which the plan says something: a made one, or one of the table with a public range.

    `clipped` is the range that a value of the table has to be clipped to; a made column is clipped when it is made.
    """

    type: ValueType
    range: Range
    clipped: Range | None = None
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class Typed:
    """An expression whose type is known, with its public range and its typed arguments.

    `clipped` is the range that a column is clipped to where it is read.
    """

    node: Expression
    type: ValueType
    range: Range
    parts: tuple[Typed, ...] = ()
    clipped: Range | None = None

    def __str__(self) -> str:
        return str(self.node)


Columns = Mapping[str, Known]


def typed(node: Expression, known: Columns, wanted: ValueType | None = None) -> Typed:
    """An expression with the types of all its parts; a `ValueError` says what does not fit, or what has to be said.

    The type of a column of the table follows from how it is used: arithmetic takes numbers, `year(x)` a date, a
    comparison what stands on the other side. `wanted` is the type that the whole has to have, if one is.

    >>> from rangebound.release.plan.expressions.reading import read
    >>> found = typed(read("minutes / 60"), {"minutes": Known(type=ValueType.NUMBER, range=(0.0, 1440.0))})
    >>> found.type.value, found.range
    ('a number', (0.0, 24.0))
    >>> typed(read("a = b"), {})
    Traceback (most recent call last):
    ValueError: a = b: the type of 'a' does not follow from its use; write CAST(a AS DOUBLE), CAST(a AS VARCHAR),
    CAST(a AS DATE) or a = true
    """
    return _Typing(known).typed(node, wanted)


def _alike(node: Call) -> Sequence[Expression]:
    """The arguments that have the type of the value, or of each other."""
    if node.function != "case":
        return node.arguments
    values = node.arguments[1::2]
    return values if len(node.arguments) % 2 == 0 else (*values, node.arguments[-1])


class _Typing:
    def __init__(self, known: Columns) -> None:
        self.known = known
        self._found: dict[int, list[Signature]] = {}  # by the identity of a call, which lasts as long as its tree

    def typed(self, node: Expression, wanted: ValueType | None, *, compared: bool = False) -> Typed:
        if isinstance(node, Constant):
            return self._constant(node, wanted)
        if isinstance(node, Named):
            return self._column(node, wanted, compared=compared)
        return self._call(node, wanted)

    def _constant(self, node: Constant, wanted: ValueType | None) -> Typed:
        if wanted is not None and node.type is not wanted:
            raise ValueError(f"{node} is {node.type.value}, where {wanted.value} is needed{_quotes(node, wanted)}")
        where = EVERYTHING if isinstance(node.value, str) else (number(node.value),) * 2
        return Typed(node=node, type=node.type, range=where)

    def _column(self, node: Named, wanted: ValueType | None, *, compared: bool) -> Typed:
        found = self.known.get(node.name)
        if found is None:
            if wanted is None:
                raise self._unclear(node)
            return Typed(node=node, type=wanted, range=wanted.everything)
        if wanted is not None and found.type is not wanted:
            raise ValueError(f"{node} is {found.type.value}, where {wanted.value} is needed")
        if compared and found.clipped is not None:  # a column is compared as it stands
            return Typed(node=node, type=found.type, range=found.type.everything)
        return Typed(node=node, type=found.type, range=found.range, clipped=found.clipped)

    def _call(self, node: Call, wanted: ValueType | None) -> Typed:
        function = FUNCTIONS[node.function]
        fitting = self._fitting(node)
        chosen = [each for each in fitting if wanted is None or each.gives is wanted]
        if not chosen:
            assert wanted is not None
            raise ValueError(f"{node} is {fitting[0].gives.value}, where {wanted.value} is needed")
        if len(chosen) > 1 and any(self._type_of(each) is None for each in node.arguments):
            chosen = self._preferred(node, chosen)
        types = chosen[0].types(len(node.arguments))
        assert types is not None
        compared = node.function in (*COMPARISONS, "in", "not in", "missing")
        parts = tuple(
            self.typed(each, kind, compared=compared) for each, kind in zip(node.arguments, types, strict=True)
        )
        self._check(node, parts)
        bounded = DATED.get((node.function, types), function.range)
        found = EVERYTHING if chosen[0].gives is _TEXT else bounded([each.range for each in parts])
        return Typed(node=node, type=chosen[0].gives, range=found, parts=parts)

    def _preferred(self, node: Call, chosen: list[Signature]) -> list[Signature]:
        """Of several signatures the one for a column as it stands, or for numbers; else the type is asked for."""
        standing = [each for each in chosen if each.takes == (_COLUMN,)]
        if standing and isinstance(node.arguments[0], Named):
            return standing
        meant = [each for each in (self._meant(one) for one in node.arguments) if each is not None]
        if meant:
            return [each for each in chosen if meant[0] in each.takes]
        if FUNCTIONS[node.function].ask or standing:
            raise self._unclear(node)
        return chosen

    def _type_of(self, node: Expression) -> ValueType | None:
        """The type that an expression has by itself; None for a column of the table, and what is made of such alone."""
        if isinstance(node, Constant):
            return node.type
        if isinstance(node, Named):
            return self.known[node.name].type if node.name in self.known else None
        found = {each.gives for each in self._fitting(node)}
        return found.pop() if len(found) == 1 else None

    def _fitting(self, node: Call) -> list[Signature]:
        """The signatures of a call that the types of its arguments allow, as far as they are known; found once."""
        if id(node) in self._found:
            return self._found[id(node)]
        given = [self._type_of(each) for each in node.arguments]
        found = []
        for each in FUNCTIONS[node.function].signatures:
            wanted = each.types(len(given))
            if wanted is not None and all(
                own in (None, each_wanted) for each_wanted, own in zip(wanted, given, strict=True)
            ):
                found.append(each)
        if not found:
            raise self._misfit(node)
        self._found[id(node)] = found
        return found

    def _misfit(self, node: Call) -> ValueError:
        function = FUNCTIONS[node.function]
        counts = [each.types(len(node.arguments)) for each in function.signatures]
        if not any(counts):
            return ValueError(f"{node}: takes {function.written}")
        given = [self._type_of(each) for each in node.arguments]
        shown = ", ".join(
            f"{each} is {kind.value}" for each, kind in zip(node.arguments, given, strict=True) if kind is not None
        )
        takes = dict.fromkeys(" and ".join(dict.fromkeys(one.value for one in each)) for each in counts if each)
        way = "; texts have no order here" if _TEXT in given and node.function in ("<", "<=", ">", ">=") else ""
        return ValueError(f"{node}: {shown}; `{function.written}` takes {', or '.join(takes)}{way}")

    def _meant(self, node: Expression) -> ValueType | None:
        """The type that arithmetic on columns of the table is taken to have where nothing says it: that of numbers."""
        if not isinstance(node, Call) or FUNCTIONS[node.function].ask or self._type_of(node) is not None:
            return None
        return self._fitting(node)[0].gives

    def _unclear(self, node: Expression) -> ValueError:
        name = next(self._open(node))
        ways = ", ".join(str(Call(each, (Named(name),))) for each in ("number", "text", "date"))
        return ValueError(
            f"{node}: the type of {name!r} does not follow from its use; write {ways} or {Named(name)} = true"
        )

    def _open(self, node: Expression) -> Iterator[str]:
        if isinstance(node, Named) and node.name not in self.known:
            yield node.name
        for each in _alike(node) if isinstance(node, Call) else ():
            if self._type_of(each) is None:
                yield from self._open(each)

    def _check(self, node: Call, parts: Sequence[Typed]) -> None:
        if FUNCTIONS[node.function].constants and not all(isinstance(each.node, Constant) for each in parts[1:]):
            raise ValueError(f"{node}: all but the first must be constants")
        if node.function == "bin":
            edges = [each.range[0] for each in parts[1:]]
            if len(edges) == 1 and not edges[0] > 0.0:
                raise ValueError(f"{node}: the width must be positive")
            if any(not low < high for low, high in pairwise(edges)):
                raise ValueError(f"{node}: the edges must rise")


def _quotes(node: Constant, wanted: ValueType) -> str:
    ways = {_DATE: "; a date is written DATE '2025-01-31'", _TEXT: "; a text stands in single quotation marks"}
    bare = "; a number stands without quotation marks" if wanted is _NUMBER and node.type is _TEXT else ""
    return ways.get(wanted, bare)


def whole(found: Typed, integers: Mapping[str, bool]) -> bool:
    """Whether a number is whole in every row; `integers` says which columns of the table hold whole numbers alone."""
    if found.type not in (_NUMBER, _COLUMN):
        return False
    if isinstance(found.node, Constant):
        return isinstance(found.node.value, float) and found.node.value.is_integer()
    if isinstance(found.node, Named):
        ends = found.clipped or (0.0, 0.0)
        return integers.get(found.node.name, False) and all(each.is_integer() for each in ends)
    return FUNCTIONS[found.node.function].whole([(each.type, whole(each, integers)) for each in found.parts])


def column_uses(found: Typed, place: str = "") -> Iterator[tuple[str, str, ValueType]]:
    """What each column is used for, in words, its name, and the type that it is read as."""
    if isinstance(found.node, Named):
        words = {_NUMBER: "numbers", _TEXT: "texts", _DATE: "dates", ValueType.TRUTH: "truth values"}
        yield words.get(found.type, f"{place}(...)"), found.node.name, found.type
    for each in found.parts:
        yield from column_uses(each, found.node.function if isinstance(found.node, Call) else "")


def compared_constants(found: Typed) -> Iterator[tuple[str, Sequence[object]]]:
    """The columns that are compared as they stand, each with the constants that it is compared with."""
    if isinstance(found.node, Call) and found.node.function in ("==", "!=", "in", "not in"):
        constants = [each.node.value for each in found.parts if isinstance(each.node, Constant)]
        for each in found.parts:
            if isinstance(each.node, Named):
                yield each.node.name, constants
    for each in found.parts:
        yield from compared_constants(each)
