"""Truncated Gaussian laws in floats with error bounds, against mpmath from the definition."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special

from rangebound.law import Shape
from rangebound.privacy.windows import gaussian_laws as tested
from rangebound.privacy.windows.gaussian_laws import Laws

INF = math.inf
SHAPES = {
    "two spans": Shape(spans=((0.0, 1.0), (1.5, 4.0)), normalised=True),
    "narrow spans": Shape(spans=((0.0, 1e-9), (0.4, 0.4 + 1e-7), (9.0, 9.001)), normalised=True),
    "half-lines": Shape(spans=((-INF, -3.0), (2.0, INF)), normalised=True),
    "points": Shape(points=(0.0, 0.1, 1.7, 5.0, 40.0), normalised=True),
    "far away": Shape(spans=((1e6, 1e6 + 0.25), (1e6 + 2.0, 1e6 + 7.0)), normalised=True),
    "grid": Shape(points=tuple(k * 0.1 for k in range(300)), normalised=True),
}


def masses(shape: Shape, scale: float, location: Any) -> list[Any]:
    """Of each piece the mass, in units of the scale."""
    if shape.points:
        return [mp.exp(-(((mp.mpf(x) - location) / scale) ** 2) / 2) for x in shape.points]
    root = mp.sqrt(2)

    def mass(a: Any, b: Any) -> Any:
        a, b = ((mp.mpf(x) - location) / scale / root for x in (a, b))
        if b < 0:
            a, b = -b, -a
        return mp.sqrt(mp.pi / 2) * (mp.erfc(a) - mp.erfc(b) if a > 0 else mp.erf(b) - mp.erf(a))

    return [mass(a, b) for a, b in shape.spans]


def locations(shape: Shape, scale: float, dice: np.random.Generator) -> np.ndarray:
    ends = [x for x in (*shape.points, *(x for span in shape.spans for x in span)) if math.isfinite(x)]
    places = dice.uniform(ends[0] - 6.0 * scale, ends[-1] + 6.0 * scale, size=8)
    return np.asarray([*places, ends[0], ends[-1], 0.5 * ends[0] + 0.5 * ends[1]])


@pytest.mark.parametrize("scale", [0.05, 1.0, 300.0])
@pytest.mark.parametrize("name", SHAPES)
def test_probabilities_and_norms_are_within_their_errors(name: str, scale: float) -> None:
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


@pytest.mark.parametrize("scale", [0.05, 1.0, 300.0])
@pytest.mark.parametrize("name", [name for name in SHAPES if name != "half-lines"])  # those: by the search as a whole
def test_the_variance_is_bounded_on_the_whole_stretch(name: str, scale: float) -> None:
    shape, dice = SHAPES[name], np.random.default_rng([902, len(name)])
    laws, start = Laws(scale, shape), locations(SHAPES[name], scale, dice)
    width = scale * 10.0 ** dice.uniform(-3.0, 0.5, size=start.size)
    bound = laws.variance(start, start + width, np.full_like(start, 0.3 * scale))
    with mp.workdps(40):
        for k, first in enumerate(start):
            for part in (0.0, 0.37, 1.0):
                location = mp.mpf(first) + part * mp.mpf(width[k]) + mp.mpf(0.3 * scale)
                assert variance(shape, mp.mpf(scale), location) <= bound[k]


def variance(shape: Shape, scale: Any, location: Any) -> Any:
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


def test_without_their_error_terms_the_norms_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    monkeypatch.setattr(tested, "UNIT", 0.0)
    monkeypatch.setattr(tested, "_LIBRARY", 0.0)
    with pytest.raises(AssertionError):
        test_probabilities_and_norms_are_within_their_errors("points", 1.0)


def test_weights_that_cancel_are_not_known() -> None:
    """Half-way between two points 1e8 scales apart floats do not tell which is nearer; the error was capped at 1."""
    laws = Laws(1.0, Shape(points=(-5e7, 5e7), normalised=True))
    p = np.asarray([1e-9, 0.0, -1e-8])
    seen = laws.see(p, np.zeros_like(p))
    assert np.isinf(laws.natural(seen, p)[1]).all()
    assert np.isinf(laws.variance(p, p, np.zeros_like(p))).all()


def test_a_norm_that_is_hardly_known_is_not_known() -> None:
    """The logarithm of 1 - x is not -1.01 x for a large x."""
    laws = Laws(1.0, Shape(spans=((0.0, 1e-36),), normalised=True))
    seen = laws.see(np.zeros(1), np.zeros(1))
    assert np.isinf(laws.natural(seen, np.zeros(1))[1]).all()


def test_what_is_not_seen_of_many_points_is_allowed_for() -> None:
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


def test_the_functions_of_the_library_are_as_good_as_is_assumed() -> None:
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
                assert abs(mp.mpf(y) / exact(mp.mpf(x)) - 1) <= 0.25 * tested._LIBRARY
