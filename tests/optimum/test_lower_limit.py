"""The limits of the published table, and that nothing is below them."""

import dataclasses
import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import rangebound as rb
from rangebound.optimum.lower_limit import KnownColumns
from rangebound.optimum.staircase_columns import Columns
from tests.thinning import crossed

CHECKER = Path(__file__).parents[2] / "examples" / "check_limit.py"
QUERY = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)


@pytest.mark.parametrize(("epsilon", "wanted"), [(0.2, 2.5597), (0.5, 1.4823), (1.0, 0.8522), (2.0, 0.4108)])
def test_the_limits_on_ten_sensitivities(epsilon, wanted):
    assert rb.limit(query=QUERY, epsilon=epsilon).value == pytest.approx(wanted, rel=1e-3)


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


@crossed({"seed": range(4), "objective": ["mse", "mae"]})
def test_no_mechanism_of_a_ranking_is_below_the_limit(seed, objective):
    query, epsilon = queries(seed), (0.3, 0.8, 1.5, 3.0)[seed]
    found = rb.limit(query=query, epsilon=epsilon, objective=objective)
    ranking = rb.choose(query=query, epsilon=epsilon, objective=objective)
    assert 0.3 * ranking.choices[0].score < found.value < ranking.choices[0].score


@pytest.mark.parametrize("objective", ["mae", "mse"])
def test_no_mechanism_is_below_the_limit_on_average(objective):
    query = queries(1)
    found = rb.limit(query=query, epsilon=1.0, objective=objective, at="average")
    best = rb.choose(query=query, epsilon=1.0, objective=objective, at="average").choices[0].score
    assert 0.5 * best < found.value < best


def test_it_falls_with_epsilon_and_follows_the_unit():
    wide = rb.Query(range=rb.Interval(0, 80), sensitivity=16.0)
    narrow = rb.Query(range=rb.Interval(0, 5), sensitivity=1.0)
    values = [rb.limit(query=narrow, epsilon=epsilon).value for epsilon in (0.5, 1.0, 2.0)]
    assert values == sorted(values, reverse=True)
    assert rb.limit(query=wide, epsilon=1.0).value / values[1] == pytest.approx(16.0, rel=1e-3)


def test_a_wide_range_has_the_limit_of_a_part_of_it():
    wide = rb.limit(query=rb.Query(range=rb.Interval(0, 500), sensitivity=1.0), epsilon=1.0).value
    assert 0.9 < wide < 1.0


def test_gaps_wider_than_the_sensitivity_leave_one_part():
    apart = rb.Query(range=rb.Union((0, 1), (5, 8)), sensitivity=1.0)
    alone = rb.Query(range=rb.Interval(5, 8), sensitivity=1.0)
    ratio = rb.limit(query=apart, epsilon=1.0).value / rb.limit(query=alone, epsilon=1.0).value
    assert ratio == pytest.approx(1.0, rel=2e-2)


@pytest.mark.parametrize("objective", ["mae", "mse"])
def test_an_average_over_parts_is_that_of_all_of_them(objective):
    """Only the longest part was counted, the others as 0."""
    apart = rb.Query(range=rb.Union((0, 1), (5, 8)), sensitivity=1.0)
    found = rb.limit(query=apart, epsilon=1.0, objective=objective, at="average")
    alone = [
        rb.limit(query=rb.Query(range=part, sensitivity=1.0), epsilon=1.0, objective=objective, at="average").value
        for part in (rb.Interval(0, 1), rb.Interval(5, 8))
    ]
    assert found.value == pytest.approx((alone[0] + 3.0 * alone[1]) / 4.0, rel=1e-2)
    assert runpy.run_path(str(CHECKER))["check_limit"](json.loads(found.to_json())) == found.value
    for i in (0, len(found.prices) - 1):  # each part is proved
        prices = list(found.prices)
        prices[i] += 1e-3 * max(map(abs, prices))
        with pytest.raises(rb.CertificateInvalid):
            dataclasses.replace(found, prices=prices).verify()


@pytest.mark.parametrize(
    ("answers", "least"),
    [(rb.Interval(0, 60), 0.88), (rb.Grid(step=1, within=rb.Interval(0, 300)), 0.83)],
    ids=str,
)
def test_an_average_over_a_wide_range_is_over_all_of_it(answers, least):
    """Only the first 161 inputs were counted, the others as 0."""
    query = rb.Query(range=answers, sensitivity=1.0)
    found = rb.limit(query=query, epsilon=1.0, at="average")
    assert len(found.inputs) > 161
    best = rb.choose(query=query, epsilon=1.0, at="average").choices[0].score
    assert least < found.value < best


def test_it_says_whether_the_search_was_closed():
    found = rb.limit(query=rb.Query(range=rb.Interval(0, 2), sensitivity=1.0), epsilon=1.0)
    assert found.closed is True
    assert rb.Limit.from_json(found.to_json()).closed is None


def test_an_open_range_has_no_limit():
    with pytest.raises(rb.ArgumentError, match="must be bounded"):
        rb.limit(query=rb.Query(range=rb.Interval(0, float("inf")), sensitivity=1.0), epsilon=1.0)


