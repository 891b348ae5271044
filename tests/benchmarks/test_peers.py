"""A peer answers from its own interpreter, or says why not."""

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


def broken():
    raise ValueError("no such column")


def endless():
    import time

    time.sleep(60)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The running interpreter, posing as the environment of opendp."""
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    monkeypatch.setattr(peers, "_python", lambda name: Path(sys.executable))
    (tmp_path / "opendp").mkdir()
    (tmp_path / "opendp" / "installed.txt").write_text(peers._wanted(peers.PEERS["opendp"]))
    return "opendp"


def test_an_answer_comes_back_as_data_and_nothing_is_lent(environment: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", "src")
    assert peers.call(environment, doubled, [0.5, 2.0]) == {"sum": 5.0, "lent": None}
    assert peers.call(environment, noisy) == 1


def test_what_stands_as_wanted_is_not_made_again(environment: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(peers.subprocess, "run", None)
    peers.make(environment)


def test_a_peer_that_fails_says_why(environment: str):
    with pytest.raises(peers.Absent, match=r"^ValueError: no such column$"):
        peers.call(environment, broken)
    with pytest.raises(peers.Absent, match="no answer in 1 s"):
        peers.call(environment, endless, patience=1.0)


def test_a_peer_without_an_environment_says_why(environment: str, tmp_path: Path):
    with pytest.raises(peers.Absent, match="no environment"):
        peers.call("diffprivlib", noisy)
    (tmp_path / "diffprivlib").mkdir()
    (tmp_path / "diffprivlib" / "reason.txt").write_text("no wheel")
    with pytest.raises(peers.Absent, match=r"^no wheel$"):
        peers.call("diffprivlib", noisy)


def test_an_installation_that_fails_leaves_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(peers, "FOLDER", tmp_path)
    impossible = peers.Peer(module="nothing", package="nothing", requires=("./no-such-folder",))
    monkeypatch.setitem(peers.PEERS, "nothing", impossible)
    with pytest.raises(peers.Absent, match="no-such-folder"):
        peers.make("nothing")
    with pytest.raises(peers.Absent, match="no-such-folder"):
        peers.call("nothing", noisy)
