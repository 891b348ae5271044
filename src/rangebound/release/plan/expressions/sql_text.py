"""Texts in SQL, parsed by sqlglot: tokens, trees, and how a part is shown in an error."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlglot import exp
from sqlglot.dialects import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_SHOWN = 60  # characters of a part in an error


class Unreadable(ValueError):
    """Why a text is not SQL that can be read, and the place among its characters."""

    def __init__(self, rule: str, place: int = 0) -> None:
        super().__init__(rule)
        self.place = place


def tokens(text: str, deepest: int) -> list[Token]:
    """The tokens of a text with at most this many parts within each other; `Unreadable` says what is wrong."""
    try:
        found = list(DuckDB().tokenize(text))
    except (SqlglotError, ValueError, RecursionError):
        raise Unreadable("not valid SQL: a quotation mark or a comment does not end") from None
    depth = 0
    for each in found:
        depth += (each.token_type in _OPEN) - (each.token_type in _CLOSE)
        if depth > deepest:
            raise Unreadable(f"has more than {deepest} parts within each other", each.start)
    return found


def trees(text: str, found: list[Token], into: type[exp.Expr] | None = None) -> list[exp.Expr | None]:
    """The trees of the statements of some tokens, or of what they are to be read `into`."""
    try:
        with _deep():
            parser: Any = DuckDB().parser(error_level=ErrorLevel.IMMEDIATE)
            read: list[exp.Expr | None] = (
                parser.parse(found, text) if into is None else parser.parse_into(into, found, text)
            )
    except ParseError as reason:
        first = reason.errors[0] if reason.errors else {}
        line, column = first.get("line") or 1, first.get("col") or 1
        words = str(first.get("description") or "").partition(" for <class")[0].rstrip(".") or "it cannot be read"
        place = sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1
        raise Unreadable(" ".join(f"not valid SQL: {words[0].lower()}{words[1:]}".split()), place) from None
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        raise Unreadable("not valid SQL, or too many parts within each other") from None
    _no_and_left_out(read, found)
    return read


def _no_and_left_out(read: list[exp.Expr | None], found: list[Token]) -> None:
    """Refuse BETWEEN without its AND, which the parser would add: `x BETWEEN 0x10 AND b` is then from 0 to `x10`."""
    between = [each.start for each in found if each.token_type is TokenType.BETWEEN]
    stated = sum(each.token_type is TokenType.AND for each in found)
    nodes = (node for each in read if each for node in each.walk())
    if between and stated < sum(isinstance(node, (exp.And, exp.Between)) for node in nodes):
        raise Unreadable("not valid SQL: x BETWEEN y AND z has its AND between two values", between[0])


_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def _deep() -> Iterator[None]:
    """A block in which the parser has stack enough, about 25 frames for each of the parts within each other.

    It logs nothing there: a statement that it does not know is refused in our words.
    """
    log, nothing = logging.getLogger("sqlglot"), logging.Filter("nothing")
    with _ONE_AT_A_TIME:
        before = sys.getrecursionlimit()
        log.addFilter(nothing)
        sys.setrecursionlimit(before + 2500)
        try:
            yield
        finally:
            sys.setrecursionlimit(before)
            log.removeFilter(nothing)


def beyond(node: exp.Expr, *known: str) -> Iterator[tuple[exp.Expr, str]]:
    """The parts of a node that are not among those that are `known`, each with the rule that refuses it."""
    for name, value in node.args.items():
        if value and name not in known:
            part = value[0] if isinstance(value, list) else value
            word = name.strip("_").upper().replace("_", " ")
            yield (
                part if isinstance(part, exp.Expr) else node,
                f"{word} is not in the subset{_INSTEAD_OF_PART.get(name, '')}",
            )


_INSTEAD_OF_PART = {
    "distinct": "; GROUP BY the column and count, so that its keys are selected privately",
    "qualify": "; HAVING compares published numbers",
    "windows": "; a window would see single rows",
    "over": "; a window would see single rows",
    "sample": "; the plan's contribution bounds say which rows count",
    "using": "; write ON a.column = b.column",
    "laterals": "; name a made column in [columns] of the base plan",
    "offset": "; LIMIT alone cuts the published rows",
    "into": "; --output writes the table",
}


def fragment(node: exp.Expr) -> str:
    """A part of the text as an error and a name show it: in one line, cut short."""
    bare = node.copy()
    for each in bare.walk():
        each.comments = None
    try:
        found = " ".join(bare.sql(unsupported_level=ErrorLevel.IGNORE).split())
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError):  # a tree that it cannot write
        found = node.key.upper()
    return found if len(found) <= _SHOWN else found[: _SHOWN - 3] + "..."
