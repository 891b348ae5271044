"""Citations, and the files that pages name: what the code and the documentation refer to exists."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# [holohan2018], [holohan2018, Thm 3.5], and the second key of [fu2023, eq. 7; hu2024, App. B]
CITATION = re.compile(r"[\[;]\s*([a-z]+\d{4})(?=[,;\]])")
ENTRY = re.compile(r"^@\w+\{([^,\s]+),", re.MULTILINE)


def prose(source: str) -> Iterator[str]:
    """Yield the docstrings and comments of a module, and nothing that Python would run."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value.value  # the note under an attribute
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.string


def cited(text: str) -> set[str]:
    return set(CITATION.findall(text))


MODULE = '''
"""A formula [invented1999, Thm 1]."""

names2024 = {}
value = names2024[missing2024] if names2024 else "[string2001]"  # see [comment1998]


def function():
    """Two sources [fu2023, eq. 7;
    second1997, App. B] and one alone [alone1996]."""
    # a citation that goes on [wrapped1995, section 2,
    # lemma 3]


class Holder:
    field: int
    """A note [note1994]."""
'''


KEYS = set(ENTRY.findall((ROOT / "references.bib").read_text(encoding="utf-8")))
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "papers").glob("*.md")])


def test_every_citation_resolves() -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in PAGES}
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")}
    assert "holohan2018" in cited("\n".join(sources.values()))  # neither the pattern nor the paths find nothing
    doubtful = {path: "\n".join(prose(text)) for path, text in sources.items() if cited(text) - KEYS}
    assert {path: found for path, text in (pages | doubtful).items() if (found := cited(text) - KEYS)} == {}


def test_control_invented_keys_are_found() -> None:
    found = cited("\n".join(prose(MODULE))) - KEYS
    assert found == {"invented1999", "comment1998", "second1997", "alone1996", "wrapped1995", "note1994"}


# Links inside docs/ are checked when the site is built (`make lint`).
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|c|md|toml))`|\]\((?!https?:)([^)#\s]+)(?:#[^)\s]+)?\)")
PLACES = (ROOT, ROOT / "src", ROOT / "src" / "rangebound", ROOT / "tests")
ELSEWHERE = {"comparison.md", "CHANGELOG.md"}  # files of other libraries, and files as they were called then


def missing_files(folder: Path, text: str) -> set[str]:
    named = {one or other for one, other in FILE.findall(text)}
    return {name for name in named if not any((place / name).exists() for place in (folder, *PLACES))}


def test_every_file_that_a_page_names_exists() -> None:
    pages = {path: path.read_text(encoding="utf-8") for path in PAGES if path.name not in ELSEWHERE}
    assert {path: found for path, text in pages.items() if (found := missing_files(path.parent, text))} == {}


def test_control_missing_files_are_found() -> None:
    page = "`tests/test_references.py`, `sampling/settle.py`, [gone](docs/gone.md) and [there](docs/index.md#a)"
    assert missing_files(ROOT, page) == {"sampling/settle.py", "docs/gone.md"}


def test_the_changelog_says_nothing_twice() -> None:
    lines = [each[:50] for each in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("## [0.2")[0].splitlines()]
    assert not [each for each in lines if each.startswith("- ") and lines.count(each) > 1]
