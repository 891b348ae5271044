"""Intervals of quantiles: the noise of their counts is private, and they hold the quantile as often as they say."""

import datetime
import math
import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rangebound.errors import CertificateInvalid
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.noise import noisy_ranks, quantiles
from rangebound.release.noise.allocation import BudgetShare, LossForm
from rangebound.release.noise.forms import form_of
from rangebound.release.noise.joint_loss import NoiseAccount
from rangebound.release.noise.strategies.strategy import LatticeNoise
from rangebound.release.output.agreement import widened
from rangebound.release.output.reliability import is_unreliable
from rangebound.release.plan.kinds.facts import SampledCounts
from rangebound.release.plan.kinds.ranks import Quantiles
from rangebound.release.plan.statistic import Sensitivity
from rangebound.release.plan.unit import Unit
from rangebound.release.prepare import answers, prepare
from rangebound.release.sql.aggregate import aggregate
from rangebound.sampling.entropy import secure_bits
from tests.release.output.asked import asked, released
from tests.release.plans import SALT

GRAIN = 2.0**-20
LEVELS = (0.25, 0.5, 0.99)
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


def discrete(scale, draws):
    """The law of a sum of discrete Laplace draws, from the least one on, by multiplying laws."""
    far = math.ceil(25.0 * scale)
    one = np.exp(-np.abs(np.arange(-far, far + 1)) / scale)
    law = np.ones(1)
    for _ in range(draws):
        law = np.convolve(law, one / one.sum())
    return law, -far * draws


@pytest.mark.parametrize(("below", "above", "level"), [(2, 3, 0.5), (1, 6, 0.25), (5, 1, 0.99), (0, 4, 0.05)])
def test_the_tail_is_that_of_sums_of_discrete_laplace_draws(below, above, level):
    scale = 8.0
    (p, first), (q, last) = discrete(scale, below), discrete(scale, above)
    a, b = first + np.arange(len(p)), last + np.arange(len(q))
    upto = np.append(0.0, np.cumsum(p))
    for far in (0.0, 5.0, 20.0, 45.0, 80.0):
        place = np.searchsorted(a, (far + level * b) / (1.0 - level), side="right")
        exact = float((q * (1.0 - upto[place])).sum())
        found = noisy_ranks.laplace_beyond(*(np.array([each]) for each in (far / scale, below, above)), level)[0]
        assert found == pytest.approx(exact, abs=0.02)  # half of what is at 0 differs, by a step of the lattice
        assert far == 0.0 or found >= exact - 1e-3
    wrong = noisy_ranks.laplace_beyond(*(np.array([each]) for each in (10.0 / scale, below, above)), level)[0]
    assert wrong < 0.5 - 0.02  # the control: the tail at another place


def ranks(counts, cuts, level, scale, account, chance):
    exact = np.array([sum(counts[low:high]) for low, high in pairwise(cuts)], dtype=float)
    noise = (chance.laplace if account is NoiseAccount.PURE else chance.normal)(0.0, scale, len(exact))
    lattice = LatticeNoise(account=account, scale=scale / GRAIN)
    return noisy_ranks.NoisyRanks(cuts=cuts, rows=exact + noise, level=level, noise=lattice)


def place_counts(values, size=101):
    return [values.count(at) for at in range(size)]


@pytest.mark.few
@pytest.mark.parametrize("account", NoiseAccount)
@pytest.mark.parametrize("level", LEVELS)
def test_cells_hold_the_quantile_as_often_as_stated_and_control_noise_that_is_larger_than_said(account, level):
    chance, times, held, wrong = np.random.default_rng(5), 400, 0, 0
    values = [int(x) for x in np.linspace(0.0, 100.0, 1000)]
    counts, true = place_counts(values), np.quantile(values, level, method="inverted_cdf")
    for _ in range(times):
        cuts = noisy_ranks.cut_around([int(chance.integers(101)) for _ in range(2)], 101)
        own = ranks(counts, cuts, level, 40.0, account, chance)
        first, last = own.cells(0.9)
        held += cuts[first] <= true < cuts[last + 1]
        first, last = replace(own, noise=LatticeNoise(account=account, scale=2.0 / GRAIN)).cells(0.9)
        wrong += cuts[first] <= true < cuts[last + 1]
    assert held >= 335  # fewer of 400 at 0.9 have a chance of 3e-5
    assert wrong < 335


