"""Speed and memory of releases, beside numpy, scipy, diffprivlib and OpenDP.

    python -m benchmarks.sampling [--json FILE] [--quick]

One thread, one process, medians of 9 runs; those of numpy alternate with ours, so that both see the same machine.
Nothing here is a test.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.stats import truncnorm

import rangebound as rb
from benchmarks import peers
from benchmarks.report import Row, parser, publish

TEXT = (
    "Answers at random positions in [0, 100], noise of scale 2, one thread; nanoseconds per draw, the median of 9 "
    "runs. None of the others does the whole of it: numpy and scipy draw fast and insecurely (numpy's noise is then "
    "clipped), OpenDP draws exactly and without bounds, diffprivlib in bounds and insecurely."
)
SCALE = 2.0
LOW, HIGH = 0.0, 100.0
GENERATOR = np.random.default_rng(0)
QUERY = rb.Query(range=rb.Interval(LOW, HIGH), sensitivity=1.0)


def once(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def beside(call: Callable[[], Any], other: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Median seconds of both, run in turns."""
    call(), other()
    pairs = [(once(call), once(other)) for _ in range(repeats)]
    return statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs)


def numpy_laplace(answers: np.ndarray) -> np.ndarray:
    return np.clip(GENERATOR.laplace(answers, SCALE), LOW, HIGH)


def numpy_normal(answers: np.ndarray) -> np.ndarray:
    return np.clip(GENERATOR.normal(answers, SCALE), LOW, HIGH)


def batches(size: int, repeats: int) -> Iterator[Row]:
    """Batches with random locations, against numpy's noise and clip."""
    answers = GENERATOR.uniform(LOW, HIGH, size)
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
        ours, theirs = beside(lambda m=m: m.release(answers), lambda p=peer: p(answers), repeats)
        yield Row(
            what=f"{type(noise).__name__}, {bounding.value}, {size:,} draws",
            ours=ours / size * 1e9,
            unit="ns",
            others={"numpy": theirs / size * 1e9},
            bar=bar,
            of="numpy",
        )
    part = answers[: size // 10]
    low, high = (LOW - part) / SCALE, (HIGH - part) / SCALE
    m = rb.Mechanism(noise=rb.Gaussian(scale=SCALE), query=QUERY)
    ours, theirs = beside(
        lambda: m.release(part), lambda: truncnorm.rvs(low, high, part, SCALE, random_state=1), repeats
    )
    others = {"scipy's truncnorm": theirs / len(part) * 1e9}
    yield Row(what=f"Gaussian, truncate, {len(part):,} draws", ours=ours / len(part) * 1e9, unit="ns", others=others)


def supports(size: int, repeats: int) -> Iterator[Row]:
    """Other supports, without a bar."""
    answers = GENERATOR.uniform(LOW, HIGH, size)
    cases = {
        "Laplace on a union of 3 spans": ("Laplace", rb.Union((0, 30), (40, 60), (70, 100)), rb.TRUNCATE),
        "Gaussian on a union of 3 spans": ("Gaussian", rb.Union((0, 30), (40, 60), (70, 100)), rb.TRUNCATE),
        "Laplace rounded to 101 points": ("Laplace", rb.Grid(step=1, within=rb.Interval(0, 100)), rb.QUANTIZE),
        "Laplace truncated to 101 points": ("Laplace", rb.Grid(step=1, within=rb.Interval(0, 100)), rb.TRUNCATE),
        "Gaussian truncated to 101 points": ("Gaussian", rb.Grid(step=1, within=rb.Interval(0, 100)), rb.TRUNCATE),
    }
    for what, (family, support, bounding) in cases.items():
        m = rb.Mechanism(noise=getattr(rb, family)(scale=SCALE), query=QUERY, support=support, bounding=bounding)
        m.release(answers)
        seconds = statistics.median(once(lambda m=m: m.release(answers)) for _ in range(repeats))
        yield Row(what=f"{what}, {size:,} draws", ours=seconds / size * 1e9, unit="ns")


def with_opendp(repeats: int, scale: float) -> dict[str, float]:
    """Seconds a draw of OpenDP's Laplace noise: many in one call, and one alone."""
    import statistics
    import time

    import opendp.prelude as dp

    dp.enable_features("contrib")
    values = [0.02 * i for i in range(5000)]
    many = (dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)) >> dp.m.then_laplace(scale)
    one = (dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)) >> dp.m.then_laplace(scale)
    found: dict[str, list[float]] = {"many": [], "one": []}
    for _ in range(repeats + 1):
        start = time.perf_counter()
        many(values)
        middle = time.perf_counter()
        for _ in range(1000):
            one(42.0)
        found["many"].append((middle - start) / len(values))
        found["one"].append((time.perf_counter() - middle) / 1000)
    return {name: statistics.median(times[1:]) for name, times in found.items()}


