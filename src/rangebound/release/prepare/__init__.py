"""A plan made ready, and its numbers drawn: `prepare` splits the budget, `answers` draws, `rehearse` tries it first."""

from __future__ import annotations

from rangebound.release.prepare.budget_split import Least, allocations, least_epsilon, noisy_count
from rangebound.release.prepare.drawing import (
    answers,
    cells_of,
    impossible,
    keys_of,
    rehearse,
    rehearse_tables,
    stated_epsilon,
)
from rangebound.release.prepare.prepared_plan import Prepared, allocate, prepare, prepared, total_error

__all__ = [
    "Least",
    "Prepared",
    "allocate",
    "allocations",
    "answers",
    "cells_of",
    "impossible",
    "keys_of",
    "least_epsilon",
    "noisy_count",
    "prepare",
    "prepared",
    "rehearse",
    "rehearse_tables",
    "stated_epsilon",
    "total_error",
]
