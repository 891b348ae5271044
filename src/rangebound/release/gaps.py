"""Ranges and contribution bounds that a plan leaves out, estimated privately for a stated share of its budget.

Each is a quantile over owners on a public grid, drawn by the exponential mechanism: of the values of a column, each
owner counting once in all, for both ends of a range; of the rows of an owner in a group; of the groups of an owner.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from rangebound.errors import ArgumentError, ArgumentTypeError, PlanError, plain
from rangebound.ledger.book import Ledger
from rangebound.ledger.rule import Cost
from rangebound.release.engine import Engine
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise.range_ends import draw_ends, draw_place
from rangebound.release.output.ledger_entry import check_unit, suggestion_text
from rangebound.release.plan.fields import Ends, date
from rangebound.release.plan.kinds.cuts import dropped
from rangebound.release.plan.kinds.kind import KINDS, Kind
from rangebound.release.plan.kinds.ranks import COVER, DAYS, SIZES, VALUES
from rangebound.release.plan.measure import ONE
from rangebound.release.plan.model import Plan
from rangebound.release.plan.table_schema import TO_FILL_IN, Family, Schema, check_schema
from rangebound.release.plan.toml import make_plan, read_text, toml_data
from rangebound.release.plan.toml_text import quoted
from rangebound.release.run import charged, check_payer, engine_of, paying
from rangebound.release.sql.contribution_bound import Conditions, owners_by_size, owners_by_value
from rangebound.release.sql.relation import Salt
from rangebound.release.sql.view import not_too_deep, try_statements, view
from rangebound.sampling.entropy import secure_bits
from rangebound.values import arguments

FORMAT = "rangebound suggestion 1"
REACH = Fraction(19, 20)
"""What part of the owners is to keep all rows, or all groups."""
COUNTS = (*range(1, 21), *(int(each) for each in SIZES if 20 < each <= 1_000_000))
"""The grid of contribution bounds."""
_DATED = (Family.DATE, Family.TIMESTAMP)


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """What a plan leaves out, and the plan with something in its place."""

    plan: Plan
    ranges: tuple[int, ...]
    rows: bool
    groups: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns whose range is left out, by the questions in `ranges`."""
        return tuple(dict.fromkeys(self._column(index) for index in self.ranges))

    def _column(self, index: int) -> str:
        values = self.plan.query[index].reads
        assert values is not None
        return values.column

    def wheres(self, column: str | None = None) -> tuple[Conditions, ...]:
        """The rows that are asked for, by questions that leave out the range of a column, or that count rows at all."""
        if column is not None:
            return tuple(self.plan.query[index].where for index in self.ranges if self._column(index) == column)
        return tuple(each.where for each in self.counting)

    @property
    def counting(self) -> tuple[Kind, ...]:
        """The questions that the unit's `rows` bound: that count rows at all, and have no such bound of their own."""
        asked = [(each, dropped(each, choosing=True)) for each in self.plan.query if each.rows is None]
        counted = tuple(each for each, bounded in asked if bounded is None or not bounded.owners)
        return counted or tuple(each for each, _ in asked)

    @property
    def grouping(self) -> tuple[Kind, ...]:
        """The questions that the unit's `groups` bound: that have groups, and no such bound of their own."""
        return tuple(each for each in self.plan.query if each.groups is None and each.by)

    @property
    def draws(self) -> int:
        """How many draws it takes: two for a range, one for a bound."""
        return 2 * len(self.columns) + self.rows + self.groups

    def cost(self, share: float) -> Cost:
        """What a suggestion costs: the plan's epsilon times `share`."""
        if not 0.0 < arguments.positive("share", share) <= 1.0:
            raise ArgumentError(f"share={share!r}: must be at most 1, the whole of the plan's epsilon")
        return Cost(epsilon=Decimal(repr(self.plan.budget.epsilon)) * Decimal(repr(share)))

    def words(self, share: float) -> str:
        """What would be estimated, and what it would cost; touches no data."""
        bounds = [name for name, wanted in (("rows", self.rows), ("groups", self.groups)) if wanted]
        asked = [*(f"the range of {column!r}" for column in self.columns), *bounds]
        cost = self.cost(share)
        each = arguments.upwards(float(cost.epsilon) / self.draws, 4)
        beside = f"beside the {self.plan.budget} of the plan"
        some = any(all(self.wheres(column)) for column in self.columns) or (self.rows and all(self.wheres()))
        of = " over the rows that meet `where`" if some else ""
        return plain(f"Would estimate {', '.join(asked)}{of} for {cost}, epsilon {each} a draw, {beside}.")


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """What was found: ranges by column, rows and groups, and what it has cost.

    A column whose two ends do not enclose anything has no range: there were too few owners for the share.
    `print` shows lines to paste into the plan.
    """

    ranges: Mapping[str, Ends | None]
    rows: int | None
    groups: int | None
    cost: Cost

    def to_dict(self) -> dict[str, Any]:
        """The suggestion as plain data, dates as text."""
        ranges = {
            column: None if ends is None else [str(each) if isinstance(each, datetime.date) else each for each in ends]
            for column, ends in self.ranges.items()
        }
        return {"ranges": ranges, "rows": self.rows, "groups": self.groups, "cost": self.cost.to_dict()}

    def __str__(self) -> str:
        lines = [f"# estimated privately for {self.cost}; correct them by what is publicly known"]
        unit = {"rows": self.rows, "groups": self.groups}
        found = [f"{name} = {value}" for name, value in unit.items() if value is not None]
        lines += ["[unit]", *found] if found else []
        for column, ends in self.ranges.items():
            if ends is None:
                lines.append(f"# column {quoted(column)}: no range found; give a larger --share, or state it yourself")
            else:
                lines.append(f"range = [{', '.join(map(_written, ends))}]     # column = {quoted(column)}")
        return "\n".join(map(plain, lines))


