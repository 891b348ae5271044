"""Suggested ranges and bounds: for what a plan asks, private by each draw, charged like a release."""

import datetime
import math
import random
import tomllib
from bisect import bisect_left, bisect_right
from fractions import Fraction

import pyarrow as pa
import pytest
from pyarrow import parquet

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, ArgumentTypeError, PlanError, RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.release import make_plan, parse_plan, release, suggest
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.gaps import COUNTS, COVER, VALUES, left_out
from rangebound.release.noise.exponential_mechanism import rate, scores, weights
from rangebound.release.noise.range_ends import margin
from rangebound.release.plan import measure
from rangebound.release.plan.condition import Condition
from rangebound.release.sql.aggregate import aggregate
from rangebound.release.sql.contribution_bound import owners_by_size, owners_by_value
from tests.release.output.asked import asked
from tests.release.plans import SALT
from tests.release.sources import SOURCES, place_of

EDGES = (-10.0, -0.5, 0.0, 1.0, 100.0)
SIZES = (1, 2, 3, 5, 8)
BY_PLACE = {"name": "n", "kind": "count", "by": ["place"]}
TYPES = {"who": (pa.int64(), "bigint"), "place": (pa.string(), "string"), "x": (pa.float64(), "double")}


def table(rows):
    return pa.table({name: pa.array([row[at] for row in rows], TYPES[name][0]) for at, name in enumerate(TYPES)})


def everything(*_):
    return True


def some_rows(chance, people):
    odd = [None, math.nan, math.inf, -math.inf, *EDGES, 99.999, 1e300, -11.0]
    return [
        (who, chance.choice(["a", "b", "c", "d", None]), chance.choice([*odd, chance.uniform(-20, 120)]))
        for who in people
        for _ in range(chance.choice([1, 1, 2, 4, 9]))
    ]


def plan_for(*, public=True, **unit):
    keys = {"keys": {"place": ["a", "b", "c"]}} if public else {}
    return asked(BY_PLACE, delta=1e-6, unit=unit, **keys)


def counted(engine, tree):
    return {int(place): Fraction(int(count), measure.ONE) for place, count in engine.run(tree)}


