"""The median of a column."""

from __future__ import annotations

from typing import Literal

from rangebound.release.plan.kinds.rank_kind import RankKind


class Median(RankKind):
    """The median of a column."""

    kind: Literal["median"] = "median"

    @property
    def asked(self) -> tuple[float, ...]:
        """One half."""
        return (0.5,)
