"""The check-list of a release, run by `make release-check`: everything that can be checked before a tag is set.

A check returns what is wrong, a line each; nothing else decides. `make dist` has built what is checked here.
"""

from __future__ import annotations

import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterator
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
MADE_BY_SETUPTOOLS = {"PKG-INFO", "setup.cfg"}
KERNELS = {"rangebound/learn/_kernel", "rangebound/sampling/_kernel"}
BY_HAND = """\
by hand, once, in the settings of the repository: the environment `release`, which the package index trusts with the
workflow `wheels` (trusted publishing); Pages from the workflow `docs`; private reports of vulnerabilities, which
SECURITY.md names

by hand for each release, in this order:
  1. [project.urls] in pyproject.toml names the places of the project; links of the README are relative, so on the page
     of a package index they need one of these places before them
  2. make test-long, make test-lowest, make test-newest and make bench are green, on a quiet machine
  3. everything is pushed and its workflow `tests` is green
  4. git tag -s v{version}; git push origin v{version}: the workflow `wheels` builds, checks and publishes, and `docs`
     shows the pages of this version. If a check fails there, nothing is published: mend it and move the tag
  5. the published wheels: pip install rangebound=={version} in a fresh environment, and the README once more
  6. CHANGELOG.md gets a section [Unreleased] with the next change"""


def version() -> str:
    """The version of the source, which is not imported."""
    text = (ROOT / "src/rangebound/__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    assert found
    return found[1]


def version_texts() -> tuple[str, str, str]:
    """The texts that state the version: changelog, citation file, and the page about citing."""
    changelog, citation, page = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("CHANGELOG.md", "CITATION.cff", "docs/install.md")
    )
    return changelog, citation, page


def unreleased_faults(changelog: str) -> list[str]:
    """Nothing is left unreleased."""
    left = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if left and left[1].strip():
        return ["CHANGELOG.md: lines under [Unreleased] belong to the release, or to a later one"]
    return []


def version_faults(released: str, changelog: str, citation: str, page: str, today: datetime.date) -> list[str]:
    """One version everywhere, in a section of the changelog with a date that has come."""
    faults = []
    if not re.fullmatch(r"\d+\.\d+\.\d+", released):
        faults.append(f"version {released}: is not that of a release")
    sections = re.findall(r"^## \[(.*?)\](?: - (\S+))?$", changelog, re.MULTILINE)
    dated = [(name, date) for name, date in sections if name != "Unreleased"]
    if not dated or dated[0][0] != released:
        return [*faults, f"CHANGELOG.md: the newest section is not [{released}]"]
    try:
        date = datetime.date.fromisoformat(dated[0][1])
    except ValueError:
        return [*faults, f"CHANGELOG.md: [{released}] has no date"]
    if date > today:
        faults.append(f"CHANGELOG.md: [{released}] has a date that has not come")
    for line in (f"version: {released}", f"date-released: {date}"):
        if not re.search(rf"^{re.escape(line)}$", citation, re.MULTILINE):
            faults.append(f"CITATION.cff: has no line {line!r}")
    for field in (f"version = {{{released}}}", f"year    = {{{date.year}}}"):
        if field not in page:
            faults.append(f"docs/install.md: has no field {field!r}")
    return faults


def git(*words: str) -> list[str]:
    """The lines that a command of git prints."""
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def tracked() -> set[str]:
    """The files of the repository that are there."""
    return {name for name in git("ls-files") if (ROOT / name).exists()}


def tree_faults() -> list[str]:
    """No file that is changed or unknown."""
    return [f"not committed: {line}" for line in git("status", "--porcelain")]


def tag_faults() -> list[str]:
    """A tag of a version, where this commit has one, is that of this version."""
    tags = [name for name in git("tag", "--points-at", "HEAD") if re.match(r"v\d", name)]
    return [f"tag {name}: the version is {version()}" for name in tags if name != f"v{version()}"]


def sdist_faults(path: Path, wanted: set[str]) -> list[str]:
    """The source distribution has every file of the repository, and nothing else."""
    with tarfile.open(path) as archive:
        files = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    found = {name for name in files if ".egg-info/" not in name} - MADE_BY_SETUPTOOLS
    missing = [f"{path.name}: lacks {name}" for name in sorted(wanted - found)]
    return missing + [f"{path.name}: has {name}" for name in sorted(found - wanted)]


def wheel_faults(path: Path, packages: set[str]) -> list[str]:
    """The package as it is in the repository; both kernels and a tag of a platform, or neither; no C, no tests."""
    _, released, python, abi, platform = path.name.removesuffix(".whl").split("-")
    pure = (python, abi, platform) == ("py3", "none", "any")
    faults = []
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        folder = f"rangebound-{released}.dist-info"
        tags = Parser().parsestr(archive.read(f"{folder}/WHEEL").decode()).get_all("Tag") or []
    compiled = {name for name in names if name.endswith((".so", ".pyd"))}
    rooms = {name.partition(".")[0] for name in compiled}
    if pure and compiled:
        faults.append(f"{path.name}: has kernels, and its tag says that it runs everywhere")
    if not pure and rooms != KERNELS:
        faults.append(f"{path.name}: has the kernels {sorted(rooms)}")
    if not pure and abi == "abi3" and not all(".abi3." in name or name.endswith("_kernel.pyd") for name in compiled):
        faults.append(f"{path.name}: a kernel is for one version of Python alone")
    if not any(tag.startswith(f"{python}-{abi}-") for tag in tags):
        faults.append(f"{path.name}: is tagged {tags} inside")
    wanted = {name.removeprefix("src/") for name in packages if name.startswith("src/")}
    wanted = {name for name in wanted if not name.endswith((".c", ".h"))} | {f"{folder}/licenses/LICENSE"}
    faults += [f"{path.name}: lacks {name}" for name in sorted(wanted - names)]
    extra = {name for name in names - wanted - compiled if not name.startswith(f"{folder}/")}
    return faults + [f"{path.name}: has {name}" for name in sorted(extra)]


