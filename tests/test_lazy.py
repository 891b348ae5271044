"""Names that are loaded when they are asked for: none is lost, and nobody can tell, but by the clock."""

import ast
import pickle
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import rangebound as rb

SOURCE = Path(rb.__file__).read_text(encoding="utf-8")
CLASHES = ["calibrate", "certify", "choose"]  # a room and its function share these names


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def typed(source: str) -> dict[str, str]:
    """Where a type checker finds each name: the imports under `if TYPE_CHECKING`."""
    (block,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    return {alias.asname or alias.name: node.module for node in block.body for alias in node.names}


def test_the_table_the_types_and_all_agree():
    assert typed(SOURCE) == rb._HOMES
    assert set(rb.__all__) == rb._HOMES.keys()


def test_control_a_name_that_only_the_types_have_is_noticed():
    assert typed(SOURCE.replace("import Grid, ", "import Grid, Sphere, ")) != rb._HOMES


@pytest.mark.parametrize("name", rb.__all__)
def test_a_name_is_the_thing_itself(name):
    room = __import__(rb._HOMES[name], fromlist=[name])
    assert getattr(rb, name) is getattr(room, name)
    assert getattr(rb, name) is vars(rb)[name]  # kept, so that the next look is a plain one


def test_a_star_brings_every_name():
    code = "from rangebound import *; import rangebound as rb; print(sorted(set(rb.__all__) - set(globals())))"
    assert run(code) == "[]"


def test_an_import_loads_nothing():
    code = "import sys, rangebound; print([m for m in sys.modules if m.startswith(('numpy', 'flint', 'rangebound.'))])"
    assert run(code) == "[]"


def test_an_error_of_ours_can_be_named_without_numpy():
    assert run("import sys, rangebound; rangebound.ArgumentError; print('numpy' in sys.modules)") == "False"


@pytest.mark.parametrize("name", CLASHES)
@pytest.mark.parametrize(
    "before",
    [
        "import rangebound.{name}",
        "from rangebound.{name} import {name}",
        "import rangebound; rangebound.{name}; import rangebound.{name}",
        "import rangebound.release",  # which imports the rooms itself
        "import importlib, rangebound; importlib.reload(rangebound); import rangebound.{name}",
    ],
)
def test_a_function_is_never_hidden_by_its_room(name, before):
    code = f"{before.format(name=name)}\nimport rangebound as rb\nfrom rangebound import {name}\n"
    assert run(f"{code}print(callable(rb.{name}), {name} is rb.{name})") == "True True"


@pytest.mark.parametrize("name", CLASHES)
def test_control_python_itself_would_hide_it(name):
    code = "import types, rangebound; rangebound.__class__ = types.ModuleType\n"
    assert run(f"{code}import rangebound.{name}; print(callable(rangebound.{name}))") == "False"


def test_another_value_can_be_put_in_a_name_s_place(monkeypatch):
    monkeypatch.setattr(rb, "calibrate", len)
    assert rb.calibrate is len


def test_every_room_is_reached_from_the_package_alone():
    rooms = [each.name for each in pkgutil.iter_modules(rb.__path__) if each.name != "__main__"]
    assert {"accounting", "audit", "learn", "plot", "release"} <= set(rooms)
    code = "import types, rangebound as rb\n"
    code += (
        f"print([each for each in {sorted({*rooms} - {*CLASHES})} if type(getattr(rb, each)) is not types.ModuleType])"
    )
    assert run(code) == "[]"


def test_dir_shows_names_and_rooms_and_nothing_private():
    shown = dir(rb)
    assert {*rb.__all__, "plot", "errors", "__doc__", "__version__"} <= set(shown)
    assert [name for name in shown if name.startswith("_") and not name.startswith("__")] == []
    assert not {"sys", "import_module", "__main__"} & set(shown)


def test_help_needs_no_extra():
    code = "import sys, pydoc\nfor each in ('torch', 'sklearn', 'pyspark', 'matplotlib'): sys.modules[each] = None\n"
    code += "import rangebound\nprint(pydoc.plain(pydoc.render_doc(rangebound)))"
    text = run(code)
    assert "class Interval" in text
    assert "calibrate(*," in text


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


def test_a_room_that_fails_says_why():
    code = "import sys; sys.modules['sqlglot'] = None\nimport rangebound\n"
    code += "try: rangebound.release\nexcept ModuleNotFoundError as error: print(error.name)"
    assert run(code) == "sqlglot"


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
