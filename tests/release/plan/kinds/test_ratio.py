"""Ratios against numpy with the noise gone, on both engines; where they lie; refusals; intervals that hold."""

import numpy as np
import pytest

from rangebound.errors import PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.kinds.ratio import Ratio
from rangebound.release.plan.unit import Unit
from tests.release.odd_tables import (
    PLACES,
    arrow,
    assert_mostly,
    drawn,
    exact_of,
    frame,
    noiseless,
    odd_rows,
    on_spark,
    plan_of,
)
from tests.thinning import crossed

X, Y = {"column": "x", "range": [-2.0, 10.0]}, {"column": "y", "range": [0.0, 3.0]}
RATIO = {"kind": "ratio", "numerator": X, "denominator": Y, "support": [-10, 50]}
FAR = {"kind": "ratio", "numerator": X, "denominator": {"column": "y", "range": [0.5, 3.0]}}
ASKED = [RATIO, FAR, {**RATIO, "where": [{"column": "w", "is": ">", "value": 1.0}], "step": 0.5}]
PEOPLE = {"column": "who", "rows": 2, "groups": 3}


def truth(rows, least=0.0, parts=None):
    table = frame(rows)
    table = table[table["x"].notna() & table["y"].notna()]
    if parts:
        table = table[table["who"].notna()]
        sizes = table.groupby("who")["x"].transform("size")
        table = table.assign(part=np.minimum(sizes, parts) / sizes)
    part = table["part"] if parts else 1.0
    return (part * table["x"].clip(-2.0, 10.0)).sum() / (part * table["y"].clip(least, 3.0)).sum()


@pytest.mark.parametrize("unit", [{}, {**PEOPLE, "groups": 1}], ids=["rows", "people of two rows"])
def test_ratios_are_those_of_numpy(unit):
    rows = odd_rows(1, 2000)
    found = noiseless(plan_of(ASKED, unit), rows, epsilon=1e6)
    assert found[0, (), ""].value == pytest.approx(truth(rows, parts=unit.get("rows")), abs=1e-3)
    assert found[1, (), ""].value == pytest.approx(truth(rows, 0.5, unit.get("rows")), abs=1e-3)
    some = [row for row in rows if row["w"] is not None and np.isfinite(row["w"]) and row["w"] > 1.0]
    assert found[2, (), ""].value == round(2 * truth(some, parts=unit.get("rows"))) / 2


def test_ratios_of_groups_are_those_of_numpy():
    rows = odd_rows(2)
    found = noiseless(plan_of([RATIO], by=["place"]), rows, epsilon=1000.0)
    for place in PLACES[:2]:
        own = [row for row in rows if row["place"] == place]
        assert found[0, (place,), ""].value == pytest.approx(truth(own), abs=0.05)
    assert -10.0 <= found[0, (PLACES[2],), ""].value <= 50.0


def test_groups_without_rows_have_the_whole_support_as_their_interval():
    """But for 5 % of the draws at most, in which the noise alone looks like rows; those are why draws are counted."""
    none = {"x": np.array([], dtype=float), "y": np.array([], dtype=float)}
    question = Ratio(name="q", numerator=X, denominator=Y, support=[-10, 50])
    found = [one for (one,) in drawn(question, none, 2000, epsilon=1.0)]
    assert_mostly((each.lower, each.upper) == (-10.0, 50.0) for each in found)
    assert all(-10.0 <= each.value <= 50.0 for each in found)


def test_spark_finds_what_duckdb_finds(spark):
    rows, plan = odd_rows(3), plan_of(ASKED, PEOPLE, by=["place"])
    with DuckDB(arrow(rows), threads=1) as engine:
        assert exact_of(plan, engine) == exact_of(plan, on_spark(rows, spark))


