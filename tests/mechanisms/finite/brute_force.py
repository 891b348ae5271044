"""Privacy of a small table by its definition, in exact fractions: another route than the package's."""

import itertools
import math
from fractions import Fraction

from mpmath import mp, mpf

TOTAL = 2**62


def nearest(inputs, answer):
    gaps = [abs(Fraction(x) - answer) for x in inputs]
    return max(i for i, gap in enumerate(gaps) if gap == min(gaps))


def neighbouring_inputs(inputs, spans, sensitivity):
    """Pairs of inputs that two answers of the spans, at most `sensitivity` apart, can go to: by trying answers.

    The answers tried are the ends of spans, the midpoints between inputs and points a hair below them, and for each of
    these the same moved by the sensitivity, and by a hair less.
    """
    hair = Fraction(1, 2**200)
    limit = Fraction(sensitivity)
    marks = {Fraction(end) for span in spans for end in span}
    marks |= {(Fraction(a) + Fraction(b)) / 2 for a, b in itertools.pairwise(inputs)}
    tried = {mark + k * hair for mark in marks for k in (-1, 0, 1)}
    tried |= {x + sign * limit + k * hair for x in tried for sign in (-1, 1) for k in (-1, 0, 1)}
    tried = sorted(x for x in tried if any(Fraction(a) <= x <= Fraction(b) for a, b in spans))
    places = [nearest(inputs, x) for x in tried]
    return {
        (i, j)
        for (x, i), (y, j) in itertools.combinations(zip(tried, places, strict=True), 2)
        if i != j and abs(x - y) <= limit
    }


def ratio(weights, pairs):
    """The largest ratio of two neighbours' weights; infinite where only one of them is zero."""
    worst = Fraction(1)
    for i, j in pairs:
        for a, b in ((i, j), (j, i)):
            for p, q in zip(weights[a], weights[b], strict=True):
                if p and not q:
                    return math.inf
                if p:
                    worst = max(worst, Fraction(p, q))
    return worst


@mp.workdps(60)
def delta(weights, pairs, epsilon):
    level = mp.exp(mpf(epsilon))
    worst = mpf(0)
    for i, j in pairs:
        for a, b in ((i, j), (j, i)):
            total = sum(
                (max(mpf(p) - level * mpf(q), mpf(0)) for p, q in zip(weights[a], weights[b], strict=True)), mpf(0)
            )
            worst = max(worst, total / TOTAL)
    return worst


@mp.workdps(60)
def renyi(weights, pairs, order):
    worst = mpf(0)
    for i, j in pairs:
        for a, b in ((i, j), (j, i)):
            total = mpf(0)
            for p, q in zip(weights[a], weights[b], strict=True):
                if p and not q:
                    return mp.inf
                if p:
                    total += mpf(p) ** mpf(order) * mpf(q) ** (1 - mpf(order))
            worst = max(worst, mp.log(total / TOTAL) / (mpf(order) - 1))
    return worst
