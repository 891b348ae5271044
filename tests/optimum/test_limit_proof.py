"""A limit proves what it says from its own numbers, and nothing more."""

import dataclasses
import json
import math
import time
from functools import cache

import numpy as np
import pytest
from flint import arb

import rangebound as rb
from rangebound.errors import CertificateInvalid
from rangebound.optimum import limit_proof
from rangebound.optimum.limit_proof import Limit, cheapest
from rangebound.optimum.staircase_columns import price
from rangebound.values.ball import precision
from tests.optimum.designs import check_limit
from tests.optimum.test_staircase_columns import windows

QUERY = rb.Query(range=rb.Interval(0, 3), sensitivity=1.0)
EIGHT = rb.Interval(0, 8)


def made(inputs, prior, prices, answers=EIGHT, **others):
    query = rb.Query(range=answers, sensitivity=1.0)
    given = {"epsilon": 1.0, "objective": "mae", "at": "worst", **others}
    return Limit(query=query, inputs=inputs, prior=prior, prices=prices, **given)


@pytest.fixture(scope="module", params=[("mae", "worst"), ("mse", "worst"), ("mae", "average"), ("mse", "average")])
def limit(request):
    return limited(*request.param)


@cache
def limited(objective, at):
    return rb.limit(query=QUERY, epsilon=0.5, objective=objective, at=at)


@pytest.mark.few(1)
def test_it_is_proved_again_from_its_text_and_a_number_changed_upward_is_refused(limit):
    again, data = Limit.from_json(limit.to_json()), json.loads(limit.to_json())
    assert again == limit
    assert again.verify()
    assert again.value == limit.value > 0.0
    for field, numbers in (("prior", limit.prior), ("prices", limit.prices)):
        for i in range(0, len(numbers), 5):
            more = [x + (i == at) * 1e-4 * max(map(abs, numbers)) for at, x in enumerate(numbers)]
            with pytest.raises(CertificateInvalid):
                dataclasses.replace(limit, **{field: more}).verify()
            if field == "prices":
                with pytest.raises(CertificateInvalid, match="no other value"):
                    Limit.from_json(json.dumps({**data, field: more}))
    for name in ("value", "epsilon"):
        with pytest.raises(CertificateInvalid):
            Limit.from_json(json.dumps({**data, name: 1.001 * data[name]})).verify()


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "change",
    [
        {"inputs": [-0.5, 3.0]},
        {"inputs": [3.0, 0.0]},
        {"sensitivity": 0.5},
        {"prior": [0.5] * 3},
        {"format": "rangebound limit 2"},
        {"at": "somewhere"},
        {"subdivisions": 0},
        {"more": 1},
    ],
    ids=str,
)
def test_what_is_not_its_form_is_refused(limit, change):
    data = json.loads(limit.to_json())
    if "sensitivity" in change:
        data["query"] |= change
    else:
        data |= change
    with pytest.raises(CertificateInvalid):
        Limit.from_json(json.dumps(data)).verify()


def test_points_of_a_grid_are_neighbours_by_their_own_distance():
    """Not by that of the points between them, which are in no input's place: 0 and 20 are not one apart."""
    twenty = rb.Grid(step=20, within=rb.Interval(0, 20))
    found = rb.limit(query=rb.Query(range=twenty, sensitivity=20.0), epsilon=1.0)
    counts = rb.Query(range=rb.Grid(step=1, within=rb.Interval(0, 20)), sensitivity=1.0)
    assert found.inputs == (0.0, 20.0)
    with pytest.raises(CertificateInvalid):
        dataclasses.replace(found, query=counts).verify()
    assert dataclasses.replace(found, query=dataclasses.replace(counts, sensitivity=20.0)).verify()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"subdivisions": 10**15}, "pairs of an input"),
        ({"subdivisions": 10**5000}, "pairs of an input"),  # more digits than Python writes
        ({"subdivisions": 60_000, "inputs": [0.0, 1.0]}, "pairs of an input"),
        ({"inputs": [i / 2000 for i in range(5000)]}, "pairs of an input"),
        ({"epsilon": 701.0}, "at most 700"),  # its powers fill the memory
        ({"epsilon": 1e300}, "at most 700"),
        ({"inputs": 1.0}, "must be a list of numbers"),
        ({"prior": [[1.0]]}, "must be a list of numbers"),
        ({"prices": 0.5}, "must be a list of numbers"),
    ],
    ids=["subdivisions", "digits", "numbers", "inputs", "epsilon", "huge", "no inputs", "no prior", "no prices"],
)
def test_a_proof_that_would_take_too_long_is_refused_before_it_begins(change, words):
    found = limited("mse", "worst")
    if words == "pairs of an input":
        many = len(change.get("inputs", found.inputs))
        change = {"prior": [1.0] * many, "prices": [0.0] * many, **change}
    with pytest.raises((CertificateInvalid, rb.ArgumentError), match=words):
        dataclasses.replace(found, **change).verify()


