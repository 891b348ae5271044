"""Audit the mechanisms of whatever libraries are installed: numpy, scipy, diffprivlib, OpenDP, and this one.

`python examples/audit_others.py [DRAWS]` prints a Markdown table. All claim epsilon 1 at sensitivity 1, some with a
delta.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from scipy import stats

import rangebound as rb
from rangebound.audit import adapters, attack

DRAWS = 200_000
PAIR = (0.0, 1.0)


def cases() -> Iterator[tuple[str, object, float]]:
    """Name, what to audit, and the delta claimed."""
    query = rb.Query(range=rb.Interval(0, 10), sensitivity=1.0)
    yield "rangebound, truncated Laplace", rb.calibrate(noise=rb.Laplace, query=query, epsilon=1.0), 0.0
    yield "rangebound, truncated Gaussian", rb.calibrate(noise=rb.Gaussian, query=query, epsilon=1.0, delta=0.01), 0.01
    yield "numpy, answer + Generator.laplace", adapters.numpy(np.random.default_rng().laplace, scale=1.0), 0.0
    yield "scipy, answer + laplace.rvs", adapters.scipy(stats.laplace(scale=1.0)), 0.0
    yield from diffprivlib_cases()
    yield from opendp_cases()


def diffprivlib_cases() -> Iterator[tuple[str, object, float]]:
    try:
        from diffprivlib import mechanisms
    except ImportError as reason:
        print(f"diffprivlib left out: {reason}", file=sys.stderr)
        return
    pure, bounds = {"epsilon": 1.0, "sensitivity": 1.0}, {"lower": 0.0, "upper": 10.0}
    for name, mechanism, delta in (
        ("LaplaceBoundedDomain", mechanisms.LaplaceBoundedDomain(**pure, **bounds), 0.0),
        ("LaplaceTruncated", mechanisms.LaplaceTruncated(**pure, **bounds), 0.0),
        ("Laplace", mechanisms.Laplace(**pure), 0.0),
        ("LaplaceBoundedNoise", mechanisms.LaplaceBoundedNoise(**pure, delta=0.01), 0.01),
        ("GaussianAnalytic", mechanisms.GaussianAnalytic(**pure, delta=0.01), 0.01),
        ("Snapping", mechanisms.Snapping(**pure, **bounds), 0.0),
    ):
        yield f"diffprivlib, {name}", adapters.diffprivlib(mechanism), delta


def opendp_cases() -> Iterator[tuple[str, object, float]]:
    try:
        import opendp.prelude as dp
    except ImportError as reason:
        print(f"OpenDP left out: {reason}", file=sys.stderr)
        return
    dp.enable_features("contrib")
    space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)
    yield "opendp, make_laplace", adapters.opendp(dp.m.make_laplace(*space, scale=1.0)), 0.0


def main(draws: int) -> None:
    for library in ("numpy", "scipy", "diffprivlib", "opendp"):
        try:
            print(f"{library} {version(library)}", file=sys.stderr)
        except PackageNotFoundError:
            continue
    print("| mechanism | claims | leaks at least | through |\n| --- | --- | --- | --- |")
    for name, mechanism, delta in cases():
        found = attack(mechanism, pair=PAIR, epsilon=1.0, delta=delta, draws=draws)
        leak = f"{math.floor(100 * found.epsilon) / 100:.2f}"
        print(f"| {name} | (1, {delta:g}) | {f'**{leak}**' if found.refutes else leak} | {found.event} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DRAWS)
