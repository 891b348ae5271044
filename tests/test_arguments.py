"""Checks of arguments: one clear error, with the name and the value, and never a repair."""

import ast
import math
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound import arguments
from rangebound.errors import ArgumentError, ArgumentTypeError, RangeboundError
from tests.numbers_given import BAD_ARRAYS, KINDS

SCALAR_CHECKS = {
    "real": arguments.real,
    "finite": arguments.finite,
    "positive": arguments.positive,
    "nonnegative": arguments.nonnegative,
    "probability": arguments.probability,
    "order": arguments.order,
}
NOT_NUMBERS = [
    None,
    True,
    np.True_,
    "1",
    b"1",
    bytearray(b"1"),
    1j,
    np.complex128(1),
    Decimal(1),
    Fraction(1, 2),
    [1.0],
    (1.0,),
    {1.0},
    {"a": 1.0},
    np.array([1.0]),
    np.array([1.0, 2.0]),
    np.array(1.0, dtype=object),
    np.datetime64("2020-01-01"),
    np.timedelta64(1, "s"),
    object(),
    float,
]


@pytest.mark.parametrize("check", SCALAR_CHECKS.values(), ids=SCALAR_CHECKS)
@pytest.mark.parametrize("value", NOT_NUMBERS, ids=lambda value: f"{type(value).__name__}")
def test_what_is_no_number_is_a_type_error(check, value):
    with pytest.raises(ArgumentTypeError, match=r"^thing=") as caught:
        check("thing", value)
    assert repr(value)[:40] in str(caught.value)


@pytest.mark.parametrize("check", SCALAR_CHECKS.values(), ids=SCALAR_CHECKS)
@pytest.mark.parametrize("kind", [float, np.float16, np.float32, np.float64, np.longdouble])
def test_nan_of_every_kind_is_refused(check, kind):
    with pytest.raises(ArgumentError, match="thing=nan"):
        check("thing", kind("nan"))


@pytest.mark.parametrize("check", SCALAR_CHECKS.values(), ids=SCALAR_CHECKS)
@pytest.mark.parametrize("digits", [400, 5000], ids="10**{}".format)
@pytest.mark.parametrize("sign", [1, -1])
def test_an_integer_beyond_every_double_is_refused(check, digits, sign):
    with pytest.raises(ArgumentError, match=r"^thing="):
        check("thing", sign * 10**digits)


@pytest.mark.parametrize(
    "value",
    [
        2**53 + 1,
        np.int64(2**53 + 1),
        np.int64(2**63 - 1),
        np.uint64(2**64 - 1),
        pytest.param(
            np.longdouble("0.1"),
            marks=pytest.mark.skipif(np.finfo(np.longdouble).nmant == 52, reason="here a long double is a double"),
        ),
    ],
)
def test_a_number_that_is_no_double_is_refused_rather_than_rounded(value):
    with pytest.raises(ArgumentError, match=r"^thing="):
        arguments.real("thing", value)
    for kind in (np.asarray, lambda each: [each], lambda each: [[each, 0.5]]):
        with pytest.raises(ArgumentError, match=r"^thing=.*doubles exactly"):
            arguments.reals("thing", kind(value))
        assert arguments.reals("thing", kind(value), rounded=True).reshape(-1)[0] == float(value)


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**60, np.int64(-(2**63)), np.uint64(2**63), np.longdouble(0.5)])
def test_a_large_number_that_is_a_double_is_taken(value):
    assert arguments.real("thing", value) == float(value)
    for kind in (np.asarray, lambda each: [each], lambda each: [[each, 0.5]]):
        assert arguments.reals("thing", kind(value)).reshape(-1)[0] == float(value)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_of_every_kind_are_taken_exactly(kind):
    for check in (arguments.real, arguments.finite, arguments.positive, arguments.nonnegative, arguments.order):
        number = check("thing", kind(3))
        assert type(number) is float
        assert number == 3.0


@given(st.floats(allow_nan=False))
def test_every_double_is_taken_as_it_is(number):
    assert arguments.real("thing", number) == number
    assert arguments.real("thing", np.float64(number)) == number


@given(st.floats() | st.integers())
def test_each_rule_holds_exactly(number):
    rules = {
        arguments.finite: lambda x: math.isfinite(x),
        arguments.positive: lambda x: math.isfinite(x) and x > 0,
        arguments.nonnegative: lambda x: math.isfinite(x) and x >= 0,
        arguments.probability: lambda x: 0 <= x < 1,
        arguments.order: lambda x: x > 1,
    }
    for check, rule in rules.items():
        good = not math.isnan(number) and rule(number) and float(number) == number
        if good:
            assert check("thing", number) == number
        else:
            with pytest.raises(RangeboundError, match=r"^thing="):
                check("thing", number)


@pytest.mark.parametrize("check", [arguments.nonnegative, arguments.probability])
def test_the_negative_zero_becomes_the_plain_one(check):
    assert math.copysign(1.0, check("thing", -0.0)) == 1.0


def test_the_reason_is_part_of_the_message():
    with pytest.raises(ArgumentError, match="thing=0: must be positive; because so"):
        arguments.positive("thing", 0, why="because so")


