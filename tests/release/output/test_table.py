"""The table in its forms: whole whatever the names, harmless in a spreadsheet, the same columns without rows."""

import csv
import html
import io
import re
from dataclasses import replace

import duckdb
import pandas
import polars
import pyarrow.csv
import pytest

from rangebound.release import explain
from rangebound.release.output.rendering import FACTS, shown
from rangebound.values.serial import plain_text, spreadsheet_cell
from tests.release.output.asked import asked, forms, released, report


def counted(column, keys, **parts):
    plan = asked({"kind": "count", "by": [column], **parts}, epsilon=50.0, keys={column: keys})
    return released(plan, {column: keys})


@pytest.mark.few(3)
@pytest.mark.parametrize("column", sorted(FACTS))
def test_a_grouping_column_named_like_one_of_the_table_s_own_keeps_its_keys(column):
    found = counted(column, ["north", "south"])
    for rows in forms(found):
        assert [row[f"{column}_"] for row in rows] == ["north", "south"]
        assert [float(row["value"]) for row in rows] == [cell.value for cell in found.cells]
        assert [row["query"] for row in rows] == ["q0", "q0"]
    assert "north" in report(found)


def test_zero_has_no_sign():
    found = counted("town", ["north"])
    below = replace(found, cells=tuple(replace(each, value=0.0, lower=-0.0) for each in found.cells))
    assert str(below.cells[0].lower) == "-0.0"  # tables of earlier versions have it, to the last bit
    assert [str(row["lower"]) for row in below.rows()] == ["0.0"]


def test_no_two_columns_share_a_name():
    by = ["date", "date_", "value__"]
    keys = {column: ["x"] for column in by}
    found = released(asked({"kind": "count", "by": by}, keys=keys), keys)
    assert found.columns[2:5] == ("date_", "date__", "value__")
    assert tuple(found.rows()[0]) == found.columns


def test_a_spreadsheet_runs_nothing_and_sees_numbers():
    found = counted("=HYPERLINK(1)", ["=1+1", "+x", "-x", "@x", "\t=1", "\n=1"], name="=cmd()")
    header, *rows = csv.reader(io.StringIO(found.to_csv()))
    assert header[2] == "'=HYPERLINK(1)"
    for row in rows:
        assert row[0] == "'=cmd()"
        assert row[2].startswith("'")
    rows = list(csv.DictReader(io.StringIO(counted("t", [-5, 5]).to_csv())))
    assert [row["t"] for row in rows] == ["-5", "5"]


ODD_KEYS = [
    "north\r=cmd|' /C calc'!A0",
    "north\rq0,count,south,,999999,999999,999999",
    "north\nq0,count,south,,999999,999999,999999",
    *(f"a{each}=1+1" for each in "\r\n\v\f\t\x1c\x1e\x85\u2028\u2029;"),
    *(f"{each}1+1" for each in "=+-@\t\r"),
    'x";"=1',
    "south",
]


def read_by_all(text, folder):
    """The rows of a CSV file by whatever reads one, and by what knows no quotes and takes ; for a separator."""
    place = folder / "t.csv"
    place.write_bytes(text.encode())
    yield list(csv.reader(io.StringIO(text, newline="")))[1:]
    yield list(csv.reader(text.splitlines()))[1:]
    yield pandas.read_csv(place, dtype=str, keep_default_na=False).to_numpy().tolist()
    yield polars.read_csv(place, infer_schema=False).rows()
    yield list(zip(*pyarrow.csv.read_csv(place).to_pydict().values(), strict=True))
    yield duckdb.read_csv(str(place), all_varchar=True, header=True, delimiter=",", quotechar='"').fetchall()
    yield duckdb.read_csv(str(place)).fetchall()  # which guesses


def cells_of_europe(text):
    return [cell.strip('"') for line in text.splitlines() for cell in line.split(";")]


def test_no_key_ends_a_line_or_begins_a_formula_whoever_reads_the_file(tmp_path):
    found = counted("g", ODD_KEYS)
    keys = [spreadsheet_cell(row["g"]) for row in found.rows()]
    assert len(set(keys)) == len(ODD_KEYS)
    for rows in read_by_all(found.to_csv(), tmp_path):
        assert [row[2] for row in rows] == keys
        assert not [cell for row in rows for cell in row if str(cell).startswith(("=", "+", "@", "\t", "\r", "\n"))]
        assert [float(row[4]) for row in rows] == [row["value"] for row in found.rows()]
    assert not [cell for cell in cells_of_europe(found.to_csv()) if cell.startswith(("=", "+", "-", "@"))]
    copied = html.unescape(report(found).partition("<pre class=all>")[2].partition("</pre>")[0])
    assert copied == found.to_csv()
    raw = "g\n" + "\n".join(ODD_KEYS)  # the control
    assert len(raw.splitlines()) > len(ODD_KEYS) + 1
    assert [cell for cell in cells_of_europe(raw) if cell.startswith("=")]


def test_no_keys_make_a_reader_that_guesses_lose_rows(tmp_path):
    """Apostrophes and marks of comments are quotes and comments to whoever guesses from the file."""
    for keys in (["=1", "x'", "c"], ["'\\a", "x'", "c"], ["#a", "~|", "|;"], ["a;'", "'b", "'"]):
        found, place = counted("g", keys), tmp_path / "t.csv"
        found.write(place)
        for rows in read_by_all(found.to_csv(), tmp_path):
            assert [plain_text(row[2]) for row in rows] == keys
    text = io.StringIO()  # the control: the same cells, quoted only where they must be
    csv.writer(text).writerows([["g", "n"], *([spreadsheet_cell(each), 1.0] for each in ["=1", "x'", "c"])])
    place.write_text(text.getvalue())
    assert len(duckdb.read_csv(str(place)).fetchall()) < 3


