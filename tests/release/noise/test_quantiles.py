"""Intervals of quantiles: the exact law of their ends is private, and they hold the quantile as often as they say."""

import datetime
import random
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.release import explain
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.noise import exponential_mechanism as exponential
from rangebound.release.noise import quantiles
from rangebound.release.noise.forms import form_of
from rangebound.release.output.agreement import widened
from rangebound.release.plan.kinds.ranks import Median, Quantiles
from rangebound.release.plan.unit import Unit
from rangebound.release.prepare import answers, prepare
from rangebound.release.sql.aggregate import aggregate
from tests.release.output.asked import asked, released
from tests.release.plans import SALT
from tests.thinning import crossed, some_pairs

GRID = Median(name="m", column="x", range=(0.0, 100.0), step=1.0)
GAPS = Median(name="m", column="x", range=(0.0, 100.0), step=1.0, support=((10.0, 30.0), (60.5, 90.0)))
DEFINITIONS = [
    "inverted_cdf",
    "averaged_inverted_cdf",
    "closest_observation",
    "interpolated_inverted_cdf",
    "hazen",
    "weibull",
    "linear",
    "median_unbiased",
    "normal_unbiased",
]
TABLES = {
    "one row": [37.0],
    "two far apart": [0.0, 100.0],
    "three": [9.9] * 3,
    "all at the lower end": [0.0] * 400,
    "all at the upper end": [100.0] * 400,
    "all equal": [42.25] * 400,
    "ties": [20.5] * 200 + [80.5] * 200,
    "quantile at a gap": [5.0] * 200 + [95.0] * 200,
    "one row decides": [5.0] * 200 + [50.4] + [95.0] * 200,
    "spread": [float(x) for x in np.linspace(0.0, 100.0, 997)],
}


def grid_of(question):
    return form_of(question, Unit()).grid


def laws(question, counts, asked, rate, shift):
    places = grid_of(question).candidates
    mirrored = [question.steps - at for at in reversed(places)]
    folded = quantiles.folded(counts, places), quantiles.folded(counts[::-1], mirrored)
    found = []
    for side, level, ends in zip(
        folded, (Fraction(asked), 1 - Fraction(asked)), quantiles.interval_ends(grid_of(question)), strict=True
    ):
        weights = exponential.weights(exponential.scores(side, level, shift, open_below=True), rate)
        found.append([(value, Fraction(weight, sum(weights))) for value, weight in zip(ends, weights, strict=True)])
    return found


