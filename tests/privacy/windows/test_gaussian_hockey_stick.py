"""Truncated Gaussian laws in floats with error bounds, against mpmath, and their hockey sticks on windows."""

import math

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from rangebound.laws.boundings import Shape
from rangebound.laws.gaussian import Gaussian
from rangebound.privacy.objectives import Delta, Loss
from rangebound.privacy.windows import gaussian_hockey_stick as tested
from rangebound.privacy.windows import gaussian_laws
from rangebound.privacy.windows.gaussian_hockey_stick import loss_bounds, stick, stick_of_pair
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.privacy.windows.gaussian_windows import windows_of
from rangebound.values.ball import ball, down, precision, up

UNION = Shape(spans=((0.0, 0.3), (0.35, 0.5), (1.1, 3.0)), normalised=True)
GRID = Shape(points=(0.0, 0.2, 0.5, 0.55, 1.5, 3.0), normalised=True)
CASES = [(shape, epsilon, d) for shape in (UNION, GRID) for epsilon, d in ((0.0, 0.1), (0.3, 0.25), (1.5, 0.6))]


def values(shape, scale, epsilon, d, positions):
    objective = Delta(Gaussian(scale=scale), shape, epsilon)
    with precision(128):
        return np.asarray([down(objective.value(ball(float(p)), ball(d))) for p in positions])


def enclosed(shape, scale, epsilon, d, start, end):
    found = stick(Laws(scale, shape), epsilon, windows_of([(start, end, d, 0, 0, 0.0)]))
    return found.lower, found.upper


@pytest.mark.few(3)
@pytest.mark.parametrize("scale", [0.15, 1.0])
@pytest.mark.parametrize(("shape", "epsilon", "d"), CASES)
def test_no_position_is_above_the_bound(shape, epsilon, d, scale):
    lower, upper = enclosed(shape, scale, epsilon, d, -1.0, 3.5)
    largest = values(shape, scale, epsilon, d, np.linspace(-1.0, 3.5, 301)).max()
    assert largest <= upper
    assert upper <= max(lower * (1.0 + 1e-7), 1e-25)
    assert lower <= largest * 1.01 + 1e-25


@pytest.mark.parametrize(("epsilon", "scale", "d"), [(75.0, 0.15, 1.5), (420.0, 0.1, 2.6)])
@pytest.mark.parametrize("shape", [UNION, GRID], ids=["spans", "points"])
def test_no_position_is_above_the_bound_at_a_large_epsilon(shape, epsilon, scale, d):
    """Where e^epsilon is beyond the precision of a double, and the mass of the other law as much below it."""
    lower, upper = enclosed(shape, scale, epsilon, d, -0.2, 0.6)
    largest = values(shape, scale, epsilon, d, np.linspace(-0.2, 0.6, 81)).max()
    assert 1e-12 < largest <= upper
    assert upper <= lower * (1.0 + 1e-7)
    for p in (-0.2, 0.1, 0.6):  # one position alone
        (value,) = values(shape, scale, epsilon, d, [p])
        low, high = (max(each, 0.0) for each in enclosed(shape, scale, epsilon, d, p, p))
        assert value * (1.0 - 1e-9) - 1e-30 <= low <= value <= high <= value * (1.0 + 1e-9) + 1e-30


def test_the_events_between_the_thresholds_are_taken():
    """At the left end the last points have a mass of 1e-16, so that sums of floats do not tell the best event."""
    shape = Shape(points=(0.0, 0.5, 1.0, 30.0, 30.5, 31.0, 31.5), normalised=True)
    laws = Laws(1.0, shape)
    window = windows_of([(13.0, 14.9, 0.5, 0, 0, 4.0)])
    low, _ = tested._thresholds_at(laws, 0.1, window.start, window.d)
    high, _ = tested._thresholds_at(laws, 0.1, window.end, window.d)
    found = tested._events(laws, 0.1, window._replace(start=np.asarray([14.0])), None, {4.0: 48})
    assert values(shape, 1.0, 0.1, 0.5, np.linspace(14.0, 14.9, 40)).max() <= found.upper[0]
    assert low[0] < high[0]


@pytest.mark.parametrize("epsilon", [0.1, 0.85, 3.0])
def test_events_of_equal_gain_do_not_confuse(epsilon):
    """Before, the best event came from sums of floats, and was found lower at the right end than at the left."""
    shape = Shape(points=tuple(1e-6 * k for k in range(-5, 6)), normalised=True)
    scale, d = 3.110996400175739e-07, 2.9897027261130724e-06
    _, upper = enclosed(shape, scale, epsilon, d, -12e-6, 12e-6)
    assert values(shape, scale, epsilon, d, np.linspace(-12e-6, 12e-6, 101)).max() <= upper


