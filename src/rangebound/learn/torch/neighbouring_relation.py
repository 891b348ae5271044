"""The neighbouring relation of training sets: what a privacy guarantee of training protects."""

from __future__ import annotations

import enum

from rangebound.errors import ArgumentError
from rangebound.values import arguments


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


def named_relation(neighbours: object, *, stated: bool) -> Relation:
    """The relation of a training, by name, or by what was stated; refused where the two do not fit.

    `stated` is whether sampling rate and divisor are public numbers of the user. Add-remove needs that; zero-out, which
    add-remove implies, holds either way.

    >>> named_relation(None, stated=True) is Relation.ADD_REMOVE
    True
    """
    if neighbours is None:
        return Relation.ADD_REMOVE if stated else Relation.ZERO_OUT
    found = arguments.member("neighbours", neighbours, Relation)
    if found is Relation.ADD_REMOVE and not stated:
        raise ArgumentError(
            'neighbours="add-remove": needs rate=... and expected_batch=..., numbers that you state from public '
            'knowledge; from the number of examples they would reveal that number. Or neighbours="zero-out"'
        )
    return found
