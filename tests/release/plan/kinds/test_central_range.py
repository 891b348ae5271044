"""The range where most values lie: a pair of quantiles that is always in order."""

import math
import random

import numpy as np
import pyarrow as pa
import pytest

from rangebound.errors import PlanError
from rangebound.release import check_certificate, explain, make_plan, release
from rangebound.release.noise.quantile_publisher import QuantilePublisher
from rangebound.release.output.report import report
from rangebound.release.plan.kinds.central_range import CentralRange
from rangebound.release.prepare import prepare
from tests.thinning import crossed

WAIT = {"name": "usual", "kind": "central range", "column": "wait", "range": [0, 100], "step": 1.0}


def plan(epsilon=90.0, delta=0.0, **fields):
    return make_plan({"budget": {"epsilon": epsilon, "delta": delta}, "query": [{**WAIT, **fields}]})


def waits(count=4000):
    chance = random.Random(5)
    return [min(chance.expovariate(1 / 20), 130.0) for _ in range(count)]


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_it_is_the_pair_of_quantiles_that_numpy_finds(share):
    values = waits()
    lower, upper = release(plan(share=share), pa.table({"wait": values}), ledger=None).rows()
    assert [lower["part"], upper["part"]] == ["lower", "upper"]
    for row, level in ((lower, (1 - share) / 2), (upper, (1 + share) / 2)):
        assert row["value"] == pytest.approx(np.quantile(np.clip(values, 0, 100), level), abs=1.0)
        assert row["lower"] <= row["value"] <= row["upper"]


@crossed({"epsilon": [0.01, 50.0], "values": [[], [7.0], [None, math.nan, math.inf], [50.0] * 9, [-5.0, 200.0]]})
def test_it_is_in_order_in_range_and_certified_whatever_the_table(values, epsilon):
    made = release(plan(epsilon=epsilon), pa.table({"wait": pa.array(values, pa.float64())}), ledger=None)
    lower, upper = made.rows()
    assert 0.0 <= lower["value"] <= upper["value"] <= 100.0
    assert check_certificate(made.certificate, made.to_bytes()).numbers == 2


def read(publisher, *values):
    (found,) = publisher.read([[(value, 0.0, 100.0) for value in values]])
    return [each.values[0] for each in found]


def test_points_that_were_drawn_the_wrong_way_round_are_put_in_order():
    publisher = prepare(plan()).publishers[0]
    assert isinstance(publisher, QuantilePublisher)
    assert read(publisher, 80.0, 20.0) == read(publisher, 20.0, 80.0) == [20.0, 80.0]


def test_control_quantiles_stay_as_they_were_drawn():
    publisher = prepare(plan(kind="quantiles", levels=[0.05, 0.95])).publishers[0]
    assert read(publisher, 80.0, 20.0) == [80.0, 20.0]


def test_rank_errors_hold_together():
    """In order, a number may be the one that was drawn for the other level, so both errors must hold."""
    alone = prepare(plan(kind="quantiles", levels=[0.05, 0.95])).publishers[0].read([[(1.0, 0.0, 9.0)] * 2])
    both = prepare(plan()).publishers[0].read([[(1.0, 0.0, 9.0)] * 2])
    assert both[0][0].rank_error == both[0][1].rank_error > alone[0][0].rank_error


def test_the_levels_are_the_decimals_of_the_plan():
    assert CentralRange(name="q", column="x", range=(0, 1), share=0.8).asked == (0.1, 0.9)


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, 0.995])
def test_a_share_that_is_none_or_all_is_refused(share):
    with pytest.raises(PlanError, match="share"):
        plan(share=share)


def test_it_is_explained_and_reported():
    asked = plan(delta=1e-6, epsilon=1.0, share=0.5)
    assert "quantiles at levels 0.25 and 0.75" in explain(asked)
    assert "usual: central range" in report(release(asked, pa.table({"wait": waits(50)}), ledger=None))