def fewer_branches(*args, whole=tested._branches):
    found = whole(*args)
    return found.some(found.branch != 4)


def fewer_events(epsilon, pair, rows, piece, whole=tested._difference):
    value, error = whole(epsilon, pair, rows, piece)
    return np.where(piece == 4, -1.0, value), error


@pytest.mark.parametrize(
    ("name", "fewer", "shape", "start", "end"),
    [("_branches", fewer_branches, UNION, -1.0, 3.5), ("_difference", fewer_events, GRID, 0.5, 1.5)],
)
def test_a_branch_or_an_event_less_is_seen(name, fewer, shape, start, end, monkeypatch):
    """The control: without the windows of one branch, or one event, the bound is too small."""
    monkeypatch.setattr(tested, name, fewer)
    _, upper = enclosed(shape, 0.15, 0.3, 0.25, start, end)
    assert values(shape, 0.15, 0.3, 0.25, np.linspace(start, end, 301)).max() > upper


@pytest.mark.parametrize(("shape", "epsilon", "d"), CASES)
def test_one_pair_is_rounded_down_and_close(shape, epsilon, d):
    """Where it is told at all, which is where floats know it to 1e-11."""
    objective = Delta(Gaussian(scale=0.4), shape, epsilon)
    told = 0
    for p in np.linspace(-2.0, 4.0, 25):
        found = stick_of_pair(Laws(0.4, shape), epsilon, float(p), d)
        if found is None:
            continue
        told += 1
        with precision(128):
            true = objective.value(ball(float(p)), ball(d))
        assert found <= up(true)
        assert found >= down(true) * (1.0 - 1e-10) - 1e-300
    assert told >= 8


def test_losses_are_enclosed_and_unknown_ones_stay():
    p, d = np.linspace(-1.0, 2.5, 15), np.full(15, 0.4)
    low, high = loss_bounds(Laws(0.4, UNION), p, d)
    objective = Loss(Gaussian(scale=0.4), UNION)
    with precision(128):
        for k, at in enumerate(p):
            true = objective.value(ball(float(at)), ball(0.4))
            assert low[k] <= up(true)
            assert down(true) <= high[k]
    assert (high - low < 1e-9).all()
    lost = Laws(1.0, Shape(points=(-5e7, 5e7), normalised=True))
    low, high = loss_bounds(lost, np.zeros(1), np.ones(1))
    assert low[0] == -math.inf
    assert high[0] == math.inf
    endless = Shape(spans=((-math.inf, -0.5), (0.0, 4.0)), normalised=True)
    low, high = loss_bounds(Laws(1.0, endless), p, d)
    assert (low == -math.inf).all()
    assert (high == math.inf).all()


@pytest.mark.parametrize(("scale", "d"), [(0.15, 0.1), (0.15, 0.25), (1.0, 0.1), (1.0, 0.25)])
def test_the_bound_in_an_ellipse_is_that_of_its_mirror_image(scale, d):
    """At epsilon 0 the mirror image of a pair is the pair in the other direction: the thresholds drift both ways."""
    mirror = Shape(spans=tuple((-high, -low) for low, high in reversed(UNION.spans)), normalised=True)
    rows = [(p, p + 0.05 * scale, 2 * k + 1) for p in np.linspace(-0.5, 2.5, 9).tolist() for k in range(3)]
    here = windows_of([(start, end, d, 0, branch, 4.0) for start, end, branch in rows])
    there = windows_of([(-end - d, -start - d, d, 0, 6 - branch, 4.0) for start, end, branch in rows])
    found, mirrored = (tested._in_ellipse(Laws(scale, at), 0.0, w) for at, w in ((UNION, here), (mirror, there)))
    assert np.allclose(found, mirrored, rtol=1e-7, atol=0.0)


INF = math.inf
SHAPES = {
    "two spans": Shape(spans=((0.0, 1.0), (1.5, 4.0)), normalised=True),
    "narrow spans": Shape(spans=((0.0, 1e-9), (0.4, 0.4 + 1e-7), (9.0, 9.001)), normalised=True),
    "half-lines": Shape(spans=((-INF, -3.0), (2.0, INF)), normalised=True),
    "points": Shape(points=(0.0, 0.1, 1.7, 5.0, 40.0), normalised=True),
    "far away": Shape(spans=((1e6, 1e6 + 0.25), (1e6 + 2.0, 1e6 + 7.0)), normalised=True),
    "grid": Shape(points=tuple(k * 0.1 for k in range(300)), normalised=True),
}


