"""The law of sampling and noise against other routes, and the intervals that are made of it at their edges."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rangebound.laws.gaussian import Gaussian
from rangebound.laws.laplace import Laplace
from rangebound.release import make_plan, parse_plan
from rangebound.release.noise.draw import AddedNoise, Cell, with_own_interval
from rangebound.release.noise.population import added_noise, expected_counts, plausible, reach, tail
from rangebound.release.output.plan_facts import plan_json
from rangebound.release.plan.kinds.facts import SampledCounts
from rangebound.release.prepare import prepare

LAPLACE = AddedNoise(noise=Laplace(scale=2.0), level=0.95, slack=0.0)
GAUSSIAN = AddedNoise(noise=Gaussian(scale=2.0), level=0.95, slack=0.0)
MEAN = {"name": "m", "kind": "mean", "column": "x", "range": [0, 1]}
SHARE = {"name": "m", "kind": "share", "of": "x > 0"}
PERSON = {"unit": {"column": "person", "rows": 3}}


def gil_pelaez(scales, variance, seen):
    """P(sum > seen) by the characteristic function, which knows no mixture: 1/2 - 1/pi of int sin(us)/u phi(u) du."""

    u = (np.arange(200_000) + 0.5) * (12.0 / math.sqrt(variance)) / 200_000
    law = np.exp(-variance * u**2 / 2) / np.prod([1 + (each * u) ** 2 for each in scales], axis=0)
    return 0.5 - float((np.sin(u * seen) / u * law).sum() * (u[1] - u[0])) / math.pi


@pytest.mark.parametrize(
    "form", [(0.7,), (0.7, 0.3), (0.5, 0.5), (0.75, -0.25, 0.25), (1, 0, 0), (0.6, 0.1, -0.4, 0.6)]
)
@pytest.mark.parametrize("variance", [0.01, 1.0, 40.0])
def test_the_tail_is_that_of_the_characteristic_function_and_no_smaller(form, variance):
    factors = tuple(np.full(4, float(each)) for each in form)
    seen = np.array([0.1, 1.0, 3.0, 7.0]) * math.sqrt(variance + 8.0 * sum(each**2 for each in form))
    found = tail(factors, np.full(4, variance), LAPLACE, seen)
    for at, own in zip(seen, found, strict=True):
        other = gil_pelaez([2.0 * abs(each) for each in form], variance, at)
        assert other - 1e-7 <= own <= other * (1.02 if len(form) > 3 else 1.006) + 2e-7


@pytest.mark.parametrize("root", [900.0, 1.1e3, 1e6, 1e9])
def test_the_tail_keeps_its_digits_where_noise_is_tiny_beside_sampling(root):
    """Normal with the variance of the noise added, but for 1e-9; the two terms of a mixture overflow at 1e8."""
    form = (np.array(0.35), np.array(0.15))
    for z in (0.1, 2.0, 5.0):
        found = float(tail(form, np.array(root**2), LAPLACE, np.array(z * root)))
        total = math.sqrt(1 + 8.0 * (0.35**2 + 0.15**2) / root**2)
        assert found == pytest.approx(stats.norm.sf(z / total), rel=1e-9)


def test_gaussian_noise_is_one_more_variance():
    found = tail((np.array(0.6), np.array(-0.8)), np.array(5.0), GAUSSIAN, np.array(6.0))
    assert found == pytest.approx(stats.norm.sf(6.0 / 3.0), rel=1e-12)


@pytest.mark.parametrize("added", [LAPLACE, GAUSSIAN], ids=["Laplace", "Gaussian"])
@pytest.mark.parametrize("part", [0.4, 0.05, 1e-6])
@pytest.mark.parametrize("form", [(1.0,), (0.5, 0.5), (0.7, -0.2, 0.1)])
def test_what_noise_exceeds_is_not_too_near_and_hardly_too_far(form, part, added):
    at = reach(tuple(map(np.array, form)), added, part)
    beyond = float(tail(tuple(map(np.array, form)), np.array(0.0), added, at))
    assert 0.98 * part - 1e-12 <= beyond <= part * (1 + 1e-9) + 1e-12


def prepared(query, epsilon=1.0, **more):
    plan = {"budget": {"epsilon": epsilon}, "intervals": "both", **more}
    return prepare(make_plan({**plan, "query": [query]})).questions[0]


ANY = {clustered: [prepared(each, **(PERSON if clustered else {})) for each in (MEAN, SHARE)] for clustered in (0, 1)}


NUMBERS = st.floats(-50, 1e4, allow_nan=False)


@settings(max_examples=25)
@given(st.lists(NUMBERS, min_size=5, max_size=5), st.sampled_from([0.01, 0.5, 0.95, 0.9999]), st.booleans())
def test_any_draw_has_an_interval_of_numbers_in_the_range_that_rises_with_the_level(draw, level, clustered):
    for own, count in zip(ANY[clustered], (5, 5) if clustered else (3, 2), strict=True):
        numbers = tuple(draw[:count]) if own.question.squared else tuple(max(each, 0.0) for each in draw[:count])
        ends = own.of_population(0.5, numbers, level)
        wider = own.of_population(0.5, numbers, 0.99999)
        assert 0.0 <= wider["population_lower"] <= ends["population_lower"] + 1e-9
        assert ends["population_upper"] - 1e-9 <= wider["population_upper"] <= 1.0


@settings(max_examples=50)
@given(st.floats(-30, 300), st.floats(-30, 300))
def test_clamping_takes_no_answer_out_of_the_interval(rest, part):
    own, x = ANY[False][1], np.linspace(0.0, 1.0, 200)
    free, clamped = (
        plausible(own.sampled, draw, added_noise(own.publisher), 0.95, x)
        for draw in ((rest, part), (max(rest, 0.0), max(part, 0.0)))
    )
    assert not (free & ~clamped).any()


def test_many_rows_and_little_noise_leave_the_interval_of_a_textbook():
    """Of a share it is Wilson's, of a mean with squares the one by the standard deviation about the tested mean."""
    n, p = 10_000, 0.03
    own = prepared(SHARE, epsilon=100.0)
    ends = own.of_population(p, (n * (1 - p), n * p), 0.95)
    wilson = stats.binomtest(int(n * p), n).proportion_ci(method="wilson")
    assert (ends["population_lower"], ends["population_upper"]) == pytest.approx(tuple(wilson), abs=3e-4)
    x = np.random.default_rng(3).beta(2, 5, n)
    own = prepared(MEAN, epsilon=100.0)
    sums = tuple(float(each.sum()) for each in ((1 - x) ** 2, 2 * x * (1 - x), x**2))
    ends = own.of_population(x.mean(), sums, 0.95)
    student = stats.t.interval(0.95, n - 1, x.mean(), x.std(ddof=1) / math.sqrt(n))
    assert (ends["population_lower"], ends["population_upper"]) == pytest.approx(student, abs=2e-4)


