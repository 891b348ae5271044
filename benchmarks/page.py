"""The pages of the benchmarks, short and whole, made from their JSON files and from nothing else."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers import PEERS
from benchmarks.report import Row, number

BENCHMARKS = (
    "ranges",
    "least_error",
    "core",
    "sampling",
    "accounting",
    "risk",
    "ledger",
    "release",
    "postgres",
    "whole_tables",
    "learn",
    "estimators",
)

INTRO = """# All results of the benchmarks

`make bench` runs all of these measurements again. Each other library is installed in an environment of its own \
under `out/peers`, and this page is written from the files beside it. The bars were set before the \
code was written. A number in parentheses is ours divided by theirs; **bold** means that the other library is ahead \
by more than 1 percent. Some of the others offer no privacy (numpy, plain SQL, plain PyTorch, bare SQLite) and serve \
as a yardstick. Nothing here is a test: numbers depend on the machine, ratios less so.
"""


def cell(text: str) -> str:
    """A text that a table can hold."""
    return text.replace("|", "\\|").replace("\n", " ")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(cell(each) for each in row) + " |" for row in rows]) + "\n"


def placed(path: Path, module: str, text: str) -> None:
    """Put what a module made between its marks on a page."""
    begin, end = f"<!-- made by `python -m {module}` -->\n", "<!-- until here -->"
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    if not found:
        raise ValueError(f"{path.name}: has no line {begin.strip()}")
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


def beside(row: Row) -> Iterator[str]:
    """Each of the others: its number and ours over it, or why there is none."""
    for name, theirs in row.others.items():
        if isinstance(theirs, str):
            yield f"{name}: not measured ({theirs})"
        elif row.wrong(theirs):
            yield f"{name} {number(theirs)}: too small, so not true"
        else:
            text = f"{name} {number(theirs)} ({number(row.ratio(name), 2)})"
            yield f"**{text}**" if row.better(name) and not name.startswith("rangebound") else text


def said(row: Row) -> str:
    """The verdict, and what is noted beside it."""
    return ": ".join(each for each in (row.verdict, row.note) if each)


def facts(result: dict[str, Any]) -> str:
    """The day, the machine and the versions in one sentence."""
    machine = result.get("machine", {})
    day = datetime.date.fromisoformat(result["date"])
    where = [f"{machine['processor']}, {machine['cores']} cores", machine.get("memory", ""), machine["system"]]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return f"Measured on {day.day} {day:%B %Y}; {', '.join(each for each in where if each)}; {versions}."


def shown(x: Any) -> str:
    """A value of a JSON file."""
    if x is None or isinstance(x, bool):
        return {None: "", True: "yes", False: "no"}[x]
    return number(x) if isinstance(x, float | int) else str(x)


def plain(rows: list[dict[str, Any]]) -> str:
    """Rows of another shape, as they are."""
    head = tuple(dict.fromkeys(key for row in rows for key in row))
    return table(head, [tuple(shown(row.get(key, "")) for key in head) for row in rows])


def section(name: str, result: dict[str, Any] | None, common: str) -> str:
    """One benchmark: its rows, or what went wrong."""
    if result is None:
        return f"## {name}\n\n**Not run.** There is no `benchmarks/results/{name}.json`.\n"
    if "error" in result:
        return f"## {name}\n\n**Failed:** {cell(result['error'])}\n"
    if "title" not in result:
        head = f"## {name}: on an {result['device']}, torch {result['torch']}"
        note = [result["note"] + "\n"] if "note" in result else []
        return "\n".join((f"{head}\n", *note, plain(result["rows"])))
    parts = [f"## {result['title']}\n", result["text"] + "\n"]
    if result["quick"]:
        parts.append("**A quick run with small sizes: it shows that the benchmark works and says nothing of speed.**\n")
    setting = "; ".join(f"{key}: {shown(value)}" for key, value in result["setting"].items())
    lines = [] if facts(result) == common else [facts(result)]
    lines += [f"{setting[0].upper()}{setting[1:]}."] if setting else []
    if result["load"] > result["machine"]["cores"]:
        lines.append(f"The machine was busy with other work (load {result['load']}), so times are too long.")
    parts += [" ".join(lines) + "\n"] if lines else []
    cells = [
        (row.what, shown_of(row), "<br>".join(beside(row)), row.limit, said(row))
        for row in (Row(**each) for each in result["rows"])
    ]
    parts.append(table(("what", "rangebound", "others", "bar", ""), cells))
    return "\n".join(parts)


def load(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def rows_of(results: list[dict[str, Any] | None]) -> list[Row]:
    """The rows of all benchmarks that ran."""
    return [Row(**row) for result in results if result and "title" in result for row in result["rows"]]


def peer_of(name: str) -> str:
    """The library that a name in a row begins with; empty for a yardstick, which protects nobody."""
    first = re.split(r"[ ,]", name.lower())[0]
    return first if first in PEERS else ""


def summary(rows: list[Row]) -> str:
    """How many bars are met, and how often another library is ahead."""
    barred = [row for row in rows if row.verdict]
    missed = [row.what for row in barred if row.verdict != "met"]
    pairs = [(row, name) for row in rows for name in row.others if peer_of(name) and not math.isnan(row.ratio(name))]
    ahead = [f"{row.what} ({name})" for row, name in pairs if row.better(name)]
    text = [f"**{len(barred) - len(missed)} of {len(barred)} bars are met**{', all but:' if missed else '.'}", ""]
    text += [*(f"- {cell(what)}" for what in missed), ""] if missed else []
    text += [f"**In {len(ahead)} of {len(pairs)} comparisons another library is ahead**{':' if ahead else '.'}", ""]
    text += [*(f"- {cell(what)}" for what in ahead), ""] if ahead else []
    return "\n".join(text)


SHORT = """# Benchmarks

