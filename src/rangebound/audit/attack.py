"""The attack: draw outputs of two neighbouring answers, and find and test the event that separates them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from rangebound.accounting.event import Private
from rangebound.audit.bound import (
    FEATURES,
    Classifier,
    EmpiricalBound,
    EventChoice,
    HistogramClassifier,
    Pair,
    best,
    classified,
    lower_bound,
    seen_only,
)
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.mechanisms.certificates import A_MECHANISM, PRIVATE
from rangebound.mechanisms.finite import Table
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.private_mechanism import PrivateMechanism
from rangebound.privacy.setting import Claim
from rangebound.values import arguments
from rangebound.values.array_types import Floats

Draw = Callable[[float, int], npt.ArrayLike]
Progress = Callable[[int, int], None]

_CHUNK = 50_000
_FEWEST, _MOST = 1000, 10**9
_STRICTER = 1e-3


@arguments.guided
def attack(
    mechanism: Draw | Private,
    *,
    pair: tuple[float, float] | None = None,
    epsilon: float | None = None,
    delta: float = 0.0,
    draws: int = 1_000_000,
    confidence: float = 0.999,
    classifier: Classifier | None = None,
    progress: Progress | None = None,
) -> EmpiricalBound:
    """Find a lower bound on the privacy loss, from `draws` outputs of each of two neighbouring answers.

    `mechanism` is a function of an answer and a count that returns this many independent outputs (the functions in
    `rangebound.audit.adapters` make one from other libraries' mechanisms), or a mechanism of any kind, whose worst pair
    and guarantee are then taken by default (of a remapped mechanism, those of its base). One half of the outputs is
    searched for events: thresholds, the fineness of a number, its last bits, numbers that only one answer produces, and
    the score of a classifier (a histogram, or any of scikit-learn's). Only the best event is tested on the other half,
    so that the confidence needs no correction for the search.

    Guarantee: with probability `confidence` the true epsilon of the pair at `delta` is at least the bound.
    Assumes: the outputs are independent, and the answers of the pair come from neighbouring datasets.
    Edge cases: the bound is 0 where no event was found. That proves nothing; neither does a claim that was not refuted.

    >>> def coin(answer, count):  # tells the truth three times out of four: epsilon is ln 3 = 1.0986
    ...     return np.resize([answer, answer, answer, 1.0 - answer], count)
    >>> print(attack(coin, pair=(0.0, 1.0), epsilon=1.0, draws=100_000))
    this mechanism claims (1, 0); at 99.9 % confidence it leaks at least 1.06
    (value <= 0: 37500 of 50000 times at 0, 12500 at 1)
    """
    level, share = arguments.probability("confidence", confidence), arguments.probability("delta", delta)
    count = check_draws(draws)
    if classifier is not None and not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        raise ArgumentTypeError(
            f"classifier={arguments.shown(classifier)}: must have fit and predict_proba, as scikit-learn's do"
        )
    claimed = None if epsilon is None else arguments.nonnegative("epsilon", epsilon)
    if isinstance(mechanism, PrivateMechanism):
        claimed = mechanism.epsilon(share) if claimed is None else claimed
        pair = worst_pair(mechanism, claimed, share) if pair is None else pair
        claimed = claimed if math.isfinite(claimed) else None  # an infinite epsilon makes no claim
        draw: Draw = _release(mechanism)
    else:
        draw = arguments.function("mechanism", mechanism, 2, "a mechanism or a function (answer, count)")
    a, b = check_pair(pair)
    first, second = _outputs(draw, a, b, count, progress)
    half, quarter = count // 2, count // 4
    learned = [
        seen_only(first[:quarter], second[:quarter]),
        classified(classifier or HistogramClassifier(), first[:quarter], second[:quarter]),
    ]
    # A feature that was learned from some outputs is evaluated on others, or it would look better than it is.
    # The best of many events is partly luck, and more so the rarer it is: a stricter level compensates for it.
    strict = 1.0 - _STRICTER * (1.0 - level)
    choices = [best(each, first[:half], second[:half], share, strict) for each in FEATURES]
    choices += [best(each, first[quarter:half], second[quarter:half], share, strict) for each in learned]
    chosen = max((each for each in choices if each is not None), key=lambda each: each.score, default=None)
    return counted(chosen, (a, b), (first[half:], second[half:]), delta=share, confidence=level, claimed=claimed)


def counted(
    chosen: EventChoice | None,
    pair: Pair,
    held_out: tuple[Floats, Floats],
    *,
    delta: float,
    confidence: float,
    claimed: float | None,
) -> EmpiricalBound:
    """The bound that an event proves by outputs on which it was not chosen; 0 where there is no event."""
    count, hits, found = len(held_out[0]), (0, 0), 0.0
    if chosen is not None:
        first, second = (chosen.event.count(each) for each in held_out)
        hits, pair = ((second, first), pair[::-1]) if chosen.swapped else ((first, second), pair)
        found = lower_bound(hits, count, delta=delta, confidence=confidence)
    return EmpiricalBound(
        epsilon=found,
        delta=delta,
        confidence=confidence,
        event="no event was found" if chosen is None else chosen.event.name,
        pair=pair,
        hits=hits,
        held_out=count,
        claimed=claimed,
    )


def worst_pair(mechanism: Private, epsilon: float, delta: float = 0.0) -> tuple[float, float]:
    """The neighbouring answers with the largest privacy loss at (epsilon, delta), from the certified search.

    Of a table they go to the inputs whose rows differ most, and of a remapped mechanism they are those of its base.

    Edge cases: refused for staircase noise on a range in whose gaps the worst pairs would lie.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> worst_pair(rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query), 0.8)
    (0.0, 1.0)
    """
    arguments.instance("mechanism", mechanism, PRIVATE, A_MECHANISM)
    # An epsilon is infinite where there is none at all.
    return mechanism._worst_answers(Claim(epsilon=min(epsilon, sys.float_info.max), delta=delta))


def _release(mechanism: Private) -> Draw:
    if isinstance(mechanism, (Mechanism, Table)):
        return lambda answer, count: mechanism.release(np.full(count, answer), progress=False)
    return lambda answer, count: mechanism.release(np.full(count, answer))


def check_pair(pair: object) -> tuple[float, float]:
    """`pair` as two different finite answers."""
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise ArgumentError(f"pair={arguments.shown(pair)}: must be two neighbouring answers, such as (0.0, 1.0)")
    a, b = arguments.finite("pair", pair[0]), arguments.finite("pair", pair[1])
    if a == b:
        raise ArgumentError(f"pair={arguments.shown(pair)}: must be two different answers")
    return a, b


def check_draws(draws: object) -> int:
    """`draws` as a whole number that is large enough to prove something."""
    number = arguments.positive("draws", draws)
    if number != int(number) or not _FEWEST <= number <= _MOST:
        raise ArgumentError(
            f"draws={arguments.shown(draws)}: must be a whole number of at least {_FEWEST} (to {_MOST:g})"
        )
    return int(number)


def _outputs(draw: Draw, a: float, b: float, count: int, progress: Progress | None) -> tuple[Floats, Floats]:
    """Outputs of both answers, drawn in turns, so that a drift of the machine does not separate them."""
    samples: tuple[Floats, Floats] = (np.empty(count), np.empty(count))
    for start in range(0, count, _CHUNK):
        size = min(_CHUNK, count - start)
        for answer, sample in zip((a, b), samples, strict=True):
            outputs = arguments.reals("output", draw(answer, size), infinite=True, rounded=True)
            if outputs.shape != (size,):
                raise ArgumentError(
                    f"output of shape {outputs.shape}: must be {arguments.counted(size, 'number')}, one for each draw"
                )
            sample[start : start + size] = outputs
        if progress is not None:
            progress(start + size, count)
    return samples