@pytest.mark.slow
def test_a_proof_takes_no_more_digits_however_many_levels_its_staircases_have(monkeypatch):
    """What a rounded jump loses is a part of the highest level: digits for all levels took minutes at epsilon 20."""
    bits = []
    monkeypatch.setattr(limit_proof, "precision", lambda most: bits.append(most) or precision(most))
    for width in (10, 100, 320):
        answers = rb.Grid(step=1, within=rb.Interval(0, width))
        found = rb.limit(query=rb.Query(range=answers, sensitivity=1.0), epsilon=2.0, progress=False)
        assert set(bits) == {128 + 6 + 3 + 8}
        with pytest.raises(CertificateInvalid):  # a ten-billionth too much is still seen, 600 levels of e away
            dataclasses.replace(found, prices=[each + 1e-10 for each in found.prices]).verify()
        bits.clear()


def test_an_average_over_an_unbounded_range_is_refused():
    """Its finite span may hold every input: there is no uniform true answer all the same."""
    answers = rb.Union((0, 3), (4, math.inf))
    nothing = made([0.0, 1.0], [0.0, 0.0], [0.0, 0.0], answers, at="average", width=0.5)
    with pytest.raises(CertificateInvalid, match="bounded range"):
        nothing.verify()


def test_inputs_are_found_among_many_spans_without_a_look_at_each():
    """100,000 spans and 1,000 inputs were a hundred million comparisons of fractions."""
    spans = [(2.0 * i, 2.0 * i + 1.0) for i in range(20_000)]
    inputs = [spans[-1][0] + i / 1024 for i in range(1024)]
    found = made(inputs, [1 / 1024] * 1024, [0.0] * 1024, rb.Union(*spans))
    begin = time.process_time()
    found._check_points()
    assert time.process_time() - begin < 1.0
    for outside in (-0.5, 1.5, 39_999.5):  # below all spans, in a gap, beyond the last
        with pytest.raises(CertificateInvalid, match="must lie in the range"):
            dataclasses.replace(found, inputs=sorted([outside, *inputs[1:]]))._check_points()


def test_a_prior_that_leaves_the_uniform_one_is_refused():
    found = rb.limit(query=QUERY, epsilon=1.5, at="average")
    with pytest.raises(CertificateInvalid, match="uniform"):
        dataclasses.replace(found, at="average", prior=[0.0, *found.prior[2:], 2.0 * found.prior[0]]).verify()
    with pytest.raises(CertificateInvalid, match="overlap"):
        dataclasses.replace(found, width=0.0).verify()


def in_balls(costs, first, rise):
    """The recursion of `cheapest` in balls: the least sum of costs times a staircase."""
    total, fall, nothing, up, down = costs[0], 1 / rise, arb(0), [arb(0)], [arb(0)]
    for s in range(1, len(costs)):
        before_up = nothing.min(up[first[s]]).min(down[s - 1])
        before_down = nothing.min(down[first[s]]).min(up[s - 1])
        up.append(up[s - 1].min(fall * (total + before_up) - total))
        down.append(down[s - 1].min(rise * (total + before_down) - total))
        total += costs[s]
    return total + nothing.min(up[-1]).min(down[-1])


@pytest.mark.parametrize("seed", range(10))
def test_whole_numbers_balls_and_doubles_find_the_same_staircase(seed):
    rng = np.random.default_rng(seed)
    first, costs, epsilon = windows(rng, 9), rng.normal(size=9), float(rng.choice([0.01, 0.7, 3.0, 40.0]))
    whole = [round(2.0**80 * each) for each in costs.tolist()]
    powers = [limit_proof._power(each, 300) for each in (epsilon, -epsilon)]
    found = cheapest(whole, first.tolist(), *powers, 300)
    with precision(2000):
        balls = in_balls([arb(each) for each in whole], first.tolist(), arb(epsilon).exp())
        size = arb(9 * epsilon).exp()
        assert found <= balls  # rounded down at every jump, by less than a unit, which grows as levels do
        assert balls - found < 40 * size
    assert found / 2.0**80 == pytest.approx(price(costs[:, None], first, epsilon).least[0], rel=1e-12)


