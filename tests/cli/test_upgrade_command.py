import pytest

from rangebound.cli.app import run
from rangebound.release import read_plan

OLD = """budget = {epsilon = 1.0}
[[query]]
name = "late"
kind = "count"
where = 'region == "north" and not missing(wait)'  # of known wait
"""
NEW = OLD.replace("""'region == "north" and not missing(wait)'""", '''"region = 'north' AND wait IS NOT NULL"''')


@pytest.fixture
def plan(tmp_path):
    file = tmp_path / "plan.toml"
    file.write_text(OLD, encoding="utf-8")
    file.chmod(0o640)
    return file


def test_the_changes_are_shown_and_nothing_is_written(plan, capfd):
    assert run(["plan", "upgrade", str(plan)]) == 0
    out, err = capfd.readouterr()
    assert "+where = \"region = 'north' AND wait IS NOT NULL\"  # of known wait\n" in out
    assert "nothing was written" in err
    assert plan.read_text(encoding="utf-8") == OLD


def test_the_plan_is_written_in_place_once(plan, capfd):
    assert run(["plan", "upgrade", str(plan), "--write"]) == 0
    assert plan.read_text(encoding="utf-8") == NEW
    assert plan.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in plan.parent.iterdir()] == ["plan.toml"]
    assert read_plan(plan).query[0].where[0].value == "north"  # without a warning
    assert run(["plan", "upgrade", str(plan), "--write"]) == 0
    assert "in SQL already; nothing to change" in capfd.readouterr().out


def test_a_link_to_a_plan_stays_one(plan, tmp_path):
    link = tmp_path / "link.toml"
    link.symlink_to(plan)
    assert run(["plan", "upgrade", str(link), "--write"]) == 0
    assert link.is_symlink()
    assert plan.read_text(encoding="utf-8") == NEW


def test_a_new_file_never_replaces_one(plan, tmp_path, capfd):
    new = tmp_path / "new.toml"
    assert run(["plan", "upgrade", str(plan), "-o", str(new)]) == 0
    assert new.read_text(encoding="utf-8") == NEW
    assert run(["plan", "upgrade", str(plan), "-o", str(new)]) == 2
    assert "exists already" in capfd.readouterr().err
    assert run(["plan", "upgrade", str(plan), "-o", str(new), "--write"]) == 2
    assert "leave one of the two out" in capfd.readouterr().err


def test_a_file_that_is_no_plan_is_refused(tmp_path, capfd):
    assert run(["plan", "upgrade", str(tmp_path / "none.toml")]) == 2
    (tmp_path / "broken.toml").write_text("budget = ", encoding="utf-8")
    assert run(["plan", "upgrade", str(tmp_path / "broken.toml"), "--write"]) == 2
    assert "not valid TOML" in capfd.readouterr().err
