"""A release that is killed stays charged and publishes nothing; run again, it publishes once."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

FAULTS = [
    "revealed without a charge",
    "revealed before it was stored",
    "not charged once",
    "third run wrote to the ledger",
    "published again",
    "other bytes than stored",
    "not revealed by both runs",
]


def play(*arguments):
    command = [sys.executable, str(Path(__file__).with_name("killed.py")), *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("times", [4, pytest.param(200, marks=pytest.mark.long)])
def test_a_killed_release_is_charged_and_unpublished_and_publishes_once_when_run_again(tmp_path, times):
    found = play(tmp_path, times, 1)
    for point, seen in found.items():
        assert {name: seen[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0), point
    state = {point: (seen["charged"], seen["published"]) for point, seen in found.items() if point != "random"}
    assert state == {
        "checking the plan": (0, 0),
        "aggregating": (1, 0),
        "drawing": (1, 0),
        "storing": (1, 0),
        "stored": (1, 1),
    }
    assert found["random"]["kills"] == times


def test_control_a_table_that_is_revealed_before_it_is_stored_is_caught(tmp_path):
    found = play(tmp_path, 0, 1, "broken")
    assert found["storing"]["revealed before it was stored"] == 1
    assert found["storing"]["other bytes than stored"] == 1
