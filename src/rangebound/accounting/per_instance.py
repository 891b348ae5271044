"""Per-instance numbers: the privacy loss of one person or one answer, which is itself private and not a guarantee."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values import arguments

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
