"""Audit: empirical lower bounds on the privacy loss of any mechanism or training, from its outputs alone."""

from __future__ import annotations

from rangebound.audit.attack import attack, worst_pair
from rangebound.audit.bound import EmpiricalBound, lower_bound
from rangebound.audit.right_guesses import Reading
from rangebound.audit.timing import TimingLeak, timing
from rangebound.audit.training import TrainingBound, training

__all__ = [
    "EmpiricalBound",
    "Reading",
    "TimingLeak",
    "TrainingBound",
    "attack",
    "lower_bound",
    "timing",
    "training",
    "worst_pair",
]
