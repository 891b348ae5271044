"""`rangebound audit`: lower bounds on the privacy loss of mechanisms. Exit code 1 if a claim is refuted."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Annotated, Any

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.mechanism_options import Delta, Mechanisms, on_mechanisms
from rangebound.cli.options import Json, group, option, progress_bar
from rangebound.errors import ArgumentError
from rangebound.values import arguments

app = group("Lower bounds on the privacy loss of mechanisms.")

Draws = Annotated[int, typer.Option(help="Outputs to draw for each of the two answers.")]
Confidence = Annotated[float, typer.Option(help="The confidence level of the bound.")]


@app.command()
@on_mechanisms
def ours(
    made: Mechanisms,
    claim: Annotated[float | None, option("The epsilon to refute; default: what the mechanism guarantees.")] = None,
    delta: Delta = 0.0,
    draws: Draws = 1_000_000,
    confidence: Confidence = 0.999,
    json: Json = False,
) -> None:
    """Audit mechanisms of this library at their worst pairs."""
    found = []
    for each in made:
        with progress_bar("drawing") as progress:
            found.append(
                rb.audit.attack(each, epsilon=claim, delta=delta, draws=draws, confidence=confidence, progress=progress)
            )
    _report(found, json)


@app.command()
def call(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="What to audit; it must be importable.")],
    pair: Annotated[tuple[float, float], typer.Option(help="Two neighbouring answers.")],
    claim: Annotated[float | None, option("The epsilon that it claims.")] = None,
    delta: Annotated[float, typer.Option(help="The delta that it claims.")] = 0.0,
    one_by_one: Annotated[
        bool,
        typer.Option(
            "--one-by-one", help="The function takes an answer and returns one output; default: (answer, count)."
        ),
    ] = False,
    draws: Draws = 1_000_000,
    confidence: Confidence = 0.999,
    json: Json = False,
) -> None:
    """Audit any function that publishes numbers."""
    from rangebound.audit import adapters

    target = _imported(function)
    rule = "a function of an answer and a count, or of an answer alone with --one-by-one"
    arguments.function("function", target, 1 if one_by_one else 2, rule)
    draw = adapters.one_by_one(target) if one_by_one else target
    with progress_bar("drawing") as progress:
        found = rb.audit.attack(
            draw, pair=pair, epsilon=claim, delta=delta, draws=draws, confidence=confidence, progress=progress
        )
    _report([found], json)


def _imported(path: str) -> Any:
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ArgumentError(f"function={path!r}: must be MODULE:FUNCTION, such as mypackage.noise:publish")
    if "" not in sys.path:
        sys.path.append("")  # so that a module of this folder can be imported, as with `python -m`
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as reason:  # importing another's module may raise anything
        raise ArgumentError(f"function={path!r}: cannot be imported ({_named(reason)})") from None
    if not callable(found):
        raise ArgumentError(f"function={path!r}: must be a function, not {type(found).__name__}")

    @functools.wraps(found)
    def call(*given: object) -> object:
        try:
            return found(*given)
        except (Exception, SystemExit) as reason:
            raise ArgumentError(f"function={path!r}: failed ({_named(reason)})") from None

    return call


def _named(reason: BaseException) -> str:
    return f"{type(reason).__name__}: {reason}"


def _report(found: list[rb.audit.EmpiricalBound], json: bool) -> None:
    if json:
        printing.data([each.to_dict() for each in found])
    else:
        for each in found:
            typer.echo(str(each))
    if any(each.refutes for each in found):
        raise typer.Exit(1)