def masses(shape, scale, location):
    if shape.points:
        return [mp.exp(-(((mp.mpf(x) - location) / scale) ** 2) / 2) for x in shape.points]
    root = mp.sqrt(2)

    def mass(a, b):
        a, b = ((mp.mpf(x) - location) / scale / root for x in (a, b))
        if b < 0:
            a, b = -b, -a
        return mp.sqrt(mp.pi / 2) * (mp.erfc(a) - mp.erfc(b) if a > 0 else mp.erf(b) - mp.erf(a))

    return [mass(a, b) for a, b in shape.spans]


def locations(shape, scale, dice):
    ends = [x for x in (*shape.points, *(x for span in shape.spans for x in span)) if math.isfinite(x)]
    places = dice.uniform(ends[0] - 6.0 * scale, ends[-1] + 6.0 * scale, size=8)
    return np.asarray([*places, ends[0], ends[-1], 0.5 * ends[0] + 0.5 * ends[1]])


@pytest.mark.few(9)
@pytest.mark.parametrize("scale", [0.05, 1.0, 300.0])
@pytest.mark.parametrize("name", SHAPES)
def test_probabilities_and_norms_are_within_their_errors(name, scale):
    shape, dice = SHAPES[name], np.random.default_rng([901, len(name)])
    laws, p = Laws(scale, shape), locations(SHAPES[name], scale, dice)
    offset = np.full_like(p, 0.7 * scale)
    seen = laws.see(p, offset)
    pieces = dice.integers(0, laws.lows.size + 1, size=p.size)
    share, error = seen.below(slice(None), pieces)
    centre = seen.place.nearest[0] * np.ones_like(p)
    norm, off = laws.natural(seen, centre)
    assert (off < 1e-4).all()
    assert (error < 1e-4).all()
    with mp.workdps(60):
        for k, at in enumerate(p):
            location = mp.mpf(at) + mp.mpf(offset[k])
            true = masses(shape, mp.mpf(scale), location)
            assert abs(mp.fsum(true[: pieces[k]]) / mp.fsum(true) - share[k]) <= error[k]
            u = location - mp.mpf(centre[k])
            assert abs(mp.log(mp.fsum(true)) + u * u / (2 * mp.mpf(scale) ** 2) - norm[k]) <= off[k]


@pytest.mark.few(3)
@pytest.mark.parametrize("scale", [0.05, 1.0, 300.0])
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "half-lines"])  # those: by the search as a whole
def test_the_variance_is_bounded_on_the_whole_stretch(name, scale):
    shape, dice = SHAPES[name], np.random.default_rng([902, len(name)])
    laws, start = Laws(scale, shape), locations(SHAPES[name], scale, dice)
    width = scale * 10.0 ** dice.uniform(-3.0, 0.5, size=start.size)
    bound = laws.variance(start, start + width, np.full_like(start, 0.3 * scale))
    with mp.workdps(40):
        for k, first in enumerate(start):
            for part in (0.0, 0.37, 1.0):
                location = mp.mpf(first) + part * mp.mpf(width[k]) + mp.mpf(0.3 * scale)
                assert variance(shape, mp.mpf(scale), location) <= bound[k]


@pytest.mark.parametrize("spans", [((0.0, 1e-4),), ((0.0, 0.7), (0.9, 1.0)), ((-2.0, INF),)], ids=str)
def test_far_outside_all_is_within_its_error_as_well(spans):
    """A narrow support is looked at from as far away as a law takes to tilt across it: 100,000 scales."""
    shape = Shape(spans=spans, normalised=True)
    laws, p = Laws(1.0, shape), np.asarray([-9e4, -3e3, -40.0])
    p = p if math.isinf(spans[-1][1]) else np.concatenate([p, -p])
    offset = np.full_like(p, 0.7)
    assert not laws.far(p, offset).any()
    seen, bound = laws.see(p, offset), laws.variance(p, p + 1.0, offset)
    share, error = seen.below(slice(None), np.ones(p.size, dtype=np.intp))
    centre = seen.place.nearest
    norm, off = laws.natural(seen, centre)
    mean, edges = laws.mean(seen), [x for x in laws.edges if math.isfinite(x)]
    with mp.workdps(60):
        for k, at in enumerate(p):
            location = mp.mpf(at) + mp.mpf(offset[k])
            true = masses(shape, mp.mpf(1), location) if len(edges) > 1 else [mp.erfc((-2 - location) / mp.sqrt(2))]
            true = true if len(edges) > 1 else [mp.sqrt(mp.pi / 2) * true[0]]
            assert abs(true[0] / mp.fsum(true) - share[k]) <= error[k] < 1e-8
            u = location - mp.mpf(centre[k])
            assert abs(mp.log(mp.fsum(true)) + u * u / 2 - norm[k]) <= off[k] < 1e-8
            if len(edges) > 1:
                assert variance(shape, mp.mpf(1), location) <= bound[k]
                heights = [[mp.exp(-((mp.mpf(x) - location) ** 2) / 2) for x in span] for span in spans]
                exact = location + mp.fsum(a - b for a, b in heights) / mp.fsum(true)
                assert abs(mean[k] - exact) <= 1e-6


