"""Aggregates of a SELECT as questions of a plan: a table of what each becomes, and what is said about it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from rangebound.release.plan.expressions.former import former
from rangebound.release.plan.expressions.nodes import Expression, call
from rangebound.release.plan.expressions.row_expression import RowExpressions, bare, is_condition
from rangebound.release.plan.expressions.sql_text import fragment

Fields = dict[str, object]


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question that an aggregate asks: its fields, but for name, filter and groups, and conditions on its rows.

    `part` names the number that is meant, where it publishes several. In a plan it has a `name`, and is asked by a
    `node` of the text.
    """

    fields: Fields
    where: tuple[Expression, ...] = ()
    part: str | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)
    name: str = field(default="", compare=False)
    node: exp.Expr = field(default_factory=exp.Null, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Aggregates:
    """Reads the aggregates of one text; `made` has the columns that their arguments make.

    `unit` is the column of the privacy unit, where one row is not one unit already, and `most` its rows in a group: so
    many distinct values it can have there. `ranges` are those that the base plan states, and `present` the columns that
    have a value in every row that WHERE leaves.
    """

    rows: RowExpressions
    made: dict[str, Expression]
    unit: str | None
    most: int | None
    ranges: Mapping[str, Sequence[object]]
    present: frozenset[str]

    def refused(self, node: exp.Expr, rule: str) -> ValueError:
        """The error about a node."""
        return self.rows.refused(node, rule)

    def question(self, node: exp.Expr) -> Question | None:
        """The question of an aggregate, or None where a node is not one."""
        node = bare(node)
        where: tuple[Expression, ...] = ()
        if isinstance(node, exp.Filter):
            self.rows.only(node, "this", "expression")
            where, node = (self.rows.tree(node.expression.this),), bare(node.this)
        reader = _READERS.get(type(node))
        found = self._quotient(node) if reader is None else reader(self, node)
        if found is None and isinstance(node, exp.AggFunc):
            raise self.refused(node, _INSTEAD.get(type(node), _OTHER))
        if found is None and where:
            raise self.refused(node, "FILTER stands behind an aggregate")
        return found and Question(fields=found.fields, where=where + found.where, part=found.part, notes=found.notes)

    def _argument(self, node: exp.Expr, *others: str) -> exp.Expr:
        self.rows.only(node, "this", "big_int", *others)
        if isinstance(node.this, exp.Distinct):
            raise self.refused(node, "DISTINCT stands in COUNT(DISTINCT x) alone")
        if not isinstance(node.this, exp.Expr):
            raise self.refused(node, "takes a column")
        return node.this

    def column(self, node: exp.Expr) -> Fields:
        """The fields of a column question: the column, made of an expression where it is one, and the range it has."""
        clipped = self.rows.clip(node)
        if clipped is not None:
            what, ends = clipped
            low, high = ends
            if isinstance(low, datetime.date) != isinstance(high, datetime.date) or not low < high:  # type: ignore[operator]
                raise self.refused(node, "the lower end must be below the upper one, and of its kind")
            return {"column": self._named(what), "range": ends}
        return {"column": self._named(node)}

    def _named(self, node: exp.Expr) -> str:
        node = bare(node)
        if isinstance(node, exp.Column):
            return self.rows.resolve(node)
        if self.rows.constant(node) is not None:
            raise self.refused(node, "a constant needs no answer; name a column")
        found = self.rows.column_tree(node)
        return made_name(call("number", found) if is_condition(node) else found, self.made)

    def _count(self, node: exp.Expr) -> Question:
        self.rows.only(node, "this", "big_int")
        what = node.this
        if isinstance(what, exp.Distinct):
            return self._distinct(node, what)
        if what is None:
            raise self.refused(node, "COUNT takes a column, or a star")
        if isinstance(what, exp.Star):
            self.rows.only(what)
            return Question(fields={"kind": "count"})
        if self.rows.constant(what) is not None:
            return Question(fields={"kind": "count"})
        return self._present(what)

    def _present(self, node: exp.Expr) -> Question:
        """The rows in which an expression has a value; those in which the condition of a CASE without ELSE holds."""
        condition = self._chosen(node, None) or call("not", call("missing", self.rows.tree(node)))
        return Question(fields={"kind": "count"}, where=(condition,))

    def _chosen(self, node: exp.Expr, otherwise: float | None) -> Expression | None:
        """The condition of CASE WHEN c THEN 1 [ELSE 0] END, with no ELSE where `otherwise` is None."""
        node = bare(node)
        if not isinstance(node, (exp.Case, exp.If)) or (isinstance(node, exp.Case) and node.this is not None):
            return None
        first = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        default = node.args.get("default" if isinstance(node, exp.Case) else "false")
        default = None if isinstance(default, exp.Null) else default
        if len(first) != 1 or (default is None) != (otherwise is None):
            return None
        value = self.rows.constant(first[0].args["true"])
        fits = value is not None if otherwise is None else value == 1.0 and value is not True
        if not fits or (default is not None and self.rows.constant(default) != otherwise):
            return None
        return self.rows.tree(first[0].this)

    def _distinct(self, node: exp.Expr, what: exp.Distinct) -> Question:
        self.rows.only(what, "expressions")
        if len(what.expressions) != 1:
            raise self.refused(node, "COUNT(DISTINCT x) takes one column")
        inner = bare(what.expressions[0])
        name = self._named(inner)
        if name == self.unit:
            return Question(fields={"kind": "count of units"})
        most = {"values": self.most} if self.most else {}
        return Question(fields={"kind": "distinct count", "column": name, **most})

    def _sum(self, node: exp.Expr) -> Question:
        what = self._argument(node)
        condition = self._chosen(what, 0.0)
        if condition is not None:
            return Question(fields={"kind": "count"}, where=(condition,))
        if is_condition(what):
            return Question(fields={"kind": "count"}, where=(self.rows.tree(what),))
        return Question(fields={"kind": "sum", **self.column(what)})

    def _mean(self, node: exp.Expr) -> Question:
        what = self._argument(node)
        condition = self._chosen(what, 0.0)
        if condition is not None:
            return Question(fields={"kind": "share", "of": condition})
        return Question(fields={"kind": "mean", **self.column(what)})

    def _plain(self, kind: str, node: exp.Expr) -> Question:
        return Question(fields={"kind": kind, **self.column(self._argument(node))})

    def _extreme(self, node: exp.Expr) -> Question:
        what, low = self._argument(node), isinstance(node, exp.Min)
        level, name = ("0.01", "minimum") if low else ("0.99", "maximum")
        note = f"{fragment(node)} is published as the {level} quantile: a single row must not decide it"
        return Question(fields={"kind": name, **self.column(what)}, notes=(note,))

    def _most_frequent(self, node: exp.Expr) -> Question:
        column = self.column(node)
        note = (f"the mode of {column['column']!r} is published as the middle of a bin of its range",)
        return Question(fields={"kind": "mode", **column}, notes=note if "range" in column else ())

    def _quantile(self, node: exp.Expr) -> Question:
        self.rows.only(node, "this", "expression", "quantile")
        level = node.args.get("expression") or node.args.get("quantile")
        if level is None:
            raise self.refused(node, "takes a column and a level, such as QUANTILE_CONT(x, 0.9)")
        return self._at(node, node.this, level, falling=False)

    def _within(self, node: exp.Expr) -> Question | None:
        self.rows.only(node, "this", "expression")
        inner, order = node.this, node.expression
        ordered = order.expressions if isinstance(order, exp.Order) else []
        if not isinstance(inner, (exp.PercentileCont, exp.PercentileDisc, exp.Mode)) or len(ordered) != 1:
            raise self.refused(node, "WITHIN GROUP goes with PERCENTILE_CONT and PERCENTILE_DISC, by one column")
        if isinstance(inner, exp.Mode):
            return self._most_frequent(ordered[0].this)
        self.rows.only(inner, "this")
        return self._at(node, ordered[0].this, inner.this, falling=bool(ordered[0].args.get("desc")))

    def _at(self, node: exp.Expr, what: exp.Expr, level: exp.Expr, *, falling: bool) -> Question:
        value = self.rows.constant(level)
        if not isinstance(value, float) or not 0.0 < value < 1.0:
            raise self.refused(node, "the level must be one number between 0 and 1; for the ends ask MIN or MAX")
        value = float(f"{1.0 - value:.15g}") if falling else value
        kind: Fields = {"kind": "median"} if value == 0.5 else {"kind": "quantiles", "levels": [value]}
        return Question(fields={**kind, **self.column(what)})

    def _two(self, node: exp.Expr) -> Question:
        """Correlation and line: SQL has the dependent column first."""
        self.rows.only(node, "this", "expression")
        first, second = self.column(node.this), self.column(node.expression)
        if isinstance(node, exp.Corr):
            return Question(fields={"kind": "correlation", "x": first, "y": second})
        part = "slope" if isinstance(node, exp.RegrSlope) else "intercept"
        return Question(fields={"kind": "line", "x": second, "y": first}, part=part)

    def _quotient(self, node: exp.Expr) -> Question | None:
        """A share, COUNT(*) FILTER (WHERE c) / COUNT(*), or a ratio of two sums; None for any other quotient."""
        if not isinstance(node, exp.Div):
            return None
        left, right = self._plainly(node.this), self._plainly(node.expression)
        if isinstance(left, exp.Sum) and isinstance(right, exp.Sum):
            return self._ratio(self._argument(left), self._argument(right))
        over_all = isinstance(right, exp.Count) and isinstance(right.this, exp.Star)
        if not over_all or not isinstance(left, (exp.Filter, exp.Count, exp.CountIf, exp.Sum)):
            return None
        part = self.question(left)
        if part is None or part.fields != {"kind": "count"} or not part.where:
            return None
        return Question(fields={"kind": "share", "of": call("and", *part.where)})

    def _ratio(self, above: exp.Expr, below: exp.Expr) -> Question | None:
        """A ratio of two sums, where no row lacks a value of one of them alone; else two sums are published.

        The kind leaves out rows that lack one of the two values, and SQL each sum its own.
        """
        first, second = self.column(above), self.column(below)
        if not {first["column"], second["column"]} <= self.present:
            return None
        for each in (first, second):
            each.setdefault("range", self.ranges.get(str(each["column"])))
        ends = second["range"]
        lower = ends[0] if isinstance(ends, (list, tuple)) else None
        if first["range"] is None or not isinstance(lower, (int, float)) or not lower > 0:
            return None
        return Question(fields={"kind": "ratio", "numerator": first, "denominator": second})

    def _plainly(self, node: exp.Expr) -> exp.Expr:
        """A side of a quotient without what only makes it a number: parentheses, a cast, 1.0 *, NULLIF(x, 0)."""
        node = bare(node)
        if isinstance(node, exp.Cast) and node.to.this is exp.DType.DOUBLE:
            return self._plainly(node.this)
        if isinstance(node, exp.Mul) and self.rows.constant(node.this) == 1.0:
            return self._plainly(node.expression)
        if isinstance(node, exp.Mul) and self.rows.constant(node.expression) == 1.0:
            return self._plainly(node.this)
        if isinstance(node, exp.Nullif) and self.rows.constant(node.expression) == 0.0:
            return self._plainly(node.this)
        return node


def made_name(found: Expression, made: dict[str, Expression]) -> str:
    """The name of a made column: its expression as version 0.2 wrote it, cut where it is long; the column is made.

    A plan has the same fingerprint as in version 0.2 then.
    """
    written = former(found)
    name = written if len(written) <= _LONGEST else f"{written[: _LONGEST - 8]} ... {len(made)}"
    made[name] = found
    return name


_LONGEST = 150
Reader = Callable[[Aggregates, exp.Expr], Question | None]
_READERS: Mapping[type[exp.Expr], Reader] = {
    exp.Count: Aggregates._count,
    exp.CountIf: lambda its, node: Question(fields={"kind": "count"}, where=(its.rows.tree(its._argument(node)),)),
    exp.Sum: Aggregates._sum,
    exp.Avg: Aggregates._mean,
    exp.Min: Aggregates._extreme,
    exp.Max: Aggregates._extreme,
    exp.Mode: lambda its, node: its._most_frequent(its._argument(node, "deterministic")),
    exp.Quantile: Aggregates._quantile,
    exp.PercentileCont: Aggregates._quantile,
    exp.PercentileDisc: Aggregates._quantile,
    exp.WithinGroup: Aggregates._within,
    exp.Corr: Aggregates._two,
    exp.RegrSlope: Aggregates._two,
    exp.RegrIntercept: Aggregates._two,
    exp.VariancePop: lambda its, node: its._plain("variance", node),
    exp.StddevPop: lambda its, node: its._plain("standard deviation", node),
    exp.Median: lambda its, node: its._plain("median", node),
}
_SAMPLE = "that of a sample divides by n - 1; VAR_POP and STDDEV_POP are published"
_ROWS = "it would publish values of single rows; MODE(x), MEDIAN(x) and quantiles are private"
_OTHER = (
    "this aggregate is not in the subset, which has COUNT, SUM, AVG, VAR_POP, STDDEV_POP, MIN, MAX, MEDIAN, quantiles, "
    "MODE, CORR, REGR_SLOPE and REGR_INTERCEPT"
)
_INSTEAD: Mapping[type[exp.Expr], str] = {
    **dict.fromkeys((exp.Variance, exp.Stddev, exp.StddevSamp), _SAMPLE),
    **dict.fromkeys((exp.ArrayAgg, exp.GroupConcat, exp.AnyValue, exp.First, exp.Last, exp.ArgMax, exp.ArgMin), _ROWS),
    exp.ApproxDistinct: "COUNT(DISTINCT x) is published",
    exp.ApproxQuantile: "QUANTILE_CONT(x, 0.9) is published",
    exp.CovarPop: "CORR, VAR_POP and REGR_SLOPE are published",
    exp.CovarSamp: "CORR, VAR_POP and REGR_SLOPE are published",
}
