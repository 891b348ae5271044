"""Choosing: every mechanism that can answer a query under (epsilon, delta), ranked by its error."""

from __future__ import annotations

import enum
import html
import math
from collections.abc import Iterator
from dataclasses import dataclass

from rangebound import arguments
from rangebound.bounding import QUANTIZE, RECTIFY, TRUNCATE, UNBOUNDED, Bounding
from rangebound.calibration import calibrate
from rangebound.errors import ArgumentError, Unsatisfiable
from rangebound.mechanism import Mechanism, describe_kind
from rangebound.noise import FAMILIES
from rangebound.privacy.claim import Claim
from rangebound.query import Query
from rangebound.support import Grid, Interval, Support, Union, is_line
from rangebound.utility import Error


class Objective(enum.Enum):
    """What is minimised: mean absolute error, mean squared error, or the size of the bias."""

    MAE = "mae"
    MSE = "mse"
    BIAS = "bias"


class At(enum.Enum):
    """Where the error is taken: at the worst true answer, or on average over a uniform one."""

    WORST = "worst"
    AVERAGE = "average"


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One mechanism of a ranking, with its errors and whether it puts a spike on the ends of the range."""

    mechanism: Mechanism
    error: Error[float]
    score: float

    @property
    def spikes(self) -> bool:
        """Whether the ends of the range collect all that fell beyond them."""
        return self.mechanism.spikes

    @property
    def name(self) -> str:
        """Noise and bounding in words."""
        return describe_kind(self.mechanism.bounding, type(self.mechanism.noise))


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Mechanisms for one query, best first; `best` is the mechanism to use. Prints as a table, HTML in a notebook."""

    query: Query
    claim: Claim
    objective: Objective
    at: At | float
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
    def best(self) -> Mechanism:
        """The mechanism with the smallest error."""
        return self.choices[0].mechanism

    def __iter__(self) -> Iterator[Choice]:
        return iter(self.choices)

    def __len__(self) -> int:
        return len(self.choices)

    def __str__(self) -> str:
        head, rows = _HEAD, [_row(choice) for choice in self.choices]
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [f"{self._title()}", ""]
        for row in (head, *rows):
            cells = [
                row[0].ljust(widths[0]),
                *(text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)),
            ]
            lines.append("  ".join(cells))
        lines += [f"not offered: {name} ({reason})" for name, reason in self.refused]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = "".join(f"<th>{html.escape(name)}</th>" for name in _HEAD)
        rows = "".join(
            "<tr>" + "".join(f"<td>{html.escape(text)}</td>" for text in _row(choice)) + "</tr>"
            for choice in self.choices
        )
        return f"<table><caption>{html.escape(self._title())}</caption><tr>{cells}</tr>{rows}</table>"

    def _title(self) -> str:
        place = {At.WORST: "worst case", At.AVERAGE: "average"}.get(self.at, f"at {self.at}")  # type: ignore[arg-type]
        epsilon, delta = arguments.upwards(self.epsilon), arguments.upwards(self.delta)
        return (
            f"({epsilon}, {delta})-private answers, sensitivity {self.query.sensitivity:g}: "
            f"by {self.objective.value}, {place}"
        )


_HEAD = ("mechanism", "scale", "|bias|", "mae", "rmse", "spikes")


def _row(choice: Choice) -> tuple[str, ...]:
    error = choice.error
    values = (choice.mechanism.noise.scale, abs(error.bias), error.mae, math.sqrt(error.mse))
    return choice.name, *(f"{value:.4g}" for value in values), "yes" if choice.spikes else "no"


@arguments.guided
def choose(
    *,
    query: Query,
    epsilon: float,
    delta: float = 0.0,
    objective: str | Objective = Objective.MAE,
    at: str | float | At = At.WORST,
    support: Support | None = None,
    spikes: bool = True,
) -> Ranking:
    """Rank every mechanism that can answer `query` in range under (epsilon, delta), smallest error first.

    The errors are those at one true answer (`at=42.0`), on `"average"` over a uniform one, or in the `"worst"` case.
    Clamping puts a spike of probability on the ends of the range; `spikes=False` leaves those mechanisms out.
    On a grid the choices are rounding and truncation to its points.

    Guarantee: every mechanism in the ranking is (epsilon, delta)-private, calibrated as by `calibrate`.
    Edge cases: unbounded noise is offered only where the support is the whole line; over an unbounded range the
    average is not defined and the worst case may be infinite.

    >>> import rangebound as rb
    >>> query = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> rb.choose(query=query, epsilon=1.0, delta=1e-6, objective="mae").choices[0].name
    'rectify TruncatedLaplacian'
    """
    arguments.instance("query", query, Query, "a Query")
    claim = Claim(epsilon=arguments.positive("epsilon", epsilon), delta=delta)
    arguments.instance("spikes", spikes, bool, "True or False")
    if support is not None:
        arguments.instance("support", support, (Interval, Union, Grid), "an Interval, a Union or a Grid")
    wanted, place = arguments.member("objective", objective, Objective), _place(at)
    choices, refused = [], []
    for family in FAMILIES.values():
        for bounding in _boundings(support if support is not None else query.range):
            name = describe_kind(bounding, family)
            try:
                mechanism = calibrate(
                    noise=family,
                    query=query,
                    support=support,
                    bounding=bounding,
                    epsilon=claim.epsilon,
                    delta=claim.delta,
                )
            except (Unsatisfiable, ArgumentError) as reason:
                refused.append((name, str(reason)))
                continue
            if mechanism.spikes and not spikes:
                refused.append((name, "puts spikes on the ends of the range"))
                continue
            error = _error(mechanism, place)
            choices.append(Choice(mechanism=mechanism, error=error, score=abs(getattr(error, wanted.value))))
    if not choices:
        reasons = "; ".join(dict.fromkeys(reason for _, reason in refused))
        raise Unsatisfiable(f"{claim.terms}: no mechanism can answer; {reasons}")
    choices.sort(key=lambda choice: (choice.score, choice.error.mse))
    return Ranking(
        query=query,
        claim=claim,
        objective=wanted,
        at=place,
        choices=tuple(choices),
        refused=tuple(refused),
    )


def _boundings(support: Support) -> tuple[Bounding, ...]:
    if isinstance(support, Grid):
        return (TRUNCATE, QUANTIZE)
    if is_line(support):
        return (UNBOUNDED,)
    return (TRUNCATE, RECTIFY) if len(support.spans) == 1 else (TRUNCATE,)


def _error(mechanism: Mechanism, place: At | float) -> Error[float]:
    if isinstance(place, At):
        return mechanism.worst_error() if place is At.WORST else mechanism.average_error()
    return mechanism.error(place)


def _place(at: str | float | At) -> At | float:
    if isinstance(at, At):
        return at
    if isinstance(at, str):
        try:
            return At(at)
        except ValueError:
            raise ArgumentError(f'at={at!r}: must be "worst", "average" or a true answer') from None
    return arguments.finite("at", at)
