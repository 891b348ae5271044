"""Questions whose answers are whole numbers."""

from __future__ import annotations

from pydantic import model_validator

from rangebound.release.plan.fields import number
from rangebound.release.plan.kinds.kind import Kind


class WholeKind(Kind):
    """A question whose answers are whole numbers, and so are the ends of its support and its step."""

    @property
    def is_whole(self) -> bool:
        """Whether they are; not where rows have weights."""
        return True

    @model_validator(mode="after")
    def _whole(self) -> WholeKind:
        if not self.is_whole:
            return self
        if any(number(end) % 1.0 for span in self.support or () for end in span):
            raise ValueError("support: the ends must be whole numbers, as counts are")
        if (self.step or 1.0) % 1.0:
            raise ValueError("step: must be a whole number, as counts are whole numbers; leave it out for 1")
        return self