Speed, memory and error beside other libraries: ahead and behind by more than 1 percent, level in between; a number of \
theirs that is proved to be too small is behind. Yardsticks that offer no privacy are not counted. `make bench` \
measures again, and writes this page and the one with [every number](../benchmarks/results/README.md).
"""


def short(folder: Path) -> str:
    """How many comparisons are ahead, level and behind, and each that is behind or misses its bar."""
    results = {name: load(folder / f"{name}.json") for name in stems(folder)}
    versions = {result["machine"]["versions"].get("rangebound") for result in results.values() if titled(result)}
    lines, behind, missed = [], [], []
    for name, result in results.items():
        if result is None or not titled(result):
            lines.append((name, "", "", "", "", "not run" if result is None else "failed"))
            continue
        rows = [Row(**each) for each in result["rows"]]
        pairs = [(row, other) for row in rows for other in row.others if peer_of(other)]
        pairs = [(row, other) for row, other in pairs if not math.isnan(row.ratio(other))]
        worse = [(row, other) for row, other in pairs if row.better(other)]
        level = sum(abs(row.ratio(other) - 1.0) <= 0.01 and not row.wrong(row.others[other]) for row, other in pairs)
        verdicts = [row.verdict for row in rows if row.verdict]
        counts = len(pairs) - len(worse) - level, level, len(worse)
        bars = f"{verdicts.count('met')} of {len(verdicts)}" if verdicts else ""
        lines.append((result["title"], result["date"], *map(str, counts), bars))
        behind += [(row.what, shown_of(row), f"{name} {number(row.others[name])}") for row, name in worse]
        missed += [(row.what, shown_of(row), row.limit) for row in rows if row.verdict == "not met"]
    parts = [SHORT, f"**Of rangebound {', '.join(sorted(each for each in versions if each))}.**\n"]
    parts.append(table(("measured", "on", "ahead", "level", "behind", "bars met"), lines))
    parts += ["## Where another library is ahead\n", table(("what", "rangebound", "the other"), behind)]
    return "\n".join([*parts, "## Bars that are missed\n", table(("what", "rangebound", "bar"), missed)])


def titled(result: dict[str, Any] | None) -> bool:
    """Whether a benchmark ran to its end."""
    return result is not None and "title" in result


def shown_of(row: Row) -> str:
    """Our number with its unit."""
    return f"{number(row.ours)} {row.unit}".strip()


def stems(folder: Path) -> list[str]:
    """The results in a folder: those of the benchmarks in their order, then those of other machines."""
    return [*BENCHMARKS, *(path.stem for path in sorted(folder.glob("*-*.json")))]


def page(folder: Path) -> str:
    """The whole page from the results in a folder."""
    results = {name: load(folder / f"{name}.json") for name in BENCHMARKS}
    extra = {path.stem: load(path) for path in sorted(folder.glob("*-*.json"))}
    common = next((facts(result) for result in results.values() if result and "title" in result), "")
    every = [*results.values(), *extra.values()]
    parts = [INTRO, summary(rows_of(every))]
    if common:
        parts.append(common + "\n")
    peers = load(folder / "peers.json") or {}
    if peers:
        asked = {peer_of(other) for row in rows_of(every) for other in row.others}
        states = []
        for name, state in peers.items():
            part = "measured" if name in asked else "no part in this run"
            part = "tables" if name in PEERS and PEERS[name].data else part
            states.append((name, state.get("version", ""), state.get("reason", part)))
        parts.append(table(("other library", "version", ""), states))
    parts += [section(name, result, common) for name, result in (results | extra).items()]
    return "\n".join(parts)
