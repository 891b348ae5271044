"""Checks of arguments: one clear error at construction, then never again."""

from __future__ import annotations

import decimal
import enum
import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, SupportsIndex, TypeVar

from rangebound.errors import ArgumentError, ArgumentTypeError
from rangebound.values.array_types import np, npt

E = TypeVar("E", bound=enum.Enum)
F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T")
K = TypeVar("K", bound=type)

_SHOWN = 60
_LONGEST = 300  # characters of what a prompt shows of an object
_BRIEF = 20
_WHOLE = 2**53  # up to here every whole number is a double
FINITE = "must be finite everywhere and fit into doubles; decide what a missing value counts as before the release"
EXACT = (
    "must be a double exactly, or the sensitivity would not hold; round it yourself, and add that to the sensitivity"
)


def shown(value: object) -> str:
    """A value as an error message shows it: its repr, cut short."""
    try:
        text = repr(value[:_SHOWN] if isinstance(value, str) else value)  # a text may be long
    except Exception:  # a value that cannot be shown must not hide the error that it caused
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def brief(kind: K) -> K:
    """A class whose objects a prompt shows in at most 300 characters; a longer `repr` is cut, and ends in "...".

    >>> @brief
    ... class Long:
    ...     def __repr__(self) -> str:
    ...         return 1000 * "x"
    >>> len(repr(Long()))
    300
    """
    whole: Callable[[object], str] = getattr(kind, "__repr__")  # noqa: B009  mypy takes it for that of `type`

    @functools.wraps(whole)
    def shortened(self: object) -> str:
        text = whole(self)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."

    setattr(kind, "__repr__", shortened)  # noqa: B010  mypy takes the plain assignment for unsound
    return kind


def upwards(value: float, digits: int = 6) -> str:
    """An upper bound in a few digits: never one below the decimal that the double prints as.

    >>> upwards(0.1), upwards(1 / 3), upwards(1.0000004)
    ('0.1', '0.333334', '1.00001')
    """
    return _in_digits(value, digits, decimal.ROUND_CEILING)


def downwards(value: float, digits: int = 6) -> str:
    """A lower bound in a few digits: never one above the decimal that the double prints as.

    >>> downwards(0.1), downwards(2 / 3), downwards(1.0000004)
    ('0.1', '0.666666', '1')
    """
    return _in_digits(value, digits, decimal.ROUND_FLOOR)


def _in_digits(value: float, digits: int, rounding: str) -> str:
    rounded = decimal.Context(prec=digits, rounding=rounding).create_decimal(repr(float(value)))
    return f"{float(rounded):.{digits}g}"


def counted(number: int | str, one: str, many: str | None = None) -> str:
    """A number of things in words, by the number as it is shown; `many` is the plural where it takes more than an s.

    >>> counted(1, "row"), counted("1.5", "row"), counted(0, "entry", "entries")
    ('1 row', '1.5 rows', '0 entries')
    """
    return f"{number} {one if str(number) == '1' else many or one + 's'}"


def similar(name: str, names: Iterable[str]) -> str:
    """A guess at what was meant by a name that is not among those known; nothing if none is like it.

    >>> similar("Wating", ["age", "waiting"])
    "did you mean 'waiting'?"
    """
    import difflib

    known = {each.casefold(): each for each in names}
    found = difflib.get_close_matches(name.casefold(), known, n=1)
    return f"did you mean {known[found[0]]!r}?" if found else ""


def from_numpy(value: object) -> bool:
    """Whether a value is one of NumPy, such as a scalar or an array, by its type: NumPy need not be loaded to tell."""
    return any(each.__module__ == "numpy" for each in type(value).__mro__)


def numpy_kind(value: object) -> str:
    """The letter for the kind of a scalar of NumPy, such as `f`, `i`, `u` or `b`; nothing for other values.

    >>> import numpy as np
    >>> numpy_kind(np.float32(0.5)), numpy_kind(np.timedelta64(1)), numpy_kind(0.5)
    ('f', 'm', '')
    """
    if not from_numpy(value):
        return ""
    return value.dtype.kind if isinstance(value, np.generic) else ""


