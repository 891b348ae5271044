"""Sites of several versions in one folder: each in a folder of its own, with a list that the pages show as a menu."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import rangebound

SETTING = '\n[project.extra.version]\nprovider = "mike"\n'
"""What makes the pages look for the list of versions, beside the folder of their own version."""


def publish(site: Path, folder: Path, version: str = rangebound.__version__) -> None:
    """Put a site into the folder under its minor version; the start page of the folder leads to the newest one."""
    name = ".".join(version.split(".")[:2])
    shutil.rmtree(folder / name, ignore_errors=True)
    shutil.copytree(site, folder / name)
    found = sorted((each.parent.name for each in folder.glob("*/index.html")), key=numbers, reverse=True)
    listed = [{"version": each, "title": each, "aliases": ["latest"] * (each == found[0])} for each in found]
    (folder / "versions.json").write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
    start = f'<meta http-equiv="refresh" content="0; url={found[0]}/index.html">'
    (folder / "index.html").write_text(f"<!doctype html>\n<title>rangebound</title>\n{start}\n", encoding="utf-8")


def numbers(version: str) -> list[int]:
    """A version as numbers, by which it is ordered."""
    return [int(part) for part in version.split(".")]
