"""The package and its pages use the words of the field: phrases that we no longer use are not found anywhere."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMPARED = (
    "longer|more|less|fewer|larger|smaller|higher|lower|better|worse|wider|narrower|finer|faster|slower|greater|"
    "further|farther|earlier|later"
)

# What is searched for, and what to say instead. Upper and lower case are the same; a line break is a space.
NOT_OURS = {
    r"\bg(?:ive|ives|ave|iving|iven) (?:\w+ ){0,3}away\b": "leaks, reveals",
    r"\btell(?:s|ing)? on (?!which\b)": "leaks, reveals",
    r"\b(?:comes? (?:or|and) goes?|came or went)\b": "add-remove; adding or removing one unit",
    r"\bkept rows\b": "contribution bound, truncation",
    r"\bsettl(?:e|es|ed|ing)\b": "decide, fall back",
    r"\bglimpse": "evaluation",
    r"\b(?:in|of|out of) sight\b|\ba sight\b": "near, in the picture",
    rf"(?<!there )(?<!there may )(?<!where )\b(?:is|are|be) no (?!(?:{COMPARED})\b)[a-z]": "is not, is invalid",
    rf"\bmust be no (?!(?:{COMPARED})\b)": "must not contain",
    r"\bforesees\b": "unexpected",
    r"\bblended\b|\b(?:laws|densities) blend\b": "geometric mixture, normaliser",
    r"\bwho(?:ever)? lacks\b": "if it is missing",
    r"\bdecides whether there is\b": "aborts",
    r"\bfrom (?:below|above)\b": "lower bound, upper bound, rounded down, rounded up",
    r"\bin silence\b": "silently",
    r"\bdear\b": "expensive",
    r"\b(?:ends|ended) open\b": "does not converge",
    r"\btold apart\b|\btells? (?:\w+ ){1,4}apart\b": "distinguish",
    r"\bwhoever\b": "anyone who",
    r"\bneighbouring databases\b": "neighbouring datasets",
}


ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s")
NOT_PROSE = ("|", "#", "<", ":::", "!!!", "```", "[^", "---")


def texts() -> Iterator[tuple[str, str]]:
    """Every text that a user or contributor reads, by its path."""
    found = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.c"), *(ROOT / "docs").rglob("*.md")]
    for path in sorted([*found, *ROOT.glob("*.md")]):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def found_in(text: str) -> list[str]:
    """The phrases of the list in a text, each with what to say instead."""
    plain = re.sub(r"\s+(?:# ?|\* )?", " ", text)
    return [
        f"{plain[max(match.start() - 40, 0) : match.end() + 30]!r}: say {instead}"
        for phrase, instead in NOT_OURS.items()
        for match in re.finditer(phrase, plain, re.IGNORECASE)
    ]


def test_only_words_of_the_field() -> None:
    assert {name: found for name, text in texts() if (found := found_in(text))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "What a mechanism gives away",
        "gives the\n    # data away",
        "One unit comes or goes",
        "plan.toml: is no TOML",
        "x: must be no NaN everywhere",
        "texts that are no numbers",
        "It is settled in balls",
        "the blended mass",
    ],
)
def test_control_the_old_phrases_are_found(text: str) -> None:
    assert found_in(text)


@pytest.mark.parametrize(
    "text",
    [
        "there is no ledger",
        "it is no longer open",
        "is no larger than",
        "tells on which side",
        "a way to give",
        "insight",
    ],
)
def test_control_ordinary_english_passes(text: str) -> None:
    assert found_in(text) == []


def wrapped(page: str) -> list[str]:
    """The lines of a page that continue a paragraph of the line before them; code is not looked at."""
    found, fenced, before = [], False, ""
    for line in page.splitlines():
        text = line.strip()
        if text.startswith("```"):
            fenced = not fenced
        prose = bool(text) and not fenced and not text.startswith(NOT_PROSE)
        if prose and before and not ITEM.match(line) and not (line.startswith("    ") and not ITEM.match(before)):
            found.append(line)
        before = line if prose else ""
    return found


@pytest.mark.parametrize(
    "path", sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]), ids=lambda path: path.name
)
def test_a_paragraph_is_one_line(path: Path) -> None:
    assert wrapped(path.read_text(encoding="utf-8")) == []


def test_the_rooms_of_the_contributing_page_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (each["layers"] for each in contracts if each["id"] == "rooms")
    floors = {room: floor for floor, line in enumerate(reversed(layers), 1) for room in line.split(" | ")}
    rows = re.findall(
        r"^\| (\d+) \| `(\w+)/?` \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {room: int(floor) for floor, room in rows} == {k: v for k, v in floors.items() if k != "__main__"}


def test_control_a_wrapped_paragraph_is_found() -> None:
    assert wrapped("one\ntwo\n\n- a\n- b\n  c\n\n    code\n    more\n\n```\nx\ny\n```\n| a |\n| b |\n") == [
        "two",
        "  c",
    ]
