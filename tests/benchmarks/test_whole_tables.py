"""Whole tables: what is measured agrees with the forecast, a peer that is absent says so, and no error is hidden."""

import argparse
import math
from typing import Any

import pyarrow as pa
import pytest

from benchmarks import table_peers, whole_tables, workloads
from benchmarks.datasets import Table, made_up
from benchmarks.peers import Absent
from benchmarks.report import Row

ROWS = 3000


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    return made_up(tmp_path_factory.mktemp("tables"))


def crosstab() -> tuple[workloads.Workload, pa.Table]:
    """Cells with so many rows that no number is near 0."""
    cells = {(0, (a, b), ""): float(ROWS) for a in "123" for b in "1234"}
    data = {"a": [a for _, (a, _), _ in cells] * ROWS, "b": [b for _, (_, b), _ in cells] * ROWS}
    plan = {
        "budget": {"epsilon": 0.2, "delta": 1e-6},
        "keys": {"a": list("123"), "b": list("1234")},
        "query": [{"name": "t", "kind": "crosstab", "by": ["a", "b"]}],
    }
    return workloads.Workload(plan=plan, truths=workloads.with_margins(cells)), pa.table(data)


def test_what_is_measured_agrees_with_the_forecast_before_and_after_the_projection():
    asked, data = crosstab()
    draws = 30
    found = whole_tables.ours(asked, data, draws)
    margin = 0.5  # six standard errors, if those of cells, margins and total are added up
    assert found["unbiased"] == pytest.approx(found["forecast"], rel=margin)
    assert found["published"] == pytest.approx(found["unbiased"], rel=0.02)


def test_control_a_false_truth_is_seen():
    asked, data = crosstab()
    wrong = workloads.Workload(plan=asked.plan, truths={each: true + 500 for each, true in asked.truths.items()})
    assert whole_tables.ours(wrong, data, 2)["published"] > 400


def test_the_bar_is_the_best_of_the_other_library():
    found = {"published": 2.0, "forecast": 2.1, "unbiased": 2.2}
    made = whole_tables.row(
        "t", found, {"opendp a": 4.0, "opendp b": 2.5, "opendp c": "no wheel", "Gaussian limit": 1.0}
    )
    assert (made.of, made.bar, made.verdict) == ("opendp b", 1.0, "met")
    assert made.others["rangebound, unbiased"] == 2.2
    worse = whole_tables.row("t", found, {"opendp": 1.5})
    assert worse.verdict == "not met"
    alone = whole_tables.row("t", {"published": 2.0, "forecast": 2.1, "unbiased": 2.0}, {"opendp": "no wheel"})
    assert (alone.bar, alone.verdict) == (None, "")


def exact(asked: workloads.Workload, shift: float) -> Any:
    """What a peer would draw that adds nothing but `shift`."""

    def drawn(name: str, function: Any, *given: Any) -> Any:
        questions, draws = given[1], given[5]
        return [[[true + shift for true in asked.of_question(at)]] * draws for at in range(len(questions))], 1.0

    return drawn


def test_errors_of_counts_are_beside_the_truth_of_their_group(tables, monkeypatch: pytest.MonkeyPatch):
    asked = workloads.counts(tables["survey"], [("a0",), ("a1", "a2")])
    monkeypatch.setattr(table_peers, "call", exact(asked, 0.0))
    assert table_peers.of_counts(tables["survey"], asked, {"rho": 0.1}, 3) == 0.0
    monkeypatch.setattr(table_peers, "call", exact(asked, 2.0))
    assert table_peers.of_counts(tables["survey"], asked, {"rho": 0.1}, 3) == 2.0


@pytest.mark.parametrize(("kind", "by"), [("crosstab", ("a1", "a2")), ("series", ("carrier", "day"))])
def test_errors_of_sums_are_those_of_all_that_the_cells_add_up_to(tables, kind, by, monkeypatch: pytest.MonkeyPatch):
    table = tables["survey" if kind == "crosstab" else "flights"]
    cells, asked = workloads.counts(table, [by]), getattr(workloads, kind)(table, by)
    monkeypatch.setattr(table_peers, "call", exact(cells, 0.0))
    assert table_peers.of_sums(table, cells, asked, {"rho": 0.1}, 2) == 0.0
    monkeypatch.setattr(table_peers, "call", exact(cells, 1.0))
    assert table_peers.of_sums(table, cells, asked, {"rho": 0.1}, 2) > 1.0


