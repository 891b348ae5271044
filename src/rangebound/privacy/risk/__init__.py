"""What an attacker gains, from a privacy profile: trade-off, advantage, mu, certainty, reconstruction."""

from __future__ import annotations

from rangebound.privacy.risk.attack_risk import AttackRisk, EnclosedRisk, MechanismRisk, ProfileRisk, guaranteed, odds
from rangebound.privacy.risk.tradeoff_curve import PairProfile, mirrored

__all__ = [
    "AttackRisk",
    "EnclosedRisk",
    "MechanismRisk",
    "PairProfile",
    "ProfileRisk",
    "guaranteed",
    "mirrored",
    "odds",
]
