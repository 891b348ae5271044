"""The joint draw of the most frequent keys: its law is that of all sequences, and as private as it says."""

import math
import random
from fractions import Fraction
from itertools import permutations, product

import pytest

from rangebound.release.noise import exponential_mechanism as exponential
from tests.release.all_draws import law_of


def misses(counts, sequence):
    """By how many units a sequence misses the most frequent keys: the score in the words of its definition."""
    most = sorted(counts, reverse=True)
    return max(most[rank] - counts[at] for rank, at in enumerate(sequence))


def law(counts, size, rate):
    deepest = exponential.sequence_depth(len(counts), size)
    length = exponential.WEIGHT_BITS + 3 * (deepest - exponential.DEEPEST) // 2 + 2
    sequences = list(permutations(range(len(counts)), size))
    scores = [Fraction(misses(counts, each)) for each in sequences]
    weights = exponential.weights(scores, rate, deepest=deepest, length=length)
    return {each: Fraction(weight, sum(weights)) for each, weight in zip(sequences, weights, strict=True)}


def drawn_law(counts, size, rate):
    return law_of(lambda: tuple(exponential.draw_sequence(counts, size, rate, None)))


def cases(seed, number):
    chance = random.Random(seed)
    for _ in range(number):
        keys = chance.randint(1, 5)
        counts = [chance.choice([0, 0, 1, 2, 5, 1000]) for _ in range(keys)]
        size = chance.randint(1, min(keys, 3))
        yield counts, size, Fraction(chance.choice([1, 10, 300]), chance.choice([1, 9, 1000]))


def test_what_is_drawn_has_exactly_the_law_of_all_sequences():
    for counts, size, rate in cases(1, 60):
        assert drawn_law(counts, size, rate) == law(counts, size, rate), (counts, size, rate)


def test_control_another_score_has_another_law(monkeypatch):
    """The sum of the misses in place of the largest."""
    monkeypatch.setitem(globals(), "misses", lambda counts, each: 2 * max(counts) - sum(counts[at] for at in each))
    assert drawn_law([5, 2, 1], 2, Fraction(1)) != law([5, 2, 1], 2, Fraction(1))


def losses(one, two):
    return [math.log(one[each] / two[each]) for each in one]


@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_no_neighbour_loses_more_nor_in_a_longer_range(epsilon, replaced):
    chance, worst = random.Random(3), {}
    steps = Fraction(2 if replaced else 1)
    for counts, size, _ in cases(4, 150):
        base = [each % 4 + 1 for each in counts]
        rate = exponential.sequence_rate(size, steps, epsilon)
        limit = float(exponential.sequence_loss(size, steps, rate))
        assert limit <= epsilon
        moved = [each + chance.choice([-1, 0, 1] if replaced else [0, 1]) for each in base]  # in any keys
        found = losses(law(base, size, rate), law(moved, size, rate))
        assert max(map(abs, found)) <= limit + 1e-12
        assert max(found) - min(found) <= limit + 1e-12  # what LossForm.RANGE rests on
        worst[size > 1] = max(worst.get(size > 1, 0.0), (max(found) - min(found)) / epsilon)
    assert worst[False] > 0.99  # attained
    assert worst[True] > 0.99


def test_the_range_is_attained_by_every_unit_that_is_added():
    """All subsets of keys that a unit may be in, whatever their number: no bound on groups is needed."""
    for size, range_ in ((1, 1), (2, 2), (3, 2)):
        widest = 0.0
        for counts in product(range(3), repeat=3):
            for unit in product(range(2), repeat=3):
                more = [a + b for a, b in zip(counts, unit, strict=True)]
                moves = [misses(more, each) - misses(counts, each) for each in permutations(range(3), size)]
                widest = max(widest, max(moves) - min(moves))
        assert widest == range_ == exponential.score_range(size, Fraction(1))


def test_control_the_rate_of_a_single_key_is_too_large_for_two():
    rate = exponential.sequence_rate(1, Fraction(1), 1.0)
    pairs = (([1, 2, 2], [2, 2, 3]), ([1, 1, 0], [2, 1, 0]))
    found = [each for one, two in pairs for each in losses(law(one, 2, rate), law(two, 2, rate))]
    assert max(map(abs, found)) > 1.0 or max(found) - min(found) > 1.0


def test_the_error_in_units_holds_as_often_as_it_says():
    counts, size, rate = [9, 7, 7, 3, 0], 3, Fraction(1, 2)
    limit = exponential.sequence_rank_error(5, 3, rate, 0.9)
    beyond = sum(chance for each, chance in law(counts, size, rate).items() if misses(counts, each) > limit)
    assert beyond <= Fraction(1, 10)


@pytest.mark.parametrize(("keys", "size"), [(10_000, 50), (1, 1)])
def test_a_weight_is_never_rounded_by_more_than_it_says(keys, size):
    deepest = exponential.sequence_depth(keys, size)
    length = exponential.WEIGHT_BITS + 3 * (deepest - exponential.DEEPEST) // 2 + 2
    assert deepest > math.log(math.perm(keys, size)) + 88 - (keys == 1)
    assert exponential.weights([Fraction(10**9)], Fraction(1), deepest=deepest, length=length)[0] >= 2**130
