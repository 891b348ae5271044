"""A pair of truncated Laplace laws, on spans or on a grid, in ball arithmetic: formulas in which nothing cancels.

In units of the scale, with the left location at 0 and the right one at d, let `left` be the mass that P puts left of 0,
`right` the mass that Q puts right of d (both without normalisation, density e^{-|x|}), and change = log Z(Q)/Z(P). Then

    2y = d - epsilon + change          the ratio P/Q exceeds e^epsilon just left of y, and nowhere if y <= 0
    delta = [left (1 - e^{-2y}) + integral over the support in [0, y] of e^{-s} - e^{s-2y}] / Z(P)

Every term is positive, so small numbers keep their digits. Without a limit of the noise |change| <= d, hence y <= d.
With one, all this is about what both laws can publish; what only P can counts in full, and y may pass d, from where on
the right side leaks right e^{-d} (1 - e^{2d-2y}) too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from flint import arb

from rangebound.values.ball import ZERO, Ball, ball, expm1, is_taylor, log1p, smallest, tightened, value_of


class Parts(NamedTuple):
    """The support as a pair sees it, in units of the scale: what lies left of it, right of it and inside."""

    left: Ball  # mass of P left of the pair
    right: Ball  # mass of Q right of the pair
    inside: Ball  # mass of P between the two
    lift: Ball  # mass of Q between the two, less that of P
    overlap: Callable[[Ball], Ball]  # the integral of the docstring above, of y
    only_p: Ball = ZERO  # mass that only P has
    only_q: Ball = ZERO  # mass that only Q has
    limited: bool = False  # whether the noise has a limit

    def normaliser(self, d: Ball) -> Ball:
        """Z(P)."""
        return self.left + self.right * (-d).exp() + self.inside + self.only_p

    def change(self, d: Ball) -> Ball:
        """log Z(Q) - log Z(P)."""
        normaliser = self.normaliser(d)
        if not value_of(normaliser) > 0:
            return arb.nan()
        return log1p((self.lift - (self.right - self.left) * (-d).expm1() + self.only_q - self.only_p) / normaliser)

    def stick(self, d: Ball, epsilon: Ball, change: Ball) -> Ball:
        """The hockey-stick divergence of P from Q."""
        if not value_of(change).is_finite():
            return arb.nan()
        y = (d - epsilon + change) / 2
        if value_of(y) <= 0:
            return self.only_p / self.normaliser(d)
        if is_taylor(y) and y[0] >= 0:
            return self._stick(d, y)
        # It may be zero, where the slope jumps: as plain balls.
        plain = self._replace(
            left=value_of(self.left),
            right=value_of(self.right),
            inside=value_of(self.inside),
            only_p=value_of(self.only_p),
        )
        return value_of(plain._stick(d, value_of(y).max(ball(0.0))))

    def event(self, d: Ball, y: Ball) -> Ball:
        """P(A) - e^epsilon Q(A) for the event that `overlap` is about, whatever the sign of y."""
        return (self.overlap(y) - self.left * expm1(-2 * y)) / self.normaliser(d)

    def _stick(self, d: Ball, y: Ball) -> Ball:
        total = self.only_p - self.left * expm1(-2 * y) + self.overlap(y)
        if self.limited and not value_of(y) <= d:
            total = total - self.right * (-d).exp() * expm1(2 * smallest(d - y, ball(0.0)))
        return total / self.normaliser(d)


def sharp_stick(parts: Callable[[Ball], Parts], p: Ball, d: Ball, epsilon: Ball) -> Ball:
    """The divergence at p, a series perhaps; `parts` gives the support as seen from a position."""
    here = parts(p)
    change = here.change(d)
    if is_taylor(p) and is_taylor(change) and not p[0].is_exact():
        change = tightened(change, lambda at: parts(at).change(d), p[0])
    return here.stick(d, epsilon, change)


def top_loss(d: Ball) -> Ball:
    """No truncated Laplace law has a larger loss, whatever the support: d from the density, d from the mass."""
    return 2 * d


def top_stick(d: Ball, epsilon: Ball) -> Ball:
    """No truncated Laplace law has a larger hockey-stick divergence, whatever the support; d in units of the scale.

    Q has the density r/E[r] with respect to P, with r between e^{-d} and e^d. The divergence is a convex function of r
    for a given E[r], so it is largest when r takes no value but those two, the first with probability w say:
    w (1 - e^{epsilon-d} / (w e^{-d} + (1 - w) e^d)), which has its maximum where the denominator is e^{epsilon/2}.
    """
    excess = d - epsilon / 2
    if excess <= 0:
        return ball(0.0)
    gap = (-excess.max(ball(0.0))).expm1()
    return gap * gap / -(-2 * d).expm1()


def top_odds(d: Ball, epsilon: Ball) -> Ball:
    """The odds w/(1 - w) at which `top_stick` is attained; negative if there are none."""
    root = (epsilon / 2).exp()
    return (d.exp() - root) / (root - (-d).exp())


def top_renyi(d: Ball, order: Ball) -> Ball:
    """No truncated Laplace law has a larger Renyi divergence, whatever the support; d in units of the scale.

    By the same argument with the convex function r^(1-order): the largest value over w of
    log(w e^{(order-1)d} + (1-w) e^{-(order-1)d})/(order-1) + log(w e^{-d} + (1-w) e^d), concave in w.
    """
    rate = order - 1
    far, near = 2 * (rate * d).sinh(), 2 * d.sinh()
    low = (-rate * d).exp()
    w = ((far * d.exp() - rate * near * low) / (far * near * order)).max(ball(0.0)).min(ball(1.0))
    return (low + w * far).log() / rate + (d.exp() - w * near).log()
