"""`rangebound account`: TOML in, a table or JSON out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, SampledEvent, best_accountant
from rangebound.cli.account_command import account
from rangebound.errors import RangeboundError

TEXT = """
delta = [1e-6]
epsilon = 1.5

[[release]]
noise = "laplace"
scale = 8.0
range = [0, 10]
sensitivity = 1
times = 12

[[release]]
noise = "gaussian"
scale = 4.0
sensitivity = 1.0
rate = 0.05
times = 20
"""
EVENT = ComposedEvent(
    events=(
        MechanismEvent(
            mechanism=rb.Mechanism(
                noise=rb.Laplace(scale=8.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
            ),
            times=12,
        ),
        SampledEvent(
            mechanism=rb.Mechanism(
                noise=rb.Gaussian(scale=4.0),
                query=rb.Query(range=rb.Interval(-float("inf"), float("inf")), sensitivity=1.0),
                bounding=rb.UNBOUNDED,
            ),
            rate=0.05,
            times=20,
        ),
    )
)

app = typer.Typer(rich_markup_mode=None)
app.command("account")(account)


def run(path: Path, *options: str, text: str = TEXT) -> str:
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, [str(path), *options])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_the_numbers_are_those_of_the_library(tmp_path):
    found = json.loads(run(tmp_path / "a.toml", "--json"))
    assert found["steps"] == 32
    first, second = found["results"]
    exact = best_accountant.epsilon(EVENT, 1e-6)
    assert (first["asked"], first["at"]) == ("epsilon", {"delta": 1e-6})
    assert (first["at_least"], first["at_most"]) == (exact.lower, exact.upper)
    assert (second["asked"], second["at"]) == ("delta", {"epsilon": 1.5})
    assert second["at_most"] == best_accountant.delta(EVENT, 1.5).upper


def test_the_table_is_rounded_to_the_safe_side(tmp_path):
    shown = run(tmp_path / "a.toml", "--delta", "1e-6")
    line = next(line for line in shown.splitlines() if line.startswith("epsilon at delta 1e-06"))
    lower, upper = map(float, line.split()[4:6])
    exact = best_accountant.epsilon(EVENT, 1e-6)
    assert lower <= exact.lower
    assert exact.upper <= upper <= exact.upper * (1.0 + 1e-5)


def test_supports_of_every_kind(tmp_path):
    text = """
[[release]]
noise = "laplace"
scale = 3.0
range = [[0, 1], [2, 3]]
sensitivity = 1.0
[[release]]
noise = "gaussian"
scale = 3.0
range = [0, inf]
support = [0, inf]
sensitivity = 1.0
bounding = "rectify"
[[release]]
noise = "truncated_laplacian"
scale = 1.0
limit = 30.0
sensitivity = 1.0
[[release]]
noise = "laplace"
scale = 2.0
range = [0, 5]
support = { grid = { step = 1.0, within = [0, 5] } }
sensitivity = 1.0
bounding = "quantize"
"""
    found = json.loads(run(tmp_path / "a.toml", "--json", text=text))
    assert found["steps"] == 4
    assert found["results"][0]["at"] == {"delta": 1e-6}


def test_an_infinite_epsilon_is_valid_json(tmp_path):
    text = '[[release]]\nnoise = "gaussian"\nscale = 1.0\nsensitivity = 1.0\n'
    found = json.loads(run(tmp_path / "a.toml", "--json", "--delta", "0", text=text))
    assert found["results"][0]["at_most"] == "inf"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("release = [", "not valid TOML"),
        ("", "at least one"),
        ("release = 3", "at least one"),
        ("[[release]]\nnoise = 'laplace'\nscale = 1.0\n", "sensitivity"),
        ("[[release]]\nnoise = 'cauchy'\nscale = 1.0\nsensitivity = 1.0\n", "release 1"),
        ("[[release]]\nnoise = 'laplace'\nscale = -1.0\nsensitivity = 1.0\n", "scale"),
        ("[[release]]\nnoise = 'laplace'\nscale = 1.0\nsensitivity = 1.0\nsigma = 2\n", "sigma"),
        ("[[release]]\nnoise = 'laplace'\nscale = 1.0\nsensitivity = 1.0\ntimes = 0\n", "times"),
        ("[[release]]\nnoise = 'laplace'\nscale = 1.0\nsensitivity = 1.0\nrate = 2.0\n", "rate"),
        ("[[release]]\nnoise = 'laplace'\nscale = 1.0\nsensitivity = 1.0\nrange = 3\n", "range"),
        ("[[release]]\nnoise = ['laplace']\nscale = 1.0\nsensitivity = 1.0\n", "release 1"),
        ("seed = 1\n" + TEXT.replace("delta = [1e-6]", ""), "seed"),
        ("delta = 'small'\n" + TEXT.replace("delta = [1e-6]", ""), "delta"),
        ("delta = 2.0\n" + TEXT.replace("delta = [1e-6]", ""), "delta"),
    ],
)
def test_bad_files_get_one_clear_error(tmp_path, text, words):
    with pytest.raises(RangeboundError, match=words) as error:
        run(tmp_path / "a.toml", text=text)
    assert "Traceback" not in str(error.value)


def test_a_missing_file_is_an_error_of_the_system(tmp_path):
    result = CliRunner().invoke(app, [str(tmp_path / "none.toml")])
    assert isinstance(result.exception, FileNotFoundError)
