"""Draws against the exact probabilities of the analysis: chi-square at the true scale, and at one wrong by one percent.

A false alarm has probability 1e-6 for each case of the main test, whose words repeat themselves, so that it is green
once and for all, and 1e-11 for the others, which draw as users do; the control must be caught in every case.
"""

import math

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

import rangebound as rb
from rangebound.sampling import sampler_for
from tests.sampling.sources import Repeating, name, words

INF = math.inf
DRAWS = 1_000_000
BINS = 12  # few bins see a wrong scale best
ALARM, RARE_ALARM = 1e-6, 1e-11


WIDE = rb.Query(range=rb.Interval(-10, 10), sensitivity=1.0)
GRID = rb.Grid(step=0.25, within=rb.Interval(-10, 10))
SUPPORTS = (
    (rb.Interval(-10, 10), rb.TRUNCATE),
    (rb.Interval(-10, 10), rb.RECTIFY),
    (rb.Interval(-4, INF), rb.TRUNCATE),
    (rb.Union((-10, -1.5), (-1, 1), (1.5, INF)), rb.TRUNCATE),
    (rb.Interval(-INF, INF), rb.UNBOUNDED),
    (GRID, rb.QUANTIZE),
    (GRID, rb.TRUNCATE),
)
BOUNDED = rb.TruncatedLaplacian(scale=0.8, limit=9.0)


def cases() -> list[rb.Mechanism]:
    return [
        rb.Mechanism(noise=noise, query=WIDE, support=support, bounding=bounding)
        for noise in (rb.Laplace(scale=0.8), rb.Gaussian(scale=0.8), BOUNDED)
        for support, bounding in SUPPORTS
        if (noise, support, bounding) != (BOUNDED, GRID, rb.TRUNCATE)
    ]


def edges(m: rb.Mechanism, answer: float) -> np.ndarray:
    """Edges of lattice cells that cut the law into bins of about equal probability; an atom at an end is a bin."""
    quantiles = m.law(answer).quantile(np.linspace(0, 1, BINS + 1)[1:-1])
    if not m.shape.spans:
        return np.unique(quantiles) + 1e-9  # between the points
    step = float(m._sampler(None).fallback.lattice.step)
    below = quantiles >= m.support.hull.upper  # the cell of the upper end has no edge above it
    return np.unique((np.floor(quantiles / step) + np.where(below, -0.5, 0.5)) * step)


def p_value(drawn: np.ndarray, m: rb.Mechanism, answer: float, cuts: np.ndarray) -> float:
    counts = np.bincount(np.searchsorted(cuts, drawn), minlength=len(cuts) + 1)
    expected = np.diff(np.concatenate([[0.0], m.law(answer).cdf(cuts), [1.0]])) * len(drawn)
    keep = expected > 0
    assert counts[~keep].sum() == 0
    if keep.sum() == 2:  # an atom, perhaps with hardly anything beside it: too little for a chi-square
        share = expected[keep][0] / expected[keep].sum()
        return float(binomtest(int(counts[keep][0]), len(drawn), share).pvalue)
    statistic = ((counts - expected)[keep] ** 2 / expected[keep]).sum()
    return float(chi2.sf(statistic, keep.sum() - 1))


def with_scale(m: rb.Mechanism, factor: float) -> rb.Mechanism:
    values = {**vars(m.noise), "scale": m.noise.scale * factor}
    return rb.Mechanism(noise=type(m.noise)(**values), query=m.query, support=m.support, bounding=m.bounding)


def slow(m: rb.Mechanism) -> bool:
    """A million draws of these take seconds."""
    return len(m.shape.spans) > 1 or (m.shape.normalised and not m.shape.spans and isinstance(m.noise, rb.Gaussian))


@pytest.mark.few(6)
@pytest.mark.parametrize("m", [pytest.param(m, marks=[pytest.mark.long] * slow(m)) for m in cases()], ids=name)
@pytest.mark.parametrize("answer", [0.3])
def test_draws_follow_the_law(m, answer):
    s, drawn = sampler_for(m.noise, m.shape, m.query), np.empty(DRAWS)
    random = words(DRAWS, 30)
    for start in range(0, DRAWS, s.chunk):
        part = slice(start, start + s.chunk)
        s.draw(random[part], np.full(len(random[part]), answer), Repeating(31), drawn[part])
    cuts = edges(m, answer)
    assert p_value(drawn, m, answer, cuts) > ALARM
    # The control: one percent off, in either direction, must be seen.
    assert p_value(drawn, with_scale(m, 1.01), answer, cuts) < ALARM
    assert p_value(drawn, with_scale(m, 0.99), answer, cuts) < ALARM


@pytest.mark.few(6)
@pytest.mark.parametrize("answer", [-3.0, 0.0, 1e-3, 10.0, 30.0])
@pytest.mark.parametrize("family", [rb.Laplace, rb.Gaussian])
@pytest.mark.parametrize("bounding", [rb.TRUNCATE, rb.RECTIFY])
def test_draws_follow_the_law_at_and_beyond_the_ends(family, bounding, answer):
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    m = rb.Mechanism(noise=family(scale=2.0), query=query, support=rb.Interval(0, 10), bounding=bounding)
    drawn = m.release(np.full(200_000, answer))
    assert p_value(drawn, m, answer, edges(m, answer)) > RARE_ALARM


@pytest.mark.few(2)
@pytest.mark.parametrize("m", [m for m in cases() if slow(m)], ids=name)
def test_fewer_draws_of_the_slow_ones_follow_the_law(m):
    assert p_value(m.release(np.full(50_000, 0.3)), m, 0.3, edges(m, 0.3)) > RARE_ALARM