def test_units_that_are_clusters_get_the_variance_of_what_they_add_up_to():
    """Three equal rows of each unit say no more than one; the textbook's interval of the units' means is the oracle."""
    x = np.random.default_rng(3).beta(2, 5, 5_000)
    own = prepared(MEAN, epsilon=100.0, **PERSON)
    y, z = 3 * x, 3 * (1 - x)
    sums = tuple(float(each.sum()) for each in (z * z / 3, 2 * y * z / 3, y * y / 3, 0 * y, 0 * y))
    ends = own.of_population(x.mean(), sums, 0.95)
    student = stats.t.interval(0.95, len(x) - 1, x.mean(), x.std(ddof=1) / math.sqrt(len(x)))
    assert (ends["population_lower"], ends["population_upper"]) == pytest.approx(student, abs=6e-4)
    rows = stats.t.interval(0.95, 3 * len(x) - 1, x.mean(), x.std(ddof=1) / math.sqrt(3 * len(x)))
    assert ends["population_upper"] > rows[1] + 1e-3  # the control: that of the rows as if they were units


def test_a_variance_made_by_rare_large_values_is_held():
    """Where 0.05 to 0.5 ones are in a sample on average, among numbers that are alike, as of shares."""
    own, n, rest = prepared({**MEAN, "kind": "variance"}, epsilon=100.0), 1_000, 0.1
    ends = []
    for ones in range(4):
        sums = (0.81 * (n - ones), 0.18 * (n - ones), ones + 0.01 * (n - ones))
        ends.append(tuple(own.of_population(rest, sums, 0.95).values()))
    for p in np.array([0.05, 0.1, 0.15, 0.2, 0.5]) / n:
        v = p * (1.0 - p) * (1.0 - rest) ** 2
        assert sum(stats.binom.pmf(k, n, p) * (low <= v <= high) for k, (low, high) in enumerate(ends)) >= 0.944


