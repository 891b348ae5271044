"""`rangebound audit` from the outside: what it prints, and how it ends. Mistakes are in `test_mistakes.py`."""

import json
import sys

import pytest

from rangebound.cli.app import run

COUNT = ("--range", "0:10", "--sensitivity", "1", "--draws", "100000")
MODULE = """
import numpy as np

draw = np.random.default_rng(1)

def many(answer, count):
    return answer + draw.laplace(size=count)

def one(answer):
    return answer + draw.laplace()
"""


@pytest.fixture(autouse=True)
def _module(tmp_path, monkeypatch):
    (tmp_path / "audited_noise.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "audited_noise", raising=False)


def test_a_mechanism_that_keeps_its_word_passes(capsys):
    both = ("--bounding", "truncate", "--bounding", "rectify")  # at 99.9 % one run in 100,000 is a false alarm
    assert run(["audit", "ours", *COUNT, "--epsilon", "1", *both, "--confidence", "0.999999"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(
        line.startswith("this mechanism claims (1, 0); at 99.9999 % confidence it leaks at least 0.") for line in lines
    )


def test_a_false_claim_ends_with_one(capsys):
    assert run(["audit", "ours", *COUNT, "--scale", "1", "--claim", "1"]) == 1
    assert "it leaks at least 1." in capsys.readouterr().out


@pytest.mark.parametrize("extra", [("audited_noise:many",), ("audited_noise:one", "--one-by-one")])
def test_any_function_can_be_audited(extra, capsys):
    assert run(["audit", "call", *extra, "--pair", "0", "1", "--claim", "1", "--draws", "10000", "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["refutes"] is True
    assert found["event"].startswith("bits behind the point")
    assert found["pair"] == [0.0, 1.0]
