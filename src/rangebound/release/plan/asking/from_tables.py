"""What a SELECT reads: the table of the base plan, those that it joins, and a CTE that is one row per unit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from sqlglot import exp

from rangebound.release.plan.asking.row_expression import RowExpressions, bare, is_condition
from rangebound.release.plan.asking.statement import only, refused
from rangebound.release.plan.expressions.nodes import Call, Constant, Expression, Named, call, columns_of
from rangebound.release.plan.per_unit import UnitCall
from rangebound.values import arguments


def mapping(value: object) -> dict[str, object]:
    """A table of a plan; empty where there is none, or where it is not one, which the plan will refuse."""
    return dict(value) if isinstance(value, Mapping) else {}


def fields(value: object) -> Mapping[str, object]:
    """The fields of a part, which is plain data or an object."""
    return value if isinstance(value, Mapping) else vars(value)


def joins(data: Mapping[str, object]) -> list[Mapping[str, object]]:
    """The joins that a base plan declares."""
    found = data.get("join")
    return [fields(each) for each in found] if isinstance(found, (list, tuple)) else []


def pairs(value: object) -> dict[str, str]:
    """Columns of ours and of theirs; a list names those that are called the same."""
    if isinstance(value, Mapping):
        return {str(key): str(each) for key, each in value.items()}
    return {str(each): str(each) for each in value} if isinstance(value, (list, tuple)) else {}


def ranges(data: Mapping[str, object]) -> dict[str, Sequence[object]]:
    """The public ranges that a base plan states, by column."""
    declared = {**mapping(data.get("columns")), **mapping(data.get("per_unit"))}
    found = {name: mapping(each).get("range") for name, each in declared.items()}
    return {name: each for name, each in found.items() if isinstance(each, (list, tuple))}


def values(data: Mapping[str, object]) -> list[object]:
    """The expressions of a base plan, and of this SELECT's made columns."""
    return [*mapping(data.get("columns")).values(), *mapping(data.get("per_unit")).values()]


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


def names_in(data: Mapping[str, object]) -> Sequence[str]:
    """The names of columns that a base plan has for sure; keys may be those of a column that the SELECT makes."""
    found = [*mapping(data.get("columns")), *mapping(data.get("per_unit"))]
    unit = data.get("unit")
    if isinstance(unit, Mapping) and isinstance(unit.get("column"), str):
        found.append(unit["column"])
    return [*found, *(name for each in joins(data) for name in pairs(each.get("columns")))]


def unit_column(data: Mapping[str, object]) -> str | None:
    """The column that names the owners of rows, if there is one."""
    unit = data.get("unit")
    found = unit.get("column") if isinstance(unit, Mapping) else getattr(unit, "column", None)
    return found if isinstance(found, str) else None


_FILE = re.compile(r"[/\\]|\.(csv|tsv|txt|parquet|pq|jsonl?|ndjson|xlsx|db|duckdb|arrow|gz|zst)\Z")


_LONGEST_NAME = 200


class Names:
    """Columns by what a text calls them; `tables` has the joined tables by name with our names of their columns."""

    def __init__(
        self, text: str, known: Iterable[str], tables: Mapping[str, Mapping[str, str] | None], *, complete: bool
    ) -> None:
        self.text, self.known, self.complete = text, tuple(dict.fromkeys(known)), complete
        self.tables = {name.casefold(): theirs for name, theirs in tables.items()}

    def resolve(self, node: exp.Column) -> str:
        """The name of a column in the plan.

        A name in quotation marks is taken as it is; any other may differ in upper and lower case from a known one.
        Where all columns are known, a name that is none of them is refused.
        """
        only(self.text, node, "this", "table")
        if not isinstance(node.this, exp.Identifier):
            raise refused(self.text, node, "must be the name of a column")
        name = node.name
        if not name or len(name) > _LONGEST_NAME or "\x00" in name:
            raise refused(self.text, node, f"the name of a column has 1 to {_LONGEST_NAME} characters")
        if node.table:
            table = node.table.casefold()
            if table not in self.tables:
                raise refused(self.text, node, f"FROM and JOIN name no table {node.table!r}")
            theirs = self.tables[table]
            if theirs is not None:
                if name not in theirs:
                    guess = arguments.similar(name, theirs)
                    rule = f"the base plan's join has no column {name!r}; {guess or 'name it in its columns'}"
                    raise refused(self.text, node, rule)
                return theirs[name]
        alike = [each for each in self.known if each.casefold() == name.casefold()]
        if name in self.known or (node.this.args.get("quoted") and not self.complete):
            return name
        if len(alike) == 1 and not node.this.args.get("quoted"):
            return alike[0]
        if self.complete:
            guess = arguments.similar(name, self.known)
            raise refused(self.text, node, f"the table has no such column{f'; {guess}' if guess else ''}")
        return name


@dataclass(frozen=True, kw_only=True)
class FromTables:
    """Expressions about the rows of FROM, the columns that are there for sure, and the joins that are named."""

    rows: RowExpressions
    there: set[str]
    joined: list[Mapping[str, object]]


