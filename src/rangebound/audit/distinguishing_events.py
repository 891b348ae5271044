"""Events: sets of outputs that may be more likely under one answer than under another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rangebound.audit.bound import scores
from rangebound.audit.features import Feature
from rangebound.values.array_types import Floats, Integers

_LEVELS = 80  # thresholds on each side of the median
_FEWEST = 10  # outputs beyond the outermost threshold
_ATOMS = 64  # single numbers that are tried, the most frequent ones
_OFTEN = 20  # times that a number must occur to be one of them


@dataclass(frozen=True)
class Event:
    """The outputs with a feature below, above or at a level."""

    feature: Feature
    relation: str
    level: float

    @property
    def name(self) -> str:
        """The event in words."""
        return f"{self.feature.name} {self.relation} {self.level:.6g}"

    def count(self, outputs: Floats) -> int:
        """How many of the outputs belong to the event."""
        values = self.feature.compute(outputs)
        found = {"<=": values <= self.level, ">=": values >= self.level, "=": values == self.level}[self.relation]
        return int(found.sum())


@dataclass(frozen=True)
class EventChoice:
    """An event with its direction, and its score on the outputs that it was chosen on."""

    score: float
    event: Event
    swapped: bool


def best(feature: Feature, first: Floats, second: Floats, delta: float, confidence: float) -> EventChoice | None:
    """The best event on one feature, in either direction: the one with the largest lower bound on these outputs."""
    p, q = np.sort(feature.compute(first)), np.sort(feature.compute(second))
    found = None
    for relation, levels, p_hits, q_hits in _candidates(p, q):
        for swapped, (a, b) in enumerate(((p_hits, q_hits), (q_hits, p_hits))):
            values = scores(a, b, len(p), delta, confidence)
            at = int(values.argmax())
            if values[at] > (0.0 if found is None else found.score):
                found = EventChoice(float(values[at]), Event(feature, relation, float(levels[at])), bool(swapped))
    return found


def _candidates(p: Floats, q: Floats) -> list[tuple[str, Floats, Integers, Integers]]:
    """Relations, levels, and how many outputs of each sample they contain."""
    pooled = np.sort(np.concatenate([p, q]))
    places = np.unique(np.geomspace(_FEWEST, len(pooled) / 2, _LEVELS).astype(np.int64))
    levels = np.unique(np.concatenate([pooled[places], pooled[-places]]))
    below = [np.searchsorted(each, levels, side="right") for each in (p, q)]
    above = [len(each) - np.searchsorted(each, levels, side="left") for each in (p, q)]
    numbers, times = np.unique(pooled, return_counts=True)
    often = np.argsort(-times, kind="stable")[:_ATOMS]
    atoms = numbers[often[times[often] >= _OFTEN]]
    at = [np.searchsorted(each, atoms, side="right") - np.searchsorted(each, atoms, side="left") for each in (p, q)]
    found = [("<=", levels, below[0], below[1]), (">=", levels, above[0], above[1])]
    return [*found, ("=", atoms, at[0], at[1])] if len(atoms) else found