def _written(end: float | datetime.date) -> str:
    return end.isoformat() if isinstance(end, datetime.date) else repr(float(end)).removesuffix(".0")


def read_suggestion(published: bytes, cost: Cost) -> Suggestion:
    """The suggestion that was published in some bytes."""
    try:
        found = json.loads(published)
        if found["format"] != FORMAT:
            raise KeyError("format")
    except (ValueError, KeyError, TypeError):
        raise ArgumentError("request: was published for something else; take another id") from None
    days = set(found["days"])
    ranges: dict[str, Any] = {
        column: None if ends is None else tuple(date(end) if column in days else end for end in ends)
        for column, ends in found["ranges"].items()
    }
    return Suggestion(ranges=ranges, rows=found["rows"], groups=found["groups"], cost=cost)


@arguments.guided
def suggest(
    plan: Mapping[str, Any],
    data: Any,
    *,
    ledger: Ledger | None,
    request: str | None = None,
    share: float = 0.1,
    tables: Mapping[str, Any] | None = None,
    folder: str | Path = ".",
) -> Suggestion:
    """Estimate what a plan leaves out: the `range` of column questions, the unit's `rows` and `groups`.

    `plan` is plain data, as `tomllib` reads it from a file. What it states is taken as public knowledge and is not
    asked of the table; `rows = "?"` and `groups = "?"` ask for these. A plan that leaves out `groups` alone is
    complete, with 1 for it. The cost is the plan's epsilon times `share`, beside what the plan itself will cost; it is
    charged to the plan's account under the id `request` before any data are read, and the same request again gives the
    same answer and costs nothing more. `ledger=None` charges nothing: for trials with made-up data. `tables` has those
    that the joins of the plan ask for by name; files that it names are relative to `folder`.

    Of n owners, the upper end of a range aims m below rank 0.98 n, the lower end as much above rank 0.02 n, rows and
    groups m below rank 0.95 n, on a public grid of p points, with m = ln(2 p / 0.05) / speed + 1 and
    speed = epsilon of a draw / (2 max(q, 1 - q)).

    Guarantee: (epsilon share, 0)-private for all neighbouring tables: every owner adds at most one to the counts that a
    draw is made of, and all draws have equal parts of the cost. An end passes its quantile with probability 2.5 % at
    most, so that a range is rather too narrow than absurd; what it cuts, `report_clipping` can tell.
    Assumes: what the plan states is public.
    Edge cases: a range is for the rows that meet the `where` of a question that leaves it out, `rows` for those that
    meet the `where` of any question without such a bound of its own (in each period, where the unit has one); `groups`
    for all rows, since an owner's groups are chosen among all. A range has ends of two digits; for numbers far from 0
    that vary little, such as years, it is wide. Too few owners give no range or a narrow one.

    >>> import pyarrow
    >>> table = pyarrow.table({"age": [float(18 + at % 60) for at in range(3000)]})
    >>> plan = {"budget": {"epsilon": 10.0}, "query": [{"name": "age", "kind": "mean", "column": "age"}]}
    >>> lower, upper = suggest(plan, table, ledger=None, share=0.5).ranges["age"]
    >>> lower <= 25 and 60 <= upper <= 80
    True
    """
    check_payer(ledger, request)
    engine = engine_of(data)
    engine.give(tables or {})
    gaps = gaps_of(plan, engine, folder)
    schema = view(gaps.plan, engine).schema
    check_schema(gaps.plan, schema)
    cost = gaps.cost(share)
    values, sizes = _statements(gaps, engine, schema)
    what = suggestion_text(gaps.plan, (*gaps.ranges, gaps.rows, gaps.groups))

    def compute() -> bytes:
        return json.dumps(_found(gaps, engine, schema, cost, values, sizes), sort_keys=True).encode()

    payer = paying(gaps.plan, ledger, request, "suggestion")
    if payer is not None:
        if payer.ledger.account(payer.account).approval is not None:  # as far as here, the names of columns were read
            payer.ledger.file_request(
                account=payer.account,
                request=payer.request,
                cost=cost,
                what=what,
                dry_run=gaps.words(share).encode(),
                check=lambda history: check_unit(gaps.plan, history),
            )
        if payer.ledger.published(payer.request) is None:
            try_statements(engine, [("plan", name, text) for name, text in (*values.items(), *sizes.items())])
    published = charged(gaps.plan, compute, payer, cost=cost, what=what)
    return read_suggestion(published, cost)


