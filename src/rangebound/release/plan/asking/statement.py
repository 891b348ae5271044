"""One SELECT of a text, or the reason why there is none, with its place; what each part may hold is on a list."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp
from sqlglot.dialects import DuckDB
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from rangebound.errors import PlanError, plain
from rangebound.values import arguments

LONGEST = 10_000
"""Characters that a SQL text may have."""
_DEEPEST = 40  # parentheses within each other
_STARTS = (TokenType.SELECT, TokenType.WITH)
_OPEN = (TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE)
_CLOSE = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END)
_ONE = "must be one SELECT, such as SELECT clinic, COUNT(*) FROM visits GROUP BY clinic"
_SHOWN = 60  # characters of a part in an error


def parsed(text: str) -> exp.Select:
    """The tree of a text that is one SELECT.

    Guarantee: a `PlanError` with the place for any other text. Nothing is run, and no file or table is looked at.
    """
    arguments.instance("text", text, str, "the text of a SELECT")
    if len(text) > LONGEST:
        raise refused(text, 0, f"must have at most {LONGEST} characters")
    try:
        found = list(DuckDB().tokenize(text))
    except (SqlglotError, ValueError, RecursionError):
        raise refused(text, 0, "not valid SQL: a quotation mark or a comment does not end") from None
    if not found or found[0].token_type not in _STARTS:
        raise refused(text, found[0].start if found else 0, _ONE)
    _check_nesting(text, found)
    try:
        with _silent():
            trees = DuckDB().parser(error_level=ErrorLevel.IMMEDIATE).parse(found, text)
    except ParseError as reason:
        first = reason.errors[0] if reason.errors else {}
        line, column = first.get("line") or 1, first.get("col") or 1
        words = str(first.get("description") or "").rstrip(".") or "it cannot be read"
        said = f"sql:{line}:{column}: not valid SQL: {words[0].lower()}{words[1:]}"
        raise PlanError(" ".join(said.split()), field="sql", line=line) from None
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError, RecursionError):
        raise refused(text, 0, "not valid SQL, or too many parts within each other") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        several = len(trees) > 1 or isinstance(trees[0], exp.SetOperation)
        raise refused(text, found[0].start, f"{_ONE}{'; ask for each in a statement of its own' if several else ''}")
    strings = {each.start for each in found if each.token_type is TokenType.STRING}
    for each in trees[0].find_all(exp.Table):  # DuckDB reads the file of such a name, and the tree has it as a name
        if any(part.meta.get("start") in strings for part in each.parts):
            raise refused(text, each, "must be the name of the base plan's table; files and functions are not read")
    return trees[0]


@contextmanager
def _silent() -> Iterator[None]:
    """A block in which the parser logs nothing: a statement that it does not know is refused in our words."""
    log, nothing = logging.getLogger("sqlglot"), logging.Filter("nothing")
    log.addFilter(nothing)
    try:
        yield
    finally:
        log.removeFilter(nothing)


def _check_nesting(text: str, found: list[Token]) -> None:
    depth = 0
    for each in found:
        depth += (each.token_type in _OPEN) - (each.token_type in _CLOSE)
        if depth > _DEEPEST:
            raise refused(text, each.start, f"has more than {_DEEPEST} parts within each other")


def only(text: str, node: exp.Expr, *known: str) -> None:
    """Refuse a node with a part that is not among those that are `known`, so that nothing is ever passed over."""
    for name, value in node.args.items():
        if value and name not in known:
            part = value[0] if isinstance(value, list) else value
            place = part if isinstance(part, exp.Expr) else node
            word = name.strip("_").upper().replace("_", " ")
            raise refused(text, place, f"{word} is not in the subset{_INSTEAD.get(name, '')}")


_INSTEAD = {
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


def refused(text: str, node: exp.Expr | int, rule: str) -> PlanError:
    """The error about a part of a text, by its node or its place among the characters.

    >>> str(refused("SELECT x", 7, "is not an aggregate"))
    'sql:1:8: is not an aggregate'
    """
    start = node if isinstance(node, int) else start_of(node)
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    said = "" if isinstance(node, int) else f"{fragment(node)}: "
    return PlanError(plain(f"sql:{line}:{column}: {said}{rule}"), field="sql", line=line)


def start_of(node: exp.Expr) -> int:
    """Where the part of a node begins in the text, or what is around it, if no token says it."""
    starts = (each.meta.get("start") for each in node.walk())
    found = min((each for each in starts if isinstance(each, int)), default=None)
    if found is None:
        return 0 if node.parent is None else start_of(node.parent)
    return found


def fragment(node: exp.Expr) -> str:
    """A part of the text as an error and a name show it: in one line, cut short."""
    bare = node.copy()
    for each in bare.walk():
        each.comments = None
    try:
        found = " ".join(bare.sql().split())
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError):  # a tree that it cannot write
        found = node.key.upper()
    return found if len(found) <= _SHOWN else found[: _SHOWN - 3] + "..."
