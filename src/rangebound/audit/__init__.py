"""Audit: what any mechanism, ours or another library's, gives away at least, seen from its outputs alone."""

from __future__ import annotations

from rangebound.audit.attack import attack, worst_pair
from rangebound.audit.bound import EmpiricalBound, lower_bound
from rangebound.audit.timing import TimingLeak, timing

__all__ = ["EmpiricalBound", "TimingLeak", "attack", "lower_bound", "timing", "worst_pair"]