def draft_of(path: str | Path) -> dict[str, Any]:
    """A plan with gaps, from a TOML file."""
    return toml_data(read_text(path), str(Path(path)))


def gaps_of(plan: Mapping[str, Any], engine: Engine, folder: str | Path = ".") -> Gaps:
    """What a plan leaves out of a table that an engine has; touches no data.

    Whether a column has dates may follow from the steps of the plan, which are known once something stands in the gaps.
    """
    return left_out(plan, view(left_out(plan, {}, folder).plan, engine).schema, folder)


def left_out(plan: Mapping[str, Any], schema: Schema, folder: str | Path = ".") -> Gaps:
    """What a plan leaves out, and the plan with something valid in its place; touches no data.

    Guarantee: all else in the plan is checked as that of a whole plan is.
    Edge cases: without a schema every column is taken for one of numbers.
    """
    if not isinstance(plan, Mapping):
        raise ArgumentTypeError(f"plan={arguments.shown(plan)}: must be a mapping, as a TOML file would give it")
    filled, ranges = dict(plan), []
    unit: Any = plan.get("unit", {})
    asked = {name for name in ("rows", "groups") if isinstance(unit, Mapping) and unit.get(name) == TO_FILL_IN}
    if asked:
        filled["unit"] = {name: value for name, value in unit.items() if name not in asked}
    known = _known_ranges(filled, folder)
    queries = plan.get("query")
    if isinstance(queries, (list, tuple)):
        filled["query"] = [dict(each) if isinstance(each, Mapping) else each for each in queries]
        for index, each in enumerate(filled["query"]):
            if not isinstance(each, dict) or not _ranged(each.get("kind")) or "range" in each:
                continue
            if str(each.get("column")) not in known:
                if {"support", "step", "missing"} & each.keys():
                    raise PlanError(
                        f"query[{index}].range: is missing, and support, step and missing depend on it; "
                        "leave these out too until it is known",
                        field=f"query[{index}].range",
                    )
                ranges.append(index)
                dated = schema.get(str(each.get("column"))) in _DATED
                each["range"] = [datetime.date(2000, 1, 1), datetime.date(2001, 1, 1)] if dated else [0.0, 1.0]
    made = make_plan({**filled, "report_clipping": False}, folder=folder)
    owned = made.counted_unit.column is not None
    rows = owned and ("rows" in asked or "rows" not in unit)
    found = Gaps(
        plan=made,
        ranges=tuple(ranges),
        rows=rows,
        # A plan that states all else is complete: its groups are 1, as those of every plan by default.
        groups=owned and ("groups" in asked or ("groups" not in unit and bool(rows or ranges))),
    )
    found = replace(found, rows=found.rows and bool(found.counting), groups=found.groups and bool(found.grouping))
    if not found.draws:
        raise PlanError(
            "plan: leaves nothing out; suggest estimates a question's range and the unit's rows and groups where "
            'these lines are missing; if only groups is missing, it is 1: write groups = "?" to have it estimated',
            field="plan",
        )
    return found


