"""Fitted numbers add up, stay where they belong, and are the nearest that do."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from rangebound.release import check_certificate, explain
from rangebound.release.noise.draw import Cell
from rangebound.release.output.agreement import consistent, fit_total, fit_whole, notes, obstacles
from tests.release.output.asked import asked, released, report

COUNTS = [{"name": "all", "kind": "count"}, {"name": "by", "kind": "count", "by": ["g"]}]
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


@given(st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=8), st.integers(0, 5000))
def test_counts_stay_whole_and_add_up_also_of_numbers_below_zero(parts, total):
    fitted = fit_whole(parts, total)
    assert sum(fitted) == total
    assert all(type(each) is int and each >= 0 for each in fitted)
    assert fitted == pytest.approx(fit_total(parts, float(total)), abs=1.001)


def cell(question, value, key=(), part="", lower=0.0, upper=100.0):
    return Cell(question=question, key=key, part=part, value=value, lower=lower, upper=upper, epsilon=1, delta=0)


def counts(unit=None, **parts):
    parts = {"consistent": True, "keys": {"g": ["a", "b"]}, "query": COUNTS, **parts}
    return asked(delta=1e-6, unit=unit or {}, **parts)


def test_a_whole_release_is_made_consistent_and_supports_are_kept():
    share = {"kind": "share", "of": [{"column": "x", "is": ">", "value": 1}]}
    shares = [share | {"partition": "p"}] * 2 + [share | {"partition": "r", "support": [0.0, 0.4]}] * 2
    quantiles = {"kind": "quantiles", "column": "x", "range": [0, 9], "levels": [0.1, 0.9]}
    plan = counts(query=[{**each, "name": str(at)} for at, each in enumerate([*COUNTS, quantiles, *shares])])
    low, high = {"part": "0.1", "lower": 3.0, "upper": 6.0}, {"part": "0.9", "lower": 2.0, "upper": 5.0}
    cells = [cell(0, 10.0), cell(1, 7.0, ("a",)), cell(1, 1.0, ("b",)), cell(2, 5.0, **low), cell(2, 4.0, **high)]
    cells += [cell(3, 0.2), cell(4, 0.4), cell(5, 0.3), cell(6, 0.2)]
    result = consistent(plan, cells)
    assert [(each.lower, each.upper) for each in result[3:5]] == [(2.0, 6.0), (2.0, 6.0)]
    fitted = [each.value for each in result]
    assert fitted[:5] == [10.0, 8.0, 2.0, 4.0, 5.0]
    assert fitted[5:7] == pytest.approx([0.4, 0.6])
    assert fitted[7:] == [0.3, 0.2]  # 0.55 and 0.45 would leave the support
    assert notes(plan, result) == (
        "shares of partition 'r' were left as drawn: fitted numbers would leave their support, step or interval",
    )


def test_an_interval_is_widened_to_its_number():
    wide = [cell(0, 10.0), cell(1, 30.0, ("a",)), cell(1, 1.0, ("b",))]
    assert [each.value for each in consistent(counts(), wide)] == [10.0, 10.0, 0.0]
    narrow = [wide[0], cell(1, 30.0, ("a",), lower=25.0, upper=35.0), cell(1, 1.0, ("b",), lower=1.0, upper=2.0)]
    result = consistent(counts(), narrow)
    assert [(each.value, each.lower, each.upper) for each in result[1:]] == [(10.0, 10.0, 35.0), (0.0, 0.0, 2.0)]
    assert notes(counts(), result) == ()
    (note,) = notes(counts(), narrow)
    assert note.startswith("counts 'by' and 'all' were left apart: ")
    assert notes(counts(consistent=False), narrow) == ()


@pytest.mark.parametrize(
    ("rows", "groups", "words"),
    [
        (2, 3, "with 2 rows at most in the total, but with 2 in each of 3 groups"),
        (1, 1, "with 1 row at most in the total, but with 1 in one group alone"),
    ],
)
def test_counts_of_units_with_many_rows_are_not_forced_to_a_total_of_other_rows(rows, groups, words):
    plan = counts({"column": "person", "rows": rows, "groups": groups})
    cells = [cell(0, 10.0), cell(1, 7.0, ("a",)), cell(1, 1.0, ("b",))]
    assert consistent(plan, cells) == cells
    reason = f"counts 'by' are not fitted to 'all': an owner counts {words}"
    assert notes(plan, cells) == obstacles(plan) == (reason,)
    assert reason in explain(plan)
    made = released(plan, {"person": [1, 2, 2], "g": ["a", "b", "a"]})
    assert made.notes == (reason,)
    assert words in report(made)


def test_counts_by_private_keys_and_shares_of_different_rows_are_not_fitted():
    assert "not all there are" in obstacles(counts(keys={}))[0]
    of = [{"column": "x", "is": ">", "value": 1}]
    share = {"kind": "share", "of": of, "partition": "p"}
    plan = counts(query=[{"name": "s", **share}, {"name": "t", **share, "where": of}], keys={})
    cells = [cell(0, 0.2), cell(1, 0.3)]
    assert consistent(plan, cells) == cells
    assert notes(plan, cells) == ("shares of partition 'p' are not fitted: they are about different rows",)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"unbiased": True}, {}])
def test_a_total_that_nobody_asked_for_is_made_of_unclamped_numbers(more):
    """1,000 and 1,500 empty cells at epsilon 0.05: their sum has a standard error of 894, and 10,000 if clamped."""
    keys = {"a": list(range(1000)), "b": list(range(1500))}
    queries = [{"name": f"by {each}", "kind": "count", "by": [each], **more} for each in keys]
    plan = asked(*queries, epsilon=0.1, objective="total", consistent=True, keys=keys)
    found = released(plan, dict.fromkeys(keys, pa.array([], pa.int64())))
    totals = [sum(cell.value for cell in found.cells if cell.question == index) for index in (0, 1)]
    assert totals[0] == totals[1]
    assert min(cell.value for cell in found.cells) >= 0.0
    assert not found.notes
    errors = [cell.epsilon for cell in found.cells]
    spread = max((2 * sum(each.question == index for each in found.cells)) ** 0.5 / min(errors) for index in (0, 1))
    assert (totals[0] < 6.5 * spread) is bool(more)  # the control: clamped numbers add up to far more


@pytest.mark.slow
def test_unclamped_numbers_are_fitted_in_a_gaussian_account_too():
    keys = {"a": list(range(40)), "b": list(range(30)), "c": list(range(20))}
    queries = [{"kind": "count", "by": [each]} for each in keys]
    queries += [{"kind": "count", "where": [{"column": "a", "is": "==", "value": at}]} for at in range(30)]
    plan = asked(*queries, epsilon=0.2, delta=1e-6, consistent=True, keys=keys)
    found = released(plan, {each: [1, 2, 3] for each in keys})
    check_certificate(found.certificate, found.to_bytes(), work=1e9)
    own = [[cell for cell in found.cells if cell.question == index] for index in range(3)]
    assert all(cell.mu for cells in own for cell in cells)
    assert len({sum(cell.value for cell in cells) for cells in own}) == 1
    assert min(cell.draws[0] for cells in own for cell in cells) < 0.0 <= min(c.value for cells in own for c in cells)