def by_hand(plan, rows, *, groups=None, asked=everything):
    """Owners by the place of their values, or of their number of rows or groups, of the rows that are asked for."""
    found, owners = {}, {}
    for at, (who, place, x) in enumerate(rows):
        who = at if plan.unit.column is None else who
        if not asked(place, x):
            continue
        if groups is None:
            if who is not None and x is not None and math.isfinite(x):
                owners.setdefault(who, []).append(bisect_left(EDGES, x) + bisect_right(EDGES, x))
        elif who is not None and place is not None and (plan.private(("place",)) or place != "d"):
            owners.setdefault(who, []).append(place)
    for own in owners.values():
        if groups is not None:
            size = len(set(own)) if groups else max(map(own.count, own))
            own = [bisect_left(SIZES, size) + bisect_right(SIZES, size)]
        for place in set(own):
            share = Fraction(own.count(place) * measure.ONE // len(own), measure.ONE)
            found[place] = found.get(place, 0) + share
    return {place: count for place, count in found.items() if count}


PLANS = {"public": plan_for(column="who"), "private": plan_for(column="who", public=False), "rows": plan_for()}
WHERES = (
    (Condition(column="x", **{"is": "<", "value": 50}),),
    (Condition(column="place", **{"is": "==", "value": "b"}),),
)


def low_or_at_b(place, x):
    return (x is not None and math.isfinite(x) and x < 50) or place == "b"


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("source", ["arrow", pytest.param("spark", marks=pytest.mark.slow)])
def test_owners_are_counted_once_at_their_places_in_the_rows_that_are_asked_for(source, name, request):
    plan, rows = PLANS[name], some_rows(random.Random(4), [None, *range(40)])
    given = [dict(zip(TYPES, row, strict=True)) for row in rows]
    assert by_hand(plan, rows, asked=low_or_at_b) != by_hand(plan, rows)
    with SOURCES[source](given, TYPES, place_of(source, request)) as engine:
        for wheres, asked in (((), everything), (WHERES, low_or_at_b), (((), *WHERES), everything)):  # one asks for all
            told = {"plan": plan, "salt": SALT, "engine": engine, "wheres": wheres}
            tree = owners_by_value(**told, column="x", edges=EDGES, dated=False)
            assert counted(engine, tree) == by_hand(plan, rows, asked=asked)
            for groups in (False, True) if plan.unit.column is not None else ():
                tree = owners_by_size(**told, by=("place",), edges=SIZES, groups=groups)
                assert counted(engine, tree) == by_hand(plan, rows, groups=groups, asked=asked)


@pytest.mark.few(2)
@pytest.mark.parametrize("asked", [everything, low_or_at_b], ids=["all", "where"])
@pytest.mark.parametrize("name", ["public", "private"])
def test_one_owner_adds_at_most_one(name, asked):
    plan, chance, met = PLANS[name], random.Random(5), 0
    for _ in range(300):
        others, one = some_rows(chance, range(1, 4)), some_rows(chance, [0])
        for groups in (None, False, True):
            with_, without = (by_hand(plan, rows, groups=groups, asked=asked) for rows in (others + one, others))
            moved = sum(abs(with_.get(at, 0) - without.get(at, 0)) for at in {*with_, *without})
            assert moved <= 1
            met += moved == 1
    assert met


def chances(counts, epsilon, *, faster=1):
    speed = rate(float(COVER), Fraction(1), epsilon) * faster
    shift = margin(len(counts) + 1, speed, 0.95)
    found = weights(scores([Fraction(0), *counts], float(COVER), shift, open_below=True), speed)
    return [each / sum(found) for each in found]


def worst_ratio(*, faster=1):
    chance, worst = random.Random(6), 0.0
    for _ in range(300):
        counts = [Fraction(chance.choice([0, 0, 1, 5, 40])) for _ in range(9)]
        more = list(counts)
        more[chance.randrange(9)] += 1
        pair = [chances(each, Fraction(1, 2), faster=faster) for each in (counts, more)]
        worst = max(worst, *(max(a / b, b / a) for a, b in zip(*pair, strict=True)))
    return math.log(worst)


def test_a_draw_is_as_private_as_its_part_of_the_cost_and_control_one_at_three_times_the_speed_is_not():
    assert worst_ratio() <= 0.5 < worst_ratio(faster=3)


def test_an_end_seldom_passes_its_quantile():
    chance = random.Random(8)
    for _ in range(50):
        counts = [Fraction(chance.choice([0, 1, 10, 300])) for _ in range(30)] + [Fraction(0)] * 200
        total = sum(counts)
        reached = next(at for at in range(len(counts)) if sum(counts[: at + 1]) >= COVER * total)
        assert sum(chances(counts, Fraction(1, 2))[reached + 2 :]) <= 0.025


@pytest.mark.slow
def test_rows_and_groups_are_what_most_owners_have():
    rows = [(who, "abcd"[at % 2], 1.0) for who in range(3000) for at in range(4)]
    plan = {"unit": {"column": "who"}, "budget": {"epsilon": 10.0, "delta": 1e-6}, "query": [BY_PLACE]}
    found = [suggest(plan, table(rows), ledger=None) for _ in range(10)]
    assert [(each.rows, each.groups) for each in found].count((2, 2)) >= 5
    stated = {**plan, "unit": {"column": "who", "rows": 7, "groups": "?"}}
    assert suggest(stated, table(rows), ledger=None).rows is None


@pytest.mark.slow
def test_a_suggestion_is_for_the_rows_that_the_plan_asks_for():
    children = [(who, "a", float(who % 15)) for who in range(1000) for _ in range(9)]
    adults = [(who, "a", float(20 + who % 40)) for who in range(1000) for _ in range(2)]
    mean = {**MEAN, "where": [{"column": "x", "is": ">=", "value": 18}]}
    data = table(children + adults)

    def found(*others):
        plan = {"unit": {"column": "who"}, "budget": {"epsilon": 100.0}, "query": [mean, *others]}
        made = suggest(plan, data, ledger=None, share=1.0)
        return made.ranges["x"], made.rows

    assert found() == ((20, 60), 2)
    assert found({"name": "all", "kind": "count"}) == ((20, 60), 11)  # a count of all rows needs a bound for all
    assert found({"name": "people", "kind": "count of units"})[1] == 2
    assert found({**MEAN, "name": "all"})[0] == (0, 60)
    assert found({**MEAN, "name": "all", "range": [0, 60]})[0] == (20, 60)


def test_groups_are_counted_over_all_rows_since_they_are_chosen_among_all():
    rows = [(who, "abc"[at], float(at)) for who in range(3000) for at in range(3)]
    count = {**BY_PLACE, "where": [{"column": "x", "is": "==", "value": 0}]}
    plan = {"unit": {"column": "who"}, "budget": {"epsilon": 100.0}, "query": [count]}
    plan["keys"] = {"place": ["a", "b", "c"]}
    found = suggest(plan, table(rows), ledger=None, share=1.0)
    assert (found.rows, found.groups) == (1, 3)
    whole = make_plan({**plan, "unit": {"column": "who", "rows": 1, "groups": 1}})
    with DuckDB(table(rows)) as engine:  # with one group each, two thirds of what is asked for would be lost
        (block,) = aggregate(whole, engine, SALT)
    assert 800 <= int(block.answers[0][("a",)][0]) <= 1200


@pytest.mark.slow
def test_dates_are_suggested_as_days():
    days = pa.table({"day": pa.array([datetime.date(2019, 6, 1), datetime.date(2021, 6, 1)] * 500)})
    plan = {"budget": {"epsilon": 20.0}, "query": [{"name": "d", "kind": "median", "column": "day"}]}
    found = suggest(plan, days, ledger=None, share=1.0)
    assert found.ranges["day"] == (datetime.date(2019, 1, 1), datetime.date(2022, 1, 1))
    assert 'range = [2019-01-01, 2022-01-01]     # column = "day"' in str(found)


MEAN = {"name": "x", "kind": "mean", "column": "x"}


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({"query": [{**MEAN, "range": [0, 1]}]}, "leaves nothing out"),
        ({"query": [{**MEAN, "step": 0.1}]}, "support, step and missing depend on it"),
        ({"query": [{**MEAN, "column": "y"}]}, "the table has no such column"),
        ({"query": [{**MEAN, "rnage": [0, 1]}]}, "unknown field; did you mean .range"),
        ({"query": [{**MEAN, "column": "place"}]}, "which does not serve for numbers"),
        ({}, "query: is missing"),
    ],
)
def test_what_cannot_be_suggested_is_refused_before_the_charge(plan, words):
    with pytest.raises(PlanError, match=words):
        suggest({"budget": {"epsilon": 1.0}, **plan}, table([(1, "a", 5.0)]), ledger=None)


