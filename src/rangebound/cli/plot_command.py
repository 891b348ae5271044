"""`rangebound plot`: pictures of mechanisms, saved as PNG, SVG or PDF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rangebound as rb
from rangebound.cli import mechanism_options as words
from rangebound.cli.mechanism_options import Mechanisms, Range, Sensitivity, Step
from rangebound.cli.options import group, option
from rangebound.cli.output_files import check_files
from rangebound.errors import ArgumentError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

app = group("Pictures of mechanisms.")

_FORMATS = (".png", ".svg", ".pdf")


def _checked(output: Path) -> Path:
    """Check before anything is computed; the three suffixes also keep a mistyped name from replacing other files."""
    if output.suffix.lower() not in _FORMATS:
        raise ArgumentError(f"output={str(output)!r}: must end in {', '.join(_FORMATS)}")
    if not output.absolute().parent.is_dir():
        raise ArgumentError(f"output={str(output)!r}: its folder does not exist")
    check_files([output], name="output")
    return output


Output = Annotated[
    Path, typer.Option("--output", "-o", help="The picture to write: .png, .svg or .pdf.", callback=_checked)
]


_PICTURES = {
    "profile": ("profile", "The privacy profile: delta against epsilon."),
    "renyi": ("renyi_curve", "The Renyi divergence of the worst pair, against its order."),
    "tradeoff": ("tradeoff", "How often an attacker misses, by the false positive rate."),
    "fisher": ("fisher", "The Fisher information against the true answer."),
}
"""By command: the function of `rangebound.plot` that draws mechanisms, and the help."""


def _picture(drawing: str) -> Callable[..., None]:
    @words.on_mechanisms
    def command(made: Mechanisms, output: Output) -> None:
        _save(getattr(rb.plot, drawing)(*made), output)

    return command


for _name, (_drawing, _help) in _PICTURES.items():
    app.command(_name, help=_help)(_picture(_drawing))


@app.command()
@words.on_mechanisms
def law(
    made: Mechanisms,
    output: Output,
    at: Annotated[list[float], typer.Option(help="A true answer; repeat it for more.")],
) -> None:
    """The density and the atoms of the published number."""
    labels = [f"{each._words()}, true answer {answer:g}" for each in made for answer in at]
    _save(rb.plot.law(*(each.law(at) for each in made), labels=labels), output)


@app.command("worst-pair")
@words.on_mechanisms
def worst_pair(
    made: Mechanisms,
    output: Output,
    level: Annotated[float | None, option("Draw delta at this epsilon, not the pure epsilon.")] = None,
) -> None:
    """The privacy loss of each neighbouring pair, and the worst."""
    if len(made) != 1:
        raise ArgumentError("noise, bounding: give one of each; this picture shows one mechanism")
    _save(rb.plot.worst_pair(made[0], epsilon=level), output)


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
    asked = words.query(range, sensitivity)
    place = at if at in ("worst", "average") else _number(at)
    epsilons = None if epsilon is None else sorted(epsilon)
    within = words.support(asked, grid)
    axes = rb.plot.errors(asked, epsilons=epsilons, delta=delta, objective=objective, at=place, support=within)
    _save(axes, output)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"at={text!r}: must be worst, average or a number") from None


def _save(axes: Axes, output: Path) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.savefig(output)
    plt.close(figure)
    typer.echo(str(output))
