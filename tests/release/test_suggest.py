"""Suggested ranges and bounds: sensible on real tables, private by each draw, charged like a release."""

import datetime
import math
import random
from bisect import bisect_left, bisect_right
from fractions import Fraction

import pyarrow as pa
import pytest

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, ArgumentTypeError, PlanError, RangeboundError
from rangebound.ledger.book import Ledger
from rangebound.release import make_plan, parse_plan, release, suggest
from rangebound.release import suggest as function
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark
from rangebound.release.noise.exponential_mechanism import rate, weights
from rangebound.release.noise.quantile_interval import margin, shifted_scores
from rangebound.release.plan.condition import Condition
from rangebound.release.plan.measure import ONE
from rangebound.release.sql.aggregate import aggregate
from rangebound.release.sql.owners import owners_by_size, owners_by_value
from rangebound.release.suggest import COUNTS, COVER, VALUES, _counts, _range, left_out
from tests.release.plans import SALT
from tests.statistical.release_coverage import cancer, fair, fertility
from tests.thinning import some

EDGES = (-10.0, -0.5, 0.0, 1.0, 100.0)
SIZES = (1, 2, 3, 5, 8)


def table(rows):
    kinds = {"who": pa.int64(), "place": pa.string(), "x": pa.float64()}
    return pa.table({name: pa.array([row[at] for row in rows], kind) for at, (name, kind) in enumerate(kinds.items())})


def some_rows(chance, people):
    odd = [None, math.nan, math.inf, -math.inf, *EDGES, 99.999, 1e300, -11.0]
    return [
        (who, chance.choice(["a", "b", "c", "d", None]), chance.choice([*odd, chance.uniform(-20, 120)]))
        for who in people
        for _ in range(chance.choice([1, 1, 2, 4, 9]))
    ]


def plan_for(*, public=True, **unit):
    keys = {"keys": {"place": ["a", "b", "c"]}} if public else {}
    query = [{"name": "n", "kind": "count", "by": ["place"]}]
    return make_plan({"unit": unit, "budget": {"epsilon": 1.0, "delta": 1e-6}, "query": query, **keys})


def counted(engine, tree):
    return {int(place): Fraction(int(count), ONE) for place, count in engine.run(tree)}


