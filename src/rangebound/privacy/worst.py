"""What a mechanism gives away over all pairs of neighbouring databases: epsilon, delta, and the Renyi curve.

Every number is the upper end of a rigorous enclosure, rounded up. Where a theorem pins the worst pair only that pair
is evaluated; elsewhere branch and bound over the positions encloses the supremum to 1e-9 relative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from flint import ctx

from rangebound.ball import PRECISIONS, Ball, ball, down, precision, refine, up
from rangebound.law import Shape
from rangebound.law.shape import UNBOUNDED_SHAPE
from rangebound.noise import Noise
from rangebound.numeric import rounded_down, rounded_up
from rangebound.privacy.claim import Claim, Notion
from rangebound.privacy.pairs.exact import Mapped, family, mapped, stick
from rangebound.privacy.pairs.laplace_pair import top_loss
from rangebound.privacy.search.branch_and_bound import DECIDING, FLOOR, Found, Task, climb, enclose, look
from rangebound.privacy.search.objectives import Delta, Loss, Renyi
from rangebound.privacy.search.positions import Line
from rangebound.privacy.search.roots import bracket, falling_root
from rangebound.privacy.search.rounded_lattice import rounded_top
from rangebound.privacy.setting import Setting, mirrored
from rangebound.privacy.unions import laplace_union
from rangebound.privacy.windows import gaussian_worst, laplace_rounded, laplace_windows
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.privacy.windows.gaussian_sticks import loss_bounds, stick_of_pair
from rangebound.support import Interval, Union

# Beyond these the answer of the limit is given, which is on the safe side.
_LARGEST_EPSILON, _LARGEST_ORDER = 1e6, 1e8
_LONG, _FEW = 12, 8  # cells of a grid that may hide its ends, and lines that are compared one by one
_HIGH_ORDER = 1e5  # from which on a divergence may be as good as its limit
WIDTH = 1e-6  # relative: the widest enclosure that is published as a number


@dataclass(frozen=True)
class Worst:
    """An enclosure of a worst case and the pair that attains its lower end.

    `pair` lists the true answer whose outcome is too likely first.
    """

    lower: float
    upper: float
    pair: tuple[float, float]

    @property
    def closed(self) -> bool:
        """Whether the enclosure is as narrow as promised; where it is not, `upper` is true but larger than need be."""
        return self.upper <= max(self.lower * (1.0 + WIDTH), FLOOR)


def worst_loss(setting: Setting) -> Worst:
    """The pure epsilon. Pinned to an end of the range for maps, and in part for truncated noise.

    Gaussian: d/dq log p_q(x) = (x - mean)/s^2 and the mean rises with q, so the loss seen at the left end of the
    support rises with the position. Maps: log F is concave, so log F(c-p) - log F(c-p-d) rises with p. Laplace on an
    interval: log Z is concave, so the loss is monotone and the worst pair is at one end or the other.
    """
    if not loss_is_pinned(setting):
        linear = _on_spans(setting)
        return linear if linear is not None and linear.closed else _searched(setting, Loss)
    worst = _pinned(setting, _loss_on, _lossy(setting))
    if setting.shape.normalised:
        return worst
    # A map is post-processing: the unbounded noise is a ceiling, and exact where the map has nothing to hide.
    free = up(refine(lambda: Mapped(setting.noise, UNBOUNDED_SHAPE).loss(ball(0.0), ball(setting.sensitivity))))
    return Worst(min(worst.lower, free), min(worst.upper, free), worst.pair)


def _on_spans(setting: Setting) -> Worst | None:
    """Truncated Laplace on the union in which the answers lie: linear time, rounded up by a proved margin.

    The lower end is what the pair really loses, in balls: a second opinion on the upper one.
    """
    spans = setting.shape.spans
    if len(spans) < 2 or not setting.noise.laplace or setting.answers.spans != spans:
        return None
    lowers, uppers = np.asarray(spans).T
    upper, (a, b) = laplace_union.dp_pair(lowers, uppers, setting.noise.scale, setting.sensitivity)
    low, high = neighbours(setting, a, b)
    lower, pair = max((down(pair_loss(setting, each)), each) for each in ((low, high), (high, low)))
    return Worst(min(max(lower, 0.0), upper), upper, pair)


def worst_delta(setting: Setting, epsilon: float) -> Worst:
    """The smallest delta for an epsilon: the exact privacy profile."""
    if not _loses_more(setting, epsilon):
        pure = worst_loss(setting)
        if pure.upper <= epsilon:
            return Worst(0.0, 0.0, pure.pair)
    epsilon = min(epsilon, _LARGEST_EPSILON)
    if setting.shape.normalised:
        return _searched(setting, lambda noise, shape: Delta(noise, shape, epsilon))
    return _pinned(setting, lambda side, line: _delta_on(side, line, epsilon))


def _loses_more(setting: Setting, epsilon: float) -> bool:
    """Whether the loss at an end of a line is surely above epsilon, where finding the largest takes a search."""
    if loss_is_pinned(setting):
        return False
    with precision(PRECISIONS[0]):
        return any(value > epsilon for value in loss_values(setting))


def worst_renyi(setting: Setting, order: float) -> Worst:
    """The Renyi divergence of an order above 1; of order inf it is the loss."""
    if math.isinf(order):
        return worst_loss(setting)
    if setting.noise.limited or order > _LARGEST_ORDER:
        pure = worst_loss(setting)
        if math.isinf(pure.lower) and setting.noise.limited:
            return pure  # one law lives where the other does not
        if order > _LARGEST_ORDER and math.isfinite(pure.upper):
            # The divergence rises with the order, to the loss.
            return Worst(min(worst_renyi(setting, _LARGEST_ORDER).lower, pure.upper), pure.upper, pure.pair)
    if setting.shape.normalised or setting.shape.points:
        found = _at_limit(setting, order) if order > _HIGH_ORDER and loss_is_pinned(setting) else None
        found = found or _rounded_inside(setting, order)
        found = found or _searched(setting, lambda noise, shape: Renyi(noise, shape, order))
        return found if found.closed else _capped(setting, found, order)
    return _pinned(setting, lambda side, line: _renyi_on(side, line, order))


def _rounded_inside(setting: Setting, order: float) -> Worst | None:
    """Gaussian noise rounded to a grid that is wide enough to hide its ends: the ceiling of the endless lattice.

    The lower end is a pair in the middle of the grid. None where the two do not meet, or there are many lines.
    """
    pairs, noise, cells = setting.pairs(), setting.noise, setting.shape.cells
    if not noise.gaussian or setting.shape.spans or len(cells) < _LONG or not 0 < len(pairs) <= _FEW:
        return None
    centre = 0.5 * cells[0][1] + 0.5 * cells[-1][0]
    worst = Worst(0.0, 0.0, _somewhere(setting))
    for side, line in pairs:
        top = rounded_top(noise, side.shape.cells, ball(order), line.d)
        upper, step = max(worst.upper, up(top.value)), cells[1][1] - cells[1][0]
        middle, gap = centre if side == setting else -centre, line.far - line.near
        for share in (
            order - 1.0,
            order / 2.0 - 1.0,
        ):  # where the laws blend in the middle, or as far off as they
            best = side.shape.cells[0][1] + top.position
            at = best + step * round((middle + share * gap - best) / step)
            at = min(max(at, line.start), line.end)
            value = down(_rounded_at(side, at, line.d, order))
            if value > worst.lower:
                worst = Worst(value, upper, _pair(side, setting, line, at))
        worst = Worst(worst.lower, upper, worst.pair)
        if not upper <= worst.lower * (1.0 + 0.5 * WIDTH):
            return None
    return worst


def _rounded_at(side: Setting, position: float, d: Ball, order: float) -> Ball:
    return refine(lambda: Mapped(side.noise, side.shape).renyi(ball(position), d, ball(order)))


def _at_limit(setting: Setting, order: float) -> Worst | None:
    """The enclosure of a high order between a likely pair and the loss, where that is narrow enough."""
    pure, pairs = worst_loss(setting), setting.pairs()
    if math.isinf(pure.upper) or not pairs:
        return None
    with precision(PRECISIONS[0]):
        best = look(tasks(setting, lambda noise, shape: Renyi(noise, shape, order)))
    side, line = pairs[best.task]
    found = Worst(max(best.value, 0.0), pure.upper, _pair(side, setting, line, best.position))
    return found if found.closed else None


def _capped(setting: Setting, found: Worst, order: float) -> Worst:
    """An open enclosure cut at what the pure epsilon implies: epsilon itself and order epsilon^2/2 [bun2016, Prop 3.3].

    A divergence of a finite order is at most the loss, which is its limit for large orders.
    """
    pure = worst_loss(setting).upper
    if math.isinf(pure):
        return found
    return Worst(
        found.lower, max(found.lower, min(found.upper, pure, up(ball(order) * ball(pure) ** 2 / 2))), found.pair
    )


def worst_epsilon(setting: Setting, delta: float) -> Worst:
    """The smallest epsilon for a delta: pure, or by raising epsilon to what the worst pair found so far needs.

    Each round asks for a pair above delta. There is none when epsilon is large enough; a pair that there is needs a
    larger epsilon, found on that pair alone.
    """
    if delta > 0.0 and not loss_is_pinned(setting) and setting.noise.pure:
        pure = _cheap_loss(setting)
    else:
        pure = worst_loss(setting)
    if delta == 0.0 or pure.upper == 0.0:
        return pure
    lower, pair, slack, least = 0.0, pure.pair, 2e-9 if by_windows(setting) else 1e-10, 0.0
    violation = None
    for _ in range(60):
        tried = max(lower * (1.0 + slack), least)
        if tried >= pure.upper:
            return Worst(lower, pure.upper, pair)
        violation = find_violation(setting, Claim(epsilon=tried, delta=delta), violation)
        if violation is None:
            return Worst(lower, tried, pair)
        needed, pair = pair_epsilon(violation, delta, pure.upper, lower), violation.pair
        if not needed > lower:  # this pair does not need more, and yet it was not proved that none does
            slack *= 4.0
            least = max(4.0 * tried, 1e-10 * min(pure.upper, 1.0)) if lower == 0.0 else 0.0
        lower = max(lower, needed)
    return Worst(lower, pure.upper, pair)


def _cheap_loss(setting: Setting) -> Worst:
    """The most that any truncated law of the noise can lose, whatever the support: a limit without a search."""
    most = up(top_loss(setting.noise.in_balls().log_ratio(None, ball(setting.sensitivity))))
    return Worst(0.0, most if setting.pairs() else 0.0, _somewhere(setting))


class Violation(NamedTuple):
    """A pair that gives away more than a claim allows (or, at the limit of precision, may do so)."""

    side: Setting
    line: Line
    position: float
    pair: tuple[float, float]


def find_violation(setting: Setting, claim: Claim, last: Violation | None = None) -> Violation | None:
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
        found = _search(setting, lambda noise, shape: _aimed(noise, shape, claim), claim.limit, near)
        if found.upper <= claim.limit:
            return None
        return _violation(setting, pairs[found.task], found.position, claim)
    worst = None
    for side, line in setting.pairs():
        value, where = _loss_on(side, line) if claim.pure else _delta_on(side, line, claim.epsilon)
        if not value <= claim.limit and (worst is None or value > worst[0]):
            worst = value, Violation(side, line, where, _pair(side, setting, line, where))
    return None if worst is None else worst[1]


def glimpse(setting: Setting, claim: Claim) -> Violation | None:
    """A pair that violates an ordinary claim among the likely ones; None proves nothing."""
    if not claim.pure and by_windows(setting):
        return find_violation(setting, claim)
    pairs = setting.pairs()
    with precision(PRECISIONS[0]):
        best = look(tasks(setting, lambda noise, shape: _aimed(noise, shape, claim)))
    if not best.value > claim.limit:
        return None
    return _violation(setting, pairs[best.task], best.position, claim)


def _violation(setting: Setting, where: tuple[Setting, Line], position: float, claim: Claim) -> Violation:
    """The pair at a position, or at a worse one nearby."""
    side, line = where
    if not by_windows(setting):  # else it is the top of its window already
        with precision(PRECISIONS[0]):
            position = climb(Task(excess(side.noise, side.shape, claim), line), position)
    return Violation(side, line, position, _pair(side, setting, line, position))


def excess(noise: Noise, shape: Shape, claim: Claim) -> Delta | Loss:
    """What an ordinary claim limits: delta at epsilon, or for a pure claim the privacy loss."""
    return Loss(noise, shape) if claim.ordinary().pure else Delta(noise, shape, claim.epsilon)


def _aimed(noise: Noise, shape: Shape, claim: Claim) -> Delta | Loss:
    """The same where all that is asked is whether it is above delta."""
    return Loss(noise, shape) if claim.pure else Delta(noise, shape, claim.epsilon, aim=claim.delta)


def worst_under(setting: Setting, claim: Claim) -> Worst:
    """The supremum of what an ordinary claim limits: the claim is true if its upper end is at most `claim.limit`."""
    return worst_loss(setting) if claim.ordinary().pure else worst_delta(setting, claim.epsilon)


def pair_epsilon(pair: Violation, delta: float, limit: float, start: float = 0.0) -> float:
    """The epsilon that one pair needs at `delta`, to 1e-12 relative, from below; quick where `start` is close below."""
    side, line, position, _ = pair

    kind = cache(lambda bits: family(side.noise, side.shape))  # at each precision one, which remembers the masses
    laws = Laws(side.noise.scale, side.shape) if by_windows(side) else None

    def above(epsilon: float) -> float:
        quick = None if laws is None else stick_of_pair(laws, epsilon, position, up(line.d))
        if quick is not None:
            return quick - delta
        value = refine(lambda: stick(kind(ctx.prec), ball(position), line.d, ball(epsilon)))
        return float(value.mid()) - delta

    if side.noise.exponential and side.noise.limited and math.isinf(limit):
        # Beyond twice d/b only outcomes that the other law cannot have are left, and no epsilon helps against them.
        limit = 2.0 * up(line.d) / side.noise.scale * (1.0 + 1e-9)
        if above(limit) > 0.0:
            return math.inf
    return falling_root(above, *bracket(above, limit, start))


Make = Callable[[Noise, Shape], Any]


def _lossy(setting: Setting) -> list[tuple[Setting, Line]]:
    """Every direction with every line of pairs but those that surely lose less than another, where there are many."""
    pairs = setting.pairs()
    if len(pairs) <= _FEW or not by_windows(setting):
        return pairs
    found, lows, highs = [], [], []
    for side in setting.sides():
        mine = [(side, line) for line in side.lines()]
        ends, apart = np.asarray([(line.end, line.far - line.near) for _, line in mine]).T
        finite = np.where(np.isfinite(ends), ends, side.shape.ends[0])  # the loss rises with the position
        low, high = loss_bounds(Laws(side.noise.scale, side.shape), finite, apart)
        found += mine
        lows += list(np.where(np.isfinite(ends), low, -np.inf))
        highs += list(np.where(np.isfinite(ends), high, np.inf))
    return [pair for pair, high in zip(found, highs, strict=True) if high >= max(lows)]


def _pinned(
    setting: Setting,
    evaluate: Callable[[Setting, Line], tuple[Ball, float]],
    pairs: list[tuple[Setting, Line]] | None = None,
) -> Worst:
    """The largest of one value for each line and direction."""
    worst = Worst(0.0, 0.0, _somewhere(setting))
    for side, line in setting.pairs() if pairs is None else pairs:
        value, position = evaluate(side, line)
        if up(value) > worst.upper:
            worst = Worst(max(down(value), 0.0), up(value), _pair(side, setting, line, position))
    return worst


def _searched(setting: Setting, make: Make) -> Worst:
    pairs = setting.pairs()
    if not pairs:
        return Worst(0.0, 0.0, _somewhere(setting))
    found = _search(setting, make)
    side, line = pairs[found.task]
    return Worst(max(found.lower, 0.0), max(found.upper, 0.0), _pair(side, setting, line, found.position))


def tasks(setting: Setting, make: Make) -> list[Task]:
    """What there is to search: every line of pairs in both directions, one objective for all lines of a direction."""
    found = []
    for side in setting.sides():
        objective = make(side.noise, side.shape)
        found += [Task(objective, line) for line in side.lines()]
    return found


def _search(setting: Setting, make: Make, target: float | None = None, near: Sequence[tuple[int, float]] = ()) -> Found:
    """By windows in floats where they can, else branch and bound at growing precision until it closes or decides."""
    quick = None
    if setting.noise.exponential:
        enclosed = laplace_windows.enclosed if setting.shape.normalised else laplace_rounded.enclosed
        with precision(PRECISIONS[0]):
            quick = enclosed(tasks(setting, make), target)
    elif setting.noise.gaussian and (by_windows(setting) or not setting.shape.normalised):
        quick = gaussian_worst.enclosed(tasks(setting, make), target)
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
    """Whether laws are Gaussian and truncated, and there is more to do than to follow one span over its inside."""
    shape, hull = setting.shape, setting.answers.hull
    if not setting.noise.gaussian or not shape.normalised:
        return False
    low, high = shape.ends
    return not (len(shape.spans) == 1 and low <= hull.lower and hull.upper <= high)


def loss_is_pinned(setting: Setting) -> bool:
    """Whether a theorem pins the largest loss to an end of the range (see `worst_loss`)."""
    if not setting.shape.normalised or setting.noise.gaussian:
        return True
    return setting.noise.exponential and len(setting.shape.spans) == 1


def loss_values(setting: Setting) -> list[Ball]:
    """The losses at the ends of every line, in both directions, at the precision in force."""
    return [_loss_at(side, at, line.d) for side, line in setting.pairs() for at in _loss_places(side, line)]


def _loss_on(side: Setting, line: Line) -> tuple[Ball, float]:
    found = [(refine(lambda at=at: _loss_at(side, at, line.d)), at) for at in _loss_places(side, line)]  # type: ignore[misc]
    return max(found, key=lambda each: up(each[0]))


def _loss_places(side: Setting, line: Line) -> list[float]:
    """The ends of the line and, for a map of noise of limited reach, where it may show an edge.

    There a cut c tells the pair apart for certain while p lies in [c + limit - d, c + limit). A line that meets such a
    stretch meets it at the position nearest to its middle; one that meets none has the loss monotone as before.
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


