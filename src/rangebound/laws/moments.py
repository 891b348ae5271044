"""Mean, variance and mean absolute and squared deviation of a law.

Two routes. `_formula` works in ball arithmetic from closed forms, so nothing is lost to cancellation, one true
answer at a time. `_quadrature` is a Gauss-Legendre sum over panels that follow the decay of the noise, for arrays of
true answers at once. Scalars take the first, arrays the second, and a test compares them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from rangebound.laws.boundings import Shape
from rangebound.laws.family import Noise
from rangebound.values.array_types import Floats, legendre, np
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
