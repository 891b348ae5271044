"""Faults planted in private trainings, each audited in one run: `python -m benchmarks.audits` writes their table.

It is in docs/audit.md. Every training has one-hot canaries; it is written down in a few lines here, with one fault. The
event is what its makers would claim. Honest trainings are tried by tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, sqrt
from pathlib import Path
from typing import Any

import numpy as np

import rangebound as rb
from benchmarks.page import placed, table
from rangebound.accounting import Event, MechanismEvent, SampledEvent
from rangebound.audit import Reading, TrainingBound, training
from rangebound.values.array_types import Bools, Floats

PAGE = Path(__file__).resolve().parents[1] / "docs" / "audit.md"
DELTA = 1e-5
LOUD = 100.0
CLIP = 0.7
"""No multiple of a power of two: else noise with few bits hides a canary that has few bits too."""

Draw = np.random.Generator
Loop = Callable[[Bools, Draw], Floats]


def gaussian(scale: float) -> rb.Mechanism:
    """Noise on a number that a canary moves by 1."""
    query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, bounding=rb.UNBOUNDED)


def step(scale: float = 1.0) -> Event:
    return MechanismEvent(mechanism=gaussian(scale))


def sampled(scale: float, rate: float, steps: int) -> Event:
    return SampledEvent(mechanism=gaussian(scale), rate=rate, times=steps)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A training, what is claimed of each canary's row of scores, and how many canaries refute it at 99 %."""

    run: Loop
    event: Event
    canaries: int = 20_000
    whole: int = 20_000
    """Canaries where the output is read as a whole."""


def one_step(*, noise: float = 1.0, clip: float = 1.0, times: float = 1.0, half: bool = False) -> Loop:
    """Every canary in one step; its gradient is clipped, and counts `times`; the noise may be in float16."""

    def run(coins: Bools, draw: Draw) -> Floats:
        drawn = draw.normal(size=len(coins)) * noise * CLIP
        drawn = drawn.astype(np.float16).astype(np.float64) if half else drawn
        return times * np.minimum(LOUD * coins, clip * CLIP) + drawn

    return run


def poisson(*, scale: float, rate: float, steps: int, period: int | None = None) -> Loop:
    """Poisson samples; with a period, the noise repeats after so many steps."""

    def run(coins: Bools, draw: Draw) -> Floats:
        drawn = scale * draw.normal(size=(len(coins), period or steps))
        members = coins[:, None] & (draw.random((len(coins), steps)) < rate)
        return members + drawn[:, np.arange(steps) % drawn.shape[1]]

    return run


def shuffled(*, scale: float, steps: int) -> Loop:
    """An epoch in which every example is in exactly one batch."""

    def run(coins: Bools, draw: Draw) -> Floats:
        members = coins[:, None] & (draw.integers(0, steps, len(coins))[:, None] == np.arange(steps))
        return members + scale * draw.normal(size=members.shape)

    return run


def noise_then_clip(coins: Bools, draw: Draw) -> Floats:
    """Noise is added to each gradient, and the sum of what is clipped afterwards has none."""
    noisy = LOUD * np.eye(len(coins))[coins] + draw.normal(size=(int(coins.sum()), len(coins)))
    total: Floats = (noisy / np.maximum(np.linalg.norm(noisy, axis=1, keepdims=True), 1.0)).sum(axis=0)
    return total


def true_batch_size(coins: Bools, draw: Draw) -> Floats:
    """A step for each canary, whose batch of 8 known examples it joins; the sum is divided by its size, not by 8.

    The second score is the length of what was published: its other coordinates, 2,000 here, have noise alone.
    """
    size = 8.0 + coins
    length = np.sqrt(draw.chisquare(2000, len(coins)))
    return np.stack([(coins + draw.normal(size=len(coins))) / size, length / size], axis=1)


def bias_without_noise(coins: Bools, draw: Draw) -> Floats:
    """A canary moves a weight and a bias, of length 1 together; its scores are what was published of each."""
    return np.stack([coins / sqrt(2.0) + draw.normal(size=len(coins)), coins / sqrt(2.0)], axis=1)


FAULTS = {
    "noise x 0.8": Case(run=one_step(noise=0.8), event=step()),
    "clip x 1.2": Case(run=one_step(clip=1.2), event=step()),
    "sum divided by the true batch size": Case(run=true_batch_size, event=step(), canaries=5_000),
    "shuffled batches accounted as Poisson": Case(run=shuffled(scale=0.4, steps=8), event=sampled(0.4, 0.125, 8)),
    "noise drawn once and reused": Case(
        run=poisson(scale=2.0, rate=0.5, steps=8, period=1), event=sampled(2.0, 0.5, 8), canaries=2_000
    ),
    "noise added before clipping": Case(run=noise_then_clip, event=step(), canaries=1_000, whole=2_000),
    "noise in float16": Case(run=one_step(half=True), event=step(), canaries=2_000),
    "a seed that repeats every 4 steps": Case(
        run=poisson(scale=2.0, rate=0.5, steps=8, period=4), event=sampled(2.0, 0.5, 8), canaries=2_000
    ),
    "one example twice in a batch": Case(run=one_step(times=2.0), event=step(), canaries=2_000),
    "bias forgotten in the noise": Case(run=bias_without_noise, event=step(), canaries=2_000),
    "two noisy parts a step, accounted once": Case(
        run=poisson(scale=2.0, rate=0.5, steps=16), event=sampled(2.0, 0.5, 8)
    ),
    "epsilon of another rate": Case(run=poisson(scale=2.0, rate=0.5, steps=8), event=sampled(2.0, 0.4, 8)),
}
HONEST = {
    "one step": Case(run=one_step(), event=step()),
    "sampled steps": Case(run=poisson(scale=2.0, rate=0.5, steps=8), event=sampled(2.0, 0.5, 8)),
    "sampled steps, a low rate": Case(run=poisson(scale=1.0, rate=0.1, steps=40), event=sampled(1.0, 0.1, 40)),
    "sampled steps, little noise": Case(run=poisson(scale=0.4, rate=0.125, steps=8), event=sampled(0.4, 0.125, 8)),
}


def audited(
    case: Case, seed: int, confidence: float = 0.99, *, reading: Reading = Reading.EACH, bare: bool = False
) -> TrainingBound:
    """One run, from coins, samples and noise of a seed, so that it can be repeated; `bare` without its event."""
    draw = np.random.default_rng(seed)
    claim = rb.accounting.compose(case.event).epsilon(DELTA).upper, DELTA
    return training(
        lambda coins: case.run(coins, draw), canaries=case.canaries if reading is Reading.EACH else case.whole,
        claim=claim, event=None if bare else case.event, reading=reading, confidence=confidence, entropy=draw.bytes,
    )  # fmt: skip


def shown(case: Case, **settings: Any) -> str:
    found = audited(case, seed=1, **settings)
    leak = f"{floor(100 * found.epsilon) / 100:.2f}"
    return f"**{leak}**" if found.refutes else leak


def main() -> None:
    rows = []
    for name, case in {**FAULTS, "no fault": HONEST["one step"]}.items():
        claimed = rb.accounting.compose(case.event).epsilon(DELTA).upper
        default = shown(case, reading=Reading.WHOLE, bare=True), shown(case, reading=Reading.WHOLE)
        rows.append((name, f"{claimed:.2f}", *default, shown(case)))
        print(*rows[-1], sep=" | ", flush=True)
    placed(PAGE, "benchmarks.audits", table(("training", "claims", "by default", "`event`", "`EACH`"), rows))


if __name__ == "__main__":
    main()
