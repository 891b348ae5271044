"""Privacy: what a pair of laws leaks, and what the worst pair does."""

from __future__ import annotations

from rangebound.privacy.pairs.divergences import fisher, hockey_stick, renyi
from rangebound.privacy.setting import Setting
from rangebound.privacy.worst import WIDTH, Worst, worst_delta, worst_epsilon, worst_loss, worst_renyi

__all__ = [
    "WIDTH",
    "Setting",
    "Worst",
    "fisher",
    "hockey_stick",
    "renyi",
    "worst_delta",
    "worst_epsilon",
    "worst_loss",
    "worst_renyi",
]
