"""Expressions as version 0.2 wrote them, in a small part of Python's grammar: read, converted, and written.

Releases, certificates and ledgers have the expressions of their plans in this form, so that a plan has the same
fingerprint in every version. Nothing else knows it, but for `rangebound plan upgrade` and the warning about such plans.
"""

from __future__ import annotations

import ast
import datetime
import json
import keyword
import math
import re
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence

from rangebound.release.plan.expressions.functions import FUNCTIONS
from rangebound.release.plan.expressions.nodes import (
    COMPARISONS,
    LONGEST,
    TOO_LONG,
    Call,
    Constant,
    Expression,
    Named,
    UnitCall,
    call,
    constant,
)
from rangebound.release.plan.fields import no_time_of_day, printable

_OPERATORS: Mapping[type[ast.AST], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.USub: "-x",
    ast.Not: "not",
    ast.And: "and",
    ast.Or: "or",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_WORDS = {"true": True, "false": False, "True": True, "False": False}
_DEEPEST, _LONGEST_NAME = 60, 200
_OF_UNITS = {"count": (0, 1), "first": (2, 2), "last": (2, 2)} | dict.fromkeys(
    ("any", "all", "sum", "min", "max", "distinct"), (1, 1)
)


def read_former_call(text: str) -> UnitCall:
    """The function of all rows of a unit in a text of version 0.2.

    >>> str(read_former_call("count(late)")), str(read_former_call("first(city, day)"))
    ('COUNT(*) FILTER (WHERE late)', 'ARG_MIN(city, day)')
    """
    node = _parsed(text.strip())
    name = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
    least, most = _OF_UNITS.get(name, (1, 0))
    if not isinstance(node, ast.Call) or node.keywords or not least <= len(node.args) <= most:
        raise ValueError("not a function of all rows of a unit")
    parts = [ast.get_source_segment(text.strip(), each) or "" for each in node.args]
    return UnitCall(name, tuple(map(read_former, parts)))


def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise ValueError(TOO_LONG)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a doubtful escape or numeral is an error here
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError, OverflowError):
        raise ValueError("not an expression of version 0.2") from None


def read_former(text: str) -> Expression:
    """The tree of the text of an expression of version 0.2; a `ValueError` if it is none. Nothing is ever evaluated.

    >>> print(read_former("'child' if 0 <= age < 18 else column('odd name')"))
    CASE WHEN 0 <= age AND age < 18 THEN 'child' ELSE "odd name" END
    """
    text = text.strip()
    body = _parsed(f"({text}\n)")
    if (body.lineno, body.col_offset) == (1, 0) and not isinstance(body, ast.Tuple):
        raise ValueError("its parentheses do not match")
    lines = b"(%b\n)" % text.encode("utf-8", "replace")
    return _tree(body, lines.split(b"\n"), _DEEPEST)


def _tree(node: ast.expr, lines: Sequence[bytes], deepest: int) -> Expression:
    """The tree of a node of Python's, whose text is in some lines and has no more levels than are left."""
    if not deepest:
        raise ValueError("not in the language of version 0.2")

    def inner(*parts: ast.expr) -> Iterator[Expression]:
        return (_tree(each, lines, deepest - 1) for each in parts)

    match node:
        case ast.Constant(value=value):
            finite = not isinstance(value, float) or math.isfinite(value)
            if not isinstance(value, (bool, int, float, str)) or not finite:
                raise ValueError("a constant must be a finite number, a text, or true or false")
            no_time_of_day(value)
            return constant(printable(value) if isinstance(value, str) else value)
        case ast.Name(id=name):
            written = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8", "replace")
            if written != name:  # Python brings names into one form, in which another column may be meant
                raise ValueError("a column of such a name was written as a text")
            return constant(_WORDS[name]) if name in _WORDS else Named(name)
        case ast.BinOp(op=sign) if type(sign) in _OPERATORS:
            return call(_OPERATORS[type(sign)], *inner(node.left, node.right))
        case ast.UnaryOp(op=ast.UAdd()):
            return next(inner(node.operand))
        case ast.UnaryOp(op=ast.Not() | ast.USub() as sign):
            return call(_OPERATORS[type(sign)], *inner(node.operand))
        case ast.BoolOp(op=sign):
            return call(_OPERATORS[type(sign)], *inner(*node.values))
        case ast.IfExp():
            return call("case", *inner(node.test, node.body, node.orelse))
        case ast.Compare():
            sides = zip((node.left, *node.comparators), node.ops, node.comparators, strict=False)
            found = [call(_OPERATORS[type(sign)], *inner(left, *_listed(sign, right))) for left, sign, right in sides]
            return found[0] if len(found) == 1 else call("and", *found)
        case ast.Call(func=ast.Name(id="column"), args=[ast.Constant(value=str(name))], keywords=[]):
            if not 0 < len(name) <= _LONGEST_NAME:
                raise ValueError("column(...) takes the name of a column as a text")
            return Named(printable(name))
        case ast.Call(func=ast.Name(id=name), args=given, keywords=[]) if name in FUNCTIONS and name.isidentifier():
            known = not keyword.iskeyword(name) and not any(isinstance(each, ast.Starred) for each in given)
            if known and any(each.types(len(given)) for each in FUNCTIONS[name].signatures):
                return call(name, *inner(*given))
    raise ValueError("not in the language of version 0.2")


