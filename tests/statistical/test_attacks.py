"""Attacks on the doubles that are published: each fails on `release` and succeeds on float noise as numpy draws it."""

import math
import time

import numpy as np
import pytest
from scipy.stats import beta, rankdata

import rangebound as rb

SIDE = 1_000_000


QUERY = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)


def ours(epsilon: float, answer: float, count: int) -> np.ndarray:
    m = rb.Mechanism(noise=rb.Laplace(scale=1.0 / epsilon), query=QUERY, bounding=rb.UNBOUNDED)
    return m.release(np.full(count, answer))


def bounded(epsilon: float, answer: float, count: int) -> np.ndarray:
    m = rb.calibrate(noise=rb.Laplace, query=QUERY, support=rb.Interval(-50, 50), epsilon=epsilon)
    return m.release(np.full(count, answer))


def theirs(epsilon: float, answer: float, count: int) -> np.ndarray:
    return answer + np.random.default_rng(int(1e3 * epsilon + answer)).laplace(0.0, 1.0 / epsilon, count)


# Mironov's attack: a double that a float generator cannot have made from an answer tells that it was another answer.


def reachable(published: np.ndarray, answer: float, scale: float) -> np.ndarray:
    """Whether answer -+ scale * log(v) gives exactly this double for a v that the generator can draw (k 2^-52)."""
    noise = published - answer
    k = np.rint(np.exp(-np.abs(noise) / scale) * 2.0**52)
    hit = np.zeros(published.shape, dtype=bool)
    log = np.frompyfunc(math.log, 1, 1)  # the same logarithm as the generator's, which numpy's own need not be
    for shift in (-1.0, 0.0, 1.0):
        v = np.clip(k + shift, 1.0, 2.0**52) * 2.0**-52
        size = scale * log(v).astype(np.float64)
        hit |= answer + np.where(noise < 0.0, size, -size) == published
    return hit


def least_bit_success(draw, epsilon: float, side: int) -> float:
    """How often the attack names the right one of the answers 0 and 1; it tosses a coin where both are possible."""
    coin, right = np.random.default_rng(1), 0.0
    for answer in (0.0, 1.0):
        published = draw(epsilon, answer, side)
        zero, one = (reachable(published, each, 1.0 / epsilon) for each in (0.0, 1.0))
        guess = np.where(zero & ~one, 0.0, np.where(one & ~zero, 1.0, coin.integers(0, 2, side)))
        right += float((guess == answer).mean())
    return 0.5 * right


@pytest.mark.parametrize("side", [100_000, pytest.param(SIDE, marks=pytest.mark.long)])
def test_the_least_significant_bits_tell_nothing(side):
    noise = 6.2 * 0.5 / math.sqrt(2 * side)  # 0.0022 for a million a side
    assert least_bit_success(ours, 0.01, side) <= 0.5025 + noise
    assert least_bit_success(theirs, 0.01, side) >= 0.70


# Haney's attack: noise near zero has finer digits than an answer of 1 can leave.


def clopper_pearson(hits: int, count: int) -> tuple[float, float]:
    """Bounds that fail with probability 1e-9 each: some of the events have a ratio of exactly epsilon."""
    low = float(beta.ppf(1e-9, hits, count - hits + 1)) if hits else 0.0
    return low, float(beta.isf(1e-9, hits + 1, count - hits)) if hits < count else 1.0


def fine(published: np.ndarray, bits: int) -> np.ndarray:
    """Whether the number is not a multiple of 2^-bits."""
    with np.errstate(over="ignore"):
        return np.ldexp(published, bits) % 1.0 != 0.0


def epsilon_shown(draw, epsilon: float, side: int) -> float:
    """The largest lower bound of epsilon over the attack's events, in both directions."""
    samples = [draw(epsilon, answer, side) for answer in (0.0, 1.0)]
    events = [lambda y, bits=bits: fine(y, bits) for bits in (16, 20, 40, 53)]
    events += [lambda y: y <= 0.0, lambda y: y <= 0.5]
    best = 0.0
    for event in events:
        hits = [int(event(each).sum()) for each in samples]
        for counts in (hits, [side - each for each in hits]):
            for a, b in (counts, counts[::-1]):
                low, high = clopper_pearson(a, side)[0], clopper_pearson(b, side)[1]
                best = max(best, math.log(low / high) if low > 0.0 else 0.0)
    return best


@pytest.mark.few(1)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("side", [200_000, pytest.param(SIDE, marks=pytest.mark.long)])
def test_the_precision_of_a_number_tells_nothing(epsilon, side):
    assert epsilon_shown(ours, epsilon, side) <= epsilon
    assert epsilon_shown(bounded, epsilon, side) <= epsilon
    assert epsilon_shown(theirs, epsilon, side) > epsilon


# Timing: single releases, in random order, against what was drawn and against the true answer.


def area(times: np.ndarray, label: np.ndarray) -> float:
    """The probability that a draw with the label took longer than one without (the area under the ROC curve)."""
    ranks, ones = rankdata(times), int(label.sum())
    return float((ranks[label].sum() - ones * (ones + 1) / 2) / (ones * (len(label) - ones)))


def timed(draw, answers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    times, drawn = np.empty(len(answers)), np.empty(len(answers))
    clock = time.perf_counter_ns
    for i, answer in enumerate(answers.tolist()):
        start = clock()
        value = draw(answer)
        times[i] = clock() - start
        drawn[i] = value
    return times, drawn


@pytest.mark.claim("draw")
@pytest.mark.few(1)
@pytest.mark.parametrize("family", [rb.Laplace, rb.Gaussian])
@pytest.mark.parametrize("count", [45_000, pytest.param(200_000, marks=pytest.mark.long)])
def test_the_time_of_a_draw_tells_nothing(family, count):
    m = rb.Mechanism(noise=family(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
    answers = np.random.default_rng(2).choice([0.0, 50.0], count)
    for _ in range(1000):
        m.release(1.0)

    def seen() -> tuple[float, float]:
        """By how much the time tells the answer, and by how much it tells the size of the noise."""
        times, drawn = timed(m.release, answers)
        noise = np.abs(drawn - answers)
        sizes = [
            area(times[chosen], noise[chosen] > np.median(noise[chosen])) for chosen in (answers == 0.0, answers > 0.0)
        ]
        return abs(area(times, answers > 0.0) - 0.5), max(abs(each - 0.5) for each in sizes)

    # Beside busy processes rare numbers were seen to take a little longer, 0.015 +- 0.005. Tables that leave the cache
    # would explain it, which is not proved; the second limit is above what was seen, and the control far above it. What
    # the draw itself leaks is there each time; what other processes add is not.
    allowed = 0.01 if count == 200_000 else 0.02  # both more than seven standard deviations
    by_answer, by_noise = map(min, zip(*(seen() for _ in range(3)), strict=True))
    assert by_answer < allowed
    assert by_noise < 0.06


def test_a_number_drawn_again_is_seen_in_the_time():
    """The control: every other number costs one draw more, the least that a rejection can cost."""
    m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))

    def twice(answer: float) -> float:
        number = m.release(answer)
        if number > answer:
            m.release(answer)
        return number

    times, drawn = timed(twice, np.full(5000, 50.0))
    assert area(times, drawn > 50.0) > 0.8
