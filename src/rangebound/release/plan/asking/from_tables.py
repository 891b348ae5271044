"""One SELECT of a text, and what it reads: the base plan's table, those that it joins, and a CTE of one row per unit.

What each part of a SELECT may hold is on a list. A base plan is plain data here: it may lack questions, and is checked
only as part of the whole plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from rangebound.errors import PlanError, plain
from rangebound.release.plan.expressions.row_expression import RowExpressions, bare
from rangebound.release.plan.expressions.sql_text import Unreadable, fragment, tokens, trees
from rangebound.release.plan.fields import Part
from rangebound.release.plan.toml_text import written_fields
from rangebound.values import arguments

LONGEST = 10_000
"""Characters that a SQL text may have."""
_DEEPEST = 40  # parts within each other
_STARTS = (TokenType.SELECT, TokenType.WITH)
_ONE = "must be one SELECT, such as SELECT clinic, COUNT(*) FROM visits GROUP BY clinic"


def parsed(text: str) -> exp.Select:
    """The tree of a text that is one SELECT.

    Guarantee: a `PlanError` with the place for any other text. Nothing is run, and no file or table is looked at.
    """
    arguments.instance("text", text, str, "the text of a SELECT")
    if len(text) > LONGEST:
        raise refused(text, 0, f"must have at most {LONGEST} characters")
    try:
        found = tokens(text, _DEEPEST)
        if not found or found[0].token_type not in _STARTS:
            raise Unreadable(_ONE, found[0].start if found else 0)
        read = trees(text, found)
    except Unreadable as reason:
        raise refused(text, reason.place, str(reason)) from None
    if len(read) != 1 or not isinstance(read[0], exp.Select):
        several = len(read) > 1 or isinstance(read[0], exp.SetOperation)
        raise refused(text, found[0].start, f"{_ONE}{'; ask for each in a statement of its own' if several else ''}")
    strings = {each.start for each in found if each.token_type is TokenType.STRING}
    for each in read[0].find_all(exp.Table):  # DuckDB reads the file of such a name, and the tree has it as a name
        if any(part.meta.get("start") in strings for part in each.parts):
            raise refused(text, each, "must be the name of the base plan's table; files and functions are not read")
    return read[0]


def refused(text: str, node: exp.Expr | int, rule: str) -> PlanError:
    """The error about a part of a text, by its node or its place among the characters.

    >>> str(refused("SELECT x", 7, "is not an aggregate"))
    'sql:1:8: is not an aggregate'
    """
    start = node if isinstance(node, int) else start_of(node)
    line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start)
    said = "" if isinstance(node, int) else f"{fragment(node)}: "
    return PlanError(plain(f"sql:{line}:{column}: {said}{rule}"), field="sql", line=line)


def start_of(node: exp.Expr) -> int:
    """Where the part of a node begins in the text, or what is around it, if no token says it."""
    starts = (each.meta.get("start") for each in node.walk())
    found = min((each for each in starts if isinstance(each, int)), default=None)
    if found is None:
        return 0 if node.parent is None else start_of(node.parent)
    return found


_FILE = re.compile(r"[/\\]|\.(csv|tsv|txt|parquet|pq|jsonl?|ndjson|xlsx|db|duckdb|arrow|gz|zst)\Z")
_LONGEST_NAME = 200
_PARTS = ("expressions", "from_", "with_", "joins", "where", "group", "having", "order", "limit")
_SHAPE = (
    "a CTE must be one row per unit, as WITH p AS (SELECT {unit}, SUM(cost) AS cost FROM visits GROUP BY {unit}); name "
    "other columns in [columns] of the base plan"
)


def plain_data(value: object) -> Any:
    """A base plan, or a part of one, in plain data."""
    if isinstance(value, Part):
        return plain_data(written_fields(value))
    if isinstance(value, Mapping):
        return {name: plain_data(each) for name, each in value.items()}
    return [plain_data(each) for each in value] if isinstance(value, (list, tuple)) else value


def mapping(value: object) -> dict[str, Any]:
    """A table of a plan; empty where there is none, or where it is not one, which the plan will refuse."""
    return value if isinstance(value, dict) else {}


def joins(data: Mapping[str, object]) -> list[dict[str, Any]]:
    """The joins that a base plan declares."""
    found = data.get("join")
    return [mapping(each) for each in found] if isinstance(found, list) else []


def pairs(value: object) -> dict[str, str]:
    """Columns of ours and of theirs; a list names those that are called the same."""
    found = {each: each for each in value} if isinstance(value, list) else mapping(value)
    return {str(key): str(each) for key, each in found.items()}


class FromTables:
    """What FROM, JOIN and a CTE of one text read, which must be the tables of the base plan, joined as it says.

    `data` is the base plan, which a CTE changes, and `columns` are those of the table, where they are known. `rows`
    reads expressions about rows, `there` has the columns that are there for sure, `joined` the joins that are named,
    and `unit` is the column that names the owners of rows, if there is one.
    """

    def __init__(self, text: str, select: exp.Select, data: dict[str, Any], columns: list[str]) -> None:
        self.text, self.data, self.columns, self.notes = text, data, columns, dict[str, None]()
        self.joined: list[Mapping[str, Any]] = []
        self.unit: str | None = None
        self.rows = RowExpressions(self.resolve, lambda node, rule: refused(text, node, rule))
        self.rows.only(select, *_PARTS)
        source = select.args.get("from_")
        if source is None:
            raise refused(text, select, "names no table; write FROM and the name of the base plan's table")
        step, name = self._step(select, source.this)
        self._read_tables(select if step is None else step)
        if step is not None:
            self._make_units(step, name)

    def resolve(self, node: exp.Column) -> str:
        """The name of a column in the plan.

        A name in quotation marks is taken as it is; any other may differ in upper and lower case from a known one.
        Where all columns are known, a name that is none of them is refused.
        """
        self.rows.only(node, "this", "table")
        if not isinstance(node.this, exp.Identifier):
            raise refused(self.text, node, "must be the name of a column")
        name, quoted = node.name, node.this.args.get("quoted")
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
        if name in self.known or (quoted and not self.complete):
            return name
        if len(alike) == 1 and not quoted:
            return alike[0]
        if self.complete:
            guess = arguments.similar(name, self.known)
            raise refused(self.text, node, f"the table has no such column{f'; {guess}' if guess else ''}")
        return name

    def _name(self, known: Iterable[str], tables: Mapping[str, Mapping[str, str] | None], *, complete: bool) -> None:
        """Columns by what a text calls them; `tables` has the joined ones with our names of their columns."""
        self.known, self.complete = tuple(dict.fromkeys(known)), complete
        self.tables = {name.casefold(): theirs for name, theirs in tables.items()}

    # One row per unit

    def _step(self, select: exp.Select, source: exp.Expr) -> tuple[exp.Select | None, str]:
        """The query that makes one row of a unit, and what its rows are called; None where there is no such step."""
        steps = self._steps(select)
        if isinstance(source, exp.Subquery):
            self.rows.only(source, "this", "alias")
            if steps or not isinstance(source.this, exp.Select):
                rule = "a query inside another one must be one row per unit, and the only one"
                raise refused(self.text, source, rule)
            step, name = source.this, source.alias
        elif isinstance(source, exp.Table) and source.name in steps and not source.args.get("db"):
            self.rows.only(source, "this", "alias")
            step, name = steps[source.name], source.alias or source.name
        elif steps:
            unused = next(iter(steps))
            raise refused(self.text, source, f"the CTE {unused!r} is not used; write FROM {unused}")
        else:
            return None, ""
        if select.args.get("joins"):
            raise refused(self.text, select.args["joins"][0], "a join stands inside the CTE, before its GROUP BY")
        if self.data.get("per_unit"):
            raise refused(self.text, step, "the base plan has a per-unit step already")
        if step.args.get("from_") is None or step.args.get("with_"):
            raise refused(self.text, step, "a CTE must be one row per unit of the base plan's table")
        return step, name

    def _steps(self, select: exp.Select) -> dict[str, exp.Select]:
        with_ = select.args.get("with_")
        if with_ is None:
            return {}
        self.rows.only(with_, "expressions")
        (first, *others) = with_.expressions
        if others:
            raise refused(self.text, others[0], "one CTE is in the subset, which is one row per unit")
        self.rows.only(first, "this", "alias")
        self.rows.only(first.args["alias"], "this")
        if not isinstance(first.this, exp.Select):
            raise refused(self.text, first, "a CTE must be a SELECT that is one row per unit")
        return {first.args["alias"].name: first.this}

    def _make_units(self, step: exp.Select, name: str) -> None:
        """One row per unit, without the contribution bounds of the base plan, which serve its other questions."""
        made = self.data["per_unit"] = self._per_unit(step)
        unit = mapping(self.data.get("unit"))
        bounds = [each for each in ("rows", "groups", "period") if unit.get(each) not in (None, 1)]
        if bounds:
            self.data["unit"] = {each: value for each, value in unit.items() if each not in bounds}
            words = "one row per unit needs no contribution bounds: those of the base plan are left out"
            self.notes[f"{words} ({', '.join(bounds)})"] = None
        self.notes[f"all rows of each {self.unit!r} become one row first"] = None
        self.there = {*made, *([self.unit] if self.unit else [])}
        self._name(self.there, {name: None}, complete=True)
        self.unit = None  # a row is a unit

    def _per_unit(self, select: exp.Select) -> dict[str, object]:
        text, unit = self.text, self.unit
        self.rows.only(select, "expressions", "from_", "joins", "group", "where")
        shape = _SHAPE.format(unit=unit or "person")
        if unit is None:
            raise refused(text, select, f"the base plan has no unit column; {shape}")
        if select.args.get("where") is not None:
            rule = "a WHERE before GROUP BY would leave out units without such rows; write FILTER or CASE in the "
            raise refused(text, select.args["where"], f"{rule}aggregates, and WHERE on their numbers behind")
        group = select.args.get("group")
        keys = [] if group is None else group.expressions
        if group is not None:
            self.rows.only(group, "expressions")
        if len(keys) != 1 or not self._is_unit(keys[0], select):
            raise refused(text, group or select, shape)
        found: dict[str, object] = {}
        for each in select.expressions:
            if self._is_unit(each, select):
                continue
            if not isinstance(each, exp.Alias):
                raise refused(text, each, "needs a name, as SUM(cost) AS cost")
            if each.alias in found or each.alias == unit:
                raise refused(text, each, "two columns have this name")
            clipped = self.rows.clip(each.this)
            call = self.rows.unit_call(each.this if clipped is None else clipped[0])
            found[each.alias] = call if clipped is None else {"value": call, "range": clipped[1]}
        if not found:
            raise refused(text, select, shape)
        return found

    def _is_unit(self, node: exp.Expr, select: exp.Select) -> bool:
        node = bare(node)
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            at = int(node.name) - 1
            node = bare(select.expressions[at]) if 0 <= at < len(select.expressions) else node
        return isinstance(node, exp.Column) and self.resolve(node) == self.unit

    # The table and its joins

    def _read_tables(self, select: exp.Select) -> None:
        source, data = select.args["from_"], self.data
        table = source.this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            rule = "must be the name of the base plan's table; files and functions are not read"
            raise refused(self.text, source, rule)
        self.rows.only(table, "this", "alias", "db", "catalog")
        self._check_alias(table)
        self._check_table(table)
        unit = mapping(data.get("unit")).get("column")
        self.unit = unit if isinstance(unit, str) else None
        tables: dict[str, Mapping[str, str] | None] = {_called(table): None}
        named = [(each, self._join(each, tables)) for each in select.args.get("joins") or []]
        self.joined = [join for _, join in named]
        declared = [*mapping(data.get("columns")), *mapping(data.get("per_unit")), *([self.unit] if self.unit else [])]
        brought = (name for each in joins(data) for name in pairs(each.get("columns")))
        self.there = {*self.columns, *declared, *brought}
        # keys may be those of a column that the SELECT makes
        self._name(
            [*self.there, *([] if self.columns else mapping(data.get("keys")))], tables, complete=bool(self.columns)
        )
        for each, join in named:
            self._check_join(each, join)

    def _check_alias(self, table: exp.Table) -> None:
        if table.args.get("alias") is not None:
            self.rows.only(table.args["alias"], "this")

    def _check_table(self, table: exp.Table) -> None:
        source, called = self.data.get("source"), ".".join(part.name for part in table.parts).casefold()
        if source is None:
            if _FILE.search(called):
                raise refused(self.text, table, "is the name of a file, which is not read; write FROM t, or any name")
            return
        path, own = mapping(source).get("path"), mapping(source).get("table")
        names = {str(own).casefold(), str(own).rpartition(".")[2].casefold()} if own else set()
        if path and not own:
            names |= {PurePath(str(path)).name.casefold(), PurePath(str(path)).stem.casefold()}
        loose = len(table.parts) == 1 or "." not in str(own)  # else the schema is stated in both
        if called not in names and not (loose and table.name.casefold() in names):
            guess = str(own) if own else PurePath(str(path)).stem
            raise refused(self.text, table, f"is not the table of the base plan; write FROM {guess}")

    def _join(self, node: exp.Join, tables: dict[str, Mapping[str, str] | None]) -> dict[str, Any]:
        self.rows.only(node, "this", "on", "side", "kind")
        table = node.this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise refused(self.text, node, "must name a table that the base plan joins")
        self.rows.only(table, "this", "alias")
        self._check_alias(table)
        for each in joins(self.data):
            called = each.get("table") or PurePath(str(each.get("path"))).stem
            if table.name.casefold() == str(called).casefold():
                ours = {**pairs(each.get("columns")), **pairs(each.get("on"))}
                tables[_called(table)] = {theirs: own for own, theirs in ours.items()}
                return each
        way = 'add it there as [[join]], with its path, public = true, on = {region = "code"} and columns'
        raise refused(self.text, node, f"the base plan joins no table {table.name!r}; {way}")

    def _check_join(self, node: exp.Join, join: Mapping[str, Any]) -> None:
        how = {("", ""): "inner", ("", "INNER"): "inner", ("LEFT", ""): "left", ("LEFT", "OUTER"): "left"}.get(
            ((node.side or "").upper(), (node.kind or "").upper())
        )
        stated = join.get("how", "left")
        if how != stated:
            way = f"write {'LEFT JOIN' if stated == 'left' else 'JOIN'}"
            way += f', or how = "{how}" in the base plan' if how else ""
            raise refused(self.text, node, f'the base plan joins this table with how = "{stated}"; {way}')
        on, said = node.args.get("on"), pairs(join.get("on"))
        parts = [] if on is None else bare(on).flatten() if isinstance(bare(on), exp.And) else [bare(on)]
        wanted = {frozenset((f"ours {key}", f"theirs {value}")) for key, value in said.items()}
        if {self._pair(each, node, said) for each in parts} != wanted:
            both = ", ".join(f"{key} = {value}" for key, value in said.items())
            raise refused(self.text, node, f"the base plan joins this table on {both}; write it so in both")

    def _pair(self, node: exp.Expr, join: exp.Join, on: Mapping[str, str]) -> frozenset[str]:
        """Two columns that are equal, each with the table that it is of."""
        node = bare(node)
        sides = [node.this, node.expression] if isinstance(node, exp.EQ) else []
        if not sides or not all(isinstance(each, exp.Column) for each in sides):
            raise refused(self.text, node, "a join is ON columns that are equal")
        others = set(on.values()) - set(self.columns or on)  # these need not say their table
        return frozenset(
            f"theirs {each.name}"
            if each.table.casefold() == _called(join.this).casefold() or (not each.table and each.name in others)
            else f"ours {self.resolve(each)}"
            for each in sides
        )


def _called(table: exp.Expr) -> str:
    return table.alias or table.name