def real(name: str, value: Any, *, why: str = "") -> float:
    """`value` as a float that may be infinite; booleans, strings, arrays and NaN are refused."""
    plain = isinstance(value, (int, float))  # as a float64 of NumPy is
    kind = "" if plain else numpy_kind(value)
    if isinstance(value, bool) or not (plain or kind in ("i", "u", "f")):
        raise ArgumentTypeError(f"{name}={shown(value)}: must be a real number (int or float)" + (why and f"; {why}"))
    try:
        number = float(value)
    except OverflowError:
        raise ArgumentError(f"{name}={shown(value)}: must fit into a double (below about 1.8e308)") from None
    if math.isnan(number):
        raise ArgumentError(f"{name}=nan: must be a number")
    if number != (int(value) if kind in ("i", "u") else value):  # NumPy would compare rounded doubles
        raise ArgumentError(f"{name}={shown(value)}: must be a double exactly; round it yourself, on the safe side")
    return number


def finite(name: str, value: object) -> float:
    """`value` as a finite float."""
    number = real(name, value)
    if math.isinf(number):
        raise ArgumentError(f"{name}={number}: must be finite")
    return number


def positive(name: str, value: object, *, why: str = "") -> float:
    """`value` as a finite float above zero."""
    number = finite(name, value)
    if number <= 0.0:
        raise ArgumentError(f"{name}={shown(value)}: must be positive" + (why and f"; {why}"))
    return number


def nonnegative(name: str, value: object) -> float:
    """`value` as a finite float that is zero or more."""
    number = finite(name, value)
    if number < 0.0:
        raise ArgumentError(f"{name}={shown(value)}: must be zero or more")
    return abs(number)


def probability(name: str, value: object) -> float:
    """`value` as a float in [0, 1)."""
    number = finite(name, value)
    if not 0.0 <= number < 1.0:
        raise ArgumentError(f"{name}={shown(value)}: must lie in [0, 1)")
    return abs(number)


def order(name: str, value: object) -> float:
    """`value` as a Renyi order: above 1, infinity allowed."""
    number = real(name, value)
    if not number > 1.0:
        raise ArgumentError(f"{name}={shown(value)}: must be above 1; infinity means the pure epsilon")
    return number


def at_orders(alpha: object, curve: Callable[[float], float]) -> float | npt.NDArray[np.float64]:
    """A Renyi curve at one order, or at an array of them.

    >>> at_orders([2, 3], lambda order: 10.0 * order).tolist()
    [20.0, 30.0]
    """
    if isinstance(alpha, (list, tuple)) or (isinstance(alpha, np.ndarray) and alpha.ndim):
        orders = reals("alpha", alpha, infinite=True)
        return np.asarray([curve(order("alpha", each)) for each in orders.reshape(-1).tolist()]).reshape(orders.shape)
    return curve(order("alpha", alpha.item() if isinstance(alpha, np.ndarray) else alpha))


def instance(name: str, value: T, kinds: type | tuple[type, ...], rule: str) -> T:
    """`value` unchanged if it is of one of `kinds`."""
    if not isinstance(value, kinds):
        raise ArgumentTypeError(f"{name}={shown(value)}: must be {rule}")
    return value


def member(name: str, value: object, kind: type[E]) -> E:
    """`value` as a member of an enumeration: itself, or named by its word."""
    if isinstance(value, kind):
        return value
    *words, last = (f'"{each.value}"' for each in kind)
    rule = f"{', '.join(words)} or {last}"
    instance(name, value, str, f"a string, {rule}")
    try:
        return kind(value)
    except ValueError:
        raise ArgumentError(f"{name}={shown(value)}: must be {rule}") from None


def function(name: str, value: F, count: int, rule: str) -> F:
    """`value` unchanged if it can be called with `count` arguments, as far as it says."""
    try:
        with suppress(ValueError):  # some functions written in C do not say
            inspect.signature(value).bind(*range(count))
    except TypeError:
        raise ArgumentTypeError(f"{name}={shown(value)}: must be {rule}") from None
    return value