def beyond(question, values, asked, rate, shift):
    """The exact probabilities that the lower end lies above a quantile, and the upper below one, by any definition."""
    hull = question.allowed.hull
    quantiles = [float(np.quantile(values, asked, method=each)) for each in DEFINITIONS]
    lowest, highest = (min(max(each(quantiles), hull.lower), hull.upper) for each in (min, max))
    places = [min(int(np.floor(x / float(question.exact_step) + 0.5)), question.steps) for x in values]
    counts = [Fraction(places.count(at)) for at in range(question.steps + 1)]
    lower, upper = laws(question, counts, asked, rate, shift)
    return sum(p for x, p in lower if x > lowest + 1e-9), sum(p for x, p in upper if x < highest - 1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize("question", [GRID, GAPS], ids=["interval", "gaps"])
@pytest.mark.parametrize(("name", "asked"), some_pairs(TABLES, [0.5, 0.01, 0.9], of=3))
def test_no_end_passes_the_quantile_more_often_than_stated(question, asked, name):
    values = TABLES[name]
    for epsilon in (1e-9, 0.1, 2.0, 50.0):
        rate = exponential.rate(asked, Fraction(1), epsilon)
        for level in (0.5, 0.95):
            shift = quantiles.margin(len(grid_of(question).candidates), rate, level)
            assert max(beyond(question, values, asked, rate, shift)) <= Fraction(1 - level) / 2


@pytest.mark.slow
def test_the_stated_probability_is_nearly_met_and_control_a_smaller_margin_exceeds_it():
    rate = exponential.rate(0.5, Fraction(1), 0.1)
    shift = quantiles.margin(len(grid_of(GRID).candidates), rate, 0.95)
    values = TABLES["quantile at a gap"] * 20
    assert 0.015 < max(beyond(GRID, values, 0.5, rate, shift)) <= 0.025
    assert max(beyond(GRID, values, 0.5, rate, shift * 9 / 10)) > 0.025


def test_control_ends_that_are_not_widened_by_half_a_step_miss_values_between_points(monkeypatch):
    rate = exponential.rate(0.5, Fraction(1), 50.0)
    shift = quantiles.margin(101, rate, 0.95)
    assert max(beyond(GRID, TABLES["all equal"], 0.5, rate, shift)) < 1e-9
    monkeypatch.setattr(quantiles, "interval_ends", lambda grid: ((0.0, *grid.points),) * 2)
    assert max(beyond(GRID, [42.25] * 400 + [41.75] * 400, 0.5, rate, shift)) > 0.9


@pytest.mark.few(1)
@crossed(
    {"asked": [0.5, 0.01, 0.9], "question": [GRID, GAPS]},
    ids=lambda each: None if isinstance(each, float) else "gaps" if each is GAPS else "interval",
)
def test_the_laws_of_the_ends_are_private_for_every_unit_that_comes_or_goes(question, asked):
    chance = random.Random(3)
    epsilon, worst = 0.5, 1.0
    rate = exponential.rate(asked, Fraction(3), epsilon)
    for shift in (Fraction(0), Fraction(5), quantiles.margin(101, rate, 0.95)):
        for _ in range(10):
            counts = [Fraction(chance.choice([0, 0, 1, 50])) for _ in range(101)]
            more = list(counts)
            for _ in range(3):
                more[chance.choice([0, 100, chance.randrange(101)])] += 1
            for one, other in zip(
                laws(question, counts, asked, rate, shift), laws(question, more, asked, rate, shift), strict=True
            ):
                worst = max(worst, *(float(max(p / q, q / p)) for (_, p), (_, q) in zip(one, other, strict=True)))
    assert 1.1 < worst <= np.exp(epsilon)
    rate, one = exponential.rate(0.5, Fraction(3), epsilon), [Fraction(50)] * 101
    sides = [laws(GRID, each, 0.5, rate, Fraction(9)) for each in (one, [Fraction(70), *one[1:]])]  # a larger unit
    pairs = [each for both in zip(*sides, strict=True) for each in zip(*both, strict=True)]
    assert max(float(p / q) for (_, p), (_, q) in pairs) > np.exp(epsilon)  # the control


QUERY = {"kind": "median", "column": "x", "range": [0, 100], "step": 1.0}


def drawn(plan, data, times):
    with DuckDB(data, threads=1) as engine:
        (found,) = aggregate(plan, engine, SALT)
    ready = prepare(plan)
    return [answers(ready, found)[0] for _ in range(times)]


@pytest.mark.slow
@pytest.mark.parametrize("values", TABLES.values(), ids=TABLES)
def test_intervals_of_tables_hold_the_median_inside_the_support_and_their_own_value(values):
    plan = asked(QUERY, epsilon=0.3, level=0.9)
    held = 0
    for cell in drawn(plan, pa.table({"x": values}), 50):
        assert 0.0 <= cell.lower <= cell.value <= cell.upper <= 100.0
        held += cell.lower <= np.median(values) <= cell.upper
    assert held >= 33  # by their exact laws each holds it with 0.955 at least: fewer than 33 has a chance below 1e-11


def test_control_intervals_at_the_value_alone_do_not_hold_the_median():
    plan = asked(QUERY, epsilon=0.1)  # 50 has a chance of 0.27, so 33 of 1e-8
    assert sum(cell.value == 50.0 for cell in drawn(plan, pa.table({"x": TABLES["spread"]}), 50)) < 33


def test_the_interval_costs_its_share_and_none_without_one():
    plan = asked(QUERY, {**QUERY, "interval_share": 0, "support": [20, 70]})
    first, second = prepare(plan).allocation.questions.values()
    assert (first.epsilon, first.end, first.drawn) == (0.5, 0.0625, 0.375)
    assert (second.end, second.drawn) == (0.0, second.epsilon)
    cells = released(plan, {"x": [50.0] * 1000}).cells
    assert (cells[1].lower, cells[1].upper) == (20.0, 70.0)
    assert cells[0].lower > 20.0
    assert "its interval, for epsilon 0.0625 an end, aims at" in explain(plan)
    assert "its interval is the whole support" in explain(plan)


def test_days_are_whole_and_open():
    first = datetime.date(2025, 1, 6)
    query = {"kind": "median", "column": "d", "range": [first, datetime.date(2025, 1, 17)]}
    query["support"] = [[first, datetime.date(2025, 1, 10)], [datetime.date(2025, 1, 13), datetime.date(2025, 1, 17)]]
    plan = asked(query)
    days = [first + datetime.timedelta(days=each) for each in (0, 1, 2, 3, 4, 7, 8, 9, 10, 11)]
    for counts in ([30] * 10, [1] * 10, [300] + [0] * 9, [0] * 5 + [400] + [0] * 4):
        table = pa.table({"d": [day for day, count in zip(days, counts, strict=True) for _ in range(count)]})
        for cell in drawn(plan, table, 10):
            for end in (cell.lower, cell.value, cell.upper):
                assert datetime.date(1970, 1, 1) + datetime.timedelta(days=end) in days
    (cell,) = released(asked(query, epsilon=100.0), table).cells
    assert cell.lower == cell.value == cell.upper == (days[5] - datetime.date(1970, 1, 1)).days


TRIPLES = st.lists(st.tuples(*[st.integers(0, 9).map(float)] * 3).map(sorted), min_size=1, max_size=6)


@given(TRIPLES)
def test_rising_intervals_are_wider_and_hold_the_values_in_order(triples):
    before = [(low, high) for low, _, high in triples]
    after = widened(before)
    assert all(x <= a and b <= y for (a, b), (x, y) in zip(before, after, strict=True))
    assert [each[0] for each in after] == sorted(each[0] for each in after)
    assert [each[1] for each in after] == sorted(each[1] for each in after)
    values = sorted(value for _, value, _ in triples)
    assert all(low <= value <= high for value, (low, high) in zip(values, after, strict=True))


def test_a_share_is_none_or_worth_its_name():
    for share in (0.005, -0.1, 0.95):
        with pytest.raises(ValueError, match="interval_share"):
            asked({**QUERY, "interval_share": share})
    assert Quantiles(name="q", column="x", range=(0.0, 1.0), levels=(0.5,), interval_share=0.9).interval_share == 0.9
