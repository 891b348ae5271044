"""Kinds, units, groups and accounts with both intervals: numbers and ends in range, and certificates that hold."""

import math
import random

import pyarrow as pa
import pytest

from rangebound.errors import CertificateInvalid
from rangebound.release import check_certificate, make_plan, release

X, Y = {"column": "x", "range": [0, 100]}, {"column": "y", "range": [0, 9]}
COUNTS = dict.fromkeys(["count", "histogram", "crosstab"], (0, math.inf))
RANGES = {"mean": (0, 100), "share": (0, 1), "quantiles": (0, 100), "variance": (0, 2500), **COUNTS}
WITHOUT = {"count"}
ASKED = [
    {"kind": "mean", **X},
    {"kind": "mean", **X, "weighted_by": {"column": "w", "range": [0, 2]}},
    {"kind": "sum", **X, "missing": 0},
    {"kind": "share", "of": "x > 10"},
    {"kind": "ratio", "numerator": X, "denominator": Y, "support": [0, 50]},
    {"kind": "variance", **X},
    {"kind": "quantiles", "levels": [0.1, 0.5, 0.9], **X},
    {"kind": "histogram", "bins": 4, **X},
    {"kind": "crosstab", "by": ["g", "k"]},
    {"kind": "count"},
]
UNITS = [
    {},
    {"column": "person", "rows": 1},
    {"column": "person", "rows": 2},
    {"column": "person", "rows": 2, "groups": 2, "neighbours": "replace", "size": 200},
]


def table(people):
    chance, rows = random.Random(1), range(3 * people)
    odd = [None, math.nan, -5.0, 0.0, 3.3, 50.0, 100.0, 1e9]
    columns = {"x": odd, "g": ["a", "b"], "k": ["u", "v"], "y": [0.0, 4.5, 9.0], "w": [0.0, 1.0, 2.0]}
    drawn = {name: [chance.choice(some) for _ in rows] for name, some in columns.items()}
    return pa.table({"person": [row // 3 for row in rows], **drawn}, schema=SCHEMA)


TYPES = {
    "person": pa.int64(),
    "x": pa.float64(),
    "g": pa.string(),
    "k": pa.string(),
    "y": pa.float64(),
    "w": pa.float64(),
}
SCHEMA = pa.schema(list(TYPES.items()))


@pytest.mark.slow
@pytest.mark.parametrize("people", [0, 200])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_every_end_is_in_range_and_holds_its_number_and_every_certificate_is_true(unit, delta, epsilon, people):
    for by in ([], ["g"]):
        asked = [{"name": f"q{at}", "by": by, **each} for at, each in enumerate(ASKED)]
        data = {"budget": {"epsilon": epsilon, "delta": delta}, "query": asked, "intervals": "both"}
        plan = make_plan({**data, **({"unit": unit} if unit else {}), "keys": {"g": ["a", "b"], "k": ["u", "v"]}})
        found = release(plan, table(people), ledger=None)
        check_certificate(found.certificate, found.to_bytes(), work=math.inf)
        for cell in found.cells:
            low, high = RANGES.get(plan.query[cell.question].kind, (-math.inf, math.inf))
            ends = [(cell.lower, cell.upper)]
            assert (cell.population_lower is None) == (plan.query[cell.question].kind in WITHOUT)
            if cell.population_lower is not None:
                ends.append((cell.population_lower, cell.population_upper))
            assert all(low <= lower <= cell.value <= upper <= high for lower, upper in ends)
        there = next(each for each in found.cells if each.population_lower is not None)
        text = f'"population_lower":{there.population_lower!r}'.encode()
        published = found.to_bytes()
        assert text in published
        with pytest.raises(CertificateInvalid):  # the control
            check_certificate(found.certificate, published.replace(text, b'"population_lower":-1.5', 1), work=math.inf)


BARE = {
    "nobody": {},
    "one": {"person": [1], "x": [37.0], "g": ["a"], "k": ["u"], "y": [9.0], "w": [0.0]},
    "all alike": {"person": range(50), "x": [42.0] * 50, "g": ["a"] * 50, "k": ["u"] * 50, "y": [9.0] * 50},
    "nothing but NaN": {"person": range(50), "x": [math.nan] * 50, "w": [0.0] * 50},
}
PUBLIC = {"column": "person", "rows": 1, "neighbours": "replace", "size": 50}


SLOW = pytest.mark.slow


@pytest.mark.parametrize("level", [pytest.param(0.5, marks=SLOW), 0.9999])
@pytest.mark.parametrize("rows", [pytest.param(BARE[each], id=each, marks=[SLOW] * (each != "one")) for each in BARE])
def test_of_hardly_any_table_all_ends_are_numbers_around_what_is_published(rows, level):
    """Of nobody, one, equal values, weights of 0 and missing values; also where the number of persons is public."""
    size = len(rows.get("person", []))
    columns = {name: list(rows.get(name, [None] * size)) for name in TYPES}
    asked = [{"name": f"q{at}", **each} for at, each in enumerate(ASKED)]
    for unit in [UNITS[2], *([PUBLIC] if size == 50 else [])]:
        data = {"budget": {"epsilon": 0.5}, "level": level, "intervals": "both", "unit": unit, "query": asked}
        plan = make_plan({**data, "keys": {"g": ["a", "b"], "k": ["u", "v"]}})
        found = release(plan, pa.table(columns, schema=SCHEMA), ledger=None)
        for cell in found.cells:
            low, high = RANGES.get(plan.query[cell.question].kind, (-math.inf, math.inf))
            assert low <= cell.lower <= cell.value <= cell.upper <= high
            if plan.query[cell.question].kind not in WITHOUT:
                assert low <= cell.population_lower <= cell.value <= cell.population_upper <= high
        assert any("no interval for the population" in each for each in found.notes)  # the control: of a count
        published = found.to_bytes()
        there = f'"population_lower":{found.cells[0].population_lower!r}'.encode()
        assert there in published
        with pytest.raises(CertificateInvalid):
            check_certificate(found.certificate, published.replace(there, b'"population_lower":NaN', 1))
