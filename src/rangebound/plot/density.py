"""The law of a published number: its density, its atoms, and what lies outside its support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rangebound import arguments
from rangebound.errors import ArgumentError
from rangebound.law import Law
from rangebound.mechanism import describe_noise
from rangebound.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]

_TAIL = 1e-3  # what is left out on each side of an unbounded or very wide support
_PLACES = 600  # on a span
_ROOM = 1.25  # above the highest point, for the legend


@arguments.guided
def law(*laws: Law, ax: Axes | None = None, labels: Sequence[str] | None = None) -> Axes:
    """Draw the density of one or more laws, with their atoms as stems, and shade what lies outside their support.

    A law of many true answers is drawn as one line for each. Where a law has both a density and atoms, the atoms
    are read on the right-hand axis, because a probability and a density have no common scale.

    Edge cases: an unbounded or very wide support is cut off where less than 0.1 % of the mass remains on each side.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query, bounding=rb.RECTIFY)
    >>> ax = law(m.law(3.0))
    >>> ax.get_xlabel(), [twin.get_ylabel() for twin in ax.figure.axes]
    ('published number', ['density', 'probability of the end itself'])
    """
    single = [one for each in laws for one in _singles(each)]
    if not single:
        raise ArgumentError("laws=(): give at least one Law, as m.law(answer) returns")
    names = style.named(labels, [_describe(each) for each in single])
    low, high = _window(single)
    discrete = not any(each.shape.spans for each in single)
    pinned = [each for each in single if each.shape.points]
    title = "Law of the published number"
    ax = style.axes(ax, title=title, x="published number", y="probability" if discrete else "density")
    beside = None
    if pinned and not discrete:
        beside = ax.twinx()
        beside.set_ylabel("probability of the end itself")
        beside.spines[["top"]].set_visible(False)
    for i, (each, name, look) in enumerate(zip(single, names, style.lines(), strict=False)):
        if each.shape.spans:
            x, y = _density(each, low, high)
            ax.plot(x, y, label=name, **look)
        if each.shape.points:
            _stems(
                beside or ax,
                each,
                style.MARKERS[i % 6],
                {**look, "label": None if each.shape.spans else name},
                low,
                high,
            )
    _shade(ax, single, low, high)
    ax.set_xlim(low, high)
    for each_ax in (ax, beside):
        if each_ax is not None:
            each_ax.set_ylim(0.0, _ROOM * each_ax.get_ylim()[1])
    style.legend(ax)
    return ax


def _singles(many: Law) -> list[Law]:
    arguments.instance("law", many, Law, "a Law, as m.law(answer) returns")
    return [Law(many.noise, many.shape, np.asarray(at)) for at in many.location.reshape(-1)]


def _describe(each: Law) -> str:
    return f"{describe_noise(each.noise)}, true answer {float(each.location):g}"


def _window(laws: list[Law]) -> tuple[float, float]:
    """What to show: all but the far tails, and a little beyond each end, so that an end can be seen as one."""
    low = min(float(each.quantile(_TAIL)) for each in laws)
    high = max(float(each.quantile(1.0 - _TAIL)) for each in laws)
    ends = [each.shape.ends for each in laws]
    first, last = min(a for a, _ in ends), max(b for _, b in ends)
    margin = 0.06 * (high - low) or max(each.noise.scale for each in laws)
    # An end that is nearly in the picture is shown.
    low = first if low - first < 2.0 * margin else low
    high = last if last - high < 2.0 * margin else high
    return low - margin, high + margin


def _density(each: Law, low: float, high: float) -> tuple[Floats, Floats]:
    """The line: up from zero where a span begins, down to zero where it ends."""
    xs: list[Floats] = []
    ys: list[Floats] = []
    for lower, upper in each.shape.spans:
        a, b = max(lower, low), min(upper, high)
        if a >= b:
            continue
        at = float(each.location)
        limit = getattr(each.noise, "limit", math.inf)
        corners = [x for x in (at, at - limit, at + limit) if a < x < b]
        x = np.unique(np.concatenate([np.linspace(a, b, _PLACES), np.asarray(corners)]))
        y = each.pdf(x)
        # Where clamping put the mass into an atom the density does not fall to zero by itself either.
        xs += [np.asarray([a]), x, np.asarray([b, np.nan])]
        ys += [np.asarray([0.0 if a == lower else y[0]]), y, np.asarray([0.0 if b == upper else y[-1], np.nan])]
    return np.concatenate(xs), np.concatenate(ys)


def _stems(ax: Axes, each: Law, marker: str, look: dict[str, Any], low: float, high: float) -> None:
    points, weights = each.atoms
    seen = (points >= low) & (points <= high)
    size = 5.5 if int(seen.sum()) <= 60 else 2.0
    ax.vlines(points[seen], 0.0, weights[seen], color=look["color"], linewidth=1.2, linestyle=look["linestyle"])
    style_of_heads = {"color": look["color"], "label": look["label"], "markersize": size, "clip_on": False, "zorder": 5}
    ax.plot(points[seen], weights[seen], marker, **style_of_heads)


def _shade(ax: Axes, laws: list[Law], low: float, high: float) -> None:
    """Hatch what no law of the picture can publish; for a grid only what lies beyond its ends."""
    spans = sorted({span for each in laws for span in (each.shape.spans or (each.shape.ends,))})
    reached, label = low, "cannot be published"
    for lower, upper in [*spans, (high, high)]:
        if lower > reached:
            stop = min(lower, high)
            ax.axvspan(reached, stop, facecolor="#F2F2F2", edgecolor="#CCCCCC", hatch="////", linewidth=0, label=label)
            label = "_again"
        reached = max(reached, upper)
        if reached >= high:
            break
