"""Tables in text files and workbooks: 300 damaged files against Python's csv and pandas, with the same description.

The oracle cuts a file into lines and a line into values letter by letter; where Python's strict reader accepts the
line, that must agree. Numbers and dates are pandas's. Nothing is known to either but the header and the description.
"""

import csv
import datetime
import io
import itertools
import math
import random
import re
import zipfile

import duckdb
import openpyxl
import pandas
import pyarrow
import pytest

from rangebound.errors import EngineError, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import Source, make_plan, release
from rangebound.release.engine import duckdb_table
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.interface import Place
from rangebound.release.engine.spark import Spark
from rangebound.release.engine.text_file import copy_clean, sheet_rows
from rangebound.release.output.table_certificate import check_certificate
from rangebound.release.plan.source import TextFormat
from rangebound.release.plan.table_schema import check_schema, form_of
from rangebound.release.sql.aggregate import check_statements
from rangebound.release.sql.view import view
from tests.release.engine.test_engines import found
from tests.release.output.asked import report
from tests.release.postgres_tables import on_postgres

NAMES = ["who", "wait", "day", "sex", "well", "floor"]
FIRST, LAST = datetime.date(2025, 1, 1), datetime.date(2025, 12, 31)
KEYS = {
    "sex": {"values": ["männlich", "weiblich"], "missing": "none", "other": "other"},
    "floor": {"values": [1, 2, 3], "missing": "none", "other": "other"},
    "day": {"months": [FIRST, LAST], "missing": "none", "other": "other"},
    "well": {"values": [True, False], "missing": "none", "other": "other"},
}
QUERY = [
    {"name": "rows", "kind": "count"},
    {"name": "wait", "kind": "mean", "column": "wait", "range": [0, 5000]},
    {"name": "well", "kind": "count", "where": "wait >= 100 and well"},
    {"name": "unwell", "kind": "count", "where": "well != true"},
    {"name": "unread", "kind": "share", "of": "missing(number(wait)) and not missing(wait)"},
    *({"name": f"by {each}", "kind": "count", "by": [each]} for each in KEYS),
]
PLAN = make_plan({"budget": {"epsilon": 1.0}, "keys": KEYS, "query": QUERY})
YES, NO = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def description(chance):
    """A public description of a file."""
    encoding = chance.choice(["utf-8", "latin-1", "cp1252", "utf-16", "utf-16-be", "cp437", "mac-roman", "iso8859-15"])
    decimal = chance.choice([".", ","])
    marks = [None, *({",", ".", "'", " ", "_"} - {decimal})]
    return TextFormat(
        encoding=encoding,
        delimiter=chance.choice([",", ";", "|", "\t", ":"]),
        quote=chance.choice(['"', '"', "'", ""]),
        decimal=decimal,
        thousands=chance.choice(sorted(marks, key=str)),
        date_format=chance.choice([None, "%d.%m.%Y", "%m/%d/%Y", "%Y%m%d", "%d-%m-%Y"]),
    )


def number(chance, form):
    value = chance.choice([chance.randrange(6000), round(chance.uniform(0, 6000), 2), -chance.randrange(90)])
    if form.thousands is not None and chance.random() < 0.7:
        return f"{value:,}".replace(",", "T").replace(".", form.decimal).replace("T", form.thousands)
    return str(value).replace(".", form.decimal)


def day(chance, form):
    text = (FIRST + datetime.timedelta(days=chance.randrange(380))).strftime(form.date_format or "%Y-%m-%d")
    return text + chance.choice(["", "", " 10:30", "T23:59:59.5"])


ODD = ["", "abc", "1.2.3", "--", "12a", "1,2", "1.2", " 7 ", "n/a", "31.02.2025", "2025-02-30", "1e2", "9" * 400]
ODD += ["9" * 1001, "01.02.2025" + " " * 2000, " " * 1000 + "true"]  # too long to be read


def made_rows(chance, form):
    """Rows of texts, some of which are not what their column is read as."""
    columns = [
        lambda: f"p{chance.randrange(20)}",
        lambda: number(chance, form),
        lambda: day(chance, form),
        lambda: chance.choice(["männlich", "weiblich", "x"]),
        lambda: chance.choice([*YES, *NO, "maybe"]).replace("t", chance.choice("tT")),
        lambda: chance.choice(["1", "2", "3", "4", "1" + form.decimal + "0"]),
    ]
    return [[chance.choice(ODD) if chance.random() < 0.1 else make() for make in columns] for _ in range(30)]


