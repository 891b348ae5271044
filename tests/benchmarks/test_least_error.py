"""The errors beside the limit: none is below it, and the committed ones are those that were to be reached."""

import json

import pytest

from benchmarks import __main__ as runner
from benchmarks import least_error


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
