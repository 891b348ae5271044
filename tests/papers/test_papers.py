"""The scripts of the papers keep to their protocol, their results stand, and the page shows them all."""

import json
from pathlib import Path

import pytest

from papers import __main__ as runner
from papers.report import Claims, Row, Verdict

SCRIPTS = runner.scripts()
NAMES = [f"{path.parent.name}/{path.stem}" for path in SCRIPTS]
QUICK = ["fu2023/curves"]
ADVICE = "run `make papers`"


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_a_script_keeps_to_the_protocol(path: Path):
    module = runner.load(path)
    assert (module.__doc__ or "").partition("\n")[0].endswith(".")
    assert callable(module.run)
    assert module.FIGURES
    assert path.parent.name in runner.titles()


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_every_published_statement_has_its_row(path: Path):
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]
    rows = runner.rows_of(path)
    assert {row.published for row in rows} == {entry["published"] for entry in expected.values()}, ADVICE
    assert all(row.ours for row in rows)
    assert Verdict.DIFFERENT not in [row.verdict for row in rows]


@pytest.mark.parametrize("path", SCRIPTS, ids=NAMES)
def test_every_picture_is_there_and_small(path: Path):
    for picture in runner.load(path).FIGURES:
        copy = runner.PICTURES / path.parent.name / picture
        assert copy.read_bytes() == (path.parent / picture).read_bytes(), ADVICE
        assert copy.stat().st_size < 100_000


def test_the_page_shows_what_was_found():
    assert runner.PAGE.read_text(encoding="utf-8") == runner.page(), ADVICE


def again(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    module = runner.load(path)
    monkeypatch.setattr(module, "HERE", folder)
    rows: list[Row] = module.run(lambda text: None)
    assert sorted(each.name for each in folder.glob("*.png")) == sorted(module.FIGURES)
    return rows


@pytest.mark.parametrize("path", [path for path, name in zip(SCRIPTS, NAMES, strict=True) if name in QUICK], ids=QUICK)
def test_a_quick_script_finds_the_same_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = again(path, tmp_path, monkeypatch)
    assert [(row.where, row.verdict) for row in found] == [(row.where, row.verdict) for row in runner.rows_of(path)]


OURS = ("croft2022/constraints", "geng2020/noise", "holohan2018/scales")


@pytest.mark.long
@pytest.mark.parametrize("name", OURS)
def test_the_other_scripts_find_the_same_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = SCRIPTS[NAMES.index(name)]
    found = again(path, tmp_path, monkeypatch)
    assert [(row.where, row.verdict) for row in found] == [(row.where, row.verdict) for row in runner.rows_of(path)]


CLAIMS = Claims(
    {
        "number": {"where": "Table 1", "published": "about 1.586", "value": 1.586},
        "words": {"where": "Thm 1", "published": "always"},
    }
)


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


def test_a_statement_in_words_is_true_or_false():
    assert CLAIMS.holds("words", "no", False) == Row(
        where="Thm 1", published="always", ours="no", verdict=Verdict.FALSE
    )


def test_an_unknown_paper_is_refused():
    with pytest.raises(SystemExit, match="no such paper"):
        runner.scripts(["nobody1999"])