def _known_ranges(plan: Mapping[str, Any], folder: str | Path) -> Mapping[str, Ends]:
    """The public ranges of columns that a plan states, or that follow from its expressions."""
    stated = {name: plan[name] for name in ("columns", "per_unit") if name in plan}
    if not stated:
        return {}
    stub = {"budget": {"epsilon": 1.0}, "query": [{"name": "rows", "kind": "count"}], "unit": plan.get("unit", {})}
    return make_plan({**stub, **stated}, folder=folder).column_ranges


def _ranged(kind: object) -> bool:
    """Whether questions of a kind need a range."""
    fields = KINDS[kind].model_fields if isinstance(kind, str) and kind in KINDS else {}
    return "range" in fields and fields["range"].default is not None


def _statements(gaps: Gaps, engine: Engine, schema: Schema) -> tuple[dict[str, str], dict[str, str]]:
    """The statements for the columns whose range is left out, and for the bounds, as text; touches no data."""
    salt = Salt.draw(secure_bits)
    values, sizes = {}, {}
    with not_too_deep():
        for column in gaps.columns:
            dated, wheres = schema[column] in _DATED, gaps.wheres(column)
            edges = DAYS if dated else VALUES
            tree = owners_by_value(gaps.plan, salt, engine, column=column, edges=edges, dated=dated, wheres=wheres)
            values[column] = engine.written(tree)
        for what, asked, at in (("rows", gaps.counting, 0), ("groups", gaps.grouping, -1)):  # the coarsest, the finest
            if getattr(gaps, what):
                by = sorted({each.by for each in asked}, key=lambda by: (len(by), by))[at]
                groups = what == "groups"  # which are chosen among all of an owner's, whatever a question asks for
                wheres = () if groups else gaps.wheres()
                tree = owners_by_size(gaps.plan, salt, engine, by=by, edges=COUNTS, groups=groups, wheres=wheres)
                sizes[what] = engine.written(tree)
    return values, sizes


def _found(
    gaps: Gaps, engine: Engine, schema: Schema, cost: Cost, values: Mapping[str, str], sizes: Mapping[str, str]
) -> dict[str, Any]:
    """All that is published: drawn once, from exact counts that stay here."""
    epsilon, moved = cost.epsilon.fraction / gaps.draws, Fraction(2 if gaps.plan.unit.replaced else 1)
    days, ranges = [column for column in values if schema[column] in _DATED], dict[str, Any]()
    for column, text in values.items():
        edges = DAYS if column in days else VALUES
        rate = exponential.rate(float(COVER), moved, epsilon)
        low, high = draw_ends(_counts(engine.run(text), edges), len(edges), rate, secure_bits)
        ranges[column] = (edges[low], edges[high]) if low < high else None  # else these do not enclose anything
    bounds: dict[str, int | None] = {"rows": None, "groups": None}
    for what, text in sizes.items():
        rate = exponential.rate(float(REACH), moved, epsilon)
        place = draw_place(_counts(engine.run(text), COUNTS), REACH, rate, secure_bits)
        bounds[what] = int(COUNTS[min((place or 0) // 2, len(COUNTS) - 1)])  # the edge at or above the place
    return {"format": FORMAT, "epsilon": str(cost.epsilon), "ranges": ranges, "days": days, **bounds}


def _counts(rows: Sequence[tuple[Any, ...]], edges: Sequence[float]) -> list[Fraction]:
    """Owners by place."""
    found = [Fraction(0)] * (2 * len(edges) + 1)
    for at, count in rows:
        found[int(at)] += Fraction(int(count), ONE)
    return found
