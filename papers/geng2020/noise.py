"""Truncated Laplacian noise against the optimal Gaussian.

Amplitude is the mean absolute noise, power the mean squared noise. The optimal Gaussian is the one with the smallest
scale that is (epsilon, delta)-private. Truncated Laplacian noise is smaller on the whole grid of the paper, and no
longer smaller once delta is large.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

import rangebound as rb
from papers.geng2020._additive_noise import additive_noise_limits
from papers.report import Claims, Progress, Row, save
from rangebound import plot
from rangebound.plot import style

HERE = Path(__file__).parent
FIGURES = {
    "figure1.png": "Fig. 1: the density of the noise; the last interval of length 1 holds delta",
    "figure2.png": "Fig. 2: amplitude of the truncated Laplacian over that of the optimal Gaussian",
    "figure3.png": "Fig. 3: power of the truncated Laplacian over that of the optimal Gaussian",
    "tightness.png": "Theorems 6 and 7: the lower bounds over what the truncated Laplacian achieves",
    "limits.png": "Where the claim stops: the worst ratio over epsilon, against delta",
}
LINE = rb.Query(range=rb.Interval(-math.inf, math.inf), sensitivity=1.0)


def noise(family: type, epsilon: float, delta: float) -> rb.Mechanism:
    """Unbounded noise of a family, calibrated."""
    return rb.calibrate(noise=family, query=LINE, bounding=rb.UNBOUNDED, epsilon=epsilon, delta=delta)


def ratios(epsilon: float, delta: float) -> tuple[float, float]:
    """Amplitude and power of the published truncated Laplacian over those of the optimal Gaussian."""
    limits, gaussian = (
        additive_noise_limits(epsilon=epsilon, delta=delta),
        noise(rb.Gaussian, epsilon, delta).error(0.0),
    )
    return limits.amplitude / gaussian.mae, limits.power / gaussian.mse


def run(progress: Progress) -> list[Row]:
    claims = Claims.of(__file__)
    rows = figure_1(claims)
    progress("figure 1")
    rows += figures_2_and_3(claims)
    progress("figures 2 and 3")
    rows += beyond(claims)
    progress("large delta")
    return [*rows, *tightness(claims)]


def figure_1(claims: Claims) -> list[Row]:
    epsilon, delta = 0.5, 0.05
    limit = math.log1p(math.expm1(epsilon) / (2.0 * delta)) / epsilon
    published = rb.Mechanism(
        noise=rb.TruncatedLaplacian(scale=1.0 / epsilon, limit=limit), query=LINE, bounding=rb.UNBOUNDED
    )
    law = published.law(0.0)
    ax = plot.law(law, labels=["truncated Laplacian"])
    x = np.linspace(limit - 1.0, limit, 50)
    ax.fill_between(
        x, law.pdf(x), color=style.COLOURS[1], alpha=0.4, hatch="\\\\\\\\", label="[A - 1, A]: delta = 0.05"
    )
    ax.set_title("epsilon 0.5, delta 0.05, sensitivity 1", fontsize=11)
    style.legend(ax)
    save(ax, HERE / "figure1.png")
    mass = float(law.mass(limit - 1.0, limit))
    needed = published.delta(epsilon)
    ours = noise(rb.TruncatedLaplacian, epsilon, delta).noise.scale * epsilon
    private = f"delta({epsilon:g}) = {needed:.9g}, and the smallest private scale is {ours:.9g} of the published one"
    return [
        claims.holds("mass", f"mass {mass:.9g} for delta 0.05", abs(mass / delta - 1.0) < 1e-9),
        claims.holds("private", private, needed <= delta * (1.0 + 1e-9)),
    ]


def figures_2_and_3(claims: Claims) -> list[Row]:
    epsilons, deltas = np.geomspace(1e-4, 10.0, 26), np.geomspace(1e-6, 0.1, 6)
    table = np.asarray([[ratios(e, d) for e in epsilons.tolist()] for d in deltas.tolist()])
    rows = []
    for k, (key, name) in enumerate((("amplitude", "figure2.png"), ("power", "figure3.png"))):
        ax = style.axes(None, title=f"Noise {key}", x="epsilon", y="truncated Laplacian / optimal Gaussian")
        for values, delta, look in zip(table[..., k], deltas, style.lines(), strict=False):
            ax.semilogx(epsilons, values, label=f"delta {delta:.0e}", **look)
        style.ticks(ax.xaxis, 10.0)
        ax.set_ylim(0.0, 1.3)
        ax.axhline(1.0, color=style.GREY, linewidth=1.0, linestyle=":")
        style.legend(ax, columns=3)
        save(ax, HERE / name)
        low, high = table[..., k].min(), table[..., k].max()
        rows.append(claims.holds(key, f"ratio {low:.4f} to {high:.4f}", bool(high < 1.0)))
    return rows


def beyond(claims: Claims) -> list[Row]:
    deltas, epsilons = np.linspace(0.1, 0.49, 27), np.geomspace(0.05, 10.0, 25)
    worst = np.asarray([np.max([ratios(e, d) for e in epsilons.tolist()], axis=0) for d in deltas.tolist()])
    ax = style.axes(
        None, title="The largest ratio over all epsilon", x="delta", y="truncated Laplacian / optimal Gaussian"
    )
    for values, name, look in zip(worst.T, ("amplitude", "power"), style.lines(), strict=False):
        ax.plot(deltas, values, label=name, **look)
    ax.axhline(1.0, color=style.GREY, linewidth=1.0, linestyle=":")
    style.legend(ax)
    save(ax, HERE / "limits.png")
    crossing = [stops(k) for k in (0, 1)]
    at = ratios(2.0, 0.45)
    finding = (
        f"true up to delta {crossing[0]:.3f} (amplitude) and {crossing[1]:.3f} (power); "
        f"at (2, 0.45) the ratios are {at[0]:.4f} and {at[1]:.4f}"
    )
    return [claims.holds("regimes", finding, bool(worst.max() < 1.0))]


def stops(k: int) -> float:
    """The delta from which on some epsilon has a ratio above 1, by bisection."""
    epsilons, low, high = np.linspace(1.0, 2.5, 16).tolist(), 0.38, 0.42
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if max(ratios(e, middle)[k] for e in epsilons) > 1.0 else (middle, high)
    return high


def whole(epsilon: float, n: int) -> float:
    """The delta for which the number of steps of the lower bounds is n; it tends to 1/(2n) with epsilon."""
    a = -math.expm1(-epsilon) / (2.0 * -math.expm1(-n * epsilon))
    return (a * math.exp(epsilon) - 0.5 * math.expm1(epsilon)) * (1.0 - 1e-9)


def tightness(claims: Claims) -> list[Row]:
    def gaps(epsilon: float, delta: float) -> tuple[float, float]:
        found = additive_noise_limits(epsilon=epsilon, delta=delta)
        return found.amplitude_at_least / found.amplitude, found.power_at_least / found.power

    # Each road goes over places where the number of steps is whole, as the paper assumes; between them the bounds sag.
    small = np.geomspace(1e-4, 0.3, 40).tolist()
    steps = [whole(1.0, n) for n in range(2, 11)]
    equal = [
        brentq(lambda x, n=n: whole(x, n) - x, 1e-5, 0.5) * (1.0 - 1e-9) for n in (2, 3, 5, 10, 30, 100, 300, 1000)
    ]
    roads = (
        ("epsilon to 0, n = 10", small, [gaps(x, whole(x, 10)) for x in small]),
        ("delta to 0, epsilon 1", steps, [gaps(1.0, x) for x in steps]),
        ("epsilon = delta to 0", equal, [gaps(x, x) for x in equal]),
    )
    ax = style.axes(None, title="How tight the bounds are", x="what tends to 0", y="lower bound / achieved")
    looks = style.lines()
    for name, places, values in roads:
        for k, kind in enumerate(("amplitude", "power")):
            ax.semilogx(places, np.asarray(values)[:, k], label=f"{kind}, {name}", **next(looks))
    style.ticks(ax.xaxis, 10.0)
    ax.set_ylim(0.0, 1.05)
    style.legend(ax, columns=2)
    save(ax, HERE / "tightness.png")
    rows = []
    limits = (("epsilon", (1e-6, whole(1e-6, 10))), ("delta", (1.0, 1e-12)), ("both", (1e-6, 1e-6)))
    for k, theorem in enumerate(("t6", "t7")):
        for name, place in limits:
            rows.append(claims.number(f"{theorem}_{name}", gaps(*place)[k]))
    return rows