def test_of_many_rows_a_variance_has_the_normal_interval_of_the_largest_variance_that_it_allows():
    """That of (x - m)^2 is v (M - v) at most; a fifth of what the level leaves is for m. A root has the roots."""
    x = np.random.default_rng(3).beta(2, 5, 20_000)
    sums = tuple(float(each.sum()) for each in ((1 - x) ** 2, 2 * x * (1 - x), x**2))
    v, most = x.var(), (1.0 - x.mean()) ** 2
    half = stats.norm.isf(0.02) * math.sqrt(v * (most - v) / len(x))
    for kind, power in (("variance", 1.0), ("standard deviation", 0.5)):
        own = prepared({**MEAN, "kind": kind}, epsilon=100.0)
        ends = tuple(own.of_population(v**power, sums, 0.95).values())
        assert ends == pytest.approx(((v - half) ** power, (v + half) ** power), abs=0.15 * half / v ** (1.0 - power))
        clamped = own.of_population(v**power, (sums[0], 0.0, sums[2]), 0.95)
        assert tuple(clamped.values()) == (0.0, 0.25**power)


UNIT_RANGE = {"column": "x", "range": [0, 1]}
WITHOUT = {
    "sums of both signs": {"kind": "sum", "column": "x", "range": [-1, 1]},
    "a kind": {"kind": "distinct count", "column": "x"},
    **{kind: {"kind": kind, "x": UNIT_RANGE, "y": {**UNIT_RANGE, "column": "y"}} for kind in ("correlation", "line")},
    "counts": {"kind": "count", "weighted_by": {"column": "w", "range": [0, 2]}},
    "ratios of both signs": {
        "kind": "ratio",
        "numerator": {"column": "x", "range": [-1, 1]},
        "denominator": {"column": "y", "range": [0, 1]},
        "support": [-1, 1],
    },
}


@pytest.mark.parametrize("asked", WITHOUT.values(), ids=WITHOUT)
def test_a_kind_for_which_none_is_proved_says_so_and_has_none(asked):
    own = prepared({"name": "m", **asked})
    assert isinstance(own.sampled, str)
    assert own.of_population(0.0, (1.0, 1.0), 0.95) == {}


def test_noise_that_is_not_added_has_none():
    asked = {"name": "m", "kind": "sum", "column": "x", "range": [0, 1], "mechanism": "truncate Laplace"}
    own = prepared(asked)
    assert "no interval for the population is proved for" in own.sampled


def test_squares_are_measured_where_the_plan_alone_says_that_they_pay():
    few, many = ({"unit": {"neighbours": "replace", "size": each}} for each in (10, 1000))
    filled = {**MEAN, "missing": 0.0}
    assert not prepared(filled, **few).question.squared
    assert prepared(filled, **many).question.squared
    assert prepared(MEAN).question.squared
    assert not prepared({**MEAN, "weighted_by": {"column": "w", "range": [0, 2]}}).question.squared
    assert not prepared(SHARE).question.squared
    assert prepared(SHARE, **PERSON).question.squared
    plain = parse_plan('budget = {epsilon = 1.0}\nquery = [{name = "m", kind = "mean", column = "x", range = [0, 1]}]')
    assert not plain.query[0].squared


def test_a_plan_that_was_written_measures_squares_where_it_did():
    """The questions of `report_clipping` stand in it then, and must not count for what pays."""
    unit = {"neighbours": "replace", "size": 100}
    asked = {"budget": {"epsilon": 0.6}, "unit": unit, "intervals": "both", "report_clipping": True}
    plan = make_plan({**asked, "query": [{**MEAN, "missing": 0.0}]})
    again = type(plan).model_validate(json.loads(plan_json(plan)))
    assert len(again.query) > 1
    assert again == plan
    assert again.query[0].squared
    assert plan.query[0].squared


@pytest.mark.parametrize("rows", [1, 10])
@pytest.mark.parametrize("mean", [1.0, 1.9, 2.9, 4.5])
def test_rare_large_values_that_may_not_be_drawn_are_reckoned_with(rows, mean):
    """The means of rare ones, few in a sample; the coverage is added up over their number, without any noise."""
    n, own = 1000, prepared(MEAN, 100.0, unit={"column": "person", "rows": rows} if rows > 1 else {})
    some = np.arange(40.0)
    rest, p = n - some, mean / n
    parts = rest / rows, 0 * some, some * rows, rest * (1 - 1 / rows), 0 * some
    x = np.full(40, rows * p / (rows * p + 1 - p))
    found = plausible(own.sampled, parts if rows > 1 else parts[:3], added_noise(own.publisher), 0.95, x)
    assert stats.binom.pmf(some, n, p)[found].sum() > 0.945