def line_of(chance, row, form):
    d, q = form.delimiter, form.quote
    quoted = (d, q, "\n") if q else ()
    whole = []
    for each in row:
        each = each.replace(d, "") if not q else each
        need = any(mark in each for mark in quoted) or (q and chance.random() < 0.2)
        whole.append(f"{q}{each.replace(q, q + q)}{q}" if need else each)
    return d.join(whole)


def damaged(chance, data, unit):
    """A line with some bytes that nobody meant to be there; of UTF-16, pairs of bytes."""
    pieces = [b'"', b"'", b",", b";", b"|", b"\r", b"\x00", b'""', b"\t", b":", b"a" * 3000]
    raw = [b"\xff", b"\xe2\x82", b"\x81", b"\x8f\xa2"] if unit == 1 else [b"\xd8\x00", b"\x00\xdc", b"\xdb\xff"]
    for _ in range(chance.choice([1, 1, 2, 4])):
        at = chance.randrange(0, len(data) + 1, unit)
        wide = chance.choice(pieces)
        wide = wide if unit == 1 else wide.decode().encode(chance.choice(["utf-16-le", "utf-16-be"]))
        new = chance.choice([wide, chance.choice(raw), b""])
        data = data[:at] + new + data[chance.choice([at, at, min(len(data), at + 3 * unit)]) :]
    return data


def damaged_file(chance, form):
    codec = "utf-16-le" if form.encoding == "utf-16" else form.encoding
    unit = 2 if codec.startswith("utf-16") else 1
    lines = [form.delimiter.join(NAMES).encode(codec)]
    for row in made_rows(chance, form):
        line = line_of(chance, row, form).encode(codec, "replace")
        lines.append(damaged(chance, line, unit) if chance.random() < 0.3 else line)
        if chance.random() < 0.05:
            lines.append(b"")
    end = chance.choice(["\n", "\r\n"]).encode(codec)
    mark = "\ufeff".encode(codec) if form.encoding in ("utf-16", "utf-8") and chance.random() < 0.5 else b""
    return mark + end.join(lines) + chance.choice([end, b""])


# The oracle.


def lines_of(data, form):
    """The lines below the header as text; invalid bytes are U+FFFD, which no row has on purpose."""
    codec = form.encoding
    if codec.startswith("utf-16"):
        codec = "utf-16-be" if codec == "utf-16-be" else "utf-16-le"
        units = [data[at : at + 2] for at in range(0, len(data), 2)]
        end, lines = "\n".encode(codec), [[]]
        for each in units:
            lines.append([]) if each == end else lines[-1].append(each)
        lines = [b"".join(each) for each in lines]
    else:
        lines = data.split(b"\n")
    texts = [each.decode(codec, "replace").rstrip("\r") for each in lines]
    return [each for each in texts[1:] if each]


def values_of(line, form):
    """The values of a line, letter by letter, None for one whose quotes are wrong."""
    d, q = form.delimiter, form.quote
    found, value, state = [], "", "begin"
    for letter in line:
        if state == "begin" and q and letter == q:
            state = "quoted"
        elif state == "quoted":
            state, value = ("closed", value) if letter == q else (state, value + letter)
        elif state == "closed" and letter == q:
            state, value = "quoted", value + q
        elif letter == d:
            found.append(None if state == "wrong" else value)
            value, state = "", "begin"
        elif state in ("closed", "wrong"):
            state = "wrong"
        else:
            state, value = "plain", value + letter
    found.append(None if state in ("quoted", "wrong") else value)
    return found


def as_csv(line, form):
    """The values of a line by Python's strict reader, to which a return is a letter; None if it refuses the line."""
    quoting = csv.QUOTE_MINIMAL if form.quote else csv.QUOTE_NONE
    lines = [line.replace("\r", "\ue000")]
    reader = csv.reader(lines, delimiter=form.delimiter, quotechar=form.quote or '"', quoting=quoting, strict=True)
    try:
        return [each.replace("\ue000", "\r") for each in next(reader)]
    except csv.Error:
        return None


