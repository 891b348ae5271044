"""Names that are loaded when they are asked for: none is lost, and nobody can tell, but by the clock."""

import ast
import importlib
import pickle
import pkgutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import rangebound as rb

SOURCE = Path(rb.__file__).read_text(encoding="utf-8")


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def typed(source: str) -> tuple[dict[str, tuple[str, str]], list[str], list[str]]:
    """What a type checker sees under `if TYPE_CHECKING`: where each name is from, the public modules, and `__all__`."""
    (block,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    found = [(node.module, each) for node in block.body if isinstance(node, ast.ImportFrom) for each in node.names]
    modules = [each.asname for module, each in found if module == "rangebound" and each.asname == each.name]
    homes = {each.asname or each.name: (module, each.name) for module, each in found if module != "rangebound"}
    (names,) = (ast.literal_eval(node.value) for node in block.body if isinstance(node, ast.Assign))
    return homes, modules, names


HOMES = {name: (home, rb._OWN_NAMES.get(name, name)) for name, home in rb._HOMES.items()}


def test_the_tables_the_types_and_all_agree():
    homes, modules, names = typed(SOURCE)
    assert homes == HOMES
    assert tuple(modules) == rb._MODULES
    assert sorted(names) == rb.__all__ == sorted(HOMES)


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("import Grid, ", "import Grid, Sphere, ", 0),
        ("release as release_table", "explain as release_table", 0),
        ("import plot as plot", "import cli as cli", 1),
        ('"Gaussian",\n        "Grid"', '"Gaussian"', 2),
    ],
)
def test_control_a_difference_is_noticed(old, new, part):
    assert SOURCE.count(old) == 1
    assert typed(SOURCE.replace(old, new))[part] != typed(SOURCE)[part]


@pytest.mark.parametrize("name", rb.__all__)
def test_a_name_is_the_thing_itself(name):
    home, own = HOMES[name]
    assert getattr(rb, name) is getattr(importlib.import_module(home), own)
    assert getattr(rb, name) is vars(rb)[name]  # kept, so that the next look is a plain one


def test_a_star_brings_every_name():
    code = "from rangebound import *; import rangebound as rb; print(sorted(set(rb.__all__) - set(globals())))"
    assert run(code) == "[]"


def test_an_import_loads_nothing():
    code = "import sys, rangebound; print([m for m in sys.modules if m.startswith(('numpy', 'flint', 'rangebound.'))])"
    assert run(code) == "[]"


def test_an_error_of_ours_can_be_named_without_numpy():
    assert run("import sys, rangebound; rangebound.ArgumentError; print('numpy' in sys.modules)") == "False"


def test_no_module_is_called_as_a_public_name():
    """Python binds a module to its name in the package when it is imported: it would hide the function."""
    modules = {each.name for each in pkgutil.iter_modules(rb.__path__)}
    assert modules & {*rb.__all__, "calibrate", "certify", "choose"} == set()
    assert type(rb) is types.ModuleType


@pytest.mark.parametrize(("name", "module"), [(each, rb._HOMES[each]) for each in ("calibrate", "certify", "choose")])
def test_a_function_is_not_hidden_by_its_module(name, module):
    code = f"import {module} as m\nimport rangebound as rb, rangebound.release\nfrom rangebound import {name}\n"
    code += f"print(type(m).__name__, callable(rb.{name}), m.{name} is {name} is rb.{name})"
    assert run(code) == "module True True"


def test_another_value_can_be_put_in_a_name_s_place(monkeypatch):
    monkeypatch.setattr(rb, "calibrate", len)
    assert rb.calibrate is len


def test_every_public_module_is_reached_from_the_package_alone():
    code = "import types, rangebound as rb\n"
    code += f"print([each for each in {rb._MODULES} if type(getattr(rb, each)) is not types.ModuleType])\n"
    code += "print(rb.learn.sklearn.GaussianNB.__name__)"
    assert run(code) == "[]\nGaussianNB"


def test_dir_shows_the_public_names_and_modules_and_nothing_else():
    shown = {name for name in dir(rb) if not name.startswith("__")}
    assert shown == {*rb.__all__, *rb._MODULES}
    assert {"__all__", "__doc__", "__version__"} <= set(dir(rb))
    assert not hasattr(rb.learn, "no_such_module")


def test_a_misspelt_name_is_put_right():
    result = subprocess.run(
        [sys.executable, "-c", "import rangebound as rb; rb.Laplce"], capture_output=True, text=True, check=False
    )
    words = "AttributeError: module 'rangebound' has no attribute 'Laplce'. Did you mean: 'Laplace'?"
    assert result.stderr.splitlines()[-1] == words
    with pytest.raises(ImportError, match="cannot import name 'Laplce' from 'rangebound'"):
        from rangebound import Laplce  # noqa: F401


@pytest.mark.parametrize("name", ["_hidden", "__wrapped__", "no_such_room"])
def test_what_is_not_there_is_not_there(name):
    assert not hasattr(rb, name)
    assert getattr(rb, name, 3) == 3


def test_threads_that_ask_at_once_get_the_same():
    code = (
        "import threading, rangebound as rb\n"
        "names, found, gate = rb.__all__, [], threading.Barrier(8)\n"
        "def ask(turn):\n"
        "    gate.wait()\n"
        "    found.append({name: getattr(rb, name) for name in names[turn:] + names[:turn]})\n"
        "threads = [threading.Thread(target=ask, args=(3 * turn,)) for turn in range(8)]\n"
        "for each in threads: each.start()\n"
        "for each in threads: each.join(600)\n"
        "print(len(found), all(each[name] is getattr(rb, name) for each in found for name in names))"
    )
    assert run(code) == "8 True"


def test_pickles_of_another_process_are_read():
    code = (
        "import pickle, sys, rangebound as rb\n"
        "made = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0))\n"
        "print(pickle.dumps((made, rb.calibrate, rb.TRUNCATE, rb.ArgumentError('x'))).hex())"
    )
    made, calibrate, truncate, error = pickle.loads(bytes.fromhex(run(code)))
    assert made == rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 1), sensitivity=1.0))
    assert (calibrate, truncate, type(error)) == (rb.calibrate, rb.TRUNCATE, rb.ArgumentError)


def test_a_pickle_is_read_where_nothing_is_loaded_yet():
    text = pickle.dumps((rb.Laplace(scale=2.0), rb.choose)).hex()
    assert run(f"import pickle; print(pickle.loads(bytes.fromhex({text!r}))[0])") == "Laplace(scale=2.0)"
