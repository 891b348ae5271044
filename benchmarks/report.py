"""What a benchmark hands in: rows with a verdict, on the screen and as JSON, with the machine they were measured on."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import rangebound as rb

LIBRARIES = (
    "rangebound numpy scipy python-flint cryptography duckdb polars pyarrow torch scikit-learn pyspark dp-accounting"
)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured number of ours, in `unit`, beside those of others, and the bar it was to meet.

    A value in `others` that is a text says why there is no number. The bar is on our number, or, with `of`, on our
    number over that of the other; it is an upper limit unless `more` is better. With a `floor` less is better, and a
    number below the floor is wrong. A `note` stands beside the verdict.
    """

    what: str
    ours: float
    unit: str
    others: Mapping[str, float | str] = field(default_factory=dict)
    bar: float | None = None
    of: str = ""
    more: bool = False
    floor: float | None = None
    note: str = ""

    def ratio(self, other: str) -> float:
        """Our number over that of the other; NaN where there is none."""
        theirs = self.others.get(other)
        return self.ours / theirs if isinstance(theirs, float | int) and theirs else math.nan

    def wrong(self, x: float | str) -> bool:
        """Whether a number lies below what is true, by more than the digits of the floor."""
        return self.floor is not None and not isinstance(x, str) and x < self.floor * (1.0 - 1e-8)

    def better(self, other: str) -> bool:
        """Whether the other one is ahead of us, by more than one percent and not by being wrong."""
        ratio = self.ratio(other)
        return not self.wrong(self.others[other]) and (ratio < 0.99 if self.more else ratio > 1.01)

    @property
    def verdict(self) -> str:
        """met, not met, not measured, or nothing where there is no bar."""
        if self.bar is None and self.floor is None:
            return ""
        if self.wrong(self.ours):
            return "not met"
        value = self.ratio(self.of) if self.of else self.ours
        if math.isnan(value):
            return "not measured"
        reached = self.bar is None or (value >= self.bar if self.more else value <= self.bar)
        return "met" if reached else "not met"

    @property
    def limit(self) -> str:
        """The bar in words."""
        words = [] if self.floor is None else [f"not below {self.floor:.9g}, the exact one"]
        if self.bar is not None:
            unit = f"times {self.of}" if self.of else self.unit
            words.append(f"at {'least' if self.more else 'most'} {number(self.bar)} {unit}".rstrip())
        return ", ".join(words)


def number(x: float | str, digits: int = 4) -> str:
    """This many digits, without an exponent where that is readable."""
    if isinstance(x, str):
        return x
    if x == 0 or math.isnan(x) or math.isinf(x):
        return f"{x:g}"
    behind = max(0, digits - 1 - math.floor(math.log10(abs(x))))
    if behind > 9:
        return f"{x:.{digits - 1}g}"
    text = f"{x:,.{behind}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def machine() -> dict[str, Any]:
    """What the numbers depend on; nothing that names the machine or its owner."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    system = platform.system()
    with contextlib.suppress(OSError, AttributeError):
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    facts: dict[str, Any] = {"processor": name, "cores": os.cpu_count() or 1, "system": system}
    with contextlib.suppress(ValueError, OSError, AttributeError):
        facts["memory"] = f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    versions = {"Python": platform.python_version()}
    for library in LIBRARIES.split():
        with contextlib.suppress(PackageNotFoundError):
            versions[library] = version(library)
    versions["rangebound"] = rb.__version__  # of the source: what is installed may have been so before it changed
    return {**facts, "versions": versions}


def parser(text: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark has."""
    made = argparse.ArgumentParser(description=(text or "").partition("\n")[0])
    made.add_argument("--json", type=Path, help="write the rows to this file")
    made.add_argument("--quick", action="store_true", help="small sizes and no peers: shows that it runs, no more")
    made.set_defaults(load=os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0)
    return made


def publish(options: argparse.Namespace, title: str, text: str, rows: Iterable[Row], /, **setting: Any) -> None:
    """Show the rows, and write them where that is asked for."""
    rows = list(rows)
    table = Table("what", "ours", "others", "bar", "", title=title)
    for row in rows:
        others = ", ".join(f"{name} {number(theirs)}" for name, theirs in row.others.items())
        table.add_row(row.what, f"{number(row.ours)} {row.unit}", others, row.limit, row.verdict)
    Console(width=150).print(table)
    if options.json:
        result = {
            "title": title,
            "text": text,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "quick": options.quick,
            "load": round(options.load, 1),
            "setting": setting,
            "machine": machine(),
            "rows": [asdict(row) for row in rows],
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