RARE = {
    "share": (SHARE, lambda n, some: (n - some, some), 1.0),
    "share of a public number": ({**SHARE, "of": "x > 1"}, lambda n, some: (some,), 1.0),
    "sum": ({"name": "m", "kind": "sum", "column": "x", "range": [0, 7]}, lambda n, some: (7.0 * some,), 7e3),
    "ratio": (
        {"name": "m", "kind": "ratio", "numerator": {"column": "x", "range": [0, 1]}, "support": [0, 1]}
        | {"denominator": {"column": "y", "range": [0.5, 1]}},
        lambda n, some: ((n + some) / 2.0, (some - n) / 2.0),
        1.0,
    ),
}


@pytest.mark.parametrize("kind", RARE)
def test_few_ones_are_not_taken_for_normal(kind):
    """Without noise the number of ones is that of Poisson; of a mean of 0.17 the second route is its law itself."""
    n, some = 1000, np.arange(40.0)
    asked, draw, unit = RARE[kind]
    public = {"unit": {"neighbours": "replace", "size": n}} if "public" in kind else {}
    own = prepared(asked, 100.0, **public)
    noise = AddedNoise(noise=Laplace(scale=1e-6), level=0.95, slack=0.0)
    for mean in (0.03, 0.17, 0.5, 0.9, 1.4, 2.0, 4.5):
        coordinates = tuple(each + 0.0 * some for each in draw(n, some))
        x = np.full(40, unit * mean / n)
        held, narrow = (stats.binom.pmf(some, n, mean / n)[found].sum() for found in (
            plausible(own.sampled, coordinates, noise, 0.95, x),
            np.abs(some - mean) <= 1.96 * math.sqrt(mean * (1.0 - mean / n)),
        ))  # fmt: skip
        assert held > 0.944, mean
        assert mean != 0.17 or narrow < 0.85  # control: the normal law alone


@pytest.mark.parametrize("n", [1, 2, 5, 30, 300])
def test_counts_without_noise_hold_what_is_expected_and_control_half_the_level(n):
    """By adding up the binomial law; the counts take their part of what the level leaves, 0.58 of 0.05, and no more."""
    at, shares = np.arange(n + 1.0), np.concatenate([np.geomspace(1e-4, 0.3, 60), np.linspace(0.3, 1.0, 60)])

    def least(rows, each=1.0, level=0.95, steps=1):
        """The least coverage of sums of binomial numbers, of `steps` for each unit that add up to `each`."""
        sampled = SampledCounts(rows=round(each), single=each == 1.0, measured="")
        sums = np.arange(steps * n + 1.0)
        lower, upper = expected_counts(*[sums * each / steps] * 2, rows, sampled, level)
        x = each * n * shares[:, None]
        held = (lower <= x) & (x <= upper)
        return float((stats.binom.pmf(sums, steps * n, shares[:, None]) * held).sum(axis=1).min())

    for rows in (n, 3.5 * n, math.inf):
        assert least(rows) >= 1.0 - 0.58 * 0.05 - 1e-9
        assert least(rows, 3.0) >= 1.0 - 0.58 * 0.05 - 1e-9
        assert least(rows, 3.0, steps=2) >= 1.0 - 0.58 * 0.05 - 1e-9
        assert least(rows, level=0.2) >= 1.0 - 0.58 * 0.8 - 1e-9
    lower, upper = expected_counts(at, at, n, SampledCounts(rows=1, single=True, measured=""), 0.95)
    assert (lower <= at).all()
    assert (at <= upper).all()
    assert n < 300 or least(n, level=0.9) < 0.95


def test_an_interval_for_the_population_is_not_narrower_than_that_for_the_table():
    cell = Cell(
        question=0, key=(), part="", value=0.5, lower=0.2, upper=0.6, epsilon=1.0, delta=0.0,
        population_lower=0.3, population_upper=0.9,
    )  # fmt: skip
    found = with_own_interval(cell)
    assert (found.population_lower, found.population_upper) == (0.2, 0.9)
