"""The navigation of the site: the pages that the settings name, and those that are made from the code."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from website.reference import Entry

Part = dict[str, "str | list[str | Part]"]
Page = tuple[str, str]
NAMES = re.compile(r"^( *)# one page for each name\n", re.MULTILINE)
UNLISTED = "benchmarks/", "decisions/", "papers/"  # for those who change the library: linked, and in no menu


def settings(text: str, names: list[Entry]) -> str:
    """The settings, with a page for each name at their mark."""
    return NAMES.sub(lambda mark: "".join(f"{mark[1]}{line},\n" for line in by_group(names)), text)


def by_group(names: list[Entry]) -> Iterator[str]:
    """Yield the names of each group as a part of the navigation."""
    for group in dict.fromkeys(each.group for each in names):
        inside = [f'{{"{each.name.rpartition(".")[2]}" = "{each.file}"}}' for each in names if each.group == group]
        yield f'{{"{group}" = [{", ".join(inside)}]}}'


def parts(text: str) -> list[Part]:
    """The parts of the navigation in the settings."""
    found: list[Part] = tomllib.loads(text)["project"]["nav"]
    return found


def leaves(title: str, inside: str | list[str | Part]) -> Iterator[Page]:
    """Yield the title and the file of every page of a part; a page without a title has that of its part."""
    if isinstance(inside, str):
        yield title, inside
        return
    for each in inside:
        for name, below in [(title, each)] if isinstance(each, str) else each.items():
            yield from leaves(name, below)


def misfits(text: str, pages: Path) -> list[str]:
    """Pages that the settings name and that do not exist, and pages that they do not name."""
    named = [file for part in parts(text) for title, inside in part.items() for _, file in leaves(title, inside)]
    there = {str(path.relative_to(pages)) for path in pages.rglob("*.md")}
    there = {each for each in there if not each.startswith(UNLISTED)}
    missing = [f"{file}: named in zensical.toml, and does not exist" for file in sorted(set(named) - there)]
    return missing + [f"{file}: a page that zensical.toml does not name" for file in sorted(there - set(named))]
