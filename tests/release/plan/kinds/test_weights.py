"""Survey weights, distinct counts and unbiased numbers: by numpy, pandas and statsmodels; intervals that hold."""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from statsmodels.stats.weightstats import DescrStatsW

from rangebound.errors import PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.kinds.scalars import Count
from rangebound.release.plan.unit import Unit
from rangebound.release.prepare import prepare
from rangebound.sampling.entropy import secure_bits
from tests.release.odd_tables import PLACES, arrow, exact_of, frame, noiseless, odd_rows, plan_of
from tests.release.plan.kinds.second_routes import counted
from tests.release.plans import SALT
from tests.thinning import crossed

W = {"weighted_by": {"column": "w", "range": [0.5, 4.0]}}
X = {"column": "x", "range": [-2.0, 10.0]}
HIGH = {"of": [{"column": "x", "is": ">", "value": 3.0}]}
ASKED = [{"kind": "count", **W}, {"kind": "sum", **X, **W}, {"kind": "mean", **X, **W}, {"kind": "share", **HIGH, **W}]
PEOPLE = {"column": "who", "rows": 2, "groups": 2}


@pytest.mark.parametrize("unit", [{}, {**PEOPLE, "groups": 1}], ids=["rows", "people of two rows"])
def test_weighted_numbers_and_their_coordinates_are_those_of_numpy_and_statsmodels(unit):
    rows, plan = odd_rows(1), plan_of(ASKED, unit)
    every, valued = (counted(rows, unit, w=(0.5, 4.0), **x) for x in ({}, {"x": X["range"]}))
    weight, high = every["w"] * every["part"], every["x"] > 3.0
    oracle = DescrStatsW(valued["x"], weights=valued["w"] * valued["part"])
    with DuckDB(arrow(rows), threads=1) as engine:
        exact = {at: list(map(float, each)) for (at, _), each in exact_of(plan, engine).items()}
    close = {"abs": 2.0**-30 * 12 * 4 * len(rows)}
    assert exact[0] == [pytest.approx(weight.sum(), **close)]
    assert exact[1] == [pytest.approx(oracle.sum, **close)]
    whole = oracle.sum_weights / 4.0
    assert sum(exact[2]) == pytest.approx(whole, **close)
    assert exact[2][1] * 12 - 2 * whole == pytest.approx(oracle.sum / 4.0, **close)
    assert exact[3][1] == pytest.approx(weight[high].sum() / 4.0, **close)
    numbers = [cell.value for _, cell in sorted(noiseless(plan, rows).items())]
    near = {"rel": 1e-4, "abs": 60 * 4.0 * unit.get("rows", 1) / 500}
    assert numbers[0] == pytest.approx(weight.sum(), **near)
    assert numbers[1] == pytest.approx(oracle.sum, rel=1e-4, abs=10 * near["abs"])
    assert numbers[2] == pytest.approx(oracle.mean, abs=0.1)
    assert numbers[3] == pytest.approx(np.average(high, weights=weight), abs=0.01)


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


@pytest.mark.parametrize("ends", [[0, 1e149], [-1e149, 1], [0, 1e-149]])
def test_values_times_weights_that_no_double_may_hold_the_square_of_are_refused(ends):
    weights = {"weighted_by": {"column": "w", "range": [0, 1e149 if ends[1] >= 1 else 1e-149]}}
    for delta in (0.0, 1e-5):
        given = {"budget": {"epsilon": 1.0, "delta": delta}}
        explain(plan_of([{"kind": "count", **weights}], **given))
        with pytest.raises(PlanError, match="values times weights must be between"):
            plan_of([{"kind": "sum", "column": "x", "range": ends, **weights}], **given)


@crossed({"size": [30, 1000], "epsilon": [0.2, 1.0, 5.0]})
def test_intervals_of_weighted_numbers_hold_at_least_as_often_as_their_level_says(epsilon, size):
    """Of 400 intervals at 0.95 fewer than 345 hold with probability 6e-12, if each holds with that chance."""
    chance = np.random.default_rng(9)
    x, w = chance.uniform(0, 10, size), chance.uniform(0, 4, size)
    asked = [{"kind": "count", **W}, {"kind": "mean", **X, **W}]
    plan = plan_of(asked, by=["place"], budget={"epsilon": epsilon}, keys={"place": [str(at) for at in range(200)]})
    table = {"place": np.repeat([str(at) for at in range(200)], size), "x": np.tile(x, 200), "w": np.tile(w, 200)}
    clipped = np.clip(w, 0.5, 4.0)
    truth = [math.fsum(clipped), np.average(x, weights=clipped)]
    cells = release(plan, pa.table(table), ledger=None).cells
    held = [cell.lower <= truth[cell.question] <= cell.upper for cell in cells]
    assert sum(held) >= 345


CODES, WARDS = {"kind": "distinct count", "column": "code"}, {"kind": "distinct count", "column": "ward"}
SOME = {"where": [{"column": "x", "is": ">", "value": 2.0}]}
ONE_ROW = {"column": "who", "rows": 1, "groups": 1}


def exact(plan, rows):
    with DuckDB(arrow(rows), threads=1) as engine:
        return exact_of(plan, engine)