def test_a_peer_that_is_absent_says_why(tables, monkeypatch: pytest.MonkeyPatch):
    def absent(*_: Any) -> Any:
        raise Absent("no wheel")

    monkeypatch.setattr(table_peers, "call", absent)
    asked = workloads.counts(tables["survey"], [("a0",)])
    assert table_peers.of_counts(tables["survey"], asked, {"rho": 0.1}, 2) == "no wheel"
    assert table_peers.of_contingency_table(tables["survey"], asked, 0.1, 2) == "no wheel"
    assert table_peers.of_one_count("x", 10, {"rho": 0.1}, 1, 2) == "no wheel"
    assert table_peers.of_trees([1, 2], {"rho": 0.1}, table_peers.running, (2, 4), 2) == "no wheel"


def test_tables_that_are_absent_have_a_row_that_says_so(tmp_path, monkeypatch: pytest.MonkeyPatch):
    def absent(_: Any) -> Any:
        raise Absent("no package")

    monkeypatch.setattr(whole_tables, "real", absent)
    found = whole_tables.groups(tmp_path, {}, quick=False)
    assert list(found) == ["counts", "tables", "tree", "times"]
    (only,) = found["tables"]()
    assert "no package" in only.others.values()


def chosen(**named: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"quick": False, "only": [], "ours": False, **named})


def test_a_part_is_measured_again_beside_what_was_measured_last(tmp_path, monkeypatch: pytest.MonkeyPatch):
    def first() -> list[Row]:
        return [Row(what="x", ours=3.0, unit="", others={"opendp": 2.0, "limit": 1.0}, bar=1.0, of="opendp")]

    monkeypatch.setattr(whole_tables, "groups", lambda *_, **__: {"a": first, "b": first})
    assert [each.verdict for each in whole_tables.measured(chosen(), tmp_path, {})] == ["not met"] * 2
    better = {"a": lambda: [Row(what="x", ours=1.5, unit="", others={"limit": 1.1})], "b": list}
    monkeypatch.setattr(whole_tables, "groups", lambda *_, **__: better)
    again, kept = whole_tables.measured(chosen(only=["a"], ours=True), tmp_path, {})
    assert (again.ours, again.others, again.verdict) == (1.5, {"opendp": 2.0, "limit": 1.1}, "met")
    assert kept.ours == 3.0
    (alone, _) = whole_tables.measured(chosen(only=["a"]), tmp_path, {})
    assert alone.others == {"limit": 1.1}


@pytest.mark.parametrize(("off", "found"), [(3.0, 3.0), (9.0, 9.0)])
def test_the_error_of_one_count_is_that_of_the_stated_scale_if_draws_agree(off, found, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(table_peers, "call", lambda *_: ([[[10 + off], [10 - off]] * 200], 3.01))
    assert table_peers.of_one_count("x", 10, {"rho": 0.1}, 1, 400) == pytest.approx(found, rel=0.01)
    assert (table_peers.of_one_count("x", 10, {"rho": 0.1}, 1, 400) == 3.01) == (off == 3.0)


def test_the_best_tree_is_taken_and_all_levels_are_beside_their_truth(monkeypatch: pytest.MonkeyPatch):
    def drawn(name: str, function: Any, leaves: Any, factor: int, pure: bool, limit: float, draws: int) -> Any:
        return [[each + factor for each in leaves]] * draws

    monkeypatch.setattr(table_peers, "call", drawn)
    made = table_peers.levels((2, 2))
    assert made([1, 2, 3, 4]) == [1, 2, 3, 4, 3, 7, 10]
    assert table_peers.running([1, 2, 3]) == [1, 2, 3, 1, 3, 6]
    found = table_peers.of_trees([1, 2, 3, 4], {"epsilon": 1.0}, made, (3, 2), 1)
    assert found == pytest.approx(math.sqrt((4 * 2**2 + 2 * 4**2 + 8**2) / 7))
