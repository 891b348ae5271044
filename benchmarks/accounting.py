"""Composition: time and accuracy, beside the accountants of others that are installed.

    python benchmarks/accounting.py [--json FILE]

Cold is the first call in a fresh process, after the imports; warm is the median of 7 later calls.
An epsilon below the exact one is marked: it promises what is not true. Nothing here is a test.
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

from rich.console import Console
from rich.progress import track
from rich.table import Table

REPEATS = 7
BAR = 0.3


def gaussian(scale: float, times: int, delta: float) -> Callable[[], float]:
    import rangebound as rb
    from rangebound.accounting import Release, loss

    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, bounding=rb.UNBOUNDED)
    return lambda: loss.epsilon(Release(mechanism=m, times=times), delta).upper


def bounded(scale: float, times: int, delta: float, accountant: str) -> Callable[[], float]:
    import rangebound as rb
    from rangebound.accounting import Release, loss, renyi

    m = rb.Mechanism(noise=rb.Laplace(scale=scale), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    event = Release(mechanism=m, times=times)
    if accountant == "renyi":
        return lambda: renyi.epsilon(event, delta)
    return lambda: loss.epsilon(event, delta).upper


def sampled(scale: float, rate: float, times: int, delta: float) -> Callable[[], float]:
    import rangebound as rb
    from rangebound.accounting import Sampled, loss

    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, bounding=rb.UNBOUNDED)
    return lambda: loss.epsilon(Sampled(mechanism=m, rate=rate, times=times), delta).upper


def google(scale: float, times: int, delta: float, rate: float = 1.0, interval: float = 1e-4) -> Callable[[], float]:
    from dp_accounting.pld import privacy_loss_distribution as pld

    def run() -> float:
        single = pld.from_gaussian_mechanism(scale, value_discretization_interval=interval, sampling_prob=rate)
        return float(single.self_compose(times).get_epsilon_for_delta(delta))

    return run


def autodp(scale: float, times: int, delta: float) -> Callable[[], float]:
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import Composition

    return lambda: float(Composition()([GaussianMechanism(sigma=scale)], [times]).get_approxDP(delta))


def prv(scale: float, times: int, delta: float, rate: float = 1.0) -> Callable[[], float]:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import GaussianMechanism, PoissonSubsampledGaussianMechanism

    def run() -> float:
        one = (
            GaussianMechanism(noise_multiplier=scale)
            if rate == 1.0
            else PoissonSubsampledGaussianMechanism(noise_multiplier=scale, sampling_probability=rate)
        )
        accountant = PRVAccountant(prvs=[one], max_self_compositions=[times], eps_error=0.1, delta_error=1e-3 * delta)
        return float(accountant.compute_epsilon(delta, [times])[2])

    return run


# What is composed, its exact epsilon where there is a closed form, and who answers: a name and a call to make it.
CASES: list[tuple[str, float | None, list[tuple[str, str]]]] = [
    (
        "Gaussian, scale 1, 1,000 times, delta 1e-6",
        649.38509,
        [
            ("rangebound", "gaussian(1.0, 1000, 1e-6)"),
            ("dp_accounting, interval 1e-4", "google(1.0, 1000, 1e-6)"),
            ("dp_accounting, interval 1e-3", "google(1.0, 1000, 1e-6, interval=1e-3)"),
            ("autodp", "autodp(1.0, 1000, 1e-6)"),
            ("prv_accountant", "prv(1.0, 1000, 1e-6)"),
        ],
    ),
    (
        "Gaussian, scale 100, 100,000 times, delta 1e-12",
        26.7197996,
        [
            ("rangebound", "gaussian(100.0, 100000, 1e-12)"),
            ("dp_accounting, interval 1e-4", "google(100.0, 100000, 1e-12)"),
            ("autodp", "autodp(100.0, 100000, 1e-12)"),
            ("prv_accountant", "prv(100.0, 100000, 1e-12)"),
        ],
    ),
    (
        "bounded Laplace on [0, 10], scale 1, 1,000 times, delta 1e-6",
        None,
        [
            ("rangebound, privacy loss", "bounded(1.0, 1000, 1e-6, 'loss')"),
            ("rangebound, Renyi", "bounded(1.0, 1000, 1e-6, 'renyi')"),
        ],
    ),
    (
        "Gaussian on a sample of 1 %, scale 1, 1,000 times, delta 1e-6",
        None,
        [
            ("rangebound", "sampled(1.0, 0.01, 1000, 1e-6)"),
            ("dp_accounting, interval 1e-4", "google(1.0, 1000, 1e-6, rate=0.01)"),
            ("prv_accountant", "prv(1.0, 1000, 1e-6, rate=0.01)"),
        ],
    ),
]
TIMED = ("rangebound", "rangebound, privacy loss")
MODULES = {"google": "dp_accounting", "autodp": "autodp", "prv": "prv_accountant"}


def measure(call: str) -> dict[str, float]:
    """Seconds of the first call and of later ones, and the epsilon; in this process."""
    run = eval(call, globals())
    times = []
    epsilon = math.nan
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        epsilon = run()
        times.append(time.perf_counter() - start)
        if sum(times) > 60.0:
            break
    return {"cold_s": times[0], "warm_s": statistics.median(times[1:] or times), "epsilon": epsilon}


def fresh(call: str) -> dict[str, Any]:
    """The same in a fresh process."""
    done = subprocess.run([sys.executable, __file__, "--measure", call], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, default=Path("out/benchmark-accounting.json"))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    rows: list[dict[str, Any]] = []
    jobs = [(what, exact, who, call) for what, exact, calls in CASES for who, call in calls]
    for what, exact, who, call in track(jobs, description="measuring", transient=True):
        module = MODULES.get(call.partition("(")[0])
        if module is None or find_spec(module):
            rows.append({"what": what, "exact": exact, "who": who, **fresh(call)})
    table = Table("what", "who", "epsilon", "off by", "cold", "warm", title="composition")
    before = ""
    for row in rows:
        name, before = ("" if row["what"] == before else row["what"]), row["what"]
        if "error" in row:
            table.add_row(name, row["who"], row["error"][:40], "", "", "")
            continue
        off = "" if row["exact"] is None else f"{row['epsilon'] / row['exact'] - 1.0:+.2e}"
        if row["exact"] is not None and row["epsilon"] < row["exact"] * (1.0 - 1e-8):
            off += " TOO SMALL"
        over = (
            " over"
            if row["who"] in TIMED and row["what"].startswith(("Gaussian, scale 1,", "bounded")) and row["cold_s"] > BAR
            else ""
        )
        times = f"{row['cold_s']:.3f} s{over}", f"{row['warm_s']:.3f} s"
        table.add_row(name, row["who"], f"{row['epsilon']:.6g}", off, *times)
    Console(width=150).print(table)
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "bar_s": BAR}
    arguments.json.write_text(json.dumps({"machine": machine, "results": rows}, indent=1))


if __name__ == "__main__":
    main()
