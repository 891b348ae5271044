"""Naive Bayes on Iris with variances that cannot be zero.

Counts, means and variances of each class are released, a ninth of epsilon for each of the nine kinds of numbers (the
paper takes an eighth, and publishes the counts without noise). Bounded variances are truncated to their range, clamped
ones rectified; both have the same lower end, 1e-10 of the squared range. Each epsilon is simulated 100 times, with a
new split of 80 % to 20 % each time.

Values are scaled to [0, 1], and each kind has at least m = 40 rows. One row more moves a mean by at most 1/(m + 1), and
a variance by at most max(m/(m + 1)^2, (m - 1)/m^2): with n >= m rows and d the distance to the old mean, the variance v
changes by n d^2/(n + 1)^2 - v/(n + 1).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

import rangebound as rb
from papers.report import Claims, Progress, Row, save
from rangebound.plot import style

HERE = Path(__file__).parent
FIGURES = {"figure2.png": "Fig. 2: accuracy against epsilon, bounded and clamped variances, 100 simulations each"}
EPSILONS = np.geomspace(1.0, 3000.0, 11)
RANGES = ([4.0, 2.0, 1.0, 0.0], [8.0, 4.5, 7.0, 2.5])  # centimetres, from what flowers are like
SMALLEST = 40  # of each kind in a training set: known beforehand, since fifty of each were collected
SIMULATIONS = 100
FLOOR = 1e-10


CHANGES = 1.0 / (SMALLEST + 1), max(SMALLEST / (SMALLEST + 1) ** 2, (SMALLEST - 1) / SMALLEST**2)
UNIT = rb.Interval(0.0, 1.0)


def mechanism(change: float, ends: rb.Interval, support: rb.Interval, bounding: Any, share: float) -> rb.Mechanism:
    """Laplace noise for this share of epsilon; the sensitivity has room for rounding."""
    query = rb.Query(range=ends, sensitivity=change + 1e-14)
    return rb.calibrate(noise=rb.Laplace, query=query, support=support, bounding=bounding, epsilon=share)


def mechanisms(epsilon: float, bounding: Any) -> tuple[rb.Mechanism, ...]:
    """For a count, a mean and a variance, a ninth of epsilon each."""
    share, counts = epsilon / 9.0 * (1.0 - 1e-12), rb.Interval(0.0, np.inf)
    return (
        mechanism(1.0, counts, counts, rb.TRUNCATE, share),
        mechanism(CHANGES[0], UNIT, UNIT, bounding, share),
        mechanism(CHANGES[1], rb.Interval(0.0, 0.25), rb.Interval(FLOOR, 0.25), bounding, share),
    )


def fitted(x: Any, y: Any, made: tuple[rb.Mechanism, ...]) -> Any:
    """Naive Bayes whose numbers are private."""
    count, mean, variance = made
    lower, upper = np.array(RANGES)
    groups = [np.clip((x[y == each] - lower) / (upper - lower), 0.0, 1.0) for each in range(3)]
    found = GaussianNB()
    found.classes_ = np.arange(3)
    counts = np.maximum(count.release(np.array([float(len(each)) for each in groups])), 1.0)
    found.class_prior_ = counts / counts.sum()
    found.theta_ = lower + (upper - lower) * mean.release(np.stack([each.mean(axis=0) for each in groups]))
    found.var_ = (upper - lower) ** 2 * variance.release(np.stack([each.var(axis=0) for each in groups]))
    return found


def run(progress: Progress) -> list[Row]:
    claims = Claims.of(__file__)
    x, y = load_iris(return_X_y=True)
    splits = [train_test_split(x, y, test_size=0.2, random_state=i, stratify=y) for i in range(SIMULATIONS)]
    plain = float(np.mean([GaussianNB().fit(a, c).score(b, d) for a, b, c, d in splits]))
    kinds = {"bounded": rb.TRUNCATE, "clamped": rb.RECTIFY}
    accuracy = {name: np.zeros((len(EPSILONS), SIMULATIONS)) for name in kinds}
    spikes = np.zeros(len(EPSILONS))
    for i, epsilon in enumerate(EPSILONS.tolist()):
        for name, bounding in kinds.items():
            made = mechanisms(epsilon, bounding)
            for k, (a, b, c, d) in enumerate(splits):
                found = fitted(a, c, made)
                accuracy[name][i, k] = found.score(b, d)
                if name == "clamped":
                    spikes[i] += np.mean(found.var_ <= 2.0 * FLOOR * np.diff(RANGES, axis=0) ** 2) / SIMULATIONS
        progress(f"epsilon {epsilon:.3g}")
    ax = style.axes(None, title="Naive Bayes on Iris", x="epsilon", y="mean accuracy")
    for (name, values), look in zip(accuracy.items(), style.lines(), strict=False):
        mean, error = values.mean(axis=1), values.std(axis=1) / np.sqrt(SIMULATIONS)
        ax.semilogx(EPSILONS, mean, label=f"{name} variances", **look)
        ax.fill_between(EPSILONS, mean - 2 * error, mean + 2 * error, color=look["color"], alpha=0.15, linewidth=0)
    ax.axhline(plain, color=style.GREY, linewidth=1.0, linestyle=":", label="without privacy")
    style.ticks(ax.xaxis, 10.0)
    style.legend(ax)
    save(ax, HERE / "figure2.png")
    gain = accuracy["bounded"].mean(axis=1) - accuracy["clamped"].mean(axis=1)
    wins = int((gain > 0.0).sum())
    best = int(np.argmax(gain))
    finding = (
        f"better at {wins} of {len(EPSILONS)} epsilons, most at {EPSILONS[best]:.2g}: {100 * gain[best]:+.0f} points"
    )
    return [
        claims.holds("better", finding, wins >= 7 and gain[best] > 0.05),
        claims.holds(
            "singular",
            f"{100 * spikes[0]:.0f} % of clamped variances at the lower end at epsilon {EPSILONS[0]:g}, "
            f"{100 * spikes[-1]:.0f} % at {EPSILONS[-1]:g}",
            bool(spikes[0] > spikes[-1] + 0.1),
        ),
    ]
