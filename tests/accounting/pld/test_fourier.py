"""The tilted sum against exact powers of polynomials in ball arithmetic, and its controls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, arb_poly

from rangebound.accounting.pld.cumulants import PLDComposition, tilt_for_delta, tilt_for_epsilon
from rangebound.accounting.pld.discretization import DiscretePLD
from rangebound.accounting.pld.fourier import ComposedPLD
from rangebound.ball import precision


def random_pld(seed: int, size: int, step: float, infinite: float = 0.0) -> DiscretePLD:
    random = np.random.default_rng(seed)
    index = np.arange(-size, size + 1)
    mass = random.uniform(0.0, 1.0, index.size) * np.exp(-0.5 * (index / size * 3.0) ** 2)
    return DiscretePLD(step, index, mass / mass.sum() * (1.0 - infinite), infinite)


def exact_delta(composition: PLDComposition, epsilon: float) -> float:
    """P(infinite) + E (1 - e^(epsilon - S))_+, from the coefficients of a product of polynomials."""
    step = min(each.step for each in composition.plds)
    with precision(2000):
        product, start, finite = arb_poly([1]), 0, arb(1)
        for each, k in zip(composition.plds, composition.times, strict=True):
            stride = round(each.step / step)
            row = [arb(0)] * ((each.index[-1] - each.index[0]) * stride + 1)
            for place, mass in zip(each.index, each.mass, strict=True):
                row[(place - each.index[0]) * stride] = arb(float(mass))
            product, start = product * arb_poly(row) ** k, start + k * int(each.index[0]) * stride
            finite *= (1 - arb(each.infinite)) ** k
        total = 1 - finite
        for place, mass in enumerate(product.coeffs(), start=start):
            if place * step > epsilon:
                total += mass * (1 - (arb(epsilon) - arb(place * step)).exp())
        return total


CASES = [
    PLDComposition((random_pld(1, 5, 0.125),), (1,)),
    PLDComposition((random_pld(2, 20, 0.03125),), (40,)),
    PLDComposition((random_pld(3, 9, 0.0625, 1e-9),), (300,)),
    PLDComposition((random_pld(4, 6, 0.25), random_pld(5, 12, 0.0625)), (7, 30)),
    PLDComposition((random_pld(6, 3, 0.5, 1e-3), random_pld(7, 30, 0.125), random_pld(8, 4, 0.25)), (2, 5, 11)),
]


@pytest.mark.parametrize("composition", CASES)
def test_the_sum_encloses_the_exact_one_with_any_tilt(composition):
    _, mean, variance = composition.cumulants(0.0)
    for far in (0.0, 2.0, 5.0, 7.0):
        epsilon = mean + far * math.sqrt(variance)
        if not 0.0 < epsilon < composition.extremes[1]:
            continue
        truth = exact_delta(composition, epsilon)
        for t in (tilt_for_epsilon(composition, epsilon), 0.0, 0.5, 3.0):
            found = ComposedPLD(composition, t)
            assert found.delta_lower(epsilon) <= truth <= found.delta_upper(epsilon)


@pytest.mark.parametrize("composition", CASES)
def test_the_right_tilt_makes_it_sharp(composition):
    _, mean, variance = composition.cumulants(0.0)
    for far in (2.0, 5.0, 7.0):
        epsilon = mean + far * math.sqrt(variance)
        if epsilon < composition.extremes[1]:
            found = ComposedPLD(composition, tilt_for_epsilon(composition, epsilon))
            assert found.delta_upper(epsilon) <= found.delta_lower(epsilon) * (1.0 + 1e-6) + 1e-300


def test_control_without_a_tilt_a_small_delta_drowns_in_round_off():
    composition = PLDComposition((random_pld(2, 20, 0.03125),), (2000,))
    _, mean, variance = composition.cumulants(0.0)
    epsilon = mean + 9.0 * math.sqrt(variance)
    tilted, plain = ComposedPLD(composition, tilt_for_epsilon(composition, epsilon)), ComposedPLD(composition, 0.0)
    assert tilted.delta_upper(epsilon) < 1e-15
    assert plain.delta_upper(epsilon) > 1e3 * tilted.delta_upper(epsilon)
    assert plain.delta_lower(epsilon) <= tilted.delta_upper(epsilon)


def test_control_a_bare_transform_is_wrong_by_more_than_the_answer():
    """What the bound is for: the same transform without a tilt and a bound is too small or negative."""
    composition = PLDComposition((random_pld(9, 20, 0.03125),), (2000,))
    _, mean, variance = composition.cumulants(0.0)
    found = ComposedPLD(composition, 0.0)
    wrong = []
    for far in np.linspace(8.5, 11.0, 40):
        epsilon = mean + far * math.sqrt(variance)
        bare = found._product(epsilon).value
        wrong.append(bare < ComposedPLD(composition, tilt_for_epsilon(composition, epsilon)).delta_lower(epsilon))
    assert any(wrong)


def test_tilts_are_centred():
    composition = CASES[1]
    _, mean, variance = composition.cumulants(0.0)
    epsilon = mean + 3.0 * math.sqrt(variance)
    assert composition.cumulants(tilt_for_epsilon(composition, epsilon))[1] == pytest.approx(epsilon, rel=1e-2)
    assert tilt_for_epsilon(composition, mean - 1.0) == 0.0
    t = tilt_for_delta(composition, 1e-8)
    centre = composition.cumulants(t)[1]
    assert 1e-10 < ComposedPLD(composition, t).delta_upper(centre) < 1e-6


def test_the_transform_is_better_than_its_bound():
    """The distance of the bins from the exact circular sum, in the Euclidean norm, against the bound on it."""
    composition = CASES[1]
    found = ComposedPLD(composition, 0.0)
    with precision(400):
        (each,) = composition.plds
        (_, masses), k = composition.tilted(0.0)[0], composition.times[0]
        power = arb_poly([arb(float(m)) for m in masses]) ** k
        bins = [arb(0)] * found.size
        for place, mass in enumerate(power.coeffs(), start=k * int(each.index[0])):
            bins[(place - found.first) % found.size] += mass
        distance = math.sqrt(sum(float(a - arb(float(b))) ** 2 for a, b in zip(bins, found.bins, strict=True)))
    assert 0.0 < distance <= found.error
