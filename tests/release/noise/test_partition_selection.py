"""Keys are named with the largest chance that (epsilon, delta) allows, and never with more."""

import itertools

import mpmath
import pytest

from rangebound.errors import ArgumentError
from rangebound.release.noise.partition_selection import WHOLE, PartitionSelection, partition_selection
from rangebound.release.plan.kinds.ranks import Median
from tests.release.output.asked import asked, released

LONG = pytest.param(1e-9, 1e-9, marks=pytest.mark.slow)
CASES = [(1.0, 1e-6), (0.1, 1e-9), (3.0, 0.01), (0.01, 1e-3), (50.0, 1e-12), (0.5, 0.49)]


def holds(chances, epsilon, delta):
    """Whether naming and not naming a key are both within (epsilon, delta) for n and n + 1 units, in 60 digits."""
    with mpmath.workdps(60):
        ratio, slack = mpmath.exp(mpmath.mpf(epsilon)), mpmath.mpf(delta)
        p = [mpmath.mpf(each) / WHOLE for each in (*chances, WHOLE, WHOLE)]
        return all(
            b <= ratio * a + slack
            and a <= ratio * b + slack
            and 1 - b <= ratio * (1 - a) + slack
            and 1 - a <= ratio * (1 - b) + slack
            for a, b in itertools.pairwise(p)
        )


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_the_chances_are_private_and_reach_one_and_control_a_little_more_is_not(epsilon, delta):
    chances = partition_selection(epsilon, delta).probabilities
    assert chances[0] == 0
    assert chances[-1] == WHOLE
    assert holds(chances, epsilon, delta)
    for at in {1, len(chances) // 2, len(chances) - 2}:
        more = list(chances)
        more[at] = min(more[at] + WHOLE // 10**12, WHOLE)
        assert more[at] > chances[at]
        assert not holds(more, epsilon, delta)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.1), (1.0, 0.0), (-1.0, 0.1), (1.0, 1.0), (True, 0.1), LONG])
def test_what_cannot_be_is_refused(epsilon, delta):
    partition_selection(1.0, 0.1)  # what is remembered of it must not answer for True
    with pytest.raises((ArgumentError, TypeError)):
        partition_selection(epsilon, delta)


def test_a_key_is_named_when_the_draw_is_below_its_chance():
    chances = (0, WHOLE // 4, WHOLE)
    units = {("b",): 1, ("a",): 9, ("c",): 1}
    draws = iter([WHOLE - 1, WHOLE // 4 - 1, WHOLE // 4])
    assert PartitionSelection(probabilities=chances).select(units, lambda count: next(draws)) == (("a",), ("b",))


def test_only_the_keys_that_are_selected_are_worked_out(monkeypatch):
    plain, made = Median.coordinates, []

    def coordinates(question, found, unit):
        made.extend([1] if found else [])  # a rehearsal has none
        return plain(question, found, unit)

    monkeypatch.setattr(Median, "coordinates", coordinates)
    plan = asked({"kind": "median", "column": "x", "range": [0, 10], "by": ["k"]}, delta=1e-6)
    keys = ["often"] * 500 + [f"a text of one person {at}" for at in range(500)]
    found = released(plan, {"k": keys, "x": [1.0] * len(keys)})
    assert len(made) == len({cell.key for cell in found.cells}) < 10
