"""Where the worst pair lies: the privacy loss of every pair of neighbouring answers, by its position."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rangebound.accounting.event import Private, before_remap
from rangebound.mechanisms.certificates import A_MECHANISM, PRIVATE
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite import Table
from rangebound.mechanisms.finite.pair_numbers import neighbours, stick_at
from rangebound.mechanisms.finite.pair_numbers import worst_pair as worst_inputs
from rangebound.mechanisms.finite.weights import exponential
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.staircase import Staircase
from rangebound.plot import style
from rangebound.plot.curves import sweep
from rangebound.privacy.pairs.divergences import hockey_stick, renyi
from rangebound.privacy.worst import worst_delta, worst_loss
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.support import Interval, Union

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_FEW = 60  # so few positions are marked one by one


class _Drawn(NamedTuple):
    """What is drawn: values at each lower answer, in both directions, NaN where a line is broken; and the supremum."""

    lower: Floats
    forth: Floats
    back: Floats
    worst: float
    pair: tuple[float, float] | None


@arguments.guided
def worst_pair(mechanism: Private, *, epsilon: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw the privacy loss of each pair of answers against the lower one of the two, and mark the worst pair.

    The pair of an answer is the farthest answer within the sensitivity. Drawn is the delta that the pair needs at
    `epsilon`, or without one the pure epsilon that it needs; once for each answer that may be the one whose outcome is
    too likely. The mark is the supremum over all pairs, from the certified search. In a table shorter pairs may be
    worse: an input has the largest value over all its neighbours above. Of a remapped mechanism the pairs are drawn as
    they are after the remap, below a line at the guarantee, which is that of the base.

    Edge cases: a supremum that is only approached in the limit, or is infinite, has no position to mark.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    >>> worst_pair(m).get_legend().get_texts()[-1].get_text()
    'worst pair: 0.8306 at (0, 1)'
    """
    arguments.instance("mechanism", mechanism, PRIVATE, A_MECHANISM)
    level = None if epsilon is None else arguments.nonnegative("epsilon", epsilon)
    drawn = _continuous(mechanism, level) if isinstance(mechanism, Mechanism) else _atomic(mechanism, level)
    what = "epsilon that the pair needs" if level is None else f"delta that the pair needs at epsilon {level:g}"
    ax = style.axes(ax, title="Where the worst pair lies", x="lower answer of the pair", y=what)
    sides = (("lower answer's outcome too likely", drawn.forth), ("upper answer's outcome too likely", drawn.back))
    for (name, values), look in zip(sides, style.lines(), strict=False):
        marker = "o" if len(drawn.lower) <= _FEW else None
        finite = np.where(np.isfinite(values), values, np.nan)
        ax.plot(drawn.lower, finite, label=name, marker=marker, markersize=3.5, **look)
    if math.isfinite(drawn.worst):
        _mark(ax, drawn)
    ax.set_ylim(0.0, None)
    style.legend(ax)
    return ax


def _mark(ax: Axes, drawn: _Drawn) -> None:
    value = arguments.upwards(drawn.worst, 4)
    if drawn.pair is None:
        ax.axhline(drawn.worst, color=style.COLOURS[3], linewidth=1.0, linestyle=":", label=f"guarantee: {value}")
    elif math.isfinite(drawn.pair[0]):
        place = ", ".join(f"{x:.4g}" for x in drawn.pair)
        low, label = min(drawn.pair), f"worst pair: {value} at ({place})"
        ax.plot([low], [drawn.worst], "*", color="black", markersize=12, label=label, zorder=6, clip_on=False)


def _continuous(mechanism: Mechanism, epsilon: float | None) -> _Drawn:
    """The pairs of noise that is bounded to a support, at many positions."""
    setting = mechanism.setting
    worst = worst_loss(setting) if epsilon is None else worst_delta(setting, epsilon)
    lower, upper = _pairs(mechanism)
    ends = [end for _, end in mechanism.query.spread.spans]
    gaps = np.flatnonzero(np.diff(np.searchsorted(ends, lower))) + 1  # no line where no answer is
    found = []
    for p, q in ((lower, upper), (upper, lower)):
        one, other = mechanism.law(p), mechanism.law(q)
        values = renyi(one, other, math.inf) if epsilon is None else hockey_stick(one, other, epsilon)
        found.append(np.insert(np.where(lower < upper, values, np.nan), gaps, np.nan))
    return _Drawn(np.insert(lower, gaps, np.nan), found[0], found[1], worst.upper, worst.pair)


