"""Trees of SQL, written as SQL."""

from __future__ import annotations

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
