"""What one pair of true answers leaks, in ball arithmetic.

A pair is a position `p` and a distance `d > 0`: P is the law at p, Q the law at p + d, so that P/Q falls with x
(the monotone likelihood ratio). Only this direction is written down; the other one is the same question
about the mirrored mechanism. Positions may be balls, or Taylor series where derivatives are wanted. The threshold of
the best attack moves with the position, in closed form.

Three forms cover every mechanism: `Truncated` (truncation to spans) and `TruncatedGrid` (truncation to points), both
with a special case for Laplace and for Gaussian noise, and `Mapped` (a nondecreasing map of the noisy value: clamp,
round, nothing).

Single laws and small batches are compared in ball arithmetic and rounded up. Large batches are compared by the same
theorems over arrays (`stick_formula`, `renyi_formula`; NumPy or PyTorch): about 1e-10 relative, less where two laws
that nearly agree make the terms cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from flint import ctx

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import Shape
from rangebound.laws.distribution import Law
from rangebound.laws.family import Curve, Noise
from rangebound.privacy.pairs.mapped import Mapped
from rangebound.privacy.pairs.truncated import Truncated, TruncatedGaussian
from rangebound.privacy.pairs.truncated_grid import TruncatedGaussianGrid, TruncatedGrid, TruncatedLaplaceGrid
from rangebound.privacy.pairs.truncated_laplace import TruncatedLaplace
from rangebound.values import arguments
from rangebound.values.array_types import Floats, np
from rangebound.values.ball import Ball, ball, largest, refine, up
from rangebound.values.numeric import Array, as_in, log_sum, namespace

Pair = Mapped | Truncated | TruncatedGrid


def stick(kind: Pair, p: Ball, d: Ball, epsilon: Ball) -> Ball:
    """Hockey stick of a pair: the best of its threshold events, the empty event and the certain one."""
    return largest(ball(0.0), 1 - epsilon.exp(), *kind.sticks(p, d, epsilon).values())


def pair_of(noise: Noise, shape: Shape, first: float, second: float) -> tuple[Pair, Ball, Ball]:
    """The family, position and distance of two answers, mirrored so that the first lies left of the second.

    A truncated Laplace law does not change beyond the ends of its support.
    """
    if shape.normalised and noise.laplace:
        low, high = shape.ends
        first, second = min(max(first, low), high), min(max(second, low), high)
    if first > second:
        first, second, shape = -first, -second, shape.mirrored()
    return family(noise, shape), ball(first), ball(second) - ball(first)


def pair_loss(noise: Noise, shape: Shape, first: float, second: float) -> Ball:
    """The largest privacy loss of the first answer against the second, at the precision in force."""
    kind, p, d = pair_of(noise, shape, first, second)
    return kind.loss(p, d)


def pair_stick(noise: Noise, shape: Shape, first: float, second: float, epsilon: float) -> Ball:
    """Hockey stick of two answers in this order, at an epsilon of any sign and the precision in force."""
    if epsilon < 0.0:  # the formulas are for thresholds between the two answers: ask the pair in the other order
        return 1 - ball(epsilon).exp() * (1 - pair_stick(noise, shape, second, first, -epsilon))
    return stick(*pair_of(noise, shape, first, second), ball(epsilon))


def family(noise: Noise, shape: Shape) -> Pair:
    """The family that a mechanism belongs to, at the precision in force; the last few are remembered."""
    return _family(noise, shape, ctx.prec)


def mapped(noise: Noise, shape: Shape) -> Mapped:
    """The same for a shape that is a map of the noisy value."""
    found = family(noise, shape)
    assert isinstance(found, Mapped)
    return found


@lru_cache(maxsize=16)
def _family(noise: Noise, shape: Shape, bits: int) -> Pair:
    if not shape.normalised:
        return Mapped(noise, shape)
    return _TRUNCATED[noise.curve, bool(shape.spans)](noise, shape)


# By the curve of the noise, and whether the support is made of spans or of points.
_TRUNCATED: dict[tuple[Curve, bool], type[Truncated] | type[TruncatedGrid]] = {
    (Curve.LINEAR, True): TruncatedLaplace,
    (Curve.LINEAR, False): TruncatedLaplaceGrid,
    (Curve.QUADRATIC, True): TruncatedGaussian,
    (Curve.QUADRATIC, False): TruncatedGaussianGrid,
    (Curve.OTHER, True): Truncated,
    (Curve.OTHER, False): TruncatedGrid,
}


__all__ = [
    "Mapped",
    "Pair",
    "Truncated",
    "TruncatedGaussian",
    "TruncatedGaussianGrid",
    "TruncatedGrid",
    "family",
    "mapped",
    "stick",
]


_A_LAW = "a Law, as m.law(answer) returns for a Mechanism; a table and noise on a lattice have `delta` and `rdp`"
_FEW = 256  # this many pairs are worth their exact numbers


def hockey_stick(p: Law, q: Law, epsilon: float) -> Any:
    """The hockey-stick divergence: sup over all sets A of p(A) - e^epsilon q(A).

    Guarantee: for single laws, and batches of up to 256 pairs, never below the true value and within 2^-50 of it;
    larger batches are in floats, good to about 1e-10.
    Assumes: two laws of one mechanism (same noise, support and bounding).
    Edge cases: 0 for equal laws and epsilon >= 0; 1 for laws with nothing in common; a negative epsilon is allowed.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query)
    >>> 0.0 < rb.hockey_stick(m.law(0.0), m.law(1.0), 0.5) < 1.0
    True
    """
    noise, shape = _shared(p, q)
    level = arguments.finite("epsilon", epsilon)
    if p.location.ndim or q.location.ndim:
        a, b = arguments.together(p.location, q.location)
        if a.size <= _FEW:
            return _one_by_one(lambda x, y: hockey_stick(x, y, level), noise, shape, a, b)
        return stick_formula(noise, shape, a, b, level)
    if pair_of(noise, shape, float(p.location), float(q.location))[2].is_zero():
        return max(0.0, up(1 - ball(level).exp())) if level < 0.0 else 0.0
    return min(up(refine(lambda: pair_stick(noise, shape, float(p.location), float(q.location), level))), 1.0)


def renyi(p: Law, q: Law, alpha: float) -> Any:
    """The Renyi divergence D_alpha(p || q) = log(integral of p^alpha q^(1-alpha)) / (alpha - 1).

    Guarantee: for single laws, and batches of up to 256 pairs, never below the true value and within 2^-50 of it;
    larger batches are in floats, good to about 1e-10.
    Assumes: two laws of one mechanism; alpha above 1.
    Edge cases: alpha = inf is the pure epsilon of p against q; inf where p lives and q does not.

    >>> import rangebound as rb
    >>> m = rb.Mechanism(
    ...     noise=rb.Gaussian(scale=1.0),
    ...     query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0),
    ...     bounding=rb.UNBOUNDED,
    ... )
    >>> rb.renyi(m.law(0.0), m.law(1.0), 2.0)
    1.0
    """
    noise, shape = _shared(p, q)
    order = arguments.order("alpha", alpha)
    if p.location.ndim or q.location.ndim:
        a, b = arguments.together(p.location, q.location)
        if a.size <= _FEW:
            return _one_by_one(lambda x, y: renyi(x, y, order), noise, shape, a, b)
        return renyi_formula(noise, shape, a, b, order)
    if pair_of(noise, shape, float(p.location), float(q.location))[2].is_zero():
        return 0.0
    if math.isinf(order):
        return max(up(refine(lambda: pair_loss(noise, shape, float(p.location), float(q.location)))), 0.0)

    def exactly() -> Ball:
        kind, at, d = pair_of(noise, shape, float(p.location), float(q.location))
        return kind.renyi(at, d, ball(order))

    return max(up(refine(exactly)), 0.0)


def fisher(law: Law) -> Any:
    """Fisher information of the output about the true answer: the variance of the score d/dq log p_q(x).

    Guarantee: rounded up. Infinite where the output shows an edge that moves with the true answer. By Cramer-Rao no
    unbiased guess of the answer has a variance below its inverse.
    """
    values = [
        up(refine(lambda at=at: family(law.noise, law.shape).fisher(ball(at))))  # type: ignore[misc]
        for at in law.location.reshape(-1).tolist()
    ]
    return values[0] if law.location.ndim == 0 else np.asarray(values).reshape(law.location.shape)


def _one_by_one(function: Callable[[Law, Law], float], noise: Noise, shape: Shape, p: Floats, q: Floats) -> Floats:
    pairs = zip(p.reshape(-1), q.reshape(-1), strict=True)
    values = [function(Law(noise, shape, np.asarray(a)), Law(noise, shape, np.asarray(b))) for a, b in pairs]
    return np.asarray(values, dtype=np.float64).reshape(p.shape)


def stick_formula(noise: Noise, shape: Shape, p: Array, q: Array, epsilon: float) -> Array:
    """Hockey stick over arrays of locations: a threshold test, by the monotone likelihood ratio."""
    xp = namespace(p, q)
    p, q = xp.broadcast_arrays(p, q)
    rising = _stick_below(noise, shape, p, q, epsilon)
    falling = _stick_below(noise, shape.mirrored(), -p, -q, epsilon)
    trivial = -math.expm1(min(epsilon, 0.0))
    best = xp.where(p < q, rising, falling)
    return xp.clip(xp.where(p == q, trivial + xp.zeros_like(best), best), trivial, 1.0)


def renyi_formula(noise: Noise, shape: Shape, p: Array, q: Array, order: float | Array) -> Array:
    """Renyi divergence over arrays of locations; a row of finite orders adds a first axis for them."""
    xp = namespace(p, q)
    p, q = xp.broadcast_arrays(p, q)
    each: Any = order  # the order as it meets the pieces of a law, which have an axis of their own
    if not isinstance(order, (int, float)):
        order = xp.reshape(order, (-1, *(1 for _ in p.shape)))
        each = order[..., None]
    elif math.isinf(order):
        return _loss(noise, shape, p, q)
    logs = []
    if shape.spans:
        lowers, uppers = _columns(shape.spans, p)
        logs.append(noise.log_renyi_integral(p[..., None], q[..., None], each, lowers, uppers))
    if shape.points:
        a, b = _log_atoms(noise, shape, p), _log_atoms(noise, shape, q)
        gone, escaped = xp.isinf(a), xp.isinf(b) & ~xp.isinf(a)
        inner = each * xp.where(gone, 0.0, a) + (1.0 - each) * xp.where(xp.isinf(b), 0.0, b)
        logs.append(xp.where(escaped, xp.inf, xp.where(gone, -xp.inf, inner)))
    joined = xp.concat(logs, axis=-1)
    infinite = xp.any(joined == xp.inf, axis=-1)
    total = log_sum(xp.where(joined == xp.inf, xp.zeros_like(joined), joined))
    zp, zq = _log_norm(noise, shape, p), _log_norm(noise, shape, q)
    value = (total - order * zp) / (order - 1.0) + zq
    value = xp.where(p == q, xp.zeros_like(value), xp.clip(value, 0.0, None))
    return xp.where(infinite & (p != q), xp.inf, value)


def fisher_formula(noise: Noise, shape: Shape, at: Array) -> Array:
    """Fisher information of Gaussian noise over an array of locations, in units of the scale.

    With z = (end - q)/s, phi the normal density and P the mass of a piece, s^2 times the information is

        truncated to spans, of mass Z:   1 + sum[z phi(z)]/Z - (sum[phi(z)]/Z)^2
        mapped:   sum over cells of [phi(z)]^2/P + sum over spans of (P + [z phi(z)])

    where [f(z)] is f at the lower end minus f at the upper. Atoms of a truncated grid weigh (z - mean)^2. A margin for
    rounding is added, so that the result is never below the true value.
    """
    xp = namespace(at)
    zero = xp.zeros_like(at)
    total, tilt = zero, zero
    norm = _log_norm(noise, shape, at)
    for lower, upper in shape.spans:
        mass = xp.exp(noise.log_mass(xp.full_like(at, lower), xp.full_like(at, upper), at) - norm)
        (first, low), (second, high) = (_edge(noise, end, at, norm) for end in (lower, upper))
        total, tilt = total + (mass + low - high), tilt + (first - second)
    if shape.cells:
        for lower, upper in shape.cells:
            mass = noise.log_mass(xp.full_like(at, lower), xp.full_like(at, upper), at)
            (first, _), (second, _) = (_edge(noise, end, at, 0.5 * mass) for end in (lower, upper))
            total = total + xp.where(xp.isinf(mass), zero, first - second) ** 2
    elif shape.points:
        z = (as_in(at, shape.points) - at[..., None]) / noise.scale
        weight = xp.exp(_log_atoms(noise, shape, at) - norm[..., None])
        tilt = xp.sum(weight * z, axis=-1)
        total = xp.sum(weight * z * z, axis=-1)
    if shape.normalised:
        total = total - tilt * tilt
    far = tilt if shape.normalised else zero
    total = xp.clip(total, 0.0, None) + 2.0**-50 * (8.0 + far * far) ** 2
    if len(shape.spans) == 1 or not shape.normalised:
        total = xp.clip(total, None, 1.0)  # neither a map nor an interval tells more than the noise alone
    return total * ((1.0 + 2.0**-50) / noise.scale**2)


def _edge(noise: Noise, end: float, at: Array, norm: Array) -> tuple[Array, Array]:
    """phi(z) and z phi(z) at an end of a piece, over e^norm; zeros at infinity."""
    xp = namespace(at)
    if math.isinf(end):
        return xp.zeros_like(at), xp.zeros_like(at)
    empty = xp.isinf(norm)
    z = (end - at) / noise.scale
    height = noise.log_pdf(end - at) + math.log(noise.scale) - xp.where(empty, xp.zeros_like(at), norm)
    value = xp.exp(height)
    return value, z * value


def _stick_below(noise: Noise, shape: Shape, p: Array, q: Array, epsilon: float) -> Array:
    """The best event {x <= t} for p < q."""
    xp = namespace(p, q)
    zp, zq = _log_norm(noise, shape, p), _log_norm(noise, shape, q)
    if not shape.spans:
        a = _log_atoms(noise, shape, p) - zp[..., None]
        b = _log_atoms(noise, shape, q) - zq[..., None] + epsilon
        return xp.sum(_excess(a, b), axis=-1)
    far = xp.where(p < q, q, p + noise.scale)
    t = noise.crossing(p, far, epsilon + zp - zq)[..., None]
    lowers, uppers = _columns(shape.spans, p)
    if shape.normalised:
        end = xp.clip(t, lowers, uppers)
        a = log_sum(noise.log_mass(lowers, end, p[..., None])) - zp
        b = log_sum(noise.log_mass(lowers, end, q[..., None])) - zq
    else:
        end = xp.clip(t, lowers, uppers)[..., 0]
        a = noise.log_mass(-xp.inf + xp.zeros_like(end), end, p)
        b = noise.log_mass(-xp.inf + xp.zeros_like(end), end, q)
    return _excess(a, b + epsilon)


def _excess(a: Array, b: Array) -> Array:
    """e^a - e^b where it is positive, else 0."""
    xp = namespace(a, b)
    more = a > b
    zero = xp.zeros_like(a)
    return xp.where(more, xp.exp(a) * -xp.expm1(xp.where(more, b, zero) - xp.where(more, a, zero)), zero)


def _loss(noise: Noise, shape: Shape, p: Array, q: Array) -> Array:
    """Pure epsilon of p against q, one pair at a time."""
    xp = namespace(p, q)
    pairs = zip(xp.reshape(p, (-1,)).tolist(), xp.reshape(q, (-1,)).tolist(), strict=True)
    values = [renyi(Law(noise, shape, np.asarray(a)), Law(noise, shape, np.asarray(b)), math.inf) for a, b in pairs]
    return xp.reshape(as_in(p, values), p.shape)


def _log_norm(noise: Noise, shape: Shape, at: Array) -> Array:
    xp = namespace(at)
    if not shape.normalised:
        return xp.zeros_like(at)
    if shape.points:
        return log_sum(_log_atoms(noise, shape, at))
    lowers, uppers = _columns(shape.spans, at)
    return log_sum(noise.log_mass(lowers, uppers, at[..., None]))


def _log_atoms(noise: Noise, shape: Shape, at: Array) -> Array:
    if shape.cells:
        lowers, uppers = _columns(shape.cells, at)
        return noise.log_mass(lowers, uppers, at[..., None])
    return noise.log_pdf(as_in(at, shape.points) - at[..., None])


def _columns(pairs: tuple[tuple[float, float], ...], like: Array) -> tuple[Array, Array]:
    array = as_in(like, pairs)
    return array[:, 0], array[:, 1]


def _shared(p: Law, q: Law) -> tuple[Noise, Shape]:
    for name, law in (("p", p), ("q", q)):
        arguments.instance(name, law, Law, _A_LAW)
    if p.noise != q.noise or p.shape != q.shape:
        raise ArgumentError("p, q: must be laws of one mechanism (same noise, support and bounding)")
    return p.noise, p.shape
