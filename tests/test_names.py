"""Names: a module has a file name of its own in the package, and a class a name of its own, private ones too."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import rangebound

PACKAGE = Path(rangebound.__file__).parent


def classes(source: str) -> Iterator[str]:
    """The names of the classes in a source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield node.name


def shared(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand in more than one place, and where."""
    places = defaultdict(list)
    for name, place in pairs:
        places[name].append(place)
    return {name: sorted(found) for name, found in places.items() if len(found) > 1}


def test_a_module_has_a_file_name_of_its_own() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py")]
    assert len(files) > 100
    assert shared((path.stem, str(path.relative_to(PACKAGE))) for path in files) == {}


def test_no_module_is_called_as_a_room_is() -> None:
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    inside = {path.stem for path in PACKAGE.glob("*/**/*.py")}
    assert rooms
    assert not rooms & inside


def test_a_class_has_a_name_of_its_own() -> None:
    found = [
        (name, str(path.relative_to(PACKAGE)))
        for path in PACKAGE.rglob("*.py")
        for name in classes(path.read_text(encoding="utf-8"))
    ]
    assert len(found) > 100
    assert shared(found) == {}


def test_control_two_classes_of_one_name_are_found() -> None:
    sources = {"a.py": "class Release: ...", "b.py": "def f():\n    class Release: ...", "c.py": "class Other: ..."}
    found = [(name, path) for path, source in sources.items() for name in classes(source)]
    assert shared(found) == {"Release": ["a.py", "b.py"]}
