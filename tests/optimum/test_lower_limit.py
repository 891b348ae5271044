"""The limits of the published table, and that nothing is below them."""

import dataclasses
import json
import time

import numpy as np
import pytest

import rangebound as rb
from rangebound.optimum.limit_proof import LimitedError, Over
from rangebound.optimum.lower_limit import _INPUTS, _inputs
from tests.optimum.designs import check_limit
from tests.thinning import crossed

QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "wanted"), [(0.2, 2.5597), (0.5, 1.4823), (1.0, 0.8522), (2.0, 0.4108)])
def test_the_limits_on_ten_sensitivities(epsilon, wanted):
    assert rb.limit(query=QUERY, epsilon=epsilon).value == pytest.approx(wanted, rel=1e-3)


def test_few_narrow_ranges_need_a_lattice_from_each_end():
    """Where sensitivity and epsilon are large, these are hundreds of inputs, and the search took half a minute."""
    widths = [8.5, *np.random.default_rng(3).uniform(5.5, 30.0, 40).tolist()]
    rests, twice = [], 0
    for width in widths:
        query = rb.Query(range=rb.Interval(0, width), sensitivity=5.0)
        inputs, apart, interleaved = _inputs(query, 4.5, LimitedError.MAE, Over.WORST, _INPUTS)
        rests.append(width - inputs[-1])
        assert interleaved or (rests[-1] <= 4.1e-3 * width and 45 <= 5.0 / apart < 65)
        twice += interleaved
    assert rests[0] < 1e-9
    assert twice <= 4  # with 64 inputs to a sensitivity it was every second range


@pytest.mark.slow
def test_the_limit_of_a_narrow_range_takes_seconds():
    begun = time.process_time()
    found = rb.limit(query=rb.Query(range=rb.Interval(0, 8.5), sensitivity=5.0), epsilon=4.5)
    assert time.process_time() - begun < 10.0
    assert found.closed


def queries(seed):
    rng = np.random.default_rng(seed)
    lower = float(rng.uniform(-5.0, 5.0))
    if seed % 2:
        return rb.Query(
            range=rb.Interval(lower, lower + float(rng.uniform(1.0, 9.0))), sensitivity=float(rng.uniform(0.4, 2.0))
        )
    return rb.Query(
        range=rb.Union((lower, lower + 1.3), (lower + 1.9, lower + 3.1)), sensitivity=float(rng.uniform(0.8, 2.0))
    )


@pytest.mark.few(1)
@crossed({"seed": range(4), "objective": ["mse", "mae"], "at": ["worst", "average"]})
def test_no_mechanism_of_a_ranking_is_below_the_limit(seed, objective, at):
    asked = {"query": queries(seed), "epsilon": (0.3, 0.8, 1.5, 3.0)[seed], "objective": objective, "at": at}
    best = rb.choose(**asked).choices[0].score
    assert 0.3 * best < rb.limit(**asked).value < best


@pytest.mark.slow
def test_it_follows_the_unit():
    wide, narrow = (rb.Query(range=rb.Interval(0, 5 * unit), sensitivity=unit) for unit in (16.0, 1.0))
    ratio = rb.limit(query=wide, epsilon=1.0).value / rb.limit(query=narrow, epsilon=1.0).value
    assert ratio == pytest.approx(16.0, rel=1e-3)


