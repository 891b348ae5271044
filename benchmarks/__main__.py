"""Run the benchmarks beside other libraries and write their pages: `python -m benchmarks [NAME ...]`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.page import BENCHMARKS, page, short

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "benchmarks.md"
QUICK = ROOT / "out" / "benchmarks-quick"
PATIENCE = 3600.0


def write(path: Path, content: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def environments() -> dict[str, dict[str, str]]:
    """Make what environments can be made; the version of each, or the reason why it is missing."""
    found = {}
    for name in (name for name, peer in peers.PEERS.items() if not peer.examples):
        try:
            peers.make(name)
            found[name] = {"version": peers.version(name)}
        except peers.Absent as why:
            found[name] = {"reason": f"left out: {why}"}
        print(f"{name}: {' '.join(found[name].values())}", flush=True)
    return found


def measure(name: str, folder: Path, *, quick: bool) -> str:
    """Run one benchmark in a process of its own; a failure becomes its result, so that the page shows it."""
    path = folder / f"{name}.json"
    path.unlink(missing_ok=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(path), *(["--quick"] if quick else [])]
    try:
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, timeout=PATIENCE, check=False)
        error = peers.last(done.stderr) if done.returncode else ""
    except subprocess.TimeoutExpired:
        error = f"not ready after {PATIENCE:.0f} s"
    if error:
        write(path, {"error": error})
    return error


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; without a name all")
    parser.add_argument("--quick", action="store_true", help="small sizes, no other libraries, results under out/")
    parser.add_argument("--page", action="store_true", help="only write the page again, from the results there are")
    parser.add_argument("--folder", type=Path, help="where results go (and the page, if this is given)")
    options = parser.parse_args()
    for name in options.names:
        if name not in BENCHMARKS:
            sys.exit(f"error: {name}: no such benchmark; there are {', '.join(BENCHMARKS)}")
    folder = options.folder or (QUICK if options.quick else RESULTS)
    target = PAGE if folder == RESULTS else folder / PAGE.name
    whole = folder / "README.md"
    failed = []
    if not options.page:
        if not options.quick:
            write(folder / "peers.json", environments())
        for name in options.names or BENCHMARKS:
            start = time.monotonic()
            error = measure(name, folder, quick=options.quick)
            print(f"{name}: {error or 'done'} ({time.monotonic() - start:.0f} s)", flush=True)
            failed += [name] if error else []
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(short(folder), encoding="utf-8")
    whole.write_text(page(folder), encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT) if target.is_relative_to(ROOT) else target}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