def test_without_a_support_it_lies_where_the_ranges_say():
    ends = Ratio(name="q", numerator=X, denominator={"column": "y", "range": [0.5, 4.0]}).natural
    assert (ends.lower, ends.upper) == (-4.0, 20.0)
    ends = Ratio(
        name="q", numerator={"column": "x", "range": [1, 8]}, denominator={"column": "y", "range": [2, 4]}
    ).natural
    assert (ends.lower, ends.upper) == (0.25, 4.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"support": None}, "support: must be stated where the denominator may be 0"),
        (
            {"denominator": {"column": "y", "range": [-1, 3]}},
            "denominator.*: the lower end of its range must not be negative",
        ),
        ({"numerator": {"column": "x"}}, "numerator.range"),
        ({"numerator": {"column": "x", "range": ["a", 1]}}, "numerator.range"),
        ({"margin": 2.0}, r"margin: must not be asked of 'ratio'"),
        ({"column": "x"}, "unknown field"),
    ],
)
def test_wrong_questions_are_refused(change, words):
    question = {name: each for name, each in {**RATIO, **change}.items() if each is not None}
    with pytest.raises(PlanError, match=words):
        plan_of([question])


@pytest.mark.parametrize(("side", "ends"), [("numerator", -1.0), ("denominator", 0.0)])
def test_a_column_that_is_not_one_of_numbers_is_named_before_the_charge(side, ends):
    plan = plan_of([{**RATIO, side: {"column": "code", "range": [ends, 1.0]}}])
    with pytest.raises(PlanError, match=rf"query\[0\].{side}.column='code': is of type text"):
        release(plan, arrow(odd_rows(8)), ledger=None)


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-3}], ids=["sums", "gaussian"])
@pytest.mark.parametrize("size", [{}, {"neighbours": "replace", "size": 40}], ids=["add", "replace"])
def test_a_release_has_a_certificate_and_says_what_was_left_out(budget, size):
    plan = plan_of(ASKED, {**PEOPLE, **size}, by=["place"], budget=budget, report_clipping=True)
    said = explain(plan)
    assert "0: ratio of 'x', which lies in [-2, 10], to 'y', which lies in [0, 3], by place." in said
    assert "'x' clipped to -2 to 10, 'y' clipped to 0 to 3, rows without 'x' or 'y' left out" in said
    found = release(plan, arrow(odd_rows(7)), ledger=None)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    assert make_plan(plan.model_dump(by_alias=True, exclude_none=True)) == plan
    for cell in found.cells:
        ends = plan.query[cell.question].allowed.hull
        assert ends.lower <= cell.lower <= cell.value <= cell.upper <= ends.upper


@crossed({"size": [20, 1000], "epsilon": [0.5, 4.0], "mu": [0.0, 0.5, 2.0]})
def test_intervals_hold_as_often_as_their_level_says(epsilon, mu, size):
    """Of 1,000 intervals at 0.95 fewer than 910 hold with probability 5e-8 (binomial)."""
    chance = np.random.default_rng(3)
    x, y = chance.uniform(-2, 9, size), chance.uniform(0, 3, size)
    question = Ratio(name="q", numerator=X, denominator=Y, support=(-10.0, 50.0))
    cells = drawn(question, {"x": x, "y": y}, 1000, epsilon=epsilon, mu=mu)
    assert sum(cell.lower <= x.sum() / y.sum() <= cell.upper for (cell,) in cells) >= 910


def test_control_intervals_for_half_the_noise_do_not_hold():
    chance = np.random.default_rng(3)
    x, y = chance.uniform(-2, 9, 1000), chance.uniform(0, 3, 1000)
    question = Ratio(name="q", numerator=X, denominator=Y, support=(-10.0, 50.0))
    cells = drawn(question, {"x": x, "y": y}, 1000, epsilon=1.0, read_as=2.0)
    assert sum(cell.lower <= x.sum() / y.sum() <= cell.upper for (cell,) in cells) < 910


def test_the_noise_of_both_sums_together_costs_what_that_of_one_does():
    unit = Unit(column="who", rows=3, groups=2)
    positive = Ratio(name="q", numerator={"column": "x", "range": [0, 5]}, denominator=Y, support=(0.0, 9.0))
    assert positive.sensitivity(unit, 10).total == 6
    assert positive.sensitivity(unit.model_copy(update={"neighbours": "replace", "size": 5}), 10).total == 12
    across = Ratio(name="q", numerator={"column": "x", "range": [-5, 5]}, denominator=Y, support=(0.0, 9.0))
    assert across.sensitivity(unit.model_copy(update={"neighbours": "replace", "size": 5}), 10).total == 12
