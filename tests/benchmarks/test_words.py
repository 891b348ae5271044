"""The tables and times written by hand in the documentation say what was measured, within their own margins."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import __main__ as runner

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "count of all visits": "count",
    "count of waits above 30 minutes": "filtered count",
    "sum of waiting minutes": "sum",
    "mean": "mean",
    "variance": "variance",
    "median, and for rangebound its interval too": "median",
}
WHOLE = {
    "100 counts that one person is in": "counts that one person is in: 100",
    "192 counts of flights by carrier and month, planes as units": "flights by carrier and month, 192 counts",
    "365 days with running totals": "365 days with running totals",
    "15 tables of a survey": "survey: 12 one-way and 3 two-way tables",
    "all 78 one- and two-way tables of 12 attributes": "survey: all one-way and two-way tables",
    "destinations found privately, of 104": "destinations found privately, of 104",
}
LIBRARIES = {"diffprivlib": "diffprivlib", "OpenDP, Polars": "opendp", "SmartNoise": "smartnoise"}


def measured(name: str) -> dict[str, dict]:
    rows = json.loads((runner.RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return {row["what"]: row for row in rows}


def written(page: str, first: str) -> dict[str, list[float]]:
    """The first number of each cell, by the first cell of its line, in the table that has a line `first`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    (table,) = (each for each in text.split("\n\n") if f"\n| {first} |" in each)
    lines = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines())
    found = {name.strip(): [re.match(r"[\d.]+", cell) for cell in cells] for name, *cells in lines}
    return {name: [float(cell[0]) for cell in cells if cell] for name, cells in found.items()}


@pytest.mark.parametrize("row", KINDS)
def test_the_errors_in_the_comparison_are_those_measured(row: str):
    rows, kind = measured("release"), KINDS[row]
    private, public = rows[f"{kind}, size private: error"], rows[f"{kind}, size public: error"]
    found = written("docs/comparison.md", "mean")[row]
    values = [private["ours"], *private["others"].values(), public["ours"], *public["others"].values()]
    assert found == pytest.approx(values, rel=0.04)  # the margin that the page gives
    assert found[::2] == pytest.approx(values[::2], rel=0.02)  # ours are exact, but for their digits


@pytest.mark.parametrize("row", WHOLE)
def test_the_whole_tables_in_the_comparison_are_those_measured(row: str):
    (found,) = (each for what, each in measured("whole_tables").items() if what.startswith(WHOLE[row]))
    values = [found["ours"], found["others"][found["of"]]]
    assert written("docs/comparison.md", next(iter(WHOLE)))[row] == pytest.approx(values, rel=0.01)


@pytest.mark.parametrize("row", LIBRARIES)
def test_the_shares_in_the_comparison_are_those_measured(row: str):
    values = [each["others"][LIBRARIES[row]] for each in measured("ranges").values()]
    assert written("docs/comparison.md", "diffprivlib")[row] == pytest.approx(values, abs=5)  # points, as it says


def test_the_time_of_a_draw_on_its_page_is_that_measured():
    (words,) = re.findall(r"about (\d+) nanoseconds", (ROOT / "docs" / "sampling.md").read_text(encoding="utf-8"))
    drawn = [row["ours"] for what, row in measured("sampling").items() if re.match(r"\w+, truncate, 1,000,000", what)]
    assert len(drawn) == 3
    assert all(each == pytest.approx(float(words), rel=0.2) for each in drawn)


def test_control_a_number_that_is_out_of_date_is_found():
    assert written("docs/comparison.md", "mean")["mean"] != pytest.approx([0.0131, 0.0352, 0.0170, 0.0170], rel=0.01)
