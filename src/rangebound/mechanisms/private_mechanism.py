"""What every mechanism answers: its errors, its Renyi curve, its plain data, and what accountants ask of it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import fields
from types import NoneType
from typing import TYPE_CHECKING, Self, overload

from rangebound.errors import ArgumentError, ClaimFalse, Undecided
from rangebound.laws.error import Error
from rangebound.privacy.attack_risk import MechanismRisk
from rangebound.privacy.proof import Proof
from rangebound.privacy.setting import Claim
from rangebound.privacy.tradeoff_curve import PairProfile, mirrored
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Many, One, np, npt
from rangebound.values.ball import ZERO, Ball, ball
from rangebound.values.data_frames import as_html
from rangebound.values.numeric import Enclosure
from rangebound.values.support import Query


class PrivateMechanism(MechanismRisk):
    """What all mechanisms have in common.

    An accountant asks for an upper bound on the profile over all pairs and for the profiles of single pairs. Where a
    mechanism says nothing of its own, the first is its delta, and nothing is known to be leaked.
    """

    if TYPE_CHECKING:  # fields of the mechanisms, some of them properties

        @property
        def query(self) -> Query: ...

        @property
        def claim(self) -> Claim | None: ...

    def _repr_html_(self) -> str:
        parts = {each.name: getattr(self, each.name) for each in fields(self) if each.repr}  # type: ignore[arg-type]
        shown = {
            name: f"{len(each)} from {each[0]} to {each[-1]}" if isinstance(each, tuple) else each
            for name, each in parts.items()
            if not isinstance(each, np.ndarray | NoneType)
        }
        return as_html(type(self).__name__, {**shown, "claim": self.claim or "none"})

    def with_claim(self, claim: Claim | None) -> Self:
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

    def epsilon(self, delta: float = 0.0) -> float:
        """The smallest epsilon that holds with this delta for all neighbouring datasets.

        Guarantee: never below the true value. Of continuous noise it is at most 1e-6 (usually 1e-9) relative above, on
        a lattice less than 1e-12; of a table it is exact, and rounded up. Of a remap it is that of the base, which
        holds for every function of what it publishes.
        Assumes: the query's sensitivity is true.
        Edge cases: Gaussian noise on an unbounded support has no pure epsilon: it is `inf`. So it is where a neighbour
        can publish what an answer cannot, with more than the probability delta. On a lattice it is sensitivity / scale
        without a delta, and 0 where the delta is at least the total variation distance. Where the search for the worst
        pair does not converge, `Undecided` is raised with what is proved.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.epsilon(), 4), round(m.epsilon(delta=1e-3), 4)
        (0.8318, 0.7872)
        >>> m = rb.Staircase.calibrated(query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0), epsilon=1.0)
        >>> m.epsilon(), round(m.epsilon(delta=0.1), 4)
        (1.0, 0.846)
        """
        return self._epsilon(arguments.probability("delta", delta))

    def delta(self, epsilon: float) -> float:
        """The privacy profile: the smallest delta that holds with this epsilon for all neighbouring datasets.

        delta(epsilon) = sup over pairs of sup over sets A of P(A) - e^epsilon Q(A).

        Of staircase noise, delta(epsilon) = M (1 - e^(epsilon - sensitivity / scale)), where M is the probability of a
        privacy loss of sensitivity / scale: the loss of the worst pair is that, its negative, or zero. Of discrete
        Laplace noise, with r = e^(-1/scale), d the sensitivity and k the largest whole number below
        (d - epsilon scale) / 2: delta(epsilon) = 1 - (r^(k + 1) + e^epsilon r^(d - k)) / (1 + r).

        Guarantee: never below the true value. Of continuous noise it is at most 1e-6 (usually 1e-9) relative above; on
        a lattice the true value is attained whatever the support, and it is less than 1e-12 above; of a table it is
        exact, and rounded up. Of a remap it is that of the base, which holds for every function of what it publishes.
        Assumes: the query's sensitivity is true.
        Edge cases: 0 from the pure epsilon on. Where the search for the worst pair does not converge, `Undecided` is
        raised with what is proved.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.delta(0.5), 4), m.delta(1.0)
        (0.0468, 0.0)
        >>> round(rb.DiscreteLaplace(scale=2.0).delta(0.25), 6), rb.DiscreteLaplace(scale=2.0).delta(0.5)
        (0.137688, 0.0)
        """
        return self._delta(arguments.nonnegative("epsilon", epsilon))

    @overload
    def rdp(self, alpha: float) -> float: ...

    @overload
    def rdp(self, alpha: Sequence[float] | Floats) -> Floats: ...

    def rdp(self, alpha: float | Sequence[float] | Floats) -> float | Floats:
        """The Renyi curve: the largest divergence of order `alpha` (one or an array) over all neighbouring datasets.

        Of staircase noise, with M as for `delta` and epsilon = sensitivity / scale, it is
        ln(1 + M (e^((alpha - 1) epsilon) - 1) + M e^-epsilon (e^(-(alpha - 1) epsilon) - 1)) / (alpha - 1). Of discrete
        Laplace noise, with r = e^(-1/scale), q = r^(2 alpha - 1) and d the sensitivity, e^((alpha - 1) divergence) is

            (r^((1 - alpha) d) (1 + (1 - r) (q - q^d) / (1 - q)) + r^(alpha d)) / (1 + r).

        Guarantee: never below the true value. Of continuous noise it is at most 1e-6 (usually 1e-9) relative above; on
        a lattice less than 1e-12 above, and every support as wide as the sensitivity attains it; in a table it is above
        by rounding alone, about 1e-13. Of a remap it is that of the base, which bounds that of every function of what
        it publishes.
        Assumes: the query's sensitivity is true.
        Edge cases: order inf is the pure epsilon; orders of 1 and below are refused. Where the search for the worst
        pair does not converge, `Undecided` is raised with what is proved.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> m.rdp([2.0, 8.0]).round(4).tolist()
        [0.2038, 0.5185]
        >>> rb.DiscreteLaplace(scale=2.0).rdp([2.0, 8.0]).round(4).tolist()
        [0.2273, 0.4324]
        """
        return arguments.at_orders(alpha, self._renyi)

    @overload
    def fisher(self, answer: One) -> float: ...

    @overload
    def fisher(self, answer: Many) -> Floats: ...

    def fisher(self, answer: npt.ArrayLike) -> float | Floats:
        """Fisher information of the published number about the true answer, at `answer` (one or an array).

        It is the variance of the slope of the log-density in the true answer. A law on a lattice has no slope, so there
        it is that of Hammersley, Chapman and Robbins: chi^2 / D^2, where chi^2 is the divergence from the law at an
        answer D away: the next whole number for discrete Laplace noise, one sensitivity for staircase noise. An
        unbiased estimate of an answer on the lattice has a variance of at least its inverse; off it there is no such
        estimate.

        Guarantee: rounded up; clamping only makes it smaller. Of a remap it is that of the base's number, which no
        function of it exceeds.
        Assumes: nothing about the data; it is about one answer, private itself, and no guarantee for anyone.
        Edge cases: `inf` where the output shows an edge that moves with the true answer. A `Table` refuses: its law is
        the same all over the cell of an input, and jumps from one cell to the next. What it reveals about the true
        answer, per unit of distance, is `chapman_robbins`.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.fisher(50.0), 4)
        0.25
        >>> round(rb.DiscreteLaplace(scale=2.0).fisher(3), 4)
        0.2553
        """
        return self._fisher(answer)

    @overload
    def error(self, answer: One) -> Error[float]: ...

    @overload
    def error(self, answer: Many) -> Error[Floats]: ...

    def error(self, answer: npt.ArrayLike) -> Error[float] | Error[Floats]:
        """Bias, mean absolute and mean squared error of the published number at a true answer (one or an array).

        Edge cases: an answer outside the query's range is clipped to it, and the errors are those of the clipped one;
        only a `DiscreteLaplace` has those of the answer itself. One between two inputs of a table has the errors of its
        own distance, not those at the input that it goes to.

        >>> import math, rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> m.error(0.0)
        Error(bias=2.0, mae=2.0, mse=8.0)
        >>> m = rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, math.inf))
        >>> m.error([0, 10]).mae.round(4).tolist()
        [0.4255, 0.8509]
        """
        true = self._true(answer)
        found = self._errors_at(true)
        if true.ndim:
            return found
        return Error(bias=float(found.bias), mae=float(found.mae), mse=float(found.mse))

    def worst_error(self) -> Error[float]:
        """The largest bias, mean absolute and mean squared error over the query's range, each on its own.

        Inside a cell of a lattice, or of the input of a table, the errors are convex in the true answer: so they are
        largest at an end of a cell (which may itself go to the next one).

        Guarantee: of continuous noise attained at some answer, to 1e-9 of the scale; with cells, the supremum over all
        true answers of the range, to round-off. Where a lattice has over 100,000 cells (or whole answers) they are
        looked at near the ends, in the middle and at equal distances between; and of a remap of continuous noise the
        largest errors at 2001 answers are taken.
        Edge cases: infinite where the range is and the support is not; of a table, infinite where the range is.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.worst_error().mae, 6)
        2.0
        >>> round(rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, 100)).worst_error().mae, 4)
        0.8509
        """
        return self._worst_error()

    def average_error(self) -> Error[float]:
        """The errors averaged over a true answer that is uniform on the query's range; the bias in absolute value.

        Guarantee: of a table integrals in closed form, to round-off; of a remap the midpoint rule; on a grid the mean
        over its points.
        Edge cases: a range that is not bounded has no such average and is refused.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
        >>> round(m.average_error().mae, 4)
        1.9534
        """
        return self._average_error()

    @overload
    def confidence_interval(self, published: One, level: float = 0.95) -> tuple[float, float]: ...

    @overload
    def confidence_interval(self, published: Many, level: float = 0.95) -> tuple[Floats, Floats]: ...

    def confidence_interval(
        self, published: npt.ArrayLike, level: float = 0.95
    ) -> tuple[float, float] | tuple[Floats, Floats]:
        """An interval for the true answer, given the published number (or a pair of arrays, given an array).

        Of noise on a lattice it has the answers from which the noise reaches the number with probability `level`. Of a
        table or a remap it runs from the first to the last answer that makes neither P(Y >= published) nor
        P(Y <= published) less than (1 - level)/2: over the cells of all such inputs, and of those between them. Where a
        remap's base does not round answers to cells, both are bounded by what rises and falls with the answer, and
        looked at in 2001 answers: then the interval is a little wider than it need be.

        Guarantee: covers each true answer of the query's range with probability at least `level`; inside the hull of
        the range; rounded outwards. A true answer outside the support of a `DiscreteLaplace` is covered once moved to
        its nearest end.
        Edge cases: an output of a table that is rare under every input gives a single point; a value of a remap that is
        rare at every answer, the whole range. A number that is never published by them is refused, and so is a remap
        over a range that is not bounded.

        >>> import rangebound as rb
        >>> rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, 50)).confidence_interval(2.0)
        (0.0, 5.0)
        >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
        >>> rb.Staircase.calibrated(query=query, epsilon=1.0, step=0.25).confidence_interval(1.0)
        (0.0, 4.125)
        >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> m = rb.Table(query=count, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])
        >>> m.confidence_interval(1.0), m.confidence_interval(1.0, level=0.4)
        ((0.0, 1.0), (0.5, 1.0))
        >>> m = rb.remap(rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, 20)), at="average")
        >>> m.confidence_interval(10.0)
        (7.0, 13.0)
        """
        share, numbers = arguments.probability("level", level), arguments.reals("published", published)
        lower, upper = self._interval(numbers, share)
        return (lower, upper) if numbers.ndim else (lower.item(), upper.item())

    def to_dict(self) -> dict[str, object]:
        """The mechanism as plain data, for JSON or TOML; its claim is there if it has one.

        The weights of a table are little-endian 64-bit words in base64, row after row.

        >>> import rangebound as rb
        >>> m = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0))
        >>> rb.Mechanism.from_dict(m.to_dict()) == m
        True
        """
        return {**self._plain(), **({} if self.claim is None else {"claim": self.claim.to_dict()})}

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Self:
        """The mechanism that `to_dict` wrote; a missing, unknown or invalid field is refused.

        Edge cases: data without a claim is a mechanism without one. A claim is read, not proved: see
        `rangebound.certify`.
        """
        match data:
            case {**plain}:
                claim = [plain.pop("claim")] if "claim" in plain else []
                found = cls._from_plain(plain)
                if found is not None:
                    return found.with_claim(Claim.from_dict(*claim)) if claim else found
        raise ArgumentError(f"data={arguments.shown(data)}: must be what {cls.__name__}.to_dict writes")

    def _true(self, answer: npt.ArrayLike) -> Floats:
        """True answers as they are published; others are refused."""
        return self.query.clip(answer)

    @abstractmethod
    def _epsilon(self, delta: float) -> float: ...

    @abstractmethod
    def _delta(self, epsilon: float) -> float: ...

    @abstractmethod
    def _fisher(self, answer: npt.ArrayLike) -> float | Floats: ...

    @abstractmethod
    def _renyi(self, order: float) -> float:
        """The largest Renyi divergence of one order, rounded up."""

    @abstractmethod
    def _errors_at(self, true: Floats) -> Error[Floats]:
        """The errors at true answers."""

    @abstractmethod
    def _worst_error(self) -> Error[float]: ...

    @abstractmethod
    def _average_error(self) -> Error[float]: ...

    @abstractmethod
    def _interval(self, numbers: Floats, level: float) -> tuple[Floats, Floats]:
        """The ends of the intervals for published numbers."""

    @abstractmethod
    def _plain(self) -> dict[str, object]:
        """The mechanism without its claim as plain data."""

    @classmethod
    @abstractmethod
    def _from_plain(cls, data: Mapping[str, object]) -> Self | None:
        """The mechanism that `_plain` wrote; None of data of another form."""

    @abstractmethod
    def _words(self) -> str:
        """The mechanism in a few words."""

    @abstractmethod
    def _worst_answers(self, claim: Claim) -> tuple[float, float]:
        """The neighbouring answers with the largest privacy loss at a claim."""

    @abstractmethod
    def _prove(self, claim: Claim) -> Proof | None:
        """A proof of a claim, or None where none was found."""

    @abstractmethod
    def _check_proof(self, claim: Claim, proof: Proof) -> None:
        """Evaluate a proof again; raises CertificateInvalid where it does not prove the claim."""

    @abstractmethod
    def _refutation(self, claim: Claim) -> ClaimFalse | Undecided:
        """What to raise about a claim that was not proved."""

    def _divergence(self, order: float) -> float:
        """The same as `_renyi`, also where a search did not converge: then it is larger than it need be."""
        return self._renyi(order)

    def _enclosed(self, value: float) -> Enclosure:
        """A privacy number that was rounded up, and what some pair is known to need."""
        return Enclosure(lower=0.0, upper=value)

    def _enclosed_epsilon(self, delta: float) -> Enclosure:
        """The epsilon of one use at delta."""
        return self._enclosed(self.epsilon(delta))

    def _enclosed_delta(self, epsilon: float) -> Enclosure:
        """The delta of one use at epsilon."""
        return self._enclosed(self.delta(epsilon))

    def _profile_above(self, epsilon: float) -> Ball:
        """An upper bound on the profile over all pairs, at an epsilon from 0 to below the pure one."""
        return ball(self.delta(epsilon))

    def _known_pairs(self) -> tuple[PairProfile, PairProfile] | None:
        """The exact profiles of two pairs: the farthest apart, and the one with the largest privacy loss.

        None where one pair is the worst at every epsilon: its profile is `_profile_above`.
        """
        return (nothing, nothing)

    @property
    def _is_quick(self) -> bool:
        """Whether a value of the profile takes less than a millisecond."""
        return True

    @property
    def _is_mirrored(self) -> bool:
        """Whether every pair is its own mirror image."""
        return False

    @property
    @abstractmethod
    def _edge(self) -> float | None:
        """Where one answer can cause what a neighbour cannot, an upper bound on all losses that are finite; else None.

        No kind has None unless it says so: accountants look for an end of the profile that an edge never lets it reach.
        """


nothing = mirrored(lambda _: ZERO)
"""The profile of two equal laws: what is known to be leaked where no pair is."""


def largest(*found: Error[Floats]) -> Error[float]:
    """The largest of each error, the bias in absolute value."""
    return Error(
        bias=max(float(np.abs(each.bias).max()) for each in found),
        mae=max(float(each.mae.max()) for each in found),
        mse=max(float(each.mse.max()) for each in found),
    )


def mean(found: Error[Floats]) -> Error[float]:
    """The mean of each error, the bias in absolute value."""
    return Error(bias=float(np.abs(found.bias).mean()), mae=float(found.mae.mean()), mse=float(found.mse.mean()))
