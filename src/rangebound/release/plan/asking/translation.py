"""From a SELECT to a plan: groups, questions, per-unit steps and joins, and what is made of the published numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlglot import exp

from rangebound.errors import ArgumentTypeError, PlanError, plain
from rangebound.release.plan.asking.aggregates import Aggregates, Question, made_name
from rangebound.release.plan.asking.from_tables import FromTables, joins, mapping, pairs, parsed, plain_data, refused
from rangebound.release.plan.asking.published_values import Computed, PublishedValues, SelectItem, aggregated, free
from rangebound.release.plan.expressions.nodes import Call, Constant, Expression, Named, UnitCall, call, columns_of
from rangebound.release.plan.expressions.row_expression import RowExpressions, bare
from rangebound.release.plan.expressions.sql_text import fragment
from rangebound.release.plan.model import Plan
from rangebound.release.plan.toml import make_plan
from rangebound.values import arguments

Base = Plan | Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Ordering:
    """What rows are ordered by, and where rows without a value stand."""

    by: Computed
    falling: bool
    missing_first: bool


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Translated:
    """What a SELECT asks: a plan, and what its rows are made of once the plan's table is published.

    `columns` are the columns of its rows by name. `having`, `order` and `limit` are applied to published numbers.
    `notes` say in words where an answer is not quite what other databases would give.
    """

    text: str
    plan: Plan
    columns: tuple[tuple[str, Computed], ...]
    having: Computed | None = None
    order: tuple[Ordering, ...] = ()
    limit: int | None = None
    notes: tuple[str, ...] = ()
    nodes: tuple[exp.Expr, ...] = field(default=(), repr=False, compare=False)

    @contextmanager
    def pointing(self) -> Iterator[None]:
        """Give faults of questions that show only with the table at hand the place in the text."""
        try:
            yield
        except PlanError as error:
            at = re.match(r"query\[(\d+)\]", error.field)
            if at is None or error.line is not None or int(at[1]) >= len(self.nodes):
                raise
            raise refused(self.text, self.nodes[int(at[1])], str(error).removeprefix("plan: ")) from None

    def __str__(self) -> str:
        """The plan as TOML, and the notes as comments."""
        return "".join(f"# {plain(each)}\n" for each in self.notes) + self.plan.to_toml()


def translate(text: str, base: Base, *, columns: Iterable[str] = (), folder: str | Path | None = None) -> Translated:
    """The plan that a SELECT asks for, on the table, unit, budget, keys and ranges of a base plan.

    `base` is a plan or plain data as a TOML file gives it; it may lack questions, and those that it has are not asked.
    `columns` are the names of the table's columns, where they are known: a name without quotation marks means the one
    that differs in upper and lower case at most. Files that a base plan names are relative to `folder`, or to that of a
    `Plan` that was read.

    Guarantee: a `PlanError` with the place in the text for all that is not in the subset of `docs/sql.md`; nothing is
    ever passed over. The plan is made of names, constants and the language of made columns: no SQL is in it.

    >>> base = {"budget": {"epsilon": 1.0}, "keys": {"clinic": ["north", "south"]}}
    >>> asked = translate("SELECT clinic, COUNT(*) AS visits FROM t GROUP BY clinic", base)
    >>> asked.plan.query[0].name, asked.plan.query[0].by
    ('visits', ('clinic',))
    >>> translate("SELECT clinic, ARRAY_AGG(x) FROM t", base)
    Traceback (most recent call last):
    rangebound.errors.PlanError: sql:1:8: clinic: is not an aggregate, and rows are never published; group by it
    """
    if not isinstance(base, (Plan, Mapping)):
        raise ArgumentTypeError(
            f"plan of type {type(base).__name__}: must be a Plan, or a dict as a TOML file gives it"
        )
    select = parsed(text)
    if folder is None:
        folder = base.folder if isinstance(base, Plan) else "."
    try:
        return _Translation(text, select, plain_data(base), list(columns), folder).asked()
    except RecursionError:
        raise refused(text, 0, "has too many parts within each other") from None


_MOST_ROWS = 10**9
_NULLS = "rows without a key are in no group; `missing` in [keys] of the base plan gives them one"


@dataclass
class _Translation:
    text: str
    select: exp.Select
    data: dict[str, Any]
    table_columns: list[str]
    folder: str | Path | None
    made: dict[str, Expression] = field(default_factory=dict)
    places: dict[str, exp.Expr] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)
    items: list[SelectItem] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    tables: FromTables = field(init=False)
    rows: RowExpressions = field(init=False)
    published: PublishedValues = field(init=False)

    def asked(self) -> Translated:
        """The whole."""
        select = self.select
        if self.data.pop("query", None):
            self.notes["the questions of the base plan are not asked"] = None
        self.tables = FromTables(self.text, select, self.data, self.table_columns)
        self.rows = self.tables.rows
        self.notes.update(self.tables.notes)
        where = select.args.get("where")
        most = mapping(self.data.get("unit")).get("rows") if self.tables.unit else None
        stated = {**mapping(self.data.get("columns")), **mapping(self.data.get("per_unit"))}
        ranges = {name: mapping(each).get("range") for name, each in stated.items()}
        aggregates = Aggregates(
            rows=self.rows,
            made=self.made,
            unit=self.tables.unit,
            most=most if isinstance(most, int) and most > 1 else None,
            ranges={name: each for name, each in ranges.items() if isinstance(each, list)},
            present=frozenset() if where is None else frozenset(self._present(where.this)),
        )
        self._read_groups()
        self.published = PublishedValues(
            text=self.text, rows=self.rows, aggregates=aggregates, items=self.items, groups=self.groups, made=self.made
        )
        conditions = () if where is None else (self.rows.tree(where.this),)
        for each in self.items:
            each.value = self.published.computed(each.node, asking=each)
        having, order = select.args.get("having"), select.args.get("order")
        kept = None if having is None else self.published.computed(having.this)
        ordering = () if order is None else tuple(map(self._ordering, order.expressions))
        limit = self._limit()
        if not self.published.questions:
            raise refused(self.text, select, "asks for no aggregate, such as COUNT(*); rows are never published")
        plan = self._plan(conditions)
        self.notes.update(self.rows.notes)
        self.notes.update(dict.fromkeys(note for each in self.published.questions for note in each.notes))
        keys = mapping(self.data.get("keys"))
        if any("missing" not in mapping(keys.get(name)) for name in self.groups):
            self.notes[_NULLS] = None
        return Translated(
            text=self.text,
            plan=plan,
            columns=tuple((each.name, each.value) for each in self.items if each.value is not None),
            having=kept,
            order=ordering,
            limit=limit,
            notes=tuple(self.notes),
            nodes=tuple(each.node for each in self.published.questions),
        )

    def _present(self, node: exp.Expr) -> Iterator[str]:
        """The columns that a condition asks to have a value, in every row that meets it."""
        node = bare(node)
        if isinstance(node, exp.And):
            yield from self._present(node.this)
            yield from self._present(node.expression)
        inner = bare(node.this) if isinstance(node, exp.Not) else None
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null) and isinstance(inner.this, exp.Column):
            yield self.rows.resolve(inner.this)

    # Groups and columns

    def _read_groups(self) -> None:
        names: set[str] = set()
        for each in self.select.expressions:
            node, alias = (each.this, each.alias) if isinstance(each, exp.Alias) else (each, "")
            if isinstance(bare(node), exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
                raise refused(self.text, each, "rows are never published; name aggregates, such as COUNT(*)")
            plain = node.name if isinstance(bare(node), exp.Column) else fragment(node)
            self.items.append(SelectItem(name=free(alias or plain, names), node=node))
        group = self.select.args.get("group")
        if group is None:
            return
        self.rows.only(group, "expressions", "all")
        keys = group.expressions
        if group.args.get("all"):
            keys = [each.node for each in self.items if not aggregated(each.node)]
        for each in keys:
            node, alias = self._meant(each)
            name = self._key_name(node, alias)
            if name in self.groups:
                raise refused(self.text, each, "is named twice in GROUP BY")
            self.groups.append(name)

    def _meant(self, node: exp.Expr) -> tuple[exp.Expr, str]:
        """What a position or an alias in GROUP BY means, and its name."""
        node = bare(node)
        value = self.rows.constant(node)
        if isinstance(value, float):
            item = self._item(node, value)
            return item.node, item.name
        if isinstance(node, exp.Column) and not node.table and node.name not in self.tables.there:
            for each in self.items:
                if each.name == node.name:
                    return each.node, each.name
        same = [each.name for each in self.items if each.node == node]
        return node, same[0] if same else ""

    def _item(self, node: exp.Expr, place: float) -> SelectItem:
        if not place.is_integer() or not 1 <= place <= len(self.items):
            raise refused(self.text, node, f"must be the place of a column in SELECT, 1 to {len(self.items)}")
        return self.items[int(place) - 1]

    def _key_name(self, node: exp.Expr, alias: str) -> str:
        node = bare(node)
        if isinstance(node, exp.Column):
            return self.rows.resolve(node)
        if aggregated(node):
            raise refused(self.text, node, "an aggregate does not make groups")
        if self.rows.constant(node) is not None:
            raise refused(self.text, node, "a constant does not make groups")
        found = self.rows.column_tree(node)
        for name, value in self.made.items():
            if value == found:
                return name
        own = alias and alias not in self.tables.there and alias != fragment(node)
        name = alias if own else made_name(found, self.made)
        self.made[name], self.places[name] = found, node
        return name

    # What is made of published numbers

    def _ordering(self, node: exp.Expr) -> Ordering:
        self.rows.only(node, "this", "desc", "nulls_first")
        inner = bare(node.this)
        value = self.rows.constant(inner)
        by = self._item(node, value).value if isinstance(value, float) else self.published.computed(inner)
        assert by is not None
        return Ordering(by=by, falling=bool(node.args.get("desc")), missing_first=bool(node.args.get("nulls_first")))

    def _limit(self) -> int | None:
        limit = self.select.args.get("limit")
        if limit is None:
            return None
        value = None
        if isinstance(limit, exp.Limit):
            self.rows.only(limit, "expression")
            value = self.rows.constant(limit.expression)
        if not isinstance(value, float) or not value.is_integer() or not 0 <= value <= _MOST_ROWS:
            raise refused(self.text, limit, "LIMIT takes a whole number of rows")
        return int(value)

    # The plan

    def _plan(self, conditions: tuple[Expression, ...]) -> Plan:
        queries = [self._query(each, conditions) for each in self.published.questions]
        data = {**self.data, "query": queries}
        self._leave_out_keys(data)
        self._leave_out_joins(data, queries)
        if self.made:
            data["columns"] = {**mapping(data.get("columns")), **self.made}
        try:
            return make_plan(data, folder=self.folder)
        except PlanError as error:
            raise self._placed(error) from None

    def _query(self, asked: Question, conditions: tuple[Expression, ...]) -> dict[str, object]:
        found: dict[str, object] = {"name": asked.name, **asked.fields}
        if self.groups:
            found["by"] = list(self.groups)
        where = (*conditions, *asked.where)
        if where:
            found["where"] = call("and", *where)
        return found

    def _leave_out_keys(self, data: dict[str, Any]) -> None:
        """Without keys of columns that this SELECT does not group by, which its plan would have notes of."""
        keys = mapping(data.get("keys"))
        modes = (each.fields for each in self.published.questions if each.fields["kind"] == "mode")
        asked = {*self.groups, *(each.get("column") for each in modes)}
        kept = {name: value for name, value in keys.items() if name in asked}
        if keys:
            data["keys"] = kept
        if len(kept) < len(keys) and data.get("only_listed"):
            self.notes["only_listed looks at the grouping columns of this SELECT alone"] = None
            data["only_listed"] = bool(kept)
        if isinstance(data.get("combinations"), list):
            own = [each for each in data["combinations"] if set(mapping(each).get("columns", ())) <= set(self.groups)]
            data["combinations"] = own
            if not own:
                del data["combinations"]

    def _leave_out_joins(self, data: dict[str, object], queries: list[dict[str, object]]) -> None:
        """Without joins that this SELECT neither names nor needs."""
        declared = joins(data)
        if not declared:
            return
        fields_of = ("column", "of", "x", "y", "numerator", "denominator")
        asked = [each.fields.get(name) for each in self.published.questions for name in fields_of]
        used = [
            *self.groups,
            *asked,
            *(query.get("where") for query in queries),
            *mapping(data.get("columns")).values(),
        ]
        used += mapping(data.get("per_unit")).values()
        names = set(named_in(used))
        needed = [each for each in declared if each in self.tables.joined or names & set(pairs(each.get("columns")))]
        for each in needed:
            if each not in self.tables.joined and each.get("how") == "inner":
                named = each.get("table") or each.get("path")
                self.notes[f"the base plan's inner join with {named!r} leaves out rows without a match"] = None
        data["join"] = needed
        if not needed:
            del data["join"]

    def _placed(self, error: PlanError) -> PlanError:
        """A fault of the plan at the place in the text that asked for it, where one did."""
        message = str(error).removeprefix("plan: ")
        at = re.match(r"query\[(\d+)\]", error.field)
        if at:
            asked = self.published.questions[int(at[1])]
            column = asked.fields.get("column")
            if error.field.endswith(".range") and column is not None and "range" not in asked.fields:
                own = "x" if column in self.made else column
                what = "its values: state that of its columns" if column in self.made else f"{column!r}: state it"
                way = f"in the base plan, as [columns] {own} = {{range = [0, 100]}}, or here"
                if column in mapping(self.data.get("per_unit")):  # the text makes it, so the base plan cannot know it
                    way = "here"
                rule = f"needs the public range of {what} {way}, as LEAST(GREATEST({own}, 0), 100)"
                return refused(self.text, asked.node, rule)
            return refused(self.text, asked.node, message.removeprefix(f"{error.field}: "))
        made = re.match(r"columns\.(.+)", error.field)
        if made and made[1] in self.made:
            node = self.places.get(made[1], self.select)
            return refused(self.text, node, message)
        return PlanError(message if error.line is None else str(error), field=error.field, line=error.line)


def named_in(value: object) -> Iterator[str]:
    """The names of columns, and other words, in parts of a plan: those of expressions, and of texts that may be any."""
    match value:
        case UnitCall():
            yield from named_in(value.arguments)
        case Constant() | Named() | Call():
            yield from columns_of(value)
        case str():
            yield from (value, *re.findall(r"\w+", value))
        case Mapping():
            yield from named_in(tuple(value.values()))
        case list() | tuple():
            for each in value:
                yield from named_in(each)
        case _:
            yield from re.findall(r"\w+", str(value))
