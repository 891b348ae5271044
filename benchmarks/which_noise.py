"""Which noise to train with: accuracy at equal worst case, clip and learning rate tuned for each kind of noise.

python -m benchmarks.which_noise [--quick] [--page]

Writes benchmarks/results/which_noise.json and, from that, the tables of the page which_noise.md beside it; `--page`
writes only the tables. Noise comes from torch's generator, since nothing here is published: how much of it is what the
account of `rangebound.learn.torch` proves.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

import rangebound as rb
from rangebound.learn.torch import Adaptive, Elementwise, Euclidean, InsecureTorchNoise
from rangebound.learn.torch.accounts import worst_case
from rangebound.learn.torch.clipping_norm import ClipController
from rangebound.learn.torch.noise_source import step_mechanism
from rangebound.learn.torch.training_plan import smallest_multiplier

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = (ROOT / "benchmarks" / "results" / f"which_noise.{end}" for end in ("json", "md"))
EPSILON, DELTA, STEPS = 8.0, 1e-5, 100
LOWER = (1.0, 3.0)  # beside that, on digits
STARTS = {  # where the search begins: clipping norm and learning rate of Euclidean clipping, and of elementwise
    "digits": ((1.0, 4.0), (0.25, 1.0)),
    "perceptron": ((1.0, 4.0), (2.0**-7, 0.125)),
    "signs": ((2.0, 2.0), (0.25, 1.0)),
    "heavy tails": ((2.0, 2.0), (0.25, 1.0)),
}
TASKS = {
    "digits": "logistic regression, digits",
    "perceptron": "perceptron, digits",
    "signs": "features of 1 and -1",
    "heavy tails": "heavy tails",
}
MEANS = ("Gaussian", "Gaussian, clamped", "truncated", "rectified")
BOUNDINGS = {"truncated": rb.TRUNCATE, "rectified": rb.RECTIFY, "one bit": rb.QUANTIZE}
FIRST_WIDTHS = {"truncated": 2.0, "rectified": 2.0, "one bit": 1.0}  # of the support: half of it, in scales
SIGNS = {"sign of Euclidean": "Euclidean", "sign of elementwise": "elementwise"}
KINDS = ("Euclidean", "elementwise", "truncated", "rectified", "one bit", *SIGNS)


@dataclass(frozen=True, kw_only=True)
class Noise:
    """A kind of noise, the half width of its support in scales, and the noise multiplier that the account asks for."""

    kind: str
    width: float
    multiplier: float

    @property
    def euclidean(self) -> bool:
        return self.kind.startswith("Euclidean")

    def mechanism(self, clip: float) -> rb.Mechanism:
        return mechanism(self.kind, self.width, self.multiplier, clip)


def mechanism(kind: str, width: float, multiplier: float, clip: float = 1.0) -> rb.Mechanism:
    half = width * multiplier * clip
    line = rb.Interval(-half, half) if width else None
    support = rb.Grid(step=2.0 * half, within=line) if kind == "one bit" and line is not None else line
    clipping = Euclidean(clip=clip) if kind.startswith("Euclidean") else Elementwise(clip=clip)
    bounding = BOUNDINGS.get(kind, rb.UNBOUNDED)
    return step_mechanism(clipping=clipping, noise_multiplier=multiplier, bounding=bounding, support=support)


@functools.cache
def calibrated(kind: str, width: float, coordinates: int, steps: int, target: float = EPSILON) -> Noise:
    """The noise whose account proves the target, for this many steps on all examples."""

    def epsilon(multiplier: float) -> float:
        step = worst_case.Step(
            mechanism=mechanism(kind, width, multiplier),
            coordinates=coordinates,
            rate=1.0,
            together=kind.startswith("Euclidean"),
        )
        return worst_case.epsilon({step: steps}, DELTA)

    return Noise(kind=kind, width=width, multiplier=smallest_multiplier(epsilon, target))


def noise_of(name: str, width: float, coordinates: int, steps: int, target: float) -> Noise:
    """The noise of this name; signs of unbounded noise are post-processing, and need no account of their own."""
    made = calibrated(SIGNS.get(name, name), width, coordinates, steps, target)
    return replace(made, kind=f"{made.kind}, one bit") if name in SIGNS else made


Sums = Callable[[list[torch.Tensor], "Noise", float], list[torch.Tensor]]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A problem: where the weights begin, the sum of the clipped gradients, and the accuracy on held-out rows."""

    start: Callable[[torch.Generator], list[torch.Tensor]]
    sums: Sums
    score: Callable[[list[torch.Tensor]], float]
    rows: int


