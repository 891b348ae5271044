"""Survey weights against numpy and statsmodels, with the noise gone; refusals; intervals that hold as often as said."""

import math

import numpy as np
import pyarrow as pa
import pytest
from statsmodels.stats.weightstats import DescrStatsW

from rangebound.errors import PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.kinds.count import Count
from rangebound.release.plan.unit import Unit
from tests.release.odd_tables import PLACES, arrow, exact_of, frame, noiseless, odd_rows, on_spark, plan_of
from tests.thinning import crossed

W = {"weighted_by": {"column": "w", "range": [0.5, 4.0]}}
X = {"column": "x", "range": [-2.0, 10.0]}
HIGH = {"of": [{"column": "x", "is": ">", "value": 3.0}]}
ASKED = [{"kind": "count", **W}, {"kind": "sum", **X, **W}, {"kind": "mean", **X, **W}, {"kind": "share", **HIGH, **W}]
PEOPLE = {"column": "who", "rows": 2, "groups": 2}


def with_parts(rows, unit, column=None):
    """The rows that count, with clipped weights, and the part that each counts for, where a unit has too many."""
    table = frame(rows)
    table = table[table["w"].notna() & (table["x"].notna() if column else True)]
    table = table.assign(w=table["w"].clip(0.5, 4.0), x=table["x"].clip(-2.0, 10.0), high=table["x"] > 3.0, part=1.0)
    if unit:
        table = table[table["who"].notna()]
        sizes = table.groupby("who")["w"].transform("size")
        table["part"] = np.minimum(sizes, unit["rows"]) / sizes
    return table.assign(w=table["w"] * table["part"])


@pytest.mark.parametrize("unit", [{}, {**PEOPLE, "groups": 1}], ids=["rows", "people of two rows"])
def test_weighted_numbers_are_those_of_numpy_and_statsmodels(unit):
    rows = odd_rows(1)
    found = noiseless(plan_of(ASKED, unit), rows)
    numbers = [found[at, (), ""].value for at in range(4)]
    every, valued = with_parts(rows, unit), with_parts(rows, unit, "x")
    oracle = DescrStatsW(valued["x"], weights=valued["w"])
    near = {"rel": 1e-4, "abs": 60 * 4.0 * unit.get("rows", 1) / 500}
    assert numbers[0] == pytest.approx(every["w"].sum(), **near)
    assert numbers[1] == pytest.approx(oracle.sum, rel=1e-4, abs=10 * near["abs"])
    assert numbers[2] == pytest.approx(oracle.mean, abs=0.1)
    assert numbers[2] == pytest.approx(np.average(valued["x"], weights=valued["w"]), abs=0.1)
    assert numbers[3] == pytest.approx(np.average(every["high"], weights=every["w"]), abs=0.01)


@pytest.mark.parametrize("unit", [{}, {**PEOPLE, "groups": 1}], ids=["rows", "people of two rows"])
def test_the_exact_coordinates_are_the_weighted_sums(unit):
    rows, plan = odd_rows(2), plan_of(ASKED, unit)
    with DuckDB(arrow(rows), threads=1) as engine:
        exact = exact_of(plan, engine)
    every, valued = with_parts(rows, unit), with_parts(rows, unit, "x")
    close = {"abs": 2.0**-30 * 12 * 4 * len(rows)}
    assert float(exact[0, ()][0]) == pytest.approx(every["w"].sum(), **close)
    assert float(exact[1, ()][0]) == pytest.approx((valued["w"] * valued["x"]).sum(), **close)
    whole = valued["w"].sum() / 4.0
    assert float(sum(exact[2, ()])) == pytest.approx(whole, **close)
    assert float(exact[2, ()][1]) * 12 - 2 * whole == pytest.approx((valued["w"] * valued["x"]).sum() / 4.0, **close)
    assert float(exact[3, ()][1]) == pytest.approx(every["w"][every["high"]].sum() / 4.0, **close)


def test_groups_and_empty_groups():
    rows = odd_rows(3)
    found = noiseless(plan_of(ASKED, by=["place"]), rows)
    for place in PLACES:
        own = [row for row in rows if row["place"] == place]
        assert found[0, (place,), ""].value == pytest.approx(with_parts(own, {})["w"].sum(), abs=60 * 4 / 500)
        assert -2.0 <= found[2, (place,), ""].value <= 10.0
        assert 0.0 <= found[3, (place,), ""].value <= 1.0


def test_spark_finds_what_duckdb_finds(spark):
    rows, plan = odd_rows(4), plan_of(ASKED, PEOPLE, by=["place"])
    with DuckDB(arrow(rows), threads=1) as engine:
        assert exact_of(plan, engine) == exact_of(plan, on_spark(rows, spark))