def rows_of(data, form):
    """The rows of a file. Python's reader refuses those lines whose quotes are wrong, at most one in five."""
    lines = lines_of(data, form)
    found = [values_of(each, form) for each in lines]
    theirs = [as_csv(each, form) for each in lines]
    assert [each for each in theirs if each is not None] == [each for each in found if None not in each]
    assert [each is None for each in theirs] == [None in each for each in found]
    assert 0 < len(lines) - theirs.count(None) >= 0.8 * len(lines)
    missing = [None] * len(NAMES)
    return [
        [each if each and "\ufffd" not in each else None for each in [*row, *missing][: len(NAMES)]] for row in found
    ]


GROUPED = r"[+-]?(?:\d{1,3}(?:T\d{2,3})*T\d{3}|\d*)(?:D\d*)?(?:e\d+)?"


def as_numbers(texts, form):
    """Numbers by pandas, once separators of thousands are where they belong."""
    rule = GROUPED.replace("T", re.escape(form.thousands or "T")).replace("D", re.escape(form.decimal))
    plain = [
        each.replace(form.thousands or "T", "").replace(form.decimal, ".")
        if each is not None and re.fullmatch(rule, each.strip(" "), re.ASCII)
        else None
        for each in texts
    ]
    found = pandas.to_numeric(pandas.Series(plain, dtype="object"), errors="coerce").astype(float)
    return found.where(found.abs() < math.inf)  # what is infinite is missing


def as_days(texts, form):
    day_part = [None if each is None else re.sub(r"[ T]\d\d:\d\d(:\d\d(\.\d{1,9})?)?\Z", "", each) for each in texts]
    wide = [each if each is not None and re.fullmatch(r"[\d./-]{8,10}", each, re.ASCII) else None for each in day_part]
    return pandas.to_datetime(
        pandas.Series(wide, dtype="object"), format=form.date_format or "%Y-%m-%d", errors="coerce"
    )


def word(text):
    return None if text is None or len(text) > 1000 else text.strip(" ").lower()


def truth(text):
    return True if word(text) in YES else False if word(text) in NO else None


def expected(data, form):
    """What the plan finds, by query: counts by key, and for the mean the number of values and their sum."""
    table = pandas.DataFrame(rows_of(data, form), columns=NAMES, dtype="object")
    words = table.wait.map(word).map({"true": 1.0, "false": 0.0}).astype(float)  # which are numbers too
    numbers, days = as_numbers(table.wait, form).fillna(words), as_days(table.day, form)
    wait = numbers.clip(0, 5000)
    floors, well = as_numbers(table.floor, form), table.well.map(truth)
    months = days.dt.strftime("%Y-%m-01").where(days.dt.year == 2025)
    keys = {
        "sex": table.sex.where(table.sex.isin(KEYS["sex"]["values"])),
        "floor": floors.where(floors.isin([1, 2, 3])).map({1.0: "1", 2.0: "2", 3.0: "3"}),
        "day": months,
        "well": well.map({True: "true", False: "false"}),
    }
    present = {name: table[name].notna() for name in KEYS} | {"day": days.notna()}
    answers = {
        "rows": len(table),
        "wait": (int(wait.notna().sum()), float(wait.sum())),
        "well": int(((well == True) & (numbers >= 100)).sum()),  # noqa: E712
        "unwell": int((well == False).sum()),  # noqa: E712
        "unread": (len(table), int((wait.isna() & table.wait.notna()).sum())),
    }
    for name, key in keys.items():
        label = key.astype("object").where(key.notna(), "other").where(present[name], "none")
        answers[f"by {name}"] = label.value_counts().to_dict()
    return answers


def answers(plan, source):
    """The same from an engine, or a file that DuckDB reads."""
    with DuckDB(source, threads=1) if isinstance(source, Source) else source as engine:
        check_schema(plan, view(plan, engine).schema)
        exact, _ = found(plan, engine)
    made = {}
    for index, question in enumerate(plan.query):
        if question.by:
            made[question.name] = {key: int(n) for (key,), (n,) in exact[index].items() if n}
        else:
            numbers = [float(each) for each in exact[index][()]]
            made[question.name] = int(numbers[0])
            if question.kind == "mean":
                made[question.name] = (round(sum(numbers)), pytest.approx(numbers[1] * 5000, abs=1e-3))
            if question.kind == "share":
                made[question.name] = (round(sum(numbers)), round(numbers[1]))
    return made


