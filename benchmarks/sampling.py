"""Speed and memory of releases, as a table and as JSON, beside peers that are installed.

    python benchmarks/sampling.py [--json FILE]

One thread, one process, medians of at least 7 runs that alternate with numpy's, so that both see the same machine. The
peers are numpy, scipy, diffprivlib and opendp; one that is not installed is named as such. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rangebound as rb

REPEATS = 9
SIZE = 1_000_000
SCALE = 2.0
LOW, HIGH = 0.0, 100.0
GENERATOR = np.random.default_rng(0)
ANSWERS = GENERATOR.uniform(LOW, HIGH, SIZE)
QUERY = rb.Query(range=rb.Interval(LOW, HIGH), sensitivity=1.0)


def once(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def beside(call: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Median seconds of both, run in turns."""
    call(), other()
    pairs = [(once(call), once(other)) for _ in range(REPEATS)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def median(call: Callable[[], Any], count: int) -> float:
    """Median seconds for one of the `count` draws that a call makes."""
    call()
    return statistics.median(once(call) for _ in range(REPEATS)) / count


def numpy_laplace() -> np.ndarray:
    return np.clip(GENERATOR.laplace(ANSWERS, SCALE), LOW, HIGH)


def numpy_normal() -> np.ndarray:
    return np.clip(GENERATOR.normal(ANSWERS, SCALE), LOW, HIGH)


def batches() -> list[dict[str, Any]]:
    """Batches of a million with random locations, against numpy's noise and clip."""
    rows = []
    cases = (
        (rb.Laplace(scale=SCALE), rb.TRUNCATE, numpy_laplace, 2.0),
        (rb.Laplace(scale=SCALE), rb.RECTIFY, numpy_laplace, 2.5),
        (rb.Gaussian(scale=SCALE), rb.TRUNCATE, numpy_normal, 2.5),
        (rb.Gaussian(scale=SCALE), rb.RECTIFY, numpy_normal, 2.5),
        (rb.TruncatedLaplacian(scale=SCALE, limit=20.0), rb.TRUNCATE, numpy_laplace, None),
        (rb.TruncatedLaplacian(scale=SCALE, limit=20.0), rb.RECTIFY, numpy_laplace, None),
    )
    for noise, bounding, peer, bar in cases:
        m = rb.Mechanism(noise=noise, query=QUERY, bounding=bounding)
        ours, theirs = beside(lambda m=m: m.release(ANSWERS), peer)
        what = f"{type(noise).__name__}, {bounding.value}, 1e6 draws, times {peer.__name__}+clip"
        rows.append({"what": what, "bar": bar, "value": ours / theirs, "unit": "x", "ns_per_draw": ours / SIZE * 1e9})
        rows.append({"what": f"  {peer.__name__}+clip", "bar": None, "value": theirs / SIZE * 1e9, "unit": "ns a draw"})
        rows.append({"what": "  ours", "bar": None, "value": ours / SIZE * 1e9, "unit": "ns a draw"})
    return rows


def others() -> list[dict[str, Any]]:
    """Other supports, without a bar."""
    cases = {
        "Laplace on a union of 3 spans": ("Laplace", rb.Union((0, 30), (40, 60), (70, 100)), rb.TRUNCATE),
        "Gaussian on a union of 3 spans": ("Gaussian", rb.Union((0, 30), (40, 60), (70, 100)), rb.TRUNCATE),
        "Laplace rounded to 101 points": ("Laplace", rb.Grid(step=1, within=rb.Interval(0, 100)), rb.QUANTIZE),
        "Laplace truncated to 101 points": ("Laplace", rb.Grid(step=1, within=rb.Interval(0, 100)), rb.TRUNCATE),
        "Gaussian truncated to 101 points": ("Gaussian", rb.Grid(step=1, within=rb.Interval(0, 100)), rb.TRUNCATE),
    }
    rows = []
    for what, (family, support, bounding) in cases.items():
        m = rb.Mechanism(noise=getattr(rb, family)(scale=SCALE), query=QUERY, support=support, bounding=bounding)
        value = median(lambda m=m: m.release(ANSWERS[:100_000]), 100_000)
        rows.append({"what": what, "bar": None, "value": value * 1e9, "unit": "ns a draw"})
    return rows


def scalars() -> list[dict[str, Any]]:
    rows = []
    for noise in (rb.Laplace(scale=SCALE), rb.Gaussian(scale=SCALE)):
        m = rb.Mechanism(noise=noise, query=QUERY)
        value = median(lambda m=m: [m.release(42.0) for _ in range(10_000)], 10_000)
        what = f"one m.release(x), {type(noise).__name__}"
        rows.append({"what": what, "bar": 15.0, "value": value * 1e6, "unit": "microseconds"})
    return rows


def peers() -> list[dict[str, Any]]:
    """Peers per draw; the bar is how many times faster ours is at least."""
    m = rb.Mechanism(noise=rb.Laplace(scale=SCALE), query=QUERY)
    ours = median(lambda: m.release(ANSWERS), SIZE)
    rows = []

    def add(name: str, bar: float | None, call: Callable[[], Any], count: int) -> None:
        value = median(call, count)
        rows.append({"what": f"times faster than {name}", "bar": bar, "value": value / ours, "unit": "x faster"})
        rows.append({"what": f"  {name}", "bar": None, "value": value * 1e9, "unit": "ns a draw"})

    if find_spec("scipy"):
        from scipy.stats import truncnorm

        part = ANSWERS[:100_000]
        low, high = (LOW - part) / SCALE, (HIGH - part) / SCALE
        add("scipy's truncnorm", None, lambda: truncnorm.rvs(low, high, part, SCALE, random_state=1), len(part))
    if find_spec("opendp"):
        import opendp.prelude as dp  # type: ignore[import-not-found]

        dp.enable_features("contrib")
        values = ANSWERS[:5_000].tolist()
        space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
        measurement = space >> dp.m.then_laplace(scale=SCALE)
        add("opendp's Laplace", 100.0, lambda: measurement(values), len(values))
    else:
        rows.append({"what": "opendp", "bar": None, "value": None, "unit": "not installed"})
    if find_spec("diffprivlib"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from diffprivlib.mechanisms import LaplaceBoundedDomain  # type: ignore[import-not-found]

        peer = LaplaceBoundedDomain(epsilon=0.5, sensitivity=1.0, lower=LOW, upper=HIGH)
        few = ANSWERS[:5_000].tolist()
        add("diffprivlib's bounded Laplace", 300.0, lambda: [peer.randomise(x) for x in few], len(few))
    else:
        rows.append({"what": "diffprivlib", "bar": None, "value": None, "unit": "not installed"})
    return rows


MEMORY = """
import resource, time, numpy as np, rangebound as rb
m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
answers, out = np.full(100_000_000, 42.0), np.full(100_000_000, 1.0)
m.release(answers[:1000], out=out[:1000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
m.release(answers, out=out)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, time.perf_counter() - start)
"""


def memory() -> list[dict[str, Any]]:
    run = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
    megabytes, seconds = map(float, run.stdout.split())
    return [
        {"what": "memory for 1e8 draws above the buffers", "bar": 200.0, "value": megabytes, "unit": "MB"},
        {"what": "  time for them", "bar": None, "value": seconds, "unit": "s"},
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, default=Path("out/benchmark-sampling.json"))
    arguments = parser.parse_args()
    rows = [*batches(), *others(), *scalars(), *peers(), *memory()]
    table = Table("what", "bar", "median", "", title="rangebound sampling")
    for row in rows:
        faster = row["unit"] == "x faster"
        met = row["bar"] is None or (row["value"] >= row["bar"] if faster else row["value"] <= row["bar"])
        value = row["unit"] if row["value"] is None else f"{row['value']:.3g} {row['unit']}"
        bar = "" if row["bar"] is None else f"{'>=' if faster else '<='} {row['bar']:g}"
        table.add_row(row["what"], bar, value, "" if met else "missed")
    Console(width=110).print(table)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "rangebound": rb.__version__}
    arguments.json.write_text(json.dumps({"machine": machine, "results": rows}, indent=1))


if __name__ == "__main__":
    main()
