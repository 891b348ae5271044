"""Gaussian noise truncated to spans or points, in floats with error bounds, for many locations at once.

Only differences are ever formed of coordinates, weights are relative to that of the nearest point of the support, and a
location is a position and an offset from it, so that pairs keep their exact distance.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from rangebound.laws.boundings import Shape
from rangebound.privacy.pairs.truncated_grid import spacing
from rangebound.privacy.windows.chebyshev import UNIT
from rangebound.values.array_types import Bools, Floats, Indices, legendre, np

_LIBRARY = 2.0**-48  # relative error of exp, log and erfcx that is allowed for: four times the largest ever seen
_ROOT = math.sqrt(2.0 * math.pi)
_FAR = 1e5  # scales from the support: farther out moments are not known well enough
FADED = 13.0  # scales: what lies so much farther than the nearest point of the support has e^-84 of its weight
_LOST = 1e6  # scales from the support: farther out the weights of its points are not known to one part in a hundred
_KNOWN = 0.01  # a norm that is not known to this is not known at all
_NARROW = 0.5  # a span as narrow as this is integrated by a Gauss rule of five points
_BLOCK = 1 << 18  # numbers in an array
_LONG, _REGULAR = 64, 1e-9  # points of a grid that is worth folding, and how far rounding may move its weights


class WindowPlace(NamedTuple):
    """Locations p + offset, the point of the support that is nearest to each, and whether that is the location."""

    p: Floats
    offset: Floats
    nearest: Floats
    inside: Bools

    def some(self, rows: Indices | slice) -> WindowPlace:
        return WindowPlace._make(each[rows] for each in self)


class Seen(NamedTuple):
    """The masses of the pieces of the support near a location, relative to the density at the nearest point.

    Piece number k of the support is column k - first. Sums are over all columns before a number.
    """

    place: WindowPlace
    first: Indices
    masses: Floats
    sums: Floats
    errors: Floats
    total: Floats
    error: Floats
    unseen: float  # a bound on the mass that was left out

    def below(self, rows: Indices | slice, piece: Indices) -> tuple[Floats, Floats]:
        """Of some rows the probability of all pieces before number `piece`, and its error."""
        column = np.clip(piece - self.first[rows], 0, self.masses.shape[1])
        rows = np.arange(self.first.size) if isinstance(rows, slice) else rows
        mass = self.sums[rows, column]
        error = self.errors[rows, column] + self.masses.shape[1] * UNIT * mass + self.unseen
        return self.share(rows, mass, error)

    def share(self, rows: Indices | slice, mass: Floats, error: Floats) -> tuple[Floats, Floats]:
        """mass / total and its error."""
        total, off = self.total[rows], self.error[rows]
        share = mass / total
        with np.errstate(invalid="ignore", divide="ignore"):
            return share, np.where(
                off < 0.5 * total, (error + np.abs(share) * off) / (total - off) + 8.0 * UNIT * np.abs(share), np.inf
            )


class Laws:
    """The laws of Gaussian noise of one scale on a support."""

    def __init__(self, scale: float, shape: Shape, faded: float = FADED) -> None:
        self.scale, self.shape, self._faded = scale, shape, faded
        self._unseen = 4.0 * math.exp(-0.5 * faded**2) * max(len(shape.points), 1)
        self.pointed = bool(shape.points)
        pieces = [(x, x) for x in shape.points] if self.pointed else shape.spans
        self.lows, self.highs = np.asarray(pieces, dtype=np.float64).T
        self.edges = np.asarray(pieces, dtype=np.float64).reshape(-1)
        self.step, self._wobble = math.nan, 0.0
        if len(shape.points) > _LONG:
            step, off = spacing(shape.points)
            wobble = 2.0 * float(off * step) * (faded * scale + float(step)) / scale**2 * (1.0 + 1e-9)
            if wobble < _REGULAR:
                self.step, self._wobble = float(step), wobble

    def attentive(self, share: float) -> Laws:
        """The same laws, leaving out nothing that is more than a share of their mass."""
        faded = math.sqrt(2.0 * math.log(4.0 / share))
        return self if faded <= self._faded else Laws(self.scale, self.shape, faded)

    def middle(self) -> tuple[float, float] | None:
        """On a long regular grid: locations that see no end of it, so that one step of them stands for all.

        The points are off their places on a lattice by their rounding, which every weight here allows for.
        """
        margin = (self._faded + 1.0) * self.scale + 4.0 * self.step
        low, high = float(self.edges[0]) + margin, float(self.edges[-1]) - margin
        return (low, high) if low < high else None  # never for an irregular one, whose step is unknown

    def at(self, p: Floats, offset: Floats) -> WindowPlace:
        """Locations; a point of a grid never counts as one that is inside the support."""
        location = p + offset
        after = np.clip(np.searchsorted(self.lows, location, side="right"), 1, None) - 1
        low, high = self.lows[after], self.highs[after]
        below, above = np.where(location < low, low, high), self.lows[np.minimum(after + 1, self.lows.size - 1)]
        closer = np.abs(above - location) < np.abs(location - below)
        if self.pointed:
            return WindowPlace(p, offset, np.where(closer, above, below), np.zeros(p.shape, dtype=bool))
        inside = (low <= location) & (location <= high)
        return WindowPlace(p, offset, np.where(inside, location, np.where(closer, above, below)), inside)

    def far(self, p: Floats, offset: Floats) -> Bools:
        """Whether a location is too far from the support to be told well."""
        place = self.at(p, offset)
        return np.abs((place.nearest - p) - offset) > _FAR * self.scale

    def blocks(self, p: Floats, offset: Floats) -> list[slice]:
        """Slices of an array of locations that make arrays of a fair size."""
        first, last = self._reach(self.at(p, offset))
        widest = max(1, int((last - first).max(initial=1)))
        size = max(64, _BLOCK // widest)
        return [slice(i, i + size) for i in range(0, p.size, size)]

    def _reach(self, place: WindowPlace) -> tuple[Indices, Indices]:
        """The first piece of the support that matters to each location, and the one after the last."""
        location = place.p + place.offset
        reach = np.abs(place.nearest - location) + self._faded * self.scale
        first = np.searchsorted(self.highs, location - reach)
        return first, np.searchsorted(self.lows, location + reach, side="right")

    def see(self, p: Floats, offset: Floats) -> Seen:
        """The masses about p + offset."""
        place = self.at(p, offset)
        first, columns, present = self._columns(place)
        if self.pointed:
            masses, errors = self.weights(self.lows[columns], place)
        else:
            masses, errors = self.between(self.lows[columns], self.highs[columns], place)
        masses, errors = np.where(present, masses, 0.0), np.where(present, errors, 0.0)
        sums, errors = (_sums(each) for each in (masses, errors))
        total = sums[:, -1]
        error = errors[:, -1] + masses.shape[1] * UNIT * total + self._unseen
        return Seen(place, first, masses, sums, errors, total, error, self._unseen)

    def _columns(self, place: WindowPlace) -> tuple[Indices, Indices, Bools]:
        first, last = self._reach(place)
        columns = first[:, None] + np.arange(max(1, int((last - first).max(initial=1))))
        return first, np.minimum(columns, self.lows.size - 1), columns < last[:, None]

    def weights(self, x: Floats, place: WindowPlace) -> tuple[Floats, Floats]:
        """The density at x relative to that at the nearest point of the support, and its error."""
        _, exponent, error = self._exponent(x, place)
        weight = np.exp(-exponent)
        return weight, weight * (_LIBRARY + self._wobble + error)

    def _exponent(self, x: Floats, place: WindowPlace) -> tuple[Floats, Floats, Floats]:
        """x as seen from the location, (x - n)(x + n - 2 location)/(2 s^2) for the nearest point n, and its error.

        The error is that of the exponential, relative (at most 1.75 times that of the exponent, if this is at most 1):
        infinite, with an exponent of 0, where nothing is known.
        """
        p, offset, nearest, inside = (each[(...,) + (None,) * (x.ndim - each.ndim)] for each in place)
        y = (x - p) - offset
        own = np.where(inside, 0.0, (nearest - p) - offset)
        rate = 1.0 / (2.0 * self.scale**2)
        with np.errstate(invalid="ignore"):
            away = np.where(inside, y, x - nearest)
            exponent = away * (y + own) * rate
            error = (14.0 * UNIT * rate) * np.abs(away) * (np.abs(y) + (np.abs(own) + 2.0 * np.abs(offset)))
        large = ~(error <= 1.0)
        if large.any():  # far out, where a weight is nothing in floats; or nothing is known of the difference
            lost = large & ~np.isinf(y) & ~(exponent > 2.0 * error + 1e3)
            error = np.where(lost, np.inf, np.where(large, 1.0, error))
            exponent = np.where(lost, 0.0, exponent)
        return y, exponent, error

    def between(self, low: Floats, high: Floats, place: WindowPlace) -> tuple[Floats, Floats]:
        """The mass from low to high in units of the scale, relative to the density at the nearest point."""
        from scipy.special import erfcx

        (start, below, off), (end, above, more) = (self._exponent(x, place) for x in (low, high))
        width, farthest = np.abs(high - low), np.maximum(np.abs(start), np.abs(end))
        beside = (...,) + (None,) * (low.ndim - place.p.ndim)
        offset, inside = place.offset[beside], place.inside[beside]
        narrow = width * (farthest + 3.2 * self.scale) <= _NARROW * self.scale**2
        masses, error = np.empty_like(start), np.empty_like(start)
        if narrow.any():  # a Gauss rule, which for so narrow ones is off by less than 1e-15
            with np.errstate(invalid="ignore"):
                rate, step = 1.0 / (2.0 * self.scale**2), high - low
                places, shares = (0.5 + 0.5 * legendre(5)[0], 0.5 * legendre(5)[1])
                parts = (x * step * (2.0 * start + x * step) for x in places)
                fine = sum(w * np.exp(-below - rate * each) for w, each in zip(shares, parts, strict=True))
                wrong = off + 32.0 * UNIT * rate * width * (farthest + np.abs(offset)) + _LIBRARY + 2e-15
                masses, error = step / self.scale * fine, width / self.scale * fine * wrong
        if narrow.all():
            return masses, error
        tails, errors = [], []
        for y, exponent, rough in ((start, below, off), (end, above, more)):
            z = np.abs(y) / self.scale
            tail = np.where(np.isinf(y), 0.0, np.exp(-exponent) * (0.5 * _ROOT) * erfcx(z / math.sqrt(2.0)))
            errors.append(tail * (2.0 * _LIBRARY + rough + 4.0 * UNIT * np.minimum(z, 1.0)))
            errors[-1] += tail * (4.0 * UNIT / self.scale) * np.abs(offset)
            tails.append(tail)
        within = inside & (start <= 0.0) & (end >= 0.0)
        rest = np.where(start >= -end, tails[0] - tails[1], tails[1] - tails[0])
        rest = np.where(within, _ROOT - tails[0] - tails[1], rest)
        wrong = errors[0] + errors[1] + np.where(within, _LIBRARY * _ROOT, 0.0)
        # Out of a gap, or to a threshold left of its span, only what rounding does may lead over the location.
        over = np.where(within | (np.sign(start) * np.sign(end) >= 0.0), 0.0, np.minimum(np.abs(start), np.abs(end)))
        wrong = wrong + np.where(over <= 1e-9 * self.scale, 4.0 / self.scale * over, np.inf)
        return np.where(narrow, masses, rest), np.where(narrow, error, wrong)

    def natural(self, seen: Seen, centre: Floats) -> tuple[Floats, Floats]:
        """The logarithm A of the norm, for the natural parameter (location - centre)/s^2, and its error."""
        p, offset, nearest, inside = seen.place
        u = (p - centre) + offset
        x = np.where(inside, u, nearest - centre)
        square, log = self.scale**2, np.log(seen.total)
        size = np.abs(x) * (np.abs(u) + np.abs(x) + np.abs(offset)) / square + np.abs(log) + 1.0
        off = 1.01 * seen.error / seen.total + 8.0 * UNIT * size + _LIBRARY * np.abs(log)
        known = seen.error <= _KNOWN * seen.total
        return np.where(known, x * (u - 0.5 * x) / square + log, 0.0), np.where(known, off, np.inf)

    def mean(self, seen: Seen) -> Floats:
        """The mean of x, roughly: to 1e-6 scales and the rounding of a coordinate, or the width of the support."""
        _, columns, present = self._columns(seen.place)
        if self.pointed:
            found: Floats = (seen.masses * self.lows[columns]).sum(axis=1) / seen.total
        else:
            low, high = (self.weights(x[columns], seen.place)[0] for x in (self.lows, self.highs))
            pull: Floats = np.where(present, low - high, 0.0).sum(axis=1) * self.scale
            found = seen.place.p + seen.place.offset + pull / seen.total
        clipped: Floats = np.clip(found, self.edges[0], self.edges[-1])
        return clipped

    def variance(self, start: Floats, end: Floats, offset: Floats) -> Floats:
        """A bound on the variance of x for all locations in [start, end] + offset.

        On an interval it is at most s^2. Else: the mean of (x - c)^2 above c rises with the location, that below falls.
        """
        alone = not self.pointed and self.lows.size == 1
        if alone and self.at(start, offset).inside.all() and self.at(end, offset).inside.all():
            return np.full(start.shape, self.scale**2)
        centre = self.mean(self.see(0.5 * start + 0.5 * end, offset))
        found = self._half(self.see(end, offset), centre, 1) + self._half(self.see(start, offset), centre, -1)
        found = np.where(np.isnan(found), np.inf, found)
        return np.minimum(found, self.scale**2) if alone else found

    def _half(self, seen: Seen, centre: Floats, sign: int) -> Floats:
        """A bound on the mean of (x - centre)^2 on one side of the centre."""
        place = seen.place
        _, columns, present = self._columns(place)
        c, s = centre[:, None], self.scale
        # Squares of what is not seen: far out the weight falls faster than the square of the distance rises.
        own = np.abs((place.nearest - place.p) - place.offset)
        hidden = own + (self._faded + 1.0) * s + np.abs(centre - place.nearest)
        known = (seen.error <= _KNOWN * seen.total) & (own + np.abs(place.offset) < _LOST * s)
        rest = np.where(known, 4.0 * self._unseen * hidden * hidden, np.inf)
        if self.pointed:
            apart = np.maximum(sign * (self.lows[columns] - c), 0.0)
            squares: Floats = (seen.masses * apart * apart).sum(axis=1)
            return (squares + rest) / seen.total * (1.0 + 2.0 * _KNOWN)
        clip = np.maximum if sign > 0 else np.minimum
        low, high = (clip(x[columns], c) for x in (self.lows, self.highs))
        mass = self.between(low, high, place)[0]
        away = ((place.p - centre) + place.offset)[:, None]
        total, size = mass * (s * s + away * away), mass * (s * s + away * away)
        for x, way in ((low, 1.0), (high, -1.0)):  # by parts: the integral of (x - c)^2 e^{-(x - location)^2/(2 s^2)}
            finite = np.where(np.isinf(x), 0.0, x)
            weight = np.where(np.isinf(x), 0.0, self.weights(finite, place)[0])
            part = s * ((finite - c) + away) * weight
            total, size = total + way * part, size + np.abs(part)
        farthest = np.maximum(np.abs(low - c), np.abs(high - c))
        with np.errstate(invalid="ignore", over="ignore"):
            found = np.minimum(np.maximum(total, 0.0) + 1e-12 * size, mass * farthest * farthest)
        squares = np.where(present & (mass > 0.0), found, 0.0).sum(axis=1)
        return (squares + rest) / seen.total * (1.0 + 2.0 * _KNOWN)

    def loss(self, near: Seen, far: Seen) -> tuple[Floats, Floats]:
        """The log-ratio of a pair at the lower end of the support, where it is the largest, and its error."""
        centre, d = near.place.nearest, far.place.offset
        (first, off), (second, more) = (self.natural(seen, centre) for seen in (near, far))
        shift = (self.edges[0] - centre) * d / self.scale**2
        return second - first - shift, off + more + 8.0 * UNIT * (np.abs(first) + np.abs(second) + np.abs(shift))


def _sums(columns: Floats) -> Floats:
    """Of each row the sums of all columns before each number."""
    found = np.zeros((columns.shape[0], columns.shape[1] + 1))
    np.cumsum(columns, axis=1, out=found[:, 1:])
    return found
