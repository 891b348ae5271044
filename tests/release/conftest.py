"""One Spark session for all tests that need one: it takes seconds to start."""

import warnings

import pytest


@pytest.fixture(scope="session")
def spark():
    """A Spark session on this machine, two threads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pyspark.sql import SparkSession

        session = (
            SparkSession.builder.master("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.log.level", "OFF")
            .getOrCreate()
        )
        yield session
        session.stop()
