"""Utility: how far the published number is from the true answer, and the limits nobody can beat."""

from __future__ import annotations

from rangebound.utility.confidence import confidence_interval
from rangebound.utility.error import Error, average_error, error_at, worst_error
from rangebound.utility.limits import Limits, additive_noise_limits

__all__ = [
    "Error",
    "Limits",
    "additive_noise_limits",
    "average_error",
    "confidence_interval",
    "error_at",
    "worst_error",
]