def test_an_empty_key_and_a_total_are_two_cells():
    """Four rows of this crosstab were `n,crosstab,,,`: the group of two empty texts, two margins and the total."""
    keys = {"g": ["", "a"], "h": ["", "y"]}
    found = released(asked({"kind": "crosstab", "by": ["g", "h"]}, epsilon=50.0, keys=keys), keys)
    _, *rows = csv.reader(io.StringIO(found.to_csv()))
    assert len({(row[2], row[3]) for row in rows}) == len(rows) == 9
    assert [[plain_text(each) if each else None for each in row[2:4]] for row in rows] == [
        [row["g"], row["h"]] for row in found.rows()
    ]
    assert {row[4] for row in rows} == {""}  # the part, which none has
    assert [line.count('""') for line in str(found).splitlines()[1:]] == [
        [row["g"], row["h"]].count("") for row in found.rows()
    ]
    assert found._repr_html_().count(">&quot;&quot;</td>") == 6


def test_no_key_continues_a_number_of_the_key_before_it():
    """Where ; separates and a comma is the decimal point, `x;-5` and `5*...;` made one formula."""
    keys = {"g": ["x;-5", "-5"], "h": ["5*cmd|'/C calc'!A1;", "5*A1;"]}
    found = released(asked({"kind": "count", "by": ["g", "h"]}, epsilon=50.0, keys=keys), keys)
    assert not [cell for cell in cells_of_europe(found.to_csv()) if cell.startswith("-5,5")]
    plain = "\n".join(f"{one},{other}" for one in keys["g"] for other in keys["h"])  # the control
    assert len([cell for cell in cells_of_europe(plain) if cell.startswith("-5,5")]) == 4


def test_a_long_key_does_not_make_every_line_of_the_text_as_wide():
    found = counted("g", ["x" * 1_000_000, "south"])
    assert max(map(len, str(found).splitlines())) < 400
    assert "x" * 100 in str(found)


def test_no_key_turns_the_order_in_which_its_number_is_shown():
    """A mark for right to left goes on to the end of the line: 60 would be shown as 06."""
    turned = counted("g", ["\u202enorth", "\u2067south", "a\u200db"])
    for form in (report(turned), turned.to_csv(), str(turned)):
        assert not re.search("[\u202a-\u202e\u2066-\u2069]", form)
    assert "a\u200db" in report(turned)  # letters of many languages are joined with it
    assert [row["g"] for row in turned.rows()] == ["\u202enorth", "\u2067south", "a\u200db"]


def test_a_table_without_rows_has_its_columns():
    found = released(asked({"kind": "count", "by": ["t"]}, epsilon=0.1, delta=1e-9), {"t": ["alone"]})
    assert not found.cells
    full = counted("t", ["a"])
    assert list(found.to_pandas().columns) == found.to_polars().columns == found.to_arrow().column_names
    assert dict(found.to_polars().schema) == dict(full.to_polars().schema)
    assert (found.to_pandas().dtypes == full.to_pandas().dtypes).loc[["value", "rank_error", "epsilon"]].all()
    assert found.to_arrow().schema == full.to_arrow().schema
    assert found.to_csv().splitlines() == full.to_csv().splitlines()[:1]


def test_a_release_is_shown_as_a_table_and_named_in_a_line():
    found = counted("place", ["north", "<south>"])
    assert repr(found) == "<Release: 2 numbers, epsilon 50>"
    head, *lines = str(found).splitlines()
    assert head.split() == ["query", "kind", "place", "part", "value", "lower", "upper", "epsilon"]
    assert [line.split()[2] for line in lines] == ["north", "<south>"]
    assert "&lt;south&gt;" in found._repr_html_()
    assert "<south>" not in found._repr_html_()
    assert "\x1b" not in str(counted("place", ["\x1b[31mred"]))


@pytest.mark.parametrize(
    ("value", "text"),
    [(1970.0, "1970"), (12_345_678.0, "12345678"), (0.69971123, "0.699711"), (1e300, "1e+300"), (None, ""), ("x", "x")],
)
def test_numbers_keep_all_their_digits_before_the_point(value, text):
    assert shown("value", value) == text


def test_a_cost_is_never_shown_below_what_it_is():
    plan = asked({"kind": "count"}, epsilon=1.0000004)
    found = released(plan, {"x": [1]})
    for text in (repr(found), str(found), found._repr_html_(), report(found), explain(plan)):
        assert "1.00001" in text
    assert "Spent: epsilon 1.00001." in report(found)


def test_long_keys_are_cut_as_text_and_not_as_html():
    page = report(counted("place", ["&" * 100]))
    assert f">{'&amp;' * 31}...</text>" in page


def test_a_column_of_zeros_is_shown_and_an_empty_one_is_not():
    found = released(asked({"kind": "count"}, unit={"neighbours": "replace", "size": 2}), {"x": [1, 2]})
    assert str(found).splitlines()[0].split()[-1] == "epsilon"
    assert ">bias</th>" in found._repr_html_()
    assert "rank_error" not in found._repr_html_()
