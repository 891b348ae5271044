"""The Fisher accountant: information about one person's true value adds up over independent releases.

In plain words: an unbiased estimate of the value from all releases has a standard deviation of at least one over the
root of the information (Cramer and Rao). It limits reconstruction, at one true value; it is not
differential privacy, and the numbers depend on the data: `PerInstance` hides them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NoReturn, SupportsIndex

import numpy as np

from rangebound.accounting.event import ComposedEvent, Event, MechanismEvent, repetitions
from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments
from rangebound.values.array_types import Floats
from rangebound.values.ball import ball, down, precision, up

_BITS = 128
_RULE = (
    "a per-instance number depends on the data: it is private, proves nothing for anyone else, and no budget takes it; "
    "reveal() takes it out"
)


def _refused(*_: object) -> NoReturn:
    raise ArgumentTypeError(f"PerInstance: {_RULE}")


class PerInstance:
    """A number about one person's data (fu2023, hu2024): never shown by accident, never spent.

    Its repr hides it, it refuses to act as a number (no float(), arithmetic, comparison, formatting or JSON), it cannot
    be pickled, and only an explicit `reveal` takes it out.

    Edge cases: equality and hash are those of the object, so that two of them do not compare their numbers.

    >>> leak = PerInstance(0.25, notion="epsilon at order 2")
    >>> leak
    <PerInstance: epsilon at order 2, hidden>
    >>> leak.reveal()
    0.25
    """

    __slots__ = ("__number", "notion")

    notion: str

    def __init__(self, number: float, *, notion: str) -> None:
        value = arguments.real("number", number)
        if value < 0.0:
            raise ArgumentError("number: must be zero or more")  # without the number, which is private
        arguments.instance("notion", notion, str, "words that say what the number is")
        object.__setattr__(self, "notion", notion)
        object.__setattr__(self, "_PerInstance__number", value)

    def reveal(self) -> float:
        """The number. It is as private as the data it was computed from."""
        return self.__number  # type: ignore[no-any-return, attr-defined]

    def __repr__(self) -> str:
        return f"<PerInstance: {self.notion}, hidden>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ArgumentError(f"{name}: a PerInstance does not change")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        _refused()

    __float__ = __int__ = __index__ = __complex__ = __bool__ = __round__ = _refused
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refused
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __divmod__ = __rdivmod__ = _refused
    __neg__ = __pos__ = __abs__ = __trunc__ = __floor__ = __ceil__ = _refused
    __lt__ = __le__ = __gt__ = __ge__ = _refused
    __array_ufunc__ = None
    __array__ = _refused


def information(event: Event, answer: float) -> PerInstance:
    """The Fisher information of all releases of an event about one true answer: the sum over its steps.

    Guarantee: rounded up; infinite where one release shows an edge that moves with the answer.
    Assumes: every step answers the same question, with fresh noise.
    Edge cases: sampled steps are refused, because a step counts only for the members of its batch: use `per_example`.

    >>> import rangebound as rb
    >>> line = rb.Query(range=rb.Interval(0, 100), sensitivity=1.0)
    >>> m = rb.Mechanism(noise=rb.Gaussian(scale=2.0), query=line, bounding=rb.UNBOUNDED)
    >>> information(MechanismEvent(mechanism=m, times=100), 42.0).reveal()
    25.0
    """
    place = arguments.hidden("answer", answer)
    if place.ndim:
        raise ArgumentTypeError("answer: must be one number")
    return PerInstance(_information(event, float(place)), notion="Fisher information about one true answer")


def per_example(
    informations: Sequence[float] | Floats, members: Sequence[Sequence[int]], examples: int
) -> list[PerInstance]:
    """Totals for each example when step i has the information `informations[i]` about each of its `members[i]`.

    A step that sampled a batch adds only for the members of the batch.

    Guarantee: rounded up.
    Edge cases: a member may be named once in a step.

    >>> [each.reveal() for each in per_example([0.5, 0.25], [[0, 1], [1, 2]], 4)]
    [0.5, 0.75, 0.25, 0.0]
    """
    values = arguments.reals("informations", informations, infinite=True).reshape(-1)
    number = repetitions("examples", examples)
    if len(values) != len(members) or (values < 0.0).any():
        raise ArgumentError("informations, members: must have one number of zero or more, and one batch, for each step")
    totals = np.zeros(number)
    for value, batch in zip(values, members, strict=True):
        index = np.asarray(batch)
        if index.size == 0:
            continue
        if index.dtype.kind not in "iu":
            raise ArgumentTypeError("members: must hold integers, the numbers of the examples in each step")
        if (index < 0).any() or (index >= number).any() or len(np.unique(index)) != index.size:
            raise ArgumentError(f"members: must be different numbers from 0 to {number - 1} in each step")
        totals[index] = _added(totals[index], float(value))
    return [PerInstance(total, notion="Fisher information about one example") for total in totals.tolist()]


def smallest_deviation(total: PerInstance) -> PerInstance:
    """What an unbiased reconstruction can at best achieve: a standard deviation of 1/sqrt(information), rounded down.

    Edge cases: infinite where there is no information (nothing can be reconstructed), 0 where it is infinite. A biased
    guess, which uses what is known beforehand, may be closer.

    >>> smallest_deviation(PerInstance(25.0, notion="Fisher information")).reveal()
    0.2
    """
    arguments.instance("total", total, PerInstance, "a PerInstance, as information() returns")
    value = total.reveal()
    if value == 0.0 or math.isinf(value):
        best = math.inf if value == 0.0 else 0.0
    else:
        with precision(_BITS):
            best = down(1 / ball(value).sqrt())
    return PerInstance(best, notion="smallest standard deviation of an unbiased reconstruction")


def in_words(total: PerInstance, unit: str = "") -> str:
    """The limit in a sentence. It reveals the number: show it only to someone who may see the data.

    >>> print(in_words(PerInstance(25.0, notion="Fisher information"), "years"))
    An unbiased reconstruction of the value from all releases has a standard deviation of at least
    0.2 years.
    """
    best = smallest_deviation(total).reveal()
    if math.isinf(best):
        return "The releases reveal nothing about the value: no unbiased reconstruction exists."
    if best == 0.0:
        return "The releases may reveal the value exactly: there is no limit on its reconstruction."
    size = f"{arguments.downwards(best, 4)} {unit}".rstrip()
    return f"An unbiased reconstruction of the value from all releases has a standard deviation of at least {size}."


def _information(event: Event, answer: float) -> float:
    arguments.instance(
        "event",
        event,
        (MechanismEvent, ComposedEvent),
        "a MechanismEvent or a ComposedEvent of them; for a SampledEvent use per_example",
    )
    parts = event.events if isinstance(event, ComposedEvent) else ()
    values = [_information(each, answer) for each in parts] or (
        [float(event.mechanism.fisher(answer))] if isinstance(event, MechanismEvent) else []
    )
    if any(map(math.isinf, values)):
        return math.inf
    with precision(_BITS):
        return up(event.times * sum(map(ball, values), ball(0.0)))


def _added(totals: Floats, value: float) -> Floats:
    """Sums rounded up: one step further wherever rounding may have gone down."""
    sums = totals + value
    return np.where((sums - totals < value) | (sums - value < totals), np.nextafter(sums, math.inf), sums)
