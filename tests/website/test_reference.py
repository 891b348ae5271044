"""The page of a public name has its signature, what it guarantees, its example and its members."""

import dataclasses
import enum
import re
from pathlib import Path
from typing import Annotated

import pytest

import rangebound as rb
from website import reference
from website.reference import Entry

LIST = """# API

## Supports

- `rangebound.Interval`

## Privacy

- `rangebound.limit`

- `rangebound.Limit`

- `rangebound.calibrate`

- `rangebound.audit.adapters`
"""


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Holder:
    """A holder of things."""

    size: int
    """How many | there are."""
    unnamed: int = 0


SOURCE = '@dataclass\nclass Holder:\n    size: int\n    """How many | there are."""\n    unnamed: int = 0\n'
GUIDES = {
    "a.md": "# Once\n\n`rb.calibrate(...)` an `Interval`, the limit( of `limit=3` and `m.limit()`",
    "b.md": "# Often\n\n```python\nrb.calibrate(1)\ncalibrate(2)\n```\n",
}
PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@pytest.fixture(scope="module")
def listed() -> list[Entry]:
    return reference.entries(LIST)


@pytest.fixture(scope="module")
def pages(listed: list[Entry]) -> dict[str, str]:
    return dict(reference.pages(listed, GUIDES))


def test_names_have_their_group_and_a_file_of_their_own_whatever_the_case(listed: list[Entry]) -> None:
    assert [(each.shown, each.group) for each in listed[:2]] == [("rb.Interval", "Supports"), ("rb.limit", "Privacy")]
    files = [each.file for each in listed]
    assert files[1:3] == ["api/limit.md", "api/Limit-2.md"]
    assert len({file.lower() for file in files}) == len(files)
    assert listed[3].thing is rb.calibrate


def test_a_name_that_does_not_exist_is_refused() -> None:
    with pytest.raises(AttributeError):
        reference.entries("- `rangebound.no_such_name`\n")


def test_the_list_becomes_a_table_with_links(listed: list[Entry]) -> None:
    table = reference.contents(LIST, listed)
    assert (
        "| [`rb.Interval`](api/Interval.md) | The numbers from `lower` to `upper`; either end may be infinite. |"
        in table
    )
    assert "- `rangebound" not in table


def test_a_function_has_signature_guarantee_and_example(pages: dict[str, str]) -> None:
    page = pages["api/calibrate.md"]
    assert "rb.calibrate(\n    *,\n    noise: type[Noise],\n    query: Query,\n" in page
    assert "    notion: str | Notion = Notion.DP,\n" in page
    assert ") -> Mechanism\n```" in page
    assert "\n\n**Guarantee:** the result is private" in page
    assert "\n\n**Edge cases:** " in page
    assert "**Example:**\n\n```pycon\n>>> import rangebound as rb\n" in page


def test_a_class_has_its_members_and_links_to_other_names(pages: dict[str, str]) -> None:
    page = pages["api/Interval.md"]
    assert "rb.Interval(lower: float, upper: float)" in page
    assert "### `width` { #width }\n\n```python\nwidth: float\n```" in page
    assert "[`Limit`](Limit-2.md)" in reference.linked(
        "It is a `Limit`.\n```python\n`Limit`\n```\n", {"Limit": "Limit-2.md"}
    )


def test_types_of_a_call_and_pages_that_a_docstring_names_are_linked() -> None:
    links = {"Limit": "Limit-2.md", "Query": "Query.md"}
    assert reference.types_in("f(query: Query, other: Other) -> Limit", links) == (
        "Types: [`Query`](Query.md), [`Limit`](Limit-2.md)\n"
    )
    assert reference.types_in("f(x: float)", links) == ""
    assert reference.linked("see `docs/ledger.md`", links) == "see [ledger](../ledger.md)"


def test_a_page_leads_to_the_guides_that_show_the_name_in_code(pages: dict[str, str]) -> None:
    assert pages["api/calibrate.md"].endswith("\n**On other pages:** [Often](../b.md), [Once](../a.md)\n")
    assert pages["api/Interval.md"].endswith("\n**On other pages:** [Once](../a.md)\n")
    assert "On other pages" not in pages["api/limit.md"]  # an argument, a method, and prose


def test_control_code_headings_and_names_of_arguments_are_not_linked() -> None:
    links = {"Limit": "Limit-2.md", "limit": "limit.md"}
    for text in ("# `Limit`", "```python\n`Limit`\n```", "the `limit` of it", "`Limit.verify`", "[`Limit`](x.md)"):
        assert reference.linked(text, links) == text
    assert reference.linked("see `rb.limit`", links) == "see [`rb.limit`](limit.md)"


def test_a_module_shows_its_functions(pages: dict[str, str]) -> None:
    assert "### `one_by_one`" in pages["api/audit.adapters.md"]


def call(a: Annotated[int, "x"] | None, /, *rest: "list[reference.Entry]", b=Colour.RED, c=reference.cell) -> None:
    """Nothing."""


def test_types_and_defaults_are_said_in_few_words() -> None:
    said = reference.signature("call", call)
    assert said == "```python\ncall(a: int | None, /, *rest: list[Entry], b=Colour.RED, c=cell) -> None\n```\n"
    assert reference.signature("Colour", Colour) == ""


def test_fields_are_a_table_of_their_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reference.fields(Holder) == ""  # not a class of ours
    monkeypatch.setattr(Holder, "__module__", "rangebound.holder")
    monkeypatch.setattr(reference.inspect, "getsource", lambda kind: SOURCE)
    assert "| `size` | `int` | How many \\| there are. |" in reference.fields(Holder)
    assert "unnamed" not in reference.fields(Holder)


def test_every_name_of_the_committed_list_has_a_page_and_most_have_an_example() -> None:
    listed = reference.LISTED.findall(PAGE.read_text(encoding="utf-8"))
    top = [
        name for name in listed if re.fullmatch(r"rangebound\.\w+", name)
    ]  # the others need packages that load slowly
    made = dict(reference.pages(reference.entries("".join(f"- `{name}`\n" for name in top)), {}))
    assert len(made) == len(top) > 50
    without = [file for file, page in made.items() if "**Example:**" not in page]
    assert len(without) < len(made) / 2
    assert all("# " in page and len(page) > 100 for page in made.values())