@pytest.mark.parametrize("exponent", [-700.0, -1.0, 1e-300, 2.0, 700.0])
def test_a_power_of_e_lies_between_two_whole_numbers(exponent):
    least, most = limit_proof._power(exponent, 200)
    with precision(3000):
        exact = arb(exponent).exp() * arb(2) ** 200
        assert arb(least) <= exact
        assert exact <= arb(most)
    assert most - least <= 2


def test_what_is_short_by_one_unit_of_the_check_is_refused():
    """A price is the cheapest staircase's to the last of many digits: one double more, and it is not proved."""
    half = 1.0 / (1.0 + np.exp(1.0))  # the error of the best table on 0 and 1, in doubles
    proved, refused = half, half
    for _ in range(4):
        proved, refused = np.nextafter(proved, 0.0), np.nextafter(refused, 1.0)
    found = made([0.0, 1.0], [0.5, 0.5], [proved / 2, proved / 2], rb.Interval(0, 1))
    assert found.verify()
    with pytest.raises(CertificateInvalid, match="cheaper than its price"):
        dataclasses.replace(found, prices=[refused / 2, refused / 2]).verify()


def test_rounding_to_the_other_side_would_pass_what_is_not_proved():
    """Control: costs whose least sum is just below 0 are seen to be so, and only because they are rounded down."""
    rise, fall = (limit_proof._power(each, 40) for each in (1.0, -1.0))
    price = math.ceil(1e6 / math.e)
    assert cheapest([10**6, -price], [0, 0], rise, fall, 40) < 0
    assert -(-(10**6) * fall[1] >> 40) - price >= 0  # the same sum, rounded up


def test_squared_error_is_limited_between_the_points_that_are_checked():
    """A single output in the middle of two points has less error than either: the limit must be below it."""
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    found = rb.limit(query=query, epsilon=1e-3, objective="mse")
    assert 0.249 < found.value <= 0.25  # publishing 1/2 always has 1/4


def test_a_proof_that_is_its_own_mirror_image_is_checked_on_one_side():
    best = rb.limit(query=rb.Query(range=rb.Interval(0, 4), sensitivity=1.0), epsilon=1.0, progress=False)
    parts = [round(2.0**39 * (a + b)) for a, b in zip(best.prior, reversed(best.prior), strict=True)]
    parts[len(parts) // 2] += 2**40 - sum(parts)
    prior = [each / 2**40 for each in parts]
    prices = [0.499 * (a + b) for a, b in zip(best.prices, reversed(best.prices), strict=True)]
    found = dataclasses.replace(best, prior=prior, prices=prices)
    assert found._is_mirrored()
    assert found.verify()
    half, whole = found._different_outputs(), found._outputs()
    assert len(half) == (len(whole) + 1) // 2
    assert {*half, *(4 - each for each in half)} == set(whole)
    at = len(prices) - 2  # control: beyond the middle, where a check of one side alone would not look
    other = dataclasses.replace(found, prices=[1.1 * each if s == at else each for s, each in enumerate(prices)])
    assert not other._is_mirrored()
    assert other._different_outputs() == whole
    with pytest.raises(CertificateInvalid, match="cheaper than its price"):
        other.verify()


@pytest.mark.parametrize("objective", ["mae", "mse"])
@pytest.mark.parametrize(
    ("inputs", "prior", "best"),
    [
        ([2.0, 3.0], [0.5, 0.5], 0.5),
        ([2.0, 2.75, 3.5], [0.25, 0.5, 0.25], 0.5),
        ([1.0, 2.0, 6.0, 7.0], [0.25] * 4, 0.25),
        ([2.0, 4.0], [0.5, 0.5], 0.0),  # not neighbours: every error may be 0
    ],
)
def test_the_independent_program_accepts_and_refuses_the_same_limits(objective, inputs, prior, best):
    """From prices that both accept up to prices that both refuse, close to where it changes."""

    def here(price):
        found = made(inputs, prior, [price] * len(inputs), epsilon=2.0, objective=objective, subdivisions=3)
        try:
            assert found.verify()
        except CertificateInvalid:
            with pytest.raises(ValueError, match="prices: not proved"):
                check_limit(json.loads(found.to_json()))
            return False
        assert check_limit(json.loads(found.to_json())) == found.value
        return True

    low, high = -1.0, best + 1e-9
    assert (here(low), here(high)) == (True, False)
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if here(middle) else (low, middle)
    assert here(low) is True
