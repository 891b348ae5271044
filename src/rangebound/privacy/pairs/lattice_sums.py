"""Gaussian weights on a lattice: sums of e^{-r j^2/2 + j t} over whole j, finite or endless, in ball arithmetic.

For the points c + j h of a lattice and Gaussian noise of scale s about p, r = (h/s)^2 and t = (p - c) h/s^2 make these
the weights of the points, up to a factor that they share. A sum is a polynomial in e^t, and every term is positive:
nothing cancels, and each moment is monotone in t, so over a cell of positions it lies between its values at the ends.
"""

from __future__ import annotations

import math

from flint import arb, arb_poly, arb_series, ctx, fmpq

from rangebound.values.ball import Ball, ball, hull, is_taylor, value_of

_FINE = 1.0 / 64.0  # a rate below this, and sums are as good as integrals
_MANY = 1_000  # terms that are summed one by one all the same
_SHARP = 1e-15  # a t known this well is evaluated as it is
_LONGEST = 1 << 16  # terms of an endless sum; beyond it is cut earlier, with a wider tail


class Theta:
    """Sums over j = first, ..., last of e^{-rate j^2/2 + j t}, for 0 <= first; `last` None is an endless sum.

    `wobble` is for points that are not quite on the lattice, because each is rounded to a double: a bound on how far
    off they are, and how far apart, in units of the step.
    """

    def __init__(self, rate: Ball, wobble: tuple[Ball, Ball] | None = None) -> None:
        self._rate, self._wobble = rate, wobble
        self._fine = bool(rate < _FINE)
        self._powers: list[arb_poly] = []
        self._known: dict[tuple[object, ...], list[Ball]] = {}

    def sum(self, t: Ball, first: int = 0, last: int | None = None) -> Ball:
        """The sum for a ball, or for a series t = t0 + t1 x with its derivatives in x."""
        if last is not None and last < first:
            return ball(0.0)
        order = min(t.prec, ctx.cap) - 1 if is_taylor(t) else 0
        at = value_of(t)
        ends = [at] if at.rad() < _SHARP else [at.lower(), at.upper()]
        moments = [hull(each) for each in zip(*(self._moments(x, order, first, last) for x in ends), strict=True)]
        if not is_taylor(t):
            return moments[0]
        way, factor, found = t[1], ball(1.0), []
        for k, moment in enumerate(moments):
            found.append(moment * factor)
            factor = factor * way / (k + 1)
        return arb_series(found, prec=order + 1)

    def _moments(self, t: Ball, order: int, first: int, last: int | None) -> list[Ball]:
        """Sums of j^k times the weights, k = 0, ..., order, at a sharp t."""
        key = (t.mid().man_exp(), t.rad().man_exp(), first, last)
        found = self._known.setdefault(key, [])
        if len(found) <= order and self._fine and (self._needed(t, order) if last is None else last) > _MANY:
            found[:] = self._integrals(t, order, first)
            if last is not None:
                beyond = self._integrals(t, order, last + 1)
                found[:] = [a - b for a, b in zip(found, beyond, strict=True)]
            found[:] = [x if self._wobble is None else x * self._off(k, t) for k, x in enumerate(found)]
        elif len(found) <= order:
            z = t.exp()
            cut = self._needed(t, order) if last is None else last
            for k in range(len(found), order + 1):
                power = self._power(k, cut)
                power = power if last is None else power.truncate(cut + 1)
                value = power(z) if first <= 1 and (first == 0 or k) else z**first * power.right_shift(first)(z)
                if last is None:
                    value = value + self._rest(t, k, max(cut, first))
                found.append(value if self._wobble is None else value * self._off(k, t))
        return found[: order + 1]

    def _integrals(self, t: Ball, order: int, first: int) -> list[Ball]:
        """Moments of the endless sum from `first` on, by the formula of Euler and Maclaurin with its remainder.

        With e = sqrt(rate) and w = first e - t/e the sum is e^{t^2/(2 rate)} times that of f(w + i e) over i >= 0, with
        f(w) = e^{-w^2/2}, whose derivatives are Hermite polynomials times f. Those are bounded by Cramer's inequality:
        |He_n(w)| <= 1.0865 sqrt(n!) e^{w^2/4}.
        """
        e = self._rate.sqrt()
        x = arb_series([t, 1], prec=order + 1)
        w = first * e - x / e
        at = value_of(w)
        count = self._terms(float(at.mid()), order)
        f = (w * w / -2).exp()
        root = ball(0.5).sqrt()
        area = (w * root).erfc() * (arb.pi() / 2).sqrt()
        total = area / e + f / 2
        before: Ball = arb_series([0], prec=order + 1)  # He_n for n = -1, 0
        here: Ball = arb_series([1], prec=order + 1)
        for n in range(2 * count):
            if n % 2:  # the derivative of order n is -He_n f
                total = total + here * f * (arb(fmpq.bernoulli(n + 1)) / arb(math.factorial(n + 1)) * e**n)
            before, here = here, w * here - n * before
        rest = [self._remainder(at, 2 * count, k) / e**k for k in range(order + 1)]
        total = total + arb_series(rest, prec=order + 1)
        total = total * (x * x / (2 * self._rate)).exp()
        return [total[k] * math.factorial(k) for k in range(order + 1)]

    def _terms(self, w: float, order: int) -> int:
        """How many terms of the formula to take: until the remainder is as small as the precision, or grows."""
        step = 0.5 * math.log(float(self._rate.mid())) - math.log(2.0 * math.pi)
        enough = -(ctx.prec + 8) * math.log(2.0) - max(w, 0.0) ** 2 / 4.0
        for count in range(1, 200):
            size = 2 * count * step + 0.5 * math.lgamma(2 * count + order + 1)
            if size < enough or 2 * step + math.log(2 * count + order + 1) > 0.0:
                return count
        return 200

    def _remainder(self, w: Ball, n: int, k: int) -> Ball:
        """A ball about 0 for the k-th coefficient of the remainder after the derivative of order n - 1."""
        e = self._rate.sqrt()
        spread = (w.lower() / 2).erfc() * arb.pi().sqrt() * arb(math.factorial(n + k)).sqrt() * arb("1.0865")
        size = 4 * (e / (2 * arb.pi())) ** n / e * spread / math.factorial(k)
        return arb(0, size.upper())

    def _power(self, k: int, last: int) -> arb_poly:
        """The polynomial with the coefficients j^k e^{-rate j^2/2}, at least up to `last`."""
        if not self._powers or self._powers[0].length() <= last:
            count = last + 1 + last // 4
            self._powers = [arb_poly([(self._rate * (-(j * j)) / 2).exp() for j in range(count)])]
        while len(self._powers) <= k:
            self._powers.append(self._powers[-1].derivative().left_shift(1))
        return self._powers[k]

    def _needed(self, t: Ball, order: int) -> int:
        """Terms after which an endless sum is as good as finished."""
        rate, peak = float(self._rate.mid()), max(float(t.mid()), 0.0)
        width = math.sqrt(2.0 * (ctx.prec + 16 + 8 * order) * math.log(2.0) / rate)
        return min(math.ceil(peak / rate + width) + 2, _LONGEST)

    def _rest(self, t: Ball, k: int, last: int) -> Ball:
        """What an endless sum has beyond `last`, as a ball from 0 on: terms fall faster than a geometric series."""
        j = ball(float(last + 1))
        ratio = ((j + 1) / j) ** k * (t - self._rate * (2 * j + 1) / 2).exp()
        if not ratio < 1:
            return arb.pos_inf()
        term = j**k * (j * (t - self._rate * j / 2)).exp()
        return ball(0.0).union((term / (1 - ratio)).upper())

    def _off(self, k: int, t: Ball) -> Ball:
        """The factor by which a moment may be off because no point is further off its place than the wobble."""
        assert self._wobble is not None
        off, reach = self._wobble
        share = off * (self._rate * (reach + off) + abs(t) + 2 * k)
        return (-share).exp().union(share.exp())
