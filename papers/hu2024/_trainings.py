"""Train over the grids of the paper's appendix G, and say what every setting costs and how good it is.

Each setting is trained a few times, with other noise each time. A training is one record: accuracy, per-instance
epsilon (of the probe), Fisher losses of the watched examples (largest and median), and how much a step reveals about
the coordinates it published, where they were and at the centre of the support.
"""

from __future__ import annotations

import concurrent.futures
import functools
import itertools
import math
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

import rangebound as rb
from papers.hu2024._tasks import CRITERION, SomeFisher, Task
from rangebound.accounting.renyi import epsilon_at
from rangebound.errors import ArgumentError
from rangebound.learn.torch import Elementwise, InsecureTorchNoise, PrivacyEngine
from rangebound.privacy.pairs.divergences import fisher_formula, renyi_formula

DELTA = 1e-5
ORDERS = 1.0 + np.geomspace(0.5, 3000.0, 14)
BOUNDINGS = {"Gaussian": rb.UNBOUNDED, "rectified": rb.RECTIFY, "truncated": rb.TRUNCATE}


class Setting(NamedTuple):
    """One point of the grid, and whether it is one of the paper's."""

    kind: str
    clip: float
    multiplier: float
    end: float  # of the support; 0 without one
    rate: float  # of learning
    paper: bool


class Record(NamedTuple):
    """One training of a setting, after some steps."""

    task: str
    kind: str
    clip: float
    multiplier: float
    end: float
    rate: float
    paper: bool
    steps: int
    run: int
    accuracy: float
    epsilon: float
    largest: float
    median: float
    information: float  # scale^2 times the Fisher information of a coordinate, on average over those published
    centre: float  # the same for a coordinate at 0


def grid(task: Task) -> list[Setting]:
    """The paper's grid for the three mechanisms, and for Gaussian noise as many settings again as each of the others.

    Bounded noise has five supports for each setting of Gaussian noise, and a narrow one also makes the steps smaller:
    the control is Gaussian noise with more multipliers and smaller learning rates.
    """
    found = []
    for clip, multiplier, rate in itertools.product(task.clips, task.multipliers, task.rates):
        found.append(Setting("Gaussian", clip, multiplier, 0.0, rate, True))
        for kind, end in itertools.product(("rectified", "truncated"), task.ends):
            found.append(Setting(kind, clip, multiplier, end, rate, True))
    for clip, multiplier in itertools.product(task.clips, [*task.multipliers, *task.between]):
        more = (*task.slower, *(() if multiplier in task.multipliers else task.rates))
        found += [Setting("Gaussian", clip, multiplier, 0.0, rate, False) for rate in more]
    return sorted(found, key=lambda each: each.multiplier)


class PathLosses:
    """What a run reveals along its path: divergences of any one example at many orders, and losses of the watched.

    Both are those of `RenyiWatcher` and `FisherWatcher`, by formulas that fit these tasks: without the table, whose
    bounds are loose at orders of hundreds, and without derivatives of derivatives where a closed form exists.
    """

    needs_batches = False

    def __init__(self, task: Task, watched: tuple[torch.Tensor, torch.Tensor]) -> None:
        self._task, (self._x, self._y) = task, watched
        self.divergences = torch.zeros(len(ORDERS), dtype=torch.float64)
        self.fisher = torch.zeros(len(self._x), dtype=torch.float64)
        self.information: list[float] = []

    def start(self, module: Any, criterion: Any, optimizer: Any, loader: Any) -> None:
        self._module, self._optimizer, self._loader = module, optimizer, loader

    def saw(self, location: torch.Tensor, batches: Any) -> None:
        m = self._optimizer.mechanism
        hull = m.query.range.hull
        at = location.clamp(hull.lower, hull.upper)
        information = fisher_formula(m.noise, m.shape, at)
        self.information.append(float(information.mean()) * m.noise.scale**2)
        if self._task.batch == 0:
            self._count(m, at)
        if self._task.losses is None:
            return
        if (len(self.information) - 1) % self._task.every == 0:
            with torch.enable_grad():
                found = self._task.losses(self._module, self._x, self._y, self._optimizer.clipping, information)
            self._squares = torch.where(torch.isfinite(found), found, torch.zeros_like(found)).detach().cpu()
        members = torch.zeros(self._loader.examples, dtype=torch.float64)
        members[torch.from_numpy(self._loader.members)] = 1.0
        self.fisher += self._squares * members[: len(self.fisher)]

    def _count(self, m: rb.Mechanism, at: torch.Tensor) -> None:
        orders = torch.as_tensor(ORDERS, device=at.device)
        ways = [[], []]
        for shift in (m.query.sensitivity, -m.query.sensitivity):
            ways[0].append(renyi_formula(m.noise, m.shape, at, at + shift, orders))
            ways[1].append(renyi_formula(m.noise, m.shape, at + shift, at, orders))
        forward, backward = (torch.maximum(*both).sum(1) for both in ways)
        self.divergences += torch.maximum(forward, backward).cpu()

    def epsilon(self) -> float:
        """The odometer reading at delta, at the best order."""
        pairs = zip(ORDERS.tolist(), self.divergences.tolist(), strict=True)
        return min(epsilon_at(order, value, DELTA) for order, value in pairs)

    def squares(self) -> torch.Tensor:
        return self.fisher


