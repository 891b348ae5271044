"""A plan of training: epsilon for a grid of noise, batch and epochs, before there is a model or a dataset."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from rangebound.accounting.event import repetitions
from rangebound.errors import ArgumentError
from rangebound.laws.boundings import UNBOUNDED, Bounding
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.batch_sampling import BatchSampling, chosen_sampling
from rangebound.learn.torch.clipping_norm import Clipping, Euclidean
from rangebound.learn.torch.step_mechanism import step_mechanism
from rangebound.values import arguments
from rangebound.values.support import Support

N = TypeVar("N", int, float)


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run of a plan: its noise multiplier, expected batch, epochs and steps, and the epsilon that it would have."""

    noise_multiplier: float
    expected_batch: float
    epochs: int
    steps: int
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """Epsilon at `delta` for each combination of noise, batch and epochs; printed as a table, one column a noise.

    Guarantee: each epsilon is what `PrivacyEngine.epsilon` says after such a run, rounded up where it is printed.
    Edge cases: nothing of it depends on data, so that it may be made, compared and published freely.
    """

    delta: float
    runs: tuple[PlannedRun, ...]

    def within(self, epsilon: float) -> tuple[PlannedRun, ...]:
        """The runs whose epsilon is at most this, in the order of the plan."""
        limit = arguments.nonnegative("epsilon", epsilon)
        return tuple(each for each in self.runs if each.epsilon <= limit)

    def __str__(self) -> str:
        noises = list(dict.fromkeys(each.noise_multiplier for each in self.runs))
        lines: dict[tuple[float, int, int], list[str]] = {}
        for each in self.runs:
            key = (each.expected_batch, each.epochs, each.steps)
            lines.setdefault(key, []).append(arguments.upwards(each.epsilon, 4))
        head = ["batch", "epochs", "steps", *(f"noise {noise:g}" for noise in noises)]
        rows = [[f"{batch:g}", str(epochs), str(steps), *found] for (batch, epochs, steps), found in lines.items()]
        return f"epsilon at delta {self.delta:g}\n{_aligned([head, *rows])}"

    __repr__ = __str__


@arguments.guided
def plan_training(
    *,
    examples: int,
    delta: float,
    noise_multipliers: float | Sequence[float],
    batches: float | Sequence[float],
    epochs: int | Sequence[int],
    clipping: Clipping | None = None,
    coordinates: int | None = None,
    bounding: Bounding = UNBOUNDED,
    support: Support | None = None,
    sampling: str | BatchSampling = BatchSampling.POISSON,
) -> TrainingPlan:
    """Epsilon at delta for a grid of noise, expected batch and epochs, of about so many examples; no data needed.

    By default the clipping is Euclidean, for which neither the norm nor the number of coordinates matters.
    `Elementwise(clip=...)` needs the number of trained parameters as `coordinates`.

    >>> plan_training(examples=60_000, delta=1e-5, noise_multipliers=(0.8, 1.0), batches=600, epochs=(1, 10))
    epsilon at delta 1e-05
    batch  epochs  steps  noise 0.8  noise 1
      600       1    100      1.511   0.7181
      600      10   1000      3.142    1.829
    """
    clip = Euclidean(clip=1.0) if clipping is None else clipping
    if coordinates is None and not isinstance(clip, Euclidean):
        raise ArgumentError(
            "coordinates: missing; with Elementwise clipping each trained parameter counts, such as "
            "coordinates=sum(each.numel() for each in model.parameters())"
        )
    people, way = repetitions("examples", examples), chosen_sampling(sampling)
    runs = []
    for batch, length, noise in itertools.product(*map(_several, (batches, epochs, noise_multipliers))):
        rate = min(arguments.positive("batches", batch) / people, 1.0)
        epoch = max(1, round(1.0 / rate))
        steps = repetitions("epochs", length) * epoch
        step = worst_case.Step(
            mechanism=step_mechanism(clipping=clip, noise_multiplier=noise, bounding=bounding, support=support),
            coordinates=1 if coordinates is None else coordinates,
            rate=1.0 / epoch if way is BatchSampling.ALLOCATION else rate,
            sampling=way,
            together=isinstance(clip, Euclidean),
        )
        epsilon = worst_case.epsilon({step: step.times(steps)}, delta)
        runs.append(
            PlannedRun(noise_multiplier=noise, expected_batch=batch, epochs=int(length), steps=steps, epsilon=epsilon)
        )
    return TrainingPlan(delta=delta, runs=tuple(runs))


def _several(given: N | Sequence[N]) -> Sequence[N]:
    return [given] if isinstance(given, (int, float)) else given


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