def test_wrong_arguments_are_refused():
    plan, rows = {"budget": {"epsilon": 1.0}, "query": [MEAN]}, table([(1, "a", 5.0)])
    for share in (0.0, -1.0, 1.1, math.nan):
        with pytest.raises(RangeboundError, match="share="):
            suggest(plan, rows, ledger=None, share=share)
    with pytest.raises(ArgumentTypeError, match="must be a mapping"):
        suggest("plan.toml", rows, ledger=None)
    with pytest.raises(ArgumentError, match="needs a ledger"):
        suggest(plan, rows, ledger=None, request="r")


PLAN = """
[source]
path = "t.parquet"
[unit]
column = "who"
[budget]
epsilon = 4.0
account = "people"
ledger = "l.ledger"
[[query]]
name = "x"
kind = "mean"
column = "x"
"""
LEFT_OUT = tomllib.loads(PLAN)
ONE = table([(1, "a", 5.0)])
LINE = ["plan", "suggest", "plan.toml", "--request", "s"]


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Ledger.create("l.ledger") as made:
        made.open_account("people", epsilon=10)
        yield made


@pytest.fixture
def folder(tmp_path, ledger):
    parquet.write_table(table([(who, "a", float(who % 90)) for who in range(3000)]), "t.parquet")
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path


def remaining():
    with Ledger.open("l.ledger") as ledger:
        return str(ledger.account("people").remaining)


@pytest.mark.claim("charge")
def test_a_suggestion_is_charged_once_and_given_again(folder, capsys):
    assert run(["plan", "suggest", "plan.toml", "--dry-run"]) == 0
    said = "Would estimate the range of 'x', rows for epsilon 0.4, epsilon 0.1334 a draw, beside the epsilon 4 of the "
    assert capsys.readouterr().out.strip() == f"{said}plan."
    assert remaining() == "epsilon 10"
    assert run(LINE) == 0
    first = capsys.readouterr().out
    assert "rows = 1\n" in first
    assert "# spent epsilon 0.4; account 'people' has epsilon 9.6 left" in first
    assert run(LINE) == 0
    again = capsys.readouterr().out
    assert again.splitlines()[:-1] == first.splitlines()[:-1]
    assert "was published before and costs nothing more" in again
    assert remaining() == "epsilon 9.6"