@pytest.mark.parametrize("unit", [{}, {**ONE_ROW, "groups": 3}], ids=["rows", "people with all their values"])
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
    plan = plan_of([{"kind": "distinct count", "column": column, "values": most}], ONE_ROW)
    assert exact(plan, rows)[0, ()] == (len(kept(rows, column, most)),)


# Unbiased and signed numbers: from the same draw, at no cost, certified.
FEW = pa.table({"k": ["a", "a", "b"], "x": [1.0, 2.0, 3.0]})
COUNTED = [
    {"kind": "count"},
    {"kind": "count", "step": 10},
    {"kind": "count", "support": [[0, 5], [10, 20]]},
    {"kind": "count", "mechanism": "rectify Laplace"},
    {"kind": "count of units"},
    {"kind": "sum", "column": "x", "range": [0, 10]},
    {"kind": "sum", "column": "x", "range": [0, 10], "step": 0.5, "support": [0, 30]},
    {"kind": "histogram", "column": "x", "range": [0, 10], "bins": 3},
    {"kind": "histogram", "column": "x", "range": [0, 10], "bins": 3, "support": [2, 9]},
]


def one_of(query, budget, **parts):
    """A plan with one question, and many beside it where a Gaussian account is wanted."""
    owned = query["kind"] == "count of units"
    others = [
        {"name": f"n{at}", "kind": "count", "where": [{"column": "k", "is": "==", "value": "a"}]} for at in range(40)
    ]
    asked = [{"name": "asked", **query}, *(others if budget.get("delta") else [])]
    return make_plan({"budget": budget, "query": asked, **({"unit": {"column": "k"}} if owned else {}), **parts})


@pytest.mark.few(2)
@crossed({"query": COUNTED, "budget": [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}]})
def test_an_unbiased_number_stands_beside_the_one_in_the_support(query, budget):
    plan = one_of({**query, "unbiased": True}, budget)
    found = release(plan, FEW, ledger=None)
    check_certificate(found.certificate, found.to_bytes(), work=math.inf)
    own = [(cell, row) for cell, row in zip(found.cells, found.rows(), strict=True) if row["query"] == "asked"]
    spans = plan.query[0].allowed.spans
    for cell, row in own:
        assert row["unbiased"] == cell.draws[0]
        assert any(lower <= row["value"] <= upper for lower, upper in spans)
        if query["kind"] != "histogram" and "step" not in query and any(a <= row["unbiased"] <= b for a, b in spans):
            assert row["value"] == row["unbiased"]
    assert all(row["unbiased"] is None for row in found.rows() if row["query"] != "asked")
    assert own[0][0].epsilon == prepare(one_of(query, budget)).allocation.questions[0].epsilon


@pytest.mark.few(1)
@crossed(
    {
        "query": [each for each in COUNTED if "support" not in each],
        "budget": [{"epsilon": 0.5}, {"epsilon": 0.5, "delta": 1e-6}],
    }
)
def test_a_signed_number_is_the_unbiased_one(query, budget):
    found = release(one_of({**query, "signed": True}, budget), FEW, ledger=None)
    check_certificate(found.certificate, found.to_bytes(), work=math.inf)
    own = [row for row in found.rows() if row["query"] == "asked"]
    step = query.get("step") or (1.0 if query["kind"] != "sum" else 0.0)
    for row in own:
        assert abs(row["value"] - row["unbiased"]) <= step / 2
        assert row["lower"] <= row["value"] <= row["upper"]
        assert row["bias"] <= step / 2 + 1e-2
        assert "answer moved" not in row["scope"]


@pytest.mark.slow
def test_the_total_of_a_thousand_empty_cells_is_unbiased_where_that_of_clamped_ones_is_not():
    """Of 200 totals 12 are over three standard errors from 0 with probability 1e-12; clamped cells add to 5,000."""
    plan = one_of({"kind": "count", "unbiased": True}, {"epsilon": 0.1})
    publisher, form = prepare(plan).publishers[0], prepare(plan).questions[0].form
    spread = math.sqrt(publisher.mechanism.mse * 1000)
    unbiased, clamped = [], []
    for _ in range(200):
        draws = [draw for (draw,) in publisher.draw([(Fraction(0),)] * 1000, secure_bits)]
        unbiased.append(sum(form.unclamped_numbers(None, draws)))
        clamped.append(float(np.maximum(draws, 0.0).sum()))
    assert sum(abs(total) <= 3.0 * spread for total in unbiased) > 188
    assert sum(abs(total) <= 3.0 * spread for total in clamped) == 0  # the control
    assert 4800 < np.mean(clamped) < 5200


def test_a_public_number_of_rows_is_moved_into_the_support_and_stated_beside_it():
    unit = {"neighbours": "replace", "size": 50}
    plan = one_of({"kind": "count", "support": [0, 30], "unbiased": True}, {"epsilon": 1.0}, unit=unit)
    row = release(plan, pa.table({"x": list(range(50))}), ledger=None).rows()[0]
    assert (row["value"], row["unbiased"], row["unreliable"]) == (30.0, 50.0, False)
