"""Errors in the worst case and on average, against scans and sums; those at one answer are in tests/crosscheck."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rangebound as rb
from rangebound.errors import RangeboundError
from tests.crosscheck.compare import agree
from tests.matrix.cells import ALLOWED, Cell, quick_cells

INF = math.inf
NAMES = ("bias", "mae", "mse")
BOUNDED = [cell for cell in ALLOWED if cell.range in ("equal", "smaller", "larger") and cell.support != "open_union"]
BOUNDED = [cell for cell in BOUNDED if cell.mechanism().query.range.bounded]


@pytest.mark.few(8)
@quick_cells(BOUNDED)
def test_the_worst_error_is_the_largest(cell: Cell) -> None:
    mechanism = cell.mechanism()
    worst = mechanism.worst_error()
    scan = mechanism.error(np.concatenate([np.linspace(a, b, 401) for a, b in mechanism.query.range.spans]))
    assert worst.bias == pytest.approx(np.abs(scan.bias).max(), rel=1e-3, abs=1e-12)
    assert worst.mae == pytest.approx(scan.mae.max(), rel=1e-3)
    assert worst.mse == pytest.approx(scan.mse.max(), rel=1e-3)
    for name in NAMES:
        assert getattr(worst, name) >= np.abs(getattr(scan, name)).max() * (1.0 - 1e-9) - 1e-12


@pytest.mark.few(8)
@quick_cells(BOUNDED)
def test_the_average_error_is_the_integral(cell: Cell) -> None:
    mechanism = cell.mechanism()
    average, true = mechanism.average_error(), integral(mechanism, 300)
    for name in NAMES:
        # the average of an absolute bias has a kink where the bias changes its sign
        assert getattr(average, name) == pytest.approx(true[name], rel=2e-3 if name == "bias" else 1e-4)


def integral(mechanism: rb.Mechanism, panels: int) -> dict[str, float]:
    nodes, weights = np.polynomial.legendre.leggauss(6)
    total, length = dict.fromkeys(NAMES, 0.0), 0.0
    for a, b in mechanism.query.range.spans:
        edges = np.linspace(a, b, panels + 1)
        half = 0.5 * np.diff(edges)
        at = ((edges[:-1] + half)[:, None] + half[:, None] * nodes).reshape(-1)
        weight = (half[:, None] * weights).reshape(-1)
        errors = mechanism.error(at)
        for name in NAMES:
            total[name] += float(weight @ np.abs(getattr(errors, name)))
        length += b - a
    return {name: value / length for name, value in total.items()}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("support", "bounding"),
    [
        (rb.Grid(step=10.0, within=rb.Interval(0, 400)), rb.TRUNCATE),
        (rb.Grid(step=10.0, within=rb.Interval(0, 400)), rb.QUANTIZE),
        (rb.Union(*((80.0 * i, 80.0 * i + 40.0) for i in range(5))), rb.TRUNCATE),
    ],
    ids=["grid", "rounded", "union"],
)
def test_errors_that_rise_and_fall_many_times_over_the_range(support: object, bounding: object) -> None:
    """A range of hundreds of scales with ripples all over: none is passed over, on average or in the worst case."""
    query = rb.Query(range=rb.Interval(0, 400), sensitivity=1.0)
    mechanism = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query, support=support, bounding=bounding)
    average, true = mechanism.average_error(), integral(mechanism, 800)
    worst, scan = mechanism.worst_error(), mechanism.error(np.linspace(0.0, 400.0, 4001))
    for name in NAMES:
        assert getattr(average, name) == pytest.approx(true[name], rel=1e-3), name
        assert getattr(worst, name) >= np.abs(getattr(scan, name)).max() * (1.0 - 1e-6), name


def test_errors_over_an_endless_range_are_at_its_end_or_far_away_and_infinite_without_a_limit() -> None:
    query = rb.Query(range=rb.Interval(-INF, INF), sensitivity=1.0)
    clamped = rb.Mechanism(
        noise=rb.Laplace(scale=1.0), query=query, support=rb.Interval(0, 1), bounding=rb.RECTIFY
    ).worst_error()
    assert (clamped.bias, clamped.mae, clamped.mse) == (INF, INF, INF)
    free = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query, bounding=rb.UNBOUNDED).worst_error()
    assert free.mae == pytest.approx(2.0, rel=1e-9)
    assert free.mse == pytest.approx(8.0, rel=1e-9)
    assert free.bias == pytest.approx(0.0, abs=1e-9)
    query = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
    half = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=query)
    assert half.worst_error().bias == pytest.approx(2.0, rel=1e-9)
    assert half.worst_error().mse == pytest.approx(8.0, rel=1e-9)
    with pytest.raises(RangeboundError, match="bounded"):
        half.average_error()


@pytest.mark.slow
def test_the_average_over_many_spans_takes_memory_that_follows_their_widths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 52 narrow spans had 480 places of quadrature for each of 26,000 answers: 25 s and 800 MB at a time."""
    from rangebound.laws import distribution as law_moments

    sizes, logs = [], law_moments.log_sum
    monkeypatch.setattr(law_moments, "log_sum", lambda weights: sizes.append(weights.size) or logs(weights))
    support = rb.Union(*((7.0 * k, 7.0 * k + 4.0) for k in range(52)))
    mechanism = rb.Mechanism(noise=rb.Laplace(scale=912.5), query=rb.Query(range=support, sensitivity=1.0))
    found = mechanism.average_error()
    assert max(sizes) < 12_000_000
    assert sum(sizes) < 20_000_000
    at = np.concatenate([np.linspace(low, high, 9) for low, high in support.spans])
    shares = np.tile([1.0, 4.0, 2.0, 4.0, 2.0, 4.0, 2.0, 4.0, 1.0], 52) / (52 * 24.0)
    agree(found.mae, float(shares @ [mechanism.error(x).mae for x in at]), rel=1e-7)
