"""A condition that is written as an expression: comparisons of a column with a constant, and whatever else it holds."""

from __future__ import annotations

from collections.abc import Iterator

from rangebound.release.plan.expressions.nodes import COMPARISONS, LONGEST, Call, Constant, Expression, Named
from rangebound.release.plan.expressions.reading import read

HIDDEN = "= "
"""What the name of a column begins with that an expression in `where` or `of` makes; its text follows."""


class HiddenName(str):
    """The name of a column that an expression makes: no name that a plan writes is one, whatever it begins with."""


LONGEST_NAME = len(HIDDEN) + LONGEST
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
Fields = dict[str, object]


def conditions_of(text: str | Expression) -> list[Fields]:
    """The conditions that hold together where an expression does, as fields of a plan.

    A comparison of a column with a constant, a truth column and `missing(column)` are conditions as a list of them
    would say it, so that both ways to write a plan are one. Any other part is a column of truth values named by itself.

    >>> conditions_of("age >= 18 and a + b > 3")
    [{'column': 'age', 'is': '>=', 'value': 18.0}, {'column': '= a + b > 3', 'is': '==', 'value': True}]
    """
    node = read(text)
    parts = node.arguments if isinstance(node, Call) and node.function == "and" else (node,)
    return [
        next(iter([*_plain(each), {"column": HiddenName(f"{HIDDEN}{each}"), "is": "==", "value": True}]))
        for each in parts
    ]


def hidden_text(column: str) -> str | None:
    """The text of the expression that makes a column of this name; None for any other column."""
    return column.removeprefix(HIDDEN) if column.startswith(HIDDEN) else None


def _plain(node: Expression) -> Iterator[Fields]:
    match node:
        case Named(name):
            yield {"column": name, "is": "==", "value": True}
        case Call("not", (Named(name),)):
            yield {"column": name, "is": "==", "value": False}
        case Call("missing", (Named(name),)):
            yield {"column": name, "is": "missing"}
        case Call("not", (Call("missing", (Named(name),)),)):
            yield {"column": name, "is": "present"}
        case Call(sign, (Named(name), Constant(value=value))) if sign in COMPARISONS:
            yield {"column": name, "is": sign, "value": value}
        case Call(sign, (Constant(value=value), Named(name))) if sign in COMPARISONS:
            yield {"column": name, "is": _MIRRORED.get(sign, sign), "value": value}
        case Call("in" | "not in" as sign, (Named(name), *values)):
            listed = tuple(each.value for each in values if isinstance(each, Constant))
            yield {"column": name, "is": sign, "value": listed}
