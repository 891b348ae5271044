"""The limits of additive noise: geng2020's formulas in mpmath."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np
import pytest

from papers.geng2020._additive_noise import additive_noise_limits
from rangebound.errors import RangeboundError
from tests.crosscheck.compare import agree
from tests.crosscheck.test_theory import SENSITIVITY, published

CASES = [(e, d) for e in (1e-4, 0.01, 0.1, 1.0, 3.0, 10.0) for d in (1e-15, 1e-6, 1e-3, 0.1, 0.4)]


def least(epsilon: float, delta: float, sensitivity: float, whole: Any = mp.floor) -> tuple[mp.mpf, mp.mpf]:
    """The lower limits with floor(n) steps, as plain sums."""
    e, d, s = map(mp.mpf, (epsilon, delta, sensitivity))
    b = mp.exp(-e)
    a = (d + mp.expm1(e) / 2) * b
    n = int(whole(mp.log(1 - (1 - b) / (2 * a)) / mp.log(b)))
    amplitude = 2 * a * s * ((b - b**n) / (1 - b) ** 2 - (n - 1) * b**n / (1 - b)) if n else mp.mpf(0)
    if n > 20000:
        return amplitude, mp.nan
    return amplitude, 2 * a * s**2 * mp.fsum(b**k * k * k for k in range(n))


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_the_formulas(epsilon: float, delta: float) -> None:
    limits = additive_noise_limits(epsilon=epsilon, delta=delta, sensitivity=SENSITIVITY)
    with mp.workdps(60):
        _, _, amplitude, power = published(epsilon, delta)
        agree(limits.amplitude, amplitude, rel=1e-13)
        agree(limits.power, power, rel=1e-13)
        amplitude_least, power_least = least(epsilon, delta, SENSITIVITY)
        agree(limits.amplitude_at_least, amplitude_least, rel=1e-12, floor=1e-12)
        if not mp.isnan(power_least):
            agree(limits.power_at_least, power_least, rel=1e-12, floor=1e-12)
        assert mp.mpf(limits.amplitude) >= amplitude
        assert mp.mpf(limits.amplitude_at_least) <= amplitude_least + mp.mpf(10) ** -50
    assert 0.0 <= limits.amplitude_at_least <= limits.amplitude
    assert 0.0 <= limits.power_at_least <= limits.power


def test_a_misprint_is_caught() -> None:
    """A control: the ceiling of n instead of the floor is not what the limits are."""
    limits = additive_noise_limits(epsilon=1.0, delta=1e-3)
    with mp.workdps(40), pytest.raises(AssertionError):
        agree(limits.amplitude_at_least, least(1.0, 1e-3, 1.0, mp.ceil)[0], rel=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 0.1), (-1.0, 0.1), (1.0, 0.0), (1.0, 0.5), (1.0, np.nan), ("1", 0.1), (1.0, True)]
)
def test_arguments_that_make_no_sense_are_refused(epsilon: object, delta: object) -> None:
    with pytest.raises(RangeboundError):
        additive_noise_limits(epsilon=epsilon, delta=delta)
