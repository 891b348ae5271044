"""Build the site of the documentation in out/site: `python -m website [--quick] [--into FOLDER]`."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rangebound.release import field_table
from website import formulas, llms, navigation, notebooks, reference, versions

ROOT = Path(__file__).resolve().parents[1]
DOCS, OUT = ROOT / "docs", ROOT / "out"
PAGES, SITE, SETTINGS = OUT / "pages", OUT / "site", OUT / "zensical.toml"
FORMULAS = {"numerics.md", "theory.md"}
NO_GUIDES = {"api.md", "benchmarks.md", "comparison.md", "install.md"}


def stage(*, quick: bool, versioned: bool) -> list[str]:
    """Write all pages and the settings below out/: those of docs/, and those made from the code; what does not fit."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(DOCS, PAGES, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    for folder in ("papers", "benchmarks/results"):  # beside docs/ in the repository, below it on the site
        shutil.copytree(ROOT / folder, PAGES / folder, ignore=shutil.ignore_patterns("*.py", "*.json", "__pycache__"))
    for page in PAGES.rglob("*.md"):
        text = re.sub(r"\]\(\.\./(papers/|benchmarks/)", r"](\1", page.read_text(encoding="utf-8"))
        text = re.sub(r"\]\(((?:\.\./)+)docs/", r"](\1", text)
        page.write_text(formulas.typeset(text) if page.name in FORMULAS else text, encoding="utf-8")
    if (OUT / "page" / "index.html").exists():
        shutil.copytree(OUT / "page", PAGES / "verifier", dirs_exist_ok=True)
    listed = (DOCS / "api.md").read_text(encoding="utf-8")
    names = reference.entries(listed)
    (PAGES / "api.md").write_text(reference.contents(listed, names), encoding="utf-8")
    (PAGES / "api").mkdir()
    for file, text in reference.pages(names, guides()):
        (PAGES / file).write_text(text, encoding="utf-8")
    for notebook in notebooks.found():
        notebooks.write(notebook, PAGES / "gallery", run=not quick)
    (PAGES / "plan.md").write_text(with_fields((DOCS / "plan.md").read_text("utf-8")), encoding="utf-8")
    (PAGES / "gallery.md").write_text(notebooks.linked((DOCS / "gallery.md").read_text("utf-8")), encoding="utf-8")
    text = navigation.settings((ROOT / "zensical.toml").read_text(encoding="utf-8"), names)
    SETTINGS.write_text(text + (versions.SETTING if versioned else ""), encoding="utf-8")
    misfits = navigation.misfits(text, PAGES)
    if not misfits:
        (PAGES / "llms.txt").write_text(llms.listing(text, PAGES), encoding="utf-8")
    return misfits


def with_fields(page: str) -> str:
    """The page of plans, with the table of all fields, which is made from the code, as its end."""
    before, mark, _ = page.partition("## Every field\n")
    assert mark
    return before + field_table()


def guides() -> dict[str, str]:
    """The pages that show how names are used, by their files."""
    found = {path.name: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
    return {file: text for file, text in found.items() if file not in NO_GUIDES}


def build() -> int:
    """Build the site from the pages; a link that leads nowhere is an error."""
    shutil.rmtree(SITE, ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "--config-file", str(SETTINGS)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"}, check=False)
    if done.returncode:
        print(done.stdout + done.stderr, file=sys.stderr)
        return done.returncode
    (SITE / "404.html").unlink()  # its addresses begin at the root of a server, which is rarely where a site lies
    for page in PAGES.rglob("*.md"):  # what llms.txt lists
        shutil.copy(page, SITE / page.relative_to(PAGES))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="show the notebooks without their output")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="also put the site beside those of other versions")
    options = parser.parse_args()
    misfits = stage(quick=options.quick, versioned=options.into is not None)
    if misfits:
        print("\n".join(misfits), file=sys.stderr)
        return 1
    status = build()
    if not status and options.into:
        versions.publish(SITE, options.into)
    return status


if __name__ == "__main__":
    sys.exit(main())
