"""The numbers of the pictures are those of the calls: laws, errors, boundings and limits."""

import math

import numpy as np
import pytest
from scipy import stats

import rangebound as rb
from rangebound.errors import ArgumentError
from rangebound.release import parse_plan
from rangebound.release.output.plan_limits import plan_limits
from rangebound.release.plan.kinds.facts import OneCoordinate
from rangebound.release.prepare import prepare
from rangebound.web.explorer.cell_laws import cell_laws, typical_answers

COUNT = """
unit = {column = "person", rows = 1}
budget = {epsilon = 0.5}
query = [{name = "visits", kind = "count", support = [[0, 100]]}]
"""
SUM = """
unit = {column = "person", rows = 1}
budget = {epsilon = 1.0}
query = [{name = "money", kind = "sum", column = "paid", range = [0, 10], support = [[0, 500]], mechanism = MECHANISM}]
"""


def laws(text, answers=None, index=0):
    ready = prepare(parse_plan(text))
    return cell_laws(ready, index, plan_limits(ready)[index], answers)


def test_a_count_has_the_clamped_geometric_law():
    found = laws(COUNT, [2, 30, 50])
    rate = math.exp(-0.5)
    small = found["cells"][0]
    assert small["spikes"][0] == pytest.approx([0.0, rate**2 / (1 + rate)], rel=1e-12)  # P(noise <= -2)
    drawn = dict(small["bars"])
    assert drawn[2.0] == pytest.approx(stats.dlaplace(0.5).pmf(0), rel=1e-12)
    assert drawn[5.0] == pytest.approx(stats.dlaplace(0.5).pmf(3), rel=1e-12)
    assert drawn[5.0] != pytest.approx(stats.dlaplace(0.6).pmf(3), rel=1e-3)  # the control
    m = rb.DiscreteLaplace.calibrated(sensitivity=1, epsilon=0.5, support=rb.Interval(0, 100))
    for cell in found["cells"]:
        error = m.error(cell["answer"])
        assert (cell["bias"], cell["mae"]) == (error.bias, error.mae)
        assert cell["common"] == m.law(cell["answer"]).quantile([0.025, 0.975]).tolist()


@pytest.mark.slow
def test_three_boundings_are_those_of_calibrate():
    found = laws(COUNT, [2, 30, 50])
    query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    wanted = {"truncated": rb.TRUNCATE, "clamped": rb.RECTIFY, "unbiased": rb.UNBOUNDED}
    assert [each["bounding"] for each in found["boundings"]] == list(wanted)
    for each in found["boundings"]:
        m = rb.calibrate(noise=rb.Laplace, query=query, bounding=wanted[each["bounding"]], epsilon=0.5)
        assert each["scale"] == m.noise.scale
        assert each["bias"] == m.error(np.array([2.0, 30.0, 50.0])).bias.tolist()
        assert each["mae"] == m.error(np.array([2.0, 30.0, 50.0])).mae.tolist()
        assert each["worst_mae"] == m.worst_error().mae
        assert each["worst_mae"] > found["limit"]
    truncated, clamped, unbiased = found["boundings"]
    assert clamped["bias"][0] == pytest.approx(math.exp(-2.0 * 0.5) / (2.0 * 0.5), rel=1e-9)  # scale/2 e^(-x/scale)
    assert clamped["spike"][0] == pytest.approx(math.exp(-1.0) / 2.0, rel=1e-9)
    assert truncated["spike"] == [0.0, 0.0, 0.0]
    assert unbiased["bias"] == [0.0, 0.0, 0.0]


