"""Utility: how far the published number is from the true answer."""

from __future__ import annotations

from rangebound.utility.confidence import confidence_interval
from rangebound.utility.error import Error, average_error, error_at, worst_error

__all__ = [
    "Error",
    "average_error",
    "confidence_interval",
    "error_at",
    "worst_error",
]
