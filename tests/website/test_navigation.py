"""The navigation names every page and no other; the list for programs has them all; versions lie beside each other."""

import json
from pathlib import Path

import pytest

from website import llms, navigation, notebooks, versions
from website.reference import LISTED, Entry

ROOT = Path(__file__).parents[2]
SETTINGS = (ROOT / "zensical.toml").read_text(encoding="utf-8")
SMALL = """[project]
site_name = "a site"
site_description = "about it"
nav = [
  {"Start" = "index.md"},
  {"Parts" = [
    "parts.md",
    {"Deep" = [{"A page" = "deep/page.md"}]},
    # one page for each name
    # one page for each decision
  ]},
]
"""
NAMES = [Entry("rangebound.Grid", "Supports", None, "api/Grid.md"), Entry("rangebound.sql", "SQL", None, "api/sql.md")]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    for file in ("index.md", "parts.md", "deep/page.md", "api/Grid.md", "api/sql.md", "decisions/0001-one.md"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(
            f"# A title\n\n```text\ncode\n```\n\nThe [first](x.md) sentence of **{file}**. More.\n"
        )
    return tmp_path


def test_every_page_is_in_the_navigation() -> None:
    """Of the committed pages; those of names, notebooks and decisions are made or found when the site is built."""
    files = [
        file
        for part in navigation.parts(SETTINGS)
        for top, inside in part.items()
        for _, file in navigation.leaves(top, inside)
    ]
    assert len(files) == len(set(files))
    made = {f"gallery/{path.stem}.md" for path in notebooks.found()}
    docs = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert {file for file in docs if not file.startswith("decisions/0")} | made == set(files)
    assert navigation.NAMES.search(SETTINGS)
    assert navigation.DECISIONS.search(SETTINGS)
    assert LISTED.search((ROOT / "docs" / "api.md").read_text(encoding="utf-8"))


def test_names_and_decisions_are_put_at_their_marks(pages: Path) -> None:
    text = navigation.settings(SMALL, NAMES, pages)
    assert '    {"Supports" = [{"Grid" = "api/Grid.md"}]},\n    {"SQL" = [{"sql" = "api/sql.md"}]},\n' in text
    assert navigation.misfits(text, pages) == []


def test_control_a_page_too_many_and_one_too_few_are_found(pages: Path) -> None:
    (pages / "stray.md").write_text("# Stray\n")
    (pages / "parts.md").unlink()
    assert navigation.misfits(navigation.settings(SMALL, NAMES, pages), pages) == [
        "parts.md: named in zensical.toml, and does not exist",
        "stray.md: a page that zensical.toml does not name",
    ]


def test_the_list_for_programs_has_every_page_with_its_first_sentence(pages: Path) -> None:
    text = llms.listing(navigation.settings(SMALL, NAMES, pages), pages)
    assert text.startswith(
        "# a site\n\n> about it\n\n\n## Start\n\n- [Start](index.md): The first sentence of index.md.\n"
    )
    assert text.count("\n- ") == 6
    assert "- [A page](deep/page.md): The first sentence of deep/page.md.\n" in text


def test_versions_lie_beside_each_other_and_the_newest_is_the_first(tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "all"
    site.mkdir()
    for version in ("0.9.1", "0.10.0", "0.9.2"):
        (site / "index.html").write_text(version)
        versions.publish(site, folder, version)
    assert [each["version"] for each in json.loads((folder / "versions.json").read_text())] == ["0.10", "0.9"]
    assert "url=0.10/index.html" in (folder / "index.html").read_text()
    assert (folder / "0.9" / "index.html").read_text() == "0.9.2"
