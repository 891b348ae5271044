"""A mechanism: noise, support, bounding and query in one value. Its methods ask the rooms below."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Self, overload

from rangebound import sampling
from rangebound.errors import ClaimFalse, Undecided
from rangebound.laws import boundings as bounding
from rangebound.laws.boundings import TRUNCATE, UNBOUNDED, Bounding, Shape
from rangebound.laws.distribution import Law, moments
from rangebound.laws.error import Error, average_error, confidence_interval, worst_error
from rangebound.laws.families import FAMILIES
from rangebound.laws.family import Noise
from rangebound.mechanisms.private_mechanism import PrivateMechanism, largest, mean
from rangebound.privacy.counterexample import finite_pair
from rangebound.privacy.gdp import free_gaussian
from rangebound.privacy.laplace_union import interval_profile
from rangebound.privacy.pairs.divergences import fisher
from rangebound.privacy.proof import Proof, check, prove, refutation
from rangebound.privacy.setting import Claim, Setting
from rangebound.privacy.tradeoff_curve import PairProfile
from rangebound.privacy.worst import (
    WIDTH,
    Worst,
    pair_profile,
    worst_delta,
    worst_epsilon,
    worst_loss,
    worst_pair_at,
    worst_renyi,
    worst_under,
)
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Many, One, np, npt
from rangebound.values.ball import Ball, ball, up
from rangebound.values.numeric import Enclosure
from rangebound.values.serial import support_from_dict, support_to_dict
from rangebound.values.support import Grid, Interval, Query, Support, Union, published_numbers


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Mechanism(PrivateMechanism):
    """A way to publish the answer of a query inside a support: noise, query, support, bounding.

    The support defaults to the query's range (to the whole line for UNBOUNDED). A true answer outside the query's range
    is clipped to it. Where the range is a `Grid`, errors are those at its points, and privacy holds for all answers
    between its ends. A mechanism is a value: frozen, hashable, and equal to another with the same four parts.

    `claim` is what `calibrate` or `choose` made it for, or None. It is a statement about the law and no part of it: it
    counts neither for equality nor for the hash, and `rangebound.certify(m)` proves it or refuses it. The constructor
    takes none, so that a mechanism made with `dataclasses.replace` never inherits one; see `with_claim`.

    Guarantee: every privacy number is exact for the continuous law and rounded to the safe side.
    Assumes: the query's sensitivity is true.
    Edge cases: combinations that make no sense are refused with the reason, such as clamping onto a union with gaps.

    >>> import rangebound as rb
    >>> count = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=count)
    >>> round(m.epsilon(), 6)
    0.831797
    """

    noise: Noise
    query: Query
    support: Support | None = None
    bounding: Bounding = TRUNCATE
    claim: Claim | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        arguments.instance(
            "noise", self.noise, tuple(FAMILIES.values()), "noise with its scale, such as rb.Laplace(scale=2.0)"
        )
        arguments.instance("query", self.query, Query, "a Query")
        arguments.instance(
            "bounding", self.bounding, Bounding, "one of rb.TRUNCATE, rb.RECTIFY, rb.QUANTIZE, rb.UNBOUNDED"
        )
        if self.support is None:
            line = Interval(-math.inf, math.inf)
            object.__setattr__(self, "support", line if self.bounding is UNBOUNDED else self.query.range)
        arguments.instance(
            "support",
            self.support,
            (Interval, Union, Grid),
            "an Interval, a Union or a Grid, such as rb.Interval(0, 100)",
        )
        bounding.check_reach(self.noise, self.query.spread, self.shape)

    @cached_property
    def shape(self) -> Shape:
        """What the bounding makes of the noise, whatever the true answer."""
        assert self.support is not None
        return bounding.shape(self.bounding, self.noise, self.support)

    @cached_property
    def setting(self) -> Setting:
        """All that the privacy of the mechanism depends on."""
        return Setting(self.noise, self.shape, self.query.spread, self.query.sensitivity).simplified()

    def law(self, answer: npt.ArrayLike) -> Law:
        """The distribution of the published number when the true answer is `answer` (a number or an array).

        Guarantee: it is the law that `release` draws from and that every privacy number is about.
        Edge cases: an answer outside the query's range is clipped to it.

        >>> import rangebound as rb
        >>> query = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> float(rb.Mechanism(noise=rb.Laplace(scale=1.0), query=query).law(0.5).mean)
        0.5
        """
        return Law(self.noise, self.shape, self.query.clip(answer))

    def _epsilon(self, delta: float) -> float:
        return _closed(worst_epsilon(self.setting, delta), f"delta={delta}: the smallest epsilon")

    def _delta(self, epsilon: float) -> float:
        return min(_closed(worst_delta(self.setting, epsilon), f"epsilon={epsilon}: the smallest delta"), 1.0)

    def _attack_mu(self) -> float:
        """That of Gaussian noise on the line, where what is published leaks no more: sensitivity / scale.

        A map of the noise is post-processing. Truncated to an interval, the law of the answer q has the density
        exp(-(x - q)^2 / (2 s^2)) / Z, which is more log-concave than N(0, s^2), so x = T(z) for a standard normal z and
        a rising T with a slope of at most s [caffarelli2000]. Likelihood ratios rise with x, so the best tests are
        x > c. Their power S has dS/dq = Cov(1{x > c}, x) / s^2 <= Cov(1{x > c}, s z) / s^2 = phi(z_S) / s, since s z -
        T(z) rises too, and phi(z_S) is the density at the upper quantile of S. So z_S falls by at most d / s from q to
        q + d, which is what mu = d / s says. Support with gaps is not log-concave, and may leak more.
        """
        if not self.noise.gaussian or (self.bounding is TRUNCATE and not isinstance(self.support, Interval)):
            return math.inf
        hull = self.query.range.hull
        apart = min(ball(self.query.sensitivity), ball(hull.upper) - ball(hull.lower), key=up)
        return up(apart / ball(self.noise.scale))

    def _attack_pairs(self, epsilon: float) -> tuple[PairProfile, ...]:
        return (pair_profile(self.noise, self.shape, worst_pair_at(self.setting, epsilon)),)

    def _attack_pure_below(self) -> float:
        return worst_loss(self.setting).lower

    def _worst_answers(self, claim: Claim) -> tuple[float, float]:
        """The neighbouring answers with the largest privacy loss at a claim."""
        return finite_pair(self.setting, worst_under(self.setting, claim).pair, claim)

    def _words(self) -> str:
        return f"{self.bounding.value} {describe_noise(self.noise)}"

    def _prove(self, claim: Claim) -> Proof | None:
        return prove(self.setting, claim)

    def _check_proof(self, claim: Claim, proof: Proof) -> None:
        check(self.setting, claim, proof)

    def _refutation(self, claim: Claim) -> ClaimFalse | Undecided:
        return refutation(self.setting, claim)

    def _renyi(self, order: float) -> float:
        return _closed(worst_renyi(self.setting, order), f"alpha={order}: the largest Renyi divergence")

    def _divergence(self, order: float) -> float:
        return worst_renyi(self.setting, order).upper

    def _enclosed_epsilon(self, delta: float) -> Enclosure:
        worst = worst_epsilon(self.setting, delta)
        return Enclosure(lower=worst.lower, upper=worst.upper)

    def _enclosed_delta(self, epsilon: float) -> Enclosure:
        worst = worst_delta(self.setting, epsilon)
        return Enclosure(lower=worst.lower, upper=worst.upper)

    def _profile_above(self, epsilon: float) -> Ball:
        if self._is_free_gaussian:
            return free_gaussian(self.query.sensitivity, self.noise.scale, epsilon)
        quick = self._quick_profile
        return ball(min(worst_delta(self.setting, epsilon).upper if quick is None else quick(epsilon), 1.0))

    def _known_pairs(self) -> tuple[PairProfile, PairProfile] | None:
        if self._is_free_gaussian:
            return None
        every = Claim(epsilon=0.0)
        first = finite_pair(self.setting, worst_delta(self.setting, 0.0).pair, every)
        second = finite_pair(self.setting, worst_loss(self.setting).pair, every)
        found = pair_profile(self.noise, self.shape, first)
        return found, found if second in (first, first[::-1]) else pair_profile(self.noise, self.shape, second)

    @property
    def _is_free_gaussian(self) -> bool:
        return self._is_mirrored and isinstance(self.query.range, Interval) and self.noise.gaussian

    @cached_property
    def _quick_profile(self) -> Callable[[float], float] | None:
        """Of Laplace noise truncated to the query's own bounded interval."""
        if not (self.noise.laplace and self.bounding is TRUNCATE and self.support == self.query.range):
            return None
        if not isinstance(self.support, Interval) or not self.support.bounded:
            return None
        return interval_profile(self.support.width / self.noise.scale, self.query.sensitivity / self.noise.scale)

    @property
    def _is_quick(self) -> bool:
        return not self.shape.normalised or self._quick_profile is not None

    @property
    def _is_mirrored(self) -> bool:
        return self.bounding is UNBOUNDED

    @property
    def _edge(self) -> float | None:
        # Beyond that, or twice that where the masses differ, only what the other law cannot cause is left.
        most = 2.0 if self.shape.normalised else 1.0
        return most * self.query.sensitivity / self.noise.scale * (1.0 + 1e-15) if self.noise.limited else None

    def _errors_at(self, true: Floats) -> Error[Floats]:
        found = moments(self.noise, self.shape, true)
        return Error(bias=found.bias, mae=found.mae, mse=found.mse)

    def _worst_error(self) -> Error[float]:
        if isinstance(self.query.range, Grid):
            return largest(self.error(self.query.range.points))
        return worst_error(self.noise, self.shape, self.query.range)

    def _average_error(self) -> Error[float]:
        if isinstance(self.query.range, Grid):
            return mean(self.error(self.query.range.points))
        return average_error(self.noise, self.shape, self.query.range)

    def _fisher(self, answer: npt.ArrayLike) -> float | Floats:
        found: float | Floats = fisher(self.law(answer))
        return found

    @overload
    def release(self, answer: One, *, step: float | None = None) -> float: ...

    @overload
    def release(
        self,
        answer: Many,
        *,
        step: float | None = None,
        out: Floats | None = None,
        threads: int = 1,
        progress: bool | None = None,
    ) -> Floats: ...

    def release(
        self,
        answer: npt.ArrayLike,
        *,
        step: float | None = None,
        out: Floats | None = None,
        threads: int = 1,
        progress: bool | None = None,
    ) -> float | Floats:
        """Publish: a number drawn exactly from the law at the true answer, one for each of an array.

        The law is rounded to a public lattice: the multiples of `step` inside the support, and its ends. By default the
        step is a power of two, at most 2^-20 of the scale; `step=1` suits counts and `step=0.01` money. A Grid is its
        own lattice. `out` takes the numbers of an array, `threads` draws in parallel, and `progress` shows a bar (by
        default on a terminal, when it takes long).

        Guarantee: distributed exactly as the law, rounded; so every privacy number of the mechanism holds for the
        very doubles that are published. The random bits come from the operating system, and no call takes a seed.
        Assumes: each true answer is published once: a second draw is a second release.
        Edge cases: an answer outside the query's range is clipped to it; NaN, infinities and anything but numbers are
        refused before anything is drawn. So are numbers that are not doubles, since rounding them first would multiply
        the sensitivity: long doubles with more digits, and integers beyond 2^53 unless the range ends before that.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> 0.0 <= m.release(42.0) <= 100.0
        True
        >>> bool((m.release([1.0, 2.0, 99.0], step=1) % 1 == 0).all())
        True
        """
        sampler = self._sampler(step)
        found: float | Floats = sampling.release(sampler, answer, out=out, threads=threads, progress=progress)
        return found

    @overload
    def confidence_interval(
        self, published: One, level: float = 0.95, *, step: float | None = None
    ) -> tuple[float, float]: ...

    @overload
    def confidence_interval(
        self, published: Many, level: float = 0.95, *, step: float | None = None
    ) -> tuple[Floats, Floats]: ...

    def confidence_interval(
        self, published: npt.ArrayLike, level: float = 0.95, *, step: float | None = None
    ) -> tuple[float, float] | tuple[Floats, Floats]:
        """An interval for the true answer, given the published number (or a pair of arrays, given an array).

        It holds every true answer q that makes neither P_q(Y >= published) nor P_q(Y <= published) less than
        (1 - level)/2, where Y is what `release` publishes with this `step`.

        Guarantee: covers each true answer, the ends of the range included, with probability at least `level`; inside
        the query's range; rounded outwards.
        Edge cases: a number that is rare for every answer in the range gives a single point. An end is infinite where
        the range is and the published number says nothing about it. A number that is never published (beyond the
        support, in a gap of a union, between the points of a grid) is refused.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> lower, upper = m.confidence_interval(1.0)
        >>> lower, round(upper, 2)
        (0.0, 5.2)
        """
        share, numbers = arguments.probability("level", level), arguments.reals("published", published)
        low, high = self._interval(numbers, share, step)
        return (low, high) if numbers.ndim else (low.item(), high.item())

    def _interval(self, numbers: Floats, level: float, step: float | None = None) -> tuple[Floats, Floats]:
        assert self.support is not None
        numbers = published_numbers(self.support, numbers)
        half = self._sampler(step).half_step + float(np.spacing(np.abs(numbers).max(initial=0.0)))
        return confidence_interval(self.noise, self.shape, self.query.spread, numbers, level, half)

    @cached_property
    def _samplers(self) -> dict[float | None, sampling.Sampler]:
        return {}

    def _sampler(self, step: float | None) -> sampling.Sampler:
        key = None if step is None else arguments.positive("step", step)
        found = self._samplers.get(key)
        if found is None:
            found = self._samplers[key] = sampling.sampler_for(self.noise, self.shape, self.query, key)
        return found

    @property
    def spikes(self) -> bool:
        """Whether the ends of the range collect all that fell beyond them, as they do under clamping and rounding."""
        return bool(self.shape.cells)

    def _plain(self) -> dict[str, object]:
        assert self.support is not None
        return {
            "noise": {"family": self.noise.name, **vars(self.noise)},
            "query": {"range": support_to_dict(self.query.range), "sensitivity": self.query.sensitivity},
            "support": support_to_dict(self.support),
            "bounding": self.bounding.value,
        }

    @classmethod
    def _from_plain(cls, data: Mapping[str, object]) -> Self | None:
        match data:
            case {
                "noise": {"family": str(name), **parameters},
                "query": {"range": answers, "sensitivity": sensitivity, **more},
                "support": support,
                "bounding": str(bound),
                **rest,
            } if not (more or rest) and name in FAMILIES and bound in (each.value for each in Bounding):
                values = {str(key): value for key, value in parameters.items()}
                family: Callable[..., Noise] = FAMILIES[name]
                if {each.name for each in fields(FAMILIES[name])} == set(values):  # type: ignore[arg-type]
                    return cls(
                        noise=family(**values),
                        query=Query(range=support_from_dict(answers), sensitivity=sensitivity),
                        support=support_from_dict(support),
                        bounding=Bounding(bound),
                    )
        return None


def describe_noise(noise: Noise) -> str:
    """Noise in a few words.

    >>> import rangebound as rb
    >>> describe_noise(rb.Laplace(scale=2.0))
    'Laplace, scale 2'
    """
    return f"{type(noise).__name__}, scale {noise.scale:.4g}"


def describe_kind(bounding: Bounding, family: type[Noise]) -> str:
    """The kind of a mechanism in words, without its scale, as plans and rankings name it.

    >>> import rangebound as rb
    >>> describe_kind(rb.TRUNCATE, rb.Laplace)
    'truncate Laplace'
    """
    return f"{bounding.value} {family.__name__}"


def _closed(worst: Worst, what: str) -> float:
    """The upper end of an enclosure that is as narrow as promised; an open one is never published as if it were."""
    if worst.closed:
        return worst.upper
    raise Undecided(
        f"{what} was not found to the promised {WIDTH:g}. It is proved to lie between {worst.lower} and "
        f"{worst.upper}; the upper end (the attribute `upper` of this error) is a guarantee that holds",
        lower=worst.lower,
        upper=worst.upper,
    )
