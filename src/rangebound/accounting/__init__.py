"""Accounting: what was released, and what all of it together gives away."""

from __future__ import annotations

from rangebound.accounting.enclosure import Enclosure
from rangebound.accounting.event import Batch, Event, Release, Sampled

__all__ = ["Batch", "Enclosure", "Event", "Release", "Sampled"]
