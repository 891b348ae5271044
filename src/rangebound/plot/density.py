"""The law of a published number: its density, its atoms, and what lies outside its support."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.laws.atomic_law import FiniteLaw, LatticeLaw
from rangebound.laws.distribution import Law
from rangebound.mechanisms.mechanism import describe_noise
from rangebound.plot import style
from rangebound.values import arguments
from rangebound.values.array_types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_TAIL = 1e-3  # what is left out on each side of an unbounded or very wide support
_PLACES = 600  # on a span
_MANY = 100  # points of a law that is drawn as a line
_ROOM = 1.25  # above the highest point, for the legend

AnyLaw: TypeAlias = Law | FiniteLaw | LatticeLaw
"""What is drawn: the law of noise with a density, of a table, or on a lattice."""


@arguments.guided
def law(*laws: AnyLaw, ax: Axes | None = None, labels: Sequence[str] | None = None) -> Axes:
    """Draw the density of one or more laws, with their atoms as stems, and shade what lies outside their support.

    A law of many true answers is drawn as one line for each. Where a law has both a density and atoms, the atoms
    are read on the right-hand axis, because a probability and a density have no common scale. A law of more than 100
    points is drawn as a line, of probability over the distance of the points, and its two ends as stems.

    Edge cases: an unbounded or very wide support is cut off where less than 0.1 % of the mass remains on each side.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query, bounding=rb.RECTIFY)
    >>> ax = law(m.law(3.0))
    >>> ax.get_xlabel(), [twin.get_ylabel() for twin in ax.figure.axes]
    ('published number', ['density', 'probability of the end itself'])
    """
    found = [one for each in laws for one in _apart(each)]
    if not found:
        raise ArgumentError("laws=(): give at least one Law, as m.law(answer) returns")
    single, names = [each for each, _ in found], style.named(labels, [name for _, name in found])
    low, high = _window(single)
    lines = [bool(each.shape.spans) if isinstance(each, Law) else _is_fine(each, low, high) for each in single]
    discrete = not any(lines)
    pinned = [each for each in single if each.shape.points]
    title = "Law of the published number"
    ax = style.axes(ax, title=title, x="published number", y="probability" if discrete else "density")
    beside = None
    if pinned and not discrete:
        beside = ax.twinx()
        every_point = any(each.shape.points and not line for each, line in zip(single, lines, strict=True))
        beside.set_ylabel("probability of a point" if every_point else "probability of the end itself")
        beside.spines[["top"]].set_visible(False)
    for i, (each, name, look) in enumerate(zip(single, names, style.lines(), strict=False)):
        if lines[i]:
            x, y = _density(each, low, high) if isinstance(each, Law) else _fine(each)
            ax.plot(x, y, label=name, **look)
        if each.shape.points:
            stems = {**look, "label": None if lines[i] else name}
            _stems(beside or ax, _ends_of(each) if lines[i] else each.atoms, style.MARKERS[i % 6], stems, low, high)
    _shade(ax, single, low, high)
    ax.set_xlim(low, high)
    for each_ax in (ax, beside):
        if each_ax is not None:
            each_ax.set_ylim(0.0, _ROOM * each_ax.get_ylim()[1])
    style.legend(ax, beside=beside)
    return ax


def _is_fine(each: FiniteLaw | LatticeLaw, low: float, high: float) -> bool:
    """Whether a law has more atoms in the picture than can be read as stems: it is drawn as a line."""
    return int(((each.points >= low) & (each.points <= high)).sum()) > _MANY


def _fine(each: AnyLaw) -> tuple[Floats, Floats]:
    """Atoms but for the two ends as a line: the probability of each over the distance to its neighbours."""
    points, chances = each.atoms
    return points[1:-1], chances[1:-1] / (0.5 * (points[2:] - points[:-2]))


def _ends_of(each: AnyLaw) -> tuple[Floats, Floats]:
    """The atoms beside a line: all of noise with a density, of any other law the two ends."""
    points, chances = each.atoms
    return (points, chances) if isinstance(each, Law) else (points[[0, -1]], chances[[0, -1]])


def _apart(many: AnyLaw) -> list[tuple[AnyLaw, str]]:
    """The laws of the true answers one by one, each with its name for the legend."""
    match many:
        case Law():
            noise = describe_noise(many.noise)
            answers = many.location.reshape(-1)
            return [(Law(many.noise, many.shape, np.asarray(at)), f"{noise}, true answer {at:g}") for at in answers]
        case FiniteLaw(points=points, weights=weights, total=total):
            rows, inputs = many.rows.reshape(-1), len(weights)
            return [
                (FiniteLaw(points, weights, total, np.asarray(at)), f"Table, input {at + 1} of {inputs}") for at in rows
            ]
        case LatticeLaw(points=points):
            count = arguments.counted(len(points), "point")
            laws = [LatticeLaw(points, row) for row in many.chances.reshape(-1, len(points))]
            return [(each, f"{count}, mean {float(each.mean):.4g}") for each in laws]
    raise ArgumentTypeError(f"law={arguments.shown(many)}: must be a Law, as m.law(answer) returns")


def _window(laws: list[AnyLaw]) -> tuple[float, float]:
    """What to show: all but the far tails, and a little beyond each end, so that an end can be seen as one."""
    low = min(float(each.quantile(_TAIL)) for each in laws)
    high = max(float(each.quantile(1.0 - _TAIL)) for each in laws)
    ends = [each.shape.ends for each in laws]
    first, last = min(a for a, _ in ends), max(b for _, b in ends)
    margin = 0.06 * (high - low) or max(each.noise.scale if isinstance(each, Law) else 1.0 for each in laws)
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


def _stems(ax: Axes, atoms: tuple[Floats, Floats], marker: str, look: dict[str, Any], low: float, high: float) -> None:
    points, weights = atoms
    seen = (points >= low) & (points <= high)
    size = 5.5 if int(seen.sum()) <= 60 else 2.0
    ax.vlines(points[seen], 0.0, weights[seen], color=look["color"], linewidth=1.2, linestyle=look["linestyle"])
    style_of_heads = {"color": look["color"], "label": look["label"], "markersize": size, "clip_on": False, "zorder": 5}
    ax.plot(points[seen], weights[seen], marker, **style_of_heads)


def _shade(ax: Axes, laws: list[AnyLaw], low: float, high: float) -> None:
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