def reals(name: str, value: object, *, infinite: bool = False, rounded: bool = False) -> npt.NDArray[np.float64]:
    """`value` (a number, a sequence or an array) as a new float64 array of finite numbers (or `infinite` ones too).

    What is not exactly a double is refused, or `rounded` to the nearest one.
    """
    rule = "must be a real number or an array of them"
    if isinstance(value, (bool, np.bool_, str, bytes, bytearray, memoryview, np.ma.MaskedArray)) or value is None:
        raise ArgumentTypeError(f"{name}={shown(value)}: {rule}")
    if isinstance(value, (list, tuple)) and any(isinstance(each, (bool, np.bool_)) for each in value):
        raise ArgumentTypeError(f"{name}={shown(value)}: {rule}, without booleans")
    try:
        array = np.asarray(value)
    except Exception:  # whatever the value raises when it is asked for its numbers, it has none for us
        raise ArgumentTypeError(f"{name}={shown(value)}: {rule}") from None
    if array.dtype.kind not in "iuf":
        raise ArgumentTypeError(f"{name}={shown(value)}: must hold real numbers, not {array.dtype}")
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float64)
    if (np.isinf(numbers) & ~np.isinf(array)).any():
        raise ArgumentError(f"{name}={shown(value)}: must fit into doubles (below about 1.8e308)")
    if np.isnan(numbers).any() or not (infinite or np.isfinite(numbers).all()):
        raise ArgumentError(f"{name}={shown(value)}: must be {'no NaN' if infinite else 'finite'} everywhere")
    if not rounded and (beyond_double(array) or any(int(float(each)) != each for each in large_integers(value, array))):
        raise ArgumentError(f"{name}={shown(value)}: must be doubles exactly; round them yourself, on the safe side")
    return numbers


def answers(value: object, lower: float, upper: float) -> npt.NDArray[np.float64]:
    """True answers as doubles, before they are clipped to the range from `lower` to `upper`.

    Guarantee: the clipped answers are those that were given, exactly: a conversion that rounds would multiply the
    sensitivity. No error shows an answer.
    Edge cases: an integer beyond 2^53 is refused, whatever its last digits are, unless the range ends before it.
    """
    numbers = hidden("answer", value, rounded=True)
    check_exact(value, np.asarray(value), lower, upper)
    return numbers


def hidden(name: str, value: object, *, rounded: bool = False) -> npt.NDArray[np.float64]:
    """True answers as a new float64 array, as `reals` gives it; no error shows an answer.

    >>> hidden("answer", 17).item()
    17.0
    """
    try:
        return reals(name, value, rounded=rounded)
    except ArgumentTypeError:
        rule = (
            "must be a real number or an array of them; no booleans, text, missing values, or integers beyond 64 bits"
        )
        raise ArgumentTypeError(f"{name} of type {type(value).__name__}: {rule}") from None
    except ArgumentError:
        raise ArgumentError(f"{name}: {FINITE}") from None


def check_exact(value: object, array: npt.NDArray[np.float64 | np.int64], lower: float, upper: float) -> None:
    """Refuse answers that would be rounded on their way to a double in the range; `array` holds them as NumPy does."""
    if beyond_double(array):
        raise ArgumentError(f"answer of type {array.dtype}: {EXACT}")
    beyond = (each for each in large_integers(value, array) if (upper > _WHOLE if each > 0 else lower < -_WHOLE))
    if next(beyond, None) is not None:
        raise ArgumentError(f"answer: has integers beyond 2^53, and {EXACT}; or take a range that ends before it")


def beyond_double(array: npt.NDArray[np.generic]) -> bool:
    """Whether some numbers in an array of long doubles are not doubles."""
    if array.dtype.kind != "f" or array.dtype.itemsize <= 8:
        return False
    with np.errstate(over="ignore", invalid="ignore"):
        return bool((array.astype(np.float64) != array).any())


