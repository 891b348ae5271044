"""Correlations and lines against numpy and scipy with the noise gone; no variance; refusals; intervals that hold."""

import datetime
import json
import math

import numpy as np
import pytest
from scipy import stats

from rangebound.errors import CertificateInvalid, PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.output.report import report
from rangebound.release.plan.kinds.correlation import Correlation
from rangebound.release.plan.kinds.line import Line
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
from tests.thinning import crossed, some_pairs

X, Y = {"column": "x", "range": [-2.0, 10.0]}, {"column": "y", "range": [0.0, 3.0]}
BOTH = {"x": X, "y": Y}
ASKED = [{"kind": "correlation", **BOTH}, {"kind": "line", **BOTH}]
PEOPLE = {"column": "who", "rows": 2, "groups": 3}


def values(rows):
    table = frame(rows)
    table = table[table["x"].notna() & table["y"].notna()]
    return table["x"].clip(-2.0, 10.0), table["y"].clip(0.0, 3.0)


def test_they_are_those_of_numpy_and_scipy():
    rows = odd_rows(1, 2000)
    found = noiseless(plan_of(ASKED), rows, epsilon=1e6)
    x, y = values(rows)
    line = stats.linregress(x, y)
    assert found[0, (), ""].value == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-3)
    assert found[1, (), "slope"].value == pytest.approx(line.slope, abs=1e-3)
    assert found[1, (), "intercept"].value == pytest.approx(line.intercept, abs=1e-3)


def test_rows_beyond_the_bound_count_by_their_average():
    rows = [row for row in odd_rows(2, 2000) if row["who"] is not None]
    found = noiseless(plan_of(ASKED, {**PEOPLE, "groups": 1}), rows, epsilon=1e6)
    table = frame(rows)
    table = table[table["x"].notna() & table["y"].notna()]
    sizes = table.groupby("who")["x"].transform("size")
    weight = np.minimum(sizes, 2) / sizes
    matrix = np.cov(table["x"].clip(-2.0, 10.0), table["y"].clip(0.0, 3.0), aweights=weight, bias=True)
    assert found[0, (), ""].value == pytest.approx(matrix[0, 1] / math.sqrt(matrix[0, 0] * matrix[1, 1]), abs=2e-3)
    assert found[1, (), "slope"].value == pytest.approx(matrix[0, 1] / matrix[0, 0], abs=2e-3)


def test_groups_and_empty_groups():
    rows = odd_rows(3, 2000)
    found = noiseless(plan_of(ASKED, by=["place"]), rows, epsilon=1e5)
    for place in PLACES[:2]:
        x, y = values([row for row in rows if row["place"] == place])
        assert found[0, (place,), ""].value == pytest.approx(np.corrcoef(x, y)[0, 1], abs=0.01)
    assert -1.0 <= found[0, (PLACES[2],), ""].value <= 1.0
    none = {"x": np.array([], dtype=float), "y": np.array([], dtype=float)}
    assert_mostly(
        (one.lower, one.upper) == (-1.0, 1.0) for (one,) in drawn(Correlation(name="q", **BOTH), none, 400, epsilon=1.0)
    )


@pytest.mark.parametrize(("x", "y"), [(3.0, 1.0), (None, 1.0), (3.0, None)], ids=["neither varies", "x", "y varies"])
def test_without_variance_there_is_an_answer_that_claims_nothing(x, y):
    chance = np.random.default_rng(4)
    xs = np.full(300, x) if x is not None else chance.uniform(-2, 10, 300)
    ys = np.full(300, y) if y is not None else chance.uniform(0, 3, 300)
    cells = drawn(Correlation(name="q", **BOTH), {"x": xs, "y": ys}, 400, epsilon=10.0)
    assert_mostly((one.lower, one.upper) == (-1.0, 1.0) for (one,) in cells)
    lines = drawn(Line(name="q", **BOTH), {"x": xs, "y": ys}, 400, epsilon=10.0)
    assert all(one.lower <= one.value <= one.upper for one in [one for each in (*cells, *lines) for one in each])
    if y is not None:
        assert_mostly(slope.lower <= 0.0 <= slope.upper for slope, _ in lines)


def test_spark_finds_what_duckdb_finds(spark):
    rows, plan = odd_rows(5), plan_of(ASKED, PEOPLE, by=["place"])
    with DuckDB(arrow(rows), threads=1) as engine:
        assert exact_of(plan, engine) == exact_of(plan, on_spark(rows, spark))


