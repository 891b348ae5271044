"""The supremum over all pairs of answers, pairs that leak more than a claim allows, and what one pair needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from flint import ctx

from rangebound.laws.boundings import UNBOUNDED_SHAPE, Shape
from rangebound.laws.family import Noise
from rangebound.privacy.branch_and_bound import DECIDING, Found, Task, climb, enclose, probe
from rangebound.privacy.objectives import Delta, Loss
from rangebound.privacy.pairs.divergences import Mapped, family, mapped, pair_loss, pair_stick, stick
from rangebound.privacy.setting import Claim, Notion, SearchLine, Setting, mirrored, neighbours, pair_at
from rangebound.privacy.windows import gaussian_worst, laplace_rounded, laplace_windows
from rangebound.privacy.windows.gaussian_hockey_stick import loss_bounds, stick_of_pair
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.values.array_types import np
from rangebound.values.ball import PRECISIONS, Ball, ball, down, precision, refine, up
from rangebound.values.roots import bracket, falling_root

Make = Callable[[Noise, Shape], Any]


def tasks(setting: Setting, make: Make) -> list[Task]:
    """What there is to search: every line of pairs in both directions, one objective for all lines of a direction."""
    found = []
    for side in setting.sides():
        objective = make(side.noise, side.shape)
        found += [Task(objective, line) for line in side.lines()]
    return found


def enclosed(
    setting: Setting, make: Make, target: float | None = None, near: Sequence[tuple[int, float]] = ()
) -> Found:
    """By windows in floats where they can, else branch and bound at growing precision until it closes or decides."""
    quick = None
    with precision(PRECISIONS[0]):  # of the ceilings far out, where much cancels
        if setting.noise.exponential:
            by_window = laplace_windows.enclosed if setting.shape.normalised else laplace_rounded.enclosed
            quick = by_window(tasks(setting, make), target)
        elif setting.noise.gaussian and (by_windows(setting) or not setting.shape.normalised):
            todo = tasks(setting, make)
            if not any(task.objective.peaked for task in todo):  # a single peak takes a few cells
                quick = gaussian_worst.enclosed(todo, target)
    if quick is not None and _decided(quick, target):
        return quick
    found = None
    for prec in PRECISIONS[:3]:
        with precision(prec):
            found = enclose(tasks(setting, make), target, near)
        if _decided(found, target) or math.isinf(found.lower) or len(found.cells) >= DECIDING:
            break  # more bits do not help a search that ran out of cells
    assert found is not None
    if quick is None or not quick.upper < found.upper:
        return found
    higher = quick if quick.lower > found.lower else found
    return Found(higher.lower, max(quick.upper, higher.lower), higher.task, higher.position, ())


def _decided(found: Found, target: float | None) -> bool:
    return found.closed if target is None else found.upper <= target or found.lower > target


def by_windows(setting: Setting) -> bool:
    """Whether laws are Gaussian and truncated, and there is more to do than to follow a wide span over its inside."""
    shape, hull = setting.shape, setting.answers.hull
    if not setting.noise.gaussian or not shape.normalised:
        return False
    low, high = shape.ends
    wide = len(shape.spans) == 1 and high - low > setting.noise.scale
    return not (wide and low <= hull.lower and hull.upper <= high)


_FEW = 8  # lines that are all evaluated


def lossy_pairs(setting: Setting) -> list[tuple[Setting, SearchLine]]:
    """Every direction with every line of pairs but those that surely lose less than another, where there are many."""
    pairs = setting.pairs()
    if len(pairs) <= _FEW or not by_windows(setting):
        return pairs
    found, lows, highs = [], [], []
    for side in setting.sides():
        mine = [(side, line) for line in side.lines()]
        ends, apart = np.asarray([(line.end, line.far - line.near) for _, line in mine]).T
        finite = np.where(np.isfinite(ends), ends, 0.0)  # anywhere, for what is replaced below
        low, high = loss_bounds(Laws(side.noise.scale, side.shape), finite, apart)
        found += mine
        lows += list(np.where(np.isfinite(ends), low, -np.inf))
        highs += list(np.where(np.isfinite(ends), high, np.inf))
    return [pair for pair, high in zip(found, highs, strict=True) if high >= max(lows)]


def loss_is_pinned(setting: Setting) -> bool:
    """Whether a theorem pins the largest loss to an end of the range (see `worst_loss`)."""
    if not setting.shape.normalised or setting.noise.gaussian:
        return True
    return setting.noise.exponential and len(setting.shape.spans) == 1


def loss_values(setting: Setting) -> list[Ball]:
    """The losses at the ends of every line, in both directions, at the precision in force."""
    return [_loss_at(side, at, line.d) for side, line in setting.pairs() for at in _loss_places(side, line)]


def loss_on(side: Setting, line: SearchLine) -> tuple[Ball, float]:
    found = [(refine(lambda at=at: _loss_at(side, at, line.d)), at) for at in _loss_places(side, line)]  # type: ignore[misc]
    return max(found, key=lambda each: up(each[0]))


def _loss_places(side: Setting, line: SearchLine) -> list[float]:
    """The ends of the line and, for a map of noise of limited reach, where it may show an edge.

    There a cut c distinguishes the pair with certainty while p lies in [c + limit - d, c + limit). A line that meets
    such a stretch meets it at the position nearest to its middle; one that meets none has the loss monotone as before.
    """
    places = {line.start, line.end}
    if side.noise.limited and side.shape.normalised:
        # Where nothing shows, this is a Laplace law: constant left of the support, with its loss falling inside.
        places.add(min(max(side.shape.ends[0], line.start), line.end))
    elif side.noise.limited:
        for first, last in Mapped(side.noise, side.shape).cuts:
            middle = 0.5 * first + 0.5 * last + side.noise.extent - 0.5 * (line.far - line.near)
            if not math.isnan(middle):
                places.add(min(max(middle, line.start), line.end))
    return sorted(places)


def _loss_at(side: Setting, position: float, d: Ball) -> Ball:
    """The loss at a position, or its limit at an infinite one; it only rises towards the right there."""
    if math.isfinite(position):
        return family(side.noise, side.shape).loss(ball(position), d)
    if position < 0.0:
        return ball(0.0)
    ends = side.shape.ends
    if side.shape.normalised and side.noise.gaussian and all(map(math.isfinite, ends)):
        return d * (ball(ends[1]) - ball(ends[0])) / ball(side.noise.scale) ** 2
    return Mapped(side.noise, UNBOUNDED_SHAPE).loss(ball(0.0), d)


def delta_on(side: Setting, line: SearchLine, epsilon: float) -> tuple[Ball, float]:
    where = [line.start]

    def evaluate() -> Ball:
        value, where[0] = mapped(side.noise, side.shape).stick_over(line.start, line.end, line.d, ball(epsilon))
        return value

    return refine(evaluate), where[0]


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


def pair_delta(setting: Setting, pair: tuple[float, float], epsilon: float) -> Ball:
    """The delta that one pair needs at `epsilon` in the direction in which it is given."""
    return refine(lambda: pair_stick(setting.noise, setting.shape, *pair, epsilon))


def loss_of_pair(setting: Setting, pair: tuple[float, float]) -> Ball:
    """The pure epsilon that one pair needs in the direction in which it is given."""
    return refine(lambda: pair_loss(setting.noise, setting.shape, *pair))


def breaks(setting: Setting, pair: tuple[float, float], claim: Claim) -> bool:
    """Whether two answers surely leak more than a claim allows, in balls; an ordinary one is about neighbours."""
    a, b = pair
    known = all(any(low <= x <= high for low, high in setting.answers.spans) for x in pair)
    if not known or math.isinf(a) or math.isinf(b):
        return False
    if claim.notion is Notion.METRIC:
        return bool(
            loss_of_pair(setting, pair) * ball(setting.sensitivity) > ball(claim.epsilon) * abs(ball(a) - ball(b))
        )
    if abs(Fraction(a) - Fraction(b)) > Fraction(setting.sensitivity):
        return False
    if claim.pure:
        return bool(loss_of_pair(setting, pair) > claim.epsilon)
    return bool(pair_delta(setting, pair, claim.epsilon) > claim.delta)


def pair_numbers(setting: Setting, pair: tuple[float, float], claim: Claim) -> tuple[float, float]:
    """The epsilon that one pair needs at the claim's delta, and the delta at its epsilon, both rounded down."""
    (a, b), side = pair, setting
    if a > b:
        a, b = -a, -b
        side = Setting(setting.noise, setting.shape.mirrored(), mirrored(setting.answers), setting.sensitivity)
    loss = max(down(loss_of_pair(setting, pair)), 0.0)
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
