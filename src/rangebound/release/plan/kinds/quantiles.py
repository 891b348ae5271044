"""Quantiles of a column at given levels."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from rangebound.release.plan.fields import as_tuple
from rangebound.release.plan.kinds.kind import Agreement
from rangebound.release.plan.kinds.rank_kind import RankKind

Level = Annotated[float, Field(gt=0.0, lt=1.0)]


class Quantiles(RankKind):
    """Quantiles of a column at the given levels."""

    kind: Literal["quantiles"] = "quantiles"
    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=100), BeforeValidator(as_tuple)]

    @model_validator(mode="after")
    def _levels_rise(self) -> Quantiles:
        if any(a >= b for a, b in zip(self.levels, self.levels[1:], strict=False)):
            raise ValueError("levels: must be in ascending order")
        return self

    @property
    def asked(self) -> tuple[float, ...]:
        """The levels of the plan."""
        return self.levels

    @property
    def agreement(self) -> Agreement:
        """They rise with the level."""
        return Agreement(rising=True)
