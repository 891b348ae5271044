"""Choosing: every mechanism that can answer a query under (epsilon, delta), ranked by its error."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.laws.boundings import QUANTIZE, RECTIFY, TRUNCATE, UNBOUNDED, Bounding
from rangebound.laws.error import Error
from rangebound.laws.families import FAMILIES
from rangebound.mechanisms.calibration import calibrate
from rangebound.mechanisms.discrete_laplace import DiscreteLaplace
from rangebound.mechanisms.mechanism import Mechanism, describe_kind
from rangebound.mechanisms.staircase import Staircase
from rangebound.optimum.limit_proof import Limit, LimitedError, Over
from rangebound.optimum.lower_limit import proved
from rangebound.privacy.setting import Claim
from rangebound.values import arguments
from rangebound.values.data_frames import escaped, rows_as_html
from rangebound.values.support import Grid, Interval, Query, Support, Union, is_line

Answering = Mechanism | DiscreteLaplace | Staircase
"""What a ranking holds. Each has the privacy numbers, laws, errors and releases that a `Mechanism` has."""


class Objective(enum.Enum):
    """What is minimised: mean absolute error, mean squared error, or the size of the bias."""

    MAE = "mae"
    MSE = "mse"
    BIAS = "bias"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One mechanism of a ranking, with its errors and whether it puts a spike on the ends of the range."""

    mechanism: Answering
    error: Error[float]
    score: float

    @property
    def spikes(self) -> bool:
        """Whether the ends of the range collect all that fell beyond them."""
        return self.mechanism.spikes

    @property
    def name(self) -> str:
        """Noise and bounding in words."""
        if isinstance(self.mechanism, Mechanism):
            return describe_kind(self.mechanism.bounding, type(self.mechanism.noise))
        return _lattice_name(type(self.mechanism), clamped=self.mechanism.spikes)

    @property
    def scale(self) -> float:
        """The scale of the noise."""
        return self.mechanism.noise.scale if isinstance(self.mechanism, Mechanism) else self.mechanism.scale


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Mechanisms for one query, best first; `best` is the mechanism to use. Prints as a table, HTML in a notebook.

    The column "above limit" says by how much more than `limit` the error is that was asked for, rounded up.
    """

    query: Query
    claim: Claim
    objective: Objective
    at: Over | float
    choices: tuple[Choice, ...]
    refused: tuple[tuple[str, str], ...]

    @property
    def epsilon(self) -> float:
        """The epsilon of the claim that every mechanism of the ranking was calibrated for."""
        return self.claim.epsilon

    @property
    def delta(self) -> float:
        """Its delta."""
        return self.claim.delta

    @property
    def best(self) -> Answering:
        """The mechanism with the smallest error."""
        return self.choices[0].mechanism

    @property
    def limit(self) -> Limit | None:
        """The error that no private mechanism of any kind can be below, as `rb.limit` proves it; see `no_limit`.

        It is computed when it is first asked for or printed, in about a second, and kept. For squared errors it is
        proved on fewer inputs than that of `rb.limit`, and may be a little lower.

        Guarantee: the error of every choice is at least `limit.value`.

        >>> import rangebound as rb
        >>> query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
        >>> ranking = rb.choose(query=query, epsilon=0.2)
        >>> print(f"{ranking.above_limit[0]:.0%}")
        23%
        >>> rb.choose(query=query, epsilon=0.2, delta=1e-6).no_limit
        'it is proved for pure privacy, and delta is not 0'
        """
        return self._proved[0]

    @property
    def no_limit(self) -> str:
        """Why there is no limit; empty where there is one."""
        return self._proved[1]

    @property
    def above_limit(self) -> tuple[float, ...]:
        """The error of each choice over the limit, less 1; empty where there is no limit."""
        return tuple(choice.score / self.limit.value - 1.0 for choice in self.choices) if self.limit else ()

    @functools.cached_property
    def _proved(self) -> tuple[Limit | None, str]:
        reason = _why_no_limit(self.query, self.claim, self.objective, self.at)
        if reason or not isinstance(self.at, Over):
            return None, reason
        try:
            found = _limit(self.query, self.epsilon, LimitedError(self.objective.value), self.at)
        except (Unsatisfiable, ArgumentError) as error:
            return None, str(error)
        return (found, "") if found.value > 0.0 else (None, "the proved limit is 0")

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    def __str__(self) -> str:
        head, *rows = self._table()
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [f"{self._title()}", ""]
        for name, *texts in (head, *rows):
            cells = (text.rjust(width) for text, width in zip(texts, widths[1:], strict=True))
            lines.append("  ".join((name.ljust(widths[0]), *cells)))
        lines.append(self._limit_line())
        lines += [f"not offered: {name} ({reason})" for name, reason in self.refused]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        head, *rows = self._table()
        return f"{rows_as_html(head, rows, self._title())}<p>{escaped(self._limit_line())}</p>"

    def _table(self) -> list[tuple[str, ...]]:
        """The head and a row for each choice; how far it is above the limit, where there is one."""
        rows = [_HEAD, *(_row(choice) for choice in self.choices)]
        if self.limit is None:
            return rows
        above = ["above limit", *(_percent(each) for each in self.above_limit)]
        return [(*row[:-1], text, row[-1]) for row, text in zip(rows, above, strict=True)]

    def _limit_line(self) -> str:
        if self.limit is None:
            return f"no limit: {self.no_limit}"
        digits = 4 - 1 - math.floor(math.log10(self.limit.value))
        down = math.floor(Fraction(self.limit.value) * Fraction(10) ** digits) / Fraction(10) ** digits
        what = f"{self.objective.value} ({self._place})"
        return f"limit: no mechanism of any kind with this guarantee has a {what} below {float(down):.4g} (proved)"

    @property
    def _place(self) -> str:
        return {Over.WORST: "worst case", Over.AVERAGE: "average"}.get(self.at, f"at {self.at}")  # type: ignore[arg-type]

    def _title(self) -> str:
        epsilon, delta = arguments.upwards(self.epsilon), arguments.upwards(self.delta)
        return (
            f"({epsilon}, {delta})-private answers, sensitivity {self.query.sensitivity:g}: "
            f"by {self.objective.value}, {self._place}"
        )


_HEAD = ("mechanism", "scale", "|bias|", "mae", "rmse", "spikes")


def _row(choice: Choice) -> tuple[str, ...]:
    error = choice.error
    values = (choice.scale, abs(error.bias), error.mae, math.sqrt(error.mse))
    return choice.name, *(f"{value:.4g}" for value in values), "yes" if choice.spikes else "no"


def _percent(above: float) -> str:
    """A share as percent, rounded up: with one decimal below 10, without one from there on."""
    tenths = math.ceil(Fraction(above) * 1000)
    return f"+{tenths / 10:.1f} %" if tenths < 100 else f"+{math.ceil(Fraction(above) * 100)} %"


def _why_no_limit(query: Query, claim: Claim, objective: Objective, at: Over | float) -> str:
    """Why no limit is proved for what was asked; empty where one may be."""
    if not query.range.bounded:
        return "it is proved over bounded ranges"
    if claim.delta > 0.0:
        return "it is proved for pure privacy, and delta is not 0"
    if objective is Objective.BIAS:
        return "noise without bounds has no bias, so that there is none on the bias"
    if not isinstance(at, Over):
        return f"a mechanism that always publishes {at} has no error there, so that there is none at one true answer"
    return ""


@functools.lru_cache(maxsize=64)
def _limit(query: Query, epsilon: float, objective: LimitedError, at: Over) -> Limit:
    """The limit, computed once for all rankings that need it.

    Squared errors take longer, and over gaps longer still, so that limits on them are proved on fewer inputs.
    """
    few = 41 if isinstance(query.range, Union) else 81
    return proved(query, epsilon, objective, at, 161 if objective is LimitedError.MAE else few)


@arguments.guided
def choose(
    *,
    query: Query,
    epsilon: float,
    delta: float = 0.0,
    objective: str | Objective = Objective.MAE,
    at: str | float | Over = Over.WORST,
    support: Support | None = None,
    spikes: bool = True,
) -> Ranking:
    """Rank every mechanism that can answer `query` in range under (epsilon, delta), smallest error first.

    The errors are those at one true answer (`at=42.0`), on `"average"` over a uniform one, or in the `"worst"` case.
    Clamping puts a spike of probability on the ends of the range; `spikes=False` leaves those mechanisms out.
    On a grid the choices are rounding and truncation to its points. Staircase noise is offered on every interval and
    grid, discrete Laplace noise where the range is a grid of whole numbers. Where the query's range is a `Grid`, errors
    are those at its points; elsewhere they are those at all real answers, the rounding to a lattice included.

    Printed, a ranking says how far each mechanism is above the proved limit of `rb.limit`, where there is one.

    Guarantee: every mechanism in the ranking is (epsilon, delta)-private, calibrated as by `calibrate`.
    Edge cases: unbounded noise is offered only where the support is the whole line; over an unbounded range the
    average is not defined and the worst case may be infinite.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> rb.choose(query=query, epsilon=1.0, delta=1e-6, objective="mae").choices[0].name
    'rectify Staircase'
    """
    arguments.instance("query", query, Query, "a Query")
    claim = Claim(epsilon=arguments.positive("epsilon", epsilon), delta=delta)
    arguments.instance("spikes", spikes, bool, "True or False")
    if support is not None:
        arguments.instance("support", support, (Interval, Union, Grid), "an Interval, a Union or a Grid")
    wanted, place = arguments.member("objective", objective, Objective), _place(at)
    choices, refused = [], []
    for name, make in _candidates(query, support, claim, wanted):
        try:
            mechanism = make()
        except (Unsatisfiable, ArgumentError) as reason:
            refused.append((name, str(reason)))
            continue
        if mechanism.spikes and not spikes:
            refused.append((name, "puts spikes on the ends of the range"))
            continue
        error = _error(mechanism, place)
        score = abs(getattr(error, wanted.value))
        choices.append(Choice(mechanism=mechanism.with_claim(claim), error=error, score=score))
    if not choices:
        reasons = "; ".join(dict.fromkeys(reason for _, reason in refused))
        raise Unsatisfiable(f"{claim.terms}: no mechanism can answer; {reasons}")
    choices.sort(key=lambda choice: (choice.score, choice.error.mse))
    return Ranking(query=query, claim=claim, objective=wanted, at=place, choices=tuple(choices), refused=tuple(refused))


def _candidates(
    query: Query, support: Support | None, claim: Claim, objective: Objective
) -> Iterator[tuple[str, Callable[[], Answering]]]:
    """All mechanisms that may answer, by name; each is made, or an error that says why it cannot answer is raised."""
    within = support if support is not None else query.range
    if isinstance(within, Grid):
        boundings: tuple[Bounding, ...] = (TRUNCATE, QUANTIZE)
    elif is_line(within):
        boundings = (UNBOUNDED,)
    else:
        boundings = (TRUNCATE, RECTIFY) if len(within.spans) == 1 else (TRUNCATE,)
    asked = {"query": query, "support": support, "epsilon": claim.epsilon, "delta": claim.delta}
    for family in FAMILIES.values():
        for bounding in boundings:
            make = functools.partial(calibrate, noise=family, bounding=bounding, **asked)  # type: ignore[arg-type]
            yield describe_kind(bounding, family), make
    for kind in (DiscreteLaplace, Staircase):
        on_lattice = functools.partial(_on_lattice, kind, query, within, claim.epsilon, objective)
        yield _lattice_name(kind, clamped=not is_line(within)), on_lattice


def _on_lattice(
    kind: type[DiscreteLaplace] | type[Staircase], query: Query, within: Support, epsilon: float, objective: Objective
) -> DiscreteLaplace | Staircase:
    """Noise on a lattice for a query, or an error that says why it cannot answer."""
    if isinstance(within, Union) or isinstance(query.range, Union):
        raise ArgumentError(f"range={query.range}: noise on a lattice is clamped, and a union has no one interval")
    if kind is DiscreteLaplace:
        if not _is_whole(query, within):
            raise ArgumentError(
                f"range={query.range}: must be a grid of whole numbers, and the sensitivity one of them"
            )
        return DiscreteLaplace.calibrated(sensitivity=int(query.sensitivity), epsilon=epsilon, support=within.hull)
    target = "mse" if objective is Objective.MSE else "mae"
    stairs = Staircase.calibrated(query=query, epsilon=epsilon, support=within, objective=target)
    if stairs.steps == 1 and _is_whole(query, within):
        raise ArgumentError("steps=1: with one step to a sensitivity it is discrete Laplace noise")
    return stairs


def _is_whole(query: Query, within: Support) -> bool:
    """Whether answers and published numbers are whole numbers, and the sensitivity is one."""
    if not isinstance(within, Grid) or within != query.range or within.step != 1.0:
        return False
    return query.sensitivity.is_integer() and within.within.lower.is_integer()


def _lattice_name(kind: type[DiscreteLaplace] | type[Staircase], *, clamped: bool) -> str:
    return f"{(RECTIFY if clamped else UNBOUNDED).value} {kind.__name__}"


def _error(mechanism: Answering, place: Over | float) -> Error[float]:
    if isinstance(place, Over):
        return mechanism.worst_error() if place is Over.WORST else mechanism.average_error()
    if isinstance(mechanism, DiscreteLaplace):  # the whole number that the answer goes to
        place = math.floor(min(max(place, mechanism.support.lower), mechanism.support.upper) + 0.5)
    return mechanism.error(place)


def _place(at: str | float | Over) -> Over | float:
    if isinstance(at, Over):
        return at
    if isinstance(at, str):
        try:
            return Over(at)
        except ValueError:
            raise ArgumentError(f'at={at!r}: must be "worst", "average" or a true answer') from None
    return arguments.finite("at", at)
