"""The timing test sees a loop that depends on the answer, and nothing where there is nothing."""

import numpy as np
import pytest
from scipy.stats import mannwhitneyu

import rangebound as rb
from rangebound.audit import timing
from rangebound.audit.timing import _area

SURE = 1.0 - 1e-6  # limits 6.6 standard deviations wide; the loop is seen all the same


def looping(answer: float) -> float:
    """The control: more turns for a larger answer."""
    total = 0.0
    for _ in range(20 + int(40 * answer)):
        total += 1.0
    return total


def test_a_loop_is_seen():
    found = timing(looping, pair=(0.0, 5.0), draws=4000, confidence=SURE)
    assert found.leaks
    assert found.area > 0.8
    assert "the time distinguishes the answers" in str(found)
    assert timing(looping, pair=(5.0, 0.0), draws=4000).area < 0.2


def test_our_draw_takes_the_same_time_for_all_answers():
    m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
    found = timing(m.release, pair=(0.0, 50.0), draws=6000, confidence=SURE)
    assert not found.leaks, str(found)
    assert "no difference in time was found" in str(found)


def test_the_area_is_that_of_mann_and_whitney():
    draw = np.random.default_rng(1)
    times, second = draw.integers(0, 50, 500).astype(float), draw.random(500) < 0.4
    expected = mannwhitneyu(times[second], times[~second]).statistic / (second.sum() * (~second).sum())
    assert _area(times, second) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "change", [{"pair": (0.0, 0.0)}, {"draws": 3}, {"confidence": 1.5}, {"call": 3.0}], ids=lambda change: str(change)
)
def test_bad_input_is_refused(change):
    facts = {"call": looping, "pair": (0.0, 1.0), **change}
    with pytest.raises(rb.RangeboundError):
        timing(facts.pop("call"), **facts)