@pytest.mark.few
@pytest.mark.parametrize("account", NoiseAccount)
@pytest.mark.parametrize("level", [0.04, 0.5, 0.9])
@pytest.mark.parametrize(("rows", "scale"), [(5, 0.2), (40, 3.0), (400, 3.0), (400, 60.0)])
def test_ranks_of_samples_are_as_far_off_as_stated_at_most_for_any_rows_and_cells(rows, scale, level, account):
    """By adding up the binomial law, of units of three equal rows too; the control is 15 % less far."""
    lattice, cells, part = LatticeNoise(account=account, scale=scale / GRAIN), 9, 0.0225

    def beyond(far, n, below, each, cells=cells):
        """P(D + S > far) with noise on this many of the cells below the cut."""
        at = np.arange(n + 1.0)
        off = far - each * (at - level * n)
        if account is NoiseAccount.PURE:
            tails = noisy_ranks.laplace_beyond(
                off / scale, np.full(n + 1, 1.0 * below), np.full(n + 1, 1.0 * cells - below), level
            )
        else:
            tails = stats.norm.sf(off / (scale * math.hypot(below**0.5 * (1 - level), (cells - below) ** 0.5 * level)))
        return float((stats.binom.pmf(at, n, level) * tails).sum())

    for each in (1, 3):
        sampled = SampledCounts(rows=each, single=each == 1, measured="")
        far = noisy_ranks.sampled_reach(lattice, cells, level, rows, sampled, part)
        found = [beyond(far, n, k, each) for n in {0, 1, 2, 3, rows // 2, rows - 1, rows} for k in (1, 5, 8)]
        found.append(beyond(far, rows, 2, each, 4))
        assert max(found) <= part + 1e-6
        assert each == 3 or rows == 5 or max(beyond(0.85 * far, rows, k, each) for k in (0, 9)) > part


@pytest.mark.parametrize("account", NoiseAccount)
def test_there_are_no_more_rows_than_stated_and_control_half_as_far(account):
    chance, noise = np.random.default_rng(7), LatticeNoise(account=account, scale=5.0 / GRAIN)
    draws = (chance.laplace if account is NoiseAccount.PURE else chance.normal)(0.0, 5.0, (20_000, 12)).sum(axis=1)
    far = noisy_ranks.most_rows(noise, 12, 100.0, 0.01) - 100
    assert np.mean(draws > far) <= 0.012
    assert np.mean(draws > far / 2) > 0.05
    assert noisy_ranks.most_rows(noise, 12, -1e6, 0.01) == 1


def test_whole_numbers_have_whole_ends_in_the_population_too():
    rows = pa.table({"x": list(range(40)) * 20})
    asked_for = {"name": "q", "kind": "quantiles", "levels": [0.2, 0.5], "column": "x", "range": [0, 39]}
    found = release(
        make_plan({"budget": {"epsilon": 4.0}, "intervals": "both", "query": [asked_for]}), rows, ledger=None
    )
    for cell in found.cells:
        assert cell.population_lower.is_integer()
        assert cell.population_upper.is_integer()
        assert 0 <= cell.population_lower < cell.lower <= cell.upper < cell.population_upper <= 39


@pytest.mark.parametrize("level", LEVELS)
def test_where_the_noise_is_gone_cells_and_place_are_those_of_every_definition(level):
    chance = np.random.default_rng(6)
    for values in ([20] * 200 + [80] * 200, [5] * 300 + [50] + [95] * 100, list(range(101)) * 30):
        found = [np.quantile(values, level, method=each) for each in DEFINITIONS]
        for at in (0, 20, 50, 100):
            cuts = noisy_ranks.cut_around([at], 101)
            own = ranks(place_counts(values), cuts, level, 1e-3, NoiseAccount.PURE, chance)
            first, last = own.cells(0.95)
            assert cuts[first] <= min(found)
            assert max(found) < cuts[last + 1]
            place = own.place(at, Fraction(1, 10**6))  # of which nothing follows: the counts alone decide
            assert cuts[first] <= place < cuts[last + 1]


@given(st.integers(2, 3000), st.lists(st.integers(0, 2999), min_size=1, max_size=9))
def test_cells_are_disjoint_are_all_places_and_are_no_more_than_is_said(size, places):
    places = [at % size for at in places]
    cuts = noisy_ranks.cut_around(places, size)
    assert (cuts[0], cuts[-1]) == (0, size)
    assert cuts == sorted(set(cuts))
    assert set(places) <= set(cuts)
    assert len(cuts) - 1 <= noisy_ranks.most_cells(len(places), size)


@pytest.mark.claim("sensitivity")
@settings(max_examples=25)
@given(st.data())
def test_a_unit_moves_rounded_counts_of_cells_by_no_more_than_the_reach(data):
    size, rows = data.draw(st.integers(2, 40)), data.draw(st.integers(1, 4))
    counts = st.lists(st.fractions(0, 9, max_denominator=97), min_size=size, max_size=size)
    one, parts = data.draw(counts), data.draw(counts)
    whole = sum(parts) or Fraction(1)
    other = [each + part * rows / whole for each, part in zip(one, parts, strict=True)]
    cuts = noisy_ranks.cut_around([data.draw(st.integers(0, size - 1))], size)
    own, more = (
        [math.floor(sum(each[low:high], Fraction(0)) / Fraction(GRAIN)) for low, high in pairwise(cuts)]
        for each in (one, other)
    )
    moved = [abs(a - b) for a, b in zip(own, more, strict=True)]
    found = Sensitivity(cell=Fraction(rows), groups=1, square=Fraction(rows**2))
    cells = noisy_ranks.most_cells(1, size)
    assert sum(moved) <= noisy_ranks.cells_reach(found, cells, gaussian=False)
    assert sum(each**2 for each in moved) <= noisy_ranks.cells_reach(found, cells, gaussian=True) ** 2


FOUND = Sensitivity(cell=Fraction(2), groups=3, square=Fraction(12))
SHARES = [
    BudgetShare(epsilon=0.3, delta=0.0, groups=3, parts=2, loss=LossForm.GAUSSIAN),
    BudgetShare(epsilon=0.3, delta=0.0, groups=3, parts=2, loss=LossForm.GAUSSIAN, twice=True),
    BudgetShare(epsilon=0.0, delta=0.0, groups=3, parts=2, loss=LossForm.GAUSSIAN, mu=0.4),
    BudgetShare(epsilon=0.0, delta=0.0, groups=3, parts=2, loss=LossForm.GAUSSIAN, mu=0.4, twice=True),
]


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("part", [0.0, 0.25, 0.9])
def test_what_is_drawn_costs_what_is_said_and_nearly_all_of_the_share(share, part):
    question = Quantiles(name="q", column="x", range=(0.0, 100.0), levels=(0.2, 0.5), interval_share=part)
    own = form_of(question, Unit()).publisher(FOUND, share, level=0.95, columns=())
    own.check(FOUND, share)
    loss = own.loss(share)
    if share.mu:
        assert loss.square == share.square
    else:
        assert 0.999 * 1.8 <= loss.epsilon <= Fraction(0.3) * 6  # in plain sums: every group, every level
    wrong = [replace(own, drawn=own.drawn * 1.01), replace(own, rates=tuple(each * 2 for each in own.rates))]
    if own.noise is not None:
        wrong.append(replace(own, noise=LatticeNoise(account=own.noise.account, scale=own.noise.scale * 0.99)))
        wrong.append(replace(own, counted=own.counted * Fraction(101, 100)))
    for each in wrong:
        with pytest.raises(CertificateInvalid, match="less private"):
            each.check(FOUND, share)
    with pytest.raises(CertificateInvalid):
        own.check(replace(FOUND, cell=Fraction(3), square=Fraction(27)), share)


def law_of_draws(publisher, truth, drawn):
    """The logarithm of the chance of a draw, but for constants: places by their weights, counts by their noise."""
    total = 0.0
    places = [publisher._places[each[0]] for each in drawn]
    for level, rate, at in zip(publisher.levels, publisher.rates, places, strict=True):
        scores = quantiles.exponential.scores(truth, level)
        weights = quantiles.exponential.weights(scores, rate)
        total += math.log(weights[at]) - math.log(sum(weights))
    cells = pairwise(noisy_ranks.cut_around(places, len(truth)))
    exact = [math.floor(sum(truth[low:high]) / Fraction(GRAIN)) for low, high in cells]
    counts = [each for draw in drawn for each in draw[1:]]
    return total - sum(abs(x - y) for x, y in zip(exact, counts, strict=True)) / publisher.noise.scale


def test_the_laws_of_draws_of_neighbours_are_within_the_epsilon_that_is_charged():
    question = Quantiles(name="q", column="x", range=(0.0, 30.0), levels=(0.2, 0.5), step=1.0)
    found = Sensitivity(cell=Fraction(1), groups=1, square=Fraction(1))
    share = replace(SHARES[0], epsilon=0.5, groups=1)
    own = form_of(question, Unit()).publisher(found, share, level=0.95, columns=())
    chance, worst = random.Random(3), 0.0
    for _ in range(100):
        one = [Fraction(chance.choice([0, 0, 1, 9])) for _ in range(31)]
        other = list(one)
        other[chance.choice([0, 30, chance.randrange(31)])] += 1
        for truth in (one, other):
            (drawn,) = own.draw([truth], secure_bits)
            assert own.can_draw(*drawn)
            worst = max(worst, abs(law_of_draws(own, one, drawn) - law_of_draws(own, other, drawn)))
    assert 0.5 < worst <= float(own.loss(share).epsilon) <= 1.0
    half = replace(own, noise=LatticeNoise(account=NoiseAccount.PURE, scale=own.noise.scale / 4))
    for forged in (drawn[0][:-1], (0.5, *drawn[0][1:]), (drawn[0][0], 0.5, *drawn[0][2:])):
        assert not own.can_draw(forged, drawn[1])  # a count too few, a place beside the grid, a part of a grain
    assert abs(law_of_draws(half, one, drawn) - law_of_draws(half, other, drawn)) > 0  # the control draws elsewhere


QUERY = {"kind": "median", "column": "x", "range": [0, 100], "step": 1.0}


def drawn(plan, data, times):
    with DuckDB(data, threads=1) as engine:
        (found,) = aggregate(plan, engine, SALT)
    ready = prepare(plan)
    return [answers(ready, found)[0] for _ in range(times)]


@pytest.mark.slow
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("values", TABLES.values(), ids=TABLES)
def test_intervals_of_tables_hold_the_median_inside_the_support_and_their_own_value(values, delta):
    plan = asked(QUERY, epsilon=0.3, level=0.9, delta=delta)
    held = 0
    for cell in drawn(plan, pa.table({"x": values}), 100):
        assert 0.0 <= cell.lower <= cell.value <= cell.upper <= 100.0
        held += cell.lower <= np.median(values) <= cell.upper
    assert held >= 65  # at 0.9 fewer than 65 of 100 have a chance of 3e-12


def test_control_intervals_at_the_value_alone_do_not_hold_the_median():
    plan = asked(QUERY, epsilon=0.1)  # 50 has a chance of 0.27, so 65 of 1e-15
    assert sum(cell.value == 50.0 for cell in drawn(plan, pa.table({"x": TABLES["spread"]}), 100)) < 65


def test_intervals_are_as_narrow_as_the_number_is_good():
    """Of 20,000 incomes at epsilon 1: a tree of counts has 0.8 % of the range between the quartiles on average."""
    income = np.round(np.exp(np.random.default_rng(7).normal(10.0, 0.6, 20_000)), 2)
    true = np.quantile(income, [0.25, 0.5, 0.75])
    question = {"kind": "quantiles", "column": "x", "range": [0, 200_000], "levels": [0.25, 0.5, 0.75]}
    (cells,) = ([*released(asked(question), {"x": income}).cells] for _ in range(1))
    assert all(cell.upper - cell.lower < 0.1 * (true[2] - true[0]) for cell in cells)
    assert all(abs(cell.value - x) < 0.05 * (true[2] - true[0]) for cell, x in zip(cells, true, strict=True))
    assert [cell.value for cell in cells] == sorted(cell.value for cell in cells)
    assert [cell.lower for cell in cells] == sorted(cell.lower for cell in cells)


def test_the_interval_costs_its_share_and_none_without_one():
    plan = asked(QUERY, {**QUERY, "interval_share": 0, "support": [20, 70]})
    ready = prepare(plan)
    first, second = ready.publishers
    assert (first.drawn, float(first.counted)) == pytest.approx((0.335, 0.165), abs=1e-3)
    assert (second.drawn, second.counted, second.noise) == (0.5, 0, None)
    cells = released(plan, {"x": [50.0] * 1000}).cells
    assert (cells[1].lower, cells[1].upper) == (20.0, 70.0)
    assert cells[0].lower > 20.0
    assert "its interval has about" in explain(plan)
    assert "its interval is the whole support" in explain(plan)


def given_draws(levels, at, truth):
    """A publisher, and draws at one place with counts around it that have no noise."""
    question = Quantiles(name="q", column="x", range=(-50.0, 50.0), levels=levels, step=1.0)
    row = Sensitivity(cell=Fraction(1), groups=1, square=Fraction(1))
    own = form_of(question, Unit()).publisher(row, replace(SHARES[0], groups=1), level=0.95, columns=())
    counts = [sum(truth[low:high]) / GRAIN for low, high in pairwise(noisy_ranks.cut_around([at], 101))]
    return own, own._split([at] * len(levels), counts)


def test_the_number_of_one_level_is_its_draw_and_that_of_several_follows_the_counts():
    """Noise on the counts moves no single number: its error is that of the law of its draw alone."""
    rows = [0.0] * 90 + [2000.0] + [0.0] * 10
    for levels, near in (((0.5,), -40.0), ((0.4, 0.5), 40.0)):
        own, group = given_draws(levels, 10, rows)
        (found,) = own.read([group])
        assert all(abs(each.values[0] - near) < 20.0 for each in found)  # within the cell of the rows
        assert all(each.intervals[0][0] <= 40.0 <= each.intervals[0][1] for each in found)


def test_no_number_of_a_good_draw_is_called_too_uncertain_and_control_a_bad_one():
    """Where its rank is off by few rows, as the plan and the noisy number of rows say, however wide its interval is."""
    good, bad = (own.spreads(group)[0] for own, group in (given_draws((0.5,), 50, [each] * 101) for each in (5.0, 0.1)))
    assert (good, bad < 100.0) == (math.inf, True)
    (cell,) = released(asked({"kind": "median", "column": "x", "range": [-50, 50]}, epsilon=0.3), {"x": [0.0]}).cells
    wide = replace(cell, value=0.1, lower=-50.0, upper=50.0)
    assert is_unreliable(wide, bad)
    assert not is_unreliable(wide, good)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_certificate_of_counted_quantiles_is_checked_to_the_last_bit(delta):
    question = {"kind": "quantiles", "column": "x", "range": [0, 100], "levels": [0.1, 0.5, 0.9]}
    made = released(asked(question, epsilon=0.5, delta=delta), {"x": TABLES["spread"]})
    assert check_certificate(made.certificate, made.to_bytes()).numbers == 3
    assert made.facts is not None
    cell = made.cells[0]
    moved = replace(made, cells=(replace(cell, draws=(*cell.draws[:-1], cell.draws[-1] + 2.0**20)), *made.cells[1:]))
    with pytest.raises(CertificateInvalid):
        check_certificate(made.certificate, moved.to_bytes())


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
