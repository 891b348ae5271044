"""The check-list of a release accepts what is built of this tree, and refuses what is broken on purpose."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import rangebound as rb
from tests import release_check as check

BUILD = "import sys; from setuptools import build_meta as b; print(getattr(b, 'build_' + sys.argv[1])(sys.argv[2]))"
IN_GIT = pytest.mark.skipif(
    not (check.ROOT / ".git").exists() or shutil.which("git") is None,
    reason="no clone, or no git: nothing says which files belong to it",
)
TODAY = datetime.date(2026, 11, 17)
CHANGES = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-11-17\n\n- A change.\n\n## [1.2.2]\n"
CITATION = "version: 1.2.3\ndate-released: 2026-11-17\n"
PAGE = "  version = {1.2.3},\n  year    = {2026},\n"


def build(kind: str, source: Path, into: Path, kernel: str = "none") -> Path:
    """A distribution, by the build backend that pip would call."""
    environment = os.environ | {"RANGEBOUND_KERNEL": kernel}
    call = [sys.executable, "-c", BUILD, kind, str(into)]
    result = subprocess.run(call, cwd=source, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return into / result.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the files of the repository, with something that does not belong to it."""
    folder = tmp_path_factory.mktemp("tree")
    for name in check.tracked():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(check.ROOT / name, folder / name)
    (folder / "src/rangebound/sampling/_kernel.abi3.so").write_bytes(b"compiled on another machine")
    (folder / "out").mkdir()
    (folder / "out/report.html").touch()
    return folder


@IN_GIT
@pytest.mark.slow
def test_distributions_have_the_right_files_and_tags(tree: Path, tmp_path: Path) -> None:
    """The wheels are built from the source distribution, as pip does where it finds no wheel."""
    sdist = build("sdist", tree, tmp_path)
    assert check.sdist_faults(sdist, check.tracked()) == []
    assert check.sdist_faults(sdist, check.tracked() | {"docs/new.md"}) == [f"{sdist.name}: lacks docs/new.md"]
    assert check.sdist_faults(sdist, check.tracked() - {"Makefile"}) == [f"{sdist.name}: has Makefile"]
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    pure = build("wheel", source, tmp_path)
    assert pure.name == f"rangebound-{check.version()}-py3-none-any.whl"
    assert check.wheel_faults(pure, check.tracked()) == []

    # Everything that the package needs is in it: the README's lines run on it, with no program in reach.
    with zipfile.ZipFile(pure) as archive:
        archive.extractall(tmp_path / "installed")
    environment = check.without_compiler() | {"PYTHONPATH": str(tmp_path / "installed")}
    lines = f"{check.ten_lines()}\nassert rb.__file__.startswith({str(tmp_path)!r})"
    call = [sys.executable, "-c", lines]
    result = subprocess.run(call, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("no compiled kernel") == 1

    # Controls: what is added to a wheel, or lacks in it, is named.
    broken = tmp_path / "broken" / pure.name
    broken.parent.mkdir()
    with zipfile.ZipFile(pure) as good, zipfile.ZipFile(broken, "w") as bad:
        for name in good.namelist():
            if name != "rangebound/py.typed":
                bad.writestr(name, good.read(name))
        bad.writestr("rangebound/sampling/_kernel.abi3.so", b"")
        bad.writestr("tests/test_a.py", b"")
    said = "\n".join(check.wheel_faults(broken, check.tracked()))
    for each in ("has kernels, and its tag", "lacks rangebound/py.typed", "has tests/test_a.py"):
        assert each in said
    compiled = broken.with_name(pure.name.replace("py3-none-any", "cp311-abi3-linux_x86_64"))
    broken.rename(compiled)
    assert "has the kernels ['rangebound/sampling/_kernel']" in "\n".join(check.wheel_faults(compiled, check.tracked()))


@IN_GIT
@pytest.mark.long
@pytest.mark.skipif(sysconfig.get_config_var("Py_GIL_DISABLED") == 1, reason="no limited API")
@pytest.mark.parametrize("kernel", ["required", "none"])
def test_a_fresh_environment_with_the_wheel_and_no_compiler_runs_the_readme(
    kernel: str, tree: Path, tmp_path: Path
) -> None:
    wheel = build("wheel", tree, tmp_path, kernel)
    assert ("-cp311-abi3-" if kernel == "required" else "-py3-none-any") in wheel.name
    assert check.wheel_faults(wheel, check.tracked()) == []
    assert check.fresh_faults(wheel) == []


@pytest.mark.slow
def test_without_a_compiler_a_kernel_that_is_required_is_an_error(tmp_path: Path) -> None:
    """As the published wheels are built; by default it is left out. An unknown word is refused."""
    call = [sys.executable, "setup.py", "-q", "build_ext", "-b", str(tmp_path), "-t", str(tmp_path)]
    for kernel, code in {"required": 1, "optional": 0, "requird": 1}.items():
        environment = os.environ | {"RANGEBOUND_KERNEL": kernel, "CC": "/nonexistent/cc"}
        result = subprocess.run(call, cwd=check.ROOT, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == code, result.stderr
    assert "RANGEBOUND_KERNEL=requird: must be optional, required or none" in result.stderr


def test_a_release_has_one_version_and_a_date() -> None:
    assert check.version_faults("1.2.3", CHANGES, CITATION, PAGE, TODAY) == []
    assert check.unreleased_faults(CHANGES) == []


def test_every_text_of_this_tree_states_the_version_of_the_code() -> None:
    """Changes may be unreleased meanwhile; what is released has one version and one date."""
    assert check.version() == rb.__version__
    assert check.version_faults(check.version(), *check.version_texts(), datetime.date.max) == []


@pytest.mark.parametrize(
    ("released", "changes", "citation", "page", "said"),
    [
        ("1.2.3.dev1", CHANGES, CITATION, PAGE, "is not that of a release"),
        ("1.2.4", CHANGES, CITATION, PAGE, "the newest section is not [1.2.4]"),
        ("1.2.3", CHANGES.replace(" - 2026-11-17", ""), CITATION, PAGE, "has no date"),
        ("1.2.3", CHANGES.replace("11-17", "11-18"), CITATION, PAGE, "has a date that has not come"),
        ("1.2.3", CHANGES, CITATION.replace("1.2.3", "1.2.2"), PAGE, "has no line 'version: 1.2.3'"),
        ("1.2.3", CHANGES, CITATION.replace("-17", "-16"), PAGE, "has no line 'date-released: 2026-11-17'"),
        ("1.2.3", CHANGES, CITATION, PAGE.replace("1.2.3", "1.2.2"), "has no field 'version = {1.2.3}'"),
        ("1.2.3", CHANGES, CITATION, PAGE.replace("2026", "2025"), "has no field 'year    = {2026}'"),
    ],
)
def test_a_release_without_them_is_refused(released: str, changes: str, citation: str, page: str, said: str) -> None:
    assert said in "\n".join(check.version_faults(released, changes, citation, page, TODAY))


def test_a_release_with_unreleased_lines_is_refused() -> None:
    assert "lines under [Unreleased]" in "\n".join(check.unreleased_faults(CHANGES.replace("d]\n", "d]\n\n- New.\n")))


@IN_GIT
def test_links_lead_somewhere() -> None:
    assert check.all_links() == []
    assert check.link_faults("README.md", "[a](docs/no.md) [b](https://example.org)") == [
        "README.md: links to docs/no.md, which does not exist"
    ]
