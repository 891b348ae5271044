"""Laws, divergences and losses from their definitions: densities integrated in mpmath, and scans over outputs.

Nothing here comes from the library, and no closed form of a distribution function is used: a mass is an integral of a
density, a score is a difference quotient. Agreement with the library is agreement of two independent routes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp

DIGITS = 34
REACH = 90  # an infinite span is cut this many scales beyond the locations; Laplace noise has e^-90 left there
KNOTS = (-45, -20, -8, -3, -1, 0, 1, 3, 8, 20, 45)  # in scales from a location: where an integral is cut into pieces

Number = Any


def precisely(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        with mp.workdps(DIGITS):
            return function(*args, **kwargs)

    return run


def laplace(y: Number) -> Number:
    return mp.exp(-abs(y)) / 2


def gaussian(y: Number) -> Number:
    return mp.exp(-y * y / 2) / mp.sqrt(2 * mp.pi)


@dataclass(frozen=True)
class Law:
    """Noise around a location: a density on spans, divided by `norm`, and atoms."""

    noise: Callable[[Number], Number]
    location: Number
    scale: Number
    spans: tuple[tuple[Number, Number], ...]
    norm: Number = 1
    atoms: dict[Number, Number] = field(default_factory=dict)

    def density(self, x: Number) -> Number:
        return self.noise((x - self.location) / self.scale) / (self.scale * self.norm)


def _pieces(laws: Iterable[Law]) -> list[tuple[Number, Number]]:
    """The spans, cut at the knots of all laws, and far out where they are infinite."""
    laws = list(laws)
    knots = sorted({mp.mpf(law.location) + k * mp.mpf(law.scale) for law in laws for k in KNOTS})
    low = min(law.location - REACH * law.scale for law in laws)
    high = max(law.location + REACH * law.scale for law in laws)
    result = []
    for start, end in laws[0].spans:
        start, end = max(mp.mpf(start), low), min(mp.mpf(end), high)
        if start < end:
            marks = [start, *(x for x in knots if start < x < end), end]
            result += list(itertools.pairwise(marks))
    return result


def integral(function: Callable[[Number], Number], *laws: Law) -> Number:
    return mp.fsum(mp.quad(function, piece) for piece in _pieces(laws))


@precisely
def free(noise: Callable[[Number], Number], location: Number, scale: Number) -> Law:
    return Law(noise, mp.mpf(location), mp.mpf(scale), ((-mp.inf, mp.inf),))


@precisely
def truncated(noise: Callable[[Number], Number], location: Number, scale: Number, *spans: tuple[Any, Any]) -> Law:
    """Noise drawn again until it falls into the spans."""
    law = Law(noise, mp.mpf(location), mp.mpf(scale), tuple((mp.mpf(a), mp.mpf(b)) for a, b in spans))
    return Law(noise, law.location, law.scale, law.spans, norm=integral(law.density, law))


@precisely
def rectified(noise: Callable[[Number], Number], location: Number, scale: Number, lower: Number, upper: Number) -> Law:
    lower, upper = mp.mpf(lower), mp.mpf(upper)
    whole = free(noise, location, scale)
    below = Law(noise, whole.location, whole.scale, ((-mp.inf, lower),))
    above = Law(noise, whole.location, whole.scale, ((upper, mp.inf),))
    atoms = {lower: integral(below.density, below), upper: integral(above.density, above)}
    return Law(noise, whole.location, whole.scale, ((lower, upper),), atoms=atoms)


@precisely
def renyi(p: Law, q: Law, order: Number) -> Number:
    """log of the integral of p^order q^(1 - order), over order - 1."""
    order = mp.mpf(order)
    total = integral(lambda x: p.density(x) ** order * q.density(x) ** (1 - order), p, q)
    total += mp.fsum(weight**order * q.atoms[x] ** (1 - order) for x, weight in p.atoms.items())
    return mp.log(total) / (order - 1)


def _sign(difference: Number, size: Number) -> int:
    """The sign of a difference; 0 where it is within rounding of zero beside `size`."""
    return int(mp.sign(difference)) if abs(difference) > mp.eps**0.8 * size else 0


@precisely
def stick(p: Law, q: Law, epsilon: Number) -> Number:
    factor = mp.exp(mp.mpf(epsilon))

    def excess(x: Number) -> Number:
        return p.density(x) - factor * q.density(x)

    total = mp.fsum(max(weight - factor * q.atoms[x], 0) for x, weight in p.atoms.items())
    for start, end in _pieces([p, q]):
        marks = [start + (end - start) * k / 8 for k in range(9)]
        signs = [_sign(excess(x), p.density(x)) for x in marks]
        roots = [
            mp.findroot(excess, pair, solver="anderson", tol=mp.eps**1.6)
            for pair, left, right in zip(itertools.pairwise(marks), signs, signs[1:], strict=False)
            if left * right < 0
        ]
        roots += [x for x, sign in zip(marks[1:-1], signs[1:-1], strict=True) if sign == 0]
        cuts = [start, *sorted(roots), end]
        for a, b in itertools.pairwise(cuts):
            if _sign(excess((a + b) / 2), p.density((a + b) / 2)) > 0:
                total += mp.quad(excess, [a, b])
    return total


@precisely
def loss(p: Law, q: Law, points: int = 400) -> Number:
    """The largest log-ratio of p to q that a scan of the outputs sees; ends, locations and atoms are scanned too."""
    outputs = [a + (b - a) * k / points for a, b in _pieces([p, q]) for k in range(points + 1)] if points else []
    outputs += [x for piece in _pieces([p, q]) for x in piece]
    ratios = [mp.log(p.density(x) / q.density(x)) for x in outputs]
    return max(ratios + [mp.log(weight / q.atoms[x]) for x, weight in p.atoms.items()])


@precisely
def fisher(law_at: Callable[[Number], Law], location: Number) -> Number:
    """The curvature of the divergence, by a central difference in the location."""
    step = mp.mpf("1e-8")
    pair = [law_at(mp.mpf(location) + sign * step) for sign in (-1, 1)]
    return (renyi(*pair, 2) + renyi(*pair[::-1], 2)) / (8 * step**2)