def shortened(
    a: torch.Tensor, g: torch.Tensor, noise: Noise, clip: float, more: torch.Tensor | None = None
) -> torch.Tensor:
    """The sum over examples of the clipped products of a and g; `more` is the squared norm of what belongs to them."""
    if not noise.euclidean:
        found = torch.zeros(a.shape[1], g.shape[1])
        for start in range(0, len(a), 256):
            some = slice(start, start + 256)
            found += (a[some, :, None] * g[some, None, :]).clamp_(-clip, clip).sum(0)
        return found
    squares = (a * a).sum(1) * (g * g).sum(1) if more is None else more
    return a.t() @ (g * (clip / squares.sqrt().clamp(min=1e-30)).clamp(max=1.0)[:, None])


def logistic(x: torch.Tensor, y: torch.Tensor, held: tuple[torch.Tensor, torch.Tensor]) -> Task:
    """Multinomial logistic regression; a last feature of ones has the intercepts."""
    classes = int(y.max()) + 1
    wanted = torch.nn.functional.one_hot(y, classes).float()

    def sums(weights: list[torch.Tensor], noise: Noise, clip: float) -> list[torch.Tensor]:
        return [shortened(x, torch.softmax(x @ weights[0], 1) - wanted, noise, clip)]

    def score(weights: list[torch.Tensor]) -> float:
        return float(((held[0] @ weights[0]).argmax(1) == held[1]).float().mean())

    return Task(start=lambda draw: [torch.zeros(x.shape[1], classes)], sums=sums, score=score, rows=len(x))


def perceptron(x: torch.Tensor, y: torch.Tensor, held: tuple[torch.Tensor, torch.Tensor], hidden: int = 128) -> Task:
    """A multilayer perceptron with one hidden layer of rectified units: 9,610 parameters on digits."""
    classes = int(y.max()) + 1
    wanted = torch.nn.functional.one_hot(y, classes).float()

    def start(draw: torch.Generator) -> list[torch.Tensor]:
        wide = torch.randn(x.shape[1], hidden, generator=draw) * math.sqrt(2.0 / x.shape[1])
        return [wide, torch.randn(hidden + 1, classes, generator=draw) * math.sqrt(1.0 / hidden)]

    def layers(weights: list[torch.Tensor], rows: torch.Tensor) -> torch.Tensor:
        inner = torch.relu(rows @ weights[0])
        return torch.cat([inner, torch.ones(len(rows), 1)], 1)

    def sums(weights: list[torch.Tensor], noise: Noise, clip: float) -> list[torch.Tensor]:
        inner = layers(weights, x)
        error = torch.softmax(inner @ weights[1], 1) - wanted
        below = (error @ weights[1][:-1].t()) * (inner[:, :-1] > 0)
        both = (x * x).sum(1) * (below * below).sum(1) + (inner * inner).sum(1) * (error * error).sum(1)
        return [shortened(x, below, noise, clip, both), shortened(inner, error, noise, clip, both)]

    def score(weights: list[torch.Tensor]) -> float:
        return float(((layers(weights, held[0]) @ weights[1]).argmax(1) == held[1]).float().mean())

    return Task(start=start, sums=sums, score=score, rows=len(x))


