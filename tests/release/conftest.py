"""One Spark session for all tests that need one: it takes seconds to start."""

import shutil
import warnings
from importlib.util import find_spec

import pytest

from rangebound.errors import EngineError
from rangebound.release.engine.spark import java_home, local_session

TRUSTED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
QUICK = {"spark_driver_extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {TRUSTED}"}
PATIENT = {"spark_executor_heartbeatInterval": "100000s", "spark_network_timeout": "1000000s"}  # a clock may jump


def pytest_collection_modifyitems(items):
    if _leaves_sockets_open():
        for item in items:
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


def _leaves_sockets_open() -> bool:
    """Whether this version of Spark does so with the sockets of its answers, as 4.0 does; Python warns of each."""
    if find_spec("pyspark") is None:
        return False
    from pyspark.version import __version__ as version

    return version.startswith("4.0.")


@pytest.fixture(scope="session")
def spark():
    """A Spark session on this machine, two threads; compiled as fast as can be, since it never runs for long."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            session = local_session(2, spark_sql_shuffle_partitions="2", spark_log_level="OFF", **QUICK, **PATIENT)
        except EngineError as error:
            if java_home() or shutil.which("java"):
                raise
            pytest.skip(str(error))
        yield session
        session.stop()
