"""Sums on a grid by a transform: against exact fractions, within the stated error."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpz, fmpz_poly

from rangebound.accounting.pld.circular_sum import circular_sum


def exact(rows: list[list[Fraction]], times: list[int]) -> list[Fraction]:
    size = len(rows[0])
    total = [Fraction(1), *[Fraction(0)] * (size - 1)]
    for row, k in zip(rows, times, strict=True):
        for _ in range(k):
            total = [sum((total[i - j] * row[j] for j in range(size)), Fraction(0)) for i in range(size)]
    return total


@pytest.mark.parametrize("times", [[1], [7], [3, 4]])
def test_a_sum_is_within_its_error_of_the_exact_one(times: list[int]) -> None:
    generator = np.random.default_rng(2)
    rows = [generator.integers(0, 2**20, 16) / 2.0**24 for _ in times]
    bins, error = circular_sum(rows, times)
    truth = exact([[Fraction(float(each)) for each in row] for row in rows], times)
    distance = float(sum((Fraction(float(a)) - b) ** 2 for a, b in zip(bins, truth, strict=True))) ** 0.5
    assert distance <= error < 1e-12
    moved = np.roll(bins, 1)
    assert float(np.linalg.norm(moved - bins)) > 1e3 * error  # control: another sum is not within it


def test_one_large_entry_among_many_small_ones() -> None:
    """Where the bound by the sum of a row is smaller than the one by its Euclidean norm."""
    row = np.full(2**12, 2.0**-14)
    row[0] = 0.75
    bins, error = circular_sum([row], [1])
    assert float(np.linalg.norm(bins - row)) <= error < 1e-13


def by_polynomials(rows: list[np.ndarray], times: list[int]) -> list[Fraction]:
    """The same in whole numbers of 2^-60, as a product of polynomials, for rows too long for plain loops."""
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
def test_long_rows_of_every_shape_are_within_their_error(shape: str, times: list[int]) -> None:
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
