"""The extras: nothing is imported before it is needed, and what is missing is named."""

from __future__ import annotations

import subprocess
import sys

import pytest

MISSING = """
import sys
sys.modules[{name!r}] = None
import rangebound
try:
    import rangebound.learn.{module}
except rangebound.errors.MissingExtra as error:
    print(error)
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_the_package_imports_no_extra() -> None:
    code = "import rangebound, rangebound.learn, sys; print([m for m in ('torch', 'sklearn') if m in sys.modules])"
    assert run(code).strip() == "[]"


@pytest.mark.parametrize(("name", "module"), [("torch", "torch"), ("sklearn", "sklearn")])
def test_a_missing_extra_is_named(name: str, module: str) -> None:
    assert f"rangebound[{module}]" in run(MISSING.format(name=name, module=module))
