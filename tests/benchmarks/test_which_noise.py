"""Which noise: the page has the measured tables, and the noise of each kind is what the account asks for."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from benchmarks import which_noise as w  # noqa: E402
from rangebound.gdp import largest_mu  # noqa: E402


def test_the_page_has_the_tables_of_the_results() -> None:
    text, found = w.PAGE.read_text(encoding="utf-8"), json.loads(w.RESULTS.read_text(encoding="utf-8"))
    assert w.page(text, found) == text
    found["digits"][0]["accuracy"] = 0.123
    assert w.page(text, found) != text  # the control


def at_an_edge(row: dict[str, Any]) -> list[str]:
    return [name for name, (least, most) in row["tried"].items() if not least < row[name] < most]


def test_no_tuned_value_is_at_an_edge_of_what_was_tried() -> None:
    found = json.loads(w.RESULTS.read_text(encoding="utf-8"))
    rows = [row for task in w.TASKS for row in found[task]]
    assert len(rows) == 3 * len(w.KINDS) + 4
    for row in rows:
        assert {"clip", "rate"} <= row["tried"].keys()
        assert ("width" in row["tried"]) == (row["noise"] in ("truncated", "rectified"))
        assert not at_an_edge(row)
    assert at_an_edge({**rows[0], "clip": rows[0]["tried"]["clip"][1]}) == ["clip"]  # the control


@pytest.mark.parametrize("top", [(0, 0, 0), (5, -7, 0), (-4, 6, 3)])
def test_the_search_ends_at_the_top_of_a_hill_with_all_neighbours_tried(top: w.Place) -> None:
    def height(place: w.Place) -> float:
        return -float(sum((a - b) ** 2 for a, b in zip(place, top, strict=True)))

    best, tried = w.climbed(height, wide=top[2] != 0)
    assert best == top
    assert set(w.around(best, wide=top[2] != 0)) <= tried.keys()
    assert w.climbed(lambda place: 0.0, wide=False)[0] in tried  # a plain ends, too


def test_the_noise_is_that_of_a_closed_form() -> None:
    """Steps on all examples with Gaussian noise have the mu sqrt(steps coordinates)/multiplier."""
    mu = largest_mu(w.EPSILON, w.DELTA)
    assert w.calibrated("Euclidean", 0.0, 650, 100).multiplier == pytest.approx(math.sqrt(100) / mu, rel=2e-4)
    assert w.calibrated("elementwise", 0.0, 650, 100).multiplier == pytest.approx(math.sqrt(65000) / mu, rel=2e-4)


def test_clipped_sums_are_those_of_single_examples() -> None:
    a, g = torch.randn(7, 3), torch.randn(7, 2)
    rows = a[:, :, None] * g[:, None, :]
    elementwise = w.Noise(kind="elementwise", width=0.0, multiplier=1.0)
    torch.testing.assert_close(w.shortened(a, g, elementwise, 0.3), rows.clamp(-0.3, 0.3).sum(0))
    euclidean = w.Noise(kind="Euclidean", width=0.0, multiplier=1.0)
    norms = rows.flatten(1).norm(dim=1)
    wanted = (rows * (0.3 / norms).clamp(max=1.0)[:, None, None]).sum(0)
    torch.testing.assert_close(w.shortened(a, g, euclidean, 0.3), wanted)


def test_a_training_without_much_noise_learns() -> None:
    task = w.signs(0, heavy=False, rows=400, features=5)
    quiet = w.Noise(kind="Euclidean", width=0.0, multiplier=1e-3)
    loud = w.Noise(kind="Euclidean", width=0.0, multiplier=1e4)
    assert w.trained(task, quiet, 2.0, 2.0, 0, 20) > 0.85
    assert w.trained(task, loud, 2.0, 2.0, 0, 20) < 0.8  # the control
