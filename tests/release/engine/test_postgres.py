"""PostgreSQL as an engine: the numbers of the reference whatever is in the table, in one state of it; no password."""

import datetime
import decimal
import math
import os
import random
import signal
import struct
import sys
import threading
import time

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, EngineError, PlanError
from rangebound.ledger.book import Ledger
from rangebound.release import parse_plan, release
from rangebound.release.engine import opened
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.interface import Unrunnable
from rangebound.release.engine.postgres import POSTGRES, Postgres
from rangebound.release.plan.source import Source
from rangebound.release.plan.table_schema import Family, TypedSchema
from rangebound.release.plan.toml import make_plan
from rangebound.release.sql.aggregate import check_statements
from rangebound.release.sql.view import view
from tests.release import reference
from tests.release.engine.test_duckdb import SPELLINGS
from tests.release.engine.test_engines import PLANS, arrow, found, make_rows
from tests.release.plans import KINDS, SALT, plan_data
from tests.release.postgres_tables import database, made, on_postgres
from tests.release.sql.test_joined import rows_of

psycopg = pytest.importorskip("psycopg", reason="the extra postgres is not installed")
COUNT = {"budget": {"epsilon": 1.0}, "query": [{"name": "n", "kind": "count"}]}


EDGES = [
    0.0,
    *(0.5, 1.0, 3.0, 7.0, 0.1, 1 / 3, 1e150, 1e-150, 1e-162, 8e307),
    *(2.0**power for power in (-1074, -1073, -1022, -538, -537, 52, 53, 511, 512, 969, 970, 1023)),
    sys.float_info.max,
]
OPERATIONS = {exp.Add: np.add, exp.Sub: np.subtract, exp.Mul: np.multiply, exp.Div: np.divide, exp.Mod: np.fmod}


def near(value):
    return {each for each in (value, math.nextafter(value, math.inf), math.nextafter(value, 0.0)) if each < math.inf}


def pairs():
    """Edges with edges, random bits, and pairs whose product or quotient is next to a limit of the doubles."""
    chance = random.Random(17)

    def bits():
        value = struct.unpack("<d", struct.pack("<Q", chance.getrandbits(64)))[0]
        return value if math.isfinite(value) and value else bits()

    edges = sorted({each for edge in EDGES for each in near(edge)})
    edges += [-each for each in edges]
    yield from ((x, y) for x in edges for y in edges)
    for _ in range(500):
        x = bits()
        yield x, bits()
        mantissa, power = math.frexp(x)
        for limit in (-1075, 1024):
            for side, most in ((1 / mantissa, limit - power), (mantissa, power - limit)):
                if -1100 < most < 1023:
                    yield from ((x, each) for each in near(abs(math.ldexp(side, most))))


def test_arithmetic_is_that_of_ieee_754_and_an_overflow_is_missing(postgres):
    x, y = np.array(list(pairs())).T
    table = pa.table({"at": range(len(x)), "x": x, "y": y})
    with on_postgres(postgres, table) as engine, np.errstate(all="ignore"):
        for operation, by_numpy in OPERATIONS.items():
            tree = POSTGRES.computed(operation, exp.column("x"), exp.column("y"))
            rows = exp.select("at", exp.alias_(tree, "z")).from_(engine.source.subquery("t"))
            if operation in (exp.Div, exp.Mod):
                rows = rows.where(exp.NEQ(this=exp.column("y"), expression=exp.Literal.number("0")))
            wanted = by_numpy(x, y)
            for at, value in engine.run(rows):
                assert value == (wanted[at] if math.isfinite(wanted[at]) else None), (operation, x[at], y[at])


@pytest.mark.parametrize("sign", "*/")
def test_control_plain_arithmetic_stops_at_one_row(sign, postgres):
    table = pa.table({"x": [1.0, 1e-200], "y": [1.0, 1e-200 if sign == "*" else 1e200]})
    with database(postgres) as base, pytest.raises(psycopg.errors.NumericValueOutOfRange):
        base.execute(f"SELECT x {sign} y FROM {made(postgres, table)}")


