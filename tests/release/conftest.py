"""One Spark session for all tests that need one: it takes seconds to start."""

import warnings

import pytest

from rangebound.errors import EngineError
from rangebound.release.engine.spark import local_session


@pytest.fixture(scope="session")
def spark():
    """A Spark session on this machine, two threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            session = local_session(2, spark_sql_shuffle_partitions="2", spark_log_level="OFF")
        except EngineError as error:  # no Java, nor one that can be brought
            pytest.skip(str(error))
        yield session
        session.stop()
