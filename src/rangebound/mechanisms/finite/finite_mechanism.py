"""A finite mechanism: inputs, outputs and whole-number weights in one value. Its methods ask the rooms below."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Protocol, Self, overload

from rangebound import sampling
from rangebound.errors import ArgumentError, ArgumentTypeError, ClaimFalse, Undecided
from rangebound.laws.atomic_law import FiniteLaw
from rangebound.laws.error import Error
from rangebound.mechanisms.finite import input_cells, pair_numbers, table_sources
from rangebound.mechanisms.finite.weights import (
    BINARY_PLACES,
    MOST,
    TOTAL,
    epsilon_private,
    exponential,
    from_text,
    to_text,
    whole_weights,
)
from rangebound.mechanisms.private_mechanism import PrivateMechanism, largest, mean
from rangebound.privacy.proof import Proof, Theorem
from rangebound.privacy.setting import Claim, Notion
from rangebound.privacy.tradeoff_curve import PairProfile
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers, Many, One, np, npt
from rangebound.values.ball import Ball, ball
from rangebound.values.numeric import Enclosure
from rangebound.values.serial import read_json, support_from_dict, support_to_dict
from rangebound.values.support import Grid, Query

LONGEST = 64_000_000
"""Characters of the longest table that is read."""
_SUM = 1e-6  # how far from 1 a row of probabilities may sum


class ProvedLimit(Protocol):
    """A proved lower limit on the error of every mechanism, as `rb.optimal` puts it beside a table."""

    @property
    def value(self) -> float: ...

    def to_json(self) -> str: ...


@arguments.brief
@arguments.guided
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Table(PrivateMechanism):
    """Any finite mechanism: for each of finitely many inputs, a law on finitely many outputs in whole-number weights.

    A true answer goes to the nearest input, ties always to the upper one, in exact arithmetic; then output y is
    published with probability weights[input, y] / 2^62. Inputs and outputs ascend. A table is a value: valid once made,
    frozen, hashable, and equal to another with the same query, inputs, outputs and weights.

    Two inputs are neighbours if two true answers of the query's range that are at most the sensitivity apart can go to
    them; on a lattice of step h those at most ceil(sensitivity / h) steps apart. Ties that all go the same way make
    this as small as it is: rounding costs no privacy.

    `claim` and `limit` are statements about the table and no part of it, as the claim of a `Mechanism`: see
    `with_claim` and `with_limit`.

    Guarantee: `release` draws exactly these weights, and every privacy number is about them: `epsilon`, `delta` and
    `rdp` are maxima over all pairs of neighbouring inputs, exact, and rounded to the safe side.
    Assumes: the query's sensitivity is true.
    Edge cases: weights that are not whole numbers, a row that does not sum to 2^62, and an input to which no answer of
    the range goes are refused; `from_probabilities` rounds a matrix of floats.

    >>> import rangebound as rb
    >>> yes_or_no = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
    >>> truth, lie = 3 * 2**60, 2**60
    >>> m = rb.Table(query=yes_or_no, inputs=(0, 1), outputs=(0, 1), weights=[[truth, lie], [lie, truth]])
    >>> m.epsilon() >= math.log(3), round(m.epsilon(), 6), m.delta(1.0), m.law(1.0).atoms[1].tolist()
    (True, 1.098612, 0.0704295, [0.25, 0.75])
    >>> m
    Table(query=Query(range=Interval(lower=0.0, upper=1.0), sensitivity=1.0), inputs=2 from 0.0 to 1.0, outputs=2 from
    0.0 to 1.0)
    """

    query: Query
    inputs: tuple[float, ...]
    outputs: tuple[float, ...]
    weights: Integers
    claim: Claim | None = field(default=None, init=False)
    limit: ProvedLimit | None = None

    def __post_init__(self) -> None:
        arguments.instance("query", self.query, Query, "a Query")
        inputs, outputs = (
            table_sources.ascending("inputs", self.inputs),
            table_sources.ascending("outputs", self.outputs),
        )
        if len(inputs) * len(outputs) > MOST:
            raise ArgumentError(
                f"inputs and outputs: must have at most {MOST} weights, not {len(inputs) * len(outputs)}"
            )
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "weights", whole_weights("weights", self.weights, (len(inputs), len(outputs))))
        _ = self.reach  # refuses an input that no answer goes to

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    def __repr__(self) -> str:
        def brief(numbers: tuple[float, ...]) -> str:
            return f"{len(numbers)} from {numbers[0]} to {numbers[-1]}"

        return f"Table(query={self.query}, inputs={brief(self.inputs)}, outputs={brief(self.outputs)})"

    @cached_property
    def _parts(self) -> tuple[object, ...]:
        return self.query, self.inputs, self.outputs, self.weights.tobytes()

    from_probabilities = classmethod(table_sources.from_probabilities)
    from_array = classmethod(table_sources.from_array)
    from_csv = classmethod(table_sources.from_csv)
    from_ptable = classmethod(table_sources.from_ptable)

    @cached_property
    def reach(self) -> Integers:
        """The number of the last neighbour of every input; inputs between the two are neighbours of both.

        >>> import rangebound as rb
        >>> rb.Table(
        ...     query=rb.Query(range=rb.Interval(0, 2), sensitivity=1.0),
        ...     inputs=(0, 1, 2),
        ...     outputs=(0,),
        ...     weights=[[2**62]] * 3,
        ... ).reach.tolist()
        [1, 2, 2]
        """
        found = input_cells.reach(self.query.range, self.query.sensitivity, self.inputs)
        found.flags.writeable = False
        return found

    def neighbouring_answers(self, first: int, second: int) -> tuple[float, float]:
        """True answers within the sensitivity of each other that go to two neighbouring inputs, given by their numbers.

        >>> import rangebound as rb
        >>> rb.Table(
        ...     query=rb.Query(range=rb.Interval(0, 2), sensitivity=1.5),
        ...     inputs=(0, 1, 2),
        ...     outputs=(0,),
        ...     weights=[[2**62]] * 3,
        ... ).neighbouring_answers(2, 0)
        (1.5, 0.4999999999999999)
        """
        return input_cells.neighbouring_answers(self._cells, self.inputs, self.query.sensitivity, first, second)

    @cached_property
    def _thresholds(self) -> Floats:
        return input_cells.thresholds(self.inputs)

    @cached_property
    def _cells(self) -> tuple[input_cells.InputCell, ...]:
        return input_cells.cells(self.query.range, self.inputs)

    @cached_property
    def _points(self) -> Floats:
        return np.asarray(self.outputs)

    def law(self, answer: npt.ArrayLike) -> FiniteLaw:
        """The distribution of the published number when the true answer is `answer` (a number or an array).

        Guarantee: it is the law that `release` draws from and that every privacy number is about.
        Edge cases: an answer outside the query's range is clipped to it.

        >>> import rangebound as rb
        >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> m = rb.Table(query=count, inputs=(0, 1), outputs=(0, 1), weights=[[2**61, 2**61]] * 2)
        >>> m.law(0.2).mean.item(), m.law(0.2).cdf(0.5).item()
        (0.5, 0.5)
        """
        return FiniteLaw(self._points, self.weights, TOTAL, self._rows(self.query.clip(answer)))

    def _rows(self, answers: Floats) -> npt.NDArray[np.intp]:
        """The number of the input that each answer goes to."""
        return np.searchsorted(self._thresholds, answers, side="right")

    def _worst_stick(self, epsilon: float) -> pair_numbers.Stick:
        """The pair of neighbouring inputs that leaks most at an epsilon."""
        return pair_numbers.stick_at(self.weights, pair_numbers.neighbours(self.reach), exponential(Fraction(epsilon)))

    def _attack_pairs(self, epsilon: float) -> tuple[PairProfile, ...]:
        pairs = {self._worst_stick(epsilon).pair, pair_numbers.worst_pair(self.weights, self.reach)}
        return tuple(pair_numbers.input_profile(self.weights, each) for each in sorted(pairs) if each[0] != each[1])

    def _attack_pure_below(self) -> float:
        return self._enclosed(self.epsilon()).lower

    def _enclosed(self, value: float) -> Enclosure:  # an exact number that was rounded up
        lower = value if math.isinf(value) else max(math.nextafter(value, 0.0), 0.0)
        return Enclosure(lower=lower, upper=value)

    @cached_property
    def _hull(self) -> pair_numbers.ProfileHull:
        return pair_numbers.profile_hull(self.weights, self.reach)

    def _profile_above(self, epsilon: float) -> Ball:
        return self._hull.delta(epsilon).min(ball(1.0))

    def _known_pairs(self) -> tuple[PairProfile, PairProfile]:
        first, second = self._worst_stick(0.0).pair, pair_numbers.worst_pair(self.weights, self.reach)
        found = pair_numbers.input_profile(self.weights, first)
        same = second in (first, first[::-1])
        return found, found if same else pair_numbers.input_profile(self.weights, second)

    @property
    def _edge(self) -> float | None:
        return 43.0 if math.isinf(self.epsilon()) else None  # of weights from 1 to 2^62: 62 ln 2 is less

    def _renyi(self, order: float) -> float:
        return pair_numbers.renyi_at(self.weights, self.reach, order)

    def _epsilon(self, delta: float) -> float:
        return pair_numbers.epsilon_at(self.weights, self.reach, delta)

    def _delta(self, epsilon: float) -> float:
        return pair_numbers.delta_at(self.weights, self.reach, Fraction(epsilon))

    def _worst_answers(self, claim: Claim) -> tuple[float, float]:
        if claim.pure:
            return self.neighbouring_answers(*pair_numbers.worst_pair(self.weights, self.reach))
        return self.neighbouring_answers(*self._worst_stick(claim.epsilon).pair)

    def _words(self) -> str:
        return f"table, {len(self.inputs)} inputs, {len(self.outputs)} outputs"

    def _prove(self, claim: Claim) -> Proof | None:
        return (
            Proof(Theorem.ALL_WEIGHTS, BINARY_PLACES) if pair_numbers.holds(self.weights, self.reach, claim) else None
        )

    def _check_proof(self, claim: Claim, proof: Proof) -> None:
        pair_numbers.check(self.weights, self.reach, claim, proof)

    def _refutation(self, claim: Claim) -> ClaimFalse | Undecided:
        needs = self.epsilon(claim.delta)
        return pair_numbers.refutation(self.weights, self.reach, self.inputs, claim, needs)

    def _fisher(self, answer: npt.ArrayLike) -> float:
        raise ArgumentError(
            "fisher: a table has no Fisher information, since its law jumps from one input to the next; ask "
            "chapman_robbins for the discrete counterpart"
        )

    def chapman_robbins(self, answer: One) -> float:
        """The discrete counterpart of the Fisher information, at the input that a true answer goes to.

        It is the largest chi-squared divergence of a neighbouring input's law over the squared distance of the inputs,
        sum over outputs of (Q(y) - P(y))^2 / P(y) / (x_j - x_i)^2: no unbiased estimator of the input has a variance
        below its inverse (the bound of Chapman and Robbins).

        Guarantee: rounded up, by about 1e-12 of itself.
        Assumes: nothing about the data; it is about one answer, private itself, and no guarantee for anyone.
        Edge cases: 0 without neighbours; `inf` where a neighbour can publish what this input cannot.

        >>> import rangebound as rb
        >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> m = rb.Table(query=count, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])
        >>> round(m.chapman_robbins(0.0), 6)  # (0.5^2 / 0.75 + 0.5^2 / 0.25) / 1^2
        1.333333
        """
        place = self.query.clip(answer)
        if place.ndim:
            raise ArgumentTypeError(f"answer of type {type(answer).__name__}: must be one number")
        row = int(self._rows(place))
        own, worst = self.weights[row], 0.0
        first, last = int(np.searchsorted(self.reach, row)), int(self.reach[row])
        for other in (each for each in range(first, last + 1) if each != row):
            change = (self.weights[other] - own).astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(change == 0.0, 0.0, change / own * (change / TOTAL))
            worst = max(worst, float(terms.sum()) / (self.inputs[other] - self.inputs[row]) ** 2)
        return worst * (1.0 + 1e-12)

    def is_private(self, epsilon: float | Fraction) -> bool:
        """Whether it is epsilon-private, decided in whole numbers.

        >>> import rangebound as rb
        >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> m = rb.Table(query=count, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])
        >>> m.is_private(1.0986123), m.is_private(1.0986122)
        (True, False)
        """
        exact = epsilon if isinstance(epsilon, Fraction) else Fraction(arguments.nonnegative("epsilon", epsilon))
        return epsilon_private(self.weights, self.reach, exact)

    def _errors_at(self, true: Floats) -> Error[Floats]:
        found = input_cells.errors_at(self.weights, self._points, true.reshape(-1), self._rows(true).reshape(-1))
        bias, mae, mse = (each.reshape(true.shape) for each in (found.bias, found.mae, found.mse))
        return Error(bias=bias, mae=mae, mse=mse)

    def _worst_error(self) -> Error[float]:
        if not self.query.range.bounded:
            return Error(bias=math.inf, mae=math.inf, mse=math.inf)
        rows = np.arange(len(self.weights))
        ends = (np.array([float(getattr(cell, name)) for cell in self._cells]) for name in ("lower", "upper"))
        return largest(*(input_cells.errors_at(self.weights, self._points, end, rows) for end in ends))

    def _average_error(self) -> Error[float]:
        if isinstance(self.query.range, Grid):
            return mean(self.error(self.query.range.points))
        return input_cells.average_error(self.weights, self._points, self.query.range, self._cells)

    @overload
    def release(self, answer: One) -> float: ...

    @overload
    def release(
        self, answer: Many, *, out: Floats | None = None, threads: int = 1, progress: bool | None = None
    ) -> Floats: ...

    def release(
        self, answer: npt.ArrayLike, *, out: Floats | None = None, threads: int = 1, progress: bool | None = None
    ) -> float | Floats:
        """Publish: an output drawn exactly from the law at the true answer, one for each of an array.

        `out` takes the numbers of an array, `threads` draws in parallel, and `progress` shows a bar (by default on a
        terminal, when it takes long).

        Guarantee: every output has exactly its weight, by an alias table that is compared with the weights in whole
        numbers; so every privacy number of the table holds for the very doubles that are published. The random bits
        come from the operating system, and no call takes a seed.
        Assumes: each true answer is published once: a second draw is a second release.
        Edge cases: as for `Mechanism.release`: an answer outside the query's range is clipped to it; NaN, infinities
        and anything but numbers that are doubles exactly are refused before anything is drawn.

        >>> import rangebound as rb
        >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> m = rb.Table(query=count, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])
        >>> m.release(1.0) in (0.0, 1.0), m.release([0.0, 1.0, 1.0]).shape
        (True, (3,))
        """
        found: float | Floats = sampling.release(self._sampler, answer, out=out, threads=threads, progress=progress)
        return found

    def _interval(self, numbers: Floats, level: float) -> tuple[Floats, Floats]:
        place = input_cells.outputs_of(self._points, numbers)
        low, high = input_cells.intervals(self.weights, self._cells, self.inputs, level)
        return low[place], high[place]

    @cached_property
    def _sampler(self) -> sampling.AliasSampler:
        return sampling.alias_sampler(self.query, self._thresholds, self._points, self.weights)

    def with_claim(self, claim: Claim | None) -> Table:
        """The same table with another claim, or with none; a metric one is refused.

        Guarantee: none; a claim is proved by `rangebound.certify(m)` alone.

        >>> import rangebound as rb
        >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> m = rb.Table(query=count, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])
        >>> print(m.claim, m.with_claim(rb.Claim(epsilon=1.1)).claim)
        None (1.1, 0)-differential privacy
        """
        if isinstance(claim, Claim) and claim.notion is Notion.METRIC:
            raise ArgumentError("claim: a table is claimed to be (epsilon, delta)-private, not metric-private")
        return super().with_claim(claim)

    def with_limit(self, limit: ProvedLimit | None) -> Table:
        """The same table with another proved limit beside it, or with none.

        >>> import rangebound as rb
        >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> m = rb.Table(query=count, inputs=(0, 1), outputs=(0, 1), weights=[[2**61, 2**61]] * 2)
        >>> m.with_limit(None) == m
        True
        """
        found = copy(self)
        object.__setattr__(found, "limit", limit)
        return found

    def _plain(self) -> dict[str, object]:
        plain = {
            "query": {"range": support_to_dict(self.query.range), "sensitivity": self.query.sensitivity},
            "inputs": list(self.inputs),
            "outputs": list(self.outputs),
            "weights": to_text(self.weights),
        }
        return {"table": plain}

    @classmethod
    def _from_plain(cls, data: Mapping[str, object]) -> Self | None:
        match data:
            case {
                "table": {
                    "query": {"range": answers, "sensitivity": sensitivity, **more},
                    "inputs": [*inputs],
                    "outputs": [*outputs],
                    "weights": words,
                    **other,
                },
                **rest,
            } if not (more or other or rest):
                return cls(
                    query=Query(range=support_from_dict(answers), sensitivity=sensitivity),
                    inputs=tuple(inputs),
                    outputs=tuple(outputs),
                    weights=from_text(words, (len(inputs), len(outputs))),
                )
        return None

    def to_json(self) -> str:
        """The table as JSON.

        >>> import rangebound as rb
        >>> count = rb.Query(range=rb.Interval(0, 1), sensitivity=1.0)
        >>> m = rb.Table(query=count, inputs=(0, 1), outputs=(0, 1), weights=[[3 * 2**60, 2**60], [2**60, 3 * 2**60]])
        >>> rb.Table.from_json(m.to_json()) == m
        True
        """
        return json.dumps(self.to_dict(), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Table:
        """The table that `to_json` wrote; a text that could be read in two ways is refused."""
        arguments.instance("text", text, str, "the JSON text of a table, as Table.to_json writes it")
        data = read_json(text, longest=LONGEST)
        arguments.instance("text", data, dict, "the JSON text of a table, as Table.to_json writes it")
        assert isinstance(data, dict)
        return cls.from_dict(data)