def abi3_faults(path: Path) -> list[str]:
    """What abi3audit finds in a wheel for many versions; it is looked for beside the interpreter of the release."""
    program = shutil.which("abi3audit", path=os.pathsep.join([str(ROOT / ".venv-release/bin"), os.environ["PATH"]]))
    if program is None:
        return ["abi3audit: not installed; make release-check installs it into .venv-release"]
    result = subprocess.run([program, "--strict", str(path)], capture_output=True, text=True, check=False)
    return [] if result.returncode == 0 else [f"abi3audit: {result.stdout}{result.stderr}"]


def ten_lines() -> str:
    """The first Python block of the README."""
    found = re.search(
        r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found
    return found[1]


def without_compiler() -> dict[str, str]:
    """The environment of this process, in which no program is found and no other rangebound."""
    left_out = {"CC", "PYTHONPATH", "VIRTUAL_ENV"}
    return {name: value for name, value in os.environ.items() if name not in left_out} | {"PATH": "/nonexistent"}


def fresh_faults(wheel: Path) -> list[str]:
    """The ten lines of the README, and the kernels, in a fresh environment with the wheel alone and no compiler."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
        pip = [
            python,
            "-m",
            "pip",
            "--disable-pip-version-check",
            "-qq",
            "install",
            "-c",
            str(ROOT / "constraints.txt"),
        ]
        calls = (
            [*pip, "--only-binary", ":all:", str(wheel)],
            [python, "-W", "error" if "none" not in wheel.name else "default", "-c", ten_lines()],
            [
                python,
                "-c",
                f"from rangebound.values.extras import *; assert has_kernel('sampling') is {'abi3' in wheel.name}",
            ],
        )
        for call in calls:
            result = subprocess.run(
                call, env=without_compiler(), cwd=folder, capture_output=True, text=True, check=False
            )
            if result.returncode:
                return [f"{wheel.name} in a fresh environment: {result.stderr.strip()[-500:]}"]
    return []


def link_faults(name: str, text: str) -> list[str]:
    """Links of a page to files that do not exist."""
    folder = (ROOT / name).parent
    targets = re.findall(r"\]\(([^)#\s]+)", text)
    paths = [target for target in targets if not re.match(r"[a-z]+:", target)]
    return [f"{name}: links to {path}, which does not exist" for path in paths if not (folder / path).exists()]


def all_links() -> list[str]:
    """The links of every page of the repository."""
    pages = [name for name in sorted(tracked()) if name.endswith(".md")]
    return [fault for name in pages for fault in link_faults(name, (ROOT / name).read_text(encoding="utf-8"))]


def distributions() -> tuple[Path | None, list[Path]]:
    """What `make dist` has built of this version: the source distribution, and the wheels."""
    source = DIST / f"rangebound-{version()}.tar.gz"
    return source if source.exists() else None, sorted(DIST.glob(f"rangebound-{version()}-*.whl"))


def dist_faults() -> list[str]:
    """The source distribution, a wheel for this platform and one for every other place, each with the right files."""
    source, wheels = distributions()
    if source is None:
        return ["dist: no source distribution of this version; run make dist"]
    faults = sdist_faults(source, tracked())
    for kind in ("-cp311-abi3-", "-py3-none-any"):
        if not any(kind in wheel.name for wheel in wheels):
            faults.append(f"dist: no wheel with {kind}")
    return faults + [fault for wheel in wheels for fault in wheel_faults(wheel, tracked())]


def urls() -> list[str]:
    """The places of the project that are filled in."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return list(tomllib.load(file)["project"].get("urls", {}).values())


def checks() -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """The check-list: what is checked, and how."""
    texts = version_texts()
    today = datetime.datetime.now(datetime.UTC).date()
    yield "one version, in a dated section of the changelog", lambda: version_faults(version(), *texts, today)
    yield "nothing unreleased in the changelog", lambda: unreleased_faults(texts[0])
    yield "the tag", tag_faults
    yield "nothing uncommitted", tree_faults
    yield "what is in the distributions", dist_faults
    yield "links between pages", all_links
    for wheel in distributions()[1]:
        if "abi3" in wheel.name:
            yield f"abi3audit of {wheel.name}", lambda wheel=wheel: abi3_faults(wheel)  # type: ignore[misc]
        if "abi3" in wheel.name or "none-any" in wheel.name:
            yield f"README in a fresh environment with {wheel.name}", lambda wheel=wheel: fresh_faults(wheel)  # type: ignore[misc]


def main() -> int:
    """Run the check-list; 1 where something is wrong."""
    wrong = 0
    for name, check in checks():
        faults = check()
        wrong += len(faults)
        print(f"{'ok   ' if not faults else 'WRONG'} {name}", flush=True)
        for fault in faults:
            print(f"      {fault}")
    print(f"\n{BY_HAND.format(version=version())}" + ("" if urls() else "\n     (1. is open: there are none)"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
