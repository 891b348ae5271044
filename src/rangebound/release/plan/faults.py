"""Faults of a plan in words of our own: which field, at which line, and the rule that it breaks.

It lies below all parts of a plan and knows none of them: the checker says where a fault is, and the words are here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from rangebound.errors import PlanError
from rangebound.values import arguments

Place = tuple[str | int, ...]
"""The path of a field in a plan, such as ("query", 0, "name")."""

UNKNOWN = "unknown_field"
_TYPES = {"float", "int", "bool", "str", "date", "tuple"}  # the checker puts these between the fields
_NAMES_FIELD = re.compile(r"([a-z_]+(?:\.\w+){0,3}): (.*)", re.DOTALL)  # a rule that says itself which field breaks it
_INSIDE: ContextVar[bool] = ContextVar("inside", default=False)


@contextmanager
def reported(
    name: str, lines: Callable[[], Mapping[Place, int]] | None = None, data: Mapping[str, object] | None = None
) -> Iterator[None]:
    """Raise the first fault that the checker finds as a `PlanError`; inside a larger part, leave it to that one.

    `lines` gives the lines of the fields where the plan is a text, `data` what it says, for the names of its queries.
    """
    if _INSIDE.get():
        yield
        return
    token = _INSIDE.set(True)
    try:
        yield
    except ValidationError as error:
        raise _plan_error(error, name, lines() if lines else {}, data or {}) from None
    finally:
        _INSIDE.reset(token)


def unknown_field(name: object, value: object, fields: Iterable[str]) -> ValidationError:
    """The fault of a field that a part does not have; one of its own that is like it is a guess at what was meant."""
    known = list(fields)
    rule = f"unknown field; {arguments.similar(str(name), known) or 'the fields here are ' + ', '.join(known)}"
    return fault(rule, (str(name),), value, kind=UNKNOWN)


def fault(rule: str, place: Place, value: object, *, kind: str = "rule") -> ValidationError:
    """A broken rule at a place within a part, for the checker to report with all others."""
    words = PydanticCustomError(kind, "{rule}", {"rule": rule})
    return ValidationError.from_exception_data("part", [{"type": words, "loc": place, "input": value}])


def first_rule(error: ValidationError) -> str:
    """The first rule that a part breaks, behind the field that breaks it.

    >>> first_rule(fault("must rise", ("bins",), [2, 1]))
    'bins: must rise'
    """
    first = error.errors(include_url=False)[0]
    rule = _rule(first)
    place = ".".join(map(str, _fields_of(first)))
    if place and not _NAMES_FIELD.match(rule):
        return f"{place}: {rule}"
    return f"{place}.{rule}" if place else rule


def _fields_of(first: ErrorDetails) -> Place:
    """Where the checker found a fault, without the types that it puts between the fields."""
    return tuple(each for each in first["loc"] if not (isinstance(each, str) and (each in _TYPES or "[" in each)))


def _plan_error(error: ValidationError, name: str, where: Mapping[Place, int], data: Mapping[str, object]) -> PlanError:
    faults = error.errors(include_url=False)
    first = next((each for each in faults if each["type"] == UNKNOWN), faults[0])  # a typo explains a gap
    place = _fields_of(first)
    rule = _rule(first)
    inner = _NAMES_FIELD.match(rule) if first["type"] == "value_error" else None
    if inner:  # a rule about several fields says itself which one is at fault
        place, rule = (*place, *(int(each) if each.isdigit() else each for each in inner[1].split("."))), inner[2]
    value = first["input"]
    field = field_of(place)
    whole = inner or isinstance(value, dict) or first["type"] == "missing"
    text = f"{field}: {rule}" if whole else f"{field}={arguments.shown(value)}: {rule}"
    line, text = line_of(place, where), text + in_query(_query_name(place, data), text)
    return PlanError(f"{name}:{line}: {text}" if line else f"{name}: {text}", field=field, line=line)


def _query_name(place: Place, data: Mapping[str, object]) -> object:
    """The name of the question that a place is in, as the plan says it; None where there is none."""
    asked = data.get("query")
    match place:
        case ("query", int(at), *_) if isinstance(asked, (list, tuple)) and at < len(asked):
            own = asked[at]
            return own.get("name") if isinstance(own, Mapping) else getattr(own, "name", None)
    return None


def in_query(name: object, text: str) -> str:
    """Which question a message is about, by its name; nothing where it has none, or the message names it already.

    >>> in_query("waiting", "query[1].range: is missing")
    " (in query 'waiting')"
    """
    shown = arguments.shown(name)
    return f" (in query {shown})" if isinstance(name, str) and name and shown not in text else ""


def field_of(place: Place) -> str:
    """A place as a plan's reader would write it.

    >>> field_of(("query", 0, "name"))
    'query[0].name'
    """
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in place).lstrip(".") or "plan"


def line_of(place: Place, where: Mapping[Place, int]) -> int | None:
    """The line of a place, or of the innermost table around it."""
    found = (where[place[:size]] for size in range(len(place), 0, -1) if place[:size] in where)
    return next(found, 1 if where else None)


_RULES = {
    "missing": "is missing",
    "tuple_type": "must be a list, in square brackets",
    "too_long": "must have at most %(max_length)s parts, and has %(actual_length)s",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most %(max_length)s characters",
    "string_type": "must be a text, in quotation marks",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "model_type": "must be a table of fields",
}


def _rule(first: ErrorDetails) -> str:
    kind = first["type"]
    if kind not in _RULES:
        return first["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    rule = _RULES[kind] % first.get("ctx", {})
    quoted = kind in ("float_type", "int_type") and isinstance(first["input"], str)
    return f"{rule}, without quotation marks" if quoted else rule
