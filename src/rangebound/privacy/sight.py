"""Integrals over spans as seen from one place, each computed once however many events it is a part of."""

from __future__ import annotations

from typing import Any, Protocol

from flint import arb

from rangebound.ball import Ball, ball, value_of
from rangebound.privacy.pieces import score_moments, shifted

Span = tuple[Any, Any]  # ends as balls or series, None where infinite


class View(Protocol):
    """A form of the density on the support, up to a factor that does not depend on x."""

    def mass(self, span: Span, p: Any) -> Any:
        """The integral over a span; its upper end may be a series in p."""

    def pull(self, span: Span, p: Any) -> Any:
        """The derivative of that in p with the ends held."""

    def threshold(self, p: Any, d: Ball, level: Any) -> Any:
        """Where the log-ratio of this form of the density about p and p + d is `level`."""


class Plain:
    """The density of the noise itself, by the offsets of the ends from the location."""

    def __init__(self, noise: Any, *, gaussian: bool) -> None:
        self._noise, self._gaussian = noise, gaussian

    def mass(self, span: Span, p: Any) -> Any:
        """The probability of a span."""
        return self._noise.mass(shifted(span[0], p), shifted(span[1], p))

    def pull(self, span: Span, p: Any) -> Any:
        """The integral of -g' over a span."""
        low, high = (ball(0.0) if end is None else self._noise.pdf(end - p) for end in span)
        return low - high

    def threshold(self, p: Any, d: Ball, level: Any) -> Any:
        """Where the log-ratio of the noise about p and p + d is `level`."""
        return self._noise.free_threshold(p, d, level)

    def scores(self, spans: list[Span], p: Any) -> tuple[Any, Any, Any]:
        """Integrals over spans of g, score g and score^2 g."""
        sums: tuple[Any, Any, Any] = (ball(0.0),) * 3
        for lower, upper in spans:
            parts = score_moments(self._noise, self._gaussian, shifted(lower, p), shifted(upper, p))
            sums = (sums[0] + parts[0], sums[1] + parts[1], sums[2] + parts[2])
        return sums


class Sight:
    """What a view shows from one place."""

    def __init__(self, view: View, p: Any) -> None:
        self._view, self._p = view, p
        self._seen: dict[tuple[int, bool], tuple[Span, Any]] = {}  # holds the spans, so that no other has their id

    def mass(self, spans: list[Span]) -> Any:
        """The integral over spans."""
        total: Any = ball(0.0)
        for span in spans:
            total = total + self._of(span, slope=False)
        return total

    def slope(self, spans: list[Span]) -> Any:
        """d/dp of its logarithm with all ends held; unknown where it may be 0."""
        total, pull = self.mass(spans), ball(0.0)
        if not value_of(total) > 0:
            return arb.nan()
        for span in spans:
            pull = pull + self._of(span, slope=True)
        return pull / total

    def _of(self, span: Span, *, slope: bool) -> Any:
        key = id(span), slope
        if key not in self._seen:
            self._seen[key] = span, (self._view.pull if slope else self._view.mass)(span, self._p)
        return self._seen[key][1]
