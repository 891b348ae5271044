"""The tables: their error over whole cells, in balls; and the error of the floats against the exact inverse."""

import math

import mpmath
import numpy as np
import pytest
from flint import arb, arb_series

import rangebound as rb
from rangebound.sampling import inversion, kernel_tables
from rangebound.sampling.draw_plan import MARGIN, NEAR, RARE, RARER, WIDER_MARGIN, default_lattice, plan
from rangebound.values.ball import ball, precision
from tests.sampling.sources import words

POWER, LOG, TAIL = 0, kernel_tables.POWER_CELLS, kernel_tables.POWER_CELLS + kernel_tables.LOG_CELLS
INVERSE = TAIL + kernel_tables.TAIL_END * kernel_tables.TAIL_CELLS
DEEPEST = 7.0  # a tail beyond this is rarer than any that is not left to balls
DEPTH = 14  # the Taylor polynomials here go so far that their own remainder does not matter


def taylor_error(function, row: int, start: float, width: float):
    """A ball around polynomial - function over a whole cell: Taylor series about its middle with its remainder."""
    half = ball(0.5 * width)
    middle = ball(start) + half
    whole = arb_series([middle.union(middle - half).union(middle + half), half], prec=DEPTH + 1)
    point = arb_series([middle, half], prec=DEPTH + 1)
    sharp, rough = function(point), function(whole)
    coefficients = [arb(float(c)) for c in kernel_tables.tables()[row]]
    off = [(coefficients[power] if power < 8 else arb(0)) - sharp[power] for power in range(DEPTH)]
    return largest(off) + abs(rough[DEPTH]).upper()


PIECES = [arb(k / 64).union(arb((k + 1) / 64)) for k in range(-64, 64)]


def largest(polynomial):
    """An upper bound of |polynomial| on [-1, 1], piece by piece: its coefficients cancel, so not by their sum."""
    most = arb(0)
    for t in PIECES:
        value = arb(0)
        for coefficient in reversed(polynomial):
            value = value * t + coefficient
        most = most.max(abs(value).upper())
    return most.upper()


def tail_series(z):
    return (z / ball(2.0).sqrt()).erfc() / 2


def cells(first: int, count: int, start: float, width: float):
    return [(first + k, start + k * width, width) for k in range(count)]


def test_powers_and_logarithms_are_within_their_error_everywhere():
    with precision(160):
        for row, start, width in cells(POWER, 16, 0.0, 1 / 16):
            assert taylor_error(lambda f: (-f * ball(2.0).log()).exp(), row, start, width) < 2.0**-49
        for row, start, width in cells(LOG, 16, 1.0, 1 / 16):
            assert taylor_error(lambda m: m.log(), row, start, width) < 2.0**-48


def test_tails_are_within_their_error_everywhere():
    """Relative to the tail as far as it matters, and to the rarest one that matters beyond."""
    with precision(160):
        for row, start, width in cells(TAIL, 12 * 32, 0.0, 1 / 32):
            size = kernel_tables.tail(ball(min(start + width, DEEPEST)))
            assert taylor_error(tail_series, row, start, width) < size * 2.0**-45.5


def test_inverse_tails_are_within_their_error_everywhere():
    """The inverse is checked by putting it back: tail(polynomial(w)) = w, over whole cells."""
    with precision(160):
        for binade in range(2, kernel_tables.BINADES + 1):
            for cell in range(kernel_tables.INVERSE_CELLS):
                row = INVERSE + (binade - 1) * kernel_tables.INVERSE_CELLS + cell
                width = 2.0**-binade / kernel_tables.INVERSE_CELLS
                start = 2.0**-binade + cell * width
                middle = ball(start) + ball(0.5 * width)
                polynomial = [arb(float(c)) for c in kernel_tables.tables()[row]]
                spread = arb(0).union(arb(1)).union(arb(-1))
                there = arb_series(polynomial + [arb(0)] * (DEPTH - 7), prec=DEPTH + 1)
                sharp = tail_series(there)
                value = sum((c * spread**k for k, c in enumerate(polynomial)), arb(0))
                slopes = [
                    sum((c * math.comb(k, j) * spread ** (k - j) for k, c in enumerate(polynomial) if k >= j), arb(0))
                    for j in range(1, 8)
                ]
                rough = tail_series(arb_series([value, *slopes], prec=DEPTH + 1))
                wanted = {0: middle, 1: ball(0.5 * width)}
                off = largest([sharp[k] - wanted.get(k, arb(0)) for k in range(DEPTH)]) + abs(rough[DEPTH]).upper()
                # An error of the tail, relative to it, moves the place by at most sqrt(pi/2) as much.
                assert off < ball(start) * 2.0**-44.5