def written(path, data, form):
    path.write_bytes(data)
    return Source(path=str(path), **form.text_fields)


@pytest.mark.few(3)
@pytest.mark.claim("answer")
@pytest.mark.parametrize("seed", range(300))
def test_a_damaged_file_is_read_as_csv_and_pandas_read_it(tmp_path, seed):
    chance = random.Random(seed)
    form = description(chance)
    data = damaged_file(chance, form)
    assert answers(PLAN, written(tmp_path / "t.csv", data, form)) == expected(data, form)


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(30))
def test_no_question_changes_the_answer_of_another(tmp_path, seed):
    chance = random.Random(1000 + seed)
    form = description(chance)
    source = written(tmp_path / "t.csv", damaged_file(chance, form), form)
    whole = answers(PLAN, source)
    for question in PLAN.query:
        own = {each: KEYS[each] for each in question.by}
        alone = make_plan({"budget": {"epsilon": 1.0}, "keys": own, "query": [question]})
        assert answers(alone, source) == {question.name: whole[question.name]}


def test_control_a_file_of_which_the_other_reader_refuses_most_lines_decides_nothing():
    form = TextFormat(delimiter=",", quote='"', encoding="utf-8")
    whole = b"a\n" + b"1,2\n" * 8
    assert len(rows_of(whole + b'"1"2\n"1\n', form)) == 10
    for data in (whole + b'"1"2\n' * 3, b'a\n"1"2\n', b"a\n"):
        with pytest.raises(AssertionError):
            rows_of(data, form)


def test_stating_a_default_changes_no_answer(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"{','.join(NAMES)}\np,1.5,2025-3-1,x,t,1\np,2,2025-03-01 10:00,x,t,1\n")
    plain = Source(path=str(path))
    defaults = {"encoding": "utf-8", "delimiter": ",", "quote": '"', "multiline": False}
    found = answers(PLAN, Source(path=str(path), **defaults, decimal=".", date_format="%Y-%m-%d"))
    assert found == answers(PLAN, plain)
    assert found["by day"] == {"none": 1, "2025-03-01": 1}


JOINED = [
    {"decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"},
    {"decimal": ".", "thousands": "'", "date_format": "%Y%m%d"},
    {"decimal": ",", "thousands": "\u202f", "date_format": "%m/%d/%Y"},
]


@pytest.mark.parametrize(
    "engine", ["duckdb", *(pytest.param(n, marks=pytest.mark.slow) for n in ("postgres", "spark"))]
)
def test_a_joined_file_spells_numbers_and_dates_its_own_way_on_every_engine(tmp_path, request, engine):
    own = pyarrow.table({"code": [f"p{at}" for at in range(30)]})
    server = None if engine == "duckdb" else request.getfixturevalue(engine)
    made = {
        "duckdb": lambda: DuckDB(own, threads=1),
        "postgres": lambda: on_postgres(server, own),
        "spark": lambda: Spark(server.createDataFrame([(each,) for each in own["code"].to_pylist()], "code string")),
    }
    for seed, stated in enumerate(JOINED if server else JOINED[:1]):
        chance = random.Random(seed)
        form = TextFormat(**stated, delimiter=";", quote='"', encoding="utf-8")
        rows = [[f"p{at}", *row[1:]] for at, row in enumerate(made_rows(chance, form))]
        lines = [";".join(NAMES), *(line_of(chance, row, form) for row in rows)]
        data, path = "\n".join(lines).encode(), tmp_path / f"{seed}.csv"
        path.write_bytes(data)
        join = {"path": str(path), "public": True, "on": {"code": "who"}, "columns": NAMES[1:], **form.text_fields}
        plan = make_plan({"budget": {"epsilon": 1.0}, "keys": KEYS, "query": QUERY, "join": [join]})
        assert answers(plan, made[engine]()) == expected(data, form)


@pytest.mark.slow
def test_control_the_reader_of_the_database_loses_lines_of_such_files(tmp_path):
    """As it was used before: what it leaves out depends on the columns that are asked for."""
    lost = 0
    for seed in range(20):
        chance = random.Random(seed)
        form = TextFormat(delimiter=";", quote='"', decimal=".", encoding="utf-8")
        data = damaged_file(chance, form)
        (tmp_path / "t.csv").write_bytes(data)
        options = {"header": True, "auto_detect": False, "columns": dict.fromkeys(NAMES, "VARCHAR"), "sep": ";"}
        options |= {"null_padding": True, "ignore_errors": True, "strict_mode": False, "parallel": False}
        rows = duckdb.read_csv(str(tmp_path / "t.csv"), **options)
        lost += len(rows.fetchall()) != expected(data, form)["rows"]
    assert lost > 10


