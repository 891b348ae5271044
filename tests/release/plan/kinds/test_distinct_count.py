"""Distinct counts against pandas and a second route in Python, on both engines; neighbours; refusals; intervals."""

import hashlib
import itertools
import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.release import check_certificate, explain, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.kinds.distinct_count import DistinctCount
from rangebound.release.plan.unit import Unit
from rangebound.release.sql.aggregate import aggregate
from tests.release.odd_tables import PLACES, arrow, exact_of, frame, odd_rows, on_spark, plan_of
from tests.release.plans import SALT
from tests.thinning import crossed

CODES, WARDS = {"kind": "distinct count", "column": "code"}, {"kind": "distinct count", "column": "ward"}
SOME = {"where": [{"column": "x", "is": ">", "value": 2.0}]}
PEOPLE = {"column": "who", "rows": 1, "groups": 1}
ALL = {"column": "who", "groups": 3}


def exact(plan, rows):
    with DuckDB(arrow(rows), threads=1) as engine:
        return exact_of(plan, engine)


@pytest.mark.parametrize("unit", [{}, {**PEOPLE, "groups": 3}], ids=["rows", "people with all their values"])
def test_distinct_values_are_those_of_pandas(unit):
    rows = odd_rows(1)
    many = {} if not unit else {"values": 1000}
    asked = [{**CODES, **many}, {**WARDS, **many}, {**CODES, **SOME, **many}]
    found = exact(plan_of(asked, unit, by=["place"]), rows)
    table = frame(rows)
    table = table[table["who"].notna()] if unit else table
    for place in PLACES:
        own = table[table["place"] == place]
        assert found[0, (place,)] == (own["code"].nunique(),)
        assert found[1, (place,)] == (own["ward"].nunique(),)
        assert found[2, (place,)] == (own[own["x"] > 2.0]["code"].nunique(),)


def kept(rows, column, most):
    """The distinct values after the truncation, by the words of the documentation: a keyed order of each unit."""
    own = {}
    for row in rows:
        if row["who"] is not None and row[column] is not None:
            own.setdefault(row["who"], set()).add(str(row[column]))

    def place(who, value):
        return hashlib.md5("\x1f".join([SALT.letters, str(who), value]).encode()).hexdigest(), value

    return {v for who, values in own.items() for v in sorted(values, key=lambda v, who=who: place(who, v))[:most]}


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("column", ["code", "ward"])
def test_of_each_unit_the_first_values_of_its_own_order_stay(most, column):
    rows = odd_rows(2, 120)
    plan = plan_of([{"kind": "distinct count", "column": column, "values": most}], PEOPLE)
    assert exact(plan, rows)[0, ()] == (len(kept(rows, column, most)),)


def test_spark_finds_what_duckdb_finds(spark):
    rows = odd_rows(3)
    for unit, by, values in ((ALL, ["place"], 2), ({}, ["place"], 1), (PEOPLE, [], 2)):
        plan = plan_of([{**CODES, "values": values}, {**WARDS, **SOME, "values": values}], unit, by=by)
        with DuckDB(arrow(rows), threads=1) as engine:
            assert exact_of(plan, engine) == exact_of(plan, on_spark(rows, spark))


def test_keys_may_be_private():
    rows = odd_rows(4)
    plan = plan_of([CODES], PEOPLE, by=["place"], keys={}, budget={"epsilon": 20.0, "delta": 1e-3})
    with DuckDB(arrow(rows), threads=1) as engine:
        (found,) = aggregate(plan, engine, SALT)
    assert set(found.keys) == {("a",), ("b",), ("elsewhere",)}
    assert all(0 < each[0] <= 8 for each in found.answers[0].values())


def distances(most, unit, seed, pairs=25):
    """The largest L1 and squared L2 distance between neighbours, of many small random tables.

    All of them are in one table, by places and people of their own, so that the engine is asked once for each side.
    """
    chance, worst, square = random.Random(seed), Fraction(0), Fraction(0)
    places = [[f"{at} {place}" for place in PLACES] for at in range(pairs)]
    keys = {"place": [each for own in places for each in own]}
    plan = plan_of([{**CODES, "values": most}], unit, by=["place"], keys=keys)

    def rows_of(at, who, count):
        own = chance.sample(places[at], chance.randint(1, 3))
        codes = [chr(97 + chance.randrange(20)) for _ in range(count)]
        empty = dict.fromkeys(("x", "y", "w", "ward"))
        return [{**empty, "who": 100 * at + who, "place": chance.choice(own), "code": code} for code in codes]

    sides = [], []
    for at in range(pairs):
        rest = [row for who in range(2, 2 + chance.randrange(4)) for row in rows_of(at, who, chance.choice([1, 9]))]
        other = rows_of(at, 1, 12) if unit.get("neighbours") else []
        for side, own in zip(sides, (rows_of(at, 1, 12), other), strict=True):
            side += own + rest
    one, two = (exact(plan, side) for side in sides)
    for own in places:
        moves = [abs(one[0, (place,)][0] - two[0, (place,)][0]) for place in own]
        worst, square = max(worst, sum(moves)), max(square, sum(move**2 for move in moves))
    return worst, square, plan.query[0].sensitivity(plan.unit, 3)


