"""Curves: the privacy profile, the Renyi curve, Fisher information, trade-off, errors by epsilon; a training run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rangebound.accounting.event import Private, before_remap
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.mechanisms.certificates import PRIVATE
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.staircase import Staircase
from rangebound.optimum.choice import Objective, choose
from rangebound.optimum.limit_proof import Over
from rangebound.plot import style
from rangebound.privacy.attack_risk import AttackRisk
from rangebound.values import arguments
from rangebound.values.support import Query, Support

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rangebound.learn.torch import FisherWatcher, PrivacyEngine, RenyiWatcher


_LEAST_DELTA = 1e-9  # as far down as a profile is drawn
_FLOOR = 1e-300  # stands for zero on a logarithmic axis: far below the picture
_TOLERANCE = 1e-4  # of a trade-off curve: less than a line is wide
_RATES = np.unique(
    np.concatenate([np.linspace(0.0, 1.0, 41), np.geomspace(1e-3, 0.025, 8), 1.0 - np.geomspace(1e-3, 0.025, 8)])
)
_REACH = 4.0  # scales beyond the finite ends, where a range has no other end


@arguments.guided
def profile(
    *mechanisms: Private,
    epsilons: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
) -> Axes:
    """Draw delta against epsilon, over all neighbouring datasets; a mark on the axis is a pure epsilon.

    Guarantee: every point is that of `Mechanism.delta`, never understated.
    Edge cases: without `epsilons` the picture reaches to where the last curve ends or falls below 1e-9.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    >>> ax = profile(m, epsilons=[0.0, 0.25, 0.5])
    >>> ax.get_xlabel(), ax.get_yscale()
    ('epsilon', 'log')
    """
    rows = style.labelled(mechanisms, labels)
    pure = [each.epsilon() for each in mechanisms]
    ends = [
        end if math.isfinite(end) else each.epsilon(_LEAST_DELTA) for (each, _), end in zip(rows, pure, strict=True)
    ]
    last = max((end for end in ends if math.isfinite(end)), default=1.0)
    given = None if epsilons is None else arguments.reals("epsilons", epsilons)
    ax = style.axes(ax, title="Privacy profile", x="epsilon", y="delta")
    least = 1.0
    for i, ((each, name), look, end) in enumerate(zip(rows, style.lines(), pure, strict=False)):
        places = _towards(end, last) if given is None else given
        deltas = np.asarray([each.delta(float(epsilon)) for epsilon in places])
        least = min([least, *deltas[deltas > 0.0]])
        ax.semilogy(places, np.maximum(deltas, _FLOOR), label=name, **look)
        if math.isfinite(end):
            ax.plot(
                [end], [0.0], "^", transform=ax.get_xaxis_transform(), clip_on=False, **style.mark(i, look["color"])
            )
    ax.set_ylim(max(_LEAST_DELTA, 0.3 * least), 1.0)
    style.legend(ax)
    return ax


@arguments.guided
def renyi_curve(
    *mechanisms: Private,
    orders: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
) -> Axes:
    """Draw the Renyi divergence against its order, over all neighbouring datasets.

    A pure epsilon, where there is one, is the limit of the curve: a mark at the right-hand edge of the picture.

    Guarantee: every point is that of `Mechanism.rdp`, never understated.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    >>> renyi_curve(m, orders=[2.0, 4.0, 8.0]).get_xlabel()
    'order alpha'
    """
    rows = style.labelled(mechanisms, labels)
    places = np.geomspace(1.25, 128.0, 21) if orders is None else arguments.reals("orders", orders)
    ax = style.axes(ax, title="Renyi divergence of the worst pair", x="order alpha", y="divergence")
    ax.set_xscale("log")
    style.ticks(ax.xaxis, 2.0)
    for i, ((each, name), look) in enumerate(zip(rows, style.lines(), strict=False)):
        values = each.rdp(places)
        ax.plot(places, np.where(np.isfinite(values), values, np.nan), label=name, **look)
        if math.isfinite(end := each.epsilon()):
            ax.plot(
                [1.0], [end], "<", transform=ax.get_yaxis_transform(), clip_on=False, **style.mark(i, look["color"])
            )
    ax.set_ylim(0.0, None)
    style.legend(ax)
    return ax


@arguments.guided
def fisher(
    *mechanisms: Private,
    answers: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
) -> Axes:
    """Draw the Fisher information of the published number about the true answer, against the true answer.

    Guarantee: each point is rounded up; it describes one true answer, which is itself private, and is not a guarantee.
    Edge cases: an unbounded range is drawn up to four scales beyond its finite ends; an infinite value is left out. A
    table, whose law jumps from one input to the next, has no Fisher information and is refused.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    >>> fisher(m, answers=[0.0, 5.0, 10.0]).get_ylabel()
    'Fisher information'
    """
    rows = style.labelled(mechanisms, labels)
    ax = style.axes(ax, title="What the published number reveals", x="true answer", y="Fisher information")
    for (each, name), look in zip(rows, style.lines(), strict=False):
        places = sweep(each) if answers is None else arguments.hidden("answers", answers)
        values = each.fisher(places)
        ax.plot(places, np.where(np.isfinite(values), values, np.nan), label=name, **look)
    ax.set_ylim(0.0, None)
    style.legend(ax)
    return ax


@arguments.guided
def tradeoff(
    *risks: AttackRisk,
    false_positive_rates: npt.ArrayLike | None = None,
    ax: Axes | None = None,
    labels: Sequence[str] | None = None,
) -> Axes:
    """Draw the least miss rate of an attacker against the false positive rate, over all neighbouring datasets.

    The straight line is an attacker who sees nothing and guesses; the nearer a curve is to it, the better.

    Guarantee: no attacker is below a curve, which is at most 1e-4 below what the profile allows.

    >>> import rangebound as rb
    >>> ax = tradeoff(rb.DiscreteLaplace(scale=1.0), false_positive_rates=[0.0, 0.1, 0.5, 1.0])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('false positive rate', 'miss rate')
    """
    if not risks:
        raise ArgumentError("risks=(): give at least one mechanism")
    for each in risks:
        arguments.instance(
            "risk", each, AttackRisk, "a mechanism, or what compose(...), plan_risk(...) or engine.risk() returns"
        )
    names = [each._words() if isinstance(each, PRIVATE) else f"composition {at}" for at, each in enumerate(risks, 1)]
    given = _RATES if false_positive_rates is None else arguments.reals("false_positive_rates", false_positive_rates)
    ax = style.axes(ax, title="What an attacker can reach", x="false positive rate", y="miss rate")
    for each, name, look in zip(risks, style.named(labels, names), style.lines(), strict=False):
        ax.plot(given, each.tradeoff(given, tolerance=_TOLERANCE), label=name, **look)
    ax.plot([0.0, 1.0], [1.0, 0.0], color=style.GREY, linewidth=1.0, label="a guess")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    style.legend(ax)
    return ax


def sweep(mechanism: Private, count: int = 161) -> npt.NDArray[np.float64]:
    """True answers to draw over: the hull of the query's range, or the part of it near a finite end."""
    base, hull = before_remap(mechanism), mechanism.query.range.hull
    ends = [x for x in (hull.lower, hull.upper, *_shown(base)) if math.isfinite(x)] or [0.0]
    reach = _REACH * _scale(base)
    low = hull.lower if math.isfinite(hull.lower) else min(ends) - reach
    high = hull.upper if math.isfinite(hull.upper) else max(ends) + reach
    places = np.linspace(low, high, count)
    return np.unique(np.round(places)) if isinstance(base, DiscreteLaplace) else places


