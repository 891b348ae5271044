"""One SELECT of a text, or the reason why there is none, with its place; what each part may hold is on a list."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from rangebound.errors import PlanError, plain
from rangebound.release.plan.expressions.sql_text import Unreadable, beyond, fragment, tokens, trees
from rangebound.values import arguments

LONGEST = 10_000
"""Characters that a SQL text may have."""
_DEEPEST = 40  # parts within each other
_STARTS = (TokenType.SELECT, TokenType.WITH)
_ONE = "must be one SELECT, such as SELECT clinic, COUNT(*) FROM visits GROUP BY clinic"


def parsed(text: str) -> exp.Select:
    """The tree of a text that is one SELECT.

    Guarantee: a `PlanError` with the place for any other text. Nothing is run, and no file or table is looked at.
    """
    arguments.instance("text", text, str, "the text of a SELECT")
    if len(text) > LONGEST:
        raise refused(text, 0, f"must have at most {LONGEST} characters")
    try:
        found = tokens(text, _DEEPEST)
        if not found or found[0].token_type not in _STARTS:
            raise Unreadable(_ONE, found[0].start if found else 0)
        read = trees(text, found)
    except Unreadable as reason:
        raise refused(text, reason.place, str(reason)) from None
    if len(read) != 1 or not isinstance(read[0], exp.Select):
        several = len(read) > 1 or isinstance(read[0], exp.SetOperation)
        raise refused(text, found[0].start, f"{_ONE}{'; ask for each in a statement of its own' if several else ''}")
    strings = {each.start for each in found if each.token_type is TokenType.STRING}
    for each in read[0].find_all(exp.Table):  # DuckDB reads the file of such a name, and the tree has it as a name
        if any(part.meta.get("start") in strings for part in each.parts):
            raise refused(text, each, "must be the name of the base plan's table; files and functions are not read")
    return read[0]


def only(text: str, node: exp.Expr, *known: str) -> None:
    """Refuse a node with a part that is not among those that are `known`, so that nothing is ever passed over."""
    for part, rule in beyond(node, *known):
        raise refused(text, part, rule)


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
