"""The smallest values of a column, as a low quantile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rangebound.release.plan.kinds.rank_kind import RankKind


class Minimum(RankKind):
    """The smallest values of a column, as a low quantile: no single row decides it."""

    kind: Literal["minimum"] = "minimum"
    level: Annotated[float, Field(gt=0.0, le=0.2)] = 0.01

    @property
    def asked(self) -> tuple[float, ...]:
        """The low level."""
        return (self.level,)

    def _special(self) -> list[str]:
        return [f"quantile at level {self.level:g}"]
