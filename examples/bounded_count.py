"""A count that cannot leave its range: calibrate it, prove it, compare it, look at it.

Writes a picture and a certificate into the folder given (by default `out`): python examples/bounded_count.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from rich.console import Console
from rich.table import Table

import rangebound as rb

EPSILON, DELTA = 0.5, 1e-6
TRUE_COUNT = 3.0
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#7F7F7F"


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    console = Console(width=100)
    count = rb.Query(range=rb.Interval(0, 60), sensitivity=1.0)
    mechanism = rb.calibrate(noise=rb.Laplace, query=count, epsilon=EPSILON)
    plain = rb.calibrate(noise=rb.Laplace, query=count, bounding=rb.UNBOUNDED, epsilon=EPSILON)

    console.rule("A count of patients, between 0 and 60, at epsilon = 0.5")
    below = float(plain.law(TRUE_COUNT).cdf(0.0))
    console.print(
        f"The true count is {TRUE_COUNT:g}. Ordinary Laplace noise would publish a negative number with probability "
        f"{below:.0%}.\nTruncated to [0, 60] and calibrated for it, it never does: scale {mechanism.noise.scale:.3f}.\n"
    )

    certificate = rb.certify(mechanism, epsilon=EPSILON)
    path = folder / "certificate.json"
    path.write_text(certificate.to_json())
    console.print(str(certificate), highlight=False)
    console.print(f"Checked again from {path}: epsilon = {rb.verify(path.read_text()).epsilon:g}.\n", highlight=False)

    table = Table("promise", "value", title="Privacy loss over all pairs of neighbouring datasets")
    table.add_row("epsilon", f"{mechanism.epsilon():.6f}")
    table.add_row(f"epsilon at delta = {DELTA:g}", f"{mechanism.epsilon(DELTA):.6f}")
    table.add_row("delta at epsilon = 0.25", f"{mechanism.delta(0.25):.3e}")
    table.add_row("Renyi divergence, order 8", f"{mechanism.rdp(8.0):.6f}")
    console.print(table)

    console.print("\nEvery mechanism that can answer in range, ranked by mean absolute error at the true count:\n")
    console.print(str(rb.choose(query=count, epsilon=EPSILON, delta=DELTA, at=TRUE_COUNT)), highlight=False)

    picture = folder / "bounded_count.png"
    draw(mechanism, plain, picture)
    console.print(f"\nPicture: {picture}")


def draw(mechanism: rb.Mechanism, plain: rb.Mechanism, path: Path) -> None:
    """The density of the published count, bounded and not."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    x = np.linspace(-12.0, 24.0, 1441)
    figure, axes = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
    loose = plain.law(TRUE_COUNT).pdf(x)
    axes.fill_between(x, loose, where=x < 0.0, color=ORANGE, alpha=0.25, linewidth=0.0, label="impossible counts")
    axes.plot(x, loose, color=ORANGE, linestyle="--", label=f"Laplace, scale {plain.noise.scale:.3g}")
    tight = np.where(x < 0.0, np.nan, mechanism.law(TRUE_COUNT).pdf(x))
    axes.plot(x, tight, color=BLUE, label=f"truncated Laplace, scale {mechanism.noise.scale:.3g}")
    axes.axvline(TRUE_COUNT, color=GREY, linewidth=0.8, linestyle=":")
    axes.annotate("true count", (TRUE_COUNT, 0.0), xytext=(4, 4), textcoords="offset points", color=GREY, fontsize=9)
    axes.set(xlabel="published count", ylabel="density", ylim=(0.0, None), xlim=(-12.0, 24.0))
    axes.set_title("Both are 0.5-differentially private; one stays in range", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("out"))