def _shown(mechanism: Private) -> tuple[float, ...]:
    """Ends of what is published that may lie outside the query's range."""
    return mechanism.shape.ends if isinstance(mechanism, Mechanism) else ()


def _scale(mechanism: Private) -> float:
    """A length beyond which noise is rare."""
    if isinstance(mechanism, Mechanism):
        return mechanism.noise.scale
    return mechanism.scale if isinstance(mechanism, (DiscreteLaplace, Staircase)) else mechanism.query.sensitivity


def _towards(end: float, last: float) -> npt.NDArray[np.float64]:
    """Epsilons from 0 to `last`, denser before the pure epsilon `end`, where a profile falls to zero."""
    places = np.linspace(0.0, last, 33)
    if not end <= last:
        return places
    return np.unique([*places[places < end], *(end * (1.0 - np.geomspace(0.03, 1e-5, 8))), end])


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


_POINTS = 60  # at which a long curve is computed


@arguments.guided
def steps(
    engine: PrivacyEngine,
    *,
    delta: float,
    until: int | None = None,
    reveal: RenyiWatcher | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the worst-case epsilon against the number of steps: those taken so far, or planned ones up to `until`.

    Its label names the neighbouring relation (`PrivacyEngine.relation`). With `reveal`, the per-instance reading of the
    run so far is drawn beside it. That curve is as private as the data, and not a guarantee of the run.

    Edge cases: refused before the first step if `until` is left out.
    """
    if not hasattr(engine, "make_private"):
        raise ArgumentTypeError(f"engine={arguments.shown(engine)}: must be a PrivacyEngine")
    taken = engine.steps
    last = taken if until is None else until
    if last < 1:
        raise ArgumentError("until: no step was taken yet; give the number of steps to draw")
    at = np.unique(np.linspace(1, last, min(last, _POINTS)).round().astype(int)).tolist()
    ax = style.axes(ax, title="Privacy loss of training", x="steps", y=f"epsilon at delta {delta:g}")
    looks = style.lines()
    ax.plot(at, engine.epsilons(delta, at), label=f"worst case, {engine.relation.value}", **next(looks))
    if reveal is not None:
        path = [each.reveal() for each in reveal.epsilons(delta)]
        ax.plot(range(1, len(path) + 1), path, label="reading of this run: private, not a guarantee", **next(looks))
    if 0 < taken < last:
        ax.axvline(taken, color=style.GREY, linewidth=0.9, linestyle=":", label="steps taken so far")
    ax.set_xlim(0, None)
    ax.set_ylim(0.0, None)
    ax.locator_params(axis="x", integer=True)
    style.legend(ax)
    return ax


@arguments.guided
def fisher_losses(reveal: FisherWatcher, *, bins: int = 20, ax: Axes | None = None) -> Axes:
    """Draw a histogram of the Fisher information losses of all examples. It is as private as the data."""
    if not hasattr(reveal, "reveal_histogram"):
        raise ArgumentTypeError(f"reveal={arguments.shown(reveal)}: must be a FisherWatcher of a training run")
    counts, edges = reveal.reveal_histogram(bins)
    ax = style.axes(ax, title="Fisher losses of the examples: private", x="Fisher information loss", y="examples")
    ax.stairs(counts, edges, fill=True, color=style.COLOURS[0], alpha=0.35)
    ax.stairs(counts, edges, color=style.COLOURS[0], linewidth=1.2)
    for value, name, look in zip(
        (reveal.median().reveal(), reveal.largest().reveal()), ("median", "largest"), ("--", "-"), strict=True
    ):
        ax.axvline(value, color=style.COLOURS[1], linestyle=look, linewidth=1.4, label=f"{name}: {value:.3g}")
    ax.set_ylim(0.0, None)
    style.legend(ax)
    return ax
