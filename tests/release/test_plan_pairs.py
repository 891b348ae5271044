"""10,000 pairs of neighbouring tables through random plans of every kind: no unit moves more, or costs more, than said.

Of each plan many small worlds share one table, so that the engine is asked once for all of them: the keys of one
grouping column carry the number of their world. Both tables of a world are neighbours. Their exact coordinates, as the
engine computes them, must be within the L1 and L2 sensitivities of every question; the privacy loss of what is drawn
from them, computed by `pair_loss`, within the share of every question; and all together within the plan's account.
"""

import contextlib
import datetime
import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtr
from sqlglot import exp

from rangebound.errors import ArgumentError, PlanError, Unsatisfiable
from rangebound.laws.boundings import QUANTIZE, RECTIFY, TRUNCATE, UNBOUNDED
from rangebound.laws.families import FAMILIES as NOISES
from rangebound.mechanisms.calibration import calibrate
from rangebound.release.budget_split import PlanParts, allocations
from rangebound.release.engine.dialect import choice, integer, text
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.noise import publishers
from rangebound.release.noise.exponential_mechanism import rate
from rangebound.release.noise.exponential_mechanism import sequence_rate as selection_rate
from rangebound.release.noise.joint_loss import Contributions
from rangebound.release.noise.marginal_publisher import marginal_publishers
from rangebound.release.noise.noisy_coordinates import gaussian_length
from rangebound.release.noise.partition_selection import PartitionSelection, threshold_selection
from rangebound.release.noise.publishers import one_coordinate
from rangebound.release.noise.strategies.marginal_strategy import rescaled
from rangebound.release.noise.table_publisher import best_table
from rangebound.release.plan.groupings import hidden_blocks, public_keys
from rangebound.release.plan.kinds.fractions import FractionKind
from rangebound.release.plan.kinds.kind import KINDS as KNOWN
from rangebound.release.plan.measure import Counted
from rangebound.release.plan.toml import make_plan
from rangebound.release.prepare import prepared
from rangebound.release.sql.aggregate import aggregated, compiled
from rangebound.release.sql.expression import column, local
from rangebound.release.sql.made_column import made_columns
from rangebound.release.sql.measured import key_text
from rangebound.release.sql.view import local_time
from rangebound.values.support import Grid, is_line
from tests.release.pair_loss import (
    CLOSE,
    PairLaw,
    PairLoss,
    as_stated_before,
    check_stated,
    laws_of_groups,
    of_pure,
    profile,
    pure_loss,
    question_laws,
    question_losses,
    selection_law,
    strategy_of,
)
from tests.release.plans import SALT, WAIT
from tests.release.reference import meets

CLINICS, FLOORS, SEXES, TOWNS = ["a", "b", "c"], [1, 2], ["f", "m"], ["s", "t", "u"]
DAYS = [datetime.date(2025, 1, 27) + datetime.timedelta(days=at) for at in range(9)]  # across a month and a week
KEYS = {"clinic": CLINICS, "floor": FLOORS, "sex": SEXES, "day": DAYS, "month": [1, 2], "ward": [1, 2, 3]}
LOCAL = [datetime.date(2025, 3, 29), datetime.date(2025, 3, 31)]
"""Days of `at` that are keys: in Paris, the one between has 23 hours."""
KEYS |= {"at": {"days": LOCAL}, "hour": [0, 1, 2, 3]}
RULED = [
    (
        {
            **KEYS,
            "floor": {"values": FLOORS, "missing": "none", "other": "above"},
            "sex": {"fold": {"woman": ["f"], "man": ["m"]}, "missing": "man"},
        },
        {"floor": {1: "1", 2: "2", 9: "above", None: "none"}, "sex": {"f": "woman", "m": "man", None: "man"}},
    ),
    (
        {
            **KEYS,
            "floor": {"bins": [1, 2, 8], "other": "out", "missing": "out"},
            "sex": {"values": SEXES, "missing": "?", "other": "?"},
        },
        {"floor": {1: "[1, 2)", 2: "[2, 8]", 9: "out", None: "out"}, "sex": {"f": "f", "m": "m", None: "?"}},
    ),
]
"""Keys by rule, and which values have which."""
PAIRS = [[0, DAYS[0]], [1, DAYS[1]], [1, DAYS[8]]]
"""Which of the keys of a column are listed with which days."""
REGIONS = {"north": ["a", "c"], "south": ["b"]}

WORKLOADS = [
    {"kind": "crosstab", "by": ["clinic", "floor"]},
    {"kind": "crosstab", "by": ["clinic", "floor", "sex"]},
    {"kind": "crosstab", "by": ["clinic", "floor"], "margins": False},
    {"kind": "hierarchy", "by": ["clinic"], "levels": [{"name": "region", "members": REGIONS}]},
    {"kind": "series", "by": ["day"]},
    {"kind": "series", "by": ["day"], "totals": ["running"]},
    {"kind": "series", "by": ["clinic", "day"], "totals": ["week", "month"]},
]
ADULTS = {"where": [{"column": "age", "is": ">=", "value": 18}]}
PLAIN = [
    {"kind": "count"},
    {"kind": "count", "signed": True, **ADULTS},
    {"kind": "count", "unbiased": True},
    {"kind": "count of units"},
    {"kind": "sum", "column": "wait", "range": [-20, 100]},
    {"kind": "sum", "column": "wait", "range": [-100, 100], "signed": True},
    {"kind": "sum", **WAIT, "unbiased": True, "mechanism": "rectify Laplace"},
    {"kind": "count", "mechanism": "truncate Gaussian", "support": [0, 40]},
    {"kind": "mean", **WAIT, "missing": 5.0},
    {"kind": "variance", **WAIT},
    {"kind": "standard deviation", **WAIT, **ADULTS},
    {"kind": "share", "of": [{"column": "wait", "is": ">", "value": 50}]},
    {"kind": "histogram", **WAIT, "bins": 4},
    {"kind": "histogram", **WAIT, "bins": 3, "unbiased": True},
]
RANKS = [
    {"kind": "quantiles", **WAIT, "levels": [0.25, 0.75], "step": 20.0},
    {"kind": "median", **WAIT, "step": 10.0, "interval_share": 0.0},
    {"kind": "minimum", **WAIT, "step": 25.0},
    {"kind": "maximum", **WAIT, "step": 25.0, **ADULTS},
]
CHOSEN = [
    {"kind": "central range", **WAIT, "step": 25.0, "share": 0.5},
    {"kind": "top k", "column": "sex", "k": 2},
    {"kind": "top k", "column": "ward", "k": 2, **ADULTS},
    {"kind": "mode", "column": "sex"},
    {"kind": "mode", **WAIT, "bins": 3},
    {"kind": "bounds", "column": "wait"},
]
UNITS = [
    {"column": "person", "rows": 2, "groups": 2},
    {"column": "person", "rows": 1, "groups": 3},
    {"column": "person", "rows": 3, "groups": 1},
    {},
]
ROWS = 6
"""Of every world, where the row is the unit and their number is public."""


