"""What a mechanism leaks over all pairs of neighbouring datasets: epsilon, delta, and the Renyi curve.

Every number is the upper end of a rigorous enclosure, rounded up. Where a theorem pins the worst pair only that pair
is evaluated; elsewhere branch and bound over the positions encloses the supremum to 1e-9 relative.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from rangebound.laws.boundings import UNBOUNDED_SHAPE, Shape
from rangebound.laws.family import Noise
from rangebound.privacy import laplace_union
from rangebound.privacy.branch_and_bound import probe
from rangebound.privacy.counterexample import (
    Make,
    by_windows,
    delta_on,
    enclosed,
    find_counterexample,
    finite_pair,
    loss_is_pinned,
    loss_of_pair,
    loss_on,
    loss_values,
    lossy_pairs,
    pair_epsilon,
    tasks,
)
from rangebound.privacy.objectives import Delta, Loss, Renyi
from rangebound.privacy.pairs.divergences import Mapped, pair_stick
from rangebound.privacy.pairs.truncated_laplace import top_loss
from rangebound.privacy.setting import Claim, SearchLine, Setting, neighbours, pair_at, some_pair
from rangebound.values.array_types import np
from rangebound.values.ball import PRECISIONS, Ball, ball, down, precision, refine, up

# Beyond these the answer of the limit is given, which is on the safe side.
_LARGEST_EPSILON, _LARGEST_ORDER = 1e6, 1e8
_HIGH_ORDER = 1e5  # from which on a divergence may be as good as its limit
WIDTH = 1e-6  # relative: the widest enclosure that is published as a number
_NOTHING = 1e-100  # what is proved to be below this may be published as it is, however far it is below


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
        return self.upper <= max(self.lower * (1.0 + WIDTH), _NOTHING)


def worst_loss(setting: Setting) -> Worst:
    """The pure epsilon. Pinned to an end of the range for maps, and in part for truncated noise.

    Gaussian: d/dq log p_q(x) = (x - mean)/s^2 and the mean rises with q, so the loss seen at the left end of the
    support rises with the position. Maps: log F is concave, so log F(c-p) - log F(c-p-d) rises with p. Laplace on an
    interval: log Z is concave, so the loss is monotone and the worst pair is at one end or the other.
    """
    if not loss_is_pinned(setting):
        linear = _on_spans(setting)
        return linear if linear is not None and linear.closed else _searched(setting, Loss)
    worst = _pinned(setting, loss_on, lossy_pairs(setting))
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
    lower, pair = max((down(loss_of_pair(setting, each)), each) for each in ((low, high), (high, low)))
    return Worst(min(max(lower, 0.0), upper), upper, pair)


def worst_delta(setting: Setting, epsilon: float) -> Worst:
    """The smallest delta for an epsilon: the exact privacy profile."""
    above = False  # whether a loss at an end is surely above epsilon, where finding the largest takes a search
    if not loss_is_pinned(setting):
        with precision(PRECISIONS[0]):
            above = any(value > epsilon for value in loss_values(setting))
    if not above:
        pure = worst_loss(setting)
        if pure.upper <= epsilon:
            return Worst(0.0, 0.0, pure.pair)
    epsilon = min(epsilon, _LARGEST_EPSILON)
    if setting.shape.normalised:
        return _searched(setting, lambda noise, shape: Delta(noise, shape, epsilon))
    return _pinned(setting, lambda side, line: delta_on(side, line, epsilon))


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
        found = found or _searched(setting, lambda noise, shape: Renyi(noise, shape, order))
        return found if found.closed else _capped(setting, found, order)
    return _pinned(setting, lambda side, line: _renyi_on(side, line, order))


def _at_limit(setting: Setting, order: float) -> Worst | None:
    """The enclosure of a high order between a likely pair and the loss, where that is narrow enough."""
    pure, pairs = worst_loss(setting), setting.pairs()
    if math.isinf(pure.upper) or not pairs:
        return None
    with precision(PRECISIONS[0]):
        best = probe(tasks(setting, lambda noise, shape: Renyi(noise, shape, order)))
    side, line = pairs[best.task]
    found = Worst(max(best.value, 0.0), pure.upper, pair_at(side, setting, line, best.position))
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
        # The most that any truncated law of the noise can lose, whatever the support: a limit without a search.
        most = up(top_loss(setting.noise.in_balls().log_ratio(None, ball(setting.sensitivity))))
        pure = Worst(0.0, most if setting.pairs() else 0.0, some_pair(setting))
    else:
        pure = worst_loss(setting)
    if delta == 0.0 or pure.upper == 0.0:
        return pure
    lower, pair, slack, least = 0.0, pure.pair, 2e-9 if by_windows(setting) else 1e-10, 0.0
    counterexample = None
    for _ in range(60):
        tried = max(lower * (1.0 + slack), least)
        if tried >= pure.upper:
            return Worst(lower, pure.upper, pair)
        counterexample = find_counterexample(setting, Claim(epsilon=tried, delta=delta), counterexample)
        if counterexample is None:
            return Worst(lower, tried, pair)
        needed, pair = pair_epsilon(counterexample, delta, pure.upper, lower), counterexample.pair
        if not needed > lower:  # this pair does not need more, and yet it was not proved that none does
            slack *= 4.0
            least = max(4.0 * tried, 1e-10 * min(pure.upper, 1.0)) if lower == 0.0 else 0.0
        lower = max(lower, needed)
    return Worst(lower, pure.upper, pair)


def worst_under(setting: Setting, claim: Claim) -> Worst:
    """The supremum of what an ordinary claim limits: the claim is true if its upper end is at most `claim.limit`."""
    return worst_loss(setting) if claim.ordinary().pure else worst_delta(setting, claim.epsilon)


def _pinned(
    setting: Setting,
    evaluate: Callable[[Setting, SearchLine], tuple[Ball, float]],
    pairs: list[tuple[Setting, SearchLine]] | None = None,
) -> Worst:
    """The largest of one value for each line and direction."""
    worst = Worst(0.0, 0.0, some_pair(setting))
    for side, line in setting.pairs() if pairs is None else pairs:
        value, position = evaluate(side, line)
        if up(value) > worst.upper:
            worst = Worst(max(down(value), 0.0), up(value), pair_at(side, setting, line, position))
    return worst


def _searched(setting: Setting, make: Make) -> Worst:
    pairs = setting.pairs()
    if not pairs:
        return Worst(0.0, 0.0, some_pair(setting))
    found = enclosed(setting, make)
    side, line = pairs[found.task]
    return Worst(max(found.lower, 0.0), max(found.upper, 0.0), pair_at(side, setting, line, found.position))


def _renyi_on(side: Setting, line: SearchLine, order: float) -> tuple[Ball, float]:
    value = refine(lambda: Renyi(side.noise, side.shape, order).value(ball(0.0), line.d))
    return value, min(max(0.0, line.start), line.end)


_NEAR = 1e-9  # relative: how far below the supremum a pair at finite answers may be, where only a limit attains it


def pair_profile(noise: Noise, shape: Shape, pair: tuple[float, float]) -> Callable[[float], Ball]:
    """The delta of two answers, in the order in which they are given, at every epsilon of any sign; a ball."""
    return lambda epsilon: refine(lambda: pair_stick(noise, shape, *pair, epsilon), bits=100)


def worst_pair_at(setting: Setting, epsilon: float) -> tuple[float, float]:
    """A pair of finite answers whose delta at epsilon is the largest of all, or as good as that."""
    worst = worst_delta(setting, epsilon)
    delta = min(worst.lower * (1.0 - _NEAR), 1.0 - _NEAR)
    return finite_pair(setting, worst.pair, Claim(epsilon=epsilon, delta=max(delta, 0.0)))
