"""What an attacker gains, from a privacy profile: trade-off, advantage, mu, certainty, reconstruction."""

from __future__ import annotations

from rangebound.risk.attack_risk import AttackRisk, MechanismRisk, ProfileRisk, guaranteed, odds

__all__ = ["AttackRisk", "MechanismRisk", "ProfileRisk", "guaranteed", "odds"]
