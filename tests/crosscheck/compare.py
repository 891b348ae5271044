"""One comparison for all cross-checks, so that a control shows what each of them can catch."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp

TIGHT = 1e-9


def distance(ours: Any, truth: Any, floor: float = 0.0) -> float:
    """Relative distance; `floor` is the size below which a value counts as that size. NaN is infinitely far."""
    ours, truth = mp.mpf(float(ours)), mp.mpf(truth)
    if mp.isnan(ours) or mp.isnan(truth):
        return math.inf
    if ours == truth:
        return 0.0
    if mp.isinf(ours) or mp.isinf(truth):
        return math.inf
    size = max(abs(truth), mp.mpf(floor))
    return float(abs(ours - truth) / size) if size else math.inf


def agree(ours: Any, truth: Any, *, rel: float = TIGHT, floor: float = 0.0, what: Any = "") -> None:
    away = distance(ours, truth, floor)
    assert away <= rel, f"{what}: {float(ours)!r} is not {mp.nstr(mp.mpf(truth), 17)}, {away:.2e} away"
