"""One row decides nothing: every type of Arrow, used by a plan and not, with rows that are damaged in every way.

A row more changes what a plan's statements find by one row at most, never whether they run, and never what the other
rows count. The rows are added one by one; the last one has a damaged text, at which the first reader of Parquet stops.
"""

import datetime
import decimal
import uuid
from fractions import Fraction
from functools import lru_cache

import duckdb
import numpy as np
import pandas
import pyarrow as pa
import pytest
from pyarrow import parquet

from rangebound.errors import PlanError
from rangebound.release import make_plan
from rangebound.release.engine import duckdb_table as module
from rangebound.release.engine import frame as frames
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family, check_schema
from tests.release.engine.test_damage import as_text
from tests.release.engine.test_engines import found
from tests.release.plans import written_once

GOOD = 3
FAR = [2**62, -(2**62), 2**63 - 1, -(2**63), -(2**63) + 1]


def bits(kind, values):
    """Numbers in the bytes of a type, whether it allows them or not."""
    width = kind.bit_width // 8
    data = b"".join(each.to_bytes(width, "little", signed=each < 0) for each in values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(data)])


def whole(kind):
    width, signed = kind.bit_width, pa.types.is_signed_integer(kind)
    ends = [-(2 ** (width - 1)), 2 ** (width - 1) - 1] if signed else [0, 2**width - 1]
    return bits(kind, [1, 2, 3, *ends])


def decimals(kind):
    top = 2 ** (kind.bit_width - 1)
    return bits(kind, [100, 200, 300, 10**kind.precision % top, 65_536 + 150, -top, top - 1])


def times(kind):
    return bits(kind, [86_400_000, 0, 172_800_000, *FAR])


def days(kind):
    return bits(kind, [0, 1, 2, 2**31 - 1, -(2**31), -(2**31) + 1])


def texts(kind):
    if kind == pa.string_view():
        return as_text([b"1", b"a", b"2024-01-01", b"\xff", b"3\xc3"]).cast(kind)
    return as_text([b"1", b"a", b"2024-01-01", b"\xff", b"3\xc3"], kind)


def halves():
    return pa.array(np.array([1, 2, 3, np.nan, np.inf, -np.inf, 65504], np.float16))


def floats(kind):
    return pa.array([1, 2, 3, float("nan"), float("inf"), -float("inf"), 1e38], kind)


def extension(kind, storage):
    return pa.ExtensionArray.from_storage(kind, storage)


def listed(values, indices=None):
    """Values by their number in a list; the last number has no value."""
    numbers = [*range(len(values)), 99, -1] if indices is None else indices
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int8()), values, safe=False)


def runs(values):
    """Values by how far they run."""
    ends, kind = pa.array(range(1, len(values) + 1), pa.int32()), pa.run_end_encoded(pa.int32(), values.type)
    return pa.Array.from_buffers(kind, len(values), [None], children=[ends, values])


def nested(values):
    """Everything that may hold values: lists, structures, maps, unions, tensors."""
    ends = pa.array(range(len(values) + 1), pa.int32())
    letters = pa.array(["k"] * len(values))
    return {
        "list": pa.ListArray.from_arrays(ends, values),
        "large list": pa.LargeListArray.from_arrays(ends.cast(pa.int64()), values),
        "list of one": pa.FixedSizeListArray.from_arrays(values, 1),
        "list view": pa.ListViewArray.from_arrays(ends[:-1], pa.array([1] * len(values), pa.int32()), values),
        "struct": pa.StructArray.from_arrays([values], ["h"]),
        "list of struct": pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([values], ["h"])),
        "map": pa.MapArray.from_arrays(ends, letters, values),
        "union": pa.UnionArray.from_sparse(pa.array([0] * len(values), pa.int8()), [values]),
        "dense union": pa.UnionArray.from_dense(pa.array([0] * len(values), pa.int8()), ends[:-1], [values]),
    }