@crossed({"neighbours": [{}, {"neighbours": "replace", "size": 5}], "groups": [1, 2], "most": [1, 3]})
def test_no_neighbour_is_farther_apart_than_the_sensitivity_and_some_are_as_far(most, groups, neighbours):
    worst, square, stated = distances(most, {"column": "who", "groups": groups, **neighbours}, 10 * most + groups)
    assert worst <= stated.total
    assert square <= stated.square
    assert worst > stated.total * Fraction(1, 2)


def test_control_a_sensitivity_of_one_value_too_few_is_caught():
    worst, square, stated = distances(3, {"column": "who", "groups": 2}, 5)
    less = replace(stated, cell=Fraction(2), square=Fraction(8))
    assert worst > less.total
    assert square > less.square


def test_what_one_unit_does_never_moves_the_choice_of_another():
    rows = [row for row in odd_rows(6) if row["who"] is not None]
    for who, most in itertools.product((1, 2, 3), (1, 2)):
        plan = plan_of([{**CODES, "values": most}], PEOPLE)
        rest = [row for row in rows if row["who"] != who]
        with_it, without = (len(kept(each, "code", most)) for each in (rows, rest))
        assert exact(plan, rows)[0, ()] == (with_it,)
        assert exact(plan, rest)[0, ()] == (without,)
        assert 0 <= with_it - without <= most


@crossed(
    {"budget": [{"epsilon": 2.0}, {"epsilon": 2.0, "delta": 1e-3}], "size": [{}, {"neighbours": "replace", "size": 40}]}
)
def test_a_release_has_a_certificate_and_says_what_was_left_out(budget, size):
    plan = plan_of([{**CODES, "values": 2}, {**WARDS, **SOME}], {**ALL, **size}, by=["place"], budget=budget)
    said = explain(plan)
    assert "0: distinct count of 'code', by place." in said
    assert "values per 'who' and group cut at 2, missing values left out, rows without 'who' left out" in said
    found = release(plan, arrow(odd_rows(7)), ledger=None)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 6
    assert all(cell.value.is_integer() and cell.value >= 0 for cell in found.cells)


@pytest.mark.parametrize(
    ("question", "unit", "words"),
    [
        ({**CODES, "values": 2}, {}, "values is 1 where the unit is the row"),
        ({**CODES, "values": 0}, PEOPLE, "values"),
        ({**CODES, "range": [0, 1]}, PEOPLE, "unknown field"),
        ({"kind": "distinct count"}, PEOPLE, "column"),
        ({**CODES, "step": 0.5}, PEOPLE, "whole number"),
    ],
)
def test_wrong_questions_are_refused(question, unit, words):
    with pytest.raises(PlanError, match=words):
        plan_of([question], unit)


@pytest.mark.parametrize(("column", "words"), [("x", "distinct values, which are compared as keys"), ("no", "no such")])
def test_a_column_without_keys_is_named_before_the_charge(column, words):
    with pytest.raises(PlanError, match=rf"query\[0\].column='{column}': .*{words}"):
        release(plan_of([{"kind": "distinct count", "column": column}]), arrow(odd_rows(8)), ledger=None)


@pytest.mark.parametrize("budget", [{"epsilon": 20.0}, {"epsilon": 20.0, "delta": 1e-3}], ids=["sums", "gaussian"])
def test_intervals_hold_at_least_as_often_as_their_level_says(budget):
    """Of 400 intervals at 0.95 fewer than 355 hold with probability 2e-7 (binomial), if each holds with that chance."""
    groups = [str(at) for at in range(400)]
    plan = plan_of([CODES], by=["place"], budget=budget, keys={"place": groups})
    table = pa.table({"place": np.repeat(groups, 30), "code": [str(at % 17) for at in range(30 * 400)]})
    truth = [len({at % 17 for at in range(30 * group, 30 * group + 30)}) for group in range(400)]
    cells = release(plan, table, ledger=None).cells
    assert sum(cell.lower <= true <= cell.upper for cell, true in zip(cells, truth, strict=True)) >= 355


def test_the_sensitivity_is_a_whole_number_and_the_number_a_whole_one():
    unit = Unit(column="who", rows=5, groups=2, neighbours="replace", size=9)
    question = DistinctCount(name="q", column="c", values=3)
    assert question.sensitivity(unit, 3).total == 9
    assert question.sensitivity(unit, 10).total == 12
    assert question.published_in(unit).upper == 27.0
