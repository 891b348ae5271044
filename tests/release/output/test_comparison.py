"""Tables with intervals for the population, in every form, and comparisons of their groups."""

import io
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from rangebound.errors import ArgumentError, CertificateInvalid, Unsatisfiable
from rangebound.release import make_plan, release
from rangebound.release.noise.draw import Cell
from rangebound.release.output.comparison import compare_groups
from rangebound.release.output.plan_facts import plan_facts
from rangebound.release.output.table import Release
from rangebound.release.output.table_certificate import check_certificate

ENDS = ("population_lower", "population_upper")
MEAN = {"name": "m", "kind": "mean", "column": "x", "range": [0, 1], "by": ["g"]}
PLAN = {"budget": {"epsilon": 30.0}, "keys": {"g": ["a", "b", "c"]}, "query": [MEAN]}
MEDIAN = {"name": "middle", "kind": "median", "column": "x", "range": [0, 1]}
DISTINCT = {"name": "values", "kind": "distinct count", "column": "person"}


def table(shift=0.0, rows=900, seed=1):
    x = np.random.default_rng(seed).random(rows) * 0.5
    group = np.array(["a", "b", "c"])[np.arange(rows) % 3]
    return pa.table({"x": x + shift * (group == "c"), "g": group, "person": np.arange(rows) // 3})


def made(rows=None, **more):
    return release(make_plan({**PLAN, "intervals": "both", **more}), table() if rows is None else rows, ledger=None)


def test_every_form_names_both_intervals_and_the_certificate_is_about_both():
    found = made(query=[MEAN, MEDIAN, DISTINCT])
    for row in found.rows():
        if row["query"] != "values":
            assert row["population_lower"] < row["lower"] <= row["value"] <= row["upper"] < row["population_upper"]
            assert row["population_lower"] < 0.25 < row["population_upper"]
        else:
            assert [row[each] for each in ENDS] == [None, None]
    assert any("values" in each and "no interval for the population" in each for each in found.notes)
    assert all(each in found.to_csv().splitlines()[0].split(",") for each in ENDS)
    assert all(each in found.to_pandas().columns for each in ENDS)
    again = Release.from_bytes(found.to_bytes())
    assert again.rows() == found.rows()
    assert check_certificate(found.certificate, found.to_bytes()).numbers == 5
    for at in (0, 3):
        forged = json.loads(found.to_bytes())
        forged["cells"][at]["population_upper"] += 1e-9
        data = json.dumps(forged, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        with pytest.raises(CertificateInvalid):
            check_certificate(found.certificate, data)


@pytest.mark.parametrize("field", [{}, {"intervals": "table"}])
def test_without_the_field_there_is_one_interval_and_the_report_says_what_is_left_out(field, tmp_path):
    found = release(make_plan({**PLAN, **field}), table(), ledger=None)
    assert not set(ENDS) & {*found.columns, *found.rows()[0]}
    assert "population" not in json.dumps(json.loads(found.to_bytes())["cells"])
    (tmp_path / "t.html").write_text("")
    found.write(tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert page.count("how far a population that its rows are a sample of is from it is left out") == 1
    assert 'class="bar population"' not in page
    made().write(tmp_path / "t.html")
    page = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert page.count('class="bar population"') == 3
    assert "with sampling as well" in page


def test_a_workbook_has_both():
    openpyxl = pytest.importorskip("openpyxl")
    from rangebound.release.output.rendering import workbook

    sheet = openpyxl.load_workbook(io.BytesIO(workbook(made().table_facts)))["table"]
    assert set(ENDS) <= {each.value for each in sheet[1]}


def test_differences_hold_zero_where_there_is_none_and_not_where_there_is():
    rows = made(table(shift=0.2)).compare("m", by="g")
    assert [(each["first"], each["second"]) for each in rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert rows[0]["lower"] < 0.0 < rows[0]["upper"]
    assert rows[0]["p_value"] > 0.05
    for each in rows[1:]:
        assert each["upper"] < 0.0
        assert each["lower"] < -0.2 < each["upper"]
        assert each["p_value"] < 1e-6


def test_a_p_value_is_below_a_level_where_the_interval_at_it_leaves_zero_out():
    found = made(table(shift=0.035))
    for level in (0.5, 0.8, 0.95, 0.99, 0.9999):
        for each in found.compare("m", by="g", level=level):
            inside = each["lower"] <= 0.0 <= each["upper"]
            if not inside:
                assert each["p_value"] <= 1.05 * (1.0 - level)
            elif level > 0.7:  # of three pairs; below, intervals are wider than those that p-values are made of
                assert each["p_value"] >= 1.0 - level - 1e-9


def test_units_in_several_groups_are_compared_more_widely():
    """The noise alone is three times as large; the rest is that sampling of both may go together."""
    found = made(unit={"column": "person", "rows": 1, "groups": 3}, budget={"epsilon": 90.0})
    apart = made()
    wide, narrow = ([each["upper"] - each["lower"] for each in one.compare("m", by="g")] for one in (found, apart))
    assert min(wide) > 1.3 * max(narrow)


def test_what_cannot_be_compared_is_refused():
    found = made(query=[MEAN, {**MEDIAN, "by": ["g"]}, {**DISTINCT, "by": ["g"]}])
    with pytest.raises(ArgumentError, match="must be a question"):
        found.compare("n", by="g")
    with pytest.raises(ArgumentError, match="must be a column"):
        found.compare("m", by="h")
    with pytest.raises(ArgumentError, match="level"):
        found.compare("m", by="g", level=1.0)
    with pytest.raises(Unsatisfiable, match="no interval for the population is proved"):
        found.compare("values", by="g")
    with pytest.raises(Unsatisfiable, match="no difference is proved for kind 'median'"):
        found.compare("middle", by="g")


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("level", [0.5, 0.9999])
@pytest.mark.parametrize("unit", [{}, {"column": "person", "rows": 3}])
def test_few_rows_and_equal_ones_have_intervals_of_numbers(rows, level, unit):
    same = pa.table({"x": [0.5] * rows, "g": ["a"] * rows, "person": [1] * rows}, schema=table().schema)
    found = made(same, unit=unit, level=level, budget={"epsilon": 1.0})
    for row in found.rows():
        assert 0.0 <= row["population_lower"] <= row["value"] <= row["population_upper"] <= 1.0
    for each in found.compare("m", by="g"):
        assert all(np.isfinite([each["lower"], each["upper"], each["p_value"]]))


def test_clusters_are_measured_by_what_their_rows_add_up_to():
    """With little noise the sums that were drawn are those that numpy makes of the table."""
    rows, most = table(), 2
    found = made(
        rows, unit={"column": "person", "rows": most, "groups": 3}, budget={"epsilon": 100.0}, keys={"g": ["a"]}
    )
    frame = rows.to_pandas()
    own = frame[frame.g == "a"]
    assert set(Counter(own.person).values()) == {1}
    y, z = own.x.to_numpy(), 1.0 - own.x.to_numpy()
    left = 1.0 - 1.0 / most
    sums = [(z * z / most).sum(), (2 * y * z / most).sum(), (y * y / most).sum(), (z * left).sum(), (y * left).sum()]
    assert found.cells[0].draws == pytest.approx(sums, abs=1.5)


def test_sums_of_a_public_number_of_units_are_compared_as_errors_that_go_against_each_other():
    """600 units, half in each group: a number that is 1.9 deviations off leaves the other as far off on that side.

    So a difference of 0 is plausible at 95 %; the control is the root of two errors that have nothing to do with it.
    """
    total = {"name": "m", "kind": "sum", "column": "x", "range": [0, 1], "by": ["g"]}
    unit = {"neighbours": "replace", "size": 600}
    facts = plan_facts({**PLAN, "intervals": "both", "keys": {"g": ["a", "b"]}, "query": [total], "unit": unit})
    off = 1.9 * np.sqrt(600 / 4)
    cells = [
        Cell(question=0, key=(key,), part="", value=x, lower=x, upper=x, epsilon=30.0, delta=0.0, draws=(x,))
        for key, x in (("a", 300.0 + off), ("b", 300.0 - off))
    ]
    (found,) = compare_groups(facts, cells, "m", by="g", level=0.95)
    assert found["lower"] <= 0.0 <= found["upper"]
    (low, _), (_, high) = (facts.questions[0].of_population(x, (x,), 0.95).values() for x in (300 + off, 300 - off))
    assert 2 * off > np.hypot(300 + off - low, high - 300 + off)
