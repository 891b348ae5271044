"""The steps of the workflow that keeps the sites of all versions, run by hand: a later version loses no earlier one."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from website import versions

yaml = pytest.importorskip("yaml")
WORKFLOW = Path(__file__).parents[2] / ".github/workflows/docs.yml"
pytestmark = pytest.mark.skipif(not (shutil.which("git") and shutil.which("bash")), reason="no git, or no bash")


def step(name: str) -> str:
    """The commands of a step of the job that adds a version."""
    steps = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"]["add"]["steps"]
    (found,) = [each["run"] for each in steps if each.get("name") == name]
    return str(found)


def run(commands: str, clone: Path, site: Path) -> int:
    environment = {**os.environ, "SITE": str(site), "GITHUB_REF_NAME": "v0.0.0"}
    call = ["bash", "-e", "-o", "pipefail", "-c", commands]  # as the service runs a step
    return subprocess.run(call, cwd=clone, env=environment, capture_output=True, check=False).returncode


def add(version: str, clone: Path, site: Path) -> int:
    """What the job does for a tag, in a fresh clone; the site itself is one page."""
    clone.mkdir()
    page = clone / "page"
    page.mkdir()
    (page / "index.html").write_text(version)
    assert run(step("Take the versions that are kept"), clone, site) == 0
    versions.publish(page, clone / "out/versions", version)
    return run(step("Keep them with this one"), clone, site)


def test_every_version_is_kept(tmp_path: Path) -> None:
    site = tmp_path / "site.git"
    subprocess.run(["git", "init", "-q", "--bare", str(site)], check=True)
    for version in ("0.9.0", "0.10.0", "0.9.1", "0.9.1"):
        assert add(version, tmp_path / f"clone {version} {len(list(tmp_path.iterdir()))}", site) == 0
    shown = tmp_path / "shown"
    subprocess.run(["git", "clone", "-q", "--branch", "site", str(site), str(shown)], check=True)
    assert [each["version"] for each in json.loads((shown / "versions.json").read_text())] == ["0.10", "0.9"]
    assert (shown / "0.9/index.html").read_text() == "0.9.1"
    assert (shown / "0.10/index.html").read_text() == "0.10.0"


def test_control_kept_versions_that_could_not_be_taken_are_not_overwritten(tmp_path: Path) -> None:
    site, first, late = tmp_path / "site.git", tmp_path / "first", tmp_path / "late"
    subprocess.run(["git", "init", "-q", "--bare", str(site)], check=True)
    assert add("0.9.0", first, site) == 0
    late.mkdir()
    assert run(step("Take the versions that are kept"), late, tmp_path / "unreachable") == 0
    (late / "out/versions/index.html").write_text("alone")
    assert run(step("Keep them with this one"), late, site) != 0