@pytest.mark.parametrize("encoding", [None, "latin-1"])
def test_a_file_that_is_not_utf8_has_all_its_rows_whatever_is_asked(tmp_path, encoding):
    lines = [f"{at % 9},{'weiblich' if at % 2 else 'männlich'}\n" for at in range(600)]
    source = written(
        tmp_path / "t.csv", b"wait,sex\n" + "".join(lines).encode("latin-1"), TextFormat(encoding=encoding)
    )
    men, none = (300, {}) if encoding else (0, {"none": 300})
    asked = {
        "rows": ({"kind": "count"}, 600),
        "wait": (QUERY[1], (600, sum(at % 9 for at in range(600)))),
        "women": ({"kind": "count", "where": "sex = 'weiblich'"}, 300),
        "missing": ({"kind": "count", "where": "missing(sex)"}, 300 - men),
        "by": ({"kind": "count", "by": ["sex"]}, {"weiblich": 300, **({"männlich": men} if men else {}), **none}),
    }
    for names in (["rows", "wait"], ["rows", "wait", "women"], ["rows", "missing"], ["rows", "by"]):
        query = [{**asked[each][0], "name": each} for each in names]
        plan = make_plan(
            {"budget": {"epsilon": 1.0}, "keys": {"sex": KEYS["sex"]} if "by" in names else {}, "query": query}
        )
        assert answers(plan, source) == {each: asked[each][1] for each in names}


def test_keys_of_another_type_cost_nothing(tmp_path):
    frame = pandas.DataFrame({"married": [1, 0, 1], "well": [True, False, True]})
    with Ledger.create(tmp_path / "a.ledger") as ledger:
        ledger.open_account("people", epsilon=1)
        for column, keys in (("married", [True, False]), ("well", [1, 0])):
            budget = {"epsilon": 1.0, "account": "people"}
            query = [{"name": "n", "kind": "count", "by": [column]}]
            with pytest.raises(PlanError, match="is not a value of a column of type"):
                release({"budget": budget, "keys": {column: keys}, "query": query}, frame, ledger=ledger, request="1")
        assert str(ledger.account("people").remaining.epsilon) == "1"


@pytest.mark.parametrize("asked", [False, True])
def test_the_report_of_a_text_source_says_what_is_unknown(tmp_path, asked):
    (tmp_path / "t.csv").write_text("wait\n1\n1,5\nx\n2\n")
    query = [{"name": "m", "kind": "mean", "column": "wait", "range": [0, 10]}]
    share = {"name": "u", "kind": "share", "of": "missing(number(wait)) and not missing(wait)", "weight": 0.1}
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": [*query, share] if asked else query})
    with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
        made = release(plan, engine, ledger=None)
    words = "how many values of 'wait' could not be read from the file is unknown"
    assert (words in " ".join(made.notes)) is not asked
    assert (words.replace("'", "&#x27;") in report(made)) is not asked
    assert check_certificate(made.certificate, made.to_bytes()).numbers == len(made.rows())
    assert not release(plan, pandas.DataFrame({"wait": [1.0]}), ledger=None).notes


# Workbooks.


def book_of(path, rows, title="t"):
    book = openpyxl.Workbook()
    book.active.title = "other"
    book.active.append(["nothing"])
    sheet = book.create_sheet(title)
    for row in rows:
        sheet.append(row)
    book.save(path)
    return Source(path=str(path), table=title)


