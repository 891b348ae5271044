"""Which noise: the page has the measured tables, and the noise of each kind is what the account asks for."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks import which_noise as w
from rangebound.privacy.gdp import largest_mu


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
    rows += [row for target in w.LOWER for row in found[f"digits, epsilon {target:g}"]]
    for row in rows:
        assert {"clip", "rate"} <= row["tried"].keys()
        assert ("width" in row["tried"]) == (row["noise"] in ("truncated", "rectified"))
        assert not at_an_edge(row)
    assert at_an_edge({**rows[0], "clip": rows[0]["tried"]["clip"][1]}) == ["clip"]  # the control


@pytest.mark.slow
def test_the_noise_is_that_of_a_closed_form() -> None:
    """Steps on all examples with Gaussian noise have the mu sqrt(steps coordinates)/multiplier."""
    mu = largest_mu(w.EPSILON, w.DELTA)
    assert w.calibrated("Euclidean", 0.0, 650, 100).multiplier == pytest.approx(math.sqrt(100) / mu, rel=2e-4)
    assert w.calibrated("elementwise", 0.0, 650, 100).multiplier == pytest.approx(math.sqrt(65000) / mu, rel=2e-4)
