"""Composition: what was released, and what all of it together leaks."""

from __future__ import annotations

from rangebound.accounting.composition import Composition, Guarantee, compose, group, group_event, parallel, sequential
from rangebound.accounting.event import (
    AllocatedEvent,
    ComposedEvent,
    Event,
    FixedBatchEvent,
    MechanismEvent,
    SampledEvent,
)
from rangebound.accounting.fisher_information import PerInstance
from rangebound.privacy.attack_risk import AttackRisk, EnclosedRisk, ProfileRisk, guaranteed, odds
from rangebound.values.numeric import Enclosure

__all__ = [
    "AllocatedEvent",
    "AttackRisk",
    "ComposedEvent",
    "Composition",
    "EnclosedRisk",
    "Enclosure",
    "Event",
    "FixedBatchEvent",
    "Guarantee",
    "MechanismEvent",
    "PerInstance",
    "ProfileRisk",
    "SampledEvent",
    "compose",
    "group",
    "group_event",
    "guaranteed",
    "odds",
    "parallel",
    "sequential",
]
