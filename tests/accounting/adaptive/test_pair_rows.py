"""Rows of pairs: every pair, also between two rows, lies below their mixture and the slack, by the exact route."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.accounting.adaptive.curve_rows import PairRows, SampledRows
from rangebound.accounting.adaptive.pair_rows import pair_rows
from rangebound.accounting.pld import step_profile
from rangebound.ball import ball, precision
from rangebound.privacy.pair_profile import pair_profile
from rangebound.privacy.search.positions import SearchLine

INF = math.inf
LAPLACE, GAUSSIAN = rb.Laplace, rb.Gaussian


def made(noise: object, answers: tuple[float, float], support: tuple[float, float] | None, sensitivity: float = 1.0):
    query = rb.Query(range=rb.Interval(*answers), sensitivity=sensitivity)
    return rb.Mechanism(noise=noise, query=query, support=support and rb.Interval(*support))


MECHANISMS = [
    made(LAPLACE(scale=1.0), (0, 10), None),
    made(LAPLACE(scale=20.0), (0, 100), None),
    made(LAPLACE(scale=4.0), (0, 5), None),
    made(LAPLACE(scale=0.2), (0, 3), None),
    made(LAPLACE(scale=30.0), (0, 2), None, 0.3),
    made(LAPLACE(scale=4.0), (0, 5), (-3, 9)),
    made(LAPLACE(scale=2.0), (0, 5), (0, INF)),
    made(LAPLACE(scale=2.0), (-INF, 5), (-INF, 7)),
    made(LAPLACE(scale=1.0), (0, 20), (3, 9)),
    made(LAPLACE(scale=1.0), (0, 0.8), (0, 1)),
    made(rb.TruncatedLaplacian(scale=1.0, limit=20.0), (0, 5), None),
    made(GAUSSIAN(scale=2.0), (0, 5), None),
    made(GAUSSIAN(scale=1.0), (0, 1.5), (-1, 1)),
    made(GAUSSIAN(scale=5.0), (0, 5), None, 0.1),
    made(GAUSSIAN(scale=0.8), (-1, 2), (-2, 3)),
]


def between(m: rb.Mechanism, side: object, line: SearchLine, rows: PairRows, random: np.random.Generator):
    """Random positions on a line: the row before, the share of the next row, and the pair of answers."""
    count, scale = len(rows.places), m.noise.scale
    for _ in range(4):
        i = int(random.integers(count - 1)) if count > 1 else 0
        share = float(random.uniform()) if count > 1 else 0.0
        gone = (rows.places[i] + share * (rows.places[min(i + 1, count - 1)] - rows.places[i])) * scale
        from_left = math.isfinite(side.shape.ends[0])
        p = line.start + gone if from_left else line.end - gone
        q = line.far if line.near == p else p + (line.far - line.near)
        sign = 1.0 if side == m.setting.simplified() else -1.0
        yield i, share, (sign * p, sign * q)


@pytest.mark.parametrize("m", MECHANISMS, ids=lambda m: f"{type(m.noise).__name__}-{m.query.range}-{m.support}")
def test_every_pair_lies_below_the_mixture_of_its_rows(m):
    random = np.random.default_rng(5)
    setting = m.setting.simplified()
    found = pair_rows(m)
    assert found is not None
    lines = [(side, line) for side in setting.sides() for line in side.lines()]
    levels = random.uniform(-1.1, 1.1, 6) * m.epsilon()
    for (side, line), rows in zip(lines, found, strict=True):
        curves = rows.at(levels)
        for i, share, pair in between(m, side, line, rows, random):
            upper = (1.0 - share) * curves[i] + share * curves[min(i + 1, len(curves) - 1)]
            with precision(step_profile.BITS):
                exact = np.asarray([float(pair_profile(m.noise, m.shape, pair)(float(each)).mid()) for each in levels])
            assert (exact <= upper + rows.most).all()
            assert (exact >= upper - 3.0 * rows.most - 1e-9).all()


def test_the_slack_is_needed_and_small():
    """In the middle of two rows the curve can be above the chord: without the slack the rows would be too low."""
    (rows,) = pair_rows(MECHANISMS[0]) or ()
    curves = rows.at(np.linspace(0.0, 1.4, 30))
    bends = curves[1:-1] - 0.5 * (curves[:-2] + curves[2:])
    assert bends.max() > 1e-9
    assert bends.max() < rows.most < 1e-6


@pytest.mark.parametrize("removed", [False, True])
def test_a_sampled_row_is_the_mixture_of_the_two_laws(removed):
    """Against sums over a fine partition of the outputs, which can only lose."""
    m, rate = MECHANISMS[2], 0.2
    (rows,) = pair_rows(m) or ()
    levels = np.linspace(-0.3, 0.3, 13)
    found = SampledRows(rows, rate, removed).at(levels)[0]
    cuts = np.linspace(0.0, 5.0, 20_001)
    with_one, without = (np.diff([float(x) for x in m.law(at).cdf(cuts)]) for at in (0.0, 1.0))
    mixed = rate * with_one + (1.0 - rate) * without
    p, q = (without, mixed) if removed else (mixed, without)
    by_sums = np.maximum(p - np.exp(levels)[:, None] * q, 0.0).sum(axis=1)
    assert (found >= by_sums - 1e-12).all()
    assert found == pytest.approx(by_sums, abs=1e-6)


def test_a_sampled_row_is_the_profile_s():
    m = MECHANISMS[0]
    (rows,) = pair_rows(m) or ()
    pair = (0.0, 1.0)
    with precision(step_profile.BITS):
        profile = step_profile.sampled(pair_profile(m.noise, m.shape, pair), 0.1)
        for level in (-0.2, -0.05, 0.0, 0.1, 0.3):
            exact, x = profile(level), ball(level).exp()
            back = 1 - x * (1 - profile(-level))
            assert float(exact.mid()) == pytest.approx(
                SampledRows(rows, 0.1, removed=False).at(np.asarray([level]))[0, 0], abs=1e-11
            )
            assert float(back.mid()) == pytest.approx(
                SampledRows(rows, 0.1, removed=True).at(np.asarray([level]))[0, 0], abs=1e-11
            )


@pytest.mark.parametrize(
    "m",
    [
        rb.Mechanism(noise=LAPLACE(scale=1.0), query=rb.Query(range=rb.Interval(0, 9), sensitivity=1.0), bounding=b)
        for b in (rb.RECTIFY, rb.UNBOUNDED)
    ]
    + [
        made(rb.TruncatedLaplacian(scale=1.0, limit=3.0), (0, 5), None),
        made(GAUSSIAN(scale=0.1), (0, 5), None),
        made(LAPLACE(scale=1e4), (0, 5), None),
    ],
)
def test_other_laws_have_no_rows(m):
    assert pair_rows(m) is None
