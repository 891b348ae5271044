"""The exact privacy profile of one pair of answers, at an epsilon of any sign."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.claim import Claim
from rangebound.privacy.counterexample import finite_pair
from rangebound.privacy.pairs.exact import family, stick
from rangebound.privacy.setting import Setting
from rangebound.privacy.worst import worst_delta
from rangebound.values.ball import Ball, ball, refine

_NEAR = 1e-9  # relative: how far below the supremum a pair at finite answers may be, where only a limit attains it


def pair_profile(noise: Noise, shape: Shape, pair: tuple[float, float]) -> Callable[[float], Ball]:
    """The delta of two answers, in the order in which they are given, at every epsilon; a ball.

    At a negative epsilon it is 1 - e^epsilon (1 - delta of the pair in the other order at -epsilon).
    """
    return partial(_at, noise, shape, pair)


def _at(noise: Noise, shape: Shape, pair: tuple[float, float], epsilon: float) -> Ball:
    if epsilon < 0.0:  # the formulas are for thresholds between the two answers: ask the pair in the other order
        return 1 - ball(epsilon).exp() * (1 - _at(noise, shape, pair[::-1], -epsilon))
    a, b = pair
    if shape.normalised and noise.laplace:  # this law does not change beyond its support
        low, high = shape.ends
        a, b = min(max(a, low), high), min(max(b, low), high)
    if a > b:
        a, b, shape = -a, -b, shape.mirrored()
    return refine(lambda: stick(family(noise, shape), ball(a), ball(b) - ball(a), ball(epsilon)), bits=100)


def worst_pair_at(setting: Setting, epsilon: float) -> tuple[float, float]:
    """A pair of finite answers whose delta at epsilon is the largest of all, or as good as that."""
    worst = worst_delta(setting, epsilon)
    delta = min(worst.lower * (1.0 - _NEAR), 1.0 - _NEAR)
    return finite_pair(setting, worst.pair, Claim(epsilon=epsilon, delta=max(delta, 0.0)))
