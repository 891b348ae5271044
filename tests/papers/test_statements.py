"""Every numbered statement of the five papers has a row on the page, a check that exists, and a verdict."""

import json
import re

import pytest

from papers import __main__ as runner

ROWS = json.loads((runner.PAPERS / "statements.json").read_text(encoding="utf-8"))
ERRATA = re.findall(r"^### (\S+)$", (runner.ROOT / "docs" / "errata.md").read_text(encoding="utf-8"), re.MULTILINE)


def numbered(kind: str, numbers: str) -> list[str]:
    return [f"{kind} {each}" for each in numbers.split()]


PUBLISHED = {
    "croft2022": [
        *numbered("Definition", "1 2 3 4"),
        *numbered("Lemma", "1 2 3 4 5 6 7 8 9 10"),
        *numbered("Theorem", "1 2 3"),
        *numbered("Corollary", "1"),
        *numbered("Table", "1 2"),
        *numbered("Figure", "1 2"),
    ],
    "fu2023": [
        *numbered("Definition", "2.1 2.2 2.4 2.5 2.7 2.8 3.3"),
        *numbered("Lemma", "2.3 2.6"),
        *numbered("Theorem", "3.1 3.2 4.1 4.2 4.3 4.4"),
        *numbered("Algorithm", "1 2"),
        *numbered("Figure", "1 2"),
    ],
    "geng2020": [
        *numbered("Definition", "1 2 3 4"),
        *numbered("Lemma", "1 2"),
        *numbered("Theorem", "1 2 3 4 5 6 7"),
        *numbered("Figure", "1 2 3"),
    ],
    "holohan2018": [
        *numbered("Definition", "3.1 3.4 4.1 A.1 A.2 A.3"),
        *numbered("Lemma", "3.2 3.3 4.2 4.3 A.4 A.5"),
        *numbered("Theorem", "3.5 4.4"),
        *numbered("Corollary", "4.5 4.6"),
        *numbered("Example", "1.1 1.2 1.3"),
        *numbered("Remark", "1 2"),
        *numbered("Algorithm", "1"),
        *numbered("Figure", "1 2 3 4"),
    ],
    "hu2024": [
        *numbered("Definition", "2.1 2.2 2.3 2.4 3.1 3.2 3.3"),
        *numbered("Lemma", "4.1 4.3 4.4 4.5 4.7 4.8 A.1 A.2 A.3"),
        *numbered("Proposition", "4.6 5.1"),
        *numbered("Theorem", "4.2 4.9 F.1"),
        *numbered("Algorithm", "1"),
        *numbered("Table", "1 2 3"),
        *numbered("Figure", "1 2 3 4"),
    ],
}


def complaints(key, rows, page):
    found = [row["where"] for row in rows]
    result = [f"{each} has {found.count(each)} rows" for each in PUBLISHED[key] if found.count(each) != 1]
    result += [f"{each} is not in the list" for each in found if each not in PUBLISHED[key]]
    for row in rows:
        path, _, test = row["checked"].partition("::")
        source = runner.ROOT / path
        if not source.is_file():
            result.append(f"{path} does not exist")
        elif path.startswith("tests/") and test and f"def {test}(" not in source.read_text(encoding="utf-8"):
            result.append(f"{test} does not exist")
        if f"| {row['where']} | {row['says']} | `{row['checked']}` |" not in page:
            result.append(f"{row['where']} is not on the page")
        result += wrong(row, key)
    return result


def wrong(row, key):
    verdict = row["verdict"]
    if verdict == "correct" or re.fullmatch(r"not reproduced: .{10,}", verdict):
        return []
    if verdict.startswith("corrected: "):
        names = verdict.removeprefix("corrected: ").split(", ")
        return [f"{each} is not an erratum" for each in names if each not in ERRATA or not each.startswith(key)]
    if verdict == "measured: see above":
        script = runner.ROOT / row["checked"]
        label = row["where"].replace("Figure", "Fig.").replace("Theorem", "(?:Theorem|Thm)")
        pattern = re.compile(rf"{label}[a-d]?\b")
        rows = runner.rows_of(script) if script.suffix == ".py" else []
        return [] if any(pattern.search(each.where) for each in rows) else [f"{row['where']} is not measured there"]
    return [f"{row['where']} has the unknown verdict {verdict}"]


@pytest.mark.parametrize("key", PUBLISHED)
def test_every_numbered_statement_has_its_row(key):
    assert ROWS.keys() == PUBLISHED.keys() == {path.parent.name for path in runner.scripts()}
    assert complaints(key, ROWS[key], runner.page()) == []


def test_every_erratum_of_a_numbered_statement_is_named_by_a_row():
    named = {each for rows in ROWS.values() for row in rows for each in re.findall(r"\w+2\d{3}-[\w-]+", row["verdict"])}
    pattern = re.compile(r"-(theorem|lemma|corollary|proposition|definition|algorithm)-")
    assert {each for each in ERRATA if pattern.search(each)} <= named


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"where": "Lemma 99"}, "Lemma 1 has 0 rows"),
        ({"checked": "tests/papers/nowhere.py"}, "tests/papers/nowhere.py does not exist"),
        ({"checked": "tests/papers/test_croft2022_lemmas.py::test_nothing"}, "test_nothing does not exist"),
        ({"verdict": "fine"}, "Lemma 1 has the unknown verdict fine"),
        ({"verdict": "corrected: croft2022-lemma-99"}, "croft2022-lemma-99 is not an erratum"),
        ({"checked": "papers/croft2022/constraints.py", "verdict": "measured: see above"}, "not measured there"),
        ({"says": "something else"}, "Lemma 1 is not on the page"),
    ],
)
def test_control_a_broken_row_is_noticed(change, complaint):
    rows = [{**row, **change} if row["where"] == "Lemma 1" else row for row in ROWS["croft2022"]]
    assert complaint in " ".join(complaints("croft2022", rows, runner.page()))