def test_a_weight_of_one_changes_no_coordinate():
    rows = [{**row, "w": 1.0} for row in odd_rows(5)]
    one = {"weighted_by": {"column": "w", "range": [0, 1]}}
    kinds = [{"kind": "count"}, {"kind": "sum", **X}, {"kind": "mean", **X}, {"kind": "share", **HIGH}]
    with DuckDB(arrow(rows), threads=1) as engine:
        plain = exact_of(plan_of(kinds, PEOPLE, by=["place"]), engine)
        assert exact_of(plan_of([{**each, **one} for each in kinds], PEOPLE, by=["place"]), engine) == plain


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-3}], ids=["sums", "gaussian"])
@pytest.mark.parametrize("replaced", [False, True])
def test_weighted_numbers_lie_in_their_range_and_have_a_certificate(budget, replaced):
    size = {"neighbours": "replace", "size": 40} if replaced else {}
    plan = plan_of(ASKED, {**PEOPLE, **size}, by=["place"], budget=budget, report_clipping=True)
    assert "weighted by 'w', which lies in [0.5, 4]" in explain(plan)
    assert "weights clipped to 0.5 to 4, rows without a weight left out" in explain(plan)
    found = release(plan, arrow(odd_rows(6)), ledger=None)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    for cell in found.cells:
        natural = plan.query[cell.question].natural
        assert natural.lower <= cell.value <= natural.upper
        assert cell.lower <= cell.value <= cell.upper
    assert make_plan(plan.model_dump(by_alias=True, exclude_none=True)) == plan
    names = {each.name for each in plan.query if each.made}
    assert {"0: w clipped", "1: values clipped", "1: w clipped", "0: rows dropped", "1: rows dropped"} <= names


def test_a_weighted_count_is_a_real_number_where_an_unweighted_one_is_whole():
    weighted = Count(name="q", weighted_by=W["weighted_by"], support=(0.5, 3.25), step=0.25)
    assert weighted.sensitivity(Unit(column="who", rows=3, groups=2), 10).total == 24
    assert weighted.selecting_rows(Unit()) is None
    assert not weighted.is_marginal(Unit())
    assert not weighted.agreement.counts
    assert weighted.known_rows(Unit(neighbours="replace", size=9)) is None
    plan = plan_of([{"kind": "count", **W, "support": [0.5, 900.25], "step": 0.25}])
    found = release(plan, arrow(odd_rows(7)), ledger=None).cells[0]
    assert (found.value * 4).is_integer()
    with pytest.raises(PlanError, match="must be whole numbers"):
        Count(name="q", support=(0.5, 3.25))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"column": "w", "range": [-1, 5]}, r"weighted_by.range=.*: the lower end must not be negative"),
        ({"column": "w"}, r"weighted_by.range"),
        ({"column": "w", "range": [2, 2]}, "the lower end must be below the upper end"),
        ({"column": "w", "range": ["2025-01-01", "2025-01-02"]}, "weighted_by.range"),
        ({"column": "w", "range": [0, 5], "missing": 1}, r"weighted_by.missing.*unknown field"),
    ],
)
def test_wrong_weights_are_refused(weights, words):
    with pytest.raises(PlanError, match=words):
        plan_of([{"kind": "count", "weighted_by": weights}])


@pytest.mark.parametrize(("column", "words"), [("nothing", "no such column"), ("code", "is of type text")])
def test_a_column_that_cannot_be_a_weight_is_named_before_the_charge(column, words):
    plan = plan_of([{"kind": "mean", **X, "weighted_by": {"column": column, "range": [0, 1]}}])
    with pytest.raises(PlanError, match=rf"query\[0\].weighted_by.column='{column}': .*{words}"):
        release(plan, arrow(odd_rows(8)), ledger=None)


@pytest.mark.parametrize("ends", [[0, 1e149], [-1e149, 1], [0, 1e-149]])
def test_values_times_weights_that_no_double_may_hold_the_square_of_are_refused(ends):
    top = 1e149 if ends[1] >= 1 else 1e-149
    weights = {"weighted_by": {"column": "w", "range": [0, top]}}
    for question in ({"kind": "sum", "column": "x", "range": ends}, {"kind": "count"}):
        for delta in (0.0, 1e-5):
            given = {"budget": {"epsilon": 1.0, "delta": delta}}
            if question["kind"] == "count":
                explain(plan_of([{**question, **weights}], **given))
                continue
            with pytest.raises(PlanError, match="values times weights must be between"):
                plan_of([{**question, **weights}], **given)


def test_other_kinds_have_no_weights():
    for question in ({"kind": "median", **X}, {"kind": "variance", **X}, {"kind": "count of units"}):
        with pytest.raises(PlanError, match="unknown field"):
            plan_of([{**question, **W}], PEOPLE)


@crossed({"size": [30, 1000], "epsilon": [0.2, 1.0, 5.0]})
def test_intervals_hold_at_least_as_often_as_their_level_says(epsilon, size):
    """Of 400 intervals at 0.95 fewer than 355 hold with probability 2e-7 (binomial), if each holds with that chance."""
    chance = np.random.default_rng(9)
    x, w = chance.uniform(0, 10, size), chance.uniform(0, 4, size)
    asked = [{"kind": "count", **W}, {"kind": "mean", **X, **W}]
    plan = plan_of(asked, by=["place"], budget={"epsilon": epsilon}, keys={"place": [str(at) for at in range(200)]})
    table = {"place": np.repeat([str(at) for at in range(200)], size), "x": np.tile(x, 200), "w": np.tile(w, 200)}
    clipped = np.clip(w, 0.5, 4.0)
    truth = [math.fsum(clipped), np.average(x, weights=clipped)]
    cells = release(plan, pa.table(table), ledger=None).cells
    held = [cell.lower <= truth[cell.question] <= cell.upper for cell in cells]
    assert sum(held) >= 355