@functools.cache
def _data(make: Any, given: tuple[Any, ...], device: str) -> Any:
    return [each.to(device) for each in make(*given)]


def trained(task: Task, setting: Setting, run: int, device: str) -> list[Record]:
    """Train once, and the records after each number of steps: nothing learned if the parameters left the floats."""
    torch.manual_seed(run)  # the start of a network
    x, y, test_x, test_y = _data(task.data.func, task.data.args, device)
    model = task.model().to(device)
    support = rb.Interval(-setting.end, setting.end) if setting.end else None
    watch = PathLosses(task, (x[: task.watched], y[: task.watched]))
    other = [SomeFisher(task.watched)] if task.losses is None else []
    batch = task.batch or len(x)
    _, optimizer, loader = PrivacyEngine(watch, *other).make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=setting.rate),
        data_loader=DataLoader(TensorDataset(x, y), batch_size=batch),
        criterion=CRITERION,
        clipping=Elementwise(clip=setting.clip),
        noise_multiplier=setting.multiplier,
        bounding=BOUNDINGS[setting.kind],
        support=support,
        rate=batch / len(x),
        expected_batch=batch,
        noise=InsecureTorchNoise(generator=torch.Generator(device).manual_seed(1000 + run)),
    )
    m = optimizer.mechanism
    centre = float(fisher_formula(m.noise, m.shape, torch.zeros(1, dtype=torch.float64))[0]) * m.noise.scale**2
    records: list[Record] = []
    for steps, (a, b) in enumerate(_batches(loader, task.snapshots[-1]), 1):
        try:
            optimizer.backward(a, b)
            optimizer.step()
        except ArgumentError:  # it says so
            lost = (0.0, math.inf, math.inf, math.inf, 0.0, centre)
            rest = task.snapshots[len(records) :]
            return records + [Record(task.name, *setting, each, run, *lost) for each in rest]
        if steps in task.snapshots:
            with torch.no_grad():
                accuracy = float((model(test_x).argmax(1) == test_y).float().mean())
            losses = (other or [watch])[0].squares().sqrt()
            numbers = (
                accuracy,
                watch.epsilon() if task.batch == 0 else 0.0,
                float(losses.max()),
                float(losses.median()),
                float(np.mean(watch.information)),
                centre,
            )
            kept = [float(f"{each:.5g}") for each in numbers]
            records.append(Record(task.name, *setting, steps, run, *kept))
    return records


def _batches(loader: Any, count: int) -> Iterator[Any]:
    """So many batches of as many epochs as it takes."""
    return itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader)), count)


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training to do before the deadline."""

    task: Task
    setting: Setting
    run: int
    device: str
    deadline: float


def _done(job: Job) -> list[Record]:
    if time.time() > job.deadline:
        return []
    torch.set_num_threads(1)
    return trained(job.task, job.setting, job.run, job.device)


def measure(
    tasks: list[Task], *, runs: int, device: str, jobs: int, minutes: float, known: list[Record]
) -> Iterator[list[Record]]:
    """The records of each training that is not yet known, until the time is up: run by run, both tasks in each."""
    deadline = time.time() + 60.0 * minutes
    have = {(each.task, *each[1:7], each.run) for each in known}
    todo = [
        Job(task=task, setting=setting, run=run, device=device, deadline=deadline)
        for run in range(runs)
        for task in tasks
        for setting in grid(task)
        if (task.name, *setting, run) not in have
    ]
    start = time.time()
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for count, records in enumerate(pool.map(_done, todo) if jobs > 1 else map(_done, todo), 1):
            if count % 50 == 0 or count == len(todo):
                print(f"{count} of {len(todo)} trainings after {time.time() - start:.0f} s", flush=True)
            yield records
