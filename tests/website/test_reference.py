"""The page of a public name has its signature, what it guarantees, its example and its members."""

import pytest

import rangebound as rb
from website import reference

LIST = """# API

## Supports

- `rangebound.Interval`

## Privacy

- `rangebound.limit`

- `rangebound.Limit`

- `rangebound.calibrate`

- `rangebound.audit.adapters`
"""


LISTED = reference.entries(LIST)
PAGES = dict(reference.pages(LISTED, {}))


def test_names_have_their_group_and_a_file_of_their_own_whatever_the_case() -> None:
    assert [(each.shown, each.group) for each in LISTED[:2]] == [("rb.Interval", "Supports"), ("rb.limit", "Privacy")]
    files = [each.file for each in LISTED]
    assert files[1:3] == ["api/limit.md", "api/Limit-2.md"]
    assert len({file.lower() for file in files}) == len(files)
    interval = "| [`rb.Interval`](api/Interval.md) | The numbers from `lower` to `upper`; either end may be infinite. |"
    assert interval in reference.contents(LIST, LISTED)
    with pytest.raises(AttributeError):
        reference.entries("- `rangebound.no_such_name`\n")
    assert LISTED[3].thing is rb.calibrate


def test_a_function_has_signature_guarantee_and_example() -> None:
    page = PAGES["api/calibrate.md"]
    assert "rb.calibrate(\n    *,\n    noise: type[Noise],\n    query: Query,\n" in page
    assert "    notion: str | Notion = Notion.DP,\n" in page
    assert ") -> Mechanism\n```" in page
    assert "\n\n**Guarantee:** the result is private" in page
    assert "\n\n**Edge cases:** " in page
    assert "**Example:**\n\n```pycon\n>>> import rangebound as rb\n" in page


def test_a_class_has_its_members_and_links_to_other_names() -> None:
    page = PAGES["api/Interval.md"]
    assert "rb.Interval(lower: float, upper: float)" in page
    assert "### `width` { #width }\n\n```python\nwidth: float\n```" in page
    links = {"Limit": "Limit-2.md"}
    assert "[`Limit`](Limit-2.md)" in reference.linked("It is a `Limit`.\n```python\n`Limit`\n```\n", links)
    assert reference.types_in("f(x: float) -> Limit", links) == "Types: [`Limit`](Limit-2.md)\n"
    assert reference.linked("see `docs/ledger.md`", links) == "see [ledger](../ledger.md)"
    assert "### `one_by_one`" in PAGES["api/audit.adapters.md"]
