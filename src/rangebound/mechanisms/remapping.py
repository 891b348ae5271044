"""Remaps: what a mechanism publishes, moved by a public table to where the error is smallest.

A remap is post-processing: it costs no privacy, whatever it does. A published number falls into a bin, and each bin has
a law of its own on the values. `best_remap` makes the one with the smallest error.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

from rangebound.errors import ArgumentError, ClaimFalse, Undecided
from rangebound.laws.atomic_law import LatticeLaw
from rangebound.laws.error import Error
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.finite import TOTAL, Table
from rangebound.mechanisms.finite.weights import from_text, to_text, whole_weights
from rangebound.mechanisms.mechanism import Mechanism
from rangebound.mechanisms.private_mechanism import PrivateMechanism, largest, mean
from rangebound.mechanisms.staircase import Staircase
from rangebound.privacy.proof import Proof
from rangebound.privacy.setting import Claim, Notion
from rangebound.sampling.entropy import secure_bits
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers, np, npt
from rangebound.values.support import Grid, Query

Base: TypeAlias = Mechanism | DiscreteLaplace | Staircase | Table

BASES: dict[str, type[Base]] = {
    "noise": Mechanism,
    "table": Table,
    "geometric": DiscreteLaplace,
    "staircase": Staircase,
}
"""Every mechanism but the remap, by a field that only the plain data of this kind have."""
_SCAN = 2001  # true answers that are looked at where a law changes with every one


@arguments.brief
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

    @property
    def _edge(self) -> float | None:
        return self.base._edge

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
        chances = bin_masses(self.base, true.reshape(-1), np.asarray(self.edges)) @ self._table
        return LatticeLaw(np.asarray(self.values), chances.reshape(*true.shape, len(self.values)))

    @property
    def _table(self) -> Floats:
        return self.weights / TOTAL

    def _errors_at(self, true: Floats) -> Error[Floats]:
        return _errors(self.law(true).chances, np.asarray(self.values), true)

    def _worst_error(self) -> Error[float]:
        places, ends = places_of(self.base)
        chances = bin_masses(self.base, places, np.asarray(self.edges)) @ self._table
        return largest(*(_errors(chances, np.asarray(self.values), end) for end in ends))

    def _average_error(self) -> Error[float]:
        return mean(self.error(uniform_places(self.base)))

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


def bin_masses(base: Base, answers: Floats, edges: Floats) -> Floats:
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
    places, ends = places_of(base)
    at_least, at_most = np.cumsum(table[:, ::-1], axis=1)[:, ::-1], np.cumsum(table, axis=1)
    if isinstance(base, Mechanism):
        # The tails of the base rise and fall with the answer, and so does what is at least these chances in every bin.
        # What is published lies at most half a step of the lattice away from the law.
        half = base._sampler(None).half_step
        at_least = np.maximum.accumulate(at_least, axis=0)
        at_most = np.maximum.accumulate(at_most[::-1], axis=0)[::-1]
        high = bin_masses(base, places, edges - half) @ at_least >= tail
        low = bin_masses(base, places, edges + half) @ at_most >= tail
        before, after = np.roll(high, -1, axis=0), np.roll(low, 1, axis=0)  # outwards to the next answer looked at
        before[-1], after[0] = high[-1], low[0]
        compatible = (before | high) & (after | low)
    else:
        chances = bin_masses(base, places, edges)
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


def places_of(base: Base) -> tuple[Floats, list[Floats]]:
    """True answers of all different laws, and for each the answers at which its error is largest."""
    hull = base.query.range.hull
    points = points_of(base)
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


def points_of(base: Base) -> Floats | None:
    """The true answers, where they are finitely many points."""
    if isinstance(base.query.range, Grid):
        return base.query.range.points
    if isinstance(base, DiscreteLaplace):
        return np.arange(base.support.lower, base.support.upper + 1.0)
    return None


def uniform_places(base: Base) -> Floats:
    """Equally likely true answers: the points they are, or the middles of 2000 parts of the range."""
    points, hull, count = points_of(base), base.query.range.hull, _SCAN - 1
    return hull.lower + hull.width * (np.arange(count) + 0.5) / count if points is None else points