def unit_for(seed):
    """Every unit in turn, with neighbours that add or remove one, and then with neighbours that replace one."""
    return UNITS[seed % len(UNITS)] | ({"neighbours": "replace", "size": ROWS} if seed // len(UNITS) % 2 else {})


def named(asked):
    return [{**each, "name": f"{at} {each['kind']}"} for at, each in enumerate(asked)]


def varied(seed, questions, *, beside=(), columns=("clinic", "floor")):
    """Every question in some grouping, for all units, both neighbours, with and without a delta, beside others."""
    chance, delta = random.Random(seed), [0.0, 1e-3][seed // 8 % 2]
    ways = [[], *([column] for column in columns), *([["town"]] if delta else [])]
    asked = [{"by": chance.choice(ways), **each} for each in questions]
    budget = {"epsilon": chance.choice([0.3, 1.0, 4.0]), "delta": delta}
    return {"unit": unit_for(seed), "budget": budget, "query": named([*beside, *asked])}


BY_CLINIC = {"kind": "count", "by": ["clinic"]}
MARGINALS = range(1000, 1008)
"""Plans whose counts by public keys are marginals of one table, which one strategy measures."""
GROUPINGS = [["clinic"], ["floor"], ["sex"], ["clinic", "floor"], ["floor", "sex"], []]


def marginal_plan(seed):
    """Counts of the same rows by several columns, with keys that are listed alone or not, beside other questions."""
    replaced, filtered = {"neighbours": "replace", "size": ROWS}, ADULTS if seed % 3 else {}
    asked = [{"kind": "count", "by": by, **filtered} for by in random.Random(seed).sample(GROUPINGS, 4)]
    return {
        "unit": replaced if seed % 4 >= 2 else {},
        "budget": {"epsilon": 1.0, "delta": 1e-3},
        "only_listed": bool(seed % 2),
        "query": named([*asked, {"kind": "mean", **WAIT, "by": []}, WORKLOADS[3]]),
    }


SELECTIONS = range(2000, 2016)
"""Plans with a question of each kind that is answered by an exponential mechanism, beside a count."""


def selection_plan(seed):
    return varied(seed, CHOSEN, beside=[BY_CLINIC])


WEIGHTS = {"weighted_by": {"column": "weight", "range": [0, 2.5]}}
COST = {"column": "cost", "range": [5, 100]}
FURTHER = [
    {"kind": "count", **WEIGHTS},
    {"kind": "sum", "column": "wait", "range": [-20, 100], **WEIGHTS},
    {"kind": "mean", **WAIT, **WEIGHTS},
    {"kind": "share", "of": [{"column": "wait", "is": ">", "value": 50}], **WEIGHTS},
    {"kind": "distinct count", "column": "town", "values": 2},
    {"kind": "ratio", "numerator": {"column": "cost", "range": [0, 100]}, "denominator": WAIT, "support": [0, 9]},
    {"kind": "ratio", "numerator": {"column": "wait", "range": [-50, 100]}, "denominator": COST},
    {"kind": "correlation", "x": WAIT, "y": COST},
    {"kind": "line", "x": WAIT, "y": COST},
]
"""Questions with weights, about distinct values, and about several columns."""
FURTHERS = range(3000, 3016)


def further_plan(seed):
    owned = "column" in unit_for(seed)
    known = [each if owned or "values" not in each else {**each, "values": 1} for each in FURTHER]
    return varied(seed, known, beside=[BY_CLINIC])


KEYED = range(4000, 4016)
"""Plans whose keys are made by rules, and listed as combinations."""
UNEQUAL = {"kind": "histogram", "column": "wait", "bins": [0, 1, 50, 100], "bin_names": ["none", "short", "long"]}


def keyed_plan(seed):
    """Questions by columns whose keys are made by rules, one of which has keys that are selected beside them."""
    chance, unit = random.Random(seed), unit_for(seed)
    asked = [chance.choice(WORKLOADS[:3]), {**UNEQUAL, "by": chance.choice([[], ["floor"]])}]
    asked += [{"kind": "count", "by": by} for by in (["floor"], ["sex"], ["floor", "sex"])]
    asked += [
        {**chance.choice(askable(unit)), "by": by}
        for by in (["sex", "day"], ["day", "floor", "sex"], ["town", "floor"])
    ]
    budget = {"epsilon": 1.0, "delta": 1e-3}
    return {"unit": unit, "budget": budget, "only_listed": seed % 3 == 2, "query": named(asked)}


def askable(unit):
    return [each for each in PLAIN if "column" in unit or "units" not in each["kind"]]


MADE_COLUMNS = {
    "floor": {"range": [0, 9]},
    "half": {"value": "wait / 2", "range": [-10, 50]},
    "each": {"value": "wait / (floor - 1)", "range": [0, 100]},
    "late": "wait > 50 OR FLOOR_DIV(age, 10) = 3",
    "month": "month(day)",
}
MADE_OF_ROWS = [
    {"kind": "count", "where": "late"},
    {"kind": "count", "where": "missing(each) or half * 2 < age"},
    {"kind": "sum", "column": "half"},
    {"kind": "mean", "column": "each", "where": "coalesce(wait, 0) >= 0"},
    {"kind": "share", "of": "CASE WHEN late THEN half ELSE age END > 20"},
    {"kind": "count", "by": ["month"]},
]
MADES = range(6000, 6016)
"""Plans with questions about columns that expressions make."""


def made_plan(seed):
    return varied(seed, MADE_OF_ROWS, columns=("clinic", "month")) | {"columns": MADE_COLUMNS}


OPTIMAL = range(9500, 9516)
"""Plans whose numbers are drawn from optimal tables, beside others."""
BY_TABLES = [
    {"kind": "count", "support": [0, 12]},
    {"kind": "count", "support": [0, 9], "step": 3, **ADULTS},
    {"kind": "distinct count", "column": "town", "support": [[0, 4], [6, 8]]},
    {"kind": "sum", "column": "wait", "range": [-20, 100], "support": [-100, 400]},
    {"kind": "count", **WEIGHTS, "support": [0, 6]},
]
ABOUT_ALL = [
    {"kind": "share", "of": [{"column": "wait", "is": ">", "value": 50}], "by": [], "mechanism": "optimal"},
    {"kind": "mean", **WAIT, "missing": 5.0, "by": [], "mechanism": "optimal"},
]


def table_plan(seed):
    unit, asked = unit_for(seed), [{**each, "mechanism": "optimal"} for each in BY_TABLES]
    sized = "column" not in unit and "size" in unit
    return varied(seed, asked, beside=[BY_CLINIC, *(ABOUT_ALL if sized else [])])


RANKED = range(8000, 8016)
"""Plans with a `top k` of a column whose keys are selected, alone and beside a count by the same keys."""


def ranked_plan(seed):
    """The most frequent towns, in all and by floor, with and without a filter, for all units and both neighbours."""
    top = {"kind": "top k", "column": "town", "k": 1}
    asked = [{**top, "by": []}, {**top, "by": ["floor"], **(ADULTS if seed // 8 % 2 else {})}]
    asked += [{"kind": "count", "by": ["town"]}] if seed % 3 == 0 else []
    budget = {"epsilon": random.Random(seed).choice([0.3, 1.0, 4.0]), "delta": 1e-3}
    return {"unit": unit_for(seed), "budget": budget, "query": named(asked)}


ZONED = range(9000, 9016)
"""Plans in which instants are local times: around hours that a zone leaves out or has twice, and at midnights."""
ZONES = ["Europe/Paris", "Asia/Kathmandu", "America/St_Johns", "Australia/Lord_Howe"]
IN_ZONES = [
    {"kind": "count", "by": ["at"]},
    {"kind": "series", "by": ["at"]},
    {"kind": "mean", "column": "hour", "range": [0, 23], "by": ["at"]},
    {"kind": "count", "by": ["hour"], "where": "hour < 4"},
    {"kind": "share", "of": "hour = 2 OR MONTH(at) = 10", "by": []},
    {"kind": "median", "column": "at", "range": LOCAL, "step": 1.0, "by": []},
]


def zoned_plan(seed):
    """Every question of `IN_ZONES`, for all units, both neighbours, with and without a delta and a period in days."""
    chance, unit = random.Random(seed), unit_for(seed)
    if "column" in unit and seed // 8 % 2:
        unit["period"] = {"column": "at", "each": "day", "range": LOCAL}
    return {
        "zone": ZONES[(seed + seed // 4) % 4],
        "unit": unit,
        "budget": {"epsilon": chance.choice([0.3, 1.0, 4.0]), "delta": chance.choice([0.0, 1e-3])},
        "columns": {"hour": {"value": "hour(at)", "range": [0, 23]}},
        "query": named(IN_ZONES),
    }


def instants():
    """Half hours around changes of the zones' clocks, and the ends of the calendar."""
    half = datetime.timedelta(minutes=30)
    starts = [datetime.datetime(2025, *day, 20, tzinfo=datetime.UTC) for day in ((3, 8), (3, 29), (4, 5), (10, 25))]
    ends = [datetime.datetime.min, datetime.datetime.max]
    return [start + at * half for start in starts for at in range(22)] + [e.replace(tzinfo=datetime.UTC) for e in ends]


INSTANTS = instants()


def keys_of(seed):
    if seed in WIDE:
        return WIDE_KEYS
    return RULED[seed % 2][0] if seed in KEYED else KEYS


BOUNDED = range(7000, 7096)
"""Plans in which questions have contribution bounds of their own: rows, groups, and periods in which rows count."""
PERIODS = [
    None,
    {"column": "day", "each": "day", "range": DAYS[1:4:2]},
    {"column": "day", "each": "week", "range": DAYS[::8]},
    {"column": "day", "each": "month", "range": DAYS[::8]},
]


def bounded_plan(seed):
    """A random plan of owners, whose unit and questions have bounds or not; where keys are selected, the same ones."""
    chance = random.Random(f"bounds {seed}")
    base = next(at for at in range(seed - BOUNDED[0], BOUNDED[-1]) if "column" in UNITS[at % len(UNITS)])
    data = {2: further_plan, 3: selection_plan}.get(seed % 4, plan_of)(base)
    asked = with_bounds(chance, data["query"])
    period = chance.choice(PERIODS)
    return {**data, "unit": {**data["unit"], **({"period": period} if period else {})}, "query": asked}


def with_bounds(chance, questions):
    shared = {name: each for name, each in bounds_of(chance).items() if name != "rows"}
    asked = []
    for each in questions:
        own = bounds_of(chance)
        if "town" in each["by"]:
            own = {**{name: bound for name, bound in own.items() if name == "rows"}, **shared}
        unneeded = {"rows": KNOWN[each["kind"]].no_rows, "groups": not each["by"]}
        asked.append({**each, **{name: bound for name, bound in own.items() if not unneeded.get(name)}})
    return asked


def bounds_of(chance):
    found = {
        "rows": chance.choice([None, 1, 2]),
        "groups": chance.choice([None, 1, 2]),
        "period": chance.choice(PERIODS),
    }
    return {name: each for name, each in found.items() if each is not None}


WIDE = range(100_000, 105_000)
"""Plans in which a unit may be in many groups: what they state and charge is compared with the laws of pairs."""
MANY_CLINICS = [f"c{at}" for at in range(10)]
MANY_DAYS = [datetime.date(2025, 1, 1) + datetime.timedelta(days=at) for at in range(40)]
WIDE_KEYS = {**KEYS, "clinic": MANY_CLINICS, "day": MANY_DAYS}
BY_REGION = {f"r{at}": MANY_CLINICS[at::3] for at in range(3)}
WIDE_WORKLOADS = [
    {"kind": "crosstab", "by": ["clinic", "floor"]},
    {"kind": "crosstab", "by": ["clinic", "floor", "sex"]},
    {"kind": "hierarchy", "by": ["clinic"], "levels": [{"name": "region", "members": BY_REGION}]},
    {"kind": "series", "by": ["day"]},
    {"kind": "series", "by": ["floor", "day"]},
    {"kind": "series", "by": ["day"], "totals": ["running"]},
]
WIDE_UNITS = [(rows, groups) for rows in (1, 3) for groups in (1, 2, 5, 12, 30, 60, 100)]


def wide_plan(seed):
    """A random plan as plain data: a workload and up to two other questions, with budgets of every form."""
    chance = random.Random(seed)
    rows, groups = chance.choice(WIDE_UNITS)
    unit = {"column": "person", "rows": rows, "groups": groups}
    unit |= {"neighbours": "replace", "size": ROWS} if chance.random() < 0.4 else {}
    delta = chance.choice([0.0, 0.0, 1e-6, 1e-3])
    others = [each for each in PLAIN if delta or each.get("mechanism") != "truncate Gaussian"]
    ways = [[], ["clinic"], ["day"], ["clinic", "day"], *([["town"], ["town", "day"]] if delta else [])]
    asked = [chance.choice(WIDE_WORKLOADS)]
    for _ in range(chance.choice([0, 1, 2])):
        asked.append({**chance.choice([*others, *RANKS, *CHOSEN]), "by": chance.choice(ways)})
    if chance.random() < 0.3:
        asked[0] = {**asked[0], "groups": chance.choice([2, 8, 40]), "rows": chance.choice([1, 2])}
    if chance.random() < 0.3:
        asked = [{**each, "weight": chance.choice([0.3, 1.0, 3.0])} for each in asked]
    elif chance.random() < 0.2:
        asked[0] = {**asked[0], "margin": chance.choice([1e5, 1e6])}
    budget = {"epsilon": chance.choice([0.5, 1.0, 2.0, 4.0]), "delta": delta}
    return {"unit": unit, "budget": budget, "query": named(asked)}


def wide_pair(chance, world, unit):
    """Two neighbouring tables in which one person has rows in many cells: days of one clinic, few clinics, anywhere."""
    every = [(clinic, floor, day) for floor in FLOORS for day in MANY_DAYS for clinic in MANY_CLINICS]

    def one(person, groups):
        way, start = chance.randrange(4), chance.randrange(len(every))
        if way == 0:
            cells = [every[(start + 10 * at) % len(every)] for at in range(groups)]  # days of one clinic
        elif way == 1:
            cells = [every[(start + at) % len(every)] for at in range(groups)]  # clinics of few days
        elif way == 2:
            cells = every[:: max(1, len(every) // groups)][:groups]
        else:
            cells = chance.sample(every, groups)
        town, sex, wait = chance.choice(TOWNS), chance.choice(SEXES), chance.choice([-1e3, 0.0, 1e3])
        facts = wait, 30, 9.0, 500.0, 1, INSTANTS[30]
        return [
            (person, world, f"{world}:{clinic}", floor, sex, day, f"{world}:{town}", *facts)
            for clinic, floor, day in cells
            for _ in range(unit.most_rows)
        ]

    first = world * 100
    rest = [row for at in range(2) for row in one(first + at + 1, 3)]
    sides = one(first, unit.groups) + rest, (one(first, unit.groups) if unit.replaced else []) + rest
    return sides if chance.random() < 0.5 else sides[::-1]


BRIEF = range(200_000, 210_000)
"""Plans of one to three questions of any kind, each in turn, so that little hides how near what is stated comes."""
EVERY = [*PLAIN, *RANKS, *CHOSEN, *FURTHER, *({**each, "mechanism": "optimal"} for each in BY_TABLES), *WORKLOADS]
EVERY += [{"kind": "top k", "column": "town", "k": 1}]


def brief_plan(seed):
    chance, first = random.Random(seed), EVERY[seed % len(EVERY)]
    unit = unit_for(chance.randrange(8))
    asked = [first, *chance.choices(EVERY, k=chance.choice([0, 0, 1, 2]))]
    asked = [each for each in asked if "column" in unit or each["kind"] != "count of units"] or [BY_CLINIC]
    asked = [{**each, "values": 1} if "values" in each and "column" not in unit else each for each in asked]
    ways = [[], ["clinic"], ["floor"], ["clinic", "floor"], ["town"], ["town", "floor"]]
    asked = [{"by": chance.choice(ways if each.get("column") != "town" else ways[:-2]), **each} for each in asked]
    if "column" in unit and chance.random() < 0.4:
        asked = with_bounds(chance, asked)
    data = other_budget({"unit": unit, "query": named(asked)}, chance)
    return with_cuts(data) if chance.random() < 0.25 else data


CUTS = range(10_000, 10_096)
"""Plans with bounds of their own, and numbers about how much is cut."""


def cut_plan(seed):
    return with_cuts(bounded_plan(seed - CUTS[0] + BOUNDED[0]))


def with_cuts(data):
    """The same plan with `report_clipping`; as it is, where nothing is cut."""
    cut = {**data, "report_clipping": True}
    try:
        with_keys(cut, KEYS)
    except PlanError:
        return data
    return cut


def plan_of(seed):
    return next((make for seeds, make in MAKERS.items() if seed in seeds), random_plan)(seed)


MAKERS = {
    MARGINALS: marginal_plan,
    SELECTIONS: selection_plan,
    FURTHERS: further_plan,
    KEYED: keyed_plan,
    MADES: made_plan,
    RANKED: ranked_plan,
    OPTIMAL: table_plan,
    BOUNDED: bounded_plan,
    CUTS: cut_plan,
    ZONED: zoned_plan,
    WIDE: wide_plan,
    BRIEF: brief_plan,
}


def random_plan(seed):
    """A random plan as plain data: two workloads, and three or four other questions, some by keys that are selected."""
    chance, unit = random.Random(seed), unit_for(seed)
    delta = [0.0, 1e-3, 1e-6][seed // 8 % 3]
    asked = [WORKLOADS[seed % len(WORKLOADS)], chance.choice(WORKLOADS)]
    others = [each for each in askable(unit) if delta or each.get("mechanism") != "truncate Gaussian"]
    for question in [*chance.sample(others, 3), chance.choice(RANKS)]:
        ways = [[], ["clinic"], ["floor"], ["clinic", "floor"], *([["town"], ["town", "floor"]] if delta else [])]
        asked.append({**question, "by": chance.choice(ways)})
    if delta and seed % 2:
        asked.append({"kind": "count", "by": ["town"]})
    if chance.random() < 0.4:
        asked = [{**each, "weight": chance.choice([0.2, 1.0, 3.0])} for each in asked]
    return {
        "unit": unit,
        "budget": {"epsilon": chance.choice([0.3, 1.0, 4.0]), "delta": delta},
        "objective": chance.choice(["total", "relative"]),
        "intervals": "both" if seed % 3 else "table",
        "query": named(asked),
    }


def with_keys(data, keys):
    used = {column for each in data["query"] for column in each["by"]}
    used |= {each["column"] for each in data["query"] if each["kind"] in ("top k", "mode")}
    combined = {}
    if isinstance(keys["floor"], dict):
        names = ("woman", "man") if "fold" in keys["sex"] else SEXES
        combined = {"combinations": [{"columns": ["sex", "day"], "keys": [[names[at], day] for at, day in PAIRS]}]}
    return make_plan({**data, **combined, "keys": {name: each for name, each in keys.items() if name in used}})


def in_worlds(data, worlds, keys):
    """The same plan for many worlds: every grouping has a column whose keys say which world they are of."""
    keys = {**keys, "world": list(range(worlds))}
    keys["clinic"] = [f"{world}:{clinic}" for world in range(worlds) for clinic in keys["clinic"]]
    asked = []
    for each in data["query"]:
        columns = (*each["by"], *([each["column"]] if each["kind"] == "top k" else []))
        named = any(column in ("clinic", "town") for column in columns)
        each = {**each, "by": each["by"] if named else ["world", *each["by"]]}
        if each["kind"] == "crosstab":
            each["margins"] = False  # the same cells; the margins of thousands would be refused
        if each["kind"] == "hierarchy":
            (level,) = each["levels"]
            members = {
                f"{w}:{name}": [f"{w}:{key}" for key in own]
                for w in range(worlds)
                for name, own in level["members"].items()
            }
            each["levels"] = [{**level, "members": members}]
        asked.append(each)
    return with_keys({**data, "query": asked, "report_clipping": False}, keys)


def world_of(key):
    for at, part in enumerate(key):
        if ":" in part:
            world, _, own = part.partition(":")
            return int(world), (*key[:at], own, *key[at + 1 :])
    return int(key[0]), key[1:]


COLUMNS = {
    "person": pa.int64(),
    "world": pa.int64(),
    "clinic": pa.string(),
    "floor": pa.int64(),
    "sex": pa.string(),
    "day": pa.date32(),
    "town": pa.string(),
    "wait": pa.float64(),
    "age": pa.int64(),
    "weight": pa.float64(),
    "cost": pa.float64(),
    "ward": pa.int64(),
    "at": pa.timestamp("us", "UTC"),
}
ODD = [None, float("nan"), float("inf"), -50.0, 0.0, 100.0, 1e9]


def rows_of(chance, world, person, count, extreme, *, spread=False):
    """Rows of one person: ordinary ones, or as many in a cell as it takes, all at one end of the range."""
    wait, made = chance.choice([-1e3, 0.0, 1e3, 100.0]), []
    cells = [
        (
            chance.choice([*CLINICS, "z", None] if not extreme else CLINICS),
            chance.choice([*FLOORS, 9, None] if not extreme else FLOORS),
            chance.choice([*SEXES, None] if not extreme else SEXES),
            chance.choice([*DAYS, DAYS[0] - datetime.timedelta(days=1), None] if not extreme else DAYS),
            chance.choice([*TOWNS, None] if not extreme else TOWNS),
        )
        for _ in range(3)
    ]
    for at in range(count):
        clinic, floor, sex, day, town = cells[at % 3]
        if spread:  # over all days, so that all periods are full
            day = DAYS[at // 3 % len(DAYS)]
        made.append(
            (
                person,
                world,
                None if clinic is None else f"{world}:{clinic}",
                floor,
                sex,
                day,
                None if town is None else f"{world}:{town}",
                wait if extreme else chance.choice([*ODD, chance.uniform(0, 100)]),
                30 if extreme else chance.choice([None, 5, 30, 70]),
                9.0 if extreme else [None, 0.0, 1.0, float("nan"), -3.0][(person + at) % 5],
                [0.0, 500.0][(person + world) % 2] if extreme else [None, 20.0, 70.0][(person + at) % 3],
                1 + at % 3 if extreme else (person * 7 + at) % 5,
                INSTANTS[30 + at % 3] if extreme else [None, *INSTANTS][(person * 31 + at * 17) % (len(INSTANTS) + 1)],
            )
        )
    return made


def pair_of(chance, world, unit, *, periods=False):
    """Two neighbouring tables; with `periods`, some people have rows on all days."""
    replaced, owned = unit.replaced, unit.column is not None

    def one(person):
        extreme = chance.random() < 0.5
        count = chance.choice([9, 12]) if extreme else chance.choice([1, 2, 3, 9])
        if periods and extreme and owned:
            return rows_of(chance, world, person, 2 * 3 * len(DAYS), extreme, spread=True)
        return rows_of(chance, world, person, count if owned else 1, extreme)

    first = world * 100
    others = ROWS - 1 if not owned and replaced else chance.choice([0, 1, 4])
    rest = [row for at in range(others) for row in one(first + at + 1)]
    if owned and chance.random() < 0.3:
        rest += [(None, *row[1:]) for row in one(first)]  # without an owner
    sides = one(first) + rest, (one(first) if replaced else []) + rest
    return sides if chance.random() < 0.5 else sides[::-1]


def table(rows):
    return pa.table(
        {name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(COLUMNS.items())}
    )


@cache
def reader():
    """One engine for all plans: the statements of a plan are written once, and the table below them changes."""
    return DuckDB(table([]), threads=1)


def found_in(plan, small, sides, worlds):
    """Of the tables of each side, what `coordinates_of` says."""
    for one, other in zip(plan.query, small.query, strict=True):
        if isinstance(one, FractionKind):
            one._squared = other.squared  # by whether the rows are public, which they are not in many worlds
    engine, written = reader(), compiled(plan, reader(), SALT)
    for rows in sides:
        engine._connection.register(engine._table._raw, table(rows))
        yield coordinates_of(small, aggregated(plan, engine, written), worlds)


def coordinates_of(small, blocks, worlds):
    """For every question, the coordinates of each world by key, and the units of each key where it is selected."""
    found, units = {}, {}
    for block in blocks:
        for index in block.block.questions:
            own = [{} for _ in range(worlds)]
            question = small.query[index]
            known = isinstance(question, FractionKind) and question.known_rows(small.unit_of(question)) is not None
            for key in block.keys:
                world, rest = world_of(key)
                values = block.answers[index][key]
                own[world][rest] = values[1:] if known else values  # what a public number of rows leaves
            found[index] = own
        if block.block.keys is None:
            named = units.setdefault(small.query[block.block.questions[0]].by, [{} for _ in range(worlds)])
            for key, count in block.units.items():
                world, rest = world_of(key)
                named[world][rest] = count
    return found, units


def cut_sides(plan, pairs):
    """The coordinates of questions about what is cut, as `aligned` gives them: of all groups, so world by world."""
    engine, made = reader(), [at for at, each in enumerate(plan.query) if each.made]
    written = (
        [each for each in compiled(plan, engine, SALT) if not set(made).isdisjoint(each[0].columns)] if made else []
    )
    found = {index: ([], [], [[True]] * len(pairs)) for index in made}
    for pair in pairs if made else []:
        for side, rows in enumerate(pair):
            named = [(*row[:2], without_world(row[2]), *row[3:6], without_world(row[6]), *row[7:]) for row in rows]
            engine._connection.register(engine._table._raw, table(named))
            for block in aggregated(plan, engine, written):
                for index in block.answers.keys() & found.keys():
                    found[index][side].append([block.answers[index][()]])
    return found


def without_world(key):
    return key and key.partition(":")[2]


def sensitivity(question, unit, groups):
    return question.sensitivity(unit, groups)


def check_distances(plan, index, before, after, most):
    """That no pair is farther apart than the stated L1 and L2 sensitivity, in a group and in all of them."""
    question = plan.query[index]
    declared = sensitivity(question, plan.unit_of(question), plan.groups(question.counted_by))
    for one, two in zip(before, after, strict=True):
        moves = [[abs(a - b) for a, b in zip(x, y, strict=True)] for x, y in zip(one, two, strict=True) if x != y]
        if moves:
            sums = [max(each) if declared.supremum else sum(each) for each in moves]
            total, square = sum(sums), sum(x * x for each in moves for x in each)
            assert max(sums) <= declared.cell * (2 if declared.twice else 1), (question.name, "cell")
            assert total <= declared.total, (question.name, "L1")
            assert square <= declared.square, (question.name, "L2")
            assert len(moves) <= declared.groups, (question.name, "groups")
            note(most, (question.kind, "L-infinity" if declared.supremum else "L1"), float(total / declared.total))
            note(most, (question.kind, "L2"), float(square / declared.square))


def note(most, name, ratio):
    most[name] = max(most.get(name, 0.0), ratio)


def aligned(question, plan, before, after):
    """The coordinates of both sides by the same keys; those that one side lacks are zeros, and are marked."""
    nothing, public = question.coordinates({}, plan.unit_of(question)), public_keys(plan, question.by)
    left, right, both = [], [], []
    for one, two in zip(before, after, strict=True):
        keys = public or sorted({*one, *two})
        left.append([one.get(key, nothing) for key in keys])
        right.append([two.get(key, nothing) for key in keys])
        both.append([key in one and key in two for key in keys])
    return left, right, both


def check_way(plan, way, sides, units, pairs, most, *, stated=False):
    """That the losses of all pairs are within the shares of one way to split the budget, and within its account.

    With `stated`, also that nothing which is stated or charged is below what their laws show.
    """
    ready, budget = prepared(plan, way), plan.budget
    totals, laws = [PairLoss()] * len(sides[0][0]), [PairLaw()] * len(sides[0][0])
    for index, question in enumerate(plan.query):
        share, publisher = way.questions[index], ready.publishers[index]
        left, right, both = sides[index]
        if not way.sensitivities[index].cell:
            assert left == right, question.name
            continue
        if way.workload(index):
            continue
        if plan.private(question.by):  # a key that one table lacks is not named but for what the selection may lose
            left, right = (
                [[x for x, shared in zip(row, own, strict=True) if shared] for row, own in zip(side, both, strict=True)]
                for side in (left, right)
            )
        law = laws_of_groups(publisher, share)
        losses = question_losses(publisher, share, left, right, law)
        limit = float(share.square) if way.mu else share.epsilon * share.groups * share.parts
        worst = max(each.square if way.mu else each.epsilon for each in losses)
        assert worst <= limit * (1 + CLOSE), (question.name, "share")
        note(most, (question.kind, "mu^2" if way.mu else "epsilon"), worst / limit)
        totals = [one + two for one, two in zip(totals, losses, strict=True)]
        if stated:
            own = question_laws(publisher, share, left, right, law)
            laws = [one + two for one, two in zip(laws, own, strict=True)]
    for workload in ready.workloads:
        losses = workload_losses(ready, workload, sides, pairs)
        laws = [one + PairLaw(square=two.square) for one, two in zip(laws, losses, strict=True)]
        limit = float(way.questions[workload.questions[0]].square)
        worst = max(each.square for each in losses)
        assert worst <= limit * (1 + CLOSE), (workload, "share")
        note(most, ("marginals", "mu^2"), worst / limit)
        totals = [one + two for one, two in zip(totals, losses, strict=True)]
    for by, share in way.selections.items():
        losses = selection_losses(ready, ready.selections[by], share, units[by])
        totals = [one + two for one, two in zip(totals, losses, strict=True)]
    check_account(budget, way, totals, most)
    if stated:
        # As if numbers of keys that are not named were drawn too: that is charged, and shows more than the table.
        for by, selection in ready.selections.items():
            if isinstance(selection, PartitionSelection):
                named = [selection_law(selection, one, two) for one, two in zip(*units[by], strict=True)]
                laws = [one + two for one, two in zip(laws, named, strict=True)]
        note(most, ("plan", "stated"), check_stated(ready, laws))
        note(most, ("plan", "stated before"), caught_before(ready, laws))


def caught_before(ready, laws):
    """Whether what version 0.2 stated of a plan is below what the laws of pairs show."""
    before = as_stated_before(ready)
    if before.mu >= ready.loss.mu:
        return False
    try:
        check_stated(ready, laws, loss=before)
    except AssertionError:
        return True
    return False


def workload_losses(ready, workload, sides, pairs):
    """What every pair loses by counts that are measured together; rows with other keys are counted row by row."""
    plan, moved = ready.plan, [[] for _ in pairs]
    for index in workload.questions:
        left, right, _ = sides[index]
        for own, one, two in zip(moved, left, right, strict=True):
            own.append([int(x[0] - y[0]) for x, y in zip(one, two, strict=True)])
    where = plan.query[workload.questions[0]].where
    for block in hidden_blocks(plan, workload):
        for own, pair in zip(moved, pairs, strict=True):
            before, after = ([counted(plan, each, block, where, key) for key in block.keys] for each in pair)
            own.append([x - y for x, y in zip(before, after, strict=True)])
    sizes = [len(each) for each in moved[0]]
    found = strategy_of(ready.publishers[workload.questions[0]], *sizes)
    losses = found.losses(np.array([[x for each in own for x in each] for own in moved], dtype=float))
    return [PairLoss(epsilon=math.inf, square=each) for each in losses.tolist()]


def counted(plan, rows, block, where, key):
    named = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    own = [tuple(label(plan, column, row[column]) for column in block.by) for row in named]
    return sum(found == key and meets(row, where) for found, row in zip(own, named, strict=True))


def label(plan, column, value):
    """The key of a value: the value itself, or what a rule makes of it."""
    for _, labels in RULED:
        if set(labels.get(column, {}).values()) == set(plan.columns((column,))[0]):
            return labels[column][value]
    return str(value).rpartition(":")[2]


def check_account(budget, way, totals, most):
    """That all questions and selections together are within the budget, for every pair."""
    epsilon, delta = budget.epsilon, budget.delta
    if not way.mu:
        worst = max(each.epsilon for each in totals)
        assert worst <= epsilon * (1 + CLOSE), "account"
        assert max(each.delta for each in totals) <= delta * (1 + CLOSE), "account"
        note(most, ("plan", "epsilon"), worst / epsilon)
        return
    worst = max(each.square for each in totals)
    assert worst <= way.mu**2 * (1 + CLOSE), "account"
    note(most, ("plan", "mu^2"), worst / way.mu**2)
    for each in totals:
        gaussian = max(each.square - sum(map(of_pure, each.pure)), 0.0)
        lost = profile(gaussian, each.pure, epsilon) + each.delta
        assert lost <= delta * (1 + 1e-6), "account"  # a difference of doubles
        note(most, ("plan", "delta"), lost / delta)


def selection_losses(ready, selection, share, units):
    """What naming the keys loses: a step of the selection for each key with more units, or fewer, than before.

    A threshold costs nothing for keys that both tables have; one that one of them lacks may pass it by its noise.
    """
    found, partition = [], isinstance(selection, PartitionSelection)
    if not partition:
        at = selection.question
        rows, scale = PlanParts(plan=ready.plan).noisy_count(at, ready.publishers[at])
        passed = float(ndtr((rows + 0.5 - selection.threshold) / scale))
        assert passed <= share.delta * (1 + CLOSE), "threshold"
    for one, two in zip(*units, strict=True):
        changed = [key for key in {*one, *two} if one.get(key, 0) != two.get(key, 0)]
        assert all(abs(one.get(key, 0) - two.get(key, 0)) == 1 for key in changed)
        alone = [key for key in changed if not (one.get(key) and two.get(key))]
        assert len(changed) <= share.groups
        each = pure_loss(share.epsilon, share.delta) if partition else PairLoss(delta=passed)
        found.append(sum([each] * len(changed if partition else alone), PairLoss()))
    return found


def check(seed, worlds, most, *, change=lambda way: way, every=True, stated=False, budgets=1):
    """One random plan on this many pairs, by `every` way to split its budget or the last one, which is mostly taken.

    With several `budgets`, also the same questions with others, which ask the engine for the same numbers; all plans.
    """
    data = plan_of(seed)
    small, large = with_keys(data, keys_of(seed)), in_worlds(data, worlds, keys_of(seed))
    chance = random.Random(f"pairs {seed}")
    if seed in WIDE:
        pairs = [wide_pair(chance, world, small.unit) for world in range(worlds)]
    else:
        periods = seed in BOUNDED or seed in BRIEF or seed in CUTS
        pairs = [pair_of(chance, world, small.unit, periods=periods) for world in range(worlds)]
    found = [*found_in(large, small, [[row for each in pairs for row in each[at]] for at in (0, 1)], worlds)]
    sides = {index: aligned(small.query[index], small, *(each[0][index] for each in found)) for index in found[0][0]}
    sides |= cut_sides(small, pairs)
    for index, (left, right, _) in sides.items():
        check_distances(small, index, left, right, most)
    units = {by: [each[1][by] for each in found] for by in found[0][1]}
    plans = [small, *(with_keys(other_budget(data, chance), keys_of(seed)) for _ in range(budgets - 1))]
    for plan in plans:
        ways = allocations(plan)
        for way in ways if every else ways[-1:]:
            check_way(plan, change(way), sides, units, pairs, most, stated=stated)
    return plans


def other_budget(data, chance):
    """The same questions with another budget and other weights."""
    asked = data["query"]
    private = any("town" in each["by"] or (each["kind"], each.get("column")) == ("top k", "town") for each in asked)
    needed = private or any("Gaussian" in each.get("mechanism", "") for each in asked)
    delta = chance.choice([1e-6, 1e-3] if needed else [0.0, 0.0, 1e-6, 1e-3])
    if chance.random() < 0.3 and not any("margin" in each for each in asked):
        asked = [{**each, "weight": 1.0 if at else 3.0} for at, each in enumerate(asked)]
    return {**data, "budget": {"epsilon": chance.choice([0.3, 1.0, 2.0, 4.0]), "delta": delta}, "query": asked}


FEW = [35, 0, 31, 64, 3, 44, 39, 4, 77, 33, 1, 13, 2000, 2005, 2011, 2014, 3000, 3004, 3010, 3015, 6000, 6005]
"""Plans with all kinds, units, strategies, workloads and ways to select keys, nearly all in both accounts."""
FEWER = [0, 3, 4, 31, 44, 77, 2011, 3010]
"""Plans with all kinds and units, which attain all bounds in L1 and of epsilon with a few pairs each."""
ATTAINED = dict.fromkeys(("maximum", "minimum", "quantiles", "central range", "bounds"), 0.05)
ATTAINED |= {"top k": 0.25, "mode": 0.5, "median": 0.4, "plan": 0.7, "marginals": 0.9}
"""Exponential mechanisms lose less than their bound, on tables of a few rows most of all, and plans have one each."""


def expect_attained(most, without=()):
    """That every kind was there, and that the bounds are met, not just respected."""
    asked = {name for name, kind in KNOWN.items() if not kind.made}
    assert asked - {kind for kind, _ in most} == set(), "add a question of the kind to PLAIN"
    for (kind, name), ratio in most.items():
        least = 0.95 if name in ("L1", "L2") else ATTAINED.get(kind, 0.95)
        found = (
            f"{kind}: no pair comes near its {name}, {ratio:.3g} of it at most: too large, or ask for more rows here"
        )
        assert ratio > least or name in without, found


@pytest.mark.claim("sensitivity", "privacy")
@pytest.mark.parametrize(
    ("seeds", "worlds", "without"),
    [(FEWER, 24, ("L2", "mu^2", "delta")), pytest.param(FEW, 80, (), marks=pytest.mark.slow)],
    ids=["few", "many"],
)
def test_no_pair_of_neighbours_is_farther_apart_or_loses_more_than_its_plan_says(seeds, worlds, without):
    most = {}
    for seed in seeds:
        check(seed, worlds, most, every=False)
    expect_attained(most, without)


def pairs_of(kinds, names):
    return [(kind, name) for kind in kinds for name in names]


FURTHER_PLANS = {
    "counts as marginals of one table": (MARGINALS[::5], 40, [("marginals", "mu^2")]),
    "keys by rules": (KEYED[::8], 160, [("count", "L1"), ("histogram", "L1"), ("crosstab", "L1")]),
    "optimal tables": ([OPTIMAL[5]], 30, pairs_of(["count", "sum", "distinct count"], ["epsilon"])),
    "more optimal tables": (  # row and owner, both neighbours and accounts
        [OPTIMAL[1], OPTIMAL[5], OPTIMAL[11]],
        30,
        [*pairs_of(["count", "sum", "distinct count"], ["epsilon", "mu^2"]), ("share", "epsilon")],
    ),
    "more local times": (
        ZONED[::3],
        20,
        pairs_of(["count", "series", "share"], ["L1"]),
    ),  # all units, zones, neighbours
    "ranked keys that are selected": (RANKED[::3], 40, pairs_of(["top k"], ["L1", "L2", "mu^2", "epsilon"])),
    "bounds of their own": ([7000, 7033], 20, pairs_of(["count", "crosstab", "series"], ["L1", "L2"])),
    "numbers about cuts": ([BRIEF[33]], 5, [("share clipped", "L1")]),
    "more numbers about cuts": (
        [CUTS[0], CUTS[1], CUTS[6], BRIEF[19]],
        10,
        [*pairs_of(["share clipped"], ["L1", "L2"]), ("share dropped", "L1")],
    ),
    "more bounds of their own": (
        [7000, 7012, 7033, 7041, 7006, 7007],
        20,
        pairs_of(["count", "crosstab", "series"], ["L1", "L2"]),
    ),
}


@pytest.mark.few(3)
@pytest.mark.claim("sensitivity", "privacy")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * name.startswith("more")) for name in FURTHER_PLANS]
)
def test_neither_does_one_with(name):
    seeds, worlds, attained = FURTHER_PLANS[name]
    most = {}
    for seed in seeds:
        check(seed, worlds, most, every=name.startswith("ranked"))
    assert min(most[each] for each in attained) > 0.95


@pytest.mark.long
@pytest.mark.parametrize(
    "seeds", [BOUNDED, [*range(96), *MARGINALS, *SELECTIONS, *FURTHERS, *KEYED, *MADES, *RANKED, *ZONED]]
)
def test_neither_does_one_of_ten_thousand_by_any_way_to_split_the_budget(seeds):
    most = {}
    for seed in seeds:
        check(seed, 105, most)
    print(most)
    if seeds is BOUNDED:
        assert min(ratio for (_, name), ratio in most.items() if name in ("L1", "L2")) > 0.95
    else:
        expect_attained(most)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [WIDE[:6], FEWER], ids=["many groups", "few groups"])
def test_no_pair_shows_more_than_a_plan_states_and_is_charged(seeds):
    most = {}
    for seed in seeds:
        check(seed, 10, most, stated=True)
    assert most["plan", "stated"] > 0.9


FAMILIES = [*MARGINALS, *SELECTIONS, *FURTHERS, *KEYED, *MADES, *RANKED, *ZONED, *BOUNDED, *OPTIMAL, *CUTS]
BUDGETS = 5
"""With which the questions of a plan are asked in the sample of plans."""


def sampled(number):
    """The seed of the plans of that number: most are brief, two of ten wide, one of a family, then by chance."""
    at = number // 10
    if number % 10 == 3:
        return FAMILIES[7 * at % len(FAMILIES)] if at < len(FAMILIES) else 20_000 + at
    return (BRIEF if number % 5 else WIDE)[number]


def test_the_sample_has_every_kind():
    """Already among the first plans; with all units, neighbours and budgets, private keys and bounds of their own."""
    seeds = [*map(sampled, range(10 * len(EVERY)))]
    asked = {name for name, kind in KNOWN.items() if not kind.made}
    assert {each["kind"] for seed in seeds for each in plan_of(seed)["query"]} == asked
    plans = [with_keys(plan_of(seed), keys_of(seed)) for seed in seeds[:40]]
    assert len({(plan.unit.column, plan.unit.replaced) for plan in plans}) == 4
    assert {bool(plan.budget.delta) for plan in plans} == {True, False}
    assert any(plan.private(each.by) for plan in plans for each in plan.query)
    assert any(each.rows or each.groups or each.period for plan in plans for each in plan.query)
    assert {each.kind for plan in plans for each in plan.query if each.made} == {"share dropped", "share clipped"}


def boundings_on(support):
    """Those that a mechanism on a support may have."""
    if isinstance(support, Grid):
        return (TRUNCATE, QUANTIZE)
    if is_line(support):
        return (UNBOUNDED,)
    return (TRUNCATE, RECTIFY) if len(support.spans) == 1 else (TRUNCATE,)


def one_by_chance(*, query, epsilon, delta, support, objective):
    """In place of the ranking of all mechanisms, which takes long: which one it is, no guarantee depends on."""
    ways = [(family, bounding) for family in NOISES.values() for bounding in boundings_on(support)]
    random.Random(f"{query} {epsilon} {delta}").shuffle(ways)
    for family, bounding in ways:
        with contextlib.suppress(Unsatisfiable, ArgumentError):
            given = {"query": query, "support": support, "bounding": bounding}
            return [SimpleNamespace(mechanism=calibrate(noise=family, **given, epsilon=epsilon, delta=delta))]
    raise Unsatisfiable(f"epsilon={epsilon!r}, delta={delta!r}: no mechanism can answer")


def check_sampled(number, most):
    """The plans of one number of the sample, without a search for the mechanisms that have the least error."""
    with (
        mock.patch.object(publishers, "choose", one_by_chance),
        mock.patch.object(publishers, "_no_worse", lambda mse, best: random.Random(mse).random() < 0.5),
    ):
        return check(sampled(number), 10, most, stated=True, budgets=BUDGETS)


@pytest.mark.long
@pytest.mark.usefixtures("forgetting")
def test_nor_does_one_of_many_random_plans(pytestconfig):
    """The worst of ten neighbouring tables, by every way to split the budget; as many plans as `--plans` says.

    The control: what version 0.2 stated is below what some of them show.
    """
    most = {}
    for number in range(-(-pytestconfig.getoption("--plans") // BUDGETS)):
        print(sampled(number))
        check_sampled(number, most)
    assert most["plan", "stated"] > 0.9
    assert most["plan", "stated before"]


# What is broken on purpose, and must be caught.
def sharp_table(one, found, share, **more):
    return best_table(one, found, replace(share, epsilon=1.01 * share.epsilon), **more)


def of_the_world():
    return exp.Window(this=exp.Count(this=exp.Star()), partition_by=[column("world")])


def time_by_other_rows(name, zone, dialect):
    hours = exp.Mul(this=of_the_world(), expression=exp.Interval(this=text("1"), unit=exp.var("HOUR")))
    return exp.Add(this=local_time(name, zone, dialect), expression=hours)


def column_by_other_rows(schema, columns, dialect):
    layers, found = made_columns(schema, columns, dialect)
    odd = exp.Mul(this=exp.Mod(this=of_the_world(), expression=integer(2)), expression=integer(50))
    made = exp.cast(odd, "DOUBLE")
    return [{name: made if name == "half" else tree for name, tree in each.items()} for each in layers], found


def key_by_other_rows(name, rule, schema, this, dialect):
    found = key_text(name, rule, schema, this, dialect)
    if rule is None or rule.listed_alone or not rule.public:
        return found
    order = exp.Order(expressions=[exp.Ordered(this=local("u"))])
    place = exp.Paren(this=exp.Window(this=exp.RowNumber(), order=order))
    even = exp.EQ(this=exp.Mod(this=place, expression=integer(2)), expression=integer(0))
    return choice((even, found), otherwise=text(rule.labels[0]))


def half_the_noise(*given, **facts):
    found = one_coordinate(*given, **facts)
    noise = replace(found.mechanism.noise, scale=found.mechanism.noise.scale / 2)
    return replace(found, mechanism=replace(found.mechanism, noise=noise))


def forgotten(**bounds):
    return lambda question, unit, groups: question.sensitivity(unit.model_copy(update=bounds), groups)


def too_small(name):
    def less(question, unit, groups):
        found = question.sensitivity(unit, groups)
        return replace(found, **{name: getattr(found, name) * Fraction(99, 100)})

    return less


def low_threshold(question, *, rows, scale, delta):
    found = threshold_selection(question, rows=rows, scale=scale, delta=delta)
    return replace(found, threshold=found.threshold - scale)


OWN, FAR = "tests.release.test_plan_pairs.", "cell|L1|L2|groups"
BROKEN = {
    "a table spends more than its share": (OPTIMAL[5], "noise.table_publisher.best_table", sharp_table, "share"),
    "local times depend on other rows": (ZONED[1], "sql.view.local_time", time_by_other_rows, FAR),
    "a made column follows from other rows": (MADES[0], "sql.view.made_columns", column_by_other_rows, "L1|cell"),
    "a key depends on other rows": (KEYED[0], "sql.contribution_bound.key_text", key_by_other_rows, FAR),
    "rows of a unit are not bounded": (0, "sql.aggregate.at_most", lambda amount, n, rows, dialect: amount.copy(), FAR),
    "groups are chosen by other units": (
        0,
        "sql.contribution_bound.Scan.truncated",
        lambda self, measures: self._placed(measures) if self.choosing else self.indexed(measures),
        FAR,
    ),
    "clipped values are those of one group": (
        BRIEF[19],
        "plan.kinds.cuts.Clipped.looked_at",
        lambda self, unit, groups: unit.most_rows,
        "clipped.*cell",
    ),
    "ranked keys count every row": (RANKED[0], "plan.kinds.selections.Owned", Counted, "top k.*cell"),
    "ranked counts have half their noise": (
        RANKED[0],
        "noise.forms.publishers.one_coordinate",
        half_the_noise,
        "top k.*share",
    ),
    "a sensitivity forgets periods": (7000, f"{OWN}sensitivity", forgotten(period=None), FAR),
    "a sensitivity forgets rows": (7000, f"{OWN}sensitivity", forgotten(rows=1), FAR),
    "a sensitivity forgets groups": (7000, f"{OWN}sensitivity", forgotten(groups=1), FAR),
    "a sensitivity is too small in L1": (35, f"{OWN}sensitivity", too_small("cell"), "cell|L1"),
    "a sensitivity is too small in L2": (35, f"{OWN}sensitivity", too_small("square"), "L2"),
    "marginals have less noise than a row needs": (
        MARGINALS[0],
        "noise.marginal_publisher.rescaled",
        lambda strategy, budget: rescaled(strategy, budget * Fraction(6, 5)),
        "share",
    ),
    "a strategy is for fewer cells of a unit": (
        0,
        "noise.workload_publisher.Contributions",
        lambda rows, cells, replaced: Contributions(rows=rows, cells=1, replaced=replaced),
        "share",
    ),
    "Gaussian noise is for the length of one group": (
        64,
        "noise.publishers.gaussian_length",
        lambda found, *moved: gaussian_length(replace(found, square=found.cell**2), *moved),
        "share",
    ),
    "a quantile is drawn at eight times its rate": (
        35,
        "noise.quantiles.exponential.rate",
        lambda *given: 8 * rate(*given),
        "share",
    ),
    "selected keys are drawn at four times their rate": (
        SELECTIONS[0],
        "noise.exponential_mechanism.sequence_rate",
        lambda *given: 4 * selection_rate(*given),
        "(top k|mode).*share",
    ),
    "selected keys count every row of a unit": (
        SELECTIONS[0],
        "plan.kinds.selections.replace",
        lambda found, rows, once: replace(found, rows=rows),
        "mode.*cell",
    ),
    "a threshold is one scale too low": (39, "prepare.threshold_selection", low_threshold, "threshold"),
}


@pytest.fixture
def forgetting():
    """Publishers are made again in a test, and those that it made are forgotten after it."""
    known = (one_coordinate, marginal_publishers, publishers._mechanism)
    for each in known:
        each.cache_clear()
    yield
    for each in known:
        each.cache_clear()


LATER = ["local times depend on other rows", "selected keys count every row of a unit"]
LATER += [
    "a sensitivity forgets rows",
    "a sensitivity forgets periods",
    "selected keys are drawn at four times their rate",
    "clipped values are those of one group",
]
"""The controls of plans that are slow, or that take long and have another beside them."""


@pytest.mark.claim("privacy")
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] * (name in LATER)) for name in BROKEN])
def test_control_it_is_caught_where(name, monkeypatch, request):
    seed, path, broken, words = BROKEN[name]
    if path.startswith("noise."):
        request.getfixturevalue("forgetting")
    if seed in KEYED:  # without keys that are selected, which must not depend on others either
        data = keyed_plan(seed)
        public = {**data, "query": [each for each in data["query"] if "town" not in each["by"]]}
        monkeypatch.setattr(f"{OWN}plan_of", lambda _: public)
    monkeypatch.setattr(path if path.startswith(OWN) else f"rangebound.release.{path}", broken)
    with pytest.raises(AssertionError, match=words):
        check(seed, 40, {}, every=False)


def test_control_a_plan_that_spends_more_than_its_account_is_caught():
    with pytest.raises(AssertionError, match="account"):
        check(35, 60, {}, every=False, change=lambda way: replace(way, mu=way.mu * 0.9))
