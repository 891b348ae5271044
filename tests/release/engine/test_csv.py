"""CSV files, well formed or not: what is in them never shows in an error, and threads change nothing."""

import random

import pytest

from rangebound.errors import ArgumentError
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.plan.model import Source
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql.aggregate import aggregate
from tests.release.plans import SALT

PLAN = make_plan(
    {
        "budget": {"epsilon": 1.0},
        "query": [{"name": "n", "kind": "count"}, {"name": "s", "kind": "sum", "column": "wait", "range": [0, 10]}],
    }
)
GOOD = b"wait,who\n" + b"".join(b"%d,p%d\n" % (at % 9, at) for at in range(30))


def sums(path, data, **options):
    path.write_bytes(data)
    with DuckDB(Source(path=str(path)), **options) as engine:
        (found,) = aggregate(PLAN, engine, SALT)
    return [float(found.answers[index][()][0]) for index in (0, 1)]


@pytest.mark.parametrize(
    "data",
    [
        GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.replace(b"\n", b"\r\n", 5),
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"p3\n", b'"p\n3"\n'),
        GOOD.replace(b"p3\n", b'"p, ""3"""\n'),
        GOOD[:-1],
    ],
    ids=["plain", "other line ends", "mixed line ends", "mark", "line break", "quotes", "no last end"],
)
def test_well_formed_files_are_read_whole(tmp_path, data):
    assert sums(tmp_path / "t.csv", data) == pytest.approx([30.0, 111.0], abs=1e-6)


def test_no_bytes_below_the_header_make_an_error_and_threads_change_nothing(tmp_path):
    chance = random.Random(2)
    pieces = [
        b"\r",
        b"\r\n",
        b"\n",
        b'"',
        b'""',
        b",",
        b"\xff",
        b"\x00",
        b"\xe2\x82",
        b'"a\nb"',
        b"\\",
        b"a" * 70_000,
        b"b" * 2_100_000,
    ]
    for _ in range(12):
        data = bytearray(GOOD)
        for _ in range(chance.choice([1, 2, 5])):
            at = chance.randrange(9, len(data))
            data[at:at] = chance.choice(pieces)
        one = sums(tmp_path / "t.csv", bytes(data), threads=1)
        assert one == sums(tmp_path / "t.csv", bytes(data), threads=4)
        assert 0.0 <= one[0] <= 40.0


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\n",
        b"wait,wait\n",
        b"wait,\n",
        b"wait,\xff\n",
        b'wait,"who\n',
        b'"wait" x,who\n',
        b"wait," + b"w" * 200_000,
    ],
    ids=["none", "empty", "twice", "unnamed", "no text", "open", "after a quote", "long"],
)
def test_a_header_that_names_no_columns_is_refused(tmp_path, header):
    with pytest.raises(ArgumentError, match="first line"):
        sums(tmp_path / "t.csv", header + b"1,2\n" * (header != b""))