def test_the_limit_is_that_of_the_dry_run_and_below_all():
    found, limits = laws(COUNT), plan_limits(prepare(parse_plan(COUNT)))[0]
    assert (found["limit"], found["worst_mae"]) == (limits.limit, limits.error)
    assert 0.0 < found["limit"] <= found["worst_mae"]


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["truncate Laplace", "rectify Laplace"])
def test_a_curve_and_its_spikes_have_all_the_probability(mechanism):
    found = laws(SUM.replace("MECHANISM", repr(mechanism)), [5.0, 100.0, 250.0])
    for cell in found["cells"]:
        xs, ys = np.array(cell["curve"]).T
        total = np.trapezoid(ys, xs) + sum(mass for _, mass in cell["spikes"])
        assert total == pytest.approx(0.998, abs=0.003)
        assert cell["mean"] == cell["answer"] + cell["bias"]
    assert bool(found["cells"][0]["spikes"]) == mechanism.startswith("rectify")


@pytest.mark.slow
@pytest.mark.parametrize("text", [COUNT, SUM.replace("MECHANISM", '"rectify Laplace"')], ids=["bars", "curve"])
def test_spikes_bars_and_strips_share_one_scale(text):
    for cell in laws(text, [0.0, 2.0, 50.0])["cells"]:
        drawn = [mass for _, mass in (*cell["bars"], *cell["spikes"])]
        drawn += [density * cell["strip"] for _, density in cell["curve"]]
        assert cell["tallest"] == max(drawn)
        if cell["curve"]:  # the strips and the spikes are all there is
            strips = sum(density for _, density in cell["curve"][:-1]) * (cell["strip"] / 2.0)
            assert strips + sum(mass for _, mass in cell["spikes"]) == pytest.approx(0.998, abs=0.02)
    assert laws(text, [0.0, 2.0, 50.0])["cells"][0]["tallest"] == pytest.approx(0.5, abs=0.13)  # the spike at 0


@pytest.mark.slow
def test_an_optimal_table_has_bars():
    found = laws(SUM.replace("MECHANISM", '"optimal"').replace("500", "50"), [5.0, 20.0, 25.0])
    for cell in found["cells"]:
        assert sum(mass for _, mass in cell["bars"]) == pytest.approx(1.0, abs=0.003)


@pytest.mark.slow
def test_a_gaussian_account_compares_its_own_noise():
    several = ", ".join(f'{{name = "{at}", kind = "count", support = [[0, 100]]}}' for at in range(12))
    ready = prepare(parse_plan(f"budget = {{epsilon = 0.5, delta = 1e-6}}\nquery = [{several}]"))
    found = cell_laws(ready, 0, plan_limits(ready)[0], [2, 30, 50])
    assert ready.allocation.mu
    assert {each["scale"] for each in found["boundings"]} == {ready.publishers[0].mechanism.noise.scale}
    assert found["cells"][0]["bias"] > 0.0


@pytest.mark.slow
def test_a_question_of_many_coordinates_or_noise_that_is_too_wide_for_a_picture_says_so():
    text = 'budget = {epsilon = 1.0}\nquery = [{name = "a", kind = "mean", column = "age", range = [0, 100]}]'
    found = laws(text)
    assert set(found) == {"query", "reason"}
    assert found["reason"]
    assert "too wide" in laws(COUNT.replace("0.5", "0.00001").replace("support = [[0, 100]]", "step = 1"))["reason"]


@pytest.mark.parametrize("answers", [[1, 2], [1, 2, 101], [-1, 2, 3], [0.5, 1, 2], [1, 2, math.inf]])
def test_cells_that_no_true_answer_can_be_are_refused(answers):
    with pytest.raises(ArgumentError, match="answers"):
        laws(COUNT, answers)


@pytest.mark.parametrize(
    ("within", "whole", "expected"),
    [
        (rb.Interval(0, 100), True, (3.0, 25.0, 50.0)),
        (rb.Interval(0, math.inf), False, (12.0, 120.0, 1200.0)),
        (rb.Interval(-math.inf, 0), True, (-3.0, -30.0, -300.0)),
        (rb.Interval(-math.inf, math.inf), True, (3.0, 30.0, 300.0)),
    ],
)
def test_typical_cells_lie_in_the_range(within, whole, expected):
    found = typical_answers(OneCoordinate(range=within, whole=whole, support=within), 4.0)
    assert found == expected
    assert all(within.lower <= each <= within.upper for each in found)
