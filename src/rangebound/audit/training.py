"""A training audited in one run: canaries in or out by coins, guessed from what was published, and counted."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rangebound.accounting import compose
from rangebound.accounting.composition import Composable
from rangebound.accounting.event import ComposedEvent, Event
from rangebound.accounting.pld import accountant
from rangebound.audit.bound import Classifier, grain
from rangebound.audit.right_guesses import Count, Curve, Family, Reading, largest_refuted
from rangebound.errors import ArgumentError
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values import arguments
from rangebound.values.array_types import Bools, Floats, Integers

Run = Callable[[Bools], npt.ArrayLike]
"""One training with the canaries whose coin is True; a row of scores for each canary, or one score."""

_CLAIM = "an epsilon and a delta, such as (1.0, 1e-5)"
_MOST, _FAR = 100.0, 2.0**8  # epsilon of a claim; how many times that may be found
_LESS = 16.0  # times the noise of an event, at the least and the most
_FIRST = 64  # canaries whose coins are learned from before the first guess
_SHARES = (1.0, 0.3, 0.1, 0.03, 0.01)  # of the coins that are guessed, where the output is read as a whole
_FEWEST = 16  # guesses
_LAGS, _COLUMNS, _POINTS, _LEAST_DELTA, _FARTHEST = 8, 16, 24, 1e-9, 32.0  # the last three of a profile


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class TrainingBound:
    """An empirical lower bound on epsilon from one training; not a guarantee, and not an amount that a budget accepts.

    `counts` are the right guesses, the guesses, and the canaries with secret coins, one for each number of guesses
    that was tried. `family` says that epsilon speaks of the claimed mechanism with another noise, not of any mechanism.
    """

    epsilon: float
    delta: float
    confidence: float
    claimed: float
    reading: Reading
    family: bool
    counts: tuple[Count, ...]

    @property
    def refutes(self) -> bool:
        """Whether the claim is refuted at this confidence."""
        return self.epsilon > self.claimed

    def to_dict(self) -> dict[str, object]:
        """The finding as plain data, for JSON."""
        counts = [vars(each) for each in self.counts]
        return {**vars(self), "reading": self.reading.value, "counts": counts, "refutes": self.refutes}

    def __str__(self) -> str:
        of = "noise of the claimed kind" if self.family else "any mechanism"
        seen = ", ".join(f"{each.right} of {each.guesses} guesses right" for each in self.counts)
        return (
            f"this training claims ({self.claimed:g}, {self.delta:g}); at {100 * self.confidence:.10g} % confidence it "
            f"leaks at least {arguments.downwards(self.epsilon, 3)} as {of} ({self.reading.value}: {seen})"
        )


@arguments.guided
def training(
    run: Run,
    *,
    canaries: int,
    claim: Sequence[float],
    event: Composable | None = None,
    reading: Reading = Reading.WHOLE,
    confidence: float = 0.95,
    classifier: Classifier | None = None,
    entropy: Callable[[int], bytes] = os.urandom,
) -> TrainingBound:
    """Find a lower bound on epsilon from a single training with `canaries` examples, each in or out by a fair coin.

    `run` takes the coins, trains once with the canaries whose coin is True, and returns a row for each canary: its
    score at every step (white box), or one score of the final model (black box). `rangebound.audit.trainings` has such
    functions for several libraries. The coins are guessed from the scores: their sum, extremes, change between steps,
    bits behind the point, and columns if they are few; which of these, and from what level on, is learned from canaries
    whose coins are known by then, which are never guessed later. `classifier` may be any of scikit-learn's instead.

    `claim` is the guarantee of one canary's whole row, (epsilon, delta). With `event`, the mechanism or event that one
    canary goes through, the bound is made of its exact profile: all noise so large that the count would be too unlikely
    is refuted, and the bound is epsilon at the least such noise. Then what is refuted is that this event was run, not
    every mechanism that keeps the claim. Without `event` it is about every mechanism, and smaller.

    `reading` says what the claim is taken to say of many canaries (see `rangebound.audit.right_guesses`):
    `Reading.WHOLE` nothing but differential privacy of the output as a whole, for each of them. `Reading.EACH` the same
    of each given those before it, which proves more: noise that is drawn anew for each coordinate, one for each canary,
    keeps that, and so does noise drawn anew for each step with one canary a step. A mechanism that now and then reveals
    all canaries at once does not, and a run in which it does refutes it.

    Guarantee: with probability `confidence`, for any number of canaries, the bound is not above the true epsilon of the
    event, or without one of the mechanism, if what was run keeps its claim in the sense of `reading`.
    Assumes: the coins are used for nothing else; with one canary a step, in their order; less noise leaks more.
    Edge cases: a claim that was not refuted may still be false. 0 where nothing was found; `inf` where no epsilon is
    enough at this delta. Whoever can foresee `entropy`, which returns as many bytes as asked for, can forge an audit.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    >>> claimed = rb.Mechanism(noise=rb.Gaussian(scale=1.05), query=query, bounding=rb.UNBOUNDED)  # (4, 1e-5)
    >>> broken = rb.Mechanism(noise=rb.Gaussian(scale=0.8), query=query, bounding=rb.UNBOUNDED)
    >>> found = training(
    ...     lambda coins: broken.release(coins.astype(float)),
    ...     canaries=20_000,
    ...     claim=(claimed.epsilon(1e-5), 1e-5),
    ...     event=claimed,
    ...     reading=Reading.EACH,
    ...     confidence=0.99,
    ... )
    >>> found.refutes
    True
    """
    level = arguments.probability("confidence", confidence)
    if len(arguments.instance("claim", claim, (tuple, list), _CLAIM)) != 2:
        raise ArgumentError(f"claim={arguments.shown(claim)}: must be {_CLAIM}")
    claimed, delta = arguments.positive("claim", claim[0]), arguments.probability("claim", claim[1])
    if claimed > _MOST:
        raise ArgumentError(
            f"claim={arguments.shown(claim)}: epsilon must be at most {_MOST:g}; no audit finds as much"
        )
    count = arguments.positive("canaries", canaries)
    if count != int(count) or count < 2 * _FIRST:
        raise ArgumentError(f"canaries={arguments.shown(canaries)}: must be a whole number of at least {2 * _FIRST}")
    reading = arguments.member("reading", reading, Reading)
    if classifier is not None and not (hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")):
        raise ArgumentError(
            f"classifier={arguments.shown(classifier)}: must have fit and predict_proba, as those of scikit-learn"
        )
    if event is not None and not math.isfinite(accountant.epsilon(scaled(compose(event).event, 1.0), delta).upper):
        raise ArgumentError(
            f"claim={arguments.shown(claim)}: the event has no epsilon at this delta; state a larger one"
        )
    arguments.function("run", run, 1, "a function of the coins that returns a row of scores for each canary")
    coins = tossed(int(count), entropy)
    found = arguments.reals("scores", run(coins.copy()), rounded=True)
    if found.ndim not in (1, 2) or len(found) != len(coins) or not found.size:
        raise ArgumentError(f"scores of shape {found.shape}: must be one row for each of the {len(coins)} canaries")
    rows = features(found.reshape(len(coins), -1))
    learned = Threshold() if classifier is None else classifier
    guessed = {Reading.EACH: in_turn, Reading.WHOLE: at_once}[reading]
    counts = tuple(guessed(rows, coins, learned))
    return TrainingBound(
        epsilon=lower_epsilon(counts, claimed, delta, event, reading, level), delta=delta, confidence=level,
        claimed=claimed, reading=reading, family=event is not None, counts=counts,
    )  # fmt: skip


def tossed(count: int, entropy: Callable[[int], bytes]) -> Bools:
    """This many fair coins from random bytes.

    >>> tossed(4, lambda size: bytes([0b10100000] * size)).tolist()
    [True, False, True, False]
    """
    size = (count + 7) // 8
    return np.unpackbits(np.frombuffer(entropy(size), dtype=np.uint8, count=size))[:count].astype(np.bool_)


def features(scores: Floats) -> Floats:
    """What is looked at of a row of scores; the first column is their sum.

    The least change over a lag finds noise that is drawn again: it is 0 where the canary is in all steps or none.
    """
    steps = scores.shape[1]
    found = [scores.sum(axis=1), grain(scores).max(axis=1)]
    if steps > 1:
        largest, smallest = scores.max(axis=1), scores.min(axis=1)
        lags = [np.abs(scores[:, lag:] - scores[:, :-lag]).max(axis=1) for lag in range(1, min(steps // 2, _LAGS) + 1)]
        found += [largest, smallest, largest - smallest, np.min(lags, axis=0)]
    return np.stack(found + ([] if steps > _COLUMNS or steps == 1 else list(scores.T)), axis=1)


class Threshold:
    """The feature and the level on it that tell most of the coins that are known; the distance to it is the score.

    >>> rows = np.asarray([[0.0, 3.0], [1.0, 4.0], [0.0, 9.0], [1.0, 8.0]])
    >>> found = Threshold()
    >>> found.fit(rows, np.asarray([0, 0, 1, 1]))
    >>> (found.predict_proba(rows)[:, 1] > 0.5).tolist()
    [False, False, True, True]
    """

    def fit(self, rows: Floats, kinds: Integers) -> None:
        """Try every level of every feature."""
        order = np.argsort(rows, axis=0, kind="stable")
        values = np.take_along_axis(rows, order, axis=0)
        # How many more are in than out among those above a level, which lies between two different values.
        above = np.cumsum((2 * kinds - 1)[order][::-1], axis=0)[::-1][1:].astype(np.float64)
        even = 0.5 * float((2 * kinds - 1).sum())
        gains = np.where(values[1:] > values[:-1], np.abs(above - even), -1.0)
        at, self._feature = map(int, np.unravel_index(int(gains.T.argmax()), gains.T.shape)[::-1])
        low, high = values[at : at + 2, self._feature]
        self._level, self._sign = 0.5 * (low + high), math.copysign(1.0, above[at, self._feature] - even)
        self._spread = float(np.std(rows[:, self._feature])) or 1.0

    def predict_proba(self, rows: Floats) -> Floats:
        """More than a half where the feature is on the side of the canaries that are in."""
        distance = self._sign * (rows[:, self._feature] - self._level) / self._spread
        share = 0.5 + np.arctan(distance) / math.pi
        return np.stack([1.0 - share, share], axis=1)


def in_turn(rows: Floats, coins: Bools, learner: Classifier) -> Iterator[Count]:
    """Each guess is learned from canaries before it: twice as many are guessed each time as are known."""
    right, known = 0, _FIRST
    while known < len(coins):
        ahead = slice(known, 2 * known)
        right += int(((_share(rows, coins, learner, known, ahead) > 0.5) == coins[ahead]).sum())
        known *= 2
    yield Count(right, len(coins) - _FIRST, len(coins) - _FIRST)


def at_once(rows: Floats, coins: Bools, learner: Classifier) -> Iterator[Count]:
    """The coins of a quarter are known; of the others as many are guessed whose scores are farthest on each side."""
    known = max(_FIRST, len(coins) // 4)
    ahead = slice(known, len(coins))
    order = np.argsort(_share(rows, coins, learner, known, ahead), kind="stable")
    secret = coins[ahead][order]
    for guesses in sorted({2 * int(0.5 * share * len(secret)) for share in _SHARES}):
        if guesses >= _FEWEST:
            half = guesses // 2
            yield Count(int((~secret[:half]).sum() + secret[-half:].sum()), guesses, len(secret))


def _share(rows: Floats, coins: Bools, learner: Classifier, known: int, ahead: slice) -> Floats:
    learner.fit(rows[:known], coins[:known].astype(np.int64))
    return np.asarray(learner.predict_proba(rows[ahead]), dtype=np.float64)[:, -1]


def lower_epsilon(
    counts: tuple[Count, ...], claimed: float, delta: float, event: Composable | None, reading: Reading, level: float
) -> float:
    """The largest epsilon that these counts refute: of the event with another noise, or of any mechanism."""
    if event is None:
        refuted = largest_refuted(
            lambda epsilon, _: Curve(((epsilon, delta),)), counts, reading, level, claimed, _FAR * claimed
        )
        return 0.0 if refuted is None else refuted
    whole = compose(event).event
    less = largest_refuted(_with_less_noise(whole, delta), counts, reading, level, 1.0, _LESS)
    while less is not None and less > 1.0 / _LESS:
        found = accountant.epsilon(scaled(whole, 1.0 / less), delta).lower
        if found > 0.0:
            return found
        less *= 0.5  # more noise is refuted too, and has a lower end where less has none
    return 0.0


def _with_less_noise(event: Event, delta: float) -> Family:
    def profile(less: float, reading: Reading) -> Curve:
        other = scaled(event, 1.0 / less)
        most = 0.0 if reading is Reading.EACH else accountant.epsilon(other, min(delta, _LEAST_DELTA)).upper
        epsilons = {min(most, _FARTHEST) * (k / _POINTS) ** 2 for k in range(_POINTS + 1)}
        return Curve(tuple((each, accountant.delta(other, each).upper) for each in sorted(epsilons)))

    return profile


def scaled(event: Event, factor: float) -> Event:
    """The event with all lengths of its noise times a factor.

    Edge cases: refused for mechanisms that are not noise with a bounding, such as tables.
    """
    if isinstance(event, ComposedEvent):
        return replace(event, events=tuple(scaled(each, factor) for each in event.events))
    mechanism = event.mechanism
    if not isinstance(mechanism, Mechanism):
        raise ArgumentError(
            f"event={arguments.shown(mechanism)}: must add noise of one of the families; leave it out to audit the "
            "bare claim"
        )
    noise: Any = mechanism.noise
    lengths = {name: factor * value for name, value in vars(noise).items()}
    return replace(event, mechanism=replace(mechanism, noise=replace(noise, **lengths)))
