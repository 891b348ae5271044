"""No two modules import each other, be it by way of others, inside a function or for types alone."""

import ast
from pathlib import Path

import rangebound

ROOT = Path(rangebound.__file__).parent


def modules(root):
    """Every module of a package by its dotted name, with its syntax tree; that of a compiled one is of its types."""
    found = {}
    for path in sorted((*root.rglob("*.py"), *root.rglob("*.pyi"))):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = ast.parse(path.read_text(encoding="utf-8"))
    return found


def imports(name, tree, known):
    """The modules that a module imports anywhere in its text; a package stands for its own file."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found |= {
                f"{node.module}.{each.name}" if f"{node.module}.{each.name}" in known else node.module
                for each in node.names
            }
    return {each for each in found & known.keys() if each != name}


def circles(graph):
    """The sets of modules that reach each other."""

    def reached(start):
        seen, left = set(), [start]
        while left:
            for each in graph[left.pop()] - seen:
                seen.add(each)
                left.append(each)
        return seen

    reach = {name: reached(name) for name in graph}
    found = {frozenset(each for each in reach[name] if name in reach[each]) for name in graph if name in reach[name]}
    return sorted(map(sorted, found))


def test_no_module_reaches_itself_by_imports():
    known = modules(ROOT)
    assert circles({name: imports(name, tree, known) for name, tree in known.items()}) == []


def test_control_a_circle_through_a_function_and_a_type_is_found(tmp_path):
    package = tmp_path / "toy"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "a.py").write_text("from toy.b import x\n")
    (package / "b.py").write_text("def x():\n    from toy import c\n")
    (package / "c.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import toy.a\n")
    known = modules(package)
    graph = {name: imports(name, tree, known) for name, tree in known.items()}
    assert circles(graph) == [["toy.a", "toy.b", "toy.c"]]
