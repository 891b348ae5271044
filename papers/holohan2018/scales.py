"""The scale of truncated Laplace noise on an interval.

For a pure epsilon the published fixed point is exact, and the library returns it, rounded to the private side. With a
delta the published condition asks for more noise than is needed; how much is drawn in the last figure.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

import rangebound as rb
from papers.report import Claims, Progress, Row, Verdict, save
from rangebound.plot import style

HERE = Path(__file__).parent
FIGURES = {
    "figure3.png": "Fig. 3: the factor by which bounding raises the noise, against the sensitivity (width 1, delta 0)",
    "figure4.png": "Fig. 4: the operator f, its fixed point, and the scale that rb.calibrate returns",
    "delta.png": "With a delta: the scale of eq. 3.1 over the smallest private scale",
}
WIDTH, SENSITIVITIES = 1.0, np.linspace(0.005, 1.0, 60)


def scale(width: float, sensitivity: float, epsilon: float, delta: float = 0.0) -> float:
    """The smallest private scale, from the library."""
    query = rb.Query(range=rb.Interval(0, width), sensitivity=sensitivity)
    return rb.calibrate(noise=rb.Laplace, query=query, epsilon=epsilon, delta=delta).noise.scale


def operator(b: float, width: float, sensitivity: float, epsilon: float, delta: float = 0.0) -> float:
    """f(b) of eq. 4.1, as published; infinite where its denominator is not positive."""
    near = -math.expm1(-sensitivity / b) * -math.expm1(-(width - sensitivity) / b) / -math.expm1(-width / b)
    rest = epsilon - math.log1p(near) - math.log1p(-delta)
    return sensitivity / rest if rest > 0.0 else math.inf


def published(width: float, sensitivity: float, epsilon: float, delta: float) -> float:
    """The fixed point of f, by bisection as in Algorithm 1."""
    low = sensitivity / (epsilon - math.log1p(-delta))
    high = operator(low, width, sensitivity, epsilon, delta)
    while (middle := 0.5 * (low + high)) not in (low, high):
        low, high = (middle, high) if operator(middle, width, sensitivity, epsilon, delta) >= middle else (low, middle)
    return high


def run(progress: Progress) -> list[Row]:
    claims = Claims.of(__file__)
    rows = [*figure_3(claims), *figure_4(claims)]
    progress("figures 3 and 4")
    return [*rows, *with_delta(claims, progress)]


def figure_3(claims: Claims) -> list[Row]:
    ax = style.axes(
        None, title="What bounding costs at a pure epsilon", x="sensitivity / width", y="epsilon / epsilon'"
    )
    curves = {}
    for epsilon, look in zip((0.1, 1.0, 2.0, 5.0, 10.0), style.lines(), strict=False):
        curves[epsilon] = np.asarray([scale(WIDTH, d, epsilon) * epsilon / d for d in SENSITIVITIES])
        ax.plot(SENSITIVITIES, curves[epsilon], label=f"epsilon {epsilon:g}", **look)
    style.legend(ax)
    save(ax, HERE / "figure3.png")
    table = np.asarray(list(curves.values()))
    rounding = 1e-9  # a scale is the smallest one to this, and the curves are flat at the left
    falls = bool((np.diff(table, axis=1) <= rounding).all() and (np.diff(table, axis=0) <= rounding).all())
    inside = bool(table.min() >= 1.0 and table.max() < 2.0)
    limit = scale(WIDTH, 1e-6, 1e-6)  # epsilon / epsilon' is epsilon times the scale over the sensitivity
    return [
        claims.number("limit", limit),
        claims.number("span", scale(WIDTH, WIDTH, 1.0), shown=".12g"),
        claims.holds("between", f"{table.max():.4f} down to {table.min():.4f}, falling along both", falls and inside),
    ]


def figure_4(claims: Claims) -> list[Row]:
    sensitivity, epsilon = 0.2, 1.0
    ours, start = scale(WIDTH, sensitivity, epsilon), sensitivity / epsilon
    end = operator(start, WIDTH, sensitivity, epsilon)
    b = np.linspace(0.9 * start, 1.1 * end, 200)
    ax = style.axes(None, title="The fixed point (width 1, sensitivity 0.2, epsilon 1)", x="b", y="f(b)")
    looks = style.lines()
    ax.plot(b, [operator(x, WIDTH, sensitivity, epsilon) for x in b], label="f(b)", **next(looks))
    ax.plot(b, b, label="b", **next(looks))
    for x, name in ((start, "b0"), (end, "f(b0)")):
        ax.axvline(x, color=style.GREY, linewidth=0.9, linestyle=":")
        ax.annotate(name, (x, b[0]), xytext=(4, 2), textcoords="offset points", color=style.GREY)
    ax.plot(
        [ours], [ours], "*", color="black", markersize=12, zorder=6, label=f"rb.calibrate: {ours:.5f}", linestyle="none"
    )
    style.legend(ax)
    save(ax, HERE / "figure4.png")
    miss = operator(ours, WIDTH, sensitivity, epsilon) / ours - 1.0
    private = rb.Mechanism(
        noise=rb.Laplace(scale=ours * (1.0 - 1e-8)),
        query=rb.Query(range=rb.Interval(0, WIDTH), sensitivity=sensitivity),
    )
    smallest = private.epsilon() > epsilon
    true = abs(miss) < 1e-9 and start < ours < end and smallest
    return [claims.holds("fixed", f"b* = {ours:.9f}, |f(b*)/b* - 1| = {abs(miss):.0e}; 1e-8 less is not private", true)]


def with_delta(claims: Claims, progress: Progress) -> list[Row]:
    rows = []
    for key, width, epsilon, delta in (
        ("delta_w1", 1, 1, 0.01),
        ("delta_w10", 10, 0.1, 0.01),
        ("delta_w10b", 10, 1, 0.001),
    ):
        paper, ours = published(width, 1.0, epsilon, delta), scale(width, 1.0, epsilon, delta)
        assert abs(paper / claims.value(key) - 1.0) < 1e-5
        rows.append(claims.row(key, f"{ours:.6g} is enough; published: {paper / ours:.3f} times that", Verdict.LOOSE))
    deltas = np.geomspace(1e-6, 0.1, 11)
    ax = style.axes(None, title="Noise that the exact analysis saves", x="delta", y="scale of eq. 3.1 / exact scale")
    ratios = []
    cases = [(10.0, 0.1), (10.0, 0.5), (10.0, 1.0), (1.0, 0.1), (1.0, 1.0)]
    for (width, epsilon), look in zip(cases, style.lines(), strict=False):
        curve = [published(width, 1.0, epsilon, d) / scale(width, 1.0, epsilon, d) for d in deltas.tolist()]
        ratios += curve
        ax.semilogx(deltas, curve, label=f"width {width:g}, epsilon {epsilon:g}", **look)
        progress(f"exact scales for width {width:g}, epsilon {epsilon:g}")
    style.ticks(ax.xaxis, 10.0)
    style.legend(ax)
    save(ax, HERE / "delta.png")
    finding = f"enough everywhere; {min(ratios):.3f} to {max(ratios):.3f} times the scale that is needed"
    return [*rows, claims.row("grid", finding, Verdict.LOOSE if min(ratios) >= 1.0 - 1e-9 else Verdict.FALSE)]