LONG = {"str": "x" * 10**6, "list": list(range(10**5)), "int": 10**5000, "array": np.zeros(10**6)}


@pytest.mark.parametrize("value", LONG.values(), ids=LONG)
def test_a_long_value_is_shown_short(value):
    assert len(arguments.shown(value)) <= 80


def test_a_value_that_cannot_be_shown_does_not_hide_the_error():
    class Shy:
        def __repr__(self):
            raise RuntimeError("no")

    with pytest.raises(ArgumentTypeError, match="thing="):
        arguments.real("thing", Shy())


NO_ARRAYS = {
    "None": None,
    "True": True,
    "str": "1",
    "bytes": b"1",
    "complex": 1j,
    "Decimal": Decimal(1),
    "Fraction": Fraction(1, 2),
    "dict": {},
    "set": {1.0},
    "object": object(),
    "iterator": iter([1.0]),
    "nan": math.nan,
    "nan in single precision, alone": np.float32("nan"),
    "infinity": [1.0, math.inf],
    "minus infinity": -math.inf,
    "huge integer": 10**400,
    "huger integer": 10**5000,
}


@pytest.mark.parametrize("value", [*BAD_ARRAYS.values(), *NO_ARRAYS.values()], ids=[*BAD_ARRAYS, *NO_ARRAYS])
def test_bad_arrays_are_refused(value):
    with pytest.raises(RangeboundError, match=r"^things=") as caught:
        arguments.reals("things", value)
    assert isinstance(caught.value, (ValueError, TypeError))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)))
def test_good_arrays_come_back_as_they_are(values):
    numbers = arguments.reals("things", values)
    assert numbers.dtype == np.float64
    assert numbers.tolist() == values
    assert arguments.reals("things", np.asarray(values, dtype=float)).tolist() == values


def test_an_array_is_copied_so_that_no_one_can_change_it_later():
    values = np.array([1.0, 2.0])
    numbers = arguments.reals("things", values)
    values[0] = 7.0
    assert numbers.tolist() == [1.0, 2.0]


_THINGS = (
    "bin bit byte candidate cell character class coordinate day draw example feature group key level number owner part"
)
_THINGS += " people point question row second span step string sum table time unit value watcher year"
_PLURAL = re.compile(rf" (?:[a-z]+ )?(?:(?:{_THINGS.replace(' ', '|')})s|entries|people|queries|classes)\b")


@given(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False), st.integers(1, 15))
def test_a_shown_number_is_rounded_to_its_side_and_by_less_than_a_digit(value, digits):
    low, high = arguments.downwards(value, digits), arguments.upwards(value, digits)
    exact = Decimal(repr(value))
    assert Decimal(low) <= exact <= Decimal(high)
    unit = Decimal(10) ** (exact.adjusted() - digits + 1)
    assert Decimal(high) in (Decimal("inf"), exact) or Decimal(high) - exact < unit
    assert Decimal(low) in (Decimal("-inf"), exact) or exact - Decimal(low) < unit


@given(st.floats(allow_nan=False), st.integers(1, 17))
def test_a_shown_number_is_read_back_as_a_double_on_its_side(value, digits):
    assert float(arguments.downwards(value, digits)) <= value <= float(arguments.upwards(value, digits))


def test_control_the_nearest_digits_are_on_both_sides():
    assert float(f"{2 / 3:.6g}") > 2 / 3 > float(arguments.downwards(2 / 3))
    assert float(f"{1 / 3:.6g}") < 1 / 3 < float(arguments.upwards(1 / 3))


def plurals_of_numbers(source):
    """Where an f-string puts a plural behind a value that may be one; constants in capitals are more than one."""
    for text in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.JoinedStr)):
        for value, words in zip(text.values, text.values[1:], strict=False):
            if not isinstance(value, ast.FormattedValue) or not isinstance(words, ast.Constant):
                continue
            said = ast.unparse(value.value)
            if _PLURAL.match(words.value) and not re.fullmatch("_?[A-Z_]+", said):
                yield f"{{{said}}}{words.value}"


MANY = {  # what is more than one wherever it is shown
    "{self.proof.bits} bits",
    "{clipping.most} examples",
    "{len(text)} characters: must have at most ",
    "{PAYLOAD_LIMIT - room} bytes, and a ledger keeps at most ",
    "{len(self.spans) - 2} more spans ..., ",
    "{len(shown)} spans from ",
}


def test_no_message_has_a_plural_behind_a_number_that_may_be_one():
    found = {
        each
        for path in Path(arguments.__file__).parent.rglob("*.py")
        for each in plurals_of_numbers(path.read_text(encoding="utf-8"))
    }
    assert {each.partition(";")[0] for each in found} <= MANY


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('f"with {rows} rows at most"', 1),
        ('f"{n} more spans"', 1),
        ('f"{found.entries} entries"', 1),
        ('f"{rows:.4g} rows and {groups} groups"', 2),
        ('f"at most {_MOST} rows"', 0),
        ("f\"{counted(n, 'row')} at most\"", 0),
    ],
)
def test_control_such_a_plural_is_found(source, count):
    assert len(list(plurals_of_numbers(source))) == count
