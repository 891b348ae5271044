"""Which training sets are neighbours: what a privacy number of training protects against."""

from __future__ import annotations

import enum


class Relation(enum.Enum):
    """What two neighbouring training sets may differ in.

    Zero-out protects what an example says, not how many there are: whatever is published may depend on their number.
    Add-remove protects both, and for that everything but the noisy sums must be made of numbers that were stated
    beforehand: the sampling rate, the divisor, the length of an epoch.

    >>> Relation("zero-out").meaning
    'one example is replaced by one without a gradient; the number of examples is public'
    """

    ADD_REMOVE = "add-remove"
    ZERO_OUT = "zero-out"

    @property
    def meaning(self) -> str:
        """The relation in words."""
        return _MEANING[self]


_MEANING = {
    Relation.ADD_REMOVE: "one example is added or removed; the number of examples is private",
    Relation.ZERO_OUT: "one example is replaced by one without a gradient; the number of examples is public",
}