def with_diffprivlib(repeats: int, scale: float) -> dict[str, float]:
    """Seconds a draw of diffprivlib's bounded Laplace noise, which comes one by one."""
    import statistics
    import time

    from diffprivlib.mechanisms import LaplaceBoundedDomain

    peer = LaplaceBoundedDomain(epsilon=1.0 / scale, sensitivity=1.0, lower=0.0, upper=100.0)
    values = [0.02 * i for i in range(5000)]
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        for x in values:
            peer.randomise(x)
        times.append((time.perf_counter() - start) / len(values))
    each = statistics.median(times[1:])
    return {"many": each, "one": each}


BESIDE = {"opendp": (with_opendp, 100.0), "diffprivlib": (with_diffprivlib, 300.0)}


def alone(repeats: int, *, quick: bool) -> Iterator[Row]:
    """Laplace noise beside the two peers: many numbers at once, and one by one."""
    theirs: dict[str, dict[str, float] | str] = {}
    for name, (function, _) in ({} if quick else BESIDE).items():
        try:
            theirs[name] = peers.call(name, function, repeats, SCALE)
        except peers.Absent as why:
            theirs[name] = str(why)

    def others(which: str, unit: float) -> dict[str, float | str]:
        return {name: each if isinstance(each, str) else each[which] * unit for name, each in theirs.items()}

    size = 10_000 if quick else 1_000_000
    answers = GENERATOR.uniform(LOW, HIGH, size)
    m = rb.Mechanism(noise=rb.Laplace(scale=SCALE), query=QUERY)
    m.release(answers)
    ours = statistics.median(once(lambda: m.release(answers)) for _ in range(repeats)) / size * 1e9
    for name, (_, times) in BESIDE.items():
        beside = {name: others("many", 1e9)[name]} if name in theirs else {}
        bar = None if quick else 1.0 / times
        yield Row(what=f"Laplace, {size:,} draws, and {name}", ours=ours, unit="ns", others=beside, bar=bar, of=name)
    count = 100 if quick else 10_000
    for noise in (rb.Laplace(scale=SCALE), rb.Gaussian(scale=SCALE)):
        m = rb.Mechanism(noise=noise, query=QUERY)
        m.release(42.0)
        ours = statistics.median(once(lambda m=m: [m.release(42.0) for _ in range(count)]) for _ in range(repeats))
        beside = others("one", 1e6) if isinstance(noise, rb.Laplace) else {}
        what = f"one m.release(x), {type(noise).__name__}"
        yield Row(what=what, ours=ours / count * 1e6, unit="microseconds", bar=15.0, others=beside)


MEMORY = """
import resource, time, numpy as np, rangebound as rb
m = rb.Mechanism(noise=rb.Laplace(scale=2.0), query=rb.Query(range=rb.Interval(0, 100), sensitivity=1.0))
answers, out = np.full({size}, 42.0), np.full({size}, 1.0)
m.release(answers[:1000], out=out[:1000])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
m.release(answers, out=out)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024, time.perf_counter() - start)
"""


def memory(size: int) -> Iterator[Row]:
    run = subprocess.run([sys.executable, "-c", MEMORY.format(size=size)], capture_output=True, text=True, check=True)
    megabytes, seconds = map(float, run.stdout.split())
    yield Row(what=f"memory for {size:,} draws above the buffers", ours=megabytes, unit="MB", bar=200.0)
    yield Row(what=f"time for {size:,} draws", ours=seconds, unit="s")


def rows(*, quick: bool) -> Iterator[Row]:
    repeats = 1 if quick else 9
    yield from batches(10_000 if quick else 1_000_000, repeats)
    yield from supports(1_000 if quick else 100_000, repeats)
    yield from alone(repeats, quick=quick)
    yield from memory(1_000_000 if quick else 100_000_000)


def main() -> None:
    options = parser(__doc__).parse_args()
    publish(options, "Drawing", TEXT, rows(quick=options.quick), threads=1)


if __name__ == "__main__":
    main()
