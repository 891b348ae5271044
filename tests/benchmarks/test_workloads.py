"""Workloads: their truths are those of pandas, and their limits those of a matrix that is written out."""

import itertools
import math

import numpy as np
import pandas
import pytest

from benchmarks import workloads
from benchmarks.datasets import Table, made_up
from rangebound.privacy import gdp


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    return made_up(tmp_path_factory.mktemp("tables"))


def test_counts_are_those_of_pandas(tables):
    found = workloads.counts(tables["survey"], [("a0",), ("a1", "a2")]).truths
    frame = pandas.read_parquet(tables["survey"].path)
    for (at, key, part), true in found.items():
        by = [["a0"], ["a1", "a2"]][at]
        assert true == (frame[by] == list(key)).all(axis=1).sum()
        assert part == ""
    assert len(found) == 2 + 3 * 4


def test_counts_of_planes_are_bounded_in_every_group(tables):
    unit = {"column": "tailnum", "rows": 2, "groups": 60}
    found = workloads.counts(tables["flights"], [("carrier", "month")], unit).truths
    frame = pandas.read_parquet(tables["flights"].path)
    bounded = frame.groupby(["carrier", "month", "tailnum"]).size().clip(upper=2).groupby(["carrier", "month"]).sum()
    assert {key: true for (_, key, _), true in found.items()} == bounded.to_dict()
    assert bounded.sum() < len(frame)


def test_margins_and_running_totals_add_up():
    cells = {(0, (a, b), ""): float(10 * int(a) + int(b)) for a, b in itertools.product("12", "345")}
    found = workloads.with_margins(cells)
    assert found[0, ("1", None), ""] == 13 + 14 + 15
    assert found[0, (None, "4"), ""] == 14 + 24
    assert found[0, (None, None), ""] == sum(cells.values())
    assert len(found) == 3 * 4
    totals = workloads.with_running_totals(cells)
    assert [totals[0, ("2", each), "running"] for each in "345"] == [23, 23 + 24, 23 + 24 + 25]
    assert [totals[0, ("1", each), ""] for each in "345"] == [13, 14, 15]
    asked = workloads.hierarchy((2, 3), "leaf", [1, 2, 3, 4, 5, 6])
    assert (asked.truths[0, ("g1",), "group"], asked.truths[0, (None,), ""]) == (15, 21)


def marginals(sizes: dict[str, int], groupings: list[tuple[str, ...]]) -> np.ndarray:
    blocks = []
    for by in groupings:
        block = np.ones((1, 1))
        for name, size in sizes.items():
            block = np.kron(block, np.eye(size) if name in by else np.ones((1, size)))
        blocks.append(block)
    return np.vstack(blocks)


@pytest.mark.parametrize("orders", [(1,), (2,), (1, 2), (0, 1, 2, 3)])
def test_the_limit_of_marginals_is_that_of_their_matrix(orders):
    sizes = {"a": 2, "b": 3, "c": 4}
    groupings = workloads.all_marginals(list(sizes), orders)
    found = workloads.limit_of_marginals(sizes, groupings)
    assert found == pytest.approx(workloads.limit_of(marginals(sizes, groupings)), rel=1e-9)


def test_the_limit_of_one_table_is_its_noise_and_that_of_a_tree_is_of_its_matrix():
    one = 1 / gdp.largest_mu(1.0, 1e-6)
    assert workloads.limit_of_marginals({"a": 5}, [("a",)]) == pytest.approx(one, rel=1e-12)
    assert workloads.limit_of(np.eye(7)) == pytest.approx(one, rel=1e-12)
    spread = np.kron(np.eye(3), np.ones((1, 4)))
    tree = np.vstack([np.eye(12), spread, np.ones((1, 12))])
    assert workloads.limit_of_tree((3, 4)) == pytest.approx(workloads.limit_of(tree), rel=1e-12)
    split = math.sqrt(3) * one
    assert workloads.limit_of_marginals({"a": 2, "b": 3}, [("a",), ("b",), ("a", "b")]) < split