def _delta_on(side: Setting, line: Line, epsilon: float) -> tuple[Ball, float]:
    where = [line.start]

    def evaluate() -> Ball:
        value, where[0] = mapped(side.noise, side.shape).stick_over(line.start, line.end, line.d, ball(epsilon))
        return value

    return refine(evaluate), where[0]


def _renyi_on(side: Setting, line: Line, order: float) -> tuple[Ball, float]:
    value = refine(lambda: Renyi(side.noise, side.shape, order).value(ball(0.0), line.d))
    return value, min(max(0.0, line.start), line.end)


def _pair(side: Setting, setting: Setting, line: Line, position: float) -> tuple[float, float]:
    sign = 1.0 if side is setting or side == setting else -1.0
    if math.isinf(position):
        return sign * position, sign * position
    other = line.far if line.near == position else position + line.far - line.near
    position, other = neighbours(side, position, other)
    return sign * position + 0.0, sign * other + 0.0


def neighbours(setting: Setting, first: float, second: float) -> tuple[float, float]:
    """The answers nearest to two places that may have been rounded out of the range, or too far apart, by an ulp."""
    first, second = _inside(setting.answers, first), _inside(setting.answers, second)
    nearer = _inside(setting.answers, _within(first, second, setting.sensitivity))
    if abs(Fraction(nearer) - Fraction(first)) <= Fraction(setting.sensitivity):
        return first, nearer
    return _inside(setting.answers, _within(second, first, setting.sensitivity)), second


