"""Run the scripts of the papers and write papers/README.md: `python -m papers [KEY or KEY/NAME ...]`."""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import re
import sys
import time
from pathlib import Path
from types import ModuleType

from papers.report import Row, Verdict

ROOT = Path(__file__).resolve().parents[1]
PAPERS, PAGE = ROOT / "papers", ROOT / "papers" / "README.md"
ENTRY = re.compile(r"^@\w+\{(?P<key>[^,\s]+),(?P<body>.*?)^\}", re.DOTALL | re.MULTILINE)

INTRO = """# The papers, reproduced

The library builds on five papers. This page reproduces their figures, their tables, and every statement of theirs \
that can be computed, with the library as it is. The scripts are in this folder; `make papers` runs them again and \
writes this page. Statements that turn out to be false or loose are discussed in the [errata](errata.md). \
After the reproductions of each paper stands a table with every numbered statement of it, and the test or script that \
checks it.
"""


def scripts(names: list[str] | None = None) -> list[Path]:
    """The scripts, all of them or those named."""
    found = sorted(path for path in PAPERS.glob("*/*.py") if not path.name.startswith("_"))
    if not names:
        return found
    chosen = [path for path in found if path.parent.name in names or f"{path.parent.name}/{path.stem}" in names]
    if not chosen:
        sys.exit(
            f"error: {' '.join(names)}: no such paper; there are {', '.join(sorted({p.parent.name for p in found}))}"
        )
    return chosen


def load(path: Path) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(f"papers.{path.parent.name}.{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(path: Path) -> float:
    """Run one script, keep its rows beside it, and return how long it took."""
    os.environ["MPLBACKEND"] = "Agg"
    name, start = f"{path.parent.name}/{path.stem}", time.monotonic()

    def progress(text: str) -> None:
        print(f"{name}: {text} ({time.monotonic() - start:.0f} s)", flush=True)

    rows = load(path).run(progress)
    kept = [{**vars(row), "verdict": row.verdict.value} for row in rows]
    path.with_suffix(".json").write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return time.monotonic() - start


def rows_of(path: Path) -> list[Row]:
    """The rows that a script found when it last ran."""
    kept = path.with_suffix(".json")
    if not kept.exists():
        return []
    return [Row(**{**row, "verdict": Verdict(row["verdict"])}) for row in json.loads(kept.read_text(encoding="utf-8"))]


def titles() -> dict[str, str]:
    """Authors' words for each paper, from the bibliography."""
    found = {}
    for match in ENTRY.finditer((ROOT / "references.bib").read_text(encoding="utf-8")):
        title = re.search(r"^\s*title\s*=\s*\{(.*)\},$", match["body"], re.MULTILINE)
        if title:
            found[match["key"]] = re.sub(r"[{}]", "", title[1])
    return found


def statements(key: str) -> str:
    """The table of every numbered statement of a paper: what it says, what checks it here, and the verdict."""
    table = [f"### Every numbered statement of {key}\n", "| statement | says | checked by | verdict |"]
    table.append("| --- | --- | --- | --- |")
    for row in json.loads((PAPERS / "statements.json").read_text(encoding="utf-8"))[key]:
        verdict = re.sub(rf"{key}-[a-z0-9-]+", r"[\g<0>](errata.md#\g<0>)", row["verdict"])
        table.append(f"| {row['where']} | {row['says']} | `{row['checked']}` | {verdict} |")
    return "\n".join(table) + "\n"


def page() -> str:
    """The page, from the rows and pictures as they are."""
    parts, names, last = [INTRO], titles(), ""
    for path in scripts():
        key, module = path.parent.name, load(path)
        if key != last:
            parts += [statements(last)] if last else []
            parts.append(f"## {key}: {names.get(key, key)}\n")
            last = key
        title, _, text = (module.__doc__ or "").strip().partition("\n")
        parts.append(f"### {title.rstrip('.')}\n")
        if text.strip():
            parts.append(re.sub(r"[ \t]*\n[ \t]*(?=\S)", " ", text.strip()).replace("\n ", "\n\n") + "\n")
        if hasattr(module, "notes"):
            parts.append(module.notes() + "\n")
        cells = [(row.where, row.published, row.ours, row.verdict.value) for row in rows_of(path)]
        table = ["| where | published | ours | verdict |", "| --- | --- | --- | --- |"]
        table += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in cells]
        parts.append("\n".join(table) + "\n")
        for picture, caption in module.FIGURES.items():
            parts.append(f"![{caption}]({key}/{picture})\n\n*{caption}*\n")
    return "\n".join([*parts, statements(last)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="papers or scripts to run; all if none")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    asked = parser.parse_args()
    chosen, start = scripts(asked.names), time.monotonic()
    print(f"{len(chosen)} scripts, {asked.jobs} at a time", flush=True)
    with concurrent.futures.ProcessPoolExecutor(asked.jobs) as pool:
        waiting = {pool.submit(run, path): path for path in chosen}
        for done, future in enumerate(concurrent.futures.as_completed(waiting), 1):
            path, seconds = waiting[future], future.result()
            verdicts = [row.verdict for row in rows_of(path)]
            counts = ", ".join(f"{verdicts.count(each)} {each.value}" for each in Verdict if each in verdicts)
            print(f"[{done}/{len(chosen)}] {path.parent.name}/{path.stem}: {counts} in {seconds:.0f} s", flush=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} written after {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
