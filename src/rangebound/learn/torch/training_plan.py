"""What a training will cost, and how far it is: noise for a target, plans, the charge to a ledger, progress.

A plan is the epsilon for a grid of noise, batch and epochs, before there is a model or a dataset. A charge to an
account of a ledger is made once, before the first step, for all planned steps.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import torch

from rangebound.accounting.event import repetitions
from rangebound.errors import ArgumentError
from rangebound.laws.boundings import UNBOUNDED, Bounding
from rangebound.learn.torch import several_processes
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.clipping_norm import Clipping, Euclidean
from rangebound.learn.torch.loader import BatchSampling, chosen_sampling
from rangebound.learn.torch.noise_source import step_mechanism
from rangebound.ledger import Ledger
from rangebound.ledger.rule import AnyCost, RenyiFilter
from rangebound.values import arguments
from rangebound.values.roots import boundary, falling_root
from rangebound.values.support import Support

_LEAST, _MOST = 2.0**-10, 2.0**40
_CLOSE = 1e-4  # relative
_STRIDE = 1.5  # of the logarithm of the noise, at most at once
_PAUSE = 1.0  # seconds between two lines


def smallest_multiplier(
    epsilon: Callable[[float], float], target: float, rough: Callable[[float], float] = lambda noise: noise**-1.5
) -> float:
    """The smallest noise multiplier, to four digits, whose `epsilon` is at most the target.

    `rough` falls like it and takes no time: epsilon, which does, is asked where a power of the rough one is on target.

    Guarantee: the epsilon of the multiplier that is returned was computed and is at most the target. That a smaller one
    is not enough is only as true as the account is monotone and smooth.
    Edge cases: 2^-10 where even that is enough; refused where 2^40 is not.

    >>> round(smallest_multiplier(lambda noise: 3.0 / noise, 2.0), 3)
    1.5
    """
    low, high, enough = -math.inf, math.inf, math.nan  # of the logarithm of the noise: too small, and enough
    noise, power, last = boundary(lambda noise: rough(noise) <= target, _LEAST, _MOST, 1e-3)[1], 1.0, (1.0, math.nan)
    while True:
        place, value = math.log(noise), rough(noise)
        height = math.log(max(epsilon(noise), 1e-300) / target)
        if height > 0.0:
            low = place
        else:
            high, enough = place, noise
        steeper = (height - last[1]) / math.log(value / last[0]) if value != last[0] else math.nan
        power, last = steeper if 0.03 < steeper < 300.0 else power, (value, height)
        aim = math.log(value) - height / power

        def above(log: float, aim: float = aim) -> float:
            return math.log(rough(math.exp(log))) - aim

        root = falling_root(above, place - _STRIDE, place + _STRIDE, 1e-9)
        if high - low <= _CLOSE or (height <= 0.0 and (noise == _LEAST or place - root <= _CLOSE)):
            return enough
        if noise == _MOST:
            raise ArgumentError(
                f"target_epsilon={arguments.shown(target)}: no noise is enough; raise it, or take fewer epochs"
            )
        place = root + 0.5 * _CLOSE
        noise = min(max(math.exp(place if low < place < high else 0.5 * (low + high)), _LEAST), _MOST)


def step_within(
    epsilon: float | None, delta: float | None, times: int | None, step_with: Callable[[float], worst_case.Step],
    history: worst_case.History,
) -> worst_case.Step:  # fmt: skip
    """The step with the least noise, taken so often, that stays within epsilon at delta; all three must be given.

    Guarantee: that is the epsilon of all steps, those of the history included.
    """
    if epsilon is None or delta is None or times is None:
        raise ArgumentError(
            "noise_multiplier: missing; give it, or target_epsilon, target_delta and epochs, which determine it"
        )
    limit, at = arguments.positive("target_epsilon", epsilon), arguments.probability("target_delta", delta)
    spent = worst_case.epsilon(history, at)
    if spent >= limit:
        raise ArgumentError(
            f"target_epsilon={arguments.shown(epsilon)}: the account that was loaded already has "
            f"{arguments.upwards(spent, 4)} at this delta, and the target is for all its steps; raise it"
        )

    def total(multiplier: float) -> float:
        return worst_case.epsilon(worst_case.after(history, step_with(multiplier), times), at)

    return step_with(smallest_multiplier(total, limit, worst_case.rough_epsilon(step_with(1.0), times, at)))


def steps_within(epsilon: float, delta: float, most: int, step: worst_case.Step, history: worst_case.History) -> int:
    """How often at most this step can be taken after the history, so that all stay within epsilon at delta."""
    low, high = 0, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        good = worst_case.epsilon(worst_case.after(history, step, middle), delta) <= epsilon
        low, high = (middle, high) if good else (low, middle)
    return low


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """One run of a plan: its noise multiplier, expected batch, epochs and steps, and the epsilon that it would have."""

    noise_multiplier: float
    expected_batch: float
    epochs: int
    steps: int
    epsilon: float


@arguments.brief
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
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        aligned = ("  ".join(map(str.rjust, row, widths)).rstrip() for row in (head, *rows))
        return "\n".join([f"epsilon at delta {self.delta:g}", *aligned])

    __repr__ = __str__


@arguments.guided
def plan_training(
    *, examples: int, delta: float, noise_multipliers: float | Sequence[float], batches: float | Sequence[float],
    epochs: int | Sequence[int], clipping: Clipping | None = None, coordinates: int | None = None,
    bounding: Bounding = UNBOUNDED, support: Support | None = None,
    sampling: str | BatchSampling = BatchSampling.POISSON,
) -> TrainingPlan:  # fmt: skip
    """Epsilon at delta for a grid of noise, expected batch and epochs, of about this many examples; no data needed.

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
    grid: Any = (batches, epochs, noise_multipliers)
    several = ([each] if isinstance(each, (int, float)) else each for each in grid)
    for batch, length, noise in itertools.product(*several):
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


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Charge:
    """Where a training is charged: the ledger, an account of it, and an id that no other run has.

    With it, `PrivacyEngine.make_private` charges all steps of `epochs` before it returns, at the `target_delta` of its
    noise where the account counts epsilons. A request is for one run; a crash leaves the charge standing.
    """

    ledger: Ledger
    account: str
    request: str

    def __post_init__(self) -> None:
        arguments.instance("ledger", self.ledger, Ledger, "a Ledger, such as Ledger.open(path)")

    @property
    def order(self) -> int | None:
        """The Renyi order of the account, if it counts by a whole one."""
        rule = self.ledger.account(self.account).rule
        order = rule.order.fraction if isinstance(rule, RenyiFilter) else None
        return int(order) if order is not None and order.denominator == 1 else None

    def make(self, costs: tuple[AnyCost, ...], facts: dict[str, Any]) -> None:
        """Charge, and store what was charged for; when this returns, both are on the disk.

        Guarantee: one run for each request. The bytes that are stored contain a random word of this run, so a second
        run with the same request finds other bytes and is refused, also where both begin at once.
        Edge cases: a run that ends early, or crashes, keeps its charge; to go on it needs a new request, because steps
        that it took after its last checkpoint may have been seen. With several processes the first one charges.
        """

        def charge() -> None:
            mine = json.dumps({**facts, "run": os.urandom(16).hex()}, sort_keys=True).encode()
            stored = self.ledger.release(
                account=self.account, request=self.request, cost=costs, compute=lambda cost: mine, what="training"
            )
            if stored != mine:
                raise ArgumentError(
                    f"request={arguments.shown(self.request)}: was charged for another run, whose steps may have been "
                    "seen; give this run a request of its own, which is charged again"
                )

        several_processes.by_first(charge)