def trained(task: Task, noise: Noise, clip: float, rate: float, seed: int, steps: int) -> float:
    """The accuracy after `steps` noisy steps on all examples; each moves the weights by rate * sum / (rows * clip)."""
    draw = torch.Generator().manual_seed(seed)
    weights = task.start(draw)
    source, law = InsecureTorchNoise(generator=draw), noise.mechanism(clip)
    signed = noise.kind.endswith("one bit")
    for _ in range(steps):
        for weight, total in zip(weights, task.sums(weights, noise, clip), strict=True):
            location = total.double().reshape(-1)
            found = source.release(law, location)
            if signed:  # how large the bits count is for the learning rate to say
                found = found.sign() * noise.multiplier * clip
            weight -= (rate / (task.rows * clip)) * found.reshape(weight.shape).float()
    return task.score(weights)


Setting = tuple[Noise, float, float]
Place = tuple[int, int, int]
"""Clipping norm, learning rate and width, as powers of two times those of the start."""


COARSE = (-3, -1, 1, 3)


def around(at: Place, *, wide: bool) -> Iterator[Place]:
    """All neighbours in clipping norm and learning rate, and where the support has a width those in width."""
    for clip, rate in itertools.product((-1, 0, 1), repeat=2):
        yield at[0] + clip, at[1] + rate, at[2]
    if wide:
        yield from ((at[0], at[1], at[2] + step) for step in (-1, 1))


def climbed(score: Callable[[Place], float], *, wide: bool) -> tuple[Place, dict[Place, float]]:
    """A place that no neighbour is better than, and all that was tried: from the best of a coarse grid, uphill."""
    tried: dict[Place, float] = {(clip, rate, 0): score((clip, rate, 0)) for clip in COARSE for rate in COARSE}
    best = max(tried, key=tried.__getitem__)
    while True:
        for place in (best, *around(best, wide=wide)):
            if place not in tried:
                tried[place] = score(place)
        found = max((best, *around(best, wide=wide)), key=tried.__getitem__)  # the place itself, where some are as good
        if found == best:
            return best, tried
        best = found


def chosen(
    tasks: Callable[[int], Task], names: tuple[str, ...], starts: tuple[tuple[float, float], ...], coordinates: int,
    tuning: int, seeds: int, steps: int, target: float = EPSILON,
) -> Iterator[dict[str, object]]:  # fmt: skip
    """For each kind the setting that is best over the tuning seeds, and its accuracy over other seeds."""
    made = {seed: tasks(seed) for seed in range(tuning + seeds)}
    for name in names:
        first, start = FIRST_WIDTHS.get(name, 0.0), starts[not name.endswith("Euclidean")]

        def setting(at: Place, name: str = name, first: float = first, start: tuple[float, float] = start) -> Setting:
            noise = noise_of(name, first * 2.0 ** at[2], coordinates, steps, target)
            return noise, start[0] * 2.0 ** at[0], start[1] * 2.0 ** at[1]

        def score(at: Place, setting: Callable[[Place], Setting] = setting) -> float:
            return statistics.fmean(trained(made[s], *setting(at), s, steps) for s in range(tuning))

        wide = name in ("truncated", "rectified")
        best, tried = climbed(score, wide=wide)
        noise, clip, rate = setting(best)
        found = [trained(made[s], noise, clip, rate, s, steps) for s in range(tuning, tuning + seeds)]
        ends = {
            axis: [f * 2.0 ** min(each[k] for each in tried), f * 2.0 ** max(each[k] for each in tried)]
            for k, (axis, f) in enumerate((("clip", start[0]), ("rate", start[1]), ("width", first))[: 2 + wide])
        }
        yield {
            "noise": name, "accuracy": statistics.fmean(found), "deviation": statistics.pstdev(found),
            **asdict(noise), "clip": clip, "rate": rate, "tried": ends, "settings": len(tried),
        }  # fmt: skip


def digits(make: Callable[..., Task]) -> Callable[[int], Task]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return lambda seed: split(make, np.asarray(x) / 16.0, np.asarray(y), seed)


def split(make: Callable[..., Task], x: np.ndarray, y: np.ndarray, seed: int) -> Task:
    order = np.random.default_rng(seed).permutation(len(x))
    features = torch.cat([torch.from_numpy(x).float(), torch.ones(len(x), 1)], 1)[order]
    labels, count = torch.from_numpy(y)[order], int(0.8 * len(x))
    return make(features[:count], labels[:count], (features[count:], labels[count:]))


