"""A query and its mechanisms from the words of a command line."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated

import typer

from rangebound.errors import ArgumentError

if TYPE_CHECKING:
    from rangebound.mechanism import Mechanism
    from rangebound.noise import Noise
    from rangebound.query import Query
    from rangebound.support import Support

Range = Annotated[
    list[str],
    typer.Option("--range", help="Where true answers lie, as LOWER:UPPER (inf is allowed); repeat it for a union."),
]
Sensitivity = Annotated[float, typer.Option(help="How far one person can move the answer.")]
Noises = Annotated[
    list[str], typer.Option("--noise", help="laplace, gaussian or truncated_laplacian; repeat it to compare.")
]
Boundings = Annotated[
    list[str], typer.Option("--bounding", help="truncate, rectify, quantize or unbounded; repeat it to compare.")
]
Scale = Annotated[float | None, typer.Option(help="The scale of the noise, if known.", show_default=False)]
Limit = Annotated[
    float | None, typer.Option(help="The limit of truncated Laplacian noise, with --scale.", show_default=False)
]
Epsilon = Annotated[float | None, typer.Option(help="Else: calibrate for this epsilon.", show_default=False)]
Delta = Annotated[float, typer.Option(help="... and for this delta.")]
Step = Annotated[float | None, typer.Option("--grid", help="Publish only multiples of this.", show_default=False)]

LAPLACE, TRUNCATED = ["laplace"], ["truncate"]  # what is drawn unless something else is named


def query(spans: list[str], sensitivity: float) -> Query:
    """The query of --range and --sensitivity."""
    from rangebound.query import Query
    from rangebound.support import Interval, Union

    pairs = [_span(each) for each in spans]
    return Query(range=Interval(*pairs[0]) if len(pairs) == 1 else Union(*pairs), sensitivity=sensitivity)


def support(asked: Query, step: float | None) -> Support | None:
    """The support: that of the query, or the grid of --grid in it."""
    from rangebound.support import Grid

    return None if step is None else Grid(step=step, within=asked.range.hull)


def mechanisms(
    asked: Query,
    noises: list[str],
    boundings: list[str],
    step: float | None,
    scale: float | None,
    limit: float | None,
    epsilon: float | None,
    delta: float,
) -> list[Mechanism]:
    """One mechanism for each noise and bounding, with the scale given or calibrated."""
    from rangebound.bounding import UNBOUNDED, Bounding
    from rangebound.calibrate import calibrate
    from rangebound.mechanism import Mechanism

    if (scale is None) == (epsilon is None):
        raise ArgumentError("scale, epsilon: give exactly one of --scale and --epsilon")
    names = {each.value: each for each in Bounding}
    found = []
    for noise, name in itertools.product(noises, boundings):
        if name not in names:
            raise ArgumentError(f"bounding={name!r}: must be one of {', '.join(names)}")
        bound = names[name]
        within = None if bound is UNBOUNDED else support(asked, step)
        if scale is not None:
            made = Mechanism(noise=_noise(noise, scale, limit), query=asked, support=within, bounding=bound)
        else:
            assert epsilon is not None
            made = calibrate(
                noise=_family(noise), query=asked, support=within, bounding=bound, epsilon=epsilon, delta=delta
            )
        found.append(made)
    return found


def _span(text: str) -> tuple[float, float]:
    lower, colon, upper = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return float(lower), float(upper)
    except ValueError:
        raise ArgumentError(f"range={text!r}: must be LOWER:UPPER, such as 0:100 or 0:inf") from None


def _family(name: str) -> type[Noise]:
    from rangebound.mechanism import NOISES

    if name not in NOISES:
        raise ArgumentError(f"noise={name!r}: must be one of {', '.join(NOISES)}")
    return NOISES[name]


def _noise(name: str, scale: float, limit: float | None) -> Noise:
    from rangebound.noise import TruncatedLaplacian

    family = _family(name)
    if family is not TruncatedLaplacian:
        return family(scale=scale)  # type: ignore[call-arg]
    if limit is None:
        raise ArgumentError("limit=None: truncated_laplacian with --scale needs --limit")
    return TruncatedLaplacian(scale=scale, limit=limit)
