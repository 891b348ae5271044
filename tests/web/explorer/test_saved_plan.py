"""A plan is written back whole or not at all, and never over what somebody else wrote."""

import os
import stat
from pathlib import Path

import pytest

from rangebound.errors import ArgumentError
from rangebound.web.explorer.saved_plan import read_text, save_plan


@pytest.fixture
def file(tmp_path):
    found = tmp_path / "plan.toml"
    found.write_bytes(b"# ours\nepsilon = 1\n")
    return found


def test_the_file_has_the_new_text_and_nothing_else_is_left(file):
    file.chmod(0o640)
    save_plan(file, "# ours\r\nepsilon = 2\n", opened="# ours\nepsilon = 1\n")
    assert file.read_bytes() == b"# ours\nepsilon = 2\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [each.name for each in file.parent.iterdir()] == ["plan.toml"]


def test_a_file_that_has_changed_is_left_alone(file):
    file.write_text("# theirs\n")
    with pytest.raises(ArgumentError, match=r"plan\.toml: has changed since this page read it"):
        save_plan(file, "# new\n", opened="# ours\nepsilon = 1\n")
    assert file.read_text() == "# theirs\n"
    save_plan(file, "# new\n", opened="# theirs\n")  # the control
    assert file.read_text() == "# new\n"


def test_line_ends_and_links_stay(file, tmp_path):
    file.write_bytes(b"# ours\r\nepsilon = 1\r\n")
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    opened = read_text(link)
    assert opened == "# ours\nepsilon = 1\n"
    save_plan(link, "# ours\r\nepsilon = 2\n", opened=opened)  # a carriage return more would be no TOML
    assert link.is_symlink()
    assert file.read_bytes() == b"# ours\r\nepsilon = 2\r\n"


def test_a_write_that_fails_leaves_the_old_file(file, monkeypatch):
    def fails(*_):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(ArgumentError, match=r"cannot be saved \(no space left\)"):
        save_plan(file, "# new\n", opened=read_text(file))
    assert file.read_text() == "# ours\nepsilon = 1\n"
    assert [each.name for each in file.parent.iterdir()] == ["plan.toml"]


def test_a_file_that_is_gone_or_no_text_is_refused(file, tmp_path):
    with pytest.raises(ArgumentError, match="cannot be saved"):
        save_plan(tmp_path / "gone.toml", "new", opened="old")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ArgumentError, match="cannot be saved"):
        save_plan(file, "new", opened="old")
    assert file.read_bytes() == b"\xff\xfe"


def test_a_file_is_opened_for_writing_before_it_is_replaced(file, monkeypatch):
    """Its folder would let another file take its place. Also where root runs the tests, to whom no file is closed."""
    own = Path.open

    def opened(path, mode="r", *rest, **named):
        if "+" in mode or "w" in mode:
            raise PermissionError(13, "Permission denied")
        return own(path, mode, *rest, **named)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(ArgumentError, match=r"cannot be saved \(.*Permission denied"):
        save_plan(file, "# new\n", opened="# ours\nepsilon = 1\n")
    assert file.read_text() == "# ours\nepsilon = 1\n"