def _atomic(mechanism: Private, epsilon: float | None) -> _Drawn:
    """The pairs of a law that has atoms alone, in doubles; the supremum is the mechanism's own number."""
    lower, upper = _answers(mechanism)
    places = np.unique(np.concatenate([lower, upper]))
    chances = mechanism.law(places).atoms[1]
    first, second = np.searchsorted(places, lower), np.searchsorted(places, upper)
    starts, group = np.unique(lower, return_inverse=True)
    found = []
    for p, q in ((first, second), (second, first)):
        values, largest = _leaks(chances[p], chances[q], epsilon), np.full(len(starts), -math.inf)
        np.maximum.at(largest, group.reshape(-1), values)
        found.append(largest)
    worst = mechanism.epsilon() if epsilon is None else mechanism.delta(epsilon)
    return _Drawn(starts, found[0], found[1], worst, _worst_pair_of(mechanism, epsilon))


def _leaks(p: Floats, q: Floats, epsilon: float | None) -> Floats:
    """What pairs of rows of probabilities need: an epsilon, or a delta at one."""
    if epsilon is not None:
        found: Floats = np.maximum(p - math.exp(epsilon) * q, 0.0).sum(axis=1)
        return found
    with np.errstate(divide="ignore", invalid="ignore"):
        losses: Floats = np.where(p > 0.0, np.log(p) - np.log(q), -math.inf).max(axis=1)
    return losses


def _answers(mechanism: Private) -> tuple[Floats, Floats]:
    """Pairs of neighbouring answers: of a table all pairs of neighbouring inputs, else answers a sensitivity apart."""
    base = before_remap(mechanism)
    if isinstance(base, Table):
        pairs, inputs = neighbours(base.reach), base.query.clip(base.inputs)
        up = pairs.first < pairs.second
        return inputs[pairs.first[up]], inputs[pairs.second[up]]
    if isinstance(base, Mechanism):
        return _pairs(base)
    apart = float(base.sensitivity) if isinstance(base, DiscreteLaplace) else base.query.sensitivity
    places = sweep(base)
    known = base.worst_pair() if isinstance(base, (DiscreteLaplace, Staircase)) else None
    lower = np.unique([*places, *([] if known is None else [known[0]])])
    lower = lower[base.query.clip(lower + apart) == lower + apart]
    return (lower, lower + apart) if len(lower) else (places[:1], places[-1:])


def _worst_pair_of(mechanism: Private, epsilon: float | None) -> tuple[float, float] | None:
    """The worst pair, where it is known; that of a base is not that of its remap."""
    if isinstance(mechanism, (DiscreteLaplace, Staircase)):
        return mechanism.worst_pair()
    if isinstance(mechanism, Table):
        weights, reach = mechanism.weights, mechanism.reach
        pair = worst_inputs(weights, reach)
        if epsilon is not None:
            pair = stick_at(weights, neighbours(reach), exponential(Fraction(epsilon))).pair
        return mechanism.inputs[pair[0]], mechanism.inputs[pair[1]]
    return None


def _pairs(mechanism: Mechanism) -> tuple[Floats, Floats]:
    """Answers, and for each the farthest answer above it within the sensitivity."""
    answers, sensitivity = mechanism.query.spread, mechanism.query.sensitivity
    places = sweep(mechanism)
    # The pairs of answers closer to the upper end than the sensitivity are parts of the last one.
    last = places[-1] - sensitivity if math.isfinite(answers.hull.upper) else places[-1]
    places = places if last <= places[0] else np.append(places[places < last], last)
    lower = _in_spans(places, answers)
    reach = lower + sensitivity
    upper = np.full_like(lower, -math.inf)
    for start, end in answers.spans:
        upper = np.where(reach >= start, np.minimum(reach, end), upper)
    return lower, np.maximum(upper, lower)


def _in_spans(places: Floats, answers: Interval | Union) -> Floats:
    """The positions that are answers, and the ends of the spans between them."""
    ends = [x for span in answers.spans for x in span if places[0] <= x <= places[-1]]
    places = np.unique(np.concatenate([places, np.asarray(ends)]))
    inside = np.zeros(places.shape, dtype=bool)
    for start, end in answers.spans:
        inside |= (places >= start) & (places <= end)
    return places[inside]
