"""Plain data as YAML: what people fill in by hand, and what every reader of YAML reads back as it was."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rangebound.errors import ArgumentTypeError

_STEP = "  "


def yaml_text(data: Mapping[str, object]) -> str:
    """Mappings, lists, texts, numbers and truth values as YAML, in their order.

    Guarantee: a text is read back as it is, whatever is in it: it stands in double quotes with escapes, or, where it
    has several lines of printable letters, as a block that people can edit. No text is taken for a number, a date, a
    truth value or a comment. Numbers are written with a point, which readers of YAML 1.1 need.
    Edge cases: names of fields must be letters, digits and underscores, and are taken as they are: one that YAML 1.1
    takes for a truth value, such as `no`, is not for here. Infinite numbers are refused.

    >>> print(yaml_text({"name": "no", "delta": 1e-06, "of": ["a: b", "# c"], "said": "one\\ntwo\\n"}), end="")
    name: "no"
    delta: 1.0e-06
    of:
      - "a: b"
      - "# c"
    said: |
      one
      two
    """
    return "".join(_field(name, value, "") for name, value in data.items()) or "{}\n"


def _field(name: str, value: object, indent: str) -> str:
    if not (name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()):
        raise ArgumentTypeError(f"name={name!r}: must be made of letters, digits and underscores")
    return f"{indent}{name}:{_value(value, indent)}"


def _value(value: object, indent: str) -> str:
    """What stands behind a colon or a dash, to the end of its line or block."""
    match value:
        case Mapping():
            fields = "".join(_field(str(name), each, indent + _STEP) for name, each in value.items())
            return f"\n{fields}" if fields else " {}\n"
        case str():
            return _block(value, indent + _STEP) if _is_block(value) else f" {_quoted(value)}\n"
        case bool():
            return f" {str(value).lower()}\n"
        case int() | float():
            return f" {_number(value)}\n"
        case Sequence():
            items = "".join(f"{indent}{_STEP}-{_value(each, indent + _STEP)}" for each in value)
            return f"\n{items}" if items else " []\n"
    raise ArgumentTypeError(f"value of type {type(value).__name__}: must be a mapping, a list, a text or a number")


def _number(value: int | float) -> str:
    """A number with a point where it has an exponent: YAML 1.1 takes 1e-06 for a text.

    >>> _number(1e-06), _number(0.1), _number(12), float(_number(5e-324)), _number(1e22)
    ('1.0e-06', '0.1', '12', 5e-324, '1.0e+22')
    """
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentTypeError(f"value={value!r}: must be finite")
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}e{power}" if exponent else text


def _is_block(text: str) -> bool:
    """Whether a text can stand as a block: several lines, none of them with anything that is not seen."""
    lines = text.split("\n")
    seen = all(line.isprintable() and line == line.strip() for line in lines)
    return len(lines) > 2 and seen and bool(lines[0]) and not lines[-1] and bool(lines[-2])


def _block(text: str, indent: str) -> str:
    return " |\n" + "".join(f"{indent}{line}\n" if line else "\n" for line in text[:-1].split("\n"))


def _quoted(text: str) -> str:
    """A text in double quotes, with an escape for each letter that is not printable or not ASCII beyond the plane."""
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if letter.isprintable() and ord(letter) < 0x10000:
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