def test_a_sheet_is_read_as_a_file_of_the_same_texts(tmp_path):
    chance = random.Random(7)
    form = TextFormat(decimal=",", thousands=".", date_format="%d.%m.%Y", delimiter=";", quote='"', encoding="utf-8")
    rows = [[each or None for each in row] for row in made_rows(chance, form)]
    cells = [list(row) for row in rows]
    for at, row in enumerate(cells[:10]):  # cells with types of their own, which a text file would have as texts
        row[1:6] = [at * 100.5, datetime.datetime(2025, 3, at + 1), "weiblich", at % 2 == 0, at % 4]
        rows[at][1:6] = [
            f"{at * 100.5}".replace(".", ","),
            f"{at + 1:02}.03.2025",
            "weiblich",
            str(at % 2 == 0),
            str(at % 4),
        ]
    source = book_of(
        tmp_path / "t.xlsx", [NAMES, *cells, [None] * 6, ["", None], ["p", None, None, "#N/A", None, "=1/0"], ["#N/A"]]
    )
    source = Source(
        **{**source.model_dump(exclude_none=True), "decimal": ",", "thousands": ".", "date_format": "%d.%m.%Y"}
    )
    text = io.StringIO()
    csv.writer(text, delimiter=";").writerows([NAMES, *rows, ["p", "", "", "", "", ""], [""] * 6])
    assert answers(PLAN, source) == expected(text.getvalue().replace("\r\n", "\n").encode(), form)


CELLS = {"<v>NaN</v>": None, "<v>inf</v>": None, f"<v>{'9' * 5000}</v>": None, "<v>1e400</v>": "inf", "<v></v>": None}
CELLS = {f'<c r="B3">{cell}</c>': text for cell, text in CELLS.items()}
CELLS |= {'<c r="B3" t="d"><v>2025-99-99</v></c>': None, '<c r="B3" t="e"><v>#SPILL!</v></c>': None}
CELLS |= {"<c><v>NaN</v></c>": None, '<c r="B3" t="s"><v>9</v></c>': None, '<c r="B3" t="str"><v>a</v></c>': "a"}


