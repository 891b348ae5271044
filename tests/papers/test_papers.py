"""The scripts of the papers keep to their protocol, their results stand, and the page shows them all."""

import json
from pathlib import Path

import pytest

from papers import __main__ as runner
from papers.report import Claims, Row, Verdict

SCRIPTS = runner.scripts()
NAMES = [f"{path.parent.name}/{path.stem}" for path in SCRIPTS]
ADVICE = "run `make papers`"


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_every_published_statement_has_its_row_and_every_picture_is_there(path: Path):
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]
    rows = runner.rows_of(path)
    assert {row.published for row in rows} == {entry["published"] for entry in expected.values()}, ADVICE
    assert all(row.ours for row in rows)
    assert Verdict.DIFFERENT not in [row.verdict for row in rows]
    assert all((path.parent / picture).is_file() for picture in runner.load(path).FIGURES), ADVICE


def test_the_page_shows_what_was_found():
    assert runner.PAGE.read_text(encoding="utf-8") == runner.page(), ADVICE


OURS = ("croft2022/constraints", "geng2020/noise", "holohan2018/scales")
AGAIN = ["fu2023/curves", *(pytest.param(each, marks=pytest.mark.long) for each in OURS)]


@pytest.mark.slow
@pytest.mark.parametrize("name", AGAIN)
def test_a_script_finds_the_same_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = SCRIPTS[NAMES.index(name)]
    module = runner.load(path)
    monkeypatch.setattr(module, "HERE", tmp_path)
    rows: list[Row] = module.run(lambda text: None)
    assert sorted(each.name for each in tmp_path.glob("*.png")) == sorted(module.FIGURES)
    assert [(row.where, row.verdict) for row in rows] == [(row.where, row.verdict) for row in runner.rows_of(path)]


CLAIMS = Claims({"number": {"where": "Table 1", "published": "about 1.586", "value": 1.586}})


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (1.586, Verdict.REPRODUCED),
        (1.5864999, Verdict.REPRODUCED),
        (1.5866, Verdict.DIFFERENT),
        (1.585, Verdict.DIFFERENT),
        (float("nan"), Verdict.DIFFERENT),
    ],
)
def test_a_number_is_reproduced_only_to_the_digits_printed(ours, verdict):
    assert CLAIMS.number("number", ours).verdict is verdict
