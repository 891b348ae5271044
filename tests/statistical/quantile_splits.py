"""What the split of a budget between the draw of a quantile and the counts around it trades: error for width.

`python -m tests.statistical.quantile_splits` prints the table of `benchmarks/results/quantiles.md`, in four minutes.
"""

import math
from collections.abc import Iterator

import numpy as np
from sklearn import datasets
from statsmodels import datasets as tables

from rangebound.release.noise import noisy_ranks
from rangebound.release.noise.joint_loss import NoiseAccount
from rangebound.release.noise.noisy_ranks import GRAIN, NoisyRanks
from rangebound.release.noise.strategies.strategy import LatticeNoise

ROWS, STEPS, DRAWS = 20_000, 1000, 400
LEVELS, EPSILONS, SHARES = (0.5, 0.75, 0.99), (0.1, 0.3, 1.0), (0.75, 0.67, 0.5)
chance = np.random.default_rng(3)


def columns() -> Iterator[tuple[np.ndarray, float, float]]:
    """Six columns with their made-up ranges, of 20,000 rows by a bootstrap that is smoothed, so that none are alike."""
    births = tables.fertility.load_pandas().data.iloc[:, 4:].to_numpy(float).ravel()
    sea = tables.elnino.load_pandas().data.iloc[:, 1:].to_numpy(float).ravel()
    found = [
        (tables.engel.load_pandas().data.income.to_numpy(), 0, 10_000),
        (datasets.load_diabetes(as_frame=True, scaled=False).frame.bmi.to_numpy(), 10, 60),
        (datasets.load_breast_cancer(as_frame=True).frame["mean area"].to_numpy(), 0, 5000),
        (births[np.isfinite(births)], 0, 12),
        (sea[np.isfinite(sea)], 0, 40),
        (tables.star98.load_pandas().data.PERSPENK.to_numpy(), 0, 12),
    ]
    for values, low, high in found:
        quartiles = float(np.subtract(*np.quantile(values, [0.75, 0.25])))
        width = 0.9 * min(values.std(), quartiles / 1.34) * len(values) ** -0.2
        yield np.clip(chance.choice(values, ROWS) + width * chance.normal(size=ROWS), low, high), low, high


def law(counts: np.ndarray, level: float, epsilon: float) -> np.ndarray:
    """That of the exponential mechanism over the places of a grid."""
    sums, rank = np.append(0.0, np.cumsum(counts)), level * counts.sum()
    score = np.maximum(0.0, np.maximum(sums[:-1] - rank, rank - sums[1:]))
    weights = np.exp(-epsilon / (2.0 * max(level, 1.0 - level)) * (score - score.min()))
    return np.asarray(weights / weights.sum())


def ours(counts: np.ndarray, borders: np.ndarray, level: float, epsilon: float, share: float) -> Iterator[np.ndarray]:
    """Ends of intervals, where draws have this share."""
    sums, scale = np.append(0.0, np.cumsum(counts)), 1.0 / ((1.0 - share) * epsilon)
    noise = LatticeNoise(account=NoiseAccount.PURE, scale=scale / float(GRAIN))
    for at in chance.choice(len(counts), DRAWS, p=law(counts, level, share * epsilon)):
        cuts = noisy_ranks.cut_around([int(at)], len(counts))
        rows = np.diff(sums[cuts]) + chance.laplace(0.0, scale, len(cuts) - 1)
        first, last = NoisyRanks(cuts=cuts, rows=rows, level=level, noise=noise).cells(0.95)
        yield borders[[cuts[first], cuts[last + 1]]]


def of_tree(counts: np.ndarray, borders: np.ndarray, level: float, epsilon: float) -> float:
    """The mean width of intervals by a tree of counts, of the branching that is best for the column."""
    size, widths = len(counts), []
    cut, offset = np.arange(size + 1), np.append(0.0, np.cumsum(counts)) - level * counts.sum()
    for branches in (2, 4, 8, 11, 16, 32, 64, size):
        depth = next(at for at in range(1, 20) if branches**at >= size)
        noisy, variance = np.tile(offset, (60, 1)), np.zeros(size + 1)
        for height in range(depth):
            number = -(-size // branches**height)
            noise = chance.laplace(0.0, depth / epsilon, (60, number))
            sums = np.concatenate([np.zeros((60, 1)), np.cumsum(noise, axis=1)], axis=1)
            node = np.minimum(cut // branches**height, number)
            first = np.minimum(node, number - 1) // branches * branches
            last = np.minimum(first + branches, number)
            after = np.minimum(node + (height > 0), last)
            noisy += (1 - level) * (sums[:, node] - sums[:, first]) - level * (sums[:, last] - sums[:, after])
            variance += 2 * (depth / epsilon) ** 2 * ((1 - level) ** 2 * (node - first) + level**2 * (last - after))
        far = 1.0 + 1.96 * np.sqrt(variance)
        low, high = noisy <= far, -noisy <= far
        low[:, 0] = high[:, -1] = True
        cells = low[:, :-1] & high[:, 1:]
        lower, upper = cells.argmax(axis=1), size - 1 - cells[:, ::-1].argmax(axis=1)
        some = cells.any(axis=1)
        widths.append(np.where(some, borders[upper + 1] - borders[lower], borders[-1] - borders[0]).mean())
    return float(min(widths))


def main() -> None:
    grids = []
    for values, low, high in columns():
        points = np.linspace(low, high, STEPS + 1)
        borders = np.concatenate([[low], (points[1:] + points[:-1]) / 2.0, [high]])
        grids.append((values, points, borders, np.histogram(values, borders)[0]))
    for epsilon in EPSILONS:
        for level in LEVELS:
            lines: dict[float, list[tuple[float, ...]]] = {share: [] for share in SHARES}
            for values, points, borders, counts in grids:
                true, tree = float(np.quantile(values, level)), of_tree(counts, borders, level, epsilon)

                for share in SHARES:
                    ends = np.array(list(ours(counts, borders, level, epsilon, share)))
                    width, held = (ends[:, 1] - ends[:, 0]).mean(), (ends[:, 0] <= true) & (true <= ends[:, 1])
                    own, most, before = (
                        math.sqrt(float(law(counts, level, part * epsilon) @ (points - true) ** 2))
                        for part in (share, 1.0, 0.75)
                    )
                    lines[share].append((own / most, own / before, width / own, width / tree, held.mean()))
            for share, cells in lines.items():
                a, b, c, d, e = np.array(cells).T
                print(
                    f"| {epsilon:g} | {level:g} | {share:g} | {np.median(a):.2f}, {a.max():.2f} | {np.median(b):.2f}, "
                    f"{b.max():.2f} | {np.median(c):.1f}, {c.max():.1f} | {np.median(d):.2f}, {d.max():.2f} | "
                    f"{100 * e.min():.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
