"""The neighbouring relation of training sets: what a privacy guarantee of training protects."""

from __future__ import annotations

import enum


class Relation(enum.Enum):
    """How two neighbouring training sets may differ.

    Zero-out protects the contents of an example, not the number of examples, on which the published numbers may depend.
    Add-remove protects both. It requires that everything except the noisy sums is computed from numbers that were
    stated beforehand: the sampling rate, the divisor, the length of an epoch.

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
