"""Sums of privacy losses: tilts, cumulants and the transform, against exact sums and products; controls."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from flint import arb, arb_poly, fmpz, fmpz_poly

from rangebound.accounting.pld.discretization import DiscretePLD
from rangebound.accounting.pld.fourier import (
    ComposedPLD,
    PLDComposition,
    circular_sum,
    tilt_for_delta,
    tilt_for_epsilon,
)
from rangebound.values.ball import precision


def random_pld(seed, size, step, infinite=0.0):
    random = np.random.default_rng(seed)
    index = np.arange(-size, size + 1)
    mass = random.uniform(0.0, 1.0, index.size) * np.exp(-0.5 * (index / size * 3.0) ** 2)
    return DiscretePLD(step, index, mass / mass.sum() * (1.0 - infinite), infinite)


def exact_delta(composition, epsilon):
    """P(infinite) + E (1 - e^(epsilon - S))_+, from the coefficients of a product of polynomials."""
    step = min(each.step for each in composition.plds)
    with precision(400):
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


@pytest.mark.few(3)
@pytest.mark.parametrize("composition", CASES)
def test_the_sum_encloses_the_exact_one_with_any_tilt_and_the_right_one_makes_it_sharp(composition):
    _, mean, variance = composition.cumulants(0.0)
    for far in (0.0, 2.0, 5.0, 7.0):
        epsilon = mean + far * math.sqrt(variance)
        if not 0.0 < epsilon < composition.extremes[1]:
            continue
        truth = exact_delta(composition, epsilon)
        for t in (tilt_for_epsilon(composition, epsilon), 0.0, 0.5, 3.0):
            found = ComposedPLD(composition, t)
            assert found.delta_lower(epsilon) <= truth <= found.delta_upper(epsilon)
        if far:
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


ONE = DiscretePLD(0.25, np.array([-2, 0, 1, 4]), np.array([0.1, 0.5, 0.3, 0.09]), 0.01)
TWO = DiscretePLD(0.5, np.array([-1, 1]), np.array([0.4, 0.6]), 0.0)
COMPOSITION = PLDComposition((ONE, TWO), (2, 3))


def outcomes():
    parts = [ONE, ONE, TWO, TWO, TWO]
    sums = [sum(each) for each in itertools.product(*(part.losses for part in parts))]
    masses = [math.prod(each) for each in itertools.product(*(part.mass for part in parts))]
    return np.asarray(sums), np.asarray(masses)


@pytest.mark.parametrize("t", [0.0, 0.5, 3.0, -1.0])
def test_the_cumulants_are_those_of_the_sum(t):
    sums, masses = outcomes()
    weights = masses * np.exp(t * sums)
    total = weights.sum()
    mean = (weights * sums).sum() / total
    variance = (weights * (sums - mean) ** 2).sum() / total
    assert COMPOSITION.cumulants(t) == pytest.approx((math.log(total), mean, variance), rel=1e-12)


def test_the_sizes_of_a_composition():
    sums, _ = outcomes()
    assert COMPOSITION.count == 5
    assert COMPOSITION.reach == 1.0
    assert COMPOSITION.extremes == (sums.min(), sums.max())
    low, high = COMPOSITION.infinite
    assert low <= 1 - (1 - Fraction(0.01)) ** 2 <= high
    assert high - low < 1e-15


@pytest.mark.parametrize("t", [0.0, 2.0, 50.0])
def test_the_blur_covers_the_rounding_of_the_masses(t):
    """Against the same masses in 60 digits."""
    with mp.workdps(60):
        for pld, (log_m, masses) in zip(COMPOSITION.plds, COMPOSITION.tilted(t), strict=True):
            exact = [
                mp.mpf(float(m)) * mp.exp(mp.mpf(t) * mp.mpf(float(x)))
                for m, x in zip(pld.mass, pld.losses, strict=True)
            ]
            total = mp.fsum(exact)
            blur = COMPOSITION.blur(t)
            assert abs(log_m - mp.log(total)) <= blur
            assert all(abs(mp.mpf(float(m)) * total / e - 1) <= blur for m, e in zip(masses, exact, strict=True))


def test_one_large_entry_among_many_small_ones():
    """Where the bound by the sum of a row is smaller than the one by its Euclidean norm."""
    row = np.full(2**12, 2.0**-14)
    row[0] = 0.75
    bins, error = circular_sum([row], [1])
    assert float(np.linalg.norm(bins - row)) <= error < 1e-13


def by_polynomials(rows, times):
    """In whole numbers of 2^-60, as a product of polynomials."""
    size, total = len(rows[0]), fmpz_poly([1])
    for row, k in zip(rows, times, strict=True):
        factor = fmpz_poly([int(Fraction(float(each)) * 2**60) for each in row])
        for _ in range(k):
            folded = [fmpz(0)] * size
            for i, each in enumerate((total * factor).coeffs()):
                folded[i % size] += each
            total = fmpz_poly(folded)
    found = [Fraction(int(each), 2 ** (60 * sum(times))) for each in total.coeffs()]
    return found + [Fraction(0)] * (size - len(found))


@pytest.mark.parametrize("shape", ["even", "falling", "spiked", "bell"])
@pytest.mark.parametrize("times", [[20], [1, 12]])
def test_long_rows_of_every_shape_are_within_their_error(shape, times):
    size, generator = 256, np.random.default_rng(7)
    places = np.arange(size)
    row = {
        "even": generator.random(size),
        "falling": np.exp(-places / 8.0),
        "spiked": np.where(places == size // 3, 1.0, 1e-7),
        "bell": np.exp(-0.5 * ((places - size / 4) / 5.0) ** 2),
    }[shape]
    rows = [np.rint(np.roll(row, i) / row.sum() * 2.0**60) / 2.0**60 for i in range(len(times))]
    bins, error = circular_sum(rows, times)
    truth = by_polynomials(rows, times)
    distance = float(sum((Fraction(float(a)) - b) ** 2 for a, b in zip(bins, truth, strict=True))) ** 0.5
    assert distance <= error < 1e-11
    heavier = np.array([float(each) for each in truth]) * (1.0 + 1e-9)
    assert float(np.linalg.norm(heavier - bins)) > error  # control: masses that are off in the ninth digit