@dataclass(frozen=True, kw_only=True)
class TableReader:
    """Reads FROM and JOIN of one text; `columns` are those of the table, where they are known."""

    text: str
    data: Mapping[str, object]
    columns: list[str]

    def read(self, select: exp.Select, source: exp.Expr) -> FromTables:
        """The tables of FROM and JOIN, which must be those of the base plan, joined as it says."""
        table = source.this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise refused(
                self.text, source, "must be the name of the base plan's table; files and functions are not read"
            )
        only(self.text, table, "this", "alias", "db", "catalog")
        self._check_alias(table)
        self._check_table(table)
        tables: dict[str, Mapping[str, str] | None] = dict.fromkeys(_called(table))
        named = [self._join(each, tables) for each in select.args.get("joins") or []]
        there = {*self.columns, *names_in(self.data)}
        listed = [] if self.columns else mapping(self.data.get("keys"))
        names = Names(self.text, [*there, *listed], tables, complete=bool(self.columns))
        rows = RowExpressions(self.text, names.resolve)
        for each, join in named:
            self._check_join(each, join, rows)
        return FromTables(rows=rows, there=there, joined=[join for _, join in named])

    def _check_alias(self, table: exp.Table) -> None:
        alias = table.args.get("alias")
        if alias is not None:
            only(self.text, alias, "this")

    def _check_table(self, table: exp.Table) -> None:
        source, called = self.data.get("source"), ".".join(part.name for part in table.parts).casefold()
        if source is None:
            if _FILE.search(called):
                raise refused(self.text, table, "is the name of a file, which is not read; write FROM t, or any name")
            return
        fields = source if isinstance(source, Mapping) else vars(source)
        path, own = fields.get("path"), fields.get("table")
        names = {str(own).casefold(), str(own).rpartition(".")[2].casefold()} if own else set()
        if path and not own:
            names |= {PurePath(str(path)).name.casefold(), PurePath(str(path)).stem.casefold()}
        loose = len(table.parts) == 1 or "." not in str(own)  # else the schema is stated in both
        if called not in names and not (loose and table.name.casefold() in names):
            guess = str(own) if own else PurePath(str(path)).stem
            raise refused(self.text, table, f"is not the table of the base plan; write FROM {guess}")

    def _join(
        self, node: exp.Join, tables: dict[str, Mapping[str, str] | None]
    ) -> tuple[exp.Join, Mapping[str, object]]:
        """The join of the base plan that a JOIN names."""
        only(self.text, node, "this", "on", "side", "kind")
        table = node.this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise refused(self.text, node, "must name a table that the base plan joins")
        only(self.text, table, "this", "alias")
        self._check_alias(table)
        for each in joins(self.data):
            path, own = each.get("path"), each.get("table")
            called = {str(own).casefold()} if own else {PurePath(str(path)).stem.casefold()}
            if table.name.casefold() in called:
                theirs = {str(value): str(key) for key, value in pairs(each.get("columns")).items()}
                theirs |= {str(value): str(key) for key, value in pairs(each.get("on")).items()}
                tables.update(dict.fromkeys(_called(table), theirs))
                return node, each
        way = 'add it there as [[join]], with its path, public = true, on = {region = "code"} and columns'
        raise refused(self.text, node, f"the base plan joins no table {table.name!r}; {way}")

    def _check_join(self, node: exp.Join, join: Mapping[str, object], rows: RowExpressions) -> None:
        how = {("", ""): "inner", ("", "INNER"): "inner", ("LEFT", ""): "left", ("LEFT", "OUTER"): "left"}.get(
            ((node.side or "").upper(), (node.kind or "").upper())
        )
        stated = join.get("how", "left")
        if how != stated:
            way = f"write {'LEFT JOIN' if stated == 'left' else 'JOIN'}"
            way += f', or how = "{how}" in the base plan' if how else ""
            raise refused(self.text, node, f'the base plan joins this table with how = "{stated}"; {way}')
        on = node.args.get("on")
        wanted = {frozenset((f"ours {key}", f"theirs {value}")) for key, value in pairs(join.get("on")).items()}
        found = (
            set()
            if on is None
            else {self._pair(each, node, join, rows) for each in bare(on).flatten()}
            if isinstance(bare(on), exp.And)
            else {self._pair(bare(on), node, join, rows)}
        )
        if found != wanted:
            said = ", ".join(f"{key} = {value}" for key, value in pairs(join.get("on")).items())
            raise refused(self.text, node, f"the base plan joins this table on {said}; write it so in both")

    def _pair(
        self, node: exp.Expr, join: exp.Join, declared: Mapping[str, object], rows: RowExpressions
    ) -> frozenset[str]:
        """Two columns that are equal, each with the table that it is of."""
        node = bare(node)
        sides = [node.this, node.expression] if isinstance(node, exp.EQ) else []
        if not sides or not all(isinstance(each, exp.Column) for each in sides):
            raise refused(self.text, node, "a join is ON columns that are equal")
        called, on = {each.casefold() for each in _called(join.this)}, pairs(declared.get("on"))
        others = set(on.values()) - set(self.columns or on)  # these need not say their table
        return frozenset(
            f"theirs {each.name}"
            if each.table.casefold() in called or (not each.table and each.name in others)
            else f"ours {rows.resolve(each)}"
            for each in sides
            if isinstance(each, exp.Column)
        )


def _called(table: exp.Expr) -> list[str]:
    """What a table is called: its alias alone, where it has one."""
    return [table.alias or table.name]


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
