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
from collections.abc import Callable, Mapping

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

_ARITHMETIC: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_COMPARED: Mapping[type[ast.cmpop], str] = {
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
_DEEPEST = 60
_OF_UNITS = {"count": (0, 1), "first": (2, 2), "last": (2, 2)} | dict.fromkeys(
    ("any", "all", "sum", "min", "max", "distinct"), (1, 1)
)


def read_former(text: str) -> Expression:
    """The tree of the text of an expression of version 0.2; a `ValueError` if it is none. Nothing is ever evaluated.

    >>> print(read_former("'child' if 0 <= age < 18 else column('odd name')"))
    CASE WHEN 0 <= age AND age < 18 THEN 'child' ELSE "odd name" END
    """
    return _Reader(text).read()


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


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.bytes = self.text.encode("utf-8", "replace")

    def read(self) -> Expression:
        body = _parsed(f"({self.text}\n)")
        if (body.lineno, body.col_offset) == (1, 0) and not isinstance(body, ast.Tuple):
            raise ValueError("its parentheses do not match")
        return self._node(body, 1)

    def _node(self, node: ast.expr, depth: int) -> Expression:
        reader = _READERS.get(type(node))
        if reader is None or depth > _DEEPEST:
            raise ValueError("not in the language of version 0.2")
        return reader(self, node, depth + 1)

    def _constant(self, node: ast.Constant, depth: int) -> Expression:
        value = node.value
        finite = not isinstance(value, float) or math.isfinite(value)
        if not isinstance(value, (bool, int, float, str)) or not finite:
            raise ValueError("a constant must be a finite number, a text, or true or false")
        no_time_of_day(value)
        return constant(printable(value) if isinstance(value, str) else value)

    def _name(self, node: ast.Name, depth: int) -> Expression:
        lines = (b"(" + self.bytes + b"\n)").split(b"\n")
        written = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8", "replace")
        if written != node.id:  # Python brings names into one form, in which another column may be meant
            raise ValueError("a column of such a name was written as a text")
        return constant(_WORDS[node.id]) if node.id in _WORDS else Named(node.id)

    def _binary(self, node: ast.BinOp, depth: int) -> Expression:
        if type(node.op) not in _ARITHMETIC:
            raise ValueError("not an operator of version 0.2")
        return call(_ARITHMETIC[type(node.op)], self._node(node.left, depth), self._node(node.right, depth))

    def _unary(self, node: ast.UnaryOp, depth: int) -> Expression:
        if isinstance(node.op, ast.Invert):
            raise ValueError("not an operator of version 0.2")
        inner = self._node(node.operand, depth)
        if isinstance(node.op, ast.UAdd):
            return inner
        return call("not" if isinstance(node.op, ast.Not) else "-x", inner)

    def _compare(self, node: ast.Compare, depth: int) -> Expression:
        found, left = [], node.left
        for sign, right in zip(node.ops, node.comparators, strict=True):
            name = _COMPARED.get(type(sign), "")
            within = [right]
            if name in ("in", "not in", ""):
                if not name or not isinstance(right, (ast.List, ast.Tuple, ast.Set)):
                    raise ValueError("behind `in` stands a list of constants")
                within = right.elts
            found.append(call(name, *(self._node(each, depth) for each in (left, *within))))
            left = right
        return found[0] if len(found) == 1 else call("and", *found)

    def _call(self, node: ast.Call, depth: int) -> Expression:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
            raise ValueError("arguments are taken by their order")
        if name == "column":
            return self._column(node.args)
        if name not in FUNCTIONS or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError("not a function of version 0.2")
        if not any(each.types(len(node.args)) for each in FUNCTIONS[name].signatures):
            raise ValueError(f"{name}(...) does not take {len(node.args)} arguments")
        return call(name, *(self._node(each, depth) for each in node.args))

    def _column(self, given: list[ast.expr]) -> Expression:
        one = given[0] if len(given) == 1 else None
        if not isinstance(one, ast.Constant) or not isinstance(one.value, str) or not 0 < len(one.value) <= 200:
            raise ValueError("column(...) takes the name of a column as a text")
        return Named(printable(one.value))


_READERS: Mapping[type[ast.expr], Callable[..., Expression]] = {
    ast.Constant: _Reader._constant,
    ast.Name: _Reader._name,
    ast.BinOp: _Reader._binary,
    ast.UnaryOp: _Reader._unary,
    ast.BoolOp: lambda reader, node, depth: call(
        "and" if isinstance(node.op, ast.And) else "or", *(reader._node(each, depth) for each in node.values)
    ),
    ast.Compare: _Reader._compare,
    ast.IfExp: lambda reader, node, depth: call(
        "case", *(reader._node(each, depth) for each in (node.test, node.body, node.orelse))
    ),
    ast.Call: _Reader._call,
}


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
