"""Private means: bias, privacy and utility of the rectified Gaussian mechanism.

900 rows from a normal law around mu in 100 dimensions, clipped to [-1, 1]; the mean of each coordinate, which one row
moves by at most 2/900, is released on [-a, a]. Privacy is the per-instance divergence of order 2, corrected; utility
the mean squared distance of the rows from the released mean. Averages of five runs. Noise is given as a standard
deviation, and for the published sentence as a multiple of the sensitivity, which is what it must mean (20 runs).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import rangebound as rb
from papers.report import Claims, Progress, Row, Verdict, save
from rangebound.plot import style
from rangebound.privacy.pairs.divergences import renyi_formula

HERE = Path(__file__).parent
FIGURES = {
    "privacy.png": "Fig. 2a: divergence relative to Gaussian noise, against the distance of mu from the middle",
    "utility.png": "Fig. 2b: change of the loss, for the same settings",
}
ROWS, WIDTH, RUNS = 900, 100, 5
SCALES, ENDS, CENTRES = (0.1, 0.2, 0.4, 0.8), (0.05, 0.25, 0.5, 1.0), (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
MULTIPLE, NARROW, MANY = 0.4, 0.02, 20  # noise over the sensitivity, the end of the support, runs
LINE = rb.Interval(-math.inf, math.inf)


def mechanism(scale: float, end: float | None) -> rb.Mechanism:
    query = rb.Query(range=LINE, sensitivity=2.0 / ROWS)
    if end is None:
        return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, bounding=rb.UNBOUNDED)
    support = rb.Interval(-end, end)
    return rb.Mechanism(noise=rb.Gaussian(scale=scale), query=query, support=support, bounding=rb.RECTIFY)


def divergence(m: rb.Mechanism, mean: np.ndarray) -> float:
    """The sum over coordinates of the divergence of order 2 from the worse of both shifts, in the worse direction."""
    pairs = [(mean, mean + m.query.sensitivity), (mean, mean - m.query.sensitivity)]
    forward = np.maximum(*(renyi_formula(m.noise, m.shape, a, b, 2.0) for a, b in pairs))
    backward = np.maximum(*(renyi_formula(m.noise, m.shape, b, a, 2.0) for a, b in pairs))
    return max(float(forward.sum()), float(backward.sum()))


def measured(
    generator: np.random.Generator, centre: float, scale: float, end: float, runs: int = RUNS
) -> tuple[float, float, float]:
    """The ratio of the divergences, the relative change of the loss, both averaged over runs, and the ratio's error."""
    ratios, changes = [], []
    for _ in range(runs):
        x = np.clip(generator.normal(centre, 1.0, size=(ROWS, WIDTH)), -1.0, 1.0)
        mean, spread = x.mean(axis=0), float(x.var(axis=0).sum())
        free, bounded = mechanism(scale, None), mechanism(scale, end)
        ours, theirs = (divergence(m, mean) for m in (bounded, free))
        # The loss splits into the spread of the rows and the squared error of the released mean.
        loss = [spread + float(((m.release(mean) - mean) ** 2).sum()) for m in (bounded, free)]
        ratios.append(ours / theirs)
        changes.append(loss[0] / loss[1] - 1.0)
    return float(np.mean(ratios)), float(np.mean(changes)), float(np.std(ratios, ddof=1) / math.sqrt(runs))


def run(progress: Progress) -> list[Row]:
    claims = Claims.of(__file__)
    generator = np.random.default_rng(2024)
    found = {}
    for scale in SCALES:
        for end in ENDS:
            for centre in CENTRES:
                found[scale, end, centre] = measured(generator, centre, scale, end)
        progress(f"scale {scale}")
    for k, (name, label) in enumerate(
        (("privacy.png", "divergence / Gaussian"), ("utility.png", "change of the loss"))
    ):
        ax = style.axes(None, title="Rectified Gaussian mean, n = 900, d = 100, a = 0.5", x="|mu|", y=label)
        for scale, look in zip(SCALES, style.lines(), strict=False):
            ax.plot(CENTRES, [found[scale, 0.5, c][k] for c in CENTRES], label=f"sigma {scale:g}", **look)
        style.legend(ax)
        save(ax, HERE / name)
    # Less loss does no harm: only an increase counts as a price.
    fair = {key: value for key, value in found.items() if key[2] == 0.0 and value[1] < 0.005}
    best = min(fair, key=lambda key: fair[key][0])
    at = min((key for key in fair if key[0] == 0.4), key=lambda key: fair[key][0])
    largest = max(value[0] for value in found.values())
    rising = [found[s, e, CENTRES[-1]][0] - found[s, e, 0.0][0] for s in SCALES for e in ENDS]
    grows = sum(each > 1e-6 for each in rising)
    finding = "; ".join(
        f"standard deviation {s:g}, a = {e:g}: {100 * (1 - fair[s, e, c][0]):.0f} % less, "
        f"loss {100 * fair[s, e, c][1]:+.1f} %"
        for s, e, c in (at, best)
    )
    ratio, change, error = measured(np.random.default_rng(0), 0.0, MULTIPLE * 2.0 / ROWS, NARROW, MANY)
    meant = (
        f"standard deviation {MULTIPLE:g} times the sensitivity, a = {NARROW:g}: {100 * (1 - ratio):.1f} % less "
        f"(standard error {100 * error:.1f}), loss {100 * change:+.3f} %; "
    )
    return [
        claims.holds("reduction", meant + finding, 0.65 <= ratio <= 0.75 and 0.0 <= change < 0.005),
        claims.holds("always", f"largest ratio {largest:.6f}", largest <= 1.0 + 1e-9),
        claims.row(
            "bias",
            f"sigma and a fixed: the ratio rises with |mu| in {grows} of {len(rising)} settings, falls in the others",
            Verdict.TRUE if grows == len(rising) else Verdict.FALSE if grows == 0 else Verdict.SCOPE,
        ),
    ]
