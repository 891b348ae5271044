"""Ratios, correlations and lines against numpy with the noise gone; no rows, no variance; intervals that hold."""

import math

import numpy as np
import pytest
from scipy import stats

from rangebound.errors import CertificateInvalid
from rangebound.release import release
from rangebound.release.plan.kinds.two_columns import Correlation, Line, Ratio
from rangebound.release.prepare import prepare
from tests.release.odd_tables import arrow, assert_mostly, drawn, noiseless, odd_rows, plan_of
from tests.release.plan.kinds.second_routes import certified, counted
from tests.thinning import some_pairs

X, Y = {"column": "x", "range": [-2.0, 10.0]}, {"column": "y", "range": [0.0, 3.0]}
RATIO = {"kind": "ratio", "numerator": X, "denominator": Y, "support": [-10, 50]}
FAR = {"kind": "ratio", "numerator": X, "denominator": {"column": "y", "range": [0.5, 3.0]}}
ASKED = [RATIO, FAR, {**RATIO, "where": [{"column": "w", "is": ">", "value": 1.0}], "step": 0.5}]
PEOPLE = {"column": "who", "rows": 2, "groups": 3}


@pytest.mark.parametrize("unit", [{}, {**PEOPLE, "groups": 1}], ids=["rows", "people of two rows"])
def test_ratios_are_those_of_numpy(unit):
    rows = odd_rows(1, 2000)
    some = [row for row in rows if row["w"] is not None and np.isfinite(row["w"]) and row["w"] > 1.0]
    found = noiseless(plan_of(ASKED, unit), rows, epsilon=1e6)

    def truth(asked, least=0.0):
        table = counted(asked, unit, x=X["range"], y=[least, 3.0])
        return (table["part"] * table["x"]).sum() / (table["part"] * table["y"]).sum()

    assert found[0, (), ""].value == pytest.approx(truth(rows), abs=1e-3)
    assert found[1, (), ""].value == pytest.approx(truth(rows, 0.5), abs=1e-3)
    assert found[2, (), ""].value == round(2 * truth(some)) / 2


def test_groups_without_rows_have_the_whole_support_as_their_interval():
    """But for 5 % of the draws at most, in which the noise alone looks like rows; those are why draws are counted."""
    none = {"x": np.array([], dtype=float), "y": np.array([], dtype=float)}
    question = Ratio(name="q", numerator=X, denominator=Y, support=[-10, 50])
    found = [one for (one,) in drawn(question, none, 2000, epsilon=1.0)]
    assert_mostly((each.lower, each.upper) == (-10.0, 50.0) for each in found)
    assert all(-10.0 <= each.value <= 50.0 for each in found)


def test_without_a_support_it_lies_where_the_ranges_say():
    ends = Ratio(name="q", numerator=X, denominator={"column": "y", "range": [0.5, 4.0]}).natural
    assert (ends.lower, ends.upper) == (-4.0, 20.0)
    ends = Ratio(
        name="q", numerator={"column": "x", "range": [1, 8]}, denominator={"column": "y", "range": [2, 4]}
    ).natural
    assert (ends.lower, ends.upper) == (0.25, 4.0)


BOTH = {"x": X, "y": Y}
LINES = [{"kind": "correlation", **BOTH}, {"kind": "line", **BOTH}]


@pytest.mark.parametrize("unit", [{}, {**PEOPLE, "groups": 1}], ids=["rows", "people of two rows"])
def test_correlations_and_lines_are_those_of_numpy(unit):
    rows = odd_rows(1, 2000)
    found = noiseless(plan_of(LINES, unit), rows, epsilon=1e6)
    table = counted(rows, unit, x=X["range"], y=Y["range"])
    matrix = np.cov(table["x"], table["y"], aweights=table["part"], bias=True)
    slope = matrix[0, 1] / matrix[0, 0]
    means = np.average(table[["x", "y"]], axis=0, weights=table["part"])
    assert found[0, (), ""].value == pytest.approx(matrix[0, 1] / math.sqrt(matrix[0, 0] * matrix[1, 1]), abs=1e-3)
    assert found[1, (), "slope"].value == pytest.approx(slope, abs=1e-3)
    assert found[1, (), "intercept"].value == pytest.approx(means[1] - slope * means[0], abs=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("x", "y", "rows"),
    [(3.0, 1.0, 300), (None, 1.0, 300), (3.0, None, 300), (3.0, 1.0, 0)],
    ids=["neither varies", "x", "y varies", "no rows"],
)
def test_without_variance_there_is_an_answer_that_claims_nothing(x, y, rows):
    chance = np.random.default_rng(4)
    xs = np.full(rows, x) if x is not None else chance.uniform(-2, 10, rows)
    ys = np.full(rows, y) if y is not None else chance.uniform(0, 3, rows)
    cells = drawn(Correlation(name="q", **BOTH), {"x": xs, "y": ys}, 400, epsilon=10.0)
    assert_mostly((one.lower, one.upper) == (-1.0, 1.0) for (one,) in cells)
    lines = drawn(Line(name="q", **BOTH), {"x": xs, "y": ys}, 400, epsilon=10.0)
    assert all(one.lower <= one.value <= one.upper for one in [one for each in (*cells, *lines) for one in each])
    if y is not None:
        assert_mostly(slope.lower <= 0.0 <= slope.upper for slope, _ in lines)


def test_slope_and_intercept_are_of_one_draw_and_two_draws_are_refused():
    plan = plan_of(LINES[1:])
    found, other = (release(plan, arrow(odd_rows(7)), ledger=None) for _ in range(2))
    slope, intercept = found.cells
    assert slope.draws == intercept.draws
    assert certified(found, found.cells).numbers == 2  # control
    with pytest.raises(CertificateInvalid):
        certified(found, [slope, other.cells[1]])
    assert not prepare(plan).publishers[0].can_draw((0.0,) * 6, (1.0,) * 6)


FIELDS = {Ratio: {"numerator": X, "denominator": Y, "support": (-10.0, 50.0)}, Correlation: BOTH, Line: BOTH}


def held(kind, rho, size, **noise):
    """How many of 600 intervals at 0.95 hold, at least; fewer than 528 with probability 5e-12 (binomial)."""
    chance = np.random.default_rng(8)
    x = chance.uniform(-2, 10, size)
    y = np.clip(1.5 + rho * (x - 4.0) / 6 + chance.normal(0, 0.4, size), 0, 3)
    line = stats.linregress(x, y)
    true = {Ratio: [x.sum() / y.sum()], Correlation: [line.rvalue], Line: [line.slope, line.intercept]}[kind]
    cells = drawn(kind(name="q", **FIELDS[kind]), {"x": x, "y": y}, 600, **noise)
    return min(sum(cell[at].lower <= each <= cell[at].upper for cell in cells) for at, each in enumerate(true))


@pytest.mark.few(1)
@pytest.mark.claim("interval")
@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize(
    ("noise", "sized"),
    some_pairs(
        [(mu, rho) for mu in (0.0, 0.7) for rho in (0.0, 0.8)], [(1.0, 100), (1.0, 3000), (5.0, 400), (0.5, 20)], of=3
    ),
)
def test_intervals_hold_as_often_as_their_level_says(noise, sized, kind):
    (mu, rho), (epsilon, size) = noise, sized
    assert held(kind, rho, size, epsilon=epsilon, mu=mu and epsilon * mu) >= 528


@pytest.mark.parametrize("kind", [Ratio, Correlation])
def test_control_intervals_for_half_the_noise_do_not_hold(kind):
    assert held(kind, 0.8, 3000, epsilon=1.0, read_as=2.0) < 528
