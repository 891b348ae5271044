"""A query and its mechanisms from command-line options."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import rangebound as rb
from rangebound.cli.options import option, taking
from rangebound.errors import ArgumentError
from rangebound.values import arguments

if TYPE_CHECKING:
    from rangebound.laws.family import Noise
    from rangebound.values.support import Support

Mechanisms: TypeAlias = "list[rb.Mechanism]"  # a string: Typer evaluates it, and the name itself would load the library
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
Scale = Annotated[float | None, option("The scale of the noise, if known.")]
Limit = Annotated[float | None, option("The limit of truncated Laplacian noise, with --scale.")]
Epsilon = Annotated[float | None, option("Calibrate for this epsilon, in place of --scale.")]
Delta = Annotated[float, typer.Option(help="... and for this delta.")]
Step = Annotated[float | None, option("Publish only multiples of this.", "--grid")]

_LIMITED = "truncated_laplacian"
_LAPLACE, _TRUNCATED = ["laplace"], ["truncate"]  # the defaults


def mechanisms(
    range: Range,
    sensitivity: Sensitivity,
    noise: Noises = _LAPLACE,
    bounding: Boundings = _TRUNCATED,
    scale: Scale = None,
    limit: Limit = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    grid: Step = None,
) -> Mechanisms:
    """One mechanism for each noise and bounding, with the scale given or calibrated."""
    from rangebound.laws.boundings import Bounding

    asked = query(range, sensitivity)
    if (scale is None) == (epsilon is None):
        raise ArgumentError("scale, epsilon: give exactly one of --scale and --epsilon")
    if limit is not None and (scale is None or _LIMITED not in noise):
        raise ArgumentError(f"limit={limit}: goes with --scale and --noise {_LIMITED}")
    found = []
    for family, word in itertools.product(noise, bounding):
        bound = arguments.member("bounding", word, Bounding)
        if bound is rb.QUANTIZE and grid is None:
            raise ArgumentError("bounding='quantize': needs --grid, the step to round to")
        within = None if bound is rb.UNBOUNDED else support(asked, grid)
        if epsilon is None:
            drawn = noise_named(family, scale, limit if family == _LIMITED else None)
            made = rb.Mechanism(noise=drawn, query=asked, support=within, bounding=bound)
        else:
            made = rb.calibrate(
                noise=_family(family), query=asked, support=within, bounding=bound, epsilon=epsilon, delta=delta
            )
        found.append(made)
    return found


on_mechanisms = taking(mechanisms)
"""A command whose first argument is the mechanisms that these options describe."""


def query(spans: list[str], sensitivity: float) -> rb.Query:
    """The query of --range and --sensitivity."""
    pairs = [_span(each) for each in spans]
    return rb.Query(range=rb.Interval(*pairs[0]) if len(pairs) == 1 else rb.Union(*pairs), sensitivity=sensitivity)


def support(asked: rb.Query, step: float | None) -> Support | None:
    """The support: that of the query, or the grid of --grid in it."""
    return None if step is None else rb.Grid(step=step, within=asked.range.hull)


def noise_named(name: object, scale: Any, limit: Any) -> Noise:
    """The noise of this name."""
    family: Any = _family(name)
    if (limit is not None) != ("limit" in (each.name for each in dataclasses.fields(family))):
        raise ArgumentError(f"limit={limit}: {_LIMITED} noise needs one, other noise has none")
    found: Noise = family(scale=scale) if limit is None else family(scale=scale, limit=limit)
    return found


def _family(name: object) -> type[Noise]:
    from rangebound.laws.families import FAMILIES

    if not isinstance(name, str) or name not in FAMILIES:
        raise ArgumentError(f"noise={name!r}: must be one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


def _span(text: str) -> tuple[float, float]:
    lower, colon, upper = text.partition(":")
    try:
        if not colon:
            raise ValueError
        return float(lower), float(upper)
    except ValueError:
        raise ArgumentError(f"range={text!r}: must be LOWER:UPPER, such as 0:100 or 0:inf") from None
