"""Clipping norms: how much one example may move the sum of the gradients, by coordinate or in Euclidean norm.

Elementwise clipping works in whole numbers. Each clipped coordinate is rounded to a multiple of a quantum, a power of
two; the clipping norm is between 2^17 and 2^18 quanta. So the sum over the examples is exact. It does not depend on
their order, and one example moves it by at most the clipping norm, to the last bit; a sum of floats does not guarantee
that. Layers round the last bits of an example's gradient by the shape of what they see. So they see one shape: chunks
of one public size, filled with zeros (`rangebound.learn.torch.gradients.per_example`).

Adaptive clipping follows a private quantile of the gradients' norms, in the account of the steps. In each step, besides
the sum of the gradients clipped to C, the number of examples whose gradient is no longer than C is released, and the
next step's C is moved so that a given fraction of them is [andrew2021]:

    tally = sum over the examples of 1/2 if 0 < |gradient| <= C, -1/2 if |gradient| > C, 0 if there is none
    fraction = 1/2 + (tally + noise of scale tally_noise)/expected_batch
    C <- C exp(-speed (fraction - quantile))

One example moves the tally by 1/2 and the sum by C. With noise of scale z C on the sum and s on the tally, both are one
vector with noise of scale z C in each coordinate, once the tally is multiplied by z C/s: an example moves that by

    sqrt(C^2 + (z C/(2 s))^2) = z C sqrt(1/z^2 + 1/(4 s^2))

in Euclidean length. So a step is what Gaussian noise with the multiplier m is, whichever sampling it is on, where

    1/m^2 = 1/z^2 + 1/(4 s^2)

and `noise_multiplier` means this m: for the account nothing changes, and the sum has a little more noise, z > m. C
depends on earlier releases alone, and the noise is proportional to it, so the steps compose adaptively.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import torch

from rangebound.errors import ArgumentError
from rangebound.laws.boundings import UNBOUNDED
from rangebound.laws.gaussian import Gaussian
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.values import arguments
from rangebound.values.numeric import root_down, rounded_up
from rangebound.values.support import Interval, Query

_BITS = 17
_SMALLEST, _LARGEST = 1e-30, 1e30  # so that the quantum and its inverse are ordinary floats
_SLACK = 2.0**-16
_LEAST, _MOST = 1e-20, 1e20  # how far the norm may go
_FAR = 200.0  # by more than any way from one end to the other, and its exponential is a float
_SHARE = 20.0  # the default noise of the tally is the expected batch over this


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Elementwise:
    """Each coordinate of each example's gradient is clamped to [-clip, clip] [hu2024, Sec 5.1].

    Guarantee: adding or removing an example moves each coordinate of the sum by at most `bound`.
    Assumes: the layers give an example the same gradient whichever others are in the batch.
    Edge cases: the bound is the clip rounded down to 18 binary digits, so 0.5 stays 0.5 and 0.1 becomes 0.0999994.

    >>> Elementwise(clip=0.5).bound
    0.5
    """

    clip: float
    quantum: float = field(init=False)
    levels: int = field(init=False)

    def __post_init__(self) -> None:
        clip = _checked(self.clip)
        quantum = math.ldexp(1.0, math.frexp(clip)[1] - 1 - _BITS)
        object.__setattr__(self, "clip", clip)
        object.__setattr__(self, "quantum", quantum)
        object.__setattr__(self, "levels", math.floor(clip / quantum))

    @property
    def bound(self) -> float:
        """The largest size of a clipped coordinate, a whole number of quanta."""
        return self.levels * self.quantum


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Euclidean:
    """Each example's gradient is scaled down to Euclidean norm `clip` at most, as is common; only for unbounded noise.

    Guarantee: adding or removing an example moves the sum by at most `clip` in Euclidean length, the rounding of the
    sum in doubles included.
    Assumes: as for `Elementwise`; at most about 100,000 examples in a step. The stated or expected number is checked,
    and a dataset with over twice as many in an expected batch is refused.

    >>> Euclidean(clip=1.0).bound
    1.0
    """

    clip: float
    most: ClassVar[int] = 100_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", _checked(self.clip))

    @property
    def bound(self) -> float:
        """The clipping norm itself."""
        return self.clip

    @property
    def target(self) -> float:
        """The target norm: slightly below the clipping norm, which leaves room for rounding."""
        return self.clip * (1.0 - _SLACK)

    def shrink(self, squares: torch.Tensor) -> torch.Tensor:
        """The factors that scale gradients of these squared norms to at most the clipping norm."""
        return (self.target / squares.sqrt()).clamp(max=1.0)

    def check_size(self, rate: float, expected: float, examples: int) -> None:
        """Refuse more examples than the rounding margin of the sum allows for."""
        if expected > self.most:
            raise ArgumentError(
                f"expected_batch={expected:g}: with Euclidean clipping at most {self.most}, or the rounding of "
                "the sum would exceed its margin"
            )
        if rate * examples > 2 * self.most:  # far more than stated: the guarantee needs this check
            raise ArgumentError(
                f"expected_batch={expected:g}: is far too small for this dataset, and with Euclidean clipping a "
                f"batch may have at most {self.most} examples; state a smaller rate, or use Elementwise(clip=...)"
            )


Clipping = Elementwise | Euclidean


def _checked(clip: object) -> float:
    number = arguments.positive("clip", clip, why="without a bound on each example nothing is protected")
    if not _SMALLEST <= number <= _LARGEST:
        raise ArgumentError(f"clip={number}: must lie between {_SMALLEST:g} and {_LARGEST:g}; change the loss's unit")
    return number


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Adaptive:
    """Euclidean clipping with a norm that starts at `clip` and follows the `quantile` of the gradients' norms.

    `speed` is how far it moves in a step: by a factor of e^(speed/2) at most where the quantile is 1/2. `tally_noise`
    is the standard deviation of the noise on the tally of examples below the norm, by default a twentieth of the
    expected batch, and at least the noise multiplier.

    Guarantee: that of Gaussian noise with the noise multiplier that is given or found, the tally included; see the head
    of `rangebound.learn.torch.clipping_norm`.
    Assumes: all settings are public.
    Edge cases: the norm stays between 1e-20 and 1e20, however large `speed` is.

    >>> Adaptive(clip=1.0).quantile
    0.5
    """

    clip: float
    quantile: float = 0.5
    speed: float = 0.2
    tally_noise: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "clip", Euclidean(clip=self.clip).clip)
        if not 0.0 < arguments.finite("quantile", self.quantile) < 1.0:
            raise ArgumentError(f"quantile={self.quantile}: must lie in (0, 1)")
        arguments.positive("speed", self.speed)
        if self.tally_noise is not None:
            arguments.positive("tally_noise", self.tally_noise, why="without noise nothing is protected")


class ClipController:
    """The clipping norm of the present step, and the two mechanisms of its releases."""

    def __init__(self, settings: Adaptive, multiplier: float, expected: float) -> None:
        self.settings, self._expected = settings, expected
        given = settings.tally_noise
        self.tally_noise = max(expected / _SHARE, multiplier) if given is None else float(given)
        self.sum_multiplier = split_multiplier(multiplier, self.tally_noise)
        self.tally_mechanism = _gaussian(0.5, self.tally_noise)
        self.clipping = Euclidean(clip=settings.clip)

    @property
    def sum_mechanism(self) -> Mechanism:
        """What releases each coordinate of the sum in this step."""
        return _gaussian(self.clipping.clip, rounded_up(Fraction(self.sum_multiplier) * Fraction(self.clipping.clip)))

    def follow(self, released: float) -> None:
        """Move the clipping norm by the released tally."""
        fraction = min(max(0.5 + released / self._expected, 0.0), 1.0)
        step = self.settings.speed * (self.settings.quantile - fraction)
        moved = self.clipping.clip * math.exp(min(max(step, -_FAR), _FAR))
        self.clipping = Euclidean(clip=min(max(moved, _LEAST), _MOST))


def split_multiplier(multiplier: float, tally_noise: float) -> float:
    """The noise multiplier z of the sum, for 1/z^2 + 1/(4 tally_noise^2) <= 1/multiplier^2, rounded up.

    >>> round(split_multiplier(1.0, 5.0), 6)
    1.005038
    """
    left = 1 / Fraction(multiplier) ** 2 - 1 / (4 * Fraction(tally_noise) ** 2)
    if left <= 0:
        raise ArgumentError(
            f"tally_noise={arguments.shown(tally_noise)}: must be above half the noise multiplier, {multiplier:g}, or "
            "the tally alone would cost more than the step may"
        )
    return rounded_up(1 / Fraction(root_down(left)))


def tally(squares: torch.Tensor, clip: Euclidean) -> float:
    """The tally of gradients of these squared norms.

    Guarantee: an example moves it by at most 1/2; one whose gradient is zero, as is one that is not finite, not at all.
    """
    there = squares > 0.0
    short = there & (clip.shrink(squares) >= 1.0)
    return int(short.sum()) - 0.5 * int(there.sum())


def _gaussian(sensitivity: float, scale: float) -> Mechanism:
    line = Query(range=Interval(-math.inf, math.inf), sensitivity=sensitivity)
    return Mechanism(noise=Gaussian(scale=scale), query=line, bounding=UNBOUNDED)
