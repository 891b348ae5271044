"""Reading an expression: Python's own grammar, of which a small part is allowed."""

from __future__ import annotations

import ast
import keyword
import math
import re
import warnings
from collections.abc import Callable, Mapping

from rangebound.release.plan.expressions.functions import FUNCTIONS, REFUSED
from rangebound.release.plan.expressions.nodes import (
    LONGEST,
    TOO_LONG,
    WORDS,
    Expression,
    Named,
    call,
    constant,
    levels,
)
from rangebound.release.plan.fields import no_time_of_day, printable
from rangebound.values import arguments

DEEPEST = 60
"""Levels of an expression: a sum of this many terms, or this many parentheses that matter."""
_TOO_DEEP = f"has more than {DEEPEST} levels; name a part in [columns] and use its name"

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
_ONLY = "the language has numbers, texts, dates, columns, + - * / // %, comparisons, and, or, not, in, if and functions"
_HINTS = {
    r"(?<![=!<>])=(?!=)": "a comparison for equality is written ==",
    "<>": "`unequal` is written !=",
    r"&&|\|\|": "write `and` and `or`",
    r"(?i)(?:^|[(,]) *if *\(|\bcase +when\b": 'a choice is written case(age < 18, "child", "adult")',
    r"(?i)\bis +(not +)?null\b": "missing(x) says whether a value is missing",
    r"(?i)\bbetween\b": "a value between two others is written 18 <= age <= 65",
    r"\b(AND|OR|NOT|IN)\b": "`and`, `or`, `not` and `in` are written in lower case",
}
"""What another language would write, and how it is written here."""
_INSTEAD: Mapping[type[ast.AST], str] = {
    ast.Pow: "** gives different last bits on different engines; write x * x for a square",
    ast.BitAnd: "& is not in the language; write `and`",
    ast.BitOr: "| is not in the language; write `or`",
    ast.Invert: "~ is not in the language; write `not`",
    ast.Attribute: 'a dot is not in the language; a column with a dot in its name is column("a.b")',
    ast.Subscript: 'square brackets stand for the list behind `in` alone; an odd name of a column is column("a[1]")',
    ast.Is: "`is` is not in the language; write ==, or missing(x) for a missing value",
    ast.IsNot: "`is not` is not in the language; write !=, or not missing(x)",
    ast.List: "a list stands behind `in` alone",
    ast.Tuple: "a list stands behind `in` alone; a comma elsewhere separates the arguments of a function",
    ast.JoinedStr: 'an f-string is not in the language; write a plain text, as "..."',
    ast.NamedExpr: "`:=` is not in the language; name a part in [columns] and use its name",
    ast.Lambda: "`lambda` is not in the language; name a part in [columns] and use its name",
}


def read(text: str | Expression) -> Expression:
    """The tree of an expression's text; a tree as it is, if its text could be read again.

    Guarantee: whatever the text is, a tree of at most `DEEPEST` levels or a `ValueError` with the reason; nothing is
    ever evaluated. `read(str(tree)) == tree`.

    >>> read("18 <= age < 65").arguments[0]
    Call(function='<=', arguments=(Constant(value=18.0, type=<ValueType.NUMBER: 'a number'>), Named(name='age')))
    >>> str(read("1 if a  else 0"))
    'case(a, 1, 0)'
    """
    if not isinstance(text, str) and levels(text) > DEEPEST:
        raise ValueError(_TOO_DEEP)
    if len(str(text)) > LONGEST:
        raise ValueError(TOO_LONG)
    return _Reader(printable(text)).read() if isinstance(text, str) else text


