"""Laws: the distribution of one output, as spans of density and atoms."""

from __future__ import annotations

from rangebound.law.distribution import Law
from rangebound.law.shape import Shape

__all__ = ["Law", "Shape"]
