"""The names of `rangebound.release`: loaded when they are asked for, and reading a plan loads the plan alone."""

import importlib
import pkgutil
import subprocess
import sys

import pytest

from rangebound import release

READ = """
import sys
import rangebound as rb
from rangebound import release
asked = '{name = "visits", kind = "count"}, {name = "age", kind = "mean", column = "age", range = [0, 100]}'
release.parse_plan('budget = {epsilon = 1.0}\\nquery = [' + asked + ']')
heavy = ("rangebound.release.noise", "rangebound.ledger", "rangebound.privacy", "rangebound.release.sql")
print([m for m in sys.modules if m.startswith((*heavy, "numpy", "scipy", "duckdb", "sqlglot", "flint", "pandas"))])
print(sum(m.startswith("rangebound") for m in sys.modules) < 60)
"""


@pytest.mark.parametrize("name", release.__all__)
def test_a_name_is_the_thing_itself(name):
    found = getattr(release, name)
    home = importlib.import_module(release._HOMES[name])
    assert found is getattr(home, name) is vars(release)[name]


def test_every_home_has_a_public_name_and_no_module_is_called_as_one():
    """Python binds a module to its name in the package when it is imported: it would hide the function."""
    assert set(release.__all__) >= release._HOMES.keys()
    assert {each.name for each in pkgutil.iter_modules(release.__path__)} & {*release.__all__} == set()
    assert not hasattr(release, "no_such_name")
    assert {*release.__all__} <= {*dir(release)}


def test_reading_a_plan_loads_the_plan_alone():
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\nTrue\n"
