"""Remaps: what a mechanism publishes, moved by a public table to where the error is smallest.

A remap is post-processing: it costs no privacy, whatever it does. A published number falls into a bin, and each bin has
a law of its own on the values. Bayesian remaps send a bin to the median or the mean of the true answers behind it;
the minimax remap solves a linear program, with columns (bin, value) and rows (true answer) made as they are needed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError, ClaimFalse, Undecided
from rangebound.laws.atomic_law import LatticeLaw
from rangebound.laws.error import Error
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite import TOTAL, Table
from rangebound.mechanisms.finite.weights import from_text, rounded, to_text, whole_weights
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.minimax_game import Game
from rangebound.mechanisms.private_mechanism import PrivateMechanism, largest, mean
from rangebound.mechanisms.staircase import Staircase
from rangebound.privacy.claim import Claim, Notion
from rangebound.privacy.proof import Proof
from rangebound.sampling.entropy import secure_bits
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers
from rangebound.values.progress_line import Tell, progress_line
from rangebound.values.query import Query
from rangebound.values.support import Grid, Interval

Base: TypeAlias = Mechanism | DiscreteLaplace | Staircase | Table

BASES: dict[str, type[Base]] = {
    "noise": Mechanism,
    "geometric": DiscreteLaplace,
    "staircase": Staircase,
    "table": Table,
}
"""The mechanisms that can be remapped, by a field that only the plain data of this kind have."""
_MOST_MASSES = 2_500_000  # pairs of a law and a bin of outputs: some hundred megabytes
_USUAL, _MOST_BINS = 24, 400  # bins to a sensitivity, and in all over the range
_SCAN = 2001  # true answers that are looked at where a law changes with every one
_FAR = 12.0  # sensitivities beyond the range that noise is looked at, at most


@arguments.guided
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Remapped(PrivateMechanism):
    """A mechanism whose published number y is replaced by a value, drawn from the row of `weights` of its bin.

    Bin i has the numbers from edges[i - 1] to below edges[i]; its row of whole numbers, which sum to 2^62, says how
    likely each of `values` is. The table is public: it depends on no data.

    Guarantee: `epsilon`, `delta` and `rdp` are those of the base, since a function of a private number, drawn with
    fresh randomness, is as private; so `certify` and the accountants take the base. Draws are exact.
    Assumes: nothing more than the base does.
    Edge cases: a row that does not sum to 2^62, and edges or values that do not ascend, are refused.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 2), sensitivity=1.0)
    >>> m = rb.remap(rb.Staircase.calibrated(query=query, epsilon=1.0, step=0.25))
    >>> m.epsilon(), 0.0 <= m.release(1.3) <= 2.0
    (1.0, True)
    """

    base: Base
    edges: tuple[float, ...]
    values: tuple[float, ...]
    weights: Integers

    def __post_init__(self) -> None:
        arguments.instance("base", self.base, tuple(BASES.values()), "a mechanism")
        for name in ("edges", "values"):
            numbers = tuple(arguments.reals(name, getattr(self, name)).reshape(-1).tolist())
            if any(not a < b for a, b in itertools.pairwise(numbers)):
                raise ArgumentError(f"{name}={arguments.shown(numbers)}: must ascend")
            object.__setattr__(self, name, numbers)
        shape = len(self.edges) + 1, len(self.values)
        object.__setattr__(self, "weights", whole_weights("weights", self.weights, shape))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remapped) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        values = f"{len(self.values)} from {self.values[0]} to {self.values[-1]}"
        return f"Remapped(base={self.base}, bins={len(self.edges) + 1}, values={values})"

    @property
    def _parts(self) -> tuple[object, ...]:
        return self.base, self.edges, self.values, self.weights.tobytes()

    @property
    def query(self) -> Query:
        """The query of the base."""
        return self.base.query

    @property
    def claim(self) -> Claim | None:
        """The claim of the base."""
        return self.base.claim

    def with_claim(self, claim: Claim | None) -> Remapped:
        """The same remap of the base with another claim, or with none; `rangebound.certify` alone proves a claim.

        >>> import rangebound as rb
        >>> m = rb.remap(rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, 3)), at="average")
        >>> print(m.claim, m.with_claim(rb.Claim(epsilon=1.0)).claim)
        None (1, 0)-differential privacy
        """
        return replace(self, base=self.base.with_claim(claim))

    def _epsilon(self, delta: float) -> float:
        return self.base.epsilon(delta)

    def _delta(self, epsilon: float) -> float:
        return self.base.delta(epsilon)

    def _attack_mu(self) -> float:
        return self.base._attack_mu()

    def _worst_answers(self, claim: Claim) -> tuple[float, float]:
        return self.base._worst_answers(claim)

    def _words(self) -> str:
        return f"{self.base._words()}, remapped"

    def _prove(self, claim: Claim) -> Proof | None:
        return self.base._prove(claim)

    def _check_proof(self, claim: Claim, proof: Proof) -> None:
        self.base._check_proof(claim, proof)

    def _refutation(self, claim: Claim) -> ClaimFalse | Undecided:
        found = self.base._refutation(claim)
        if isinstance(found, Undecided):
            return found
        needs = found.epsilon if claim.notion is Notion.METRIC else self.epsilon(claim.delta)
        return Undecided(
            f"{claim.terms}: not proved. A remapped mechanism has the guarantee of its base, of which this is not "
            f"true: it needs epsilon >= {needs}. That the remap leaks less is neither proved nor refuted",
            lower=0.0,
            upper=needs,
        )

    def _renyi(self, order: float) -> float:
        return float(self.base.rdp(order))

    def _fisher(self, answer: npt.ArrayLike) -> float | Floats:
        return self.base._fisher(answer)

    def law(self, answer: npt.ArrayLike) -> LatticeLaw:
        """The distribution of the published number when the true answer is `answer` (a number or an array).

        Guarantee: it is the law that `release` draws from, in doubles, but for the lattice that continuous noise is
        rounded to.
        """
        true = self.query.clip(answer)
        chances = _bin_masses(self.base, true.reshape(-1), np.asarray(self.edges)) @ self._table
        return LatticeLaw(np.asarray(self.values), chances.reshape(*true.shape, len(self.values)))

    @property
    def _table(self) -> Floats:
        return self.weights / TOTAL

    def _errors_at(self, true: Floats) -> Error[Floats]:
        return _errors(self.law(true).chances, np.asarray(self.values), true)

    def _worst_error(self) -> Error[float]:
        places, ends = _places(self.base)
        chances = _bin_masses(self.base, places, np.asarray(self.edges)) @ self._table
        return largest(*(_errors(chances, np.asarray(self.values), end) for end in ends))

    def _average_error(self) -> Error[float]:
        return mean(self.error(_uniform_places(self.base)))

    def release(self, answer: npt.ArrayLike) -> float | Floats:
        """Publish: the base releases, and the value of its number's bin is drawn, from random bits of its own.

        Guarantee: exact, as the release of the base is. Each true answer is published once.
        """
        drawn = np.asarray(self.base.release(answer))  # type: ignore[arg-type]
        bins = np.searchsorted(np.asarray(self.edges), drawn.reshape(-1), side="right")
        below = np.cumsum(self.weights, axis=1)
        values = [self.values[int(np.searchsorted(below[i], secure_bits(62), side="right"))] for i in bins.tolist()]
        found = np.asarray(values, dtype=np.float64).reshape(drawn.shape)
        return found if drawn.ndim else found.item()

    def _interval(self, numbers: Floats, level: float) -> tuple[Floats, Floats]:
        if not self.query.range.bounded:
            raise ArgumentError(f"range={self.query.range}: must be bounded for an interval")
        values = np.asarray(self.values)
        place = np.minimum(np.searchsorted(values, numbers), len(values) - 1)
        wrong = numbers[values[place] != numbers]
        if wrong.size:
            raise ArgumentError(f"published={wrong[0]}: must be a value that is published")
        tail = 0.5 * (1.0 - level) * (1.0 - 1e-9)
        lower, upper = _compatible(self.base, np.asarray(self.edges), self._table, tail)
        return lower[place], upper[place]

    def to_dict(self) -> dict[str, object]:
        """The mechanism as plain data, for JSON; a claim is that of the base.

        >>> import rangebound as rb
        >>> count = rb.DiscreteLaplace(scale=1.0, support=rb.Interval(0, 3))
        >>> m = rb.remap(count, at="average")
        >>> Remapped.from_dict(m.to_dict()) == m
        True
        """
        return self._plain()

    def _plain(self) -> dict[str, object]:
        plain = {
            "base": self.base.to_dict(),
            "edges": list(self.edges),
            "values": list(self.values),
            "weights": to_text(self.weights),
        }
        return {"remapped": plain}

    @classmethod
    def _from_plain(cls, data: Mapping[str, object]) -> Self | None:
        match data:
            case {
                "remapped": {
                    "base": dict(base),
                    "edges": list(edges),
                    "values": list(values),
                    "weights": weights,
                    **more,
                },
                **rest,
            } if not (more or rest):
                kind = next((BASES[each] for each in base if each in BASES), None)
                if kind is not None:
                    whole = from_text(weights, (len(edges) + 1, len(values)))
                    return cls(base=kind.from_dict(base), edges=tuple(edges), values=tuple(values), weights=whole)
        return None


@arguments.guided
def remap(
    mechanism: Base,
    *,
    objective: str = "mae",
    at: str | Sequence[float] | Floats = "worst",
    step: float | None = None,
    progress: bool | None = None,
) -> Remapped:
    """The remap of a mechanism that has the smallest error: post-processing, so it costs no privacy.

    With at="worst" it is the minimax remap, whose largest error over the range is the smallest; it is randomised. With
    at="average" it is the Bayesian remap for a uniform true answer, or with a sequence of weights for that prior, at
    equally spaced answers over the range (one for each answer of a grid): the median of the true answer given the bin
    (`objective="mae"`), or its mean (`"mse"`). Bins and values are `step` apart: 1/24 of the sensitivity, or what makes
    400 of them. `progress` shows how far a search of more than two seconds is (by default on a terminal).

    Clamped staircase noise is taken before it is clamped, since what falls beyond an end still says something.

    Guarantee: the privacy of the base. A minimax remap is at most 0.02 % above the best one for these bins and values.
    Edge cases: a range that is not bounded is refused; so are weights that are negative or all zero, and a base with
    more than 2,500,000 pairs of a law and a bin, such as staircase noise with a very fine step.

    >>> import rangebound as rb
    >>> m = rb.DiscreteLaplace.calibrated(epsilon=1.0, support=rb.Interval(0, 10))
    >>> round(m.worst_error().mae, 3), round(rb.remap(m).worst_error().mae, 3)
    (0.845, 0.803)
    """
    arguments.instance("mechanism", mechanism, tuple(BASES.values()), "a mechanism")
    if objective not in ("mae", "mse"):
        raise ArgumentError(f'objective={arguments.shown(objective)}: must be "mae" or "mse"')
    if not mechanism.query.range.bounded:
        raise ArgumentError(f"range={mechanism.query.range}: must be bounded for a remap")
    if isinstance(at, str) and at not in ("worst", "average"):
        raise ArgumentError(f'at={arguments.shown(at)}: must be "worst", "average" or a sequence of weights')
    base = _unclamped(mechanism)
    edges, values = _bins(base, step)
    answers = _places(base)[0] if isinstance(at, str) and at == "worst" else _uniform_places(base)
    if len(answers) * len(edges) > _MOST_MASSES:
        raise ArgumentError(
            f"mechanism: has {len(answers)} x {len(edges) + 1} pairs of a true answer and a bin of outputs, too "
            f"many for a remap, which takes {_MOST_MASSES}; give the noise or the remap a larger step"
        )
    if isinstance(at, str) and at == "worst":
        with progress_line("searching for the remap", progress) as tell:
            table = _minimax(base, edges, values, squared=objective == "mse", tell=tell)
    else:
        places, weights = _prior(base, at)
        values, table = _bayes(base, edges, places, weights, squared=objective == "mse")
    return Remapped(base=base, edges=tuple(edges.tolist()), values=tuple(values.tolist()), weights=rounded(table))


def _unclamped(mechanism: Base) -> Base:
    """Staircase noise with a support that is wider by what noise reaches, at most some sensitivities."""
    if not isinstance(mechanism, Staircase) or not isinstance(mechanism.support, Interval):
        return mechanism
    hull, far = mechanism.query.range.hull, math.ceil(min(_FAR, 2.0 + 8.0 / mechanism.epsilon()))
    cell = float(mechanism.width)
    reach = far * mechanism.steps * cell
    rest = hull.width / cell - math.floor((1.0 + 1e-9) * hull.width / cell)
    if rest > 1e-9 * hull.width / cell:  # the same from both ends: half of the game is enough
        reach += 0.5 * (1.0 - rest) * cell
    wide = Interval(min(hull.lower - reach, mechanism.support.lower), max(hull.upper + reach, mechanism.support.upper))
    return replace(mechanism, support=wide).with_claim(mechanism.claim)


def _bins(base: Base, step: float | None) -> tuple[Floats, Floats]:
    """The edges between the bins of what is published, and the values, which are the middles of bins in the range.

    Bins of staircase noise divide the sensitivity evenly, so that `_groups` finds those that say the same. Where the
    range is not a whole number of them, its ends are values too.
    """
    hull, sensitivity = base.query.range.hull, base.query.sensitivity
    points = values = _points(base)
    if points is None or values is None:
        asked = sensitivity / _USUAL if step is None else arguments.positive("step", step)
        width = max(asked, hull.width / _MOST_BINS)
        points = values = np.linspace(hull.lower, hull.upper, max(round(hull.width / width), 1) + 1)
        if isinstance(base, Staircase) and width <= min(sensitivity, hull.width):
            width = sensitivity / math.floor((1.0 + 1e-9) * sensitivity / width)
            half = 0.5 * math.floor((1.0 + 1e-9) * hull.width / width)
            points = 0.5 * (hull.lower + hull.upper) + width * np.arange(-half, half + 0.5)
            if half * width < 0.5 * hull.width * (1.0 - 1e-9):
                values = np.concatenate([[hull.lower], points, [hull.upper]])
    if isinstance(base, (DiscreteLaplace, Table)):
        outputs = np.asarray(base.outputs) if isinstance(base, Table) else points
        return (outputs[:-1] + outputs[1:]) / 2.0, values
    gap = float(points[1] - points[0])
    beyond = 0.0
    if isinstance(base, Staircase) and isinstance(base.support, Interval):
        beyond = hull.lower - base.support.lower
    count = round(beyond / gap)
    outside = gap * np.arange(1.0, count + 1.0)
    middles = np.concatenate([points[0] - outside[::-1], points, points[-1] + outside])
    edges = (middles[:-1] + middles[1:]) / 2.0
    if isinstance(base, Staircase):  # moved a little outwards where they might be points of its lattice
        edges = edges + np.sign(edges - (hull.lower + hull.upper) / 2.0) * 0.25 * base.step
    return edges, values


def _bin_masses(base: Base, answers: Floats, edges: Floats) -> Floats:
    """The probability of each bin at each true answer: answers on the first axis."""
    if isinstance(base, Mechanism):
        above = base.law(answers[:, None]).sf(edges[None, :])
        full = np.concatenate([np.ones((len(answers), 1)), above, np.zeros((len(answers), 1))], axis=1)
        return -np.diff(full, axis=1)
    points, chances = base.law(answers).atoms
    which = np.searchsorted(edges, points, side="right")
    found = np.zeros((len(answers), len(edges) + 1))
    np.add.at(found.T, which, chances.T)
    return found


def _compatible(base: Base, edges: Floats, table: Floats, tail: float) -> tuple[Floats, Floats]:
    """For each value the first and the last true answer at which neither tail of the values has less than `tail`."""
    places, ends = _places(base)
    at_least, at_most = np.cumsum(table[:, ::-1], axis=1)[:, ::-1], np.cumsum(table, axis=1)
    if isinstance(base, Mechanism):
        # The tails of the base rise and fall with the answer, and so does what is at least these chances in every bin.
        # What is published lies at most half a step of the lattice away from the law.
        half = base._sampler(None).half_step
        at_least = np.maximum.accumulate(at_least, axis=0)
        at_most = np.maximum.accumulate(at_most[::-1], axis=0)[::-1]
        high = _bin_masses(base, places, edges - half) @ at_least >= tail
        low = _bin_masses(base, places, edges + half) @ at_most >= tail
        before, after = np.roll(high, -1, axis=0), np.roll(low, 1, axis=0)  # outwards to the next answer looked at
        before[-1], after[0] = high[-1], low[0]
        compatible = (before | high) & (after | low)
    else:
        chances = _bin_masses(base, places, edges)
        compatible = (chances @ at_least >= tail) & (chances @ at_most >= tail)
    none = ~compatible.any(axis=0)
    first = np.where(none, 0, compatible.argmax(axis=0))
    last = np.where(none, len(places) - 1, len(places) - 1 - compatible[::-1].argmax(axis=0))
    return ends[0][first], ends[-1][last]


def _errors(chances: Floats, values: Floats, true: Floats) -> Error[Floats]:
    off = values - true[..., None]
    return Error(
        bias=(chances * off).sum(axis=-1), mae=(chances * np.abs(off)).sum(axis=-1), mse=(chances * off**2).sum(axis=-1)
    )


def _places(base: Base) -> tuple[Floats, list[Floats]]:
    """True answers of all different laws, and for each the answers at which its error is largest."""
    hull = base.query.range.hull
    points = _points(base)
    if points is not None:
        return points, [points]
    if isinstance(base, Mechanism):
        scan = np.linspace(hull.lower, hull.upper, _SCAN)
        return scan, [scan]
    if isinstance(base, Table):
        inputs = np.asarray(base.inputs)
        middles = (inputs[:-1] + inputs[1:]) / 2.0
        return inputs, [np.append(hull.lower, middles), np.append(middles, hull.upper)]
    assert isinstance(base, Staircase)
    assert base.support is not None
    width = float(base.width)
    anchor = base.support.hull.lower
    cells = np.arange(
        math.floor((hull.lower - anchor) / width + 0.5), math.floor((hull.upper - anchor) / width + 0.5) + 1
    )
    middles = np.clip(anchor + cells * width, hull.lower, hull.upper)
    return middles, [np.clip(anchor + (cells + side) * width, hull.lower, hull.upper) for side in (-0.5, 0.5)]


def _points(base: Base) -> Floats | None:
    """The true answers, where they are finitely many points."""
    if isinstance(base.query.range, Grid):
        return base.query.range.points
    if isinstance(base, DiscreteLaplace):
        return np.arange(base.support.lower, base.support.upper + 1.0)
    return None


def _uniform_places(base: Base) -> Floats:
    """Equally likely true answers: the points they are, or the middles of 2000 parts of the range."""
    points, hull, count = _points(base), base.query.range.hull, _SCAN - 1
    return hull.lower + hull.width * (np.arange(count) + 0.5) / count if points is None else points


def _prior(base: Base, at: str | Sequence[float] | Floats) -> tuple[Floats, Floats]:
    """True answers and their weights: all the same, or those given, at equal distances over the range."""
    places = _uniform_places(base)
    if isinstance(at, str):
        return places, np.ones(len(places))
    weights, hull = arguments.reals("at", at).reshape(-1), base.query.range.hull
    if len(weights) < 2 or (weights < 0.0).any() or not weights.any():
        raise ArgumentError("at: must have at least two weights, none of them negative and not all zero")
    if _points(base) is None:
        return np.linspace(hull.lower, hull.upper, len(weights)), weights
    if len(weights) != len(places):
        raise ArgumentError(f"at: must have one weight for each of the {len(places)} true answers")
    return places, weights


def _bayes(base: Base, edges: Floats, places: Floats, weights: Floats, *, squared: bool) -> tuple[Floats, Floats]:
    """Values and a table that sends each bin to the mean, or the median, of the true answer given the bin."""
    joint = _bin_masses(base, places, edges) * (weights / weights.sum())[:, None]
    total = joint.sum(axis=0)
    if squared:
        found = (joint * places[:, None]).sum(axis=0) / np.maximum(total, 1e-300)
    else:
        found = places[(np.cumsum(joint, axis=0) < 0.5 * total).sum(axis=0).clip(0, len(places) - 1)]
    found = np.where(total > 0.0, found, places[len(places) // 2])
    values, which = np.unique(found, return_inverse=True)
    table = np.zeros((len(total), len(values)))
    table[np.arange(len(total)), which.reshape(-1)] = 1.0
    return values, table


def _minimax(base: Base, edges: Floats, values: Floats, *, squared: bool, tell: Tell) -> Floats:
    """The table whose largest error over all true answers is nearly the smallest."""
    places, ends = _places(base)
    groups = _groups(base, edges)
    folded = np.zeros((len(places), int(groups.max()) + 1))
    np.add.at(folded.T, groups, _bin_masses(base, places, edges).T)
    off = np.abs(np.concatenate(ends)[:, None] - values)
    game = Game(np.tile(folded, (len(ends), 1)), off**2 if squared else off)
    found: Floats = game.solved(tell)[groups]
    return found


def _groups(base: Base, edges: Floats) -> npt.NDArray[np.intp]:
    """Bins that say the same about the true answer: those beyond the range, a whole number of sensitivities apart.

    The noise there falls by the same factor for every true answer, so that one law on the values is enough for all.
    """
    bins, found = len(edges) + 1, np.arange(len(edges) + 1)
    beyond = int((edges < base.query.range.hull.lower).sum())
    if not isinstance(base, Staircase) or beyond < 2:
        return found
    exact = base.query.sensitivity / float(edges[1] - edges[0])
    period = round(exact)
    if abs(exact - period) > 1e-9 * period:
        return found
    for i in range(beyond - period - 1, -1, -1):
        found[i], found[bins - 1 - i] = found[i + period], found[bins - 1 - i - period]
    which: npt.NDArray[np.intp] = np.unique(found, return_inverse=True)[1].reshape(-1)
    return which
