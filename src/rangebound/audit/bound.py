"""Empirical lower bounds, a type of their own since an observed leak does not bound what can leak; what to look at.

Features are numbers made of an output: its value, how fine it is, its last bits, whether it was seen before. An event
is a set of outputs that may be more likely under one answer than under another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rangebound.errors import ArgumentError
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers

Pair = tuple[float | str, float | str]
"""Two neighbouring answers; or two tables, in words that follow "3 of 10 times"."""

_DOWN = 1.0 - 1e-9  # far more than the errors of the inverse beta function


@arguments.brief
@dataclass(frozen=True, kw_only=True)
class EmpiricalBound:
    """An empirical lower bound on epsilon: not a guarantee, and not an amount that a budget accepts.

    `pair` names first the answer under which the event is too likely; `hits` counts the event among `held_out`
    outputs of each. `claimed` is the guarantee under test, if there is one.
    """

    epsilon: float
    delta: float
    confidence: float
    event: str
    pair: Pair
    hits: tuple[int, int]
    held_out: int
    claimed: float | None = None

    @property
    def refutes(self) -> bool:
        """Whether the claim is refuted at this confidence."""
        return self.claimed is not None and self.epsilon > self.claimed

    def to_dict(self) -> dict[str, object]:
        """The finding as plain data, for JSON."""
        return {**vars(self), "pair": list(self.pair), "hits": list(self.hits), "refutes": self.refutes}

    def __str__(self) -> str:
        claim = "" if self.claimed is None else f"this mechanism claims ({self.claimed:g}, {self.delta:g}); "
        with_delta = f" with delta {self.delta:g}" if self.delta and self.claimed is None else ""
        found = f"at {100 * self.confidence:.10g} % confidence it leaks at least {_floor(self.epsilon)}{with_delta}"
        a, b = (each if isinstance(each, str) else f"at {each:.15g}" for each in self.pair)
        times = arguments.counted(self.held_out, "time")
        seen = f"{self.event}: {self.hits[0]} of {times} {a}, {self.hits[1]} {b}"
        return f"{claim}{found} ({seen})"


def lower_bound(hits: tuple[int, int], count: int, *, delta: float = 0.0, confidence: float = 0.999) -> float:
    """The epsilon that one event proves: ln((p - delta)/q), with Clopper-Pearson's limits (lower for p, upper for q).

    Guarantee: below the true epsilon with probability at least `confidence`, whatever the mechanism, if the event was
    fixed before these outputs were drawn. Each of the two limits may fail with half of the remaining probability.
    Edge cases: 0 where nothing is proved.

    >>> round(lower_bound((500, 20), 1000), 3)
    2.441
    """
    level = arguments.probability("confidence", confidence)
    delta = arguments.probability("delta", delta)
    if not (0 <= hits[0] <= count and 0 <= hits[1] <= count and count > 0):
        raise ArgumentError(f"hits={hits}, count={count}: must be between 0 and the count, which is positive")
    p, q = np.asarray([hits[0]]), np.asarray([hits[1]])
    return max(float(scores(p, q, count, delta, level)[0]) * _DOWN, 0.0)


def scores(p_hits: Integers, q_hits: Integers, count: int, delta: float, confidence: float) -> Floats:
    """The same over arrays of events, not clamped at zero; -inf where nothing is proved."""
    from scipy.special import betainccinv, betaincinv

    risk = 0.5 * (1.0 - confidence)
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(p_hits > 0, betaincinv(np.maximum(p_hits, 1), count - p_hits + 1, risk), 0.0)
        inner = np.minimum(q_hits, count - 1)
        high = np.where(q_hits < count, betainccinv(inner + 1, count - inner, risk), 1.0)
        proved: Floats = np.where(low > delta, np.log(np.maximum(low - delta, 0.0) / high), -math.inf)
    return proved


def _floor(epsilon: float) -> str:
    """Two decimals (or digits, if small), rounded down, so that what is printed is proved as well."""
    digits = 2 if epsilon >= 0.1 or epsilon <= 0.0 else 1 - math.floor(math.log10(epsilon))
    return f"{math.floor(epsilon * 10**digits) / 10**digits:.{digits}f}"


_ZERO = -2000.0  # how fine zero is: coarser than every other double
_LAST = 8  # patterns of the last three bits
_BINS, _GRAINS = 64, 8
_LEVELS = 80  # thresholds on each side of the median
_FEWEST = 10  # outputs beyond the outermost threshold
_ATOMS = 64  # single numbers that are tried, the most frequent ones
_OFTEN = 20  # times that a number must occur to be one of them


@dataclass(frozen=True)
class Feature:
    """One number for each output, and words for it."""

    name: str
    compute: Callable[[Floats], Floats]


class Classifier(Protocol):
    """A binary classifier; every classifier of scikit-learn is one."""

    def fit(self, rows: Floats, kinds: npt.NDArray[np.int64]) -> object:
        """Learn from rows of the kinds 0 and 1."""

    def predict_proba(self, rows: Floats) -> Floats:
        """The probability of each kind, in two columns."""


def grain(outputs: Floats) -> Floats:
    """The k for which the output is an odd multiple of 2^-k; float noise on a small answer is finer than on a big one.

    >>> grain(np.asarray([1.0, 0.75, 6.0, 0.0])).tolist()
    [0.0, 2.0, -1.0, -2000.0]
    """
    digits, exponent = _digits(outputs)
    last = np.log2((digits & -digits).astype(np.float64), where=digits != 0, out=np.zeros(outputs.shape))
    return np.where(digits == 0, _ZERO, 53.0 - exponent - last)


def last_bits(outputs: Floats) -> Floats:
    """The last three bits of the 53 that a double holds.

    >>> last_bits(np.asarray([1.0, np.nextafter(1.0, 2.0)])).tolist()
    [0.0, 1.0]
    """
    return (_digits(outputs)[0] % _LAST).astype(np.float64)


FEATURES = (
    Feature("value", lambda outputs: outputs),
    Feature("bits behind the point", grain),
    Feature("last three bits", last_bits),
)


def _digits(outputs: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    finite = np.where(np.isfinite(outputs), outputs, 0.0)
    mantissa, exponent = np.frexp(finite)
    return np.abs(np.ldexp(mantissa, 53)).astype(np.int64), exponent


def seen_only(first: Floats, second: Floats) -> Feature:
    """1 for a number that only the first sample contains, -1 for one that only the second contains, else 0."""
    one, other = np.unique(first), np.unique(second)
    only_first, only_second = (np.setdiff1d(a, b, assume_unique=True) for a, b in ((one, other), (other, one)))
    return Feature(
        "numbers seen only with one answer",
        lambda outputs: np.isin(outputs, only_first).astype(np.float64) - np.isin(outputs, only_second),
    )


def classified(classifier: Classifier, first: Floats, second: Floats) -> Feature:
    """The probability of the first answer, learned from two samples by value, fineness and last bits."""
    rows = np.concatenate([table(first), table(second)])
    kinds = np.concatenate([np.ones(len(first), dtype=np.int64), np.zeros(len(second), dtype=np.int64)])
    classifier.fit(rows, kinds)
    return Feature(
        f"score of {type(classifier).__name__}",
        lambda outputs: np.asarray(classifier.predict_proba(table(outputs)), dtype=np.float64)[:, 1],
    )


def table(outputs: Floats) -> Floats:
    """The features that a classifier gets: value, fineness, last bits."""
    return np.stack([np.where(np.isfinite(outputs), outputs, 0.0), grain(outputs), last_bits(outputs)], axis=1)


class HistogramClassifier:
    """A plain classifier: the share of each kind in the cells of a grid over value and fineness.

    >>> rows = np.asarray([[0.0, 1.0, 0.0], [0.1, 1.0, 0.0], [5.0, 1.0, 0.0], [5.1, 1.0, 0.0]])
    >>> found = HistogramClassifier()
    >>> found.fit(rows, np.asarray([1, 1, 0, 0]))
    >>> (found.predict_proba(rows)[:, 1] > 0.5).tolist()
    [True, True, False, False]
    """

    def fit(self, rows: Floats, kinds: npt.NDArray[np.int64]) -> None:
        """Cut both features at quantiles and count."""
        self._cuts = [
            np.unique(np.quantile(rows[:, k], np.linspace(0.0, 1.0, bins + 1)[1:-1]))
            for k, bins in ((0, _BINS), (1, _GRAINS))
        ]
        size = (len(self._cuts[0]) + 1) * (len(self._cuts[1]) + 1)
        ones, zeros = (np.bincount(self._cells(rows[kinds == kind]), minlength=size) for kind in (1, 0))
        self._share = (ones + 1.0) / (ones + zeros + 2.0)

    def predict_proba(self, rows: Floats) -> Floats:
        """The share of each kind in the cell of each row."""
        share = self._share[self._cells(rows)]
        return np.stack([1.0 - share, share], axis=1)

    def _cells(self, rows: Floats) -> npt.NDArray[np.int64]:
        across, along = (np.searchsorted(cuts, rows[:, k], side="right") for k, cuts in enumerate(self._cuts))
        return across * (len(self._cuts[1]) + 1) + along


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