def test_a_wrong_coefficient_is_noticed(monkeypatch):
    broken = kernel_tables.tables().copy()
    broken[LOG, 2] *= 1 + 2.0**-30
    monkeypatch.setattr(kernel_tables, "tables", lambda: broken)
    with precision(160):
        assert not taylor_error(lambda m: m.log(), LOG, 1.0, 1 / 16) < 2.0**-48


MECHANISMS = [
    rb.Mechanism(noise=noise, query=rb.Query(range=answers, sensitivity=1.0), support=support)
    for noise in (rb.Laplace(scale=1.0), rb.Gaussian(scale=1.0))
    for support in (rb.Interval(0, 10), rb.Interval(0, 0.25), rb.Interval(0, math.inf))
    for answers in (rb.Interval(0, 10), rb.Interval(-3, 4))
]


@pytest.mark.few(4)
@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: f"{m.noise}-{m.support}-{m.query.range}")
def test_the_error_of_the_floats_is_far_within_the_margin(m):
    """Against mpmath: the exact quantile at the exact number that the word's middle stands for."""
    whole = plan(m.noise, m.shape, m.query.range, default_lattice(m.noise, m.shape))
    count = 60
    random = words(count, 11)
    random[:20] >>= np.arange(20, dtype=np.uint64)
    answers = np.linspace(-3, 10, count)
    drawn = inversion.inverted(whole, random, answers)
    x = drawn.centre + whole.scale * drawn.noise
    worst = 0.0
    with mpmath.workdps(40), precision(140):
        for i in np.flatnonzero(drawn.fine).tolist():
            chance = (mpmath.mpf(int(random[i])) + 0.5) / mpmath.mpf(2) ** 64
            at = m.query.clip(answers[i]).item()
            noise = m.noise.in_balls()
            low, high = m.shape.spans[0]
            top = None if math.isinf(high) else ball(high) - ball(at)
            part = noise.mass(ball(low) - ball(at), ball(float(x[i])) - ball(at))
            off = mpmath.mpf(str(part / noise.mass(ball(low) - ball(at), top)).strip("[").split(" ")[0]) - chance
            density = float(m.law(at).pdf(min(max(float(x[i]), low), high)))
            worst = max(worst, abs(float(off)) / density)
    assert worst < MARGIN / 8


@pytest.mark.parametrize(("margin", "rare"), [(MARGIN, RARE), (WIDER_MARGIN, RARER)])
def test_the_margin_adds_up(margin, rare):
    """The terms of papers/numerics.md, in scales: tails, masses, sums, the inverse, and the width of a word."""
    tail, inverse, word = 2.0**-45.5, 2.0**-44.5, 2.0**-65 / rare
    mills = math.sqrt(math.pi / 2)
    assert mills * (4 * tail + inverse + word) + 2.0**-47 < margin
    assert mills * (4 * tail + inverse + 2.0 * word) + 2.0**-47 > margin  # a control: no room for tails twice as rare
    # The tables reach: what is not rare from NEAR scales away lies within the binades and the cells of the tail.
    rarest = 0.5 * math.erfc(NEAR / math.sqrt(2)) * rare
    assert rarest > 2.0**-kernel_tables.BINADES
    assert rarest > 0.5 * math.erfc(DEEPEST / math.sqrt(2))
    assert 0.5 * math.erfc(kernel_tables.TAIL_END / math.sqrt(2)) < rarest * 2.0**-46