def columns():
    """A column of every type: three good rows, and then the damaged ones."""
    made = {}
    signed, unsigned = (pa.int8(), pa.int16(), pa.int32(), pa.int64()), (pa.uint8(), pa.uint16(), pa.uint32())
    for kind in (*signed, *unsigned, pa.uint64()):
        made[str(kind)] = whole(kind)
    for kind in (pa.float32(), pa.float64()):
        made[str(kind)] = floats(kind)
    made["half"] = halves()
    for make, digits in ((pa.decimal32, (4, 9)), (pa.decimal64, (4, 9, 18)), (pa.decimal128, (4, 9, 18, 20, 38))):
        for each in digits:
            made[str(make(each, 2))] = decimals(make(each, 2))
    made["decimal256"] = decimals(pa.decimal256(9, 2))
    made["wide decimal256"] = decimals(pa.decimal256(60, 2))
    made["negative scale"] = decimals(pa.decimal128(10, -2))
    for unit in ("s", "ms", "us", "ns"):
        made[f"timestamp {unit}"] = times(pa.timestamp(unit))
        made[f"zoned {unit}"] = times(pa.timestamp(unit, "UTC"))
        made[f"duration {unit}"] = times(pa.duration(unit))
    made["date64"] = times(pa.date64())
    made["date32"] = days(pa.date32())
    for kind in (pa.time32("s"), pa.time32("ms")):
        made[str(kind)] = days(kind)
    for kind in (pa.time64("us"), pa.time64("ns")):
        made[str(kind)] = times(kind)
    made["interval"] = pa.array([(1, 2, 3)] * 3 + [(2**31 - 1, -(2**31), 2**62)], pa.month_day_nano_interval())
    made["boolean"] = pa.array([True, False, True, None])
    made["nothing"] = pa.nulls(4)
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        made[str(kind)] = texts(kind)
    for kind in (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1)):
        made[str(kind)] = pa.array([b"1", b"a", b"b", b"\xff"], kind)
    ids = [uuid.UUID(int=at).bytes for at in (1, 2, 3, 0, 2**128 - 1)]
    made["uuid"] = extension(pa.uuid(), pa.array(ids, pa.binary(16)))
    made["json"] = extension(pa.json_(), texts(pa.string()))
    made["bool8"] = extension(pa.bool8(), pa.array([1, 0, 1, 7, -128], pa.int8()))
    made["opaque"] = extension(pa.opaque(pa.int32(), "t", "v"), whole(pa.int32()))
    tensor = pa.FixedSizeListArray.from_arrays(halves(), 1)
    made["tensor"] = extension(pa.fixed_shape_tensor(pa.float16(), [1]), tensor)
    for name in ("string", "large_string", "int64", "decimal128(4, 2)", "date32", "timestamp ms", "half", "uuid"):
        made[f"listed {name}"] = listed(made[name])
    made["listed texts, listed"] = listed(texts(pa.string()), [0, 1, 2, 3, 3, 4])
    for name in ("string", "string_view", "int64", "decimal128(4, 2)", "half"):
        made[f"runs of {name}"] = runs(made[name])
    for inside in ("half", "decimal256", "string", "decimal128(4, 2)", "timestamp ms"):
        made |= {f"{name} of {inside}": each for name, each in nested(made[inside]).items()}
    return made


COLUMNS = columns()


def source(name, table, path, **options):
    """A table as it comes: from Arrow, pandas, a Parquet file, or one whose decimals are whole numbers."""
    if name == "arrow":
        return table
    if name == "pandas":
        return table.to_pandas(types_mapper=pandas.ArrowDtype)
    parquet.write_table(table, path, store_decimal_as_integer=name == "parquet, numbers", **options)
    return Source(path=str(path))


