"""Curves and profiles of plain noise in balls, and the best test of two finite laws in fractions."""

import math
from fractions import Fraction

from flint import arb

import rangebound as rb

RATES = (0.0, 1e-6, 0.01, 0.1, 0.2, 0.4, 0.5, 0.7, 0.99, 1.0)


def free(noise):
    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    return rb.Mechanism(noise=noise, query=query, bounding=rb.UNBOUNDED)


def tail(x):
    return (x / arb(2).sqrt()).erfc() / 2


def quantile(p):
    return arb(2).sqrt() * (2 * p).erfcinv()


def laplace_delta(x, loss):
    return max(1 - ((x - loss) / 2).exp(), arb(0), key=float)


def gaussian_delta(x, mu):
    return tail(x / mu - mu / 2) - x.exp() * tail(x / mu + mu / 2)


def laplace_curve(alpha, loss):
    """The trade-off curve of Laplace noise [dong2022]."""
    alpha, shrink = arb(alpha), (-loss).exp()
    if alpha < shrink / 2:
        return 1 - alpha / shrink
    return shrink / (4 * alpha) if alpha <= 0.5 else shrink * (1 - alpha)


def gaussian_curve(alpha, mu):
    return arb(1 - alpha) if alpha in (0.0, 1.0) else tail(mu - quantile(arb(alpha)))


FAMILIES = {rb.Laplace: (laplace_delta, laplace_curve), rb.Gaussian: (gaussian_delta, gaussian_curve)}


def best_miss(p, q, alpha):
    """The lemma of Neyman and Pearson: outcomes by their ratio, until the false positive rate is used up."""
    left, hit = Fraction(alpha), Fraction(0)
    for a, b in sorted(zip(p, q, strict=True), key=lambda each: (each[1] > 0, -each[0] / each[1] if each[1] else 0)):
        part = min(Fraction(1), left / b) if b else Fraction(1)
        hit, left = hit + part * a, left - part * b
    return 1 - hit


ROWS = ([7, 2, 1, 0, 6], [4, 4, 4, 3, 1]), ([1, 2, 3, 4, 6], [6, 4, 3, 2, 1]), ([0, 8, 8], [8, 8, 0])
"""Pairs of laws in sixteenths, whose two orders have different curves."""


def table(rows):
    return rb.Table(
        query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0),
        inputs=(0, 1),
        outputs=tuple(range(len(rows[0]))),
        weights=[[each * 2**58 for each in row] for row in rows],
    )