@pytest.mark.slow
def test_gaps_wider_than_the_sensitivity_leave_one_part():
    apart = rb.Query(range=rb.Union((0, 1), (5, 8)), sensitivity=1.0)
    alone = rb.Query(range=rb.Interval(5, 8), sensitivity=1.0)
    ratio = rb.limit(query=apart, epsilon=1.0).value / rb.limit(query=alone, epsilon=1.0).value
    assert ratio == pytest.approx(1.0, rel=2e-2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("near", "objective"),
    [(rb.Interval(0, 1), "mae"), (rb.Interval(0, 1), "mse"), (rb.Union((0, 1), (1.5, 2)), "mse")],
    ids=["mae", "mse", "gap"],
)
def test_an_average_over_parts_is_that_of_all_of_them(near, objective):
    """Only the longest part was counted, the others as 0. With a gap, parts have more and fewer outputs."""
    far, asked = rb.Interval(5, 8), {"epsilon": 1.0, "objective": objective, "at": "average"}
    found = rb.limit(query=rb.Query(range=rb.Union(*near.spans, *far.spans), sensitivity=1.0), **asked)
    alone = [rb.limit(query=rb.Query(range=part, sensitivity=1.0), **asked).value for part in (near, far)]
    size = sum(upper - lower for lower, upper in near.spans)
    assert found.value == pytest.approx((size * alone[0] + 3.0 * alone[1]) / (size + 3.0), rel=1e-2)
    assert check_limit(json.loads(found.to_json())) == found.value
    for i in (0, len(found.prices) - 1) if len(near.spans) == 1 else ():  # each part is proved
        prices = list(found.prices)
        prices[i] += 1e-3 * max(map(abs, prices))
        with pytest.raises(rb.CertificateInvalid):
            dataclasses.replace(found, prices=prices).verify()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "least"), [(rb.Interval(0, 60), 0.88), (rb.Grid(step=1, within=rb.Interval(0, 300)), 0.83)], ids=str
)
def test_an_average_over_a_wide_range_is_over_all_of_it(answers, least):
    """Only the first 161 inputs were counted, the others as 0."""
    query = rb.Query(range=answers, sensitivity=1.0)
    found = rb.limit(query=query, epsilon=1.0, at="average")
    assert len(found.inputs) > 161
    best = rb.choose(query=query, epsilon=1.0, at="average").choices[0].score
    assert least < found.value < best


def test_an_open_range_has_no_limit():
    with pytest.raises(rb.ArgumentError, match="must be bounded"):
        rb.limit(query=rb.Query(range=rb.Interval(0, float("inf")), sensitivity=1.0), epsilon=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "spread"), [("mae", 1.0), ("mse", 1.0), ("mae", 2.0)])
def test_a_limit_that_starts_from_a_table_is_the_same(objective, spread):
    """Its inputs are those of the table, or (where the table has more) some of them."""
    query = rb.Query(range=rb.Interval(0, 5), sensitivity=spread)
    table = rb.optimal(query=query, epsilon=1.0, objective=objective, shape="free", step=spread / 32)
    alone = rb.limit(query=query, epsilon=1.0, objective=objective)
    assert set(alone.inputs) <= set(table.inputs)
    assert table.limit.value == pytest.approx(alone.value, rel=1e-3)
    assert table.limit.verify()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answers", "sensitivity", "epsilon", "least"),
    [
        # with 32 inputs to a sensitivity it was 0.00467: the stairs of the best noise are a 27th of one wide
        (rb.Union((1.855, 1.957), (2.094, 2.25)), 0.256, 6.5, 0.0056),
        (rb.Grid(step=1, within=rb.Interval(0, 320)), 1.0, 1.0, 0.849),  # two-sided geometric noise has 0.8509
        (rb.Grid(step=1, within=rb.Interval(0, 240)), 1.0, 4.0, 0.0366),  # 0.03664
        (rb.Union((0, 21.6), (22.5, 36.2)), 1.0, 0.053, 8.5),  # the wider part alone has 6.9
        (rb.Interval(0, 500), 1.0, 1.0, 0.9),  # staircase noise has 0.9595
    ],
    ids=str,
)
def test_a_limit_is_worth_something(answers, sensitivity, epsilon, least):
    found = rb.limit(query=rb.Query(range=answers, sensitivity=sensitivity), epsilon=epsilon).value
    assert least < found < sensitivity / epsilon


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("answers", "least"),
    [
        (rb.Union((0, 1e-6), (0.2, 0.2 + 1e-6), (0.5, 0.5 + 1e-6)), 0.0491),  # most inputs are next to each other
        (rb.Union((0, 1), (1.9999, 2)), 0.5),
        (rb.Union((0, 1e-9), (1.0 - 1e-9, 1)), 0.1963),
    ],
    ids=str,
)
def test_gaps_of_hostile_ranges_have_few_outputs_and_a_limit(answers, least):
    """Two neighbours d apart alone have d^2 e / (1 + e)^2: randomised response, which publishes means."""
    query = rb.Query(range=answers, sensitivity=1.0)
    found = rb.limit(query=query, epsilon=1.0, objective="mse")
    assert found.value > least
    assert found.subdivisions <= 128
    best = rb.choose(query=query, epsilon=1.0, objective="mse").choices[0].score
    assert found.value < best
