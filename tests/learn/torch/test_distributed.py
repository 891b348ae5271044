"""Two processes over gloo: one draw of the noise, and the same result as one process."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.learn.torch import two_processes

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def both(tmp_path_factory: Any) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("gloo")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    script = str(Path(two_processes.__file__))
    running = [
        subprocess.Popen([sys.executable, script, str(rank), "2", str(folder)], env=environment, stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    for each in running:
        _, errors = each.communicate(timeout=900)  # a guard against a hang; torch loads slowly where it is busy
        assert each.returncode == 0, errors.decode()
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("kind", ["images", "custom", "attached", "adaptive"])
def test_two_processes_equal_one(both: list[dict[str, Any]], kind: str) -> None:
    alone = two_processes.run(kind)
    first, second = (each[kind] for each in both)
    for ours, theirs in zip(alone["locations"], first["locations"], strict=True):  # type: ignore[call-overload]
        assert (ours - theirs).abs().max() <= 13 * 1e-6  # other batches, other roundings inside the layers
    assert second["locations"] == []  # the second process draws nothing
    for name, value in alone["state"].items():  # type: ignore[attr-defined]
        assert torch.equal(first["state"][name], second["state"][name])
        torch.testing.assert_close(first["state"][name], value, rtol=1e-4, atol=1e-5)
    assert first["steps"] == second["steps"] == alone["steps"] == 3
    assert first["epsilon"] == second["epsilon"] == alone["epsilon"]
    assert first["clip"] == second["clip"] == pytest.approx(alone["clip"])
    assert (first["clip"] in (0.125, 0.5)) == (kind != "adaptive")  # where they began


def test_a_bad_example_of_one_process_stops_none(both: list[dict[str, Any]]) -> None:
    alone = two_processes.run("bad")
    first, second = (each["bad"] for each in both)
    assert first["steps"] == second["steps"] == 3
    assert (alone["bad"], first["bad"], second["bad"]) == (3.0, 0.0, 3.0)  # each counts its own, in private
    for ours, theirs in zip(alone["locations"], first["locations"], strict=True):  # type: ignore[call-overload]
        assert (ours - theirs).abs().max() <= 13 * 1e-6
    for name, value in first["state"].items():
        assert torch.equal(value, second["state"][name])
        assert torch.isfinite(value).all()


def test_other_data_in_other_processes_is_refused_by_all(both: list[dict[str, Any]]) -> None:
    """Their rates differ, so that the account of one would say too little about the examples of the other."""
    assert all("whole dataset" in each["refused"]["words"] for each in both)


def test_an_epoch_that_any_process_begins_is_counted_by_all(both: list[dict[str, Any]]) -> None:
    """One has begun three epochs; the account of the other, which is in its first, would be too small for it."""
    assert [each["epochs"] for each in both] == [{"epochs": 3, "steps": 4}] * 2
    assert two_processes.epochs_of((True, *[False] * 3)) == {"epochs": 1, "steps": 4}  # the control: by itself
