"""The worst-case privacy loss of training, over all datasets: the number to publish.

A step of d coordinates on a Poisson sample of rate p. All coordinates may move, each by at most the clipping norm C.

| step | bound |
| --- | --- |
| unbounded, rectified, quantized | post-processing of Gaussian noise with the Euclidean sensitivity C sqrt(d) |
| truncated to an interval | dominated by that Gaussian in every hockey-stick divergence, with a smaller sensitivity |
| all examples, bounded noise | besides: d times the exact worst-case Renyi curve of one coordinate |

An epoch in which each example is in one batch, chosen at random, is one `AllocatedEvent` of that Gaussian, and a batch
of fixed size one `FixedBatchEvent`. The latter compares three laws, not two, so it is for post-processing of Gaussian
noise alone: that truncated noise is dominated pair by pair is not enough.

So the privacy-loss distribution of the sampled Gaussian is valid for every step. `papers/numerics.md` has the proof for
truncated coordinates, for products of them, for Poisson samples in both directions and for adaptive composition. It
needs an interval: a union or a grid may leak more than the Gaussian and is refused, and so may truncated Laplace noise.
Euclidean clipping has the sensitivity C and Gaussian noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from rangebound.accounting import Composition, compose, renyi
from rangebound.accounting.event import (
    AllocatedEvent,
    FixedBatchEvent,
    MechanismEvent,
    SampledEvent,
    SingleEvent,
    repetitions,
)
from rangebound.accounting.kernel_cover import contraction
from rangebound.accounting.pld import accountant
from rangebound.errors import ArgumentError
from rangebound.laws.boundings import TRUNCATE, UNBOUNDED
from rangebound.laws.gaussian import Gaussian
from rangebound.learn.torch.loader import BatchSampling, Relation
from rangebound.ledger.amount import SCALE, covering, rounded_up
from rangebound.ledger.rule import AnyCost, Cost, GaussianCost, RenyiCost
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.privacy.attack_risk import AttackRisk, ProfileRisk
from rangebound.privacy.worst import worst_renyi
from rangebound.values import arguments
from rangebound.values.ball import ball, precision, up
from rangebound.values.roots import falling_root
from rangebound.values.support import Interval, Query

_BITS = 128
_AROUND = (0.7, 1.0, 1.3, 2.0)
_HIGHEST = 1e6
_POINTS = 16  # the exact curve of a finer grid is expensive, and hardly below that of the line


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step: `coordinates` numbers, each released by `mechanism`, on a sample of `rate` (1 is everybody).

    With random allocation, what is counted is an epoch of round(1/rate) steps. `together` means that the sensitivity is
    the Euclidean norm of all coordinates, not the size of each. `relation` is the neighbouring relation for which this
    holds for all that the step publishes.
    """

    mechanism: Mechanism
    coordinates: int
    rate: float
    together: bool
    relation: Relation = Relation.ZERO_OUT
    sampling: BatchSampling = BatchSampling.POISSON

    def __post_init__(self) -> None:
        arguments.instance("mechanism", self.mechanism, Mechanism, "a Mechanism")
        arguments.instance("together", self.together, bool, "True or False")
        arguments.instance("relation", self.relation, Relation, "Relation.ADD_REMOVE or Relation.ZERO_OUT")
        if self.coordinates != int(arguments.positive("coordinates", self.coordinates)):
            raise ArgumentError(f"coordinates={self.coordinates}: must be a whole number")
        if not 0.0 < arguments.finite("rate", self.rate) <= 1.0:
            raise ArgumentError(f"rate={self.rate}: must lie in (0, 1]")
        if not self.mechanism.noise.gaussian:
            raise ArgumentError(f"mechanism={arguments.shown(self.mechanism)}: must have Gaussian noise")
        arguments.instance("sampling", self.sampling, BatchSampling, "a BatchSampling")
        if self.sampling is BatchSampling.FIXED and self.relation is not Relation.ZERO_OUT:
            raise ArgumentError("sampling: batches of fixed size reveal the number of examples; they are for zero-out")
        if self.sampling is BatchSampling.FIXED and self.mechanism.bounding is TRUNCATE:
            raise ArgumentError(
                "bounding=TRUNCATE: has no account for batches of fixed size; use RECTIFY, or another sampling"
            )
        if self.mechanism.bounding is TRUNCATE and not isinstance(self.mechanism.support, Interval):
            raise ArgumentError(
                f"support={arguments.shown(self.mechanism.support)}: a Gaussian truncated to anything but an Interval "
                "may leak more than the unbounded one, on which the account is based"
            )

    def to_dict(self) -> dict[str, Any]:
        """The step as plain data, for a saved account."""
        return {
            "mechanism": self.mechanism.to_dict(),
            "coordinates": self.coordinates,
            "rate": self.rate,
            "together": self.together,
            "relation": self.relation.value,
            "sampling": self.sampling.value,
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Step:
        """The step of a saved account; one that was saved without a relation counts as zero-out."""
        return cls(
            mechanism=Mechanism.from_dict(entry["mechanism"]),
            coordinates=entry["coordinates"],
            rate=entry["rate"],
            together=entry["together"],
            relation=arguments.member("relation", entry.get("relation", Relation.ZERO_OUT.value), Relation),
            sampling=arguments.member("sampling", entry.get("sampling", BatchSampling.POISSON.value), BatchSampling),
        )

    @property
    def batches(self) -> int:
        """How many steps are counted as one: those of an epoch with random allocation, else one."""
        return round(1.0 / self.rate) if self.sampling is BatchSampling.ALLOCATION else 1

    def times(self, steps: int) -> int:
        """How often this is counted for this many steps in a row."""
        return -(-steps // self.batches)

    @property
    def ceiling(self) -> Mechanism:
        """The unbounded mechanism on the line that dominates the step in every hockey-stick divergence.

        Truncated coordinates are dominated with a smaller shift, see `rangebound.accounting.kernel_cover`.
        """
        width = self.mechanism.query.sensitivity
        if not self.together:
            with precision(_BITS):
                width = up(ball(width) * ball(contraction(self.mechanism)) * ball(self.coordinates).sqrt())
        line = Query(range=Interval(-math.inf, math.inf), sensitivity=width)
        return Mechanism(noise=Gaussian(scale=self.mechanism.noise.scale), query=line, bounding=UNBOUNDED)


History = Mapping[Step, int]


def after(history: History, step: Step, times: int) -> History:
    """The history with this many of these added."""
    return {**history, step: history.get(step, 0) + times}


def rough_epsilon(step: Step, times: int, delta: float) -> Callable[[float], float]:
    """About the epsilon of this many such steps with this much more noise, to begin a search with; it proves nothing.

    By a saddle point: with K(t) the log-moment of the sum of all losses, delta is about e^(K - t K') over
    1 + t (1 + t) sqrt(2 pi K'') at the epsilon K'.
    """
    ceiling, number = step.ceiling, times * step.batches
    unit, aim = ceiling.query.sensitivity / ceiling.noise.scale, math.log(min(max(delta, 1e-290), 0.5))
    rest = math.log1p(-step.rate) if step.rate < 1.0 else -math.inf

    def rough(noise: float) -> float:
        mu = min(unit / noise, 30.0)
        z = np.linspace(-12.0, 60.0, 1201)
        losses = np.logaddexp(rest, math.log(step.rate) + mu * z - 0.5 * mu * mu)
        logs = losses - 0.5 * z * z + math.log((z[1] - z[0]) / math.sqrt(2.0 * math.pi))

        def at(log_t: float) -> tuple[float, float]:
            t = math.exp(log_t)
            tilted = logs + t * losses
            weights = np.exp(tilted - tilted.max())
            total = float(weights.sum())
            mean = float((weights * losses).sum()) / total
            variance = number * float((weights * (losses - mean) ** 2).sum()) / total
            spread = 1.0 + t * (1.0 + t) * math.sqrt(2.0 * math.pi * variance)
            return number * (math.log(total) + float(tilted.max()) - t * mean) - math.log(spread) - aim, number * mean

        return max(at(falling_root(lambda log_t: at(log_t)[0], -14.0, 11.0, 1e-9))[1], 1e-12)

    return rough


def epsilon(history: History, delta: float) -> float:
    """The epsilon at delta of all steps together: a guarantee for all neighbouring datasets, valid to publish.

    Guarantee: never below the exact value, for neighbouring datasets by `relation(history)`: the sums differ by one
    clipped gradient for either relation, so the number is the same.
    Assumes: steps were taken as `PrivateOptimizer` takes them; the members of a sample are secret.
    Edge cases: 0 before the first step; delta = 0 is finite only for bounded noise on all examples.
    """
    delta = arguments.probability("delta", delta)
    taken = {step: times for step, times in history.items() if times}
    if not taken:
        return 0.0
    event = together(taken).event  # where the recursion over adaptive adversaries has nothing to add
    found = [renyi.epsilon_within(event, delta, accountant.epsilon_above(event, delta))]
    if all(step.rate >= 1.0 and len(step.mechanism.shape.points) <= _POINTS for step in taken):
        found.append(_by_coordinates(taken, delta))
    return min(found)


def together(history: History) -> Composition:
    """All steps together, each by the Gaussian that dominates it: what an attacker gains from the run."""
    return compose(*(_free(step, times) for step, times in history.items() if times))


def risk(history: History) -> AttackRisk:
    """What an attacker gains from all steps together, and what some run with these settings reveals: `attained`."""
    whole, below = together(history), attained(history)
    return ProfileRisk(
        profile=whole._attack_delta,
        pure=whole._attack_pure(),
        mu=whole._attack_mu(),
        pairs=below._attack_pairs,
        pure_below=below._attack_pure_below,
    )


def attained(history: History) -> Composition:
    """Steps that leak no more than those of a run in which one example has a gradient as long as may be.

    With unbounded noise and Euclidean clipping (or one coordinate) they are the steps themselves. Of other steps it is
    one coordinate, which is post-processing of all; none where a batch of it has no account of its own.
    """
    found: list[SingleEvent] = []
    for step, times in history.items():
        if times and step.mechanism.bounding is UNBOUNDED and (step.together or step.coordinates == 1):
            found.append(_free(step, times))
        elif times and step.rate >= 1.0:
            found.append(MechanismEvent(mechanism=step.mechanism, times=times))
        elif times and step.sampling is BatchSampling.POISSON:
            found.append(SampledEvent(mechanism=step.mechanism, rate=step.rate, times=times))
    return compose(*found)


def saved(history: History, taken: History) -> list[dict[str, Any]]:
    """An account and its steps (of which an epoch of random allocation has many) as plain data."""
    return [{**step.to_dict(), "times": times, "steps": taken[step]} for step, times in history.items()]


def loaded(entries: list[dict[str, Any]]) -> tuple[dict[Step, int], dict[Step, int]]:
    """The account and its steps that were saved; steps that are equal by now, as those without a relation, add up."""
    history: dict[Step, int] = {}
    taken: dict[Step, int] = {}
    for each in entries:
        step = Step.from_dict(each)
        history[step] = history.get(step, 0) + repetitions("times", each["times"])
        taken[step] = taken.get(step, 0) + repetitions("steps", each.get("steps", each["times"]))
    return history, taken


def relation(history: History) -> Relation:
    """The relation that all steps protect: add-remove if all of them do, else zero-out, which add-remove implies."""
    relations = {step.relation for step, times in history.items() if times}
    return Relation.ADD_REMOVE if relations == {Relation.ADD_REMOVE} else Relation.ZERO_OUT


def costs(step: Step, times: int, delta: float | None, order: int | None) -> tuple[AnyCost, ...]:
    """What this many of these cost, in each way in which it can be stated: see `PrivacyEngine.costs`.

    Guarantee: each is true by itself, and rounded up. A step on all examples is dominated by its Gaussian upper bound
    in every hockey-stick divergence, and so is mu-GDP with the mu of that [dong2022].
    """
    found: list[AnyCost] = []
    if step.rate >= 1.0:
        ceiling = step.ceiling
        square = (Fraction(ceiling.query.sensitivity) / Fraction(ceiling.noise.scale)) ** 2
        found.append(GaussianCost.of_units((math.ceil(times * square * SCALE), 0)))
    if order is not None:
        bound = renyi.curve(_free(step, 1), [float(order)])[0]
        found.append(RenyiCost(order=order, divergence=times * Fraction(float(bound))))
    if delta is not None:
        charge = rounded_up("delta", delta)
        found.append(Cost(epsilon=covering("epsilon", epsilon({step: times}, float(charge))), delta=charge))
    return tuple(found)


def _free(step: Step, times: int) -> SingleEvent:
    if step.rate >= 1.0:
        return MechanismEvent(mechanism=step.ceiling, times=times)
    if step.sampling is BatchSampling.ALLOCATION:
        return AllocatedEvent(mechanism=step.ceiling, batches=step.batches, times=times)
    kind = FixedBatchEvent if step.sampling is BatchSampling.FIXED else SampledEvent
    return kind(mechanism=step.ceiling, rate=step.rate, times=times)


def _by_coordinates(taken: History, delta: float) -> float:
    """All coordinates of all steps, each at its own worst location, by their exact curves.

    These are expensive, so only orders near the best one of the Gaussian upper bound are tried.
    """

    def total(order: float) -> float:
        with precision(_BITS):
            parts = [
                times
                * (1 if step.together else step.coordinates)
                * ball(worst_renyi(step.mechanism.setting, order).upper)
                for step, times in taken.items()
            ]
            return up(sum(parts, ball(0.0))) if all(each.is_finite() for each in parts) else math.inf

    pure = total(math.inf)
    if delta == 0.0 or pure == 0.0:
        return pure
    ceilings = [(times, step.ceiling) for step, times in taken.items()]
    slope = sum(times * 0.5 * (each.query.sensitivity / each.noise.scale) ** 2 for times, each in ceilings)
    # the best order where the curve is slope * order
    guess = 1.0 + math.sqrt(-math.log(delta) / slope) if slope else math.inf
    orders = [1.0 + (guess - 1.0) * factor for factor in _AROUND]
    return min([pure, *(renyi.epsilon_at(order, total(order), delta) for order in orders if order < _HIGHEST)])
