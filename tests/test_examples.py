"""The examples run."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_a_bounded_count(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    runpy.run_path(str(EXAMPLES / "bounded_count.py"))["main"](tmp_path)
    assert (tmp_path / "bounded_count.png").stat().st_size > 1000
    assert "rectify Laplace" in capsys.readouterr().out
