"""Composition: time and accuracy, beside the accountants of others.

    python -m benchmarks.accounting [--json FILE] [--quick]

Cold is the first call in a fresh process, after the imports; warm is the median of 7 later calls.
An epsilon below the exact one is marked: it promises what is not true. Nothing here is a test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rich.progress import track

from benchmarks import peers
from benchmarks.report import Row, parser, publish

TEXT = (
    "The privacy loss of many releases together. First: the first call in a fresh process, after the imports. Later: "
    "the median of up to 7 more calls. An epsilon below the exact one promises what is not true."
)
BAR = 0.3


def timed(run: Callable[[], float]) -> dict[str, float]:
    """Seconds of the first call and of later ones, and the epsilon; in this process."""
    import statistics
    import time

    times: list[float] = []
    epsilon = float("nan")
    while len(times) < 8 and sum(times) < 60.0:
        start = time.perf_counter()
        epsilon = float(run())
        times.append(time.perf_counter() - start)
    return {"cold": times[0], "warm": statistics.median(times[1:] or times), "epsilon": epsilon}


def gaussian(scale: float, times: int, delta: float, rate: float = 1.0) -> dict[str, float]:
    import math

    import rangebound as rb
    from rangebound.accounting import MechanismEvent, SampledEvent
    from rangebound.accounting.pld import accountant as loss

    query = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    m = rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, bounding=rb.UNBOUNDED)
    if rate == 1.0:
        return timed(lambda: loss.epsilon(MechanismEvent(mechanism=m, times=times), delta).upper)
    return timed(lambda: loss.epsilon(SampledEvent(mechanism=m, rate=rate, times=times), delta).upper)


def bounded_loss(scale: float, times: int, delta: float) -> dict[str, float]:
    import rangebound as rb
    from rangebound.accounting import MechanismEvent
    from rangebound.accounting.pld import accountant as loss

    m = rb.Mechanism(noise=rb.Laplace(scale=scale), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    return timed(lambda: loss.epsilon(MechanismEvent(mechanism=m, times=times), delta).upper)


def bounded_renyi(scale: float, times: int, delta: float) -> dict[str, float]:
    import rangebound as rb
    from rangebound.accounting import MechanismEvent, renyi

    m = rb.Mechanism(noise=rb.Laplace(scale=scale), query=rb.Query(range=rb.Interval(0, 10), sensitivity=1.0))
    return timed(lambda: renyi.epsilon(MechanismEvent(mechanism=m, times=times), delta))


def with_dp_accounting(scale: float, times: int, delta: float, rate: float, interval: float) -> dict[str, float]:
    from dp_accounting.pld import privacy_loss_distribution as pld

    def run() -> float:
        single = pld.from_gaussian_mechanism(scale, value_discretization_interval=interval, sampling_prob=rate)
        return single.self_compose(times).get_epsilon_for_delta(delta)

    return timed(run)


def with_autodp(scale: float, times: int, delta: float) -> dict[str, float]:
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import Composition

    return timed(lambda: Composition()([GaussianMechanism(sigma=scale)], [times]).get_approxDP(delta))


def with_prv(scale: float, times: int, delta: float, rate: float) -> dict[str, float]:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import GaussianMechanism, PoissonSubsampledGaussianMechanism

    def run() -> float:
        one = (
            GaussianMechanism(noise_multiplier=scale)
            if rate == 1.0
            else PoissonSubsampledGaussianMechanism(noise_multiplier=scale, sampling_probability=rate)
        )
        accountant = PRVAccountant(prvs=[one], max_self_compositions=[times], eps_error=0.1, delta_error=1e-3 * delta)
        return accountant.compute_epsilon(delta, [times])[2]

    return timed(run)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is composed, who answers and how, the exact epsilon where there is a closed form, and a bar on the time."""

    what: str
    ours: Callable[..., dict[str, float]]
    given: tuple[float, ...]
    beside: dict[str, tuple[str, Callable[..., dict[str, float]], tuple[float, ...]]] = field(default_factory=dict)
    exact: float | None = None
    bar: float | None = None


CASES = (
    Case(
        what="Gaussian, scale 1, 1,000 times, delta 1e-6",
        ours=gaussian,
        given=(1.0, 1000, 1e-6),
        beside={
            "dp_accounting, interval 1e-4": ("dp_accounting", with_dp_accounting, (1.0, 1e-4)),
            "dp_accounting, interval 1e-3": ("dp_accounting", with_dp_accounting, (1.0, 1e-3)),
            "autodp": ("autodp", with_autodp, ()),
            "prv_accountant": ("prv_accountant", with_prv, (1.0,)),
        },
        exact=649.38509,
        bar=BAR,
    ),
    Case(
        what="Gaussian, scale 100, 100,000 times, delta 1e-12",
        ours=gaussian,
        given=(100.0, 100_000, 1e-12),
        beside={
            "dp_accounting, interval 1e-4": ("dp_accounting", with_dp_accounting, (1.0, 1e-4)),
            "autodp": ("autodp", with_autodp, ()),
            "prv_accountant": ("prv_accountant", with_prv, (1.0,)),
        },
        exact=26.7197996,
    ),
    Case(
        what="Laplace bounded to [0, 10], scale 1, 1,000 times, delta 1e-6",
        ours=bounded_loss,
        given=(1.0, 1000, 1e-6),
        bar=BAR,
    ),
    Case(what="the same by its Renyi curve", ours=bounded_renyi, given=(1.0, 1000, 1e-6)),
    Case(
        what="Gaussian on a sample of 1 %, scale 1, 1,000 times, delta 1e-6",
        ours=gaussian,
        given=(1.0, 1000, 1e-6, 0.01),
        beside={
            "dp_accounting, interval 1e-4": ("dp_accounting", with_dp_accounting, (1e-4,)),
            "prv_accountant": ("prv_accountant", with_prv, ()),
        },
    ),
)


def rows(*, quick: bool) -> Iterator[Row]:
    for case in track(CASES[:1] if quick else CASES, description="measuring", transient=True):
        ours = peers.fresh(case.ours, *case.given, using=(timed,))
        found: dict[str, dict[str, float] | str] = {}
        for name, (peer, function, further) in ({} if quick else case.beside).items():
            try:
                found[name] = peers.call(peer, function, *case.given, *further, using=(timed,))
            except peers.Absent as why:
                found[name] = str(why)

        def others(which: str, found: dict[str, dict[str, float] | str] = found) -> dict[str, float | str]:
            return {name: each if isinstance(each, str) else each[which] for name, each in found.items()}

        yield Row(
            what=f"{case.what}: epsilon",
            ours=ours["epsilon"],
            unit="",
            others=others("epsilon"),
            floor=case.exact,
            bar=None if case.exact is None else 1.001 * case.exact,
        )
        yield Row(what=f"{case.what}: first call", ours=ours["cold"], unit="s", others=others("cold"), bar=case.bar)
        yield Row(what=f"{case.what}: later calls", ours=ours["warm"], unit="s", others=others("warm"))


def main() -> None:
    options = parser(__doc__).parse_args()
    publish(options, "Composition", TEXT, rows(quick=options.quick))


if __name__ == "__main__":
    main()
