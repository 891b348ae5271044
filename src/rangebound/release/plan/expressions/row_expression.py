"""Expressions in SQL: of what sqlglot parses, what is on the lists below becomes a tree of our nodes."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from rangebound.errors import PlanError
from rangebound.release.plan.expressions.functions import FUNCTIONS, REFUSED
from rangebound.release.plan.expressions.nodes import (
    NAMES,
    Constant,
    Expression,
    Literal,
    Named,
    UnitCall,
    call,
    checked,
    constant,
    iso_day,
)
from rangebound.release.plan.expressions.sql_text import (
    A_STEP,
    AGGREGATE,
    BINARY,
    CALLS,
    CLIP,
    COMPARING,
    INSTEAD,
    OF_UNITS,
    ORDERED,
    PARTS,
    STEPS,
    SUBSET,
    TIMES,
    WHOLE,
    Unreadable,
    beyond,
    fragment,
    tokens,
    trees,
)
from rangebound.release.plan.fields import no_time_of_day, printable
from rangebound.values import arguments


def read_sql(text: str, deepest: int) -> Expression:
    """The tree of the text of one expression about a row."""
    return _IN_A_PLAN.tree(_parsed(text, deepest))


def read_unit_call(text: str, deepest: int) -> UnitCall:
    """The function of all rows of a unit in a text."""
    return _IN_A_PLAN.unit_call(_parsed(text, deepest))


def _parsed(text: str, deepest: int) -> exp.Expr:
    found = tokens(text, deepest)
    for each in found:  # what other languages, or other dialects, take for something else
        written = text[each.start : each.end + 1]
        if each.comments:
            raise ValueError("a comment is not part of an expression; in TOML it stands behind #")
        if written in _NOT_IN_A_PLAN:
            raise ValueError(_NOT_IN_A_PLAN[written])
    read = trees(text, found, exp.Condition)
    if len(read) != 1 or read[0] is None:
        raise ValueError("must be one expression, and not empty")
    return read[0]


_NOT_IN_A_PLAN = {
    "==": "a comparison for equality is written =",
    "[": "a list is written in parentheses, as x IN ('a', 'b'); a name with brackets is written \"a[1]\"",
}

Resolve = Callable[[exp.Column], str]
"""The name of a column in the plan, by what the text calls it."""
Refuse = Callable[[exp.Expr, str], ValueError]
"""The error about a node of a text."""

_BY_NAME = {NAMES.get(name, name).upper(): name for name in FUNCTIONS if NAMES.get(name, name).isidentifier()}


class RowExpressions:
    """Reads expressions about rows, whose columns `resolve` knows; `notes` are for the reader, `refused` makes errors.

    >>> str(_IN_A_PLAN.tree(exp.column("a") + 1))
    'a + 1'
    """

    def __init__(self, resolve: Resolve, refused: Refuse) -> None:
        self.resolve, self.refused = resolve, refused
        self.notes: dict[str, None] = {}

    def only(self, node: exp.Expr, *known: str) -> None:
        """Refuse a node with a part that is not among those that are `known`, so that nothing is ever passed over."""
        for part, rule in beyond(node, *known):
            raise self.refused(part, rule)

    def tree(self, node: exp.Expr) -> Expression:
        """An expression of a plan.

        Guarantee: made of names, constants and the functions on the lists above alone, or a `PlanError`.
        """
        reader = _READERS.get(type(node))
        if reader is None:
            raise self.refused(node, self._instead(node))
        if isinstance(node, COMPARING) and any(isinstance(each, COMPARING) for each in node.iter_expressions()):
            raise self.refused(node, "comparisons do not chain; write x BETWEEN y AND z, or parentheses")
        try:
            return reader(self, node)
        except (PlanError, Unreadable):
            raise
        except ValueError as reason:
            raise self.refused(node, str(reason)) from None

    def _instead(self, node: exp.Expr) -> str:
        """Why a node is not in the subset, and what is."""
        if isinstance(node, exp.AggFunc) and type(node) not in INSTEAD:
            return AGGREGATE
        if isinstance(node, exp.Func):
            names = [node.name] if isinstance(node, exp.Anonymous) else node.sql_names()
            for name in names:
                if type(node) not in INSTEAD and name.lower() in REFUSED:
                    return REFUSED[name.lower()]
            if isinstance(node, exp.Anonymous):
                guess = arguments.similar(node.name.upper(), _BY_NAME)
                return f"is not in the language{'; ' if guess else ', which has '}{guess or ', '.join(_BY_NAME)}"
        return INSTEAD.get(type(node), SUBSET)

    def trees(self, *nodes: exp.Expr) -> list[Expression]:
        """Expressions of a plan, in order."""
        return [self.tree(each) for each in nodes]

    def column_tree(self, node: exp.Expr) -> Expression:
        """The expression that makes a column, which a plan could have as text."""
        try:
            return checked(self.tree(node))
        except PlanError:
            raise
        except ValueError as reason:
            raise self.refused(node, str(reason)) from None

    def unit_call(self, node: exp.Expr) -> UnitCall:
        """A function of all rows of a unit."""
        node, condition = bare(node), None
        if isinstance(node, exp.Filter):
            self.only(node, "this", "expression")
            condition, node = self.tree(node.expression.this), bare(node.this)
        if isinstance(node, exp.Count):
            self.only(node, "this", "big_int")
            return self._counted(node, condition)
        if type(node) in (exp.ArgMin, exp.ArgMax) and condition is None and node.expression is not None:
            self.only(node, "this", "expression")
            name = "first" if isinstance(node, exp.ArgMin) else "last"
            return UnitCall(name, tuple(self.trees(node.this, node.expression)))
        name = STEPS.get(type(node), "")
        if not name or isinstance(node.this, exp.Distinct):
            guess = arguments.similar(node.name.upper(), OF_UNITS) if isinstance(node, exp.Anonymous) else ""
            raise self.refused(node, f"a per-unit column is {A_STEP}{f'; {guess}' if guess else ''}")
        self.only(node, "this")
        what = self.tree(node.this)
        if is_condition(node.this) and name in ("min", "max"):
            name = "all" if name == "min" else "any"
        return UnitCall(name, (what if condition is None else call("case", condition, what),))

    def _counted(self, node: exp.Expr, condition: Expression | None) -> UnitCall:
        if isinstance(node.this, exp.Distinct):
            self.only(node.this, "expressions")
            if len(node.this.expressions) != 1 or condition is not None:
                raise self.refused(node, "COUNT(DISTINCT x) takes one column, and no FILTER")
            return UnitCall("distinct", (self.tree(node.this.expressions[0]),))
        if node.this is None:
            raise self.refused(node, "COUNT takes a column, or a star")
        parts = [] if condition is None else [condition]
        if not isinstance(node.this, exp.Star) and self.constant(node.this) is None:
            parts.append(call("not", call("missing", self.tree(node.this))))
        return UnitCall("count", (call("and", *parts),) if parts else ())

    def clip(self, node: exp.Expr) -> tuple[exp.Expr, list[float | datetime.date]] | None:
        """What is clipped to constants by LEAST and GREATEST, and the two ends; None for any other expression."""
        for outer, inner in ((exp.Least, exp.Greatest), (exp.Greatest, exp.Least)):
            node = bare(node)
            if not isinstance(node, outer):
                continue
            first, limit = self._limited(node)
            nested = bare(first) if first is not None else None
            if limit is not None and isinstance(nested, inner):
                what, other = self._limited(nested)
                if what is not None and other is not None:
                    self.notes[CLIP] = None
                    ends = [other, limit] if outer is exp.Least else [limit, other]
                    return what, ends
        return None

    def _limited(self, node: exp.Expr) -> tuple[exp.Expr | None, float | datetime.date | None]:
        """The two sides of LEAST or GREATEST of an expression and a constant."""
        parts = [node.this, *node.expressions]
        fixed = [each for each in parts if self.constant(each) is not None]
        others = [each for each in parts if each not in fixed]
        if len(parts) != 2 or len(fixed) != 1:
            return None, None
        value = self.constant(fixed[0])
        return (others[0], value) if isinstance(value, (float, datetime.date)) else (None, None)

    def constant(self, node: exp.Expr) -> Literal | None:
        """The value of a constant; None for anything else."""
        node = bare(node)
        match node:
            case exp.Literal():
                return self._literal(node)
            case exp.Boolean():
                return bool(node.this)
            case exp.Neg():
                value = self.constant(node.this)
                return 0.0 - value if isinstance(value, float) else None  # no zero has a sign
            case exp.Cast() if _is_type(node, exp.DType.DATE) and isinstance(node.this, exp.Literal):
                return self._day(node)
        return None

    def _literal(self, node: exp.Expr) -> float | str:
        found = node.name
        if node.is_string:
            try:
                return printable(found)
            except ValueError as reason:
                raise self.refused(node, str(reason)) from None
        try:
            value = float(found)
        except ValueError:
            raise self.refused(node, "must be a number") from None
        if math.isinf(value):
            raise self.refused(node, "must be at most about 1.8e308")
        if re.fullmatch("[0-9]+", found):
            no_time_of_day(int(found))
        return value

    def _day(self, node: exp.Expr) -> datetime.date:
        found = iso_day(node.this.name)
        if found is None:
            raise self.refused(node, "a date is written DATE '2025-01-31'")
        return found

    def _constant(self, node: exp.Expr) -> Expression:
        """A constant, with a note where it is a day."""
        value = self.constant(node)
        assert value is not None
        if isinstance(value, datetime.date) or (isinstance(value, str) and iso_day(value)):
            self.notes[TIMES] = None
        return constant(value)

    def _binary(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression", "typed", "safe")
        left, right = self.trees(node.this, node.expression)
        if isinstance(node, ORDERED):  # texts have no order, so a text that is a day is meant as one
            left, right = self._dated(left), self._dated(right)
        return call(BINARY[type(node)], left, right)

    def _connected(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        return call(BINARY[type(node)], *self.trees(*node.flatten(unnest=False)))

    def _not(self, node: exp.Expr) -> Expression:
        self.only(node, "this")
        if isinstance(node.this, exp.In):
            return self._in(node.this, "not in")
        return call("not", self.tree(node.this))

    def _dated(self, found: Expression) -> Expression:
        day = iso_day(found.value) if isinstance(found, Constant) and isinstance(found.value, str) else None
        return found if day is None else constant(day)

    def _between(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "low", "high")
        what = self.tree(node.this)
        low, high = map(self._dated, self.trees(node.args["low"], node.args["high"]))
        return call("and", call(">=", what, low), call("<=", what, high))

    def _in(self, node: exp.Expr, name: str = "in") -> Expression:
        self.only(node, "this", "expressions", "field")
        values = [self.constant(each) for each in node.expressions]
        if not values or None in values:
            raise self.refused(node, "IN takes a list of constants, such as x IN ('a', 'b')")
        return call(name, self.tree(node.this), *map(self._constant, node.expressions))

    def _is(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        if not isinstance(node.expression, exp.Null):
            raise self.refused(node, "IS takes NULL alone; a column of truth values stands by itself")
        return call("missing", self.tree(node.this))

    def _like(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression", "negate")
        pattern = self.constant(node.expression)
        parts = re.fullmatch(r"(%?)([^%_\\]+)(%?)", pattern, re.DOTALL) if isinstance(pattern, str) else None
        if parts is None:
            raise self.refused(node, "LIKE takes 'text%', '%text' or '%text%'; engines read other patterns differently")
        before, inner, after = parts.groups()
        name = ("contains" if before else "starts") if after else "ends" if before else "=="
        found = call(name, self.tree(node.this), constant(inner))
        return call("not", found) if node.args.get("negate") else found

    def _case(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "ifs", "default")
        subject = self.tree(node.this) if node.this is not None else None
        parts = []
        for each in node.args["ifs"]:
            self.only(each, "this", "true")
            condition, value = self.trees(each.this, each.args["true"])
            parts += [condition if subject is None else call("==", subject, condition), value]
        default = node.args.get("default")
        if default is not None and not isinstance(default, exp.Null):
            parts.append(self.tree(default))
        return call("case", *parts)

    def _if(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "true", "false")
        otherwise = node.args.get("false")
        return call("case", *self.trees(node.this, node.args["true"], *([] if otherwise is None else [otherwise])))

    def _coalesce(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expressions")
        return call("coalesce", *self.trees(node.this, *node.expressions))

    def _nullif(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        what, other = self.trees(node.this, node.expression)
        differ = call("!=", what, other)
        if self.constant(node.expression) is None:
            differ = call("coalesce", differ, constant(True))  # a value stays where the other one is missing
        return call("case", differ, what)

    def _extreme(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expressions", "ignore_nulls")
        if not node.expressions:
            raise self.refused(node, "takes two or more values")
        self.notes[CLIP] = None
        return call("min" if isinstance(node, exp.Least) else "max", *self.trees(node.this, *node.expressions))

    def _call(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        if node.this is None:
            raise self.refused(node, f"takes {FUNCTIONS[CALLS[type(node)]].written}")
        what = node.this.this if isinstance(node.this, exp.TsOrDsToDate) else node.this
        return call(CALLS[type(node)], *self.trees(what, *([node.expression] if node.args.get("expression") else [])))

    def _named(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expressions")
        name = _BY_NAME.get(node.name.upper())
        if name is None:
            raise self.refused(node, self._instead(node))
        if not any(each.types(len(node.expressions)) for each in FUNCTIONS[name].signatures):
            raise self.refused(node, f"takes {FUNCTIONS[name].written}")
        return call(name, *self.trees(*node.expressions))

    def _extract(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "expression")
        name = PARTS.get(node.name.upper())
        if name is None:
            said = "; DOW counts from different days in different dialects, and ISODOW from Monday, 1"
            raise self.refused(node, f"EXTRACT takes {', '.join(PARTS)}{said if 'DOW' in node.name.upper() else ''}")
        return call(name, self.tree(node.expression))

    def _cast(self, node: exp.Expr) -> Expression:
        self.only(node, "this", "to")
        if _is_type(node, exp.DType.DATE):
            if isinstance(node.this, exp.Literal):
                return self._constant(node)
            return call("date", self.tree(node.this))
        if _is_type(node, exp.DType.DOUBLE) or (_is_type(node, *WHOLE) and is_condition(node.this)):
            return call("number", self.tree(node.this))
        if _is_type(node, exp.DType.VARCHAR, exp.DType.TEXT):
            return call("text", self.tree(node.this))
        way = "; how a number becomes a whole one differs, and FLOOR(x) or ROUND(x) says it"
        way = way if _is_type(node, *WHOLE) else "; other types round a number, each database in its way"
        raise self.refused(node, f"CAST takes DOUBLE, VARCHAR and DATE{way}")


Reader = Callable[[RowExpressions, exp.Expr], Expression]
_READERS: Mapping[type[exp.Expr], Reader] = {
    exp.Literal: RowExpressions._constant,
    exp.Boolean: RowExpressions._constant,
    exp.Column: lambda rows, node: Named(printable(rows.resolve(node))),  # type: ignore[arg-type]
    exp.Paren: lambda rows, node: rows.tree(node.this),
    exp.Between: RowExpressions._between,
    exp.In: RowExpressions._in,
    exp.Is: RowExpressions._is,
    exp.Like: RowExpressions._like,
    exp.Case: RowExpressions._case,
    exp.If: RowExpressions._if,
    exp.Coalesce: RowExpressions._coalesce,
    exp.Nullif: RowExpressions._nullif,
    exp.Least: RowExpressions._extreme,
    exp.Greatest: RowExpressions._extreme,
    exp.Extract: RowExpressions._extract,
    exp.Cast: RowExpressions._cast,
    exp.Anonymous: RowExpressions._named,
    **dict.fromkeys(CALLS, RowExpressions._call),
    **dict.fromkeys(BINARY, RowExpressions._binary),
    **dict.fromkeys((exp.And, exp.Or), RowExpressions._connected),
    exp.Not: RowExpressions._not,
}
CONDITIONS = (exp.EQ, exp.NEQ, *ORDERED, exp.And, exp.Or, exp.Not, exp.In, exp.Between, exp.Is, exp.Like, exp.Boolean)


def is_condition(node: exp.Expr) -> bool:
    """Whether a node is a condition by its form."""
    return isinstance(bare(node), CONDITIONS)


def bare(node: exp.Expr) -> exp.Expr:
    """A node without parentheses around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _is_type(node: exp.Expr, *types: exp.DType) -> bool:
    to = node.args.get("to")
    return isinstance(to, exp.DataType) and to.this in types and not (to.args.get("nested") or to.expressions)


def _column_of_plan(node: exp.Column) -> str:
    if any(True for _ in beyond(node, "this")) or not isinstance(node.this, exp.Identifier):
        raise ValueError(f'a dot is not in the language; a column with a dot in its name is "{node.sql()}"')
    if not 0 < len(node.name) <= _LONGEST_NAME:
        raise ValueError(f"the name of a column has 1 to {_LONGEST_NAME} characters")
    return node.name


_LONGEST_NAME = 200
_IN_A_PLAN = RowExpressions(_column_of_plan, lambda node, rule: Unreadable(f"`{fragment(node)}`: {rule}"))
