"""The density of the bounded mechanism beside that of plain Laplace noise.

Range [0, 4], answer 1, scale 1. Drawn again until it fits, the noise has the density of Laplace noise inside the range,
divided by the mass C_q that lies there, and none outside.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import rangebound as rb
from papers.report import Claims, Progress, Row, save
from rangebound.plot import style

HERE = Path(__file__).parent
FIGURES = {"figure1.png": "Fig. 1: densities of the standard and of the bounded Laplace mechanism"}
WIDTH, ANSWER = 4.0, 1.0


def run(progress: Progress) -> list[Row]:
    claims = Claims.of(__file__)
    noise = rb.Laplace(scale=1.0)
    line = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    plain = rb.Mechanism(noise=noise, query=line, bounding=rb.UNBOUNDED).law(ANSWER)
    inside = rb.Mechanism(noise=noise, query=rb.Query(range=rb.Interval(0, WIDTH), sensitivity=1.0)).law(ANSWER)
    x = np.linspace(-2.0, 6.0, 801)
    densities = {"standard": plain.pdf(x), "bounded": inside.pdf(x)}
    ax = style.axes(None, title="Range [0, 4], answer 1, scale 1", x="output", y="density")
    for (name, values), look in zip(densities.items(), style.lines(), strict=False):
        ax.plot(x, values, label=name, **look)
    style.legend(ax)
    save(ax, HERE / "figure1.png")
    progress("figure 1")
    kept = 1.0 - 0.5 * (math.exp(-ANSWER) + math.exp(-(WIDTH - ANSWER)))
    within = (x >= 0.0) & (x <= WIDTH)
    factor = densities["bounded"][within] / densities["standard"][within]
    holds = bool(abs(factor * kept - 1.0).max() < 1e-12 and not densities["bounded"][~within].any())
    mass = inside.mass(0.0, WIDTH)
    return [
        claims.holds(
            "densities",
            f"{factor[0]:.4f} times the standard one inside, 0 outside, mass {mass:.12g}",
            holds and mass > 0.0,
        )
    ]
