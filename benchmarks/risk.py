"""What an attacker gains: ours beside riskcal, with its time.

python -m benchmarks.risk [--quick] [--json FILE]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from benchmarks import peers
from benchmarks.report import Row, parser, publish

TEXT = (
    "The true positive rate of the best attacker at a false positive rate of 1 %, and the largest advantage, of one or "
    "more releases. A number below the exact one promises what is not true. Times are medians of up to 7 calls after "
    "the first one."
)
RATE = 0.01
CASES = {
    "Gaussian, scale 1": (1.0, 1, 1.0),
    "Gaussian, scale 5, 20 times": (5.0, 20, 1.0),
    "Gaussian on a sample of 1 %, scale 1, 1,000 times": (1.0, 1000, 0.01),
}


def timed(run: Callable[[], list[float]]) -> list[float]:
    """The numbers of a call, and the median of the seconds that later calls take."""
    import statistics
    import time

    found, times = run(), []
    while len(times) < 7 and sum(times) < 30.0:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return [*found, statistics.median(times)]


def ours(scale: float, times: int, rate: float, alpha: float) -> list[float]:
    import math

    import rangebound as rb
    from rangebound.accounting import MechanismEvent, SampledEvent, compose

    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, bounding=rb.UNBOUNDED)

    def run() -> list[float]:
        event = (
            SampledEvent(mechanism=m, rate=rate, times=times)
            if rate < 1.0
            else MechanismEvent(mechanism=m, times=times)
        )
        risk = m if times == 1 and rate == 1.0 else compose(event)
        return [1.0 - risk.tradeoff(alpha), risk.advantage()]

    return timed(run)


def with_riskcal(scale: float, times: int, rate: float, alpha: float) -> list[float]:
    from dp_accounting.pld import privacy_loss_distribution as pld
    from riskcal.analysis import get_advantage_from_pld, get_beta_from_pld

    def run() -> list[float]:
        one = pld.from_gaussian_mechanism(scale, value_discretization_interval=1e-4, sampling_prob=rate)
        found = one.self_compose(times)
        return [1.0 - float(get_beta_from_pld(found, alpha=alpha)), float(get_advantage_from_pld(found))]

    return timed(run)


def exact(scale: float, times: int, rate: float) -> tuple[float | None, float | None]:
    """The closed forms of Gaussian noise: the power of the likelihood-ratio test, and the total variation."""
    if rate < 1.0:
        return None, None
    from scipy.stats import norm

    mu = math.sqrt(times) / scale
    return float(norm.cdf(mu - norm.isf(RATE))), float(2.0 * norm.cdf(0.5 * mu) - 1.0)


def rows(*, quick: bool) -> Iterator[Row]:
    for what, given in list(CASES.items())[: 1 if quick else None]:
        mine = peers.fresh(ours, *given, RATE, using=(timed,))
        try:
            theirs = peers.call("riskcal", with_riskcal, *given, RATE, using=(timed,)) if not quick else []
            why = "not asked"
        except peers.Absent as reason:
            theirs, why = [], str(reason)
        names = ("true positive rate at 1 %", "advantage", "time")
        for at, (name, floor) in enumerate(zip(names, (*exact(*given), None), strict=True)):
            other = theirs[at] if theirs else why
            unit = "s" if name == "time" else ""
            yield Row(what=f"{what}: {name}", ours=mine[at], unit=unit, others={"riskcal": other}, floor=floor)


def main() -> None:
    options = parser(__doc__).parse_args()
    publish(options, "Attack risk", TEXT, rows(quick=options.quick))


if __name__ == "__main__":
    main()
