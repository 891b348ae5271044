"""Where the worst pair lies: the privacy loss of every pair of neighbouring answers, by its position."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rangebound import arguments
from rangebound.mechanism import Mechanism
from rangebound.plot import style
from rangebound.plot.guarantee import sweep
from rangebound.privacy import hockey_stick, renyi, worst_delta, worst_loss
from rangebound.support import Interval, Union

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]


@arguments.guided
def worst_pair(mechanism: Mechanism, *, epsilon: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw the privacy loss of each pair of answers against the lower one of the two, and mark the worst pair.

    The pair of an answer is the farthest answer within the sensitivity. Drawn is the delta that the pair needs at
    `epsilon`, or without one the pure epsilon that it needs; once for each answer that may be the one whose outcome is
    too likely. The mark is the supremum over all pairs, from the certified search.

    Edge cases: a supremum that is only approached in the limit, or is infinite, has no position to mark.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    >>> worst_pair(m).get_legend().get_texts()[-1].get_text()
    'worst pair: 0.8306 at (0, 1)'
    """
    arguments.instance("mechanism", mechanism, Mechanism, "a Mechanism")
    if epsilon is None:
        worst, what = worst_loss(mechanism.setting), "epsilon that the pair needs"
    else:
        epsilon = arguments.nonnegative("epsilon", epsilon)
        worst, what = worst_delta(mechanism.setting, epsilon), f"delta that the pair needs at epsilon {epsilon:g}"
    lower, upper = _pairs(mechanism)
    ends = [end for _, end in mechanism.query.range.spans]
    gaps = np.flatnonzero(np.diff(np.searchsorted(ends, lower))) + 1  # no line where no answer is
    ax = style.axes(ax, title="Where the worst pair lies", x="lower answer of the pair", y=what)
    sides = (("lower answer's outcome too likely", lower, upper), ("upper answer's outcome too likely", upper, lower))
    for (name, p, q), look in zip(sides, style.lines(), strict=False):
        one, other = mechanism.law(p), mechanism.law(q)
        values = renyi(one, other, math.inf) if epsilon is None else hockey_stick(one, other, epsilon)
        inside = np.isfinite(values) & (lower < upper)
        drawn = np.where(inside, values, np.nan)
        ax.plot(np.insert(lower, gaps, np.nan), np.insert(drawn, gaps, np.nan), label=name, **look)
    if math.isfinite(worst.upper) and math.isfinite(worst.pair[0]):
        place = ", ".join(f"{x:.4g}" for x in worst.pair)
        label = f"worst pair: {arguments.upwards(worst.upper, 4)} at ({place})"
        look = {"marker": "*", "color": style.COLOURS[3], "markersize": 12, "linestyle": "none", "label": label}
        ax.plot([min(worst.pair)], [worst.upper], zorder=6, clip_on=False, **look)
    ax.set_ylim(0.0, None)
    style.legend(ax)
    return ax


def _pairs(mechanism: Mechanism) -> tuple[Floats, Floats]:
    """Answers, and for each the farthest answer above it within the sensitivity."""
    answers, sensitivity = mechanism.query.range, mechanism.query.sensitivity
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