QUESTIONS = [
    {"kind": "mean", "column": "c", "range": [0, 10]},
    {"kind": "median", "column": "c", "range": [0, 10], "step": 1.0},
    {"kind": "mean", "column": "c", "range": [datetime.date(1970, 1, 1), datetime.date(2024, 12, 30)]},
    {"kind": "count", "by": ["c"]},
    {"kind": "count", "where": [{"column": "c", "is": "missing"}]},
    {"kind": "count", "where": [{"column": "c", "is": "==", "value": 1.0}]},
    {"kind": "count", "where": [{"column": "c", "is": "==", "value": "1"}]},
]
BASE = {"budget": {"epsilon": 1.0, "delta": 1e-6, "account": "people"}}
UNUSED = {"name": "texts", "kind": "count", "by": ["t"]}


@lru_cache
def accepted(family):
    """The plans that a column of a family serves for: all questions at once, and its values as owners of the rows."""
    schema = {"c": family, "t": Family.TEXT}
    asked = [{"name": str(at), **each} for at, each in enumerate(QUESTIONS)]
    served = [each for each in asked if fits({**BASE, "query": [each]}, schema)]
    plan = {**BASE, "keys": {"t": ["x"]}, "query": [UNUSED, *served]}
    owners = {**BASE, "keys": {"t": ["x"]}, "query": [UNUSED], "unit": {"column": "c"}}
    return [make_plan(each) for each in (plan, owners) if fits(each, schema)]


def fits(plan, schema):
    try:
        check_schema(make_plan(plan), schema)
    except PlanError:
        return False
    return True


def moved(one, other):
    """By how much two aggregates differ at most, of all questions, in all groups together."""
    most = Fraction(0)
    for index, answers in other[0].items():
        before = one[0][index]
        total = Fraction(0)
        for key in answers.keys() | before.keys():
            new, old = answers.get(key, ()), before.get(key, ())
            width = max(len(new), len(old))
            padded = [(*each, *([Fraction(0)] * (width - len(each)))) for each in (new, old)]
            total += sum(abs(a - b) for a, b in zip(*padded, strict=True))
        most = max(most, total)
    for by, units in other[1].items():
        before = one[1].get(by, {})
        most = max(most, sum(abs(units.get(key, 0) - before.get(key, 0)) for key in units.keys() | before.keys()))
    return most


def look(data):
    """What can be asked of a table and what is found; threads would only cost time."""
    with DuckDB(data, threads=1) as engine:
        schema = engine.schema()
        return schema, [found(plan, engine) for plan in accepted(schema["c"])]


def check(column, route, tmp_path):
    """Add the damaged rows to the good ones, and then a row that has a damaged text too."""
    damaged = len(column) - GOOD
    last = pa.chunked_array([column, column.slice(0, 1)])
    tables = [
        pa.table({"c": column.slice(0, GOOD), "t": as_text([b"x"] * GOOD)}),
        pa.table({"c": column, "t": as_text([b"x"] * len(column))}),
        pa.table({"c": last, "t": as_text([b"x"] * (len(last) - 1) + [b"\xff"])}),
    ]
    try:
        source(route, tables[1], tmp_path / "t.parquet")
    except (pa.ArrowException, OSError, NotImplementedError, TypeError, ValueError) as reason:
        pytest.skip(f"no such column in {route}: {type(reason).__name__}")
    with written_once():
        seen = [look(source(route, each, tmp_path / "t.parquet")) for each in tables]
    assert seen[0][0] == seen[1][0] == seen[2][0]
    for first, second, third in zip(*(each[1] for each in seen), strict=True):
        assert moved(first, second) <= damaged
        assert moved(second, third) <= 1


MORE = {f"{name} of {inside}" for name in nested(halves()) for inside in ("string", "timestamp ms", "decimal128(4, 2)")}
MORE |= {"uint8", "int16", "uint16", "uint32", "zoned s", "zoned ms", "duration s", "duration ms", "duration us"}
TWINS = {"large_string", "string_view", "large_binary", "binary_view", "decimal32(4, 2)", "decimal64(9, 2)"}
SAME = {"arrow": set(), "pandas": set(), "parquet": TWINS, "parquet, numbers": set()}  # to Parquet they are one type
ROUTES = ("arrow", "pandas", "parquet", "parquet, numbers")


