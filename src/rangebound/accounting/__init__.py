"""Accounting: what was released, what all of it together gives away, and the ledger of what is left."""

from __future__ import annotations

from rangebound.accounting.enclosure import Enclosure
from rangebound.accounting.event import Batch, Event, Release, Sampled

__all__ = ["Batch", "Enclosure", "Event", "Release", "Sampled"]
