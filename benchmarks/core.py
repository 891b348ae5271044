"""Timings of the core, as a table and as JSON, beside peers that are installed.

    python benchmarks/core.py [--json FILE]

Medians of at least 7 runs in one process. Nothing here is a test: a slow machine fails nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import rangebound as rb

REPEATS = 7
INF = math.inf


def median(call: Callable[[], Any], repeats: int = REPEATS, inner: int = 1) -> float:
    """Median seconds of one call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            call()
        times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def cases() -> list[tuple[str, float, Callable[[], float]]]:
    """Name, bar in seconds, and a function that measures."""
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    half = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
    union = rb.Query(range=rb.Union((0, 1), (1.6, 2.6)), sensitivity=1.0)
    grid = rb.Grid(step=0.5, within=rb.Interval(0, 10))
    laplace = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0, delta=1e-3)
    gauss = rb.calibrate(noise=rb.Gaussian, query=query, epsilon=1.0, delta=1e-6)
    wide = rb.Mechanism(noise=rb.Gaussian(scale=3.0), query=rb.Query(range=rb.Interval(0, 1000), sensitivity=1.0))
    found: list[tuple[str, float, Callable[[], float]]] = []

    def add(name: str, bar: float, call: Callable[[], Any], inner: int = 1) -> None:
        found.append((name, bar, lambda: median(call, inner=inner)))

    add("pair: hockey_stick, Laplace", 1e-3, lambda: rb.hockey_stick(laplace.law(0.0), laplace.law(1.0), 0.5), 20)
    add("pair: hockey_stick, Gaussian", 1e-3, lambda: rb.hockey_stick(gauss.law(0.0), gauss.law(1.0), 0.5), 20)
    add("pair: renyi, Laplace", 1e-3, lambda: rb.renyi(laplace.law(0.0), laplace.law(1.0), 8.0), 20)
    add("pair: renyi, Gaussian", 1e-3, lambda: rb.renyi(gauss.law(0.0), gauss.law(1.0), 8.0), 20)
    for name, mechanism in (("Laplace [0,10]", laplace), ("Gaussian [0,10]", gauss), ("Gaussian [0,1000]", wide)):
        add(f"worst case: delta(0.7), {name}", 0.1, lambda m=mechanism: m.delta(0.7))
        add(f"worst case: epsilon(1e-6), {name}", 0.1, lambda m=mechanism: m.epsilon(1e-6))
    add("worst case: rdp(8), Laplace [0,10]", 0.1, lambda: laplace.rdp(8.0))
    add("worst case: rdp(8), Gaussian [0,10]", 0.1, lambda: gauss.rdp(8.0))
    for family in (rb.Laplace, rb.Gaussian):
        points = rb.Mechanism(noise=family(scale=2.0), query=query, support=grid)
        add(f"worst case: delta(0.3), {family.__name__} truncated to 21 points", 0.1, lambda m=points: m.delta(0.3))
    for place, asked in (("[0,10]", query), ("[0,inf)", half), ("union", union)):
        for family in (rb.Laplace, rb.Gaussian, rb.TruncatedLaplacian):
            add(
                f"calibrate (1, 1e-3), {family.__name__} {place}",
                0.5,
                lambda f=family, q=asked: rb.calibrate(noise=f, query=q, epsilon=1.0, delta=1e-3),
            )
    for family in (rb.Laplace, rb.Gaussian):
        add(
            f"calibrate (1, 1e-3), {family.__name__} truncated to 21 points",
            0.5,
            lambda f=family: rb.calibrate(noise=f, query=query, support=grid, epsilon=1.0, delta=1e-3),
        )
    add("certify (1, 1e-3), Laplace [0,10]", 3.0, lambda: rb.certify(laplace, 1.0, 1e-3))
    add("certify (1, 1e-6), Gaussian [0,10]", 3.0, lambda: rb.certify(gauss, 1.0, 1e-6))
    text = rb.certify(gauss, 1.0, 1e-6).to_json()
    add("verify the same", 3.0, lambda: rb.verify(text))
    add(
        "calibrate pure Laplace [0,10]", 1 / 5000, lambda: rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0), 200
    )
    if find_spec("diffprivlib"):
        from diffprivlib.mechanisms import LaplaceBoundedDomain  # type: ignore[import-not-found]

        def peer() -> float:
            return float(
                LaplaceBoundedDomain(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=10.0).effective_epsilon() or 0
            )

        add("  diffprivlib: the same", INF, peer, 200)
    for gaps in (1_000, 10_000, 100_000):
        for notion in ("dp", "metric"):
            gapped = _gapped(gaps)
            found.append(
                (
                    f"calibrate a union with {gaps:,} gaps, {notion}",
                    5.0 if gaps == 100_000 else INF,
                    lambda q=gapped, n=notion: median(  # type: ignore[misc]
                        lambda: rb.calibrate(noise=rb.Laplace, query=q, epsilon=1.0, notion=n), repeats=3
                    ),
                )
            )
    found.append(("import rangebound", 0.4, _import_time))
    return found


def _gapped(gaps: int) -> rb.Query:
    """A union with random spans and gaps, the same every time."""
    lengths = np.random.default_rng(0).uniform(0.2, 2.0, 2 * gaps + 1)
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    return rb.Query(range=rb.Union(*zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True)), sensitivity=1.0)


def _import_time() -> float:
    code = "import time; t = time.perf_counter(); import rangebound; print(time.perf_counter() - t)"
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(REPEATS)
    ]
    return statistics.median(float(run.stdout) for run in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, default=Path("out/benchmark-core.json"))
    arguments = parser.parse_args()
    rows = [(name, bar, run()) for name, bar, run in track(cases(), description="measuring", transient=True)]
    table = Table("what", "bar", "median", "", title="rangebound core")
    for name, bar, seconds in rows:
        limit = "" if math.isinf(bar) else f"{bar * 1e3:.3g} ms"
        table.add_row(name, limit, f"{seconds * 1e3:.3g} ms", "" if seconds <= bar else "over")
    Console(width=110).print(table)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "rangebound": rb.__version__}
    values = [
        {"what": name, "bar_s": None if math.isinf(bar) else bar, "median_s": seconds} for name, bar, seconds in rows
    ]
    arguments.json.write_text(json.dumps({"machine": machine, "results": values}, indent=1))


if __name__ == "__main__":
    main()
