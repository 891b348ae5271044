"""The lemmas of [croft2022], each by brute force and with a control that must fail. Sensitivity 1."""

import math

import numpy as np
import pytest
from scipy.special import lambertw

from tests.errata.test_croft2022 import lemma_9_loss, metric_scale, pair_loss, random_gaps, rate, smallest

ROOT = float(lambertw(-1.0 / (2.0 * math.e)).real)  # W(-1/(2e))
EPSILONS = (0.2, 1.0, 3.0)
SHARES = np.asarray([0.02, 0.1, 0.4, 0.8, 0.97])  # of the distance 1/epsilon


def first(epsilon):
    """Formula (32): the scale at the constraint."""
    return -1.0 / (ROOT * math.e * epsilon)


def given(i, epsilon, scale):
    """What the function of Lambert is asked for in (33)."""
    share = i * np.exp(-i * epsilon) / scale
    return -2.0 * share * np.exp(-share)


def second(i, epsilon, scale, branch):
    """Formula (33), also the right-hand sides of (28) and (29)."""
    share = i * np.exp(-i * epsilon) / scale
    return -i / (lambertw(given(i, epsilon, scale), branch).real + share)


def guarantee(i, epsilon, scale, other, beyond=0.0):
    """The left side of (25) over the right: at most 1 where the pair is private. `beyond` is the first distance."""
    far = i + beyond
    normal = (2.0 - np.exp(-far / other)) / (2.0 - np.exp(-beyond / scale))
    return other / scale * normal * np.exp(far / other - beyond / scale - i * epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("wider", [1.0, 1.3, 2.0])
def test_lemma_1_the_scales_that_go_with_the_one_at_the_constraint_lie_between_two_branches(epsilon, wider):
    scale = wider * first(epsilon)
    for i in SHARES / epsilon:
        high, low = (second(i, epsilon, scale, branch) for branch in (0, -1))
        inside = np.linspace(low, high, 50)[1:-1]
        assert (guarantee(i, epsilon, scale, inside) <= 1.0 + 1e-12).all()
        for outside in (0.99 * low, 1.01 * high):  # the control: beyond either bound the pair is not private
            assert guarantee(i, epsilon, scale, outside) > 1.0


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_lemma_2_with_the_published_scale_the_guarantee_is_met_exactly(epsilon):
    i = np.concatenate([SHARES, 1.0 / SHARES]) / epsilon
    for branch in (0, -1):
        assert guarantee(i, epsilon, first(epsilon), second(i, epsilon, first(epsilon), branch)) == pytest.approx(1.0)
    smaller = 0.99 * first(epsilon)
    assert given(1.0 / epsilon, epsilon, smaller) < -1.0 / math.e  # the control: no real scale is left there
    assert given(1.0 / epsilon, epsilon, first(epsilon)) == pytest.approx(-1.0 / math.e, rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_lemma_3_the_denominator_is_negative_on_one_branch_and_positive_on_the_other(epsilon):
    scale, i = first(epsilon), np.concatenate([SHARES, 1.0 / SHARES]) / epsilon
    slopes = {}
    for branch, sign in ((0, -1.0), (-1, 1.0)):
        w = lambertw(given(i, epsilon, scale), branch).real
        rise = np.exp(i * epsilon) * scale
        denominator = (w * rise + i) * (w + 1.0)
        assert (np.sign(denominator) == sign).all()
        slopes[branch] = -(w + i * epsilon) * rise / denominator
        step = 1e-6 * i
        ends = [second(i + k * step, epsilon, scale, branch) for k in (-1, 1)]
        assert slopes[branch] == pytest.approx((ends[1] - ends[0]) / (2.0 * step), rel=1e-4)
    assert slopes[0] != pytest.approx(slopes[-1], rel=1e-4)  # the control: the branches are not each other's


def turns(values):
    """The signs of the differences, one for each stretch."""
    signs = np.sign(np.diff(values))
    return [int(each) for k, each in enumerate(signs) if k == 0 or each != signs[k - 1]]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_lemmas_4_and_6_each_branch_has_one_mode_a_minimum_and_a_maximum(epsilon):
    i = np.linspace(0.01, 5.0, 2001) / epsilon
    found = {branch: second(i, epsilon, first(epsilon), branch) for branch in (0, -1)}
    assert (turns(found[0]), turns(found[-1])) == ([-1, 1], [1, -1])
    for branch, mode in ((0, np.argmin), (-1, np.argmax)):
        assert i[mode(found[branch])] == pytest.approx(1.0 / epsilon, rel=0.01)
    both = np.where(i * epsilon < 1.0, found[0], found[-1])
    assert turns(both) == [-1]  # what Theorem 1 uses: decreasing throughout
    assert turns(np.where(i * epsilon < 1.0, found[-1], found[0])) != [-1]  # the control


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_lemma_5_the_argument_falls_to_one_over_epsilon_and_then_rises(epsilon):
    i = np.linspace(0.0, 6.0, 3001) / epsilon
    values = given(i, epsilon, first(epsilon))
    assert turns(values) == [-1, 1]
    assert i[np.argmin(values)] == pytest.approx(1.0 / epsilon, rel=1e-3)
    assert turns(given(i, epsilon, 0.2 / epsilon)) == [-1, 1, -1, 1]  # the control: a scale too small has more modes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_lemmas_7_and_8_the_bound_of_a_span_is_enough_inside_it_and_so_is_any_larger_scale(seed):
    gaps = random_gaps(2, seed)
    span = (gaps[0][1], gaps[1][0])
    spans = ((-math.inf, gaps[0][0]), span, (gaps[1][1], math.inf))
    epsilon = 1.0
    needed = smallest(lambda scale: max(rate(x, gaps, scale) for x in span), epsilon)
    pairs = [(span[0], span[1]), (span[0], np.mean(span)), (np.mean(span), span[1])]
    for factor in (1.0, 1.2, 2.0):
        for one, other in pairs:
            assert pair_loss(one, other, factor * needed, *spans) <= (other - one) * epsilon * (1.0 + 1e-9)
    end = min(span, key=lambda x: -rate(x, gaps, needed))
    near = end + 1e-3 * (np.mean(span) - end)  # the control: with less, the guarantee fails where the span ends
    assert pair_loss(end, near, 0.97 * needed, *spans) > abs(near - end) * epsilon


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_lemma_9_some_scale_serves_the_two_ends_of_a_gap(seed):
    gaps = random_gaps(3, seed)
    spans = ((-math.inf, gaps[0][0]), (gaps[0][1], gaps[1][0]), (gaps[1][1], gaps[2][0]), (gaps[2][1], math.inf))
    for gap in gaps:
        scale = smallest(lambda each, gap=gap: lemma_9_loss(gap, gaps, each), 1.0)
        width = gap[1] - gap[0]
        assert pair_loss(*gap, scale, *spans) <= width * (1.0 + 1e-9)
        assert pair_loss(*gap, 0.6, *spans) > width  # the control: a scale below D/epsilon does not


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_lemma_10_every_bound_is_below_twice_the_plain_scale(epsilon):
    scales = []
    for seed in range(20):
        gaps = random_gaps(1 + seed % 4, seed)
        scales.append(metric_scale(gaps, epsilon) * epsilon)
        for gap in gaps:
            assert lemma_9_loss(gap, gaps, 2.0 / epsilon) < epsilon
    assert 1.0 < max(scales) < 2.0
    assert max(scales) > 1.5  # the control: no much smaller constant would do
