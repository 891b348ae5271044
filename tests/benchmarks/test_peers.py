"""A peer answers from its own interpreter, or says why not."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import peers


def doubled(values):
    import math
    import os

    return {"sum": math.fsum(2 * x for x in values), "lent": os.environ.get("PYTHONPATH")}


def noisy():
    print("loading ...")
    return 1


def composed(x):
    return x + noisy()


def broken():
    raise ValueError("no such column")


def endless():
    import time

    time.sleep(60)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The running interpreter, posing as the environment of opendp."""
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    monkeypatch.setattr(peers, "python", lambda name: Path(sys.executable))
    (tmp_path / "opendp").mkdir()
    (tmp_path / "opendp" / "installed.txt").write_text(peers._wanted(peers.PEERS["opendp"]))
    return "opendp"


def test_an_answer_comes_back_as_data_and_nothing_is_lent(environment: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "src")
    assert peers.call(environment, doubled, [0.5, 2.0]) == {"sum": 5.0, "lent": None}
    assert peers.call(environment, noisy) == 1
    assert peers.ask(environment, noisy, unit=1e3) == 1000.0
    assert peers.call(environment, composed, 3, using=(noisy,)) == 4
    assert peers.fresh(doubled, [1])["lent"] == "src"


def test_what_stands_as_wanted_is_not_made_again(environment: str, monkeypatch: pytest.MonkeyPatch):
    started = []
    monkeypatch.setattr(peers.subprocess, "run", lambda *given, **named: started.append(given))
    peers.make(environment)
    assert started == []


def test_a_peer_that_fails_says_why(environment: str, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(peers.Absent, match=r"^ValueError: no such column$"):
        peers.call(environment, broken)
    assert peers.ask(environment, broken) == "ValueError: no such column"
    monkeypatch.setattr(peers, "PATIENCE", 1.0)
    with pytest.raises(peers.Absent, match="no answer in 1 s"):
        peers.call(environment, endless)


def test_a_peer_without_an_environment_says_why(environment: str, tmp_path: Path):
    with pytest.raises(peers.Absent, match="no environment"):
        peers.call("diffprivlib", noisy)
    (tmp_path / "diffprivlib").mkdir()
    (tmp_path / "diffprivlib" / "reason.txt").write_text("no wheel")
    with pytest.raises(peers.Absent, match=r"^no wheel$"):
        peers.call("diffprivlib", noisy)


def test_an_installation_that_fails_leaves_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(command, **rest):
        raise subprocess.CalledProcessError(1, command, stderr="some words\nERROR: no wheel\n[notice] a new pip\n")

    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    monkeypatch.setattr(peers.subprocess, "run", refuse)
    with pytest.raises(peers.Absent, match="ERROR: no wheel"):
        peers.make("opendp")
    with pytest.raises(peers.Absent, match="ERROR: no wheel"):
        peers.call("opendp", noisy)
