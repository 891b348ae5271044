"""The intervals of a release hold the true answer of the plan's question as often as they say, on real tables."""

import pytest
from scipy import stats

from tests.statistical.release_coverage import CASES, COVERED, EPSILONS, LEVEL, coverage

pytestmark = pytest.mark.slow  # test_interval_coverage.py asks the same of every kind by default
RARE = 1e-10
"""How seldom a right interval may fail a check by chance; there are a hundred checks."""


def too_few(found):
    """The kinds whose intervals hold the true answer less often than chance explains."""
    return {kind for kind, (held, drawn) in found.items() if held < stats.binom.ppf(RARE, drawn, LEVEL)}


@pytest.mark.parametrize(
    ("epsilon", "draws"), [(10.0, 25), *(pytest.param(each, 1000, marks=pytest.mark.long) for each in EPSILONS)]
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_intervals_hold_the_true_answer_on_a_real_table(case, epsilon, draws):
    found = coverage(case, epsilon, draws)
    assert found.keys() >= set(COVERED) - {"count of units"}
    assert not too_few(found)


@pytest.mark.parametrize(
    ("narrow", "draws", "kinds"),
    [(0.2, 60, {"count", "sum", "histogram"}), pytest.param(0.8, 1000, {"histogram"}, marks=pytest.mark.long)],
)
def test_intervals_that_are_too_narrow_are_found(narrow, draws, kinds):
    """The control: a part of the width is not enough for kinds whose intervals are not wider than they need."""
    assert too_few(coverage(CASES[0], 10.0, draws, narrow=narrow)) >= kinds
