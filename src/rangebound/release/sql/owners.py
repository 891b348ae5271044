"""Owners by the place of their values, rows or groups among public edges: what suggestions are drawn from."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rangebound.release.engine import Engine
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.groupings import Block, public_keys
from rangebound.release.plan.model import Plan
from rangebound.release.plan.statistic import ONE
from rangebound.release.sql.contribution_bound import Scan
from rangebound.release.sql.expression import as_number, choice, integer, local
from rangebound.release.sql.group_order import Salt
from rangebound.release.sql.measured import edge_place, place_among, present
from rangebound.release.sql.relation import select_from, where, wide
from rangebound.release.sql.view import view

Conditions = tuple[Condition, ...]


def owners_by_value(
    plan: Plan,
    salt: Salt,
    engine: Engine,
    *,
    column: str,
    edges: Sequence[float],
    dated: bool,
    wheres: Sequence[Conditions] = (),
) -> exp.Select:
    """Owners by the place of their values among public edges, as `place_among` counts it.

    Every owner adds one in all, spread over the places of its values in the rows that meet one of `wheres`; it needs no
    range, and cannot fail.
    """
    once = plan.counted_unit.model_copy(update={"rows": 1, "groups": 1})
    block = Block(by=(), unit=once, keys=((),), questions=())
    seen = view(plan, engine)
    scan = Scan(plan, seen.schema, salt, seen.source(salt), engine.dialect, block)
    this = as_number(column, seen.schema, dated=dated)
    x = local(scan.read.name(choice((present(this), this))))
    met, found = scan.asked(wheres), edge_place(x, edges)
    found = found if met is None else choice((met, found), otherwise=integer(-1))
    return scan.by_place({"j": found}, once.rows)


def owners_by_size(
    plan: Plan,
    salt: Salt,
    engine: Engine,
    *,
    by: tuple[str, ...],
    edges: Sequence[int],
    groups: bool,
    wheres: Sequence[Conditions] = (),
) -> exp.Select:
    """Owners by how many rows they have in the group where they have most, or by how many `groups` they are in.

    Where rows are bounded in each period, by how many they have in the group and period where they have most.

    Every owner that has rows that meet one of `wheres` adds one, at a place among public edges, as `place_among` counts
    it; only such rows are looked at.
    """
    seen, block = view(plan, engine), Block(by=by, unit=plan.counted_unit, keys=public_keys(plan, by), questions=())
    scan = Scan(plan, seen.schema, salt, seen.source(salt), engine.dialect, block)
    met, times = scan.asked(wheres), {} if groups else scan.times()
    rows = scan.indexed({**({} if met is None else {"w": met}), **times})
    rows = rows if met is None else where(select_from(rows, "asked", exp.Star()), local("w"))
    cells = scan.grouped(rows, ["u", *scan.keys, *times], {"n": exp.Count(this=exp.Star())})
    size = exp.Count(this=exp.Star()) if groups else exp.Max(this=local("n"))
    units = scan.grouped(cells, ["u"], {"m": size})
    placed = exp.alias_(place_among(local("m"), list(map(integer, edges))), "j", quoted=True)
    count = exp.Mul(this=wide(exp.Count(this=exp.Star()), engine.dialect), expression=integer(ONE))
    return scan.with_keys(scan.grouped(select_from(units, "units", placed), ["j"], {"f0": count}))