class _Reader:
    """Reads one text; it knows the text to show the part that is at fault."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        self.bytes = self.text.encode("utf-8", "replace")

    def read(self) -> Expression:
        if not self.text:
            raise ValueError("must not be empty")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a doubtful escape or numeral is an error here
                tree = ast.parse(f"({self.text}\n)", mode="eval")
        except SyntaxError as reason:
            raise ValueError(self._hint(reason.msg)) from None
        except (ValueError, MemoryError, RecursionError, OverflowError):
            raise ValueError("has too many parts within each other, or characters that cannot be read") from None
        if (tree.body.lineno, tree.body.col_offset) == (1, 0) and not isinstance(tree.body, ast.Tuple):
            raise ValueError("not a valid expression; its parentheses do not match")
        return self._node(tree.body, 1)

    def _hint(self, message: str) -> str:
        code = re.sub(r"\"[^\"]*\"|'[^']*'", '""', self.text)  # without what stands in quotation marks
        for wrong, way in _HINTS.items():
            if re.search(wrong, code):
                return f"not a valid expression; {way}"
        words = [each for each in re.findall(r"\w+", code) if keyword.iskeyword(each) and each not in _ALLOWED]
        spaced = re.search(r"\b([^\W\d]\w* +[^\W\d]\w*)\b", code)
        if not words and spaced and not any(map(keyword.iskeyword, spaced[1].split())):
            words = [spaced[1]]
        way = f'; a column {words[0]!r} is written column("{words[0]}")' if words else ""
        return f"not a valid expression ({message}){way}"

    def _node(self, node: ast.expr, depth: int) -> Expression:
        if depth > DEEPEST:
            raise ValueError(_TOO_DEEP)
        reader = _READERS.get(type(node))
        if reader is None:
            raise ValueError(f"{_INSTEAD.get(type(node), f'`{type(node).__name__}` is not in the language')}; {_ONLY}")
        return reader(self, node, depth + 1)

    def _constant(self, node: ast.Constant, depth: int) -> Expression:
        value = node.value
        if value is None:
            raise ValueError("None is not in the language; missing(x) says whether a value is missing")
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError(f"a constant must be a number, a text, or true or false; a date is {_DATE}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError("a number must be finite, and at most about 1.8e308")
        no_time_of_day(value)
        if isinstance(value, str):
            printable(value)
            if any("\ud800" <= each <= "\udfff" for each in value):
                raise ValueError("a text must be valid Unicode, without half a surrogate pair")
        return constant(value)

    def _name(self, node: ast.Name, depth: int) -> Expression:
        lines = (b"(" + self.bytes + b"\n)").split(b"\n")
        written = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode("utf-8", "replace")
        if written != node.id:  # Python brings names into one form, in which another column may be meant
            raise ValueError(f'a column of such a name is written column("{written}")')
        if node.id in WORDS:
            return constant(WORDS[node.id])
        return Named(node.id)

    def _binary(self, node: ast.BinOp, depth: int) -> Expression:
        sign = _ARITHMETIC.get(type(node.op))
        if sign is None:
            raise ValueError(_INSTEAD.get(type(node.op), f"`{type(node.op).__name__}` is not in the language; {_ONLY}"))
        return call(sign, self._node(node.left, depth), self._node(node.right, depth))

    def _unary(self, node: ast.UnaryOp, depth: int) -> Expression:
        if isinstance(node.op, ast.Invert):
            raise ValueError(_INSTEAD[ast.Invert])
        inner = self._node(node.operand, depth)
        if isinstance(node.op, ast.UAdd):
            return inner
        return call("not" if isinstance(node.op, ast.Not) else "-x", inner)

    def _compare(self, node: ast.Compare, depth: int) -> Expression:
        found, left = [], node.left
        for sign, right in zip(node.ops, node.comparators, strict=True):
            name = _COMPARED.get(type(sign))
            if name is None:
                raise ValueError(_INSTEAD[type(sign)])
            within = self._listed(right) if name in ("in", "not in") else [right]
            found.append(call(name, *(self._node(each, depth) for each in (left, *within))))
            left = right
        return found[0] if len(found) == 1 else call("and", *found)

    def _listed(self, node: ast.expr) -> list[ast.expr]:
        if not isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            way = 'such as ["a", "b"]; contains(text, "a") looks inside'
            raise ValueError(f"behind `in` stands a list of constants, {way}")
        return node.elts

    def _call(self, node: ast.Call, depth: int) -> Expression:
        if not isinstance(node.func, ast.Name):
            raise ValueError(f"a function is called by its name; {_ONLY}")
        name, given = node.func.id, node.args
        if node.keywords or any(isinstance(each, ast.Starred) for each in given):
            raise ValueError(f"{name}(...) takes its arguments by their order, without names or stars")
        if name == "column":
            return self._column(given)
        found = [self._node(each, depth) for each in given]
        if name not in FUNCTIONS or not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(unknown(name))
        return call(name, *found)

    def _column(self, given: list[ast.expr]) -> Expression:
        one = given[0] if len(given) == 1 else None
        if not isinstance(one, ast.Constant) or not isinstance(one.value, str) or not 0 < len(one.value) <= 200:
            raise ValueError('column(...) takes the name of a column as a text, such as column("odd name")')
        return Named(printable(one.value))


_ALLOWED = {"and", "or", "not", "in", "if", "else", "True", "False", "None", "is", "lambda"}
_DATE = 'date("2025-01-31")'
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


def unknown(name: str) -> str:
    """Why a function is not in the language, and one that may have been meant."""
    if name in REFUSED:
        return f"{name}(...) is not in the language: {REFUSED[name]}"
    known = [each for each in FUNCTIONS if each.isidentifier() and not keyword.iskeyword(each)]
    return f"{name}(...) is not in the language; {arguments.similar(name, known) or 'it has ' + ', '.join(known)}"
