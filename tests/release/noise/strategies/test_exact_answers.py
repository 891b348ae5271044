"""Exact answers: the nearest doubles of exact fractions."""

from fractions import Fraction

import numpy as np

from rangebound.release.noise.strategies.exact_answers import ExactAnswers


def test_values_are_the_nearest_doubles_also_of_very_large_numerators():
    numerators = np.array([[10**40 + 1, -1], [0, 7]], dtype=object)
    answers = ExactAnswers(numerators=numerators, denominator=3 * 10**30)
    assert answers.values.tolist() == [[float(each) for each in answers.fractions()[at : at + 2]] for at in (0, 2)]
    assert answers.fractions()[1] == Fraction(-1, 3 * 10**30)
