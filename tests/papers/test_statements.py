"""Every row about a numbered statement of the five papers is on the page, with a check that exists and a verdict."""

import json
import re
from collections import Counter

import pytest

from papers import __main__ as runner

ROWS = json.loads((runner.PAPERS / "statements.json").read_text(encoding="utf-8"))
ERRATA = re.findall(r"^### (\S+)$", (runner.PAPERS / "errata.md").read_text(encoding="utf-8"), re.MULTILINE)


def complaints(key, rows, page):
    counts = Counter(row["where"] for row in rows)
    result = [f"{each} has {count} rows" for each, count in counts.items() if count != 1]
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


@pytest.mark.parametrize("key", ROWS)
def test_every_row_of_a_numbered_statement_is_whole(key):
    assert ROWS.keys() == {path.parent.name for path in runner.scripts()}
    assert complaints(key, ROWS[key], runner.page()) == []


def test_every_erratum_of_a_numbered_statement_is_named_by_a_row():
    named = {each for rows in ROWS.values() for row in rows for each in re.findall(r"\w+2\d{3}-[\w-]+", row["verdict"])}
    pattern = re.compile(r"-(theorem|lemma|corollary|proposition|definition|algorithm)-")
    assert {each for each in ERRATA if pattern.search(each)} <= named


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"where": "Lemma 2"}, "Lemma 2 has 2 rows"),
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
