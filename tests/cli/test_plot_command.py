"""`rangebound plot` from the outside: a picture for each command. Mistakes are in `test_mistakes.py`."""

import pytest

COUNT = ("--range", "0:10", "--sensitivity", "1")
MADE = (*COUNT, "--scale", "2")
BOUNDINGS = ("--bounding", "truncate", "--bounding", "rectify")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        (("law", *MADE, "--at", "3", "--at", "7", *BOUNDINGS), "png"),
        (("law", *COUNT, "--epsilon", "1", "--at", "3", "--grid", "1", "--bounding", "quantize"), "png"),
        (("law", *MADE, "--at", "3", "--noise", "laplace", "--noise", "truncated_laplacian", "--limit", "30"), "png"),
        (("profile", *MADE, "--bounding", "unbounded"), "png"),
        (("renyi", *MADE, "--bounding", "rectify"), "png"),
        (("fisher", "--range", "0:inf", "--sensitivity", "1", "--scale", "2", "--noise", "gaussian"), "pdf"),
        (("worst-pair", "--range", "0:3", "--range", "5:9", "--sensitivity", "2", "--scale", "3"), "png"),
        (("worst-pair", *MADE, "--level", "0.3"), "png"),
        (("errors", *COUNT, "--epsilon", "1", "--at", "3"), "png"),
    ],
)
def test_every_command_writes_its_picture(arguments, ending, tmp_path, command):
    picture = tmp_path / f"picture.{ending}"
    assert command("plot", *arguments, "-o", picture) == (0, f"{picture}\n", "")
    assert picture.read_bytes().startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[ending])
    assert 1000 < picture.stat().st_size < 100_000


def test_lines_of_a_law_are_told_apart(tmp_path, command):
    picture = tmp_path / "law.svg"
    assert command("plot", "law", *MADE, "--at", "3", *BOUNDINGS, "-o", picture)[0] == 0
    for bounding in ("truncate", "rectify"):
        assert f"{bounding} Laplace, scale 2, true answer 3" in picture.read_text()
