"""What is drawn and what becomes of it: coordinates in, draws, readings and published cells out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rangebound.laws.family import Noise
from rangebound.release.plan.statistic import Columns, Coordinates, Draw, Key, Label, Pair, Summed

__all__ = [
    "AddedNoise",
    "Bits",
    "Cell",
    "Columns",
    "Coordinates",
    "Draw",
    "Key",
    "Label",
    "Pair",
    "Reading",
    "Summed",
]

Bits = Callable[[int], int]
"""n secure random bits as an integer below 2^n."""


@dataclass(frozen=True, kw_only=True)
class AddedNoise:
    """The noise that was added to each coordinate by itself, and how often an interval made of all of them holds.

    A coordinate was moved by up to `slack` more, since it was rounded.
    """

    noise: Noise
    level: float
    slack: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What a draw says about the true coordinates: values, an interval for each, and the rank error of a quantile.

    `added` is the noise, where it was added to the coordinates and not clamped or truncated. Where several numbers are
    made of one draw, `part` says which one this reading is for.
    """

    values: tuple[float, ...]
    intervals: tuple[Pair, ...]
    rank_error: float | None = None
    added: AddedNoise | None = None
    part: int = 0


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One published number: whose it is, what was drawn for it, what was made of that, and what it cost.

    In a Gaussian account `mu` is the cost of all numbers of the question together, where their noise is Gaussian.

    But for the draws, and for keys that were selected privately, all of it follows from the plan.
    """

    question: int
    key: Summed
    part: str
    value: float
    lower: float
    upper: float
    epsilon: float
    delta: float
    rank_error: float | None = None
    draws: Draw = ()
    mu: float = 0.0