@crossed(
    {
        "more": [{}, {"joint": True, "level": 0.9999}],
        "size": [{}, {"neighbours": "replace", "size": 40}],
        "budget": [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-3}],
    }
)
def test_a_release_has_a_certificate_and_says_what_was_left_out(budget, size, more):
    stated = {"kind": "line", **BOTH, "slopes": [-1, 1], "intercepts": [0, 3]}
    plan = plan_of([*ASKED, stated], {**PEOPLE, **size}, by=["place"], budget=budget, report_clipping=True, **more)
    said = explain(plan)
    assert "1: line through y = 'y', which lies in [0, 3], over x = 'x', which lies in [-2, 10], by place." in said
    assert "'x' clipped to -2 to 10, 'y' clipped to 0 to 3, rows without 'x' or 'y' left out" in said
    assert "slope moved into -1 to 1, intercept moved into 0 to 3" in said
    found = release(plan, arrow(odd_rows(6)), ledger=None)
    assert check_certificate(found.certificate, found.to_bytes()).numbers == len(found.cells)
    assert make_plan(plan.model_dump(by_alias=True, exclude_none=True)) == plan
    for cell in found.cells:
        assert cell.lower <= cell.value <= cell.upper
        if cell.question == 0:
            assert -1.0 <= cell.lower <= cell.upper <= 1.0
        if cell.question == 2:
            low, high = {"slope": (-1.0, 1.0), "intercept": (0.0, 3.0)}[cell.part]
            assert low <= cell.lower <= cell.upper <= high


def test_slope_and_intercept_are_of_one_draw_and_two_draws_are_refused():
    plan = plan_of(ASKED[1:])
    found = release(plan, arrow(odd_rows(7)), ledger=None)
    one, two = found.cells
    assert one.draws == two.draws
    other = release(plan, arrow(odd_rows(7)), ledger=None)
    data, strange = json.loads(found.to_bytes()), json.loads(other.to_bytes())
    data["cells"][1] = strange["cells"][1]
    with pytest.raises(CertificateInvalid):
        check_certificate(found.certificate, json.dumps(data).encode())
    assert (
        not plan.query[0]
        .publisher(plan.unit, plan.query[0].sensitivity(plan.unit, 1), _share(), level=0.95, columns=())
        .can_draw((0.0,) * 6, (1.0,) * 6)
    )


def _share():
    from rangebound.release.noise.allocation import BudgetShare

    return BudgetShare(epsilon=1.0, delta=0.0, groups=1, parts=1)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ({**ASKED[1], "support": [0, 1]}, "support: a line has two numbers; state slopes"),
        ({**ASKED[1], "slopes": [1, -1]}, "slopes"),
        ({**ASKED[0], "slopes": [-1, 1]}, "unknown field"),
        ({**ASKED[0], "support": [0, 2]}, "support: must lie within"),
        ({"kind": "correlation", "x": X}, "y"),
        (
            {**ASKED[1], "y": {"column": "d", "range": [datetime.date(2025, 1, 1), datetime.date(2025, 2, 1)]}},
            "not dates",
        ),
        ({**ASKED[0], "margin": 0.1}, "must not be asked of 'correlation'"),
    ],
)
def test_wrong_questions_are_refused(question, words):
    with pytest.raises(PlanError, match=words):
        plan_of([question])


@pytest.mark.parametrize(
    ("noise", "sized"),
    some_pairs([(mu, rho) for mu in (0.0, 0.7) for rho in (0.0, 0.8)], [(1.0, 100), (1.0, 3000), (5.0, 400)], of=3),
)
def test_intervals_hold_as_often_as_their_level_says(noise, sized):
    """Of 600 intervals at 0.95 fewer than 540 hold with probability 3e-7 (binomial)."""
    (mu, rho), (epsilon, size) = noise, sized
    chance = np.random.default_rng(8)
    x = chance.uniform(-2, 10, size)
    y = np.clip(1.5 + rho * (x - 4.0) / 6 + chance.normal(0, 0.4, size), 0, 3)
    columns, line = {"x": x, "y": y}, stats.linregress(x, y)
    truths = {"correlation": [np.corrcoef(x, y)[0, 1]], "line": [line.slope, line.intercept]}
    for question in (Correlation(name="q", **BOTH), Line(name="q", **BOTH)):
        cells = drawn(question, columns, 600, epsilon=epsilon, mu=mu and epsilon * mu)
        for at, true in enumerate(truths[question.kind]):
            assert sum(cell[at].lower <= true <= cell[at].upper for cell in cells) >= 540, (question.kind, at)


def test_control_intervals_for_half_the_noise_do_not_hold():
    chance = np.random.default_rng(8)
    x = chance.uniform(-2, 10, 3000)
    y = np.clip(x / 5 + chance.normal(0, 0.5, 3000), 0, 3)
    cells = drawn(Correlation(name="q", **BOTH), {"x": x, "y": y}, 600, epsilon=1.0, read_as=2.0)
    true = np.corrcoef(x, y)[0, 1]
    assert sum(cell.lower <= true <= cell.upper for (cell,) in cells) < 540


def test_a_report_draws_slope_and_intercept_on_axes_of_their_own():
    plan = plan_of([{"kind": "line", **BOTH}], by=["place"])
    page = report(release(plan, arrow(odd_rows(6)), ledger=None))
    assert page.count("<svg") == 2
    assert "<p class=panel>slope</p>" in page
    assert "<p class=panel>intercept</p>" in page