def by_hand(plan, rows, *, groups=None, asked=lambda *_: True):
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
            share = Fraction(own.count(place) * ONE // len(own), ONE)
            found[place] = found.get(place, 0) + share
    return {place: count for place, count in found.items() if count}


def trees(plan, engine):
    yield None, owners_by_value(plan, SALT, engine, column="x", edges=EDGES, dated=False)
    if plan.unit.column is not None:
        for groups in (False, True):
            yield groups, owners_by_size(plan, SALT, engine, by=("place",), edges=SIZES, groups=groups)


PLANS = [plan_for(column="who"), plan_for(column="who", public=False), plan_for()]


@pytest.mark.parametrize("plan", PLANS, ids=["public", "private", "rows"])
def test_owners_are_counted_once_at_their_places(plan, spark):
    rows = some_rows(random.Random(4), [None, *range(40)])
    with DuckDB(table(rows)) as engine:
        for groups, tree in trees(plan, engine):
            assert counted(engine, tree) == by_hand(plan, rows, groups=groups)
    frame = spark.createDataFrame(rows, "who bigint, place string, x double")
    for groups, tree in trees(plan, Spark(frame)):
        assert counted(Spark(frame), tree) == by_hand(plan, rows, groups=groups)


CONDITIONS = [{"column": "x", "is": "<", "value": 50}], [{"column": "place", "is": "==", "value": "b"}]


def low_or_at_b(place, x):
    return (x is not None and math.isfinite(x) and x < 50) or place == "b"


@pytest.mark.parametrize("plan", some(PLANS, of=2), ids=["public", "private", "rows"])
def test_rows_that_no_question_asks_for_are_left_out(plan, spark):
    rows = some_rows(random.Random(9), [None, *range(40)])
    wheres = tuple(tuple(Condition(**each) for each in conditions) for conditions in CONDITIONS)
    for engine in (DuckDB(table(rows)), Spark(spark.createDataFrame(rows, "who bigint, place string, x double"))):
        given = {"plan": plan, "salt": SALT, "engine": engine}
        tree = owners_by_value(**given, column="x", edges=EDGES, dated=False, wheres=wheres)
        assert counted(engine, tree) == by_hand(plan, rows, asked=low_or_at_b) != by_hand(plan, rows)
        if plan.unit.column is not None:
            tree = owners_by_size(**given, by=("place",), edges=SIZES, groups=False, wheres=wheres)
            assert counted(engine, tree) == by_hand(plan, rows, groups=False, asked=low_or_at_b)
        everything = owners_by_value(**given, column="x", edges=EDGES, dated=False, wheres=((), *wheres))
        assert counted(engine, everything) == by_hand(plan, rows)  # one question asks for all rows


@pytest.mark.parametrize("asked", [lambda *_: True, low_or_at_b], ids=["all", "where"])
@pytest.mark.parametrize("plan", PLANS[:2], ids=["public", "private"])
def test_one_owner_adds_at_most_one(plan, asked):
    chance, met = random.Random(5), 0
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
    found = weights(shifted_scores([Fraction(0), *counts], Fraction(float(COVER)), shift), speed)
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


def test_a_draw_is_as_private_as_its_part_of_the_cost():
    assert worst_ratio() <= 0.5


def test_control_a_draw_at_three_times_the_speed_is_not():
    assert worst_ratio(faster=3) > 0.5


def test_an_end_seldom_passes_its_quantile():
    chance = random.Random(8)
    for _ in range(50):
        counts = [Fraction(chance.choice([0, 1, 10, 300])) for _ in range(30)] + [Fraction(0)] * 200
        total = sum(counts)
        reached = next(at for at in range(len(counts)) if sum(counts[: at + 1]) >= COVER * total)
        assert sum(chances(counts, Fraction(1, 2))[reached + 2 :]) <= 0.025


def share_of_good(frame, column, low, high, *, unit=None, times=20):
    """How often a suggestion holds the middle of a column and is not absurdly wide."""
    plan = plan_for(**unit or {})
    with DuckDB(pa.Table.from_pandas(frame, preserve_index=False)) as engine:
        tree = owners_by_value(plan, SALT, engine, column=column, edges=VALUES, dated=False)
        counts = _counts(engine.run(tree), VALUES)
    good = 0
    for _ in range(times):
        ends = _range(counts, VALUES, plan, Fraction(1))
        good += ends is not None and low[0] <= ends[0] <= low[1] and high[0] <= ends[1] <= high[1]
    return good / times


@pytest.mark.parametrize(
    ("frame", "column", "low", "high", "unit"),
    [
        (fair, "age", (15, 22), (32, 50), None),
        (fair, "educ", (9, 14), (16, 20), None),
        (cancer, "mean area", (150, 400), (1000, 2500), None),
        (fertility, "births", (0.8, 2.5), (5, 10), {"column": "country", "rows": 20}),
    ],
    ids=["age", "educ", "area", "births"],
)
def test_ranges_on_real_tables_are_sensible(frame, column, low, high, unit):
    assert share_of_good(frame(), column, low, high, unit=unit) >= 0.5


def test_rows_and_groups_are_what_most_owners_have():
    rows = [(who, "abcd"[at % 2], 1.0) for who in range(3000) for at in range(4)]
    plan = {"unit": {"column": "who"}, "budget": {"epsilon": 10.0, "delta": 1e-6}}
    plan |= {"query": [{"name": "n", "kind": "count", "by": ["place"]}]}
    found = [function(plan, table(rows), ledger=None) for _ in range(10)]
    assert [(each.rows, each.groups) for each in found].count((2, 2)) >= 5
    stated = {**plan, "unit": {"column": "who", "rows": 7}}
    assert function(stated, table(rows), ledger=None).rows is None


def test_a_suggestion_is_for_the_rows_that_the_plan_asks_for():
    children = [(who, "a", float(who % 15)) for who in range(1000) for _ in range(9)]
    adults = [(who, "a", float(20 + who % 40)) for who in range(1000) for _ in range(2)]
    mean = {**MEAN, "where": [{"column": "x", "is": ">=", "value": 18}]}
    plan = {"unit": {"column": "who"}, "budget": {"epsilon": 100.0}, "query": [mean]}
    found = function(plan, table(children + adults), ledger=None, share=1.0)
    assert (found.ranges["x"], found.rows) == ((20, 60), 2)
    with_all = {**plan, "query": [mean, {"name": "all", "kind": "count"}]}
    found = function(with_all, table(children + adults), ledger=None, share=1.0)
    assert (found.ranges["x"], found.rows) == ((20, 60), 11)  # a count of all rows needs a bound for all
    with_units = {**plan, "query": [mean, {"name": "people", "kind": "count of units"}]}
    assert function(with_units, table(children + adults), ledger=None, share=1.0).rows == 2
    with_all = {**plan, "query": [mean, {**MEAN, "name": "all"}]}
    assert function(with_all, table(children + adults), ledger=None, share=1.0).ranges["x"] == (0, 60)
    stated = {**plan, "query": [mean, {**MEAN, "name": "all", "range": [0, 60]}]}
    assert function(stated, table(children + adults), ledger=None, share=1.0).ranges["x"] == (20, 60)


def test_groups_are_counted_over_all_rows_since_they_are_chosen_among_all():
    rows = [(who, "abc"[at], float(at)) for who in range(3000) for at in range(3)]
    count = {"name": "n", "kind": "count", "by": ["place"], "where": [{"column": "x", "is": "==", "value": 0}]}
    plan = {
        "unit": {"column": "who"},
        "budget": {"epsilon": 100.0},
        "keys": {"place": ["a", "b", "c"]},
        "query": [count],
    }
    found = function(plan, table(rows), ledger=None, share=1.0)
    assert (found.rows, found.groups) == (1, 3)
    whole = make_plan({**plan, "unit": {"column": "who", "rows": 1, "groups": 1}})
    with DuckDB(table(rows)) as engine:  # with one group each, two thirds of what is asked for would be lost
        (block,) = aggregate(whole, engine, SALT)
    assert 800 <= int(block.answers[0][("a",)][0]) <= 1200


def test_dates_are_suggested_as_days():
    days = pa.table({"day": pa.array([datetime.date(2019, 6, 1), datetime.date(2021, 6, 1)] * 500)})
    plan = {"budget": {"epsilon": 20.0}, "query": [{"name": "d", "kind": "median", "column": "day"}]}
    found = function(plan, days, ledger=None, share=1.0)
    assert found.ranges["day"] == (datetime.date(2019, 1, 1), datetime.date(2022, 1, 1))
    assert 'range = [2019-01-01, 2022-01-01]     # column = "day"' in str(found)


def test_too_few_rows_give_no_range():
    plan = {"budget": {"epsilon": 1.0}, "query": [{"name": "x", "kind": "mean", "column": "x"}]}
    found = function(plan, table([(1, "a", 5.0)]), ledger=None)
    if found.ranges["x"] is None:  # nearly always
        assert "no range found; give a larger --share" in str(found)


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
    rows = table([(1, "a", 5.0)])
    with pytest.raises(PlanError, match=words):
        function({"budget": {"epsilon": 1.0}, **plan}, rows, ledger=None)


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


@pytest.fixture
def folder(tmp_path, monkeypatch):
    from pyarrow import parquet

    monkeypatch.chdir(tmp_path)
    parquet.write_table(table([(who, "a", float(who % 90)) for who in range(3000)]), "t.parquet")
    (tmp_path / "plan.toml").write_text(PLAN)
    with Ledger.create("l.ledger") as ledger:
        ledger.open_account("people", epsilon=10)
    return tmp_path


def remaining():
    with Ledger.open("l.ledger") as ledger:
        return str(ledger.account("people").remaining)


def test_a_suggestion_is_charged_once_and_given_again(folder, capsys):
    assert run(["plan", "suggest", "plan.toml", "--dry-run"]) == 0
    said = "Would estimate the range of 'x', rows for epsilon 0.4, epsilon 0.1334 a draw, beside the epsilon 4 of the "
    assert capsys.readouterr().out.strip() == f"{said}plan."
    assert remaining() == "epsilon 10"
    assert run(["plan", "suggest", "plan.toml", "--request", "s"]) == 0
    first = capsys.readouterr().out
    assert "rows = 1\n" in first
    assert "# spent epsilon 0.4; account 'people' has epsilon 9.6 left" in first
    assert run(["plan", "suggest", "plan.toml", "--request", "s"]) == 0
    again = capsys.readouterr().out
    assert again.splitlines()[:-1] == first.splitlines()[:-1]
    assert "was published before and costs nothing more" in again
    assert remaining() == "epsilon 9.6"


def test_the_lines_that_are_printed_make_a_plan(folder, capsys):
    assert run(["plan", "suggest", "plan.toml", "--request", "s", "--share", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = next(each for each in lines if each.startswith("rows = "))
    ends = next(each for each in lines if each.startswith("range = "))
    whole = PLAN.replace('column = "who"', f'column = "who"\n{rows}') + ends
    assert parse_plan(whole).query[0].column == "x"


def test_a_suggestion_that_is_interrupted_stays_charged_and_can_be_had(folder, monkeypatch):
    plan = left_out_plan()
    with Ledger.open("l.ledger") as ledger, DuckDB(table([(1, "a", 5.0)])) as engine:
        with monkeypatch.context() as patch:
            patch.setattr(DuckDB, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                suggest(plan, engine, ledger=ledger, request="s")
        assert str(ledger.account("people").remaining) == "epsilon 9.6"
        found = suggest(plan, engine, ledger=ledger, request="s")
        assert str(ledger.account("people").remaining) == "epsilon 9.6"
        assert str(suggest(plan, engine, ledger=ledger, request="s")) == str(found)


def test_the_command_line_says_what_became_of_the_charge_of_a_suggestion_that_is_interrupted(
    folder, monkeypatch, capsys
):
    with monkeypatch.context() as patch:
        patch.setattr(DuckDB, "run", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run(["plan", "suggest", "plan.toml", "--request", "s"]) == 130
    assert "interrupted; the charge stands; the same request again is free" in capsys.readouterr().err
    assert run(["plan", "suggest", "plan.toml", "--request", "s"]) == 0
    assert remaining() == "epsilon 9.6"


def left_out_plan():
    import tomllib

    return tomllib.loads(PLAN)


def test_a_request_belongs_to_what_it_was_charged_for(folder):
    rows = table([(1, "a", 5.0)])
    with Ledger.open("l.ledger") as ledger:
        suggest(left_out_plan(), rows, ledger=ledger, request="s")
        whole = {**left_out_plan(), "query": [{**MEAN, "range": [0, 100]}]}
        with pytest.raises(RangeboundError, match="'s'"):
            release(make_plan(whole), rows, ledger=ledger, request="s")
        other = {**left_out_plan(), "query": [{**MEAN, "where": [{"column": "x", "is": "present"}]}]}
        with pytest.raises(RangeboundError, match="'s'"):
            suggest(other, rows, ledger=ledger, request="s")


def test_an_account_of_another_unit_is_refused(folder):
    rows = table([(1, "a", 5.0)])
    with Ledger.open("l.ledger") as ledger:
        suggest(left_out_plan(), rows, ledger=ledger, request="s")
        single = {key: value for key, value in left_out_plan().items() if key != "unit"}
        with pytest.raises(PlanError, match="their costs do not add up"):
            suggest(single, rows, ledger=ledger, request="t")
        single["query"][0]["range"] = [0, 100]
        with pytest.raises(PlanError, match="their costs do not add up"):
            release(make_plan(single), rows, ledger=ledger, request="u")


def test_groups_are_left_out_where_one_question_has_some_and_cost_a_draw():
    plan = left_out_plan()
    grouped = {"name": "places", "kind": "count", "by": ["place"]}
    found = left_out({**plan, "keys": {"place": ["a", "b"]}, "query": [*plan["query"], grouped]}, {})
    assert (found.rows, found.groups, found.draws) == (True, True, 4)


def test_the_grids_rise_and_are_written_in_two_digits():
    assert list(VALUES) == sorted(set(VALUES))
    assert list(COUNTS) == sorted(set(COUNTS))
    assert all(float(f"{each:.2g}") == each for each in VALUES)
    assert VALUES[0] == -VALUES[-1] == -8e11
    assert left_out(left_out_plan(), {}).draws == 3


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
