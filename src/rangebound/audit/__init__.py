"""Audit: empirical lower bounds on the privacy loss of any mechanism, from its outputs alone."""

from __future__ import annotations

from rangebound.audit.attack import attack, worst_pair
from rangebound.audit.bound import EmpiricalBound, lower_bound
from rangebound.audit.right_guesses import Reading as Reading
from rangebound.audit.timing import TimingLeak, timing
from rangebound.audit.training import TrainingBound as TrainingBound
from rangebound.audit.training import training as training

__all__ = ["EmpiricalBound", "TimingLeak", "attack", "lower_bound", "timing", "worst_pair"]
