"""The code and the commands in the README and the documentation work as printed."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rangebound.errors import PlanError
from rangebound.release import parse_plan

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)``` *$", re.DOTALL | re.MULTILINE
)
TARGET = re.compile(r"^([A-Za-z][\w-]*)\s*:(?!=)", re.MULTILINE)
SHOWN = re.compile(r"(?P<code>[a-z][^=#]*?) +# (?P<digits>\d+\.\d+)\.\.\..*")  # a value, and its first digits
SHELLS = {"sh", "bash", "shell"}


class Block(NamedTuple):
    language: str
    body: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    for match in FENCE.finditer(page):
        yield Block(match["language"], textwrap.dedent(match["body"]), page.count("\n", 0, match.start("body")) + 1)


def run(page: str, name: str) -> None:
    """Run the Python blocks of a page one after the other, as one reader would type them."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            # Empty lines in front make a traceback show the line of the page.
            exec(compile("\n" * (block.line - 1) + block.body, name, "exec"), namespace)
            for line in block.body.splitlines():
                shown = SHOWN.fullmatch(line)
                if shown:
                    assert str(eval(shown["code"], namespace)).startswith(shown["digits"]), line


def commands(page: str) -> Iterator[str]:
    """Yield the shell commands of a page; in a console block, those are the lines with a prompt."""
    for block in blocks(page):
        for line in block.body.splitlines():
            text = line.strip()
            if text.startswith("$ "):
                yield text[2:]
            elif block.language in SHELLS:
                yield text


def make_targets_named(page: str) -> set[str]:
    targets: set[str] = set()
    for command in commands(page):
        for part in re.split(r"&&|\|\||[;|]", command):
            words = shlex.split(part, comments=True)
            if words[:1] == ["make"]:
                targets.update(word for word in words[1:] if "=" not in word and not word.startswith("-"))
    return targets


LONG = {
    "plots.md": {"[:500]": "[:50]", "epsilons=[0.1, 0.2, 0.5, 1.0, 2.0, 5.0]": "epsilons=[0.5, 2.0]"},
    "learning.md": {"FisherWatcher()": "FisherWatcher(iterations=5)"},
}
"""Pages that take long, with what is written and less of it; as printed they run with the long tests."""


SLOW = {"accounting.md", "audit.md", "choosing.md", "explain.md", *LONG}
CASES = [pytest.param(path, False, marks=[pytest.mark.slow] * (path.name in SLOW)) for path in PAGES]
CASES += [pytest.param(path, True, marks=pytest.mark.long) for path in PAGES if path.name in LONG]


@pytest.mark.claim("page")
@pytest.mark.parametrize(
    ("path", "whole"), CASES, ids=lambda each: each.name if isinstance(each, Path) else "as printed" if each else "less"
)
def test_python_blocks_run(path: Path, whole: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    text = path.read_text(encoding="utf-8")
    for written, less in {} if whole else LONG.get(path.name, {}).items():
        assert written in text
        text = text.replace(written, less)
    run(text, path.name)


def test_commands_exist() -> None:
    named = make_targets_named((ROOT / "README.md").read_text(encoding="utf-8"))
    assert {"demo", "test"} <= named
    assert named <= set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))


def test_the_plan_in_the_readme_is_valid() -> None:
    found = [block for block in blocks((ROOT / "README.md").read_text(encoding="utf-8")) if block.language == "toml"]
    (plan,) = (block.body for block in found if "[[query]]" in block.body)
    assert parse_plan(plan).query[0].kind == "mean"
    with pytest.raises(PlanError):
        parse_plan(plan.replace("[0, 120]", "[120, 0]"))


PAGE = """
A page.

```python
x = 1
```

- in a list:

  ```python
  y = x + 1
  assert y == {answer}
  ```

```console
$ make PYTHON=python3.12 -s demo && make test  # a comment
make sure this line of output is not taken for a command
```

```sh
make nothing
```
"""


def test_control_blocks_of_a_page_share_their_names_and_a_broken_one_fails() -> None:
    run(PAGE.format(answer=2), "page")
    with pytest.raises(AssertionError) as caught:
        run(PAGE.format(answer=3), "page")
    assert caught.traceback[-1].lineno + 1 == 12


def test_control_a_number_that_is_not_the_value_fails() -> None:
    page = "```python\nx = 1 / 3\nx    # {digits}...: a third\n```"
    run(page.format(digits="0.333"), "page")
    with pytest.raises(AssertionError):
        run(page.format(digits="0.334"), "page")


def test_control_a_missing_target_is_found() -> None:
    named = make_targets_named(PAGE)
    assert named == {"demo", "test", "nothing"}
    assert named - set(TARGET.findall("demo: x\n\techo\nVALUE := 1\ntest: lint ## text\n")) == {"nothing"}