@pytest.mark.parametrize(("cell", "text"), CELLS.items(), ids=range(len(CELLS)))
def test_a_cell_that_cannot_be_read_is_one_missing_value(tmp_path, cell, text):
    book = openpyxl.Workbook()
    for row in (["a", "b", "c"], [1, 2, 3], [4, 5, 6], [7, 8, 9]):
        book.active.append(row)
    book.save(tmp_path / "first.xlsx")
    with zipfile.ZipFile(tmp_path / "first.xlsx") as old, zipfile.ZipFile(tmp_path / "t.xlsx", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("sheet1.xml"):
                data, many = re.subn(rb'<c r="B3".*?</c>', cell.encode(), data)
                assert many == 1
            new.writestr(name, data)
    rows = list(sheet_rows(tmp_path / "t.xlsx", None, TextFormat(), 3))
    assert rows == [["1", "2", "3"], ["4", text, "6"], ["7", "8", "9"]]


def test_a_sheet_that_is_not_there_and_a_book_that_is_none_are_refused(tmp_path):
    source = book_of(tmp_path / "t.xlsx", [["a"], [1]])
    with pytest.raises(
        PlanError, match=r"source.table='none': the workbook has no such sheet; its sheets are 'other', 't'"
    ):
        DuckDB(source.model_copy(update={"table": "none"}))
    assert list(DuckDB(source.model_copy(update={"table": None})).schema()) == ["nothing"]
    with DuckDB(source.model_copy(update={"decimal": ","})) as engine:  # another sheet is written as the first
        other = engine.further(Place(field="join[0]", path=None, table="other", public=True)).schema
        assert form_of(other, "nothing").decimal == ","
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(Exception, match=r"cannot be read as an .xlsx workbook"):
        DuckDB(source)


def edited_book(path, before, after, *, length=None):
    """A sheet of 40 numbers and words with something else in its XML, which may be cut at a length."""
    book_of(path, [["wait", "sex"], *([at, "weiblich"] for at in range(40))])
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    sheet = "xl/worksheets/sheet2.xml"
    changed, times = re.subn(before, after, parts[sheet])
    assert times == 1
    parts[sheet] = changed[:length]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return Source(path=str(path), table="t")


NUMBER, WORD = rb'<c r="A5".*?</c>', rb'<c r="B5".*?</c>'
CELLS = {  # what is in the file, as a pattern, what in its place, and which of the two values is then missing
    "no number": (NUMBER, b'<c r="A5"><v>three</v></c>', "wait"),
    "no truth value": (NUMBER, b'<c r="A5" t="b"><v>maybe</v></c>', "wait"),
    "no date": (NUMBER, b'<c r="A5" t="d"><v>2025-02-31</v></c>', "wait"),
    "no style": (NUMBER, b'<c r="A5" s="x"><v>3</v></c>', "wait"),
    "no such text": (WORD, b'<c r="B5" t="s"><v>99</v></c>', "sex"),
    "no number of a text": (WORD, b'<c r="B5" t="s"><v>x</v></c>', "sex"),
    "no coordinate": (NUMBER, b'<c r="?"><v>3</v></c>', "wait"),
    "a coordinate far away": (b'r="B5"', b'r="ZZZ5"', "sex"),
    "no number of a row": (b'<row r="5"', b'<row r="five"', ""),
    "a large number of a row": (b'<row r="5"', b'<row r="2000000000"', ""),
    "the number of another row": (b'<row r="5"', b'<row r="4"', ""),
}
BOOK_PLAN = make_plan(
    {
        "budget": {"epsilon": 1.0},
        "keys": {"sex": KEYS["sex"]},
        "query": [QUERY[0], {**QUERY[1], "name": "mean"}, {"name": "by", "kind": "count", "by": ["sex"]}],
    }
)


@pytest.mark.few(4)
@pytest.mark.parametrize("damage", CELLS)
def test_a_damaged_cell_is_one_missing_value(tmp_path, damage):
    before, after, missing = CELLS[damage]
    found = answers(BOOK_PLAN, edited_book(tmp_path / "t.xlsx", before, after))
    gone, unknown = missing == "wait", {"none": 1} if missing == "sex" else {}
    assert found == {
        "rows": 40,
        "mean": (40 - gone, sum(range(40)) - 3 * gone),
        "by": {"weiblich": 40 - len(unknown), **unknown},
    }


@pytest.mark.parametrize("damage", ["cut", "not XML", "not its sum"])
def test_a_damaged_file_of_a_workbook_costs_nothing(tmp_path, damage):
    path = tmp_path / "t.xlsx"
    word = b'<c r="A5"><v>3<v></c>' if damage == "not XML" else b'<c r="A5"><v>3</v></c>'
    source = edited_book(path, NUMBER, word, length=2500 if damage == "cut" else None)
    if damage == "not its sum":  # of the bytes, which the archive states
        DuckDB(source).close()  # the control
        path.write_bytes(path.read_bytes().replace(b"<v>39</v>", b"<v>38</v>"))
    with pytest.raises(EngineError, match=r"cannot be read as an .xlsx workbook"):
        DuckDB(source)


def test_control_the_reader_of_workbooks_stops_at_a_cell_or_loses_rows(tmp_path):
    lost = {}
    for damage, (before, after, _) in CELLS.items():
        edited_book(tmp_path / "t.xlsx", before, after)
        book = openpyxl.load_workbook(tmp_path / "t.xlsx", read_only=True)
        try:
            rows = itertools.islice(book["t"].iter_rows(values_only=True, max_row=1000), 1000)
            lost[damage] = 41 - sum(any(row) for row in rows)
        except (ValueError, IndexError, TypeError) as error:
            lost[damage] = type(error).__name__
        book.close()
    assert (lost["no number"], lost["no such text"], lost["no number of a row"]) == (
        "ValueError",
        "IndexError",
        "ValueError",
    )
    assert (lost["a large number of a row"], lost["the number of another row"]) == (37, 1)


def test_a_file_is_read_after_the_charge_and_once(tmp_path, monkeypatch):
    copied = []
    monkeypatch.setattr(
        duckdb_table, "copy_clean", lambda path, *rest: [copied.append(path.stem), copy_clean(path, *rest)]
    )
    (tmp_path / "t.csv").write_text("visits,sex\n1,a\n2,b\n")
    (tmp_path / "o.csv").write_text("sex,word\na,x\n")
    with DuckDB(Source(path=str(tmp_path / "t.csv"))) as engine:
        assert [*engine.schema()] == ["visits", "sex"]
        join = {"path": str(tmp_path / "o.csv"), "public": True, "on": ["sex"], "columns": ["word"]}
        plan = make_plan({"budget": {"epsilon": 1.0}, "join": [join], "query": [{"name": "n", "kind": "count"}]})
        check_statements(plan, engine)
        assert copied == ["o"]
        (tmp_path / "t.csv").write_text("visits,sex\n1,a\n2,b\n3,c\n")
        assert found(plan, engine)[0][0][()] == (3,)
        (tmp_path / "t.csv").unlink()
        assert found(plan, engine)[0][0][()] == (3,)
    assert copied == ["o", "t"]
