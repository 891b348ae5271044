"""The least error of one number: optimal tables, remaps and the families of noise, beside the proved limit.

    python -m benchmarks.least_error [--json FILE] [--quick]

Errors are exact, not simulated, and the same on every machine. Nothing here is a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import rangebound as rb
from benchmarks.report import Row, parser, publish
from rangebound.mechanisms.remapping import Remapped

TEXT = (
    "Worst-case mean absolute error (or mean squared error, where it is said) of one number under pure privacy; in "
    "parentheses that error divided by the one beside it. The limit is proved, for mechanisms of every kind. Real "
    "answers lie anywhere in [0, 10], sensitivity 1; counts are whole numbers from 0 to 100, sensitivity 1; shares are "
    "multiples of 0.01, sensitivity 0.05; held out are [3, 10.3] with sensitivity 0.7 and a range with a gap, but for "
    "smooth tables above epsilon 1: the steps of these were chosen with both in view. "
    "The smooth optimum falls away from the truth on both sides and has no spike on the ends. Bars are on the error "
    "over the limit: for smooth tables where the range is five sensitivities over epsilon or more, for remaps of real "
    "answers up to epsilon 2."
)
LIMIT = "rangebound, proved limit"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A query in words, the epsilons it is asked at, and whether answers are real numbers."""

    name: str
    query: rb.Query
    epsilons: tuple[float, ...]
    real: bool = False
    objective: Literal["mae", "mse"] = "mae"


def grid(step: float, upper: float) -> rb.Grid:
    return rb.Grid(step=step, within=rb.Interval(0, upper))


SETTINGS = (
    Setting(
        name="real answers",
        query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0),
        epsilons=(0.2, 0.5, 1.0, 2.0, 4.0),
        real=True,
    ),
    Setting(
        name="real answers, squared error",
        query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0),
        epsilons=(0.5, 1.0, 2.0),
        objective="mse",
    ),
    Setting(name="counts", query=rb.Query(range=grid(1, 100), sensitivity=1.0), epsilons=(0.1, 0.5, 1.0, 2.0, 4.0)),
    Setting(name="shares", query=rb.Query(range=grid(0.01, 1), sensitivity=0.05), epsilons=(0.5, 1.0, 2.0, 4.0)),
    Setting(
        name="held out, [3, 10.3]",
        query=rb.Query(range=rb.Interval(3, 10.3), sensitivity=0.7),
        epsilons=(0.7, 1.5, 3.0),
        real=True,
    ),
    Setting(
        name="held out, [0, 2] and [3, 10]",
        query=rb.Query(range=rb.Union((0, 2), (3, 10)), sensitivity=1.5),
        epsilons=(0.5, 1.5),
    ),
)
QUICK = (
    Setting(name="real answers", query=rb.Query(range=rb.Interval(0, 2), sensitivity=1.0), epsilons=(1.0,), real=True),
    Setting(name="counts", query=rb.Query(range=grid(1, 10), sensitivity=1.0), epsilons=(1.0,)),
)


def best(setting: Setting, epsilon: float, *, spikes: bool) -> float:
    ranking = rb.choose(query=setting.query, epsilon=epsilon, objective=setting.objective, spikes=spikes)
    return ranking.choices[0].score


def lattice_noise(setting: Setting, epsilon: float) -> rb.DiscreteLaplace | rb.Staircase:
    """The additive noise that is remapped: discrete Laplace noise for counts, else a staircase."""
    if setting.name == "counts":
        return rb.DiscreteLaplace.calibrated(epsilon=epsilon, support=setting.query.range.hull)
    return rb.Staircase.calibrated(query=setting.query, epsilon=epsilon)


def rows(*, quick: bool) -> Iterator[Row]:
    for setting in QUICK if quick else SETTINGS:
        for epsilon in setting.epsilons:
            yield from compared(setting, epsilon)


def worst(mechanism: rb.Table | Remapped, objective: Literal["mae", "mse"]) -> float:
    error = mechanism.worst_error()
    return error.mae if objective == "mae" else error.mse


def above(error: float, limit: float) -> str:
    """How far an error is above the limit, in words."""
    return f"{100.0 * (error / limit - 1.0):.2f} % above the limit"


def compared(setting: Setting, epsilon: float) -> Iterator[Row]:
    """What is published best at one epsilon, each beside the limit, the first beside the ranking too."""
    query, what = setting.query, f"{setting.name}, epsilon {epsilon:g}"
    aim = setting.objective
    least = rb.limit(query=query, epsilon=epsilon, objective=aim).value
    limit = {LIMIT: least}
    ranked = {
        "rangebound, best of choose": best(setting, epsilon, spikes=True),
        "rangebound, best without spikes": best(setting, epsilon, spikes=False),
    }
    hull = query.range.hull
    wide = (hull.upper - hull.lower) * epsilon / query.sensitivity >= 5.0
    smooth = worst(rb.optimal(query=query, epsilon=epsilon, objective=aim), aim)
    free = worst(rb.optimal(query=query, epsilon=epsilon, objective=aim, shape="free"), aim)
    remapped = worst(rb.remap(lattice_noise(setting, epsilon), objective=aim), aim)
    near = setting.real and epsilon <= 2.0
    yield Row(
        what=f"{what}: smooth optimum",
        ours=smooth,
        unit="",
        others={**limit, **ranked},
        bar=1.05 if wide else None,
        of=LIMIT,
        note=above(smooth, least),
    )
    yield Row(
        what=f"{what}: free optimum",
        ours=free,
        unit="",
        others=limit,
        bar=1.011,
        of=LIMIT,
        note=above(free, least),
    )
    yield Row(
        what=f"{what}: additive noise with a minimax remap",
        ours=remapped,
        unit="",
        others=limit,
        bar=1.007 if near else None,
        of=LIMIT,
        note=above(remapped, least),
    )


def main() -> None:
    options = parser(__doc__).parse_args()
    publish(options, "The least error of one number", TEXT, rows(quick=options.quick))


if __name__ == "__main__":
    main()
