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


@pytest.mark.claim("kill")
@pytest.mark.parametrize("times", [1, pytest.param(200, marks=pytest.mark.long)])
def test_a_killed_release_is_charged_and_unpublished_and_publishes_once_when_run_again(tmp_path, times):
    line = [sys.executable, str(Path(__file__).with_name("killed.py")), str(tmp_path), str(times), "1"]
    result = subprocess.run(line, capture_output=True, text=True, timeout=1200, check=False)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    broken = found.pop("broken")  # control
    assert broken["revealed before it was stored"] == broken["other bytes than stored"] == 1
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
