"""`rangebound plot` from the outside: a picture for each command, one clear line for each mistake."""

import pytest

from rangebound.cli.app import run
from tests.thinning import crossed

COUNT = ("--range", "0:10", "--sensitivity", "1")
MADE = (*COUNT, "--scale", "2")


@crossed(
    {
        "ending": ["png"],
        "arguments": [
            ("law", *MADE, "--at", "3", "--at", "7", "--bounding", "truncate", "--bounding", "rectify"),
            ("law", *COUNT, "--epsilon", "1", "--at", "3", "--grid", "1", "--bounding", "quantize"),
            ("law", *MADE, "--at", "3", "--noise", "laplace", "--noise", "truncated_laplacian", "--limit", "30"),
            ("profile", *MADE, "--bounding", "unbounded"),
            ("renyi", *MADE, "--bounding", "rectify"),
            ("fisher", "--range", "0:inf", "--sensitivity", "1", "--scale", "2", "--noise", "gaussian"),
            ("worst-pair", "--range", "0:3", "--range", "5:9", "--sensitivity", "2", "--scale", "3"),
            ("worst-pair", *MADE, "--level", "0.3"),
            ("errors", *COUNT, "--epsilon", "1", "--at", "3"),
        ],
    }
)
def test_every_command_writes_its_picture(arguments, ending, tmp_path, capsys):
    picture = tmp_path / f"picture.{ending}"
    assert run(["plot", *arguments, "-o", str(picture)]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.strip() == str(picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 100_000


def test_lines_of_a_law_are_told_apart(tmp_path):
    picture = tmp_path / "law.svg"
    boundings = ("--bounding", "truncate", "--bounding", "rectify")
    assert run(["plot", "law", *MADE, "--at", "3", *boundings, "-o", str(picture)]) == 0
    text = picture.read_text()
    for words in ("truncate Laplace, scale 2, true answer 3", "rectify Laplace, scale 2, true answer 3"):
        assert words in text


@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_other_formats(ending, tmp_path):
    picture = tmp_path / f"picture.{ending}"
    assert run(["plot", "fisher", *MADE, "-o", str(picture)]) == 0
    assert picture.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("law", *COUNT, "--at", "3"), "exactly one of --scale and --epsilon"),
        (("law", *MADE, "--epsilon", "1", "--at", "3"), "exactly one of --scale and --epsilon"),
        (("law", *MADE), "--at"),
        (("law", *MADE, "--at", "3", "--noise", "cauchy"), "must be one of laplace, gaussian, truncated_laplacian"),
        (
            ("law", *MADE, "--at", "3", "--noise", "truncated_laplacian"),
            "limit=None: truncated_laplacian noise needs one",
        ),
        (("law", *MADE, "--at", "3", "--bounding", "fold"), 'must be "truncate", "rectify", "quantize" or "unbounded"'),
        (("law", *MADE, "--at", "nan"), "must be finite"),
        (("profile", "--range", "0-10", "--sensitivity", "1", "--scale", "1"), "LOWER:UPPER"),
        (("profile", "--range", "10:0", "--sensitivity", "1", "--scale", "1"), "lower must be below upper"),
        (("profile", *COUNT, "--scale", "-1"), "must be positive"),
        (("worst-pair", *MADE, "--bounding", "truncate", "--bounding", "rectify"), "one mechanism"),
        (("errors", *COUNT, "--at", "somewhere"), "must be worst, average or a number"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_picture(arguments, words, tmp_path, capsys):
    picture = tmp_path / "picture.png"
    assert run(["plot", *arguments, "-o", str(picture)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not picture.exists()


@pytest.mark.parametrize("name", ["a.ledger", "picture", "missing/picture.png"])
def test_only_pictures_are_written(name, tmp_path, capsys):
    assert run(["plot", "fisher", *MADE, "-o", str(tmp_path / name)]) == 2
    assert capsys.readouterr().err.startswith("error: output=")
