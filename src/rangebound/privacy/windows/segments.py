"""What a pair sees of truncated Laplace noise on a grid or a union, for many positions at once, over discs.

The ends of the support (points of a grid, ends of spans) cut the line into segments. In units of the scale, with sigma
the distance of p from the end on its left and sigma' to the one on its right, the mass left of p is
L e^-sigma + m (1 - e^-sigma), where L is the mass left of that end, seen from there, and m is 1 in a span and 0 in a
gap; a grid is all gaps between points. All formulas are analytic in the position as long as neither answer leaves its
segment; papers/numerics.md has the proofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from rangebound.laws.boundings import Shape
from rangebound.privacy.setting import SearchLine
from rangebound.privacy.windows.chebyshev import UNIT, Discs, difference, exactly, side_by_side, where
from rangebound.values.array_types import Bools, Floats, Indices, np

_MOST_EVENTS = 6  # that are distinguished on one window of a grid


class Ends(NamedTuple):
    """The ends of a support, and the masses that they see, in units of the scale."""

    places: Floats
    inside: Floats  # for each segment between two ends, 1 in a span and 0 in a gap
    widths: Discs  # of the segments, in scales
    left: Discs  # mass left of each end (a point itself included), seen from there
    right: Discs
    scale: float
    points: bool


@lru_cache(maxsize=16)
def ends_of(shape: Shape, scale: float) -> Ends:
    """The ends of a bounded support, which has two of them at least."""
    points = not shape.spans
    places = np.asarray(shape.points if points else [end for span in shape.spans for end in span])
    inside = np.zeros(places.size - 1) if points else (np.arange(places.size - 1) % 2 == 0).astype(np.float64)
    widths = difference(places[1:], places[:-1]) / scale
    loss_of, weights = ((-widths).expm1(), exactly(inside))
    left = running(loss_of, weights, points=points)
    backwards = running(loss_of.at(slice(None, None, -1)), weights.at(slice(None, None, -1)), points=points)
    return Ends(places, inside, widths, left, backwards.at(slice(None, None, -1)), scale, points)


def running(loss_of: Discs, inside: Discs, *, points: bool) -> Discs:
    """The masses M left of the ends: M' = M + (M - m) (e^-w - 1), and 1 more where the next end is a point.

    `loss_of` is e^-w - 1 of each segment, and `inside` its m.

    What rounding takes from a sum is carried along, so that the error does not grow with the number of ends.
    """
    high, low, rad = (1.0 if points else 0.0), 0.0, 0.0
    mids, rads = [high], [rad]
    for g, g_rad, m, m_rad in zip(
        *map(np.ndarray.tolist, (loss_of.mid, loss_of.rad, inside.mid, inside.rad)), strict=True
    ):
        change = (high - m) * g + low * g
        rad = (1.0 + g + g_rad) * rad + (abs(high - m) + abs(low)) * g_rad + (abs(g) + g_rad) * m_rad
        rad *= 1.0 + 8.0 * UNIT
        rad += 4.0 * UNIT * (abs(change) + abs(low))
        for term in (change, 1.0) if points else (change,):
            total = high + term
            part = total - high
            low += (high - (total - part)) + (term - part)  # exactly what the sum has lost
            high = total
        mids.append(high)
        rads.append(rad + abs(low) * (1.0 + 4.0 * UNIT))
    return Discs(np.asarray(mids), np.asarray(rads))


class LaplaceWindows(NamedTuple):
    """Windows of positions p = end number `first` + offset, offsets from `low` to `high`; q = p + d in `second`."""

    line: Indices
    first: Indices  # the segments of p and q
    second: Indices
    low: Floats
    high: Floats
    d: Discs  # in scales
    apart: Discs  # q from the end on its left less p from its own, in scales

    def at(self, index: Any) -> LaplaceWindows:
        numbers = (self.line[index], self.first[index], self.second[index], self.low[index], self.high[index])
        return LaplaceWindows(*numbers, self.d.at(index), self.apart.at(index))

    def some(self, chosen: Bools | Indices) -> LaplaceWindows:
        return self.at(chosen)

    def halves(self) -> LaplaceWindows:
        middle = 0.5 * self.low + 0.5 * self.high
        both = [self._replace(high=middle), self._replace(low=middle)]
        return joined(both)


def joined(parts: Sequence[LaplaceWindows]) -> LaplaceWindows:
    *numbers, ds, aparts = zip(*parts, strict=True)
    return LaplaceWindows._make([*map(np.concatenate, numbers), side_by_side(ds), side_by_side(aparts)])


def windows_of(ends: Ends, number: int, line: SearchLine) -> LaplaceWindows:
    """The windows of a line: together they hold every position whose pair lies in the support's hull.

    Edges are rounded outward, so that a window may reach over an end by an ulp or so. There its function is the
    analytic continuation, whose values do no harm: every position belongs to a window that is right about its ends.
    """
    places, last = ends.places, ends.places.size - 1
    exact = Fraction(line.far) - Fraction(line.near)
    d = float(exact)
    distance = Discs(np.asarray(d), np.asarray(UNIT * d))
    slop = 32.0 * UNIT * (max(abs(places[0]), abs(places[-1])) + d)
    begin = max(int(np.searchsorted(places, line.start - slop, side="right")) - 1, 0)
    stop = min(int(np.searchsorted(places, line.end + slop, side="right")), last)
    segments = np.arange(begin, stop)
    from_start, to_end = difference(line.start, places[segments]), difference(line.end, places[segments])
    low = np.maximum(from_start.mid - from_start.rad, 0.0)
    width = difference(places[segments + 1], places[segments])
    high = np.minimum(to_end.mid + to_end.rad, width.mid + width.rad)
    lowest = np.maximum(np.searchsorted(places, places[segments] + low + d - slop, side="right") - 2, 0)
    highest = np.minimum(np.searchsorted(places, places[segments] + high + d + slop, side="right"), last - 1)
    counts = np.maximum(highest - lowest + 1, 0)
    which = np.repeat(np.arange(segments.size), counts)
    second = lowest[which] + np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts)
    first = segments[which]
    reach = [difference(places[second + side], places[first]) - distance for side in (0, 1)]
    low = np.maximum(low[which], reach[0].mid - reach[0].rad)
    stop_at = reach[1].mid + reach[1].rad
    # a line may reach over the last end by an ulp of the position: the pair that is meant is the last one
    low = np.where((second == last - 1) & (low - stop_at <= slop), np.minimum(low, stop_at), low)
    high = np.minimum(high[which], stop_at)
    apart = (difference(places[first], places[second]) + distance) / ends.scale
    whole = distance / ends.scale
    of_line = Discs(np.full(first.size, whole.mid), np.full(first.size, whole.rad))
    found = LaplaceWindows(np.full(first.size, number), first, second, low, high, of_line, apart)
    return found.at(low <= high)


class _Seen(NamedTuple):
    """What a pair sees of the support: masses of P left and of Q right, and both normalisers; rows are windows."""

    sigma: Discs  # p from the end on its left, in scales
    rest: Discs  # and to that on its right
    left: Discs
    right: Discs
    of_p: Discs
    of_q: Discs
    tau: Discs  # q from the end on its left


def _seen(ends: Ends, windows: LaplaceWindows, sigma: Discs) -> _Seen:
    first, second = windows.first[:, None], windows.second[:, None]
    tau = sigma + _column(windows.apart)
    rest, beyond = (ends.widths.at(first) - sigma, ends.widths.at(second) - tau)
    left, behind = (_faded(ends.left.at(k), ends.inside[k], way) for k, way in ((first, sigma), (second, tau)))
    ahead, right = (_faded(ends.right.at(k + 1), ends.inside[k], way) for k, way in ((first, rest), (second, beyond)))
    return _Seen(sigma, rest, left, right, left + ahead, behind + right, tau)


def _column(each: Discs) -> Discs:
    return each.at((slice(None), None))


def _faded(mass: Discs, inside: Floats, way: Discs) -> Discs:
    """mass e^-way + inside (1 - e^-way); as a function of `way` it changes by |mass - inside| e^-way."""
    with np.errstate(over="ignore", invalid="ignore"):
        fade, gain = np.exp(-way.mid), -np.expm1(-way.mid)
        mid = mass.mid * fade + inside * gain
        spread = fade * (np.abs(mass.mid - inside) * np.expm1(way.rad) + mass.rad * np.exp(way.rad))
        rough = 16.0 * UNIT * (np.abs(mass.mid) * fade + inside * np.abs(gain))
    return Discs(mid, spread * (1.0 + 64.0 * UNIT) + rough + 1e-290)


class SegmentSums(NamedTuple):
    """Masses of what lies between two ends: from end a to a + k as seen from a, and from b - k to b as seen from b."""

    ahead: Discs
    behind: Discs


def sums_of(ends: Ends, reach: int, rate: Discs) -> SegmentSums:
    """With the weight e^{-rate s} at s scales; points of a grid count at both ends, spans where they are whole."""
    count = ends.places.size
    start, step = np.arange(count)[:, None], np.arange(reach + 1)[None, :]
    up, down_ = np.minimum(start + step, count - 1), np.maximum(start - step, 0)
    scale = exactly(ends.scale)
    ahead = (difference(ends.places[start], ends.places[up]) / scale * rate).exp()
    behind = (difference(ends.places[down_], ends.places[start]) / scale * rate).exp()
    if ends.points:
        return SegmentSums(ahead.summed(), behind.summed())
    whole = _integral(ends.widths, rate)
    nothing = Discs(np.zeros((count, 1)), np.zeros((count, 1)))
    segments = len(ends.inside) - 1
    after, before = np.minimum(up[:, :-1], segments), np.maximum(down_[:, 1:], 0)
    ahead = (whole * ends.inside).at(after) * ahead.at((slice(None), slice(None, -1)))
    behind = (whole * ends.inside).at(before) * behind.at((slice(None), slice(None, -1)))
    return SegmentSums(*(side_by_side([nothing, each], axis=1).summed() for each in (ahead, behind)))


def _integral(way: Discs, rate: Discs) -> Discs:
    """The integral of e^{-rate s} from 0 to `way`."""
    return -((-(way * rate)).expm1() / rate)


def _fade(way: Discs, rate: Discs) -> Discs:
    return (-(way * rate)).exp()


def rate_of(order: float) -> Discs:
    """How fast the weight of an outcome between the two answers falls in the Renyi divergence: 2 order - 1."""
    return exactly(2.0 * order) - 1.0


def loss(ends: Ends, windows: LaplaceWindows, sigma: Discs) -> Discs:
    """d + log Z(q)/Z(p), seen left of p."""
    seen = _seen(ends, windows, sigma)
    return _column(windows.d) + (seen.of_q / seen.of_p).log()


def renyi(ends: Ends, sums: SegmentSums, order: float, windows: LaplaceWindows, sigma: Discs) -> Discs:
    """d + log([L + M + R e^{-r d}]/Z(p))/(order - 1) + log Z(q)/Z(p), r = 2 order - 1.

    M is the mass between the two with the weight e^{-r s} at the distance s from p.
    """
    rate, seen = rate_of(order), _seen(ends, windows, sigma)
    d, first, second = _column(windows.d), windows.first[:, None], windows.second[:, None]
    total = seen.left + seen.right * _fade(d, rate)
    apart = second > first
    between = sums.ahead.at((first + 1, np.maximum(second - first - 1, 0)))
    further = _fade(seen.rest, rate) * between
    if not ends.points:
        own = _integral(seen.rest, rate) * ends.inside[first]
        other = _fade(d - seen.tau, rate) * _integral(seen.tau, rate) * ends.inside[second]
        same = _integral(d, rate) * ends.inside[first]
        total = total + where(apart, own + further + other, same)
    else:
        total = total + where(apart, further, exactly(np.zeros((1, 1))))
    moment = (total / seen.of_p).log() / (exactly(order) - 1.0)
    return d + moment + (seen.of_q / seen.of_p).log()


def _threshold(seen: _Seen, d: Discs, epsilon: float) -> Discs:
    """y = (t - p)/b, where the density of P falls below e^epsilon times that of Q."""
    return (d - epsilon + (seen.of_q / seen.of_p).log()) * 0.5


def event(
    ends: Ends, sums: SegmentSums, epsilon: float, windows: LaplaceWindows, segment: Indices, sigma: Discs
) -> Discs:
    """delta where the threshold lies in `segment`: of a gap the event of all that is left of it, whatever t is.

    In a span it is the one up to t as if all between t and the span belonged to it: never less than delta.
    """
    seen, d = _seen(ends, windows, sigma), _column(windows.d)
    first, at = windows.first[:, None], segment[:, None]
    y = _threshold(seen, d, epsilon)
    odds = y * -2.0
    total = -(seen.left * odds.expm1())
    away = at > first
    start = np.minimum(first + 1, at)  # where nothing lies between, any place will do
    steps = at - start
    lag = difference(ends.places[at], ends.places[start]) / ends.scale + seen.rest
    further = (-seen.rest).exp() * sums.ahead.at((start, steps))
    further = further - (odds + lag).exp() * sums.behind.at((at, steps))
    if ends.points:
        added = where(away, further, exactly(np.zeros((1, 1))))
        return (total + added) / seen.of_p
    own = (-seen.rest).expm1() * (seen.rest + odds).expm1() * ends.inside[first]
    gap = (-(y - lag)).expm1()
    part = (-lag).exp() * (gap * gap) * ends.inside[at]
    same = (-y).expm1()
    same = same * same * ends.inside[first]
    return (total + where(away, own + further + part, same)) / seen.of_p


class Events(NamedTuple):
    """Rows (window, segment) that together hold the best event of every position of their windows."""

    rows: Indices
    segments: Indices
    sure: Bools  # of each window: on a grid, whether it has its rows; on a union, whether its row seems to be attained
    never: Bools  # of each window: whether delta is 0 there


def events_of(ends: Ends, epsilon: float, windows: LaplaceWindows) -> Events:
    """The threshold rises with the position, so on a window it stays between the two at its ends.

    On a grid each segment in between is a row; on a union one of them, a span unless it is the only one.
    """
    low, high = windows.low, windows.high
    offsets = np.stack([low] if low is high else [low, 0.5 * low + 0.5 * high, high], axis=1)
    centre = offsets.shape[1] // 2
    sigma = exactly(offsets) / ends.scale
    y = _threshold(_seen(ends, windows, sigma), _column(windows.d), epsilon)
    at = sigma + y
    base = ends.places[windows.first][:, None]
    with np.errstate(invalid="ignore", over="ignore"):
        place = base + ends.scale * at.mid
        margin = ends.scale * at.rad + 8.0 * UNIT * (np.abs(base) + np.abs(place))
        known: Bools = np.asarray(np.isfinite(place + margin).all(axis=1))
        found = np.stack([(place - margin)[:, 0], place[:, centre], (place + margin)[:, -1]], axis=1)
    found = np.where(known[:, None], found, np.stack([base[:, 0]] * 3, axis=1))
    segments = np.searchsorted(ends.places, found, side="right") - 1
    segments = np.clip(segments, windows.first[:, None], windows.second[:, None])
    lowest, middle, highest = segments.T
    lowest, highest = np.where(known, lowest, windows.first), np.where(known, highest, windows.second)
    single = lowest == highest
    never: Bools = known & np.less((at.mid + at.rad)[:, -1], (sigma.mid - sigma.rad)[:, 0])
    if not ends.points:
        near = np.where(ends.inside[middle] > 0.0, middle, np.where(middle > lowest, middle - 1, middle + 1))
        sure = single & (y.mid >= 0.0).all(axis=1)  # left of p no threshold is attained
        return Events(np.arange(single.size), np.where(single, lowest, near), sure, never)
    few = highest - lowest < _MOST_EVENTS
    counts = np.where(few, highest - lowest + 1, 0)
    rows = np.repeat(np.arange(counts.size), counts)
    order = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return Events(rows, lowest[rows] + order, few, never)