@pytest.mark.slow
def test_the_lines_that_are_printed_make_a_plan(folder, capsys):
    assert run([*LINE, "--share", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = next(each for each in lines if each.startswith("rows = "))
    ends = next(each for each in lines if each.startswith("range = "))
    whole = PLAN.replace('column = "who"', f'column = "who"\n{rows}') + ends
    assert parse_plan(whole).query[0].column == "x"


@pytest.mark.slow
def test_a_suggestion_that_is_interrupted_stays_charged_and_can_be_had(folder, ledger, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(DuckDB, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            suggest(LEFT_OUT, ONE, ledger=ledger, request="t")
        assert remaining() == "epsilon 9.6"
        assert run(LINE) == 130
    assert "interrupted; the charge stands; the same request again is free" in capsys.readouterr().err
    suggest(LEFT_OUT, ONE, ledger=ledger, request="t")
    assert run(LINE) == 0
    assert remaining() == "epsilon 9.2"


@pytest.mark.slow
def test_a_request_belongs_to_what_it_was_charged_for_and_an_account_to_one_unit(ledger):
    suggest(LEFT_OUT, ONE, ledger=ledger, request="s")
    whole = {**LEFT_OUT, "query": [{**MEAN, "range": [0, 100]}]}
    with pytest.raises(RangeboundError, match="'s'"):
        release(make_plan(whole), ONE, ledger=ledger, request="s")
    other = {**LEFT_OUT, "query": [{**MEAN, "where": [{"column": "x", "is": "present"}]}]}
    with pytest.raises(RangeboundError, match="'s'"):
        suggest(other, ONE, ledger=ledger, request="s")
    single = {"budget": LEFT_OUT["budget"], "query": [MEAN]}
    with pytest.raises(PlanError, match="their costs do not add up"):
        suggest(single, ONE, ledger=ledger, request="t")
    with pytest.raises(PlanError, match="their costs do not add up"):
        release(make_plan({**single, "query": whole["query"]}), ONE, ledger=ledger, request="u")


def test_groups_are_left_out_where_one_question_has_some_and_cost_a_draw():
    found = left_out({**LEFT_OUT, "keys": {"place": ["a", "b"]}, "query": [MEAN, BY_PLACE]}, {})
    assert (found.rows, found.groups, found.draws) == (True, True, 4)


def test_a_plan_that_leaves_out_groups_alone_is_complete_and_costs_nothing_unless_it_asks():
    unit = {"column": "who", "rows": 3}
    plan = {"unit": unit, "budget": {"epsilon": 3.0}, "keys": {"place": ["a"]}, "query": [BY_PLACE]}
    assert make_plan(plan).unit.groups == 1
    with pytest.raises(PlanError, match=r'leaves nothing out.* write groups = "\?" to have it estimated'):
        left_out(plan, {})
    for bounds, expected in (({"groups": "?"}, (False, True)), ({"rows": "?"}, (True, True))):
        found = left_out({**plan, "unit": {**unit, **bounds}}, {})
        assert (found.rows, found.groups) == expected
    columns = {"half": {"value": "age / 2", "range": [0.0, 60.0]}}
    found = left_out({**plan, "unit": {**unit, "rows": "?", "groups": 2}, "columns": columns}, {})
    assert (found.rows, found.groups, found.plan.unit.groups) == (True, False, 2)


def test_the_grids_rise_and_are_written_in_two_digits():
    assert list(VALUES) == sorted(set(VALUES))
    assert list(COUNTS) == sorted(set(COUNTS))
    assert all(float(f"{each:.2g}") == each for each in VALUES)
    assert VALUES[0] == -VALUES[-1] == -8e11
    assert left_out(LEFT_OUT, {}).draws == 3


@pytest.mark.slow
def test_what_joins_and_steps_make_is_estimated_as_columns_of_the_table_are():
    rows = [(who, clinic) for who in range(4000) for clinic in ("a", "b")[: who % 2 + 1]]
    visits = pa.table({"who": [who for who, _ in rows], "clinic": [clinic for _, clinic in rows]})
    clinics = pa.table({"clinic": ["a", "b"], "price": [30.0, 70.0]})
    join = {"table": "clinics", "public": True, "on": ["clinic"], "columns": ["price"]}
    plan = {"unit": {"column": "who"}, "budget": {"epsilon": 10.0}, "join": [join]}
    priced = {**plan, "query": [{"name": "p", "kind": "mean", "column": "price"}]}
    found = suggest(priced, visits, ledger=None, share=0.5, tables={"clinics": clinics})
    lower, upper = found.ranges["price"]
    assert 20 <= lower <= 30
    assert 70 <= upper <= 100
    assert found.rows == 2
    step = {**plan, "columns": {"price": {"range": [0, 99]}}, "per_unit": {"paid": "sum(price)", "most": "max(price)"}}
    asked = [{"name": "p", "kind": "mean", "column": "paid"}, {"name": "m", "kind": "mean", "column": "most"}]
    found = suggest({**step, "query": asked}, visits, ledger=None, share=0.5, tables={"clinics": clinics})
    assert list(found.ranges) == ["paid"]  # that of the other one is public
    lower, upper = found.ranges["paid"]
    assert 20 <= lower <= 30
    assert 100 <= upper <= 120
    assert found.rows is None
