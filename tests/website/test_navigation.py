"""The navigation names every page and no other."""

from pathlib import Path

import pytest

from website import navigation
from website.reference import Entry

SMALL = """[project]
site_name = "a site"
site_description = "about it"
nav = [
  {"Start" = "index.md"},
  {"Parts" = [
    "parts.md",
    {"Deep" = [{"A page" = "deep/page.md"}]},
    # one page for each name
  ]},
]
"""
NAMES = [Entry("rangebound.Grid", "Supports", None, "api/Grid.md"), Entry("rangebound.sql", "SQL", None, "api/sql.md")]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    for file in ("index.md", "parts.md", "deep/page.md", "api/Grid.md", "api/sql.md", "decisions/0001-one.md"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("# A title\n")
    return tmp_path


def test_control_a_page_too_many_and_one_too_few_are_found(pages: Path) -> None:
    text = navigation.settings(SMALL, NAMES)
    assert '    {"Supports" = [{"Grid" = "api/Grid.md"}]},\n    {"SQL" = [{"sql" = "api/sql.md"}]},\n' in text
    assert navigation.misfits(text, pages) == []
    (pages / "stray.md").write_text("# Stray\n")
    (pages / "parts.md").unlink()
    assert navigation.misfits(text, pages) == [
        "parts.md: named in zensical.toml, and does not exist",
        "stray.md: a page that zensical.toml does not name",
    ]
