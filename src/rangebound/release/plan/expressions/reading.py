"""Reading an expression: SQL's, of which a small part is allowed; or that of a plan of version 0.2, with a warning.

What parses SQL is loaded when the first expression is read.
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

from rangebound.release.plan.expressions.functions import FUNCTIONS
from rangebound.release.plan.expressions.nodes import (
    DEEPEST,
    LONGEST,
    TOO_DEEP,
    TOO_LONG,
    Call,
    Constant,
    Expression,
    UnitCall,
    checked,
    columns_of,
)
from rangebound.release.plan.fields import printable


def read(text: str | Expression) -> Expression:
    """The tree of an expression's text; a tree as it is, if its text could be read again.

    Guarantee: whatever the text is, a tree of at most `DEEPEST` levels or a `ValueError` with the reason; nothing is
    ever evaluated. `read(str(tree)) == tree` for a tree whose types fit. A text that is an expression in version 0.2
    alone is read as it was there, with a warning. One that means something else there than in SQL is refused.

    >>> read("age BETWEEN 18 AND 65").arguments[0]
    Call(function='>=', arguments=(Named(name='age'), Constant(value=18.0, type=<ValueType.NUMBER: 'a number'>)))
    >>> str(read("if(a , 1, 0)"))
    'CASE WHEN a THEN 1 ELSE 0 END'
    >>> read('a != "b"')
    Traceback (most recent call last):
    ValueError: a != "b" is a <> b in SQL, and was a <> 'b' in version 0.2; write one of these
    """
    return checked(_either(text, "value") if isinstance(text, str) else text)


def read_call(text: str | UnitCall) -> UnitCall:
    """What a per-unit column is made by; a call is checked as its text would be.

    Guarantee: a call of one of our functions or a `ValueError` with the reason; nothing is ever evaluated.

    >>> str(read_call("sum(cost*2)")), read_call("COUNT(*)").arguments
    ('SUM(cost * 2)', ())
    """
    found = _either(text, "step") if isinstance(text, str) else text
    return UnitCall(found.function, tuple(map(checked, found.arguments)))


def _either(text: str, kind: str) -> Any:
    if len(text) > LONGEST:
        raise ValueError(TOO_LONG)
    if not text.strip():
        raise ValueError("must not be empty")
    found = readings(printable(text), kind)
    match found.grammar:
        case Grammar.NONE:
            raise ValueError(found.reason)
        case Grammar.UNCLEAR:
            raise ValueError(
                f"{_short(text)} is {_short(found.new)} in SQL, and was {_short(found.old)} in version 0.2; write one "
                "of these"
            )
        case Grammar.FORMER:
            _warn_of(text, found.old)
            return found.old
    return found.new


def _warn_of(text: str, meant: object) -> None:
    """Warn of an expression of version 0.2 at the line that called this package, over what checks its fields."""
    words = (
        f"{_short(text)} is an expression of version 0.2; in SQL, in which plans are written now, it is "
        f"{_short(meant)} (`rangebound plan upgrade` converts a plan)"
    )
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (
        "rangebound",
        "pydantic",
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(words, DeprecationWarning, stacklevel=level)


class Grammar(Enum):
    """In which grammars a text is an expression: in both alike, in SQL's or that of version 0.2 alone, or in none.

    `UNCLEAR` is a text that means one thing in SQL and another in version 0.2.
    """

    BOTH = "both"
    SQL = "SQL"
    FORMER = "version 0.2"
    UNCLEAR = "unclear"
    NONE = "none"


@dataclass(frozen=True)
class Readings:
    """What a text means in SQL and what in version 0.2; and the `reason` why it is nothing in SQL."""

    new: Expression | UnitCall | None
    old: Expression | UnitCall | None
    reason: str
    kind: str

    @property
    def grammar(self) -> Grammar:
        """In which grammars it is an expression."""
        if self.new is None:
            return Grammar.NONE if self.old is None else Grammar.FORMER
        if self.new == self.old:
            return Grammar.BOTH
        return Grammar.UNCLEAR if self.old is not None and _sensible(self.old) else Grammar.SQL

    @property
    def may_be_former(self) -> bool:
        """Whether it is in SQL, and version 0.2 had it as a constant, such as a column that is "one text" alone."""
        if self.new is None or self.new == self.old or not isinstance(self.old, (Constant, Call)):
            return False
        return not columns_of(self.old) and _fits(self.old) and (self.kind == "value" or isinstance(self.old, Call))


@lru_cache(maxsize=4096)
def readings(text: str, kind: str) -> Readings:
    """What a text means in the two grammars: the one of a `step`, a function of all rows of a unit, or any other."""
    from rangebound.release.plan.expressions.former import read_former, read_former_call
    from rangebound.release.plan.expressions.row_expression import read_sql, read_unit_call

    new, old, reason = None, None, ""
    readers = (read_unit_call, read_former_call) if kind == "step" else (read_sql, read_former)
    try:
        new = readers[0](text, DEEPEST)
    except ValueError as refused:
        reason = str(refused)
    except RecursionError:
        reason = TOO_DEEP
    with suppress(ValueError):
        old = readers[1](text)
    return Readings(new, old, reason, kind)


def in_one_grammar(data: Mapping[str, Any], *, by_hand: bool = False) -> Mapping[str, Any]:
    """The data of a plan, whose expressions that two grammars have are those of version 0.2 if others show that it is.

    Guarantee: if some expressions are of version 0.2 alone, all are read as there, with a warning for each; or, where
    one is in SQL alone, a `ValueError`: no plan of version 0.2 has one. Otherwise the data are as they were. `by_hand`
    says that what is unclear is of version 0.2, warns of nothing, and leaves a plan of both kinds as it is.
    """
    found = {
        place: readings(table[field], kind)
        for place, (table, field, kind) in enumerate(expression_places(data))
        if isinstance(table[field], str) and len(table[field]) <= LONGEST
    }
    grammars = {each.grammar for each in found.values()}
    if not grammars & ({Grammar.FORMER, Grammar.UNCLEAR} if by_hand else {Grammar.FORMER}):
        return data
    former = {place for place, each in found.items() if each.grammar is Grammar.UNCLEAR or each.may_be_former}
    in_sql = any(each.grammar is Grammar.SQL and place not in former for place, each in found.items())
    for place, (table, field, kind) in enumerate(expression_places(data)) if in_sql and not by_hand else ():
        if place in found and found[place].grammar is Grammar.FORMER:  # who wrote it may have meant SQL
            raise ValueError(
                f"{_path(data, table, field, kind)}: {_short(table[field])} is an expression of version 0.2, and "
                f"others of the plan are in SQL, where it is {_short(found[place].old)} (`rangebound plan upgrade` "
                f"writes it so): {found[place].reason}"
            )
    if in_sql or not former:
        return data
    changed = copy.deepcopy(data)
    for place, (table, field, _) in enumerate(expression_places(changed)):
        if place in former:
            before, table[field] = table[field], str(found[place].old)
            if not by_hand:
                _warn_of(before, table[field])
    return changed


def _path(data: Mapping[str, Any], table: Any, field: str, kind: str) -> str:
    """Where a plan has the field of one of its tables, as an error names it."""
    section = {"value": "columns", "step": "per_unit"}.get(kind, "query")
    if data[section] is table:
        return f"{section}.{field}"
    named = dict(enumerate(data[section]) if kind == "condition" else data[section])
    return f"{section}.{next(name for name in named if named[name] is table)}.{field}"


Place = tuple[Any, str, str]
"""A table of a plan, the field that has an expression there, and whether it is a value, a step or a condition."""


def expression_places(data: Mapping[str, Any]) -> Iterator[Place]:
    """Where the data of a plan have expressions as texts, or something else in place of one.

    >>> [place[1:] for place in expression_places({"columns": {"a": "b + 1"}, "query": [{"where": "c > 1"}]})]
    [('a', 'value'), ('where', 'condition')]
    """
    for section, kind in (("columns", "value"), ("per_unit", "step")):
        declared = data.get(section)
        for name, value in declared.items() if isinstance(declared, Mapping) else ():
            yield (value, "value", kind) if isinstance(value, Mapping) and "value" in value else (declared, name, kind)
    asked = data.get("query")
    for each in asked if isinstance(asked, (list, tuple)) else ():
        for field in ("where", "of") if isinstance(each, Mapping) else ():
            if field in each:
                yield each, field, "condition"


def _sensible(tree: Expression | UnitCall) -> bool:
    """Whether a plan of version 0.2 may have had such an expression: it has a column, not `NOT`, and types may fit."""
    parts = tree.arguments if isinstance(tree, UnitCall) else (tree,)
    return all(columns_of(each) and "NOT" not in columns_of(each) and _fits(each) for each in parts)


def _fits(tree: Expression) -> bool:
    if not isinstance(tree, Call):
        return True
    given = [each.type if isinstance(each, Constant) else None for each in tree.arguments]
    wanted = [each.types(len(given)) for each in FUNCTIONS[tree.function].signatures]
    fits = any(some and all(own in (None, one) for own, one in zip(given, some, strict=True)) for some in wanted)
    return fits and all(map(_fits, tree.arguments))


def _short(shown: object, most: int = 80) -> str:
    text = " ".join(str(shown).split())
    return text if len(text) <= most else f"{text[:most]}..."
