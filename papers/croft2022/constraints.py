"""Laplace noise cut by range constraints.

The published uniform scales are right for metric privacy, the guarantee that is proved: a pair at a distance of i
sensitivities differs by at most i epsilon. For ordinary privacy they are never the smallest. The published scales that
vary with the distance from a single infinite constraint do not give epsilon-privacy at all: in the free tail the ratio
of two densities grows without limit.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import rangebound as rb
from papers.report import Claims, Progress, Row, Verdict, save
from rangebound import plot
from rangebound.plot import style

HERE = Path(__file__).parent
FIGURES = {
    "figure2.png": "Fig. 2: a Laplace density, and the same cut by constraints (chosen by us) and normalized",
    "sigma.png": "The published scale against the distance from the constraint, and the smallest uniform private scale",
    "violation.png": "Theorem 1 fails: in the tail the log-ratio of two neighbouring densities exceeds epsilon = 1",
    "metric.png": "Random gap sets: the metric scale of Theorem 2 over the smallest scale for ordinary privacy",
}
HALF_LINE = rb.Query(range=rb.Interval(0, math.inf), sensitivity=1.0)
EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0)
SETS, SEED = 200, 2022


def run(progress: Progress) -> list[Row]:
    claims = Claims.of(__file__)
    rows = [figure_2(claims), *sigma(claims)]
    progress("figure 2 and the scales of a single constraint")
    rows += violation(claims)
    progress("the violation of Theorem 1")
    return [*rows, *gap_sets(claims, progress)]


def figure_2(claims: Claims) -> Row:
    allowed = rb.Union((-4, -2), (-1, 1.5), (2.5, 4))
    cut = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=rb.Query(range=allowed, sensitivity=1.0))
    line = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)
    whole = rb.Mechanism(noise=rb.Laplace(scale=1.0), query=line, bounding=rb.UNBOUNDED)
    ax = plot.law(cut.law(0.0), labels=["cut and normalized"])
    x = np.linspace(*ax.get_xlim(), 801)
    ax.plot(x, whole.law(0.0).pdf(x), label="Laplace", **list(zip(range(2), style.lines(), strict=False))[1][1])
    ax.set_title("Location 0, scale 1", fontsize=11)
    style.legend(ax)
    save(ax, HERE / "figure2.png")
    mass = sum(float(cut.law(0.0).mass(a, b)) for a, b in allowed.spans)
    lift = float(cut.law(0.0).pdf(0.5) / whole.law(0.0).pdf(0.5))
    return claims.holds(
        "normal",
        f"mass of the allowed spans {mass:.12g}; the density is {lift:.4f} times the Laplace one",
        abs(mass - 1) < 1e-12,
    )


def sigma(claims: Claims) -> list[Row]:
    distance = np.concatenate([[0.0], np.geomspace(0.01, 20.0, 200)])
    ax = style.axes(
        None,
        title="A single infinite constraint",
        x="distance / (sensitivity/epsilon)",
        y="scale / (sensitivity/epsilon)",
    )
    looks = style.lines()
    curve = rb.VariableScaleLaplace(query=HALF_LINE, epsilon=1.0).scale(distance)
    ax.plot(distance, curve, label="published, varying", **next(looks))
    uniform = {}
    for epsilon in (0.5, 1.0, 2.0, 5.0):
        uniform[epsilon] = rb.calibrate(noise=rb.Laplace, query=HALF_LINE, epsilon=epsilon).noise.scale * epsilon
        ax.plot(
            distance,
            np.full_like(distance, uniform[epsilon]),
            label=f"uniform, private, epsilon {epsilon:g}",
            **next(looks),
        )
    ax.set_xlim(0.0, 12.0)
    ax.set_ylim(None, 2.2)  # room for the words above the lines
    style.legend(ax, columns=2)
    save(ax, HERE / "sigma.png")
    at = rb.VariableScaleLaplace(query=HALF_LINE, epsilon=1.0).scale([0.0, 1.0, 20.0])
    fall = f"{at[0]:.4f} at the constraint, {at[1]:.4f} at distance 1, {at[2]:.4f} at 20"
    return [
        claims.number("sigma1", float(curve[0]), shown=".10g"),
        claims.holds("sigma2", fall, bool((np.diff(curve) < 0.0).all())),
    ]


def violation(claims: Claims) -> list[Row]:
    published = rb.VariableScaleLaplace(query=HALF_LINE, epsilon=1.0)
    x = np.linspace(0.0, 24.0, 601)
    ax = style.axes(
        None,
        title="Published scales, epsilon 1, answers at sensitivity 1",
        x="published number",
        y="log-ratio of the densities",
    )
    top = 0.0
    for (a, b), look in zip(((0.0, 1.0), (0.5, 1.5), (1.0, 2.0)), style.lines(), strict=False):
        ratio = np.log(published.pdf(x, a) / published.pdf(x, b))
        top = max(top, float(ratio.max()))
        ax.plot(x, ratio, label=f"answers {a:g} and {b:g}", **look)
    ax.axhspan(-1.0, 1.0, color="#EEEEEE", zorder=0, label="allowed: at most epsilon")
    style.legend(ax)
    save(ax, HERE / "violation.png")
    deltas = {e: rb.VariableScaleLaplace(query=HALF_LINE, epsilon=e).delta(e) for e in EPSILONS}
    listed = ", ".join(f"{value:.2e} at {e:g}" for e, value in deltas.items())
    finding = f"epsilon = {published.epsilon()}; private only with a delta: {listed}; log-ratio up to {top:.2f} drawn"
    return [claims.holds("theorem1", finding, math.isfinite(published.epsilon()))]


def gap_sets(claims: Claims, progress: Progress) -> list[Row]:
    """Gaps and spans of random lengths; the number of gaps, the lengths and epsilon vary over the sets."""
    draw = np.random.default_rng(SEED)
    metric, ordinary, epsilons, finite = [], [], [], []
    for i in range(SETS):
        count = int(draw.integers(1, 30))
        lengths = draw.exponential(10.0 ** draw.uniform(-1, 1, size=2 * count)) + 1e-3
        ends = np.concatenate([[0.0], np.cumsum(lengths)]).tolist()
        free = bool(draw.integers(2))  # whether the outer spans reach to infinity
        inner = list(zip(ends[:-1:2], ends[1::2], strict=True))
        allowed = (
            rb.Union((-math.inf, ends[0] - 1.0), *inner, (ends[-1] + 1.0, math.inf))
            if free
            else rb.Union(*inner, (ends[-1] + 1.0, ends[-1] + 2.0))
        )
        epsilon = float(10.0 ** draw.uniform(-1, 1))
        query = rb.Query(range=allowed, sensitivity=1.0)
        for found, notion in ((metric, "metric"), (ordinary, "dp")):
            found.append(
                rb.calibrate(noise=rb.Laplace, query=query, epsilon=epsilon, notion=notion).noise.scale * epsilon
            )
        epsilons.append(epsilon)
        finite.append(free)
        if i % 50 == 49:
            progress(f"{i + 1} of {SETS} random gap sets")
    ratio, free_ends = np.asarray(metric) / np.asarray(ordinary), np.asarray(finite)
    ax = style.axes(
        None, title=f"{SETS} random gap sets, sensitivity 1", x="epsilon", y="metric scale / ordinary scale"
    )
    kinds = (("finite constraints only", free_ends), ("with infinite constraints", ~free_ends))
    for (name, chosen), colour, marker in zip(kinds, style.COLOURS, style.MARKERS, strict=False):
        ax.plot(
            np.asarray(epsilons)[chosen],
            ratio[chosen],
            marker,
            color=colour,
            markersize=4,
            fillstyle="none",
            label=name,
        )
    ax.set_xscale("log")
    style.ticks(ax.xaxis, 10.0, (1.0, 2.0, 5.0))
    style.legend(ax)
    save(ax, HERE / "metric.png")
    scales, rounding = np.asarray(metric), 1e-9  # to which a scale is the smallest one; a long gap comes near to 2
    spread = f"right for metric privacy; {ratio.min():.3f} to {ratio.max():.3f} times what ordinary privacy needs"
    return [
        claims.holds(
            "finite",
            f"largest of {free_ends.sum()} random sets: {scales[free_ends].max():.6f}",
            bool((scales[free_ends] <= 2.0 + rounding).all()),
        ),
        claims.number("arbitrary", float(scales[~free_ends].max()), shown=".12g"),
        claims.row("theorem2", spread, Verdict.LOOSE if ratio.min() >= 1.0 - 1e-9 else Verdict.FALSE),
    ]
