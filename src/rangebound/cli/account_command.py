"""`rangebound account`: the composition of mechanisms that are written down in TOML."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

import rangebound as rb
from rangebound.cli import printing
from rangebound.cli.mechanism_commands import noise_named
from rangebound.cli.options import Json, option, progress_bar
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments

if TYPE_CHECKING:
    from rangebound.accounting.best_accountant import EveryAccountant
    from rangebound.accounting.event import SingleEvent
    from rangebound.values.support import Support

_KNOWN = {"noise", "scale", "limit", "range", "sensitivity", "support", "bounding", "times", "rate"}
_WIDTH = 100  # columns, where there is no terminal


def account(
    releases: Annotated[
        Path, typer.Argument(metavar="RELEASES", help="A TOML file with a [[release]] for each mechanism.")
    ],
    delta: Annotated[list[float] | None, option("Print epsilon at this delta; may be repeated.")] = None,
    epsilon: Annotated[list[float] | None, option("Print delta at this epsilon; may be repeated.")] = None,
    json: Json = False,
) -> None:
    """Compose mechanisms: epsilon at a delta, and delta at an epsilon.

    Without options the file's own `delta` and `epsilon` are used, and without these a delta of 1e-6.
    """
    from rangebound.accounting.best_accountant import every_delta, every_epsilon

    event, deltas, epsilons = _read(releases)
    if delta or epsilon:
        deltas, epsilons = delta or [], epsilon or []
    elif not deltas and not epsilons:
        deltas = [1e-6]
    with progress_bar("composing") as progress:
        rows = [_Row("epsilon", "delta", level, _bounds(every_epsilon(event, level, progress))) for level in deltas]
        rows += [_Row("delta", "epsilon", level, _bounds(every_delta(event, level, progress))) for level in epsilons]
    if json:
        printing.data({"steps": _count(event), "results": [each.to_dict() for each in rows]})
    else:
        _show(rows, _count(event))


class _Row(NamedTuple):
    """One number that was asked for, the other one that it is asked at, and its bounds."""

    asked: str
    given: str
    level: float
    bounds: dict[str, float]

    def to_dict(self) -> dict[str, object]:
        """The row as plain data, without infinities, which JSON does not have."""
        plain = {key: "inf" if math.isinf(each) else each for key, each in self.bounds.items()}
        return {"asked": self.asked, "at": {self.given: self.level}, **plain}


def _bounds(every: EveryAccountant) -> dict[str, float]:
    """What each accountant proves, and the best of it."""
    found = every.best
    return {
        "at_least": found.lower,
        "at_most": found.upper,
        "privacy_loss": every.pld.upper,
        "renyi": every.renyi,
        "adaptive": every.adaptive,
    }


def _read(path: Path) -> tuple[rb.accounting.ComposedEvent, list[float], list[float]]:
    """The event of a file, and the deltas and epsilons it asks for."""
    import tomllib

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ArgumentError(f"{path}: not valid TOML: {error}") from None
    unknown = sorted(set(data) - {"release", "delta", "epsilon"})
    if unknown:
        raise ArgumentError(f"{path}: unknown field {unknown[0]!r}; a file has [[release]], delta and epsilon")
    entries = data.get("release", [])
    if not isinstance(entries, list) or not entries or not all(isinstance(each, dict) for each in entries):
        raise ArgumentError(f"{path}: must have at least one [[release]]")
    events = []
    for number, entry in enumerate(entries, start=1):
        try:
            events.append(_event(entry))
        except (ArgumentError, ArgumentTypeError) as error:
            raise ArgumentError(f"{path}, release {number}: {error}") from None
    return rb.accounting.ComposedEvent(events=tuple(events)), _levels(data, "delta"), _levels(data, "epsilon")


def _levels(data: dict[str, Any], name: str) -> list[float]:
    levels = data.get(name, [])
    levels = levels if isinstance(levels, list) else [levels]
    if any(isinstance(each, bool) or not isinstance(each, (int, float)) for each in levels):
        raise ArgumentTypeError(f"{name}={levels}: must be a number or a list of numbers")
    return [float(each) for each in levels]


def _event(entry: dict[str, Any]) -> SingleEvent:
    """One [[release]]: a mechanism, how often it is used, and its sampling rate."""
    from rangebound.laws.boundings import Bounding

    unknown = sorted(set(entry) - _KNOWN)
    if unknown:
        raise ArgumentError(f"{unknown[0]}: unknown field; a release has {', '.join(sorted(_KNOWN))}")
    missing = [name for name in ("noise", "scale", "sensitivity") if name not in entry]
    if missing:
        raise ArgumentError(f"{missing[0]}: missing; a release needs noise, scale and sensitivity")
    bounding = entry.get("bounding", "truncate" if "range" in entry or "support" in entry else "unbounded")
    answers: Any = _support("range", entry.get("range", [-math.inf, math.inf]))
    mechanism = rb.Mechanism(
        noise=noise_named(entry["noise"], entry["scale"], entry.get("limit")),
        query=rb.Query(range=answers, sensitivity=entry["sensitivity"]),
        support=_support("support", entry["support"]) if "support" in entry else None,
        bounding=arguments.member("bounding", bounding, Bounding),
    )
    times = entry.get("times", 1)
    if "rate" in entry:
        return rb.accounting.SampledEvent(mechanism=mechanism, rate=entry["rate"], times=times)
    return rb.accounting.MechanismEvent(mechanism=mechanism, times=times)


def _support(name: str, value: Any) -> Support:
    """[0, 10] is an interval and [[0, 1], [2, 3]] a union; a table gives all fields, as for a grid."""
    from rangebound.values.serial import support_from_dict

    match value:
        case dict():
            return support_from_dict(value)
        case [list(), *_]:
            return rb.Union(*map(_ends, value))
        case [_, _]:
            return rb.Interval(*_ends(value))
    raise ArgumentError(f"{name}={value}: must be two numbers, a list of such pairs, or a table")


def _ends(pair: Any) -> Any:
    """The same with "inf" and "-inf" as numbers."""
    return [float(each) if each in ("inf", "-inf") else each for each in pair] if isinstance(pair, list) else pair


def _count(event: rb.accounting.ComposedEvent) -> int:
    from rangebound.accounting.event import steps

    return sum(steps(event).values())


def _show(rows: list[_Row], count: int) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(
        box=None, pad_edge=False, header_style="bold", title=arguments.counted(count, "step"), title_justify="left"
    )
    for name in ("asked", "at least", "at most", "privacy loss", "Renyi", "adaptive"):
        table.add_column(name, justify="left" if name == "asked" else "right")
    for row in rows:
        table.add_row(
            f"{row.asked} at {row.given} {row.level:g}",
            arguments.downwards(row.bounds["at_least"]),
            *(arguments.upwards(row.bounds[key]) for key in ("at_most", "privacy_loss", "renyi", "adaptive")),
        )
    Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False, markup=False, emoji=False).print(table)