def seldom(at: int, route: str) -> bool:
    """Whether a type goes this way with the long tests alone: by default each takes one, in turn."""
    return route == "pandas" or (route in ("arrow", "parquet") and (at % 2 == 0) == (route == "parquet"))


CASES = [
    pytest.param(name, route, marks=[pytest.mark.long] * (seldom(at, route) or name in MORE or name in SAME[route]))
    for at, (name, column) in enumerate(COLUMNS.items())
    for route in ROUTES
    if not (route == "pandas" and column.type.num_fields)  # pandas keeps what Arrow has
    and not (route == "parquet, numbers" and "decimal" not in name)  # the same as the other file
    and not (route.startswith("parquet") and name.startswith("listed ") and ", " not in name)  # no file, but a ruin
]


@pytest.mark.few(5)
@pytest.mark.parametrize(("name", "route"), CASES)
def test_no_type_and_no_row_decides_whether_there_is_a_table(name, route, tmp_path):
    check(COLUMNS[name], route, tmp_path)


@pytest.mark.claim("answer")
def test_what_each_type_serves_for(tmp_path):
    """The types that people have are not refused along with those that cannot be read."""
    families = {
        Family.INTEGER: ["int8", "uint64", "listed int64", "runs of int64"],
        Family.NUMBER: ["half", "double"],
        Family.DECIMAL: ["decimal32(4, 2)", "decimal64(18, 2)", "decimal128(38, 2)", "listed decimal128(4, 2)"],
        Family.TEXT: ["string", "string_view", "uuid", "json", "listed string", "runs of string"],
        Family.DATE: ["date32", "date64", "listed date32"],
        Family.TIMESTAMP: ["timestamp s", "timestamp ns"],
        Family.BOOLEAN: ["boolean", "bool8"],
        Family.OTHER: ["nothing", "list of half", "struct of decimal256", "zoned us", "decimal256", "time64[us]"],
    }
    for family, names in families.items():
        for name in names:
            with DuckDB(pa.table({"c": COLUMNS[name]})) as engine:
                assert engine.schema() == {"c": family}, name
    in_files = {"half": Family.NUMBER, "uuid": Family.TEXT, "json": Family.TEXT}
    in_files |= {"decimal128(4, 2)": Family.DECIMAL, "decimal256": Family.DECIMAL}
    for name, family in in_files.items():
        with DuckDB(source("parquet", pa.table({"c": COLUMNS[name]}), tmp_path / "t.parquet")) as engine:
            assert engine.schema()["c"] is family, name


def rewritten(path, old, new):
    """The file with other words in its footer; their length is the same."""
    data = path.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert data[begin:-8].count(old) == 1
    path.write_bytes(data[:begin] + data[begin:-8].replace(old, new) + data[-8:])


@pytest.mark.parametrize("signed", [True, False])
def test_numbers_too_large_for_the_type_that_a_file_names_are_the_same_to_both_readers(tmp_path, signed):
    kind = pa.int16() if signed else pa.uint16()
    values = [1, 300, -200, -129, 32767] if signed else [1, 300, 255, 256, 65535]
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"c": pa.array(values, kind)}), path, write_statistics=False, store_schema=False)
    wide, narrow = (
        (b"% L\xac\x13\x10", b"%\x1eL\xac\x13\x08") if signed else (b"%\x18L\xac\x13\x10", b"%\x16L\xac\x13\x08")
    )
    rewritten(path, wide, narrow)
    plan = make_plan({**BASE, "query": [{"name": "n", "kind": "count", "by": ["c"]}]})
    with DuckDB(Source(path=str(path))) as engine:
        first = found(plan, engine)
        assert engine._table.read_otherwise()
        assert found(plan, engine) == first


