"""Clean copies of text files: whatever bytes a line has, it is one row, and no other row knows of it."""

import csv
import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rangebound.errors import ArgumentError
from rangebound.release.engine import text_file as module
from rangebound.release.engine.text_file import LONGEST_LINE, copy_clean, header, proposed_format
from rangebound.release.plan.source import ENCODINGS, PLAIN, TextFormat


def rows(folder, data, form=PLAIN, ending="csv"):
    """The rows of a clean copy as Python's strict reader sees them; an empty value is missing."""
    path, copy = folder / f"t.{ending}", folder / "copy.csv"
    path.write_bytes(data)
    copy.unlink(missing_ok=True)
    names = header(path, form)
    copy_clean(path, form, names, copy)
    mark = module.quote_of(form)
    reader = csv.reader(
        io.StringIO(copy.read_bytes().decode(), newline=""),
        delimiter=module.delimiter_of(path, form),
        quotechar=mark,
        strict=True,
    )
    assert next(reader) == names
    return [[each or None for each in row] for row in reader]


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("texts")


DAMAGE = {
    "an unclosed quotation mark": ('"b,2', [None, None]),
    "a text behind a quotation mark": ('"b"x,2', [None, "2"]),
    "a quotation mark within a value": ('b"x,2', ['b"x', "2"]),
    "a value too many": ("b,2,3", ["b", "2"]),
    "a value too few": ("b", ["b", None]),
    "a carriage return": ("b\rx,2", ["b\rx", "2"]),
    "a zero": ("b\x00x,2", ["b\x00x", "2"]),
    "nothing": (",", [None, None]),
    "invalid bytes": ("m\xe4x,2", [None, "2"]),
    "a character that is cut off": ("\xe2\x82,2", [None, "2"]),
    "spaces": (' "b" ,2', [' "b" ', "2"]),
    "a long value": ("b" * LONGEST_LINE + ",2", [None, None]),
    "a long line": ("b,2" + "2" * LONGEST_LINE, ["b", None]),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_what_is_wrong_in_a_line_damages_that_line_alone(place, name):
    line, expected = DAMAGE[name]
    found = rows(place, f"who,wait\na,1\n{line}\nc,3\n".encode("latin-1"))
    assert found == [["a", "1"], expected, ["c", "3"]]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_damaged_bytes_of_an_encoding_end_before_the_next_line(place, encoding):
    """Every byte, and those that begin longer characters before any other, at the end of a value and of a line."""
    form, chance = TextFormat(encoding=encoding), random.Random(encoding)
    width = 2 if encoding.startswith("utf-16") else 1
    pieces = [bytes(chance.choices([chance.randrange(256), chance.randrange(0x80, 256)], k=width)) for _ in range(200)]
    pieces += [chance.randbytes(width * chance.randrange(1, 5)) for _ in range(200)]
    codec = "utf-16-le" if encoding == "utf-16" else encoding
    ends = {"\n".encode(codec), ",".encode(codec), '"'.encode(codec), "\r".encode(codec)}
    pieces = [each for each in pieces if not any(each[at : at + width] in ends for at in range(0, len(each), width))]
    good = "b,2\n".encode(codec)
    lines = [each + ",1\n".encode(codec) + good + "a,".encode(codec) + each + "\n".encode(codec) for each in pieces]
    found = rows(place, "who,wait\n".encode(codec) + b"".join(lines), form)
    assert [row[1] for row in found[::3]] == ["1"] * len(pieces)
    assert found[1::3] == [["b", "2"]] * len(pieces)
    assert [row[0] for row in found[2::3]] == ["a"] * len(pieces)


def test_control_python_takes_a_line_end_for_a_part_of_damaged_bytes():
    assert "\n" not in b"\x8f\n".decode("euc_jp", "replace")
    assert b"\x8f\n".decode("euc_jp", module._HANDLER).endswith("\n")


@given(st.binary(max_size=60), st.sampled_from([PLAIN, TextFormat(quote=""), TextFormat(quote="'", delimiter="|")]))
def test_whatever_bytes_there_are_every_line_is_one_row_of_all_columns(place, data, form):
    delimiter = (form.delimiter or ",").encode()
    found = rows(place, delimiter.join([b"a", b"b", b"c"]) + b"\n" + data, form)
    lines = [each.rstrip(b"\r") for each in data.split(b"\n")]
    assert len(found) == sum(each != b"" for each in lines)
    assert all(len(row) == 3 for row in found)


@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=2)), st.data())
def test_what_a_csv_writer_wrote_is_read_as_it_was(place, table, data):
    table = [[each.rstrip("\r") for each in row] for row in table]
    multiline = data.draw(st.booleans())
    if not multiline:
        table = [[each.replace("\n", " ") for each in row] for row in table]
    text = io.StringIO()
    quoting = data.draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    writer = csv.writer(text, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"])), quoting=quoting)
    writer.writerows([["a", "b"], *table])
    read = rows(place, text.getvalue().encode(), TextFormat(multiline=multiline or None))
    assert read == [[each or None for each in row] for row in table]


def test_a_value_goes_on_in_the_next_line_where_the_plan_says_so(place):
    data = b'who,wait\n"a\nb",1\nc,"2\n\n3\nd,4\n'
    assert rows(place, data) == [[None, None], ['b"', "1"], ["c", None], ["3", None], ["d", "4"]]
    assert rows(place, data, TextFormat(multiline=True)) == [["a\nb", "1"], ["c", None]]


@pytest.mark.parametrize("long", ["x" * 3 * LONGEST_LINE, '""' * LONGEST_LINE, '"",' * LONGEST_LINE])
def test_a_long_value_ends_at_its_quotation_mark_where_rows_may_have_several_lines(place, long):
    data = f'who,wait\n"a","{long}\n{long}"\n"b",2\n'.encode()
    assert rows(place, data, TextFormat(multiline=True)) == [["a", None], ["b", "2"]]


def test_lines_are_the_same_wherever_blocks_of_the_file_end(place, monkeypatch):
    chance = random.Random(5)
    lines = [chance.choice(["a,1", '"b,""",2', '"c', "d\r,4", "", "e" * 40]) for _ in range(300)]
    data = "who,wait\n" + "".join(each + chance.choice(["\n", "\r\n"]) for each in lines)
    for form in (PLAIN, TextFormat(multiline=True)):
        whole = rows(place, data.encode(), form)
        for size in (1, 7, 64):
            monkeypatch.setattr(module, "_BLOCK", size)
            assert rows(place, data.encode(), form) == whole
        monkeypatch.undo()


UNNAMED = [b"\n", b"who,WHO\n", b"who,\n", b'who,"wait\n', b'"who" x,wait\n', b"who," + b"w" * LONGEST_LINE]
HEADERS = {
    b"who;wait\n": 'state the delimiter, such as delimiter = ";"',
    b'"who,when";"wait"\n': 'state the delimiter, such as delimiter = ";"',
    b"m\xe4nner,wait\n": 'not .utf-8.; state the encoding of the file, such as encoding = "windows-1252"',
    "who,wait\n".encode("utf-16"): 'such as encoding = "utf-16"',
    "who,wait\n".encode("utf-16-be"): 'such as encoding = "utf-16"',
    b"who,wait\r1,2\r": "carriage return alone",
    **dict.fromkeys(UNNAMED, "must name every column, each differently"),
}


@pytest.mark.parametrize("line", HEADERS)
def test_a_header_that_is_written_otherwise_is_refused_with_the_way_out(place, line):
    (place / "h.csv").write_bytes(line + b"a,1\n")
    with pytest.raises(ArgumentError, match=HEADERS[line]):
        header(place / "h.csv", PLAIN)


def test_a_mark_is_no_part_of_the_first_name(place):
    for encoding in ("utf-8", "utf-16", "utf-16-le", "utf-16-be"):
        codec = "utf-16-le" if encoding == "utf-16" else encoding
        (place / "h.csv").write_bytes("\ufeffwho,wait\n".encode(codec))
        assert header(place / "h.csv", TextFormat(encoding=encoding)) == ["who", "wait"]


PROPOSED = {
    b"who,wait\n": {},
    b"who;wait,min;age\n": {"delimiter": ";"},
    b'"who,when";"wait,min"\n': {"delimiter": ";"},
    "größe\twait\n".encode("cp1252"): {"encoding": "windows-1252", "delimiter": "\t"},
    "who;wait\n".encode("utf-16"): {"encoding": "utf-16", "delimiter": ";"},
    "größe|wait\n".encode(): {"delimiter": "|"},
}


@pytest.mark.parametrize("line", PROPOSED)
def test_a_format_is_proposed_from_the_first_line_alone(place, line):
    found = []
    for below in (b"", b'a;b;c;"\xff\r\n\x00', b"1,2,3\n" * 1000):
        (place / "p.csv").write_bytes(line + below)
        found.append(proposed_format(place / "p.csv").text_fields)
    assert found == [PROPOSED[line]] * 3
