"""Fitted numbers add up, stay where they belong, and are the nearest that do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from rangebound.release.answer import Cell
from rangebound.release.consistency import consistent, fit_counts, fit_order, fit_total
from rangebound.release.reading import make_plan

PARTS = st.lists(st.floats(0, 1000), min_size=1, max_size=8)


@given(PARTS, st.floats(0, 5000))
def test_parts_add_up_and_stay_positive(parts, total):
    fitted = fit_total(parts, total)
    assert sum(fitted) == pytest.approx(total, abs=1e-8)
    assert min(fitted) >= 0.0
    order = np.argsort(parts, kind="stable")
    assert (np.diff(np.array(fitted)[order]) >= -1e-9).all()


def test_no_other_parts_are_nearer():
    parts, total = [30.0, 2.0, 0.0, 11.0], 20.0
    fitted = np.array(fit_total(parts, total))
    found = minimize(
        lambda x: ((x - parts) ** 2).sum(),
        np.full(4, total / 4),
        bounds=[(0, None)] * 4,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
    )
    assert fitted == pytest.approx(found.x, abs=1e-4)


@given(st.lists(st.integers(0, 1000).map(float), min_size=1, max_size=8), st.integers(0, 5000))
def test_counts_stay_whole_and_add_up(parts, total):
    fitted = fit_counts(parts, float(total))
    assert sum(fitted) == total
    assert all(each >= 0 and each == int(each) for each in fitted)


@given(st.lists(st.floats(-10, 10), max_size=6))
def test_order_keeps_the_numbers(values):
    assert fit_order(values) == sorted(values)


def cell(question, value, key=(), part=""):
    return Cell(question=question, key=key, part=part, value=value, lower=0, upper=1, epsilon=1, delta=0)


def test_a_whole_release_is_made_consistent_and_supports_are_kept():
    of = [{"column": "x", "is": ">", "value": 1}]
    plan = make_plan(
        {
            "budget": {"epsilon": 1.0},
            "keys": {"g": ["a", "b"]},
            "query": [
                {"name": "all", "kind": "count"},
                {"name": "by", "kind": "count", "by": ["g"]},
                {"name": "q", "kind": "quantiles", "column": "x", "range": [0, 9], "levels": [0.1, 0.9]},
                {"name": "s", "kind": "share", "of": of, "partition": "p"},
                {"name": "t", "kind": "share", "of": of, "partition": "p"},
                {"name": "u", "kind": "share", "of": of, "partition": "r", "support": [0.0, 0.4]},
                {"name": "v", "kind": "share", "of": of, "partition": "r", "support": [0.0, 0.4]},
            ],
        }
    )
    cells = [
        cell(0, 10.0),
        cell(1, 7.0, ("a",)),
        cell(1, 1.0, ("b",)),
        cell(2, 5.0, part="0.1"),
        cell(2, 4.0, part="0.9"),
    ]
    cells += [cell(3, 0.2), cell(4, 0.4), cell(5, 0.3), cell(6, 0.2)]
    fitted = [each.value for each in consistent(plan, cells)]
    assert fitted[:5] == [10.0, 8.0, 2.0, 4.0, 5.0]
    assert fitted[5:7] == pytest.approx([0.4, 0.6])
    assert fitted[7:] == [0.3, 0.2]  # 0.55 and 0.45 would leave the support
