"""Tables as workbooks, read back by openpyxl, which others wrote."""

import io
import math
import zipfile
from dataclasses import replace

import openpyxl
import pytest

from rangebound.errors import ArgumentError, MissingExtra
from rangebound.release import make_plan, release
from rangebound.release.output import workbook as module
from rangebound.release.output.workbook import notes_of, workbook

HOSTILE = ["=1+1", "+1", "-2+3", "@SUM(A1)", "=cmd|' /C calc'!A0", "http://a.b", "12", "2025-01-31", "\tx", "_x0041_"]


@pytest.fixture(scope="module")
def made():
    pyarrow = pytest.importorskip("pyarrow")
    data = pyarrow.table(
        {"=who": [HOSTILE[at % len(HOSTILE)] for at in range(40)], "x": [float(at) for at in range(40)]}
    )
    query = [
        {"name": "=HYPERLINK(1)", "kind": "count", "by": ["=who"]},
        {"name": "x", "kind": "mean", "column": "x", "range": [0, 40]},
    ]
    plan = make_plan({"title": "=2+2", "budget": {"epsilon": 3.0}, "keys": {"=who": HOSTILE}, "query": query})
    return release(plan, data, ledger=None)


def sheets(data):
    return openpyxl.load_workbook(io.BytesIO(data))


def test_every_cell_is_what_was_published(made):
    book = sheets(workbook(made))
    assert book.sheetnames == ["table", "notes"]
    head, *rows = book["table"].iter_rows(values_only=True)
    assert set(head) < set(made.columns)
    assert [each for each in made.columns if each in head] == list(head)
    for row, published in zip(rows, made.rows(), strict=True):
        for cell, name in zip(row, head, strict=True):
            value = published[name]
            assert cell == (pytest.approx(value, rel=1e-15) if isinstance(value, float) else value)


def test_columns_that_say_nothing_are_left_out_and_no_others(made):
    head, *rows = sheets(workbook(made))["table"].iter_rows(values_only=True)
    assert {"query", "kind", "value", "lower", "upper", "=who"} <= set(head)
    for name in set(made.columns) - set(head):
        assert all(row[name] in (None, "", False) for row in made.rows())
    cells = dict(zip(head, zip(*rows, strict=True), strict=True))
    assert [name for name in head if all(each is None or each is False for each in cells[name])] == []


def test_a_number_is_shown_in_six_digits_and_kept_in_all(made):
    sheet = sheets(workbook(made))["table"]
    head = [cell.value for cell in sheet[1]]
    place = head.index("value")
    (mean,) = (row for row in sheet.iter_rows(min_row=2) if row[0].value == "x")
    (published,) = (row["value"] for row in made.rows() if row["query"] == "x")
    assert mean[place].value == pytest.approx(published, rel=1e-15)
    assert len(mean[place].number_format) <= len("0.000000")
    counts = [row[place] for row in sheet.iter_rows(min_row=2) if row[0].value != "x"]
    assert {each.number_format for each in counts} == {"0"}


def test_no_cell_is_a_formula_or_a_link(made):
    data = workbook(made)
    cells = [cell for sheet in sheets(data) for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert {cell.data_type for cell in cells} <= {"s", "n", "b"}
    assert not any(cell.hyperlink for cell in cells)
    texts = {cell.value for cell in cells if cell.data_type == "s"}
    assert set(HOSTILE) <= texts
    assert {"=who", "=HYPERLINK(1)", "=2+2"} <= texts
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        assert not any(b"<f>" in parts.read(name) for name in parts.namelist())


def test_a_writer_that_guesses_makes_formulas_of_the_same_texts():
    """The control: with the defaults of the same library, the same texts are run."""
    from xlsxwriter import Workbook

    file = io.BytesIO()
    book = Workbook(file)
    sheet = book.add_worksheet()
    sheet.write(0, 0, HOSTILE[0])
    book.close()
    assert sheets(file.getvalue()).active.cell(1, 1).data_type == "f"


def test_the_notes_say_what_the_numbers_are(made):
    said = [row[0] for row in sheets(workbook(made))["notes"].iter_rows(values_only=True)]
    assert said == notes_of(made)
    text = "\n".join(said)
    for words in (
        "=2+2",
        "Spent: epsilon 3",
        "95% confidence intervals",
        "single row",
        "clipped to 0 to 40",
        "SHA-256",
    ):
        assert words in text, words


def test_infinite_numbers_are_texts(made):
    cell = replace(made.cells[0], upper=math.inf, lower=-math.inf)
    rows = list(sheets(workbook(replace(made, cells=(cell, *made.cells[1:]))))["table"].iter_rows(values_only=True))
    place = rows[0].index("upper")
    assert "inf" in {row[place] for row in rows}
    assert "-inf" in {row[place - 1] for row in rows}


def test_what_does_not_fit_into_a_sheet_is_refused(made, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ROWS", len(made.cells))
    with pytest.raises(ArgumentError, match=r"write \.csv or \.parquet"):
        workbook(made)
    monkeypatch.undo()
    monkeypatch.setattr(module, "_MOST_LETTERS", 5)
    with pytest.raises(ArgumentError, match="letters"):
        workbook(made)


def test_a_missing_extra_is_named_before_anything_is_written(made, monkeypatch, tmp_path):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xlsxwriter" else found(name))
    with pytest.raises(MissingExtra, match=r"rangebound\[xlsx\]"):
        made.write(tmp_path / "t.xlsx")
    assert not (tmp_path / "t.xlsx").exists()


def test_the_file_is_written(made, tmp_path):
    made.write(tmp_path / "t.XLSX")
    assert openpyxl.load_workbook(tmp_path / "t.XLSX").sheetnames == ["table", "notes"]
