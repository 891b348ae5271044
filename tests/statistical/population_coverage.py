"""How often the intervals of means and shares hold the mean of the population, and how wide they are; by simulation.

Units are drawn from a law on [0, 1], their sums are made by numpy, and get noise of the law that the publisher states.
The interval of a release is made of these. Beside it stand today's interval, for the table alone; Student's, of the raw
rows, without noise or privacy; and the narrowest that knows the variance of the law, the number of rows and the noise.

    python -m tests.statistical.population_coverage [samples]     prints the tables of docs/population.md
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from scipy import stats

from rangebound.release import make_plan
from rangebound.release.noise.noisy_ranks import GRAIN, cut_around
from rangebound.release.noise.population import added_noise, plausible
from rangebound.release.noise.quantiles import QuantilePublisher
from rangebound.release.prepare import PreparedQuestion, prepare
from rangebound.sampling.entropy import secure_bits

LEVEL = 0.95
SIZES, EPSILONS = (30, 100, 1_000, 10_000), (0.1, 1.0, 4.0)
_MIDDLES = (np.arange(50_000) + 0.5) / 50_000

Sums = tuple[np.ndarray, np.ndarray]
"""The sums over the units of a sample, for many samples: of the coordinates of a mean; and the rows of each."""


@dataclass(frozen=True)
class Law:
    """A law of units: draws of the sums of samples of n units, the mean, the variance of d = sum of (x - mean) of one.

    A unit has at most this many `rows`; `kind` is how the plan asks for the mean.
    """

    name: str
    sums: Callable[[np.random.Generator, int, int], Sums]
    mean: float
    variance: float
    rows: int = 1
    kind: str = "mean"


def _sums(x: np.ndarray, there: np.ndarray | None = None) -> Sums:
    """Coordinates of rows (samples, n), or of units (samples, n, rows) of which those rows that are `there` count."""
    if there is None:
        return np.stack([each.sum(axis=1) for each in ((1.0 - x) ** 2, 2.0 * x * (1.0 - x), x**2)], axis=1), x
    y, z, rows = (x * there).sum(axis=2), ((1.0 - x) * there).sum(axis=2), x.shape[2]
    left = 1.0 - (y + z) / rows
    parts = (z**2 / rows, 2.0 * y * z / rows, y**2 / rows, z * left, y * left)
    return np.stack([each.sum(axis=1) for each in parts], axis=1), x[:, :, 0]


def rows_of(name: str, dist, weight: float = 1.0, *, rest: float = 0.0, kind: str = "mean") -> Law:
    """Rows as units: a law clipped to [0, 1] with a probability, else the number `rest`."""
    x = np.clip(dist.ppf(_MIDDLES), 0.0, 1.0)
    mean = weight * x.mean() + (1.0 - weight) * rest
    square = weight * (x**2).mean() + (1.0 - weight) * rest**2

    def sums(rng: np.random.Generator, samples: int, n: int) -> Sums:
        drawn = np.clip(dist.rvs((samples, n), random_state=rng), 0.0, 1.0)
        return _sums(drawn if weight == 1.0 else np.where(rng.random((samples, n)) < weight, drawn, rest))

    return Law(name, sums, float(mean), float(square - mean**2), kind=kind)


def two_points(p: float, kind: str) -> Law:
    def sums(rng: np.random.Generator, samples: int, n: int) -> Sums:
        ones = rng.binomial(n, p, samples).astype(float)
        return np.stack([n - ones, 0.0 * ones, ones], axis=1), (np.arange(n) < ones[:, None]).astype(float)

    return Law(f"{kind}, {p:g} of ones", sums, p, p * (1.0 - p), kind=kind)


def clusters(name: str, *, binary: bool) -> Law:
    """Units of 1 to 5 rows with intra-class correlation 0.3, more rows where values are larger."""

    def drawn(rng: np.random.Generator, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        size = rng.integers(1, 6, shape)
        own = 0.3 + 0.05 * size[..., None]
        if binary:  # every row is that of the unit with probability sqrt(0.3), else one of its own
            common = rng.random((*shape, 1)) < own
            x = np.where(rng.random((*shape, 5)) < math.sqrt(0.3), common, rng.random((*shape, 5)) < own).astype(float)
        else:
            z = math.sqrt(0.3) * rng.standard_normal((*shape, 1)) + math.sqrt(0.7) * rng.standard_normal((*shape, 5))
            x = np.clip(own + 0.12 * z, 0.0, 1.0)
        return x, np.arange(5) < size[..., None]

    x, there = drawn(np.random.default_rng(1), (1, 100_000))
    mean = 11.0 / 3.0 * 0.05 + 0.3  # size-weighted: E size^2 / E size = 11 / 3; clipping is symmetric but for 1e-5
    variance = float((((x - mean) * there).sum(axis=-1) ** 2).mean())
    return Law(name, lambda rng, samples, n: _sums(*drawn(rng, (samples, n))), mean, variance, rows=5)


@cache
def laws() -> tuple[Law, ...]:
    """Twenty laws."""
    return (
        rows_of("normal", stats.norm(0.5, 0.15)),
        rows_of("narrow normal", stats.norm(0.3, 0.02)),
        rows_of("uniform", stats.uniform()),
        rows_of("beta(2, 5)", stats.beta(2, 5)),
        rows_of("beta(0.3, 0.3)", stats.beta(0.3, 0.3)),
        rows_of("exponential, clipped", stats.expon(scale=0.2)),
        rows_of("lognormal, clipped", stats.lognorm(1.0, scale=0.05)),
        rows_of("steep lognormal, clipped", stats.lognorm(2.0, scale=0.01)),
        rows_of("Pareto 1.5, clipped", stats.lomax(1.5, scale=0.02)),
        rows_of("Student 2, clipped", stats.t(2, loc=0.5, scale=0.05)),
        rows_of("zero-inflated uniform, 10 %", stats.uniform(), 0.1),
        rows_of("zero-inflated lognormal, 30 %", stats.lognorm(1.0, scale=0.05), 0.3),
        rows_of("1 % at the top", stats.uniform(0.999, 0.001), 0.01, rest=0.1),
        rows_of("all equal", stats.uniform(0.37, 1e-12)),
        two_points(0.5, "mean"),
        two_points(0.02, "mean"),
        two_points(0.3, "share"),
        two_points(0.02, "share"),
        two_points(0.002, "share"),
        two_points(0.95, "share"),
        clusters("clusters", binary=False),
        clusters("clusters of zeros and ones", binary=True),
    )


@lru_cache
def question(kind: str, rows: int, epsilon: float) -> PreparedQuestion:
    unit = {"column": "person", "rows": rows} if rows > 1 else {}
    asked = {"of": "x > 0.5"} if kind == "share" else {"column": "x", "range": [0, 1]}
    plan = {"unit": unit, "budget": {"epsilon": epsilon}, "level": LEVEL, "intervals": "both"}
    return prepare(make_plan({**plan, "query": [{"name": "asked", "kind": kind, **asked}]})).questions[0]


@dataclass(frozen=True)
class Measured:
    """Of how many samples the mean is plausible, so that the interval holds it; and of how many Student's holds it.

    The widths are those of a few: the median `width`, and that of the interval that knows the variance and the noise.
    Of these few, `table` intervals for the table alone hold the mean.
    """

    held: int
    student: int
    samples: int
    width: float
    known: float
    table: int
    few: int


def measure(law: Law, n: int, epsilon: float, samples: int, few: int = 20, seed: int = 1) -> Measured:
    own, rng = question(law.kind, law.rows, epsilon), np.random.default_rng([seed, n, round(1000 * epsilon)])
    added, sampled = added_noise(own.publisher), own.sampled
    assert added is not None
    assert not isinstance(sampled, str)
    held = student = 0
    first: list[tuple[float, ...]] = []
    block = max(1, min(samples, 2_000_000 // (n * law.rows)))
    for start in range(0, samples, block):
        sums, raw = law.sums(rng, min(block, samples - start), n)
        if law.kind == "share":
            sums = sums[:, [0, 2]]
        noisy = sums + rng.laplace(0.0, added.noise.scale, sums.shape)
        noisy = np.maximum(noisy, 0.0) if law.kind == "share" else noisy
        held += int(plausible(sampled, tuple(noisy.T), added, LEVEL, np.full(len(noisy), law.mean)).sum())
        first += map(tuple, noisy[: few - len(first)].tolist())
        half = stats.t.ppf(0.5 + LEVEL / 2, n - 1) * raw.std(axis=1, ddof=1) / math.sqrt(n)
        student += int((np.abs(raw.mean(axis=1) - law.mean) <= half + 1e-12).sum())
    found = [(own.form.estimate(own.publisher.read([[draw]])[0][0]), draw) for draw in first]
    ends = [own.of_population(estimate.value, draw, LEVEL) for estimate, draw in found]
    width = float(np.median([each["population_upper"] - each["population_lower"] for each in ends]))
    table = sum(estimate.lower <= law.mean <= estimate.upper for estimate, _ in found)
    return Measured(held, student, samples, width, known_width(law, n, epsilon), table, len(first))


def known_width(law: Law, n: int, epsilon: float) -> float:
    """The width of mean +- the quantile of sampling and noise, within [0, 1]; noise on the two sums of a fraction."""
    rng, draws, scale = np.random.default_rng(2), 200_000, law.rows / epsilon
    noise = (1.0 - law.mean) * rng.laplace(0.0, scale, draws) - law.mean * rng.laplace(0.0, scale, draws)
    seen = math.sqrt(n * law.variance) * rng.standard_normal(draws) + noise
    half = float(np.quantile(np.abs(seen), LEVEL)) / (n * (3.0 if law.rows > 1 else 1.0))
    return min(law.mean + half, 1.0) - max(law.mean - half, 0.0)


QUANTILES = {
    "uniform": stats.uniform().ppf,
    "lognormal, clipped": stats.lognorm(1.0, scale=0.05).ppf,
    "Pareto 1.5, clipped": stats.lomax(1.5, scale=0.02).ppf,
    "zero-inflated uniform, 30 %": lambda u: np.maximum(u - 0.7, 0.0) / 0.3,
    "six values": lambda u: np.round(5.0 * u) / 5.0,
    "two points": lambda u: np.where(u <= 0.5, 0.2, 0.8),
}
"""Laws on [0, 1] by their quantiles, the least number at each level."""
ASKED_LEVELS = (0.1, 0.5, 0.9)


@lru_cache
def quantiles(epsilon: float, person: bool = False) -> PreparedQuestion:
    plan = {"unit": {"column": "person"} if person else {}, "budget": {"epsilon": epsilon}, "intervals": "both"}
    asked = {"name": "asked", "kind": "quantiles", "levels": ASKED_LEVELS, "column": "x", "range": [0, 1]}
    return prepare(make_plan({**plan, "level": LEVEL, "query": [asked]})).questions[0]


def measure_quantiles(law: str, n: int, epsilon: float, samples: int, few: int = 20, seed: int = 1) -> Measured:
    """Of how many samples the interval holds the quantile at the level with the fewest; `known` and `student` are 0."""
    own, rng = quantiles(epsilon), np.random.default_rng([seed, n, round(1000 * epsilon)])
    publisher, ppf = own.publisher, QUANTILES[law]
    assert isinstance(publisher, QuantilePublisher)
    assert publisher.noise is not None
    held, table, widths = np.zeros(3), np.zeros(3), []
    true, borders = np.clip(ppf(np.array(ASKED_LEVELS)), 0.0, 1.0), publisher.grid.borders
    for at in range(samples):
        places = np.searchsorted(borders, np.clip(ppf(rng.random(n)), 0.0, 1.0), side="right")
        upto = np.cumsum(np.bincount(places, minlength=len(borders) + 1))
        below = np.append(0, upto[:-1])
        drawn = [
            int(np.argmax(rng.gumbel(size=len(upto)) - float(rate) * np.clip(np.maximum(below - r, r - upto), 0, None)))
            for rate, r in zip(publisher.rates, np.array(ASKED_LEVELS) * n, strict=True)
        ]
        cuts = cut_around(drawn, len(upto))
        exact = np.diff(np.append(0, upto)[cuts]) / float(GRAIN)
        group = publisher._split(drawn, (exact + rng.laplace(0.0, publisher.noise.scale, len(exact))).tolist())
        ends = np.array(publisher.of_population(group, own.sampled, LEVEL))
        held += (ends[:, 0] <= true) & (true <= ends[:, 1])
        widths.append(ends[1, 1] - ends[1, 0])
        if at < few:
            noisy = np.array([each.intervals[0] for each in publisher.read([group])[0]])
            table += (noisy[:, 0] <= true) & (true <= noisy[:, 1])
    return Measured(int(held.min()), 0, samples, float(np.median(widths)), 0.0, int(table.min()), few)


def measure_spread(name: str, n: int, epsilon: float, samples: int, seed: int = 1) -> Measured:
    """Of how many samples the interval of the variance holds that of the law; so for `table`."""
    plan = {"budget": {"epsilon": epsilon}, "level": LEVEL, "intervals": "both"}
    asked = {"name": "asked", "kind": "variance", "column": "x", "range": [0, 1]}
    own = prepare(make_plan({**plan, "query": [asked]})).questions[0]
    law, rng = next(each for each in laws() if each.name == name), np.random.default_rng([seed, n])
    added = added_noise(own.publisher)
    assert added is not None
    sums, _ = law.sums(rng, samples, n)
    noisy = np.maximum(sums + rng.laplace(0.0, added.noise.scale, sums.shape), 0.0)
    draws = list(map(tuple, noisy.tolist()))
    found = [own.form.estimate(own.publisher.read([[each]])[0][0]) for each in draws]
    ends = [list(own.of_population(each.value, draw, LEVEL).values()) for each, draw in zip(found, draws, strict=True)]
    held = sum(low <= law.variance <= high for low, high in ends)
    table = sum(each.lower <= law.variance <= each.upper for each in found)
    known = 2.0 * stats.norm.isf((1.0 - LEVEL) / 2.0) * math.sqrt(2.0 / n) * law.variance
    return Measured(held, 0, samples, float(np.median([high - low for low, high in ends])), known, table, samples)


COUNTS = {
    "histogram": {"kind": "histogram", "column": "x", "range": [0, 1], "bins": 6},
    "crosstab": {"kind": "crosstab", "by": ["g", "h"]},
    "crosstab without margins": {"kind": "crosstab", "by": ["g", "h"], "margins": False},
}
SHARES = (0.6, 0.3, 0.08, 0.019, 0.001, 0.0)
"""The shares of six bins, or of the cells of three rows and two columns."""


def measure_counts(kind: str, n: int, epsilon: float, delta: float, samples: int, seed: int = 1) -> Measured:
    """Of how many samples the interval of the number with the fewest holds what is expected; so for `table`."""
    plan = {"budget": {"epsilon": epsilon, "delta": delta}, "level": LEVEL, "intervals": "both"}
    keys = {"keys": {"g": ["a", "b", "c"], "h": ["u", "v"]}} if "by" in COUNTS[kind] else {}
    own = prepare(make_plan({**plan, **keys, "query": [{"name": "asked", **COUNTS[kind]}]})).questions[0]
    rng, held, table, widths = np.random.default_rng([seed, n]), [], [], []
    cells, margins = n * np.array(SHARES), n * np.array(SHARES).reshape(3, 2)
    total = [*margins.sum(axis=1), *margins.sum(axis=0), n] if kind == "crosstab" else []
    true = np.array([*cells, *total])
    for _ in range(samples):
        counts = [Fraction(int(each)) for each in rng.multinomial(n, SHARES)]
        truths = [tuple(counts)] if kind == "histogram" else [(each,) for each in counts]
        (group,) = own.publisher.draw(truths, secure_bits)
        made = [own.form.estimate(each) for each in own.publisher.read([group])[0]]
        ends = own.of_group(made, group, LEVEL, whole=False)
        lower, upper = (np.array([each[name] for each in ends]) for name in ("population_lower", "population_upper"))
        held.append((lower <= true + 1e-9) & (true - 1e-9 <= upper))
        table.append([each.lower <= x <= each.upper for each, x in zip(made, true, strict=True)])
        widths.append(upper[1] - lower[1])
    few, some = int(np.sum(held, axis=0).min()), int(np.sum(table, axis=0).min())
    return Measured(few, 0, samples, float(np.median(widths)), 0.0, some, samples)


def too_few(found: dict[object, tuple[int, int]], wrong: float = 0.01) -> list[object]:
    """The cells that reject a coverage of `LEVEL`, where all of them together do so with probability `wrong`."""
    rare = wrong / len(found)
    return [name for name, (held, drawn) in found.items() if held < stats.binom.ppf(rare, drawn, LEVEL)]


def tables(samples: int) -> str:
    """Coverage in percent and the width in those of the interval that knows the variance, in Markdown."""
    head = " | ".join(f"{n:,} at {epsilon:g}" for n in SIZES for epsilon in EPSILONS)
    lines = [f"| law | {head} |", "| --- |" + " ---: |" * (len(SIZES) * len(EPSILONS))]
    cells, control = {}, {}
    for law in laws():
        own = []
        for n in SIZES:
            for epsilon in EPSILONS:
                found = measure(law, n, epsilon, samples)
                cells[law.name, n, epsilon] = found.held, samples
                control[law.name, n, epsilon] = found.table, found.few
                own.append(f"{100 * found.held / samples:.1f}, {found.width / found.known:.2f}")
                print(law.name, n, epsilon, found, file=sys.stderr, flush=True)
        lines.append(f"| {law.name} | {' | '.join(own)} |")
    return "\n".join([*lines, "", f"Too few: {too_few(cells)}", f"Control: {len(too_few(control))} of {len(control)}"])


if __name__ == "__main__":
    print(tables(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