class TrainingProgress:
    """The batches of a loader, with a line on the error stream that says how far training is.

    The line has the steps taken, of those planned, and the worst-case epsilon at `delta` after them and at the end;
    these depend on no data. A loss is shown only if it is given to `show_loss`: it is that of the examples of a batch,
    which no noise covers and no account counts, so it is for the eyes of who may see the data, and not for a log that
    others read.

    Edge cases: a line is written at most once per second, and at the end of each pass. Each costs one evaluation of the
    account, some tens of milliseconds or, with random allocation, seconds; a line is written only after a pause ten
    times as long.

    >>> from rangebound.learn.torch import PrivacyEngine
    >>> data = torch.utils.data.TensorDataset(torch.zeros(8, 3), torch.zeros(8, dtype=torch.long))
    >>> model, engine = torch.nn.Linear(3, 2), PrivacyEngine()
    >>> model, optimizer, loader = engine.make_private(
    ...     module=model,
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...     data_loader=torch.utils.data.DataLoader(data, batch_size=8),
    ...     criterion=torch.nn.functional.cross_entropy,
    ...     clipping=Euclidean(clip=1.0),
    ...     noise_multiplier=20.0,
    ...     epochs=4,
    ... )
    >>> for x, y in engine.progress(loader, delta=1e-6, stream=sys.stdout):
    ...     losses = optimizer.backward(x, y)
    ...     optimizer.step()
    step 1 of 4: epsilon 0.1893, 0.3969 at the end, delta 1e-06
    """

    def __init__(
        self, batches: Iterable[object], *, delta: float, taken: Callable[[], int], epsilon: Callable[[float], float],
        planned: int | None, end: float | None, stream: TextIO | None,
    ) -> None:  # fmt: skip
        self._batches, self._delta = batches, arguments.probability("delta", delta)
        self._taken, self._planned, self._epsilon = taken, planned, epsilon
        self._stream = sys.stderr if stream is None else stream
        self._loss = self._written = ""
        self._next = time.monotonic() + _PAUSE
        self._end = "" if end is None else f", {arguments.upwards(end, 4)} at the end"

    def __iter__(self) -> Iterator[object]:
        for each in self._batches:
            yield each
            if time.monotonic() >= self._next:
                self._write()
        self._write()

    def show_loss(self, loss: float | torch.Tensor) -> None:
        """Show this loss from now on: private, see above."""
        self._loss = f", training loss {float(loss):.4g} (private)"

    def line(self) -> str:
        """What the line says now."""
        steps = self._taken()
        if not steps:
            return "step 0"
        spent = arguments.upwards(self._epsilon(self._delta), 4)
        of = "" if self._planned is None else f" of {self._planned}"
        return f"step {steps}{of}: epsilon {spent}{self._end}, delta {self._delta:g}{self._loss}"

    def _write(self) -> None:
        begun, line = time.monotonic(), self.line()
        if line != self._written:
            self._stream.write(line + "\n")
            self._stream.flush()
        self._written = line
        self._next = time.monotonic() + max(_PAUSE, 10.0 * (time.monotonic() - begun))
