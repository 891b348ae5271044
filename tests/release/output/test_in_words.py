"""Numbers in words: read back, they hold the interval, stay in the range, and say no more than the noise leaves."""

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rangebound import Interval
from rangebound.release.output.rendering import in_words, spoken
from tests.release.output.asked import asked, released
from tests.release.test_range import table

NUMBER = st.floats(-1e12, 1e12, allow_subnormal=False).map(lambda x: 0.0 if abs(x) < 1e-9 else x)


def read(text):
    found = re.findall(r"-?[0-9][0-9,]*(?:\.[0-9]+)?", text.replace(", ", " "))
    return [float(each.replace(",", "")) for each in found]


@given(st.lists(NUMBER, min_size=5, max_size=5).map(sorted), st.booleans())
@example([0.0, 0.0, 3.0, 54.987, 54.987], False)  # the next shorter number is outside the range
@example([-math.inf, 0.0, 0.0, 0.0, math.inf], False)
def test_words_hold_the_interval_and_stay_in_the_range(numbers, unreliable):
    least, lower, value, upper, most = numbers
    row = {"value": value, "lower": lower, "upper": upper, "unreliable": unreliable, "date": False}
    found = read(spoken(row, Interval(least, most) if least < most else Interval(least - 1.0, most + 1.0)))
    low, high = found[-2:] if len(found) > 1 else (found[0], found[0])
    assert min(least, lower) <= low <= lower
    assert upper <= high <= max(most, upper)
    if len(found) == 3:
        assert low <= found[0] <= high
        assert abs(found[0] - value) <= 0.5 * (upper - lower) + 1e-9 * abs(value)


def test_an_interval_that_was_rounded_to_the_nearest_would_be_too_short():
    row = {"value": 10.0, "lower": 7.96, "upper": 12.04, "unreliable": False, "date": False}
    assert spoken(row, Interval(0, 100)) == "about 10, between 7.9 and 12.1"
    assert float(f"{row['upper']:.1f}") < row["upper"]  # control


@pytest.mark.parametrize("many", [3, 20])
def test_every_number_of_a_short_question_is_told(many):
    keys = {"clinic": [f"c{at}" for at in range(many)]}
    plan = asked({"name": "visits", "kind": "count", "by": ["clinic"]}, {"kind": "count"}, epsilon=50.0, keys=keys)
    told = dict(in_words(released(plan, table(40)).table_facts))
    assert len(told["q1 (count)"]) == 1
    short = [each.partition(":")[0] for each in told["visits (count)"]]
    said = "20 numbers, 20 of them unreliable (interval wider than the number); see the picture and the table"
    assert short == (keys["clinic"] if many == 3 else [said])
