"""`rangebound plot`: pictures of mechanisms, saved as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
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
    from matplotlib.axes import Axes

    from rangebound.mechanism import Mechanism

app = typer.Typer(help="Pictures of mechanisms.", add_completion=False, rich_markup_mode=None)

_FORMATS = (".png", ".svg", ".pdf")

Output = Annotated[Path, typer.Option("--output", "-o", help="The picture to write: .png, .svg or .pdf.")]


def _add(name: str, words_for_it: str, draw: Callable[[list[Mechanism]], Axes]) -> None:
    """A command whose picture needs nothing but mechanisms."""

    @app.command(name, help=words_for_it)
    def command(
        output: Output,
        range: Range,
        sensitivity: Sensitivity,
        noise: Noises = LAPLACE,
        bounding: Boundings = TRUNCATED,
        scale: Scale = None,
        limit: Limit = None,
        epsilon: Epsilon = None,
        delta: Delta = 0.0,
        grid: Step = None,
    ) -> None:
        _checked(output)
        asked = words.query(range, sensitivity)
        _save(draw(words.mechanisms(asked, noise, bounding, grid, scale, limit, epsilon, delta)), output)


def _profile(made: list[Mechanism]) -> Axes:
    from rangebound import plot

    return plot.profile(*made)


def _renyi(made: list[Mechanism]) -> Axes:
    from rangebound import plot

    return plot.renyi_curve(*made)


def _fisher(made: list[Mechanism]) -> Axes:
    from rangebound import plot

    return plot.fisher(*made)


_add("profile", "The privacy profile: delta against epsilon.", _profile)
_add("renyi", "The Renyi divergence of the worst pair, against its order.", _renyi)
_add("fisher", "The Fisher information against the true answer.", _fisher)


@app.command()
def law(
    output: Output,
    range: Range,
    sensitivity: Sensitivity,
    at: Annotated[list[float], typer.Option(help="A true answer; repeat it for more.")],
    noise: Noises = LAPLACE,
    bounding: Boundings = TRUNCATED,
    scale: Scale = None,
    limit: Limit = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    grid: Step = None,
) -> None:
    """The density and the atoms of the published number."""
    from rangebound import plot

    _checked(output)
    asked = words.query(range, sensitivity)
    made = words.mechanisms(asked, noise, bounding, grid, scale, limit, epsilon, delta)
    _save(plot.law(*(each.law(at) for each in made)), output)


@app.command("worst-pair")
def worst_pair(
    output: Output,
    range: Range,
    sensitivity: Sensitivity,
    level: Annotated[
        float | None, typer.Option(help="Draw delta at this epsilon, not the pure epsilon.", show_default=False)
    ] = None,
    noise: Noises = LAPLACE,
    bounding: Boundings = TRUNCATED,
    scale: Scale = None,
    limit: Limit = None,
    epsilon: Epsilon = None,
    delta: Delta = 0.0,
    grid: Step = None,
) -> None:
    """What every pair of neighbouring answers gives away, and where the worst one sits."""
    from rangebound import plot

    _checked(output)
    asked = words.query(range, sensitivity)
    made = words.mechanisms(asked, noise, bounding, grid, scale, limit, epsilon, delta)
    if len(made) != 1:
        raise ArgumentError(f"noise={noise}, bounding={bounding}: name one of each; this picture is of one mechanism")
    _save(plot.worst_pair(made[0], epsilon=level), output)


@app.command()
def errors(
    output: Output,
    range: Range,
    sensitivity: Sensitivity,
    delta: Annotated[float, typer.Option(help="The delta that all mechanisms meet.")] = 0.0,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="An epsilon to calibrate at; repeat it.", show_default="0.1 to 5")
    ] = None,
    objective: Annotated[str, typer.Option(help="mae, mse or bias.")] = "mae",
    at: Annotated[str, typer.Option(help="worst, average, or a true answer.")] = "worst",
    grid: Step = None,
) -> None:
    """The error of every mechanism that can answer, against epsilon."""
    from rangebound import plot

    _checked(output)
    asked = words.query(range, sensitivity)
    place: Any = at if at in ("worst", "average") else _number(at)
    epsilons = None if epsilon is None else sorted(epsilon)
    within = words.support(asked, grid)
    axes = plot.errors(asked, epsilons=epsilons, delta=delta, objective=objective, at=place, support=within)
    _save(axes, output)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"at={text!r}: must be worst, average or a number") from None


def _checked(output: Path) -> None:
    """Refuse before anything is computed; the three endings also keep a mistyped name from replacing other files."""
    if output.suffix.lower() not in _FORMATS:
        raise ArgumentError(f"output={str(output)!r}: must end in {', '.join(_FORMATS)}")
    if not output.absolute().parent.is_dir():
        raise ArgumentError(f"output={str(output)!r}: its folder does not exist")


def _save(axes: Axes, output: Path) -> None:
    from matplotlib import pyplot as plt

    figure: Any = axes.figure
    figure.savefig(output)
    plt.close(figure)
    typer.echo(str(output))
