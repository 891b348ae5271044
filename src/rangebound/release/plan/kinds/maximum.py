"""The largest values of a column, as a high quantile."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rangebound.release.plan.kinds.rank_kind import RankKind


class Maximum(RankKind):
    """The largest values of a column, as a high quantile: no single row decides it."""

    kind: Literal["maximum"] = "maximum"
    level: Annotated[float, Field(ge=0.8, lt=1.0)] = 0.99

    @property
    def asked(self) -> tuple[float, ...]:
        """The high level."""
        return (self.level,)

    def _special(self) -> list[str]:
        return [f"quantile at level {self.level:g}"]
