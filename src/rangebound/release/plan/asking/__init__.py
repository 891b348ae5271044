"""SQL as a way to ask: a SELECT becomes a plan, or is refused with the reason and the place.

Nothing of the text goes further than this room. What leaves it is a plan: names, constants and expressions of the
plan's own language, which are checked like those of a file. The room `sql` writes all statements for engines, from
plans alone.
"""

from __future__ import annotations

from rangebound.release.plan.asking.translation import Translated, translate

__all__ = ["Translated", "translate"]
