"""Noise on a lattice: what discrete Laplace and staircase noise share. The noise itself is a `StairNoise`."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction

from flint import arb

from rangebound.errors import ArgumentError, ArgumentTypeError, CertificateInvalid, ClaimFalse, Undecided
from rangebound.laws.atomic_law import LatticeLaw
from rangebound.laws.error import Error
from rangebound.mechanisms.private_mechanism import PrivateMechanism, largest, nothing
from rangebound.mechanisms.stair_noise import Bits, StairNoise, StairSums
from rangebound.privacy.proof import Proof, Theorem, safe_digits
from rangebound.privacy.setting import Claim, Notion
from rangebound.privacy.tradeoff_curve import PairProfile, mirrored
from rangebound.sampling.entropy import secure_bits
from rangebound.values import arguments
from rangebound.values.array_types import Floats, np, npt
from rangebound.values.ball import ZERO, Ball, ball, down, refine, up
from rangebound.values.numeric import Enclosure, rounded_down
from rangebound.values.support import Grid, Interval, is_line

_UNSEEN = 1e-20  # probability that a law leaves out on an unbounded lattice
_MOST_POINTS = 1 << 22
_PROOF = Proof(Theorem.LATTICE_PAIR, 128)
MOST_ANSWERS = 100_000
"""More true answers than this, or cells of them, are not looked at one by one."""
_NODE = 0.5 / math.sqrt(3.0)
NODES = 0.5 - _NODE, 0.5 + _NODE
"""The two nodes of Gauss and Legendre, exact for a parabola."""


class LatticeMechanism(PrivateMechanism):
    """A true answer goes to a point of a lattice, whole steps of noise are added, and the ends of the support clamp.

    Points are numbered. A subclass says which one an answer goes to and what is published for a point.

    Guarantee: all privacy numbers are those of the two answers that are as far apart as neighbours can be, exact and
    rounded to the safe side; clamping is post-processing.
    """

    scale: float
    support: Interval | Grid | None

    @property
    @abstractmethod
    def _stairs(self) -> StairNoise:
        """The noise in steps, and how many levels of it neighbours are apart."""

    @property
    @abstractmethod
    def _ends(self) -> tuple[float, float]:
        """The numbers of the first and the last point that is published, or infinity."""

    @abstractmethod
    def _index(self, answer: float) -> int:
        """The number of the point that a true answer goes to, exactly."""

    @abstractmethod
    def _label(self, index: int) -> float:
        """The number that is published for a point: clamped, and rounded to a double at the end."""

    @abstractmethod
    def _place(self, published: float) -> int | None:
        """The number of the point for which a number is published; None where it never is."""

    @abstractmethod
    def _errors(self, true: Floats, index: Floats) -> Error[Floats]:
        """The errors at answers that go to the points of these numbers."""

    @abstractmethod
    def _extremes(self) -> tuple[Floats, Floats]:
        """Answers with the largest errors, and the numbers of their points."""

    @abstractmethod
    def _nodes(self) -> tuple[Floats, Floats, Floats]:
        """Answers (the nodes of each part of the range on the first axis), their points, and weights of an average."""

    @abstractmethod
    def worst_pair(self) -> tuple[float, float] | None:
        """Two neighbouring true answers with the largest privacy loss."""

    @property
    def sums(self) -> StairSums:
        """Masses and tails of the noise, in steps."""
        return self._stairs.sums

    @property
    def exact_epsilon(self) -> Fraction:
        """The pure epsilon, sensitivity / scale.

        >>> import rangebound as rb
        >>> rb.DiscreteLaplace(scale=2.0).exact_epsilon
        Fraction(1, 2)
        """
        return self._stairs.pure

    @property
    def spikes(self) -> bool:
        """Whether the ends of the support collect all that fell beyond them: everywhere but on the whole line."""
        assert self.support is not None
        return not is_line(self.support)

    def _epsilon(self, delta: float) -> float:
        return self._stairs.epsilon(delta)

    def _delta(self, epsilon: float) -> float:
        return self._stairs.delta(epsilon)

    def profile(self, epsilon: Ball) -> Ball:
        """The privacy profile as a ball, for an epsilon between 0 and sensitivity / scale that is one number."""
        return self._stairs.profile(epsilon)

    def is_private(self, epsilon: float) -> bool:
        """Whether it is epsilon-private, exactly.

        >>> import rangebound as rb
        >>> m = rb.DiscreteLaplace(scale=10.0)
        >>> m.is_private(0.1), m.is_private(0.09)  # the double 0.1 is above a tenth
        (True, False)
        """
        return self.exact_epsilon <= Fraction(arguments.nonnegative("epsilon", epsilon))

    def _renyi(self, order: float) -> float:
        return self._stairs.divergence(order)

    def _enclosed(self, value: float) -> Enclosure:
        attained = 0.0 if self.worst_pair() is None else 1.0 - 1e-12
        return Enclosure(lower=value * attained if value else 0.0, upper=value)

    def _profile_above(self, epsilon: float) -> Ball:
        return self.profile(ball(epsilon))

    def _known_pairs(self) -> tuple[PairProfile, PairProfile] | None:
        return (nothing, nothing) if self.worst_pair() is None else None

    @property
    def _edge(self) -> float | None:
        return None  # the noise reaches every point of the lattice

    def _holds(self, claim: Claim) -> bool:
        """Whether a claim is proved by the closed form of the worst pair: in fractions if it is pure, else in balls."""
        if claim.notion is Notion.METRIC:
            return False
        return self.is_private(claim.epsilon) or 0.0 < claim.delta >= self.delta(claim.epsilon)

    def _prove(self, claim: Claim) -> Proof | None:
        return _PROOF if self._holds(claim) else None

    def _check_proof(self, claim: Claim, proof: Proof) -> None:
        if proof != _PROOF:
            raise CertificateInvalid(f"theorem={proof.theorem.name}: does not apply to this mechanism and claim")
        if not self._holds(claim):
            raise CertificateInvalid(f"{claim.terms}: not proved by this certificate")

    def _refutation(self, claim: Claim) -> ClaimFalse | Undecided:
        if claim.notion is Notion.METRIC:
            raise ArgumentError(
                f"{claim.terms}: not claimed of noise on a lattice, where answers are rounded: two that are as close "
                "as you like may be a step apart"
            )
        pair, enough = self.worst_pair(), self.epsilon(claim.delta)
        if pair is None:
            return Undecided(
                f"{claim.terms}: not proved; epsilon={safe_digits(enough)} holds. The range has no two neighbouring "
                "answers whose lattice points are farthest apart, so a smaller one may hold too",
                lower=0.0,
                upper=enough,
            )
        least = rounded_down(self.exact_epsilon) if claim.pure else enough * (1.0 - 1e-12)
        missing = max(down(refine(lambda: self.profile(ball(claim.epsilon)))), 0.0)
        if least > claim.epsilon and missing > claim.delta:
            return ClaimFalse(
                f"{claim.terms}: not true of this mechanism. The true answers {pair[0]} and {pair[1]} "
                f"need epsilon >= {least} with that delta, or delta >= {missing} with that epsilon",
                pair=pair,
                epsilon=least,
                delta=missing,
            )
        return Undecided(
            f"{claim.terms}: neither proved nor refuted; the claim is the truth to the last digits. Claim a little "
            f"more, such as {safe_digits(enough)}",
            lower=claim.epsilon,
            upper=enough,
        )

    def _worst_answers(self, claim: Claim) -> tuple[float, float]:
        pair = self.worst_pair()
        if pair is None:
            raise ArgumentError("pair: not known for this range, in whose gaps the worst pairs would lie; give one")
        return pair

    def _words(self) -> str:
        return f"{type(self).__name__}, scale {self.scale:.4g}"

    def _attack_pairs(self, epsilon: float) -> tuple[PairProfile, ...]:
        if self.worst_pair() is None:
            return ()
        pure = self.exact_epsilon
        return (mirrored(lambda x: self.profile(ball(x)) if x < pure else ZERO),)

    def _attack_pure_below(self) -> float:
        return 0.0 if self.worst_pair() is None else rounded_down(self.exact_epsilon)

    def _fisher(self, answer: npt.ArrayLike) -> float | Floats:
        # one level of the noise, exactly: the query's own sensitivity is cut to the width of a narrow support
        shape, level = self._true(answer).shape, float(self._stairs.rate * Fraction(self.scale))
        found = up(refine(lambda: self._stairs.information / arb(level) ** 2))
        return np.full(shape, found) if shape else found

    def law(self, answer: npt.ArrayLike) -> LatticeLaw:
        """The distribution of the published number when the true answer is `answer` (a number or an array).

        Guarantee: it is the law that `release` draws from, its probabilities in doubles.
        Edge cases: points farther off than noise that has a probability below 1e-20 are left out.

        >>> import rangebound as rb
        >>> m = rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, 2))
        >>> [each.round(4).tolist() for each in m.law(0).atoms]
        [[0.0, 1.0, 2.0], [0.7311, 0.17, 0.0989]]
        """
        true, (first, last) = self._true(answer), self._ends
        index = [self._index(each) for each in true.reshape(-1).tolist()]
        inside = [min(max(each, first), last) for each in index] or [0]
        far = self._reach(_UNSEEN)
        low, high = max(min(inside) - far, first), min(max(inside) + far, last)
        if high - low > _MOST_POINTS:
            raise ArgumentError(f"{self}: its law has more than {_MOST_POINTS} points; ask `pmf` for some")
        start = int(low)
        points = np.asarray([self._label(each) for each in range(start, int(high) + 1)])
        # Counted from the first point, so that large numbers of lattice points lose no digit.
        at = np.asarray([float(each - start) for each in index]).reshape(-1, 1)
        chances = self._masses(np.arange(float(len(points))), at, first - start, last - start)
        return LatticeLaw(points, chances.reshape(*true.shape, len(points)))

    def _masses(self, places: Floats, at: Floats, first: float, last: float) -> Floats:
        """The probability of lattice points from first to last, the ends with all that fell beyond them."""
        away = places - at
        inner, up_to, beyond = self.sums.mass(away), self._below(away), self._below(-away)
        found: Floats = np.where(places <= first, up_to, np.where(places >= last, beyond, inner))
        return found

    def _below(self, place: Floats) -> Floats:
        """P(X <= place)."""
        tail = self.sums.tail
        return np.where(place >= 0.0, 1.0 - tail(np.maximum(place, 0.0) + 1.0), tail(np.maximum(-place, 0.0)))

    def _reach(self, share: float) -> int:
        """The smallest m with P(|X| > m) <= share, or a little more."""
        stairs = self._stairs
        low, high = 0, stairs.steps * math.ceil((math.log(1.0 / share) + 2.0) / float(stairs.rate) + 2.0)
        while low < high:
            middle = (low + high) // 2
            enough = 2.0 * float(self.sums.tail(np.asarray(middle + 1.0))) <= share * (1.0 - 1e-12)
            low, high = (low, middle) if enough else (middle + 1, high)
        return high

    def pmf(self, value: float, answer: float) -> float:
        """The probability that `value` is published where the true answer is `answer`.

        >>> import rangebound as rb
        >>> m = rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, math.inf))
        >>> round(m.pmf(0, 0), 6), round(m.pmf(3, 0), 6), m.pmf(-1, 0)
        (0.731059, 0.023007, 0.0)
        """
        place, true = self._place(arguments.finite("value", value)), self._true(answer)
        if true.ndim:
            raise ArgumentTypeError(f"answer of type {type(answer).__name__}: must be one number")
        if place is None:
            return 0.0
        (first, last), away = self._ends, place - self._index(float(true))
        if place in (first, last):  # all that fell beyond the end
            return float(refine(lambda: self._stairs.tail(-away if place == first else away)))
        return float(refine(lambda: self._stairs.mass(away)))

    def _errors_at(self, true: Floats) -> Error[Floats]:
        index = np.asarray([float(self._index(each)) for each in true.reshape(-1).tolist()]).reshape(true.shape)
        return self._errors(true, index)

    def _worst_error(self) -> Error[float]:
        return largest(self._errors(*self._extremes()))

    def _average_error(self) -> Error[float]:
        true, index, weights = self._nodes()
        found = self._errors(true, index)
        total = len(true) * weights.sum()
        return Error(
            bias=float((_absolute(found.bias) * weights).sum() / total),
            mae=float((found.mae * weights).sum() / total),
            mse=float((found.mse * weights).sum() / total),
        )

    def release(self, answer: npt.ArrayLike) -> float | Floats:
        """Publish: one draw for each true answer, a number for a number and an array for an array.

        Guarantee: distributed exactly as the law. The random bits come from the operating system; no call takes a seed.
        Assumes: each true answer is published once: a second draw is a second release.
        Edge cases: NaN and infinities are refused before anything is drawn, and so is what is not a whole number where
        true answers are whole.

        >>> import rangebound as rb
        >>> m = rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, 20))
        >>> bool(((m.release([0, 10, 20]) % 1) == 0).all())
        True
        """
        published = draw(self, self._true(answer), secure_bits)
        return published if published.ndim else published.item()


def draw(mechanism: LatticeMechanism, answers: Floats, bits: Bits) -> Floats:
    """One draw for each true answer, with the given random bits.

    The sum is of whole numbers and becomes a double at the end: rounding, like clamping, is then post-processing.
    """
    stairs, true = mechanism._stairs, answers.reshape(-1).tolist()
    drawn = [mechanism._label(mechanism._index(each) + stairs.draw(bits)) for each in true]
    return np.asarray(drawn, dtype=np.float64).reshape(answers.shape)


def whole_numbers(start: float, end: float) -> Floats:
    """Whole numbers from start to end: all of them, or those near the ends, in the middle and a few between."""
    if end - start < MOST_ANSWERS:
        return np.arange(start, end + 1.0)
    near = np.arange(MOST_ANSWERS // 4)
    middle = np.floor((start + end) / 2.0) + np.arange(-100.0, 101.0)
    between = np.floor(np.linspace(start, end, MOST_ANSWERS // 4))
    return np.unique(np.concatenate([start + near, middle, between, end - near]))


def _absolute(values: Floats) -> Floats:
    """The sum over the nodes of absolute values of functions that are linear on the part that belongs to the nodes."""
    found: Floats
    if len(values) == 1:
        found = np.abs(values[0])
        return found
    middle, half = values.mean(axis=0), np.diff(values, axis=0)[0] / (4.0 * _NODE)
    start, end = middle - half, middle + half
    with np.errstate(invalid="ignore", divide="ignore"):
        crossing = (start**2 + end**2) / np.abs(end - start)
    found = np.where(start * end >= 0.0, 2.0 * np.abs(middle), crossing)
    return found
