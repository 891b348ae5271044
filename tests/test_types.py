"""How much of the package is typed: the share of annotations that say `Any` has a ceiling, and only falls."""

from __future__ import annotations

import ast
from pathlib import Path

import rangebound

SOURCE = Path(rangebound.__file__).parent
CEILING = 0.02


def annotations(source: str) -> list[ast.expr]:
    """Every annotation: of arguments, of results and of names."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            names = (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg)
            found += [each.annotation for each in names if each is not None] + [node.returns]
        elif isinstance(node, ast.AnnAssign):
            found.append(node.annotation)
    return [each for each in found if each is not None]


def says_any(annotation: ast.expr) -> bool:
    """Whether `Any` occurs anywhere in it."""
    return any(isinstance(each, ast.Name) and each.id == "Any" for each in ast.walk(annotation))


def test_few_annotations_say_any() -> None:
    counts = {}
    for path in sorted(SOURCE.rglob("*.py")):
        every = annotations(path.read_text(encoding="utf-8"))
        counts[path] = sum(map(says_any, every)), len(every)
    loose, total = (sum(each) for each in zip(*counts.values(), strict=True))
    worst = sorted(counts, key=lambda path: -counts[path][0])[:5]
    assert loose <= CEILING * total, [f"{path.relative_to(SOURCE)}: {counts[path][0]}" for path in worst]


def test_the_count_sees_every_kind_of_annotation() -> None:
    source = "def f(a: Any, *b: int, c: list[Any], **d: 'str') -> Any: ...\nx: dict[str, Any] = {}\ny: int"
    every = annotations(source)
    assert (sum(map(says_any, every)), len(every)) == (4, 7)


def test_proofs_are_typed() -> None:
    """Balls have a type of their own (`typings/flint`): what is proved with them does not say `Any`."""
    rooms = [*(SOURCE / "noise").glob("*.py"), *(SOURCE / "privacy").rglob("*.py"), SOURCE / "ball.py"]
    every = [each for path in rooms for each in annotations(path.read_text(encoding="utf-8"))]
    assert sum(map(says_any, every)) <= 0.01 * len(every)