def _within(start: float, end: float, limit: float) -> float:
    """`end`, or the farthest double towards it that is at most `limit` from `start`."""
    apart = Fraction(end) - Fraction(start)
    if abs(apart) <= Fraction(limit):
        return end
    exact = Fraction(start) + (Fraction(limit) if apart > 0 else -Fraction(limit))
    return rounded_down(exact) if apart > 0 else rounded_up(exact)


def _inside(answers: Interval | Union, x: float) -> float:
    """The answer nearest to x: a line may reach over the end of a span by one ulp."""
    return min((min(max(x, lower), upper) for lower, upper in answers.spans), key=lambda y: abs(y - x))


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
        found = pair_epsilon(Violation(side, Line(a, a, b, a), a, pair), claim.delta, loss if loss > 0.0 else math.inf)
        # The root is known to about 1e-12; what is said of it is checked.
        safe = (found * (1.0 - slack) for slack in (0.0, 2e-12, 1e-9) if math.isfinite(found))
        fallback = found if math.isinf(found) else 0.0
        needed = next((x for x in safe if pair_delta(setting, pair, x) >= claim.delta), fallback)
    return needed, max(down(pair_delta(setting, pair, claim.epsilon)), 0.0)


def _somewhere(setting: Setting) -> tuple[float, float]:
    hull = setting.answers.hull
    start = min(max(0.0, hull.lower), hull.upper)
    return start, min(start + setting.sensitivity, hull.upper)