def test_names_that_differ_in_case_or_are_empty_are_the_same_to_both_readers(tmp_path):
    half = COLUMNS["list of half"].slice(0, 2)
    table = pa.table([half, ["a", "b"], ["c", "d"], [1, 2], [3, 4], [5, 6]], ["Note", "note", "NOTE", "", "x.y", "[0]"])
    with DuckDB(source("parquet", table, tmp_path / "t.parquet")) as engine:
        names = [name for name, family in engine.schema().items() if family is not Family.OTHER]
        assert len(names) == 5
        statement = module.exp.select(*(module.exp.column(each, quoted=True) for each in names)).from_(engine.source)
        first = engine.run(statement)
        assert engine._table.read_otherwise()
        assert engine.run(statement) == first == [("a", "c", 1, 3, 5), ("b", "d", 2, 4, 6)]


def test_an_unused_column_of_pandas_of_any_type_stops_nothing():
    odd = {
        "cut": pandas.cut(pandas.Series([1, 2, 3]), 2),
        "period": pandas.Series(pandas.period_range("2020", periods=3, freq="D")),
        "interval": pandas.Series(pandas.interval_range(0, 3)),
        "complex": pandas.Series([1j, 2, 3]),
        "long": pandas.Series(np.array([1, 2, 3], np.longdouble)),
        "sparse": pandas.Series(pandas.arrays.SparseArray([0, 0, 1])),
        "zoned": pandas.Series(pandas.date_range("2020", periods=3, tz="UTC")),
        "while": pandas.Series(pandas.to_timedelta([1, 2, 3])),
    }
    frame = pandas.DataFrame({**odd, "t": ["x", "y", None]})
    with DuckDB(frame) as engine:
        schema = engine.schema()
        assert [name for name, family in schema.items() if family is not Family.OTHER] == ["t"]
        assert found(make_plan({**BASE, "keys": {"t": ["x"]}, "query": [UNUSED]}), engine)[0] == {0: {("x",): (1,)}}


def test_controls_without_care_one_row_decides(tmp_path, monkeypatch):
    """What DuckDB makes of damaged values by itself: another row's number, an error, or a table it cannot bind."""
    column = bits(pa.decimal128(4, 2), [150, 40_000, 65_536 + 150])
    with duckdb.connect() as base:
        base.register("t", pa.table({"c": column}))
        assert base.execute("SELECT c FROM t").fetchall()[2] != (decimal.Decimal("656.86"),)
    monkeypatch.setattr(frames, "_wide", lambda column: column)
    monkeypatch.setattr(
        module,
        "_seen",
        lambda name, kind, seen, digits=None: seen.get(str(kind.id).upper(), "{}").format(module._named(name)),
    )
    with pytest.raises((AssertionError, module.EngineError)):
        check(COLUMNS["decimal128(20, 2)"], "arrow", tmp_path)


def test_control_the_readers_of_parquet_make_different_numbers_of_a_decimal_that_is_too_large(tmp_path):
    """Which is why such a column is read by one of them alone."""
    table = pa.table({"c": bits(pa.decimal32(4, 2), [150, 65_536 + 150])})
    plan = make_plan({**BASE, "query": [{"name": "n", "kind": "count", "where": [{"column": "c", "is": "missing"}]}]})
    with DuckDB(source("parquet, numbers", table, tmp_path / "t.parquet")) as engine:
        assert engine._table.alone == {"c"}
        assert found(plan, engine)[0] == {0: {(): (1,)}}
    with DuckDB(source("parquet, numbers", table, tmp_path / "t.parquet")) as engine:
        engine._table.alone = frozenset()
        assert found(plan, engine)[0] == {0: {(): (0,)}}
        assert engine._table.read_otherwise()
        assert found(plan, engine)[0] == {0: {(): (1,)}}