TINY = [5e-324, 1e-310, 1e-200, -1e-200, 1e-160, 0.0, 1.0, 2.5, math.nan, math.inf, -1e308, 1e308]


@pytest.mark.few(3)
@pytest.mark.parametrize("ends", [(0.0, 1e149), (0.0, 1e-149), (-1e149, 0.0), (-1.0, 1.0), (0.0, 1.0)])
def test_tiny_values_in_a_wide_range_stop_nothing(ends, postgres):
    """A product that is 0 by underflow would stop a statement."""
    asked = {"column": "x", "range": list(ends)}
    query = [{"name": kind, "kind": kind, **asked} for kind in ("sum", "mean", "variance")]
    query += [{"name": "bins", "kind": "histogram", **asked, "bins": 7}]
    plan = make_plan({"budget": {"epsilon": 1.0}, "query": query})
    table = pa.table({"x": TINY})
    with on_postgres(postgres, table) as engine, DuckDB(table) as other:
        assert found(plan, engine) == found(plan, other)


def test_the_sum_of_a_units_rows_may_be_infinite(postgres):
    wide = {"range": [0, 1e149]}
    per_unit = {"total": {"value": "sum(x * x * 1e9)", **wide}, "last": "ARG_MAX(ok, at)", "n": "COUNT(*)"}
    query = [{"name": "m", "kind": "mean", "column": "total", **wide}, {"name": "c", "kind": "count", "where": "last"}]
    plan = {**COUNT, "unit": {"column": "who"}, "columns": {"x": wide}, "per_unit": per_unit, "query": query}
    rows = [(1, 1e149, False, at) for at in range(30)] + [(2, 1e-320, None, 1), (2, 5.0, True, 0), (None, 1.0, True, 3)]
    table = pa.table(dict(zip(("who", "x", "ok", "at"), map(list, zip(*rows, strict=True)), strict=True)))
    with on_postgres(postgres, table) as engine, DuckDB(table) as other:
        assert found(make_plan(plan), engine) == found(make_plan(plan), other)


