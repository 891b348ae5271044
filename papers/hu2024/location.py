"""Fisher loss and per-instance Renyi divergence against the location.

Support [-1, 1], noise of scale 1, sensitivity 1, order 2, for the Gaussian mechanism and its rectified, truncated and
sign versions. The divergence is the corrected one: the worse of both shifts and both directions.
"""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np

import rangebound as rb
from papers.report import Claims, Progress, Row, Verdict, save
from rangebound.plot import style
from rangebound.privacy.pairs.divergences import fisher_formula, renyi_formula

HERE = Path(__file__).parent
FIGURES = {
    "fisher.png": "Fig. 1, left: Fisher loss against the location",
    "renyi.png": "Fig. 1, right: per-instance Renyi divergence of order 2; dots: as printed, with one shift",
}
PLACES = np.linspace(-5.0, 5.0, 401)
LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
UNIT = rb.Interval(-1.0, 1.0)
_CLIP = 1.0 / 200.0  # in scales: the largest clip in the paper's own trainings (appendix G: sigma/C from 200 to 50,000)


def mechanisms(scale: float = 1.0) -> dict[str, rb.Mechanism]:
    kinds = {
        "Gaussian": (rb.UNBOUNDED, None),
        "rectified": (rb.RECTIFY, UNIT),
        "truncated": (rb.TRUNCATE, UNIT),
        "sign": (rb.QUANTIZE, rb.Grid(step=2.0, within=UNIT)),
    }
    return {
        name: rb.Mechanism(noise=rb.Gaussian(scale=scale), query=LINE, support=support, bounding=bounding)
        for name, (bounding, support) in kinds.items()
    }


def divergence(m: rb.Mechanism, at: np.ndarray, *shifts: float, both: bool = True) -> np.ndarray:
    ways = [renyi_formula(m.noise, m.shape, at, at + s, 2.0) for s in shifts]
    if both:
        ways += [renyi_formula(m.noise, m.shape, at + s, at, 2.0) for s in shifts]
    return np.max(ways, axis=0)


def _missed(m: rb.Mechanism, clip: float) -> float:
    """The largest share of the divergence that the printed account misses, over all locations."""
    printed, right = divergence(m, PLACES, clip, both=False), divergence(m, PLACES, clip, -clip)
    return float((1.0 - printed / right).max())


def quantized(points: int) -> rb.Mechanism:
    """Gaussian noise rounded to points + 1 equidistant points of the support."""
    grid = rb.Grid(step=2.0 / points, within=UNIT)
    return rb.Mechanism(noise=rb.Gaussian(scale=1.0), query=LINE, support=grid, bounding=rb.QUANTIZE)


def _missing(points: int) -> float:
    """The largest relative difference of the Fisher information of quantized noise to that of rectified noise."""
    fine, whole = quantized(points), mechanisms()["rectified"]
    return float(
        (1.0 - fisher_formula(fine.noise, fine.shape, PLACES) / fisher_formula(whole.noise, whole.shape, PLACES)).max()
    )


def run(progress: Progress) -> list[Row]:
    claims = Claims.of(__file__)
    losses = {name: np.sqrt(fisher_formula(m.noise, m.shape, PLACES)) for name, m in mechanisms().items()}
    ways = {name: divergence(m, PLACES, 1.0, -1.0) for name, m in mechanisms().items()}
    printed = {name: divergence(m, PLACES, 1.0, both=False) for name, m in mechanisms().items()}
    for name, values, label in (("fisher.png", losses, "Fisher loss"), ("renyi.png", ways, "divergence of order 2")):
        ax = style.axes(None, title=f"{label}, support [-1, 1], scale 1", x="location", y=label)
        for (kind, curve), look in zip(values.items(), style.lines(), strict=False):
            ax.plot(PLACES, curve, label=kind, **look)
            if name == "renyi.png" and kind == "rectified":
                ax.plot(PLACES[::16], printed[kind][::16], ".", color=look["color"], label="rectified, as printed")
        if name == "renyi.png":
            ax.set_ylim(-0.05, 1.5)  # room for the names above the curves
        style.legend(ax, columns=3 if name == "renyi.png" else 1)
        save(ax, HERE / name)
    progress("curves")
    bounded = ("rectified", "truncated", "sign")
    low = max(float((losses[k] / losses["Gaussian"]).max()) for k in bounded)
    high = max(float((ways[k] / ways["Gaussian"]).max()) for k in bounded)
    middle = len(PLACES) // 2
    falling = all(bool((np.diff(losses[k][middle:]) <= 1e-12).all()) for k in bounded)
    narrow, wide = (
        float((fisher_formula(m.noise, m.shape, np.zeros(1)) * s**2)[0])
        for s in (1.0, 0.25)
        for m in [mechanisms(s)["truncated"]]
    )
    missing = {points: _missing(points) for points in (4, 16, 64, 256)}
    shrinks = all(b < 0.4 * a for a, b in itertools.pairwise(missing.values()))
    missed = [_missed(mechanisms()["rectified"], clip) for clip in (1.0, _CLIP)]
    return [
        claims.holds("fisher", f"largest ratio to Gaussian noise {low:.4f}", low <= 1.0 + 1e-9),
        claims.holds("renyi", f"largest ratio to Gaussian noise {high:.4f}, both shifts and directions", high <= 1.0),
        claims.holds("tails", "Fisher losses fall from 0 outwards, all three" if falling else "not monotone", falling),
        claims.holds(
            "wide", f"eta^2 sigma^2 of the truncated: {narrow:.3f} at scale 1, {wide:.3f} at 1/4", narrow < wide
        ),
        claims.row(
            "shift",
            f"misses up to {100 * missed[0]:.0f} % of the divergence at clip = scale (rectified), "
            f"up to {100 * missed[1]:.1f} % at clip = scale/200, the largest ratio of the paper's trainings",
            Verdict.FALSE,
        ),
        claims.holds(
            "quantized",
            "the information that is missing, at most over the locations: "
            + ", ".join(f"{100 * each:.2g} % with {points + 1} points" for points, each in missing.items()),
            shrinks,
        ),
    ]
