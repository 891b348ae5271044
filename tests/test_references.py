"""Citations, files and links: what the code and the documentation refer to exists."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    """Return the keys that a piece of prose cites."""
    return set(CITATION.findall(text))


def unresolved(text: str, keys: set[str]) -> set[str]:
    """Return the keys that a piece of prose cites and the bibliography lacks."""
    return cited(text) - keys


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """The docstrings and comments of every module."""
    return {
        str(path.relative_to(ROOT)): "\n".join(prose(path.read_text(encoding="utf-8")))
        for path in sorted((ROOT / "src").rglob("*.py"))
    }


@pytest.fixture(scope="module")
def keys() -> set[str]:
    return set(ENTRY.findall((ROOT / "references.bib").read_text(encoding="utf-8")))


def test_every_citation_in_the_code_resolves(keys: set[str], written: dict[str, str]) -> None:
    missing = {path: sorted(found) for path, text in written.items() if (found := unresolved(text, keys))}
    assert missing == {}


def test_every_citation_in_the_documentation_resolves(keys: set[str]) -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    missing = {
        str(path.relative_to(ROOT)): sorted(found)
        for path in sorted(pages)
        if (found := unresolved(path.read_text(encoding="utf-8"), keys))
    }
    assert missing == {}


def test_the_code_cites_its_sources(written: dict[str, str]) -> None:
    """Guard against a pattern or a path that finds nothing."""
    assert "holohan2018" in cited("\n".join(written.values()))


def test_entries_are_unique_and_complete() -> None:
    text = (ROOT / "references.bib").read_text(encoding="utf-8")
    found = ENTRY.findall(text)
    assert len(found) == len(set(found))
    for key, entry in zip(found, re.split(r"^@", text, flags=re.MULTILINE)[1:], strict=True):
        for field in ("author", "title", "year"):
            assert re.search(rf"^\s*{field}\s*=", entry, re.MULTILINE), f"{key} has no {field}"


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


def test_control_invented_keys_are_found(keys: set[str]) -> None:
    found = unresolved("\n".join(prose(MODULE)), keys)
    assert found == {"invented1999", "comment1998", "second1997", "alone1996", "wrapped1995", "note1994"}


FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|c|md|toml))`")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
PLACES = (ROOT, ROOT / "src", ROOT / "src" / "rangebound", ROOT / "tests")
ELSEWHERE = {"comparison.md", "CHANGELOG.md"}  # files of other libraries, and files as they were called then
LATER = {"tests/mutants.toml"}  # made with the first mutant that is shown to be harmless
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def missing_files(text: str) -> set[str]:
    """Return the files of the project that a page names and that do not exist."""
    named = set(FILE.findall(text)) - LATER
    return {name for name in named if not any((place / name).exists() for place in PLACES)}


def headings(text: str) -> set[str]:
    """Return the anchors of a page, as the site makes them from its headings."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", each).strip().lower()) for each in titles}


def broken_links(path: Path, text: str) -> set[str]:
    """Return the links of a page to files or headings that do not exist."""
    broken = set()
    for name, anchor in LINK.findall(text):
        target = (path.parent / name).resolve()
        readable = target.suffix == ".md" and target.exists()
        content = text if not name else target.read_text(encoding="utf-8") if readable else ""
        if not target.exists() or (anchor and anchor not in headings(content)):
            broken.add(f"{name}#{anchor}" if anchor else name)
    return broken


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_file_and_link_on_a_page_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert broken_links(path, text) == set()
    assert path.name in ELSEWHERE or missing_files(text) == set()


def test_control_missing_files_and_links_are_found() -> None:
    assert missing_files("`tests/test_references.py` and `sampling/settle.py`") == {"sampling/settle.py"}
    page = "# A page\n[here](#a-page) [there](#no-page) [gone](docs/gone.md) [wrong](docs/index.md#nowhere)\n"
    assert broken_links(ROOT / "README.md", page) == {"#no-page", "docs/gone.md", "docs/index.md#nowhere"}
