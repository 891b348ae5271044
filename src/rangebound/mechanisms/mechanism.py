"""A mechanism: noise, support, bounding and query in one value. Its methods ask the rooms below."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from rangebound import sampling
from rangebound.errors import ArgumentError, ClaimFalse, Undecided
from rangebound.laws import boundings as bounding
from rangebound.laws.boundings import TRUNCATE, UNBOUNDED, Bounding
from rangebound.laws.confidence import confidence_interval
from rangebound.laws.distribution import Law
from rangebound.laws.error import Error, average_error, error_at, worst_error
from rangebound.laws.families import FAMILIES
from rangebound.laws.family import Noise
from rangebound.laws.shape import Shape
from rangebound.mechanisms.refutation import refutation
from rangebound.privacy.claim import Claim
from rangebound.privacy.counterexample import finite_pair
from rangebound.privacy.pairs.divergences import fisher
from rangebound.privacy.proof import Proof, check, prove
from rangebound.privacy.risk import MechanismRisk, PairProfile
from rangebound.privacy.setting import Setting
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
from rangebound.values.array_types import Floats, Many, One
from rangebound.values.ball import ball, up
from rangebound.values.query import Query
from rangebound.values.serial import support_from_dict, support_to_dict
from rangebound.values.support import Grid, Interval, Support, Union, published_numbers


@arguments.guided
@dataclass(frozen=True, kw_only=True)
class Mechanism(MechanismRisk):
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

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon that holds with this delta for all neighbouring datasets.

        Guarantee: never below the true value, at most 1e-6 (usually 1e-9) relative above; `inf` where there is none.
        Assumes: the query's sensitivity is true.
        Edge cases: Gaussian noise on an unbounded support has no pure epsilon. Where the search for the worst pair does
        not converge, `Undecided` is raised with what is proved.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.epsilon(), 4), round(m.epsilon(delta=1e-3), 4)
        (0.8318, 0.7872)
        """
        delta = arguments.probability("delta", delta)
        return _closed(worst_epsilon(self.setting, delta), f"delta={delta}: the smallest epsilon")

    def delta(self, epsilon: float) -> float:
        """The privacy profile: the smallest delta that holds with this epsilon for all neighbouring datasets.

        delta(epsilon) = sup over pairs of sup over sets A of P(A) - e^epsilon Q(A).

        Guarantee: never below the true value, at most 1e-6 (usually 1e-9) relative above.
        Assumes: the query's sensitivity is true.
        Edge cases: 0 from the pure epsilon on. Where the search for the worst pair does not converge, `Undecided` is
        raised with what is proved.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.delta(0.5), 4), m.delta(1.0)
        (0.0468, 0.0)
        """
        epsilon = arguments.nonnegative("epsilon", epsilon)
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
        """The mechanism in a few words."""
        return describe(self)

    def _prove(self, claim: Claim) -> Proof | None:
        """A proof of a claim, or None where none was found."""
        return prove(self.setting, claim)

    def _check_proof(self, claim: Claim, proof: Proof) -> None:
        """Evaluate a proof again; raises CertificateInvalid where it does not prove the claim."""
        check(self.setting, claim, proof)

    def _refutation(self, claim: Claim) -> ClaimFalse | Undecided:
        """What to raise about a claim that was not proved."""
        return refutation(self.setting, claim)

    @overload
    def rdp(self, alpha: float) -> float: ...

    @overload
    def rdp(self, alpha: Sequence[float] | Floats) -> Floats: ...

    def rdp(self, alpha: float | Sequence[float] | Floats) -> float | Floats:
        """The Renyi curve: the largest divergence of order `alpha` (one or an array) over all neighbouring datasets.

        Guarantee: never below the true value, at most 1e-6 (usually 1e-9) relative above.
        Assumes: the query's sensitivity is true.
        Edge cases: order inf is the pure epsilon; orders of 1 and below are refused. Where the search for the worst
        pair does not converge, `Undecided` is raised with what is proved.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> m.rdp([2.0, 8.0]).round(4).tolist()
        [0.2038, 0.5185]
        """
        if isinstance(alpha, (list, tuple)) or (isinstance(alpha, np.ndarray) and alpha.ndim):
            orders = arguments.reals("alpha", alpha, infinite=True)
            return np.asarray([self.rdp(each) for each in orders.reshape(-1).tolist()]).reshape(orders.shape)
        order = arguments.order("alpha", alpha.item() if isinstance(alpha, np.ndarray) else alpha)
        return _closed(worst_renyi(self.setting, order), f"alpha={order}: the largest Renyi divergence")

    @overload
    def fisher(self, answer: One) -> float: ...

    @overload
    def fisher(self, answer: Many) -> Floats: ...

    def fisher(self, answer: npt.ArrayLike) -> float | Floats:
        """Fisher information of the published number about the true answer, at `answer` (one or an array).

        It is the variance of the slope of the log-density in the true answer.

        Guarantee: rounded up.
        Assumes: nothing about the data; it is about one answer, private itself, and no guarantee for anyone.
        Edge cases: `inf` where the output shows an edge that moves with the true answer.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.fisher(50.0), 4)
        0.25
        """
        found: float | Floats = fisher(self.law(answer))
        return found

    @overload
    def error(self, answer: One) -> Error[float]: ...

    @overload
    def error(self, answer: Many) -> Error[Floats]: ...

    def error(self, answer: npt.ArrayLike) -> Error[float] | Error[Floats]:
        """Bias, mean absolute and mean squared error of the published number at a true answer (one or an array).

        Edge cases: an answer outside the query's range is clipped to it, and the errors are those of the clipped one.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> m.error(0.0)
        Error(bias=2.0, mae=2.0, mse=8.0)
        """
        return error_at(self.noise, self.shape, self.query.clip(answer))

    def worst_error(self) -> Error[float]:
        """The largest bias, mean absolute and mean squared error over the query's range, each on its own.

        Guarantee: attained at some answer, to 1e-9 of the scale.
        Edge cases: infinite where the range is and the support is not.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.worst_error().mae, 6)
        2.0
        """
        if isinstance(self.query.range, Grid):
            found = self.error(self.query.range.points)
            return Error(bias=float(np.abs(found.bias).max()), mae=float(found.mae.max()), mse=float(found.mse.max()))
        return worst_error(self.noise, self.shape, self.query.range)

    def average_error(self) -> Error[float]:
        """The errors averaged over a true answer that is uniform on the query's range.

        Edge cases: a range that is not bounded has no such average and is refused.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.average_error().mae, 4)
        1.9534
        """
        if isinstance(self.query.range, Grid):
            found = self.error(self.query.range.points)
            return Error(
                bias=float(np.abs(found.bias).mean()), mae=float(found.mae.mean()), mse=float(found.mse.mean())
            )
        return average_error(self.noise, self.shape, self.query.range)

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
        share = arguments.probability("level", level)
        assert self.support is not None
        numbers = published_numbers(self.support, arguments.reals("published", published))
        half = self._sampler(step).half_step + float(np.spacing(np.abs(numbers).max(initial=0.0)))
        low, high = confidence_interval(self.noise, self.shape, self.query.spread, numbers, share, half)
        return (low, high) if numbers.ndim else (low.item(), high.item())

    @cached_property
    def _samplers(self) -> dict[float | None, sampling.Sampler]:
        return {}

    def _sampler(self, step: float | None) -> sampling.Sampler:
        key = None if step is None else arguments.positive("step", step)
        found = self._samplers.get(key)
        if found is None:
            found = self._samplers[key] = sampling.sampler_for(self.noise, self.shape, self.query, key)
        return found

    def with_claim(self, claim: Claim | None) -> Mechanism:
        """The same mechanism with another claim, or with none.

        Guarantee: none; a claim is proved by `rangebound.certify(m)` alone.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
        >>> print(m.claim, m.with_claim(rb.Claim(epsilon=1.0)).claim)
        None (1, 0)-differential privacy
        """
        if claim is not None:
            arguments.instance("claim", claim, Claim, "a Claim, such as rb.Claim(epsilon=1.0), or None")
        found = copy(self)
        object.__setattr__(found, "claim", claim)
        return found

    @property
    def spikes(self) -> bool:
        """Whether the ends of the range collect all that fell beyond them, as they do under clamping and rounding."""
        return bool(self.shape.cells)

    def to_dict(self) -> dict[str, object]:
        """The mechanism as plain data, for JSON or TOML; its claim is there if it has one.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0))
        >>> rb.Mechanism.from_dict(m.to_dict()) == m
        True
        """
        assert self.support is not None
        return {
            "noise": {"family": self.noise.name, **vars(self.noise)},
            "query": {"range": support_to_dict(self.query.range), "sensitivity": self.query.sensitivity},
            "support": support_to_dict(self.support),
            "bounding": self.bounding.value,
            **({} if self.claim is None else {"claim": self.claim.to_dict()}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Mechanism:
        """The mechanism that `to_dict` wrote; a missing, unknown or invalid field is refused.

        Edge cases: data without a claim is a mechanism without one. A claim is read, not proved: see
        `rangebound.certify`.
        """
        match data:
            case {
                "noise": {"family": str(name), **parameters},
                "query": {"range": answers, "sensitivity": sensitivity, **more},
                "support": support,
                "bounding": str(bound),
                **rest,
            } if (
                not (more or rest.keys() - {"claim"})
                and name in FAMILIES
                and bound in (each.value for each in Bounding)
            ):
                values = {str(key): value for key, value in parameters.items()}
                family: Callable[..., Noise] = FAMILIES[name]
                if {each.name for each in fields(FAMILIES[name])} == set(values):  # type: ignore[arg-type]
                    found = cls(
                        noise=family(**values),
                        query=Query(range=support_from_dict(answers), sensitivity=sensitivity),
                        support=support_from_dict(support),
                        bounding=Bounding(bound),
                    )
                    return found.with_claim(Claim.from_dict(rest["claim"])) if "claim" in rest else found
        raise ArgumentError(f"data={arguments.shown(data)}: must be what Mechanism.to_dict writes")


def describe(mechanism: Mechanism) -> str:
    """A mechanism in a few words, as tables, pictures and the command line show it.

    >>> import rangebound as rb
    >>> describe(rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 9), sensitivity=1.0)))
    'truncate Laplace, scale 2'
    """
    return f"{mechanism.bounding.value} {describe_noise(mechanism.noise)}"


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
