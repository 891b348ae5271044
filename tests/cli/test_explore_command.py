"""`rangebound explore`: it says where the page is, and what is wrong in a line."""

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from rangebound.cli.app import run


def test_a_browser_is_opened_unless_one_says_otherwise(monkeypatch, capsys):
    import webbrowser

    from rangebound.web.explorer import page_server

    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(page_server, "explore", lambda plan, port, ready: ready("http://127.0.0.1:1/token/"))
    assert run(["explore"]) == 0
    assert opened == ["http://127.0.0.1:1/token/"]
    assert run(["explore", "--no-browser"]) == 0
    assert len(opened) == 1
    assert capsys.readouterr().out.count("exploring at http://127.0.0.1:1/token/") == 2


def test_mistakes_are_one_line(tmp_path, refused):
    (tmp_path / "plan.toml").write_text("budget = 1")
    assert "budget" in refused("explore", tmp_path / "plan.toml")
    assert "cannot be read" in refused("explore", tmp_path / "missing.toml")
    assert "--port" in refused("explore", "--port", "99999")
