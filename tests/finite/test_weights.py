"""Whole-number weights: what is refused, the window check against all pairs, and rounding."""

import math
from fractions import Fraction

import numpy as np
import pytest

import rangebound as rb
from rangebound.finite.weights import (
    TOTAL,
    epsilon_private,
    exponential,
    extremes,
    from_text,
    mixed,
    private_weights,
    rounded,
    to_text,
    whole_weights,
)
from tests.finite import brute_force
from tests.finite.random_tables import random_table


def lattice(steps, count):
    return np.minimum(np.arange(count) + steps, count - 1)


def stairs(count, steps, epsilon):
    """Laws that fall by e^-epsilon every `steps` inputs: private at 2 epsilon and a little less."""
    places = np.arange(count)
    rows = np.exp(-epsilon * np.ceil(np.abs(places[:, None] - places) / steps))
    return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([[TOTAL, 0], [TOTAL - 1, 0]], "row 1 must sum to 2"),
        ([[TOTAL, 0], [TOTAL, 1]], "row 1 must sum to 2"),
        ([[TOTAL, TOTAL], [TOTAL, 0]], "row 0 must sum to 2"),
        ([[TOTAL + 1, -1], [TOTAL, 0]], "must lie between 0 and 2"),
        ([[TOTAL, 0]], "must have a row for each input"),
        ([[TOTAL, 0], [TOTAL]], "must have a row for each input"),
        ([[0.5, 0.5], [0.5, 0.5]], "must be whole numbers"),
        ([["a", "b"], ["a", "b"]], "must be whole numbers"),
    ],
)
def test_other_weights_are_refused(weights, words):
    with pytest.raises((rb.ArgumentError, rb.ArgumentTypeError), match=words):
        whole_weights("weights", weights, (2, 2))