TEXTS = [*SPELLINGS, *(None, "1e308", "1.8e308", "-1.8e308", "1e-400", "2.4703282292062327e-324", "5e-324", "1" * 310)]
TEXTS += ["1" * 1000, "1" * 1001, "0." + "0" * 400 + "1", "0" * 990 + "7", "9" * 999 + "e999", "5e", "+", "e5"]
DAYS = ["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "0001-01-01", "9999-12-31", "2024-13-01"]
DAYS += ["2024-04-31", "10000-01-01", "2024-1-1", "2024-02-29 25:00", "2024-02-29 23:59", "infinity", "now"]


def test_texts_are_read_as_duckdb_reads_them(postgres):
    table = pa.table({"t": [*TEXTS, *DAYS]})
    names = ["number(t)", "CAST(t AS DATE)", "CAST(CAST(t AS DATE) AS VARCHAR)", "missing(t)", "hour(t)"]
    plan = make_plan({**COUNT, "columns": {each: {"value": each} for each in names}})
    with on_postgres(postgres, table) as engine, DuckDB(table) as other:
        assert rows_of(plan, engine, "t", *names) == rows_of(plan, other, "t", *names)


def test_numbers_times_and_texts_of_all_types(postgres):
    """NaN and infinities in numeric and float, dates beyond the calendar, domains, enums and collations."""
    with database(postgres) as base:
        base.execute("CREATE TYPE mood AS ENUM ('sad', 'ok')")
        base.execute("CREATE DOMAIN age AS integer CHECK (VALUE >= 0); CREATE DOMAIN older AS age")
        base.execute(
            "CREATE TABLE kinds (at int, n numeric, m numeric(5, 2), r real, d date, s timestamp, z timestamptz, "
            "mood mood, older older, t text, c char(4), v varchar(9), u uuid, b bytea, j jsonb, i interval, "
            "made int GENERATED ALWAYS AS (10 / at) VIRTUAL)"
        )
        one = "'a', 'ab', 'x', '00000000-0000-0000-0000-000000000001', '\\x00', '{}', '1 day')"
        for at, rest in enumerate(
            [
                "'NaN', 'NaN', 'NaN', 'infinity', 'infinity', 'infinity', 'sad', 0, ",
                "'Infinity', 1.5, '-Infinity', '-infinity', '-infinity', '-infinity', 'ok', 1, ",
                "1e400, NULL, 1e38, '4713-01-01 BC', '4713-01-01 BC', '294276-01-01', NULL, NULL, ",
                "-1e-400, -2, 1e-40, '5874897-12-31', '294276-12-31', '2024-02-29 23:00+00', 'ok', 7, ",
                "2.5, 99.99, 0.1, '2024-02-29', '2024-02-29 12:00', '4713-01-02 BC', 'ok', 2147483647, ",
            ]
        ):
            base.execute(f"INSERT INTO kinds VALUES ({at}, {rest}{one}")
        base.execute("UPDATE kinds SET t = 'A' WHERE at = 1")
    with Postgres(postgres, "kinds") as engine:
        schema = engine.schema()
        assert isinstance(schema, TypedSchema)
        assert {name: schema.types[name] for name in schema if schema[name] is Family.OTHER} == {
            "z": "timestamp with time zone", "b": "bytea", "j": "jsonb", "i": "interval",
            "made": "integer, generated as it is read",
        }  # fmt: skip
        there = [[{"column": name, "is": "present"}] for name in ("n", "m", "r", "d", "s", "z")]
        query = [{"name": str(at), "kind": "count", "where": each} for at, each in enumerate(there)]
        texts = ["mood", "older", "t", "c", "v", "u"]
        query += [{"name": f"by {name}", "kind": "count", "by": [name]} for name in texts]
        plan = make_plan({"budget": {"epsilon": 1.0, "delta": 1e-6}, "zone": "Europe/Paris", "query": query})
        answers, _ = found(plan, engine)
    assert [answers[at][()] for at in range(6)] == [(2,), (3,), (3,), (1,), (1,), (1,)]
    assert answers[6] == {("sad",): (1,), ("ok",): (3,)}
    assert set(answers[8]) == {("a",), ("A",)}
    assert set(answers[9]) == {("ab",)}


def test_sums_of_counts_are_exact_beyond_64_bits():
    """By its tree alone: numbers of 64 bits are added in 128 bits."""
    assert POSTGRES.written(POSTGRES.added(exp.column("x"))) == "SUM((x) + CAST(0 AS BIGINT))"


def test_rows_that_come_in_during_a_release_are_not_seen_and_none_is_written(postgres):
    table = made(postgres, pa.table({"x": [1.0, 2.0]}))
    with Postgres(postgres, table) as engine, database(postgres) as other:
        before = found(make_plan(COUNT), engine)
        other.execute(f"INSERT INTO {table} VALUES (3.0); DELETE FROM {table} WHERE x = 1.0; UPDATE {table} SET x = 9")
        assert found(make_plan(COUNT), engine) == before
        other.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute(f"ALTER TABLE {table} ALTER COLUMN x TYPE text")
    with Postgres(postgres, table) as engine, database(postgres) as other:
        assert found(make_plan(COUNT), engine) == before  # two rows again, others
        with pytest.raises(EngineError):
            engine.run(exp.Delete(this=exp.to_table(table)))
        other.execute(f"DELETE FROM {table}")
        assert found(make_plan(COUNT), engine) == before  # the transaction goes on, and sees what it saw


@pytest.fixture
def few_rights(postgres):
    """Nobody has a right that was not granted; afterwards everybody has those of the other tests again."""
    with database(postgres) as base:
        base.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC; REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
        yield
        base.execute("GRANT USAGE ON SCHEMA public TO PUBLIC; GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")


def role(base, address, name, rights):
    base.execute(f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA public TO {name}")
    for each in rights:
        base.execute(f"GRANT {each} TO {name}")
    return address.replace("postgres@", f"{name}@")


@pytest.mark.usefixtures("few_rights")
def test_the_right_to_read_the_table_is_enough_and_needed(postgres):
    rows = arrow(make_rows(50))
    table, other = made(postgres, rows), made(postgres, pa.table({"code": ["a"], "region": ["north"]}))
    join = {"table": other, "public": True, "on": {"name": "code"}, "columns": ["region"]}
    more = {"join": [join], "columns": {"double": {"value": "wait * 2"}}}
    plan = make_plan({**PLANS["people, public keys"], **more})
    with database(postgres) as base:
        reader = role(base, postgres, "reader", [f"SELECT ON {table}", f"SELECT ON {other}"])
        some = role(base, postgres, "partly", [f"SELECT (person, wait) ON {table}"])
        nobody = role(base, postgres, "nobody", [])
    with Postgres(reader, table) as engine, Postgres(postgres, table) as owner:
        assert found(plan, engine) == found(plan, owner)
        (right,) = engine.run(exp.select("has_database_privilege('postgres', 'TEMPORARY')"))
        assert right == (False,)
    with Postgres(some, table) as engine:
        assert list(engine.schema()) == ["person", "wait"]
        assert found(make_plan(plan_data([], KINDS[2:4])), engine)
    with pytest.raises(PlanError, match=r"source.table='public.t\d+': this role may not read it"):
        Postgres(nobody, table)


def test_what_is_not_a_table_or_hides_rows_is_refused(postgres):
    table = made(postgres, pa.table({"x": [0.0]}))
    with database(postgres) as base:
        base.execute(f"CREATE VIEW computing AS SELECT 1 / x AS x FROM {table}")
        base.execute(f"CREATE MATERIALIZED VIEW stored AS SELECT x FROM {table}")
        guarded = made(postgres, pa.table({"x": [0.0]}))
        base.execute(f"ALTER TABLE {guarded} ENABLE ROW LEVEL SECURITY")
        limited = role(base, postgres, "limited", [f"SELECT ON {guarded}"])
    for name, words in (
        ("computing", "computes as it is read"),
        ("none", "no such table"),
        ("a.b.c", "must be a table"),
    ):
        with pytest.raises(PlanError, match=words):
            Postgres(postgres, name)
    with pytest.raises(PlanError, match="row-level security would leave out rows"):
        Postgres(limited, guarded)
    with Postgres(postgres, '"public"."stored"') as engine:
        assert engine.schema() == {"x": Family.NUMBER}


SECRETS = [
    "postgresql://ann:geheim@host/db",
    "postgres://ann:geheim@host/db",
    "postgresql://host/db?password=geheim",
    "postgresql://host/db?pass%77ord=geheim",
    "postgresql://host/db?sslpassword=geheim",
    "postgresql://ann%3Ageheim@host/db",
    "service=clinic password=geheim",
    "host=h password=geheim",
]


@pytest.mark.parametrize("address", SECRETS)
def test_a_password_is_refused_and_never_shown(address, tmp_path):
    for attempt in (
        lambda: Postgres(address, "t"),
        lambda: Source(postgres=address, table="t"),
        lambda: make_plan({**COUNT, "source": {"postgres": address, "table": "t"}}),
        lambda: opened(Source(postgres="service=clinic", table="t"), postgres=address),
        lambda: parse_plan(
            f'source = {{postgres = "{address}", table = "t"}}\nbudget = {{epsilon = 1.0}}\n'
            'query = [{name = "n", kind = "count"}]'
        ),
    ):
        with pytest.raises((ArgumentError, PlanError), match="must hold no password") as error:
            attempt()
        assert "geheim" not in str(error.value)
        assert error.value.__cause__ is None
        assert error.value.__suppress_context__ or error.value.__context__ is None


@pytest.mark.parametrize("address", ["mysql://host/db", "host=h", "service=", "service=a b=c", "postgresql:host", 7])
def test_other_addresses_are_refused(address):
    with pytest.raises(ArgumentError, match="postgres: must be such as"):
        Postgres(address, "t")


def test_no_server_and_a_wrong_database_are_said_in_our_words(postgres, tmp_path):
    for address in (f"postgresql://ann@/db?host={tmp_path}", postgres.replace("/postgres?", "/nowhere?")):
        with pytest.raises(EngineError, match="no connection; see that the server answers") as error:
            Postgres(address, "t")
        assert error.value.__suppress_context__


def test_a_service_names_the_database(postgres, tmp_path, monkeypatch):
    folder = postgres.partition("host=")[2]
    (tmp_path / "services").write_text(f"[clinic]\nhost={folder}\ndbname=postgres\nuser=postgres\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    table = made(postgres, pa.table({"x": [1.0]}))
    with opened(Source(postgres="service=clinic", table=table)) as engine:
        assert engine.schema() == {"x": Family.NUMBER}


def slow(engine):
    """A statement that takes very long."""
    engine.run(exp.select(exp.Anonymous(this="pg_sleep", expressions=[exp.Literal.number("60")])))


def test_a_statement_ends_at_its_time_out(postgres):
    table = made(postgres, pa.table({"x": [1.0]}))
    too_small = pytest.raises(EngineError, match="its time-out, memory or disk may be too small")
    with Postgres(postgres, table, timeout=0.2) as engine, too_small:  # by the server's clock, which may be set back
        slow(engine)
    for wrong in (0.0, -1.0, math.nan):
        with pytest.raises(ArgumentError, match="timeout"):
            Postgres(postgres, table, timeout=wrong)


def test_a_rehearsal_plans_nothing_for_the_table_itself(postgres, monkeypatch):
    """A plan depends on the statistics of a table; what stands in its place is planned, and none the less run."""
    table, texts, run = made(postgres, pa.table({"x": [1.0, 2.0]})), [], Postgres.run
    monkeypatch.setattr(Postgres, "run", lambda self, text: (texts.append(text), run(self, text))[1])
    asked = [{"name": "x", "kind": "sum", "column": "x", "range": [0, 9]}]
    with Postgres(postgres, table) as engine:
        check_statements(make_plan({**COUNT, "query": asked}), engine)
        name = next(engine.source.find_all(exp.Table)).sql("postgres")
        own = [each for each in texts if name in each.replace(f"NULL::{name}", "")]
        assert [each.split()[0] for each in own] == ["PREPARE"]
        assert sum(f"NULL::{name}" in each for each in texts) == 1
        levels = "(" * 9000 + "x" + " + 1)" * 9000  # the server has no room for as many
        with pytest.raises(Unrunnable):
            engine.rehearse(f"SELECT {levels} FROM {name}")
        assert engine.run(f"SELECT sum(x) FROM {name}") == [(3.0,)]


def test_an_interrupt_ends_the_statement_in_the_server(postgres):
    table = made(postgres, pa.table({"x": [1.0]}))
    with Postgres(postgres, table) as engine, database(postgres) as other:
        running = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE '%pg_sleep%' AND state = 'active' \
            AND pid <> pg_backend_pid()"

        def stop():
            while not other.execute(running).fetchone()[0]:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        stopper = threading.Thread(target=stop)
        stopper.start()
        with pytest.raises(KeyboardInterrupt):
            slow(engine)
        stopper.join()
        for _ in range(1000):
            if not other.execute(running).fetchone()[0]:
                break
            time.sleep(0.01)
        assert other.execute(running).fetchone() == (0,)


@pytest.mark.slow
def test_a_whole_release_by_the_command_line(postgres, tmp_path, capsys):
    table, plan, written = made(postgres, pa.table({"who": [1, 2, 3]})), tmp_path / "plan.toml", tmp_path / "t.csv"
    plan.write_text(
        f'source = {{postgres = "service=nowhere", table = "{table}"}}\n'
        'budget = {epsilon = 50.0, account = "people", ledger = "l.ledger"}\nunit = {column = "who"}\n'
        'query = [{name = "n", kind = "count"}]\n'
    )
    with Ledger.create(tmp_path / "l.ledger") as book:
        book.open_account("people", epsilon=50)
    options = ["--postgres", postgres, "--request", "one", "--timeout", "60", "-o", str(written)]
    assert run(["release", str(plan), *options]) == 0
    assert postgres not in written.read_text()
    capsys.readouterr()
    assert run(["plan", "new", postgres, '-(-"table")', table, "--unit", "who"]) == 0
    assert parse_plan(capsys.readouterr().out).source == Source(postgres=postgres, table=table)


JOINED = {
    "region": ["a", "b", "ü", None],
    "name": ["A\x1f", None, "Ü'\\", "none"],
    "size": [2**62, -1, None, 0],
    "day": [datetime.date(2024, 2, 29), None, datetime.date(1, 1, 1), datetime.date(9999, 12, 31)],
    "x": [0.1, math.nan, -math.inf, 5e-324],
    "ok": [True, None, False, True],
    "cost": [decimal.Decimal("1.10"), None, decimal.Decimal("-2.5"), decimal.Decimal("0")],
}


def test_public_tables_of_this_machine_are_joined_and_private_ones_must_be_of_the_database(postgres):
    public, names = pa.table(JOINED), [each for each in JOINED if each != "region"]
    nothing = 0.0 if duckdb.__version__.startswith("1.") else -0.0  # before 2.0 a window loses the sign of a zero
    own = pa.table({"person": [1, 1, 2, 3], "region": ["a", "b", "ü", "z"], "y": [1.5, 5e-324, nothing, 1e300]})
    regions = {"table": "regions", "public": True, "on": ["region"], "columns": names}
    plan = make_plan({**COUNT, "unit": {"column": "person"}, "join": [regions]})
    found = []
    for engine in (DuckDB(own), on_postgres(postgres, own)):
        with engine:
            engine.give({"regions": public})
            found.append(repr(rows_of(plan, engine, "person", "region", "y", *names)))
    assert found[0] == found[1]
    private = {"table": "visits", "public": False, "on": ["person"], "columns": ["z"], "rows": 2}
    odd = {"regions": pa.table({"region": ["a\0"], "name": ["x"]}), "visits": pa.table({"person": [1], "z": [1.0]})}
    for join, words in (
        (private, r"join\[0\]: a private table that is joined must be one of the database"),
        ({**regions, "columns": ["name"]}, "holds a NUL"),
    ):
        with on_postgres(postgres, own) as engine:
            engine.give(odd)
            with pytest.raises(PlanError, match=words):
                view(make_plan({**COUNT, "unit": {"column": "person"}, "join": [join]}), engine)


@pytest.mark.usefixtures("few_rights")
def test_functions_of_the_database_do_not_take_the_place_of_those_of_postgres(postgres):
    rows = make_rows(60)
    table = made(postgres, arrow(rows))
    plan = make_plan(PLANS["people, private keys"])
    with database(postgres) as base:
        reader = role(base, postgres, "fooled", [f"SELECT ON {table}"])
        base.execute("CREATE FUNCTION public.md5(text) RETURNS text LANGUAGE sql AS $$ SELECT 'same' $$")
        base.execute("GRANT ALL ON FUNCTION public.md5(text) TO PUBLIC")
        base.execute(
            "ALTER ROLE fooled SET search_path = public, pg_catalog; ALTER ROLE fooled SET TimeZone = 'Asia/Tokyo'"
        )
        try:
            with Postgres(reader, table.partition(".")[2]) as engine:
                assert found(plan, engine) == reference.aggregates(plan, rows, SALT)
        finally:
            base.execute("DROP FUNCTION public.md5(text)")


def test_long_names_are_refused_before_the_charge(postgres):
    plan, table = make_plan({**COUNT, "columns": {"é" * 40: {"value": "wait * 2"}}}), pa.table({"wait": [1.0]})
    with on_postgres(postgres, table) as engine, pytest.raises(PlanError, match="must not be longer than 63 bytes"):
        release(plan, engine, ledger=None)