def signs(seed: int, heavy: bool, rows: int = 2000, features: int = 50) -> Task:
    """Made-up rows, and labels of a linear rule: entries of 1 and -1, so that all numbers of a gradient are equally
    large; or heavy tails (Student's t with 1.5 degrees of freedom), so that single numbers are far larger than others.
    """
    draw = np.random.default_rng(1000 + seed)
    x = draw.standard_t(1.5, (rows, features)) if heavy else draw.choice([-1.0, 1.0], (rows, features))
    rule = draw.choice([-1.0, 1.0], features) / math.sqrt(features)
    return split(logistic, x, ((x @ rule + 0.3 * draw.standard_normal(rows)) > 0).astype(np.int64), seed)


def clip_trial(start: float, adaptive: bool, multiplier: float, rate: float, seed: int, steps: int) -> float:
    """Accuracy on digits where the clipping norm begins at `start`, and stays there or follows the median.

    The learning rate is one that is good without privacy: what is not known here is the clipping norm.
    """
    task: list[torch.Tensor] = []

    def parts(x: torch.Tensor, y: torch.Tensor, held: tuple[torch.Tensor, torch.Tensor]) -> Task:
        task[:] = [x, torch.nn.functional.one_hot(y, 10).float(), *held]
        return logistic(x, y, held)

    digits(parts)(seed)
    x, wanted, held, labels = task
    control = ClipController(Adaptive(clip=start), multiplier, len(x))
    draw = torch.Generator().manual_seed(seed)
    weights = torch.zeros(x.shape[1], 10)
    for _ in range(steps):
        clip = control.clipping.clip
        errors = torch.softmax(x @ weights, 1) - wanted
        norms = x.norm(dim=1) * errors.norm(dim=1)
        total = x.t() @ (errors * (clip / norms).clamp(max=1.0)[:, None])
        scale = clip * (control.sum_multiplier if adaptive else multiplier)
        weights = weights - rate / len(x) * (total + scale * torch.randn(total.shape, generator=draw))
        if adaptive:
            tally = float((norms <= clip).double().sum() - (norms > clip).double().sum()) / 2.0
            control.follow(tally + control.tally_noise * float(torch.randn(1, generator=draw)))
    return float(((held @ weights).argmax(1) == labels).float().mean())


def clip_trials(*, quick: bool) -> list[dict[str, float]]:
    """Fixed and adaptive clipping norms that begin too low, right and too high, at the same guarantee."""
    steps, seeds = (4, 1) if quick else (STEPS, 5)
    multiplier = calibrated("Euclidean", 0.0, 650, steps).multiplier
    return [
        {
            "start": start,
            **{
                name: statistics.fmean(
                    clip_trial(start, adaptive, multiplier, 2.0, seed, steps) for seed in range(seeds)
                )
                for name, adaptive in (("fixed", False), ("adaptive", True))
            },
        }
        for start in ((1.0,) if quick else (0.001, 0.01, 0.1, 1.0, 10.0, 100.0))
    ]


def one_mean(rows: int, epsilon: float, draws: int) -> dict[str, float]:
    """Root mean squared error of the mean of numbers in [-1, 1], over all true means: each kind at (epsilon, 1e-5).

    Unbounded noise is also shown clamped to the range afterwards, which is post-processing.
    """
    query = rb.Query(range=rb.Interval(-1.0, 1.0), sensitivity=1.0 / rows)
    truth = np.linspace(-1.0, 1.0, draws)
    found = {}
    for name, bounding in (("Gaussian", rb.UNBOUNDED), ("truncated", rb.TRUNCATE), ("rectified", rb.RECTIFY)):
        made = rb.calibrate(noise=rb.Gaussian, query=query, bounding=bounding, epsilon=epsilon, delta=DELTA)
        errors = made.release(truth) - truth
        found[name] = float(np.sqrt(np.mean(errors**2)))
        if bounding is rb.UNBOUNDED:
            found["Gaussian, clamped"] = float(np.sqrt(np.mean((np.clip(truth + errors, -1.0, 1.0) - truth) ** 2)))
    return found


