"""Faults of a SQL text: the place, the part at fault, the reason, and the nearest thing that works."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError

from rangebound.errors import PlanError, plain

_SHOWN = 60


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
    found = min(_starts(node), default=None)
    if found is None:
        return 0 if node.parent is None else start_of(node.parent)
    return found


def _starts(node: exp.Expr) -> Iterator[int]:
    for each in node.walk():
        start = each.meta.get("start")
        if isinstance(start, int):
            yield start


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
