"""The range where most values of a column lie."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from rangebound.release.plan.fields import written
from rangebound.release.plan.kinds.kind import Agreement
from rangebound.release.plan.kinds.rank_kind import RankKind


class CentralRange(RankKind):
    """The range where most values of a column lie: the part `share` of them, and as many below it as above.

    It is a pair of quantiles, at (1 - share) / 2 and (1 + share) / 2, each drawn as one of `quantiles` is; the smaller
    of the two points drawn is the lower end. Which of them is smaller is post-processing.
    """

    ordered: ClassVar[bool] = True

    kind: Literal["central range"] = "central range"
    share: Annotated[float, Field(ge=0.01, le=0.99)] = 0.9

    @property
    def asked(self) -> tuple[float, ...]:
        """The levels of both ends, each the double nearest to what the plan's decimals say.

        >>> CentralRange(name="usual", column="wait", range=(0, 100)).asked
        (0.05, 0.95)
        """
        share = written(self.share)
        return float((1 - share) / 2), float((1 + share) / 2)

    @property
    def parts(self) -> tuple[str, ...]:
        """Both ends."""
        return "lower", "upper"

    @property
    def agreement(self) -> Agreement:
        """They rise."""
        return Agreement(rising=True)

    def _special(self) -> list[str]:
        lower, upper = self.asked
        return [f"quantiles at levels {lower:g} and {upper:g}"]
