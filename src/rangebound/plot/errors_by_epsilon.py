"""The error of all mechanisms that can answer a query, against epsilon."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rangebound.optimum.choice import Objective, choose
from rangebound.optimum.limit_proof import Over
from rangebound.plot import style
from rangebound.values import arguments
from rangebound.values.query import Query
from rangebound.values.support import Support

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WORDS = {Objective.MAE: "mean absolute error", Objective.MSE: "mean squared error", Objective.BIAS: "size of the bias"}
_PLACES = {Over.WORST: "at the worst true answer", Over.AVERAGE: "averaged over the true answers"}


@arguments.guided
def errors(
    query: Query,
    *,
    epsilons: npt.ArrayLike | None = None,
    delta: float = 0.0,
    objective: str | Objective = Objective.MAE,
    at: str | float | Over = Over.WORST,
    support: Support | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the error of every mechanism that can answer the query in range, each calibrated at each epsilon.

    Guarantee: every mechanism is (epsilon, delta)-private, as those of `choose` are.
    Edge cases: a mechanism that cannot meet the guarantee at some epsilon has no point there.

    >>> import rangebound as rb
    >>> ax = errors(rb.Query(range=rb.Interval(0, 10), sensitivity=1.0), epsilons=[0.5, 1.0])
    >>> [line.get_label() for line in ax.lines]
    ['rectify Gaussian', 'truncate Gaussian', 'truncate Laplace', 'rectify Laplace', 'rectify Staircase']
    """
    places = np.geomspace(0.1, 5.0, 9) if epsilons is None else arguments.reals("epsilons", epsilons).reshape(-1)
    rankings = [
        choose(query=query, epsilon=float(each), delta=delta, objective=objective, at=at, support=support)
        for each in places
    ]
    found: dict[str, list[float]] = {}
    for i, ranking in enumerate(rankings):
        for choice in ranking:
            found.setdefault(choice.name, [math.nan] * len(places))[i] = choice.score
    looked_at = rankings[0].at
    place = _PLACES[looked_at] if isinstance(looked_at, Over) else f"at the true answer {looked_at:g}"
    title = f"{_WORDS[rankings[0].objective].capitalize()} {place}, delta {delta:g}"
    ax = style.axes(ax, title=title, x="epsilon", y=_WORDS[rankings[0].objective])
    ax.set_xscale("log")
    ax.set_yscale("log")
    # From the largest error down at the left, as the lines lie in the picture.
    order = sorted(found, key=lambda name: -np.nanmax(found[name]))
    for i, (name, look, marker) in enumerate(zip(order, style.lines(), itertools.cycle(style.MARKERS), strict=False)):
        ax.plot(places, found[name], label=name, marker=marker, **{**style.mark(i, look["color"]), **look})
    for axis in (ax.xaxis, ax.yaxis):
        style.ticks(axis, 10.0, (1.0, 2.0, 5.0))
    style.legend(ax)
    return ax