def large_integers(value: object, array: npt.NDArray[np.float64 | np.int64]) -> list[int]:
    """The integers beyond 2^53 in size, as they were given: NumPy rounds those in a list that has a float, too.

    >>> import numpy as np
    >>> mixed = [2**53 + 1, 0.5]
    >>> large_integers(mixed, np.asarray(mixed))
    [9007199254740993]
    """
    if array.dtype.kind in "iu":
        large: list[int] = array[(array > _WHOLE) | (array < -_WHOLE)].tolist() if array.dtype.itemsize >= 8 else []
        return large
    if isinstance(value, (float, np.ndarray, np.floating)) or not (np.abs(array) >= _WHOLE).any():
        return []
    if isinstance(value, (list, tuple)):
        whole = map(_integer, np.asarray(value, dtype=object).reshape(-1))
        return [each for each in whole if abs(each) > _WHOLE]
    if "float" in str(getattr(value, "dtype", "")):
        return []
    return [_WHOLE + 1]  # a table of several types, which were lost when NumPy made one of them


def _integer(value: SupportsIndex) -> int:
    try:
        return operator.index(value)
    except TypeError:
        return 0


def together(*arrays: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], ...]:
    """Arrays of one shape, or an error that says which shapes do not fit."""
    try:
        return tuple(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = ", ".join(str(each.shape) for each in arrays)
        raise ArgumentError(f"shapes={shapes}: do not fit together") from None


def guided(callee: F) -> F:
    """A class or function whose callers are told how to write a call that does not fit its parameters.

    Python itself counts the arguments and does not say what they are called.

    >>> @guided
    ... def publish(answer: float, *, step: float) -> None: ...
    >>> publish(42.0, 1)
    Traceback (most recent call last):
        ...
    rangebound.errors.ArgumentTypeError: publish(...): some arguments are given by name; write publish(answer, step=1)
    """
    made: Callable[..., object] = vars(callee)["__init__"] if isinstance(callee, type) else callee

    @functools.wraps(made)
    def call(*given: object, **named: object) -> object:
        try:
            return made(*given, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from the inside: the call did fit
            message = _guidance(callee.__name__, inspect.signature(made), given, named)
            raise ArgumentTypeError(message) from None

    if isinstance(callee, type):
        setattr(callee, "__init__", call)  # noqa: B010  mypy takes the plain assignment for unsound
        return callee
    return call  # type: ignore[return-value]


def _guidance(name: str, signature: inspect.Signature, given: tuple[object, ...], named: dict[str, object]) -> str:
    """What is wrong with a call, and how to write it; an argument that has a place may be data and is not shown."""
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    given = given[len(signature.parameters) - len(parameters) :]
    placed = [each.name for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
    by_name = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    missing = [
        each.name
        for each in parameters
        if each.default is each.empty and each.name in {*placed[len(given) :], *by_name} - named.keys()
    ]
    any_name = any(each.kind is each.VAR_KEYWORD for each in parameters)
    unknown = [each for each in named if each not in placed + by_name and not any_name]
    extra = [_brief(each) for each in given[len(placed) :]]
    filled: dict[str, str] = {}
    if unknown:
        rule = f"it has no argument {unknown[0]}"
    elif extra and by_name:
        rule = "some arguments are given by name" if placed else "arguments are given by name"
        filled = dict(zip(missing, extra, strict=True)) if len(missing) == len(extra) else {}
    elif missing:
        rule = f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} missing"
    else:
        rule = "there are too many arguments"

    def written(each: inspect.Parameter) -> str:
        if each.kind is not each.KEYWORD_ONLY:
            return {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(each.kind.name, "") + each.name
        return f"{each.name}={filled.get(each.name) or ('...' if each.default is each.empty else _brief(each.default))}"

    everything = unknown or (extra and not filled)
    wanted = (each for each in parameters if everything or each.default is each.empty or each.name in named)
    return f"{name}(...): {rule}; write {name}({', '.join(map(written, wanted))})"


def _brief(value: object) -> str:
    if hasattr(value, "__len__") and not isinstance(value, str):  # it may be data
        return "..."
    text = value.__name__ if isinstance(value, type) else shown(value)
    return text if len(text) <= _BRIEF and not text.startswith("<") else "..."
