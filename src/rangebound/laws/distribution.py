"""The distribution of one published number, pieces of density and atoms, for one true answer or many; its moments.

There are two routes to moments. `_formula` works in ball arithmetic from closed forms, so nothing is lost to
cancellation, one true answer at a time. `_quadrature` is a Gauss-Legendre sum over panels that follow the decay of the
noise, for arrays of true answers at once. Scalars take the first, arrays the second, and a test compares them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from rangebound.laws.atomic_law import interval_ends, places, probabilities
from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.values import arguments
from rangebound.values.array_types import Floats, legendre, np, npt
from rangebound.values.ball import PRECISIONS, Ball, ball, precision
from rangebound.values.numeric import log_sum

_PANELS = (0.0, 0.5, 1.0, 2.0, 4.0, 7.0, 11.0, 16.0, 23.0, 32.0, 45.0)
_CHUNK = 4096


class Moments(NamedTuple):
    """The moments of a law: `mean` and `variance` of the output, and its distance from the location."""

    mean: Floats
    variance: Floats
    bias: Floats
    mae: Floats
    mse: Floats


def moments(noise: Noise, shape: Shape, location: Floats) -> Moments:
    """Every moment of the law(s) at `location`, with the shape of `location`.

    Guarantee: a scalar is good to full double precision; an array to about 1e-12 of the law's own spread.
    """
    if location.ndim == 0:
        return Moments(*(np.asarray(value) for value in _formula(noise, shape, float(location))))
    flat = location.reshape(-1)
    if not flat.size:
        return Moments(*(np.zeros(location.shape) for _ in Moments._fields))
    parts = [_quadrature(noise, shape, flat[i : i + _CHUNK]) for i in range(0, len(flat), _CHUNK)]
    joined = parts[0] if len(parts) == 1 else Moments(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    return Moments(*(each.reshape(location.shape) for each in joined))


def _formula(noise: Noise, shape: Shape, location: float) -> tuple[float, ...]:
    for bits in PRECISIONS:
        with precision(bits):
            values = _in_balls(noise, shape, location)
            if all(v.rel_accuracy_bits() >= 56 or v.is_zero() for v in values):
                break
    return tuple(float(v.mid()) for v in values)


def _in_balls(noise: Noise, shape: Shape, location: float) -> tuple[Ball, ...]:
    """Moments about the location, from partial moments of the noise over each side of each span."""
    q, zero = ball(location), ball(0.0)
    family = noise.in_balls()
    total, first, absolute, second = zero, zero, zero, zero
    for lower, upper in shape.spans:
        for sign in (1, -1):
            a, b = (lower, upper) if sign > 0 else (-upper, -lower)
            start = zero if math.isinf(a) or a <= sign * location else ball(a) - sign * q
            end = None if b == math.inf else ball(b) - sign * q
            if end is not None and end <= start:
                continue
            m0, m1, m2 = family.partial_moments(start, end)
            total, absolute, second = total + m0, absolute + m1, second + m2
            first = first + sign * m1
    for i, point in enumerate(shape.points):
        offset = ball(point) - q
        if shape.cells:
            low, high = shape.cells[i]
            weight = family.mass(
                None if math.isinf(low) else ball(low) - q, None if math.isinf(high) else ball(high) - q
            )
        else:
            weight = family.pdf(offset)
        total, first = total + weight, first + weight * offset
        absolute, second = absolute + weight * abs(offset), second + weight * offset * offset
    bias, mae, mse = first / total, absolute / total, second / total
    return q + bias, mse - bias * bias, bias, mae, mse


def _quadrature(noise: Noise, shape: Shape, location: Floats) -> Moments:
    """The same integrals by Gauss-Legendre sums, weights kept in logarithms until the end."""
    logs: list[Floats] = []
    places: list[Floats] = []  # what is published there
    offsets: list[Floats] = []  # its distance from the true answer
    for lower, upper in shape.spans:
        for sign in (1.0, -1.0):
            a, b = (lower, upper) if sign > 0 else (-upper, -lower)
            start = np.maximum(a - sign * location, 0.0)
            length = np.minimum(b - sign * location, np.inf) - start
            if not np.isinf(a) and not np.isinf(b):
                length = np.where(a - sign * location > 0.0, b - a, length)
            length = np.minimum(length, noise.extent - start)
            decay = noise.decay(start)
            edges = np.minimum(_PANELS, np.maximum(length / decay, 0.0)[:, None])
            half = 0.5 * np.diff(edges, axis=-1)
            middle = 0.5 * (edges[:, 1:] + edges[:, :-1])
            used = (half > 0.0).any(axis=0)  # of a span that is short or on the other side, few panels or none
            half, middle = half[:, used], middle[:, used]
            h = (middle[..., None] + half[..., None] * legendre(24)[0]).reshape(len(location), -1) * np.reshape(
                decay, (-1, 1)
            )
            width = (half[..., None] * legendre(24)[1]).reshape(len(location), -1) * np.reshape(decay, (-1, 1))
            y = start[:, None] + h
            with np.errstate(divide="ignore"):
                logs.append(np.log(width) + noise.log_pdf(y))
            offsets.append(sign * y)
            # From the end of the span, where that is nearer: far outside, the location has no digits left for it.
            base = np.where(start > 0.0, sign * a if np.isfinite(a) else 0.0, location)
            places.append(base[:, None] + sign * h)
    if shape.points:
        points, at = np.asarray(shape.points), location[:, None]
        if shape.cells:
            cells = np.asarray(shape.cells)
            logs.append(noise.log_mass(cells[:, 0], cells[:, 1], at))
        else:
            logs.append(noise.log_pdf(points - at))
        offsets.append(points - at)
        places.append(np.broadcast_to(points, (len(location), len(points))))
    log_weights, offset = np.concatenate(logs, axis=-1), np.concatenate(offsets, axis=-1)
    weights = np.exp(log_weights - log_sum(log_weights)[:, None])
    bias = np.sum(weights * offset, axis=-1)
    mae = np.sum(weights * np.abs(offset), axis=-1)
    mse = np.sum(weights * offset * offset, axis=-1)
    place = np.concatenate(places, axis=-1)
    mean = np.sum(weights * place, axis=-1)
    variance = np.sum(weights * (place - mean[:, None]) ** 2, axis=-1)
    return Moments(mean, variance, bias, mae, mse)


@arguments.brief
@dataclass(frozen=True, eq=False)
class Law:
    """The distribution of a published number at one true answer, or at an array of them.

    Every method broadcasts its argument against the array of true answers. Atoms count in full in `cdf`, `sf`
    and `mass`, all of which are about closed sets: cdf(x) + sf(x) exceeds 1 by the atom at x.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> law = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query, bounding=rb.RECTIFY).law(0.0)
    >>> law.atoms[0].tolist(), round(float(law.atoms[1][0]), 3)
    ([0.0, 10.0], 0.5)
    """

    noise: Noise
    shape: Shape
    location: Floats = field(repr=False)  # the true answer: no message or log shows it

    def __post_init__(self) -> None:
        arguments.instance("noise", self.noise, Noise, "noise with its scale, such as rb.Laplace(scale=2.0)")
        arguments.instance("shape", self.shape, Shape, "a Shape")
        location = arguments.hidden("location", self.location)
        location.flags.writeable = False
        object.__setattr__(self, "location", location)

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        return _columns(self.shape.spans)

    @cached_property
    def _log_parts(self) -> tuple[Floats, Floats]:
        """Unnormalised log masses of the spans and of the atoms, on a last axis."""
        at = self.location[..., None]
        lowers, uppers = self._ends
        spans = self.noise.log_mass(lowers, uppers, at) if self.shape.spans else np.empty((*self.location.shape, 0))
        if not self.shape.points:
            return spans, np.empty((*self.location.shape, 0))
        if self.shape.cells:
            return spans, self.noise.log_mass(*_columns(self.shape.cells), at)
        return spans, self.noise.log_pdf(np.asarray(self.shape.points) - at)

    @cached_property
    def log_norm(self) -> Floats:
        """log of the normaliser of a truncation; 0 for a map of the noise."""
        if not self.shape.normalised:
            return np.zeros_like(self.location)
        total: Floats = log_sum(np.concatenate(self._log_parts, axis=-1))
        return total

    @property
    def atoms(self) -> tuple[Floats, Floats]:
        """The points with positive probability and their probabilities (on the last axis)."""
        weights = np.exp(self._log_parts[1] - self.log_norm[..., None])
        return np.asarray(self.shape.points), weights

    def log_pdf(self, x: npt.ArrayLike) -> Floats:
        """log of the density at `x`; -inf outside the spans, also at an atom."""
        at, _ = arguments.together(places("x", x), self.location)
        lowers, uppers = self._ends
        inside = ((at[..., None] >= lowers) & (at[..., None] <= uppers)).any(axis=-1)
        with np.errstate(invalid="ignore", over="ignore"):
            values = self.noise.log_pdf(at - self.location) - self.log_norm
        return np.where(inside & np.isfinite(at), values, -np.inf)

    def pdf(self, x: npt.ArrayLike) -> Floats:
        """Density at `x`; an atom has none."""
        return np.exp(self.log_pdf(x))

    def cdf(self, x: npt.ArrayLike) -> Floats:
        """Probability of a number at most `x`."""
        return self.mass(-np.inf, places("x", x))

    def sf(self, x: npt.ArrayLike) -> Floats:
        """Probability of a number at least `x`."""
        return self.mass(places("x", x), np.inf)

    def mass(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> Floats:
        """Probability of the closed interval [lower, upper], atoms at its ends included."""
        low, high, at = arguments.together(*interval_ends(lower, upper), self.location)
        parts = []
        if self.shape.spans:
            lowers, uppers = self._ends
            start = np.clip(low[..., None], lowers, uppers)
            end = np.clip(high[..., None], lowers, uppers)
            empty = start == end
            start, end = np.where(empty, 0.0, start), np.where(empty, 0.0, end)
            with np.errstate(over="ignore"):
                parts.append(np.where(empty, -np.inf, self.noise.log_mass(start, end, at[..., None])))
        if self.shape.points:
            points = np.asarray(self.shape.points)
            inside = (points >= low[..., None]) & (points <= high[..., None])
            parts.append(np.where(inside, self._log_parts[1], -np.inf))
        logs = log_sum(np.concatenate(np.broadcast_arrays(*parts) if len(parts) < 2 else parts, axis=-1))
        result: Floats = np.minimum(np.exp(logs - self.log_norm), 1.0)
        return result

    def quantile(self, probability: npt.ArrayLike) -> Floats:
        """The smallest x whose cdf is at least `probability`: the law's own ends at 0 and 1.

        Edge cases: a probability outside [0, 1] is refused; inside a gap the end of the span before it is returned.
        """
        chance, at, norm = arguments.together(probabilities(probability), self.location, self.log_norm)
        result = np.where(chance <= 0.5, self._from_left(chance, at, norm), np.nan)
        mirror = Law(self.noise, self.shape.mirrored(), -self.location)
        # 1 - chance is exact for chance in [0.5, 1]
        upper: Floats = -mirror._from_left(1.0 - chance, -at, norm)
        return np.where(chance <= 0.5, result, upper) + 0.0

    def _from_left(self, chance: Floats, at: Floats, norm: Floats) -> Floats:
        """Walk the spans and atoms from the left until `chance` is used up."""
        steps: list[tuple[float, float, Floats]] = []
        spans, atoms = self._log_parts
        for i, (a, b) in enumerate(self.shape.spans):
            steps.append((a, b, spans[..., i]))
        for i, x in enumerate(self.shape.points):
            steps.append((x, x, atoms[..., i]))
        steps.sort(key=lambda step: (step[0], step[1]))
        result = np.full(chance.shape, np.nan)
        used = np.zeros(chance.shape)
        for k, (a, b, logs) in enumerate(steps):
            mass = np.exp(logs - norm)
            rest = np.maximum(chance - used, 0.0)
            last = k == len(steps) - 1
            here = np.isnan(result) & (last | (rest <= mass))
            if a == b:
                found: Floats = np.full(chance.shape, a)
            else:
                with np.errstate(divide="ignore"):
                    left = np.log(rest) + norm
                with np.errstate(over="ignore"):
                    reached = self.noise.reach(np.asarray(a), np.minimum(left, logs), at)
                found = np.where(left >= logs, b, np.clip(reached, a, b))
                found = np.where(np.isneginf(left), a, found)
            result = np.where(here, found, result)
            used = used + mass
        return result

    @property
    def mean(self) -> Floats:
        """Expectation of the published number."""
        return moments(self.noise, self.shape, self.location)[0]

    @property
    def variance(self) -> Floats:
        """Variance of the published number."""
        return moments(self.noise, self.shape, self.location)[1]


def _columns(pairs: tuple[tuple[float, float], ...]) -> tuple[Floats, Floats]:
    array = np.asarray(pairs, dtype=np.float64).reshape(-1, 2)
    return array[:, 0], array[:, 1]
