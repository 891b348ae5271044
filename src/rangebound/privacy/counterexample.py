"""Pairs of answers that leak more than a claim allows: how to find one, and what one pair needs."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from flint import ctx

from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.privacy.claim import Claim, Notion
from rangebound.privacy.pairs.exact import family, stick
from rangebound.privacy.search.branch_and_bound import climb, probe
from rangebound.privacy.search.cell_bound import Task
from rangebound.privacy.search.delta_objective import Delta
from rangebound.privacy.search.loss_objective import Loss
from rangebound.privacy.setting import SearchLine, Setting, mirrored, neighbours, pair_at
from rangebound.privacy.supremum import by_windows, delta_on, enclosed, loss_on, tasks
from rangebound.privacy.windows.gaussian_hockey_stick import stick_of_pair
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.values.ball import PRECISIONS, Ball, ball, down, precision, refine, up
from rangebound.values.roots import bracket, falling_root


class Counterexample(NamedTuple):
    """A pair that leaks more than a claim allows (or, at the limit of precision, may do so)."""

    side: Setting
    line: SearchLine
    position: float
    pair: tuple[float, float]


def find_counterexample(setting: Setting, claim: Claim, last: Counterexample | None = None) -> Counterexample | None:
    """A pair that may leak more than an ordinary claim allows; None is a proof that there is none.

    `last` is a pair that did so when less was asked: it is looked at first.
    """
    if setting.shape.normalised:
        pairs = setting.pairs()
        if not pairs:
            return None
        near = [
            (number, last.position)
            for number, (side, line) in enumerate(pairs)
            if last is not None and line == last.line and side.shape == last.side.shape
        ]
        found = enclosed(setting, lambda noise, shape: _aimed(noise, shape, claim), claim.limit, near)
        if found.upper <= claim.limit:
            return None
        return _counterexample(setting, pairs[found.task], found.position, claim)
    worst = None
    for side, line in setting.pairs():
        value, where = loss_on(side, line) if claim.pure else delta_on(side, line, claim.epsilon)
        if not value <= claim.limit and (worst is None or value > worst[0]):
            worst = value, Counterexample(side, line, where, pair_at(side, setting, line, where))
    return None if worst is None else worst[1]


def quick_counterexample(setting: Setting, claim: Claim) -> Counterexample | None:
    """A pair that violates an ordinary claim among the likely ones; None proves nothing."""
    if not claim.pure and by_windows(setting):
        return find_counterexample(setting, claim)
    pairs = setting.pairs()
    with precision(PRECISIONS[0]):
        best = probe(tasks(setting, lambda noise, shape: _aimed(noise, shape, claim)))
    if not best.value > claim.limit:
        return None
    return _counterexample(setting, pairs[best.task], best.position, claim)


def _counterexample(
    setting: Setting, where: tuple[Setting, SearchLine], position: float, claim: Claim
) -> Counterexample:
    """The pair at a position, or at a worse one nearby."""
    side, line = where
    if not by_windows(setting):  # else it is the top of its window already
        with precision(PRECISIONS[0]):
            position = climb(Task(excess(side.noise, side.shape, claim), line), position)
    return Counterexample(side, line, position, pair_at(side, setting, line, position))


def excess(noise: Noise, shape: Shape, claim: Claim) -> Delta | Loss:
    """What an ordinary claim limits: delta at epsilon, or for a pure claim the privacy loss."""
    return Loss(noise, shape) if claim.ordinary().pure else Delta(noise, shape, claim.epsilon)


def _aimed(noise: Noise, shape: Shape, claim: Claim) -> Delta | Loss:
    """The same where all that is asked is whether it is above delta."""
    return Loss(noise, shape) if claim.pure else Delta(noise, shape, claim.epsilon, aim=claim.delta)


def pair_epsilon(pair: Counterexample, delta: float, limit: float, start: float = 0.0) -> float:
    """The epsilon that one pair needs at `delta`, to 1e-12 relative, rounded down; fast if `start` is close."""
    side, line, position, _ = pair

    kind = cache(lambda bits: family(side.noise, side.shape))  # at each precision one, which remembers the masses
    laws = Laws(side.noise.scale, side.shape) if by_windows(side) else None

    def above(epsilon: float) -> float:
        quick = None if laws is None else stick_of_pair(laws, epsilon, position, up(line.d))
        if quick is not None:
            return quick - delta
        value = refine(lambda: stick(kind(ctx.prec), ball(position), line.d, ball(epsilon)))
        return max(down(value), 0.0) - delta  # what balls do not tell is not counted

    if side.noise.exponential and side.noise.limited and math.isinf(limit):
        # Beyond twice d/b only outcomes that the other law cannot have are left, and no epsilon helps against them.
        limit = 2.0 * up(line.d) / side.noise.scale * (1.0 + 1e-9)
        if above(limit) > 0.0:
            return math.inf
    return falling_root(above, *bracket(above, limit, start))


def finite_pair(setting: Setting, pair: tuple[float, float], claim: Claim) -> tuple[float, float]:
    """A pair at finite answers for one that is only a limit: far enough out to break the claim as well."""
    if math.isfinite(pair[0]):
        return pair
    sign = math.copysign(1.0, pair[0])
    ends = [abs(end) for end in (*setting.shape.ends, setting.answers.hull.lower, setting.answers.hull.upper)]
    start = max([end for end in ends if math.isfinite(end)], default=0.0)
    for k in range(40):
        far = start + setting.noise.scale * 2.0**k
        found = neighbours(setting, sign * far, sign * (far + setting.sensitivity))
        for each in (found, found[::-1]):
            if breaks(setting, each, claim):
                return each
    return found


def pair_loss(setting: Setting, pair: tuple[float, float]) -> Ball:
    """The pure epsilon that one pair needs in the direction in which it is given."""
    (a, b), shape = pair, setting.shape
    if a > b:
        a, b, shape = -a, -b, shape.mirrored()
    return refine(lambda: family(setting.noise, shape).loss(ball(a), ball(b) - ball(a)))


def pair_delta(setting: Setting, pair: tuple[float, float], epsilon: float) -> Ball:
    """The delta that one pair needs at `epsilon` in the direction in which it is given."""
    (a, b), shape = pair, setting.shape
    if a > b:
        a, b, shape = -a, -b, shape.mirrored()
    return refine(lambda: Delta(setting.noise, shape, epsilon).value(ball(a), ball(b) - ball(a)))


def breaks(setting: Setting, pair: tuple[float, float], claim: Claim) -> bool:
    """Whether two answers surely leak more than a claim allows, in balls; an ordinary one is about neighbours."""
    a, b = pair
    known = all(any(low <= x <= high for low, high in setting.answers.spans) for x in pair)
    if not known or math.isinf(a) or math.isinf(b):
        return False
    if claim.notion is Notion.METRIC:
        return bool(pair_loss(setting, pair) * ball(setting.sensitivity) > ball(claim.epsilon) * abs(ball(a) - ball(b)))
    if abs(Fraction(a) - Fraction(b)) > Fraction(setting.sensitivity):
        return False
    if claim.pure:
        return bool(pair_loss(setting, pair) > claim.epsilon)
    return bool(pair_delta(setting, pair, claim.epsilon) > claim.delta)


def pair_numbers(setting: Setting, pair: tuple[float, float], claim: Claim) -> tuple[float, float]:
    """The epsilon that one pair needs at the claim's delta, and the delta at its epsilon, both rounded down."""
    (a, b), side = pair, setting
    if a > b:
        a, b = -a, -b
        side = Setting(setting.noise, setting.shape.mirrored(), mirrored(setting.answers), setting.sensitivity)
    loss = max(down(pair_loss(setting, pair)), 0.0)
    needed = loss
    if not claim.pure:
        found = pair_epsilon(
            Counterexample(side, SearchLine(a, a, b, a), a, pair), claim.delta, loss if loss > 0.0 else math.inf
        )
        # The root is known to about 1e-12; what is said of it is checked.
        safe = (found * (1.0 - slack) for slack in (0.0, 2e-12, 1e-9) if math.isfinite(found))
        fallback = found if math.isinf(found) else 0.0
        needed = next((x for x in safe if pair_delta(setting, pair, x) >= claim.delta), fallback)
    return needed, max(down(pair_delta(setting, pair, claim.epsilon)), 0.0)
