"""The intervals of a release hold the true answer of the plan's question as often as they say, on real tables."""

import pytest
from scipy import stats

from tests.statistical.release_coverage import CASES, COVERED, EPSILONS, LEVEL, coverage

RARE = 1e-10
"""How seldom a right interval may fail a check by chance; there are a hundred checks."""


def too_few(found):
    """The kinds whose intervals hold the true answer less often than chance explains."""
    return {kind for kind, (held, drawn) in found.items() if held < stats.binom.ppf(RARE, drawn, LEVEL)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_intervals_hold_the_true_answer_on_a_real_table(case):
    found = coverage(case, 10.0, 25)
    assert found.keys() >= set(COVERED) - {"count of units"}
    assert not too_few(found)


def test_intervals_that_are_too_narrow_are_found():
    """The control: a fifth of the width is not enough for the kinds whose intervals are not wider than they need."""
    assert too_few(coverage(CASES[0], 10.0, 60, narrow=0.2)) >= {"count", "sum", "histogram"}


@pytest.mark.long
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_intervals_hold_the_true_answer_over_many_draws(case, epsilon):
    assert not too_few(coverage(case, epsilon, 1000))


@pytest.mark.long
def test_intervals_that_are_a_little_too_narrow_are_found():
    """The control: four fifths of the width."""
    assert "histogram" in too_few(coverage(CASES[0], 10.0, 1000, narrow=0.8))
