"""Intervals for the population hold its mean as often as they say, and those for the table, the control, do not."""

import numpy as np
import pytest

from tests.statistical.population_coverage import (
    COUNTS,
    EPSILONS,
    LEVEL,
    QUANTILES,
    SIZES,
    laws,
    measure,
    measure_counts,
    measure_quantiles,
    measure_spread,
    too_few,
)

SOME = [
    ("normal", 1_000, 1.0),
    ("1 % at the top", 100, 4.0),
    ("zero-inflated lognormal, 30 %", 1_000, 4.0),
    ("mean, 0.02 of ones", 100, 4.0),
    ("share, 0.3 of ones", 1_000, 1.0),
    ("share, 0.02 of ones", 30, 4.0),
    ("clusters of zeros and ones", 100, 4.0),
]


def covered(cells, samples):
    each = {law.name: law for law in laws()}
    found = {cell: measure(each[cell[0]], *cell[1:], samples) for cell in cells}
    return found, too_few({cell: (each.held, each.samples) for cell, each in found.items()})


@pytest.mark.claim("interval")
def test_intervals_hold_the_mean_of_the_population():
    found, wrong = covered(SOME, 400)
    assert wrong == []
    table = {cell: (each.table, each.few) for cell, each in found.items()}
    assert ("share, 0.3 of ones", 1_000, 1.0) in too_few(table)  # the control: noise alone
    assert ("normal", 1_000, 1.0) in too_few(table)


def test_the_control_a_narrower_level_is_found():
    """Intervals at 85 % are rejected as ones at 95 %."""
    own = {0: (round(0.85 * 400), 400)}
    assert too_few(own) == [0]
    assert too_few({0: (round(LEVEL * 400), 400)}) == []


@pytest.mark.slow
def test_intervals_hold_the_mean_of_every_law_and_are_not_much_wider_than_they_need():
    cells = [(law.name, n, epsilon) for law in laws() for n in SIZES for epsilon in EPSILONS]
    found, wrong = covered(cells, 400)
    assert wrong == []
    many = [each.width / each.known for (_, n, _), each in found.items() if n >= 1_000]
    assert np.median(many) < 1.1
    table = too_few({cell: (each.table, each.few) for cell, each in found.items()})
    assert len(table) > len(found) / 4  # the control: intervals for the noise alone, of 20 samples each


@pytest.mark.slow
def test_intervals_hold_the_quantiles_of_every_law():
    cells = [(law, n, epsilon) for law in QUANTILES for n in SIZES[:3] for epsilon in EPSILONS]
    found = {cell: measure_quantiles(*cell, samples=400) for cell in cells}
    assert too_few({cell: (each.held, each.samples) for cell, each in found.items()}) == []
    table = too_few({cell: (each.table, each.few) for cell, each in found.items()})
    assert {("uniform", 1_000, 4.0), ("lognormal, clipped", 1_000, 4.0), ("six values", 1_000, 4.0)} <= set(table)


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTS)
def test_intervals_hold_what_is_expected_in_every_bin_and_cell(kind):
    cells = [(kind, n, epsilon, delta) for n in SIZES[:3] for epsilon in EPSILONS for delta in (0.0, 1e-6)]
    found = {cell: measure_counts(*cell, samples=300) for cell in cells}
    assert too_few({cell: (each.held, each.samples) for cell, each in found.items()}) == []
    table = too_few({cell: (each.table, each.samples) for cell, each in found.items()})
    assert {(kind, n, 4.0, delta) for n in (100, 1_000) for delta in (0.0, 1e-6)} <= set(table)


@pytest.mark.slow
def test_intervals_hold_the_variance():
    some = ("normal", "Pareto 1.5, clipped", "zero-inflated uniform, 10 %", "1 % at the top")
    cells = [(law, n, epsilon) for law in some for n in (100, 1_000) for epsilon in (1.0, 4.0)]
    found = {cell: measure_spread(*cell, samples=60) for cell in cells}
    assert too_few({cell: (each.held, each.samples) for cell, each in found.items()}) == []
    assert ("normal", 1_000, 4.0) in too_few({cell: (each.table, each.samples) for cell, each in found.items()})