def measured(*, quick: bool) -> dict[str, object]:
    steps, tuning, seeds = (4, 1, 1) if quick else (STEPS, 3, 5)
    found: dict[str, object] = {"epsilon": EPSILON, "delta": DELTA, "steps": steps, "tuning": tuning, "seeds": seeds}
    found["digits"] = list(chosen(digits(logistic), KINDS, STARTS["digits"], 650, tuning, seeds, steps))
    if not quick:
        found["perceptron"] = list(chosen(digits(perceptron), KINDS[:4], STARTS["perceptron"], 9610, 1, seeds, steps))
    for target in LOWER[:1] if quick else LOWER:
        kinds = chosen(digits(logistic), KINDS[:4], STARTS["digits"], 650, tuning, seeds, steps, target)
        found[f"digits, epsilon {target:g}"] = list(kinds)
    for name, heavy in (("signs", False), ("heavy tails", True)):
        tasks = {seed: signs(seed, heavy) for seed in range(tuning + seeds)}
        found[name] = list(chosen(tasks.__getitem__, KINDS, STARTS[name], 102, tuning, seeds, steps))
    found["clipping"] = clip_trials(quick=quick)
    sizes = (10,) if quick else (3, 10, 100)
    found["one mean"] = [{"rows": rows, **one_mean(rows, 1.0, 200 if quick else 20_000)} for rows in sizes]
    return found


def percent(row: dict[str, float]) -> str:
    return f"{row['accuracy']:.3f} ({row['deviation']:.3f})"


def page(text: str, found: dict[str, list[dict[str, float]]]) -> str:
    """The page with its tables written anew, each between its two marks."""
    accuracies = {name: {str(row["noise"]): percent(row) for row in found[name]} for name in TASKS if name in found}
    kinds = [str(row["noise"]) for row in found["digits"]]
    head = ["noise", *(TASKS[name] for name in accuracies)]
    lines = [[kind, *(accuracies[name].get(kind, "") for name in accuracies)] for kind in kinds]
    lower = [(each, found[f"digits, epsilon {each:g}"]) for each in LOWER if f"digits, epsilon {each:g}" in found]
    columns = [{row["noise"]: percent(row) for row in rows} for _, rows in (*lower, (EPSILON, found["digits"]))]
    epsilons = [[kind, *(each.get(kind, "") for each in columns)] for kind in KINDS[:4]]
    means = [[str(row["rows"]), *(f"{row[kind]:.3f}" for kind in MEANS)] for row in found["one mean"]]
    clips = [[f"{row['start']:g}", f"{row['fixed']:.3f}", f"{row['adaptive']:.3f}"] for row in found["clipping"]]
    tables = {
        "accuracy": [head, *lines],
        "epsilons": [["noise", *(f"epsilon {each:g}" for each, _ in lower), f"epsilon {EPSILON:g}"], *epsilons],
        "mean": [["rows", *MEANS], *means],
        "clipping": [["clipping norm at the start", "fixed", "adaptive"], *clips],
    }
    for name, made in tables.items():
        rows = ["| " + " | ".join(line) + " |" for line in made]
        rows.insert(1, "|" + " --- |" * len(made[0]))
        start, end = f"<!-- {name}, by benchmarks/which_noise.py -->\n", "<!-- end -->"
        before, rest = text.split(start)
        text = before + start + "\n" + "\n".join(rows) + "\n\n" + end + rest.split(end, 1)[1]
    return text


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="small sizes, written nowhere")
    options.add_argument("--page", action="store_true", help="only write the page again")
    given = options.parse_args()
    torch.set_num_threads(1)
    if given.quick:
        print(json.dumps(measured(quick=True), indent=1))
        return
    if not given.page:
        RESULTS.write_text(json.dumps(measured(quick=False), indent=1) + "\n", encoding="utf-8")
    made = page(PAGE.read_text(encoding="utf-8"), json.loads(RESULTS.read_text(encoding="utf-8")))
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
