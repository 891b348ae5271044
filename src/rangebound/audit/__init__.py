"""Audit: empirical lower bounds on the privacy loss of any mechanism, training or table, from its outputs alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rangebound.audit.attack import attack, worst_pair
from rangebound.audit.bound import EmpiricalBound, lower_bound
from rangebound.audit.right_guesses import Reading
from rangebound.audit.timing import TimingLeak, timing
from rangebound.audit.training import TrainingBound, training

if TYPE_CHECKING:
    from rangebound.audit.hard_pairs import TablePair
    from rangebound.audit.whole_tables import TableBound, table

__all__ = ["EmpiricalBound", "TableBound", "TablePair", "TimingLeak", "attack", "lower_bound", "table", "timing"]
__all__ += ["Reading", "TrainingBound", "training", "worst_pair"]

if not TYPE_CHECKING:  # tables need packages that mechanisms do not

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in ("TableBound", "TablePair", "table"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        home = import_module(f"{__name__}.{'hard_pairs' if name == 'TablePair' else 'whole_tables'}")
        return globals().setdefault(name, getattr(home, name))