def _listed(sign: ast.cmpop, right: ast.expr) -> Sequence[ast.expr]:
    """What stands on the right of a comparison: one side, or the constants of a list."""
    if type(sign) not in _OPERATORS:
        raise ValueError("not an operator of version 0.2")
    if not isinstance(sign, (ast.In, ast.NotIn)):
        return [right]
    if not isinstance(right, (ast.List, ast.Tuple, ast.Set)):
        raise ValueError("behind `in` stands a list of constants")
    return right.elts


def former(node: Expression | UnitCall) -> str:
    """A tree as version 0.2 wrote it; `read_former(former(tree)) == tree`.

    >>> former(call("==", Named("odd name"), constant("x"))), former(UnitCall("count", ()))
    ('column("odd name") == "x"', 'count()')
    """
    if isinstance(node, UnitCall):
        return f"{node.function}({', '.join(map(former, node.arguments))})"
    if isinstance(node, Named):
        plain = re.fullmatch(r"[^\W\d]\w*", node.name) and unicodedata.normalize("NFKC", node.name) == node.name
        bare = plain and not keyword.iskeyword(node.name) and node.name not in _WORDS
        return node.name if bare else f"column({_text(node.name)})"
    if isinstance(node, Call):
        return _written(node)
    if isinstance(node.value, str):
        return _text(node.value)
    return f'date("{node.value}")' if isinstance(node.value, datetime.date) else str(node)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


_BINDING = {"or": 1, "and": 2, "not": 3, **dict.fromkeys((*COMPARISONS, "in", "not in"), 4)}
_BINDING |= {"+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6, "-x": 7}
_ATOM = 8


def _binding(node: Expression) -> int:
    if isinstance(node, Constant):
        return _BINDING["-x"] if isinstance(node.value, float) and node.value < 0.0 else _ATOM
    return _BINDING.get(node.function, _ATOM) if isinstance(node, Call) else _ATOM


def _written(node: Call) -> str:
    name, arguments, own = node.function, node.arguments, _binding(node)
    if own == _ATOM:
        return f"{name}({', '.join(map(former, arguments))})"
    if name in ("in", "not in"):
        return f"{_within(arguments[0], own + 1)} {name} [{', '.join(map(former, arguments[1:]))}]"
    if name in ("and", "or"):
        return f" {name} ".join(_within(each, own + 1) for each in arguments)
    if name in ("not", "-x"):
        return ("not " if name == "not" else "-") + _within(arguments[0], own)
    left, right = arguments
    tight = name in COMPARISONS  # these do not chain
    return f"{_within(left, own + tight)} {name} {_within(right, own + 1)}"


def _within(node: Expression, binding: int) -> str:
    """An argument, in parentheses where it binds less than its place asks for."""
    return former(node) if _binding(node) >= binding else f"({former(node)})"


def former_conditions(node: Expression) -> str:
    """Conditions that hold together as the plan of a release has them: each in parentheses."""
    parts = node.arguments if isinstance(node, Call) and node.function == "and" else (node,)
    return " and ".join(f"({former(each)})" for each in parts)
