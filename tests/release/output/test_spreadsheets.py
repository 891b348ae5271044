"""Tables as workbooks, read back by openpyxl, which others wrote."""

import hashlib
import io
import math
import re
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import openpyxl
import pytest

from rangebound.errors import ArgumentError, MissingExtra
from rangebound.release.output import rendering as module
from rangebound.release.output.rendering import notes_of, workbook
from rangebound.values.serial import plain_text, workbook_text
from tests.release.output.asked import asked, released

HOSTILE = ["=1+1", "+1", "-2+3", "@SUM(A1)", "=cmd|' /C calc'!A0", "http://a.b", "12", "2025-01-31", "\tx", "_x0041_"]


@pytest.fixture(scope="session")
def made():
    count = {"name": "=HYPERLINK(1)", "kind": "count", "by": ["=who"]}
    mean = {"name": "x", "kind": "mean", "column": "x", "range": [0, 40]}
    plan = asked(count, mean, title="=2+2", epsilon=3.0, keys={"=who": HOSTILE})
    return released(plan, {"=who": HOSTILE * 4, "x": [float(at) for at in range(40)]})


def sheets(data):
    return openpyxl.load_workbook(io.BytesIO(data))


def test_every_cell_is_what_was_published_without_columns_that_say_nothing(made, tmp_path):
    made.write(tmp_path / "t.XLSX")
    book = openpyxl.load_workbook(tmp_path / "t.XLSX")
    assert book.sheetnames == ["table", "notes"]
    head, *rows = book["table"].iter_rows(values_only=True)
    silent = [name for name in made.columns if all(str(row[name]) in ("None", "", "False") for row in made.rows())]
    assert list(head) == [each for each in made.columns if each not in silent]
    for row, published in zip(rows, made.rows(), strict=True):
        for cell, name in zip(row, head, strict=True):
            value = published[name]
            assert cell == (pytest.approx(value, rel=1e-15) if isinstance(value, float) else value)


def test_no_cell_is_a_formula_or_a_link(made):
    data = workbook(made.table_facts)
    cells = [cell for sheet in sheets(data) for row in sheet.iter_rows() for cell in row if cell.value is not None]
    assert {cell.data_type for cell in cells} <= {"s", "n", "b"}
    assert not any(cell.hyperlink for cell in cells)
    texts = {cell.value for cell in cells if cell.data_type == "s"}
    assert set(HOSTILE) <= texts
    assert {"=who", "=HYPERLINK(1)", "=2+2"} <= texts
    cell = replace(made.cells[0], upper=math.inf, lower=-math.inf)  # which is a text too
    rows = sheets(workbook(replace(made, cells=(cell, *made.cells[1:])).table_facts))["table"].iter_rows(
        values_only=True
    )
    assert {"inf", "-inf"} <= {each for row in rows for each in row}
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
    said = [row[0] for row in sheets(workbook(made.table_facts))["notes"].iter_rows(values_only=True)]
    assert said == notes_of(made.table_facts)
    text = "\n".join(said)
    for words in ("=2+2", "Spent: epsilon 3", "95% confidence intervals", "clipped to 0 to 40", "SHA-256"):
        assert words in text, words


def test_what_does_not_fit_into_a_sheet_is_refused(made, monkeypatch):
    monkeypatch.setattr(module, "_MOST_ROWS", len(made.cells))
    with pytest.raises(ArgumentError, match=r"write \.csv or \.parquet"):
        workbook(made.table_facts)


def test_a_text_that_a_cell_has_no_room_for_is_cut(made, monkeypatch):
    """A key that was selected privately comes after the charge: it must not decide whether there is a file."""
    monkeypatch.setattr(module, "_MOST_LETTERS", 80)
    keys = ["x" * 78, "x" * 79, "x" * 80, "x" * 79 + "y", "\U0001f600" * 39, "\U0001f600" * 40]
    keys.append(module._fitting(keys[2]))  # looks like one that was cut
    plan = asked({"kind": "count", "by": ["g"]}, epsilon=50.0, keys={"g": keys})
    _, *rows = sheets(workbook(released(plan, {"g": keys}).table_facts))["table"].iter_rows(values_only=True)
    cells = [row[2] for row in rows]
    assert len(set(cells)) == len(keys)
    assert [cell for cell, key in zip(cells, keys, strict=True) if cell == key] == [keys[0], keys[4]]
    assert max(len(each.encode("utf-16-le")) // 2 for each in cells) == 80
    assert f"xxxx... SHA-256 {hashlib.sha256(keys[1].encode()).hexdigest()}" in cells


TWINS = ["a\rb", "a_x000D_b", "_x0041_x0042_", "_x0041B", "_x005F_x0041_", "_x005FA", "ax005F_b", "ab", "a\x01", "'\\a"]


def decoded(text):
    """A text of an .xlsx file by the standard [ECMA-376, ST_Xstring]."""
    return re.sub("_x([0-9A-Fa-f]{4})_", lambda found: chr(int(found[1], 16)), text)


def texts_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as parts:
        root = ElementTree.fromstring(parts.read("xl/sharedStrings.xml"))
    return [
        decoded(each.text or "") for each in root.iter("{http://schemas.openxmlformats.org/spreadsheetml/2006/main}t")
    ]


def test_no_two_keys_are_the_same_text_for_any_reader():
    plan = asked({"kind": "count", "by": ["g"]}, epsilon=50.0, keys={"g": TWINS})
    data = workbook(released(plan, {"g": TWINS}).table_facts)
    _, *rows = sheets(data)["table"].iter_rows(values_only=True)
    assert [row[2] for row in rows] == list(map(workbook_text, TWINS))
    assert set(map(workbook_text, TWINS)) <= set(texts_of(data))
    assert [plain_text(each) for each in map(workbook_text, TWINS)] == TWINS


def test_control_the_same_keys_are_the_same_text_without_escapes():
    from xlsxwriter import Workbook

    file = io.BytesIO()
    book = Workbook(file)
    sheet = book.add_worksheet()
    for at, each in enumerate(TWINS):
        sheet.write_string(at, 0, each)
    book.close()
    assert len(set(texts_of(file.getvalue()))) < len(TWINS)
    assert len({row[0] for row in sheets(file.getvalue()).active.iter_rows(values_only=True)}) < len(TWINS)


def test_a_missing_extra_is_named_before_anything_is_written(made, monkeypatch, tmp_path):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xlsxwriter" else found(name))
    with pytest.raises(MissingExtra, match=r"\[xlsx\]"):
        made.write(tmp_path / "t.xlsx")
    assert not (tmp_path / "t.xlsx").exists()