def variance(shape, scale, location):
    weights = masses(shape, scale, location)
    if shape.points:
        first, second = (
            mp.fsum(w * mp.mpf(x) ** n for w, x in zip(weights, shape.points, strict=True)) for n in (1, 2)
        )
        return second / mp.fsum(weights) - (first / mp.fsum(weights)) ** 2
    total = mp.fsum(weights)
    moments = [mp.mpf(0), mp.mpf(0)]  # of (x - location)/scale, by parts
    for weight, (a, b) in zip(weights, shape.spans, strict=True):
        ends = [(mp.mpf(x) - location) / scale for x in (a, b)]
        low, high = (mp.exp(-y * y / 2) for y in ends)
        moments[0] += low - high
        moments[1] += weight + ends[0] * low - ends[1] * high
    return scale**2 * (moments[1] / total - (moments[0] / total) ** 2)


def test_without_their_error_terms_the_norms_are_wrong(monkeypatch):
    monkeypatch.setattr(gaussian_laws, "UNIT", 0.0)
    monkeypatch.setattr(gaussian_laws, "_LIBRARY", 0.0)
    with pytest.raises(AssertionError):
        test_probabilities_and_norms_are_within_their_errors("points", 1.0)


def test_weights_that_cancel_are_not_known():
    """Half-way between two points 1e8 scales apart floats do not tell which is nearer; the error was capped at 1."""
    laws = Laws(1.0, Shape(points=(-5e7, 5e7), normalised=True))
    p = np.asarray([1e-9, 0.0, -1e-8])
    seen = laws.see(p, np.zeros_like(p))
    assert np.isinf(laws.natural(seen, p)[1]).all()
    assert np.isinf(laws.variance(p, p, np.zeros_like(p))).all()


def test_a_norm_that_is_hardly_known_is_not_known():
    """The logarithm of 1 - x is not -1.01 x for a large x."""
    laws = Laws(1.0, Shape(spans=((0.0, 1e-36),), normalised=True))
    seen = laws.see(np.zeros(1), np.zeros(1))
    assert np.isinf(laws.natural(seen, np.zeros(1))[1]).all()


def test_what_is_not_seen_of_many_points_is_allowed_for():
    """Each point beyond the reach may have e^-84 of the weight of the nearest one, and there may be thousands."""
    points = tuple(13.0 + 1e-6 * k for k in range(1, 400))
    laws = Laws(1.0, Shape(points=(0.0, *points), normalised=True))
    seen = laws.see(np.zeros(1), np.zeros(1))
    with mp.workdps(60):
        true = mp.fsum(masses(Shape(points=points), mp.mpf(1), mp.mpf(0)))
        assert abs(mp.mpf(1) + true - mp.mpf(seen.total[0])) <= seen.error[0]
        share, error = seen.below(slice(None), np.asarray([1]))
        assert 1 / (1 + true) >= share[0] - error[0]
        assert true <= seen.unseen  # and what one point has is not enough
        assert true > seen.unseen / len(points) / 2


def test_the_functions_of_the_library_are_as_good_as_is_assumed():
    """Against 50 digits; a quarter of what is allowed for is all that was ever seen."""
    dice = np.random.default_rng(7)
    cases = (
        (scipy.special.erfcx, dice.uniform(0.0, 60.0, 1500), lambda x: mp.exp(x * x) * mp.erfc(x)),
        (np.exp, dice.uniform(-700.0, 0.0, 1500), mp.exp),
        (np.log, np.exp(dice.uniform(-30.0, 3.0, 1500)), mp.log),
    )
    with mp.workdps(50):
        for function, places, exact in cases:
            for x, y in zip(places, function(places), strict=True):
                assert abs(mp.mpf(y) / exact(mp.mpf(x)) - 1) <= 0.25 * gaussian_laws._LIBRARY
