"""The page is what its results make it, hides nothing that went wrong, and verdicts say what the numbers say."""

import json
import math
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks import __main__ as runner
from benchmarks import claimed_found, least_error
from benchmarks.page import BENCHMARKS, page, short
from benchmarks.report import Row

ADVICE = "run `python -m benchmarks --page`"


def result(rows: list[Row], **rest) -> dict:
    facts = {
        "processor": "Abacus",
        "cores": 2,
        "memory": "1 GB",
        "system": "Plan 9",
        "versions": {"Python": "3.11.0", "rangebound": "0.2.0"},
    }
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
    assert runner.PAGE.read_text(encoding="utf-8") == short(runner.RESULTS), ADVICE
    assert (runner.RESULTS / "README.md").read_text(encoding="utf-8") == page(runner.RESULTS), ADVICE


def test_the_table_of_audits_is_made_from_the_committed_results_and_rounds_down():
    rows = json.loads(claimed_found.RESULTS.read_text(encoding="utf-8"))
    assert claimed_found.page(rows) in claimed_found.PAGE.read_text(encoding="utf-8"), "run with --page"
    assert {(row["library"], row["line"]) for row in rows} <= {*claimed_found.lines()}
    assert claimed_found.cell({"claimed": 1.0, "epsilon": 1.019, "refutes": True}) == "**1.01/1**"


def test_the_short_page_counts_ahead_level_and_behind(folder: Path):
    """One of four numbers of others is ahead; the one that is too small is not; what went wrong is said."""
    text = short(folder)
    assert "**Of rangebound 0.2.0.**" in text
    assert "| The core | 2026-11-15 | 3 | 0 | 1 | 2 of 3 |" in text
    assert "| sampling |  |  |  |  | failed |\n| accounting |  |  |  |  | not run |" in text
    assert "| what | rangebound | the other |\n| --- | --- | --- |\n| slow | 3 ms | opendp 1 |\n\n" in text
    assert text.endswith("| slow | 3 ms | at most 2 ms |\n")


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


def test_a_forecast_of_ours_is_no_other_library_and_a_busy_machine_and_a_quick_run_are_confessed(folder: Path):
    row = Row(what="x", ours=2.0, unit="", others={"opendp": 1.0, "rangebound, forecast": 1.0}, note="why")
    (folder / "core.json").write_text(json.dumps(result([row], load=5.0, quick=True)))
    text = page(folder)
    assert "**opendp 1 (2)**<br>rangebound, forecast 1 (2)" in text
    assert "|  | why |" in text
    assert "**In 1 of 1 comparisons another library is ahead**" in text
    assert "busy with other work (load 5.0)" in text
    assert "says nothing of speed" in text


@pytest.mark.long
def test_all_benchmarks_run_with_small_sizes(tmp_path: Path):
    command = [sys.executable, "-m", "benchmarks", "--quick", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=runner.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "benchmarks.md").exists()
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert "**Failed" not in text
    assert "**Not run" not in text
    assert text.count("says nothing of speed") == len(BENCHMARKS)
    assert not (tmp_path / "peers.json").exists()
    for name in BENCHMARKS:
        assert json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))["rows"]


def row(ours: float, **rest) -> Row:
    return Row(what="x", ours=ours, unit="ms", **rest)


@pytest.mark.parametrize(
    ("measured", "verdict"),
    [
        (row(1.0), ""),
        (row(1.0, bar=1.0), "met"),
        (row(1.1, bar=1.0), "not met"),
        (row(0.9, bar=1.0, more=True), "not met"),
        (row(3.0, bar=2.0, of="numpy", others={"numpy": 2.0}), "met"),
        (row(5.0, bar=2.0, of="numpy", others={"numpy": 2.0}), "not met"),
        (row(5.0, bar=2.0, of="numpy", others={"numpy": "no wheel"}), "not measured"),
        (row(math.nan, bar=2.0), "not measured"),
        (row(26.70, floor=26.71), "not met"),
        (row(26.70, floor=26.71, bar=30.0), "not met"),
        (row(31.00, floor=26.71, bar=30.0), "not met"),
    ],
)
def test_a_verdict_follows_from_the_numbers(measured: Row, verdict: str):
    assert measured.verdict == verdict


def test_the_other_one_is_ahead_only_by_more_than_a_percent_and_never_by_being_wrong():
    assert row(1.1, others={"peer": 1.0}).better("peer")
    assert not row(1.005, others={"peer": 1.0}).better("peer")
    assert not row(1.1, others={"peer": 1.0}, more=True).better("peer")
    assert row(0.9, others={"peer": 1.0}, more=True).better("peer")
    assert not row(26.72, others={"peer": 26.01}, floor=26.71).better("peer")
    assert not row(1.1, others={"peer": "no wheel"}).better("peer")


@pytest.mark.slow
def test_nothing_is_below_the_limit_and_the_free_optimum_is_the_best_table():
    found = list(least_error.rows(quick=True))
    assert len(found) == 3 * sum(len(setting.epsilons) for setting in least_error.QUICK)
    for row in found:
        assert row.ours >= row.others[least_error.LIMIT] > 0.0
    for smooth, free, _ in zip(found[::3], found[1::3], found[2::3], strict=True):
        assert free.ours <= 1.001 * smooth.ours
        assert smooth.ours < smooth.others["rangebound, best without spikes"]


# Worst mean absolute error on [0, 10], sensitivity 1: epsilon, smooth optimum, additive noise with a remap, limit.
REACHED = [
    (0.2, 2.922, 2.561, 2.560),
    (0.5, 1.552, 1.492, 1.482),
    (1.0, 0.876, 0.858, 0.852),
    (2.0, 0.426, 0.412, 0.411),
    (4.0, 0.159, 0.139, 0.136),
]


@pytest.mark.parametrize(("epsilon", "smooth", "remapped", "limit"), REACHED)
def test_the_committed_results_reach_the_table_to_one_percent(epsilon, smooth, remapped, limit):
    path = runner.RESULTS / "least_error.json"
    rows = {row["what"]: row for row in json.loads(path.read_text(encoding="utf-8"))["rows"]}
    name = f"real answers, epsilon {epsilon:g}"
    assert rows[f"{name}: smooth optimum"]["ours"] <= 1.01 * smooth
    assert rows[f"{name}: additive noise with a minimax remap"]["ours"] <= 1.01 * remapped
    assert rows[f"{name}: smooth optimum"]["others"][least_error.LIMIT] >= 0.99 * limit
