"""Pictures of laws, guarantees and errors; needs the extra `rangebound[plot]`, and loads matplotlib only to draw.

Every function draws onto `ax`, or onto a new figure, and returns the axes. Lines differ in colour and in dashes, so
that they can be told apart in print and by everyone.
"""

from __future__ import annotations

from rangebound.plot.density import law
from rangebound.plot.guarantee import fisher, profile, renyi_curve
from rangebound.plot.place import worst_pair
from rangebound.plot.utility import errors

__all__ = ["errors", "fisher", "law", "profile", "renyi_curve", "worst_pair"]
