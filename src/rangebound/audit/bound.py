"""Empirical lower bounds: a type of their own, because an observed leak does not bound what can leak."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rangebound.errors import ArgumentError
from rangebound.values import arguments
from rangebound.values.array_types import Floats, Integers

_DOWN = 1.0 - 1e-9  # far more than the errors of the inverse beta function


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
    pair: tuple[float, float]
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
        a, b = self.pair
        times = arguments.counted(self.held_out, "time")
        seen = f"{self.event}: {self.hits[0]} of {times} at {a:.15g}, {self.hits[1]} at {b:.15g}"
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
