"""`rangebound account`: TOML in, a table or JSON out."""

import json

import pytest

import rangebound as rb
from rangebound.accounting import ComposedEvent, MechanismEvent, SampledEvent, best_accountant

TEXT = """
delta = [1e-6]
epsilon = 1.5

[[release]]
noise = "laplace"
scale = 8.0
range = [0, 10]
sensitivity = 1
times = 3

[[release]]
noise = "gaussian"
scale = 4.0
sensitivity = 1.0
times = 4
"""
LAPLACE = rb.Mechanism(noise=rb.Laplace(scale=8.0), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
LINE = rb.Query(range=rb.Interval(-float("inf"), float("inf")), sensitivity=1.0)
GAUSSIAN = rb.Mechanism(noise=rb.Gaussian(scale=4.0), query=LINE, bounding=rb.UNBOUNDED)
EVENT = ComposedEvent(events=(MechanismEvent(mechanism=LAPLACE, times=3), MechanismEvent(mechanism=GAUSSIAN, times=4)))

GOOD = '[[release]]\nnoise = "laplace"\nscale = 1.0\nsensitivity = 1.0\n'


@pytest.fixture
def account(folder, command):
    """A function that runs `rangebound account` on a file with a text: what it prints."""

    def called(*options, text=TEXT):
        (folder / "a.toml").write_text(text)
        code, out, err = command("account", "a.toml", *options)
        assert (code, err) == (0, "")
        return out

    return called


@pytest.mark.claim("page")
def test_the_numbers_are_those_of_the_library(account):
    found = json.loads(account("--json"))
    assert found["steps"] == 7
    first, second = found["results"]
    exact = best_accountant.epsilon(EVENT, 1e-6)
    assert (first["asked"], first["at"]) == ("epsilon", {"delta": 1e-6})
    assert (first["at_least"], first["at_most"]) == (exact.lower, exact.upper)
    assert (second["asked"], second["at"]) == ("delta", {"epsilon": 1.5})
    assert second["at_most"] == best_accountant.delta(EVENT, 1.5).upper


def test_a_release_with_a_rate_is_of_a_sample(account):
    text = '[[release]]\nnoise = "gaussian"\nscale = 4.0\nsensitivity = 1.0\nrate = 0.05\ntimes = 4\n'
    (found,) = json.loads(account("--json", "--delta", "1e-6", text=text))["results"]
    exact = best_accountant.epsilon(SampledEvent(mechanism=GAUSSIAN, rate=0.05, times=4), 1e-6)
    assert (found["at_least"], found["at_most"]) == (exact.lower, exact.upper)


def test_the_table_is_rounded_to_the_safe_side(account):
    shown = account("--delta", "1e-6")
    line = next(line for line in shown.splitlines() if line.startswith("epsilon at delta 1e-06"))
    lower, upper = map(float, line.split()[4:6])
    exact = best_accountant.epsilon(EVENT, 1e-6)
    assert lower <= exact.lower
    assert exact.upper <= upper <= exact.upper * (1.0 + 1e-5)


def test_supports_of_every_kind(account):
    releases = {
        "range = [[0, 1], [2, 3]]": ("laplace", 3.0),
        'range = [0, inf]\nsupport = [0, inf]\nbounding = "rectify"': ("gaussian", 3.0),
        "limit = 30.0": ("truncated_laplacian", 1.0),
        'range = [0, 5]\nsupport = {grid = {step = 1.0, within = [0, 5]}}\nbounding = "quantize"': ("laplace", 2.0),
    }
    text = "".join(
        f'[[release]]\nnoise = "{noise}"\nscale = {scale}\nsensitivity = 1.0\n{more}\n'
        for more, (noise, scale) in releases.items()
    )
    found = json.loads(account("--json", text=text))
    assert found["steps"] == 4
    assert found["results"][0]["at"] == {"delta": 1e-6}


def test_an_infinite_epsilon_is_valid_json(account):
    found = json.loads(account("--json", "--delta", "0", text=GOOD.replace("laplace", "gaussian")))
    assert found["results"][0]["at_most"] == "inf"


WITHOUT = TEXT.replace("delta = [1e-6]", "")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("release = [", "not valid TOML"),
        ("", "at least one"),
        ("release = 3", "at least one"),
        (GOOD.replace("sensitivity = 1.0", ""), "sensitivity"),
        (GOOD.replace("1.0", "-1.0", 1), "scale"),
        (GOOD + "sigma = 2", "sigma"),
        (GOOD + "times = 0", "times"),
        (GOOD + "rate = 2.0", "rate"),
        (GOOD + "range = 3", "range"),
        ("seed = 1\n" + WITHOUT, "seed"),
        ("delta = 'small'\n" + WITHOUT, "delta"),
        ("delta = 2.0\n" + WITHOUT, "delta"),
    ],
)
def test_bad_files_get_one_clear_error(folder, refused, text, words):
    (folder / "a.toml").write_text(text)
    assert words in refused("account", "a.toml")
