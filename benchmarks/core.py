"""Timings of the core, beside peers where they do the same.

    python -m benchmarks.core [--json FILE] [--quick]

Medians of 7 runs in one process. Nothing here is a test: a slow machine fails nothing.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from rich.progress import track

import rangebound as rb
from benchmarks import peers
from benchmarks.report import Row, parser, publish

TEXT = "Milliseconds, the median of 7 runs in one process; of 7 processes for an import and for the command's help."
INF = math.inf
PURE = "calibrate pure Laplace [0,10]"
IMPORT = "import rangebound and load all its names"


def median(call: Callable[[], Any], repeats: int = 7, inner: int = 1) -> float:
    """Median seconds of one call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(inner):
            call()
        times.append((time.perf_counter() - start) / inner)
    return statistics.median(times)


def cases(*, quick: bool) -> list[tuple[str, float, Callable[[], float]]]:
    """Name, bar in seconds, and a function that measures."""
    repeats = 1 if quick else 7
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    half = rb.Query(range=rb.Interval(0, INF), sensitivity=1.0)
    union = rb.Query(range=rb.Union((0, 1), (1.6, 2.6)), sensitivity=1.0)
    grid = rb.Grid(step=0.5, within=rb.Interval(0, 10))
    laplace = rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0, delta=1e-3)
    gauss = rb.calibrate(noise=rb.Gaussian, query=query, epsilon=1.0, delta=1e-6)
    wide = rb.Mechanism(noise=rb.Gaussian(scale=3.0), query=rb.Query(range=rb.Interval(0, 1000), sensitivity=1.0))
    found: list[tuple[str, float, Callable[[], float]]] = []

    def add(name: str, bar: float, call: Callable[[], Any], inner: int = 1) -> None:
        found.append((name, bar, lambda: median(call, repeats, 1 if quick else inner)))

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
    add(PURE, 1 / 5000, lambda: rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0), 200)
    for gaps in (1_000,) if quick else (1_000, 10_000, 100_000):
        for notion in ("dp", "metric"):
            gapped = _gapped(gaps)
            found.append(
                (
                    f"calibrate a union with {gaps:,} gaps, {notion}",
                    5.0 if gaps == 100_000 else INF,
                    lambda q=gapped, n=notion: median(  # type: ignore[misc]
                        lambda: rb.calibrate(noise=rb.Laplace, query=q, epsilon=1.0, notion=n), 1 if quick else 3
                    ),
                )
            )
    found.append((IMPORT, 0.4, lambda: _import_time("from rangebound import *", repeats)))
    found.append(("rangebound --help, from start to end", 0.5, lambda: median(_help, repeats)))
    return found


def _gapped(gaps: int) -> rb.Query:
    """A union with random spans and gaps, the same every time."""
    lengths = np.random.default_rng(0).uniform(0.2, 2.0, 2 * gaps + 1)
    ends = np.concatenate([[0.0], np.cumsum(lengths)])
    return rb.Query(range=rb.Union(*zip(ends[::2].tolist(), ends[1::2].tolist(), strict=True)), sensitivity=1.0)


def _help() -> None:
    subprocess.run([sys.executable, "-m", "rangebound", "--help"], capture_output=True, check=True)


def _import_time(statement: str, repeats: int) -> float:
    import statistics
    import subprocess
    import sys

    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    command = [sys.executable, "-W", "ignore", "-c", code]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(repeats)]
    return statistics.median(float(run.stdout) for run in runs)


def _effective_epsilon() -> float:
    import statistics
    import time

    from diffprivlib.mechanisms import LaplaceBoundedDomain

    times = []
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(200):
            LaplaceBoundedDomain(epsilon=1.0, sensitivity=1.0, lower=0.0, upper=10.0).effective_epsilon()
        times.append((time.perf_counter() - start) / 200)
    return statistics.median(times)


# Which peers do the same as a row: a function for the peer's interpreter, and its arguments.
BESIDE: dict[str, dict[str, tuple[Callable[..., float], tuple[Any, ...]]]] = {
    PURE: {"diffprivlib": (_effective_epsilon, ())},
    IMPORT: {
        name: (_import_time, (f"import {peers.PEERS[name].module}", 7))
        for name in ("diffprivlib", "opendp", "dp_accounting")
    },
}


def rows(*, quick: bool) -> Iterator[Row]:
    for name, bar, run in track(cases(quick=quick), description="measuring", transient=True):
        asked = {} if quick else BESIDE.get(name, {})
        others = {peer: peers.ask(peer, function, *given, unit=1e3) for peer, (function, given) in asked.items()}
        yield Row(what=name, ours=1e3 * run(), unit="ms", bar=None if math.isinf(bar) else 1e3 * bar, others=others)


def main() -> None:
    options = parser(__doc__).parse_args()
    publish(options, "The core", TEXT, rows(quick=options.quick))


if __name__ == "__main__":
    main()