@pytest.mark.parametrize(("objective", "spread"), [("mae", 1.0), ("mse", 1.0), ("mae", 2.0)])
def test_a_limit_that_starts_from_a_table_is_the_same(objective, spread):
    """Its inputs are those of the table, or (where the table has more) some of them."""
    query = rb.Query(range=rb.Interval(0, 5), sensitivity=spread)
    table = rb.optimal(query=query, epsilon=1.0, objective=objective, shape="free", step=spread / 32)
    alone = rb.limit(query=query, epsilon=1.0, objective=objective)
    assert set(alone.inputs) <= set(table.inputs)
    assert table.limit.value == pytest.approx(alone.value, rel=1e-3)
    assert table.limit.verify()


def test_staircases_of_a_table_hold_at_every_point_of_their_cells():
    columns = Columns(levels=np.array([[0, 0, 1]]), outputs=np.array([1]))
    known = KnownColumns(
        inputs=[0.0, 1.0, 2.0],
        outputs=[0.5, 1.5],
        columns=columns,
        prior=np.array([0.5, 0.2, 0.3]),
        prices=np.array([1.0, 2.0, 4.0]),
    )
    prior, prices = known.dual_on(np.array([0.0, 1.5, 2.0]))
    assert prior == pytest.approx(np.array([[0.5 + 0.2 / 3, 0.4 / 3, 0.3]]))
    assert prices == pytest.approx([1.0 + 2.0 / 3, 4.0 / 3, 4.0])
    assert known.on(np.array([0.0, 1.4, 1.6])).levels.tolist() == [[0, 0, 1], [0, 0, 1]]
    found = known.on(np.array([0.0, 2.0]))
    assert found.levels.tolist() == [[0, 1], [0, 1]]
    assert sorted(found.outputs.tolist()) == [0, 1]


@pytest.mark.parametrize(("upper", "sensitivity"), [(7.7, 1.0), (3.9, 1.3), (7.3, 0.7)])
def test_the_limit_of_a_range_uses_both_of_its_ends(upper, sensitivity):
    """A lattice from the lower end alone left up to a step out; 3.9 is a little less than three times 1.3."""
    found = rb.limit(query=rb.Query(range=rb.Interval(0, upper), sensitivity=sensitivity), epsilon=0.2)
    assert found.inputs[0] == 0.0
    assert found.inputs[-1] == pytest.approx(upper, rel=1e-9)
    assert found.verify()
    narrower = rb.limit(query=rb.Query(range=rb.Interval(0, 0.99 * upper), sensitivity=sensitivity), epsilon=0.2)
    assert narrower.value < found.value


@pytest.mark.parametrize(
    ("answers", "sensitivity", "epsilon", "least"),
    [
        (rb.Grid(step=1, within=rb.Interval(0, 320)), 1.0, 1.0, 0.849),  # two-sided geometric noise has 0.8509
        (rb.Grid(step=1, within=rb.Interval(0, 240)), 1.0, 4.0, 0.0366),  # 0.03664
        (rb.Union((0, 21.6), (22.5, 36.2)), 1.0, 0.053, 8.5),  # the wider part alone has 6.9
    ],
    ids=str,
)
def test_inputs_with_one_neighbour_on_a_side_have_a_limit_that_is_worth_something(answers, sensitivity, epsilon, least):
    assert rb.limit(query=rb.Query(range=answers, sensitivity=sensitivity), epsilon=epsilon).value > least


def test_a_squared_error_over_a_gap_is_limited_nearly_as_without_one():
    """A gap that is hardly one: its limit was 20 % lower where outputs were as far apart as the gap is wide."""
    whole = rb.limit(query=rb.Query(range=rb.Interval(0, 6), sensitivity=1.0), epsilon=1.5, objective="mse")
    query = rb.Query(range=rb.Union((0, 2), (2.4, 6)), sensitivity=1.0)
    found = rb.limit(query=query, epsilon=1.5, objective="mse")
    assert found.closed
    assert rb.Limit.from_json(found.to_json()).verify()
    assert 0.9 * whole.value < found.value < 1.1 * whole.value


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


def test_an_average_over_parts_with_gaps_and_without_is_that_of_all_of_them():
    """Of parts with more and with fewer outputs: each is proved at the outputs of both."""
    query = rb.Query(range=rb.Union((0, 1), (1.5, 2), (5, 8)), sensitivity=1.0)
    found = rb.limit(query=query, epsilon=1.0, objective="mse", at="average")
    alone = [
        rb.limit(query=rb.Query(range=part, sensitivity=1.0), epsilon=1.0, objective="mse", at="average").value
        for part in (rb.Union((0, 1), (1.5, 2)), rb.Interval(5, 8))
    ]
    assert found.value == pytest.approx((1.5 * alone[0] + 3.0 * alone[1]) / 4.5, rel=1e-2)
    assert runpy.run_path(str(CHECKER))["check_limit"](json.loads(found.to_json())) == found.value


def test_a_limit_over_a_union_is_worth_something_where_epsilon_is_large():
    """With 32 inputs to a sensitivity it was 0.00467: the stairs of the best noise are a 27th of one wide."""
    query = rb.Query(range=rb.Union((1.855, 1.957), (2.094, 2.25)), sensitivity=0.256)
    assert rb.limit(query=query, epsilon=6.5).value > 0.0056