def test_one_unit_moved_within_a_row_is_refused_and_between_outputs_is_not():
    weights = np.full((3, 4), TOTAL // 4)
    assert whole_weights("weights", weights, (3, 4)).tolist() == weights.tolist()
    weights[1, 2] += 1
    with pytest.raises(rb.ArgumentError, match="row 1"):
        whole_weights("weights", weights, (3, 4))
    weights[1, 3] -= 1
    assert whole_weights("weights", weights, (3, 4))[1, 2] == TOTAL // 4 + 1


def test_weights_cannot_be_written_to():
    found = whole_weights("weights", np.full((1, 1), TOTAL), (1, 1))
    with pytest.raises(ValueError, match="read-only"):
        found[0, 0] = 0


def test_extremes_are_those_of_the_windows():
    rng = np.random.default_rng(1)
    for _ in range(30):
        count = int(rng.integers(1, 20))
        reach = np.minimum(np.maximum.accumulate(np.arange(count) + rng.integers(0, 9, count)), count - 1)
        weights = rng.integers(0, 100, (count, 3))
        largest, smallest = extremes(weights, reach)
        for i in range(count):
            window = weights[i : reach[i] + 1]
            assert largest[i].tolist() == window.max(axis=0).tolist()
            assert smallest[i].tolist() == window.min(axis=0).tolist()


@pytest.mark.parametrize("seed", range(40))
def test_the_window_check_is_that_of_all_pairs(seed):
    table = random_table(np.random.default_rng(seed))
    pairs = brute_force.neighbouring_inputs(table.inputs, table.query.range.spans, table.query.sensitivity)
    ratio = brute_force.ratio(table.weights.tolist(), pairs)
    pure = table.epsilon()
    finite = ratio != math.inf
    assert table.is_private(pure if finite else 700.0) == finite
    assert pure == 0.0 or not table.is_private(math.nextafter(math.nextafter(min(pure, 700.0), 0.0), 0.0))
    assert pure == 0.0 or not table.is_private(0.99 * min(pure, 700.0))


def test_a_ratio_a_hair_above_e_to_the_epsilon_is_refused():
    epsilon = Fraction(1)
    bound = exponential(epsilon)
    low = TOTAL // 4
    high = low * bound.lower >> 160  # the largest weight that is allowed beside `low`
    weights = np.array([[low, TOTAL - low], [high, TOTAL - high]])
    reach = np.array([1, 1])
    assert epsilon_private(weights, reach, epsilon)
    weights[1] += [1, -1]
    assert not epsilon_private(weights, reach, epsilon)
    assert float(weights[1, 0]) / float(weights[0, 0]) == math.e  # doubles do not see it


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
@pytest.mark.parametrize(("count", "steps"), [(5, 1), (41, 4), (60, 7)])
def test_private_weights_are_private_and_near(epsilon, count, steps):
    reach = lattice(steps, count)
    matrix = stairs(count, steps, epsilon / 2.0)
    found = private_weights(matrix, reach, Fraction(epsilon))
    assert [sum(row) for row in found.tolist()] == [TOTAL] * count
    assert epsilon_private(found, reach, Fraction(epsilon))
    assert np.abs(found / TOTAL - matrix).max() < 1e-12
    # With a claim that the matrix does not meet, the uniform law is mixed in, and no more of it than that takes.
    pure = max(np.log(matrix[i] / matrix[j]).max() for i in range(count) for j in range(i, reach[i] + 1))
    claim = Fraction(pure) * 3 / 4
    tight = private_weights(matrix, reach, claim)
    assert epsilon_private(tight, reach, claim)
    assert not epsilon_private(tight, reach, claim * Fraction(99, 100))


def test_the_uniform_law_is_no_more_than_needed():
    reach = np.array([1, 1])
    found = private_weights(np.array([[0.9, 0.1], [0.1, 0.9]]), reach, Fraction(1))
    best = math.e / (1.0 + math.e)
    assert found[0, 0] / TOTAL == pytest.approx(best, rel=1e-12)


def test_at_epsilon_zero_rows_must_be_equal():
    reach = np.array([1, 1])
    assert private_weights(np.array([[0.3, 0.7]] * 2), reach, Fraction(0)).tolist()[0][0] == pytest.approx(0.3 * TOTAL)
    with pytest.raises(rb.Unsatisfiable, match="equal rows"):
        private_weights(np.array([[0.3, 0.7], [0.7, 0.3]]), reach, Fraction(0))


def test_rounding_keeps_zeros_and_stays_within_units():
    rng = np.random.default_rng(2)
    matrix = rng.random((50, 33)) ** 6
    matrix[:, 5] = 0.0
    matrix /= matrix.sum(axis=1, keepdims=True)
    found = rounded(matrix)
    assert [sum(row) for row in found.tolist()] == [TOTAL] * 50
    assert not found[:, 5].any()
    # A double near 1/4 is itself only known to 2^-55: some hundred units.
    assert np.abs(found - matrix * TOTAL).max() <= 1024
    small = np.array([[1e-30, 1.0 - 1e-30]])
    assert rounded(small).tolist() == [[0, TOTAL]]


def test_mixing_takes_from_all_in_proportion():
    weights = np.array([[TOTAL // 2, TOTAL // 4, TOTAL // 4]])
    assert mixed(weights, TOTAL // 6).tolist()[0] == pytest.approx([TOTAL * 5 / 12, TOTAL * 7 / 24, TOTAL * 7 / 24])
    assert sum(mixed(weights, TOTAL // 7).tolist()[0]) == TOTAL
    assert mixed(weights, TOTAL).tolist()[0] == pytest.approx([TOTAL / 3] * 3)


def test_weights_as_text_come_back_and_other_texts_do_not():
    weights = rounded(np.random.default_rng(3).random((4, 3)))
    text = to_text(weights)
    assert from_text(text, (4, 3)).tolist() == weights.tolist()
    for wrong in (text[:-4], text + "AAAA", text.replace("A", "!", 1), text[1:], "é" + text, text + "\n", ""):
        with pytest.raises(rb.ArgumentError):
            from_text(wrong, (4, 3))
    with pytest.raises(rb.ArgumentTypeError):
        from_text(3, (4, 3))
