"""`rangebound audit` and `plot`: mechanisms from options, lower bounds on their privacy loss, and pictures of them.

An audit that refutes a claim ends with exit code 1.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.options import Json, PlanFile, check_files, group, option, progress_bar, taking
from rangebound.errors import ArgumentError
from rangebound.values import arguments

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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


audit_app = group("Lower bounds on the privacy loss of mechanisms.")

Draws = Annotated[int, typer.Option(help="Outputs to draw for each of the two answers.")]
Confidence = Annotated[float, typer.Option(help="The confidence level of the bound.")]


@audit_app.command()
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


@audit_app.command()
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


@audit_app.command()
def plan(
    plan: PlanFile,
    draws: Annotated[int, typer.Option(help="Releases to draw of each of the two tables.")] = 10_000,
    confidence: Confidence = 0.999,
    json: Json = False,
) -> None:
    """Audit all that a plan publishes, of made-up tables."""
    _report([rb.audit.table(rb.read_plan(plan), draws=draws, confidence=confidence)], json)


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


plot_app = group("Pictures of mechanisms.")

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
    @on_mechanisms
    def command(made: Mechanisms, output: Output) -> None:
        _save(getattr(rb.plot, drawing)(*made), output)

    return command


for _name, (_drawing, _help) in _PICTURES.items():
    plot_app.command(_name, help=_help)(_picture(_drawing))


@plot_app.command()
@on_mechanisms
def law(
    made: Mechanisms,
    output: Output,
    at: Annotated[list[float], typer.Option(help="A true answer; repeat it for more.")],
) -> None:
    """The density and the atoms of the published number."""
    labels = [f"{each._words()}, true answer {answer:g}" for each in made for answer in at]
    _save(rb.plot.law(*(each.law(at) for each in made), labels=labels), output)


@plot_app.command("worst-pair")
@on_mechanisms
def worst_pair(
    made: Mechanisms,
    output: Output,
    level: Annotated[float | None, option("Draw delta at this epsilon, not the pure epsilon.")] = None,
) -> None:
    """The privacy loss of each neighbouring pair, and the worst."""
    if len(made) != 1:
        raise ArgumentError("noise, bounding: give one of each; this picture shows one mechanism")
    _save(rb.plot.worst_pair(made[0], epsilon=level), output)


@plot_app.command()
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
    asked = query(range, sensitivity)
    place = at if at in ("worst", "average") else _number(at)
    epsilons = None if epsilon is None else sorted(epsilon)
    within = support(asked, grid)
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
