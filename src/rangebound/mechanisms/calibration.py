"""Calibration: the smallest scale that gives a guarantee, always on the private side."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from rangebound.errors import ArgumentError, ArgumentTypeError, Unsatisfiable
from rangebound.laws.boundings import TRUNCATE, Bounding
from rangebound.laws.families import FAMILIES
from rangebound.laws.family import Curve, Noise
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy import laplace_union, metric
from rangebound.privacy.counterexample import (
    Counterexample,
    by_windows,
    excess,
    find_counterexample,
    loss_is_pinned,
    quick_counterexample,
)
from rangebound.privacy.pairs.truncated_laplace import top_stick
from rangebound.privacy.setting import Claim, Notion
from rangebound.privacy.windows.gaussian_hockey_stick import stick_of_pair
from rangebound.privacy.windows.gaussian_laws import Laws
from rangebound.privacy.worst import worst_loss, worst_under
from rangebound.values import arguments
from rangebound.values.array_types import np
from rangebound.values.ball import PRECISIONS, Ball, ball, precision, refine, up
from rangebound.values.roots import boundary, falling_root, first_above
from rangebound.values.support import Interval, Query, Support, Union, is_line

_CLOSE, _WINDOWED = 2e-10, 8e-10  # how far above the smallest scale the answer may be, relative; and by windows
_LARGEST_EPSILON = 1e6
_PROOF_BELOW = 1e-3  # of the sensitivity over epsilon: smaller scales are searched with a proof
_FAR_BELOW = 1e9  # how much smaller than usual a scale for an advantage may be
_RANGE = 1e150  # scales are searched within this factor of the sensitivity over epsilon


@dataclass(frozen=True)
class _Request:
    """What is asked, with the scale left open."""

    family: type[Noise]
    query: Query
    support: Support | None
    bounding: Bounding
    claim: Claim

    def noise(self, scale: float) -> Noise:
        return self.family.calibrated(scale, self.claim.epsilon, self.claim.delta)

    def mechanism(self, scale: float) -> Mechanism:
        return Mechanism(noise=self.noise(scale), query=self.query, support=self.support, bounding=self.bounding)

    def start(self) -> Mechanism:
        """A mechanism to begin with: at the natural scale, or the first larger one whose noise reaches the support."""
        scale = self.query.sensitivity / self.claim.epsilon
        for _ in range(60 if self.noise(scale).limited else 0):
            try:
                return self.mechanism(scale)
            except ArgumentError:
                scale *= 2.0
        return self.mechanism(self.query.sensitivity / self.claim.epsilon)


@arguments.guided
def calibrate(
    *,
    noise: type[Noise],
    query: Query,
    support: Support | None = None,
    bounding: Bounding = TRUNCATE,
    epsilon: float | None = None,
    delta: float = 0.0,
    notion: str | Notion = Notion.DP,
    advantage: float | None = None,
) -> Mechanism:
    """The mechanism with the smallest scale that is (epsilon, delta)-private, or at which an attacker gains no more.

    With `advantage` in the place of epsilon, the target is the largest membership advantage, `m.advantage()`: the true
    positive rate of an attacker less the false positive rate. That is (0, advantage)-privacy.

    Guarantee: the result is private (its own worst case was evaluated in ball arithmetic), and its scale is at most
    1e-9 relative above the smallest one. With notion="metric" a pair at distance i * sensitivity differs by at most i *
    epsilon, for every real i; that implies the ordinary guarantee and costs more noise [croft2022].
    Assumes: the query's sensitivity is true.
    Edge cases: a target that nothing reaches is refused with the reason, such as delta = 0 with Gaussian noise on the
    line. A truncated Laplacian has the published ratio of limit to scale and needs 0 < delta < 1/2. Answers in a gap of
    the support may leak less at a smaller scale, so that the private scales are several stretches; then the result is
    the start of one of them. The result carries its target as `claim`, so that `rangebound.certify(m)` proves it.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0)
    >>> round(m.noise.scale, 5), m.epsilon() <= 1.0
    (1.61156, True)
    >>> m = rb.calibrate(noise=rb.Laplace, query=query, advantage=0.05)
    >>> round(m.noise.scale, 4), m.advantage() <= 0.05
    (9.3784, True)
    """
    if not any(noise is family for family in FAMILIES.values()):
        known = ", ".join(f"rb.{family.__name__}" for family in FAMILIES.values())
        raise ArgumentTypeError(
            f"noise={arguments.shown(noise)}: must be one of the classes {known}; the scale is what calibrate finds"
        )
    arguments.instance("query", query, Query, "a Query")
    if advantage is not None:
        if epsilon is not None or delta != 0.0 or arguments.member("notion", notion, Notion) is not Notion.DP:
            raise ArgumentError(f"advantage={advantage}: must be given alone; leave out epsilon, delta and notion")
        return _by_advantage(noise, query, support, bounding, arguments.probability("advantage", advantage))
    if epsilon is None:
        raise ArgumentTypeError(
            "epsilon is missing, or None; write epsilon=1.0, or advantage=0.05 to bound an attacker's gain"
        )
    epsilon = arguments.positive("epsilon", epsilon)
    delta = arguments.probability("delta", delta)
    if epsilon > _LARGEST_EPSILON:
        raise ArgumentError(f"epsilon={epsilon}: must be at most {_LARGEST_EPSILON:g}; a larger one protects no one")
    natural = query.sensitivity / epsilon
    if not 1e-305 < natural < 1e305:
        raise ArgumentError(f"epsilon={epsilon}: needs a scale that does not fit into a double")
    claim = Claim(epsilon=epsilon, delta=delta, notion=arguments.member("notion", notion, Notion))
    request = _Request(noise, query, support, bounding, claim)
    _refuse_hopeless(request)
    scale = _metric_scale(request) if claim.notion is Notion.METRIC else _dp_scale(request)
    return request.mechanism(scale).with_claim(claim)


def _by_advantage(
    family: type[Noise], query: Query, support: Support | None, bounding: Bounding, advantage: float
) -> Mechanism:
    """The mechanism with the smallest scale whose advantage is no more than this, rounded up, to 1e-9 relative."""
    if advantage == 0.0:
        raise ArgumentError("advantage=0.0: must be positive; no noise of finite scale hides everything")
    if family.refusal(1.0, 0.0) is not None:
        raise ArgumentError(f"noise={family.__name__}: has a scale for an epsilon and a delta, not for an advantage")

    def mechanism(scale: float) -> Mechanism:
        noise = family.calibrated(scale, 1.0, 0.0)
        return Mechanism(noise=noise, query=query, support=support, bounding=bounding)

    def over(scale: float) -> float:
        return mechanism(scale).advantage() - advantage

    natural = query.sensitivity / (2.0 * advantage)

    def check(scale: float) -> None:
        if scale < natural / _FAR_BELOW:
            raise Unsatisfiable(
                f"advantage={advantage}: this target holds at every scale, so there is no smallest one; build the "
                "Mechanism with a scale of your own"
            )

    scale = first_above(_crossed(over, natural, check, 1e-10), lambda each: over(each) <= 0.0)
    return mechanism(scale).with_claim(Claim(epsilon=0.0, delta=advantage))


def _refuse_hopeless(request: _Request) -> None:
    """Refuse before searching, with the reason."""
    reason = request.family.refusal(request.claim.epsilon, request.claim.delta)
    if reason is not None:
        raise Unsatisfiable(reason)
    mechanism = request.start()
    if not request.family.pure and request.claim.pure:
        low, high = mechanism.shape.ends
        tails = math.isinf(low) or math.isinf(high)
        far = not mechanism.shape.normalised and not request.query.range.bounded
        if tails or far:
            raise Unsatisfiable(
                f"epsilon={request.claim.epsilon}, delta=0: {request.family.__name__} noise has no finite pure epsilon "
                f"where a tail is visible (support {mechanism.support}, bounding {mechanism.bounding!r}); "
                "allow a delta, use Laplace, or take a bounded support"
            )


def _dp_scale(request: _Request) -> float:
    claim, query = request.claim, request.query
    if claim.pure and _is_interval(request):
        return laplace_union.interval_scale(query.range.hull, claim.epsilon, query.sensitivity)
    start = request.start()
    if claim.pure and _is_union(request, start):
        lowers, uppers = np.asarray(start.shape.spans).T
        return laplace_union.dp_scale(lowers, uppers, claim.epsilon, query.sensitivity)
    if loss_is_pinned(start.setting) if claim.pure else not start.shape.normalised:
        return _smallest(
            request, lambda scale: worst_under(request.mechanism(scale).setting, claim).upper - claim.limit
        )
    return _by_counterexamples(request, _enough(request, start))


def _enough(request: _Request, start: Mechanism) -> float:
    """A scale that is private and cheap to find; more noise than that is never needed."""
    if request.family.pure:
        return laplace_union.universal_scale(request.claim, request.query.sensitivity, request.noise)
    if request.claim.pure or start.noise.limited or not loss_is_pinned(start.setting):
        return math.inf
    if math.isinf(worst_loss(start.setting).upper):
        return math.inf
    return _dp_scale(replace(request, claim=Claim(epsilon=request.claim.epsilon)))


def _smallest(request: _Request, over: Callable[[float], float]) -> float:
    """The smallest scale whose excess over the target is zero or less, rounded up, to 1e-12 relative."""
    natural = request.query.sensitivity / request.claim.epsilon
    nice = up(ball(request.query.sensitivity) / ball(request.claim.epsilon))
    scale = _crossed(over, natural, lambda scale: _inside_range(scale, request), 1e-12)
    if abs(nice / scale - 1.0) < 1e-9 and over(nice) <= 0.0:
        return nice
    return first_above(scale, lambda s: over(s) <= 0.0)


def _crossed(over: Callable[[float], float], start: float, check: Callable[[float], None], absolute: float) -> float:
    """About the scale at which a falling excess is zero; `check` raises where a scale is too far out."""
    high = start
    while over(high) > 0.0:
        high *= 2.0
        check(high)
    low = 0.5 * high
    while over(low) <= 0.0:
        high, low = low, 0.5 * low
        check(low)
    return math.exp(falling_root(lambda log: over(math.exp(log)), math.log(low), math.log(high), absolute=absolute))


def _by_counterexamples(request: _Request, cap: float) -> float:
    """Raise the scale to what the worst pair found so far needs, until there is a proof that no pair needs more."""
    natural = request.query.sensitivity / request.claim.epsilon
    if math.isfinite(cap) and quick_counterexample(request.mechanism(cap * (1.0 - _CLOSE)).setting, request.claim):
        return cap
    slack = _WINDOWED if by_windows(request.start().setting) else _CLOSE
    scale, low, counterexample = min(_first_guess(request), 0.999 * cap), 0.0, None
    while True:
        if scale >= cap and low > 0.0:
            return cap
        try:
            mechanism = request.mechanism(scale)
        except ArgumentError:  # the noise no longer reaches the support: less than the least that does is not possible
            low, scale = scale, _first_in_reach(request, scale, 2.0 * scale)
            continue
        # On the way down a quick search is enough; a proof is due once a pair has shown what is needed.
        if low == 0.0 and scale > _PROOF_BELOW * natural:
            counterexample = quick_counterexample(mechanism.setting, request.claim)
        else:
            counterexample = find_counterexample(mechanism.setting, request.claim, counterexample)
        if counterexample is not None:
            needed = _pair_scale(request, counterexample, scale)
            if needed > scale:
                low = needed
            else:  # this pair does not need more, and yet it was not proved that none does
                low, slack = max(low, scale / (1.0 + slack)), 4.0 * slack
            scale = low * (1.0 + slack)
            _inside_range(scale, request)
        elif low > 0.0:
            return scale
        else:
            scale *= 0.5
            _inside_range(scale, request)


def _first_guess(request: _Request) -> float:
    """The scale to begin with; on a grid with Gaussian noise just below what two neighbouring points alone need."""
    start = request.start()
    points = start.shape.points
    if not (start.noise.gaussian and start.shape.normalised and points):
        return start.noise.scale

    # Their log-ratio varies by 2x, x = d step/(2 s^2), and `top_stick` is attained.
    def above(x: float) -> bool:
        return top_stick(ball(x), ball(request.claim.epsilon)) > request.claim.delta

    with precision(PRECISIONS[0]):
        low, high = 0.0, 1.0
        while not above(high):
            low, high = high, 2.0 * high
        _, high = boundary(above, low, high, 1e-9)
    gap = max(b - a for a, b in itertools.pairwise(points))
    return math.sqrt(0.5 * request.query.sensitivity / high) * math.sqrt(gap) * (1.0 - 1e-9)


def _first_in_reach(request: _Request, low: float, high: float) -> float:
    """The least scale that is possible at all, between one that is not and one that is."""

    def possible(scale: float) -> bool:
        try:
            request.mechanism(scale)
        except ArgumentError:
            return False
        return True

    return boundary(possible, low, high, 1e-10)[1]


def _pair_scale(request: _Request, counterexample: Counterexample, scale: float) -> float:
    """The scale at which one pair just meets the target, rounded down."""
    side, line, position, _ = counterexample
    mirrored = side.shape != request.mechanism(scale).shape

    def over(s: float) -> float:
        setting = request.mechanism(s).setting
        shape = setting.shape.mirrored() if mirrored else setting.shape
        if not request.claim.pure and setting.noise.gaussian and shape.normalised:
            quick = stick_of_pair(Laws(s, shape), request.claim.epsilon, position, up(line.d))
            if quick is not None:
                return quick - request.claim.delta

        def value() -> Ball:
            return excess(setting.noise, shape, request.claim).value(ball(position), line.d)

        return float(refine(value).mid()) - request.claim.limit

    low = high = scale
    while over(high) > 0.0:
        low, high = high, 2.0 * high
        _inside_range(high, request)
    if low == high:
        return scale
    return math.exp(falling_root(lambda log: over(math.exp(log)), math.log(low), math.log(high), absolute=1e-12))


def _metric_scale(request: _Request) -> float:
    start = request.start()
    if _is_union(request, start):
        lowers, uppers = np.asarray(start.shape.spans).T
        return laplace_union.metric_scale(lowers, uppers, request.claim.epsilon, request.query.sensitivity)

    def over(scale: float) -> float:
        mechanism = request.mechanism(scale)
        return metric.worst_score(mechanism.setting) * request.query.sensitivity * (1.0 + 1e-14) - request.claim.epsilon

    return _smallest(request, over)


def _is_union(request: _Request, mechanism: Mechanism) -> bool:
    """Truncated Laplace on a union that is also the query's range: linear time in the number of gaps."""
    return (
        mechanism.noise.laplace
        and mechanism.bounding is TRUNCATE
        and isinstance(mechanism.support, Union)
        and mechanism.support == request.query.range
    )


def _is_interval(request: _Request) -> bool:
    """Truncated Laplace on the interval that is also the query's range, and has an end: a fixed point."""
    answers, support = request.query.range, request.support
    return (
        request.family.curve is Curve.LINEAR
        and request.family.pure
        and request.bounding is TRUNCATE
        and isinstance(answers, Interval)
        and (support is None or support == answers)
        and not is_line(answers)
    )


def _inside_range(scale: float, request: _Request) -> None:
    natural = request.query.sensitivity / request.claim.epsilon
    if scale < natural / _RANGE:
        raise Unsatisfiable(
            f"{request.claim.terms}: this target holds at every scale, so there is no smallest one; seen from outside "
            "its support the published number reveals next to nothing; build the Mechanism with a scale of your own"
        )
    if scale > natural * _RANGE:
        larger = "epsilon" if request.claim.notion is Notion.METRIC else "epsilon or delta"
        raise Unsatisfiable(f"{request.claim.terms}: no scale meets this; allow a larger {larger}")
