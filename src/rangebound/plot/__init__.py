"""Pictures of laws, guarantees, errors and training runs; needs `rangebound[plot]`, and loads matplotlib only to draw.

Every function draws onto `ax`, or onto a new figure, and returns the axes. Lines differ in colour and in dashes, so
that they can be distinguished in print and by everyone.
"""

from __future__ import annotations

from rangebound.plot.curves import errors, fisher, fisher_losses, profile, renyi_curve, steps, tradeoff
from rangebound.plot.density import law
from rangebound.plot.worst_pair import worst_pair

__all__ = ["errors", "fisher", "fisher_losses", "law", "profile", "renyi_curve", "steps", "tradeoff", "worst_pair"]
