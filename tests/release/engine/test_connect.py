"""Tables of a Spark Connect server: the way in, and what is said where there is none."""

import os
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pyarrow as pa
import pytest

from rangebound.cli.app import run
from rangebound.errors import ArgumentError, EngineError, MissingExtra
from rangebound.release import Source, make_plan, parse_plan
from rangebound.release.engine import opened
from rangebound.release.engine import spark as module
from rangebound.release.engine.duckdb import DuckDB
from rangebound.release.engine.spark import Spark, java_home
from rangebound.release.sql.aggregate import aggregate
from tests.release.plans import SALT, plan_data

REMOTE = {"spark": "sc://127.0.0.1:1", "table": "visits"}
ANSWERING = module._answering
ROWS = [(1, "a", 3.5, 30), (2, "b", 70.0, 40), (2, "a", 8.0, 40), (3, "c", None, 70)]


class Session:
    """A session that notes what is asked of it."""

    def __init__(self):
        self.asked = []
        self.conf = self.builder = self.catalog = self.sparkSession = self
        self.dtypes = [("person", "int"), ("wait", "decimal(3,1)")]
        self.get = lambda name, default: default

    def __getattr__(self, name):
        def note(*arguments):
            self.asked.append((name, *arguments))
            return self

        return note


@pytest.fixture
def fake(monkeypatch):
    session = Session()
    monkeypatch.setattr(module, "SparkSession", session)
    monkeypatch.setattr(module, "_answering", lambda address: address)
    return session


def test_an_address_becomes_a_session_of_its_own_that_is_closed(fake):
    with opened(Source(**REMOTE), spark="sc://host/;token=secret") as engine:
        assert [family.value for family in engine.schema().values()] == ["integer", "decimal"]
    assert fake.asked == [
        ("remote", "sc://host/;token=secret"),
        ("create",),
        ("set", "spark.sql.session.timeZone", "UTC"),
        ("set", "spark.sql.parser.quotedRegexColumnNames", "false"),
        ("table", "visits"),
        ("createOrReplaceTempView", engine.source.name),
        ("stop",),
    ]


def test_a_server_that_is_lost_is_away_and_one_that_fails_is_not(fake, monkeypatch):
    engine = Spark.connect("sc://127.0.0.1:1", "visits")
    monkeypatch.setattr(fake, "sql", lambda _: 1 / 0, raising=False)
    for away in (False, True):
        if away:
            monkeypatch.setattr(module, "_answering", ANSWERING)
        with pytest.raises(EngineError) as error:
            engine.run("SELECT 1")
        assert error.value.away is away
        assert error.value.__suppress_context__


def test_a_session_is_closed_where_the_table_cannot_be_had(fake):
    from pyspark.errors import AnalysisException

    def gone(_):
        raise AnalysisException("gone")

    with Spark(fake):  # a session of the user is not
        pass
    assert [asked[0] for asked in fake.asked] == ["createOrReplaceTempView", "dropTempView"]
    fake.table = gone
    with pytest.raises(EngineError, match="table='visits': the Spark server at sc://host cannot give this table"):
        Spark.connect("sc://host", "visits")
    assert fake.asked[-1] == ("stop",)


def test_where_no_server_answers_it_is_said_at_once_and_without_the_token(within):
    refused = pytest.raises(EngineError, match=r"spark='sc://127.0.0.1:1': no server answers there$")
    with within(60), refused:  # Spark itself would try for minutes
        Spark.connect("sc://127.0.0.1:1/;token=secret", "visits")


@pytest.mark.parametrize("address", ["http://host", "sc://", "sc://user@host", "sc://host:99999", "sc://[", 5, None])
def test_an_address_that_is_none_is_refused(address):
    with pytest.raises(ArgumentError, match="must be the address of a Spark Connect server"):
        Spark.connect(address, "visits")


@pytest.mark.parametrize("missing", ["pyspark", "grpc"])
def test_a_missing_extra_is_named(fake, monkeypatch, missing):
    plain = module.importlib.util.find_spec
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None if name == missing else plain(name))
    with pytest.raises(MissingExtra, match=rf"{missing}: is not installed; pip install .*\[spark\]'"):
        Spark.connect("sc://host", "visits")
    assert fake.asked == []


def test_settings_of_duckdb_and_sources_of_files_are_refused():
    with pytest.raises(ArgumentError, match="settings of DuckDB"):
        opened(Source(**REMOTE), threads=2)
    with pytest.raises(ArgumentError, match="must name a table, and no path"):
        opened(Source(path="visits.csv"), spark="sc://host")
    with pytest.raises(ArgumentError, match="DuckDB reads files"):
        DuckDB(Source(**REMOTE))


def test_the_command_line_takes_an_address(tmp_path, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        '[source]\nspark = "sc://127.0.0.1:1"\ntable = "visits"\n[budget]\nepsilon = 1.0\n'
        '[[query]]\nname = "n"\nkind = "count"\n'
    )
    assert parse_plan(plan.read_text()).source == Source(**REMOTE)
    assert run(["release", str(plan), "--dry-run", "--spark", "sc://127.0.0.1:2"]) == 2
    assert capsys.readouterr().err == "error: spark='sc://127.0.0.1:2': no server answers there\n"
    assert run(["plan", "check", str(plan)]) == 2
    assert capsys.readouterr().err == "error: spark='sc://127.0.0.1:1': no server answers there\n"


@pytest.fixture
def server(tmp_path):
    """A Spark Connect server on this machine; its address."""
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.warehouse.dir": tmp_path / "warehouse",
    }
    command = [home / "bin" / "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]", *(x for name, each in settings.items() for x in ("--conf", f"{name}={each}"))]
    folder = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    with (tmp_path / "log").open("w") as log:
        java = {"JAVA_HOME": brought} if (brought := java_home()) else {}
        around = {**os.environ, **java, "SPARK_HOME": str(home), "PATH": folder}
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, env=around)
    try:
        for _ in range(1200):  # ten minutes: a busy machine starts slowly
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0 or process.poll() is not None:
                    break
            time.sleep(0.5)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.long
def test_a_real_server_gives_the_same_aggregates_as_duckdb(server):
    plan = make_plan(
        plan_data(["clinic"], unit={"column": "person", "rows": 2, "groups": 2}, keys={"clinic": ["a", "b", "none"]})
    )
    columns = ["person", "clinic", "wait", "age"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        session = SparkSession.builder.remote(server).create()
        try:
            frame = session.createDataFrame(ROWS, "person int, clinic string, wait double, age int")
            frame.write.saveAsTable("visits")
            with Spark.connect(server, "visits") as engine:
                (found,) = aggregate(plan, engine, SALT)
            with pytest.raises(EngineError, match="cannot give this table"):
                Spark.connect(server, "gone")
        finally:
            session.stop()
    with DuckDB(pa.table({name: [row[at] for row in ROWS] for at, name in enumerate(columns)})) as engine:
        (expected,) = aggregate(plan, engine, SALT)
    assert found.answers == expected.answers
