import math
from pathlib import Path

import pytest

from rangebound.release.plan.expressions.functions import FUNCTIONS, Signature
from rangebound.release.plan.expressions.nodes import ValueType
from rangebound.release.plan.expressions.reading import read
from rangebound.release.plan.expressions.typed import Known, column_uses, typed

NUMBER, TEXT, TRUTH, DATE, COLUMN = ValueType
KNOWN = {
    "age": Known(type=NUMBER, range=(0.0, 120.0), clipped=(0.0, 120.0)),
    "minutes": Known(type=NUMBER, range=(0.0, 1440.0)),
    "band": Known(type=TEXT, range=(-math.inf, math.inf)),
    "late": Known(type=TRUTH, range=(0.0, 1.0)),
    "day": Known(type=DATE, range=(20089.0, 20453.0)),
}


@pytest.mark.parametrize(
    ("text", "kind", "uses"),
    [
        ("a - b < c", TRUTH, {"a": NUMBER, "b": NUMBER, "c": NUMBER}),
        ("a + 30 > DATE '2025-01-01'", TRUTH, {"a": DATE}),
        ("a - DATE '2025-01-01'", NUMBER, {"a": DATE}),
        ("day + a", DATE, {"day": DATE, "a": NUMBER}),
        ("a = 'x'", TRUTH, {"a": TEXT}),
        ("a = late", TRUTH, {"a": TRUTH, "late": TRUTH}),
        ("a and b", TRUTH, {"a": TRUTH, "b": TRUTH}),
        ("coalesce(a, 0)", NUMBER, {"a": NUMBER}),
        ("coalesce(a, b, band)", TEXT, {"a": TEXT, "b": TEXT, "band": TEXT}),
        ("CASE WHEN a THEN b ELSE 1 END", NUMBER, {"a": TRUTH, "b": NUMBER}),
        ("LEAST(a, b)", NUMBER, {"a": NUMBER, "b": NUMBER}),
        ("LEAST(a, day)", DATE, {"a": DATE, "day": DATE}),
        ("year(a)", NUMBER, {"a": DATE}),
        ("missing(a)", TRUTH, {"a": COLUMN}),
        ("missing(age)", TRUTH, {"age": NUMBER}),
        ("CAST(a AS DOUBLE) = CAST(b AS DOUBLE)", TRUTH, {"a": COLUMN, "b": COLUMN}),
        ("STARTS_WITH(a, 'x')", TRUTH, {"a": TEXT}),
        ("a IN (1, 2)", TRUTH, {"a": NUMBER}),
        ("number(late)", NUMBER, {"late": TRUTH}),
    ],
)
def test_types_follow_from_the_use(text, kind, uses):
    found = typed(read(text), KNOWN)
    assert found.type is kind
    assert {name: read_as for _, name, read_as in column_uses(found)} == uses


@pytest.mark.parametrize(
    "text",
    ["a = b", "a < b", "a", "coalesce(a, b)", "CASE WHEN late THEN a ELSE b END", "CASE WHEN b THEN a ELSE c END"],
)
def test_a_type_that_does_not_follow_is_asked_for(text):
    with pytest.raises(
        ValueError, match=r"does not follow from its use; write CAST\(\w AS DOUBLE\), CAST\(\w AS VARCHAR\), CAST"
    ):
        typed(read(text), KNOWN)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("band + 1", "band is a text"),
        ("band < 'x'", "texts have no order"),
        ("age = 'x'", "age is a number"),
        ("age and late", "age is a number"),
        ("CASE WHEN age THEN 1 ELSE 2 END", "age is a number"),
        ("round(age, 1)", "DECIMALS is not in the subset"),
        ("year(age)", "takes a date"),
        ("hour(day)", "a column of the table as it stands"),
        ("text(age)", "age is a number"),
        ("age IN (1, 'a')", "takes a number"),
        ("bin(age, minutes)", "constants"),
        ("bin(age, 0)", "positive"),
        ("bin(age, 3, 2)", "rise"),
        ("day * 2", "day is a date"),
        ("1 + 'a' > b", "'a' is a text"),
        ("clip(age)", "takes CLIP(x, lower, upper)"),
    ],
)
def test_types_that_do_not_fit_are_named(text, words):
    with pytest.raises(ValueError, match=r".") as caught:
        typed(read(text), KNOWN)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("minutes / 60", (0.0, 24.0)),
        ("age - 20", (-20.0, 100.0)),
        ("20 - age", (-100.0, 20.0)),
        ("age * age", (0.0, 14400.0)),
        ("-age", (-120.0, 0.0)),
        ("abs(age - 20)", (0.0, 100.0)),
        ("FLOOR_DIV(age, 10) * 10", (0.0, 120.0)),
        ("FLOOR_MOD(age, 7)", (0.0, 7.0)),
        ("FLOOR_MOD(age, -7)", (-7.0, 0.0)),
        ("clip(x, 0, 5)", (0.0, 5.0)),
        ("LEAST(x, 5)", (-math.inf, 5.0)),
        ("CASE WHEN late THEN 3 ELSE age / 2 END", (0.0, 60.0)),
        ("CASE WHEN late THEN 3 END", (3.0, 3.0)),
        ("CASE WHEN age < 5 THEN 1 WHEN late THEN 2 ELSE 7 END", (1.0, 7.0)),
        ("coalesce(age, -1)", (-1.0, 120.0)),
        ("bin(age, 50)", (0.0, 100.0)),
        ("bin(x, 0, 18, 65)", (0.0, 18.0)),
        ("month(x)", (1.0, 12.0)),
        ("year(day)", (2025.0, 2025.0)),
        ("day + 1", (20090.0, 20454.0)),
        ("day - DATE '2025-01-01'", (0.0, 364.0)),
        ("round(age / 7)", (0.0, 17.0)),
        ("number(late)", (0.0, 1.0)),
        ("1 / age", (-math.inf, math.inf)),
        ("1 / (1 + age)", (1 / 121, 1.0)),
        ("age * 1e308", (0.0, math.inf)),
        ("x * 0", (-math.inf, math.inf)),
    ],
)
def test_public_ranges_follow_from_the_parts(text, found):
    assert typed(read(text), KNOWN).range == found


def test_the_page_has_the_table_of_functions():
    page = Path(__file__).parents[4] / "docs" / "columns.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    for each in FUNCTIONS.values():
        gives = list(dict.fromkeys(one.gives.value for one in each.signatures))
        kind = "what its parts are" if len(gives) > 2 else " or ".join(gives)
        written = ", ".join(f"`{one}`" for one in each.written.split("; "))
        assert any(row.startswith(f"| {written} | {kind} | ") for row in rows), each.written


@pytest.mark.parametrize("text", ["DATE '0001-01-01' - 1", "DATE '9999-12-31' + 1", "day + 1e308", "day - 1e308"])
def test_days_beyond_the_calendar_have_a_range_within_it(text):
    """Every value is missing; the year of such a range was an `OverflowError`."""
    low, high = typed(read(f"year({text})"), KNOWN).range
    assert low == high
    assert low in (1.0, 9999.0)
    assert typed(read("year(day + 1)"), KNOWN).range == (2025.0, 2026.0)  # the control


def test_the_types_of_a_deep_expression_are_found_once(monkeypatch):
    asked, types = [], Signature.types

    def counted(self, count):
        asked.append(self)
        return types(self, count)

    monkeypatch.setattr(Signature, "types", counted)
    lengths = []
    for terms in (14, 56):
        typed(read("+".join(["x"] * terms)), {})
        lengths.append(len(asked) - sum(lengths))
    assert lengths[1] < 5 * lengths[0]
