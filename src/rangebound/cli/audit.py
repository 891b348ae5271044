"""`rangebound audit`: what a mechanism gives away at least. Exit code 1 if its claim is refuted."""

from __future__ import annotations

import importlib
import json as to_json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rangebound.cli import mechanism as words
from rangebound.cli.mechanism import (
    LAPLACE,
    TRUNCATED,
    Boundings,
    Delta,
    Epsilon,
    Limit,
    Noises,
    Range,
    Scale,
    Sensitivity,
    Step,
)
from rangebound.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rangebound.audit import EmpiricalBound

app = typer.Typer(help="Lower bounds on what mechanisms give away.", add_completion=False, rich_markup_mode=None)

Draws = Annotated[int, typer.Option(help="Outputs to draw for each of the two answers.")]
Confidence = Annotated[float, typer.Option(help="How sure the bound must be.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def ours(
    range: Range,
    sensitivity: Sensitivity,
    claim: Annotated[
        float | None,
        typer.Option(help="The epsilon to refute; else what the mechanism guarantees.", show_default=False),
    ] = None,
    noise: Noises = LAPLACE,
    bounding: Boundings = TRUNCATED,
    scale: Scale = None,
    limit: Limit = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    grid: Step = None,
    draws: Draws = 1_000_000,
    confidence: Confidence = 0.999,
    json: Json = False,
) -> None:
    """Audit mechanisms of this library at their worst pairs."""
    from rangebound.audit import attack

    asked = words.query(range, sensitivity)
    found = []
    for made in words.mechanisms(asked, noise, bounding, grid, scale, limit, epsilon, delta):
        with _progress() as progress:
            found.append(
                attack(made, epsilon=claim, delta=delta, draws=draws, confidence=confidence, progress=progress)
            )
    _report(found, json)


@app.command()
def call(
    function: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="What to audit; it must be importable.")],
    pair: Annotated[tuple[float, float], typer.Option(help="Two neighbouring answers.")],
    claim: Annotated[float | None, typer.Option(help="The epsilon that it claims.", show_default=False)] = None,
    delta: Annotated[float, typer.Option(help="The delta that it claims.")] = 0.0,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="It takes an answer and returns one output; else (answer, count).")
    ] = False,
    draws: Draws = 1_000_000,
    confidence: Confidence = 0.999,
    json: Json = False,
) -> None:
    """Audit any function that publishes numbers."""
    from rangebound.audit import adapters, attack

    target = _imported(function)
    draw = adapters.one_by_one(target) if one_by_one else target
    with _progress() as progress:
        found = attack(
            draw, pair=pair, epsilon=claim, delta=delta, draws=draws, confidence=confidence, progress=progress
        )
    _report([found], json)


def _imported(path: str) -> Any:
    module, colon, name = path.partition(":")
    if not (module and colon and name):
        raise ArgumentError(f"function={path!r}: must be MODULE:FUNCTION, such as mypackage.noise:publish")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as reason:
        raise ArgumentError(f"function={path!r}: cannot be imported ({reason})") from None
    if not callable(found):
        raise ArgumentError(f"function={path!r}: must be a function, not {type(found).__name__}")
    return found


def _report(found: list[EmpiricalBound], json: bool) -> None:
    if json:
        typer.echo(to_json.dumps([each.to_dict() for each in found], indent=1))
    else:
        for each in found:
            typer.echo(str(each))
    if any(each.refutes for each in found):
        raise typer.Exit(1)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on the error stream, where someone can see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("drawing", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
