"""papers/errata.md and the tests in this folder list the same entries, and each entry names the tests that show it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "papers" / "errata.md"
PAPERS = ("holohan2018", "croft2022", "geng2020", "fu2023", "hu2024")

HEADING = re.compile(r"^### (\S+)$", re.MULTILINE)
ROW = re.compile(r"^\| \[(\S+)\]\(#(\S+)\) \| (\S+) \|", re.MULTILINE)
ENTRY_IN_DOCSTRING = re.compile(rf"^((?:{'|'.join(PAPERS)})-[a-z0-9-]+): ")
KINDS = {"false", "misprint", "loose", "scope", "naming"}


def sections(page: str) -> dict[str, str]:
    parts = re.split(r"^##+ (.+)$", page, flags=re.MULTILINE)
    return {title: text for title, text in zip(parts[1::2], parts[2::2], strict=True) if title in HEADING.findall(page)}


def shown(source: str) -> dict[str, str]:
    """Test to the entry that its docstring starts with."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            match = ENTRY_IN_DOCSTRING.match(ast.get_docstring(node) or "")
            found[node.name] = match.group(1) if match else ""
    return found


def complaints(page: str, modules: dict[str, str]) -> list[str]:
    """What is missing or out of step between the page and the test modules, by the key of the paper."""
    entries = sections(page)
    tests = {key: shown(source) for key, source in modules.items()}
    result = []
    if HEADING.findall(page) != (rows := [row[0] for row in ROW.findall(page)]):
        result.append(f"headings and table differ: {sorted(set(HEADING.findall(page)) ^ set(rows))}")
    result += [f"{name} is not linked to itself" for name, link, _ in ROW.findall(page) if name != link]
    result += [f"{name} has the unknown kind {kind}" for name, _, kind in ROW.findall(page) if kind not in KINDS]
    for name, _, kind in ROW.findall(page):
        if not entries.get(name, "").lstrip().startswith(f"*{kind}"):
            result.append(f"{name} is not *{kind}* in its own section")
    for key, found in tests.items():
        result += [f"{test} shows no entry" for test, entry in found.items() if not entry]
        result += [
            f"{test} shows {entry}, which is not on the page" for test, entry in found.items() if entry not in entries
        ]
        result += [f"{test} is in the wrong module" for test, entry in found.items() if not entry.startswith(f"{key}-")]
    for name, text in entries.items():
        key = name.split("-")[0]
        expected = {test for test, entry in tests.get(key, {}).items() if entry == name}
        named = set(re.findall(r"`(test_\w+)`", text.partition("**Test.**")[2]))
        if not expected:
            result.append(f"{name} has no test")
        if named != expected:
            result.append(f"{name} names {sorted(named)}, its tests are {sorted(expected)}")
        result += [f"{name} lacks {part}" for part in ("**Printed.**", "**True.**", "**Seen.**") if part not in text]
        if f"`tests/errata/test_{key}.py`" not in text:
            result.append(f"{name} does not name its test module")
    return result


def modules() -> dict[str, str]:
    return {key: (HERE / f"test_{key}.py").read_text(encoding="utf-8") for key in PAPERS}


def test_every_entry_has_a_test_and_every_test_an_entry() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(sections(page)) >= 30
    assert complaints(page, modules()) == []


def test_no_module_is_left_out() -> None:
    assert {path.stem for path in HERE.glob("test_*.py")} == {f"test_{key}" for key in PAPERS} | {"test_entries"}


def test_control_gaps_are_found() -> None:
    page, sources = PAGE.read_text(encoding="utf-8"), modules()
    assert any("eq-9 has no test" in each for each in complaints(page + "\n### hu2024-eq-9\n\n**Printed.**\n", sources))
    renamed = {**sources, "hu2024": sources["hu2024"].replace('"""hu2024-eq-4:', '"""hu2024-eq-44:')}
    found = complaints(page, renamed)
    assert any("hu2024-eq-4 has no test" in each for each in found)
    assert any("hu2024-eq-44, which is not on the page" in each for each in found)
    assert any("shows no entry" in each for each in complaints(page, {**sources, "fu2023": "def test_a(): 'b'"}))
    assert any("headings and table" in each for each in complaints(page.replace("| [fu2023-r", "| fu2023-r"), sources))
