"""The list of pages for programs that read the documentation: llms.txt, one line for each page, as Markdown."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from website.navigation import leaves, parts


def listing(settings: str, pages: Path) -> str:
    """The project in a sentence, and each page of the navigation with its first sentence."""
    project = tomllib.loads(settings)["project"]
    lines = [f"# {project['site_name']}", "", f"> {project['site_description']}", ""]
    for part in parts(settings):
        for title, inside in part.items():
            lines += ["", f"## {title}", ""]
            lines += [line(name, file, pages) for name, file in leaves(title, inside)]
    return "\n".join([*lines, ""])


def line(title: str, file: str, pages: Path) -> str:
    """A page as a line: its title, its address, and its first sentence."""
    page = (pages / file).read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.DOTALL | re.MULTILINE)
    first = next(
        (part for part in re.split(r"\n\n+", prose.strip()) if part[:1] not in "#|!<{" and "·" not in part), ""
    )
    sentence = re.split(r"(?<=[.?]) ", " ".join(first.split()))[0]
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence).replace("**", "").rstrip(":")
    return f"- [{title}]({file}): {plain}"
