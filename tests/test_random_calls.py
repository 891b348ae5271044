"""Five thousand random calls: none takes long, and every privacy number is enclosed to 1e-6."""

import dataclasses

import pytest

from tests.random_calls import calls, mechanism, outcome

pytestmark = pytest.mark.slow
SLOW, VERY_SLOW = 1.0, 10.0  # seconds of processor time


def judged(outcomes):
    times = sorted(each.seconds for each in outcomes)
    wrong = [f"open: {each.call} {each.refused}" for each in outcomes if not each.closed]
    wrong += [f"{each.seconds:.1f} s: {each.call}" for each in outcomes if each.seconds > VERY_SLOW]
    if times[int(0.99 * len(times)) - 1] > SLOW:
        wrong += [f"{each.seconds:.1f} s: {each.call}" for each in outcomes if each.seconds > SLOW]
    return wrong


def test_the_generator_gives_the_same_calls_again_and_most_are_accepted():
    assert calls(50, seed=1) == calls(50, seed=1) != calls(50, seed=2)
    made = [each for call in calls(100) if (each := mechanism(call))]
    assert len(made) > 50
    assert sum(bool(outcome(each).refused) for each in made) < 0.1 * len(made)


def test_calls_on_intervals_are_quick_and_closed():
    simple = [call for call in calls(200) if not any(each in call for each in ("Grid(", "Union("))]
    assert len(simple) > 60
    outcome(simple[0])  # the first call of a process loads modules and fills tables
    outcomes = [outcome(call) for call in simple]
    assert [each.call for each in outcomes if not each.closed or each.seconds > VERY_SLOW] == []
    # So few calls cannot tell one in a hundred from two, and caches are cold: the long test holds that bar.
    assert sum(each.seconds > SLOW for each in outcomes) <= 0.05 * len(outcomes)


def test_calls_on_grids_and_unions_are_closed_and_none_takes_long():
    """Not the compositions: one in a hundred of them takes more than ten seconds (see papers/attacks.md)."""
    some = [call for call in calls(80, seed=5) if ("Grid(" in call or "Union(" in call) and "accounting" not in call]
    assert len(some) > 30
    outcomes = [outcome(call) for call in some]
    assert [each.call for each in outcomes if not each.closed or each.seconds > VERY_SLOW] == []


def test_control_an_open_or_a_slow_call_is_told():
    quick = outcome(calls(1)[0])
    assert len(judged([quick, dataclasses.replace(quick, closed=False)])) == 1
    assert judged([quick, dataclasses.replace(quick, seconds=VERY_SLOW + 1.0)])
    assert judged([quick] * 50 + [dataclasses.replace(quick, seconds=SLOW + 1.0)] * 2)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_five_thousand_calls(seed):
    """The bar. It is not quite reached: see papers/attacks.md for what still takes seconds."""
    assert judged([outcome(call) for call in calls(500, seed=seed)]) == []
