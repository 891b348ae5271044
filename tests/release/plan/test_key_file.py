"""Public keys in files: CSV, TSV and Parquet, and all that can be wrong with one."""

import datetime
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from rangebound.release.plan.source import file_rows, files_in


def rows_in(folder, *given, most):
    with files_in(folder):
        return file_rows(*given, most=most)


def test_texts_are_read_once_each_in_order_and_empty_fields_are_left_out(tmp_path):
    (tmp_path / "a.csv").write_text('\ufeffcode,"na""me"\nb,1\n"a,\n",2\n,3\nb,4\nshort\n\n')
    assert rows_in(tmp_path, "a.csv", ["code"], most=9) == [("b",), ("a,\n",), ("short",)]
    assert rows_in(tmp_path, "a.csv", ['na"me', "code"], most=9) == [("1", "b"), ("2", "a,\n"), ("4", "b")]
    (tmp_path / "a.TSV").write_text("x\ty,z\n1\t2\n")
    assert rows_in(tmp_path, "a.TSV", ["y,z"], most=9) == [("2",)]


def test_parquet_has_its_own_types(tmp_path):
    day = datetime.date(2025, 1, 31)
    table = {"n": [3, None, 3, 1], "day": [day, day, None, day], "ok": [True, False, True, True]}
    parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    assert rows_in(tmp_path, "a.parquet", ["n"], most=9) == [(3,), (1,)]
    assert rows_in(tmp_path, "a.parquet", ["day", "n"], most=9) == [(day, 3), (day, 1)]
    assert rows_in(tmp_path, "a.parquet", ["ok", "n"], most=9) == [(True, 3), (True, 1)]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"code\n", "file: has no keys"),
        ("a.csv", b"", "column: the file must have one column 'code'"),
        ("a.csv", b"code,code\n1,2\n", "column: the file must have one column 'code'"),
        ("a.csv", b"kode\n1\n", "column: the file must have one column 'code'"),
        ("a.csv", b"code\n\xff\n", "file: 'a.csv' must be UTF-8 text"),
        ("a.csv", b'code\n"open\n', "file: 'a.csv' is not valid CSV"),
        ("a.csv", b"code\n1\n2\n3\n4\n", "file: must have at most 3 different keys"),
        ("a.parquet", b"not Parquet", "file: 'a.parquet' is not a Parquet file that can be read"),
        ("a.xlsx", b"", "file: must end in .csv, .tsv or .parquet"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(words)):
        rows_in(tmp_path, name, ["code"], most=3)


def test_a_file_that_is_not_there_and_one_that_must_not_be_read(tmp_path):
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(ValueError, match="cannot be read"):
            rows_in(tmp_path, name, ["code"], most=3)
    with pytest.raises(ValueError, match="no file is read here"):
        rows_in(None, "a.csv", ["code"], most=3)
    (tmp_path / "c.csv").write_text("code\n1\n")
    assert rows_in(Path("/nowhere"), str(tmp_path / "c.csv"), ["code"], most=3) == [("1",)]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_devices_pipes_folders_and_huge_files_are_refused(tmp_path, suffix, monkeypatch):
    """A device or a pipe may have no end: it would be read until the memory is full, or for ever."""
    (tmp_path / f"device.{suffix}").symlink_to("/dev/zero")
    (tmp_path / f"folder.{suffix}").mkdir()
    os.mkfifo(tmp_path / f"pipe.{suffix}")
    (tmp_path / f"large.{suffix}").write_text("code\n" + "x" * 100)
    monkeypatch.setattr("rangebound.release.plan.source._LARGEST", 100)
    for name, rule in (("device", "plain file"), ("folder", "plain file"), ("pipe", "plain file"), ("large", "bytes")):
        with files_in(tmp_path), pytest.raises(ValueError, match=rule):
            file_rows(f"{name}.{suffix}", ["code"], most=10)
