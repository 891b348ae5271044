"""A query and its mechanisms from command-line options."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import rangebound as rb
from rangebound.errors import ArgumentError

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
Scale = Annotated[float | None, typer.Option(help="The scale of the noise, if known.", show_default=False)]
Limit = Annotated[
    float | None, typer.Option(help="The limit of truncated Laplacian noise, with --scale.", show_default=False)
]
Epsilon = Annotated[
    float | None, typer.Option(help="Calibrate for this epsilon, in place of --scale.", show_default=False)
]
Delta = Annotated[float, typer.Option(help="... and for this delta.")]
Step = Annotated[float | None, typer.Option("--grid", help="Publish only multiples of this.", show_default=False)]

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
    from rangebound.values import arguments

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


def on_mechanisms(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose first argument is the mechanisms that the options of `mechanisms` describe, before its own."""
    shared = inspect.signature(mechanisms, eval_str=True).parameters
    own = dict(list(inspect.signature(command, eval_str=True).parameters.items())[1:])
    options = [each.replace(kind=each.KEYWORD_ONLY) for each in (shared | own).values()]

    @functools.wraps(command)
    def run(**given: object) -> None:
        made = mechanisms(**{name: given[name] for name in shared})  # type: ignore[arg-type]
        command(made, **{name: given[name] for name in own})

    # Typer derives the options from these.
    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run


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
