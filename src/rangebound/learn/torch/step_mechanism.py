"""The mechanism of a step: Gaussian noise for one coordinate of the summed gradient, unbounded or in a support."""

from __future__ import annotations

import math

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import QUANTIZE, TRUNCATE, UNBOUNDED, Bounding
from rangebound.laws.gaussian import Gaussian
from rangebound.learn.torch.clipping_norm import Clipping, Elementwise, Euclidean
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values import arguments
from rangebound.values.query import Query
from rangebound.values.support import Grid, Interval, Support

_REACH = 4.0  # scales beyond its support at which the sum of the gradients is clipped for a truncated law


def step_mechanism(
    *, clipping: Clipping, noise_multiplier: float, bounding: Bounding = UNBOUNDED, support: Support | None = None
) -> Mechanism:
    """The mechanism that releases one coordinate of the summed gradient: Gaussian noise of scale clip times multiplier.

    Edge cases: bounded noise with Euclidean clipping is refused. For a truncated law the sum is clipped at 4 scales
    beyond the support, which the account covers.

    >>> import rangebound as rb
    >>> m = step_mechanism(
    ...     clipping=Elementwise(clip=0.5),
    ...     noise_multiplier=4.0,
    ...     bounding=rb.TRUNCATE,
    ...     support=rb.Interval(-8, 8),
    ... )
    >>> m.noise.scale, m.query.sensitivity, m.query.range
    (2.0, 0.5, Interval(lower=-16.0, upper=16.0))
    """
    arguments.instance("clipping", clipping, (Elementwise, Euclidean), "Elementwise(clip=...) or Euclidean(clip=...)")
    arguments.instance("bounding", bounding, Bounding, "one of rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE, rb.UNBOUNDED")
    if isinstance(clipping, Euclidean) and bounding is not UNBOUNDED:
        raise ArgumentError(
            f"bounding={bounding!r} with Euclidean clipping: one example may put its whole norm on any one "
            "coordinate, so no per-coordinate account holds; use Elementwise(clip=...)"
        )
    scale = arguments.positive("noise_multiplier", noise_multiplier, why="without noise nothing is protected")
    scale *= clipping.clip
    kind = {QUANTIZE: Grid}.get(bounding, Interval)
    if bounding is UNBOUNDED:
        if support is not None:
            raise ArgumentError("support: must be left out, because the noise is UNBOUNDED; or choose a bounding")
    elif not isinstance(support, kind) or not support.bounded:
        raise ArgumentError(f"support={arguments.shown(support)}: must be a bounded {kind.__name__} for {bounding!r}")
    answers = Interval(-math.inf, math.inf)
    if bounding is TRUNCATE and support is not None:
        answers = Interval(_beyond(support.hull.lower, -scale), _beyond(support.hull.upper, scale))
    query = Query(range=answers, sensitivity=clipping.bound)
    return Mechanism(noise=Gaussian(scale=scale), query=query, support=support, bounding=bounding)


def _beyond(end: float, scale: float) -> float:
    """The end moved outwards by _REACH scales, and not by a rounding more: up to there the draw has its fast form."""
    place = end + _REACH * scale
    return math.nextafter(place, end) if (place - end) / scale > _REACH else place
