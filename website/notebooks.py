"""Notebooks in the percent format, run and shown as pages: text, code, what it printed, and its pictures."""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

GALLERY = Path(__file__).resolve().parents[1] / "examples" / "gallery"
MARK = re.compile(r"^# %%( \[markdown\])?\n", re.MULTILINE)


class Cell(NamedTuple):
    """A part of a notebook: text or code, and the line on which it begins."""

    text: bool
    body: str
    line: int


def found() -> list[Path]:
    """The notebooks of the gallery."""
    return sorted(GALLERY.glob("*.py"))


def cells(notebook: str) -> Iterator[Cell]:
    """Yield the cells of a notebook in order; what stands before the first mark is left out."""
    marks = [*MARK.finditer(notebook)]
    for mark, after in zip(marks, [*marks[1:], None], strict=True):
        body = notebook[mark.end() : after.start() if after else None].strip("\n")
        if mark[1]:
            body = re.sub(r"^# ?", "", body, flags=re.MULTILINE)
        yield Cell(bool(mark[1]), body, notebook.count("\n", 0, mark.end()))


def write(path: Path, folder: Path, *, run: bool) -> None:
    """Write the page of a notebook and its pictures into a folder; without `run`, the code is shown alone."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, object] = {"__name__": "__main__"}
    page = []
    with folder_of_repository():
        for cell in cells(path.read_text(encoding="utf-8")):
            page.append(cell.body if cell.text else f"```python\n{cell.body}\n```")
            if run and not cell.text:
                printed = execute(cell, path.name, names)
                page += [f"```text\n{printed.rstrip()}\n```"] if printed else []
                page += pictures(folder, path.stem, len(page))
    source = f"*The notebook is `examples/gallery/{path.name}`: open it as a notebook, or run it as a program.*"
    (folder / f"{path.stem}.md").write_text("\n\n".join([*page, source, ""]), encoding="utf-8")


def linked(page: str) -> str:
    """The page with links to the pages of the notebooks, in place of those to their files."""
    return re.sub(r"\(\.\./examples/gallery/(\w+)\.py\)", r"(gallery/\1.md)", page)


@contextlib.contextmanager
def folder_of_repository() -> Iterator[None]:
    """Work in the repository's folder, as a reader does, and draw without a screen."""
    from matplotlib import pyplot

    pyplot.close("all")  # figures that are not the notebook's
    before, backend = Path.cwd(), os.environ.get("MPLBACKEND")
    os.chdir(GALLERY.parents[1])
    os.environ["MPLBACKEND"] = "Agg"
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.pop("MPLBACKEND")
        if backend is not None:
            os.environ["MPLBACKEND"] = backend


def execute(cell: Cell, name: str, names: dict[str, object]) -> str:
    """Run a cell of code; what it printed, and the value of its last line."""
    tree = ast.parse("\n" * cell.line + cell.body, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(compile(tree, name, "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if value is not None and "matplotlib" not in f"{type(value)}{value}":  # pictures are shown as such
                print(value)
    return said.getvalue()


def pictures(folder: Path, stem: str, number: int) -> Iterator[str]:
    """Save the figures that a cell left open, and yield the lines that show them."""
    from matplotlib import pyplot

    for figure in pyplot.get_fignums():
        file = f"{stem}-{number}-{figure}.png"
        pyplot.figure(figure).savefig(folder / file, dpi=130, bbox_inches="tight")
        title = pyplot.figure(figure).get_suptitle() or pyplot.figure(figure).axes[0].get_title()
        yield f"![{title}]({file})"
    pyplot.close("all")
