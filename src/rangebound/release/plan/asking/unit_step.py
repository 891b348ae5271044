"""A CTE that has one row per unit: `WITH p AS (SELECT person, SUM(cost) AS cost FROM visits GROUP BY person)`."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from rangebound.release.plan.asking.row_expression import RowExpressions, bare, is_condition
from rangebound.release.plan.asking.statement import only, refused
from rangebound.release.plan.expressions.nodes import Expression, call
from rangebound.release.plan.per_unit import UnitCall

_SHAPE = (
    "a CTE must be one row per unit, as WITH p AS (SELECT {unit}, SUM(cost) AS cost FROM visits GROUP BY {unit}); name "
    "other columns in [columns] of the base plan"
)


def per_unit(text: str, select: exp.Select, rows: RowExpressions, unit: str | None) -> dict[str, object]:
    """The per-unit columns of a CTE, by name; the column of the unit is left out."""
    only(text, select, "expressions", "from_", "joins", "group", "where")
    shape = _SHAPE.format(unit=unit or "person")
    if unit is None:
        raise refused(text, select, f"the base plan has no unit column; {shape}")
    if select.args.get("where") is not None:
        rule = (
            "a WHERE before GROUP BY would leave out units without such rows; write FILTER or CASE in the aggregates, "
        )
        raise refused(text, select.args["where"], f"{rule}and WHERE on their numbers behind")
    group = select.args.get("group")
    keys = [] if group is None else group.expressions
    if group is not None:
        only(text, group, "expressions")
    if len(keys) != 1 or not _is_unit(keys[0], select, rows, unit):
        raise refused(text, group or select, shape)
    found: dict[str, object] = {}
    for each in select.expressions:
        if _is_unit(each, select, rows, unit):
            continue
        if not isinstance(each, exp.Alias):
            raise refused(text, each, "needs a name, as SUM(cost) AS cost")
        name = each.alias
        if name in found or name == unit:
            raise refused(text, each, "two columns have this name")
        found[name] = _step(text, each.this, rows)
    if not found:
        raise refused(text, select, shape)
    return found


def _is_unit(node: exp.Expr, select: exp.Select, rows: RowExpressions, unit: str) -> bool:
    node = bare(node)
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        at = int(node.name) - 1
        node = bare(select.expressions[at]) if 0 <= at < len(select.expressions) else node
    return isinstance(node, exp.Column) and rows.resolve(node) == unit


def _step(text: str, node: exp.Expr, rows: RowExpressions) -> object:
    clipped = rows.clip(node)
    if clipped is not None:
        return {"value": _call(text, clipped[0], rows), "range": clipped[1]}
    return _call(text, node, rows)


def _call(text: str, node: exp.Expr, rows: RowExpressions) -> UnitCall:
    node, condition = bare(node), None
    if isinstance(node, exp.Filter):
        only(text, node, "this", "expression")
        condition, node = rows.tree(node.expression.this), bare(node.this)
    if isinstance(node, exp.Count):
        only(text, node, "this", "big_int")
        return _counted(text, node, rows, condition)
    if type(node) in (exp.ArgMin, exp.ArgMax) and condition is None:
        only(text, node, "this", "expression")
        name = "first" if isinstance(node, exp.ArgMin) else "last"
        return UnitCall(name, tuple(rows.trees(node.this, node.expression)))
    name = _STEPS.get(type(node), "")
    if not name or isinstance(node.this, exp.Distinct):
        rule = "a per-unit column is COUNT, SUM, MIN, MAX, BOOL_OR, BOOL_AND, ARG_MIN or ARG_MAX of a column"
        raise refused(text, node, rule)
    only(text, node, "this")
    what = rows.tree(node.this)
    if is_condition(node.this) and name in ("min", "max"):
        name = "all" if name == "min" else "any"
    return UnitCall(name, (what if condition is None else call("case", condition, what),))


def _counted(text: str, node: exp.Expr, rows: RowExpressions, condition: Expression | None) -> UnitCall:
    if isinstance(node.this, exp.Distinct):
        only(text, node.this, "expressions")
        if len(node.this.expressions) != 1 or condition is not None:
            raise refused(text, node, "COUNT(DISTINCT x) takes one column, and no FILTER")
        return UnitCall("distinct", (rows.tree(node.this.expressions[0]),))
    present = None
    if not isinstance(node.this, exp.Star) and rows.constant(node.this) is None:
        present = call("not", call("missing", rows.tree(node.this)))
    parts = [each for each in (condition, present) if each is not None]
    return UnitCall("count", (call("and", *parts),) if parts else ())


_STEPS: Mapping[type[exp.Expr], str] = {
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalOr: "any",
    exp.LogicalAnd: "all",
}
